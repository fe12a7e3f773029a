"""§2.2.4 and §2.2.5: FLOPs, by three counts that share no code: formula, scalar operations, dispatched operators."""

import math
import operator
import re
from fractions import Fraction
from functools import partial
from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import example, given

from spec import claims
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import flops
from spec.instruments.flops import FlopCounter
from spec.instruments.scalars import count_operations
from spec.oracles import networks
from spec.oracles.networks import Experts, Layers, Sizes, Transformer

OPERATORS = {"+": operator.add, "-": operator.sub, "×": operator.mul}
TORCH_OPERATIONS = {  # and whether they work along whole rows
    "+": (lambda x: x + x, False),
    "×": (lambda x: x * 2, False),
    "relu": (lambda x: x.relu(), False),
    "sum": (lambda x: x.sum(-1), True),
    "mean": (lambda x: x.mean(-1), True),
    "softmax": (lambda x: x.softmax(-1), True),
}
WHOLE = (int, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
NO_SIZES = (-1, np.int64(-3), np.int8(-1), 2.5, np.float32(2.5), Fraction(5, 2), "8", None, [8])
OPTIONAL = {"first_layer_parameters", "feedforward", "batch"}  # of which None may mean the default
# Leading dimensions that broadcast, and vectors.
PRODUCTS = (
    ((3, 4), (4, 5), (3, 4, 5)),
    ((6, 3, 4), (4, 5), (18, 4, 5)),
    ((6, 3, 4), (6, 4, 5), (18, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5), (36, 4, 5)),
    ((3, 4), (7, 4, 5), (21, 4, 5)),
    ((4,), (4, 5), (1, 4, 5)),
    ((3, 4), (4,), (3, 4, 1)),
    ((6, 3, 4), (4,), (18, 4, 1)),
    ((4,), (6, 4, 5), (6, 4, 5)),
    ((4,), (4,), (1, 4, 1)),
    ((0, 4), (4, 5), (0, 4, 5)),
)
LARGER = (  # deeper, wider and longer than those that are drawn
    Sizes(layers=9, heads=2, head_width=3, context=5, vocabulary=7, feedforward=24, batch=3),
    Sizes(layers=1, heads=5, head_width=8, context=6, vocabulary=70, feedforward=50, batch=2),
    Sizes(layers=2, heads=1, head_width=6, context=48, vocabulary=3, feedforward=1, batch=1),
)
EQUAL = (Sizes(1, 1, 1, 1, 1, 1, 1), Sizes(2, 2, 1, 2, 2, 2, 2), Sizes(3, 3, 1, 3, 3, 12, 3))  # as far as they can be


def counting(evidence, run):
    """Count the FLOPs that torch dispatches while `run` runs; none of its operators may lack a count."""
    with FlopCounter() as counter:
        run()
    evidence.equal(dict(counter.uncounted), {}, unit="as the operators not counted")
    return counter


def dispatched(evidence, run):
    """Return the FLOPs of the products that torch dispatches while `run` runs."""
    return counting(evidence, run).matmul


def forward_and_backward(evidence, layers):
    """Return the FLOPs that torch dispatches in a forward pass, and in the backward pass of the outputs' sum."""
    x, weights = layers.in_torch()
    outputs = []
    forward = dispatched(evidence, lambda: outputs.append(networks.chain(x, *weights)))
    backward = dispatched(evidence, outputs[0].sum().backward) if outputs[0].requires_grad else 0
    return forward, backward


def multiplied(operations):
    """Return the FLOPs of products: an addition for each multiplication."""
    return 2 * operations.multiplications


def unequal(kind, count):
    """Return different sizes of a type of integer, the largest it holds first."""
    largest = 10**25 if kind is int else int(np.iinfo(kind).max)
    return [kind(largest // divisor) for divisor in range(1, count + 1)]


def is_exactly(evidence, count, predicted, **inputs):
    """Require a count of FLOPs, and that it is an integer of Python's."""
    evidence.equal(count, predicted, unit="FLOPs", **inputs)
    evidence.equal("int" if isinstance(count, int) else type(count).__name__, "int", unit="as the type", **inputs)


def refuses(evidence, formula, *names, **sizes):
    """Require that no size of a formula may be negative, fractional or no number."""
    sizes = dict.fromkeys(names, 8) | sizes
    for name in sizes:
        for size in NO_SIZES:
            if size is None and name in OPTIONAL:
                continue
            evidence.raises((ValueError, TypeError), partial(formula, **sizes | {name: size}), **{name: size})
    for first, second in permutations(names, 2):
        for size in (0, -1):  # whose product with −1 is not negative
            pair = {first: size, second: -1}
            evidence.raises((ValueError, TypeError), partial(formula, **sizes | pair), **pair)


@verifies(flops.DEFINITION)
@given(operators=st.operators)
def test_every_addition_and_multiplication_is_one_flop(evidence, operators):
    """An expression of n operators takes n FLOPs, whatever follows on what."""

    def expression(x):
        for each in operators:
            x = OPERATORS[each](x, 1)
        return x

    evidence.equal(count_operations(expression, [2]).total, len(operators), unit="FLOPs")


@verifies(flops.DEFINITION)
def test_flops_are_work_at_any_speed(evidence, device):
    """A product takes the same FLOPs in a fast dtype and a slow one, and twice as many when it is computed twice."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.ones(6, 6, dtype=dtype, device=device)
        evidence.equal(dispatched(evidence, lambda x=x: x @ x), 2 * 6**3, unit="FLOPs", dtype=dtype)
        evidence.equal(dispatched(evidence, lambda x=x: x @ x @ x), 4 * 6**3, unit="FLOPs", products=2)


@verifies(flops.DEFINITION)
def test_work_and_speed_have_names_of_their_own(evidence):
    """What the claims say of work is in FLOPs and of speed in FLOP/s: none writes FLOPS, which is taken for both."""
    for claim in (claim for chapter in claims.load() for claim in chapter.claims):
        names = re.findall(r"[\w/]*FLOP[\w/]*", f"{claim.says} {claim.law} {claim.condition}")
        mixed = [name for name in names if not re.fullmatch("[KMGTPE]?FLOP(s|/s)?", name)]
        evidence.equal(mixed, [], unit="as names of both", claim=claim.id)


@verifies(flops.MATMUL)
@given(points=st.sizes, inputs=st.sizes, outputs=st.sizes)
def test_a_product_multiplies_bdk_times(impl, evidence, points, inputs, outputs):
    """Counting every scalar operation gives B·D·K multiplications and B·K·(D − 1) additions."""
    x, w = np.ones((points, inputs), int), np.ones((inputs, outputs), int)
    counted = count_operations(np.matmul, x, w)
    evidence.equal(counted.multiplications, points * inputs * outputs, unit="multiplications")
    evidence.equal(counted.additions, points * outputs * (inputs - 1), unit="additions")
    evidence.equal(impl.flops.matmul(points, inputs, outputs), multiplied(counted), unit="FLOPs")


@refutes(flops.MATMUL)
def test_one_addition_fewer_than_multiplications(evidence):
    """Each of B·K sums of D terms takes D − 1 additions: 2·B·D·K counts B·K too many."""
    for points, inputs, outputs in ((2, 3, 4), (1, 1, 1), (5, 1, 2), (3, 8, 1)):
        counted = count_operations(np.matmul, np.ones((points, inputs), int), np.ones((inputs, outputs), int))
        literal = 2 * points * inputs * outputs
        sizes = {"points": points, "inputs": inputs, "outputs": outputs}
        evidence.differs(counted.total, literal, unit="FLOPs", **sizes)
        evidence.equal(literal - counted.total, points * outputs, unit="FLOPs too many", **sizes)


@verifies(flops.MATMUL)
@pytest.mark.parametrize(("left", "right", "sizes"), PRODUCTS, ids=str)
def test_leading_dimensions_multiply_and_vectors_are_rows_or_columns(impl, evidence, left, right, sizes):
    """Every product that torch computes for batches and vectors is as many FLOPs as that of matrices its size."""
    count = dispatched(evidence, lambda: torch.ones(left) @ torch.ones(right))
    evidence.equal(impl.flops.matmul(*sizes), count, unit="FLOPs")


@verifies(flops.MATMUL)
def test_the_notes_product(impl, evidence):
    """B = 16384, D = 32768 and K = 8192, whatever integers they are, make 8,796,093,022,208 FLOPs."""
    for kind in (int, np.int32, np.uint32, np.int64):
        sizes = {"points": kind(16384), "inputs": kind(32768), "outputs": kind(8192)}
        is_exactly(evidence, impl.flops.matmul(**sizes), 8_796_093_022_208, **sizes)


@verifies(flops.MATMUL)
def test_products_of_any_size(impl, evidence):
    """The largest integers of every type overflow nothing, and nothing takes no FLOPs."""
    for kind in WHOLE:
        points, inputs, outputs = unequal(kind, 3)
        for sizes in ((points, inputs, outputs), (points, kind(0), outputs), (points, points, points)):
            predicted = 2 * math.prod(map(int, sizes))
            is_exactly(evidence, impl.flops.matmul(*sizes), predicted, sizes=sizes)
    for sizes in product((1, 2, 3), repeat=3):  # Equal sizes occur here, and each order of unequal ones.
        is_exactly(evidence, impl.flops.matmul(*sizes), 2 * math.prod(sizes), sizes=sizes)


@verifies(flops.MATMUL)
def test_a_product_needs_sizes(impl, evidence):
    """A negative size, a fraction and what is no number are refused."""
    refuses(evidence, impl.flops.matmul, "points", "inputs", "outputs")


@verifies(flops.ELEMENTWISE_LINEAR)
@example(shape=(), name="+")
@example(shape=(0,), name="+")
@example(shape=(3, 3, 3), name="×")
@given(shape=st.operand_shapes, name=st.one_operator)
def test_an_elementwise_pass_takes_one_flop_per_element(impl, evidence, shape, name):
    """Adding, subtracting and multiplying tensors takes as many scalar operations as they have elements."""
    x = np.ones(shape, int)
    counted = count_operations(OPERATORS[name], x, x)
    is_exactly(evidence, impl.flops.elementwise(*shape), counted.total)


@verifies(flops.ELEMENTWISE_LINEAR)
def test_a_sum_takes_one_flop_per_element_less_one_per_result(impl, evidence):
    """Summing rows takes columns − 1 additions for each of them, which is linear too."""
    for rows, columns in ((1, 1), (3, 5), (4, 2), (7, 1)):
        counted = count_operations(partial(np.sum, axis=-1), np.ones((rows, columns), int))
        predicted = impl.flops.elementwise(rows, columns) - impl.flops.elementwise(rows)
        evidence.equal(counted.total, predicted, unit="FLOPs", rows=rows, columns=columns)


@verifies(flops.ELEMENTWISE_LINEAR)
def test_twice_the_rows_take_twice_the_flops(impl, evidence):
    """What torch dispatches for elementwise operations is one FLOP per element, and for those along rows linear too."""
    for name, (compute, along_rows) in TORCH_OPERATIONS.items():
        count, twice = (counting(evidence, partial(compute, torch.ones(rows, 4))).elementwise for rows in (3, 6))
        evidence.equal(twice, 2 * count, unit="FLOPs", operation=name)
        if not along_rows:
            evidence.equal(impl.flops.elementwise(3, 4), count, unit="FLOPs", operation=name)


@verifies(flops.ELEMENTWISE_LINEAR)
def test_tensors_of_any_size(impl, evidence):
    """The largest integers of every type overflow nothing, and many dimensions multiply."""
    for kind in WHOLE:
        sizes = unequal(kind, 5)
        predicted = 1
        for size in sizes:
            predicted *= int(size)
        is_exactly(evidence, impl.flops.elementwise(*sizes), predicted, shape=sizes)


@verifies(flops.ELEMENTWISE_LINEAR)
def test_a_shape_needs_sizes(impl, evidence):
    """A negative size, a fraction and what is no number are refused, wherever in the shape they are."""
    for size in NO_SIZES:
        for shape in ((size,), (3, size), (size, 3), (0, size)):
            evidence.raises((ValueError, TypeError), partial(impl.flops.elementwise, *shape), shape=shape)
    evidence.raises((ValueError, TypeError), partial(impl.flops.elementwise, -2, -3), shape="(-2, -3)")


def product_and_passes(x, passes):
    """Multiply two matrices, then pass over the result."""
    y = x @ x
    for _ in range(passes):
        y = y + x
    return y


@verifies(flops.MATMUL_DOMINATES)
def test_the_share_of_a_product_grows_with_its_size(impl, evidence):
    """Beside c elementwise passes, a product of n × n matrices takes 2n/(2n + c) of the FLOPs."""
    for n, passes in ((1, 1), (2, 5), (3, 1), (5, 2), (8, 4), (10**9, 12)):
        product, each = impl.flops.matmul(n, n, n), impl.flops.elementwise(n, n)
        share = 2 * n / (2 * n + passes)
        evidence.equal(product / (product + passes * each), share, unit="of the FLOPs", n=n, passes=passes)
        if n < 10:
            counted = counting(evidence, partial(product_and_passes, torch.ones(n, n), passes))
            evidence.equal(counted.matmul / counted.total, share, unit="of the FLOPs dispatched", n=n, passes=passes)
            product, each = (count_operations(run, *[np.ones((n, n), int)] * 2) for run in (np.matmul, np.add))
            measured = multiplied(product) / (multiplied(product) + passes * each.total)
            evidence.equal(measured, share, unit="of the FLOPs counted", n=n, passes=passes)


@refutes(flops.MATMUL_DOMINATES)
def test_a_small_product_is_not_the_most_expensive(evidence):
    """Eight elementwise passes over 2 × 2 values take more FLOPs than the product."""
    product, each = (count_operations(run, *[np.ones((2, 2), int)] * 2) for run in (np.matmul, np.add))
    most = "the product" if product.total >= 8 * each.total else "elementwise work"
    evidence.differs(most, "the product", unit="as the most expensive")


@verifies(flops.FORWARD)
@given(layers=st.linear_layers)
def test_linear_layers_take_two_flops_per_point_and_parameter(impl, evidence, layers):
    """Three counts agree: the formula, scalar operations by hand, and what torch dispatches."""
    predicted = multiplied(networks.count_linear_forward(layers))
    evidence.equal(forward_and_backward(evidence, layers)[0], predicted, unit="FLOPs dispatched")
    is_exactly(evidence, impl.flops.forward(layers.points, sum(layers.parameters)), predicted)


def law(sizes, impl, **options):
    """Return impl's count of a Transformer's forward pass."""
    arguments = sizes._asdict() | {"width": sizes.width}
    del arguments["head_width"]
    return impl.flops.transformer_forward(**arguments, **options)


@verifies(flops.FORWARD)
@given(sizes=st.transformers, tied=st.either, causal=st.either)
def test_the_products_of_a_transformer(impl, evidence, sizes, tied, causal):
    """Three counts agree, tied or not, with all of attention or only what is causal: a relative error of 0."""
    predicted = dispatched(evidence, partial(Transformer(sizes, tied=tied).logits, causal=causal))
    evidence.equal(multiplied(networks.count_transformer(sizes, causal=causal)), predicted, unit="FLOPs by hand")
    is_exactly(evidence, law(sizes, impl, causal=causal), predicted)


@verifies(flops.FORWARD)
@pytest.mark.parametrize("sizes", LARGER + EQUAL, ids=str)
def test_the_products_of_larger_transformers_and_of_equal_sizes(impl, evidence, sizes):
    """Larger sizes change nothing, nor do equal ones; tying changes the parameters, not the products."""
    free, tied = Transformer(sizes), Transformer(sizes, tied=True)
    predicted = dispatched(evidence, free.logits)
    evidence.equal(law(sizes, impl), predicted, unit="FLOPs")
    evidence.equal(dispatched(evidence, tied.logits), predicted, unit="FLOPs tied")
    evidence.equal(free.parameters - tied.parameters, sizes.vocabulary * sizes.width, unit="parameters shared")


@verifies(flops.FORWARD)
def test_attention_is_what_two_per_token_and_parameter_leave_out(impl, evidence):
    """Of the layers' FLOPs, 2·tokens·parameters lacks context/(6·width + context): half of them at 6·width."""
    for heads, head_width, context in ((2, 4, 1), (2, 4, 8), (1, 4, 24), (3, 2, 64)):
        width = heads * head_width
        sizes = Sizes(2, heads, head_width, context, vocabulary=1, feedforward=4 * width, batch=2)
        count = dispatched(evidence, Transformer(sizes).hidden)
        literal = 2 * sizes.batch * context * (sizes.layers * 12 * width**2)
        share = context / (6 * width + context)
        evidence.equal((count - literal) / count, share, unit="of the FLOPs", width=width, context=context)
        bare = impl.flops.transformer_forward(
            layers=2, width=width, heads=heads, context=context, vocabulary=0, batch=2
        )
        evidence.equal(bare, count, unit="FLOPs", width=width, context=context)


@refutes(flops.FORWARD)
def test_parameters_and_tokens_alone_do_not_tell(evidence):
    """A long context takes more than 2 FLOPs per token and parameter, a large embedding or many experts take fewer."""
    long, wordy = Sizes(1, 1, 4, 24, 1, 16, 1), Sizes(1, 1, 4, 2, 500, 16, 1)
    for sizes in (long, wordy):
        model = Transformer(sizes)
        literal = 2 * sizes.batch * sizes.context * model.parameters
        evidence.differs(dispatched(evidence, model.logits), literal, unit="FLOPs", sizes=sizes)
    experts = Experts(tokens=6, width=4, feedforward=5, experts=8, chosen=2)
    evidence.differs(dispatched(evidence, experts.outputs), 2 * 6 * experts.parameters, unit="FLOPs", experts=8)


@verifies(flops.FORWARD)
@pytest.mark.parametrize(("experts", "chosen"), [(1, 1), (4, 1), (8, 2), (5, 5)])
def test_only_active_experts_take_flops(impl, evidence, experts, chosen):
    """Of a mixture of experts, the parameters that count are the router's and those of the experts chosen."""
    model = Experts(tokens=6, width=4, feedforward=5, experts=experts, chosen=chosen)
    count = dispatched(evidence, model.outputs)
    evidence.equal(count, 2 * 6 * model.active_parameters(), unit="FLOPs dispatched")
    evidence.equal(impl.flops.forward(6, model.active_parameters()), count, unit="FLOPs")


@verifies(flops.FORWARD)
def test_forward_passes_of_any_size(impl, evidence):
    """The largest integers of every type overflow nothing; by default, the feedforward network is 4·width wide."""
    for kind in WHOLE:
        layers, width, context, vocabulary, batch = unequal(kind, 5)
        for points in (layers, kind(0), width):
            sizes = {"points": points, "parameters": width}
            is_exactly(evidence, impl.flops.forward(**sizes), 2 * int(points) * int(width), **sizes)
        count = partial(impl.flops.transformer_forward, layers=layers, heads=kind(1), context=context)
        count = partial(count, width=width, vocabulary=vocabulary)
        layers, width, context, vocabulary = map(int, (layers, width, context, vocabulary))
        for causal, reach in ((False, 2 * context), (True, context + 1)):
            matrices = 2 * context * (12 * layers * width**2 + width * vocabulary)
            attention = 2 * layers * context * reach * width
            one = matrices + attention
            sizes = count.keywords | {"causal": causal}
            is_exactly(evidence, count(causal=causal), one, **sizes)
            whole = count(causal=causal, batch=batch, feedforward=None)
            is_exactly(evidence, whole, one * int(batch), **sizes, batch=batch)
            for feedforward in (batch, kind(0)):
                wider = 4 * layers * context * width * (int(feedforward) - 4 * width)
                is_exactly(evidence, count(causal=causal, feedforward=feedforward), one + wider, causal=causal)
            head = 2 * context * width * vocabulary
            without = {"batch": 0, "context": 0, "width": 0, "layers": head, "vocabulary": one - head}
            for name, left in without.items():
                is_exactly(evidence, count(causal=causal, **{name: kind(0)}), left, causal=causal, none=name)


@verifies(flops.FORWARD)
def test_a_forward_pass_needs_sizes(impl, evidence):
    """A negative size, a fraction and what is no number are refused, and heads that do not divide the width."""
    sizes = {"layers": 2, "width": 8, "heads": 2, "context": 4, "vocabulary": 10, "feedforward": 16, "batch": 3}
    refuses(evidence, impl.flops.forward, "points", "parameters")
    refuses(evidence, impl.flops.transformer_forward, **sizes)
    for heads, error in ((3, ValueError), (0, (ValueError, ZeroDivisionError))):
        uneven = partial(impl.flops.transformer_forward, **sizes | {"heads": heads})
        evidence.raises(error, uneven, heads=heads, width=8)


@verifies(flops.BACKWARD)
@example(layers=Layers(2, [2, 2, 2], (True, True)))
@example(layers=Layers(3, [3, 3], (True,)))
@given(layers=st.linear_layers)
def test_a_backward_pass_saves_the_first_gradient_and_those_of_frozen_layers(impl, evidence, layers):
    """Three counts agree, whichever layers learn: those before the first that learns are not even reached."""
    predicted = multiplied(networks.count_linear_backward(layers))
    evidence.equal(forward_and_backward(evidence, layers)[1], predicted, unit="FLOPs dispatched")
    if layers.input_learns or any(layers.learn):
        first = 0 if layers.input_learns else layers.learn.index(True)
        reached, learn = layers.parameters[first:], layers.learn[first:]
        frozen = sum(count for count, learns in zip(reached, learn, strict=True) if not learns)
        whole = impl.flops.backward(layers.points, sum(reached), 0 if layers.input_learns else reached[0])
        is_exactly(evidence, whole - 2 * layers.points * frozen, predicted)


@refutes(flops.BACKWARD)
def test_two_layers_take_less_than_four_per_point_and_parameter(evidence):
    """B = 8 points through 16 × 16 and 16 × 4 parameters: 6144 FLOPs and not 10240; 10240 when x needs a gradient."""
    layers = Layers(8, (16, 16, 4), (True, True))
    count = forward_and_backward(evidence, layers)[1]
    evidence.differs(count, 4 * 8 * sum(layers.parameters), unit="FLOPs")
    evidence.equal(count, 6144, unit="FLOPs")
    evidence.equal(forward_and_backward(evidence, layers._replace(input_learns=True))[1], 10240, unit="FLOPs")


@refutes(flops.BACKWARD)
def test_frozen_layers_take_less(evidence):
    """With all layers but the last frozen, only the last one's weights need a product."""
    layers = Layers(8, (16, 16, 4), (False, True))
    evidence.differs(forward_and_backward(evidence, layers)[1], 4 * 8 * sum(layers.parameters), unit="FLOPs")
    evidence.equal(forward_and_backward(evidence, layers)[1], 2 * 8 * 16 * 4, unit="FLOPs of the last layer")


@verifies(flops.BACKWARD)
def test_backward_passes_of_any_size(impl, evidence):
    """The largest integers of every type overflow nothing; nothing is saved unless it is said what."""
    for kind in WHOLE:
        parameters, points, first = unequal(kind, 3)
        four, two = 4 * int(points) * int(parameters), 2 * int(points) * int(first)
        sizes = {"points": points, "parameters": parameters}
        is_exactly(evidence, impl.flops.backward(points, parameters), four, **sizes)
        first_is = {"first_layer_parameters": first}
        is_exactly(evidence, impl.flops.backward(points, parameters, first), four - two, **sizes, **first_is)
        arguments = sizes | {"first_layer_parameters": parameters}
        is_exactly(evidence, impl.flops.backward(**arguments), four // 2, **arguments)
        none = {"points": kind(0), "parameters": parameters, "first_layer_parameters": first}
        is_exactly(evidence, impl.flops.backward(kind(0), parameters, first), 0, **none)


@verifies(flops.BACKWARD)
def test_a_backward_pass_needs_sizes(impl, evidence):
    """A negative count, a fraction and what is no number are refused."""
    refuses(evidence, impl.flops.backward, "points", "parameters", "first_layer_parameters")


@verifies(flops.TRAINING)
@example(layers=Layers(2, [2, 2, 2], (True, True)))
@example(layers=Layers(3, [3, 3], (True,)))
@given(layers=st.learning_layers)
def test_training_takes_the_sum_of_both_passes(impl, evidence, layers):
    """Three counts agree on a forward and a backward pass through layers that all learn."""
    operations = networks.count_linear_forward(layers), networks.count_linear_backward(layers)
    predicted = sum(map(multiplied, operations))
    evidence.equal(sum(forward_and_backward(evidence, layers)), predicted, unit="FLOPs dispatched")
    first = 0 if layers.input_learns else layers.parameters[0]
    is_exactly(evidence, impl.flops.training(layers.points, sum(layers.parameters), first), predicted)


@verifies(flops.TRAINING)
def test_the_shortfall_of_equal_layers(impl, evidence):
    """L equal layers take 1/(3L) less than 6 FLOPs per point and parameter, which leaves 0.958 of it at L = 8."""
    for depth in range(1, 9):
        layers = Layers(8, [16] * (depth + 1), [True] * depth)
        literal = 6 * 8 * sum(layers.parameters)
        shortfalls = {
            "dispatched": literal - sum(forward_and_backward(evidence, layers)),
            "of the formula": literal - impl.flops.training(8, depth * 256, 256),
        }
        for count, shortfall in shortfalls.items():
            evidence.equal(shortfall / literal, 1 / (3 * depth), unit="of 6·B·P missing", count=count, layers=depth)


@refutes(flops.TRAINING)
def test_six_per_point_and_parameter_is_too_much(evidence):
    """Two layers of unequal size take 274,432 FLOPs, 0.677 of the 405,504 that the notes' formula gives."""
    layers = Layers(64, (32, 32, 1), (True, True))
    count = sum(forward_and_backward(evidence, layers))
    evidence.differs(count, 6 * 64 * sum(layers.parameters), unit="FLOPs")
    evidence.equal(count, 274_432, unit="FLOPs")


@verifies(flops.TRAINING)
def test_a_transformer_trains_at_three_times_its_forward_pass(evidence):
    """Its first layer's input is the embedding, which learns: every product has both its gradients."""
    for sizes in LARGER:
        for tied in (False, True):
            model = Transformer(sizes, tied=tied, learns=True)
            forward = dispatched(evidence, model.logits)
            step = dispatched(evidence, lambda model=model: model.logits().sum().backward())
            evidence.equal(step, 3 * forward, unit="FLOPs", sizes=sizes, tied=tied)


@verifies(flops.TRAINING)
def test_training_of_any_size(impl, evidence):
    """The largest integers of every type overflow nothing; nothing is saved unless it is said what."""
    for kind in WHOLE:
        parameters, points, first = unequal(kind, 3)
        six, two = 6 * int(points) * int(parameters), 2 * int(points) * int(first)
        sizes, saved = {"points": points, "parameters": parameters}, {"first_layer_parameters": first}
        is_exactly(evidence, impl.flops.training(points, parameters), six, **sizes)
        is_exactly(evidence, impl.flops.training(points, parameters, **saved), six - two, **sizes, **saved)
        is_exactly(evidence, impl.flops.training(points, kind(0)), 0, points=points, parameters=kind(0))


@verifies(flops.TRAINING)
def test_training_needs_sizes(impl, evidence):
    """A negative count, a fraction and what is no number are refused."""
    refuses(evidence, impl.flops.training, "points", "parameters", "first_layer_parameters")
