"""§2.2: where a tensor's values lie: one flat storage, and the strides that find an element in it."""

import math
import operator
from collections.abc import Sequence
from typing import SupportsIndex

import torch
from torch import Tensor

__all__ = ["can_view", "contiguous_strides", "element_offset", "is_contiguous", "shares_storage", "tensor_bytes"]


def shares_storage(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors of any shape lie in the same storage, whichever part of it each of them shows.

    Addresses do not decide it: the storages of two separately made empty tensors are both at address 0.
    """
    return a.untyped_storage() is b.untyped_storage()


def element_offset(
    index: Sequence[SupportsIndex], stride: Sequence[SupportsIndex], storage_offset: SupportsIndex = 0
) -> int:
    """Return how many elements into the storage the element at `index` lies: storage_offset + Σ index·stride.

    `index` and `stride` have one number per dimension, both in elements.
    Raises ValueError where they differ in length, TypeError for what is not an integer.
    """
    steps = zip(_numbers(index), _numbers(stride), strict=True)
    return operator.index(storage_offset) + sum(i * step for i, step in steps)


def contiguous_strides(shape: Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Return the strides, in elements, of a tensor that lies in its storage row by row without a gap.

    A step along a dimension passes over everything in the dimensions after it, where a size of 0 counts as 1, as in
    torch: (4, 4) gives (4, 1), and (2, 0, 3) gives (3, 3, 1).
    Raises ValueError for a negative size, TypeError for what is not an integer.
    """
    sizes = _sizes(shape)
    return tuple(math.prod(max(size, 1) for size in sizes[place + 1 :]) for place in range(len(sizes)))


def is_contiguous(shape: Sequence[SupportsIndex], stride: Sequence[SupportsIndex]) -> bool:
    """Return whether a tensor of this shape and these strides lies in its storage row by row without a gap.

    The stride of a dimension of size 1 is never used, and a tensor without elements uses none.
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

    Neighbouring dimensions are one run of evenly spaced elements where stride[i] = size[i + 1]·stride[i + 1];
    a new dimension has to lie within one run, so the new sizes fill run after run exactly.
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
    runs: list[tuple[int, int]] = []  # how many elements, how far apart
    for size, step in dimensions:
        if runs and runs[-1][1] == size * step:
            runs[-1] = (runs[-1][0] * size, step)
        elif size != 1:
            runs.append((size, step))
    left = iter(size for size in new_sizes if size != 1)
    for length, _ in runs:
        filled = 1
        while filled < length:
            filled *= next(left)
        if filled != length:
            return False
    return True


def tensor_bytes(shape: Sequence[SupportsIndex], dtype: torch.dtype) -> int:
    """Return the bytes that the values of a tensor take: their number times the bytes of one value.

    Raises ValueError for a negative size, TypeError for what is not an integer.
    """
    return math.prod(_sizes(shape)) * dtype.itemsize


def _numbers(values: Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Return Python's own integers, which never overflow as NumPy's do."""
    return tuple(operator.index(value) for value in values)


def _sizes(shape: Sequence[SupportsIndex]) -> tuple[int, ...]:
    sizes = _numbers(shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"a size is negative: {sizes}")
    return sizes
