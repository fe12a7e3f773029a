"""Bit patterns: against Python's struct, float32's upper half, and the two 8-bit formats worked out in fractions."""

import math
import struct
from bisect import bisect_left
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from spec.instruments import bits

EIGHT = {"float8_e4m3fn": (3, 7, 0x7F), "float8_e5m2": (2, 15, 0x7C)}  # fraction bits, bias, first pattern not finite
NARROW = [torch.float16, torch.bfloat16, *(getattr(torch, name) for name in EIGHT if hasattr(torch, name))]
EVERY_16 = list(range(2**16))


def bits_of(number, code):
    """Return the pattern that struct stores a number as."""
    return int.from_bytes(struct.pack(f">{code}", number), "big")


def number_of(pattern, code):
    """Return the number that struct reads from a pattern."""
    return struct.unpack(f">{code}", pattern.to_bytes(struct.calcsize(code), "big"))[0]


def exactly(numbers):
    """Return what tells numbers apart: their text, which has a zero's sign and takes every NaN for the same."""
    return [str(float(number)) for number in numbers]


def in_fractions(pattern, fraction_bits, bias):
    """Return ±1.fraction × 2^(exponent − bias), or ±0.fraction × 2^(1 − bias) where the exponent is 0."""
    exponent, fraction = divmod(pattern % 128, 2**fraction_bits)
    significand = Fraction(fraction, 2**fraction_bits) + (exponent > 0)
    return (-1) ** (pattern // 128) * significand * Fraction(2) ** (max(exponent, 1) - bias)


def table(dtype):
    """Return the finite values from 0 up, as fractions, without the instrument."""
    name = str(dtype).removeprefix("torch.")
    if dtype is torch.float16:
        return [Fraction(number_of(pattern, "e")) for pattern in range(0x7C00)]
    if dtype is torch.bfloat16:
        return [Fraction(number_of(pattern << 16, "f")) for pattern in range(0x7F80)]
    fraction_bits, bias, end = EIGHT[name]
    return [in_fractions(pattern, fraction_bits, bias) for pattern in range(end)]


TABLES = {dtype: table(dtype) for dtype in NARROW}


def by_distance(number, dtype):
    """Return the pattern of the nearest value: the one at the least distance, of two the even one."""
    known, magnitude = TABLES[dtype], abs(Fraction(number))
    place = bisect_left(known, magnitude)
    around = [p for p in (place - 1, place, place + 1) if 0 <= p < len(known)]
    best = min(around, key=lambda p: (abs(known[p] - magnitude), p % 2))
    gap = known[-1] - known[-2]
    if magnitude > known[-1] + gap / 2 or (magnitude == known[-1] + gap / 2 and len(known) % 2 == 0):
        best = len(known)
    return best + (math.copysign(1, number) < 0) * 2 ** (8 * dtype.itemsize - 1)


def test_float16_is_what_struct_reads():
    """All 65,536 patterns have the values that Python's own half-precision code gives them, and back."""
    values = bits.value(bits.every_pattern(torch.float16), torch.float16)
    assert exactly(values.tolist()) == exactly(number_of(pattern, "e") for pattern in EVERY_16)
    assert bits.pattern(values).tolist() == EVERY_16
    stored = torch.tensor([1.0, -0.0, 65504.0, 2.0**-24], dtype=torch.float16)
    assert bits.pattern(stored).tolist() == [bits_of(number, "e") for number in stored.tolist()]


def test_bfloat16_is_the_upper_half_of_float32():
    """All 65,536 patterns have the values of float32 patterns that end in 16 zeros, and back."""
    values = bits.value(bits.every_pattern(torch.bfloat16), torch.bfloat16)
    assert exactly(values.tolist()) == exactly(number_of(pattern << 16, "f") for pattern in EVERY_16)
    assert bits.pattern(values).tolist() == EVERY_16


@pytest.mark.parametrize("name", EIGHT)
def test_fp8_is_what_its_definition_says(name):
    """All 256 patterns have the values that the definition gives in fractions, and back."""
    dtype, (fraction_bits, bias, end) = getattr(torch, name), EIGHT[name]
    values = bits.value(bits.every_pattern(dtype), dtype)
    for pattern, found in enumerate(values.double().tolist()):
        if pattern % 128 < end:
            assert Fraction(found) == in_fractions(pattern, fraction_bits, bias)
            assert math.copysign(1, found) == (-1) ** (pattern // 128)
        else:
            infinite = name == "float8_e5m2" and pattern % 128 == end
            assert math.isinf(found) if infinite else math.isnan(found)
    assert bits.pattern(values).tolist() == list(range(256))


@given(st.integers(0, 2**32 - 1))
@example(0x80000000)
@example(0xFFFFFFFF)
def test_float32_is_what_struct_reads(pattern):
    """A pattern of 32 bits has the value that Python reads from it, and back."""
    found = bits.value(torch.tensor([pattern]), torch.float32)
    assert exactly(found.tolist()) == exactly([number_of(pattern, "f")])
    assert bits.pattern(found).tolist() == [pattern]


@given(st.floats(width=32, allow_nan=False))
def test_a_number_has_the_bits_that_struct_stores(number):
    """A float32 value has the pattern that Python stores it as, alone or in a matrix."""
    assert int(bits.pattern(torch.tensor(number))) == bits_of(number, "f")
    assert bits.pattern(torch.tensor([[number], [1.0]])).tolist() == [[bits_of(number, "f")], [0x3F800000]]


SIZES = ("bits", "exponent_bits", "fraction_bits", "bias", "max", "smallest_normal", "smallest_subnormal", "eps")
KNOWN = {
    "float32": (32, 8, 23, 127, (2 - 2.0**-23) * 2.0**127, 2.0**-126, 2.0**-149, 2.0**-23),
    "float16": (16, 5, 10, 15, 65504.0, 2.0**-14, 2.0**-24, 2.0**-10),
    "bfloat16": (16, 8, 7, 127, (2 - 2.0**-7) * 2.0**127, 2.0**-126, 2.0**-133, 2.0**-7),
    "float8_e4m3fn": (8, 4, 3, 7, 448.0, 2.0**-6, 2.0**-9, 2.0**-3),
    "float8_e5m2": (8, 5, 2, 15, 57344.0, 2.0**-14, 2.0**-16, 2.0**-2),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_figures_are_those_of_the_definitions(name):
    """What memory shows is what IEEE 754 and the fp8 paper's table 1 say."""
    dtype, layout = getattr(torch, name), bits.LAYOUTS[name]
    assert bits.figures(dtype, layout) == dict(zip(SIZES, KNOWN[name], strict=True))
    assert math.isfinite(bits.number(layout.largest, dtype))
    assert not math.isfinite(bits.number(layout.largest + 1, dtype))


@pytest.mark.parametrize("name", KNOWN)
def test_the_fields_are_the_digits(name):
    """In binary, a pattern is written as its sign, its exponent and its fraction, one after the other."""
    layout = bits.LAYOUTS[name]
    size = 1 + layout.exponent + layout.fraction
    for pattern in (0, 1, 0x5A5A5A5A % 2**size, layout.sign, layout.sign - 1, 2**size - 1):
        digits = f"{pattern:0{size}b}"
        parts = digits[0], digits[1 : 1 + layout.exponent], digits[1 + layout.exponent :]
        assert [int(field) for field in bits.fields(torch.tensor(pattern), layout)] == [int(part, 2) for part in parts]


@pytest.mark.parametrize("wrong", [-1, 256])
def test_a_pattern_too_large_is_refused(wrong):
    """Nine bits have no value in an 8-bit format."""
    with pytest.raises(ValueError, match=r"outside 0 … 2\*\*8 − 1"):
        bits.value(torch.tensor([wrong]), torch.float8_e5m2)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_the_nearest_is_the_one_at_the_least_distance(dtype):
    """Values, the midpoints between them and what lies beside those go to the nearest, ties to the even pattern."""
    middle = bits.midpoints(dtype)
    assert [Fraction(m) for m in middle[:-1].tolist()] == [
        (low + high) / 2 for low, high in zip(TABLES[dtype][:-1], TABLES[dtype][1:], strict=True)
    ]
    up, down = (middle.nextafter(torch.tensor(way, dtype=torch.float64)) for way in (math.inf, 0.0))
    for numbers in (bits.magnitudes(dtype), middle, up, down, -middle, -up):
        some = numbers if len(numbers) < 256 else torch.cat((numbers[::61], numbers[-3:]))
        assert bits.nearest(some, dtype).tolist() == [by_distance(number, dtype) for number in some.tolist()]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@given(number=st.floats(allow_nan=False, allow_infinity=False) | st.floats(-500, 500))
def test_any_number_goes_to_the_nearest(dtype, number):
    """Whatever the number: the least distance decides."""
    assert bits.nearest(torch.tensor([number], dtype=torch.float64), dtype).tolist() == [by_distance(number, dtype)]


@given(number=st.floats(-1e6, 1e6) | st.floats(-1e-37, 1e-37))
def test_the_nearest_half_precision_is_what_struct_stores(number):
    """Python rounds a float64 to half precision once; it raises where that overflows."""
    try:
        expected = bits_of(number, "e")
    except OverflowError:
        expected = bits_of(math.copysign(math.inf, number), "e")
    assert bits.nearest(torch.tensor([number], dtype=torch.float64), torch.float16).tolist() == [expected]


@given(pattern=st.integers(0, 0x7F7FFFFE), way=st.sampled_from((-math.inf, 0, math.inf)), sign=st.sampled_from((1, -1)))
def test_the_nearest_float32_lies_at_the_least_distance(pattern, way, sign):
    """Between two neighbours the midpoint goes to the even one, and what lies beside it to its own side."""
    low, high = number_of(pattern, "f"), number_of(pattern + 1, "f")
    middle = (low + high) / 2
    number = math.nextafter(middle, way) if way else middle
    expected = pattern + (number > middle if way else pattern % 2)
    found = bits.nearest(torch.tensor([sign * number], dtype=torch.float64), torch.float32).tolist()
    assert found == [expected + (sign < 0) * 2**31]
