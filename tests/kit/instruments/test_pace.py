"""Products under control: counted and slowed down whichever function computes them, and nothing else is."""

import time

import pytest
import torch

from spec.instruments.pace import Pace

WAYS = {
    "@": lambda a, b: a @ b,
    "torch.matmul": torch.matmul,
    "torch.mm": torch.mm,
    "Tensor.mm": lambda a, b: a.mm(b),
    "out=": lambda a, b: torch.matmul(a, b, out=torch.empty(2, 4)),
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b),
    "linear": lambda a, b: torch.nn.functional.linear(a, b.t()),
    "bmm": lambda a, b: torch.bmm(a[None], b[None])[0],
    "addmm": lambda a, b: torch.addmm(torch.zeros(2, 4), a, b),
    "tensordot": lambda a, b: torch.tensordot(a, b, 1),
    "in place": lambda a, b: torch.zeros(2, 4).addmm_(a, b),
    "operator": torch.ops.aten.mm.default,
    "inference": lambda a, b: torch.inference_mode()(torch.matmul)(a, b),
}


@pytest.mark.parametrize("multiply", WAYS.values(), ids=WAYS)
def test_every_way_to_multiply_counts_once(multiply):
    """The product is what it is without, and counts as one."""
    a, b = torch.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(3, 4)
    with Pace([0.0]) as pace:
        c = multiply(a, b)
    assert torch.equal(c, multiply(a, b))
    assert pace.products == 1


def test_nothing_else_counts():
    """Sums, elementwise products and copies are no matrix products."""
    a = torch.ones(3, 3)
    with Pace([10.0]) as pace:
        (a * a + a).sum(), a.t().contiguous(), a.clone()
    assert pace.products == 0


def test_each_takes_as_long_as_it_is_told_to(monkeypatch):
    """The schedule is gone through over and over: 5 ms, none, 5 ms, none, 5 ms."""
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "perf_counter", lambda: sum(slept))
    a = torch.ones(2, 2)
    with Pace([0.005, 0.0]) as pace:
        for _ in range(5):
            a @ a
    assert slept == [0.005] * 3
    assert pace.taken == pytest.approx([0.005, 0.0, 0.005, 0.0, 0.005])


def test_the_seconds_are_the_machines_own():
    """By its clock a product that is slowed down by 5 ms takes at least those."""
    with Pace([0.005]) as pace:
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert pace.taken[0] >= 0.005


def test_it_ends_with_the_block():
    """Afterwards products are neither counted nor slowed down."""
    with Pace([1.0]) as pace:
        pass
    torch.ones(2, 2) @ torch.ones(2, 2)
    assert pace.products == 0
