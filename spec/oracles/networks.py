"""Networks whose FLOPs the claims count: written in plain torch, and by hand on numbers that count operations."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from spec.instruments.scalars import Operations, count_operations

Array = np.ndarray[Any, Any]
Where = torch.device | str


class Layers(NamedTuple):
    """Linear layers without biases: their widths, which of them learn, and whether the input needs a gradient, too."""

    points: int
    widths: Sequence[int]
    learn: Sequence[bool]
    input_learns: bool = False

    @property
    def parameters(self) -> list[int]:
        """The number of parameters of each layer."""
        return [inputs * outputs for inputs, outputs in pairwise(self.widths)]

    def in_torch(self, device: Where = "cpu") -> tuple[Tensor, list[Tensor]]:
        """Return the input and the weights."""
        x = torch.ones(self.points, self.widths[0], device=device, requires_grad=self.input_learns)
        sizes = zip(pairwise(self.widths), self.learn, strict=True)
        return x, [torch.ones(*size, device=device, requires_grad=learns) for size, learns in sizes]


def chain(x: Any, *weights: Any) -> Any:
    """Multiply x by each weight in turn; the operands may be tensors or arrays of any numbers."""
    for weight in weights:
        x = x @ weight
    return x


def count_linear_forward(layers: Layers) -> Operations:
    """Count the scalar operations of a forward pass."""
    return count_operations(chain, np.ones((layers.points, layers.widths[0]), int), *_weights(layers))


def count_linear_backward(layers: Layers) -> Operations:
    """Count the scalar operations of a backward pass, written out by the chain rule."""
    count = len(layers.learn)
    inputs = [np.ones((layers.points, width), int) for width in layers.widths[:-1]]

    def backward(gradient: Array, *arrays: Array) -> Array:
        for layer in reversed(range(count)):
            x, weight = arrays[layer], arrays[count + layer]
            if layers.learn[layer]:
                np.matmul(x.T, gradient)
            if layers.input_learns or any(layers.learn[:layer]):
                gradient = np.matmul(gradient, weight.T)
        return gradient

    return count_operations(backward, np.ones((layers.points, layers.widths[-1]), int), *inputs, *_weights(layers))


def _weights(layers: Layers) -> list[Array]:
    return [np.ones(sizes, int) for sizes in pairwise(layers.widths)]


class Sizes(NamedTuple):
    """The sizes of a Transformer and of its input."""

    layers: int
    heads: int
    head_width: int
    context: int
    vocabulary: int
    feedforward: int
    batch: int

    @property
    def width(self) -> int:
        return self.heads * self.head_width

    @property
    def matrices(self) -> list[tuple[int, int]]:
        """The six matrices of a layer: query, key, value, output, up and down."""
        return [*[(self.width, self.width)] * 4, (self.width, self.feedforward), (self.feedforward, self.width)]


class Transformer:
    """An embedding, layers of attention and a feedforward network, and an output head; every weight is 0.

    `multiplied` counts the parameters of the matrices that a token is multiplied with.
    """

    def __init__(self, sizes: Sizes, *, tied: bool = False, learns: bool = False, device: Where = "cpu") -> None:
        def matrix(rows: int, columns: int) -> Tensor:
            return torch.zeros(rows, columns, device=device, requires_grad=learns)

        self.heads = sizes.heads
        self.tokens = torch.zeros(sizes.batch, sizes.context, dtype=torch.int64, device=device)
        self.embedding = matrix(sizes.vocabulary, sizes.width)
        self.layers = [[matrix(*size) for size in sizes.matrices] for _ in range(sizes.layers)]
        self.head = self.embedding.T if tied else matrix(sizes.width, sizes.vocabulary)
        multiplied = [self.head, *(weight for layer in self.layers for weight in layer)]
        self.multiplied = _numel(multiplied)
        self.parameters = _numel(multiplied if tied else [self.embedding, *multiplied])

    def logits(self, *, causal: bool = False) -> Tensor:
        """Run a forward pass: (batch, context, vocabulary)."""
        return self.hidden(causal=causal) @ self.head

    def hidden(self, *, causal: bool = False) -> Tensor:
        """Run the layers: (batch, context, width); causal attention skips the products that a mask hides."""
        x = self.embedding[self.tokens]
        for *into, output, up, down in self.layers:
            split = (*x.shape[:-1], self.heads, x.shape[-1] // self.heads)
            q, k, v = ((x @ weight).reshape(split).transpose(1, 2) for weight in into)
            rows = [(q[..., i : i + 1, :], k[..., : i + 1, :], v[..., : i + 1, :]) for i in range(x.shape[1])]
            seen = torch.cat([attend(*row) for row in rows], -2) if causal else attend(q, k, v)
            x = x + seen.transpose(1, 2).reshape(x.shape) @ output
            x = x + (x @ up).relu() @ down
        return x


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return attention by its definition, softmax(q·kᵀ)·v: two products."""
    return (q @ k.mT).softmax(-1) @ v


def count_transformer(sizes: Sizes, *, causal: bool) -> Operations:
    """Count the scalar operations of a forward pass's products, token by token and head by head, without softmax."""

    def products(tokens: Array, head: Array, *weights: Array) -> Array:
        layers = [weights[i : i + 6] for i in range(0, len(weights), 6)]
        return np.array([[token @ head for token in through(sequence, layers)] for sequence in tokens])

    def through(sequence: Array, layers: Iterable[Sequence[Array]]) -> list[Array]:
        x = list(sequence)
        for query, key, value, output, up, down in layers:
            q, k, v = ([token @ weight for token in x] for weight in (query, key, value))
            for i in range(len(x)):
                reach = i + 1 if causal else len(x)
                attended = [attention(q[i][head], k[:reach], v[:reach], head) for head in heads]
                x[i] = np.concatenate(attended) @ output @ up @ down
        return x

    def attention(q: Array, keys: list[Array], values: list[Array], head: slice) -> Array:
        scores = np.array([q @ k[head] for k in keys])
        weighted: Array = scores @ np.array([v[head] for v in values])
        return weighted

    heads = [slice(start, start + sizes.head_width) for start in range(0, sizes.width, sizes.head_width)]
    tokens = np.zeros((sizes.batch, sizes.context, sizes.width), int)
    weights = [np.zeros(size, int) for size in [(sizes.width, sizes.vocabulary), *sizes.matrices * sizes.layers]]
    return count_operations(products, tokens, *weights)


class Experts:
    """A mixture of experts: a router sends every token to the `chosen` experts with the best scores."""

    def __init__(self, tokens: int, width: int, feedforward: int, experts: int, chosen: int) -> None:
        self.chosen = chosen
        self.x = torch.arange(tokens * width).sin().reshape(tokens, width)
        self.router = torch.arange(width * experts).cos().reshape(width, experts)
        self.experts = [(torch.ones(width, feedforward), torch.ones(feedforward, width)) for _ in range(experts)]
        self.parameters = self.router.numel() + _numel(weight for expert in self.experts for weight in expert)

    def outputs(self) -> Tensor:
        """Return for every token the sum of its experts' outputs: (tokens, width)."""
        y = torch.zeros_like(self.x)
        choice = (self.x @ self.router).topk(self.chosen).indices
        for expert, (up, down) in enumerate(self.experts):
            rows = (choice == expert).any(-1).nonzero()[:, 0]
            y[rows] += (self.x[rows] @ up).relu() @ down
        return y

    def active_parameters(self) -> int:
        """Return the number of parameters that one token is multiplied with: the router's and the chosen experts'."""
        return self.router.numel() + _numel(weight for expert in self.experts[: self.chosen] for weight in expert)


def _numel(weights: Iterable[Tensor]) -> int:
    return sum(weight.numel() for weight in weights)
