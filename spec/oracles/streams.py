"""Random streams: saving and restoring the global ones, and making generators."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Generator

CPU = torch.device("cpu")


@contextmanager
def restored(device: torch.device = CPU) -> Iterator[None]:
    """Run the body, then restore the random streams of Python, NumPy (the legacy one) and torch, also on `device`."""
    python, legacy = random.getstate(), np.random.get_state()
    others = [] if device.type == "cpu" else [device.index or 0]
    try:
        with torch.random.fork_rng(devices=others, device_type="cuda" if device.type == "cpu" else device.type):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)


def seeded(seed: int, device: torch.device = CPU) -> Generator:
    """Return a new generator on a device, seeded."""
    return torch.Generator(device=device).manual_seed(seed)


def seed_torch(seed: int, device: torch.device = CPU) -> None:
    """Seed torch's global stream on one device; torch.manual_seed, for all devices, takes a hundred times as long."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        with torch.accelerator.device_index(device.index):  # A device module seeds the current device.
            torch.get_device_module(device).manual_seed(seed)
