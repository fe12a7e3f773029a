"""Chance: concentration bounds for random samples, each with the rate of its false alarms."""

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import torch

from spec.bounds.rounding import gamma, unit_roundoff

FloatArray = npt.NDArray[np.float64]
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
