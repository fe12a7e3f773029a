"""Every tolerance, derived: rounding bounds by dtype and length, concentration bounds with their false-alarm rate."""

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

DIGITS = 120  # of moments, which all but cancel where what they belong to hardly varies
FloatArray = npt.NDArray[np.float64]

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
    operands = [operand_cut(dtype)] * 2
    return magnitude * (compounded(*operands, gamma(length, dtype)) + gamma(length, torch.float64))


def operand_cut(dtype: torch.dtype) -> float:
    """Return what part of an operand of a product torch's matmul precision allows to be cut off."""
    cut = {"highest": 0.0, "high": 2.0**-10, "medium": 2.0**-7}[torch.get_float32_matmul_precision()]
    return cut if dtype is torch.float32 else 0.0


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

# ---- parameters, model, randomness ----
FALSE_ALARM = 1e-9  # the probability that a run rejects anything right for want of luck
STATISTICS = 10**6  # at most so many statistics are judged in a run: 2,000 examples, fewer than 500 in each
RARE = math.log(2 * STATISTICS / FALSE_ALARM)  # either side of a statistic passes its bound with probability ≤ e^−RARE


def normal_mean(count: int) -> float:
    """Bound |mean| of `count` independent standard normal numbers.

    √count times the mean is standard normal, and P(z ≥ t) ≤ e^(−t²/2).
    """
    return math.sqrt(2 * RARE / count)


def chi_square(squares: float, largest: float = 1.0, *, alike: int = 1) -> float:
    """Bound |Σ a·z² − Σ a| for independent standard normal z, given Σ a² = `squares` and max |a| = `largest`.

    For a sum with as many degrees of freedom as there are a = 1, squares is their number. More than
    2·√(squares·x) + 2·largest·x is passed with probability at most e^(−x), and so is its negative: Laurent and
    Massart, Adaptive estimation of a quadratic functional by model selection, Annals of Statistics 28 (2000), Lemma 1;
    with a of both signs, Boucheron, Lugosi and Massart, Concentration Inequalities (2013), Example 2.12.
    `alike` is how many such sums the bound holds for at once.
    """
    rare = RARE + math.log(alike)
    return 2 * math.sqrt(squares * rare) + 2 * largest * rare


def bounded_mean(variance: float, largest: float, count: int) -> float:
    """Bound |mean − expected mean| of `count` independent numbers that are never more than `largest` off theirs.

    Bernstein: Boucheron, Lugosi and Massart, Concentration Inequalities (2013), Theorem 2.10 and the remark after it.
    """
    return math.sqrt(2 * variance * RARE / count) + largest * RARE / (3 * count)


def often(probability: float, count: int) -> float:
    """Return how often something of at most this probability happens at most, in `count` independent attempts.

    Bernstein's bound on the mean of as many zeros and ones.
    """
    return count * (probability + bounded_mean(probability, 1.0, count))


def empirical_distribution(count: int) -> float:
    """Bound |share of `count` independent draws up to t − probability of that|, at every t at once.

    Massart, The tight constant in the Dvoretzky–Kiefer–Wolfowitz inequality, Annals of Probability 18 (1990): more than
    e is passed with probability at most 2·e^(−2·count·e²).
    """
    return math.sqrt(RARE / (2 * count))


def largest_normal(count: int, dtype: torch.dtype) -> tuple[float, float]:
    """Return what the largest |z| of `count` independent standard normal numbers lies between.

    With Q the normal tail, all lie below t with probability (1 − 2Q(t))^count ≤ e^(−2·count·Q(t)), and one lies beyond
    with probability ≤ count·e^(−t²/2): the upper end is √(2·(ln count + RARE)), whence the growth with √(2·ln count).
    A coarse source (see `sampled`) may leave 2Q short by one of its steps, and the numbers are rounded.
    """
    tail = (RARE / count + unit_roundoff(dtype)) / 2
    low = NormalDist().inv_cdf(1 - tail) if tail < 0.5 else 0.0
    rounding = gamma(3, dtype)
    return low * (1 - rounding), math.sqrt(2 * (math.log(count) + RARE)) * (1 + rounding)


def spread(variance: float, deviation: float) -> float:
    """Bound |s − σ| of a standard deviation, given σ² and a bound on |s² − σ²|; the lower side is the wider one."""
    return math.sqrt(variance) - math.sqrt(max(variance - deviation, 0.0))


def sampled(dtype: torch.dtype) -> float:
    """Bound how far rounding and a coarse source move a relative square, a mean per deviation, or a distribution.

    A normal number may be drawn, scaled and divided in the dtype itself: three roundings, squared. torch 2.10 draws
    them from uniform ones of the dtype's own n = 1/u steps: the mean of −ln(1 − k/n), k < n, which the mean of the
    squares depends on (Box and Muller), is ln(nⁿ/n!)/n ≤ 1 and, by Stirling, at least 1 − ln(2πn)/2n − 1/n². The
    share of the draws up to any t moves by one step at most for that, and by less than γ(3) for the rounding.
    """
    u = unit_roundoff(dtype)
    return gamma(6, dtype) + u * math.log(2 * math.pi / u) / 2 + u * u


def truncated(bound: float) -> tuple[float, float]:
    """Return the variance of a standard normal number given that it lies within ±bound, and that of its square.

    By parts, the 2k-th moment is (2k − 1) times the one before, less 2·bound^(2k − 1)·φ(bound)/(2Φ(bound) − 1).
    """
    edge = 2 * NormalDist().pdf(bound) / math.erf(bound / math.sqrt(2))
    second = 1 - bound * edge
    fourth = 3 * second - bound**3 * edge
    return second, fourth - second**2


def on_the_bound(bound: float, count: int, dtype: torch.dtype) -> float:
    """Bound how many of `count` truncated normal numbers lie within rounding of ±bound, or beyond.

    The density falls with |z|, and a coarse source (see `sampled`) may put one of its steps there.
    """
    near = bound * (1 - gamma(4, dtype))
    density = 2 * NormalDist().pdf(near) / math.erf(bound / math.sqrt(2))
    return often((bound - near) * density + unit_roundoff(dtype), count)


def sign_correlation(count: int) -> float:
    """Bound |Σ sign·sign′|/count over all pairs that a shift or a mirror image of `count` independent signs makes.

    A shift's pairs form cycles, whose edges two colours, and a third one for odd cycles, split so that pairs of one
    colour are disjoint, hence independent: by Hoeffding, n of them add up to at most √(2n·x) but for e^(−x), and three
    such sums to √(6·count·x). A mirror image counts each pair twice, and up to four signs meet themselves.
    """
    return (math.sqrt(6 * count * (RARE + math.log(6 * count))) + 4) / count


def coincidences(count: int) -> float:
    """Bound how many of `count` independent weights have an absolute value that occurred before.

    Float32 samplers start from uniform numbers of 2²⁴ steps or, for either sign, 2²³, and rounding may merge two.
    """
    return often(count * 2.0**-22, count)


def some_square_is_off(length: int) -> float:
    """Return how far from `length` at least one of 64 sums of `length` squared standard normals lies.

    The density of χ² is at most 1/(2√(π(length − 2))), by Stirling at its mode: a sum lies this close with probability
    at most ½, and all of them with 2⁻⁶⁴.
    """
    return math.sqrt(math.pi * (length - 2)) / 2


def some_sum_is_off(length: int) -> float:
    """Return how far from 0 at least one of 64 sums of `length` standard normals lies, but for a chance of 2⁻⁶⁴."""
    return NormalDist().inv_cdf(0.75) * math.sqrt(length)


def outputs(gram: FloatArray, fan_out: int) -> float:
    """Bound the relative error of the root mean square of x @ w, given x @ xᵀ = `gram`, for standard normal w.

    Each of the fan_out columns has Σ y² = wᵀ·xᵀx·w, a sum of squares with the eigenvalues of xᵀx as weights, which
    are those of the Gram matrix: their sum is its trace, their squares' sum that of its squares. w and the product
    are in float32, or the operands in a coarser TF32.
    """
    trace, squares, largest = map(float, (gram.trace(), np.square(gram).sum(), np.linalg.norm(gram, 2)))
    off = chi_square(fan_out * squares, largest) / (fan_out * trace)
    return spread(1.0, off) + 2.0**-9


# ---- planning ----


def napkin(exact: Fraction) -> float:
    """Bound |computed − exact| of six factors, products and quotients of them, in float64 and in any order.

    Each factor is rounded once at most (a large integer), and each of the six operations; the exact side once.
    """
    return float(exact) * gamma(13, torch.float64)


# ---- comparing devices ----
# How far devices of one name lie apart on average: Sinha et al., Not All GPUs Are Created Equal, SC 2022.
ONE_NAME = 0.08


def lag(uncertainty: float, others: Sequence[float], apart: Sequence[float]) -> float:
    """Bound how much longer than the median of others a device takes when nothing is wrong with it, as a part of it.

    What the medians themselves leave open (half their 95% confidence intervals) adds to how far devices of one name
    lie apart: the larger of ONE_NAME and three standard deviations of the `others`, taken from the median of their
    distances `apart` from their median (1.4826 times that for normal ones), which a second slow one does not move.
    """
    return uncertainty + statistics.median(others) + max(ONE_NAME, 3 * 1.4826 * statistics.median(apart))


# ---- throughput ----
# A share of a known time that an implementation may deduct for its own loop and clock: these take microseconds, the
# known times are milliseconds, and a sleep never ends early.
OVERHEAD = 0.1
# What an implementation may spend beside the products, as a part of their time, which is milliseconds: half. Two
# trials counted as one have twice their mean.
BESIDE = 1.5
UNDECIDED = 4.0  # ratios of times beyond this, or below its inverse, fail; between it and CLEARLY they decide nothing


def quotient(exact: Fraction) -> float:
    """Bound |computed − exact| of a quotient in float64: by division, by the reciprocal or by way of logarithms.

    Each operand is rounded once at most (a large integer) and the exact side once, a division takes one rounding,
    the reciprocal two. The logarithms of numbers between 2⁻³⁰ and 2⁸⁰ are below 56, and what they are off by, 56 u
    each and 77 u for their difference, the quotient is off by relatively.
    """
    return abs(float(exact)) * gamma(192, torch.float64)


# ---- memory ----
def peak(measured: int, layers: int) -> float:
    """Bound how far a model of the largest number of bytes alive in a training step may be from the measured one.

    A model that knows every tensor is exact. It may leave out what has no size to model: the numbers that torch keeps
    (4 bytes of each weight's optimizer state) or makes in passing (12 bytes, and 4 of the loss's gradient). The 1% is
    what the claim promises; a matrix of a layer that is left out, or counted twice, is more: at most 5 layers have four
    tensors each, and the optimizer three besides, and the batch and activations are at most as large as 25 matrices.
    """
    return measured / 100 + 4 * (layers + 1) + 16


def products(magnitude: Tensor, lengths: list[int], dtype: torch.dtype) -> Tensor:
    """Bound |computed − exact| for x multiplied through matrices in turn, with `magnitude` = |x|·|W₁|·|W₂|·….

    Each product is off by its `dot_product` bound, relative to the product of the absolute values (Higham, Accuracy
    and Stability of Numerical Algorithms, §3.5).
    """
    one = torch.ones((), dtype=torch.float64)
    return magnitude * compounded(*(float(dot_product(one, length, dtype)) for length in lengths))


def spare(block: int, layers: int) -> int:
    """Bound what an accelerator's allocator gives a training step in addition, in blocks, for tensors up to 1 MiB.

    Less than a block for each tensor: at most six per weight (itself, its gradient, two states, a counter, a temporary
    one), two per layer (its output and that one's gradient), and ten of the batch, the loss and their gradients.
    """
    return block * (8 * (layers + 1) + 10)


# ---- optimizer ----


def moved(after: FloatArray, move: FloatArray, relative: float, dtype: torch.dtype) -> FloatArray:
    """Bound |computed − exact| of a parameter moved in place, given |p − move|, |move| and the move's relative error.

    The difference is rounded once in the dtype, and once in float64 on the exact side.
    """
    u = unit_roundoff(dtype) + unit_roundoff(torch.float64)
    off: FloatArray = (1 + u) * relative * move + u * after
    return off


def scaled(dtype: torch.dtype) -> float:
    """Bound the relative error of lr·g: lr is rounded to the dtype, then the product, or to a wider float32 first.

    The exact side takes one rounding in float64.
    """
    return compounded(gamma(3, dtype), unit_roundoff(torch.float64))


@functools.cache
def summed(steps: int, dtype: torch.dtype) -> float:
    """Bound the relative error of Σ g² over so many steps: no term is negative, each is rounded, and so is each sum.

    16-bit values may be rounded to float32 first, and the exact side is summed in float64.
    """
    return compounded(*(gamma(2 * steps, kind) for kind in (*_stages(dtype), torch.float64)))


@functools.cache
def adapted(steps: int, dtype: torch.dtype, device: torch.device) -> float:
    """Bound the relative error of lr·g/√(G + ε) after so many steps, whatever the order of product and quotient.

    G + ε is off by no more than its parts, `summed` and the roundings of ε and of the sum, and a root by no more than
    what is under it. The root may be sqrt, pow or rsqrt, whose limits are those of `elementwise`, and a quotient, a
    product and the rounding of lr follow. Each may be rounded to float32 first. The exact side takes four in float64.
    """
    place = device.type != "cpu"
    root = max(ULPS[name][place] for name in ("sqrt", "rsqrt", "pow"))
    ulps = math.ceil(2 * (root + ULPS["÷"][place]))
    return compounded(
        summed(steps, dtype), *(gamma(4 + ulps, kind) for kind in _stages(dtype)), gamma(4, torch.float64)
    )


def _stages(dtype: torch.dtype) -> tuple[torch.dtype, ...]:
    """Return the dtypes that a result is rounded to, one after the other."""
    return (dtype, torch.float32) if torch.finfo(dtype).bits < 32 else (dtype,)


# ---- training ----
CURVE = FALSE_ALARM / 10**5  # each of at most that many points of curves is passed with this probability
ORDER = 24  # of moments: higher ones would narrow a band by a tenth or less


@functools.cache
def mean_of_products(moments: tuple[Decimal, ...], factors: int, count: int) -> float:
    """Bound |mean/expected mean − 1| of `count` independent products of so many independent factors.

    The factors are alike and `moments` are their expected powers from the 0th on, to DIGITS digits. A product's powers
    are expected to be those of the factor, to the power of `factors`; the mean's cumulants are the product's, the n-th
    divided by count^(n − 1); and from its central moments μ follows the bound, by Markov's inequality:
    P(|mean − 1| ≥ e) ≤ μₙ/eⁿ for every even n. No tail is too heavy for that: where high moments are large, a low one
    gives the bound. It grows with the factors, as the products are a martingale once divided by what they are expected
    to be.
    """
    orders = range(len(moments))
    with localcontext(prec=DIGITS):
        raw = [(moment / moments[1] ** n) ** factors for n, moment in enumerate(moments)]
        central = [sum(math.comb(n, k) * (-1) ** (n - k) * raw[k] for k in range(n + 1)) for n in orders]
        cumulants = [Decimal(0)] * len(moments)
        for n in orders[2:]:
            cumulants[n] = central[n] - sum(
                math.comb(n - 1, k - 1) * cumulants[k] * central[n - k] for k in range(2, n - 1)
            )
        of_mean = [cumulant / Decimal(count) ** (n - 1) for n, cumulant in enumerate(cumulants)]
        mu = [Decimal(1), *[Decimal(0)] * (len(moments) - 1)]
        for n in orders[2:]:
            mu[n] = sum((math.comb(n - 1, k - 1) * of_mean[k] * mu[n - k] for k in range(2, n + 1)), Decimal(0))
        return min(float((mu[n] / Decimal(CURVE)) ** (Decimal(1) / n)) for n in orders[2::2])


def mean_curve(moments: tuple[Decimal, ...], steps: int, count: int) -> Tensor:
    """Bound |mean/expected mean − 1| of `count` runs after each of so many steps, `mean_of_products` step by step.

    For ten groups of steps: the bound at the end of one holds before, as it grows. Rounding in float64 adds less than
    1000 times the unit roundoff per step.
    """
    ends = [min(-(-step * 10 // steps) * steps // 10 + 1, steps) for step in range(steps + 1)]
    widths = {end: mean_of_products(moments, end, count) for end in set(ends)}
    return torch.tensor([widths[end] + gamma(1000 * end, torch.float64) for end in ends], dtype=torch.float64)


def product(moments: Sequence[Decimal], factors: int) -> float:
    """Bound a product of so many independent factors above 0, by Markov's inequality on its powers."""
    powers = ((moment**factors / Decimal(CURVE)) ** (Decimal(1) / n) for n, moment in enumerate(moments) if n)
    return float(min(powers))


def first_error(dims: int) -> float:
    """Bound |w − (0, 1, …, D − 1)|² of a head that is as it starts out, normal of deviation 1/√D, or nearer to 0.

    |w| is at most 3: of D·|w|², a χ² number of D degrees of freedom, that is 9 times what is expected, and it is passed
    with probability (9·e^(−8))^(D/2) at most (Chernoff), 10⁻²⁰ for D = 16.
    """
    truth = math.sqrt((dims - 1) * dims * (2 * dims - 1) / 6)
    return (truth + 3) ** 2


def magnified(inputs: Sequence[Tensor], layers: int, lr: float) -> float:
    """Bound by how much undoing a run of SGD magnifies a shift of the weights that it ends at.

    Undoing a step shifts them by (I − lr·H)⁻¹ times as much, with H the loss's second derivatives: 2·XᵀX/B for the head
    alone, no larger than 2·Σx²/B. With two layers, inputs within ±½ and rates up to 1/2000 it is at most 2 as long as
    H ≤ 1000. Weights of a width of 1 spread most: of 6·10⁷ networks H passed 100 with a share of 6e-5, 200 with 1e-6
    and 250 with 2e-7, a decade for every 2.4 of √H, which makes 1e-13 for 1000.
    """
    if layers:
        return 2.0 ** len(inputs)
    steepest = [2 * lr * float(x.double().square().sum()) / len(x) for x in inputs]
    return math.prod(1 / (1 - each) if each < 1 else math.inf for each in steepest)


def replayed(x: Tensor, y: Tensor, weights: Sequence[FloatArray], steps: int, magnified: float) -> float:
    """Bound |loss in float32 − loss found by undoing the steps in float64|, for weights near those a run begins with.

    Forward, backward and update of a step take at most n = 3·(Σ widths + points + layers) roundings in a row, each off
    by u of what the same operation makes of absolute values: of M, the mean of (|x|·|W₁|·… + |y|)², for the loss. They
    shift the weights of a step, hence the losses of other steps by as much again at most; undoing the steps magnifies
    the shift of the weights, see `magnified`. TF32's products need a coarser u.
    """
    magnitude = x.double().abs().numpy()
    for weight in weights:
        magnitude = magnitude @ np.abs(weight)
    largest = float(np.square(magnitude[:, 0] + y.double().abs().numpy()).mean())
    coarse = {"highest": unit_roundoff(torch.float32), "high": 2.0**-10, "medium": 2.0**-7}
    u = coarse[torch.get_float32_matmul_precision()]
    roundings = 3 * (sum(len(weight) for weight in weights) + len(y) + len(weights))
    return magnified * roundings * max(steps, 1) * u * largest


# ---- precision ----


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


def sgd(weight: Tensor, gradient: Computed, lr: float) -> Computed:
    """Return weight − lr·gradient with the rate, the product and the difference rounded to float32."""
    return Computed.given(weight).plus(gradient.times(-lr).rounded(torch.float32, 2), torch.float32)


def clipped(roundings: int) -> float:
    """Bound the relative error of a gradient that was scaled to a norm, in float32.

    The sum of `roundings` squares and its root, a quotient and a product; torch adds 1e-6 to the norm, which is at
    least 1 here.
    """
    return compounded(gamma(roundings + 5, torch.float32), 1e-6)


def stepped(weight: Tensor, update: Tensor, relative: float) -> Tensor:
    """Bound |computed − exact| of a float32 weight after an update that is known up to a relative error."""
    error = update.abs() * compounded(relative, unit_roundoff(torch.float32))
    return error + (weight.abs() + error) * unit_roundoff(torch.float32)


def additions(update: float, steps: int) -> float:
    """Bound |computed − exact| of a float32 weight of 1 after so many additions of an update, rounded itself once.

    The partial sums grow to 1 + steps·update, and each is rounded once.
    """
    u = unit_roundoff(torch.float32)
    return steps * update * u + gamma(steps, torch.float32) * (1 + steps * update)


# A product's error is the sum of many rounding errors of half a unit at most. The unit falls by 8 from bfloat16 to
# float16 and by 2¹³ from there to float32. So do, about, the root mean squares over 1,024 products of one pair of
# matrices.
FALLS = 4.0


# ---- data ----
def mapped(touched: int, ranges: int, page: int) -> int:
    """Bound the bytes that the kernel maps when a program touches so many `ranges` of a file, of `touched` bytes each.

    Touching a byte maps at most the aligned `page` bytes around it, and a range of n bytes meets at most
    ⌊(n − 1)/page⌋ + 2 of those.
    """
    return ranges * ((touched - 1) // page + 2) * page
