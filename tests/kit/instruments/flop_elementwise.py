"""Elementwise operations and reductions, what they cost by loops, and what has no count. See flop_cases."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from tests.kit.instruments.flop_cases import Case, W, X, entering, of
from tests.kit.instruments.flop_loops import erf, exp, larger, log, plain, smaller, tanh, total

CASES: list[Case] = []
enter = entering(CASES)


def case(name, program, *shapes, inputs=None, **options):
    """Enter a case whose loops count on the elementwise line; they return the result, or the gradients of inputs."""

    def decorate(function):
        def written(tally, *arrays):
            with tally.on("elementwise"):
                result = function(tally, *arrays)
            return result if isinstance(result, list) else [result]

        enter(name, program, inputs or of(*shapes), **options)(written)
        return function

    return decorate


case("x + y", "torch.add", X, X)(lambda _, x, y: x + y)
case("x + 2·y", lambda x, y: torch.add(x, y, alpha=2), X, X)(lambda _, x, y: x + y * 2)
case("x − y, broadcast", "torch.sub", X, (5,))(lambda _, x, y: x - y)
case("x · y, in place", lambda x, y: x.clone().mul_(y), X, X)(lambda _, x, y: x * y)
case("x / y", "torch.div", X, X)(lambda _, x, y: x / y)
case("relu", "torch.relu", X)(lambda tally, x: larger(x, tally.zeros(*x.shape)))


def bound(x, value):
    """Return an array of one value."""
    return np.vectorize(lambda number: type(number)(value, number.tally), otypes=[object])(x)


case("clamp", lambda x: x.clamp(-0.5, 0.5), X)(lambda _, x: smaller(larger(x, bound(x, -0.5)), bound(x, 0.5)))
case("−|x|", lambda x: -x.abs(), X)(lambda _, x: -abs(x))
case("exp and log", lambda x: x.exp().log(), X)(lambda _, x: log(exp(x)))
case("sigmoid", "torch.sigmoid", X)(lambda _, x: 1 / (1 + exp(-x)))
case("silu", "F.silu", X)(lambda _, x: x * (1 / (1 + exp(-x))))
case("tanh", "torch.tanh", X)(lambda _, x: tanh(x))
case("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=2), X, X, X)(lambda _, x, y, z: x + y * z * 2)
case("lerp", lambda x, y: torch.lerp(x, y, 0.3), X, X)(lambda _, x, y: x + (y - x) * 0.3)
case("gelu", "F.gelu", X)(lambda _, x: x * (1 + erf(x * math.sqrt(0.5))) * 0.5)
case("gelu by tanh", lambda x: F.gelu(x, approximate="tanh"), X)(
    lambda _, x: x * 0.5 * (1 + tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)))
)
case("foreach", lambda x, y: torch._foreach_add([x, y], 2.0)[0], X, W)(lambda _, x, y: [x + 2, y + 2][0])
case("complex x · y + y", lambda x, y: x * y + y, inputs=of(X, X, dtype=torch.complex64))(
    lambda _, x, y: np.vectorize(times_plus, otypes=[object])(x, y)
)
case("multiply, broadcast, and sum", lambda x, w: (x[:, :, None] * w).sum(1), X, W)(
    lambda _, x, w: total(np.moveaxis(x[:, :, None] * w, 1, 0))
)


def times_plus(x, y):
    """Return x·y + y of complex numbers, by real ones."""
    (a, b), (c, d) = x.parts(), y.parts()
    return complex(plain(a * c - b * d + c), plain(a * d + b * c + d))
