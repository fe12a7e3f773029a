"""The bits of torch's floating-point values as they lie in memory, and the nearest of a dtype's values to a number."""

import functools
from typing import NamedTuple

import torch
from torch import Tensor

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}  # of as many bytes


class Layout(NamedTuple):
    """The exponent's and the fraction's bits, the pattern of the largest value, and what a larger number may become."""

    exponent: int
    fraction: int
    largest: int
    beyond: tuple[int, ...]

    @property
    def sign(self) -> int:
        """The sign bit, in its place."""
        return 1 << self.exponent + self.fraction


LAYOUTS = {
    "float32": Layout(8, 23, 0x7F7FFFFF, (0x7F800000,)),
    "float16": Layout(5, 10, 0x7BFF, (0x7C00,)),
    "bfloat16": Layout(8, 7, 0x7F7F, (0x7F80,)),
    "float8_e4m3fn": Layout(4, 3, 0x7E, (0x7E, 0x7F, 0xFF)),  # its maximum or NaN: a cast may saturate or not
    "float8_e5m2": Layout(5, 2, 0x7B, (0x7B, 0x7C)),  # its maximum or infinity, likewise
}


def pattern(values: Tensor) -> Tensor:
    """Return each value's bits as an int64 that is not negative (for dtypes of at most 4 bytes)."""
    raw = values.view(INTEGERS[values.dtype.itemsize]).cpu().to(torch.int64)
    return raw & (1 << 8 * values.dtype.itemsize) - 1


def value(patterns: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the values of a dtype that these bits are; ValueError for bits that it has no room for."""
    bits = 8 * dtype.itemsize
    if bool(((patterns < 0) | (patterns >> bits > 0)).any()):
        raise ValueError(f"a pattern outside 0 … 2**{bits} − 1")
    signed = patterns - (patterns >> bits - 1 << bits) if bits > 8 else patterns
    return signed.to(INTEGERS[dtype.itemsize]).view(dtype)


def number(pattern: int, dtype: torch.dtype) -> float:
    """Return the value that one pattern is, as a Python float."""
    return float(value(torch.tensor(pattern), dtype).double())


def fields(patterns: Tensor, layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sign, exponent and fraction fields of patterns."""
    one = 1 << layout.fraction
    return patterns // layout.sign, patterns % layout.sign // one, patterns % one


def figures(dtype: torch.dtype, layout: Layout) -> dict[str, float]:
    """Return a format's sizes and its largest, smallest and finest values, as memory shows them."""
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
    """Return all the patterns of a dtype of 1 or 2 bytes, each at its own place."""
    return torch.arange(1 << 8 * dtype.itemsize)


@functools.cache
def magnitudes(dtype: torch.dtype) -> Tensor:
    """Return the finite values from 0 up, in float64, each at the place of its pattern (dtypes of 1 or 2 bytes)."""
    upper = value(every_pattern(dtype)[: 1 << 8 * dtype.itemsize - 1], dtype).to(torch.float64)
    return upper[upper.isfinite()]


@functools.cache
def midpoints(dtype: torch.dtype) -> Tensor:
    """Return what lies half-way between each finite value from 0 up and the next; exact, in float64.

    The last lies as far above the largest value as if there were one more.
    """
    known = magnitudes(dtype)
    beyond = 2 * known[-1] - known[-2]
    return (known + torch.cat((known[1:], beyond[None]))) / 2


def nearest(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the pattern of the value of `dtype` nearest to each float64 but NaN; ties go to the even pattern.

    What rounds beyond the largest value gets the pattern after that, which is infinity where there is one. Only
    float32 has a cast that is sure to round once: to narrower dtypes torch (2.13) rounds to float32 first.
    """
    if dtype is torch.float32:
        return pattern(values.to(dtype))
    between = midpoints(dtype)
    low = torch.searchsorted(between, values.abs())  # the first midpoint that is not below
    tie = between[low.clamp(max=len(between) - 1)] == values.abs()
    return low + (tie & (low % 2 == 1)) + (values.signbit().to(torch.int64) << 8 * dtype.itemsize - 1)
