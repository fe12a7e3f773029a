"""The rank of this process, when a launcher such as torchrun starts one process for each accelerator."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")  # torch.distributed's launchers set these environment variables.


@dataclass(frozen=True)
class Rank:
    """This process's number among all processes and among those of this machine, and how many there are of each.

    `local_world` is 0 where the launcher does not say how many processes run on this machine.
    """

    index: int
    local: int
    world: int
    local_world: int


def rank() -> Rank | None:
    """Return this process's rank; None where no launcher started it."""
    numbers = [os.environ.get(name, "") for name in NAMES]
    if not all(number.isdecimal() for number in numbers):
        return None
    local_world = os.environ.get("LOCAL_WORLD_SIZE", "")
    index, local, world = map(int, numbers)
    return Rank(index, local, world, int(local_world) if local_world.isdecimal() else 0)


def own(rank: Rank, present: Sequence[torch.device]) -> torch.device | str | None:
    """Return the accelerator of this rank, None where the machine has none, or a line that says what is wrong."""
    if not present:
        return None
    if rank.local < len(present):
        return present[rank.local]
    if len(present) == 1 and not rank.local_world:  # Some launchers show each process only its own accelerator.
        return present[0]
    count = len(present)
    return f"rank {rank.index} has no accelerator of its own: torch sees {count}; use torchrun --nproc-per-node={count}"
