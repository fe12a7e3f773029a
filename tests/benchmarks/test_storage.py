"""§2.2.2a: how fast a matrix is copied along its storage, row by row, and across it, column by column."""

import pytest
import torch

from spec import bounds
from spec.claim import verifies
from spec.claims import storage
from spec.instruments import timer


@verifies(storage.SEQUENTIAL_ACCESS)
def test_copying_a_transposed_matrix_is_not_faster(evidence, benchmark, device, timed):
    """Copying a large matrix takes at least as long column by column, across its storage, as row by row, along it."""
    # These matrices are several times as large as a cache. A pass without timing takes a small one.
    large = 4096 if device.type == "cpu" else 8192
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
    what = "the time of a transposed copy over that of a contiguous one"
    evidence.at_least(times.ratio, 1, what=what, bytes=copy.nbytes)
