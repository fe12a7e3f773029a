"""§2.2.4: the time of a product, FLOP/s, and model FLOPs utilisation."""

import math
from operator import index, truediv
from time import perf_counter
from typing import SupportsFloat, SupportsIndex

import torch
from torch import Tensor

__all__ = ["flop_per_second", "mfu", "time_matmul"]


def time_matmul(a: Tensor, b: Tensor, trials: SupportsIndex = 5) -> float:
    """Return the mean seconds of one product a @ b, (m, k) @ (k, n), over `trials` products.

    Devices work while Python goes on, so that the clock starts when the device is idle and stops when the product is
    done. A first product is not timed, because it may load and plan what the others reuse. Raises ValueError where the
    operands are not matrices that fit or where `trials` is less than 1, TypeError where `trials` is not an integer.
    """
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"{tuple(a.shape)} @ {tuple(b.shape)}: the inner sizes of two matrices must agree")
    trials = index(trials)
    if trials < 1:
        raise ValueError(f"{trials} trials: at least one is needed")
    _timed(a, b)
    return sum(_timed(a, b) for _ in range(trials)) / trials


def flop_per_second(flops: SupportsFloat, seconds: SupportsFloat) -> float:
    """Return FLOPs ÷ seconds, in FLOP/s.

    Raises ValueError for negative FLOPs, and for seconds that are not positive and finite.
    """
    if math.isnan(flops) or float(flops) < 0 or not _is_positive(seconds):
        raise ValueError(f"{flops} FLOPs in {seconds} seconds")
    return float(truediv(flops, seconds))


def mfu(actual_flop_per_second: SupportsFloat, promised_flop_per_second: SupportsFloat) -> float:
    """Return the model FLOPs utilisation, achieved ÷ promised (PaLM, arXiv:2204.02311, appendix B).

    The MFU is at most 1 where the promise is the dense peak of the same device and dtype. Raises ValueError unless both
    rates are positive and finite.
    """
    if not _is_positive(actual_flop_per_second) or not _is_positive(promised_flop_per_second):
        raise ValueError(f"{actual_flop_per_second} of {promised_flop_per_second} FLOP/s: not positive and finite")
    return float(truediv(actual_flop_per_second, promised_flop_per_second))


def _is_positive(rate: SupportsFloat) -> bool:
    return math.isfinite(rate) and float(rate) > 0


def _timed(a: Tensor, b: Tensor) -> float:
    _wait_for(a.device)
    start = perf_counter()
    a @ b
    _wait_for(a.device)
    return perf_counter() - start


def _wait_for(device: torch.device) -> None:
    if device.type != "cpu":  # The CPU is done when a call returns.
        torch.accelerator.synchronize(device)
