"""Bytes that a device's allocator has handed out: from its statistics on an accelerator, from its events on the CPU."""

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


class Bytes(NamedTuple):
    """Bytes that the program requested, and bytes that the allocator handed out for them, in whole blocks."""

    requested: int
    allocated: int


class Reading(NamedTuple):
    """Bytes alive now, and the largest number since the last reading. Bytes alive before the meter are not counted."""

    live: Bytes
    peak: Bytes


class MemoryMeter:
    """Reads how many bytes are alive on a device, beyond those that were alive when the `with` began.

        with MemoryMeter(device) as meter:
            made = make()
            growth = meter.read().live.requested

    An accelerator's allocator keeps statistics. The CPU's allocator has no blocks and reports each change to a
    profiler: `history` holds the bytes alive after each change, up to the last reading. The profiler hears that a
    tensor is freed only if it saw the tensor being made. So make what you measure inside the `with`, and drop it there.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.history = [0]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(_without_garbage_collection())
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
            alive = list(accumulate(self._events.read(), initial=self.history[-1]))
            self.history += alive[1:]
            return Reading(Bytes(alive[-1], alive[-1]), Bytes(max(alive), max(alive)))
        live, peak = _statistics(self.device)
        torch.get_device_module(self.device).reset_peak_memory_stats(self.device)
        return Reading(_difference(self._start, live), _difference(self._start, peak))


class Events:
    """Records each change that the CPU's allocator reports, in bytes: positive for handed out, negative for freed.

    torch's legacy profiler starts and stops in a twentieth of the time that the present profiler takes, and writes
    nothing to standard error. torch will remove it one day; this class then uses the present profiler.
    """

    legacy = hasattr(_autograd, "_enable_profiler_legacy")

    def __enter__(self) -> Self:
        if self.legacy:
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
        events: list[Any]
        if self.legacy:
            events = [event for thread in _autograd._disable_profiler_legacy() for event in thread]
            (start,) = (event for event in events if event.name() == "__start_profile")
            changes = sorted((event for event in events if event.kind() == "memory_alloc"), key=start.cpu_elapsed_us)
            return [event.cpu_memory_usage() for event in changes]
        self._present.__exit__(None, None, None)
        events = self._present.kineto_results.events()
        changes = sorted((event for event in events if event.name() == "[memory]"), key=lambda event: event.start_ns())
        return [event.nbytes() for event in changes]


def statistics(device: torch.device) -> Bytes | None:
    """Return the bytes alive on an accelerator now; None where its allocator keeps no such statistics."""
    return _statistic(device, "current")


def growth(make: Callable[[], object], device: torch.device) -> Bytes:
    """Return how many bytes the result of `make()` takes on an accelerator."""
    with _without_garbage_collection():
        before = statistics(device)
        made = make()
        after = statistics(device)
        del made
    if before is None or after is None:
        raise RuntimeError(silent(device))
    return _difference(before, after)


def block(device: torch.device) -> int:
    """Return the size in bytes of the allocator's smallest block, measured; 0 where the allocator has no statistics."""
    byte = partial(torch.empty, 1, dtype=torch.uint8, device=device)
    byte()  # The first use of a device starts its allocator.
    taken = growth(byte, device) if statistics(device) else Bytes(0, 0)
    return taken.allocated if taken.requested else 0  # cudaMallocAsync reports 0 requested bytes.


def can_be_read(device: torch.device) -> bool:
    """Return whether a MemoryMeter can read the device's allocator."""
    return device.type == "cpu" or block(device) > 0


def silent(device: torch.device) -> str:
    """Return the sentence for a device whose allocator cannot be read."""
    return f"the allocator of {device} does not say how many bytes it handed out"


def keep_workspaces() -> None:
    """Make torch keep the workspace of products on CUDA, unless the user chose otherwise. Call it before any product.

    From torch 2.15 on each product allocates a workspace of its own (32 MiB on Hopper), and the peak of a small
    training step would be the peak of one product.
    """
    os.environ.setdefault("TORCH_CUBLAS_WORKSPACE_CACHE", "1")


def in_blocks(size: int, block: int) -> int:
    """Return `size` rounded up to whole blocks."""
    return -(-size // block) * block


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Stop the garbage collector, which would free other code's tensors between two readings."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _statistic(device: torch.device, when: str) -> Bytes | None:
    module = torch.get_device_module(device)
    stats = module.memory_stats(device) if hasattr(module, "memory_stats") else {}
    names = (f"requested_bytes.all.{when}", f"allocated_bytes.all.{when}")
    return Bytes(*(int(stats[name]) for name in names)) if all(name in stats for name in names) else None


def _statistics(device: torch.device) -> tuple[Bytes, Bytes]:
    """Return the bytes alive now, and the largest number since the peak was reset."""
    now, peak = statistics(device), _statistic(device, "peak")
    if now is None or peak is None:
        raise RuntimeError(silent(device))
    return now, peak


def _difference(start: Bytes, end: Bytes) -> Bytes:
    return Bytes(end.requested - start.requested, end.allocated - start.allocated)
