"""§2.2.2a: how fast a storage is walked along its order, and across it."""

import pytest
import torch

from spec import bounds
from spec.claim import verifies
from spec.claims import storage
from spec.instruments import timer


@verifies(storage.SEQUENTIAL_ACCESS)
def test_copying_a_transposed_matrix_is_not_faster(evidence, benchmark, device, timed):
    """A large matrix is not copied faster across its storage, column by column, than along it."""
    large = 4096 if device.type == "cpu" else 8192  # several times what a cache holds
    side = large if timed else 64
    matrix = torch.rand(side, side, generator=torch.Generator(device).manual_seed(side), device=device)
    copy = torch.empty_like(matrix)

    def along():
        return copy.copy_(matrix)

    def across():
        return copy.copy_(matrix.t())

    with timer.one_thread():
        benchmark.pedantic(lambda: timer.seconds(across, device), rounds=5, warmup_rounds=1)
        if not timed:
            pytest.skip("timed only under --benchmark-only, --benchmark-enable or -m gpu")
        times = timer.compare(across, along, device)
    benchmark.extra_info["times a contiguous copy"] = times.ratio
    if times.low < bounds.timing.SAME_SPEED and times.high > 1 / bounds.timing.SAME_SPEED:
        evidence.ambiguous(f"transposed takes {times.low:.2f} to {times.high:.2f} times as long as contiguous")
    evidence.at_least(times.ratio, 1, unit="times as long as contiguous", bytes=copy.nbytes)
