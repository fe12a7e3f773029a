"""Napkin arithmetic: how long a training run takes, and the largest model that memory holds."""

import math
from fractions import Fraction
from operator import index
from typing import Any, SupportsFloat, SupportsIndex

__all__ = ["largest_model", "training_days"]

DAY = 86400  # seconds


def training_days(
    parameters: SupportsFloat,
    tokens: SupportsFloat,
    *,
    promised_flop_per_second: SupportsFloat,
    devices: SupportsIndex = 1,
    mfu: SupportsFloat = 0.5,
) -> float:
    """Return the days that training takes: 6·parameters·tokens FLOPs over the rate that the devices reach together.

    Each of the `devices` reaches `mfu` (above 0, at most 1) of the FLOP/s it promises; a day has 86,400 seconds.
    Numbers may be Python's or NumPy's and of any size: they are not rounded before the result. Without parameters or
    tokens it takes 0 days. Raises ValueError for a negative number, for an infinite one or NaN, for a rate or a number
    of devices of 0, and for an `mfu` outside its range; TypeError for what is not a number, or not a whole number of
    devices; OverflowError for more days than a float holds.
    Source: Kaplan et al., Scaling Laws for Neural Language Models (2020), §2.1, for the 6.
    """
    flops = 6 * _exact("parameters", parameters) * _exact("tokens", tokens)
    used = _exact("mfu", mfu)
    rate = index(devices) * _exact("promised_flop_per_second", promised_flop_per_second) * used
    if rate <= 0 or used > 1:
        raise ValueError(f"{devices} devices with {promised_flop_per_second} FLOP/s at an MFU of {mfu} train nothing")
    return float(flops / rate / DAY)


def largest_model(memory_bytes: SupportsFloat, bytes_per_parameter: SupportsFloat = 16) -> int:
    """Return the largest number of parameters that fit: memory_bytes over bytes_per_parameter, rounded down exactly.

    16 bytes are float32's 4 for each of parameter, gradient, and AdamW's two moments; activations are not counted.
    Numbers may be Python's or NumPy's, of any size, with or without a fraction. Raises ValueError for a negative
    number, for an infinite one or NaN, and for 0 bytes per parameter; TypeError for what is not a number.
    """
    memory, each = _exact("memory_bytes", memory_bytes), _exact("bytes_per_parameter", bytes_per_parameter)
    if each == 0:
        raise ValueError("a parameter takes more than 0 bytes")
    return memory // each


def _exact(name: str, value: Any) -> Fraction:
    """Return the number itself, whatever type holds it; ValueError unless it is finite and at least 0."""
    if not 0 <= value < math.inf:  # math.isfinite would make a float of it, for which an integer may be too large.
        raise ValueError(f"{name} is {value}: it has to be finite and at least 0")
    try:
        return Fraction(index(value))
    except TypeError:  # It is no integer. Python's fractions and decimals, and NumPy's floats, know their exact value.
        exact = value if hasattr(value, "as_integer_ratio") else float(value)
        return Fraction(*exact.as_integer_ratio())
