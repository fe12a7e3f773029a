"""Sizes that fit: the free memory, the time there is, and, where memory runs out all the same, half of it."""

from collections.abc import Callable
from typing import TypeVar

import torch

from spec.hardware import devices

Made = TypeVar("Made")
SHARE = 0.5  # of the free memory: a product's workspace and the other tensors of a test need some


def fitting(make: Callable[[int], Made], size: int, *, least: int = 1) -> tuple[Made, int, str]:
    """Return make(size), the size and an empty string; where memory runs out, half the size and a line that says so."""
    asked = size
    while True:
        try:
            made = make(size)
        except (MemoryError, RuntimeError) as error:
            if size // 2 < least or not out_of_memory(error):
                raise
            size //= 2
        else:
            return made, size, "" if size == asked else f"out of memory at {2 * size}: measured at {size}"


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out: an accelerator's has its own class, a CPU's only a message."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def affordable(
    size: int,
    device: torch.device,
    *,
    bytes_of: Callable[[int], float],
    seconds_of: Callable[[int], float] = lambda size: 0.0,
    budget: float = float("inf"),
    least: int = 1,
) -> int:
    """Return the size, halved until its bytes fit half of the free memory and one run takes at most `budget` seconds.

    The bytes are asked of no device: a size that still does not fit is what `fitting` is for.
    """
    free = devices.free_bytes(device)
    while size // 2 >= least and ((free is not None and bytes_of(size) > SHARE * free) or seconds_of(size) > budget):
        size //= 2
    return size
