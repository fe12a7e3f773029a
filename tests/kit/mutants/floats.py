"""Wrong implementations of the claims about floats, and unusual right ones."""

import contextlib
import functools
import math
import struct
import types
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch

from impl.floats import FORMATS, FloatFields, FloatFormat, decode, encode, fields
from spec.claims import floats
from tests.kit.overlay import mutant, twin

FIGURES = (
    *("name", "exponent_bits", "fraction_bits", "infinities"),
    *("bits", "bias", "eps", "smallest_normal", "smallest_subnormal", "max"),
)
backward, sub_ = torch.Tensor.backward, torch.Tensor.sub_
linear, finfo = torch.nn.functional.linear, torch.finfo
add, to = torch.Tensor.__add__, torch.Tensor.to


def altered(name, **figures):
    """Return FORMATS with one format's figures changed."""
    own = {figure: getattr(FORMATS[name], figure) for figure in FIGURES}
    return FORMATS | {name: types.SimpleNamespace(**own | figures)}


def magnitude_bits(format):
    """Return the pattern in which all bits but the sign are set."""
    return (1 << format.bits - 1) - 1


# ---- what a format is ----


@mutant("impl.floats.FORMATS", caught_by=floats.FLOAT32_LAYOUT, value=True)
def one_fraction_bit_counted_as_exponent():
    """Gives float32 9 exponent and 22 fraction bits."""
    return FORMATS | {"float32": FloatFormat("float32", 9, 22)}


@mutant("impl.floats.FORMATS", caught_by=floats.FLOAT32_LAYOUT, value=True)
def counts_the_hidden_bit():
    """Counts the leading 1, which is not stored, so that a float32 has 33 bits."""
    return altered("float32", bits=33)


@mutant("impl.floats.FORMATS", caught_by=(floats.FLOAT16_RANGE, floats.BFLOAT16_RANGE), value=True)
def bfloat16_and_float16_exchanged():
    """Exchanges the two 16-bit formats."""
    half, brain = FORMATS["float16"], FORMATS["bfloat16"]
    return FORMATS | {"float16": brain, "bfloat16": half}


@mutant("impl.floats.FORMATS", caught_by=floats.FP8, value=True)
def e4m3_and_e5m2_exchanged():
    """Gives E4M3 five exponent bits and E5M2 four."""
    return FORMATS | {
        "float8_e4m3fn": FloatFormat("float8_e4m3fn", 5, 2),
        "float8_e5m2": FloatFormat("float8_e5m2", 4, 3, infinities=False),
    }


@mutant("impl.floats.FORMATS", caught_by=floats.FP8, value=True)
def e4m3_as_ieee_would_have_it():
    """Gives E4M3 infinities, which leave 240 as its largest value."""
    return FORMATS | {"float8_e4m3fn": FloatFormat("float8_e4m3fn", 4, 3)}


@mutant("impl.floats.FORMATS", caught_by=floats.FP8, value=True)
def e4m3_of_another_vendor():
    """Gives E4M3 the bias 8 of the fnuz variant."""
    return altered("float8_e4m3fn", bias=8)


@mutant("impl.floats.FORMATS", caught_by=(floats.FP8, floats.DECIMAL_ROUNDING), value=True)
def has_never_heard_of_fp8():
    """Lacks the 8-bit formats."""
    return {name: format for name, format in FORMATS.items() if "float8" not in name}


@mutant("impl.floats.FORMATS", caught_by=(floats.FLOAT32_LAYOUT, floats.FP8), value=True)
def one_too_much_bias():
    """Uses the bias 2^(exponent bits − 1), without the − 1."""
    formats = {}
    for name in FORMATS:
        formats |= {name: altered(name, bias=FORMATS[name].bias + 1)[name]}
    return formats


@mutant("impl.floats.FORMATS", caught_by=floats.BFLOAT16_RANGE, value=True)
def eps_is_the_unit_roundoff():
    """States half the gap between 1 and the next value as eps: 2⁻⁸ for bfloat16."""
    return {name: altered(name, eps=format.eps / 2)[name] for name, format in FORMATS.items()}


@mutant("impl.floats.FORMATS", caught_by=(floats.FLOAT32_LAYOUT, floats.FLOAT16_RANGE), value=True)
def every_format_is_called_x():
    """Gives the formats a name that is not torch's."""
    return {name: types.SimpleNamespace(**vars(altered(name)[name]) | {"name": "x"}) for name in FORMATS}


@mutant("impl.floats.FORMATS", caught_by=floats.FLOAT16_RANGE, value=True)
def no_value_below_the_smallest_normal():
    """States the smallest normal value as the smallest of all."""
    return {name: altered(name, smallest_subnormal=format.smallest_normal)[name] for name, format in FORMATS.items()}


@mutant("impl.floats.FORMATS", caught_by=floats.BFLOAT16_RANGE, value=True)
def bfloat16_reaches_as_far_as_float32():
    """States float32's largest value as bfloat16's."""
    return altered("bfloat16", max=FORMATS["float32"].max)


@mutant("impl.floats.FORMATS", caught_by=floats.FLOAT16_RANGE, value=True)
def float16_reaches_to_65520():
    """States the first number that rounds to infinity as the largest value."""
    return altered("float16", max=65520.0)


@mutant("impl.floats.FORMATS", caught_by=floats.FP8, value=True)
def e4m3_reaches_480():
    """Counts E4M3's NaN as its largest value."""
    return altered("float8_e4m3fn", max=480.0)


# ---- from bits to values ----


@mutant("impl.floats.decode", caught_by=floats.FLOAT16_RANGE)
def flushes_subnormals(pattern, format):
    """Decodes every pattern with exponent 0 as zero, whatever the fraction."""
    sign, exponent, _ = fields(pattern, format)
    return decode(pattern, format) if exponent else math.copysign(0.0, -sign)


@mutant("impl.floats.decode", caught_by=floats.FP8)
def gives_subnormals_a_leading_one(pattern, format):
    """Decodes subnormals as if their fraction had 1 before the point."""
    sign, exponent, fraction = fields(pattern, format)
    magnitude = math.ldexp((1 << format.fraction_bits) + fraction, exponent - format.bias - format.fraction_bits)
    return decode(pattern, format) if exponent else -magnitude if sign else magnitude


@mutant("impl.floats.decode", caught_by=floats.FLOAT32_LAYOUT)
def subnormals_one_exponent_too_low(pattern, format):
    """Decodes subnormals with the exponent −bias, to half their value."""
    return decode(pattern, format) / (1 if fields(pattern, format).exponent else 2)


@mutant("impl.floats.decode", caught_by=floats.BFLOAT16_RANGE)
def loses_the_sign(pattern, format):
    """Ignores the sign bit."""
    return decode(pattern & magnitude_bits(format), format)


@mutant("impl.floats.decode", caught_by=(floats.FLOAT32_LAYOUT, floats.FLOAT16_RANGE))
def loses_the_sign_of_zero(pattern, format):
    """Decodes −0 as 0."""
    return decode(pattern, format) + 0.0


@mutant("impl.floats.decode", caught_by=floats.FLOAT16_RANGE)
def reads_twos_complement(pattern, format):
    """Decodes negative patterns as two's complements."""
    negative = pattern >> format.bits - 1
    return (
        -decode((1 << format.bits) - pattern & magnitude_bits(format), format) if negative else decode(pattern, format)
    )


@mutant("impl.floats.decode", caught_by=(floats.FP8, floats.BFLOAT16_RANGE))
def reads_nan_as_a_number(pattern, format):
    """Decodes patterns with an exponent of all ones as ordinary numbers."""
    sign, exponent, fraction = fields(pattern, format)
    if exponent == 0:
        return decode(pattern, format)
    magnitude = math.ldexp((1 << format.fraction_bits) + fraction, exponent - format.bias - format.fraction_bits)
    return -magnitude if sign else magnitude


@mutant("impl.floats.decode", caught_by=floats.FLOAT32_LAYOUT)
def takes_nan_for_infinity(pattern, format):
    """Decodes NaN as infinity."""
    value = decode(pattern, format)
    return math.inf if math.isnan(value) else value


@mutant("impl.floats.decode", caught_by=floats.FLOAT32_LAYOUT)
def decodes_any_integer(pattern, format):
    """Uses the low bits of a pattern that is too long instead of refusing it."""
    return decode(int(pattern) % (1 << format.bits), format)


@mutant("impl.floats.decode", caught_by=floats.FLOAT32_LAYOUT)
def takes_the_first_nan_for_infinity(pattern, format):
    """Decodes the pattern after infinity's as infinity."""
    first = format.name == "float32" and pattern & 0x7FFFFFFF == 0x7F800001
    return math.inf if first else decode(pattern, format)


@mutant("impl.floats.decode", caught_by=floats.FLOAT32_LAYOUT)
def cuts_off_a_fraction(pattern, format):
    """Accepts the pattern 1.5 as 1."""
    return decode(int(pattern) if isinstance(pattern, float) else pattern, format)


@mutant("impl.floats.decode", caught_by=floats.FLOAT32_LAYOUT)
def wraps_far_patterns(pattern, format):
    """Refuses the invalid patterns −1 and 2**bits only, and uses the low bits of all others."""
    refused_or_valid = not isinstance(pattern, int) or -1 <= pattern <= 1 << format.bits
    return decode(pattern if refused_or_valid else pattern % (1 << format.bits), format)


# ---- from values to bits ----


def encode_by(rounding):
    """Return an encode that rounds the number of steps with another function."""

    def encoded(value, format):
        if value == 0 or not math.isfinite(value):
            return encode(value, format)
        exponent = max(math.frexp(value)[1] - 1, 1 - format.bias)
        steps = rounding(math.ldexp(abs(value), format.fraction_bits - exponent))
        pattern = (exponent + format.bias - 1 << format.fraction_bits) + steps
        overflow = encode(math.inf, format)
        return encode(math.copysign(0.0, value), format) | min(pattern, overflow)

    return encoded


@mutant("impl.floats.encode", caught_by=(floats.DECIMAL_ROUNDING, floats.BFLOAT16_RANGE))
def truncates(value, format):
    """Rounds towards zero instead of to the nearest value."""
    return encode_by(math.floor)(value, format)


@mutant("impl.floats.encode", caught_by=(floats.DECIMAL_ROUNDING, floats.FP8))
def rounds_up(value, format):
    """Rounds away from zero instead of to the nearest value."""
    return encode_by(math.ceil)(value, format)


@mutant("impl.floats.encode", caught_by=(floats.FLOAT32_LAYOUT, floats.FLOAT16_RANGE))
def sends_ties_away_from_zero(value, format):
    """Rounds a midpoint to the larger magnitude instead of the even pattern."""
    return encode_by(lambda steps: math.floor(steps + 0.5) if steps % 1 == 0.5 else round(steps))(value, format)


@mutant("impl.floats.encode", caught_by=(floats.FP8, floats.BFLOAT16_RANGE))
def sends_ties_to_zero(value, format):
    """Rounds a midpoint to the smaller magnitude instead of the even pattern."""
    return encode_by(lambda steps: math.ceil(steps - 0.5) if steps % 1 == 0.5 else round(steps))(value, format)


@mutant("impl.floats.encode", caught_by=(floats.FLOAT16_RANGE, floats.BFLOAT16_RANGE, floats.FP8))
def rounds_twice(value, format):
    """Rounds to float32 first, which turns a number next to a midpoint into the midpoint."""
    with np.errstate(over="ignore"):
        return encode(float(np.float32(value)), format)


@mutant("impl.floats.encode", caught_by=(floats.FLOAT32_LAYOUT, floats.FP8))
def writes_no_subnormals(value, format):
    """Encodes everything below the smallest normal value as zero."""
    return encode(math.copysign(0.0, value) if abs(value) < format.smallest_normal else value, format)


@mutant("impl.floats.encode", caught_by=(floats.FLOAT32_LAYOUT, floats.DECIMAL_ROUNDING))
def ignores_the_sign(value, format):
    """Encodes the magnitude only."""
    return encode(abs(value), format)


@mutant("impl.floats.encode", caught_by=floats.FLOAT16_RANGE)
def writes_one_zero(value, format):
    """Encodes −0 as 0."""
    return encode(value + 0.0, format)


@mutant("impl.floats.encode", caught_by=(floats.FLOAT32_LAYOUT, floats.FLOAT16_RANGE))
def saturates(value, format):
    """Encodes what is too large as the largest value, where IEEE 754 has infinity."""
    return encode(max(-format.max, min(format.max, value)) if value == value else value, format)


@mutant("impl.floats.encode", caught_by=floats.BFLOAT16_RANGE)
def overflows_above_the_largest_value(value, format):
    """Encodes as infinity all that exceeds the largest value, even what rounds to it."""
    return encode(math.copysign(math.inf, value) if abs(value) > format.max else value, format)


@mutant("impl.floats.encode", caught_by=floats.FP8)
def overflows_to_nan_above_448(value, format):
    """Encodes as NaN all that exceeds E4M3's largest value, even 464, which rounds to it."""
    return encode(math.nan if abs(value) > format.max and not format.infinities else value, format)


@mutant("impl.floats.encode", caught_by=floats.FP8)
def wraps_around(value, format):
    """Lets what is too large carry over into the sign bit."""
    if not math.isfinite(value) or abs(value) < 2 * format.max:
        return encode(value, format)
    return encode(math.copysign(format.max, -value), format)


@mutant("impl.floats.encode", caught_by=(floats.FLOAT32_LAYOUT, floats.FP8))
def writes_nan_as_infinity(value, format):
    """Encodes NaN as infinity, or as the largest value if the format has no infinity."""
    top = encode(math.inf, format) if format.infinities else magnitude_bits(format) - 1
    return top if math.isnan(value) else encode(value, format)


@mutant("impl.floats.encode", caught_by=floats.FLOAT32_LAYOUT)
def reads_text(value, format):
    """Accepts the text of a number."""
    return encode(float(value), format)


@mutant("impl.floats.encode", caught_by=floats.FLOAT32_LAYOUT)
def drops_the_imaginary_part(value, format):
    """Accepts a complex number and encodes its real part."""
    return encode(value.real if isinstance(value, complex) else value, format)


@mutant("impl.floats.encode", caught_by=floats.BFLOAT16_RANGE)
def sends_one_tie_up(value, format):
    """Rounds a single midpoint, 1 + 2⁻⁸, up to the odd bfloat16 pattern."""
    return encode(value, format) + (format.name == "bfloat16" and value == 1 + 2**-8)


@mutant("impl.floats.encode", caught_by=(floats.FLOAT32_LAYOUT, floats.FP8))
def writes_float64s_subnormals_as_1(value, format):
    """Encodes float64's subnormals as the smallest value instead of 0."""
    return 1 if 0 < abs(value) < 2.0**-1022 else encode(value, format)


@mutant("impl.floats.encode", caught_by=(floats.FLOAT32_LAYOUT, floats.DECIMAL_ROUNDING))
def writes_the_bytes_in_reverse(value, format):
    """Encodes with the lowest byte first."""
    return int.from_bytes(encode(value, format).to_bytes(format.bits // 8, "big"), "little")


# ---- the fields ----


@mutant("impl.floats.fields", caught_by=floats.FP8)
def takes_the_bias_off(pattern, format):
    """Returns the exponent without the bias instead of the stored one."""
    sign, exponent, fraction = fields(pattern, format)
    return FloatFields(sign, exponent - format.bias, fraction)


@mutant("impl.floats.fields", caught_by=floats.FLOAT16_RANGE)
def adds_the_leading_one(pattern, format):
    """Includes the 1 before the point in the fraction."""
    sign, exponent, fraction = fields(pattern, format)
    return FloatFields(sign, exponent, fraction | (exponent > 0) << format.fraction_bits)


@mutant("impl.floats.fields", caught_by=(floats.FLOAT32_LAYOUT, floats.BFLOAT16_RANGE))
def splits_at_the_wrong_place(pattern, format):
    """Exchanges the widths of exponent and fraction."""
    fraction = pattern & (1 << format.exponent_bits) - 1
    exponent = pattern >> format.exponent_bits & (1 << format.fraction_bits) - 1
    return FloatFields(pattern >> format.bits - 1, exponent, fraction)


@mutant("impl.floats.fields", caught_by=floats.FLOAT32_LAYOUT)
def keeps_the_sign_in_the_exponent(pattern, format):
    """Forgets to mask the sign bit."""
    sign, _, fraction = fields(pattern, format)
    return FloatFields(sign, pattern >> format.fraction_bits, fraction)


# ---- another platform ----


@mutant("torch.Tensor.__add__", caught_by=floats.DECIMAL_ROUNDING)
def adds_in_decimal(self, other):
    """Computes the sum in decimal and rounds it to float64 once."""
    if self.numel() != 1:
        return add(self, other)
    return torch.full_like(self, float(Decimal(f"{self.item():.7g}") + Decimal(f"{other.item():.7g}")))


@mutant("torch.Tensor.to", caught_by=(floats.FLOAT16_RANGE, floats.FP8))
def casts_saturate_to_the_wrong_end(self, *args, **kwargs):
    """Clamps to half of the largest value in a cast."""
    if args and args[0] in (torch.float16, torch.float8_e4m3fn, torch.float8_e5m2):
        limit = finfo(args[0]).max / 2
        return to(self.clamp(-limit, limit), *args, **kwargs)
    return to(self, *args, **kwargs)


@mutant("torch.Tensor.to", caught_by=floats.BFLOAT16_RANGE)
def bfloat16_through_float16(self, *args, **kwargs):
    """Casts to bfloat16 by way of float16, which has less range."""
    return to(self.half(), *args, **kwargs) if args == (torch.bfloat16,) else to(self, *args, **kwargs)


@mutant("torch.autocast", caught_by=floats.MIXED_STAGES, value=True)
def autocast_without_effect():
    """Leaves everything in float32 under autocast."""
    return lambda device_type, dtype: contextlib.nullcontext()


@mutant("torch.nn.functional.linear", caught_by=floats.MIXED_STAGES)
def returns_to_float32(input, weight, bias=None):
    """Casts the product back to float32."""
    return linear(input, weight, bias).float()


@mutant("torch.Tensor.sub_", caught_by=floats.MIXED_STAGES)
def steps_in_bfloat16(self, other, alpha=1):
    """Rounds the weights to bfloat16 in a step."""
    return self.copy_(sub_(self.bfloat16(), other.bfloat16(), alpha=alpha))


@mutant("torch.Tensor.backward", caught_by=floats.MIXED_STAGES)
def accumulates_in_bfloat16(self, *args, **kwargs):
    """Rounds each accumulated gradient to bfloat16 in the backward pass."""
    nodes, leaves = [self.grad_fn], []
    while nodes:
        node = nodes.pop()
        nodes += [parent for parent, _ in node.next_functions if parent is not None]
        leaves += [node.variable] if hasattr(node, "variable") else []
    backward(self, *args, **kwargs)
    for leaf in leaves:
        leaf.grad.copy_(leaf.grad.bfloat16())


# ---- right but unusual ----


@twin("impl.floats.FORMATS", value=True)
def more_formats_and_numpys_figures():
    """Describes float64 and an 8-bit IEEE format too, and states figures as NumPy's numbers."""
    known = {}
    for name in FORMATS:
        figures = {figure: getattr(FORMATS[name], figure) for figure in FIGURES}
        as_numpy = {figure: np.float64(value) for figure, value in figures.items() if type(value) is float}
        known[name] = types.SimpleNamespace(**figures | as_numpy)
    extra = {"float64": FloatFormat("float64", 11, 52), "float8_e3m4": FloatFormat("float8_e3m4", 3, 4)}
    return types.MappingProxyType(extra | known)


@twin("impl.floats.encode")
def saturates_where_the_paper_permits_it(value, format):
    """Encodes what is too large for an 8-bit format as its largest value, infinity included."""
    narrow = format.bits == 8 and value == value
    return encode(max(-format.max, min(format.max, value)) if narrow else value, format)


@twin("impl.floats.encode")
def nan_with_a_sign_and_a_payload(value, format):
    """Encodes NaN with a negative sign, and with the fraction 1 if the format has infinities."""
    if value == value:
        return encode(value, format)
    first = encode(math.inf, format) + 1 if format.infinities else magnitude_bits(format)
    return first | 1 << format.bits - 1


@twin("impl.floats.encode")
def searches_in_fractions(value, format):
    """Finds the nearest value by bisection over the patterns, compares in fractions, and returns NumPy's integers."""
    if not math.isfinite(value):
        return np.int64(encode(value, format))
    low, high = 0, encode(format.max, format)
    target = abs(Fraction(value))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if decode(middle, format) <= target else (low, middle)
    halfway = (Fraction(decode(low, format)) + Fraction(decode(high, format))) / 2
    nearest = high if target > halfway or (target == halfway and low % 2) else low
    if target > Fraction(format.max):
        nearest = encode(float(target), format)
    return np.int64(nearest | encode(math.copysign(0.0, value), format))


@twin("impl.floats.decode")
def lets_struct_decode(pattern, format):
    """Decodes 16-bit and 32-bit formats from their bytes with the struct module."""
    pattern = fields(pattern, format) and int(pattern)
    code = {"float32": (">f", pattern, 4), "float16": (">e", pattern, 2), "bfloat16": (">f", pattern << 16, 4)}
    if format.name in code:
        form, whole, size = code[format.name]
        return struct.unpack(form, whole.to_bytes(size, "big"))[0]
    return np.float64(decode(pattern, format))


@twin("impl.floats.decode")
def float32_scalars(pattern, format):
    """Returns NumPy's float32, which holds every value of every format."""
    return np.float32(decode(pattern, format))


@twin("impl.floats.fields")
def cuts_the_digits(pattern, format):
    """Splits the text of the pattern's binary digits."""
    fields(pattern, format)
    digits = f"{int(pattern):0{format.bits}b}"
    one = 1 + format.exponent_bits
    return FloatFields(int(digits[0]), int(digits[1:one], 2), int(digits[one:], 2))


# ---- wrong only where formats have equal widths, or values are equal, or a cache is shared ----
@mutant("impl.floats.decode", caught_by=(floats.BFLOAT16_RANGE, floats.FP8))
def knows_formats_by_their_bits(pattern, format):
    """Decodes every format as the first one with the same number of bits."""
    return decode(pattern, next(each for each in FORMATS.values() if each.bits == format.bits))


@mutant("impl.floats.encode", caught_by=(floats.FLOAT32_LAYOUT, floats.FLOAT16_RANGE, floats.FP8), value=True)
def remembers_zero_once():
    """Remembers patterns by value and format, where −0 equals 0 and gets the same pattern."""
    return functools.cache(encode)


@mutant("impl.floats.encode", caught_by=(floats.DECIMAL_ROUNDING, floats.FP8), value=True)
def remembers_patterns_by_value():
    """Remembers patterns by value alone, whatever the format."""
    known = {}
    return lambda value, format: known.setdefault((value, math.copysign(1, value)), encode(value, format))


@mutant("impl.floats.fields", caught_by=floats.FP8, value=True)
def remembers_fields_by_pattern():
    """Remembers fields by pattern and number of bits, which two formats have in common."""
    known = {}
    return lambda pattern, format: known.setdefault((pattern, format.bits), fields(pattern, format))


@mutant("impl.floats.decode", caught_by=(floats.FLOAT32_LAYOUT, floats.FP8))
def takes_one_zero_field_for_two(pattern, format):
    """Decodes every pattern with fraction 0 as 0."""
    return decode(pattern, format) * bool(fields(pattern, format).fraction)


@mutant("impl.floats.FORMATS", caught_by=floats.BFLOAT16_RANGE, value=True)
def bfloat16_is_another_name_for_float32():
    """Lists float32's format under bfloat16's name, too."""
    return FORMATS | {"bfloat16": FORMATS["float32"]}


@twin("impl.floats.encode", value=True)
def remembers_patterns_with_their_sign():
    """Remembers patterns by the number's type, value and sign, and the format."""
    known = {}

    def remembered(value, format):
        key = (type(value), value, math.copysign(1, value), format)
        return known[key] if key in known else known.setdefault(key, encode(value, format))

    return remembered


@twin("impl.floats.FORMATS", value=True)
def knows_every_name_of_a_format():
    """Lists each format under IEEE's name too, the same object twice."""
    names = {"binary32": "float32", "binary16": "float16", "half": "float16"}
    return FORMATS | {other: FORMATS[name] for other, name in names.items()}


@twin("impl.floats.fields")
def returns_numpys_integers(pattern, format):
    """Returns the fields as NumPy's integers of different widths."""
    split = fields(pattern, format)
    return FloatFields(np.uint8(split.sign), np.int32(split.exponent), np.uint32(split.fraction))
