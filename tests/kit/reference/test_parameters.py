"""What impl.parameters promises beyond the contract: no weights at all, torch's default device, any bound."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from impl import parameters

FUNCTIONS = (parameters.normal, parameters.scaled_normal, parameters.truncated_normal)


@pytest.mark.parametrize("draw", FUNCTIONS)
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)], ids=str)
def test_a_size_of_0_gives_a_parameter_without_elements(draw, sizes):
    """A parameter without elements has the shape and the dtype asked for, and requires grad."""
    weights = draw(*sizes, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert isinstance(weights, nn.Parameter)
    assert (tuple(weights.shape), weights.dtype, weights.requires_grad) == (sizes, torch.float64, True)


@pytest.mark.parametrize("draw", FUNCTIONS)
def test_the_device_defaults_to_torchs(draw):
    """Without a device the weights lie on the one that is torch's default at that time."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        assert draw(3, 2).device.type == "meta"
        assert draw(3, 2, device="cpu").device.type == "cpu"


def test_a_bound_may_be_any_number_above_0():
    """NumPy's numbers and integers are bounds, and an infinite one leaves the normal distribution whole."""
    for bound in (np.float32(2), np.int64(2), 2):
        generator = torch.Generator().manual_seed(1)
        assert parameters.truncated_normal(64, 64, bound=bound, generator=generator).abs().max() <= 2 / 8
    whole = parameters.truncated_normal(64, 4096, bound=math.inf, generator=torch.Generator().manual_seed(1))
    assert whole.isfinite().all()
    assert whole.abs().max() > 3 / 8
