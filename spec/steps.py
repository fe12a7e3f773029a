"""A training step in plain torch, phase by phase, and the bytes that are alive in it by the allocator's own word."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import mse_loss
from torch.optim import SGD, Adagrad, Adam, Optimizer

from spec.instruments.allocator import Given, Meter
from spec.instruments.timer import one_thread
from spec.networks import Layers, chain

CPU = torch.device("cpu")
RATE, EPSILON = 0.01, 1e-10
OPTIMIZERS: dict[str, Callable[[list[Tensor], bool], Optimizer]] = {
    "sgd": lambda weights, foreach: SGD(weights, lr=RATE, foreach=foreach),
    "momentum": lambda weights, foreach: SGD(weights, lr=RATE, momentum=0.9, foreach=foreach),
    "adagrad": lambda weights, foreach: Adagrad(weights, foreach=foreach),
    "adam": lambda weights, foreach: Adam(weights, foreach=foreach),
}


class Rule:
    """An optimizer as its rule is written down, with the temporaries that the expression makes."""

    def __init__(self, weights: list[Tensor]) -> None:
        self.weights = weights

    def step(self) -> None:
        with torch.no_grad():
            self.update([cast(Tensor, weight.grad) for weight in self.weights])

    def update(self, gradients: list[Tensor]) -> None:
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight -= RATE * gradient

    def zero_grad(self) -> None:
        for weight in self.weights:
            weight.grad = None


class AdagradsRule(Rule):
    """p −= lr·g/√(G + ε)."""

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__(weights)
        self.sums = [torch.zeros_like(weight, requires_grad=False) for weight in weights]

    def update(self, gradients: list[Tensor]) -> None:
        for weight, gradient, total in zip(self.weights, gradients, self.sums, strict=True):
            total.addcmul_(gradient, gradient)
            weight -= RATE * gradient / (total + EPSILON).sqrt()


class AdagradsRuleAtOnce(AdagradsRule):
    """The same, but the roots of all sums come first, and nothing else is made."""

    def update(self, gradients: list[Tensor]) -> None:
        for gradient, total in zip(gradients, self.sums, strict=True):
            total.addcmul_(gradient, gradient)
        roots = [total.sqrt() for total in self.sums]
        for weight, gradient, root in zip(self.weights, gradients, roots, strict=True):
            weight.addcdiv_(gradient, root.add_(EPSILON), value=-RATE)


RULES: dict[str, dict[str, Callable[[list[Tensor]], Rule]]] = {
    "sgd": {"p −= lr·g": Rule},
    "adagrad": {"p −= lr·g/√(G + ε)": AdagradsRule, "all √G, then p −= lr·g/√G": AdagradsRuleAtOnce},
}


class Recipe(NamedTuple):
    """A way to write a training step, where more than one is right: each has a peak of its own."""

    stepping: str = "foreach=False"  # torch.optim's argument, or one of the optimizer's RULES
    held: bool = True  # whether the prediction has a name, which holds it to the end of the step

    def __str__(self) -> str:
        return f"{self.stepping}, prediction {'held' if self.held else 'not held'}"

    def optimizer(self, name: str, weights: list[Tensor]) -> Optimizer | Rule:
        """Return the optimizer, before its first step."""
        if self.stepping.startswith("foreach"):
            return OPTIMIZERS[name](weights, self.stepping == "foreach=True")
        return RULES[name][self.stepping](weights)


OURS = Recipe()  # the reference implementation's


def recipes(optimizer: str) -> list[Recipe]:
    """Return every way to write a training step with this optimizer, OURS first."""
    ways = ("foreach=False", "foreach=True", *RULES.get(optimizer, {}))
    return [Recipe(stepping, held) for stepping in ways for held in (True, False)]


class Step(NamedTuple):
    """What was alive in a step of training, in bytes."""

    peak: Given
    live: dict[str, list[int]]  # by phase, on the CPU: before it, and after every change
    left: int  # beyond what was alive before the first of two steps, after the last
    workspace: (
        int  # that a run before had left behind: what libraries keep for their products, the baseline of the rest
    )


def network(points: int, width: int, layers: int) -> Layers:
    """Return the notes' deep network: `layers` matrices of width by width, and a head of width by 1."""
    return Layers(points, [width] * (layers + 1) + [1], [True] * (layers + 1))


def forward(x: Tensor, y: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the prediction, (B,), and its mean squared error."""
    prediction = chain(x, *weights).squeeze(-1)
    return prediction, mse_loss(prediction, y)


def train(
    layers: Layers, optimizer: str, device: torch.device, ended: Callable[[str], object], recipe: Recipe = OURS
) -> None:
    """Train for two steps, so that the second meets the optimizer's states; say when each phase has ended."""
    x, weights = layers.in_torch(device)
    y = torch.zeros(layers.points, device=device)
    stepping = recipe.optimizer(optimizer, weights)
    for _ in range(2):
        ended("start")
        prediction, loss = forward(x, y, weights)
        if not recipe.held:
            del prediction
        ended("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        ended("backward")
        stepping.step()
        ended("step")
        stepping.zero_grad()
        del loss
        if recipe.held:
            del prediction
        ended("zero_grad")


def measure(layers: Layers, optimizer: str, device: torch.device = CPU, recipe: Recipe = OURS) -> Step:
    """Measure the second step of a training run."""
    peaks: dict[str, Given] = {}
    live: dict[str, list[int]] = {}

    def ended(phase: str) -> None:
        before = len(meter.history)
        peaks[phase] = meter.read().peak
        live[phase] = meter.history[before - 1 :]

    with one_thread(), grown(device) as workspace:
        if device.type != "cpu":  # whose libraries keep nothing
            train(layers, optimizer, device, lambda phase: None, recipe)
    with one_thread(), Meter(device) as meter:
        train(layers, optimizer, device, ended, recipe)
        left = meter.read().live.requested
    del peaks["start"], live["start"]
    return Step(Given(*map(max, zip(*peaks.values(), strict=True))), live, left, *workspace)


@contextmanager
def grown(device: torch.device) -> Iterator[list[int]]:
    """Fill the list with the bytes by which the body adds to what is alive."""
    told: list[int] = []
    with Meter(device) as meter:
        yield told
        told.append(meter.read().live.requested)


def saved_for_backward(compute: Callable[[], Tensor], *known: Tensor) -> int:
    """Return the bytes that autograd saves while computing, each storage once, but for the `known` tensors'."""
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = compute()
    kept = sum(storage.nbytes() for storage in saved.values())
    ours = {tensor.untyped_storage().data_ptr() for tensor in known}
    kept -= sum(storage.nbytes() for place, storage in saved.items() if place in ours)
    del result
    return kept
