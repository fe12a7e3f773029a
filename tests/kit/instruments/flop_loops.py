"""Numbers that count what is done to them, line by line, and the loops by which programs on them are written out."""

import contextlib
import math
from collections import Counter
from itertools import product as places

import numpy as np


class Tally:
    """Counts scalar operations, on the line that is open."""

    def __init__(self):
        self.counts = Counter()
        self.line = "matmul"

    @contextlib.contextmanager
    def on(self, line):
        """Open another line: "bias", "elementwise", "integer", or "aside" for what nobody counts."""
        before, self.line = self.line, line
        yield
        self.line = before

    def numbers(self, tensor):
        """Return a tensor as an array of numbers that count."""
        values = np.array(tensor.detach().tolist(), dtype=object).reshape(tensor.shape)
        return np.frompyfunc(lambda value: Number(value, self), 1, 1)(values)

    def zeros(self, *shape):
        """Return zeros to add to."""
        return np.frompyfunc(lambda value: Number(value, self), 1, 1)(np.zeros(shape).astype(object))


class Number:
    """A real number; every operation with it counts one, but for its sign and comparisons."""

    __slots__ = ("tally", "value")

    def __init__(self, value, tally):
        self.value, self.tally = value, tally

    def _new(self, value):
        self.tally.counts[self.tally.line] += 1
        return Number(value, self.tally)

    def __add__(self, other):
        return self._new(self.value + plain(other))

    __radd__ = __add__

    def __sub__(self, other):
        return self._new(self.value - plain(other))

    def __rsub__(self, other):
        return self._new(plain(other) - self.value)

    def __mul__(self, other):
        return self._new(self.value * plain(other))

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self._new(self.value / plain(other))

    def __rtruediv__(self, other):
        return self._new(plain(other) / self.value)

    def __neg__(self):
        return Number(-self.value, self.tally)

    def __abs__(self):
        return Number(abs(self.value), self.tally)

    def parts(self):
        """Return a complex number's parts, as two real numbers."""
        return Number(self.value.real, self.tally), Number(self.value.imag, self.tally)

    def apply(self, function, *others):
        """Return an elementary function of it, or the larger or smaller of it and another."""
        return self._new(function(self.value, *map(plain, others)))


def plain(number):
    """Return a number's value."""
    return number.value if isinstance(number, Number) else number


def each(function):
    """Return an elementary function of arrays of numbers."""
    return lambda *arrays: np.frompyfunc(lambda number, *others: number.apply(function, *others), len(arrays), 1)(
        *arrays
    )


exp, log, sqrt, tanh, erf = map(each, (math.exp, math.log, math.sqrt, math.tanh, math.erf))
larger, smaller = each(max), each(min)


def total(numbers):
    """Add up numbers, or rows of them, one after the other: n − 1 additions."""
    first, *others = numbers
    for number in others:
        first = first + number
    return first


def largest(numbers):
    """Return the largest, by n − 1 times the larger of two."""
    first, *others = numbers
    for number in others:
        first = first.apply(max, number)
    return first


def matmul(tally, left, right):
    """Multiply two matrices; every sum starts at zero, and so adds as often as it multiplies."""
    result = tally.zeros(left.shape[0], right.shape[1])
    for row, column in places(*map(range, result.shape)):
        for inner in range(left.shape[1]):
            result[row, column] = result[row, column] + left[row, inner] * right[inner, column]
    return result


def batched(tally, left, right):
    """Multiply matrices one by one."""
    return np.stack([matmul(tally, *pair) for pair in zip(left, right, strict=True)])


def biased(tally, result, bias):
    """Add a bias, on its own line."""
    with tally.on("bias"):
        return result + bias


def linear(tally, x, weight, bias=None):
    """Run a linear layer on (…, inputs)."""
    flat = matmul(tally, x.reshape(-1, x.shape[-1]), weight.T)
    if bias is not None:
        flat = biased(tally, flat, bias)
    return flat.reshape(*x.shape[:-1], -1)


def softmax(row):
    """Return the softmax of one row."""
    powers = exp(row - largest(row))
    return powers / total(powers)


def attention(tally, query, key, value, sees=lambda query, key: True, line="aside"):
    """Run attention on (batch, heads, context, width): a pair that is not seen costs nothing."""
    batch, heads, queries, width = query.shape
    result = tally.zeros(batch, heads, queries, value.shape[-1])
    shared = heads // key.shape[1]
    for b, h, i in places(range(batch), range(heads), range(queries)):
        keys = [j for j in range(key.shape[2]) if sees(i, j)]
        scores = tally.zeros(len(keys))
        for place, j in enumerate(keys):
            for k in range(width):
                scores[place] = scores[place] + query[b, h, i, k] * key[b, h // shared, j, k]
        with tally.on(line):
            weights = softmax(scores / math.sqrt(width))
        for weight, j in zip(weights, keys, strict=True):
            for k in range(value.shape[-1]):
                result[b, h, i, k] = result[b, h, i, k] + weight * value[b, h // shared, j, k]
    return result


def split(x, heads):
    """Return (batch, context, width) as (batch, heads, context, width of a head)."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def multi_head(tally, layer, x):
    """Run multi-head attention of a sequence with itself."""
    weights = np.split(tally.numbers(layer.in_proj_weight), 3)
    biases = np.split(tally.numbers(layer.in_proj_bias), 3)
    heads = [split(linear(tally, x, *each), layer.num_heads) for each in zip(weights, biases, strict=True)]
    seen = attention(tally, *heads).swapaxes(1, 2).reshape(x.shape)
    return linear(tally, seen, tally.numbers(layer.out_proj.weight), tally.numbers(layer.out_proj.bias))


def convolution(tally, x, weight, groups=1, stride=1, padding=0):
    """Run a 2-D convolution: (batch, channels, height, width) with (out, channels of a group, height, width)."""
    padded = tally.zeros(*x.shape[:2], x.shape[2] + 2 * padding, x.shape[3] + 2 * padding)
    padded[:, :, padding : padding + x.shape[2], padding : padding + x.shape[3]] = x
    (outputs, inputs, high, wide), per_group = weight.shape, weight.shape[0] // groups
    rows, columns = ((size - kernel) // stride + 1 for size, kernel in zip(padded.shape[2:], (high, wide), strict=True))
    result = tally.zeros(x.shape[0], outputs, rows, columns)
    for b, o, i, j, c, h, w in places(*map(range, (*result.shape, inputs, high, wide))):
        seen = padded[b, o // per_group * inputs + c, i * stride + h, j * stride + w]
        result[b, o, i, j] = result[b, o, i, j] + seen * weight[o, c, h, w]
    return result


def input_gradient(tally, gradient, x, weight, groups):
    """Return the gradient of the input of a convolution without padding, of stride 1."""
    result = tally.zeros(*x.shape)
    for b, o, i, j, c, h, w in places(*map(range, (*gradient.shape, *weight.shape[1:]))):
        place = b, o // (weight.shape[0] // groups) * weight.shape[1] + c, i + h, j + w
        result[place] = result[place] + gradient[b, o, i, j] * weight[o, c, h, w]
    return result


def weight_gradient(tally, gradient, x, weight, groups):
    """Return the gradient of the weight of a convolution without padding, of stride 1."""
    result = tally.zeros(*weight.shape)
    for b, o, i, j, c, h, w in places(*map(range, (*gradient.shape, *weight.shape[1:]))):
        channel = o // (weight.shape[0] // groups) * weight.shape[1] + c
        result[o, c, h, w] = result[o, c, h, w] + gradient[b, o, i, j] * x[b, channel, i + h, j + w]
    return result


def convolution_transposed(tally, x, weight, groups=1, stride=1):
    """Run a transposed 2-D convolution: every input is spread over the results by (in, outputs of a group, …)."""
    batch, inputs, rows, columns = x.shape
    outputs, high, wide = weight.shape[1:]
    result = tally.zeros(batch, outputs * groups, (rows - 1) * stride + high, (columns - 1) * stride + wide)
    for b, c, i, j, o, h, w in places(*map(range, (*x.shape, outputs, high, wide))):
        place = b, c // (inputs // groups) * outputs + o, i * stride + h, j * stride + w
        result[place] = result[place] + x[b, c, i, j] * weight[c, o, h, w]
    return result


def recurrent(tally, layer, x):
    """Run an LSTM, GRU or RNN on (batch, time, inputs), from zeros; what the gates do is set aside."""
    for depth, back in places(range(layer.num_layers), range(1 + layer.bidirectional)):
        suffix = f"_l{depth}" + "_reverse" * back
        w_x, w_h, b_x, b_h = (
            tally.numbers(getattr(layer, f"{kind}_{part}{suffix}"))
            for kind in ("weight", "bias")
            for part in ("ih", "hh")
        )
        outputs = outputs if back else []
        hidden = cell = tally.zeros(x.shape[0], layer.hidden_size)
        seen = []
        for token in x.swapaxes(0, 1)[:: -1 if back else 1]:
            from_x, from_h = linear(tally, token, w_x, b_x), linear(tally, hidden, w_h, b_h)
            with tally.on("aside"):
                hidden, cell = gates(type(layer).__name__, from_x, from_h, hidden, cell)
            seen.append(hidden)
        outputs.append(np.stack(seen[:: -1 if back else 1], 1))
        if back or not layer.bidirectional:
            x = np.concatenate(outputs, -1)
    return x


def sigmoid(x):
    """Return 1 / (1 + exp(−x))."""
    return 1 / (1 + exp(-x))


def gates(kind, from_x, from_h, hidden, cell):
    """Return the next hidden state and cell."""
    if kind == "RNN":
        return tanh(from_x + from_h), cell
    if kind == "LSTM":
        take, forget, new, give = np.split(from_x + from_h, 4, -1)
        cell = sigmoid(forget) * cell + sigmoid(take) * tanh(new)
        return sigmoid(give) * tanh(cell), cell
    (reset, keep, new), (reset_h, keep_h, new_h) = np.split(from_x, 3, -1), np.split(from_h, 3, -1)
    keep = sigmoid(keep + keep_h)
    new = tanh(new + sigmoid(reset + reset_h) * new_h)
    return (hidden - new) * keep + new, cell
