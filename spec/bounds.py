"""Every tolerance, derived: rounding bounds by dtype and length, concentration bounds with their false-alarm rate."""

import math

import torch
from torch import Tensor

# ---- common ----


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


# ---- tensors ----
STEP = 2.0**-60  # of a difference quotient that is evaluated without rounding
CLEARLY = 2.0  # a ratio of times below this, and above its inverse, decides nothing


def central_difference(majorant: float, operations: int) -> float:
    """Bound a float64 gradient's distance from the exact central difference of a polynomial f, by STEP, at x.

    With M the polynomial f with every minus sign made plus and `majorant` = M(|x| + 1): the Taylor coefficients
    of f at x add up to at most that (Cauchy's estimate), so the difference is within STEP²·majorant of f′(x).
    Each term of the gradient meets fewer than 2ⁿ roundings on the way forward (`operations` = n, each combining
    two earlier results) and at most 3n on the way back (a product and two additions per operation), and the
    terms' absolute values add up to M′(|x|) ≤ majorant.
    """
    return (STEP**2 + gamma(2**operations + 3 * operations, torch.float64)) * majorant


# ---- operations ----
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
    cut = {"highest": 0.0, "high": 2.0**-10, "medium": 2.0**-7}[torch.get_float32_matmul_precision()]
    operands = [cut, cut] if dtype is torch.float32 else []
    return magnitude * (compounded(*operands, gamma(length, dtype)) + gamma(length, torch.float64))


# ---- dimensions ----
def mean(magnitude: Tensor, length: int, dtype: torch.dtype) -> Tensor:
    """Bound |computed − exact| for means of `length` values in any order, with `magnitude` the mean of |x|.

    The sum takes length − 1 roundings (Higham, §4.2), the division one, or two where it is a product with the
    rounded reciprocal.
    """
    return magnitude * gamma(length + 1, dtype)


# ---- floats ----
def ulp(number: float, dtype: torch.dtype) -> float:
    """Return the gap between neighbouring values of a dtype at a number: eps times its power of 2, or the least one."""
    info = torch.finfo(dtype)
    return max(2.0 ** (math.frexp(number)[1] - 1), info.smallest_normal) * info.eps


# ---- storage ----
# Ratios of times up to this, and down to its inverse, are not told apart from 1: the quartiles of two equal copies of
# 64 MiB, timed in turn, lay up to 1.2 apart on an idle machine. A busy one spreads them further, and never shifted
# them beyond this together (60 comparisons).
SAME_SPEED = 1.25
