"""What impl.randomness promises beyond the claims."""

import numpy as np
import torch

from impl.randomness import seed_everything
from spec.oracles.streams import restored


def test_torchs_words_are_numpys():
    """On the CPU both streams are the same Mersenne Twister: after the same seed they give the same 31 bits."""
    with restored():
        seed_everything(20261201)
        words = torch.empty(100, dtype=torch.int32).random_()
        expected = np.random.randint(0, 2**32, 100, dtype=np.uint32) & (2**31 - 1)
    assert words.tolist() == expected.tolist()
