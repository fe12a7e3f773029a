"""Reductions, losses and normalisation, and what they cost by loops. See flop_cases."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from tests.kit.instruments.flop_cases import W, X, values
from tests.kit.instruments.flop_elementwise import CASES, bound, case
from tests.kit.instruments.flop_loops import erf, exp, larger, largest, log, smaller, softmax, sqrt, tanh, total

__all__ = ["CASES"]

case("sum", lambda x: x.sum(), X)(lambda _, x: np.array(total(x.ravel())))
case("mean of rows", lambda x: x.mean(1), X)(lambda _, x: total(x.T) / 5)
case("largest of rows", lambda x: x.amax(1), X)(lambda _, x: np.array([largest(row) for row in x]))
case("largest of rows, and where", lambda x: x.max(1), X)(lambda _, x: np.array([largest(row) for row in x]))


def cumulative(_, x):
    rows = [[row[0]] for row in x]
    for row, sums in zip(x, rows, strict=True):
        for number in row[1:]:
            sums.append(sums[-1] + number)
    return np.array(rows)


case("product of rows", lambda x: x.prod(1), X)(lambda _, x: np.array([row_product(row) for row in x]))
case("smallest of all", "torch.min", X)(lambda _, x: np.array(-largest(-x.ravel())))
case("smallest and largest of rows", lambda x: torch.stack(torch.aminmax(x, dim=1)), X)(
    lambda _, x: np.array([[-largest(-row) for row in x], [largest(row) for row in x]])
)
case("smaller of two", "torch.min", X, X)(lambda _, x, y: smaller(x, y))
case("trace", "torch.trace", (5, 5))(lambda _, x: np.array(total(x.diagonal())))
case("variance and mean", lambda x: torch.var_mean(x, dim=1), X)(lambda _, x: variances(x)[1] / 4)
case("standard deviation and mean", lambda x: torch.std_mean(x, dim=1), X)(lambda _, x: sqrt(variances(x)[1] / 4))
case("norms, foreach", lambda x: torch._foreach_norm([x])[0], X)(lambda _, x: sqrt(np.array(total((x * x).ravel()))))
case("cumsum of rows", lambda x: x.cumsum(1), X)(cumulative)
case("norm", lambda x: x.norm(), X)(lambda _, x: sqrt(np.array(total((x * x).ravel()))))


def row_product(row):
    first, *others = row
    for number in others:
        first = first * number
    return first


def variances(x):
    centred = x - (total(x.T) / x.shape[1])[:, None]
    return centred, total((centred * centred).T)


case("variance of rows", lambda x: x.var(1), X)(lambda _, x: variances(x)[1] / 4)
case("standard deviation of rows", lambda x: x.std(1), X)(lambda _, x: sqrt(variances(x)[1] / 4))
case("softmax", lambda x: x.softmax(1), X)(lambda _, x: np.stack([softmax(row) for row in x]))


def log_softmax(x):
    return np.stack([(shifted := row - largest(row)) - total(exp(shifted)).apply(math.log) for row in x])


case("log_softmax", lambda x: x.log_softmax(1), X)(lambda _, x: log_softmax(x))
case("logsumexp", lambda x: x.logsumexp(1), X)(
    lambda _, x: np.array([(top := largest(row)) + total(exp(row - top)).apply(math.log) for row in x])
)


@case("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b), X, (5,), (5,))
def _(_, x, weight, bias):
    centred, squares = variances(x)
    return centred * (1 / sqrt(squares / 5 + 1e-5))[:, None] * weight + bias


@case("layer_norm backward", lambda x, w, b: F.layer_norm(x, (5,), w, b), X, (5,), (5,), backward=True)
def _(tally, x, weight, bias):
    centred, squares = variances(x)
    scale = (1 / sqrt(squares / 5 + 1e-5))[:, None]
    _ = centred * scale * weight + bias  # the forward pass; what follows starts from its mean and scale
    gradient = tally.numbers(torch.ones(3, 5))
    with tally.on("aside"):
        mean = (total(x.T) / 5)[:, None]
    z = (x - mean) * scale
    h = gradient * weight
    of_x = (h - (total(h.T) / 5)[:, None] - z * (total((h * z).T) / 5)[:, None]) * scale
    return [of_x, total(gradient * z), total(gradient)]


FIXED = values(3, 5), values(5)


@case("layer_norm backward, of the input", lambda x: F.layer_norm(x, (5,), *[FIXED[1]] * 2), X, backward=True)
def _(tally, x):
    weight = tally.numbers(FIXED[1])
    centred, squares = variances(x)
    scale = (1 / sqrt(squares / 5 + 1e-5))[:, None]
    _ = centred * scale * weight + weight
    with tally.on("aside"):
        mean = (total(x.T) / 5)[:, None]
    z, h = (x - mean) * scale, tally.numbers(torch.ones(3, 5)) * weight
    return (h - (total(h.T) / 5)[:, None] - z * (total((h * z).T) / 5)[:, None]) * scale


@case("layer_norm backward, of the weights", lambda w, b: F.layer_norm(FIXED[0], (5,), w, b), (5,), (5,), backward=True)
def _(tally, weight, bias):
    x, gradient = tally.numbers(FIXED[0]), tally.numbers(torch.ones(3, 5))
    centred, squares = variances(x)
    scale = (1 / sqrt(squares / 5 + 1e-5))[:, None]
    _ = centred * scale * weight + bias
    with tally.on("aside"):
        mean = (total(x.T) / 5)[:, None]
    return [total(gradient * ((x - mean) * scale)), total(gradient)]


@case("softmax backward", lambda x: x.softmax(1), X, backward=True)
def _(tally, x):
    gradient, y = tally.numbers(torch.ones(3, 5)), np.stack([softmax(row) for row in x])
    return (gradient - total((gradient * y).T)[:, None]) * y


@case("log_softmax backward", lambda x: x.log_softmax(1), X, backward=True)
def _(tally, x):
    gradient = tally.numbers(torch.ones(3, 5))
    return gradient - exp(log_softmax(x)) * total(gradient.T)[:, None]


@case("gelu backward", "F.gelu", X, backward=True)
def _(tally, x):
    _ = x * (1 + erf(x * math.sqrt(0.5))) * 0.5
    cdf = (1 + erf(x * math.sqrt(0.5))) * 0.5
    pdf = exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    return tally.numbers(torch.ones(3, 5)) * (cdf + x * pdf)


@case("tanh backward", "torch.tanh", X, backward=True)
def _(tally, x):
    y = tanh(x)
    return tally.numbers(torch.ones(3, 5)) * (1 - y * y)


@case("silu backward", "F.silu", X, backward=True)
def _(tally, x):
    _ = x * (1 / (1 + exp(-x)))
    s = 1 / (1 + exp(-x))
    return tally.numbers(torch.ones(3, 5)) * s * (1 + x * (1 - s))


@case("squared error", "F.mse_loss", X, X)
def _(_, x, y):
    difference = x - y
    return np.array(total((difference * difference).ravel()) / 15)


TARGET = torch.tensor([1, 4, 0])


@case("cross entropy", lambda x: F.cross_entropy(x, TARGET), X)
def _(_, x):
    return np.array(total([-row[place] for row, place in zip(log_softmax(x), TARGET, strict=True)]) / 3)


WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 3.0, 4.0])


@case("cross entropy of weighted classes", lambda x: F.cross_entropy(x, TARGET, weight=WEIGHTS), X)
def _(tally, x):
    weights = tally.numbers(WEIGHTS)
    losses = [-row[place] * weights[place] for row, place in zip(log_softmax(x), TARGET, strict=True)]
    return np.array(total(losses) / total(weights[TARGET.numpy()]))


@case("cross entropy, summed", lambda x: F.cross_entropy(x, TARGET, reduction="sum"), X)
def _(_, x):
    return np.array(total([-row[place] for row, place in zip(log_softmax(x), TARGET, strict=True)]))


@case("cross entropy, each", lambda x: F.cross_entropy(x, TARGET, reduction="none"), X)
def _(_, x):
    return np.array([-row[place] for row, place in zip(log_softmax(x), TARGET, strict=True)])


@case("likelihood backward", lambda x: F.nll_loss(x, TARGET), X, backward=True)
def _(tally, x):
    _ = total([-row[place] for row, place in zip(x, TARGET, strict=True)]) / 3
    gradient = tally.zeros(3, 5)
    for row, place in enumerate(TARGET):
        gradient[row, place] = -tally.numbers(torch.ones(1))[0] / 3
    return gradient


@case("squared error backward", lambda x: F.mse_loss(x, torch.zeros(3, 5)), X, backward=True)
def _(tally, x):
    difference = x - tally.zeros(3, 5)
    _ = total((difference * difference).ravel()) / 15
    return (x - tally.zeros(3, 5)) * (2 / 15) * tally.numbers(torch.ones(3, 5))


@case("distances of many points", "torch.cdist", (27, 3), (2, 3))
def _(tally, x, y):
    squares = [total((each * each).T) for each in (x, y)]
    left, right = np.hstack([x * -2, squares[0][:, None]]), np.hstack([y, squares[1][:, None]])
    with tally.on("matmul"):
        result = tally.zeros(27, 2)
        for i, j in np.ndindex(27, 2):
            for a, b in [*zip(left[i, :3], right[j, :3], strict=True), (left[i, 3], 1), (right[j, 3], 1)]:
                result[i, j] = result[i, j] + a * b
    return sqrt(larger(result, tally.zeros(27, 2)))


@case("scatter_add from the first rows", lambda x, y: x.scatter_add(0, torch.tensor([[0, 1], [0, 2]]), y), X, X)
def _(_, x, y):
    result = x.copy()
    for row, column, place in ((0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 2)):
        result[place, column] = result[place, column] + y[row, column]
    return result


case("x + 3·2, of a number", lambda x: torch.ops.aten.add.Scalar(x, 2, 3), X)(lambda _, x: x + bound(x, 2) * 3)
case("foreach x + 2·y/z", lambda x, y, z: torch._foreach_addcdiv([x], [y], [z], 2.0)[0], X, X, X)(
    lambda _, x, y, z: x + y / z * 2
)
case("dropout, fused", lambda x: torch.native_dropout(x, 0.0, True), X)(lambda _, x: x * 1 * 1)
case("dropout, not in training", lambda x: torch.native_dropout(x, 0.5, False), X)(lambda _, x: x)
case("logit", lambda x: x.sigmoid().logit(), X)(
    lambda _, x: log((y := 1 / (1 + exp(-x))) / (1 - y)),
)
case("sigmoid backward", "torch.sigmoid", X, backward=True)(
    lambda tally, x: tally.numbers(torch.ones(3, 5)) * (1 - (y := 1 / (1 + exp(-x)))) * y
)
case("hardtanh", "F.hardtanh", X)(lambda _, x: smaller(larger(x, bound(x, -1)), bound(x, 1)))
case("leaky relu", lambda x: F.leaky_relu(x, 0.1), X)(lambda _, x: larger_of_free(x, x * 0.1))
case("rms_norm", lambda x, w: F.rms_norm(x, (5,), w, eps=1e-5), X, (5,), lines=())(
    lambda _, x, w: x * (1 / sqrt(total((x * x).T) / 5 + 1e-5))[:, None] * w
)


def larger_of_free(x, y):
    """Select the larger, which is no operation but a comparison."""
    return np.vectorize(lambda a, b: a if a.value > b.value else b, otypes=[object])(x, y)


PLACES = torch.tensor([[1, 2, 1], [0, 4, 1]])
case("embedding", lambda w: F.embedding(PLACES, w), W)(lambda _, w: w[PLACES.numpy()])


def scattered(tally, w):
    gradient = tally.zeros(*w.shape)
    for place in PLACES.flatten():
        gradient[place] = gradient[place] + 1
    return gradient


case("embedding backward", lambda w: F.embedding(PLACES, w), W, backward=True)(scattered)
case("indexing backward", lambda w: w[PLACES], W, backward=True)(scattered)
case("index_add", lambda x, y: x.index_add(0, torch.tensor([2, 2]), y), X, (2, 5))(
    lambda _, x, y: np.stack([x[0], x[1], x[2] + y[0] + y[1]])
)
case("distances of few points", "torch.cdist", X, (4, 5))(
    lambda _, x, y: sqrt(total(np.moveaxis((d := x[:, None] - y) * d, -1, 0)))
)
case("moved about", lambda x: torch.cat([x.T.contiguous().view(3, 5), x.clone()])[1:].double(), X)(
    lambda _, x: np.concatenate([x.T.reshape(3, 5), x])[1:]
)
case("where and compare", lambda x: torch.where(x > 0, x, torch.zeros(())), X)(
    lambda tally, x: np.vectorize(lambda n: n if n.value > 0 else type(n)(0, tally), otypes=[object])(x)
)
case("distances by absolute values", lambda x, y: torch.cdist(x, y, p=1.0), X, (4, 5))(
    lambda _, x, y: total(np.moveaxis(abs(x[:, None] - y), -1, 0))
)


@case("accumulating at places", lambda x, y: x.index_put((ROWS, COLUMNS), y, accumulate=True), X, (2, 3))
def _(_, x, y):
    result = x.copy()
    for i, j in np.ndindex(2, 3):
        place = int(ROWS[i, 0]), int(COLUMNS[j])
        result[place] = result[place] + y[i, j]
    return result


ROWS, COLUMNS = torch.tensor([[1], [1]]), torch.tensor([0, 4, 0])
