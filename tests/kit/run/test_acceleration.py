"""The benchmark of an accelerator against the CPU, without an accelerator: on the CPU, and with made-up times."""

import pytest
import torch

from spec.evidence import Evidence, EvidenceError
from spec.instruments import timer
from tests.benchmarks import test_tensors as benchmark

CPU = torch.device("cpu")


@pytest.fixture
def evidence():
    evidence = Evidence()
    with evidence.running("tensors.acceleration", "", {}):
        yield evidence


def made_up(monkeypatch, gain):
    """Let a product of any size be gain(rows) times as fast on the accelerator."""
    monkeypatch.setattr(benchmark, "speedup", lambda rows, device: gain(rows))


def test_the_speedup_is_the_time_on_the_cpu_over_that_on_the_device(monkeypatch):
    """6 seconds here and 2 there are a speed-up of 3; both products are real ones."""
    times = {"here": 6.0, "there": 2.0}

    def measure(run, device, *, runs, warm_up):
        assert run().shape == (8, 8)
        _, median = times.popitem() if len(times) == 1 else ("here", times.pop("here"))
        return timer.Timing(median, median, median, runs)

    monkeypatch.setattr(timer, "measure", measure)
    assert benchmark.speedup(8, CPU) == 3.0


def test_the_timer_is_called_as_it_wants_to_be():
    """The CPU against itself, by the clock."""
    assert benchmark.speedup(8, CPU) > 0


def test_a_device_that_wins_large_and_loses_small_is_as_claimed(monkeypatch, evidence):
    """A gain of rows / 100 has its crossover at the first power of two above 100."""
    made_up(monkeypatch, lambda rows: rows / 100)
    benchmark.test_a_product_that_fills_the_device_is_faster_there(evidence, CPU)
    benchmark.test_a_tiny_product_is_slower_there(evidence, CPU)
    assert evidence.records["at most", "the crossover", "rows"].measured == 128


def test_a_device_that_always_wins_has_its_crossover_below_every_size(monkeypatch, evidence):
    """The crossover is at most the tiniest size, and the tiny product refutes nothing."""
    made_up(monkeypatch, lambda rows: 100.0)
    benchmark.test_a_product_that_fills_the_device_is_faster_there(evidence, CPU)
    assert evidence.records["at most", "the crossover", "rows"].measured == benchmark.TINY
    with pytest.raises(
        EvidenceError, match=r"the time on the device over that on the CPU: measured 0.01, predicted at least 2"
    ):
        benchmark.test_a_tiny_product_is_slower_there(evidence, CPU)


def test_a_device_that_always_loses_fails(monkeypatch, evidence):
    """Four times slower at every size is not what the claim says."""
    made_up(monkeypatch, lambda rows: 0.25)
    with pytest.raises(
        EvidenceError, match=r"the time on the CPU over that on the device: measured 0.25, predicted at least 2"
    ):
        benchmark.test_a_product_that_fills_the_device_is_faster_there(evidence, CPU)


@pytest.mark.parametrize("gain", [0.6, 1.0, 1.9])
def test_times_that_are_close_decide_nothing(monkeypatch, evidence, gain):
    """Within a factor of two either way the tests end as ambiguous."""
    made_up(monkeypatch, lambda rows: gain)
    for test in (
        benchmark.test_a_product_that_fills_the_device_is_faster_there,
        benchmark.test_a_tiny_product_is_slower_there,
    ):
        with pytest.raises(pytest.skip.Exception, match="ambiguous"):
            test(evidence, CPU)
