"""What impl.floats promises beyond the contract: formats of one's own, overflow, and which error refuses what."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from impl import floats
from impl.floats import FORMATS, FloatFormat

FLOAT64 = FloatFormat("float64", exponent_bits=11, fraction_bits=52)
NUMBERS = (0.0, -0.0, 1.0, 0.1, -1e300, 5e-324, -(2.0**-1022), 1.7976931348623157e308, math.inf, -math.inf)


@pytest.mark.parametrize("number", NUMBERS)
def test_any_ieee_format_can_be_described(number):
    """float64, which is not among FORMATS, has the bytes that Python's struct gives it."""
    (pattern,) = struct.unpack("<Q", struct.pack("<d", number))
    assert floats.encode(number, FLOAT64) == pattern
    assert math.copysign(1, floats.decode(pattern, FLOAT64)) == math.copysign(1, number)
    assert floats.decode(pattern, FLOAT64) == number


def test_the_figures_of_float64_are_pythons():
    """Its bits, bias, largest, smallest and finest values are those of sys.float_info."""
    assert (FLOAT64.bits, FLOAT64.bias) == (64, 1023)
    assert math.nextafter(math.inf, 0) == FLOAT64.max
    assert math.nextafter(0, 1) == FLOAT64.smallest_subnormal
    assert math.ldexp(1, -1022) == FLOAT64.smallest_normal
    assert math.nextafter(1, 2) - 1 == FLOAT64.eps


def test_formats_of_equal_widths_are_equal_only_under_one_name():
    """A format is its name and its fields: two of them alike are one key of a dictionary, and those unlike are two."""
    again = FloatFormat("float16", exponent_bits=5, fraction_bits=10)
    assert again == FORMATS["float16"]
    assert hash(again) == hash(FORMATS["float16"])
    assert again != FORMATS["bfloat16"]
    assert FloatFormat("half", exponent_bits=5, fraction_bits=10) != again


def test_an_overflow_is_infinity_or_nan():
    """What rounds beyond the largest value is E5M2's infinity and E4M3's NaN, which keeps the number's sign."""
    for number in (1e9, math.inf, 10**300):
        assert floats.encode(number, FORMATS["float8_e5m2"]) == 0x7C
        assert floats.encode(-number, FORMATS["float8_e5m2"]) == 0xFC
        assert floats.encode(number, FORMATS["float8_e4m3fn"]) == 0x7F
        assert floats.encode(-number, FORMATS["float8_e4m3fn"]) == 0xFF


@pytest.mark.parametrize("number", [Fraction(1, 3), np.float32(0.1), np.int64(3), True, 2**60 + 2**36 + 1], ids=repr)
def test_other_numbers_are_made_floats_first(number):
    """Fractions, NumPy's numbers and long integers have the pattern of the float nearest to them."""
    assert floats.encode(number, FORMATS["float32"]) == floats.encode(float(number), FORMATS["float32"])


def test_what_is_no_real_number_raises():
    """Half a pattern and a complex number are TypeErrors, and an integer too large for a float an OverflowError."""
    for read in (floats.decode, floats.fields):
        with pytest.raises(TypeError):
            read(1.5, FORMATS["float32"])
    with pytest.raises(TypeError):
        floats.encode(1 + 2j, FORMATS["float32"])
    with pytest.raises(OverflowError):
        floats.encode(10**400, FORMATS["float32"])
