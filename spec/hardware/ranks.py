"""Which of several processes this one is, when a launcher such as torchrun starts one for each accelerator."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")  # by torch.distributed's convention


@dataclass(frozen=True)
class Rank:
    """This process among all that were started, and among those of this machine."""

    index: int
    local: int
    world: int
    beside: int  # how many run on this machine, 0 where the launcher does not say


def rank() -> Rank | None:
    """Return this process's rank; None where no launcher started it."""
    told = [os.environ.get(name, "") for name in NAMES]
    if not all(text.isdecimal() for text in told):
        return None
    beside = os.environ.get("LOCAL_WORLD_SIZE", "")
    index, local, world = map(int, told)
    return Rank(index, local, world, int(beside) if beside.isdecimal() else 0)


def own(rank: Rank, present: Sequence[torch.device]) -> torch.device | str | None:
    """Return the accelerator of this rank; None where there is none at all, or a line that says what is wrong."""
    if not present:
        return None
    if rank.local < len(present):
        return present[rank.local]
    if len(present) == 1 and not rank.beside:  # a launcher that shows each process only its own
        return present[0]
    count = len(present)
    return f"rank {rank.index} has no accelerator of its own: torch sees {count}; use torchrun --nproc-per-node={count}"
