"""The expected step of SGD and AdaGrad for one parameter, in float64, and its tolerance for rounding."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spec import bounds

Array = np.ndarray[Any, Any]


class Expected(NamedTuple):
    """A parameter after a step, the tolerance of each element, and the gradient; all in float64."""

    parameter: Array
    tolerance: Array
    gradient: Array | None


class ExpectedUpdate:
    """Predicts the steps of one parameter from its options and the sum of its squared gradients so far.

    Each prediction starts from the parameter's present value, so that no error is carried into the next step.
    """

    def __init__(self, parameter: Tensor, *, lr: float = 0.01, eps: float | None = 1e-5) -> None:
        self.parameter = parameter
        self.lr = lr
        self.eps = eps  # It is None for SGD.
        self.steps = 0
        self.squares = np.zeros(tuple(parameter.shape))

    def step(self) -> Expected:
        """Add the gradient's square to the sum, and return the parameter that the next step has to produce.

        Call it before that step. Where the gradient is 0, or there is none, the tolerance is 0.
        """
        parameter, dtype, device = self.parameter, self.parameter.dtype, self.parameter.device
        p = as_float64(parameter)
        if parameter.grad is None:
            return Expected(p, np.zeros_like(p), None)
        g = as_float64(parameter.grad)
        self.squares = self.squares + g * g
        self.steps += 1
        if self.eps is None:
            move, relative = self.lr * g, bounds.updates.scaled(dtype)
        else:
            move = self.lr * g / np.sqrt(self.squares + self.eps)
            relative = bounds.updates.adapted(self.steps, dtype, device)
        tolerance = bounds.updates.moved(np.abs(p - move), np.abs(move), relative, dtype)
        return Expected(p - move, np.where(g == 0, 0.0, tolerance), g)


def as_float64(tensor: Tensor) -> Array:
    """Return a copy of the values as NumPy float64, which represents each of them exactly."""
    values: Array = tensor.detach().cpu().to(torch.float64, copy=True).numpy()
    return values
