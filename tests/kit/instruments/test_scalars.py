"""The counter of scalar operations agrees with a tally kept by plain loops, and with a trace of the calls."""

import sys
from fractions import Fraction

import einops
import numpy as np
import pytest

from spec.instruments.scalars import count_operations

SHAPES = [(2, 3, 4), (1, 1, 1), (3, 1, 2), (1, 5, 1), (4, 2, 3), (2, 0, 3), (0, 2, 3)]


def numbers(*shape):
    """Return an array of different fractions."""
    array = np.empty(shape, dtype=object)
    for place, index in enumerate(np.ndindex(*shape)):
        array[index] = Fraction(place + 1, 3)
    return array


def tallied(x, w):
    """Multiply two matrices in plain loops: the product, its multiplications and its additions."""
    multiplications = additions = 0
    product = [[Fraction(0)] * w.shape[1] for _ in range(x.shape[0])]
    for b in range(x.shape[0]):
        for k in range(w.shape[1]):
            for d in range(x.shape[1]):
                multiplications += 1
                if d:
                    additions += 1
                product[b][k] += x[b, d] * w[d, k]
    return product, multiplications, additions


class Traced(Fraction):
    """A fraction whose operators are Python functions, so that a profiler sees their calls."""

    def __add__(self, other):
        return Traced(Fraction(self) + Fraction(other))

    __radd__ = __add__

    def __mul__(self, other):
        return Traced(Fraction(self) * Fraction(other))

    __rmul__ = __mul__


def traced(compute, *arrays):
    """Run `compute` on fractions without a tally: the calls of × and of + that the interpreter reports."""
    calls = {Traced.__mul__.__code__: 0, Traced.__add__.__code__: 0}

    def profile(frame, event, _):
        if event == "call" and frame.f_code in calls:
            calls[frame.f_code] += 1

    arrays = [np.frompyfunc(Traced, 1, 1)(array) for array in arrays]
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        compute(*arrays)
    finally:
        sys.setprofile(before)
    return tuple(calls.values())


def product_of_lists(x, w):
    """Multiply two matrices held in nested lists."""
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*w, strict=True)] for row in x]


def by_name(x, y):
    """Multiply along a named dimension."""
    return einops.einsum(x, y, "batch seq1 hidden, batch seq2 hidden -> batch seq1 seq2")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_product_counts_what_loops_count(shape):
    """NumPy's product of object arrays does B·D·K multiplications and B·K·(D − 1) additions, as the loops do."""
    points, inputs, outputs = shape
    x, w = numbers(points, inputs), numbers(inputs, outputs)
    product, multiplications, additions = tallied(x, w)
    counted = count_operations(np.matmul, x, w)
    assert (counted.multiplications, counted.additions) == (multiplications, additions)
    assert counted.multiplications == points * inputs * outputs
    assert counted.additions == points * outputs * max(inputs - 1, 0)
    assert counted.divisions == 0
    assert counted.total == multiplications + additions
    assert counted.result.tolist() == product


@pytest.mark.parametrize(
    ("compute", "shapes"),
    [
        (np.matmul, [(3, 4), (4, 2)]),
        (np.matmul, [(2, 3, 4), (2, 4, 5)]),
        (np.matmul, [(4,), (4, 2)]),
        (by_name, [(2, 3, 4), (2, 5, 4)]),
        (np.add, [(2, 3), (3,)]),
        (lambda x: x.sum(axis=-1), [(3, 4)]),
        (lambda x: 2 * x + 1, [(3, 4)]),
        (product_of_lists, [(3, 4), (4, 2)]),
    ],
)
def test_a_trace_of_the_interpreter_sees_as_many_calls(compute, shapes):
    """The tally equals the number of calls that the interpreter reports for numbers without a tally."""
    arrays = [numbers(*shape) for shape in shapes]
    counted = count_operations(compute, *arrays)
    assert (counted.multiplications, counted.additions) == traced(compute, *arrays)
    assert np.array_equal(counted.result, compute(*arrays))


@pytest.mark.parametrize(
    ("compute", "additions", "multiplications", "divisions"),
    [
        (lambda x, y: x + y, 1, 0, 0),
        (lambda x, y: x - y, 1, 0, 0),
        (lambda x, y: x * y, 0, 1, 0),
        (lambda x, y: x / y, 0, 0, 1),
        (lambda x, y: 1 + x, 1, 0, 0),
        (lambda x, y: 1 - x, 1, 0, 0),
        (lambda x, y: x - 1, 1, 0, 0),
        (lambda x, y: 2 * x, 0, 1, 0),
        (lambda x, y: 1 / x, 0, 0, 1),
        (lambda x, y: -x, 0, 0, 0),
    ],
)
def test_each_operator_is_counted_once_and_computed(compute, additions, multiplications, divisions):
    """An operator counts as one operation of its kind, and its value is the plain one."""
    x, y = Fraction(7, 2), Fraction(3, 5)
    counted = count_operations(compute, x, y)
    assert (counted.additions, counted.multiplications, counted.divisions) == (additions, multiplications, divisions)
    assert counted.result == compute(x, y)
