"""§2.1.2: what the bits of a float stand for, how numbers are rounded to a format, and which range it has."""

import math
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Integral

import numpy as np
import pytest
import torch
from hypothesis import given

from spec import bounds
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import floats
from spec.instruments import bits
from spec.instruments.bits import LAYOUTS

FP8 = ("float8_e4m3fn", "float8_e5m2")
# Zero, the subnormal values, the normal values and infinity begin and end at or next to these float32 patterns.
EDGES = torch.tensor([0, 1, 0x7FFFFE, 0x7FFFFF, 0x800000, 0x3F7FFFFF, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000])
NANS = torch.tensor([0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF])
# Multiples of the golden ratio of 2³² spread evenly over all float32 patterns, from any start.
SPREAD = torch.arange(64) * 0x9E3779B9
# float32's normal values have these 254 exponents.
POWERS = [2.0**exponent for exponent in range(-126, 128)]
# These float64 values round to 0 in every format.
TINY = (5e-324, -5e-324, 2.0**-1022, -(2.0**-1023))
# 448 is the largest value of E4M3, and 464 is the midpoint beyond it.
LARGE = (448.0, 464.0, 465.0, 1e4, math.inf, -1e4, 6e4, 6.2e4, -math.inf)


def dtype_of(name, device="cpu"):
    """Return torch's dtype of that name; skip the test where torch or the device does not have it."""
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"this torch has no {name}")
    try:
        torch.empty(1, dtype=dtype, device=device)
    except (RuntimeError, TypeError):
        pytest.skip(f"{device} has no {name}")
    return dtype


def format_of(impl, evidence, name):
    """Return the implementation's format of that name."""
    formats = impl.floats.FORMATS
    evidence.true(name in formats, "FORMATS has this format", format=name)
    return formats[name]


def float64(*numbers):
    """Return a float64 tensor of the numbers."""
    return torch.tensor(numbers, dtype=torch.float64)


def cast(numbers, dtype, device):
    """Return float32 numbers as the platform casts them to the dtype, written in float64."""
    return torch.tensor(numbers, dtype=torch.float32, device=device).to(dtype).cpu().double()


def text(number):
    """Write an integer in hexadecimal, and anything else as it is."""
    return f"0x{number:X}" if isinstance(number, Integral) else number


def require_one_of(evidence, found, allowed, **inputs):
    """Require one of the allowed results of rounding; a failure names all of them."""
    expected = found if found in allowed else " or ".join(sorted(allowed))
    evidence.equal(found, expected, what="the result of rounding", **inputs)


def require_all(evidence, what, name, inputs, measured, predicted):
    """Require each result to be the predicted one, where NaN equals NaN; a failure shows the first that differs."""
    agreed, measured = 0, list(measured)
    if measured != predicted:  # One comparison of the lists is fast; NaN or a failure needs the loop.
        for number, found, expected in zip(inputs, measured, predicted, strict=True):
            if found != expected and (found == found or expected == expected):
                evidence.equal(text(found), text(expected), what=what, format=name, given=text(number))
            agreed += 1
    else:
        agreed = len(measured)
    evidence.equal(agreed, len(inputs), what=f"results that agree in {what}", format=name)


def check_decode(impl, evidence, name, patterns):
    """Require that decode gives these patterns the values that the platform reads from memory."""
    format, given = format_of(impl, evidence, name), patterns.tolist()
    decoded = (impl.floats.decode(pattern, format) for pattern in given)
    in_memory = bits.value(patterns, dtype_of(name)).double().tolist()
    require_all(evidence, "the decoded value", name, given, decoded, in_memory)
    minus = math.copysign(1, impl.floats.decode(LAYOUTS[name].sign, format))
    evidence.equal(minus, -1.0, what="the sign of a decoded −0", format=name)


def check_fields(impl, evidence, name, patterns):
    """Require that fields splits these patterns into their sign, exponent and fraction bits."""
    format, given = format_of(impl, evidence, name), patterns.tolist()
    split = (impl.floats.fields(pattern, format) for pattern in given)
    found = ((fields.sign, fields.exponent, fields.fraction) for fields in split)
    expected = list(zip(*(field.tolist() for field in bits.fields(patterns, LAYOUTS[name])), strict=True))
    require_all(evidence, "the fields", name, given, found, expected)


def check_encode(impl, evidence, name, patterns):
    """Require that encode turns the finite values of these patterns, and −0, back into the patterns."""
    values = bits.value(patterns, dtype_of(name)).double()
    finite = values.isfinite()
    numbers, expected = values[finite].tolist(), patterns[finite].tolist()
    check_encoded_numbers(impl, evidence, name, [-0.0, *numbers], [LAYOUTS[name].sign, *expected])


def check_encoded_numbers(impl, evidence, name, numbers, patterns):
    """Require that encode turns these numbers into these patterns."""
    format = format_of(impl, evidence, name)
    encoded = (impl.floats.encode(number, format) for number in numbers)
    require_all(evidence, "the encoded pattern", name, numbers, encoded, patterns)


def check_rounding(impl, evidence, name, patterns):
    """Require that encode rounds to the nearest value, and from a midpoint to the even pattern.

    The numbers are the midpoints just above these magnitudes and the float64 values on either side of each midpoint.
    """
    dtype = dtype_of(name)
    low, high = bits.value(torch.stack((patterns, patterns + 1)), dtype).double()
    middle = (low + high) / 2
    middle = middle[middle.isfinite()]
    above, below = middle.nextafter(float64(math.inf)), middle.nextafter(float64(0))
    numbers = torch.cat((middle, -above, below, -middle, float64(*TINY)))
    check_encoded_numbers(impl, evidence, name, numbers.tolist(), bits.nearest(numbers, dtype).tolist())


def check_ties(impl, evidence, name):
    """Require that encode rounds every midpoint to the even pattern; every second midpoint is tried as a negative."""
    middle = bits.midpoints(dtype_of(name))[:-1].clone()
    middle[1::2] *= -1
    check_encoded_numbers(impl, evidence, name, middle.tolist(), bits.nearest(middle, dtype_of(name)).tolist())


def check_overflow(impl, evidence, name):
    """Require that numbers less than half a step beyond the largest value round to it, and larger ones overflow.

    The format says what an overflow gives: infinity, NaN or the largest value. A tie goes to the even pattern, and NaN
    stays NaN.
    """
    format, dtype, layout = format_of(impl, evidence, name), dtype_of(name), LAYOUTS[name]
    edge = (3 * bits.number(layout.largest, dtype) - bits.number(layout.largest - 1, dtype)) / 2
    below, above = math.nextafter(edge, 0), math.nextafter(edge, math.inf)
    for number in (below, edge, above, 2 * edge, 1e300, math.inf):
        fits = number < edge or (number == edge and layout.largest % 2 == 0)
        allowed = (layout.largest,) if fits else layout.overflows
        for signed, sign in ((number, 0), (-number, layout.sign)):
            found = text(impl.floats.encode(signed, format))
            require_one_of(evidence, found, {text(pattern ^ sign) for pattern in allowed}, format=name, given=signed)
    for nan in (math.nan, -math.nan):
        found = impl.floats.encode(nan, format)
        fits = isinstance(found, Integral) and 0 <= found < 2 * layout.sign
        answer = "NaN" if fits and math.isnan(bits.number(int(found), dtype)) else text(found)
        evidence.equal(answer, "NaN", what="the encoded NaN", format=name, given=nan)


def check_figures(impl, evidence, name):
    """Require that a format's sizes, bias, eps and extreme values are those in the platform's memory and in finfo."""
    format, dtype = format_of(impl, evidence, name), dtype_of(name)
    evidence.equal(getattr(format, "name", "nothing"), name, what="the format's name", format=name)
    for figure, expected in bits.figures(dtype, LAYOUTS[name]).items():
        stated = getattr(torch.finfo(dtype), figure, expected)
        evidence.equal(stated, expected, what=f"torch.finfo's {figure}", format=name)
        evidence.equal(getattr(format, figure, "nothing"), expected, what=f"the format's {figure}", format=name)


def alternating(size):
    """Return one pattern per magnitude of a format with `size` patterns: even patterns positive, odd ones negative."""
    upper = torch.arange(size // 2)
    return upper + upper % 2 * size // 2


@verifies(floats.FLOAT32_LAYOUT)
def test_a_float32_has_1_and_8_and_23_bits(impl, evidence):
    """float32 has 8 exponent and 23 fraction bits and takes 4 bytes, and what is too large for it becomes infinite."""
    check_figures(impl, evidence, "float32")
    check_overflow(impl, evidence, "float32")
    evidence.equal(torch.ones(1, dtype=torch.float32).nbytes, 4, what="one float32 value", unit="bytes")


@verifies(floats.FLOAT32_LAYOUT)
@given(start=st.float32_patterns)
def test_float32_patterns_mean_what_the_platform_says(impl, evidence, start):
    """decode, fields, encode and rounding agree with the platform for float32 patterns from the whole range."""
    patterns = (start + SPREAD) % 2**32
    for check in (check_decode, check_fields, check_encode):
        check(impl, evidence, "float32", patterns)
    check_rounding(impl, evidence, "float32", patterns[::2] % 0x7F7FFFFF)
    nans = 0x7F800001 + patterns[::8] % 0x7FFFFF
    check_decode(impl, evidence, "float32", nans)


@verifies(floats.FLOAT32_LAYOUT)
def test_the_first_and_last_float32_patterns_of_each_kind(impl, evidence):
    """Zero, subnormal and normal values, infinity and NaN begin and end where they do on the platform."""
    for check in (check_decode, check_fields, check_encode):
        check(impl, evidence, "float32", torch.cat((EDGES, NANS, EDGES + 2**31, NANS + 2**31)))
    check_rounding(impl, evidence, "float32", EDGES)


@verifies(floats.FLOAT32_LAYOUT)
@pytest.mark.parametrize("integer", [int, np.uint32, np.int64])
def test_the_number_19303_0890(impl, evidence, integer):
    """19303.0890 is stored as 0x4696CE2E, which is 19303.08984375, whichever type of integer the pattern has."""
    evidence.equal(text(int(bits.pattern(torch.tensor(19303.0890)))), "0x4696CE2E", what="19303.0890 in memory")
    check_encoded_numbers(impl, evidence, "float32", [19303.0890, integer(3)], [0x4696CE2E, 0x40400000])
    format, pattern = format_of(impl, evidence, "float32"), integer(0x4696CE2E)
    evidence.equal(impl.floats.decode(pattern, format), 19303.08984375, what="the decoded value")
    evidence.equal(tuple(impl.floats.fields(pattern, format)), (0, 141, 0x16CE2E), what="the fields")
    small = np.int8(3)
    evidence.equal(impl.floats.decode(small, format), 3 * 2.0**-149, what="the decoded subnormal")
    evidence.equal(tuple(impl.floats.fields(small, format)), (0, 0, 3), what="the fields of a subnormal")


@verifies(floats.FLOAT32_LAYOUT)
@pytest.mark.parametrize("name", LAYOUTS)
def test_an_invalid_pattern_or_number_is_refused(impl, evidence, name):
    """A pattern outside 0 … 2**bits − 1, a pattern that is no integer, and a number that is not real raise an error."""
    format, size = format_of(impl, evidence, name), 2 * LAYOUTS[name].sign
    for read in (impl.floats.decode, impl.floats.fields):
        for pattern in (-1, -2, -size, size, size + 1, 3 * size, 2**70):
            evidence.raises(ValueError, partial(read, pattern, format), pattern=pattern)
        for pattern, error in (("1", TypeError), (None, TypeError), (1.5, (TypeError, ValueError))):
            evidence.raises(error, partial(read, pattern, format), pattern=pattern)
    for number in ("1.5", "3", b"1", None, [1.5]):
        evidence.raises(TypeError, partial(impl.floats.encode, number, format), number=number)
    encode = partial(impl.floats.encode, 1 + 2j, format)
    evidence.raises((TypeError, ValueError), encode, number="1 + 2j")


@verifies(floats.DECIMAL_ROUNDING)
def test_in_float64_a_tenth_and_two_tenths_miss_three_tenths(evidence):
    """In float64 the sum of 0.1 and 0.2 is the value just above 0.3."""
    total = repr((float64(0.1) + float64(0.2)).item())
    evidence.differs(total, "0.3", what="the sum", terms=(0.1, 0.2))
    evidence.equal(total, repr(math.nextafter(0.3, 1)), what="the sum", terms=(0.1, 0.2))


@refutes(floats.DECIMAL_ROUNDING)
def test_in_float32_a_tenth_and_two_tenths_are_three_tenths(impl, evidence, device):
    """In float32 the sum of 0.1 and 0.2 is the value that 0.3 is stored as, 0.300000012 to nine digits."""
    tenth, fifth, both = (torch.tensor(number, dtype=torch.float32, device=device) for number in (0.1, 0.2, 0.3))
    total = tenth + fifth
    evidence.equal(total, both, what="the float32 sum of 0.1 and 0.2")
    evidence.equal(f"{Decimal(total.item()):.9f}", "0.300000012", what="the sum to nine digits")
    check_encoded_numbers(impl, evidence, "float32", [0.3], bits.pattern(total).view(1).tolist())


@verifies(floats.DECIMAL_ROUNDING)
@given(digits=st.decimal_digits, places=st.decimal_places)
def test_a_decimal_fraction_is_stored_as_its_nearest_value(impl, evidence, digits, places):
    """Every format stores a decimal fraction as its nearest value, which is at most half an ulp away."""
    number, exact = digits / 10**places, Fraction(digits, 10**places)
    for name in filter(partial(hasattr, torch), LAYOUTS):
        dtype = dtype_of(name)
        nearest = int(bits.nearest(float64(number), dtype))
        check_encoded_numbers(impl, evidence, name, [number], [nearest])
        distance = abs(Fraction(bits.number(nearest, dtype)) - exact) / Fraction(bounds.rounding.ulp(number, dtype))
        evidence.at_most(float(distance), 0.5, what="the rounding error", unit="ulp", format=name)


@verifies(floats.FLOAT16_RANGE)
def test_every_float16_pattern_means_what_the_platform_says(impl, evidence):
    """All 65,536 float16 patterns decode as on the platform, and each magnitude splits, encodes and rounds so, too."""
    check_decode(impl, evidence, "float16", bits.every_pattern(torch.float16))
    check_fields(impl, evidence, "float16", alternating(2**16))
    check_encode(impl, evidence, "float16", alternating(2**16))
    check_rounding(impl, evidence, "float16", torch.arange(0, 0x7BFF, 31))
    check_ties(impl, evidence, "float16")


@verifies(floats.FLOAT16_RANGE)
def test_float16_has_5_exponent_bits(impl, evidence):
    """float16 has 5 exponent bits and a largest value of 65504, and what is too large for it becomes infinite."""
    check_figures(impl, evidence, "float16")
    check_overflow(impl, evidence, "float16")
    evidence.equal(torch.finfo(torch.float16).max, 65504.0, what="the largest value")


@verifies(floats.FLOAT16_RANGE)
def test_float16_underflows_and_overflows_early(impl, evidence, device):
    """Cast to float16, 1e-8 and powers of 2 below 2⁻²⁴ become 0, 65520 and powers of 2 from 2¹⁶ on infinity."""
    expected = [0.0 if power < 2**-24 else math.inf if power >= 2**16 else power for power in POWERS]
    numbers = [*POWERS, 1e-8, 65504.0, 65519.99, 65520.0, -65520.0]
    expected += [0.0, 65504.0, 65504.0, math.inf, -math.inf]
    evidence.equal(cast(numbers, torch.float16, device), float64(*expected), what="the numbers cast to float16")
    check_encoded_numbers(impl, evidence, "float16", numbers, bits.pattern(torch.tensor(expected).half()).tolist())


@verifies(floats.BFLOAT16_RANGE)
def test_every_bfloat16_pattern_means_what_the_platform_says(impl, evidence):
    """All 65,536 bfloat16 patterns decode as on the platform, and each magnitude splits, encodes and rounds so, too."""
    check_decode(impl, evidence, "bfloat16", bits.every_pattern(torch.bfloat16))
    check_fields(impl, evidence, "bfloat16", alternating(2**16))
    check_encode(impl, evidence, "bfloat16", alternating(2**16))
    check_rounding(impl, evidence, "bfloat16", torch.arange(0, 0x7F7F, 31))
    check_ties(impl, evidence, "bfloat16")


@verifies(floats.BFLOAT16_RANGE)
def test_bfloat16_has_float32s_exponents_and_less_resolution(impl, evidence):
    """bfloat16 has float32's 8 exponent bits, bias and smallest normal value, but an eps of 2⁻⁷."""
    check_figures(impl, evidence, "bfloat16")
    check_overflow(impl, evidence, "bfloat16")
    wide, narrow = (format_of(impl, evidence, name) for name in ("float32", "bfloat16"))
    for figure in ("exponent_bits", "bias", "smallest_normal"):
        evidence.equal(getattr(narrow, figure), getattr(wide, figure), what=f"bfloat16's {figure}")
    evidence.equal(torch.finfo(torch.bfloat16).eps, 2.0**-7, what="eps")


@verifies(floats.BFLOAT16_RANGE)
def test_in_bfloat16_small_and_large_numbers_survive(impl, evidence, device):
    """Cast to bfloat16, float32's 254 powers of 2 keep their value, and 1e-8 changes by at most half an ulp."""
    evidence.equal(cast(POWERS, torch.bfloat16, device), float64(*POWERS), what="the powers of 2 cast to bfloat16")
    half = bounds.rounding.ulp(1e-8, torch.bfloat16) / 2
    evidence.close(cast(1e-8, torch.bfloat16, device).item(), 1e-8, tolerance=half, what="1e-8 cast to bfloat16")
    check_encoded_numbers(impl, evidence, "bfloat16", POWERS, [power << 7 for power in range(1, 255)])


@refutes(floats.BFLOAT16_RANGE)
def test_bfloat16_ends_before_float32_does(impl, evidence, device):
    """Cast to bfloat16, float32's largest value becomes infinite and its smallest 0."""
    ends = [bits.number(LAYOUTS["float32"].largest, torch.float32), bits.number(1, torch.float32)]
    evidence.differs(torch.finfo(torch.bfloat16).max, ends[0], what="bfloat16's largest value")
    evidence.equal(
        cast(ends, torch.bfloat16, device),
        float64(math.inf, 0.0),
        what="float32's largest and smallest value in bfloat16",
    )
    check_encoded_numbers(impl, evidence, "bfloat16", ends, [0x7F80, 0])


@verifies(floats.FP8)
@pytest.mark.parametrize("name", FP8)
def test_every_fp8_pattern_means_what_the_platform_says(impl, evidence, name):
    """All 256 patterns decode, split and encode as on the platform, and so do numbers on and next to every midpoint."""
    for check in (check_decode, check_fields, check_encode):
        check(impl, evidence, name, bits.every_pattern(dtype_of(name)))
    check_rounding(impl, evidence, name, torch.arange(LAYOUTS[name].largest))
    check_figures(impl, evidence, name)
    check_overflow(impl, evidence, name)


@verifies(floats.FP8)
@pytest.mark.parametrize(("name", "largest", "infinite"), [("float8_e4m3fn", 448.0, 0), ("float8_e5m2", 57344.0, 2)])
def test_only_one_fp8_format_has_infinity(evidence, device, name, largest, infinite):
    """E4M3 ends at 448 without an infinity, E5M2 at 57344 with one, and a cast gives what the format allows."""
    dtype = dtype_of(name, device)
    values = bits.value(bits.every_pattern(dtype), dtype).double()
    evidence.equal(int(values.isinf().sum()), infinite, what="the infinities", unit="patterns")
    evidence.equal(torch.finfo(dtype).max, largest, what="the largest value")
    for number, found in zip(LARGE, cast(LARGE, dtype, device).tolist(), strict=True):
        nearest = int(bits.nearest(float64(abs(number)), dtype))
        patterns = (nearest,) if nearest <= LAYOUTS[name].largest else LAYOUTS[name].overflows
        allowed = {str(math.copysign(1, number) * bits.number(pattern, dtype)) for pattern in patterns}
        require_one_of(evidence, str(found), allowed, given=number)


@verifies(floats.MIXED_STAGES)
@given(depth=st.fine_bits)
def test_under_autocast_only_the_product_is_bfloat16(evidence, device, depth):
    """Under autocast a product and its gradient are bfloat16; the weight, its gradient and the step stay float32."""
    # bfloat16 rounds this number to 1, and float32 does not.
    fine = 1 + 2.0**-depth
    weight = torch.full((1, 1), fine, device=device, requires_grad=True)
    for number in (1.0, 2.0**-depth):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            product = torch.nn.functional.linear(torch.full((1, 1), number, device=device), weight)
        product.retain_grad()
        product.float().sum().backward()
        evidence.equal(product.detach(), torch.full_like(product, number, dtype=torch.bfloat16), what="the product")
        evidence.equal(product.grad, torch.ones_like(product, dtype=torch.bfloat16), what="the product's gradient")
    # The gradients are 1 and 2^−depth, so their sum is `fine` only if it is accumulated in float32.
    evidence.equal(
        weight.grad, torch.full_like(weight, fine, dtype=torch.float32), what="the weight's accumulated gradient"
    )
    # A step with learning rate 1/8 subtracts an eighth of the gradient, which equals the weight.
    updated = weight.detach().clone().sub_(weight.grad, alpha=0.125)
    evidence.equal(
        updated, torch.full_like(updated, 0.875 * fine, dtype=torch.float32), what="the weight after the step"
    )
