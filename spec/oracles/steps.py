"""A training step in plain torch, phase by phase, and the bytes that its allocator reports as alive in each phase."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import mse_loss
from torch.optim import SGD, Adagrad, Adam, Optimizer

from spec.instruments.allocator import Bytes, MemoryMeter
from spec.instruments.timer import one_thread
from spec.oracles.networks import Layers, chain

CPU = torch.device("cpu")
RATE, EPSILON = 0.01, 1e-10
OPTIMIZERS: dict[str, Callable[[list[Tensor], bool], Optimizer]] = {
    "sgd": lambda weights, foreach: SGD(weights, lr=RATE, foreach=foreach),
    "momentum": lambda weights, foreach: SGD(weights, lr=RATE, momentum=0.9, foreach=foreach),
    "adagrad": lambda weights, foreach: Adagrad(weights, foreach=foreach),
    "adam": lambda weights, foreach: Adam(weights, foreach=foreach),
}


class Rule:
    """SGD as its rule is usually written, p −= lr·g, with the temporary tensor that this expression makes."""

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
    """AdaGrad as its rule is usually written, p −= lr·g/√(G + ε), with the temporaries that this expression makes."""

    def __init__(self, weights: list[Tensor]) -> None:
        super().__init__(weights)
        self.sums = [torch.zeros_like(weight, requires_grad=False) for weight in weights]

    def update(self, gradients: list[Tensor]) -> None:
        for weight, gradient, total in zip(self.weights, gradients, self.sums, strict=True):
            total.addcmul_(gradient, gradient)
            weight -= RATE * gradient / (total + EPSILON).sqrt()


class AdagradsRuleAtOnce(AdagradsRule):
    """AdaGrad that first takes the roots of all accumulators, and then updates in place without other temporaries."""

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
    """One of several right ways to write a training step. Each way has a peak of its own.

    `update` is an argument of torch.optim's ("foreach=True") or the name of one of the optimizer's RULES.
    `keeps_prediction` says whether a variable keeps the prediction alive to the end of the step.
    """

    update: str = "foreach=False"
    keeps_prediction: bool = True

    def __str__(self) -> str:
        return f"{self.update}, prediction {'kept' if self.keeps_prediction else 'dropped'}"

    def optimizer(self, name: str, weights: list[Tensor]) -> Optimizer | Rule:
        """Return the optimizer, before its first step."""
        if self.update.startswith("foreach"):
            return OPTIMIZERS[name](weights, self.update == "foreach=True")
        return RULES[name][self.update](weights)


REFERENCE_RECIPE = Recipe()


def recipes(optimizer: str) -> list[Recipe]:
    """Return every way to write a training step with this optimizer; the reference implementation's comes first."""
    updates = ("foreach=False", "foreach=True", *RULES.get(optimizer, {}))
    return [Recipe(update, keeps) for update in updates for keeps in (True, False)]


class Step(NamedTuple):
    """The bytes that were alive in a training step.

    `live` holds, for each phase and on the CPU alone, the bytes before the phase and after every change in it.
    `left` counts what two steps left behind. `workspace` counts what a warm-up run left behind: libraries keep
    workspaces for their products, which are no part of the step and are excluded from the rest.
    """

    peak: Bytes
    live: dict[str, list[int]]
    left: int
    workspace: int


def network(points: int, width: int, layers: int) -> Layers:
    """Return the notes' deep network: `layers` matrices of width by width, and a head of width by 1."""
    return Layers(points, [width] * (layers + 1) + [1], [True] * (layers + 1))


def forward(x: Tensor, y: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the prediction, (B,), and its mean squared error."""
    prediction = chain(x, *weights).squeeze(-1)
    return prediction, mse_loss(prediction, y)


def train(
    layers: Layers,
    optimizer: str,
    device: torch.device,
    ended: Callable[[str], object],
    recipe: Recipe = REFERENCE_RECIPE,
) -> None:
    """Train for two steps, so that the second finds the optimizer's states; call `ended` after each phase."""
    x, weights = layers.in_torch(device)
    y = torch.zeros(layers.points, device=device)
    rule = recipe.optimizer(optimizer, weights)
    for _ in range(2):
        ended("start")
        prediction, loss = forward(x, y, weights)
        if not recipe.keeps_prediction:
            del prediction
        ended("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        ended("backward")
        rule.step()
        ended("step")
        rule.zero_grad()
        del loss
        if recipe.keeps_prediction:
            del prediction
        ended("zero_grad")


def measure(layers: Layers, optimizer: str, device: torch.device = CPU, recipe: Recipe = REFERENCE_RECIPE) -> Step:
    """Measure the second step of a training run."""
    peaks: dict[str, Bytes] = {}
    live: dict[str, list[int]] = {}

    def ended(phase: str) -> None:
        before = len(meter.history)
        peaks[phase] = meter.read().peak
        live[phase] = meter.history[before - 1 :]

    with one_thread(), growth_of(device) as workspace:
        if device.type != "cpu":  # The CPU's libraries keep no workspace.
            train(layers, optimizer, device, lambda phase: None, recipe)
    with one_thread(), MemoryMeter(device) as meter:
        train(layers, optimizer, device, ended, recipe)
        left = meter.read().live.requested
    del peaks["start"], live["start"]
    return Step(Bytes(*map(max, zip(*peaks.values(), strict=True))), live, left, *workspace)


@contextmanager
def growth_of(device: torch.device) -> Iterator[list[int]]:
    """Append to the list by how many bytes the body has increased the bytes alive."""
    growth: list[int] = []
    with MemoryMeter(device) as meter:
        yield growth
        growth.append(meter.read().live.requested)


def saved_for_backward(compute: Callable[[], Tensor], *known: Tensor) -> int:
    """Return the bytes that autograd saves while computing. Each storage counts once, those of `known` do not count."""
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = compute()
    excluded = {tensor.untyped_storage().data_ptr() for tensor in known}
    total = sum(storage.nbytes() for address, storage in saved.items() if address not in excluded)
    del result
    return total
