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
    """Return a ratio of times that is far enough from 1 to decide anything."""
    if 1 / bounds.CLEARLY < ratio < bounds.CLEARLY:
        evidence.ambiguous(f"one takes {ratio:.2f} times as long as the other: too close to call")
    return ratio


@verifies(tensors.ACCELERATION)
def test_a_product_that_fills_the_device_is_faster_there(evidence, accelerator):
    """A product of 4096 × 4096 matrices takes the accelerator less time than the CPU."""
    gain = decided(evidence, speedup(FULL, accelerator))
    evidence.at_least(gain, bounds.CLEARLY, unit="times as fast as the CPU", rows=FULL)


@refutes(tensors.ACCELERATION)
def test_a_tiny_product_is_slower_there(evidence, accelerator):
    """A product of 8 × 8 matrices takes the accelerator more time than the CPU: the launch outweighs the work."""
    loss = decided(evidence, 1 / speedup(TINY, accelerator))
    evidence.at_least(loss, bounds.CLEARLY, unit="times as slow as the CPU", rows=TINY)


@verifies(tensors.ACCELERATION)
def test_there_is_a_size_from_which_it_pays(evidence, accelerator):
    """From some size on, above the tiniest and below the largest tried, the accelerator is the faster of the two."""
    slower = [rows for rows in SIZES if speedup(rows, accelerator) < 1]
    crossover = 2 * max(slower, default=TINY // 2)
    evidence.at_most(crossover, FULL, unit="rows at the crossover")
