"""§2.2.4: how long a product takes, and how much of the promised speed that is."""

import math
import statistics
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import example, given

from spec import bounds
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import throughput
from spec.hardware import devices, promises
from spec.instruments import timer
from spec.instruments.pace import Pace

CPU = torch.device("cpu")
MILLISECOND = 1e-3
# A measurement is repeated up to so many times, because other programs can only slow it down.
ATTEMPTS = 8
# The seconds that each product takes, again and again. Any nine in a row have the mean 1 ms, and so have nine that are
# every second one. The least of nine is 0, and so are their median and their mean without the extremes: an
# implementation that returns one of these instead of the mean is found out.
SCHEDULE = (0.0,) * 4 + (9 * MILLISECOND,) + (0.0,) * 4
OBLONG = (48, 384, 480)  # No other product of these two operands takes nearly as long.
# From so many rows on, the time of a square product grows with its FLOPs; accelerators need KNEE and FULL rows.
SMALL, LARGE = {"cpu": 128}, {"cpu": 256}
KNEE, FULL = 2048, 8192
NOTES = 21.06e12  # The notes' bfloat16 product reaches these FLOP/s.
PROMISED = 20.31e12  # The notes compare it with this peak in FLOP/s, which is that of float32.
CARD = "NVIDIA GeForce RTX 3070"


def operands(rows, inner, columns, device, dtype=torch.float32):
    """Return two random matrices that fit."""
    generator = torch.Generator(device).manual_seed(rows)
    return (
        torch.rand(rows, inner, device=device, generator=generator).to(dtype),
        torch.rand(inner, columns, device=device, generator=generator).to(dtype),
    )


def fastest(measure):
    """Return the least of three measurements."""
    return min(measure() for _ in range(3))


def agrees(evidence, first, second, scale=1.0, **inputs):
    """Check that two times have the ratio `scale` within a factor of 2.

    They are measured in turn, at least three times, until the ratio of the least times is close enough. The test ends
    undecided where the ratio is off by less than a factor of 4, or where the measurements scatter.
    """
    firsts, seconds = [], []
    for attempt in range(ATTEMPTS):
        firsts.append(first())
        seconds.append(second())
        ratio = min(firsts) / min(seconds) / scale if min(seconds) > 0 else math.inf
        if attempt >= 2 and 1 / bounds.timing.CLEARLY <= ratio <= bounds.timing.CLEARLY:
            break
    off = max(ratio, 1 / ratio) if ratio > 0 else math.inf
    noise = max((statistics.median(times) / min(times) for times in (firsts, seconds) if min(times) > 0), default=1)
    if bounds.timing.CLEARLY < off <= bounds.timing.UNDECIDED or off > bounds.timing.CLEARLY < noise:
        evidence.ambiguous(f"the times' ratio is {ratio:.2f}: too noisy to tell")
    what = "the time over the expected time"
    evidence.at_most(ratio, bounds.timing.CLEARLY, what=what, **inputs)
    evidence.at_least(ratio, 1 / bounds.timing.CLEARLY, what=what, **inputs)


# ---- timing ----


def timed_at_pace(impl, schedule, **trials):
    """Return the result of time_matmul and the record of its products, which take the times of the schedule."""
    a, b = operands(2, 3, 4, CPU)
    with Pace(schedule) as pace:
        return impl.throughput.time_matmul(a, b, **trials), pace


def is_the_mean(evidence, impl, schedule, trials):
    """Check that time_matmul returns the mean of the schedule, or a little more, in one of a few attempts."""
    for _ in range(ATTEMPTS):
        seconds, pace = timed_at_pace(impl, schedule, trials=trials)
        limit = bounds.timing.BESIDE * pace.slowest(trials)
        if seconds <= limit:
            break
    mean = sum(schedule) / len(schedule)
    # The products come first: without any, the time to compare with would be 0 seconds.
    evidence.at_least(pace.count(2 * 4, torch.float32), trials, unit="products", trials=trials)
    given = {"trials": trials, "seconds_of_each_product": schedule}
    evidence.at_least(seconds, (1 - bounds.timing.OVERHEAD) * mean, what="the mean time", unit="seconds", **given)
    evidence.at_most(seconds, limit, what="the mean time", unit="seconds", **given)


@verifies(throughput.TIMING)
def test_the_time_is_the_mean_of_the_trials(impl, evidence):
    """Where every ninth product takes 9 ms and the others no time, the mean of the trials is 1 ms."""
    is_the_mean(evidence, impl, SCHEDULE, len(SCHEDULE))


@verifies(throughput.TIMING)
@pytest.mark.parametrize(("trials", "schedule"), [(1, [4]), (2, [4]), (np.int64(3), [0, 12, 0])], ids=str)
def test_there_are_as_many_products_as_trials(impl, evidence, trials, schedule):
    """As many products run as there are trials, or more, and time_matmul returns their mean of 4 ms."""
    is_the_mean(evidence, impl, [delay * MILLISECOND for delay in schedule], trials)


@verifies(throughput.TIMING)
def test_there_are_five_trials_unless_said_otherwise(impl, evidence):
    """At least five products run where no number of trials is given."""
    products = timed_at_pace(impl, [0.0])[1].count(2 * 4, torch.float32)
    evidence.at_least(products, 5, unit="products", trials="not given")


@verifies(throughput.TIMING)
def test_an_independent_timer_agrees(impl, evidence, device):
    """time_matmul and an independent timer measure the same time of a product, within a factor of two."""
    rows, inner, columns = OBLONG if device.type == "cpu" else (KNEE, FULL, FULL)
    a, b = operands(rows, inner, columns, device)
    agrees(
        evidence,
        lambda: impl.throughput.time_matmul(a, b, trials=5),
        lambda: statistics.fmean(timer.measure(lambda: a @ b, device, runs=5, warm_up=1).taken),
        shape=(rows, inner, columns),
    )


@verifies(throughput.TIMING)
def test_the_time_grows_with_the_product(impl, evidence, device):
    """The time of a large product grows like B·D·K, within a factor of two."""
    small, large = SMALL.get(device.type, KNEE), LARGE.get(device.type, FULL)
    few, many = operands(small, small, small, device), operands(large, large, large, device)
    agrees(
        evidence,
        lambda: impl.throughput.time_matmul(*many, trials=2),
        lambda: impl.throughput.time_matmul(*few, trials=2),
        scale=(large / small) ** 3,
        rows=(small, large),
    )


@verifies(throughput.TIMING)
def test_any_two_matrices_that_fit_are_timed_and_left_alone(impl, evidence):
    """Matrices of any float dtype and layout are multiplied as they are, in finite time, and are not changed."""
    dtypes = (torch.float32, torch.float64, torch.bfloat16)
    for dtype, (rows, inner, columns) in product(dtypes, [(2, 3, 4), (1, 1, 1), (7, 1, 5), (3, 3, 3)]):
        a = torch.arange(rows * inner).reshape(rows, inner).to(dtype)
        b = torch.arange(inner * columns).reshape(columns, inner).to(dtype).t()
        before_a, before_b = a.clone(), b.clone()
        with Pace([0.0]) as pace:
            seconds = impl.throughput.time_matmul(a=a, b=b, trials=2)
        inputs = {"dtype": dtype, "shape": (rows, inner, columns)}
        evidence.true(0 <= seconds < math.inf, "the time is finite and not negative", seconds=seconds, **inputs)
        evidence.at_least(pace.count(rows * columns, dtype), 2, unit="products", **inputs)
        evidence.equal(a, before_a, what="the left operand after the call", **inputs)
        evidence.equal(b, before_b, what="the right operand after the call", **inputs)
    square = torch.arange(9.0).reshape(3, 3)
    with Pace([0.0]) as pace:
        impl.throughput.time_matmul(square, square, trials=2)
    evidence.at_least(pace.count(9, torch.float32), 2, unit="products", operands="one matrix, twice")
    evidence.equal(square, torch.arange(9.0).reshape(3, 3), what="the matrix after the call", shape=(3, 3))


@verifies(throughput.TIMING)
def test_the_same_operands_are_timed_anew(impl, evidence):
    """Operands that were timed before are timed again, so that a product that has become slower takes longer."""
    a, b = operands(2, 3, 4, CPU)
    for milliseconds in (0, 4):
        with Pace([milliseconds * MILLISECOND]):
            seconds = impl.throughput.time_matmul(a, b, trials=2)
        shortest = (1 - bounds.timing.OVERHEAD) * milliseconds * MILLISECOND
        inputs = {"shape": (2, 3, 4), "milliseconds": milliseconds}
        evidence.at_least(seconds, shortest, what="the mean time", unit="seconds", **inputs)


@verifies(throughput.TIMING)
def test_matrices_that_do_not_fit_and_trials_that_are_none_raise(impl, evidence):
    """Matrices that do not fit and fewer trials than one raise ValueError, and trials that are no integer TypeError."""
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    for left, right in [(a, b.t()), (b, b), (a, a)]:
        sizes = {"a": tuple(left.shape), "b": tuple(right.shape)}
        evidence.raises(ValueError, lambda: impl.throughput.time_matmul(left, right), **sizes)  # noqa: B023
    refused = {0: (ValueError, ZeroDivisionError), -1: ValueError, 2.5: (TypeError, ValueError), "3": TypeError}
    for trials, error in refused.items():
        evidence.raises(error, lambda: impl.throughput.time_matmul(a, b, trials), trials=trials)  # noqa: B023


# ---- FLOP/s and MFU ----


@verifies(throughput.MFU)
@example(flops=6, seconds=1.0)
@example(flops=6, seconds=2.0)
@given(flops=st.flop_counts, seconds=st.durations)
def test_flop_per_second_is_flops_over_seconds(impl, evidence, flops, seconds):
    """flop_per_second returns FLOPs ÷ seconds, in FLOP/s and not in multiples such as TFLOP/s."""
    exact = Fraction(flops) / Fraction(seconds)
    rate = impl.throughput.flop_per_second(flops, seconds)
    evidence.close(rate, float(exact), tolerance=bounds.rounding.quotient(exact), what="the rate", unit="FLOP/s")


@verifies(throughput.MFU)
def test_flops_may_be_numpy_integers(impl, evidence):
    """NumPy's integers of any width give the same FLOP/s as Python's, and 0 FLOPs give 0 FLOP/s."""
    for kind, count in [(kind, int(np.iinfo(kind).max)) for kind in (np.int32, np.int64, np.uint32)] + [(int, 0)]:
        exact = Fraction(count, 4)
        rate = impl.throughput.flop_per_second(flops=kind(count), seconds=4.0)
        tolerance = bounds.rounding.quotient(exact)
        evidence.close(rate, float(exact), tolerance=tolerance, what="the rate", unit="FLOP/s", flops=kind(count))


@verifies(throughput.MFU)
@example(achieved=1e12, promised=1e12)
@example(achieved=1e12, promised=2e12)
@given(achieved=st.flop_rates, promised=st.flop_rates)
def test_mfu_is_achieved_over_promised(impl, evidence, achieved, promised):
    """MFU is the achieved rate ÷ the promised rate, as a fraction and not a percentage, even where it exceeds 1."""
    exact = Fraction(achieved) / Fraction(promised)
    share = impl.throughput.mfu(achieved, promised)
    evidence.close(share, float(exact), tolerance=bounds.rounding.quotient(exact), what="the MFU")


@verifies(throughput.MFU)
def test_rates_that_are_no_rates_raise(impl, evidence):
    """Rates that are not positive and finite, negative FLOPs, zero seconds, and arguments that are no numbers raise."""
    for bad in (0, 0.0, -0.0, -1, -1e12, math.inf, -math.inf, math.nan):
        evidence.raises(ValueError, lambda: impl.throughput.mfu(bad, 1e12), achieved=bad)  # noqa: B023
        evidence.raises(ValueError, lambda: impl.throughput.mfu(1e12, bad), promised=bad)  # noqa: B023
    evidence.raises(ValueError, lambda: impl.throughput.flop_per_second(-1, 1.0), flops=-1)
    evidence.raises((ValueError, ZeroDivisionError), lambda: impl.throughput.flop_per_second(6, 0.0), seconds=0.0)
    for word in ("1e12", None):
        evidence.raises(TypeError, lambda: impl.throughput.mfu(word, 1e12), achieved=word)  # noqa: B023
        evidence.raises(TypeError, lambda: impl.throughput.mfu(1e12, word), promised=word)  # noqa: B023
        evidence.raises(TypeError, lambda: impl.throughput.flop_per_second(word, 1.0), flops=word)  # noqa: B023
        evidence.raises(TypeError, lambda: impl.throughput.flop_per_second(6, word), seconds=word)  # noqa: B023


@verifies(throughput.MFU)
def test_the_promise_for_the_dtype_gives_a_share(impl, evidence):
    """The notes' bfloat16 rate is an MFU below 1 against the RTX 3070's bfloat16 peak, accumulated in float32."""
    promise = promises.promised(promises.find(CARD), "bfloat16").value
    share = impl.throughput.mfu(NOTES, promise)
    tolerance, rates = bounds.rounding.quotient(Fraction(NOTES / promise)), {"actual": NOTES, "promised": promise}
    evidence.close(share, NOTES / promise, tolerance=tolerance, what="the MFU", **rates)
    evidence.at_most(share, 1, what="the MFU", **rates)


@refutes(throughput.MFU)
def test_with_a_promise_for_another_dtype_there_is_more_than_all(impl, evidence):
    """Against the same card's float32 peak, as in the notes, the same rate is an impossible MFU of 1.04."""
    share = impl.throughput.mfu(NOTES, PROMISED)
    evidence.at_least(share, 1, what="the MFU", achieved=NOTES, promised=PROMISED)
    right = promises.promised(promises.find(CARD), "bfloat16").value
    evidence.differs(NOTES / right, NOTES / PROMISED, what="the MFU", promised=right)


# ---- devices ----


@verifies(throughput.SYNCHRONIZE)
def test_a_product_returns_before_it_is_done(evidence, accelerator):
    """The call of a large product returns in less than half of the time until the device is done."""
    a, b = operands(FULL, FULL, FULL, accelerator)
    timer.seconds(lambda: a @ b, accelerator)
    returned, done = zip(*(timer.queued(lambda: a @ b, accelerator) for _ in range(3)), strict=True)
    share = min(returned) / min(done)
    evidence.at_most(share, 1 / bounds.timing.CLEARLY, what="the call's share of the time until it is done", rows=FULL)


@verifies(throughput.SYNCHRONIZE)
def test_the_time_is_the_devices_own(impl, evidence, accelerator):
    """time_matmul agrees with the device's own events about the time of a product, within a factor of two."""
    a, b = operands(FULL, FULL, FULL, accelerator)
    agrees(
        evidence,
        lambda: impl.throughput.time_matmul(a, b, trials=3),
        lambda: timer.device_seconds(lambda: a @ b, accelerator),
        rows=FULL,
    )


@verifies(throughput.SYNCHRONIZE)
def test_what_was_queued_before_does_not_count(impl, evidence, accelerator):
    """Products that were queued before time_matmul is called do not count in the time that it returns."""
    a, b = operands(FULL, FULL, FULL, accelerator)

    def behind_others():
        queue = [a @ b for _ in range(8)]
        seconds = impl.throughput.time_matmul(a, b, trials=1)
        del queue
        return seconds

    agrees(evidence, behind_others, lambda: impl.throughput.time_matmul(a, b, trials=1), queued=8)


@verifies(throughput.SYNCHRONIZE)
def test_a_slow_first_product_does_not_count(impl, evidence, accelerator):
    """A first product that takes longer, as when the device has yet to load its kernel, does not count in the mean."""
    a, b = operands(KNEE, KNEE, KNEE, accelerator)
    usual = fastest(lambda: impl.throughput.time_matmul(a, b, trials=2))
    slow = 32 * max(usual, MILLISECOND)

    def from_cold():
        with Pace([slow] + [0.0] * 99):
            return impl.throughput.time_matmul(a, b, trials=2)

    evidence.at_most(
        fastest(from_cold), slow / 2 / bounds.timing.CLEARLY, what="the mean time", unit="seconds", slow_first=slow
    )


@verifies(throughput.HARDWARE)
def test_the_same_product_reaches_another_rate_elsewhere(evidence, accelerator):
    """The accelerator and the CPU compute the same product at rates that differ by a factor of two or more."""
    rates = {}
    for device in (CPU, accelerator):
        a, b = operands(KNEE, KNEE, KNEE, device)
        rates[device] = 2 * KNEE**3 / timer.measure(lambda: a @ b, device, runs=5).median  # noqa: B023
    ratio = rates[accelerator] / rates[CPU]
    if 1 / bounds.timing.CLEARLY < ratio < bounds.timing.CLEARLY:
        evidence.ambiguous(f"the accelerator reaches {ratio:.2f} times the CPU's FLOP/s: too close to call")
    evidence.at_least(max(ratio, 1 / ratio), bounds.timing.CLEARLY, what="the faster rate over the slower", rows=KNEE)


def speedup(rows, device):
    """Return how many times as fast a product is in bfloat16 as in float32; the CPU computes it on one thread."""
    a, b = operands(rows, rows, rows, device)
    narrow = a.bfloat16(), b.bfloat16()
    products = {"wide": lambda: a @ b, "narrow": lambda: narrow[0] @ narrow[1]}
    # Without a flush of the caches, the time of a tiny product includes that of its call.
    times = timer.sample(products, device, budget=0.02, flush=False)
    return min(times["wide"].taken) / min(times["narrow"].taken)


@verifies(throughput.DTYPE)
def test_bfloat16_is_faster_where_the_device_multiplies_it(evidence, device):
    """A large product is faster in bfloat16 on a device with matrix units for it, and far slower on a CPU without."""
    has_units = devices.multiplies_bfloat16(device)
    if has_units is None:
        pytest.skip("torch does not tell whether this device has matrix units for bfloat16")
    rows = 192 if device.type == "cpu" else FULL
    gain = speedup(rows, device)
    if 1 / (bounds.timing.SAME_SPEED if has_units else bounds.timing.CLEARLY) < gain < bounds.timing.SAME_SPEED:
        evidence.ambiguous(f"bfloat16 is {gain:.2f} times as fast as float32: too close to call")
    if has_units:
        evidence.at_least(gain, 1, what="the speed of bfloat16 over float32", rows=rows)
    else:
        evidence.at_most(gain, 1 / bounds.timing.CLEARLY, what="the speed of bfloat16 over float32", rows=rows)


@refutes(throughput.DTYPE)
def test_tiny_products_are_not_twice_as_fast_in_bfloat16(evidence, device):
    """A product of 8 × 8 matrices is at most twice as fast in bfloat16, because its call outweighs its FLOPs."""
    gain = speedup(8, device)
    if bounds.timing.CLEARLY < gain <= bounds.timing.UNDECIDED:
        evidence.ambiguous(f"bfloat16 is {gain:.2f} times as fast as float32: too noisy to tell")
    evidence.at_most(gain, bounds.timing.CLEARLY, what="the speed of bfloat16 over float32", rows=8)
