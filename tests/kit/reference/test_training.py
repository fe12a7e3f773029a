"""What impl.training promises beyond the contract: what it refuses, where it begins, and how often it asks."""

import math

import pytest
import torch

from impl.model import Cruncher
from impl.training import train
from spec.oracles.streams import restored

SIZES = {"dim": 3, "num_layers": 1, "batch_size": 2, "steps": 2, "lr": 0.1}


def batch(x=(2, 3), y=(2,)):
    """Return a get_batch that gives ones of these shapes."""
    return lambda batch_size: (torch.ones(x), torch.ones(y))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"batch_size": 0}, "at least one point"),
        ({"lr": -0.01}, "learning rate"),
        ({"lr": math.nan}, "learning rate"),
        ({"lr": math.inf}, "learning rate"),
    ],
    ids=str,
)
def test_a_run_that_cannot_be_is_refused(wrong, told):
    """No points, and rates that no step has."""
    with pytest.raises(ValueError, match=told):
        train(batch(), **SIZES | wrong)


@pytest.mark.parametrize("name", ["dim", "num_layers", "batch_size", "steps"])
def test_half_a_size_is_no_integer(name):
    """It raises TypeError."""
    with pytest.raises(TypeError):
        train(batch(), **SIZES | {name: 1.5})


@pytest.mark.parametrize(
    ("x", "y"), [((3, 3), (3,)), ((2, 3), (2, 1)), ((2, 3), (1,)), ((2, 3), ()), ((3,), (2,)), ((2, 4), (2,))]
)
def test_batches_of_another_shape_are_refused(x, y):
    """Also those that would broadcast against each other."""
    with pytest.raises(ValueError, match=r"shape|batch"):
        train(batch(x, y), **SIZES)


def test_a_batch_is_asked_for_once_per_step():
    """No batch is asked for ahead of time: the tensors may be the same ones, filled anew."""
    calls, x, y = [], torch.zeros(2, 3), torch.zeros(2)

    def get_batch(batch_size):
        calls.append(batch_size)
        y.fill_(len(calls))
        return x, y

    trained = train(get_batch, **SIZES | {"steps": 5})
    assert calls == [2] * 5
    assert trained.losses == [1.0, 4.0, 9.0, 16.0, 25.0]  # The inputs are 0, and so is each prediction.


def test_it_begins_where_torchs_stream_has_a_new_model_begin():
    """With no steps the model is the Cruncher that is made after the same seed."""
    with restored():
        torch.manual_seed(3)
        expected = Cruncher(3, 1)
        torch.manual_seed(3)
        trained = train(batch(), **SIZES | {"steps": 0})
    assert isinstance(trained.model, Cruncher)
    assert trained.losses == []
    assert all(map(torch.equal, trained.model.parameters(), expected.parameters()))
