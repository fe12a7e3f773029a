"""What one operator costs, on four separate lines, and the sizes that its cost depends on."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Flops(NamedTuple):
    """FLOPs by kind; `elementwise` is None where a fused kernel's products are known and the rest of its work is not.

    `integer` are the multiplications and additions of integer products, which are no FLOPs.
    """

    matmul: int = 0
    bias: int = 0
    elementwise: int | None = 0
    integer: int = 0

    @property
    def total(self) -> int:
        """The FLOPs on all lines but the integers'."""
        return self.matmul + self.bias + (self.elementwise or 0)


NOTHING = Flops()

# Called with the operator's result and then its arguments; None says that there is no count for such arguments.
Formula = Callable[..., Flops | None]


def tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    """Return the tensors among an operator's arguments, those in lists and dictionaries too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)
        elif isinstance(value, dict):
            yield from tensors(value.values())


def is_real_or_complex(tensor: Tensor) -> bool:
    """Whether the values are of a floating-point or a complex dtype, not integers."""
    return tensor.is_floating_point() or tensor.is_complex()


def holds_numbers(tensor: Tensor) -> bool:
    """Whether what is done to the values is arithmetic of real or complex numbers, be they quantized."""
    return is_real_or_complex(tensor) or tensor.is_quantized


def summed(values: Tensor, sums: Tensor) -> int:
    """Return the additions that sum values up: n − 1 for a sum of n, of a sparse tensor's only those stored."""
    return max((values.numel() if is_dense(values) else stored(values)) - sums.numel(), 0)


def rows(values: Tensor, dim: int) -> tuple[int, int]:
    """Return how many rows there are along a dimension, and how long they are."""
    length = values.shape[dim] if values.ndim else 1
    return (values.numel() // length if length else 0), length


def is_dense(operand: Tensor) -> bool:
    """Whether all numbers of a matrix are stored, in whatever order."""
    return operand.layout in (torch.strided, torch._mkldnn)  # type: ignore[attr-defined]


def stored(operand: Tensor) -> int:
    """Return how many numbers a matrix, dense or sparse, has stored: those that are multiplied."""
    if is_dense(operand):
        return operand.numel()
    count: int = operand._nnz()  # no public name tells it for every layout
    # Entries that are stored twice count twice; only `_values` shows those that nobody has added up.
    values = operand._values() if operand.layout is torch.sparse_coo else operand.values()
    blocks = values.shape[1:]
    return count * blocks.numel()
