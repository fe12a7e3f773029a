"""Timing: how far apart two times have to lie before they say anything."""

import statistics
from collections.abc import Sequence

CLEARLY = 2.0  # a ratio of times below this, and above its inverse, decides nothing
# Ratios of times up to this, and down to its inverse, are not told apart from 1: the quartiles of two equal copies of
# 64 MiB, timed in turn, lay up to 1.2 apart on an idle machine. A busy one spreads them further, and never shifted
# them beyond this together (60 comparisons).
SAME_SPEED = 1.25
# How far devices of one name lie apart on average: Sinha et al., Not All GPUs Are Created Equal, SC 2022.
ONE_NAME = 0.08


def lag(uncertainty: float, others: Sequence[float], apart: Sequence[float]) -> float:
    """Bound how much longer than the median of others a device takes when nothing is wrong with it, as a part of it.

    What the medians themselves leave open (half their 95% confidence intervals) adds to how far devices of one name
    lie apart: the larger of ONE_NAME and three standard deviations of the `others`, taken from the median of their
    distances `apart` from their median (1.4826 times that for normal ones), which a second slow one does not move.
    """
    return uncertainty + statistics.median(others) + max(ONE_NAME, 3 * 1.4826 * statistics.median(apart))


# A share of a known time that an implementation may deduct for its own loop and clock: these take microseconds, the
# known times are milliseconds, and a sleep never ends early.
OVERHEAD = 0.1
# What an implementation may spend beside the products, as a part of their time, which is milliseconds: half. Two
# trials counted as one have twice their mean.
BESIDE = 1.5
UNDECIDED = 4.0  # ratios of times beyond this, or below its inverse, fail; between it and CLEARLY they decide nothing
