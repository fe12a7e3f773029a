"""§3.4: how fast batches of random windows are sampled."""

import numpy as np
import torch

from spec.claim import verifies
from spec.claims import data
from spec.run.benchmarks import Work

TOKENS, BATCH, LENGTH = 50_000_000, 64, 1024  # At 2 bytes per token the file has 100 MB.


@verifies(data.BATCHES)
def test_a_batch_is_sampled(impl, evidence, meter, device, tmp_path):
    """Sampling 64 windows of 1,024 tokens from a mapped file to the device is timed in bytes per second."""
    tokens, path = TOKENS if meter.timed else 10 * LENGTH, tmp_path / "tokens"
    np.random.default_rng(0).integers(0, 50257, tokens, dtype=np.uint16).tofile(path)
    opened = np.memmap(path, np.uint16, mode="r")
    int(opened.sum())  # This reads the whole file into memory.
    generator = torch.Generator().manual_seed(0)

    def sample():
        return impl.data.sample_batch(opened, BATCH, LENGTH, generator=generator, device=device)

    size = BATCH * LENGTH
    evidence.equal(sample().numel(), size, what="the size of a batch", unit="ids")
    work = Work(sample, bytes=10 * size, dtype=torch.int64, shape=(BATCH, LENGTH))
    meter.rate("a batch", work, device, flush=False)
