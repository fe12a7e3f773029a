"""§2.2.4: FLOP/s and bytes/s against what the device promises, and the growth of time with FLOPs."""

from dataclasses import replace

import pytest
import torch

from spec import bounds
from spec.claim import verifies
from spec.claims import throughput
from spec.instruments import fitting, timer
from spec.run import benchmarks
from spec.run.benchmarks import Work

DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.float16)
# A square product of so many rows fills the device; LARGEST is for accelerators.
FULL = {"cpu": 1024}
LARGEST = 8192
PROBE = 4  # A product with this many times fewer rows is timed first, to predict the time of the large one.
UNTIMED = 64  # Products have so many rows in a run that times nothing.
SHARE = 0.06  # One run of a product may take this share of the time for its measurement.
NOTES = 16384  # The notes' product has so many points, twice as many inputs, and half as many outputs.


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
    """Return the number of rows of the largest square product for which memory and time suffice."""
    full = FULL.get(device.type, LARGEST)
    probe = full // PROBE
    with timer.one_thread():  # Several threads may wait for each other longer than they work.
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
    """Return the work of this size, or of a smaller one, with a note, where memory runs out."""

    def tried(side):
        work = make(side)
        work.run()  # The run needs memory of its own.
        return work

    work, _, note = fitting.fitting(tried, side, least=32)
    return replace(work, note=note)


@verifies(throughput.MFU)
def test_products_reach_a_part_of_what_is_promised(evidence, meter, device):
    """A product of each dtype reaches more than 0 FLOP/s, and no more than the dense peak where that is known."""
    works = {}
    for dtype in DTYPES if device.type != "mps" else (*DTYPES[:2], DTYPES[3]):  # MPS has no float64.
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


def swept(dtype, device, largest_rows):
    """Return square products of 1/8, 1/4, 1/2 and all of the largest number of rows."""
    rows = [largest_rows >> power for power in (3, 2, 1, 0)]
    return {f"{rows} rows": largest(lambda side: square(side, dtype, device), rows) for rows in rows}


@verifies(throughput.MFU)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_no_size_of_product_exceeds_the_promise(evidence, meter, device, dtype):
    """No size of square product, from coarse steps to fine ones around the best, exceeds the promised FLOP/s."""
    if device.type == "mps" and dtype is torch.float64:
        pytest.skip("MPS has no float64")
    most = affordable(dtype, device, meter.budget) if meter.timed else UNTIMED
    coarse = meter.rates(swept(dtype, device, most), device)
    best = max(coarse.values(), key=lambda rate: rate.flop_per_second).work.shape[0]
    between = [best * eighths // 8 for eighths in (6, 7, 9, 10, 12)]
    works = {f"{rows} rows": largest(lambda side: square(side, dtype, device), rows) for rows in between}
    for rate in (*coarse.values(), *meter.rates(works, device).values()):
        benchmarks.within_promise(evidence, rate)


@verifies(throughput.TIMING)
def test_time_grows_with_the_flops(evidence, meter, device):
    """8 times the FLOPs of a large product take at least 4 times as long."""
    rows = affordable(torch.float32, device, meter.budget) if meter.timed else UNTIMED
    works = {f"1/{part**3} of the FLOPs": square(rows // part, torch.float32, device) for part in (1, 2, 4)}
    whole, eighth, _ = meter.rates(works, device).values()
    benchmarks.decided(evidence, whole, eighth)
    ratio = whole.seconds / eighth.seconds
    if not 8 / bounds.timing.CLEARLY <= ratio <= 8 * bounds.timing.CLEARLY and ratio / 8 > 1 / bounds.timing.UNDECIDED:
        evidence.ambiguous(
            f"8 times the FLOPs take {ratio:.1f} times as long: the device is not full, or its clock changed"
        )
    evidence.at_least(ratio, 8 / bounds.timing.CLEARLY, what="the growth in time for 8 times the FLOPs", rows=rows)


@verifies(throughput.TIMING)
def test_the_values_hardly_matter(evidence, meter, device):
    """A product of random values, which draws more power, takes at most twice as long as one of ones."""
    rows = affordable(torch.float32, device, meter.budget) if meter.timed else UNTIMED
    random = square(rows, torch.float32, device)
    ones = torch.ones(rows, rows, device=device)
    works = {"random values": random, "ones": replace(random, run=lambda: ones @ ones)}
    rates = meter.rates(works, device)
    benchmarks.decided(evidence, *rates.values())
    ratio = rates["random values"].seconds / rates["ones"].seconds
    if bounds.timing.CLEARLY < ratio < bounds.timing.UNDECIDED:
        evidence.ambiguous(f"random values take {ratio:.2f} times as long as ones")
    evidence.at_most(ratio, bounds.timing.CLEARLY, what="the time of random values over that of ones", rows=rows)


def streams(side, device):
    """Return work that is bound by memory, and products of growing intensity, beginning at 0 FLOPs per byte."""
    generator = torch.Generator(device).manual_seed(side)
    x, y = (torch.rand(side, side, generator=generator, device=device) for _ in range(2))
    out = torch.empty_like(x)
    works = {
        "copy": Work(lambda: out.copy_(x), bytes=2 * x.nbytes, dtype=x.dtype, shape=(side, side)),
        "add": Work(lambda: torch.add(x, y, out=out), side**2, 3 * x.nbytes, x.dtype, (side, side)),
        "sum": Work(lambda: x.sum(1), side * (side - 1), x.nbytes + x[0].nbytes, x.dtype, (side, side)),
    }
    for columns in (1, 16, 256):
        thin = torch.rand(side, columns, generator=generator, device=device)
        works[f"product with {columns} columns"] = Work(
            lambda thin=thin: x @ thin,
            2 * side**2 * columns,
            x.nbytes + 2 * thin.nbytes,
            x.dtype,
            (side, side, columns),
        )
    return works


@verifies(throughput.MFU)
def test_nothing_lies_above_the_roofline(evidence, meter, device):
    """From a copy to a product, no work exceeds the promised FLOP/s or the promised bandwidth."""
    side = {"cpu": 4096}.get(device.type, 16384) if meter.timed else UNTIMED
    side = fitting.affordable(side, device, bytes_of=lambda side: 4 * side**2 * 4)
    for rate in meter.rates(streams(side, device), device, flush=True).values():
        benchmarks.within_bandwidth(evidence, rate)
        if rate.work.flops:
            benchmarks.within_promise(evidence, rate)


@verifies(throughput.MFU)
def test_tf32_products_are_held_to_tf32s_promise(evidence, meter, accelerator):
    """Products of float32 that may round to TF32 do not exceed the dense peak of TF32."""
    if accelerator.type != "cuda":
        pytest.skip(f"{accelerator.type} has no TF32")
    rows = affordable(torch.float32, accelerator, meter.budget) if meter.timed else UNTIMED
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        work = largest(lambda side: square(side, torch.float32, accelerator), rows)
        rate = meter.rate("TF32 product", work, accelerator)
    finally:
        torch.set_float32_matmul_precision(before)
    benchmarks.within_promise(evidence, rate)


def scaled(rows, device):
    """Return the work of one product of float8 matrices, with scales of 1, to bfloat16."""
    generator = torch.Generator(device).manual_seed(rows)
    a, b = (torch.rand(rows, rows, generator=generator, device=device).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=device)
    size = 2 * rows**2 + 2 * rows**2  # Each value takes one byte in the two operands and two bytes in the result.
    return Work(
        lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16), 2 * rows**3, size, a.dtype, (rows,) * 3
    )


@verifies(throughput.MFU)
def test_float8_products_are_held_to_float8s_promise(evidence, meter, accelerator):
    """Products of float8 do not exceed its dense peak, on a device that multiplies float8."""
    rows = affordable(torch.bfloat16, accelerator, meter.budget) if meter.timed else UNTIMED
    try:
        work = largest(lambda side: scaled(side, accelerator), rows)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        if fitting.out_of_memory(error):
            raise
        pytest.skip(f"this device multiplies no float8: {str(error).splitlines()[0]}")
    benchmarks.within_promise(evidence, meter.rate("float8 product", work, accelerator))
