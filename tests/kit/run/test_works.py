"""What the benchmarks say of their own work, against what torch is seen to compute, to read and to write."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from spec.evidence import EvidenceError
from spec.hardware import devices
from spec.hardware.promises import Promise
from spec.instruments import timer
from spec.instruments.flops import FlopCounter
from spec.run.benchmarks import Rate, Work
from tests.benchmarks import test_flops, test_throughput
from tests.kit.judging import running

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


class Meter:
    """Says that work takes a second, or what it is told to, of promises twice what that makes; one is half of it."""

    timed, budget = False, 1.0

    def __init__(self, exceeded=None, *, seconds=lambda name, work: 1.0, bandwidth=False):
        self.exceeded, self.seconds, self.bandwidth = exceeded, seconds, bandwidth
        self.promises, self.precisions = 0, []

    def promise(self, rate):
        self.promises += 1
        return Promise(rate * (0.5 if self.promises - 1 == self.exceeded else 2), "given", "")

    def rates(self, works, device, *, flush=None):
        self.precisions.append(torch.get_float32_matmul_precision())
        return {name: self.told(name, work, device) for name, work in works.items()}

    def rate(self, name, work, device):
        return self.rates({name: work}, device)[name]

    def told(self, name, work, device):
        seconds = self.seconds(name, work)
        peak = self.promise(work.flops / seconds) if work.flops else None
        bandwidth = self.promise(work.bytes / seconds) if self.bandwidth else None
        return Rate(name, device, work, timer.Timing(seconds, seconds, seconds, 7), peak, bandwidth, "")


def outcome(test, meter, **arguments):
    """Run a benchmark's test by a meter; return the first line of its failure, "undecided" or an empty string."""
    with running() as evidence:
        try:
            test(evidence=evidence, meter=meter, **arguments or {"device": CPU})
        except EvidenceError as error:
            return str(error).splitlines()[0]
        except pytest.skip.Exception as skipped:
            return "undecided" if "ambiguous" in str(skipped) else str(skipped)
    return ""


@pytest.mark.parametrize(
    ("test", "arguments", "promises"),
    [
        (test_throughput.test_products_reach_a_part_of_what_is_promised, {"device": CPU}, 4),
        (test_throughput.test_no_size_of_product_exceeds_the_promise, {"device": CPU, "dtype": torch.float32}, 9),
        (test_throughput.test_nothing_lies_above_the_roofline, {"device": CPU}, 11),
        (
            test_throughput.test_the_notes_product_reaches_a_part_of_what_is_promised,
            {"accelerator": CPU, "dtype": torch.bfloat16},
            1,
        ),
        (test_flops.test_a_step_of_training_takes_its_time, {"device": CPU}, 3),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_rate_is_held_to_its_promise(test, arguments, promises):
    """Whichever of them is exceeded, by a factor of two, the benchmark fails."""
    bandwidth = "roofline" in test.__name__
    meter = Meter(bandwidth=bandwidth)
    assert (outcome(test, meter, **arguments), meter.promises) == ("", promises)
    for place in range(promises):
        assert "measured" in outcome(test, Meter(place, bandwidth=bandwidth), **arguments)


def test_time_that_does_not_grow_fails():
    """8 times the FLOPs may take 8 times as long or 3 times, which decides nothing, and not the same time."""
    test = test_throughput.test_time_grows_with_the_flops
    assert outcome(test, Meter(seconds=lambda name, work: work.flops / 1e6)) == ""
    assert outcome(test, Meter(seconds=lambda name, work: work.flops ** (1 / 2))) == "undecided"
    assert "the growth in time for 8 times the FLOPs: measured 1, predicted at least 4" in outcome(test, Meter())


def test_values_that_matter_fail():
    """Random values may take as long as ones, three times as long decides nothing, and eight times fails."""
    test = test_throughput.test_the_values_hardly_matter
    found = [
        outcome(test, Meter(seconds=lambda name, work, times=times: times if "ran" in name else 1))
        for times in (1, 3, 8)
    ]
    assert found[:2] == ["", "undecided"]
    assert "the time of random values over that of ones: measured 8, predicted at most 2" in found[2]


def test_tf32_is_on_while_it_is_timed(monkeypatch):
    """And as it was afterwards."""
    works = test_throughput.square
    monkeypatch.setattr(test_throughput, "square", lambda rows, dtype, device: works(rows, dtype, CPU))
    meter, before = Meter(), torch.get_float32_matmul_precision()
    test = test_throughput.test_tf32_products_are_held_to_tf32s_promise
    assert outcome(test, meter, accelerator=SimpleNamespace(type="cuda")) == ""
    assert (meter.precisions, torch.get_float32_matmul_precision()) == (["high"], before)
    assert "measured MFU" in outcome(test, Meter(0), accelerator=SimpleNamespace(type="cuda"))
