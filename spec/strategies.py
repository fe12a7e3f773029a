"""Every hypothesis strategy of the claims' tests."""

import itertools
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st

from spec.oracles.layouts import VIEWS, layout, regroupings
from spec.oracles.networks import Layers, Sizes

# ---- common ----
sizes = st.integers(min_value=1, max_value=8)
sizes_with_zero = st.integers(min_value=0, max_value=5)

# ---- storage ----
_layout_steps = ("packed",) * 4 + ("gap", 0, 1, 2, 7)
_dimension = st.sampled_from(
    (None,) * 120 + tuple(itertools.product((2, 3, 1, 4, 6, 2, 3, 1, 0), _layout_steps, range(3)))
)
layouts = st.builds(layout, st.tuples(*[_dimension] * 5), st.integers(0, 3))
viewings = st.builds(  # a layout, and shapes to view it as
    lambda here, cuts, ones: (here, regroupings(here.shape, cuts, ones)),
    layouts,
    st.integers(0, 2**10 - 1),
    st.sampled_from((0, 0, 0, 1, 2, 4, 9)),
)
filled_shapes = st.sampled_from(
    [shape for dimensions in range(5) for shape in itertools.product((1, 2, 3), repeat=dimensions)]
)
_views = tuple(itertools.product(VIEWS, range(4), range(3)))  # name, dimension, number
views = st.sampled_from(_views)
view_chains = st.tuples(*[st.sampled_from((None, *_views))] * 4).map(lambda steps: [step for step in steps if step])
picks = st.integers(0, 999)  # Each picks one element of a tensor.
values_of_less_than_a_mebibyte = st.integers(0, 2**18 - 128)  # 4 bytes each

# ---- dimensions ----
# One draw of a whole shape is faster than a draw per size.
small = st.integers(1, 4)
leading = st.sampled_from([(), (1,), (2,), (3,), (1, 2), (2, 1), (2, 3), (3, 2), (1, 1, 1), (2, 1, 3), (3, 2, 1)])
four_sizes = st.sampled_from(list(itertools.product((1, 2, 3, 4), repeat=4)))
up_to_three = st.integers(0, 3)
widths = st.integers(1, 32)
seeds = st.integers(0, 2**32 - 1)
name_orders = st.sampled_from(list(itertools.permutations("abcd")))
reductions = st.sampled_from(("sum", "mean", "max", "min"))
head_layouts = st.sampled_from(("contiguous", "every other value", "last dimension outermost", "one value repeated"))

# ---- tensors ----
Shape = tuple[int, ...]


class Operands(NamedTuple):
    """Two shapes, and the shape they broadcast to."""

    left: Shape
    right: Shape
    result: Shape


_Slot = tuple[int, str] | None  # a size and which side has 1 in its stead; or no such dimension


def _operands(first: _Slot, second: _Slot, third: _Slot, missing: int) -> Operands:
    """Both have each dimension's size, or one has 1; the left one lacks the first −missing, or the right `missing`."""
    dimensions = [slot for slot in (first, second, third) if slot]
    left = [1 if thin == "left" else size for size, thin in dimensions][max(-missing, 0) :]
    right = [1 if thin == "right" else size for size, thin in dimensions][max(missing, 0) :]
    shared = min(len(left), len(right))
    longer = left if len(left) > shared else right
    sizes = [size for size, _ in dimensions]
    return Operands(tuple(left), tuple(right), (*longer[: len(longer) - shared], *sizes[len(sizes) - shared :]))


def _clashing(operands: Operands, clash: tuple[int, int], place: int) -> Operands:
    """Insert a dimension that does not fit, `place` dimensions before the end."""
    place = min(place, len(operands.left), len(operands.right))
    left, right = (
        (*shape[: len(shape) - place], size, *shape[len(shape) - place :])
        for shape, size in zip(operands[:2], clash, strict=True)
    )
    return Operands(left, right, ())


_slot = st.sampled_from((None, None, None, *itertools.product(range(4), ("neither", "left", "right"))))
broadcastable = st.builds(_operands, _slot, _slot, _slot, st.integers(-3, 3))
incompatible = st.builds(
    _clashing, broadcastable, st.sampled_from(tuple(itertools.permutations((0, 2, 3), 2))), st.integers(0, 3)
)
# An expression of three leaves: each step combines two earlier results, counted from the latest.
_steps = tuple(itertools.product("+-×", range(8), range(8)))
expressions = st.lists(st.sampled_from(_steps), min_size=1, max_size=5)
three_values = st.tuples(*[st.integers(-16, 16).map(lambda eighths: eighths / 8)] * 3)
three_flags = st.sampled_from(tuple(itertools.product((True, False), repeat=3)))

# ---- operations ----
_floats = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_integers = (torch.int64, torch.int32, torch.int16, torch.int8)
float_dtypes = st.sampled_from(_floats)
signed_dtypes = st.sampled_from(_floats + _integers)
arithmetic_dtypes = st.sampled_from((*_floats, *_integers, torch.uint8))
triangle_dtypes = st.sampled_from((torch.float32, torch.bfloat16, torch.int64, torch.bool))


def _moderate(seed: int) -> list[float]:
    """Three values: 0, or ±1/8 to ±255, whose squares, sums and quotients are normal numbers even of float16."""
    scattered = [(seed * factor >> 8) % 2**20 for factor in (2654435761, 2246822519, 3266489917)]  # evenly
    return [0.0 if n % 8 == 0 else (-1) ** n * (0.125 + n / (2**20 / 254.875)) for n in scattered]


moderate_floats = st.integers(0, 2**24 - 1).map(_moderate)
matrix_sizes = st.sampled_from(tuple(itertools.product(range(6), repeat=3)))  # rows, inner, columns
leading_sizes = st.sampled_from([shape for length in range(3) for shape in itertools.product(range(4), repeat=length)])
operand_shapes = st.sampled_from([shape for length in range(4) for shape in itertools.product(range(5), repeat=length)])
diagonals = st.integers(-7, 7)

# ---- floats ----
float32_patterns = st.integers(0, 2**32 - 1)
# digits/10^places is at most ±448, E4M3's largest value. With up to 12 places, rounding to float64 first never changes
# the nearest float32: a midpoint that is not hit is missed by more than half a float64 ulp, as 5¹² < 2²⁹.
decimal_digits = st.integers(-448 * 10**6, 448 * 10**6)
decimal_places = st.integers(6, 12)
fine_bits = st.integers(8, 20)  # 1 + 2^−n rounds to 1 in bfloat16, and ⅞ of it is a float32 value

# ---- flops ----
_some_learn = tuple(itertools.product((True, False), repeat=4))


def _linear(points: int, widths: list[int], learn: tuple[bool, ...], input_learns: bool) -> Layers:
    return Layers(points, widths, learn[: len(widths) - 1], input_learns)


_layer_widths = st.lists(st.integers(1, 5), min_size=2, max_size=5)
linear_layers = st.builds(_linear, small, _layer_widths, st.sampled_from(_some_learn), st.booleans())
learning_layers = st.builds(_linear, small, _layer_widths, st.just((True,) * 4), st.booleans())
transformers = st.builds(
    Sizes,
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    head_width=st.integers(1, 2),
    context=small,
    vocabulary=st.integers(1, 6),
    feedforward=st.integers(1, 6),
    batch=st.integers(1, 2),
)
operators = st.lists(st.sampled_from("+-×"), max_size=12)
one_operator = st.sampled_from("+-×")
either = st.booleans()

# ---- parameters ----
# fan_in over almost four orders of magnitude, fan_out the larger or the smaller one: 8,000 weights or so.
weight_shapes = st.sampled_from(((1000, 8), (8, 1000), (90, 91), (1, 8192), (8192, 1), (2, 4001), (2701, 3), (30, 270)))
weight_dtypes = st.sampled_from((torch.float32, torch.float64, torch.bfloat16, torch.float16))
fans_in = st.sampled_from((4, 10, 64, 300, 1024, 4096))
cuts = st.sampled_from((3.0, 2.0, 1, 0.5, 0.25, 4.5, 10.0))  # in standard deviations
row_sizes = st.tuples(st.integers(0, 9), st.integers(0, 9))
linear_sizes = st.tuples(sizes, sizes)
sampled_networks = st.sampled_from(((64, 2), (4096, 0), (31, 9)))  # dim and num_layers; the second is all head
rates = st.sampled_from((0.5, 0.25, 2.0, 0.125))

# ---- planning ----
_counts = st.one_of(st.integers(1, 10**6), st.sampled_from((7e9, 70 * 10**9, 15e12, 2**53 + 1, 3**40, 0.5)))
_rates = st.sampled_from((19.5e12, 312e12, 989.5e12, 10**15, 1.5, 2**60 + 1))
training_runs = st.tuples(
    _counts, _counts, _rates, st.integers(1, 2**16), st.integers(1, 2**10).map(lambda n: n / 2**10)
)
memories = st.one_of(  # Pairs of a memory and the bytes per parameter.
    st.tuples(st.integers(0, 10**4) | st.integers(2**53, 2**70), st.sampled_from((16, 12, 1, 2, 4, 18, 7, 2**55))),
    st.tuples(st.integers(0, 10**12).map(lambda tenths: tenths / 10), st.sampled_from((16, 7, 0.5, 4.5, 0.25))),
)

# ---- throughput ----
durations = st.integers(1, 10**12).map(lambda nanoseconds: nanoseconds / 10**9)  # seconds
flop_counts = st.integers(0, 2**80)
flop_rates = st.integers(1, 10**18).map(float)

# ---- memory ----
optimizers = st.sampled_from(("sgd", "momentum", "adagrad", "adam"))
points = st.sampled_from((1, 2, 7, 32, 64, 65, 130, 200))
dims = st.sampled_from((1, 5, 64, 64, 65, 80, 96))
few_layers = st.integers(0, 5)
measured_networks = st.lists(st.tuples(points, dims, few_layers), min_size=1, max_size=3)

# ---- optimizer ----
# What an optimizer is given besides its parameters; nothing stands for lr = 0.01 and ε = 1e-5.
steppers = st.sampled_from(("SGD", "AdaGrad"))
yes_or_no = st.booleans()
exponents = st.floats(-6, 6)
precise_dtypes = st.sampled_from((torch.float32, torch.float64))
parameter_shapes = st.sampled_from([((), (4, 5)), ((7,), (2, 1, 3)), ((0, 3), (3,)), ((1, 6), (5, 1)), ((2, 2, 2, 2),)])
adaptive_options = st.sampled_from(
    ({}, {}, {"lr": 0.3}, {"eps": 1e-3}, {"lr": 1, "eps": 1e-8}, {"lr": 0.1, "eps": 1.0}, {"lr": 0.001, "eps": 1e-5})
)

# ---- randomness ----
three_counts = st.tuples(*[st.integers(0, 3)] * 3)

# ---- training ----
rates_of_descent = st.sampled_from((0.0005, 0.0004, 0.0002))  # at which a step can be undone: bounds.descent.magnified
up_to_two = st.integers(0, 2)

# ---- data ----
token_dtypes = st.sampled_from(tuple(map(np.dtype, ("u2", "u1", "i1", "i2", "i4", "u4", ">u2", ">i4", "i8", "u8"))))
# Where between the least and the largest id of a dtype, in 64ths.
fractions = st.lists(st.integers(0, 64), min_size=1, max_size=40)
windows = st.tuples(st.integers(1, 12), st.integers(0, 8), st.integers(0, 9))  # length, further starts, batch size

# ---- precision ----
low_dtypes = st.sampled_from((torch.bfloat16, torch.float16))
# Points, inputs and outputs: the mean over powers of 2 of the squares of small integers is exact in every dtype.
exact_sizes = st.sampled_from(tuple(itertools.product((1, 2, 4), (1, 2, 3), (1, 2))))
layer_sizes = st.sampled_from(tuple(itertools.product((1, 2, 5), (1, 3, 4), (1, 2, 6), (1, 2))))
scales = st.sampled_from((None, 1.0, 16.0, 2.0**8))  # None stands for no scaler.
norm_ratios = st.sampled_from((None, 0.25, 0.5, 0.875, 1.125, 4.0))  # The ratio of max_norm to the norm.
