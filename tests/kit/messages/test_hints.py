"""Hints at the likeliest mistake: given where the numbers tell it, and nowhere else."""

import numpy as np
import pytest

from spec.messages.hints import suspects
from tests.kit.judging import message, running

SIZES = {"points": 5, "inputs": 3, "outputs": 7}


@pytest.mark.parametrize(
    ("measured", "predicted", "tolerance", "unit", "expected"),
    [
        (10.0, 2.0, 1e-6, "as the loss", "points times too large, a sum where a mean is meant"),
        (0.4, 2.0, 1e-6, "as the loss", "points times too small, a mean where a sum is meant"),
        (14, 2, None, "values", "outputs times too large"),
        (105, 210, None, "FLOPs", "multiply-adds, each of which is 2 FLOPs"),
        (25, 100, None, "bytes", "values of 4 bytes counted instead of bytes"),
        (800, 100, None, "bytes", "bits instead of bytes"),
        (-2.5, 2.5, 1e-9, "", "the sign is the other way round"),
        (51.25, 0.5125, 1e-12, "MFU", "per cent"),
        (312e3, 312e12, 1.0, "FLOP/s", "another unit: a power of 1000 is the difference"),
        (80 * 2**30, 80 * 10**9, None, "bytes", "a power of 1024 where one of 1000 is meant, or the reverse"),
        (-(2**31), 2**31, None, "bytes", None),  # the sign, or 32 bits
        (1 - 2**63, 2**63 + 1, None, "bytes", "a count that does not fit into 64 bits"),
        (36028799166447696, 36028799166447695, None, "", "a count rounded to a float: Python's integers are exact"),
        (0.0625, 0.25, 1e-9, "as the step", "a square root is missing"),
        (0.5, 0.25, 1e-9, "as the step", "a square root too many"),
        ("3×4 float32 tensor", "4×3 float32 tensor", None, "", "transposed"),
        ((1, 4), (4, 1), None, "", "in the reverse order"),
    ],
)
def test_a_likely_mistake_is_named(measured, predicted, tolerance, unit, expected):
    """One explanation alone is told."""
    found = suspects(measured, predicted, tolerance, unit, SIZES)
    assert (found == {expected}) if expected else (len(found) != 1)


@pytest.mark.parametrize(
    ("measured", "predicted", "tolerance", "unit"),
    [
        (10.1, 2.0, 1e-6, "as the loss"),  # nearly 5 times
        (10.0, 2.0, 0.5, "as the loss"),  # a tolerance within which 4.5 times is 5 times
        (6, 5, None, "FLOPs"),
        (0, 12, None, "FLOPs"),
        (0, 2**40, None, "steps"),  # not every 0 is a count that wrapped around
        (3, 3000, None, "steps"),
        (1, 2, None, "FLOPs"),
        (
            11 * 2**100,
            2**100,
            None,
            "FLOPs",
        ),  # their difference is a multiple of 2⁶⁴, and the first does not fit either
        (300, 3, None, "steps"),
        (3.0, 0.0, 1e-9, ""),
        (float("nan"), 2.0, 1e-9, ""),
        (True, 5, None, ""),
        ("int", "float", None, ""),
        ("2×2 float64 tensor", "2×2 float32 tensor", None, ""),
        ((1, 2), (1, 3), None, ""),
        (1.0, 1.02, 1e-9, "as the step"),
        (None, 3, None, ""),
    ],
)
def test_no_other_number_is_explained(measured, predicted, tolerance, unit):
    """Nothing is guessed."""
    assert suspects(measured, predicted, tolerance, unit, SIZES) == set()


def test_a_count_that_wraps_around_to_0_needs_a_narrow_input():
    """Python's own integers do not overflow."""
    for kind, expected in ((np.int32, {"a count that does not fit into 32 bits"}), (np.int64, set()), (int, set())):
        assert suspects(0, 2**43, None, "FLOPs", {"points": kind(16384)}) == expected


def test_a_hint_ends_the_line():
    """It stands after the inputs; where two explain the numbers, there is none."""
    with running() as evidence:
        line = message(evidence.equal, 15, 30, unit="FLOPs", points=3)
        assert line.endswith(" for points=3; multiply-adds, each of which is 2 FLOPs?")
    with running() as evidence:
        assert message(evidence.equal, 10, 30, unit="FLOPs", points=3, inputs=3).endswith(" for points=3, inputs=3")
    with running() as evidence:
        assert message(evidence.equal, 1, 2, unit="losses", length=2).endswith(" for length=2")


def test_a_hint_explains_every_failure_of_a_test():
    """Examples that hypothesis tried before decide between two; one that neither explains leaves none."""
    with running() as evidence:
        message(evidence.equal, 6, 30, unit="FLOPs", points=5)
        line = message(evidence.equal, 15, 30, unit="FLOPs", points=2)
        assert line.endswith("; points times too small, a mean where a sum is meant?")
        message(evidence.equal, 7, 30, unit="FLOPs", points=5)
        assert message(evidence.equal, 6, 30, unit="FLOPs", points=5).endswith(" for points=5")


def test_a_test_names_what_it_can_compute():
    """What a check is told to say stands instead, and is asked for only where it fails."""
    with running() as evidence:
        evidence.close(1.0, 1.0, tolerance=0.5, likely=lambda: 1 / 0)
        line = message(evidence.close, 3.0, 1.0, tolerance=0.5, likely=lambda: "gradients that add up")
        assert line.endswith("; gradients that add up?")
        assert message(evidence.at_most, 3, 2, likely=lambda: "").endswith("at most 2")
