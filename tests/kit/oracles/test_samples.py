"""The statistical bounds hold where the exact probability is known, and tell wrong samples from right ones."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch

from spec import bounds
from spec.evidence import Evidence, EvidenceError
from spec.oracles import samples

RARELY = bounds.chance.FALSE_ALARM / bounds.chance.STATISTICS  # how often a statistic may pass its bound


@pytest.fixture
def evidence():
    """Give an evidence that judges as in a test."""
    evidence = Evidence()
    with evidence.running("kit.samples", "", {}):
        yield evidence


def poisson_below(count, mean):
    """Return the probability of fewer than `count` events: that of χ² with 2·count degrees of freedom above 2·mean."""
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count))


@pytest.mark.parametrize("half", [1, 5, 50, 500])
def test_chi_square_is_bounded(half):
    """χ² of an even number of degrees of freedom passes the bound as rarely as is said, and not 10⁹ times more so."""
    degrees = 2 * half
    above = poisson_below(half, (degrees + bounds.chance.chi_square(degrees)) / 2)
    assert RARELY / 1e13 < above <= RARELY / 2


@pytest.mark.parametrize("bound", [0.25, 1.0, 3.0, 6.0])
def test_moments_of_the_truncated_normal(bound):
    """Variance and variance of the square agree with a numerical integration."""
    z = (np.arange(400_000) + 0.5) / 400_000 * bound
    density = np.exp(-(z**2) / 2)
    second, fourth = ((density * z**power).sum() / density.sum() for power in (2, 4))
    assert bounds.chance.truncated(bound) == pytest.approx((second, fourth - second**2), rel=1e-6)


def test_the_lectures_figure():
    """Truncation at three deviations leaves 0.9866 of the deviation."""
    assert math.sqrt(bounds.chance.truncated(3.0)[0]) == pytest.approx(0.98658, abs=1e-5)


def test_a_mean_is_bounded():
    """A normal mean passes its bound as rarely as is said, or less."""
    beyond = math.erfc(bounds.chance.normal_mean(100) * 10 / math.sqrt(2))
    assert RARELY / 1e3 < beyond <= RARELY


def test_events_are_bounded():
    """A rare event's count passes its bound as rarely as is said (binomial, summed exactly)."""
    for probability, count in ((1e-3, 1000), (0.1, 100), (1e-6, 10_000)):
        limit = math.floor(bounds.chance.often(probability, count))
        terms = (
            math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
            + k * math.log(probability) + (count - k) * math.log1p(-probability)
            for k in range(limit + 1, count + 1)
        )  # fmt: skip
        assert math.fsum(map(math.exp, terms)) <= RARELY


def test_the_largest_is_bounded():
    """All of n normal numbers lie below the lower end as rarely as is said, and one above the upper end."""
    low, high = bounds.chance.largest_normal(4096, torch.float64)
    inside = 2 * NormalDist().cdf(low) - 1
    assert RARELY / 1e3 < inside**4096 <= RARELY
    assert 4096 * math.erfc(high / math.sqrt(2)) <= RARELY


def test_the_density_of_chi_square():
    """No density of χ² exceeds what `some_square_is_off` takes for its largest value."""
    for length in (3, 10, 512):
        x = np.linspace(0.01, 3 * length, 100_000)
        logarithm = (length / 2 - 1) * np.log(x / 2) - x / 2 - math.lgamma(length / 2) - math.log(2)
        assert np.exp(logarithm).max() <= 1 / (2 * math.sqrt(math.pi * (length - 2)))


def test_the_coarse_source():
    """A radius from uniform numbers of 8 bits is as far off as `sampled` allows for bfloat16, or less."""
    steps = 2**8
    mean = np.mean(-np.log1p(-np.arange(steps) / steps))
    u = bounds.rounding.unit_roundoff(torch.bfloat16)
    assert 0 < 1 - mean <= u * math.log(2 * math.pi / u) / 2 + u * u


def test_correlations_are_found_by_hand():
    """The Fourier transform gives the largest sum over all shifts and mirror images that a loop gives."""
    signs = np.sign(np.random.default_rng(3).standard_normal((4, 6)))
    sums = []
    for down, right in np.ndindex(4, 6):
        turned = np.roll(signs[::-1, ::-1], (down, right), (0, 1))
        sums.append((signs * turned).sum())
        if down or right:
            sums.append((signs * np.roll(signs, (down, right), (0, 1))).sum())
    assert samples.largest_correlation(signs) == pytest.approx(max(map(abs, sums)) / 24)


def judge(evidence, values):
    samples.are_spread(evidence, values, torch.float64)
    samples.are_distributed(evidence, values, torch.float64)
    samples.are_independent(evidence, values, torch.float64)


def test_right_samples_pass_and_wrong_ones_do_not(evidence):
    """NumPy's normal numbers pass; the same ones shifted, scaled, bent or repeated do not.

    A deviation of 1.1 lies 8 of its own standard errors beyond the bound of 1.05: it is missed once in 10¹⁵ runs.
    """
    right = np.random.default_rng().standard_normal((100, 160))
    judge(evidence, right)
    for wrong in (right + 0.15, right * 1.1, right - 0.05 * right**3, np.abs(right), np.tile(right[:50], (2, 1))):
        with pytest.raises(EvidenceError):
            judge(evidence, wrong)


def test_some_sum_is_off():
    """A normal sum is nearer to 0 than `some_sum_is_off` with probability ½, and all of 64 with RARELY or less."""
    inside = math.erf(bounds.chance.some_sum_is_off(100) / 10 / math.sqrt(2))
    assert inside == pytest.approx(0.5)
    assert inside**64 <= RARELY


def test_adjusted_samples_and_sums_of_uniform_ones_are_told(evidence):
    """Draws made to have their mean or mean square exactly are told from right ones; so are sums of twelve uniform."""
    generator = torch.Generator().manual_seed(int(np.random.default_rng().integers(2**32)))

    def draw(*shape):
        return torch.randn(*shape, generator=generator)

    adjusted = (lambda: (x := draw(4, 32)) - x.mean(), lambda: (x := draw(4, 32)) / x.square().mean().sqrt())
    samples.are_not_adjusted(evidence, lambda: draw(4, 32), 1.0)
    for wrong in adjusted:
        with pytest.raises(EvidenceError):
            samples.are_not_adjusted(evidence, wrong, 1.0)
    samples.beyond(evidence, draw(2**20), 3.0)
    with pytest.raises(EvidenceError):
        samples.beyond(evidence, torch.rand(12, 2**20, generator=generator).sum(0) - 6, 3.0)
