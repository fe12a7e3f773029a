"""What an accelerator's allocator has given out, by its own statistics."""

import gc
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch


class Given(NamedTuple):
    """Bytes that the allocator was asked for and has given out: the latter in whole blocks."""

    requested: int
    allocated: int


def statistics(device: torch.device) -> Given | None:
    """Return what is given out on the device now; None where its allocator does not tell."""
    module = torch.get_device_module(device)
    told = module.memory_stats(device) if hasattr(module, "memory_stats") else {}
    names = ("requested_bytes.all.current", "allocated_bytes.all.current")
    return Given(*(int(told[name]) for name in names)) if all(name in told for name in names) else None


def growth(make: Callable[[], object], device: torch.device) -> Given:
    """Return by how much what `make()` returns adds to what is given out."""
    collecting = gc.isenabled()
    gc.disable()  # lest it free what others left behind, between two readings
    try:
        before = statistics(device)
        kept = make()
        after = statistics(device)
        del kept
    finally:
        if collecting:
            gc.enable()
    if before is None or after is None:
        raise RuntimeError(f"the allocator of {device} does not tell what it gave out")
    return Given(after.requested - before.requested, after.allocated - before.allocated)


def block(device: torch.device) -> int:
    """Return the bytes of the smallest piece that the allocator gives, measured; 0 where it does not tell."""
    byte = partial(torch.empty, 1, dtype=torch.uint8, device=device)
    byte()  # the first use of a device starts its allocator
    return growth(byte, device).allocated if statistics(device) else 0


def in_blocks(size: int, block: int) -> int:
    """Return `size` rounded up to whole blocks."""
    return -(-size // block) * block
