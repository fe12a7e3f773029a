"""The rules of SGD and AdaGrad against decimal arithmetic and torch's own SGD, and how tight their tolerances are."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from spec import bounds
from spec.oracles.updates import ExpectedUpdate, as_float64

CPU = torch.device("cpu")
DTYPES = (torch.float32, torch.float64, torch.bfloat16)


def parameter_and_gradients(dtype, count=64, steps=5):
    """Return a parameter, and gradients from 1e-6 to 1e6."""
    random = np.random.default_rng(count)
    gradients = random.choice((-1, 1), (steps, count)) * 10 ** random.uniform(-6, 6, (steps, count))
    return nn.Parameter(torch.as_tensor(random.standard_normal(count)).to(dtype)), torch.as_tensor(gradients).to(dtype)


def test_the_rule_is_that_of_decimal_arithmetic():
    """Every element of five steps is lr·g/√(Σ g² + ε) to 50 digits, within the roundings of float64."""
    parameter, gradients = parameter_and_gradients(torch.float64)
    lr, eps = 0.1, 1e-5
    update = ExpectedUpdate(parameter, lr=lr, eps=eps)
    for step, gradient in enumerate(gradients, start=1):
        parameter.grad = gradient
        expected = update.step()
        for index, start in enumerate(parameter.tolist()):
            with localcontext(prec=50):
                squares = sum((Decimal(g) ** 2 for g in gradients[:step, index].tolist()), Decimal(0))
                move = Decimal(lr) * Decimal(gradient[index].item()) / (squares + Decimal(eps)).sqrt()
                off = Decimal(expected.parameter[index].item()) - (Decimal(start) - move)
                assert abs(off) <= Decimal(expected.tolerance[index].item())


@pytest.mark.parametrize("dtype", DTYPES)
def test_torchs_sgd_is_within_its_bound(dtype):
    """torch.optim.SGD stays within the tolerance, and the worse of two ways to round uses over a tenth of it."""
    parameter, gradients = parameter_and_gradients(dtype, count=2000)
    update = ExpectedUpdate(parameter, lr=0.1, eps=None)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    used, fused = [], []
    for gradient in gradients:
        parameter.grad = gradient
        once = [rounded_once(*pair, dtype) for pair in zip(parameter.tolist()[:50], gradient.tolist(), strict=False)]
        expected = update.step()
        optimizer.step()
        used.append(np.abs(as_float64(parameter) - expected.parameter) / expected.tolerance)
        fused.append(np.abs(once - expected.parameter[:50]) / expected.tolerance[:50])
    assert np.max(used) <= 1
    assert 0.1 < np.max([np.max(used), np.max(fused)]) <= 1


def rounded_once(parameter, gradient, dtype):
    """Return a parameter after a fused step: the product is not rounded, as with a fused multiply-add instruction."""
    return torch.tensor(float(Fraction(parameter) - Fraction(0.1) * Fraction(gradient)), dtype=dtype).item()


@pytest.mark.parametrize("dtype", DTYPES)
def test_adagrad_in_plain_torch_is_within_its_bound(dtype):
    """AdaGrad with a reciprocal root follows the rule, and rounding uses at least a twentieth of its tolerance."""
    parameter, gradients = parameter_and_gradients(dtype, count=2000)
    parameter = parameter.detach()
    update = ExpectedUpdate(parameter, lr=0.1)
    squares, used = torch.zeros_like(parameter), []
    for gradient in gradients:
        parameter.grad = gradient
        expected = update.step()
        squares += gradient * gradient
        parameter -= gradient * ((squares + 1e-5).rsqrt() * 0.1)
        used.append(np.abs(as_float64(parameter) - expected.parameter) / expected.tolerance)
        assert np.all(np.abs(as_float64(squares) - update.squares) <= update.squares * bounds.updates.summed(5, dtype))
    assert 0.05 < np.max(used) <= 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_epsilon_outside_the_root_is_far_out_of_bounds(dtype):
    """At g = 1e-3 a first step with ε outside the root is 0.99·lr, not 0.30·lr: over ten times the tolerance apart."""
    parameter = nn.Parameter(torch.zeros(1, dtype=dtype))
    parameter.grad = torch.full((1,), 1e-3, dtype=dtype)
    expected = ExpectedUpdate(parameter, lr=1.0).step()
    assert abs(-0.99 - expected.parameter[0]) > 10 * expected.tolerance[0]
    assert expected.parameter[0] == pytest.approx(-0.30, abs=0.01)


def test_what_has_no_gradient_stays():
    """Without a gradient, and where it is 0, the parameter has to stay exactly as it was."""
    parameter = nn.Parameter(torch.tensor([1.0, 2.0]))
    update = ExpectedUpdate(parameter)
    assert [each if each is None else each.tolist() for each in update.step()] == [[1.0, 2.0], [0.0, 0.0], None]
    parameter.grad = torch.tensor([0.0, 1.0])
    expected = update.step()
    assert (expected.parameter[0], expected.tolerance[0], update.steps) == (1.0, 0.0, 1)
    assert expected.tolerance[1] > 0
