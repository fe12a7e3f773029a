"""Layers and gradients, and what they cost by loops. See flop_cases."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from tests.kit.instruments import flop_loops as loops
from tests.kit.instruments.flop_cases import BATCHES, Case, W, X, bilinear, entering, of, values
from tests.kit.instruments.flop_loops import attention, batched, biased, larger, linear, matmul, softmax, sqrt, total

CASES: list[Case] = []
case = entering(CASES)
PRODUCTS = ("matmul", "bias")

# Attention: (batch, heads, context, width of a head), keys and values of their own length and width.

QKV = of((2, 3, 5, 7), (2, 3, 5, 7), (2, 3, 5, 7))
CROSS = of((2, 3, 5, 7), (2, 3, 4, 7), (2, 3, 4, 7))


def attend(**options):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)


def written_out(**options):
    """Attention by torch's "math" path, operator by operator."""

    def program(q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v, **options)

    return program


def full(tally, q, k, v):
    return [attention(tally, q, k, v)]


def masked(tally, q, k, v):
    """Compute every pair; set aside the result that the mask makes."""
    attention(tally, q, k, v)
    with tally.on("aside"):
        return [attention(tally, q, k, v, sees=lambda query, key: key <= query)]


case("attention, fused", attend(), QKV, lines=PRODUCTS)(full)
case("attention across, fused", attend(), CROSS, lines=PRODUCTS)(full)
case("attention, fused, causal", attend(is_causal=True), QKV, lines=PRODUCTS)(masked)
case("attention, written out", written_out(), QKV, lines=PRODUCTS)(full)
case("attention, written out, causal", written_out(is_causal=True), QKV, lines=PRODUCTS)(masked)
case(
    "attention with shared keys",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    of((2, 6, 5, 7), (2, 3, 5, 7), (2, 3, 5, 7)),
    lines=PRODUCTS,
)(full)


def gradients(again):
    """Return loops of attention's forward and backward: with the weights computed `again`, or kept."""

    def written(tally, q, k, v):
        result = [tally.zeros(*each.shape) for each in (q, k, v)]
        attention(tally, q, k, v)
        for b, h in np.ndindex(q.shape[:2]):
            scores = matmul(tally, q[b, h], k[b, h].T) if again else kept(tally, q[b, h], k[b, h])
            with tally.on("aside"):
                weights = np.stack([softmax(row / math.sqrt(q.shape[-1])) for row in scores])
            of_result = ones(tally, q.shape[2], v.shape[3])
            of_weights = matmul(tally, of_result, v[b, h].T)
            result[2][b, h] = matmul(tally, weights.T, of_result)
            with tally.on("aside"):
                sums = np.array([total(row) for row in of_weights * weights])
                of_scores = weights * (of_weights - sums[:, None]) / math.sqrt(q.shape[-1])
            result[0][b, h] = matmul(tally, of_scores, k[b, h])
            result[1][b, h] = matmul(tally, of_scores.T, q[b, h])
        return result

    return written


def kept(tally, q, k):
    with tally.on("aside"):
        return matmul(tally, q, k.T)


def ones(tally, *shape):
    return tally.numbers(torch.ones(shape))


case("attention, fused, backward", attend(), CROSS, backward=True, lines=PRODUCTS)(gradients(again=True))
case("attention, written out, backward", written_out(), CROSS, backward=True, lines=PRODUCTS)(gradients(again=False))


def evaluated(module):
    """Return a module that runs without gradients, where torch has kernels for a whole layer."""
    module = module.eval()
    return [parameter.requires_grad_(False) for parameter in module.parameters()] and module


SEQUENCE = of((2, 5, 6))


class Itself(nn.MultiheadAttention):
    """Attention of a sequence with itself, by its own weights."""

    def __init__(self, **options):
        super().__init__(6, 2, batch_first=True)
        nn.init.normal_(self.in_proj_bias, generator=torch.Generator().manual_seed(0))
        self.options = options

    def forward(self, x):
        return super().forward(x, x, x, **self.options)[0]


def multi_head(tally, layer, x):
    return [loops.multi_head(tally, layer, x)]


# Its biases may be operators of their own, when not fused: then they are on the elementwise line.
case("multi-head attention", Itself, SEQUENCE, module=True, lines=("matmul",))(multi_head)
case("multi-head attention, no weights", lambda: Itself(need_weights=False), SEQUENCE, module=True, lines=("matmul",))(
    multi_head
)
case("multi-head attention, evaluated", lambda: evaluated(Itself()), SEQUENCE, module=True, lines=PRODUCTS)(multi_head)


def encoder():
    return nn.TransformerEncoderLayer(6, 2, 14, dropout=0.0, batch_first=True)


def encoder_loops(tally, layer, x):
    def normalised(x, norm):
        with tally.on("aside"):
            centred = x - (total(np.moveaxis(x, -1, 0)) / 6)[..., None]
            variance = total(np.moveaxis(centred * centred, -1, 0)) / 6
            return centred / sqrt(variance + norm.eps)[..., None]

    seen = loops.multi_head(tally, layer.self_attn, x)
    with tally.on("aside"):
        seen = seen + x
    x = normalised(seen, layer.norm1)
    up = linear(tally, x, tally.numbers(layer.linear1.weight), tally.numbers(layer.linear1.bias))
    with tally.on("aside"):
        up = larger(up, tally.zeros(*up.shape))
    down = linear(tally, up, tally.numbers(layer.linear2.weight), tally.numbers(layer.linear2.bias))
    with tally.on("aside"):
        down = down + x
    return [normalised(down, layer.norm2)]


case("encoder layer", encoder, SEQUENCE, module=True, lines=("matmul",))(encoder_loops)
case("encoder layer, evaluated", lambda: evaluated(encoder()), SEQUENCE, module=True, lines=PRODUCTS)(encoder_loops)

# Recurrent layers: (batch, time, inputs).


def recurrent(tally, layer, x):
    return [loops.recurrent(tally, layer, x)]


# oneDNN's kernel of the LSTM adds the biases itself; other recurrent layers add them by operators of their own.
FUSED = (nn.LSTM,) if torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled else ()
for kind in (nn.LSTM, nn.GRU, nn.RNN):
    for name, options in {"": {}, ", 2 layers, both directions": {"num_layers": 2, "bidirectional": True}}.items():
        case(
            f"{kind.__name__}{name}",
            lambda kind=kind, options=options: kind(5, 3, batch_first=True, **options),
            of((2, 7, 5)),
            module=True,
            lines=PRODUCTS if kind in FUSED else ("matmul",),
        )(recurrent)

# Convolutions.

IMAGE = (2, 4, 5, 6)


@case("convolution, padding 1, stride 2", lambda x, w: F.conv2d(x, w, stride=2, padding=1), of(IMAGE, (6, 4, 3, 2)))
def _(tally, x, weight):
    return [loops.convolution(tally, x, weight, stride=2, padding=1)]


@case("convolution in 2 groups, with bias", lambda x, w, b: F.conv2d(x, w, b, groups=2), of(IMAGE, (6, 2, 3, 2), (6,)))
def _(tally, x, weight, bias):
    return [biased(tally, loops.convolution(tally, x, weight, groups=2), bias[:, None, None])]


@case(
    "transposed convolution in 2 groups",
    lambda x, w: F.conv_transpose2d(x, w, groups=2, stride=2),
    of(IMAGE, (4, 3, 3, 2)),
)
def _(tally, x, weight):
    return [loops.convolution_transposed(tally, x, weight, groups=2, stride=2)]


for groups in (1, 2):

    @case(
        f"convolution backward, {groups} groups",
        lambda x, w, groups=groups: F.conv2d(x, w, groups=groups),
        of(IMAGE, (6, 4 // groups, 3, 2)),
        backward=True,
    )
    def _(tally, x, weight, groups=groups):
        result = loops.convolution(tally, x, weight, groups=groups)
        gradient = ones(tally, *result.shape)
        return [
            loops.input_gradient(tally, gradient, x, weight, groups),
            loops.weight_gradient(tally, gradient, x, weight, groups),
        ]


@case(
    "transposed convolution backward, 2 groups",
    lambda x, w: F.conv_transpose2d(x, w, groups=2),
    of(IMAGE, (4, 3, 3, 2)),
    backward=True,
)
def _(tally, x, weight):
    result = loops.convolution_transposed(tally, x, weight, groups=2)
    gradient = ones(tally, *result.shape)
    of_x = loops.convolution(tally, gradient, weight, groups=2)
    return [of_x, loops.weight_gradient(tally, x, gradient, weight, groups=2)]


# Gradients of products.


def of_product(tally, x, w):
    gradient = ones(tally, *matmul(tally, x, w).shape)
    return [matmul(tally, gradient, w.T), matmul(tally, x.T, gradient)]


case("x @ w backward", "torch.matmul", of(X, W), backward=True)(of_product)


@case("bmm backward", "torch.bmm", BATCHES, backward=True)
def _(tally, x, w):
    gradient = ones(tally, *batched(tally, x, w).shape)
    return [batched(tally, gradient, w.swapaxes(1, 2)), batched(tally, x.swapaxes(1, 2), gradient)]


@case("first layer, whose input needs no gradient, and a second", lambda: Layers(), of((3, 5)), module=True)
def _(tally, layers, x):
    hidden = matmul(tally, x, tally.numbers(layers.first))
    result = matmul(tally, hidden, tally.numbers(layers.second))
    gradient = ones(tally, *result.shape)
    of_second, of_hidden = matmul(tally, hidden.T, gradient), matmul(tally, gradient, tally.numbers(layers.second.T))
    matmul(tally, x.T, of_hidden)
    return [of_second]


class Layers(nn.Module):
    """Two layers, which return the gradient of the second's weights."""

    def __init__(self, again=False):
        super().__init__()
        self.first, self.second = (nn.Parameter(values(*shape)) for shape in ((5, 7), (7, 2)))
        self.again = again

    def forward(self, x):
        inner = lambda x: x @ self.first @ self.second  # noqa: E731
        result = checkpoint(inner, x, use_reentrant=False) if self.again else inner(x)
        torch.autograd.backward(result, torch.ones(()).expand(result.shape))
        return self.second.grad


@case("the same, checkpointed", lambda: Layers(again=True), of((3, 5)), module=True)
def _(tally, layers, x):
    for _ in range(2):  # forward, and again for the backward pass
        hidden = matmul(tally, x, tally.numbers(layers.first))
    gradient = ones(tally, *matmul(tally, hidden, tally.numbers(layers.second)).shape)  # which needs no second time
    of_second, of_hidden = matmul(tally, hidden.T, gradient), matmul(tally, gradient, tally.numbers(layers.second.T))
    matmul(tally, x.T, of_hidden)
    return [of_second]


@case("bilinear backward", "F.bilinear", of((3, 5), (3, 2), (7, 5, 2)), backward=True)
def _(tally, left, right, weight):
    bilinear(tally, left, right, weight)
    of_left, of_right, of_weight = (tally.zeros(*each.shape) for each in (left, right, weight))
    gradient = ones(tally, 3, 7)
    for b, o, i in np.ndindex(3, 7, 5):  # Σ_o Σ_j (gradient·weight)·right
        row = tally.zeros(1)[0]
        for j in range(2):
            row = row + gradient[b, o] * weight[o, i, j] * right[b, j]
        of_left[b, i] = of_left[b, i] + row
    for o, i, j, b in np.ndindex(7, 5, 2, 3):  # Σ_b (left·gradient)·right; the former once for all j
        with tally.on("matmul" if j == 0 else "aside"):
            scaled = left[b, i] * gradient[b, o]
        of_weight[o, i, j] = of_weight[o, i, j] + scaled * right[b, j]
    for b, o, j in np.ndindex(3, 7, 2):  # Σ_o (Σ_i left·weight)·gradient
        row = matmul(tally, left[b : b + 1], weight[o, :, j : j + 1])[0, 0]
        of_right[b, j] = of_right[b, j] + row * gradient[b, o]
    return [of_left, of_right, of_weight]
