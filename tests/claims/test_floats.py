"""§2.1.2: what the bits of a float mean, how numbers are rounded to it, and how far it reaches."""

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
EDGES = torch.tensor([0, 1, 0x7FFFFE, 0x7FFFFF, 0x800000, 0x3F7FFFFF, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000])
NANS = torch.tensor([0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF])
SPREAD = torch.arange(64) * 0x9E3779B9  # by the golden ratio of 2³²: spread evenly from wherever they begin
POWERS = [2.0**exponent for exponent in range(-126, 128)]  # one for each exponent of float32's normal values
TINY = (5e-324, -5e-324, 2.0**-1022, -(2.0**-1023))  # float64's smallest values, which round to 0 in every format
LARGE = (448.0, 464.0, 465.0, 1e4, math.inf, -1e4, 6e4, 6.2e4, -math.inf)


def dtype_of(name, device="cpu"):
    """Return torch's dtype of that name; skip the test where the platform has none."""
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
    known = impl.floats.FORMATS
    evidence.equal("present" if name in known else "missing", "present", unit="in FORMATS", format=name)
    return known[name]


def float64(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def cast(numbers, dtype, device):
    """Return what the platform makes of float32 numbers, in float64."""
    return torch.tensor(numbers, dtype=torch.float32, device=device).to(dtype).cpu().double()


def text(number):
    """Write an integer in hexadecimal, and anything else as it is."""
    return f"0x{number:X}" if isinstance(number, Integral) else number


def one_of(evidence, found, allowed, **inputs):
    """Require one of the allowed answers; names all of them where it is another."""
    expected = found if found in allowed else " or ".join(sorted(allowed))
    evidence.equal(found, expected, unit="after rounding", **inputs)


def agree(evidence, unit, name, inputs, measured, predicted):
    """Require each result to be the predicted one, and NaN to be NaN; tell the first that differs."""
    agreed, measured = 0, list(measured)
    if measured == predicted:  # the fast way
        return evidence.equal(len(measured), len(inputs), unit=unit, format=name)
    for number, found, expected in zip(inputs, measured, predicted, strict=True):
        if found != expected and (found == found or expected == expected):
            evidence.equal(text(found), text(expected), unit=f"among the {unit}", format=name, given=text(number))
        agreed += 1
    evidence.equal(agreed, len(inputs), unit=unit, format=name)


def reads(impl, evidence, name, patterns):
    """Require the platform's values for these patterns."""
    format, given = format_of(impl, evidence, name), patterns.tolist()
    decoded = (impl.floats.decode(pattern, format) for pattern in given)
    agree(evidence, "values", name, given, decoded, bits.value(patterns, dtype_of(name)).double().tolist())
    minus = math.copysign(1, impl.floats.decode(LAYOUTS[name].sign, format))
    evidence.equal(minus, -1.0, unit="as the sign of −0", format=name)


def splits(impl, evidence, name, patterns):
    """Require the sign, the exponent and the fraction that these patterns are made of."""
    format, given = format_of(impl, evidence, name), patterns.tolist()
    split = (impl.floats.fields(pattern, format) for pattern in given)
    found = ((fields.sign, fields.exponent, fields.fraction) for fields in split)
    expected = list(zip(*(field.tolist() for field in bits.fields(patterns, LAYOUTS[name])), strict=True))
    agree(evidence, "fields", name, given, found, expected)


def writes(impl, evidence, name, patterns):
    """Require these patterns, and that of −0, for their values, where those are finite."""
    values = bits.value(patterns, dtype_of(name)).double()
    finite = values.isfinite()
    numbers, expected = values[finite].tolist(), patterns[finite].tolist()
    writes_numbers(impl, evidence, name, [-0.0, *numbers], [LAYOUTS[name].sign, *expected])


def writes_numbers(impl, evidence, name, numbers, patterns):
    """Require these patterns for these numbers."""
    format = format_of(impl, evidence, name)
    encoded = (impl.floats.encode(number, format) for number in numbers)
    agree(evidence, "patterns", name, numbers, encoded, patterns)


def rounds(impl, evidence, name, patterns):
    """Require the nearest value, of two the even one, for the midpoints above these magnitudes and just beside them."""
    dtype = dtype_of(name)
    low, high = bits.value(torch.stack((patterns, patterns + 1)), dtype).double()
    middle = (low + high) / 2
    middle = middle[middle.isfinite()]
    above, below = middle.nextafter(float64(math.inf)), middle.nextafter(float64(0))
    numbers = torch.cat((middle, -above, below, -middle, float64(*TINY)))
    writes_numbers(impl, evidence, name, numbers.tolist(), bits.nearest(numbers, dtype).tolist())


def sends_ties_to_even(impl, evidence, name):
    """Require the even pattern for every midpoint, of which those above odd patterns are negative."""
    middle = bits.midpoints(dtype_of(name))[:-1].clone()
    middle[1::2] *= -1
    writes_numbers(impl, evidence, name, middle.tolist(), bits.nearest(middle, dtype_of(name)).tolist())


def overflows(impl, evidence, name):
    """Require the largest value for what rounds to it, and the format's own answer beyond; NaN stays NaN."""
    format, dtype, layout = format_of(impl, evidence, name), dtype_of(name), LAYOUTS[name]
    edge = (3 * bits.number(layout.largest, dtype) - bits.number(layout.largest - 1, dtype)) / 2
    below, above = math.nextafter(edge, 0), math.nextafter(edge, math.inf)
    for number in (below, edge, above, 2 * edge, 1e300, math.inf):
        fits = number < edge or (number == edge and layout.largest % 2 == 0)
        allowed = (layout.largest,) if fits else layout.overflows
        for signed, sign in ((number, 0), (-number, layout.sign)):
            found = text(impl.floats.encode(signed, format))
            one_of(evidence, found, {text(pattern ^ sign) for pattern in allowed}, format=name, given=signed)
    for nan in (math.nan, -math.nan):
        found = impl.floats.encode(nan, format)
        fits = isinstance(found, Integral) and 0 <= found < 2 * layout.sign
        answer = "NaN" if fits and math.isnan(bits.number(int(found), dtype)) else text(found)
        evidence.equal(answer, "NaN", unit="after rounding", format=name, given=nan)


def has_the_platforms_figures(impl, evidence, name):
    """Require the figures that the platform's memory shows, which are those that torch states."""
    format, dtype = format_of(impl, evidence, name), dtype_of(name)
    evidence.equal(getattr(format, "name", "nothing"), name, unit="as name", format=name)
    for figure, expected in bits.figures(dtype, LAYOUTS[name]).items():
        stated = getattr(torch.finfo(dtype), figure, expected)
        evidence.equal(stated, expected, unit=f"as torch's {figure}", format=name)
        evidence.equal(getattr(format, figure, "nothing"), expected, unit=f"as {figure}", format=name)


def in_turn(size):
    """Return one pattern for each magnitude of a 16-bit format: the even ones positive, the odd ones negative."""
    upper = torch.arange(size // 2)
    return upper + upper % 2 * size // 2


@verifies(floats.FLOAT32_LAYOUT)
def test_a_float32_has_1_and_8_and_23_bits(impl, evidence):
    """The format's figures are the platform's, 32 bits in 4 bytes; what is too large is infinite."""
    has_the_platforms_figures(impl, evidence, "float32")
    overflows(impl, evidence, "float32")
    evidence.equal(torch.ones(1, dtype=torch.float32).nbytes, 4, unit="bytes")


@verifies(floats.FLOAT32_LAYOUT)
@given(start=st.float32_patterns)
def test_float32_patterns_mean_what_the_platform_says(impl, evidence, start):
    """Patterns from the whole range have the platform's values and fields, and the numbers beside them its patterns."""
    patterns = (start + SPREAD) % 2**32
    for check in (reads, splits, writes):
        check(impl, evidence, "float32", patterns)
    rounds(impl, evidence, "float32", patterns[::2] % 0x7F7FFFFF)
    reads(impl, evidence, "float32", 0x7F800001 + patterns[::8] % 0x7FFFFF)  # NaN


@verifies(floats.FLOAT32_LAYOUT)
def test_the_first_and_last_float32_patterns_of_each_kind(impl, evidence):
    """Zero, subnormal and normal values, infinity and NaN begin and end where they do on the platform."""
    for check in (reads, splits, writes):
        check(impl, evidence, "float32", torch.cat((EDGES, NANS, EDGES + 2**31, NANS + 2**31)))
    rounds(impl, evidence, "float32", EDGES)


@verifies(floats.FLOAT32_LAYOUT)
@pytest.mark.parametrize("number", [int, np.uint32, np.int64])
def test_the_number_19303_0890(impl, evidence, number):
    """19303.0890 is stored as 0x4696CE2E, which is 19303.08984375; any type of integer is a pattern or a number."""
    evidence.equal(text(int(bits.pattern(torch.tensor(19303.0890)))), "0x4696CE2E", unit="in memory")
    writes_numbers(impl, evidence, "float32", [19303.0890, number(3)], [0x4696CE2E, 0x40400000])
    format, pattern = format_of(impl, evidence, "float32"), number(0x4696CE2E)
    evidence.equal(impl.floats.decode(pattern, format), 19303.08984375, unit="as the value")
    evidence.equal(tuple(impl.floats.fields(pattern, format)), (0, 141, 0x16CE2E), unit="as the fields")
    small = np.int8(3)
    evidence.equal(impl.floats.decode(small, format), 3 * 2.0**-149, unit="as the value of a subnormal")
    evidence.equal(tuple(impl.floats.fields(small, format)), (0, 0, 3), unit="as the fields of a subnormal")


@verifies(floats.FLOAT32_LAYOUT)
@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_no_pattern_or_number_is_refused(impl, evidence, name):
    """A pattern outside 0 … 2**bits − 1 is a ValueError, what is no number a TypeError; a fraction or 1 + 2j either."""
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
    """0.1 + 0.2 is not 0.3 but the float64 above it."""
    total = repr((float64(0.1) + float64(0.2)).item())
    evidence.differs(total, "0.3", what="the sum", terms=(0.1, 0.2))
    evidence.equal(total, repr(math.nextafter(0.3, 1)), what="the sum", terms=(0.1, 0.2))


@refutes(floats.DECIMAL_ROUNDING)
def test_in_float32_a_tenth_and_two_tenths_are_three_tenths(impl, evidence, device):
    """The float32 sum of 0.1 and 0.2 is the value that 0.3 is stored as, 0.300000012 to nine places."""
    tenth, fifth, both = (torch.tensor(number, dtype=torch.float32, device=device) for number in (0.1, 0.2, 0.3))
    total = tenth + fifth
    evidence.equal(total, both, unit="as the sum")
    evidence.equal(f"{Decimal(total.item()):.9f}", "0.300000012", unit="as the sum")
    writes_numbers(impl, evidence, "float32", [0.3], bits.pattern(total).view(1).tolist())


@verifies(floats.DECIMAL_ROUNDING)
@given(digits=st.decimal_digits, places=st.decimal_places)
def test_a_decimal_fraction_is_stored_as_its_nearest_value(impl, evidence, digits, places):
    """Every format stores digits/10^places as the nearest binary value, at most half an ulp away."""
    number, exact = digits / 10**places, Fraction(digits, 10**places)
    for name in filter(partial(hasattr, torch), LAYOUTS):
        dtype = dtype_of(name)
        nearest = int(bits.nearest(float64(number), dtype))
        writes_numbers(impl, evidence, name, [number], [nearest])
        distance = abs(Fraction(bits.number(nearest, dtype)) - exact) / Fraction(bounds.rounding.ulp(number, dtype))
        evidence.at_most(float(distance), 0.5, unit="ulp", format=name)


@verifies(floats.FLOAT16_RANGE)
def test_every_float16_pattern_means_what_the_platform_says(impl, evidence):
    """All 65,536 patterns have the platform's values; each magnitude has its fields, its pattern and its rounding."""
    reads(impl, evidence, "float16", bits.every_pattern(torch.float16))
    splits(impl, evidence, "float16", in_turn(2**16))
    writes(impl, evidence, "float16", in_turn(2**16))
    rounds(impl, evidence, "float16", torch.arange(0, 0x7BFF, 31))
    sends_ties_to_even(impl, evidence, "float16")


@verifies(floats.FLOAT16_RANGE)
def test_float16_has_5_exponent_bits(impl, evidence):
    """The format's figures are the platform's; what is too large is infinite."""
    has_the_platforms_figures(impl, evidence, "float16")
    overflows(impl, evidence, "float16")
    evidence.equal(torch.finfo(torch.float16).max, 65504.0, unit="as the largest value")


@verifies(floats.FLOAT16_RANGE)
def test_float16_underflows_and_overflows_early(impl, evidence, device):
    """Of float32's 254 powers of 2, those below 2⁻²⁴ become 0 and those from 2¹⁶ infinity; so do 1e-8 and 65520."""
    expected = [0.0 if power < 2**-24 else math.inf if power >= 2**16 else power for power in POWERS]
    numbers = [*POWERS, 1e-8, 65504.0, 65519.99, 65520.0, -65520.0]
    expected += [0.0, 65504.0, 65504.0, math.inf, -math.inf]
    evidence.equal(cast(numbers, torch.float16, device), float64(*expected), unit="in float16")
    writes_numbers(impl, evidence, "float16", numbers, bits.pattern(torch.tensor(expected).half()).tolist())


@verifies(floats.BFLOAT16_RANGE)
def test_every_bfloat16_pattern_means_what_the_platform_says(impl, evidence):
    """All 65,536 patterns have the platform's values; each magnitude has its fields, its pattern and its rounding."""
    reads(impl, evidence, "bfloat16", bits.every_pattern(torch.bfloat16))
    splits(impl, evidence, "bfloat16", in_turn(2**16))
    writes(impl, evidence, "bfloat16", in_turn(2**16))
    rounds(impl, evidence, "bfloat16", torch.arange(0, 0x7F7F, 31))
    sends_ties_to_even(impl, evidence, "bfloat16")


@verifies(floats.BFLOAT16_RANGE)
def test_bfloat16_has_float32s_exponents_and_less_resolution(impl, evidence):
    """8 exponent bits, the bias and the smallest normal value are float32's, eps is 2⁻⁷; beyond lies infinity."""
    has_the_platforms_figures(impl, evidence, "bfloat16")
    overflows(impl, evidence, "bfloat16")
    wide, narrow = (format_of(impl, evidence, name) for name in ("float32", "bfloat16"))
    for figure in ("exponent_bits", "bias", "smallest_normal"):
        evidence.equal(getattr(narrow, figure), getattr(wide, figure), unit=f"as {figure}")
    evidence.equal(torch.finfo(torch.bfloat16).eps, 2.0**-7, unit="as eps")


@verifies(floats.BFLOAT16_RANGE)
def test_in_bfloat16_small_and_large_numbers_survive(impl, evidence, device):
    """All of float32's 254 powers of 2 are bfloat16 values, and 1e-8 stays within half an ulp."""
    evidence.equal(cast(POWERS, torch.bfloat16, device), float64(*POWERS), unit="in bfloat16")
    half = bounds.rounding.ulp(1e-8, torch.bfloat16) / 2
    evidence.close(cast(1e-8, torch.bfloat16, device).item(), 1e-8, tolerance=half, unit="in bfloat16")
    writes_numbers(impl, evidence, "bfloat16", POWERS, [power << 7 for power in range(1, 255)])


@refutes(floats.BFLOAT16_RANGE)
def test_bfloat16_ends_before_float32_does(impl, evidence, device):
    """float32's largest value is infinite in bfloat16, and its smallest is 0."""
    ends = [bits.number(LAYOUTS["float32"].largest, torch.float32), bits.number(1, torch.float32)]
    evidence.differs(torch.finfo(torch.bfloat16).max, ends[0], unit="as the largest value")
    evidence.equal(cast(ends, torch.bfloat16, device), float64(math.inf, 0.0), unit="in bfloat16")
    writes_numbers(impl, evidence, "bfloat16", ends, [0x7F80, 0])


@verifies(floats.FP8)
@pytest.mark.parametrize("name", FP8)
def test_every_fp8_pattern_means_what_the_platform_says(impl, evidence, name):
    """All 256 patterns have the platform's values and fields, and all numbers on and beside midpoints its rounding."""
    for check in (reads, splits, writes):
        check(impl, evidence, name, bits.every_pattern(dtype_of(name)))
    rounds(impl, evidence, name, torch.arange(LAYOUTS[name].largest))
    has_the_platforms_figures(impl, evidence, name)
    overflows(impl, evidence, name)


@verifies(floats.FP8)
@pytest.mark.parametrize(("name", "largest", "infinite"), [("float8_e4m3fn", 448.0, 0), ("float8_e5m2", 57344.0, 2)])
def test_only_one_fp8_format_has_infinity(evidence, device, name, largest, infinite):
    """E4M3 ends at 448 without an infinity, E5M2 at 57344 with one; a cast gives what the format allows."""
    dtype = dtype_of(name, device)
    values = bits.value(bits.every_pattern(dtype), dtype).double()
    evidence.equal(int(values.isinf().sum()), infinite, unit="infinite patterns")
    evidence.equal(torch.finfo(dtype).max, largest, unit="as the largest value")
    for number, found in zip(LARGE, cast(LARGE, dtype, device).tolist(), strict=True):
        nearest = int(bits.nearest(float64(abs(number)), dtype))
        patterns = (nearest,) if nearest <= LAYOUTS[name].largest else LAYOUTS[name].overflows
        allowed = {str(math.copysign(1, number) * bits.number(pattern, dtype)) for pattern in patterns}
        one_of(evidence, str(found), allowed, given=number)


@verifies(floats.MIXED_STAGES)
@given(depth=st.fine_bits)
def test_under_autocast_only_the_product_is_bfloat16(evidence, device, depth):
    """A product under autocast rounds 1 + 2^−depth to 1 in bfloat16; the accumulated gradient and the step keep it."""
    fine = 1 + 2.0**-depth
    weight = torch.full((1, 1), fine, device=device, requires_grad=True)
    for number in (1.0, 2.0**-depth):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            product = torch.nn.functional.linear(torch.full((1, 1), number, device=device), weight)
        product.retain_grad()
        product.float().sum().backward()
        evidence.equal(product.detach(), torch.full_like(product, number, dtype=torch.bfloat16), unit="as the product")
        evidence.equal(product.grad, torch.ones_like(product, dtype=torch.bfloat16), unit="as the product's gradient")
    evidence.equal(weight.grad, torch.full_like(weight, fine, dtype=torch.float32), unit="as the weight's gradient")
    stepped = weight.detach().clone().sub_(weight.grad, alpha=0.125)
    evidence.equal(stepped, torch.full_like(stepped, 0.875 * fine, dtype=torch.float32), unit="as the stepped weight")
