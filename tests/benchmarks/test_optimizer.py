"""§3.5: how fast AdaGrad's step is, beside that of torch's own."""

from collections import Counter

import torch
from torch import nn

from spec.claim import verifies
from spec.claims import optimizer
from spec.oracles.updates import Followed, exactly
from spec.run.benchmarks import Work

MANY, SOME, LARGE = (200, 32), (50, 256), (8, 2048)  # parameters, and the rows and columns of each
VALUES = 5  # read and written per element: parameter, gradient and sum, the first and the last twice


def square_parameters(count, side, device):
    """Return parameters of zeros, each with a gradient whose elements differ."""
    gradient = torch.linspace(-1, 1, side * side, device=device).reshape(side, side)
    parameters = [nn.Parameter(torch.zeros(side, side, device=device)) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = gradient.clone()
    return parameters


@verifies(optimizer.EFFECTIVE_RATE)
def test_steps_under_a_constant_gradient_are_timed(impl, evidence, meter, device):
    """The bytes per second of AdaGrad's step and torch's; after all these the next step is as long as it is to be."""
    sizes = ((2, 32),) if not meter.timed else (MANY, SOME) if device.type == "cpu" else (MANY, SOME, LARGE)
    works, taken, ours = {}, Counter(), {}

    def steps(name, stepping):
        def step():
            taken[name] += 1
            stepping.step()

        return step

    for count, side in sizes:
        for whose, make in (("AdaGrad", impl.optimizer.AdaGrad), ("torch's AdaGrad", torch.optim.Adagrad)):
            name = f"{whose} on {count} of {side}×{side}"
            parameters = square_parameters(count, side, device)
            run = steps(name, make(parameters, lr=0.01))
            bytes_moved = VALUES * sum(parameter.nbytes for parameter in parameters)
            works[name] = Work(run, bytes=bytes_moved, dtype=torch.float32, shape=(count, side, side))
            if whose == "AdaGrad":
                ours[name] = parameters[-1]
    meter.rates(works, device, flush=False)
    for name, parameter in ours.items():
        followed = Followed(parameter)
        followed.steps, followed.squares = taken[name], taken[name] * exactly(parameter.grad) ** 2
        goal = followed.step()
        works[name].run()
        evidence.close(exactly(parameter), goal.parameter, tolerance=goal.near, unit="as the parameter", of=name)
