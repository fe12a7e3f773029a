"""Wrong tensors, autograd, broadcasting and timers; and unusual right ones."""

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
    """Remembers only the first factor of a product."""
    return multiply(self, other.detach() if isinstance(other, Tensor) else other)


@mutant("torch.Tensor.__sub__", caught_by=tensors.AUTOGRAD)
def subtracts_with_the_gradient_of_a_sum(self, other):
    """Passes the gradient on to what is subtracted without its minus sign."""
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
    """Writes out every repetition."""
    return expand(self, *sizes).clone(memory_format=torch.contiguous_format)


@mutant("torch.Tensor.__add__", caught_by=tensors.BROADCASTING)
def lines_shapes_up_from_the_front(self, other):
    """Lines the dimensions of two tensors up from the first one on where that fits."""
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
    """Gives the wider dtype of the two whatever their dimensions."""
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
    """Remembers a difference as a sum and a negation."""
    return add(self, -other)


@twin("torch.Tensor.__mul__")
def multiplies_the_other_way_round(self, other):
    """Remembers the second factor first."""
    return multiply(other, self) if isinstance(other, Tensor) else multiply(self, other)


@twin("torch.Tensor.__add__")
def expands_before_it_adds(self, other):
    """Gives both operands their common shape first, unless one is a scalar, whose dtype counts for less."""
    scalar = not isinstance(other, Tensor) or not self.dim() or not other.dim()
    return add(self, other) if scalar else add(*torch.broadcast_tensors(self, other))


@twin("torch.Tensor.expand")
def expands_by_strides(self, *sizes):
    """Sets the strides of repeated dimensions to 0 by hand."""
    size = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    new = len(size) - self.dim()
    stride = [0] * new + [0 if had == 1 else step for had, step in zip(self.shape, self.stride(), strict=True)]
    whole = [had if want == -1 else want for want, had in zip(size, (1,) * new + tuple(self.shape), strict=True)]
    return self.as_strided(whole, stride)
