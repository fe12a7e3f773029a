"""One test of a claim, run and judged: its inputs, what it left changed, and what its exception means."""

import functools
import inspect
import json
import linecache
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from hypothesis.errors import Flaky, HypothesisException

from spec.claim import ARGUMENTS, PREFIX, plain
from spec.evidence import Evidence, EvidenceError
from spec.implementation import contract, guard
from spec.implementation.loading import Implementation, ImplementationError
from spec.instruments.processes import ProcessError
from spec.messages.sentences import CUT, show_input
from spec.report import properties
from spec.run.collection import arguments_of
from spec.run.telling import rerun

Frames = list[tuple[str, traceback.FrameSummary]]
LONGEST = 400  # A message shows at most so many characters of another exception.
SIMPLE = 40  # A variable is shown beside an error if its value takes at most so many characters.
FIXTURES = ARGUMENTS | {"folder", "pytestconfig", "benchmark"}


def device_of(item: pytest.Item) -> str:
    """Return the device a test runs on: the one in its id, or else the CPU."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    for name in (PREFIX + "device", PREFIX + "accelerator"):
        if name in params:
            return "accelerator" if params[name] is None else str(params[name])
    return "cpu"


def show_examples_to(evidence: Evidence, item: pytest.Item) -> None:
    """Let the evidence know each example that hypothesis draws for a test, under its argument names."""
    handle = getattr(getattr(item, "obj", None), "hypothesis", None)
    if handle is None:
        return
    inner: Callable[..., object] = getattr(handle.inner_test, "shows", handle.inner_test)

    @functools.wraps(inner)
    def shown(*args: object, **kwargs: object) -> object:
        evidence.example = inputs_of(kwargs)
        return inner(*args, **kwargs)

    shown.shows = inner  # type: ignore[attr-defined]  # a second run in this process has an evidence of its own
    handle.inner_test = shown


def inputs_of(arguments: Mapping[str, Any]) -> dict[str, object]:
    """Return a test's own inputs among its arguments; a device is worth a mention unless it is the CPU."""
    arguments = {plain(name): value for name, value in arguments.items()}
    inputs = {name: value for name, value in arguments.items() if name not in FIXTURES}
    device = arguments.get("device") or arguments.get("accelerator")
    return inputs | ({"device": str(device)} if device is not None and str(device) != "cpu" else {})


def _own_params(item: pytest.Item) -> dict[str, object]:
    """Return the parameters that a test names as its arguments; other plugins add some, pytest-repeat's step, say."""
    function = getattr(item, "function", None)
    own = inspect.signature(function).parameters if function else ()
    params = getattr(getattr(item, "callspec", None), "params", {})
    return {name: value for name, value in params.items() if name in own}


@contextmanager
def judged(item: pytest.Item, claim: str, role: str, evidence: Evidence) -> Iterator[None]:
    """Run the body, a test of `claim`: it ends as evidence, as a skip, or as one line that says what happened."""
    package = item.config.option.spec_impl
    inputs = inputs_of(_own_params(item))
    error: BaseException | None = None
    if implementation := _implementation(item):
        implementation.asked = False
    with evidence.running(claim, rerun(item), inputs):
        try:
            with guard.watched(package) as left:
                try:
                    yield
                except (KeyboardInterrupt, pytest.exit.Exception, pytest.skip.Exception):
                    left.clear()
                    raise
                except BaseException as raised:
                    error = raised
            if left:
                first = f"\n{error}" if isinstance(error, EvidenceError) else ""
                who = package if "impl" in arguments_of(item) else "this test, which does not call any implementation,"
                raise EvidenceError(f"[{claim}] {who} {'; '.join(left)}{first}\n  rerun: {evidence.rerun}") from None
            if error is not None:
                _settle(error, item, evidence)
            if not evidence.records:
                evidence.fail("measured nothing: a test of a claim ends in evidence.equal, close, at_most, …")
        finally:
            records = json.dumps([{"role": role} | each for each in evidence.json()])
            properties.hand_on(item, evidence=records, undecided=evidence.undecided)
            if evidence.curves:
                properties.hand_on(item, series=json.dumps(list(evidence.curves.values())))


def _settle(error: BaseException, item: pytest.Item, evidence: Evidence, once: str = "") -> NoReturn:
    """Raise what a test's exception means; `once` ends its line where it did not happen again for the same inputs."""
    package = item.config.option.spec_impl
    if isinstance(error, EvidenceError):
        head, *rest = str(error).split("\n")
        raise EvidenceError("\n".join([head + once, *rest])) from error.__cause__
    if isinstance(error, ProcessError) and error.kind == "NotImplementedError":
        pytest.skip(f"not implemented: {error}")
    if isinstance(error, ProcessError) and error.trace:
        raise EvidenceError(f"[{evidence.claim}] {error}\n  rerun: {evidence.rerun}\n\n{error.trace}") from None
    if isinstance(error, ImplementationError | ProcessError):
        evidence.fail(str(error))
    if frames := _frames_in(package, error):
        _raised_inside(error, frames, f"{_inputs(evidence, error, item)}{once}", evidence)
    if isinstance(error, BaseExceptionGroup):
        again = "; the same inputs gave another result when tried again" if isinstance(error, Flaky) else once
        first = error.exceptions[0]
        _settle(first if first.__traceback__ else first.with_traceback(error.__traceback__), item, evidence, again)
    if not _comes_of_an_answer(error, item):
        raise error
    where = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(item.path)]
    told = f"what {package} returned cannot be judged: {_name(error)}{_inputs(evidence, error, item)}{once}"
    _fail(evidence, told, where)


def _raised_inside(error: BaseException, frames: Frames, ending: str, evidence: Evidence) -> NoReturn:
    """Fail, or skip, by an exception that was raised in the implementation or in what it called."""
    if isinstance(error, pytest.skip.Exception):
        raise error
    names, summaries = zip(*frames, strict=True)
    if type(error) is NotImplementedError and "raise NotImplementedError" in summaries[-1].line:
        pytest.skip(f"not implemented: {str(error) or names[-1]}")
    if isinstance(error, SystemExit):
        told = f"{names[0]} calls sys.exit({error.code!r})"
    else:
        told = f"{names[0]} raises {_name(error)}"
    _fail(evidence, f"{told}{ending}", summaries)


def _comes_of_an_answer(error: BaseException, item: pytest.Item) -> bool:
    """Return whether a test may have stumbled over what it was answered, None for a tensor, say.

    Any exception may come of it, from torch or NumPy too, and no look at it tells whose fault it is. So everything that
    goes wrong with the reference, or before a test has asked the implementation for anything, is taken for a fault of
    the kit, and keeps its traceback, as what hypothesis complains of does; with another package, what goes wrong in a
    test that passes with the reference is taken for the package's.
    """
    implementation = _implementation(item)
    asked = implementation is not None and implementation.asked
    ours = is_reference(item.config.option.spec_impl) or isinstance(error, HypothesisException)
    return asked and not ours and isinstance(error, Exception)


def _implementation(item: pytest.Item) -> Implementation | None:
    """Return what a test asks the implementation by, if it does."""
    given = getattr(item, "funcargs", {}).get(PREFIX + "impl")
    return given if isinstance(given, Implementation) else None


def is_reference(package: str) -> bool:
    """Return whether a package is the kit's own: the kit's tests say no where they have put a fault into it."""
    return bool(package == contract.REFERENCE)


def _fail(evidence: Evidence, message: str, frames: Sequence[traceback.FrameSummary]) -> NoReturn:
    """Fail with one line, below which stands where it happened."""
    where = "".join(traceback.format_list(list(frames))).rstrip()
    raise EvidenceError(f"[{evidence.claim}] {message}\n  rerun: {evidence.rerun}\n\n{where}") from None


def _inputs(evidence: Evidence, error: BaseException, item: pytest.Item) -> str:
    """Say what a test ran on: the example it was given or else, for one that loops by itself, its simple variables."""
    known = evidence.example or _variables(error, item)
    inputs = ", ".join(f"{name}={show_input(value)}" for name, value in known.items())
    return f" for {inputs}" if inputs else ""


def _variables(error: BaseException, item: pytest.Item) -> dict[str, object]:
    """Return the numbers, words, dtypes and shapes that the test's own variables held when it ended."""
    name = getattr(getattr(item, "function", None), "__name__", "")
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == str(item.path) and frame.f_code.co_name == name:
            held = inputs_of(frame.f_locals)
            return {name: value for name, value in held.items() if _is_simple(value)}
    return {}


def _is_simple(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_simple, value))
    return isinstance(value, bool | int | float | str | np.generic | torch.dtype) and len(show_input(value)) <= SIMPLE


def _frames_in(package: str, error: BaseException) -> Frames:
    """Return the frames of a traceback that lie in the implementation, outermost first, each under its full name.

    Where another exception was raised from the implementation's, they are in the traceback of the cause.
    """
    found: Frames = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module == package or module.startswith(f"{package}."):
            code = frame.f_code
            name = f"{module}.{code.co_qualname}".replace("<locals>.", "")
            source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
            summary = traceback.FrameSummary(code.co_filename, line, code.co_name, lookup_line=False, line=source)
            found.append((name, summary))
    return _frames_in(package, error.__cause__) if not found and error.__cause__ else found


def _name(error: BaseException) -> str:
    """Write an exception on one line: its type, and what it says."""
    try:
        text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())  # torch writes some errors in colour
    except Exception:  # the implementation's own exception, which cannot be shown
        text = ""
    if isinstance(error, BaseExceptionGroup):
        text = f"{text}: {_name(error.exceptions[0])}"
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + CUT
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
