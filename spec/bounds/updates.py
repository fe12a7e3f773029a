"""Optimizers' updates: how far rounding may take a parameter from where the exact step puts it."""

import functools
import math

import torch
from torch import Tensor

from spec.bounds.chance import FloatArray
from spec.bounds.rounding import ULPS, Computed, _stages, compounded, gamma, unit_roundoff


def moved(after: FloatArray, move: FloatArray, relative: float, dtype: torch.dtype) -> FloatArray:
    """Bound |computed − exact| of a parameter moved in place, given |p − move|, |move| and the move's relative error.

    The difference is rounded once in the dtype, and once in float64 on the exact side.
    """
    u = unit_roundoff(dtype) + unit_roundoff(torch.float64)
    off: FloatArray = (1 + u) * relative * move + u * after
    return off


def scaled(dtype: torch.dtype) -> float:
    """Bound the relative error of lr·g: lr is rounded to the dtype, then the product, or to a wider float32 first.

    The exact side takes one rounding in float64.
    """
    return compounded(gamma(3, dtype), unit_roundoff(torch.float64))


@functools.cache
def summed(steps: int, dtype: torch.dtype) -> float:
    """Bound the relative error of Σ g² over so many steps: no term is negative, each is rounded, and so is each sum.

    16-bit values may be rounded to float32 first, and the exact side is summed in float64.
    """
    return compounded(*(gamma(2 * steps, kind) for kind in (*_stages(dtype), torch.float64)))


@functools.cache
def adapted(steps: int, dtype: torch.dtype, device: torch.device) -> float:
    """Bound the relative error of lr·g/√(G + ε) after so many steps, whatever the order of product and quotient.

    G + ε is off by no more than its parts, `summed` and the roundings of ε and of the sum, and a root by no more than
    what is under it. The root may be sqrt, pow or rsqrt, whose limits are those of `elementwise`, and a quotient, a
    product and the rounding of lr follow. Each may be rounded to float32 first. The exact side takes four in float64.
    """
    place = device.type != "cpu"
    root = max(ULPS[name][place] for name in ("sqrt", "rsqrt", "pow"))
    ulps = math.ceil(2 * (root + ULPS["÷"][place]))
    return compounded(
        summed(steps, dtype), *(gamma(4 + ulps, kind) for kind in _stages(dtype)), gamma(4, torch.float64)
    )


def sgd(weight: Tensor, gradient: Computed, lr: float) -> Computed:
    """Return weight − lr·gradient with the rate, the product and the difference rounded to float32."""
    return Computed.given(weight).plus(gradient.times(-lr).rounded(torch.float32, 2), torch.float32)


def clipped(roundings: int) -> float:
    """Bound the relative error of a gradient that was scaled to a norm, in float32.

    The sum of `roundings` squares and its root, a quotient and a product; torch adds 1e-6 to the norm, which is at
    least 1 here.
    """
    return compounded(gamma(roundings + 5, torch.float32), 1e-6)


def stepped(weight: Tensor, update: Tensor, relative: float) -> Tensor:
    """Bound |computed − exact| of a float32 weight after an update that is known up to a relative error."""
    error = update.abs() * compounded(relative, unit_roundoff(torch.float32))
    return error + (weight.abs() + error) * unit_roundoff(torch.float32)


def additions(update: float, steps: int) -> float:
    """Bound |computed − exact| of a float32 weight of 1 after so many additions of an update, rounded itself once.

    The partial sums grow to 1 + steps·update, and each is rounded once.
    """
    u = unit_roundoff(torch.float32)
    return steps * update * u + gamma(steps, torch.float32) * (1 + steps * update)
