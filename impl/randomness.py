"""§3.3: runs that repeat."""

import random
from operator import index
from typing import SupportsIndex

import numpy as np
import torch

__all__ = ["seed_everything"]


def seed_everything(seed: SupportsIndex) -> None:
    """Seed Python's `random`, NumPy's legacy stream (`np.random.rand` and its like) and torch's on every device.

    The seed is Python's integer or NumPy's; nothing else is changed. What draws from these streams repeats after the
    same seed. A `np.random.default_rng()` does not: it is a stream of its own, to be made with a seed. Nor do
    operations whose order of additions varies from run to run, as some do on accelerators: for the same bits,
    torch.use_deterministic_algorithms(True) is needed as well. (The streams take no notice of each other, but on the
    CPU, torch's and NumPy's are the same Mersenne Twister: after the same seed they consist of the same random words.)
    Raises ValueError unless 0 ≤ seed < 2³², which is what NumPy takes, and TypeError for what is not an integer.
    """
    seed = index(seed)
    if not 0 <= seed < 2**32:
        raise ValueError(f"a seed lies between 0 and 2³² − 1: {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
