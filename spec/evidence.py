"""What a test measured against what its claim predicts: asserted, and kept for the report."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from numbers import Real
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from torch import Tensor

Json = dict[str, Any]
AMBIGUOUS = "ambiguous: "  # how the reason of an undecided test begins
SHOWN = 120  # characters of one input or value in a message


class EvidenceError(AssertionError):
    """A measurement that its claim does not allow."""


@dataclass
class Record:
    """One measured quantity of one test: how often it was checked, its worst case and its extremes."""

    relation: str
    unit: str
    measured: object = None
    predicted: object = None
    tolerance: object = None
    inputs: dict[str, str] = field(default_factory=dict)
    checks: int = 0
    extremes: list[float] = field(default_factory=list)
    holds: bool = True
    deviation: float = -1.0

    def json(self) -> Json:
        """Return what the report keeps, in plain JSON values."""
        kept = asdict(self) | {"measured": plain(self.measured), "predicted": plain(self.predicted)}
        kept["tolerance"] = plain(self.tolerance)
        kept["extremes"] = [plain(value) for value in self.extremes]
        del kept["deviation"]
        return kept


class Evidence:
    """Asserts and records what the running test measures.

    One object serves the whole run: it outlives a test's examples, and `running` says which test it is.
    """

    def __init__(self) -> None:
        self.claim = ""
        self.rerun = ""
        self.records: dict[tuple[str, str], Record] = {}
        self.example: Mapping[str, object] = {}

    @contextmanager
    def running(self, claim: str, rerun: str, inputs: Mapping[str, object]) -> Iterator[None]:
        """Collect records for one test of `claim`; `rerun` is the command that runs it alone."""
        self.claim, self.rerun, self.records, self.example = claim, rerun, {}, inputs
        yield

    def equal(self, measured: object, predicted: object, *, unit: str = "", **inputs: object) -> None:
        """Require the very same value; tensors also agree in shape and dtype, and NaN equals NaN."""
        if isinstance(measured, Tensor) and isinstance(predicted, Tensor):
            if _kind(measured) != _kind(predicted):
                self._judge("exact", unit, _kind(measured), _kind(predicted), None, math.inf, inputs)
                return
            deviation, measured, predicted, inputs = _first_difference(measured, predicted, inputs)
        else:
            same = isinstance(measured, bool) == isinstance(predicted, bool)  # 1 is not True
            deviation = 0.0 if same and (measured == predicted or _both_nan(measured, predicted)) else math.inf
        self._judge("exact", unit, measured, predicted, None, deviation, inputs)

    def close(self, measured: Any, predicted: Any, *, tolerance: Any, unit: str = "", **inputs: object) -> None:
        """Require |measured − predicted| ≤ tolerance, elementwise for tensors (of any dtype, one shape)."""
        if isinstance(measured, Tensor) and isinstance(predicted, Tensor) and measured.shape != predicted.shape:
            self._judge("within", unit, _kind(measured), _kind(predicted), tolerance, math.inf, inputs)
            return
        deviation, measured, predicted, tolerance, where = _worst(measured, predicted, tolerance)
        self._judge("within", unit, measured, predicted, tolerance, deviation, inputs | where)

    def at_most(self, measured: float, limit: float, *, unit: str = "", **inputs: object) -> None:
        """Require measured ≤ limit."""
        self._judge("at most", unit, measured, limit, None, _excess(measured, limit), inputs)

    def at_least(self, measured: float, limit: float, *, unit: str = "", **inputs: object) -> None:
        """Require measured ≥ limit."""
        self._judge("at least", unit, measured, limit, None, _excess(-measured, -limit), inputs)

    def differs(self, measured: object, literal: object, *, unit: str = "", **inputs: object) -> None:
        """Require another value than `literal`, which the notes' wording predicts for this input."""
        self._judge("not", unit, measured, literal, None, math.inf if measured == literal else 0.0, inputs)

    def raises(
        self, error: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object], **inputs: Any
    ) -> None:
        """Require that `call()` raises `error`."""
        predicted = " or ".join(kind.__name__ for kind in (error if isinstance(error, tuple) else (error,)))
        measured = "no error"
        try:
            call()
        except NotImplementedError:
            raise
        except Exception as raised:
            measured = predicted if isinstance(raised, error) else type(raised).__name__
        self.equal(measured, predicted, **inputs)

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
        unit: str,
        measured: object,
        predicted: object,
        tolerance: object,
        deviation: float,
        extra: Mapping[str, object],
    ) -> None:
        holds = deviation <= 1 if relation == "within" else deviation <= 0
        record = self.records.get((relation, unit))
        if record is None:
            record = self.records[relation, unit] = Record(relation, unit)
        record.checks += 1
        if isinstance(measured, Real) and not isinstance(measured, bool):
            value = float(measured)
            low, high = record.extremes or (value, value)
            if value <= low or value >= high:
                record.extremes = [min(low, value), max(high, value)]
        if not holds or deviation > record.deviation:
            record.measured, record.predicted, record.tolerance = measured, predicted, tolerance
            record.deviation, record.holds = deviation, holds
            record.inputs = {name: show(value) for name, value in {**self.example, **extra}.items()}
        if not holds:
            self.fail(sentence(record.json()))


def sentence(record: Json) -> str:
    """Say in one line what a record (as JSON) measured: the message grammar of failures and reports."""
    unit = f" {record['unit']}" if record["unit"] else ""
    tolerance = "" if record["tolerance"] is None else f" {show(record['tolerance'])}"
    predicted = {
        "exact": "{} (exact)",
        "within": "{} (within" + tolerance + ")",
        "at most": "at most {}",
        "at least": "at least {}",
        "not": "anything but {}",
    }[record["relation"]].replace("{}", f"{show(record['predicted'])}{unit}")
    inputs = ", ".join(f"{name}={value}" for name, value in record["inputs"].items())
    return f"measured {show(record['measured'])}{unit}, predicted {predicted}" + (f" for {inputs}" if inputs else "")


def show(value: object) -> str:
    """Write a value for a message: short, on one line."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, float):
        text = f"{value:.10g}"
    elif isinstance(value, Tensor):
        text = _kind(value)
        if 0 < value.numel() <= 12 and value.device.type != "meta":
            text = f"{value.tolist()} ({text})"
    elif isinstance(value, torch.dtype):
        text = str(value).removeprefix("torch.")
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def plain(value: object) -> object:
    """Return a value that JSON can carry: finite numbers, booleans and strings as they are, others as text."""
    if isinstance(value, bool | str | int | None):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return show(value)


def _kind(tensor: Tensor) -> str:
    sizes = "×".join(map(str, tensor.shape)) or "scalar"
    return f"{sizes} {str(tensor.dtype).removeprefix('torch.')} tensor"


def _both_nan(a: object, b: object) -> bool:
    return isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)


def _excess(measured: float, limit: float) -> float:
    excess = float(measured) - float(limit)
    return math.inf if math.isnan(excess) and measured != limit else 0.0 if math.isnan(excess) else excess


def _first_difference(
    measured: Tensor, predicted: Tensor, inputs: dict[str, object]
) -> tuple[float, object, object, dict[str, object]]:
    same = (measured == predicted) | ((measured != measured) & (predicted != predicted))
    if bool(same.all()):
        return 0.0, measured, predicted, inputs
    index = tuple((~same).nonzero()[0].tolist())
    return math.inf, measured[index].item(), predicted[index].item(), inputs | {"element": list(index)}


def _worst(measured: Any, predicted: Any, tolerance: Any) -> tuple[float, object, object, object, dict[str, object]]:
    """Return the largest deviation in units of its tolerance, with the values and the place it occurs at."""
    m, p, t = (torch.as_tensor(value).detach().to("cpu", torch.float64) for value in (measured, predicted, tolerance))
    m, p, t = torch.broadcast_tensors(m, p, t)  # type: ignore[no-untyped-call]
    if not m.numel():
        return 0.0, measured, predicted, tolerance, {}
    distance = (m - p).abs()
    same = (m == p) | (m.isnan() & p.isnan())
    ratio = torch.where(same, 0.0, torch.where(distance <= t, distance / t, (distance / t).clamp(min=math.inf)))
    ratio = ratio.nan_to_num(nan=math.inf, posinf=math.inf)
    place = int(ratio.argmax())
    index = [int(i) for i in np.unravel_index(place, m.shape)]  # torch.unravel_index takes 0.4 s to import sympy
    where: dict[str, object] = {"element": index} if isinstance(measured, Tensor) and m.dim() else {}
    values = (value.reshape(-1)[place].item() for value in (ratio, m, p, t))
    deviation, *rest = values
    return (float(deviation), *rest, where)  # type: ignore[return-value]
