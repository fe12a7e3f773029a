"""§2.2: a tensor's values lie in one flat storage, and its strides say where in it each element is."""

import math
import operator
from collections.abc import Sequence
from typing import SupportsIndex

import torch
from torch import Tensor

__all__ = ["can_view", "contiguous_strides", "element_offset", "is_contiguous", "shares_storage", "tensor_bytes"]


def shares_storage(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors have the same storage, whichever part of it each of them shows.

    Addresses do not decide this: two separately made empty tensors have two storages, both at address 0.
    """
    return a.untyped_storage() is b.untyped_storage()


def element_offset(
    index: Sequence[SupportsIndex], stride: Sequence[SupportsIndex], storage_offset: SupportsIndex = 0
) -> int:
    """Return an element's position in the storage: storage_offset + Σ index·stride, in elements.

    `index` and `stride` have one number per dimension.
    Raises ValueError where they differ in length, TypeError for what is not an integer.
    """
    steps = zip(_numbers(index), _numbers(stride), strict=True)
    return operator.index(storage_offset) + sum(i * step for i, step in steps)


def contiguous_strides(shape: Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Return the strides, in elements, of a tensor that lies in its storage row by row without a gap.

    The stride of a dimension is the product of all sizes after it: (4, 4) gives (4, 1). A size of 0 counts as 1, as in
    torch: (2, 0, 3) gives (3, 3, 1).
    Raises ValueError for a negative size, TypeError for what is not an integer.
    """
    sizes = _sizes(shape)
    return tuple(math.prod(max(size, 1) for size in sizes[d + 1 :]) for d in range(len(sizes)))


def is_contiguous(shape: Sequence[SupportsIndex], stride: Sequence[SupportsIndex]) -> bool:
    """Return whether a tensor of this shape and these strides lies in its storage row by row without a gap.

    The stride of a dimension of size 1 does not matter, and neither does any stride of a tensor without elements.
    Raises ValueError for a negative size or where `shape` and `stride` differ in length, TypeError for what is not an
    integer.
    """
    sizes = _sizes(shape)
    dimensions = list(zip(sizes, _numbers(stride), contiguous_strides(sizes), strict=True))
    return 0 in sizes or all(size == 1 or step == packed for size, step, packed in dimensions)


def can_view(
    shape: Sequence[SupportsIndex], stride: Sequence[SupportsIndex], new_shape: Sequence[SupportsIndex]
) -> bool:
    """Return whether a tensor of this shape and these strides can be viewed as `new_shape` (without −1).

    Neighbouring dimensions form one run of evenly spaced elements if stride[i] = size[i + 1]·stride[i + 1].
    No new dimension may reach from one run into the next, so some of the new sizes multiply to each run's length.
    Raises ValueError for a negative size or where `shape` and `stride` differ in length, TypeError for what is not an
    integer.
    Source: the documentation of torch.Tensor.view.
    """
    sizes, new_sizes = _sizes(shape), _sizes(new_shape)
    dimensions = list(zip(sizes, _numbers(stride), strict=True))
    if math.prod(sizes) != math.prod(new_sizes):
        return False
    if 0 in sizes:
        return True
    runs: list[tuple[int, int]] = []  # Each run has a length, and a step from one of its elements to the next.
    for size, step in dimensions:
        if runs and runs[-1][1] == size * step:
            runs[-1] = (runs[-1][0] * size, step)
        elif size != 1:
            runs.append((size, step))
    remaining = iter(size for size in new_sizes if size != 1)
    for length, _ in runs:
        filled = 1
        while filled < length:
            filled *= next(remaining)
        if filled != length:
            return False
    return True


def tensor_bytes(shape: Sequence[SupportsIndex], dtype: torch.dtype) -> int:
    """Return the bytes that a tensor's values take: their number times the bytes of one value.

    Raises ValueError for a negative size, TypeError for what is not an integer.
    """
    return math.prod(_sizes(shape)) * dtype.itemsize


def _numbers(values: Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Return the values as Python's integers, because NumPy's overflow."""
    return tuple(operator.index(value) for value in values)


def _sizes(shape: Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Return the sizes as Python's integers; raise ValueError if one is negative."""
    sizes = _numbers(shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"a size is negative: {sizes}")
    return sizes
