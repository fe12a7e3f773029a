"""AdaGrad's step has at most 1.1 times as much to do as that of torch's own; seconds are the benchmarks' to tell."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import impl.optimizer
from tests.benchmarks.test_optimizer import MANY, SOME, square_parameters
from tests.kit.calls import calls

CPU = torch.device("cpu")
FIGURE = 1.1


class Traffic(TorchDispatchMode):
    """Counts the operators that torch runs, and the bytes of the tensors that go into them and come out."""

    def __init__(self):
        super().__init__()
        self.operators = self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.operators += 1
        self.bytes += sum(value.nbytes for value in (*args, result) if isinstance(value, torch.Tensor))
        return result


@pytest.mark.parametrize("size", [MANY, SOME], ids=["many", "some"])
def test_a_step_has_no_more_to_do_than_torchs(size):
    """Python calls, torch's operators and the bytes that they go through: none is above 1.1 times torch's."""
    measured = []
    for make in (impl.optimizer.AdaGrad, torch.optim.Adagrad):
        optimizer = make(square_parameters(*size, CPU), lr=0.01)
        called = calls(optimizer.step)
        with Traffic() as traffic:
            optimizer.step()
        measured.append((called, traffic.operators, traffic.bytes))
    for ours, theirs in zip(*measured, strict=True):
        assert ours <= FIGURE * theirs, measured
