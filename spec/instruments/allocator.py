"""What a device's allocator has given out, by its own word: statistics on an accelerator, events on the CPU."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, Self, cast

import torch
from torch._C import _autograd, _profiler
from torch.autograd.profiler import profile


class Given(NamedTuple):
    """Bytes that the allocator was asked for and has given out: the latter in whole blocks."""

    requested: int
    allocated: int


class Reading(NamedTuple):
    """What is given out now, and the most that was since the last reading; both beyond what was at the start."""

    live: Given
    peak: Given


class Meter:
    """Reads how many bytes are alive on a device, beyond those that were when the `with` began.

        with Meter(device) as meter:
            kept = make()
            grown = meter.read().live.requested

    An accelerator's allocator keeps statistics. The CPU's, which has no blocks, tells a profiler of each change:
    `history` holds the bytes alive after each, up to the last reading. It tells that a tensor is freed only if it saw
    the tensor made, so make inside the `with` what you measure, and drop there what is to be freed.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.history = [0]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(_undisturbed())
            if self.device.type == "cpu":
                self._events = stack.enter_context(Events())
            else:
                self._start = _statistics(self.device)[0]
                torch.get_device_module(self.device).reset_peak_memory_stats(self.device)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.close()

    def read(self) -> Reading:
        """Return what is alive now, and the most that was alive since the last reading."""
        if self.device.type == "cpu":
            since = list(accumulate(self._events.read(), initial=self.history[-1]))
            self.history += since[1:]
            return Reading(Given(since[-1], since[-1]), Given(max(since), max(since)))
        live, peak = _statistics(self.device)
        torch.get_device_module(self.device).reset_peak_memory_stats(self.device)
        return Reading(_beyond(self._start, live), _beyond(self._start, peak))


class Events:
    """The changes that the CPU's allocator tells of, in bytes: given out counts up, taken back counts down.

    torch's first profiler hears them too. It starts and stops in a twentieth of the present one's time and writes
    nothing to standard error, but is to go one day: then the present one takes its place.
    """

    first = hasattr(_autograd, "_enable_profiler_legacy")

    def __enter__(self) -> Self:
        if self.first:
            only_memory = (False, True, False, False, False, _profiler._ExperimentalConfig())
            _autograd._enable_profiler_legacy(_profiler.ProfilerConfig(_profiler.ProfilerState.CPU, *only_memory))
        else:
            self._present = cast(Any, profile(use_kineto=True, profile_memory=True))
            self._present.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stop()

    def read(self) -> list[int]:
        """Return the changes since the last reading, in order."""
        changes = self._stop()
        self.__enter__()
        return changes

    def _stop(self) -> list[int]:
        told: list[Any]
        if self.first:
            told = [event for thread in _autograd._disable_profiler_legacy() for event in thread]
            (start,) = (event for event in told if event.name() == "__start_profile")
            changes = sorted((event for event in told if event.kind() == "memory_alloc"), key=start.cpu_elapsed_us)
            return [event.cpu_memory_usage() for event in changes]
        self._present.__exit__(None, None, None)
        told = self._present.kineto_results.events()
        changes = sorted((event for event in told if event.name() == "[memory]"), key=lambda event: event.start_ns())
        return [event.nbytes() for event in changes]


def statistics(device: torch.device) -> Given | None:
    """Return what is given out on the accelerator now; None where its allocator does not tell."""
    return _told(device, "current")


def growth(make: Callable[[], object], device: torch.device) -> Given:
    """Return by how much what `make()` returns adds to what is given out on an accelerator."""
    with _undisturbed():
        before = statistics(device)
        kept = make()
        after = statistics(device)
        del kept
    if before is None or after is None:
        raise RuntimeError(f"the allocator of {device} does not tell what it gave out")
    return _beyond(before, after)


def block(device: torch.device) -> int:
    """Return the bytes of the smallest piece that the allocator gives, measured; 0 where it does not tell."""
    byte = partial(torch.empty, 1, dtype=torch.uint8, device=device)
    byte()  # the first use of a device starts its allocator
    given = growth(byte, device) if statistics(device) else Given(0, 0)
    return given.allocated if given.requested else 0  # cudaMallocAsync leaves the bytes requested at 0


def tells(device: torch.device) -> bool:
    """Return whether a Meter can read the device's allocator."""
    return device.type == "cpu" or block(device) > 0


def keep_workspaces() -> None:
    """Let torch keep what products on CUDA work in, unless told otherwise; to be called before the first of them.

    From 2.15 on it is made anew for each (32 MiB on Hopper), and the peak of a small step would be that of a product.
    """
    os.environ.setdefault("TORCH_CUBLAS_WORKSPACE_CACHE", "1")


def in_blocks(size: int, block: int) -> int:
    """Return `size` rounded up to whole blocks."""
    return -(-size // block) * block


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep the garbage collector from freeing what others left behind, between two readings."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _told(device: torch.device, when: str) -> Given | None:
    module = torch.get_device_module(device)
    told = module.memory_stats(device) if hasattr(module, "memory_stats") else {}
    names = (f"requested_bytes.all.{when}", f"allocated_bytes.all.{when}")
    return Given(*(int(told[name]) for name in names)) if all(name in told for name in names) else None


def _statistics(device: torch.device) -> tuple[Given, Given]:
    """Return what is given out now, and the most that was since the peak was reset."""
    now, peak = statistics(device), _told(device, "peak")
    if now is None or peak is None:
        raise RuntimeError(f"the allocator of {device} does not tell what it gave out")
    return now, peak


def _beyond(start: Given, end: Given) -> Given:
    return Given(end.requested - start.requested, end.allocated - start.allocated)
