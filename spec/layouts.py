"""Ways to lay a tensor out in a flat storage, and ways to view it: what the claims on storage are tried on."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Layout(NamedTuple):
    """A shape, and where its elements lie in a flat storage: strides and offset in elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0

    def places(self) -> Tensor:
        """Return, for each index, offset + Σ index·stride."""
        places = torch.tensor(self.offset)
        for size, step in zip(self.shape, self.stride, strict=True):
            places = places.unsqueeze(-1) + torch.arange(size) * step
        return places

    def make(self, device: torch.device | str = "cpu") -> Tensor:
        """Return a tensor that lies so in a storage of 0, 1, 2, …: each value is its own place."""
        spans = [(size - 1) * step for size, step in zip(self.shape, self.stride, strict=True)]
        length = self.offset + 1 + (sum(spans) if 0 not in self.shape else 0)
        return torch.arange(length, device=device).as_strided(self.shape, self.stride, self.offset)

    def allows(self, shape: Sequence[int]) -> bool:
        """Say whether any strides put the elements, in the order they have, where they lie already."""
        places = self.places().flatten()
        if places.numel() != math.prod(shape):
            return False
        if not places.numel():
            return True
        # If there are any, a stride is the distance from the first element to its neighbour along that dimension.
        steps = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
        stride = [int(places[step] - places[0]) if size > 1 else 0 for size, step in zip(shape, steps, strict=True)]
        return torch.equal(Layout(tuple(shape), tuple(stride), self.offset).places().flatten(), places)

    def nearby(self) -> Iterator["Layout"]:
        """Yield the layout itself, and each that differs from it in one stride, or in a size that is 1 or 0."""
        yield self
        for place in range(len(self.shape)):
            before, after = slice(None, place), slice(place + 1, None)
            stride = (*self.stride[before], self.stride[place] + 1, *self.stride[after])
            yield self._replace(stride=stride)
            for size in (1, 0):
                yield self._replace(shape=(*self.shape[before], size, *self.shape[after]), stride=stride)


def layout(slots: Sequence[tuple[int, int | str, int] | None], offset: int) -> Layout:
    """Return a layout from (size, step, rank) per dimension or None: the higher its rank, the closer its elements.

    A step is a number of elements, or "packed" against the next inner dimension, or "gap": with room to spare.
    """
    dimensions = [slot for slot in slots if slot]
    stride, packed = [0] * len(dimensions), 1
    for place in reversed(sorted(range(len(dimensions)), key=lambda place: dimensions[place][2])):
        size, step, _ = dimensions[place]
        stride[place] = packed if isinstance(step, str) else step
        packed *= max(size, 1) + (step == "gap")
    return Layout(tuple(size for size, _, _ in dimensions), tuple(stride), offset)


def ways_to_lie(shape: Sequence[int]) -> Iterator[Layout]:
    """Yield layouts of one shape: without a gap, with gaps, with neighbours swapped, expanded along dimensions."""
    shape = tuple(shape)
    packed = tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
    yield Layout(shape, packed)
    yield Layout(shape, tuple(2 * step for step in packed))
    for place in range(len(shape)):
        before, after = slice(None, place), slice(place + 1, None)
        yield Layout(shape, (*packed[before], 0, *packed[after]))  # this dimension expanded
        yield Layout(shape, (*[0] * place, *packed[place:]))  # those before it
        yield Layout(shape, (*packed[before], *[0] * (len(shape) - place)))  # and from it on
        yield Layout(shape, (*[2 * step for step in packed[before]], *packed[place:]))  # a gap before it
        if place:
            swapped = list(range(len(shape)))
            swapped[place - 1 : place + 1] = place, place - 1
            yield Layout(tuple(shape[d] for d in swapped), tuple(packed[d] for d in swapped))


def counting(shape: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
    """Return a fresh tensor of 0, 1, 2, …: each value is its own place."""
    return torch.arange(math.prod(shape), device=device).view(tuple(shape))


def index_of(place: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of the element that comes at `place`, counted round and round in the order of the indices."""
    index = []
    for size in reversed(shape):
        place, here = divmod(place, size)
        index.append(here)
    return tuple(reversed(index))


def regroup(shape: Sequence[int], cuts: int, ones: int) -> tuple[int, ...]:
    """Return a shape of as many elements: all sizes' prime factors in order, cut into groups where `cuts` has a bit.

    Each bit of `ones` puts a dimension of size 1 in.
    """
    factors = [factor for size in shape for factor in _FACTORS[size]]
    regrouped: list[int] = []
    for place, factor in enumerate(factors):
        if cuts >> place & 1 or not regrouped:
            regrouped.append(factor)
        else:
            regrouped[-1] *= factor
    for place in range(len(regrouped), -1, -1):
        if ones >> place & 1:
            regrouped.insert(place, 1)
    return tuple(regrouped)


def regroupings(shape: Sequence[int], cuts: int, ones: int) -> list[tuple[int, ...]]:
    """Return a shape of as many elements, each that merges two neighbours, and one of more or fewer elements."""
    shape, other = tuple(shape), regroup(shape, cuts, ones)
    merged = [(*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :]) for d in range(len(shape) - 1)]
    return [other, *merged, (*(size or 1 for size in other), 2)]


_FACTORS = {0: (0,), 1: (), 2: (2,), 3: (3,), 4: (2, 2), 5: (5,), 6: (2, 3)}

Step = tuple[str, int, int]


def follow(base: Tensor, steps: Sequence[Step]) -> Tensor:
    """Return what a chain of steps (name of a view, a dimension, a number) makes of a tensor."""
    for name, dimension, number in steps:
        base = base if base.dim() else base.unsqueeze(0)
        base = VIEWS[name](base, dimension % base.dim(), number)
    return base


def _split(x: Tensor, d: int, n: int) -> Tensor:
    parts = math.gcd(x.size(d), n + 2)
    return x.view(*x.shape[:d], parts, x.size(d) // parts, *x.shape[d + 1 :])


# A tensor x with at least one dimension, its dimension d, any number n; none of them loses the last element.
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
