"""What impl.precision promises beyond the claims: steps without gradients, and the edges of clipping."""

import pytest
import torch
from torch import nn

from impl.precision import mixed_precision_step

X, Y = torch.ones(2, 3), torch.zeros(2, 1)


class Network(nn.Module):
    """A backbone that learns, and a head of one weight."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.utils.skip_init(nn.Linear, 3, 1)
        nn.init.constant_(self.backbone.weight, 2.0)
        nn.init.constant_(self.backbone.bias, 0.0)
        self.head = nn.Parameter(torch.ones(1))

    def forward(self, x):
        """Return the backbone's output, times the head."""
        return self.backbone(x) * self.head


@pytest.mark.parametrize("scale", [None, 1.0, 16.0])
def test_the_heads_gradient_alone_is_clipped(scale):
    """Under SGD(lr=1) of the head alone and max_norm=1 it moves by 1, whatever gradients the backbone has."""
    model = Network()
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    mixed_precision_step(model, torch.optim.SGD([model.head], lr=1.0), X, Y, scaler=scaler, max_norm=1.0)
    assert model.head.item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("max_norm", [None, 1.0])
@pytest.mark.parametrize("scaled", [True, False])
def test_without_a_gradient_there_is_no_step(scaled, max_norm):
    """Where the optimizer's parameters get no gradient, the loss is returned, and parameters and scaler stay."""
    model, other = Network(), nn.Parameter(torch.ones(2))
    other.grad = torch.ones(2)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1) if scaled else None
    loss = mixed_precision_step(model, torch.optim.SGD([other], lr=1.0), X, Y, scaler=scaler, max_norm=max_norm)
    assert loss.item() == 36.0
    assert other.tolist() == [1.0, 1.0]
    assert not scaled or scaler.get_scale() == 4.0
    learning = torch.optim.SGD([model.head], lr=0.0)  # With a gradient the same scaler goes on.
    mixed_precision_step(model, learning, X, Y, scaler=scaler, max_norm=max_norm)
    assert not scaled or scaler.get_scale() == 8.0


def test_a_loss_that_depends_on_nothing_is_refused():
    """Under no_grad, and with a model that is frozen as a whole, torch says that nothing requires a gradient."""
    model = Network()
    with torch.no_grad(), pytest.raises(RuntimeError, match="does not require grad"):
        mixed_precision_step(model, torch.optim.SGD(model.parameters()), X, Y)
    model.requires_grad_(False)
    with pytest.raises(RuntimeError, match="does not require grad"):
        mixed_precision_step(model, torch.optim.SGD(model.parameters()), X, Y)


def test_a_largest_norm_of_0_moves_nothing():
    """0 is a norm, and not the absence of one."""
    model = Network()
    mixed_precision_step(model, torch.optim.SGD(model.parameters(), lr=1.0), X, Y, max_norm=0.0)
    assert model.head.item() == 1.0


def test_a_target_of_the_low_dtype_is_compared_in_float32():
    """The loss of 6 against a bfloat16 target of 0.0078125 is that of float32, which bfloat16 would round to 36."""
    target = torch.full((2, 1), 2.0**-7, dtype=torch.bfloat16)
    model = Network()
    loss = mixed_precision_step(model, torch.optim.SGD(model.parameters()), X, target)
    assert loss.dtype is torch.float32
    assert loss.item() == (6 - 2.0**-7) ** 2
