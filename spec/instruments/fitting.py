"""Sizes that fit the free memory and the time allowed; where memory runs out all the same, half the size is tried."""

from collections.abc import Callable
from typing import TypeVar

import torch

from spec.hardware import devices

Made = TypeVar("Made")
# A test plans with half of the free memory: a product's workspace and the test's other tensors need some, too.
SHARE = 0.5


def fitting(make: Callable[[int], Made], size: int, *, least: int = 1) -> tuple[Made, int, str]:
    """Return make(size), the size and an empty note. Where memory runs out, halve the size and say so in the note."""
    wanted = size
    while True:
        try:
            made = make(size)
        except (MemoryError, RuntimeError) as error:
            if size // 2 < least or not out_of_memory(error):
                raise
            size //= 2
        else:
            return made, size, "" if size == wanted else f"out of memory at {2 * size}: measured at {size}"


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out. On the CPU only its message says so."""
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

    Nothing is allocated here. `fitting` deals with a size that turns out not to fit.
    """
    free = devices.free_bytes(device)
    while size // 2 >= least and ((free is not None and bytes_of(size) > SHARE * free) or seconds_of(size) > budget):
        size //= 2
    return size
