"""Programs, and the loops that say what they cost. Sizes are small different primes, so that a swap of two shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.kit.instruments import flop_loops as loops
from tests.kit.instruments.flop_loops import batched, biased, linear, matmul

ALL = ("matmul", "bias", "elementwise", "integer")


@dataclass(frozen=True)
class Case:
    """A program on tensors, and loops that compute the same (its results, or the gradients of its inputs)."""

    name: str
    program: Callable[..., Any]  # makes it, so that every run has its own
    inputs: Callable[[], Sequence[torch.Tensor]]
    loops: Callable[..., Any]
    backward: bool = False
    lines: Sequence[str] = field(default=ALL)  # those on which the loops have something to say

    def make(self):
        """Return the program and its inputs."""
        return self.program(), list(self.inputs())

    def run(self, program, inputs):
        """Return what the program computes, or with `backward` the gradients for a gradient of ones."""
        if not self.backward:
            result = program(*inputs)
            return [result[0] if isinstance(result, tuple) else result]
        leaves = [each.requires_grad_() for each in inputs if each.is_floating_point()]
        result = program(*inputs)
        result = result[0] if isinstance(result, tuple) else result
        torch.autograd.backward(result, torch.ones(()).expand(result.shape))
        return [leaf.grad for leaf in leaves]


def values(*shape, dtype=torch.float32):
    """Return different numbers between −1 and 1."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 0.7 + count).sin().reshape(shape).to(dtype)


def of(*shapes, dtype=torch.float32):
    """Return what makes inputs of these shapes."""
    return lambda: [values(*shape, dtype=dtype) for shape in shapes]


def named(path):
    """Return a program that calls a function of torch's, whatever it is by then."""
    return lambda *inputs: attrgetter(path)(FUNCTIONS)(*inputs)


FUNCTIONS = SimpleNamespace(torch=torch, F=F)


def entering(cases):
    """Return a decorator that enters a case; what it decorates has the loops, on the tally and the inputs.

    A program that is one of torch's functions is given by name, and looked up when it runs: counters patch them.
    `module=True`: the program is to be made first, and the loops take it too, for its weights.
    """

    def case(name, program, inputs, *, module=False, **options):
        if isinstance(program, str):
            program = named(program)

        def enter(function):
            written = function if module else lambda tally, _, *arrays: function(tally, *arrays)
            cases.append(Case(name, program if module else lambda: program, inputs, written, **options))
            return function

        return enter

    return case


CASES: list[Case] = []
case = entering(CASES)


# Products of matrices and vectors.


def as_matrices(function):
    """Return loops that multiply two matrices, whatever the program calls it."""
    return lambda tally, *arrays: [function(tally, *arrays)]


X, W = (3, 5), (5, 7)
for name, program in {
    "x @ w": lambda x, w: x @ w,
    "torch.mm(out=)": lambda x, w: torch.mm(x, w, out=torch.empty(3, 7)),
    "einsum of two matrices": lambda x, w: torch.einsum("bd,dk->bk", x, w),
    "tensordot": lambda x, w: torch.tensordot(x, w, 1),
    "torch.inner": lambda x, w: torch.inner(x, w.T),
    "F.linear": lambda x, w: F.linear(x, w.T),
    "in inference mode": lambda x, w: torch.inference_mode()(lambda: F.linear(x, w.T))(),
    "sparse @ dense": lambda x, w: torch.sparse.mm(x.to_sparse(), w),
    "sparse CSR @ dense": lambda x, w: x.to_sparse_csr() @ w,
    "dense @ sparse": lambda x, w: x @ w.to_sparse(),
    "Parameter, x @ w": lambda x, w: x @ nn.Parameter(w),
}.items():
    case(name, program, of(X, W))(as_matrices(matmul))


@case("F.linear with bias", "F.linear", of(X, (7, 5), (7,)))
def _(tally, x, weight, bias):
    return [linear(tally, x, weight, bias)]


@case("nn.Linear", lambda: nn.Linear(5, 7), of((2, 3, 5)), module=True)
def _(tally, layer, x):
    # Of a batch of sequences torch may add the bias as an operator of its own.
    return [linear(tally, x, tally.numbers(layer.weight), tally.numbers(layer.bias))]


@case("nn.Linear used three times", lambda: Three(), of((3, 5)), module=True)
def _(tally, three, x):
    for _ in range(3):
        x = linear(tally, x, tally.numbers(three.layer.weight))
    return [x]


class Three(nn.Module):
    """One layer, three times."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 5, bias=False)

    def forward(self, x):
        return self.layer(self.layer(self.layer(x)))


def added(tally, bias, left, right):
    return [biased(tally, matmul(tally, left, right), bias)]


case("addmm", "torch.addmm", of((7,), X, W))(added)
case("addmm_", lambda y, x, w: y.clone().addmm_(x, w), of((3, 7), X, W))(added)
case("addmm(out=)", lambda y, x, w: torch.addmm(y, x, w, out=torch.empty(3, 7)), of((3, 7), X, W))(added)
case("sparse.addmm", lambda y, x, w: torch.sparse.addmm(y, x.to_sparse(), w), of((3, 7), X, W))(added)


@case("addmm of 2·y and 3·x·w", lambda y, x, w: torch.addmm(y, x, w, beta=2, alpha=3), of((3, 7), X, W))
def _(tally, y, x, w):
    product = matmul(tally, x, w)
    with tally.on("bias"):
        return [np.broadcast_to(y, product.shape) * 2 + product * 3]


case("addmm of 0·y", lambda y, x, w: torch.addmm(y, x, w, beta=0), of((3, 7), X, W))(
    lambda tally, y, x, w: [matmul(tally, x, w)]
)


@case("sparse @ vector", lambda w, v: w.T.to_sparse() @ v, of(W, (5,)))
@case("mv", lambda w, v: w.T.mv(v), of(W, (5,)))
def _(tally, w, v):
    return [matmul(tally, w.T, v[:, None])[:, 0]]


@case(
    "sparse @ dense, half of it stored",
    lambda x, w: torch.sparse.mm(x.relu().to_sparse(), w),
    of(X, W),
    lines=("matmul",),
)
def _(tally, x, w):
    result = tally.zeros(3, 7)
    for i, j, k in np.ndindex(3, 7, 5):
        if x[i, k].value > 0:
            result[i, j] = result[i, j] + x[i, k] * w[k, j]
    return [result]


@case("vector @ matrix", lambda v, w: v @ w, of((5,), W))
def _(tally, v, w):
    return [matmul(tally, v[None], w)[0]]


def weighted(tally, y, w, v):
    return [biased(tally, matmul(tally, w.T, v[:, None])[:, 0], y)]


case("addmv", lambda y, w, v: y.addmv(w.T, v), of((7,), W, (5,)))(weighted)
case("addmv_", lambda y, w, v: y.clone().addmv_(w.T, v), of((7,), W, (5,)))(weighted)


def inner(tally, left, right):
    return [matmul(tally, left[None], right[:, None])[0, 0]]


case("dot", "torch.dot", of((7,), (7,)))(inner)
case("vdot", "torch.vdot", of((7,), (7,)))(inner)


def outer(line):
    def multiplied(tally, left, right):
        with tally.on(line):
            return [left[:, None] * right]

    return multiplied


case("outer", "torch.outer", of((3,), (5,)))(outer("elementwise"))
case("ger", "torch.ger", of((3,), (5,)))(outer("elementwise"))


@case("addr", "torch.addr", of((3, 5), (3,), (5,)))
def _(tally, y, left, right):
    return [biased(tally, left[:, None] * right, y)]


BATCHES = of((2, 3, 5), (2, 5, 7))
case("bmm", "torch.bmm", BATCHES)(as_matrices(batched))
case("einsum of batches", lambda x, w: torch.einsum("abd,adk->abk", x, w), BATCHES)(as_matrices(batched))
case("matmul of 3-D and 2-D", "torch.matmul", of((2, 3, 5), W))(
    lambda tally, x, w: [np.stack([matmul(tally, each, w) for each in x])]
)
case("matmul broadcasting", "torch.matmul", of((1, 3, 5), (2, 5, 7)))(
    lambda tally, x, w: [np.stack([matmul(tally, x[0], each) for each in w])]
)


def added_batches(tally, y, x, w):
    return [biased(tally, batched(tally, x, w), y)]


case("baddbmm", "torch.baddbmm", of((2, 3, 7), (2, 3, 5), (2, 5, 7)))(added_batches)
case("baddbmm_", lambda y, x, w: y.clone().baddbmm_(x, w), of((2, 3, 7), (2, 3, 5), (2, 5, 7)))(added_batches)


@case("addbmm", "torch.addbmm", of((3, 7), (2, 3, 5), (2, 5, 7)))
def _(tally, y, x, w):
    result = tally.zeros(3, 7)
    for b in range(2):
        for i, j, k in np.ndindex(3, 7, 5):
            result[i, j] = result[i, j] + x[b, i, k] * w[b, k, j]
    return [biased(tally, result, y)]


@case("multi_dot, the cheaper order", lambda *m: torch.linalg.multi_dot(m), of((2, 3), (3, 5), (5, 7)))
def _(tally, a, b, c):
    return [matmul(tally, matmul(tally, a, b), c)]


@case("bilinear", "F.bilinear", of((3, 5), (3, 2), (7, 5, 2)))
def _(tally, left, right, weight):
    return [bilinear(tally, left, right, weight)]


def bilinear(tally, left, right, weight):
    """Return Σ_i Σ_j left·weight·right, the sum over i first, as torch does it."""
    result = tally.zeros(len(left), len(weight))
    for b, o, j in np.ndindex(len(left), *weight.shape[::2]):
        row = matmul(tally, left[b : b + 1], weight[o, :, j : j + 1])[0, 0]
        result[b, o] = result[b, o] + row * right[b, j]
    return result


# Integers and complex numbers.


def whole(tally, x, w):
    with tally.on("integer"):
        return [matmul(tally, x, w)]


case("int64 @ int64", "torch.matmul", lambda: [torch.arange(15).reshape(3, 5), torch.arange(35).reshape(5, 7)])(whole)
case(
    "_int_mm",
    "torch._int_mm",
    lambda: [torch.ones(17, 8, dtype=torch.int8), torch.ones(8, 16, dtype=torch.int8)],
)(whole)


@case("complex @ complex, in real FLOPs", "torch.matmul", of(X, W, dtype=torch.complex64))
def _(tally, x, w):
    result = np.empty((3, 7), dtype=object)
    for i, j in np.ndindex(3, 7):
        real, imaginary = tally.zeros(2)
        for k in range(5):
            (a, b), (c, d) = x[i, k].parts(), w[k, j].parts()
            real, imaginary = real + (a * c - b * d), imaginary + (a * d + b * c)
        result[i, j] = complex(loops.plain(real), loops.plain(imaginary))
    return [result]
