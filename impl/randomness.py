"""§3.3: runs that repeat."""

import random
from operator import index
from typing import SupportsIndex

import numpy as np
import torch

__all__ = ["seed_everything"]


def seed_everything(seed: SupportsIndex) -> None:
    """Seed Python's `random`, NumPy's legacy stream (`np.random.rand` and its like) and torch's on every device.

    The seed is a Python or NumPy integer. Nothing else is changed. Code that draws from these streams repeats after the
    same seed. `np.random.default_rng()` does not: it is a stream of its own, and needs its own seed. Operations that
    add up in varying order, as some do on accelerators, need torch.use_deterministic_algorithms(True) as well. The
    streams are separate, but on the CPU torch and NumPy use the same Mersenne Twister: after the same seed both consist
    of the same random words. Raises ValueError unless 0 ≤ seed < 2³², NumPy's range, and TypeError for a seed that is
    no integer.
    """
    seed = index(seed)
    if not 0 <= seed < 2**32:
        raise ValueError(f"a seed lies between 0 and 2³² − 1: {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
