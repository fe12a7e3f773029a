"""Wrong tensors, autograd, broadcasting and timers, and unusual right ones."""

from dataclasses import replace

import torch
from torch import Tensor

from spec.claims import tensors
from spec.instruments import timer
from tests.kit.overlay import mutant, twin

tensor, add, subtract, multiply = torch.tensor, Tensor.__add__, Tensor.__sub__, Tensor.__mul__
backward, expand, measure = Tensor.backward, Tensor.expand, timer.measure


@mutant("torch.Tensor.dim", caught_by=tensors.RANK)
def counts_sizes_above_one(self):
    """Counts only the dimensions that have more than one element."""
    return sum(size > 1 for size in self.shape)


@mutant("torch.tensor", caught_by=tensors.RANK)
def makes_vectors_of_scalars(data, **options):
    """Makes a vector of one element where a scalar is asked for."""
    return tensor(data if isinstance(data, list) else [data], **options)


@mutant("torch.Tensor.__mul__", caught_by=tensors.AUTOGRAD)
def forgets_the_second_factor(self, other):
    """Leaves the second factor of a product out of the graph."""
    return multiply(self, other.detach() if isinstance(other, Tensor) else other)


@mutant("torch.Tensor.__sub__", caught_by=tensors.AUTOGRAD)
def subtracts_with_the_gradient_of_a_sum(self, other):
    """Gives the subtrahend its gradient without the minus sign."""
    return add(subtract(self, multiply(other.detach(), 2)), other)


@mutant("torch.Tensor.backward", caught_by=tensors.AUTOGRAD)
def starts_from_two(self):
    """Begins the backward pass with a gradient of 2."""
    backward(self, torch.full_like(self, 2))


@mutant("torch.Tensor.__add__", caught_by=tensors.AUTOGRAD)
def keeps_the_gradient_of_a_sum(self, other):
    """Keeps a gradient on tensors that are not leaves."""
    total = add(self, other)
    if total.requires_grad:
        total.retain_grad()
    return total


@mutant("torch.Tensor.expand", caught_by=tensors.BROADCASTING)
def expands_by_copying(self, *sizes):
    """Copies the values for every repetition."""
    return expand(self, *sizes).clone(memory_format=torch.contiguous_format)


@mutant("torch.Tensor.__add__", caught_by=tensors.BROADCASTING)
def lines_shapes_up_from_the_front(self, other):
    """Lines shapes up at their first dimensions where that is possible."""
    if isinstance(other, Tensor) and other.dim() < self.dim():
        front = other.reshape(*other.shape, *[1] * (self.dim() - other.dim()))
        if all(b in (1, a) for a, b in zip(self.shape, front.shape, strict=True)):
            other = front
    return add(self, other)


@mutant("torch.Tensor.__add__", caught_by=tensors.BROADCASTING)
def ignores_what_does_not_fit(self, other):
    """Returns the first operand where the shapes do not fit."""
    try:
        return add(self, other)
    except RuntimeError:
        return self


@mutant("torch.Tensor.__add__", caught_by=tensors.BROADCASTING)
def lets_a_scalar_widen_the_matrix(self, other):
    """Returns the wider dtype of the two, whatever their dimensions."""
    return add(self, other).to(torch.promote_types(self.dtype, getattr(other, "dtype", self.dtype)))


@mutant("spec.instruments.timer.measure", caught_by=tensors.ACCELERATION)
def finds_the_accelerator_a_thousand_times_slower(run, device, **options):
    """Times the accelerator as if its work were done in software."""
    timing = measure(run, device, **options)
    return timing if device.type == "cpu" else replace(timing, median=timing.median * 1000)


@mutant("spec.instruments.timer.measure", caught_by=tensors.ACCELERATION)
def finds_that_a_launch_costs_nothing(run, device, **options):
    """Times the accelerator as if nothing had to be launched."""
    timing = measure(run, device, **options)
    return timing if device.type == "cpu" else replace(timing, median=timing.median / 1000)


@twin("torch.Tensor.__sub__")
def subtracts_by_adding_the_negative(self, other):
    """Computes a difference as a sum with the negative."""
    return add(self, -other)


@twin("torch.Tensor.__mul__")
def multiplies_the_other_way_round(self, other):
    """Multiplies the second factor by the first."""
    return multiply(other, self) if isinstance(other, Tensor) else multiply(self, other)


@twin("torch.Tensor.__add__")
def expands_before_it_adds(self, other):
    """Expands both operands first, unless one is a scalar, whose dtype does not count like a matrix's."""
    scalar = not isinstance(other, Tensor) or not self.dim() or not other.dim()
    return add(self, other) if scalar else add(*torch.broadcast_tensors(self, other))


@twin("torch.Tensor.expand")
def expands_by_strides(self, *sizes):
    """Sets the strides of repeated dimensions to 0 by hand."""
    size = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    new = len(size) - self.dim()
    stride = [0] * new + [0 if own == 1 else step for own, step in zip(self.shape, self.stride(), strict=True)]
    whole = [own if wanted == -1 else wanted for wanted, own in zip(size, (1,) * new + tuple(self.shape), strict=True)]
    return self.as_strided(whole, stride)


# ---- wrong only where operands are equal, or the same, or empty ----
@mutant("torch.tensor", caught_by=tensors.RANK)
def loses_empty_lists(data, **options):
    """Makes one dimension of a list of empty lists."""
    made = tensor(data, **options)
    return made if made.numel() else made.flatten()


@mutant("torch.Tensor.__sub__", caught_by=tensors.AUTOGRAD)
def simplifies_what_is_taken_from_itself(self, other):
    """Returns a tensor minus itself as a constant."""
    return subtract(self.detach(), other.detach()) if other is self else subtract(self, other)


@mutant("torch.Tensor.__mul__", caught_by=tensors.AUTOGRAD)
def squares_with_half_the_slope(self, other):
    """Leaves one factor of a square out of the graph."""
    return multiply(self, other.detach() if other is self else other)


@mutant("torch.Tensor.__add__", caught_by=tensors.AUTOGRAD)
def takes_equal_leaves_for_one(self, other):
    """Doubles the first of two equal terms and leaves the second out of the graph."""
    equal = isinstance(other, Tensor) and other.requires_grad and torch.equal(self, other)
    return multiply(self, 2) if equal else add(self, other)


@mutant("torch.Tensor.__add__", caught_by=tensors.BROADCASTING)
def lines_a_vector_up_with_the_rows(self, other):
    """Adds a vector to a square matrix as a column."""
    square = isinstance(other, Tensor) and other.dim() == 2 and other.shape[0] == other.shape[1]
    return add(self[:, None], other) if square and self.shape == other.shape[:1] else add(self, other)


@mutant("torch.Tensor.__add__", caught_by=tensors.BROADCASTING)
def adds_nothing_to_one(self, other):
    """Broadcasts a size of 1 and one of 0 to 1, the larger of the two."""
    result = add(self, other)
    if not isinstance(other, Tensor) or result.numel() or not self.numel() + other.numel():
        return result
    return add(self, 0) if self.numel() else add(other, 0)


@mutant("torch.Tensor.__add__", caught_by=tensors.BROADCASTING)
def fits_nothing_to_anything(self, other):
    """Accepts any size beside one of 0."""
    try:
        return add(self, other)
    except RuntimeError:
        if self.numel() and other.numel():
            raise
        return self if other.numel() else other


@twin("torch.Tensor.__mul__")
def takes_squares_for_powers(self, other):
    """Computes the square of a tensor as a power."""
    return self.pow(2) if other is self else multiply(self, other)


@twin("torch.Tensor.__add__")
def doubles_what_is_added_to_itself(self, other):
    """Computes a tensor plus itself as a product with 2."""
    return multiply(self, 2) if other is self else add(self, other)


@twin("torch.Tensor.expand")
def expands_by_broadcasting(self, *sizes):
    """Expands with torch.broadcast_to."""
    return torch.broadcast_to(self, sizes[0] if isinstance(sizes[0], tuple | list) else sizes) if sizes else self
