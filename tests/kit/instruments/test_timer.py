"""The timer: against a clock that we turn ourselves, and against sleeps of known length."""

import math
import random
import time

import pytest
import torch
import torch.utils.benchmark

from spec.hardware import devices
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
        clock.now += sum(queued)
        queued.clear()

    monkeypatch.setattr(torch.accelerator, "synchronize", synchronize)
    assert timer.seconds(lambda: queued.append(2.0), torch.device("cuda")) == pytest.approx(2.0)


def test_a_sleep_takes_its_time():
    """By the machine's own clock a sleep of 20 ms takes at least that, and one of 5 ms; a busy machine adds to both."""
    assert time.get_clock_info(timer.clock.__name__).monotonic  # which nobody sets back
    both = timer.compare(lambda: time.sleep(0.02), lambda: time.sleep(0.005), CPU, runs=5, warm_up=0)
    assert (both.first.low >= 0.02, both.second.low >= 0.005) == (True, True)


# ---- until the median is known ----


@pytest.mark.parametrize(("runs", "expected"), [(1, 0), (5, 0), (6, 1), (10, 2), (20, 6), (100, 40), (1000, 469)])
def test_the_rank_is_the_sign_tests(runs, expected):
    """The k-th smallest and largest of n bound the median at 95%: Conover, Practical Nonparametric Statistics, §3.2."""
    assert timer._rank(runs) == expected


def test_the_interval_misses_the_median_as_rarely_as_it_says():
    """Of 2,000 samples of 25 from a skewed distribution, no more than 5% and some miss leave the median out."""
    generator = random.Random(1)
    missed = 0
    for _ in range(2000):
        taken = sorted(generator.expovariate(1.0) for _ in range(25))
        k = timer._rank(25)
        missed += not taken[k - 1] <= math.log(2) <= taken[-k]
    assert 0.02 * 2000 <= missed <= 0.065 * 2000  # exactly 4.3%; 5 standard deviations are 2.3%


def test_the_uncertainty_is_half_the_interval():
    """Of 1 to 6 the interval is the whole range: 2.5 on either side of 3.5; below six runs nothing is known."""
    assert timer.uncertainty([3.0, 1.0, 6.0, 2.0, 5.0, 4.0]) == pytest.approx(2.5 / 3.5)
    assert timer.uncertainty([1.0] * 5) == math.inf
    assert timer.uncertainty([1.0] * 6) == 0


def test_steady_runs_end_early(clock):
    """Runs of one length are known after the least number of them, and leave no doubt."""
    timing = timer.sample({"a": clock.run("a", 1e-3)}, CPU, budget=100.0)["a"]
    assert (timing.runs, timing.median, timing.doubt) == (7, pytest.approx(1e-3), "")


def test_noise_ends_with_the_budget(clock):
    """Runs that scatter by half go on until the budget is spent, and what is left open is told."""
    lengths = [1.0, 2.0, 1.5, 1.0, 2.0, 1.2, 1.9] * 4
    timing = timer.sample({"a": clock.run("a", *lengths)}, CPU, budget=20.0)["a"]
    assert 7 < timing.runs < 20
    assert timing.uncertainty > 0.05
    assert timing.doubt.startswith(f"after {timing.runs} runs the median is known to ±")


def test_one_that_is_not_known_to_one_percent_goes_on(clock):
    """Beside one that is, runs of 1 s and of 1.03 s, in turn, are known to 1.5%, until there are as many as allowed."""
    runs = {"a": clock.run("a", 1.0), "b": clock.run("b", *[1.0, 1.03] * 40)}
    timings = timer.sample(runs, CPU, budget=1000.0, most=20)
    assert {timing.runs for timing in timings.values()} == {20}
    assert timings["b"].uncertainty == pytest.approx(0.0148, rel=0.01)
    assert timings["b"].doubt == ""


def test_the_warm_up_is_no_part_of_the_budget(clock):
    """After the 3 s of a warm-up, 12 s are enough for eight runs of 1 s and of 2 s, in turn."""
    assert timer.sample({"a": clock.run("a", 1.0, *[1.0, 2.0] * 20)}, CPU, budget=12.0, least=1)["a"].runs == 8


def test_every_variant_is_warmed_up_for_its_share(clock):
    """Of three that get slower and slower, each has a twelfth of 24 s, which three runs of 1 s fill."""
    slowing = [2.0 ** (n // 3) for n in range(60)]
    timer.sample({name: clock.run(name, *slowing) for name in "abc"}, CPU, budget=24.0, least=1)
    assert "".join(clock.order[:12]) == "aaabbbcccabc"


def test_a_clock_that_changes_is_told():
    """The median of 70 runs of 1 s and then 40 of 1.3 s is known, but not that of the later ones; nor if it rises."""
    slower = (1.0,) * 70 + (1.3,) * 40 + (1.0,)
    for taken, change in ((slower, "30% longer"), (tuple(2.3 - seconds for seconds in slower), "23% less")):
        timing = timer.Timing(taken[0], taken[0], taken[-2], len(taken), taken)
        assert timing.uncertainty == 0
        assert timing.doubt == f"the later runs took {change} than the earlier ones: the clock changed"


def test_variants_take_turns(clock):
    """Each of three variants comes first in every third turn."""
    runs = {name: clock.run(name, 1.0) for name in "abc"}
    timer.sample(runs, CPU, budget=1e-9, least=3)
    assert "".join(clock.order[-9:]) == "abcbcacab"


def test_the_warm_up_lasts_until_the_times_are_steady(clock):
    """A clock that rises over twelve runs is waited for; the budget for that is a quarter."""
    timing = timer.sample({"a": clock.run("a", *[2.0 - n / 12 for n in range(12)], 1.0)}, CPU, budget=1000.0)["a"]
    assert (timing.low, timing.high) == pytest.approx((1.0, 1.0))
    clock.order.clear()
    timer.sample({"a": clock.run("a", *[2.0**n for n in range(40)])}, CPU, budget=4.0, least=1)
    assert len(clock.order) == 4  # one round of three takes 7 s: more than the second it has


def test_caches_are_flushed_outside_the_timed_part(clock, monkeypatch):
    """Where it is asked for, a scratch tensor is overwritten before each run, and its time does not count."""

    class Scratch:
        def zero_(self):
            clock.order.append("flush")
            clock.now += 10.0

    monkeypatch.setattr(timer, "_scratch", lambda device: Scratch())
    timing = timer.sample({"a": clock.run("a", 1.0)}, CPU, budget=1e-9, flush=True)["a"]
    assert timing.high == pytest.approx(1.0)
    assert clock.order[-4:] == ["flush", "a", "flush", "a"]
    clock.order.clear()
    timer.sample({name: clock.run(name, 1.0) for name in "ab"}, CPU, budget=1e-9, flush=True)
    assert clock.order[-8:] == ["flush", "b", "flush", "a", "flush", "a", "flush", "b"]
    clock.order.clear()
    timer.sample({"a": clock.run("a", 1.0)}, CPU, budget=1e-9)
    assert "flush" not in clock.order


@pytest.mark.parametrize(("cache", "expected"), [(0, 2**28), (50 * 2**20, 2**28), (2**29, 2**29)])
def test_the_scratch_is_larger_than_the_cache(monkeypatch, cache, expected):
    """It has 256 MiB, or the size of the last cache where that is larger."""
    monkeypatch.setattr(devices, "cache_bytes", lambda device: cache)
    scratch = timer._scratch(torch.device("meta"))
    assert (scratch.nbytes, scratch.device.type) == (expected, "meta")


@pytest.fixture
def events(clock, monkeypatch):
    """Pretend that torch has events, and a stream of each device."""

    class Event:
        def __init__(self, device, *, enable_timing):
            self.device, self.timing = device, enable_timing

        def record(self, stream):
            assert stream == f"stream of {self.device}"
            self.at = clock.now

        def synchronize(self):
            clock.now += 5.0
            self.done = True

        def elapsed_time(self, other):
            assert other.done, "CUDA's raise where the later one is not done"
            if not (self.timing and other.timing) or self.device.type == "xpu":
                raise RuntimeError("these events keep no time")
            return (other.at - self.at) * 1e3

    monkeypatch.setattr(torch, "Event", Event)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda device: f"stream of {device}")
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: None)
    timer._has_events.cache_clear()
    yield
    timer._has_events.cache_clear()


@pytest.mark.parametrize("name", ["cuda:0", "cuda:1"])
def test_an_accelerator_is_timed_by_its_own_events(clock, events, name):
    """Events on the device's own stream count its milliseconds; how long the host waits for them does not matter."""
    assert timer.device_seconds(clock.run("a", 2.0), torch.device(name)) == pytest.approx(2.0)


@pytest.mark.parametrize("name", ["cpu", "cuda:0", "xpu:0"])
def test_giving_back_the_result_is_not_timed(clock, events, name):
    """A result that takes 7 s to free is freed once the clock has stopped, and before the next run."""

    class Result:
        def __del__(self):
            clock.now += 7.0

    def run():
        clock.now += 2.0
        return Result()

    device = torch.device(name)
    assert timer.device_seconds(run, device) == timer.seconds(run, device) == pytest.approx(2.0)
    assert clock.now >= 18.0
    assert timer.queued(run, device) == pytest.approx((2.0, 2.0))


def test_a_device_without_events_is_timed_by_the_clock(clock, events):
    """Where events keep no time, the device is waited for."""
    assert timer.device_seconds(clock.run("a", 2.0), torch.device("xpu:0")) == pytest.approx(2.0)
    assert timer.device_seconds(clock.run("a", 3.0), CPU) == pytest.approx(3.0)


def test_the_time_until_a_call_returns_and_until_it_is_done(clock, monkeypatch):
    """A call that takes 1 second and leaves 4 more to the device returns after 1 and is done after 5."""
    left = []

    def synchronize(device):
        clock.now += left.pop() if left else 0.0

    def run():
        clock.now += 1.0
        left.append(4.0)

    monkeypatch.setattr(torch.accelerator, "synchronize", synchronize)
    assert timer.queued(run, torch.device("cuda")) == pytest.approx((1.0, 5.0))


def test_the_median_is_that_of_torchs_own_benchmark(clock):
    """By a clock of ours, runs of five lengths, over and over, have the same median by torch.utils.benchmark."""
    lengths = [1.0, 1.2, 1.1, 1.4, 1.3]
    theirs = torch.utils.benchmark.Timer("run()", timer=clock, globals={"run": clock.run("theirs", *lengths * 80)})
    measured = torch.utils.benchmark.Measurement(1, [theirs.timeit(1).median for _ in range(100)], theirs._task_spec)
    ours = timer.sample({"run": clock.run("ours", *lengths * 40)}, CPU, budget=100.0)["run"]
    assert ours.median == pytest.approx(measured.median, rel=0.05)


def test_the_threads_come_back():
    """Also where the body fails."""
    before = torch.get_num_threads()

    def fail():
        with timer.one_thread():
            raise KeyError(torch.get_num_threads())

    with pytest.raises(KeyError, match="1"):
        fail()
    assert torch.get_num_threads() == before
