"""What a test measured against what its claim predicts: asserted, and kept for the report."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from torch import Tensor

from spec import compare, hints
from spec.implementation import ImplementationError

Json = dict[str, Any]
Hint = Callable[[], str]  # names a mistake, or nothing
AMBIGUOUS = "ambiguous: "  # how the reason of an undecided test begins
SHOWN = 120  # characters of one input or value in a message
CUT = "…"  # how a text ends that was longer
OWN = ("deviation", "suspects")  # what a record does not hand on
POINTS = 200  # of one series


class EvidenceError(AssertionError):
    """A measurement that its claim does not allow."""


@dataclass
class Record:
    """One measured quantity of one test: how often it was checked, its worst case and its extremes.

    `what` names the quantity ("the peak"), `unit` is its unit ("bytes"); either may be empty. The values are in the
    plain form that the report shows: a test may change a tensor after it was checked.
    """

    relation: str
    what: str
    unit: str
    measured: object = None
    predicted: object = None
    tolerance: object = None
    inputs: dict[str, str] = field(default_factory=dict)
    checks: int = 0
    extremes: list[Any] = field(default_factory=list)
    holds: bool = True
    cold: bool = False
    deviation: float = -math.inf
    suspects: set[str] | None = None  # the mistakes that would explain every failure so far

    def json(self) -> Json:
        """Return what the report keeps, in plain JSON values."""
        kept = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in OWN}
        kept["extremes"] = [plain(value) for value in self.extremes]
        return kept


class Evidence:
    """Asserts and records what the running test measures.

    One object serves the whole run: it outlives a test's examples, and `running` says which test it is.
    """

    def __init__(self) -> None:
        self.claim = ""
        self.rerun = ""
        self.records: dict[tuple[str, str, str], Record] = {}
        self.example: Mapping[str, object] = {}
        self.curves: dict[str, Json] = {}

    @contextmanager
    def running(self, claim: str, rerun: str, inputs: Mapping[str, object]) -> Iterator[None]:
        """Collect records for one test of `claim`; `rerun` is the command that runs it alone."""
        self.claim, self.rerun, self.records, self.example, self.curves = claim, rerun, {}, inputs, {}
        yield

    def equal(self, measured: object, predicted: object, *, what: str = "", unit: str = "", **inputs: object) -> None:
        """Require the very same value; tensors also agree in shape and dtype, and NaN equals NaN."""
        found = compare.difference(measured, predicted)
        if found is None:
            self._judge("exact", what, unit, measured, predicted, None, 0.0, inputs)
        else:
            measured, predicted, element = found
            self._judge("exact", what, unit, measured, predicted, None, math.inf, inputs | element)

    def true(self, condition: object, statement: str, **inputs: object) -> None:
        """Require a fact. The statement is a sentence without a full stop: "the gradients are the same objects"."""
        holds = bool(condition)
        self._judge("true", statement, "", holds, True, None, 0.0 if holds else math.inf, inputs)

    def close(
        self,
        measured: Any,
        predicted: Any,
        *,
        tolerance: Any,
        what: str = "",
        unit: str = "",
        likely: Hint | None = None,
        **inputs: object,
    ) -> None:
        """Require |measured − predicted| ≤ tolerance, elementwise for tensors (of any dtype, one shape).

        Where that fails, `likely` may name the mistake by computing what it would give.
        """
        deviation, measured, predicted, tolerance, element = compare.worst(measured, predicted, tolerance)
        self._judge("within", what, unit, measured, predicted, tolerance, deviation, inputs | element, likely=likely)

    def at_most(
        self,
        measured: float,
        limit: float,
        *,
        what: str = "",
        unit: str = "",
        cold: bool = False,
        likely: Hint | None = None,
        **inputs: object,
    ) -> None:
        """Require measured ≤ limit; where that fails, `likely` may name the mistake.

        `cold` says that the figure is that of a single untimed pass through a benchmark, and tells little.
        """
        excess = compare.excess(measured, limit)
        self._judge("at most", what, unit, measured, limit, None, excess, inputs, cold=cold, likely=likely)

    def at_least(self, measured: float, limit: float, *, what: str = "", unit: str = "", **inputs: object) -> None:
        """Require measured ≥ limit."""
        self._judge("at least", what, unit, measured, limit, None, compare.shortfall(measured, limit), inputs)

    def differs(self, measured: object, literal: object, *, what: str = "", unit: str = "", **inputs: object) -> None:
        """Require another value than `literal`, which the notes' wording predicts for this input."""
        found = compare.difference(measured, literal)
        if found is None:
            self._judge("not", what, unit, measured, literal, None, math.inf, inputs)
        else:
            measured, literal, element = found
            self._judge("not", what, unit, measured, literal, None, 0.0, inputs | element)

    def raises(
        self,
        error: type[Exception] | tuple[type[Exception], ...],
        call: Callable[[], object],
        *,
        what: str = "",
        **inputs: object,
    ) -> None:
        """Require that `call()` raises `error`."""
        predicted = " or ".join(kind.__name__ for kind in (error if isinstance(error, tuple) else (error,)))
        try:
            returned, measured, why = call(), "no error", ""
        except (NotImplementedError, ImplementationError):
            raise
        except Exception as raised:
            measured, why = type(raised).__name__, f": {said}" if (said := " ".join(str(raised).split())) else ""
            if isinstance(raised, error):
                return self._judge("raises", what, "", predicted, predicted, None, 0.0, inputs)
        name = called(call)
        if measured != "no error":
            told = f"{name} raises {measured}{why[:SHOWN]} for"
        elif isinstance(returned, int | float | str | tuple | list):
            told = f"{name} returned {show(returned)} for"
        else:
            told = f"{name} accepts"
        ending = f"; it has to raise {predicted}"
        self._judge(
            "raises", what, "", measured, predicted, None, math.inf, inputs, lambda given: f"{told} {given}{ending}"
        )

    def series(self, name: str, xs: Sequence[float], ys: Sequence[float], *, unit: str = "", along: str = "") -> None:
        """Keep a curve for the report: `ys` in `unit` over `xs` in `along`. A test's later one replaces it by name."""
        if not len(xs) == len(ys) <= POINTS:
            raise ValueError(f"a series has as many xs as ys and at most {POINTS}, not {len(xs)} and {len(ys)}")
        points = [[plain(compare.python(value)) for value in values] for values in (xs, ys)]
        self.curves[name] = {"name": name, "unit": unit, "along": along, "xs": points[0], "ys": points[1]}

    def ambiguous(self, reason: str) -> NoReturn:
        """End the test undecided: it counts neither for nor against its claim."""
        pytest.skip(f"{AMBIGUOUS}{reason}")

    def fail(self, message: str) -> NoReturn:
        """Fail the running test with one line in the message grammar."""
        raise EvidenceError(f"[{self.claim}] {message}\n  rerun: {self.rerun}")

    def json(self) -> list[Json]:
        """Return the running test's records as plain JSON values."""
        return [record.json() for record in self.records.values()]

    def _judge(
        self,
        relation: str,
        what: str,
        unit: str,
        measured: object,
        predicted: object,
        tolerance: object,
        deviation: float,
        extra: Mapping[str, object],
        phrase: Callable[[str], str] | None = None,
        likely: Hint | None = None,
        cold: bool = False,
    ) -> None:
        """Record a check, and fail where it does not hold: by its sentence or, where there is one, by a phrase."""
        holds = deviation <= 1 if relation == "within" else deviation <= 0
        record = self.records.get((relation, what, unit))
        if record is None:
            record = self.records[relation, what, unit] = Record(relation, what, unit, cold=cold)
        record.checks += 1
        value = compare.python(measured)
        if isinstance(value, Real) and not isinstance(value, bool) and value == value:
            low, high = record.extremes or (value, value)
            record.extremes = [min(low, value), max(high, value)]
        if not holds or deviation > record.deviation:
            record.measured, record.predicted, record.tolerance = map(recorded, (measured, predicted, tolerance))
            record.deviation, record.holds = deviation, holds
            record.inputs = {name: show_input(value) for name, value in {**self.example, **extra}.items()}
        if not holds:
            if phrase:
                self.fail(phrase(given(record.inputs) or "these arguments"))
            hint = likely() if likely else ""
            if not hint and relation in ("exact", "within"):
                hint = self._hint(record, (measured, predicted, tolerance), {**self.example, **extra})
            self.fail(sentence(record.json()) + (f"; {hint}?" if hint else ""))

    def _hint(self, record: Record, values: tuple[object, object, object], inputs: Mapping[str, object]) -> str:
        """Name the one mistake that explains this failure of a record, and those that a test met before it."""
        measured, predicted, tolerance = map(compare.python, values)
        found = hints.suspects(measured, predicted, tolerance, f"{record.what} {record.unit}", inputs, record.suspects)
        record.suspects = found if record.suspects is None else record.suspects & found
        return next(iter(record.suspects)) if len(record.suspects) == 1 else ""


def sentence(record: Json) -> str:
    """Say in one line what a record (as JSON) measured: the message grammar of failures and reports."""
    inputs = given(record["inputs"])
    ending = f" for {inputs}" if inputs else ""
    if record["relation"] == "true":
        return f"it is {'true' if record['measured'] else 'not true'} that {record['what']}{ending}"
    what = f"{record['what']}: " if record["what"] else ""
    unit = f" {record['unit']}" if record["unit"] else ""
    tolerance = "" if record["tolerance"] is None else f" {show(record['tolerance'])}"
    measured, predicted = show(record["measured"]), show(record["predicted"])
    if measured == predicted and record["measured"] != record["predicted"]:  # they differ in a late digit, or in type
        measured, predicted = repr(record["measured"]), repr(record["predicted"])
    bound = {
        "exact": "{} (exact)",
        "within": "{} (within" + tolerance + ")",
        "at most": "at most {}",
        "at least": "at least {}",
        "not": "anything but {}",
        "raises": "{}",
    }[record["relation"]].replace("{}", f"{predicted}{unit}")
    return f"{what}measured {measured}{unit}, predicted {bound}{ending}"


def given(inputs: Mapping[str, str]) -> str:
    """Write inputs as a message does."""
    return ", ".join(f"{name}={value}" for name, value in inputs.items())


def called(call: Callable[[], object]) -> str:
    """Return the public name of what a call without arguments calls, where it has one."""
    function = getattr(call, "func", call)  # within a partial
    if not hasattr(function, "__qualname__"):
        function = type(function)  # a module of torch's, say
    code = getattr(function, "__code__", None)
    if code and function.__name__ == "<lambda>" and "impl" in code.co_freevars:
        return ".".join(code.co_names[:2])  # lambda: impl.throughput.mfu(…)
    module = getattr(function, "__module__", "") or ""
    if module.startswith(("tests.", __name__)) or function.__name__ == "<lambda>":
        return "the call"  # of a helper of the test's
    return f"{module}.{function.__qualname__}".lstrip("._")


def show(value: object) -> str:
    """Write a value for a message: short, on one line."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) and value.isprintable() and value:
        text = value
    elif isinstance(value, float):
        text = f"{value:.10g}"
    elif isinstance(value, Tensor):
        text = _show_tensor(value)
    elif isinstance(value, torch.dtype):
        text = str(value).removeprefix("torch.")
    else:
        try:
            text = " ".join(repr(value).split())
        except Exception:  # an object of the implementation's, or an integer of thousands of digits
            text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + CUT


def show_input(value: object) -> str:
    """Write an input for a message, so that its type can be told: 3 from np.int32(3), 2.0 from 2, and '2' from 2."""
    text = show(value)
    if isinstance(value, np.generic):
        return f"np.{type(value).__name__}({text})"
    if isinstance(value, float) and text.lstrip("-").isdigit():
        return f"{text}.0"
    if isinstance(value, str) and re.fullmatch(r"[\d.+-]+(e[+-]?\d+)?|None|True|False", value):
        return repr(value)
    return text


def _show_tensor(value: Tensor) -> str:
    """Write a tensor's kind and, where they are few, its values; evidence takes −0.0 for 0.0, and so shows it."""
    try:
        text = compare.kind(value)
        if 0 < value.numel() <= 12 and value.device.type != "meta":
            values = value.detach().double() + 0.0 if value.is_floating_point() else value
            text = f"{values.tolist()} ({text})"
    except Exception:  # a subclass of the implementation's, say
        text = f"<{type(value).__name__}>"
    return text


def recorded(value: object) -> object:
    """Return what a record keeps of a value: no reference to it, but what JSON shows of it now."""
    return plain(compare.python(value))


def plain(value: object) -> object:
    """Return a value that JSON can carry: finite numbers, booleans and strings as they are, others as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | str | None):
        return value
    if isinstance(value, int) and value.bit_length() < 1024:  # beyond that, many a reader has no number for it
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return show(value)
