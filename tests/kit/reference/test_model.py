"""What impl.model promises beyond the contract: layers without inputs or outputs, and what else a module can do."""

import pickle

import pytest
import torch
from torch import nn

from impl import model


def seeded():
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 3), (3, 0), (0, 0)])
def test_a_layer_may_have_no_inputs_or_outputs(inputs, outputs):
    """A sum of nothing is 0, and there may be no sums."""
    y = model.Linear(inputs, outputs, generator=seeded())(torch.ones(2, inputs))
    assert torch.equal(y, torch.zeros(2, outputs))


def test_networks_are_pickled_whole():
    """A network that was pickled gives the output that it gave before."""
    network, x = model.Cruncher(4, 2, generator=seeded()), torch.rand(3, 4, generator=seeded())
    again = pickle.loads(pickle.dumps(network))
    assert torch.equal(again(x), network(x))
    assert again.final.weight is not network.final.weight


def test_parameters_that_are_computed_count_as_those_they_are_computed_from():
    """A weight under weight normalisation is not a parameter: its direction and its lengths are."""
    layer = model.Linear(3, 5, generator=seeded())
    nn.utils.parametrizations.weight_norm(layer, dim=1)
    assert model.count_parameters(layer) == 3 * 5 + 5


@pytest.mark.parametrize("build", [model.Linear, model.Cruncher])
@pytest.mark.parametrize("sizes", [(2.0, 3), (3, 2.0), ("3", 2), (2, None)], ids=str)
def test_sizes_that_are_no_integers_are_a_type_error(build, sizes):
    """Floats raise TypeError, whole ones too, and so do text and nothing."""
    with pytest.raises(TypeError):
        build(*sizes, generator=seeded())
