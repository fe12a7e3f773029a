"""The timer: against a clock that we turn ourselves, and against sleeps of known length."""

import time

import pytest
import torch

from spec.instruments import timer

CPU = torch.device("cpu")


class Clock:
    """Stands still but for what the runs add to it."""

    def __init__(self):
        self.now = 0.0
        self.order = []

    def __call__(self):
        return self.now

    def run(self, name, *lengths):
        """Return a run whose turns take these seconds, then the last for ever."""
        left = list(lengths)

        def spend():
            self.order.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return spend


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timer, "clock", clock)
    return clock


def test_the_median_and_the_quartiles_are_those_of_the_runs(clock):
    """Seconds 1, 2, 3, 4, 100 have the median 3 and the quartiles 2 and 4, in whatever order they come."""
    timing = timer.measure(clock.run("a", 100.0, 2.0, 4.0, 1.0, 3.0), CPU, runs=5, warm_up=0)
    assert timing == timer.Timing(median=3.0, low=2.0, high=4.0, runs=5)


def test_the_warm_up_does_not_count(clock):
    """Two slow first runs leave no trace."""
    assert timer.measure(clock.run("a", 50.0, 50.0, 1.0), CPU, runs=3, warm_up=2).high == pytest.approx(1.0)
    both = timer.compare(clock.run("a", 50.0, 1.0), clock.run("b", 50.0, 2.0), CPU, runs=3, warm_up=1)
    assert both.high == pytest.approx(0.5)


def test_the_first_over_the_second(clock):
    """A first thing that takes three times as long has the ratio 3."""
    both = timer.compare(clock.run("a", 3.0), clock.run("b", 1.0), CPU)
    assert (both.low, both.ratio, both.high) == pytest.approx((3.0, 3.0, 3.0))


def test_the_spread_holds_the_ratio(clock):
    """Runs that scatter give a spread around the ratio of the medians."""
    first, second = clock.run("a", 1.0, 2.0, 3.0, 4.0, 5.0), clock.run("b", 2.0, 1.0, 3.0, 5.0, 4.0)
    both = timer.compare(first, second, CPU, runs=5, warm_up=0)
    assert (both.low, both.ratio, both.high) == pytest.approx((0.5, 1.0, 2.0))


def test_they_take_turns(clock):
    """Each begins every second turn, so that neither always follows the other."""
    timer.compare(clock.run("a", 1.0), clock.run("b", 1.0), CPU, runs=2, warm_up=2)
    assert "".join(clock.order) == "baabbaab"


def test_a_change_of_clock_rate_meets_both(clock):
    """A machine that runs ten times slower half-way through leaves the ratio as it is."""
    speed = [1.0] * 6 + [10.0] * 5
    both = timer.compare(clock.run("a", *(2 * s for s in speed)), clock.run("b", *speed), CPU, runs=11, warm_up=0)
    assert both.ratio == pytest.approx(2.0)


def test_the_device_is_idle_before_and_after(clock, monkeypatch):
    """Work queued earlier is not timed, and work that the run queues is."""
    queued = [7.0]  # what another has left on the device

    def synchronize(device):
        clock.now += queued.pop() if queued else 0.0

    monkeypatch.setattr(torch.accelerator, "synchronize", synchronize)
    assert timer.seconds(lambda: queued.append(2.0), torch.device("cuda")) == pytest.approx(2.0)


def test_a_sleep_takes_its_time():
    """By the machine's own clock a sleep of 20 ms takes at least that, and four times one of 5 ms, roughly."""
    both = timer.compare(lambda: time.sleep(0.02), lambda: time.sleep(0.005), CPU, runs=5, warm_up=0)
    assert both.first.low >= 0.02
    assert both.ratio > 1  # a busy machine may stretch the shorter sleep
