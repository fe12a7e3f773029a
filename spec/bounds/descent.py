"""Gradient descent: how far a training curve may lie from its law, by chance and by rounding."""

import functools
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext

import numpy as np
import torch
from torch import Tensor

from spec.bounds.chance import FALSE_ALARM, FloatArray
from spec.bounds.rounding import gamma, unit_roundoff

DIGITS = 120  # Central moments are tiny differences of large numbers.
CURVE = FALSE_ALARM / 10**5  # each of at most that many points of curves is passed with this probability
ORDER = 24  # Moments of a higher order would narrow a band by a tenth or less.


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
