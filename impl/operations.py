"""§2.2.2: matrix products over leading dimensions, and the causal mask of attention."""

from itertools import product
from operator import index
from typing import SupportsIndex

import numpy as np
import torch
from torch import Tensor

__all__ = ["batched_matmul", "causal_mask"]


def batched_matmul(x: Tensor, w: Tensor) -> Tensor:
    """Return matrix products, one for every index of the leading dimensions: (…, m, k) @ (…, k, n) → (…, m, n).

    Leading dimensions broadcast, and gradients flow to both operands. The product is a new tensor of the operands'
    dtype. Raises ValueError if an operand has fewer than 2 dimensions, if the inner sizes differ, or if the leading
    dimensions do not broadcast.
    """
    if x.dim() < 2 or w.dim() < 2 or x.shape[-1] != w.shape[-2]:
        raise ValueError(f"{tuple(x.shape)} @ {tuple(w.shape)}: the inner sizes of two matrices must agree")
    leading = np.broadcast_shapes(x.shape[:-2], w.shape[:-2])  # NumPy raises ValueError if they do not broadcast.
    x = x.expand(*leading, -1, -1)
    w = w.expand(*leading, -1, -1)
    y = x.new_zeros(*leading, x.shape[-2], w.shape[-1])
    for batch in product(*map(range, leading)):
        y[batch] = x[batch] @ w[batch]
    return y


def causal_mask(length: SupportsIndex, device: torch.device | str | None = None) -> Tensor:
    """Return the mask that lets position i look at position j ≤ i: bool (length, length), True where column j ≤ row i.

    Raises ValueError for a negative length, TypeError for one that is not an integer.
    """
    length = index(length)
    if length < 0:
        raise ValueError(f"length {length} is negative")
    position = torch.arange(length, device=device)
    return position <= position[:, None]
