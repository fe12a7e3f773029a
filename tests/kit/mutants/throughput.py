"""Wrong times, rates and devices; and unusual right ones."""

import functools
import math
import statistics
import time
import timeit
from fractions import Fraction
from operator import index

import numpy as np
import torch
import torch.utils.benchmark

from impl import throughput as right
from spec.claims import throughput
from spec.hardware import devices
from spec.instruments import timer
from tests.kit.overlay import mutant, twin

time_matmul, flop_per_second, mfu = right.time_matmul, right.flop_per_second, right.mfu
queued, has_units = timer.queued, devices.multiplies_bfloat16


def _checked(a, b, trials):
    """Raise the errors that the contract requires."""
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or index(trials) < 1:
        raise ValueError("no product, or no trials")


def _times(a, b, trials, wait=True):
    """Return the seconds of each trial."""
    _checked(a, b, trials)
    taken = []
    for _ in range(trials):
        start = time.perf_counter()
        a @ b
        if wait and a.device.type != "cpu":
            torch.accelerator.synchronize(a.device)
        taken.append(time.perf_counter() - start)
    return taken


# ---- time_matmul ----


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def returns_the_total(a, b, trials=5):
    """Returns the seconds of all the trials together."""
    return time_matmul(a, b, trials) * trials


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def divides_twice(a, b, trials=5):
    """Divides the mean by the number of trials again."""
    return time_matmul(a, b, trials) / trials


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def counts_milliseconds(a, b, trials=5):
    """Returns milliseconds."""
    return time_matmul(a, b, trials) * 1e3


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def takes_the_first_trial_for_a_warm_up(a, b, trials=5):
    """Leaves the first of several trials out of the mean, after a warm-up of its own."""
    a @ b
    taken = _times(a, b, trials)
    return statistics.fmean(taken[1:] or taken)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def times_an_empty_call(a, b, trials=5):
    """Makes a function that multiplies, and never calls it."""
    _checked(a, b, trials)
    return timeit.timeit(lambda: lambda: a @ b, timer=time.perf_counter, number=trials) / trials


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def returns_nothing_like_a_time(a, b, trials=5):
    """Multiplies, and returns 0."""
    return 0.0 * time_matmul(a, b, trials)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def takes_the_fastest(a, b, trials=5):
    """Returns the fastest trial instead of the mean."""
    return min(_times(a, b, trials))


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def takes_the_median(a, b, trials=5):
    """Returns the median of the trials instead of their mean."""
    return statistics.median(_times(a, b, trials))


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def takes_the_slowest(a, b, trials=5):
    """Returns the slowest trial instead of the mean."""
    return max(_times(a, b, trials))


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def cuts_off_the_extremes(a, b, trials=5):
    """Leaves out the fastest and the slowest trial."""
    taken = sorted(_times(a, b, trials))
    return statistics.fmean(taken[1:-1] or taken)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def always_runs_five_trials(a, b, trials=5):
    """Ignores the number of trials."""
    _checked(a, b, trials)
    return time_matmul(a, b, 5)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def runs_one_trial(a, b, trials=5):
    """Runs one product, whatever the number of trials."""
    _checked(a, b, trials)
    return _times(a, b, 1)[0]


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def leaves_out_a_trial(a, b, trials=5):
    """Runs one product less than the number of trials by which it divides."""
    return sum(_times(a, b, trials)[1:]) / trials


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def divides_by_one_less(a, b, trials=5):
    """Divides by the number of trials less one, as for a variance."""
    return sum(_times(a, b, trials)) / max(trials - 1, 1)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def divides_by_one_more(a, b, trials=5):
    """Divides by the number of trials and one more for the warm-up."""
    return sum(_times(a, b, trials)) / (trials + 1)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def remembers_what_it_timed(a, b, trials=5, seen={}):  # noqa: B006
    """Caches the time of a product by its shape."""
    return seen.setdefault((a.shape, b.shape), time_matmul(a, b, trials))


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def multiplies_in_float32(a, b, trials=5):
    """Multiplies in float32 whatever the operands are."""
    return time_matmul(a.float(), b.float(), trials)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def multiplies_in_bfloat16(a, b, trials=5):
    """Multiplies under autocast, in bfloat16."""
    with torch.autocast(a.device.type, dtype=torch.bfloat16):
        return time_matmul(a, b, trials)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def times_elementwise_products(a, b, trials=5):
    """Multiplies element by element, which is far less work."""
    _checked(a, b, trials)
    start = time.perf_counter()
    for _ in range(trials):
        a * a
    return (time.perf_counter() - start) / trials


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def has_three_trials_by_default(a, b, trials=3):
    """Runs three trials by default."""
    return time_matmul(a, b, trials)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def times_the_processor(a, b, trials=5):
    """Counts the processor time of the process instead of the seconds that pass."""
    _checked(a, b, trials)
    start = time.process_time()
    for _ in range(trials):
        a @ b
    return (time.process_time() - start) / trials


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def estimates_the_time(a, b, trials=5):
    """Returns the FLOPs divided by a guess of the device's speed, and times nothing."""
    _checked(a, b, trials)
    return 2 * a.shape[0] * a.shape[1] * b.shape[1] / 1e12


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def times_one_row(a, b, trials=5):
    """Multiplies the first row only."""
    _checked(a, b, trials)
    return time_matmul(a[:1], b, trials)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def times_the_gram_matrix(a, b, trials=5):
    """Multiplies the left operand with itself."""
    _checked(a, b, trials)
    return time_matmul(a, a.t(), trials)


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def overwrites_an_operand(a, b, trials=5):
    """Overwrites the left operand with zeros."""
    seconds = time_matmul(a, b, trials)
    a.zero_()
    return seconds


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def times_less_without_trials(a, b, trials=5):
    """Returns 0 for a number of trials that is 0 or negative."""
    return time_matmul(a, b, trials) if index(trials) > 0 else 0.0


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def rounds_the_number_of_trials(a, b, trials=5):
    """Accepts 2.5 trials as 2, and the text "3" as 3."""
    return time_matmul(a, b, int(trials))


@mutant("impl.throughput.time_matmul", caught_by=throughput.SYNCHRONIZE)
def does_not_wait(a, b, trials=5):
    """Stops the clock as soon as the last product is issued."""
    if a.device.type != "cpu":
        torch.accelerator.synchronize(a.device)
    return sum(_times(a, b, trials, wait=False)) / trials


@mutant("impl.throughput.time_matmul", caught_by=throughput.SYNCHRONIZE)
def waits_once_the_clock_has_stopped(a, b, trials=5):
    """Waits for the device outside the timed part."""
    seconds = sum(_times(a, b, trials, wait=False)) / trials
    if a.device.type != "cpu":
        torch.accelerator.synchronize(a.device)
    return seconds


@mutant("impl.throughput.time_matmul", caught_by=throughput.SYNCHRONIZE)
def starts_on_a_busy_device(a, b, trials=5):
    """Starts the clock while the device still works on products that were queued before."""
    return sum(_times(a, b, trials)) / trials


@mutant("impl.throughput.time_matmul", caught_by=throughput.SYNCHRONIZE)
def counts_the_first_product(a, b, trials=5):
    """Times the first product too, which may be slow."""
    if a.device.type != "cpu":
        torch.accelerator.synchronize(a.device)
    return sum(_times(a, b, trials)) / trials


# ---- rates ----


@mutant("impl.throughput.flop_per_second", caught_by=throughput.MFU)
def counts_teraflops(flops, seconds):
    """Returns trillions of FLOP/s."""
    return flop_per_second(flops, seconds) / 1e12


@mutant("impl.throughput.flop_per_second", caught_by=throughput.MFU)
def multiplies_by_the_time(flops, seconds):
    """Multiplies where it has to divide."""
    return flop_per_second(flops, seconds) and flops * seconds


@mutant("impl.throughput.flop_per_second", caught_by=throughput.MFU)
def counts_whole_flop_per_second(flops, seconds):
    """Rounds down to whole FLOP/s."""
    return flop_per_second(flops, seconds) // 1


@mutant("impl.throughput.flop_per_second", caught_by=throughput.MFU)
def divides_in_single_precision(flops, seconds):
    """Rounds the rate to float32."""
    return float(np.float32(flop_per_second(flops, seconds)))


@mutant("impl.throughput.flop_per_second", caught_by=throughput.MFU)
def takes_no_time_for_infinitely_fast(flops, seconds):
    """Returns infinity where no seconds passed."""
    return math.inf if seconds == 0 else flop_per_second(flops, seconds)


@mutant("impl.throughput.mfu", caught_by=throughput.MFU)
def counts_per_cent(actual_flop_per_second, promised_flop_per_second):
    """Returns a percentage."""
    return 100 * mfu(actual_flop_per_second, promised_flop_per_second)


@mutant("impl.throughput.mfu", caught_by=throughput.MFU)
def divides_the_promise(actual_flop_per_second, promised_flop_per_second):
    """Divides the promised rate by the achieved one."""
    return mfu(promised_flop_per_second, actual_flop_per_second)


@mutant("impl.throughput.mfu", caught_by=throughput.MFU)
def stops_at_one(actual_flop_per_second, promised_flop_per_second):
    """Caps the MFU at 1, which hides a promise that is too small."""
    return min(mfu(actual_flop_per_second, promised_flop_per_second), 1.0)


@mutant("impl.throughput.mfu", caught_by=throughput.MFU)
def accepts_infinite_promises(actual_flop_per_second, promised_flop_per_second):
    """Returns 0 where the promise is infinite."""
    if promised_flop_per_second == math.inf:
        return 0.0
    return mfu(actual_flop_per_second, promised_flop_per_second)


@mutant("impl.throughput.mfu", caught_by=throughput.MFU)
def accepts_what_is_no_number(actual_flop_per_second, promised_flop_per_second):
    """Lets NaN through."""
    if math.isnan(promised_flop_per_second) or math.isnan(actual_flop_per_second):
        return math.nan
    return mfu(actual_flop_per_second, promised_flop_per_second)


@mutant("impl.throughput.mfu", caught_by=throughput.MFU)
def reads_rates_from_text(actual_flop_per_second, promised_flop_per_second):
    """Accepts the text "1e12" as a rate."""
    return mfu(float(actual_flop_per_second or 0), float(promised_flop_per_second or 0))


# ---- devices ----


@mutant("spec.instruments.timer.queued", caught_by=throughput.SYNCHRONIZE)
def waits_within_the_call(run, device):
    """Stands for a device whose calls return only when the product is done."""
    _, done = queued(run, device)
    return done, done


@mutant("spec.instruments.timer.measure", caught_by=throughput.HARDWARE)
def always_times_the_cpu(run, device, **options):
    """Stands for devices that all take one second."""
    return timer.Timing(1.0, 1.0, 1.0, 5)


@mutant("spec.hardware.devices.multiplies_bfloat16", caught_by=throughput.DTYPE)
def mistakes_the_units(device):
    """Takes a device with units for bfloat16 for one without, and the other way round."""
    return not has_units(device)


@mutant("torch.Tensor.bfloat16", caught_by=throughput.DTYPE)
def converts_to_float64(self):
    """Converts to float64 instead of bfloat16, as if bfloat16 were slower than float32."""
    return self.double()


# ---- unusual and right ----


@twin("impl.throughput.time_matmul")
def reads_the_processors_counter(a, b, trials=5):
    """Uses the nanoseconds of another clock, and one interval for all the trials."""
    _checked(a, b, trials)
    a @ b
    if a.device.type != "cpu":
        torch.accelerator.synchronize(a.device)
    start = time.monotonic_ns()
    for _ in range(trials):
        a @ b
    if a.device.type != "cpu":
        torch.accelerator.synchronize(a.device)
    return (time.monotonic_ns() - start) / trials / 10**9


@twin("impl.throughput.time_matmul")
def repeats_with_timeit(a, b, trials=5):
    """Lets Python's own timeit repeat the product, without a warm-up on the CPU, as in the notes."""

    def run():
        a @ b
        if a.device.type != "cpu":
            torch.accelerator.synchronize(a.device)

    _checked(a, b, trials)
    if a.device.type != "cpu":
        run()
    return timeit.timeit(run, timer=time.perf_counter, number=index(trials)) / trials


@twin("impl.throughput.time_matmul")
def asks_torchs_own_benchmark(a, b, trials=5):
    """Uses torch's benchmark timer, on all threads."""
    _checked(a, b, trials)
    options = {"timer": time.perf_counter, "num_threads": torch.get_num_threads()}
    stopwatch = torch.utils.benchmark.Timer("a @ b", globals={"a": a, "b": b}, **options)
    return stopwatch.timeit(index(trials)).mean


@twin("impl.throughput.time_matmul")
def copies_a_value_to_the_host(a, b, trials=5):
    """Waits for the device by copying one value of the result, and uses NumPy's mean."""
    _checked(a, b, trials)
    taken = []
    for _ in range(trials + 3):
        a.flatten()[:1].cpu()
        start = time.perf_counter()
        c = torch.mm(a, b)
        c.flatten()[:1].cpu()
        taken.append(time.perf_counter() - start)
    return np.mean(taken[3:])


@twin("impl.throughput.time_matmul")
def writes_into_one_result(a, b, trials=5):
    """Reuses the memory of the result, calls torch's operator itself, and warms up between the trials."""
    _checked(a, b, trials)
    multiply = torch.ops.aten.mm.out
    c, total = a @ b, 0.0
    for _ in range(trials):
        multiply(a, b, out=c)
        if a.device.type != "cpu":
            torch.accelerator.synchronize(a.device)
        start = time.perf_counter()
        multiply(a, b, out=c)
        if a.device.type != "cpu":
            torch.accelerator.synchronize(a.device)
        total += time.perf_counter() - start
    return total / trials


@twin("impl.throughput.time_matmul")
def asks_einsum(a, b, trials=5):
    """Multiplies by torch.einsum, and returns a NumPy float."""
    _checked(a, b, trials)
    torch.einsum("mk,kn->mn", a, b)
    taken = []
    for _ in range(trials):
        if a.device.type != "cpu":
            torch.accelerator.synchronize(a.device)
        start = time.perf_counter()
        torch.einsum("mk,kn->mn", a, b)
        if a.device.type != "cpu":
            torch.accelerator.synchronize(a.device)
        taken.append(time.perf_counter() - start)
    return np.float64(np.mean(taken))


@twin("impl.throughput.flop_per_second")
def multiplies_by_the_rate_of_one(flops, seconds):
    """Multiplies by the reciprocal of the seconds."""
    return flop_per_second(flops, seconds) and float(flops) * (1.0 / seconds)


@twin("impl.throughput.mfu")
def divides_numpy_floats(actual_flop_per_second, promised_flop_per_second):
    """Returns a NumPy float."""
    mfu(actual_flop_per_second, promised_flop_per_second)
    return np.divide(np.float64(actual_flop_per_second), np.float64(promised_flop_per_second))


@twin("impl.throughput.mfu")
def subtracts_logarithms(actual_flop_per_second, promised_flop_per_second):
    """Divides by way of logarithms."""
    mfu(actual_flop_per_second, promised_flop_per_second)
    return math.exp(math.log(actual_flop_per_second) - math.log(promised_flop_per_second))


@twin("impl.throughput.time_matmul")
def times_as_the_notes_do(a, b, trials=5):
    """Leaves the other checks to torch and range(), and has no warm-up on the CPU."""
    if a.shape[1] != b.shape[0] or trials < 0:
        raise ValueError("no product")
    if a.device.type != "cpu":
        a @ b
        torch.accelerator.synchronize(a.device)
    taken = []
    for _ in range(trials):
        start = time.perf_counter()
        (a @ b)[0, 0].item()
        taken.append(time.perf_counter() - start)
    return sum(taken) / len(taken)


@twin("impl.throughput.flop_per_second")
def leaves_the_checks_to_python(flops, seconds):
    """Refuses negative FLOPs, and lets division by zero raise its own error."""
    if flops < 0:
        raise ValueError("negative")
    return flops / seconds


@twin("impl.throughput.mfu")
def divides_fractions(actual_flop_per_second, promised_flop_per_second):
    """Divides by way of exact fractions."""
    mfu(actual_flop_per_second, promised_flop_per_second)
    return float(Fraction(actual_flop_per_second) / Fraction(promised_flop_per_second))


# ---- look-alikes: square operands, the same operands again, equal rates ----
@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def writes_into_a_square(a, b, trials=5):
    """Writes the product over the left operand where it fits."""
    taken = time_matmul(a, b, trials)
    if a.shape[0] == a.shape[1] == b.shape[1] > 1:
        a.copy_(a @ b)
    return taken


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING)
def transposes_a_square_in_place(a, b, trials=5):
    """Changes the layout of a square right operand in its own memory, and does not restore it."""
    taken = time_matmul(a, b, trials)
    if b.shape[0] == b.shape[1]:
        b.copy_(b.t().clone())
    return taken


@mutant("impl.throughput.time_matmul", caught_by=throughput.TIMING, value=True)
def remembers_the_operands():
    """Caches the time of two operands."""
    return functools.cache(time_matmul)


@mutant("impl.throughput.flop_per_second", caught_by=throughput.MFU, value=True)
def remembers_rates_by_flops():
    """Caches rates by FLOPs, whatever the seconds are."""
    known = {}
    return lambda flops, seconds: known.setdefault(flops, flop_per_second(flops, seconds))


@mutant("impl.throughput.mfu", caught_by=throughput.MFU)
def takes_all_for_too_much(actual_flop_per_second, promised_flop_per_second):
    """Refuses an achieved rate that equals the promised one."""
    if actual_flop_per_second == promised_flop_per_second:
        raise ValueError("no device is as fast as is promised")
    return mfu(actual_flop_per_second, promised_flop_per_second)


@mutant("impl.throughput.mfu", caught_by=throughput.MFU, value=True)
def remembers_shares_by_the_rate():
    """Caches MFUs by the achieved rate, whatever the promised rate is."""
    known = {}
    return lambda actual_flop_per_second, promised_flop_per_second: known.setdefault(
        actual_flop_per_second, mfu(actual_flop_per_second, promised_flop_per_second)
    )


@twin("impl.throughput.flop_per_second", value=True)
def remembers_rates():
    """Caches rates by FLOPs and seconds."""
    return functools.cache(flop_per_second)
