"""What the benchmarks say of their own work, against what torch is seen to compute, to read and to write."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from spec.benchmarks import Work
from spec.hardware import devices
from spec.instruments import timer
from spec.instruments.flops import FlopCounter
from tests.benchmarks import test_flops, test_throughput

CPU = torch.device("cpu")
WORKS = {
    **{
        str(dtype): lambda dtype=dtype: test_throughput.multiply(3, 5, 7, dtype, CPU)
        for dtype in test_throughput.DTYPES
    },
    **{name: lambda name=name: test_throughput.streams(6, CPU)[name] for name in test_throughput.streams(6, CPU)},
    "float8": lambda: test_throughput.scaled(16, CPU),
}


class Traffic(TorchDispatchMode):
    """Adds up the bytes of the tensors that torch's operators are given, and of those that they return."""

    def __init__(self):
        super().__init__()
        self.bytes = 0
        self.dtypes = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            tensors = [each for each in tree_leaves((args, kwargs, result)) if isinstance(each, torch.Tensor)]
            places = {tensor.data_ptr(): tensor for tensor in tensors if tensor.dim()}  # a scale takes no memory
            self.bytes += sum(tensor.nbytes for tensor in places.values())
            self.dtypes.add(tensors[0].dtype)
        return result


@pytest.mark.parametrize("name", WORKS)
def test_each_operand_and_result_counts_once(name):
    """Bytes are those read and written, and FLOPs those that are computed, in the dtype that is told."""
    work = WORKS[name]()
    try:
        work.run()
    except (NotImplementedError, RuntimeError) as error:
        pytest.skip(f"not on this CPU: {error}")
    with Traffic() as traffic, FlopCounter() as counter:
        work.run()
    assert traffic.bytes == work.bytes
    if work.flops:
        assert counter.total == work.flops
        assert traffic.dtypes == {work.dtype}


@pytest.mark.parametrize("dtype", test_throughput.DTYPES, ids=str)
def test_products_are_of_random_values(dtype):
    """The power that a product draws, and so its speed, depends on them."""
    result = test_throughput.square(32, dtype, CPU).run()
    assert result.shape == (32, 32)
    assert len(result.unique()) > 32


def test_a_size_that_does_not_fit_is_told():
    """A product whose own run needs too much memory is timed at half its size, as its note says."""

    def make(side):
        def run():
            if side > 32:
                raise MemoryError

        return Work(run, shape=(side,))

    work = test_throughput.largest(make, 64)
    assert (work.shape, work.note) == ((32,), "out of memory at 64: measured at 32")
    assert test_throughput.largest(make, 32).note == ""


def test_a_size_is_chosen_by_how_time_grows(monkeypatch):
    """Where 256 rows take 1 ms, 512 take 8 ms and 1024 take 64 ms: more than 6% of a second, and not of two."""
    monkeypatch.setattr(timer, "measure", lambda *run, **options: timer.Timing(1e-3, 1e-3, 1e-3, 5, (1e-3,) * 5))
    monkeypatch.setattr(devices, "free_bytes", lambda device: None)
    assert test_throughput.affordable(torch.float32, CPU, 1.0) == 512
    assert test_throughput.affordable(torch.float32, CPU, 2.0) == 1024


def test_the_passes_of_a_step_are_what_is_told():
    """Forward, backward and the update: the products that torch dispatches for each."""
    for name, work in test_flops.trained(4, 6, 3, CPU).items():
        with FlopCounter() as counter:
            work.run()
        assert counter.matmul == work.flops, name
