"""The bits of torch's floating-point values in memory, and the value of a dtype that is nearest to a number."""

import functools
from typing import NamedTuple

import torch
from torch import Tensor

INTEGER_DTYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32}  # The key is the size in bytes.


class BitLayout(NamedTuple):
    """How many bits exponent and fraction have, and two kinds of patterns.

    `largest` is the pattern of the largest finite value. `overflows` are the patterns that a larger number may become:
    a cast to an 8-bit format may saturate at the largest value, or give NaN or infinity.
    """

    exponent: int
    fraction: int
    largest: int
    overflows: tuple[int, ...]

    @property
    def sign(self) -> int:
        """The pattern in which the sign bit alone is set."""
        return 1 << self.exponent + self.fraction


LAYOUTS = {
    "float32": BitLayout(8, 23, 0x7F7FFFFF, (0x7F800000,)),
    "float16": BitLayout(5, 10, 0x7BFF, (0x7C00,)),
    "bfloat16": BitLayout(8, 7, 0x7F7F, (0x7F80,)),
    "float8_e4m3fn": BitLayout(4, 3, 0x7E, (0x7E, 0x7F, 0xFF)),
    "float8_e5m2": BitLayout(5, 2, 0x7B, (0x7B, 0x7C)),
}


def pattern(values: Tensor) -> Tensor:
    """Return each value's bits as an int64 that is not negative (for dtypes of at most 4 bytes)."""
    raw = values.view(INTEGER_DTYPES[values.dtype.itemsize]).cpu().to(torch.int64)
    return raw & (1 << 8 * values.dtype.itemsize) - 1


def value(patterns: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the values that these bit patterns stand for in a dtype; ValueError for a pattern of too many bits."""
    bits = 8 * dtype.itemsize
    if bool(((patterns < 0) | (patterns >> bits > 0)).any()):
        raise ValueError(f"a pattern outside 0 … 2**{bits} − 1")
    signed = patterns - (patterns >> bits - 1 << bits) if bits > 8 else patterns
    return signed.to(INTEGER_DTYPES[dtype.itemsize]).view(dtype)


def number(pattern: int, dtype: torch.dtype) -> float:
    """Return the value that one pattern stands for, as a Python float."""
    return float(value(torch.tensor(pattern), dtype).double())


def fields(patterns: Tensor, layout: BitLayout) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sign, exponent and fraction fields of patterns."""
    one = 1 << layout.fraction
    return patterns // layout.sign, patterns % layout.sign // one, patterns % one


def figures(dtype: torch.dtype, layout: BitLayout) -> dict[str, float]:
    """Return a format's sizes, its largest and smallest values and its eps, read from patterns in memory."""
    one = int(pattern(torch.ones((), dtype=dtype)))
    return {
        "bits": 8 * dtype.itemsize,
        "exponent_bits": layout.exponent,
        "fraction_bits": layout.fraction,
        "bias": one >> layout.fraction,
        "max": number(layout.largest, dtype),
        "smallest_normal": number(1 << layout.fraction, dtype),
        "smallest_subnormal": number(1, dtype),
        "eps": number(one + 1, dtype) - 1,
    }


def every_pattern(dtype: torch.dtype) -> Tensor:
    """Return all the patterns of a dtype of 1 or 2 bytes in order, so that each pattern is its own index."""
    return torch.arange(1 << 8 * dtype.itemsize)


@functools.cache
def magnitudes(dtype: torch.dtype) -> Tensor:
    """Return the finite values from 0 up, in float64, each at the index of its pattern (dtypes of 1 or 2 bytes)."""
    upper = value(every_pattern(dtype)[: 1 << 8 * dtype.itemsize - 1], dtype).to(torch.float64)
    return upper[upper.isfinite()]


@functools.cache
def midpoints(dtype: torch.dtype) -> Tensor:
    """Return the exact midpoint between each finite value from 0 up and the next value, in float64.

    The last midpoint lies between the largest finite value and the value that would follow it.
    """
    finite = magnitudes(dtype)
    following = 2 * finite[-1] - finite[-2]
    return (finite + torch.cat((finite[1:], following[None]))) / 2


def nearest(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the pattern of the value of `dtype` nearest to each float64 (NaN excepted); ties go to the even pattern.

    A number that rounds beyond the largest value gets the pattern that follows, which is infinity where the format has
    one. Only the cast to float32 is sure to round once: on the way to a narrower dtype, torch 2.13 rounds to float32
    first.
    """
    if dtype is torch.float32:
        return pattern(values.to(dtype))
    middles = midpoints(dtype)
    # searchsorted finds the first midpoint that is not below the value, whose index is the nearest value's pattern.
    nearest = torch.searchsorted(middles, values.abs())
    tie = middles[nearest.clamp(max=len(middles) - 1)] == values.abs()
    return nearest + (tie & (nearest % 2 == 1)) + (values.signbit().to(torch.int64) << 8 * dtype.itemsize - 1)
