"""The rounding that is followed through a computation: never less than what happens, and not far more."""

import itertools

import pytest
import torch

from spec import bounds
from spec.bounds.rounding import Computed

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def drawn(seed, *shapes):
    """Return random float64 matrices."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def one_by_one(a, b, dtype, order):
    """Multiply matrices of a dtype with every product and every partial sum rounded to it, in an order of the terms."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=dtype)
    for k in order:
        total = total + a[:, k, None] * b[None, k, :]
    return total


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_order_of_a_product_leaves_the_bound(dtype):
    """A product of rounded operands lies within the bound, whatever order its terms are added in."""
    for seed in range(20):
        a, b = drawn(seed, (4, 5), (5, 3))
        followed = Computed.given(a).matmul(Computed.given(b), dtype)
        for order in itertools.islice(itertools.permutations(range(5)), 0, 120, 17):
            computed = one_by_one(a.to(dtype), b.to(dtype), dtype, order).double()
            assert bool(((computed - a @ b).abs() <= followed.error).all())
        assert torch.equal(followed.exact, a @ b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_bound_is_reached_by_a_tenth(dtype):
    """Operands that all round upwards by nearly half a unit reach a good part of the bound."""
    u = bounds.rounding.unit_roundoff(dtype)
    a = torch.full((1, 4), 1 + u * 1.01, dtype=torch.float64)  # rounds to 1 + 2u
    computed = one_by_one(a.to(dtype), a.T.to(dtype), dtype, range(4)).double()
    followed = Computed.given(a).matmul(Computed.given(a.T), dtype)
    reached = float((computed - a @ a.T).abs() / followed.error)
    assert 0.1 < reached <= 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_chains_stay_within_the_bound(dtype):
    """Sums, roundings and products of what has been computed before lie within what is followed."""
    for seed in range(50):
        x, w, b, v = drawn(seed, (3, 4), (4, 2), (2,), (2, 2))
        followed = Computed.given(x).matmul(Computed.given(w), dtype).plus(Computed.given(b).rounded(dtype), dtype)
        followed = followed.times(-0.5).matmul(Computed.given(v), dtype).T
        computed = ((x.to(dtype) @ w.to(dtype) + b.to(dtype)) * -0.5) @ v.to(dtype)
        exact = ((x @ w + b) * -0.5 @ v).T
        assert bool((followed.exact - exact).abs().max() < 1e-12)
        assert bool(((computed.double().T - exact).abs() <= followed.error).all())


def test_what_underflows_stays_within_the_bound():
    """Values below the least one of float16 become 0 or the least one."""
    values = torch.tensor([[1e-9, 2.0**-25, 2.0**-25 * 1.01, -3e-8]], dtype=torch.float64)
    followed = Computed.given(values).rounded(torch.float16)
    assert bool(((values.half().double() - values).abs() <= followed.error).all())
    assert float(followed.error.max()) < 2.0**-24


def test_a_step_of_sgd_is_rounded_thrice():
    """Weight minus rate times gradient in float32 lies within the bound, which is a few units."""
    for seed in range(50):
        weight, gradient = (tensor.float() for tensor in drawn(seed, (10,), (10,)))
        stepped = bounds.updates.sgd(weight, Computed.given(gradient), 0.3)
        computed = (weight - 0.3 * gradient).double()
        exact = weight.double() - 0.3 * gradient.double()
        assert bool(((computed - exact).abs() <= stepped.error).all())
        assert bool((stepped.error <= 4 * 2.0**-24 * (weight.abs() + gradient.abs())).all())
        loose = bounds.updates.stepped(exact, 0.3 * gradient.double(), 1e-7)
        assert bool(((computed - exact).abs() <= loose).all())


def test_a_thousand_additions_stay_within_the_bound():
    """Adding 1e-3 to 1 in float32 drifts by less than the bound."""
    weight = torch.ones(())
    for steps in range(1, 1001):
        weight += 1e-3
        assert abs(weight.item() - (1 + steps * 1e-3)) <= bounds.updates.additions(1e-3, steps)
    assert bounds.updates.additions(1e-3, 1000) < 2e-4


def test_a_matmul_precision_that_cuts_is_allowed_for():
    """Where torch may cut operands of float32 to TF32, the bound covers that; elsewhere it does not."""
    a, b = drawn(0, (4, 6), (6, 4))
    before = torch.get_float32_matmul_precision()
    errors = {}
    try:
        for precision in ("highest", "high", "medium"):
            torch.set_float32_matmul_precision(precision)
            errors[precision] = float(Computed.given(a).matmul(Computed.given(b), torch.float32).error.max())
    finally:
        torch.set_float32_matmul_precision(before)
    assert errors["highest"] < 1e-4 < errors["high"] < errors["medium"]
    cut = ((x.float().view(torch.int32) & ~0x1FFF).view(torch.float32).double() for x in (a, b))
    left, right = cut
    assert float((left @ right - a @ b).abs().max()) < errors["high"]


def test_a_clipped_gradient_stays_within_the_bound():
    """torch's clipping, which adds 1e-6 to the norm, is within the relative bound of the exact one."""
    for seed in range(50):
        (gradient,) = drawn(seed, (7,))
        gradient = gradient.float() + 3
        exact = gradient.double() * 0.5 / gradient.double().norm()
        parameter = torch.nn.Parameter(torch.zeros(7))
        parameter.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_(parameter, 0.5)
        assert bool(((parameter.grad.double() - exact).abs() <= exact.abs() * bounds.updates.clipped(7)).all())
