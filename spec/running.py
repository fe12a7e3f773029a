"""One test of a claim, run and judged: what it was given, what it left behind, and what is told when it fails."""

import copy
import functools
import inspect
import json
import linecache
import os
import re
import shlex
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import pytest
from hypothesis.errors import Flaky

from spec import contract, guard
from spec.claim import Claim
from spec.evidence import Evidence, EvidenceError, show
from spec.implementation import ImplementationError
from spec.instruments.processes import ProcessError

LONGEST = 400  # characters of another's error in a message
FIXTURES = {
    "impl",
    "evidence",
    "fresh",
    "folder",
    "pytestconfig",
    "benchmark",
    "timed",
    "meter",
    "device",
    "accelerator",
}


def device_of(item: pytest.Item) -> str:
    """Return the device a test runs on: the one in its id, or else the CPU."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    for name in ("device", "accelerator"):
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
    inputs = {name: value for name, value in arguments.items() if name not in FIXTURES}
    device = arguments.get("device") or arguments.get("accelerator")
    return inputs | ({"device": str(device)} if device is not None and str(device) != "cpu" else {})


def _own_params(item: pytest.Item) -> dict[str, object]:
    """Return the parameters that a test names as its arguments; other plugins add some, pytest-repeat's step, say."""
    function = getattr(item, "function", None)
    own = inspect.signature(function).parameters if function else ()
    params = getattr(getattr(item, "callspec", None), "params", {})
    return {name: value for name, value in params.items() if name in own}


def rerun(item: pytest.Item) -> str:
    """Return the command that runs just this test in the same way, from the folder in which pytest was started."""
    option = item.config.option
    words = ["pytest", shlex.quote(_from_here(item))]
    if option.spec_impl != contract.REFERENCE:
        words.append(f"--spec-impl={option.spec_impl}")
    for name, value in (("profile", option.hypothesis_profile), ("seed", option.hypothesis_seed)):
        if value is not None:
            words.append(f"--hypothesis-{name}={value}")
    if option.spec_device:
        words.append(f"--spec-device={option.spec_device}")
    words += [f"--spec-promised={shlex.quote(given)}" for given in option.spec_promised]
    return " ".join(words)


def _from_here(item: pytest.Item) -> str:
    """Return the test's id with its path as seen from the folder in which pytest was started."""
    here = item.config.invocation_params.dir
    path, *names = item.nodeid.split("::")
    return "::".join([os.path.relpath(item.config.rootpath / path, here), *names])


@contextmanager
def judged(item: pytest.Item, claim: str, role: str, evidence: Evidence) -> Iterator[None]:
    """Run the body, a test of `claim`: it ends as evidence, as a skip, or as one line that says what happened."""
    package = item.config.option.spec_impl
    inputs = inputs_of(_own_params(item))
    error: BaseException | None = None
    with evidence.running(claim, rerun(item), inputs):
        try:
            with guard.watched() as left:
                try:
                    yield
                except (KeyboardInterrupt, pytest.exit.Exception, pytest.skip.Exception):
                    left.clear()
                    raise
                except BaseException as raised:
                    error = raised
            if left:
                first = f"\n{error}" if isinstance(error, EvidenceError) else ""
                raise EvidenceError(
                    f"[{claim}] {package} {'; '.join(left)}{first}\n  rerun: {evidence.rerun}"
                ) from None
            if error is not None:
                if "impl" in getattr(item, "fixturenames", ()) and _unusable(error, package):
                    where = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(item.path)]
                    told = f"what {package} returned cannot be judged: {type(error).__name__}: {_one_line(error)}"
                    _fail(evidence, f"{told}{_inputs(evidence)}", where)
                _settle(error, package, evidence)
            if not evidence.records:
                evidence.fail("measured nothing: a test of a claim ends in evidence.equal, close, at_most, …")
        finally:
            item.user_properties.append(("evidence", json.dumps([{"role": role} | each for each in evidence.json()])))
            if evidence.curves:
                item.user_properties.append(("series", json.dumps(list(evidence.curves.values()))))


def _settle(error: BaseException, package: str, evidence: Evidence, once: str = "") -> NoReturn:
    """Raise what a test's exception means; `once` ends its line where it did not happen again for the same inputs."""
    if isinstance(error, Flaky) and (failures := getattr(error, "exceptions", ())):
        _settle(failures[0], package, evidence, "; the same inputs gave another result when tried again")
    if isinstance(error, EvidenceError):
        head, *rest = str(error).split("\n")
        raise EvidenceError("\n".join([head + once, *rest]))
    if isinstance(error, ProcessError) and error.kind == "NotImplementedError":
        pytest.skip(f"not implemented: {error}")
    if isinstance(error, ProcessError) and error.trace:
        raise EvidenceError(f"[{evidence.claim}] {error}\n  rerun: {evidence.rerun}\n\n{error.trace}") from None
    if isinstance(error, ImplementationError | ProcessError):
        evidence.fail(str(error))
    frames = _frames_in(package, error)
    if not frames:
        raise error
    names, summaries = zip(*frames, strict=True)
    if type(error) is NotImplementedError and "raise NotImplementedError" in summaries[-1].line:
        pytest.skip(f"not implemented: {str(error) or names[-1]}")
    if isinstance(error, SystemExit):
        evidence.fail(f"{names[0]} calls sys.exit({error.code!r}){once}")
    told = f"{names[0]} raises {type(error).__name__}: {_one_line(error)}{_inputs(evidence)}{once}"
    _fail(evidence, told, summaries)


def _fail(evidence: Evidence, message: str, frames: Sequence[traceback.FrameSummary]) -> NoReturn:
    """Fail with one line, below which stands where it happened."""
    where = "".join(traceback.format_list(list(frames))).rstrip()
    raise EvidenceError(f"[{evidence.claim}] {message}\n  rerun: {evidence.rerun}\n\n{where}") from None


def _inputs(evidence: Evidence) -> str:
    inputs = ", ".join(f"{name}={show(value)}" for name, value in evidence.example.items())
    return f" for {inputs}" if inputs else ""


def _unusable(error: BaseException, package: str) -> bool:
    """Return whether a test stumbled over what the implementation returned: None for a tensor, say."""
    return type(error) in (AttributeError, TypeError, IndexError) and not _frames_in(package, error)


def _frames_in(package: str, error: BaseException) -> list[tuple[str, traceback.FrameSummary]]:
    """Return the frames of a traceback that lie in the implementation, outermost first, each under its full name."""
    found = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module == package or module.startswith(f"{package}."):
            code = frame.f_code
            name = f"{module}.{code.co_qualname}".replace("<locals>.", "")
            source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
            summary = traceback.FrameSummary(code.co_filename, line, code.co_name, lookup_line=False, line=source)
            found.append((name, summary))
    return found


def _one_line(error: BaseException) -> str:
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split())  # torch writes some of its errors in colour
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


class Crash(NamedTuple):
    """Where and why, for pytest's short summary."""

    path: str
    lineno: int
    message: str


class Told:
    """A failure as a student reads it: the message, what the notes say, and the law; no traceback of the kit."""

    def __init__(self, text: str, crash: Crash) -> None:
        self.text = text
        self.reprcrash = crash

    def __str__(self) -> str:
        return self.text

    def toterminal(self, out: Any) -> None:
        head, *rest = self.text.split("\n")
        out.line(head, red=True, bold=True)
        for line in rest:
            out.line(line)


def explain(
    report: pytest.TestReport, raised: pytest.ExceptionInfo[BaseException], item: pytest.Item, claim: Claim
) -> None:
    """Replace a failure's traceback by its message where the message says it all; else add the command to rerun it."""
    if not isinstance(raised.value, EvidenceError):
        report.sections.append(("rerun", rerun(item)))
        return
    head, *rest = str(raised.value).split("\n")
    lines = [head, f"  notes: {claim.says} (§{claim.section})", f"  law:   {claim.law}"]
    if doc := inspect.getdoc(getattr(item, "function", None)):
        lines.append(f"  test:  {doc.splitlines()[0]}")
    path, line, _ = item.location
    report.longrepr = Told("\n".join(lines + rest), Crash(path, line or 0, head))  # type: ignore[assignment]


def told_once(failed: Sequence[pytest.TestReport]) -> list[pytest.TestReport]:
    """Return failures of which those of one message, a function that is missing, say, stand together as the first."""
    alike: dict[str, list[pytest.TestReport]] = {}
    for report in failed:
        head = str(report.longrepr).split("\n", 1)[0]
        told = head.partition("] ")[2] if "claims" in dict(report.user_properties) and head.startswith("[") else ""
        alike.setdefault(told or report.nodeid, []).append(report)
    return [_with_the_rest(first, rest) if rest else first for first, *rest in alike.values()]


def _with_the_rest(first: pytest.TestReport, rest: Sequence[pytest.TestReport]) -> pytest.TestReport:
    claims = dict.fromkeys(claim for report in rest for claim in str(dict(report.user_properties)["claims"]).split())
    head, *lines = str(first.longrepr).split("\n")
    path, line, _ = first.location
    told = copy.copy(first)
    also = f"  also:  {len(rest)} more tests, of {', '.join(claims)}"
    told.longrepr = Told("\n".join([head, also, *lines]), Crash(path, line or 0, head))  # type: ignore[assignment]
    return told
