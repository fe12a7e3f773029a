"""SGD's law on a linear model, and runs undone: held against other ways to find the same.

Hold more runs against the law with `python -m tests.kit.oracles.test_descent 1000`.
"""

import math
import sys
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch

from spec import bounds
from spec.instruments import timer
from spec.oracles import steps
from spec.oracles.descent import Descent, chi_square_moments, loss_and_gradients, mistake, replay, undo
from spec.oracles.streams import seeded

SETTINGS = (Descent(0.01, 4, 16), Descent(0.05, 8, 4), Descent(0.02, 1, 8), Descent(0.1, 16, 12), Descent(0.002, 2, 32))


def outside(descent, runs, length, seed):
    """Return how far the mean of many runs strays in widths of its band, the last width, and both for one step."""
    with timer.one_thread():
        errors = descent.errors(runs, length, seed)
    law = descent.ratio ** torch.arange(length + 1, dtype=torch.float64)
    moments = descent.moments(bounds.descent.ORDER)
    widths = torch.tensor([bounds.descent.mean_of_products(moments, step, runs) for step in range(1, length + 1)])
    ratios = errors[1:] / errors[:-1]
    step = abs(float(ratios.mean()) / descent.ratio - 1), bounds.descent.mean_of_products(moments, 1, ratios.numel())
    return float((((errors.mean(1) / errors[0, 0]) / law - 1).abs()[1:] / widths).max()), float(widths[-1]), *step


@pytest.mark.parametrize("descent", [*SETTINGS, Descent(0.3, 2, 1), Descent(0.4, 3, 5)])
def test_the_first_moment_is_the_law(descent):
    """The expected ratio is 1 − 4·lr + 4·lr²·(B + D + 1)/B, and 1 at the learning rate where it turns."""
    assert float(descent.moments(3)[1]) == pytest.approx(descent.ratio, abs=1e-15)
    assert float(descent.moments(3)[0]) == 1
    assert descent._replace(lr=descent.limit).ratio == pytest.approx(1)


def test_the_moments_are_those_of_the_integral():
    """Integrated numerically over both χ² densities, powers of the ratio are expected to be the moments."""
    descent = Descent(0.2, 3, 5)
    axis = (np.arange(4000) + 0.5) / 20  # to 200: beyond lies e^(−100)

    def density(degrees):
        return axis ** (degrees / 2 - 1) * np.exp(-axis / 2) / (2 ** (degrees / 2) * math.gamma(degrees / 2)) / 20

    a = 2 * descent.lr / descent.points
    s, c = axis[:, None], axis[None, :]
    ratio = (1 - a * s) ** 2 + a * a * s * c
    for power, moment in enumerate(descent.moments(5)):
        assert density(3) @ ratio**power @ density(4) == pytest.approx(float(moment), rel=2e-3)


def test_chi_square_moments_are_known_ones():
    """With one degree of freedom: 1, 1, 3, 15, 105; with none, 0 but for the first."""
    assert chi_square_moments(1, 4) == [1, 1, 3, 15, 105]
    assert chi_square_moments(0, 2) == [1, 0, 0]


def test_a_mean_of_normal_numbers_is_bounded_as_it_is_known():
    """With a factor of 1 + z/100, z normal, the bound is the least over n of σ·((n − 1)‼/probability)^(1/n)."""
    count, orders = 50, range(bounds.descent.ORDER + 1)
    z = [0 if n % 2 else math.prod(range(1, n, 2)) for n in orders]
    with localcontext(prec=bounds.descent.DIGITS):
        moments = tuple(
            sum(math.comb(n, k) * z[k] / Decimal(100) ** k for k in range(n + 1)) * Decimal(1) for n in orders
        )
    known = min((z[n] / bounds.descent.CURVE) ** (1 / n) for n in orders[2::2]) / 100 / math.sqrt(count)
    assert bounds.descent.mean_of_products(moments, 1, count) == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("descent", SETTINGS)
def test_many_runs_keep_to_the_band(descent):
    """The mean of 100 runs stays within a whole band, and not within a hundredth of one."""
    farthest, _, step, width = outside(descent, 100, 20, 1)
    assert 0.01 < farthest < 1
    assert step < width


def test_gradients_are_those_of_autograd():
    """The chain rule written out gives the loss and gradients of torch."""
    generator = seeded(3)
    x, y = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((5, 4), (5,)))
    shapes = ((4, 4), (4, 4), (4, 1))
    weights = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
    _, loss = steps.forward(x, y, weights)
    loss.backward()
    found, gradients = loss_and_gradients(x.numpy(), y.numpy(), [weight.detach().numpy() for weight in weights])
    assert found == pytest.approx(loss.item())
    for weight, gradient in zip(weights, gradients, strict=True):
        np.testing.assert_allclose(gradient, weight.grad.numpy(), rtol=1e-12)


def test_steps_are_undone():
    """From the last weights and the batches come the losses and the first weights, of a run forward in float64."""
    generator = np.random.default_rng(0)
    first = [generator.normal(size=shape) / 2 for shape in ((3, 3), (3, 1))]
    batches = [(generator.normal(size=(2, 3)) / 2, generator.normal(size=2)) for _ in range(4)]
    weights, losses = first, []
    for x, y in batches:
        loss, gradients = loss_and_gradients(x, y, weights)
        losses.append(loss)
        weights = [weight - 0.01 * gradient for weight, gradient in zip(weights, gradients, strict=True)]
    told, began = replay(
        [tuple(map(torch.from_numpy, each)) for each in batches], list(map(torch.from_numpy, weights)), 0.01
    )
    np.testing.assert_allclose(told, losses, rtol=1e-12)
    for weight, other in zip(began, first, strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-12)


def test_what_cannot_be_undone_is_no_number():
    """At a rate far beyond the stable ones, or from weights that are NaN, there is no answer, and no error."""
    x, y = np.ones((2, 3)), np.ones(2)
    for weights, lr in (([np.full((3, 1), 0.5)], 10.0), ([np.full((3, 1), np.nan)], 0.01)):
        with np.errstate(all="ignore"):
            assert np.isnan(undo(x, y, weights, lr)[0]).all()


if __name__ == "__main__":
    for each in SETTINGS:
        farthest, last, step, width = outside(each, int(sys.argv[1]), 100, 7)
        print(f"{each}: at most {farthest:.2f} of the band, which is ±{last:.1%} of the law after 100 steps")
        print(f"    one step multiplies the error by {each.ratio:.5f}: measured {step:.3%} off, within ±{width:.3%}")


@pytest.mark.parametrize(
    ("factor", "stays", "expected"),
    [
        (1, 0, ""),
        (1, 1, "a forgotten zero_grad, so that gradients add up"),
        (5, 0, "a sum of squared errors where their mean is meant"),
        (-1, 0, "a step up the gradient"),
        (0.5, 0, "half the gradient"),
        (1.05, 0, ""),
        (1, 0.9, ""),
        (0, 0, ""),
    ],
)
def test_a_mistake_is_named_by_where_it_leads(factor, stays, expected):
    """torch's own gradients, on 5 points a batch, scaled and added up; what is nearly a mistake is none."""
    generator = seeded(1)
    weights = [torch.randn(4, 4, generator=generator), torch.randn(4, 1, generator=generator)]
    batches = [(torch.randn(5, 4, generator=generator), torch.randn(5, generator=generator)) for _ in range(4)]
    now = [weight.clone().requires_grad_() for weight in weights]
    summed = [torch.zeros_like(weight) for weight in weights]
    for x, y in batches:
        gradients = torch.autograd.grad(((x @ now[0] @ now[1])[:, 0] - y).square().mean(), now)
        summed = [stays * old + factor * new for old, new in zip(summed, gradients, strict=True)]
        now = [(w - 0.0005 * g).detach().requires_grad_() for w, g in zip(now, summed, strict=True)]
    assert mistake(batches, weights, now, 0.0005) == expected
    assert mistake(batches, weights, now[:1], 0.0005) == ""
