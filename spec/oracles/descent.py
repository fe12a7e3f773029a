"""SGD on a linear model with standard normal inputs: its exact law, many runs at once, and one run undone."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spec.bounds.descent import DIGITS
from spec.oracles.streams import seeded

Array = np.ndarray[Any, Any]


class Descent(NamedTuple):
    """A setting of SGD: the learning rate, the points of a batch, and the dimensions of its inputs."""

    lr: float
    points: int
    dims: int

    @property
    def ratio(self) -> float:
        """The expected ratio of squared errors, after a step to before: 1 − 4·lr + 4·lr²·(B + D + 1)/B."""
        return 1 - 4 * self.lr + 4 * self.lr**2 * (self.points + self.dims + 1) / self.points

    @property
    def limit(self) -> float:
        """The largest learning rate at which the expected squared error does not grow: B/(B + D + 1)."""
        return self.points / (self.points + self.dims + 1)

    @cache  # noqa: B019 — a run has few settings
    def moments(self, order: int) -> tuple[Decimal, ...]:
        """Return the expected 0th to `order`-th powers of the ratio of squared errors, to 120 digits.

        Let v = w − w*, X the batch and a = 2·lr/B. A step turns v into (I − a·XᵀX)·v. Rotate so that v lies along the
        first axis; then X has a first column g, and the other columns are normal and independent of g. The new v has
        the component (1 − a·g·g)·|v| along the old one and −a·|v|·(other columns)ᵀ·g across it. So the ratio of the
        squared lengths is (1 − a·s)² + a²·s·c, where s = g·g has the χ² distribution with B degrees of freedom, c has
        the one with D − 1, and the two are independent. The ratio depends neither on v nor on earlier steps: the ratios
        of a run are independent and have the same distribution.
        """
        along, across = chi_square_moments(self.points, 2 * order), chi_square_moments(self.dims - 1, order)
        with localcontext(prec=DIGITS):
            a = Decimal(self.lr) * 2 / self.points
            # Expected powers of −a·s, and of −a·c.
            s = [(-a) ** n * moment for n, moment in enumerate(along)]
            c = [(-a) ** n * moment for n, moment in enumerate(across)]

            def squared(n: int, m: int) -> Decimal:
                """Return the expected (1 − a·s)ⁿ·(−a·s)ᵐ."""
                return sum((math.comb(n, k) * s[k + m] for k in range(n + 1)), Decimal(0))

            def power(n: int) -> Decimal:
                """Return the expected ((1 − a·s)² + (−a·s)·(−a·c))ⁿ."""
                return sum((math.comb(n, m) * c[m] * squared(2 * (n - m), m) for m in range(n + 1)), Decimal(0))

            return tuple(power(n) for n in range(order + 1))

    def errors(self, seeds: int, steps: int, seed: int, device: torch.device | str = "cpu") -> Tensor:
        """Return the squared errors, (steps + 1, seeds), of torch's SGD from 0 towards weights 0, 1, …, D − 1.

        Each run has weights and batches of its own. The loss is the sum of the runs' mean squared errors.
        """
        device = torch.device(device)
        generator = seeded(seed, device)
        truth = torch.arange(self.dims, dtype=torch.float64, device=device)
        weights = torch.zeros(seeds, self.dims, dtype=torch.float64, device=device, requires_grad=True)
        optimizer = torch.optim.SGD([weights], lr=self.lr)
        errors = [(weights.detach() - truth).square().sum(-1)]
        for _ in range(steps):
            x = torch.randn(seeds, self.points, self.dims, generator=generator, dtype=torch.float64, device=device)
            y = x @ truth
            optimizer.zero_grad()
            ((x @ weights[..., None])[..., 0] - y).square().mean(-1).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            errors.append((weights.detach() - truth).square().sum(-1))
        return torch.stack(errors).cpu()


def chi_square_moments(degrees: int, order: int) -> list[int]:
    """Return the expected 0th to `order`-th powers of a χ² variable: the n-th is d·(d + 2)·…·(d + 2n − 2)."""
    return list(accumulate(range(order), lambda moment, n: moment * (degrees + 2 * n), initial=1))


def loss_and_gradients(x: Array, y: Array, weights: Sequence[Array]) -> tuple[float, list[Array]]:
    """Return the mean squared error of x @ w @ … @ head, and its gradients, by the chain rule."""
    inputs = [x]
    for weight in weights:
        inputs.append(inputs[-1] @ weight)
    off = inputs.pop()[:, 0] - y
    backward = 2 / len(y) * off[:, None]
    gradients = []
    for before, weight in zip(reversed(inputs), reversed(weights), strict=True):
        gradients.append(before.T @ backward)
        backward = backward @ weight.T
    return float(np.mean(off * off)), gradients[::-1]


def undo(x: Array, y: Array, weights: Sequence[Array], lr: float) -> list[Array]:
    """Return the weights before a step of SGD on a batch: the w with w − lr·gradient(w) = weights.

    Iterating w = weights + lr·gradient(w) converges where the learning rate is well below the one at which SGD
    diverges. Where it does not converge, and for weights that are NaN, the answer is NaN.
    """
    before = list(weights)
    for _ in range(100):
        _, gradients = loss_and_gradients(x, y, before)
        moved = [weight + lr * gradient for weight, gradient in zip(weights, gradients, strict=True)]
        change = max(float(np.abs(new - old).max(initial=0)) for new, old in zip(moved, before, strict=True))
        before = moved
        if change < 1e-14:
            return before
    return [np.full_like(weight, np.nan) for weight in weights]


def replay(
    batches: Sequence[tuple[Tensor, Tensor]], weights: Sequence[Tensor], lr: float
) -> tuple[list[float], list[Array]]:
    """Undo a run of SGD that ended at `weights`: return its loss at each batch, and the weights that it began with."""
    now = [weight.detach().cpu().double().numpy() for weight in weights]
    losses = []
    with np.errstate(all="ignore"):
        for x, y in reversed(batches):
            x64, y64 = x.double().numpy(), y.double().numpy()
            now = undo(x64, y64, now, lr)
            losses.append(loss_and_gradients(x64, y64, now)[0])
    return losses[::-1], now


# By what a wrong step multiplies the gradient of a batch of so many points, and the share it keeps of those before.
MISTAKES: dict[str, tuple[Callable[[int], float], float]] = {
    "a forgotten zero_grad, so that gradients add up": (lambda points: 1.0, 1.0),
    "a sum of squared errors where their mean is meant": (lambda points: float(points), 0.0),
    "a step up the gradient": (lambda points: -1.0, 0.0),
    "half the gradient": (lambda points: 0.5, 0.0),
}


def mistake(batches: Sequence[tuple[Tensor, Tensor]], start: Sequence[Tensor], end: Sequence[Tensor], lr: float) -> str:
    """Name the one mistake by which a run of SGD that began at `start` comes to its `end`; nothing where none does.

    It has to move the weights as they moved, to 1%, and by at least 10% otherwise than a right run does.
    """
    begun, reached = ([weight.detach().cpu().double().numpy() for weight in each] for each in (start, end))
    if [weight.shape for weight in begun] != [weight.shape for weight in reached]:
        return ""
    pairs = [(x.double().numpy(), y.double().numpy()) for x, y in batches]
    right = _ended(pairs, begun, lr, lambda points: 1.0, 0.0)
    moved = _farthest(reached, begun)
    found = []
    for name, (factor, stays) in MISTAKES.items():
        wrong = _ended(pairs, begun, lr, factor, stays)
        if _farthest(wrong, reached) <= moved / 100 and _farthest(wrong, right) >= moved / 10 > 0:
            found.append(name)
    return found[0] if len(found) == 1 else ""


def _ended(
    pairs: Sequence[tuple[Array, Array]],
    start: Sequence[Array],
    lr: float,
    factor: Callable[[int], float],
    stays: float,
) -> list[Array]:
    """Return where steps lead by `factor` times a batch's gradient, with a share of the steps' before."""
    now, summed = list(start), [np.zeros_like(weight) for weight in start]
    with np.errstate(all="ignore"):
        for x, y in pairs:
            _, gradients = loss_and_gradients(x, y, now)
            summed = [stays * old + factor(len(y)) * new for old, new in zip(summed, gradients, strict=True)]
            now = [weight - lr * gradient for weight, gradient in zip(now, summed, strict=True)]
    return now


def _farthest(some: Sequence[Array], others: Sequence[Array]) -> float:
    return max((float(np.abs(a - b).max(initial=0)) for a, b in zip(some, others, strict=True)), default=0.0)
