"""Layouts of a tensor in a flat storage, and views of it, on which the claims about storage are tried."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Layout(NamedTuple):
    """A shape, and the strides and the offset that say where its elements lie in a flat storage, all in elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0

    def positions(self) -> Tensor:
        """Return each element's position in the storage, offset + Σ index·stride, in a tensor of this shape."""
        positions = torch.tensor(self.offset)
        for size, step in zip(self.shape, self.stride, strict=True):
            positions = positions.unsqueeze(-1) + torch.arange(size) * step
        return positions

    def make(self, device: torch.device | str = "cpu") -> Tensor:
        """Return a tensor of this layout in a storage of 0, 1, 2, …, so that each value is its own position."""
        spans = [(size - 1) * step for size, step in zip(self.shape, self.stride, strict=True)]
        length = self.offset + 1 + (sum(spans) if 0 not in self.shape else 0)
        return torch.arange(length, device=device).as_strided(self.shape, self.stride, self.offset)

    def allows(self, shape: Sequence[int]) -> bool:
        """Return whether a view of this shape exists: whether some strides put every element where it lies now."""
        positions = self.positions().flatten()
        if positions.numel() != math.prod(shape):
            return False
        if not positions.numel():
            return True
        # If such strides exist, each is the distance from the first element to the next one along its dimension.
        steps = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        stride = [
            int(positions[step] - positions[0]) if size > 1 else 0 for size, step in zip(shape, steps, strict=True)
        ]
        return torch.equal(Layout(tuple(shape), tuple(stride), self.offset).positions().flatten(), positions)

    def nearby(self) -> Iterator["Layout"]:
        """Yield the layout itself, and each that differs from it in one stride, or in a size that is 1 or 0."""
        yield self
        for d in range(len(self.shape)):
            before, after = slice(None, d), slice(d + 1, None)
            stride = (*self.stride[before], self.stride[d] + 1, *self.stride[after])
            yield self._replace(stride=stride)
            for size in (1, 0):
                yield self._replace(shape=(*self.shape[before], size, *self.shape[after]), stride=stride)


def layout(slots: Sequence[tuple[int, int | str, int] | None], offset: int) -> Layout:
    """Return the layout that (size, step, rank) for each dimension describe; None stands for no dimension.

    The dimension of the highest rank is innermost. A step is a number of elements, or "packed" for no gap to the next
    inner dimension, or "gap" for a gap of one row.
    """
    dimensions = [slot for slot in slots if slot]
    stride, packed = [0] * len(dimensions), 1
    for d in reversed(sorted(range(len(dimensions)), key=lambda d: dimensions[d][2])):
        size, step, _ = dimensions[d]
        stride[d] = packed if isinstance(step, str) else step
        packed *= max(size, 1) + (step == "gap")
    return Layout(tuple(size for size, _, _ in dimensions), tuple(stride), offset)


def layouts_of(shape: Sequence[int]) -> Iterator[Layout]:
    """Yield layouts of one shape: contiguous, with gaps, with neighbouring dimensions swapped, and expanded ones."""
    shape = tuple(shape)
    packed = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
    yield Layout(shape, packed)
    yield Layout(shape, tuple(2 * step for step in packed))
    for d in range(len(shape)):
        before, after = slice(None, d), slice(d + 1, None)
        dimension_is_expanded = (*packed[before], 0, *packed[after])
        all_before_are_expanded = (*[0] * d, *packed[d:])
        all_from_here_are_expanded = (*packed[before], *[0] * (len(shape) - d))
        gap_before_dimension = (*[2 * step for step in packed[before]], *packed[d:])
        yield Layout(shape, dimension_is_expanded)
        yield Layout(shape, all_before_are_expanded)
        yield Layout(shape, all_from_here_are_expanded)
        yield Layout(shape, gap_before_dimension)
        if d:
            order = list(range(len(shape)))
            order[d - 1 : d + 1] = d, d - 1
            yield Layout(tuple(shape[i] for i in order), tuple(packed[i] for i in order))


def counting(shape: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
    """Return a new contiguous tensor of 0, 1, 2, …, so that each value is its own position."""
    return torch.arange(math.prod(shape), device=device).view(tuple(shape))


def index_of(number: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of element `number`, counting in row-major order and starting anew after the last element."""
    index = []
    for size in reversed(shape):
        number, coordinate = divmod(number, size)
        index.append(coordinate)
    return tuple(reversed(index))


def regroup(shape: Sequence[int], cuts: int, ones: int) -> tuple[int, ...]:
    """Return another shape with the same number of elements.

    The prime factors of all sizes are taken in order and grouped into new sizes: a new group begins at each factor
    whose bit is set in `cuts`. Each bit of `ones` inserts a dimension of size 1.
    """
    factors = [factor for size in shape for factor in _FACTORS[size]]
    regrouped: list[int] = []
    for i, factor in enumerate(factors):
        if cuts >> i & 1 or not regrouped:
            regrouped.append(factor)
        else:
            regrouped[-1] *= factor
    for i in range(len(regrouped), -1, -1):
        if ones >> i & 1:
            regrouped.insert(i, 1)
    return tuple(regrouped)


def regroupings(shape: Sequence[int], cuts: int, ones: int) -> list[tuple[int, ...]]:
    """Return shapes to try a view with: a regrouped one, all that merge two neighbours, and one of another size."""
    shape, other = tuple(shape), regroup(shape, cuts, ones)
    merged = [(*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :]) for d in range(len(shape) - 1)]
    return [other, *merged, (*(size or 1 for size in other), 2)]


_FACTORS = {0: (0,), 1: (), 2: (2,), 3: (3,), 4: (2, 2), 5: (5,), 6: (2, 3)}

Step = tuple[str, int, int]


def follow(base: Tensor, steps: Sequence[Step]) -> Tensor:
    """Apply a chain of views to a tensor; each step is (name in VIEWS, dimension, number)."""
    for name, dimension, number in steps:
        base = base if base.dim() else base.unsqueeze(0)
        base = VIEWS[name](base, dimension % base.dim(), number)
    return base


def _split(x: Tensor, d: int, n: int) -> Tensor:
    parts = math.gcd(x.size(d), n + 2)
    return x.view(*x.shape[:d], parts, x.size(d) // parts, *x.shape[d + 1 :])


# Each view takes a tensor x with at least one dimension, one of its dimensions d, and any number n. No result is empty.
VIEWS: dict[str, Callable[[Tensor, int, int], Tensor]] = {
    "select": lambda x, d, n: x.select(d, n % x.size(d)),
    "index": lambda x, d, n: x[n % len(x)],
    "slice": lambda x, d, n: x[(slice(None),) * d + (slice(n % x.size(d), None, n + 1),)],
    "narrow": lambda x, d, n: x.narrow(d, n % x.size(d), 1 + (x.size(d) - 1 - n % x.size(d)) // 2),
    "chunk": lambda x, d, n: x.chunk(n + 1, d)[-1],
    "transpose": lambda x, d, n: x.transpose(d, n % x.dim()),
    "permute": lambda x, d, n: x.permute(*range(d, x.dim()), *range(d)),
    "expand": lambda x, d, n: x.expand(n + 1, *x.shape),
    "unsqueeze": lambda x, d, n: x.unsqueeze(d),
    "squeeze": lambda x, d, n: x.squeeze(d),
    "diagonal": lambda x, d, n: x.unsqueeze(-1).expand(*x.shape, n + 1).diagonal(0, d, -1),
    "unfold": lambda x, d, n: x.unfold(d, 1 + n % x.size(d), 1),
    "split": _split,
    "flatten": lambda x, d, n: x.view(-1) if x.is_contiguous() else x.view(x.shape),
    "detach": lambda x, d, n: x.detach(),
}
