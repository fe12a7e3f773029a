"""How long things take: median seconds of synchronised runs, two things compared turn by turn."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

Run = Callable[[], object]
clock = time.perf_counter


@dataclass(frozen=True)
class Timing:
    """Seconds that one run took: the median of several, with the lower and the upper quartile as its spread."""

    median: float
    low: float
    high: float
    runs: int


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


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all it was given; a CPU always has."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _timing(taken: list[float]) -> Timing:
    low, median, high = statistics.quantiles(taken, n=4, method="inclusive")
    return Timing(median, low, high, len(taken))
