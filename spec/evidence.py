"""What a test measured against what its claim predicts: asserted, and kept for the report."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, NoReturn

import pytest

from spec import compare
from spec.implementation import checkers
from spec.implementation.loading import ImplementationError
from spec.messages import hints
from spec.messages.sentences import LONGEST, Json, called, given, plain, recorded, sentence, show, show_input

Hint = Callable[[], str]  # names a mistake, or nothing
OWN = ("deviation", "suspects")  # A record keeps these to itself.
POINTS = 200  # One series has at most so many.


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
        self.undecided = ""

    @contextmanager
    def running(self, claim: str, rerun: str, inputs: Mapping[str, object]) -> Iterator[None]:
        """Collect records for one test of `claim`; `rerun` is the command that runs it alone."""
        self.claim, self.rerun, self.records, self.example, self.curves = claim, rerun, {}, inputs, {}
        self.undecided = ""
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
        """Require that `call()` raises `error`; a runtime type checker raises its own for TypeError or ValueError."""
        kinds = error if isinstance(error, tuple) else (error,)
        predicted = " or ".join(kind.__name__ for kind in kinds)
        try:
            returned, measured, why = call(), "no error", ""
        except (NotImplementedError, ImplementationError):
            raise
        except Exception as raised:
            measured, why = type(raised).__name__, f": {said}" if (said := " ".join(str(raised).split())) else ""
            refused = checkers.refuses(raised) and not {TypeError, ValueError}.isdisjoint(kinds)
            if refused or isinstance(raised, kinds):
                return self._judge("raises", what, "", predicted, predicted, None, 0.0, inputs)
        name = called(call)
        if measured != "no error":
            told = f"{name} raises {measured}{why[:LONGEST]} for"
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
        self.undecided = reason
        pytest.skip(f"ambiguous: {reason}")

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
