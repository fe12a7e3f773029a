"""§2.1.2: floating-point formats, and the conversion of their bit patterns to values and back."""

import math
import operator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, SupportsFloat, SupportsIndex

__all__ = ["FORMATS", "FloatFields", "FloatFormat", "decode", "encode", "fields"]


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format: one sign bit, then the exponent's bits, then the fraction's.

    A number is ±1.fraction × 2^(exponent − bias), as in IEEE 754. With exponent 0 it is a subnormal,
    ±0.fraction × 2^(1 − bias). If the format has infinities, an exponent of all ones means infinity where the fraction
    is 0, and NaN elsewhere. If it has none, only exponent and fraction of all ones together mean NaN, as in E4M3 of
    Micikevicius et al. 2022, "FP8 Formats for Deep Learning".
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    infinities: bool = True

    @cached_property
    def bits(self) -> int:
        """The number of bits of one value."""
        return 1 + self.exponent_bits + self.fraction_bits

    @cached_property
    def bias(self) -> int:
        """The number that is added to an exponent before it is stored."""
        return (1 << self.exponent_bits - 1) - 1

    @cached_property
    def eps(self) -> float:
        """The gap between 1 and the next value."""
        return 2.0**-self.fraction_bits

    @cached_property
    def smallest_normal(self) -> float:
        """The smallest value above 0 with full precision."""
        return 2.0 ** (1 - self.bias)

    @cached_property
    def smallest_subnormal(self) -> float:
        """The smallest value above 0."""
        return self.smallest_normal * self.eps

    @cached_property
    def max(self) -> float:
        """The largest finite value."""
        return (2 - self.eps) * 2.0**self.bias if self.infinities else (2 - 2 * self.eps) * 2.0 ** (self.bias + 1)


FORMATS: dict[str, FloatFormat] = {
    format.name: format
    for format in (
        FloatFormat("float32", exponent_bits=8, fraction_bits=23),
        FloatFormat("float16", exponent_bits=5, fraction_bits=10),
        FloatFormat("bfloat16", exponent_bits=8, fraction_bits=7),
        FloatFormat("float8_e4m3fn", exponent_bits=4, fraction_bits=3, infinities=False),
        FloatFormat("float8_e5m2", exponent_bits=5, fraction_bits=2),
    )
}


class FloatFields(NamedTuple):
    """The three fields of a bit pattern, as unsigned integers; the exponent includes the bias."""

    sign: int
    exponent: int
    fraction: int


def fields(pattern: SupportsIndex, format: FloatFormat) -> FloatFields:
    """Return the sign, exponent and fraction fields of a bit pattern.

    Raises TypeError for what is not an integer, ValueError for one outside 0 … 2**bits − 1.
    """
    pattern = _checked(pattern, format)
    exponent = pattern >> format.fraction_bits & (1 << format.exponent_bits) - 1
    return FloatFields(pattern >> format.bits - 1, exponent, pattern & (1 << format.fraction_bits) - 1)


def decode(pattern: SupportsIndex, format: FloatFormat) -> float:
    """Return the exact value of a bit pattern.

    Raises TypeError for what is not an integer, ValueError for one outside 0 … 2**bits − 1.
    """
    sign, magnitude = divmod(_checked(pattern, format), 1 << format.bits - 1)
    one = 1 << format.fraction_bits
    exponent, fraction = divmod(magnitude, one)
    if exponent == 0:
        value = math.ldexp(fraction, 1 - format.bias - format.fraction_bits)
    elif exponent < (1 << format.exponent_bits) - 1 or (not format.infinities and fraction < one - 1):
        value = math.ldexp(one + fraction, exponent - format.bias - format.fraction_bits)
    else:
        value = math.nan if fraction else math.inf
    return -value if sign else value


def encode(value: SupportsFloat, format: FloatFormat) -> int:
    """Return the bit pattern of the value nearest to `value`; if two are equally close, the one with an even pattern.

    A number that rounds beyond the largest value becomes infinity, or NaN if the format has no infinity. A number that
    is not a float is converted to one first, so an integer of more than 53 bits may be rounded twice.
    Raises TypeError for what is not a real number, OverflowError for one that float() refuses as too large.
    """
    sign = (math.copysign(1, value) < 0) << format.bits - 1
    value = float(value)
    top = (1 << format.bits - 1) - 1  # Exponent and fraction of all ones are NaN in every format.
    if value == 0:
        return sign
    if math.isnan(value):
        return sign | top
    overflow = top - (1 << format.fraction_bits) + 1 if format.infinities else top
    if math.isinf(value):
        return sign | overflow
    exponent = max(math.frexp(value)[1] - 1, 1 - format.bias)
    # The value is `steps` gaps between neighbouring values. round() rounds a tie to the even number.
    steps = round(math.ldexp(abs(value), format.fraction_bits - exponent))
    # Patterns are in the order of their magnitudes, so a carry out of the fraction gives the next pattern.
    return sign | min((exponent + format.bias - 1 << format.fraction_bits) + steps, overflow)


def _checked(pattern: SupportsIndex, format: FloatFormat) -> int:
    pattern = operator.index(pattern)
    if pattern < 0 or pattern >> format.bits:
        raise ValueError(f"{pattern} is not a pattern of {format.bits} bits")
    return pattern
