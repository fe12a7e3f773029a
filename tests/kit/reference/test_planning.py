"""What impl.planning promises beyond the claims."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from impl import planning

RATE = {"promised_flop_per_second": 989.5e12}


@pytest.mark.parametrize("mfu", [1.0000001, 50, float("inf")])
def test_an_mfu_above_1_raises(mfu):
    """No device does more than it promises."""
    with pytest.raises(ValueError, match=r"MFU|mfu"):
        planning.training_days(70e9, 15e12, promised_flop_per_second=989.5e12, devices=1024, mfu=mfu)


@pytest.mark.parametrize(
    ("memory", "each", "expected"),
    [
        (10**400, 16, 10**400 // 16),  # No float is as large.
        (10**400 + 1, 1, 10**400 + 1),
        (Fraction(10**400, 3), 1, 10**400 // 3),
        (10**30, Fraction(1, 3), 3 * 10**30),  # A third of a byte is no float.
        (Decimal("1.3"), Decimal("0.1"), 13),  # As floats they hold 12 only.
        (np.float32(0.1), 1e-9, int(Fraction(float(np.float32(0.1))) / Fraction(1e-9))),
        (np.longdouble(2) ** 40 + 1, 1, 2**40 + 1),
        (True, 1, 1),
        (np.int8(127), np.float16(0.5), 254),
    ],
    ids=str,
)
def test_a_number_of_any_type_and_size_is_not_rounded(memory, each, expected):
    """Integers beyond every float, fractions, decimals and NumPy's numbers are taken for what they are."""
    assert planning.largest_model(memory, each) == expected


def test_a_run_of_any_size_is_computed():
    """Numbers that no float holds have a quotient that one does; days that none holds overflow."""
    days = planning.training_days(10**400, 1, promised_flop_per_second=10**400, mfu=1)
    assert days == pytest.approx(6 / 86400, rel=1e-15)
    assert planning.training_days(Fraction(1, 3), 3, promised_flop_per_second=6, mfu=1) == 1 / 86400
    with pytest.raises(OverflowError):
        planning.training_days(10**400, 1, **RATE)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, Fraction(-1, 3), np.float32("inf")])
def test_an_error_names_the_argument(value):
    """A number that is negative or not finite raises ValueError under its name."""
    for name in ("memory_bytes", "bytes_per_parameter"):
        with pytest.raises(ValueError, match=name):
            planning.largest_model(**{"memory_bytes": 1, name: value})
    for name in ("parameters", "tokens", "promised_flop_per_second", "mfu"):
        with pytest.raises(ValueError, match=name):
            planning.training_days(**{"parameters": 1, "tokens": 1, **RATE, name: value})


@pytest.mark.parametrize("value", ["1", None, 1j, [1]])
def test_what_is_no_number_is_a_type_error(value):
    """A word, nothing, a complex number and a list."""
    with pytest.raises(TypeError):
        planning.largest_model(value)
    with pytest.raises(TypeError):
        planning.training_days(value, 1, **RATE)
    with pytest.raises(TypeError):
        planning.training_days(1, 1, **RATE, devices=2.5 if value == "1" else value)
