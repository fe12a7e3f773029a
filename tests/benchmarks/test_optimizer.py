"""§3.5: how fast AdaGrad's step is, compared with torch's own AdaGrad."""

from collections import Counter

import torch
from torch import nn

from spec.claim import verifies
from spec.claims import optimizer
from spec.oracles.updates import ExpectedUpdate, as_float64
from spec.run.benchmarks import Work

# Each is the number of parameters, and the number of rows and of columns of each of them.
MANY, SOME, LARGE = (200, 32), (50, 256), (8, 2048)
VALUES = 5  # A step reads parameter, gradient and sum of each element, and writes parameter and sum.


def square_parameters(count, side, device):
    """Return parameters of zeros, each with a gradient whose elements differ."""
    gradient = torch.linspace(-1, 1, side * side, device=device).reshape(side, side)
    parameters = [nn.Parameter(torch.zeros(side, side, device=device)) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = gradient.clone()
    return parameters


@verifies(optimizer.EFFECTIVE_RATE)
def test_steps_under_a_constant_gradient_are_timed(impl, evidence, meter, device):
    """The steps of AdaGrad and torch's AdaGrad are timed in bytes per second; the next step has the right length."""
    sizes = ((2, 32),) if not meter.timed else (MANY, SOME) if device.type == "cpu" else (MANY, SOME, LARGE)
    works, steps_taken, ours = {}, Counter(), {}

    def counted(name, optimizer):
        def step():
            steps_taken[name] += 1
            optimizer.step()

        return step

    for count, side in sizes:
        for whose, make in (("AdaGrad", impl.optimizer.AdaGrad), ("torch's AdaGrad", torch.optim.Adagrad)):
            name = f"{whose} on {count} of {side}×{side}"
            parameters = square_parameters(count, side, device)
            run = counted(name, make(parameters, lr=0.01))
            bytes_moved = VALUES * sum(parameter.nbytes for parameter in parameters)
            works[name] = Work(run, bytes=bytes_moved, dtype=torch.float32, shape=(count, side, side))
            if whose == "AdaGrad":
                ours[name] = parameters[-1]
    meter.rates(works, device, flush=False)
    for name, parameter in ours.items():
        update, g = ExpectedUpdate(parameter), as_float64(parameter.grad)
        update.steps, update.squares = steps_taken[name], steps_taken[name] * g**2
        expected = update.step()
        works[name].run()
        measured, tolerance = as_float64(parameter), expected.tolerance
        evidence.close(measured, expected.parameter, tolerance=tolerance, what="the parameter after a step", of=name)
