"""§3.1: initial weights of shape (fan_in, fan_out), for x @ w."""

import math
from operator import index
from typing import SupportsFloat, SupportsIndex

import torch
from torch import Generator, Tensor, nn

__all__ = ["normal", "scaled_normal", "truncated_normal"]


def normal(
    fan_in: SupportsIndex,
    fan_out: SupportsIndex,
    *,
    generator: Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> nn.Parameter:
    """Return independent standard normal weights: a parameter of shape (fan_in, fan_out) that requires grad.

    The weights are drawn from `generator`, or else from torch's own random stream. `dtype` and `device` default to
    torch's. A size of 0 gives a parameter without elements. Raises ValueError for a negative size, TypeError for one
    that is not an integer.
    """
    weights = _standard_normal(fan_in, fan_out, generator, dtype, device)
    return nn.Parameter(weights.to(dtype or torch.get_default_dtype()))


def scaled_normal(
    fan_in: SupportsIndex,
    fan_out: SupportsIndex,
    *,
    generator: Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> nn.Parameter:
    """Return independent normal weights of standard deviation 1/√fan_in; in all else like `normal`.

    With these weights x @ w has the variance of x. Source: LeCun et al., Efficient BackProp (1998), §4.6.
    """
    weights = _standard_normal(fan_in, fan_out, generator, dtype, device) / math.sqrt(fan_in)
    return nn.Parameter(weights.to(dtype or torch.get_default_dtype()))


def truncated_normal(
    fan_in: SupportsIndex,
    fan_out: SupportsIndex,
    *,
    bound: SupportsFloat = 3.0,
    generator: Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> nn.Parameter:
    """Return `scaled_normal` weights that are truncated at `bound` standard deviations, ±bound/√fan_in.

    The distribution is the normal one without its tails: the tails are not moved to the bound. In all else the function
    is like `normal`. With φ and Φ the standard normal density and distribution function, truncation multiplies the
    standard deviation by √(1 − 2·bound·φ(bound)/(2Φ(bound) − 1)), which is 0.9866 for a bound of 3.
    Raises ValueError for a bound that is not above 0. Source: P(|z| ≤ t) = erf(t/√2), inverted.
    """
    if math.isnan(bound) or float(bound) <= 0:
        raise ValueError(f"the bound has to lie above 0: {bound}")
    bound = float(bound)
    uniform = torch.empty(_shape(fan_in, fan_out), dtype=_drawn(dtype), device=device)
    # The limit is below 1, because erfinv(1) is infinite.
    limit = min(math.erf(bound / math.sqrt(2)), 1 - torch.finfo(uniform.dtype).eps / 2)
    uniform.uniform_(-limit, limit, generator=generator)
    # Rounding may carry the last digit beyond the bound.
    weights = (math.sqrt(2) * uniform.erfinv_()).clamp_(-bound, bound)
    return nn.Parameter((weights / math.sqrt(fan_in)).to(dtype or torch.get_default_dtype()))


def _standard_normal(
    fan_in: SupportsIndex,
    fan_out: SupportsIndex,
    generator: Generator | None,
    dtype: torch.dtype | None,
    device: torch.device | str | None,
) -> Tensor:
    return torch.randn(_shape(fan_in, fan_out), generator=generator, dtype=_drawn(dtype), device=device)


def _shape(fan_in: SupportsIndex, fan_out: SupportsIndex) -> tuple[int, int]:
    shape = index(fan_in), index(fan_out)
    if min(shape) < 0:
        raise ValueError(f"a size is negative: {shape}")
    return shape


def _drawn(dtype: torch.dtype | None) -> torch.dtype:
    """Return the dtype to draw in: at least float32, as torch 2.10's bfloat16 normals use 8 bits and end at 3.33."""
    return torch.promote_types(dtype or torch.get_default_dtype(), torch.float32)
