"""What impl.optimizer promises beyond the contract: what it refuses, and closures that need gradients."""

import copy
import math

import pytest
import torch
from torch import nn

from impl import optimizer

BOTH = pytest.mark.parametrize("make", [optimizer.SGD, optimizer.AdaGrad])


@BOTH
@pytest.mark.parametrize("value", [-0.01, -math.inf, math.nan, math.inf])
def test_options_that_no_step_has_are_refused(make, value):
    """A learning rate or ε that is negative, infinite or not a number, given for all or for a group."""
    parameter = nn.Parameter(torch.ones(1))
    for option in ("lr", "eps") if make is optimizer.AdaGrad else ("lr",):
        with pytest.raises(ValueError, match=option):
            make([parameter], **{option: value})
        with pytest.raises(ValueError, match=option):
            make([{"params": [parameter], option: value}])


@BOTH
@pytest.mark.parametrize(("kind", "dtype"), [("sparse", torch.float32), ("complex", torch.complex64)])
def test_sparse_and_complex_are_refused(make, kind, dtype):
    """The error says so, and the parameter stays."""
    parameter = nn.Parameter(torch.ones(3, dtype=dtype))
    parameter.grad = torch.ones_like(parameter).to_sparse() if kind == "sparse" else torch.ones_like(parameter)
    with pytest.raises((RuntimeError, TypeError, ValueError), match=kind):
        make([parameter]).step()
    assert torch.equal(parameter.detach(), torch.ones(3, dtype=dtype))


@BOTH
def test_a_closure_has_gradients(make):
    """It is called with gradients enabled, also where the caller has switched them off."""
    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    with torch.no_grad():
        make([parameter]).step(lambda: (parameter * 2).sum().backward())
    assert torch.equal(parameter.grad, torch.full((3,), 3.0))


@BOTH
def test_state_dict_and_copies_hold_options_and_groups(make):
    """Loaded into one of other options, a state_dict gives each group its own, and those that others have added."""
    parameters = [nn.Parameter(torch.ones(2)) for _ in range(3)]
    stepping = make([{"params": parameters[:1], "lr": 0.5, "note": "kept"}, {"params": parameters[1:]}], lr=0.25)
    torch.optim.lr_scheduler.ExponentialLR(stepping, gamma=0.5)
    other = make([{"params": parameters[:1]}, {"params": parameters[1:]}], lr=1.0)
    other.load_state_dict(stepping.state_dict())
    for each in (other, copy.deepcopy(stepping)):
        assert [group["lr"] for group in each.param_groups] == [0.5, 0.25]
        assert [group["initial_lr"] for group in each.param_groups] == [0.5, 0.25]
        assert [group.get("note") for group in each.param_groups] == ["kept", None]


@BOTH
def test_a_rate_may_be_a_tensor(make):
    """As with torch's own optimizers."""
    steps = []
    for lr in (0.5, torch.tensor(0.5)):
        parameter = nn.Parameter(torch.ones(3))
        parameter.grad = torch.full((3,), 2.0)
        make([parameter], lr=lr).step()
        steps.append(parameter.detach())
    assert torch.equal(*steps)
