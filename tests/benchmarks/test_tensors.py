"""§2.1.1: what an accelerator gains, and from which size on."""

import torch

from spec import bounds
from spec.claim import refutes, verifies
from spec.claims import tensors
from spec.instruments import timer

CPU = torch.device("cpu")
SIZES = [2**power for power in range(3, 13)]  # rows and columns: from a launch that outweighs its work to a full device
TINY, FULL = SIZES[0], SIZES[-1]


def speedup(rows, device):
    """Return how many times faster a product of two (rows, rows) matrices is on `device` than on the CPU."""
    here = torch.rand(rows, rows, generator=torch.Generator().manual_seed(rows))
    there = here.to(device)
    runs = 3 if rows == FULL else 11  # a CPU takes seconds for the largest
    slow = timer.measure(lambda: here @ here, CPU, runs=runs, warm_up=1)
    fast = timer.measure(lambda: there @ there, device, runs=runs, warm_up=3)
    return slow.median / fast.median


def decided(evidence, ratio):
    """End the test undecided where a ratio of times is too near to 1."""
    if 1 / bounds.timing.CLEARLY < ratio < bounds.timing.CLEARLY:
        evidence.ambiguous(f"one takes {ratio:.2f} times as long as the other: too close to call")


@verifies(tensors.ACCELERATION)
def test_a_product_that_fills_the_device_is_faster_there(evidence, accelerator):
    """A product of 4096 × 4096 matrices takes the accelerator less time than the CPU, from a crossover size on."""
    gains = {rows: speedup(rows, accelerator) for rows in SIZES}
    decided(evidence, gains[FULL])
    evidence.at_least(gains[FULL], bounds.timing.CLEARLY, unit="times as fast as the CPU", rows=FULL)
    slower = [rows for rows in SIZES if gains[rows] < 1]
    evidence.at_most(2 * max(slower, default=TINY // 2), FULL, unit="rows at the crossover")


@refutes(tensors.ACCELERATION)
def test_a_tiny_product_is_slower_there(evidence, accelerator):
    """A product of 8 × 8 matrices takes the accelerator more time than the CPU: the launch outweighs the work."""
    loss = 1 / speedup(TINY, accelerator)
    decided(evidence, loss)
    evidence.at_least(loss, bounds.timing.CLEARLY, unit="times as slow as the CPU", rows=TINY)
