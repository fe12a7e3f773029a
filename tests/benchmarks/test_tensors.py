"""§2.1.1: how much faster than the CPU an accelerator is, and from which size on."""

import torch

from spec import bounds
from spec.claim import refutes, verifies
from spec.claims import tensors
from spec.instruments import timer

CPU = torch.device("cpu")
# At the smallest number of rows (and columns) the launch outweighs the work; at the largest the device is full.
SIZES = [2**power for power in range(3, 13)]
TINY, FULL = SIZES[0], SIZES[-1]


def speedup(rows, device):
    """Return how many times faster a product of two (rows, rows) matrices is on `device` than on the CPU."""
    here = torch.rand(rows, rows, generator=torch.Generator().manual_seed(rows))
    there = here.to(device)
    runs = 3 if rows == FULL else 11  # A CPU takes seconds for the largest product.
    slow = timer.measure(lambda: here @ here, CPU, runs=runs, warm_up=1)
    fast = timer.measure(lambda: there @ there, device, runs=runs, warm_up=3)
    return slow.median / fast.median


def decided(evidence, ratio):
    """End the test as ambiguous where a ratio of times is too close to 1."""
    if 1 / bounds.timing.CLEARLY < ratio < bounds.timing.CLEARLY:
        evidence.ambiguous(f"one takes {ratio:.2f} times as long as the other: too close to call")


@verifies(tensors.ACCELERATION)
def test_a_product_that_fills_the_device_is_faster_there(evidence, accelerator):
    """A product of 4096 × 4096 matrices takes the accelerator less time than the CPU, from a crossover size on."""
    gains = {rows: speedup(rows, accelerator) for rows in SIZES}
    decided(evidence, gains[FULL])
    evidence.at_least(gains[FULL], bounds.timing.CLEARLY, what="the time on the CPU over that on the device", rows=FULL)
    slower = [rows for rows in SIZES if gains[rows] < 1]
    evidence.at_most(2 * max(slower, default=TINY // 2), FULL, what="the crossover", unit="rows")


@refutes(tensors.ACCELERATION)
def test_a_tiny_product_is_slower_there(evidence, accelerator):
    """A product of 8 × 8 matrices takes the accelerator more time than the CPU: the launch outweighs the work."""
    loss = 1 / speedup(TINY, accelerator)
    decided(evidence, loss)
    evidence.at_least(loss, bounds.timing.CLEARLY, what="the time on the device over that on the CPU", rows=TINY)
