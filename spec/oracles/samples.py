"""Checks of a sample of weights: its standard deviation, its distribution, its independence."""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from spec import bounds
from spec.bounds.chance import FloatArray
from spec.evidence import Evidence
from spec.oracles.streams import seeded

SHARES = torch.arange(1, 64, dtype=torch.float64) / 64


def standardised(weights: Tensor, deviation: float) -> FloatArray:
    """Return weights divided by a standard deviation, as float64."""
    return np.asarray(weights.detach().cpu().double()) / deviation


def root_mean_square(values: FloatArray) -> float:
    """Return √(mean of the squares)."""
    return math.sqrt(np.square(values).mean())


def distinct(values: FloatArray) -> int:
    """Count the different absolute values."""
    return int(np.count_nonzero(np.diff(np.sort(np.abs(values), axis=None)))) + 1


def largest_correlation(values: FloatArray) -> float:
    """Return the largest |correlation| of the signs with a shifted or mirrored copy of themselves (periodic)."""
    spectrum = np.fft.fft2(np.sign(values))
    shifted, mirrored = (np.fft.ifft2(square).real for square in (np.abs(spectrum) ** 2, spectrum**2))
    shifted[0, 0] = 0
    return float(max(np.abs(shifted).max(), np.abs(mirrored).max())) / values.size


def drawn_twice(evidence: Evidence, draw: Callable[..., Tensor], seed: int, device: torch.device) -> Tensor:
    """Draw twice from one generator, check that an equally seeded one repeats the first draw, and return both draws."""
    again = draw(generator=seeded(seed, device))
    generator = seeded(seed, device)
    first, second = draw(generator=generator), draw(generator=generator)
    evidence.equal(again.data, first.data, what="the weights from the same state of the generator")
    return torch.cat([first, second])


def are_independent(evidence: Evidence, values: FloatArray, dtype: torch.dtype) -> None:
    """Check that no part of the values repeats another part, whether unchanged, negated or mirrored."""
    correlation, limit = largest_correlation(values), bounds.chance.sign_correlation(values.size)
    evidence.at_most(correlation, limit, what="the signs' largest correlation with a shifted or mirrored copy")
    if torch.finfo(dtype).bits >= 32:
        least = values.size - bounds.chance.coincidences(values.size)
        evidence.at_least(distinct(values), least, what="the distinct absolute values", unit="values")


def are_spread(evidence: Evidence, values: FloatArray, dtype: torch.dtype, bound: float = math.inf) -> None:
    """Check the mean and the standard deviation against those of a standard normal distribution cut off at ±bound."""
    slack, count, variance = bounds.chance.sampled(dtype), values.size, 1.0
    mean, off = bounds.chance.normal_mean(count), bounds.chance.chi_square(count) / count
    if bound < math.inf:
        variance, of_squares = bounds.chance.truncated(bound)
        mean, off = (
            bounds.chance.bounded_mean(variance, bound, count),
            bounds.chance.bounded_mean(of_squares, bound**2, count),
        )
    deviation = math.sqrt(variance)
    tolerance = bounds.chance.spread(variance, off + slack * variance)
    what = "the standard deviation relative to the full normal's"
    evidence.close(root_mean_square(values), deviation, tolerance=tolerance, what=what)
    evidence.close(float(values.mean()), 0.0, tolerance=mean + slack * deviation, what="the mean")


def are_distributed(evidence: Evidence, values: FloatArray, dtype: torch.dtype, bound: float = math.inf) -> None:
    """Check the distribution of the values against a standard normal one that is cut off at ±bound."""
    inside = math.erf(bound / math.sqrt(2))
    quantiles = [NormalDist().inv_cdf((1 - inside) / 2 + share * inside) for share in SHARES.tolist()]
    below = torch.as_tensor(np.searchsorted(np.sort(values, axis=None), quantiles, side="right") / values.size)
    tolerance = bounds.chance.empirical_distribution(values.size) + bounds.chance.sampled(dtype)
    evidence.close(below, SHARES, tolerance=tolerance, what="the share of weights below each quantile")


def are_cut_off(evidence: Evidence, values: FloatArray, bound: float, dtype: torch.dtype) -> None:
    """Check that no value lies beyond the bound, and that no more lie on it than a normal density puts there."""
    rounding = bounds.rounding.gamma(4, dtype)
    evidence.at_most(
        float(np.abs(values).max()), bound * (1 + rounding), what="the largest weight", unit="standard deviations"
    )
    on_the_bound = int((np.abs(values) >= bound * (1 - rounding)).sum())
    limit = bounds.chance.on_the_bound(bound, values.size, dtype)
    evidence.at_most(on_the_bound, limit, what="the weights on the bound", unit="weights")


def has_tails(evidence: Evidence, weights: Tensor) -> None:
    """Check that the largest of standard normal weights is as large as chance makes it, and no larger."""
    low, high = bounds.chance.largest_normal(weights.numel(), weights.dtype)
    largest = float(weights.detach().abs().max())
    evidence.at_least(largest, low, what="the largest weight", count=weights.numel())
    evidence.at_most(largest, high, what="the largest weight", count=weights.numel())


def beyond(evidence: Evidence, weights: Tensor, deviations: float) -> None:
    """Check the share of standard normal weights that lie at least so many standard deviations from 0."""
    share, count = math.erfc(deviations / math.sqrt(2)), weights.numel()
    tolerance = bounds.chance.bounded_mean(share, 1.0, count) + bounds.chance.sampled(weights.dtype)
    measured = int((weights.detach().abs() >= deviations).sum()) / count
    evidence.close(measured, share, tolerance=tolerance, what=f"the share of weights beyond ±{deviations:g}")


def norms_vary(evidence: Evidence, values: FloatArray) -> None:
    """Check that the norms of the rows, and of the columns, of standard normal values differ as chance makes them."""
    for axis, side in ((0, "column"), (1, "row")):
        length = values.shape[axis]
        sums_scatter(evidence, np.square(values).sum(axis) - length, length, f"the {side}s")


def sums_scatter(evidence: Evidence, deviations: FloatArray, length: int, parts: str) -> None:
    """Check that sums of `length` squares scatter around `length`, given how far each of them lies from it.

    Among 64 independent sums at least one misses its expected value by the bound. Weights that were rescaled to a fixed
    norm fail here.
    """
    furthest = float(np.abs(deviations).max())
    what = f"the largest distance of the sums of squares of {parts} from their mean"
    evidence.at_least(furthest, bounds.chance.some_square_is_off(length), what=what)


def are_not_adjusted(evidence: Evidence, draw: Callable[[], Tensor], deviation: float) -> None:
    """Check that draws were not adjusted to have exactly the expected mean, or the expected mean square."""
    drawn = np.stack([standardised(draw(), deviation).ravel() for _ in range(64)])
    length = drawn.shape[1]
    sums_scatter(evidence, np.square(drawn).sum(1) - length, length, "the draws")
    furthest = float(np.abs(drawn.sum(1)).max())
    evidence.at_least(
        furthest, bounds.chance.some_sum_is_off(length), what="the largest distance of the draws' sums from 0"
    )
