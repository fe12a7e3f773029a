"""How long things take: median seconds of synchronised runs, things compared turn by turn."""

import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from spec.hardware import devices

Run = Callable[[], object]
clock = time.perf_counter


@dataclass(frozen=True)
class Timing:
    """Seconds that one run took: the median of several, with the lower and the upper quartile as its spread."""

    median: float
    low: float
    high: float
    runs: int
    taken: tuple[float, ...] = field(default=(), repr=False, compare=False)  # run by run

    @property
    def uncertainty(self) -> float:
        """By what part of itself the median may be off: see `uncertainty`."""
        return uncertainty(self.taken)

    @property
    def drift(self) -> float:
        """How much longer the second half of the runs took than the first, as a part of the median."""
        half = len(self.taken) // 2
        return (statistics.median(self.taken[half:]) - statistics.median(self.taken[: half or 1])) / self.median

    @property
    def doubt(self) -> str:
        """Why the median decides nothing: too much noise, or a clock that changed; an empty string where it does."""
        if self.uncertainty > NOISY:
            return f"after {self.runs} runs the median is known to ±{self.uncertainty:.0%} only"
        if abs(self.drift) > DRIFT:
            more = "longer" if self.drift > 0 else "less"
            return f"the later runs took {abs(self.drift):.0%} {more} than the earlier ones: the clock changed"
        return ""


@dataclass(frozen=True)
class Comparison:
    """Two things timed in turn, so that a change of clock rate or load meets both alike."""

    first: Timing
    second: Timing

    @property
    def ratio(self) -> float:
        """The first's median over the second's: above 1 the first is slower."""
        return self.first.median / self.second.median

    @property
    def low(self) -> float:
        """The ratio with both at the quartile that makes it smallest."""
        return self.first.low / self.second.high

    @property
    def high(self) -> float:
        """The ratio with both at the quartile that makes it largest."""
        return self.first.high / self.second.low


def measure(run: Run, device: torch.device, *, runs: int = 11, warm_up: int = 2) -> Timing:
    """Return the seconds that `run()` takes on `device`, from an idle device until it is idle again."""
    for _ in range(warm_up):
        seconds(run, device)
    return _timing([seconds(run, device) for _ in range(runs)])


def compare(first: Run, second: Run, device: torch.device, *, runs: int = 11, warm_up: int = 2) -> Comparison:
    """Time two things on `device` in turn; who begins changes from turn to turn, as the cache favours the second."""
    pair = (first, second)
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(warm_up + runs):
        for which in (0, 1) if turn % 2 else (1, 0):
            spent = seconds(pair[which], device)
            if turn >= warm_up:
                taken[which].append(spent)
    return Comparison(_timing(taken[0]), _timing(taken[1]))


def seconds(run: Run, device: torch.device) -> float:
    """Return the seconds of a single run, the work it leaves queued on the device included."""
    synchronize(device)
    start = clock()
    kept = run()
    synchronize(device)
    spent = clock() - start
    del kept  # freed once the clock has stopped
    return spent


def queued(run: Run, device: torch.device) -> tuple[float, float]:
    """Return the seconds until run() returns, and until the device has done what it was given."""
    synchronize(device)
    start = clock()
    kept = run()
    returned = clock() - start
    synchronize(device)
    done = clock() - start
    del kept
    return returned, done


@contextmanager
def one_thread() -> Iterator[None]:
    """Work on one thread of the CPU: on a busy machine the wait for a second one can last longer than the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all it was given; a CPU always has."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _timing(taken: list[float]) -> Timing:
    low, median, high = statistics.quantiles(taken, n=4, method="inclusive") if len(taken) > 1 else taken * 3
    return Timing(median, low, high, len(taken), tuple(taken))


# ---- until the median is known ----

KNOWN = 0.01  # A measurement ends once the median is known to this part of it.
NOISY = 0.05  # A median known less well than this decides nothing.
DRIFT = 0.1  # If the halves of the runs differ by more, the clock has changed.
STEADY = 0.05  # Warm-up ends once two rounds differ by less.
FLUSH = 2**28  # bytes, unless the device's last cache is larger


def sample(
    variants: Mapping[str, Run],
    device: torch.device,
    *,
    budget: float = 1.0,
    flush: bool | None = None,
    least: int = 7,
    most: int = 1000,
) -> dict[str, Timing]:
    """Time each variant in turn until every median is known to 1%, or `budget` seconds (warm-up apart) are spent.

    Each turn begins with another variant. On accelerators, by their own events, the caches are written full between
    runs, outside the timed part: what a run reads comes from memory. A CPU's caches are flushed where `flush` is true,
    for what memory bounds: a product reads each value many times. What takes the host longer than the device needs
    `flush=False`: the host would have begun while the device is still writing, and part of its time would not count.
    Operands are the caller's: random, for the power that a product draws, and so its clock, depends on the values.
    """
    scratch = _scratch(device) if (device.type != "cpu" if flush is None else flush) else None
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for run in variants.values():
        _warm_up(run, device, budget / 4 / len(variants))
    end = clock() + budget
    names = list(variants)
    while True:
        for name in names:
            if scratch is not None:
                scratch.zero_()
            taken[name].append(device_seconds(variants[name], device))
        names.append(names.pop(0))
        runs = len(taken[names[0]])
        if runs >= most or (runs >= least and (clock() >= end or all(map(_known, taken.values())))):
            return {name: _timing(seconds) for name, seconds in taken.items()}


def once(run: Run, device: torch.device) -> Timing:
    """Time a single cold run, which decides nothing."""
    return _timing([device_seconds(run, device)])


def device_seconds(run: Run, device: torch.device) -> float:
    """Return the seconds of a single run by the device's own events, or by the clock where it has none."""
    return _by_events(run, device) if _has_events(device) else seconds(run, device)


def _by_events(run: Run, device: torch.device) -> float:
    stream = torch.accelerator.current_stream(device)  # without it, events record on whichever device is current
    start, stop = torch.Event(device, enable_timing=True), torch.Event(device, enable_timing=True)
    start.record(stream)
    kept = run()
    stop.record(stream)
    stop.synchronize()
    del kept
    return start.elapsed_time(stop) / 1e3  # it counts milliseconds


@functools.cache
def _has_events(device: torch.device) -> bool:
    """Return whether the device's events keep time, which it tells only when they are asked."""
    try:
        return device.type != "cpu" and _by_events(lambda: None, device) >= 0
    except RuntimeError:
        return False


def _warm_up(run: Run, device: torch.device, budget: float) -> None:
    """Run until two rounds of three take the same time, or the budget is spent."""
    end = clock() + budget
    before = None
    while True:
        now = statistics.median(device_seconds(run, device) for _ in range(3))
        if clock() >= end or (before is not None and abs(now - before) <= STEADY * before):
            return
        before = now


def _scratch(device: torch.device) -> torch.Tensor:
    return torch.empty(max(FLUSH, devices.cache_bytes(device)), dtype=torch.int8, device=device)


def _known(taken: list[float]) -> bool:
    return uncertainty(taken) <= KNOWN


def uncertainty(taken: Sequence[float]) -> float:
    """Return half the width of the median's 95% confidence interval as a part of the median; infinity below 6 runs.

    Whatever the distribution, the interval from the k-th smallest to the k-th largest of n independent runs misses
    the median with the probability of fewer than k heads, or tails, among n coins.
    """
    k, ordered = _rank(len(taken)), sorted(taken)
    return (ordered[-k] - ordered[k - 1]) / 2 / statistics.median(ordered) if k else math.inf


@functools.cache
def _rank(runs: int) -> int:
    """Return the largest k for which that probability is at most 5%."""
    k, outcomes = 0, 1  # how many of the 2ⁿ have k heads
    fewer = outcomes  # than k + 1
    while fewer * 40 <= 2**runs:
        outcomes = outcomes * (runs - k) // (k + 1)
        k += 1
        fewer += outcomes
    return k
