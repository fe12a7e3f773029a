"""The lecture's napkin figures: how long a training run takes, and what fits into memory."""

from fractions import Fraction
from functools import partial
from numbers import Integral

import numpy as np
import torch
from hypothesis import example, given

from spec import bounds
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import planning

H100 = 989.5e12  # FLOP/s promised for dense bfloat16
LECTURE = {"parameters": 70e9, "tokens": 15e12, "promised_flop_per_second": H100, "devices": 1024, "mfu": 0.5}
MATRIX = (12288, 49152)
UNITS = {"MiB": 2**20, "GiB": 2**30, "GB": 10**9}
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))
EITHER = (TypeError, ValueError)
OVERFLOW = (OverflowError, ValueError)


def days(parameters, tokens, rate, devices, mfu):
    """Return 6·N·T FLOPs over the FLOP/s of all devices, in days of 24 hours, as an exact fraction."""
    seconds = 6 * Fraction(parameters) * Fraction(tokens) / (Fraction(rate) * devices * Fraction(mfu))
    return seconds / (24 * 60 * 60)


def matrix_bytes():
    """Return the bytes of the matrix of GPT-3; on the meta device it takes no memory."""
    matrix = torch.empty(MATRIX, dtype=torch.float32, device="meta")
    return matrix.numel() * matrix.element_size()


@verifies(planning.TRAINING_TIME)
def test_the_lectures_run_takes_143_9_days(impl, evidence):
    """70e9 parameters, 15e12 tokens and 1024 H100 at an MFU of 0.5 give 143.9 days, for NumPy's integers too."""
    evidence.equal(
        round(float(impl.planning.training_days(**LECTURE)), 1), 143.9, what="the training time", unit="days", **LECTURE
    )
    in_numpy = {"parameters": np.int64(70 * 10**9), "tokens": np.int64(15 * 10**12), "devices": np.int32(1024)}
    evidence.equal(
        round(float(impl.planning.training_days(**LECTURE | in_numpy)), 1),
        143.9,
        what="the training time for NumPy's integers",
        unit="days",
        **LECTURE | in_numpy,
    )
    three = np.uint32(3 * 10**9)  # Its double does not fit into 32 bits.
    predicted = days(3 * 10**9, 3 * 10**9, 10**9, 3 * 10**9, 1)
    tolerance = bounds.rounding.napkin(predicted)
    measured = impl.planning.training_days(three, three, promised_flop_per_second=1e9, devices=three, mfu=1)
    evidence.close(measured, float(predicted), tolerance=tolerance, what="the training time", unit="days", each=three)


@verifies(planning.TRAINING_TIME)
@given(run=st.training_runs)
def test_training_takes_6_flops_per_parameter_and_token(impl, evidence, run):
    """Any run takes 6·N·T FLOPs over the rate of all devices, in days; the defaults are 1 device and an MFU of 0.5."""
    parameters, tokens, rate, devices, mfu = run
    training_days = partial(impl.planning.training_days, parameters, tokens, promised_flop_per_second=rate)
    predicted = days(parameters, tokens, rate, devices, mfu)
    tolerance = bounds.rounding.napkin(predicted)
    measured = training_days(devices=devices, mfu=mfu)
    evidence.close(measured, float(predicted), tolerance=tolerance, what="the training time", unit="days")
    predicted = days(parameters, tokens, rate, 1, 0.5)
    tolerance = bounds.rounding.napkin(predicted)
    evidence.close(
        training_days(), float(predicted), tolerance=tolerance, what="the training time by default", unit="days"
    )


@verifies(planning.TRAINING_TIME)
def test_a_run_that_cannot_be_raises(impl, evidence):
    """Negative, NaN and infinite numbers raise, as do 0 devices, a rate or an MFU of 0, and words."""
    training_days = impl.planning.training_days
    wrong = [
        (name, value, ValueError)
        for name in LECTURE
        for value in (-1, *NOT_FINITE)
        if (name, value) != ("mfu", NOT_FINITE[1])
    ]
    wrong += [(name, 0, ValueError) for name in ("promised_flop_per_second", "devices", "mfu")]
    wrong += [("promised_flop_per_second", -H100, ValueError)]
    wrong += [(name, value, TypeError) for name in LECTURE for value in ("1", None)]
    wrong += [("devices", 2.5, EITHER)]
    for name, value, error in wrong:
        error = EITHER if name == "devices" and isinstance(value, float) else error
        evidence.raises(error, partial(training_days, **LECTURE | {name: value}), **{name: value})
    for name in ("parameters", "tokens"):
        evidence.equal(
            training_days(**LECTURE | {name: 0}), 0, what="the training time without any", unit="days", argument=name
        )


@verifies(planning.LARGEST_MODEL)
def test_the_lectures_memory_holds_40e9_parameters(impl, evidence):
    """8 × 80 GB at 16 bytes per parameter hold 40e9 parameters, exactly, for NumPy's integers too."""
    memory = 8 * 80 * 10**9
    for given_as in (memory, float(memory), np.int64(memory)):
        found = impl.planning.largest_model(given_as)
        inputs = {"memory_bytes": given_as}
        evidence.equal(found, 40 * 10**9, what="the largest model", unit="parameters", **inputs)
        evidence.true(isinstance(found, Integral), "the result is an integer", result=found, **inputs)
        found = impl.planning.largest_model(given_as, np.int32(16))
        inputs |= {"bytes_per_parameter": np.int32(16)}
        evidence.equal(found, 40 * 10**9, what="the largest model for NumPy's 16", unit="parameters", **inputs)


@verifies(planning.LARGEST_MODEL)
@given(memory=st.memories)
@example(memory=(16, 16))
@example(memory=(16, 4))
@example(memory=(15, 16))
@example(memory=(2**53 + 1, 1))  # A float64 cannot hold this number.
def test_the_largest_model_fits_and_one_parameter_more_does_not(impl, evidence, memory):
    """The quotient is rounded down without an error, for integers beyond 2⁵³ and fractions of a byte too."""
    memory, each = memory
    found = impl.planning.largest_model(memory, each)
    evidence.equal(found, Fraction(memory) // Fraction(each), what="the largest model", unit="parameters")
    evidence.true(isinstance(found, Integral), "the result is an integer", result=found)


@verifies(planning.LARGEST_MODEL)
def test_memory_that_cannot_be_raises(impl, evidence):
    """Negative, NaN or infinite bytes raise, and so do 0 bytes per parameter and words."""
    largest_model = impl.planning.largest_model
    for value in (-1, -0.5, *NOT_FINITE):
        error = OVERFLOW if value in NOT_FINITE[1:] else ValueError
        evidence.raises(error, partial(largest_model, value), memory_bytes=value)
        evidence.raises(error, partial(largest_model, 80e9, value), bytes_per_parameter=value)
    evidence.raises((ValueError, ZeroDivisionError), partial(largest_model, 80e9, 0), bytes_per_parameter=0)
    for value in ("16", None):
        evidence.raises(TypeError, partial(largest_model, value), memory_bytes=value)
        evidence.raises(TypeError, partial(largest_model, 80e9, value), bytes_per_parameter=value)
    evidence.equal(largest_model(0), 0, what="the largest model in 0 bytes", unit="parameters")


@verifies(planning.GPT3_MATRIX)
def test_the_matrix_takes_2_25_gib(evidence):
    """12288 · 49152 values of 4 bytes are 2304 MiB, 2.25 GiB, and 2.416 GB rounded to the megabyte."""
    measured, shape = matrix_bytes(), (12288, 49152)
    evidence.equal(measured, 2_415_919_104, what="the matrix", unit="bytes", shape=shape)
    evidence.equal(measured / UNITS["MiB"], 2304, what="the matrix", unit="MiB", shape=shape)
    evidence.equal(measured / UNITS["GiB"], 2.25, what="the matrix", unit="GiB", shape=shape)
    evidence.equal(round(measured / UNITS["GB"], 3), 2.416, what="the matrix", unit="GB", shape=shape)


@refutes(planning.GPT3_MATRIX)
def test_the_matrix_does_not_take_2_3_gb(evidence):
    """In GB of 10⁹ bytes, to one decimal as in the notes, it takes 2.4."""
    evidence.differs(round(matrix_bytes() / UNITS["GB"], 1), 2.3, what="the matrix", unit="GB")
