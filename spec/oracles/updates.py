"""What a step of SGD or AdaGrad makes of one parameter, in float64, and how far rounding may take it from there."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spec import bounds

Array = np.ndarray[Any, Any]


class Expected(NamedTuple):
    """Where a step is to take a parameter, with the tolerance of each value, and its gradient; all in float64."""

    parameter: Array
    near: Array
    gradient: Array | None


class Followed:
    """A parameter of an optimizer, its options, and the sum of the squares of its gradients so far.

    Every step is judged from where the parameter is before it, so that one wrong step does not hide in the next.
    """

    def __init__(self, parameter: Tensor, *, lr: float = 0.01, eps: float | None = 1e-5) -> None:
        self.parameter = parameter
        self.lr = lr
        self.eps = eps  # None for SGD
        self.steps = 0
        self.squares = np.zeros(tuple(parameter.shape))

    def step(self) -> Expected:
        """Add up the gradient's square, and return where this step is to take the parameter.

        Where the gradient is 0, or there is none, it stays exactly where it is.
        """
        parameter, dtype, device = self.parameter, self.parameter.dtype, self.parameter.device
        p = exactly(parameter)
        if parameter.grad is None:
            return Expected(p, np.zeros_like(p), None)
        g = exactly(parameter.grad)
        self.squares = self.squares + g * g
        self.steps += 1
        if self.eps is None:
            move, relative = self.lr * g, bounds.updates.scaled(dtype)
        else:
            move = self.lr * g / np.sqrt(self.squares + self.eps)
            relative = bounds.updates.adapted(self.steps, dtype, device)
        near = bounds.updates.moved(np.abs(p - move), np.abs(move), relative, dtype)
        return Expected(p - move, np.where(g == 0, 0.0, near), g)


def exactly(tensor: Tensor) -> Array:
    """Return the values as NumPy float64, which holds each of them exactly, in an array of its own."""
    values: Array = tensor.detach().cpu().to(torch.float64, copy=True).numpy()
    return values
