"""§2.2.4: how much of the time a product takes, beside an elementwise pass over its result."""

import pytest
import torch

from spec import bounds
from spec.claim import verifies
from spec.claims import flops
from spec.instruments import timer


@verifies(flops.MATMUL_DOMINATES)
def test_a_large_product_takes_most_of_the_time_and_less_than_its_share(evidence, benchmark, device, timed):
    """A product of n × n matrices takes longer than an elementwise pass, and less than 2n times as long."""
    large = 1024 if device.type == "cpu" else 8192  # n where the device is full, and 2n far from any ratio of speeds
    n = large if timed else 64
    x, y = torch.ones(n, n, device=device), torch.empty(n, n, device=device)

    def product():
        return torch.mm(x, x, out=y)

    def elementwise():
        return torch.add(x, x, out=y)

    with timer.one_thread():
        benchmark.pedantic(lambda: timer.seconds(product, device), rounds=5, warmup_rounds=1)
        if not timed:
            pytest.skip("timed only under --benchmark-only, --benchmark-enable or -m gpu")
        times = timer.compare(product, elementwise, device)
    benchmark.extra_info["times an elementwise pass"] = times.ratio
    for edge in (1, 2 * n):
        if times.low < edge * bounds.CLEARLY and times.high > edge / bounds.CLEARLY:
            evidence.ambiguous(
                f"the product takes {times.low:.2f} to {times.high:.2f} times as long, {edge} is too near"
            )
    evidence.at_least(times.ratio, 1, unit="times as long as an elementwise pass", n=n)
    evidence.at_most(times.ratio, 2 * n, unit="times as long as an elementwise pass", n=n)
