"""The claims about accelerators, on a made-up one: its clock is ours, and it works while Python goes on."""

import time
from contextlib import contextmanager
from inspect import signature
from types import SimpleNamespace

import pytest
import torch

import impl.throughput as right
from spec.evidence import EvidenceError
from spec.hardware import devices
from spec.instruments import timer
from tests.claims import test_throughput as claims
from tests.kit.judging import running
from tests.kit.mutants import throughput as wrong

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
LAUNCH = 1e-5  # seconds of the host's per product
LEAST = 3e-6  # seconds of the device's
RATES = {("cpu", "float32"): 2e11, ("cuda", "float32"): 5e13, ("cuda", "bfloat16"): 7e14}  # FLOP/s
SYNCHRONIZING = [
    claims.test_the_time_is_the_devices_own,
    claims.test_what_was_queued_before_does_not_count,
    claims.test_a_slow_first_product_does_not_count,
]


class Machine:
    """A host and a device that does, one after the other, what it is given."""

    def __init__(self, rates=RATES, synchronous=False):
        self.now = 0.0
        self.free = 0.0  # when the device will have done everything
        self.delays = []  # of the next products' calls
        self.rates = rates
        self.synchronous = synchronous

    def work(self, seconds, kind):
        self.now += LAUNCH + (self.delays.pop(0) if self.delays else 0.0)
        self.free = max(self.now, self.free) + seconds
        if kind == "cpu" or self.synchronous:
            self.now = self.free

    def synchronize(self, device=None):
        self.now = max(self.now, self.free)


class Matrix:
    """The shape, dtype and device of a matrix; its products take time and have no values."""

    def __init__(self, machine, shape, device, dtype="float32"):
        self.machine, self.shape, self.device, self.dtype = machine, shape, device, dtype

    def dim(self):
        return 2

    def bfloat16(self):
        return Matrix(self.machine, self.shape, self.device, "bfloat16")

    def __matmul__(self, other):
        flops = 2 * self.shape[0] * self.shape[1] * other.shape[1]
        self.machine.work(LEAST + flops / self.machine.rates[self.device.type, self.dtype], self.device.type)
        return Matrix(self.machine, (self.shape[0], other.shape[1]), self.device, self.dtype)


class Event:
    """Remembers when the device comes to it."""

    def __init__(self, machine):
        self.machine, self.at = machine, 0.0

    def record(self, stream):
        self.at = max(self.machine.now, self.machine.free)

    def synchronize(self):
        self.machine.now = max(self.machine.now, self.at)

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


@pytest.fixture
def pretend(monkeypatch):
    """Give a machine, and let the clock, the device and the operands of the claims' tests be its own."""

    def install(**options):
        machine = Machine(**options)

        @contextmanager
        def pace(schedule):
            machine.delays = list(schedule)
            yield
            machine.delays = []

        def operands(rows, inner, columns, device, dtype=None):
            return Matrix(machine, (rows, inner), device), Matrix(machine, (inner, columns), device)

        def clock():
            return machine.now

        for owner, name in ((time, "perf_counter"), (right, "perf_counter"), (timer, "clock")):
            monkeypatch.setattr(owner, name, clock)
        monkeypatch.setattr(torch.accelerator, "synchronize", machine.synchronize)
        monkeypatch.setattr(torch.accelerator, "current_stream", lambda device: None)
        monkeypatch.setattr(torch, "Event", lambda device, enable_timing: Event(machine))
        monkeypatch.setattr(timer, "_has_events", lambda device: device.type != "cpu")
        monkeypatch.setattr(timer, "_scratch", lambda device: SimpleNamespace(zero_=lambda: machine.work(1e-4, "cuda")))
        monkeypatch.setattr(claims, "operands", operands)
        monkeypatch.setattr(claims, "Pace", pace)
        monkeypatch.setattr(devices, "multiplies_bfloat16", lambda device: True)
        return machine

    return install


def judge(test, time_matmul=right.time_matmul, **arguments):
    """Run a claim's test on the made-up device; return its message, an empty string where it passes."""
    implementation = SimpleNamespace(throughput=SimpleNamespace(time_matmul=time_matmul))
    given = {"impl": implementation} if "spec_impl" in signature(test).parameters else {}
    with running() as evidence:
        try:
            test(evidence=evidence, **given, **(arguments or {"accelerator": GPU}))
        except EvidenceError as error:
            return str(error).splitlines()[0]
    return ""


@pytest.mark.parametrize("test", SYNCHRONIZING, ids=lambda test: test.__name__)
def test_the_reference_waits_for_the_device(pretend, test):
    """The reference implementation passes where the device is asynchronous."""
    pretend()
    assert judge(test) == ""


@pytest.mark.parametrize(
    ("mutant", "caught"),
    [
        (wrong.does_not_wait, 0),
        (wrong.waits_once_the_clock_has_stopped, 0),
        (wrong.starts_on_a_busy_device, 1),
        (wrong.counts_the_first_product, 2),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_one_that_does_not_is_caught(pretend, mutant, caught):
    """Each way of not waiting fails the test that is made for it, in a message about times."""
    pretend()
    message = judge(SYNCHRONIZING[caught], mutant)
    assert "the time over the expected time" in message or "seconds" in message


@pytest.mark.parametrize(
    "twin",
    [wrong.reads_the_processors_counter, wrong.repeats_with_timeit],
    ids=lambda twin: twin.__name__,
)
def test_other_ways_of_waiting_are_accepted(pretend, monkeypatch, twin):
    """One interval for all the trials, and timeit with a warm-up, pass where the device is asynchronous."""
    machine = pretend()
    monkeypatch.setattr(time, "monotonic_ns", lambda: round(machine.now * 1e9))
    assert [judge(test, twin) for test in SYNCHRONIZING[:1] + SYNCHRONIZING[2:]] == ["", ""]


def test_an_asynchronous_device_is_told_from_a_synchronous_one(pretend):
    """A product whose call takes as long as its work fails the claim that it returns before."""
    pretend()
    assert judge(claims.test_a_product_returns_before_it_is_done) == ""
    pretend(synchronous=True)
    assert "the call's share of the time until it is done" in judge(claims.test_a_product_returns_before_it_is_done)


def test_all_that_the_host_does_counts_where_no_cache_is_flushed(pretend):
    """While the device writes its caches full, a host that goes ahead is not timed: benchmarks of it leave them."""
    machine = pretend()

    def batch():
        machine.now += 3e-4
        machine.work(1e-6, "cuda")

    taken = {flush: timer.sample({"batch": batch}, GPU, budget=0.1, flush=flush)["batch"] for flush in (True, False)}
    assert taken[True].median == pytest.approx(3e-4 - 1e-4 + LAUNCH + 1e-6)
    assert taken[False].median == pytest.approx(3e-4 + LAUNCH + 1e-6)


def test_timing_holds_on_an_accelerator(pretend):
    """The independent timer and the growth with B·D·K are those of the made-up device."""
    pretend()
    assert judge(claims.test_an_independent_timer_agrees, device=GPU) == ""
    assert judge(claims.test_the_time_grows_with_the_product, device=GPU) == ""


def test_rates_that_differ_are_told_from_equal_ones(pretend):
    """An accelerator 250 times as fast as the CPU is; one that is as fast ends undecided."""
    pretend()
    assert judge(claims.test_the_same_product_reaches_another_rate_elsewhere) == ""
    pretend(rates=dict.fromkeys(RATES, 2e11))
    with pytest.raises(pytest.skip.Exception, match="too close to call"):
        judge(claims.test_the_same_product_reaches_another_rate_elsewhere)


def test_bfloat16_is_held_to_be_faster(pretend):
    """14 times as fast passes, a tiny product is no faster, and half as fast fails."""
    pretend()
    assert judge(claims.test_bfloat16_is_faster_where_the_device_multiplies_it, device=GPU) == ""
    assert judge(claims.test_tiny_products_are_not_twice_as_fast_in_bfloat16, device=GPU) == ""
    pretend(rates=RATES | {("cuda", "bfloat16"): 2e13})
    message = judge(claims.test_bfloat16_is_faster_where_the_device_multiplies_it, device=GPU)
    assert "the speed of bfloat16 over float32: measured 0.400" in message
    assert "predicted at least 1" in message
