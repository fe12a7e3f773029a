"""The likeliest mistake behind a wrong number, where the numbers tell it."""

import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

POINTS = {"points", "batch", "batch_size"}  # A loss is averaged over these.
MULTIPLY_ADDS = "multiply-adds, each of which is 2 FLOPs"
FEW = 10  # FLOPs, of which a half may be chance
LOOSEST = Fraction(1, 1000)  # A wider tolerance could confuse two ratios.


def suspects(
    measured: object,
    predicted: object,
    tolerance: object,
    unit: str,
    inputs: Mapping[str, object],
    met: set[str] | None = None,
) -> set[str]:
    """Return each mistake that explains the difference: one may be chance where several do.

    That a result is wrong by the value of an input counts from a value of 3, and for 2 only where it is among those
    that explained a failure before: too much is twice or half of something.
    """
    if isinstance(measured, str) and isinstance(predicted, str):
        return {"transposed"} if _transposed(measured) == predicted else set()
    if isinstance(measured, tuple | list) and isinstance(predicted, tuple | list):
        return {"in the reverse order"} if list(measured[::-1]) == list(predicted) else set()
    m, p, allowed = _fraction(measured), _fraction(predicted), _fraction(tolerance)
    if not m or not p:
        narrow = any(isinstance(value, np.integer) and value.itemsize <= 4 for value in inputs.values())
        return set(_wrapped(measured, predicted)) if narrow else set()  # 0 may be what many another mistake leaves
    slack = (allowed or Fraction(0)) / abs(p)
    if slack > LOOSEST:
        return set()
    factors = (*_factors(unit, isinstance(measured, float)), *_sizes(inputs, met or set()))
    found = {told for factor, told in factors if abs(m / p / factor - 1) <= slack}
    if abs(p) < FEW and MULTIPLY_ADDS not in (met or ()):
        found.discard(MULTIPLY_ADDS)  # 1 for 2 is half of it, and one less
    return found | set(_wrapped(measured, predicted)) | set(_rooted(m, p, slack))


def _factors(unit: str, is_rate: bool) -> Iterator[tuple[Fraction, str]]:
    """Yield factors by which a result is wrong after a mistake, each with the mistake."""
    yield Fraction(-1), "the sign is the other way round"
    if "MFU" in unit:
        yield Fraction(100), "per cent"
    for power in (1, 2, 3, 4):
        for factor in (Fraction(1000) ** power, Fraction(1, 1000) ** power) if is_rate else ():
            yield factor, "another unit: a power of 1000 is the difference"
        for factor in (Fraction(1024, 1000) ** power, Fraction(1000, 1024) ** power):
            yield factor, "a power of 1024 where one of 1000 is meant, or the reverse"
    if "FLOP" in unit:
        yield Fraction(1, 2), MULTIPLY_ADDS
    if "bytes" in unit:
        yield Fraction(1, 4), "values of 4 bytes counted instead of bytes"
        yield Fraction(8), "bits instead of bytes"


def _sizes(inputs: Mapping[str, object], met: set[str]) -> Iterator[tuple[Fraction, str]]:
    for name, value in inputs.items():
        if isinstance(value, int) and value > 1:
            sum_for_mean, mean_for_sum = _averaged(name)
            large, small = f"{name} times too large{sum_for_mean}", f"{name} times too small{mean_for_sum}"
            yield from (
                (f, told)
                for f, told in ((Fraction(value), large), (Fraction(1, value), small))
                if value > 2 or told in met
            )


def _averaged(name: str) -> tuple[str, str]:
    return (", a sum where a mean is meant", ", a mean where a sum is meant") if name in POINTS else ("", "")


def _wrapped(measured: object, predicted: object) -> Iterator[str]:
    """Yield what a machine's integers and floats make of a count that is too large for them."""
    exactly = _fraction(measured)
    if not isinstance(predicted, int) or exactly is None:
        return
    if isinstance(measured, int) and measured != predicted:
        for bits in (64, 32):
            too_large = abs(measured) < 2**bits and abs(predicted) >= 2 ** (bits - 1)
            if too_large and (predicted - measured) % 2**bits == 0:
                yield f"a count that does not fit into {bits} bits"
                return
    if abs(predicted) > 2**53 and abs(exactly / predicted - 1) <= Fraction(1, 2**52):
        yield "a count rounded to a float: Python's integers are exact"


def _rooted(measured: Fraction, predicted: Fraction, slack: Fraction) -> Iterator[str]:
    """Yield whether a root was forgotten, or taken once too often; near 1 a number and its root are alike."""
    if min(measured, predicted) <= 0 or Fraction(9, 10) < predicted < Fraction(11, 10):
        return
    near = 2 * slack + Fraction(1, 10**12)
    if abs(measured / predicted**2 - 1) <= near:
        yield "a square root is missing"
    if abs(measured**2 / predicted - 1) <= near:
        yield "a square root too many"


def _transposed(kind: str) -> str:
    return re.sub(r"^(\d+)×(\d+) ", r"\2×\1 ", kind)


def _fraction(value: object) -> Fraction | None:
    """Return a finite number's exact value; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        return None
    return Fraction(value) if isinstance(value, int | Fraction) or math.isfinite(value) else None
