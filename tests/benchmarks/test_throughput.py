"""§2.2.4: the FLOP/s of products, against what the device promises."""

from dataclasses import replace

import pytest
import torch

from spec import benchmarks
from spec.benchmarks import Work
from spec.claim import verifies
from spec.claims import throughput
from spec.instruments import fitting, timer

DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.float16)
FULL = {"cpu": 1024}  # rows of a square product that fills the device; on accelerators:
LARGEST = 8192
PROBE = 4  # times fewer rows tell how long it takes
UNTIMED = 64  # rows where nothing is timed
SHARE = 0.06  # of the time for a measurement that one run may take
NOTES = 16384  # points of the notes' product; twice as many inputs and half as many outputs


def multiply(points, inputs, outputs, dtype, device):
    """Return the work of one product of random (points, inputs) and (inputs, outputs) matrices."""
    generator = torch.Generator(device).manual_seed(points)
    a = torch.rand(points, inputs, generator=generator, device=device).to(dtype)
    b = torch.rand(inputs, outputs, generator=generator, device=device).to(dtype)
    values = points * inputs + inputs * outputs + points * outputs
    return Work(
        lambda: a @ b,
        flops=2 * points * inputs * outputs,
        bytes=values * dtype.itemsize,
        dtype=dtype,
        shape=(points, inputs, outputs),
    )


def square(rows, dtype, device):
    return multiply(rows, rows, rows, dtype, device)


def affordable(dtype, device, budget):
    """Return the rows of the largest square product that the memory and the time allow."""
    full = FULL.get(device.type, LARGEST)
    probe = full // PROBE
    with timer.one_thread():  # several may wait for each other longer than they work
        taken = min(timer.measure(square(probe, dtype, device).run, device, runs=5, warm_up=1).taken)
    return fitting.affordable(
        full,
        device,
        bytes_of=lambda rows: 3 * rows**2 * dtype.itemsize,
        seconds_of=lambda rows: taken * (rows / probe) ** 3,
        budget=SHARE * budget,
        least=probe,
    )


def largest(make, side):
    """Return the work of this size, or of half of it where memory runs out, which its note then says."""

    def tried(side):
        work = make(side)
        work.run()  # which needs memory of its own
        return work

    work, _, note = fitting.fitting(tried, side, least=32)
    return replace(work, note=note)


@verifies(throughput.MFU)
def test_products_reach_a_part_of_what_is_promised(evidence, meter, device):
    """The FLOP/s of a product of each dtype are more than none and no more than its dense peak, where that is known."""
    works = {}
    for dtype in DTYPES if device.type != "mps" else (*DTYPES[:2], DTYPES[3]):  # no float64
        rows = affordable(dtype, device, meter.budget) if meter.timed else UNTIMED
        work = largest(lambda side, dtype=dtype: square(side, dtype, device), rows)
        works[f"{str(dtype).removeprefix('torch.')} product"] = work
    for rate in meter.rates(works, device).values():
        benchmarks.within_promise(evidence, rate)


@verifies(throughput.MFU)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_the_notes_product_reaches_a_part_of_what_is_promised(evidence, meter, accelerator, dtype):
    """The notes' own product, 16384 × 32768 by 32768 × 8192, stays below the dense peak of its dtype."""
    points = NOTES if meter.timed else UNTIMED
    work = largest(lambda points: multiply(points, 2 * points, points // 2, dtype, accelerator), points)
    rate = meter.rate(f"the notes' product in {str(dtype).removeprefix('torch.')}", work, accelerator)
    benchmarks.within_promise(evidence, rate)
