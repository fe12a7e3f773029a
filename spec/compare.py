"""How far a measured value is from a predicted one: the arithmetic behind evidence, exact for Python's numbers."""

import math
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, Any]
Place = dict[str, object]  # where in a tensor two values stand, as a message shows it
JUST_OVER = math.nextafter(1.0, math.inf)


def python(value: Any) -> Any:
    """Return a NumPy scalar, or a tensor or array of no dimensions, as a number of Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor | np.ndarray) and value.ndim == 0 and str(getattr(value, "device", "")) != "meta":
        return value.item()
    return value


def kind(tensor: Tensor) -> str:
    """Say what a tensor is, but for its values."""
    sizes = "×".join(map(str, tensor.shape)) or "scalar"
    where = " on meta" if tensor.device.type == "meta" else ""
    return f"{sizes} {str(tensor.dtype).removeprefix('torch.')} tensor{where}"


def difference(measured: Any, predicted: Any) -> tuple[object, object, Place] | None:
    """Return two values, or of two tensors of one kind the first elements, that differ; None where all are the same.

    NaN is the same as NaN, 0.0 as −0.0 and 1 as 1.0, but 1 is not True. A NumPy scalar counts as its Python number.
    """
    if isinstance(measured, np.ndarray) and isinstance(predicted, np.ndarray):
        measured, predicted = _tensor(measured), _tensor(predicted)
    if isinstance(measured, Tensor) and isinstance(predicted, Tensor):
        return _first_difference(measured, predicted)
    return None if _same(python(measured), python(predicted)) else (measured, predicted, {})


def excess(measured: Any, limit: Any) -> float:
    """Return by how much `measured` exceeds `limit`: positive just where it does, at any magnitude."""
    measured = python(measured)
    return _over(measured, python(limit)) if isinstance(measured, Real) else math.inf


def shortfall(measured: Any, limit: Any) -> float:
    """Return by how much `measured` falls short of `limit`: positive just where it does, at any magnitude."""
    measured = python(measured)
    return _over(python(limit), measured) if isinstance(measured, Real) else math.inf


def worst(measured: Any, predicted: Any, tolerance: Any) -> tuple[float, object, object, object, Place]:
    """Return the largest |measured − predicted| in units of its tolerance, with the values and their place.

    It is at most 1 just where every element is within its tolerance. Tensors are compared as float64 or complex128.
    """
    m, p, t = python(measured), python(predicted), python(tolerance)
    if isinstance(m, Real) and isinstance(p, Real) and isinstance(t, Real):
        return _ratio(m, p, t), m, p, t, {}
    try:
        m = torch.as_tensor(m).detach().cpu()
    except (TypeError, ValueError, RuntimeError):  # no number at all
        return math.inf, measured, predicted, tolerance, {}
    p, t = torch.as_tensor(p).detach().cpu(), torch.as_tensor(t).detach().cpu()
    if p.dim() and m.shape != p.shape:
        return math.inf, kind(m), kind(p), tolerance, {}
    if not m.numel():
        return 0.0, measured, predicted, tolerance, {}
    wide = torch.complex128 if m.is_complex() or p.is_complex() else torch.float64
    m, p, t = (x.to(to).expand(m.shape).numpy() for x, to in ((m, wide), (p, wide), (t, torch.float64)))
    ratio = _ratios(m, p, t)
    place = np.unravel_index(ratio.argmax(), m.shape)
    values = (x[place].item() for x in (ratio, m, p, t))
    element: Place = {"element": [int(i) for i in place]} if place else {}
    return (*values, element)


def _ratios(measured: Array, predicted: Array, tolerance: Array) -> Array:
    with np.errstate(all="ignore"):
        distance = np.abs(measured - predicted)
        same = (measured == predicted) | (np.isnan(measured) & np.isnan(predicted))
        ratio = distance / tolerance
    inside = (distance <= tolerance) & np.isfinite(distance)
    return np.asarray(np.where(same, 0.0, np.where(inside, np.fmin(ratio, 1), np.fmax(ratio, JUST_OVER))))


def _over(a: Any, b: Any) -> float:
    """Return a − b, positive unless a ≤ b: rounding the difference of a large integer and a float may hide it."""
    within = bool(a <= b)
    try:
        over = float(a - b)
    except OverflowError:
        over = -math.inf if within else math.inf
    if within:
        return over if over < 0 else 0.0
    return over if over > 0 else math.ulp(0.0)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, bool) != isinstance(b, bool) or isinstance(a, Tensor) or isinstance(b, Tensor):
        return False
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    try:
        return bool(a == b)
    except Exception:  # an array has no one truth value, and what was returned may raise anything
        return False


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))


def _first_difference(measured: Tensor, predicted: Tensor) -> tuple[object, object, Place] | None:
    if kind(measured) != kind(predicted):
        return kind(measured), kind(predicted), {}
    if measured.device.type == "meta":
        return None
    measured, predicted = measured.detach().cpu(), predicted.detach().cpu()
    same = (measured == predicted) | ((measured != measured) & (predicted != predicted))
    if bool(same.all()):
        return None
    index = tuple((~same).nonzero()[0].tolist())
    return measured[index].item(), predicted[index].item(), {"element": list(index)}


def _ratio(measured: Any, predicted: Any, tolerance: Any) -> float:
    if measured == predicted or (measured != measured and predicted != predicted):
        return 0.0
    if not (abs(measured) < math.inf and abs(predicted) < math.inf and tolerance > 0):
        return math.inf
    if tolerance == math.inf:
        return 0.0
    distance, allowed = abs(Fraction(measured) - Fraction(predicted)), Fraction(tolerance)
    if distance <= allowed:
        return min(float(distance / allowed), 1.0)
    try:
        return max(float(distance / allowed), JUST_OVER)
    except OverflowError:
        return math.inf
