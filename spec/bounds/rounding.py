"""Rounding: how far a computed value may lie from the exact one, by dtype and by the number of operations."""

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor


def gamma(roundings: int, dtype: torch.dtype) -> float:
    """Return γₙ = n·u/(1 − n·u), which bounds the relative error of n roundings in a row."""
    accumulated = roundings * unit_roundoff(dtype)
    return accumulated / (1 - accumulated)


def compounded(*errors: float) -> float:
    """Return the relative error of several in a row, Π(1 + e) − 1, without losing the small ones."""
    return math.expm1(sum(map(math.log1p, errors)))


def unit_roundoff(dtype: torch.dtype) -> float:
    """Return u, the largest relative error of rounding to the nearest value of a dtype: half of eps."""
    return torch.finfo(dtype).eps / 2


STEP = 2.0**-60  # The difference quotient is evaluated without rounding.


def central_difference(majorant: float, operations: int) -> float:
    """Bound a float64 gradient's distance from the exact central difference of a polynomial f, by STEP, at x.

    With M the polynomial f with every minus sign made plus and `majorant` = M(|x| + 1): the Taylor coefficients
    of f at x add up to at most that (Cauchy's estimate), so the difference is within STEP²·majorant of f′(x).
    Each term of the gradient meets fewer than 2ⁿ roundings on the way forward (`operations` = n, each combining
    two earlier results) and at most 3n on the way back (a product and two additions per operation), and the
    terms' absolute values add up to M′(|x|) ≤ majorant.
    """
    return (STEP**2 + gamma(2**operations + 3 * operations, torch.float64)) * majorant


ULPS = {"pow": (1, 16), "sqrt": (1, 3), "rsqrt": (2, 2), "+": (0.5, 0.5), "×": (0.5, 0.5), "÷": (1, 2.5)}


def elementwise(operation: str, exact: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor | float:
    """Bound |computed − exact| of an elementwise operation with results of `dtype`.

    On a CPU, IEEE 754 rounds + and × correctly (½ ulp). The vector libraries that torch takes √ from stay below
    1 ulp (Intel's is not correctly rounded), and so do pow(2) as the C library's pow and a division as a product
    with the rounded reciprocal; rsqrt is a hardware instruction (2 ulps), or √ and a reciprocal. Elsewhere the
    limits are those of the OpenCL specification, "ULP values for math instructions", full profile, float32;
    CUDA's are tighter. An ulp is at most 2u of the value. float16 and bfloat16 are computed directly or through
    float32, whose error then comes first; `exact` comes from at most two float64 roundings. Integers are exact.
    """
    if not dtype.is_floating_point:
        return 0.0
    ulps = ULPS[operation][device.type != "cpu"]
    stages = {dtype, torch.float32} if torch.finfo(dtype).bits < 32 else {dtype}
    errors = [2 * ulps * unit_roundoff(stage) for stage in stages]
    return exact.abs() * compounded(*errors, *[unit_roundoff(torch.float64)] * 2)


def dot_product(magnitude: Tensor, length: int, dtype: torch.dtype) -> Tensor:
    """Bound |computed − exact| for dot products of `length` terms in any order, with `magnitude` = |x| @ |w|.

    Products and sums are rounded to `dtype` at worst: γ(length)·|x|@|w| (Higham, Accuracy and Stability of
    Numerical Algorithms, §3.1). The terms of a float32 product may first be cut to TF32's 10 fraction bits or to
    bfloat16's 7 where torch's matmul precision allows it: an ulp of each operand. The exact side is summed in float64.
    """
    operands = [operand_cut(dtype)] * 2
    return magnitude * (compounded(*operands, gamma(length, dtype)) + gamma(length, torch.float64))


def operand_cut(dtype: torch.dtype) -> float:
    """Return what part of an operand of a product torch's matmul precision allows to be cut off."""
    cut = {"highest": 0.0, "high": 2.0**-10, "medium": 2.0**-7}[torch.get_float32_matmul_precision()]
    return cut if dtype is torch.float32 else 0.0


def mean(magnitude: Tensor, length: int, dtype: torch.dtype) -> Tensor:
    """Bound |computed − exact| for means of `length` values in any order, with `magnitude` the mean of |x|.

    The sum takes length − 1 roundings (Higham, §4.2), the division one, or two where it is a product with the
    rounded reciprocal.
    """
    return magnitude * gamma(length + 1, dtype)


def ulp(number: float, dtype: torch.dtype) -> float:
    """Return the gap between neighbouring values of a dtype at a number: eps times its power of 2, or the least one."""
    info = torch.finfo(dtype)
    return max(2.0 ** (math.frexp(number)[1] - 1), info.smallest_normal) * info.eps


def napkin(exact: Fraction) -> float:
    """Bound |computed − exact| of six factors, products and quotients of them, in float64 and in any order.

    Each factor is rounded once at most (a large integer), and each of the six operations; the exact side once.
    """
    return float(exact) * gamma(13, torch.float64)


def quotient(exact: Fraction) -> float:
    """Bound |computed − exact| of a quotient in float64: by division, by the reciprocal or by way of logarithms.

    Each operand is rounded once at most (a large integer) and the exact side once, a division takes one rounding,
    the reciprocal two. The logarithms of numbers between 2⁻³⁰ and 2⁸⁰ are below 56, and what they are off by, 56 u
    each and 77 u for their difference, the quotient is off by relatively.
    """
    return abs(float(exact)) * gamma(192, torch.float64)


def products(magnitude: Tensor, lengths: list[int], dtype: torch.dtype) -> Tensor:
    """Bound |computed − exact| for x multiplied through matrices in turn, with `magnitude` = |x|·|W₁|·|W₂|·….

    Each product is off by its `dot_product` bound, relative to the product of the absolute values (Higham, Accuracy
    and Stability of Numerical Algorithms, §3.5).
    """
    one = torch.ones((), dtype=torch.float64)
    return magnitude * compounded(*(float(dot_product(one, length, dtype)) for length in lengths))


def _stages(dtype: torch.dtype) -> tuple[torch.dtype, ...]:
    """Return the dtypes that a result is rounded to, one after the other."""
    return (dtype, torch.float32) if torch.finfo(dtype).bits < 32 else (dtype,)


@dataclass(frozen=True)
class Computed:
    """An exact tensor in float64, and how far from each of its values a computed one may be.

    Operations follow the computed values: the exact side is done in float64, whose rounding is far below the error.
    """

    exact: Tensor
    error: Tensor

    @classmethod
    def given(cls, values: Tensor) -> "Computed":
        """Return values that are known exactly."""
        return cls(values.double(), torch.zeros_like(values, dtype=torch.float64))

    @property
    def size(self) -> Tensor:
        """Bound the absolute value of what is computed."""
        return self.exact.abs() + self.error

    @property
    def T(self) -> "Computed":
        """Return the transposed matrix."""
        return Computed(self.exact.T, self.error.T)

    def rounded(self, dtype: torch.dtype, roundings: int = 1) -> "Computed":
        """Round so often to a dtype: γ of the value, and half the least value above 0 where it is subnormal."""
        return Computed(self.exact, self.error + self.size * gamma(roundings, dtype) + roundings * underflow(dtype))

    def cut(self, part: float) -> "Computed":
        """Cut a part of the value off."""
        return Computed(self.exact, self.error + self.size * part)

    def times(self, factor: float) -> "Computed":
        """Multiply by a number, without rounding."""
        return Computed(self.exact * factor, self.error * abs(factor))

    def plus(self, other: "Computed", dtype: torch.dtype) -> "Computed":
        """Add, and round the sum to a dtype."""
        return Computed(self.exact + other.exact, self.error + other.error).rounded(dtype)

    def matmul(self, other: "Computed", dtype: torch.dtype) -> "Computed":
        """Multiply matrices that are first rounded to a dtype, in which sums of any order are rounded at worst.

        |âb̂ − ab| ≤ (|a| + e)(|b| + f) − |a||b| for errors e and f; with γ(length + 1) for the sum and for the
        result's own rounding (Higham, §3.1), and an underflow for each term and each sum.
        """
        a, b = (x.rounded(dtype).cut(operand_cut(dtype)) for x in (self, other))
        length, size = a.exact.shape[-1], a.size @ b.size
        spread = size - a.exact.abs() @ b.exact.abs()
        rounding = size * gamma(length + 1, dtype) + 2 * length * underflow(dtype)
        return Computed(self.exact @ other.exact, spread + rounding)


def underflow(dtype: torch.dtype) -> float:
    """Return half the least value above 0 of a dtype, by which rounding a smaller value may move it."""
    info = torch.finfo(dtype)
    return info.smallest_normal * info.eps / 2


# A product's error is the sum of many rounding errors of half a unit at most. The unit falls by 8 from bfloat16 to
# float16 and by 2¹³ from there to float32. So do, about, the root mean squares over 1,024 products of one pair of
# matrices.
FALLS = 4.0
