"""§2.2.4 and §2.2.5: floating-point operations, counted by formula.

Sizes are Python or NumPy integers, however large, and results are Python integers. A size that is negative raises
ValueError and one that is not an integer TypeError, either of them with the argument's name in its message.
"""

import math
from operator import index
from typing import SupportsIndex

import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn

__all__ = ["backward", "elementwise", "forward", "matmul", "training", "transformer_forward"]


def matmul(points: SupportsIndex, inputs: SupportsIndex, outputs: SupportsIndex) -> int:
    """Return the FLOPs of a (points, inputs) by (inputs, outputs) product: 2·points·inputs·outputs.

    Each term of each sum counts as a multiplication and an addition, as if every sum began with an addition to 0.
    Raises ValueError for a negative size and TypeError for what is not an integer, naming the argument.
    """
    return 2 * _size("points", points) * _size("inputs", inputs) * _size("outputs", outputs)


def elementwise(*shape: SupportsIndex) -> int:
    """Return the FLOPs of one operation on every element of a tensor of this shape: the number of its elements.

    A scalar, which has no sizes, takes one.
    Raises ValueError for a negative size and TypeError for what is not an integer, naming the shape.
    """
    return math.prod(_size("a size of the shape", size) for size in shape)


def forward(points: SupportsIndex, parameters: SupportsIndex) -> int:
    """Return the FLOPs of a forward pass of `points` rows through linear layers: 2·points·parameters.

    `parameters` counts the weights that every point is multiplied with: neither biases nor embeddings, and of a mixture
    of experts only those that process the point.
    Raises ValueError for a negative count and TypeError for what is not an integer, naming the argument.
    """
    return 2 * _size("points", points) * _size("parameters", parameters)


def backward(points: SupportsIndex, parameters: SupportsIndex, first_layer_parameters: SupportsIndex = 0) -> int:
    """Return the FLOPs of a backward pass through linear layers: 4·points·parameters − 2·points·first_layer_parameters.

    Every layer takes one product for the gradient of its weights and one for the gradient of its input. The first
    layer's input is data, which needs no gradient: `first_layer_parameters` is the number of that layer's weights,
    which `parameters` includes. It is 0 when the input needs a gradient.
    Raises ValueError for a negative count and for a first layer larger than the network, TypeError for what is not an
    integer, naming the argument.
    Source: Kaplan et al., Scaling Laws for Neural Language Models, 2020, §2.1, which does not except the first layer.
    """
    points, parameters = _size("points", points), _size("parameters", parameters)
    first = _size("first_layer_parameters", first_layer_parameters)
    if first > parameters:
        raise ValueError(f"first_layer_parameters is {first}: more than the {parameters} parameters of all layers")
    return 4 * points * parameters - 2 * points * first


def training(points: SupportsIndex, parameters: SupportsIndex, first_layer_parameters: SupportsIndex = 0) -> int:
    """Return the FLOPs of one step of training: the sum of `forward` and `backward`, which explain the arguments.

    For L equal layers the sum is 1/(3L) less than 6·points·parameters.
    Raises ValueError for a negative count and for a first layer larger than the network, TypeError for what is not an
    integer, naming the argument.
    """
    return forward(points, parameters) + backward(points, parameters, first_layer_parameters)


def transformer_forward(
    *,
    layers: SupportsIndex,
    width: SupportsIndex,
    heads: SupportsIndex,
    context: SupportsIndex,
    vocabulary: SupportsIndex,
    feedforward: SupportsIndex | None = None,
    batch: SupportsIndex = 1,
    causal: bool = False,
) -> int:
    """Return the FLOPs of the products in a Transformer's forward pass over `batch` sequences of `context` tokens.

    Each layer has four (width, width) matrices (query, key, value, output) and the two matrices of a feedforward
    network, which is 4·width wide by default. Attention has two products of its own: every query with every key, and
    the attention weights with the values. The output head is a (width, vocabulary) matrix, tied to the embedding or
    not. The embedding is a look-up, which takes no FLOPs. The number of heads does not change the count.

    `causal=False` counts all context² pairs of positions, as a full product under a mask computes them. `causal=True`
    counts the context·(context + 1)/2 pairs that causal attention needs, as a kernel that skips the others does.

    Raises ValueError for a negative size and for heads that do not divide the width, TypeError for what is not an
    integer, naming the argument.
    Source: Chowdhery et al., PaLM, 2022, appendix B.
    """
    layers, width, heads = _size("layers", layers), _size("width", width), _size("heads", heads)
    context, vocabulary, batch = _size("context", context), _size("vocabulary", vocabulary), _size("batch", batch)
    feedforward = 4 * width if feedforward is None else _size("feedforward", feedforward)
    if heads == 0 or width % heads:
        raise ValueError(f"heads is {heads}, which does not divide a width of {width}")
    tokens = batch * context
    pairs = batch * (context * (context + 1) // 2 if causal else context**2)
    projections = 4 * matmul(tokens, width, width)
    # Each pair takes width / heads multiplications in each head: together, width of them.
    attention = 2 * matmul(pairs, width, 1)
    network = 2 * matmul(tokens, width, feedforward)
    return layers * (projections + attention + network) + matmul(tokens, width, vocabulary)


def _size(name: str, size: SupportsIndex) -> int:
    """Return a size as a Python integer, because NumPy's integers overflow."""
    try:
        number = index(size)
    except TypeError:
        raise TypeError(f"{name} is not an integer: {size!r}") from None
    if number < 0:
        raise ValueError(f"{name} is negative: {number}")
    return number


# `transformer_forward` counts the products of this network. It is not in `__all__`: implementations need not have it.


class Block(nn.Module):
    """One layer of a Transformer: attention, then a feedforward network, each added to its input.

    It has no biases, normalisation or dropout, because the count is of products alone.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feedforward: int,
        *,
        generator: Generator | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"heads is {heads}, which does not divide a width of {width}")
        self.heads = heads
        self.query, self.key, self.value, self.output = (_weight(width, width, generator, device) for _ in range(4))
        self.up = _weight(width, feedforward, generator, device)
        self.down = _weight(feedforward, width, generator, device)

    def forward(self, x: Float[Tensor, "batch context width"]) -> Float[Tensor, "batch context width"]:
        """Return the layer's output, where every position attends to itself and to those before it."""
        q, k, v = (
            rearrange(x @ weight, "batch seq (heads hidden) -> batch heads seq hidden", heads=self.heads)
            for weight in (self.query, self.key, self.value)
        )
        scores = einsum(q, k, "batch heads seq1 hidden, batch heads seq2 hidden -> batch heads seq1 seq2")
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = (scores / math.sqrt(q.shape[-1])).masked_fill(future, -math.inf).softmax(-1)
        seen = einsum(weights, v, "batch heads seq1 seq2, batch heads seq2 hidden -> batch heads seq1 hidden")
        x = x + rearrange(seen, "batch heads seq hidden -> batch seq (heads hidden)") @ self.output
        return x + (x @ self.up).relu() @ self.down


class Decoder(nn.Module):
    """A minimal Transformer: an embedding, layers of causal attention, and an output head.

    `tied` makes the head the embedding's transpose: fewer parameters, and the same products.
    On the meta device it takes no memory, however large it is.
    Raises ValueError for heads that do not divide the width.
    """

    def __init__(
        self,
        *,
        layers: int,
        width: int,
        heads: int,
        vocabulary: int,
        feedforward: int | None = None,
        tied: bool = False,
        generator: Generator | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        feedforward = 4 * width if feedforward is None else feedforward
        self.embedding = _weight(vocabulary, width, generator, device)
        self.blocks = nn.Sequential(
            *(Block(width, heads, feedforward, generator=generator, device=device) for _ in range(layers))
        )
        self.head = None if tied else _weight(width, vocabulary, generator, device)

    def forward(self, tokens: Int[Tensor, "batch context"]) -> Float[Tensor, "batch context vocabulary"]:
        """Return the logits of each next token: (batch context) → (batch context vocabulary)."""
        x: Tensor = self.blocks(self.embedding[tokens])
        return x @ (self.embedding.T if self.head is None else self.head)


def _weight(fan_in: int, fan_out: int, generator: Generator | None, device: torch.device | str | None) -> nn.Parameter:
    """Return a parameter of normally distributed values with standard deviation 1/√fan_in."""
    return nn.Parameter(torch.randn(fan_in, fan_out, generator=generator, device=device) / math.sqrt(max(fan_in, 1)))
