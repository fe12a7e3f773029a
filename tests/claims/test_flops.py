"""§2.2.4 and §2.2.5: FLOPs, by three counts that share no code.

The formula is the implementation's. The count by hand runs the computation in NumPy on numbers that count every
addition and multiplication. torch's count adds up the products that torch dispatches to its kernels while it computes.
"""

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
# Each operation, and whether it combines the values of a row.
TORCH_OPERATIONS = {
    "+": (lambda x: x + x, False),
    "×": (lambda x: x * 2, False),
    "relu": (lambda x: x.relu(), False),
    "sum": (lambda x: x.sum(-1), True),
    "mean": (lambda x: x.mean(-1), True),
    "softmax": (lambda x: x.softmax(-1), True),
}
INTEGERS = (int, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
INVALID_SIZES = (-1, np.int64(-3), np.int8(-1), 2.5, np.float32(2.5), Fraction(5, 2), "8", None, [8])
# An implementation may give these arguments a default of None.
OPTIONAL = {"first_layer_parameters", "feedforward", "batch"}
# The shapes of two operands, with leading dimensions that broadcast or with vectors, and the sizes of the product.
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
# These Transformers are deeper, wider and longer than those that hypothesis draws.
LARGER = (
    Sizes(layers=9, heads=2, head_width=3, context=5, vocabulary=7, feedforward=24, batch=3),
    Sizes(layers=1, heads=5, head_width=8, context=6, vocabulary=70, feedforward=50, batch=2),
    Sizes(layers=2, heads=1, head_width=6, context=48, vocabulary=3, feedforward=1, batch=1),
)
# A formula that confuses two sizes may be right until they are equal: as many sizes as possible are equal here.
EQUAL = (Sizes(1, 1, 1, 1, 1, 1, 1), Sizes(2, 2, 1, 2, 2, 2, 2), Sizes(3, 3, 1, 3, 3, 12, 3))


def counting(evidence, run):
    """Return a counter of the FLOPs that torch dispatches while `run` runs; it has to know every operator."""
    with FlopCounter() as counter:
        run()
    evidence.equal(dict(counter.uncounted), {}, what="the operators without a count")
    return counter


def dispatched(evidence, run):
    """Return torch's count: the FLOPs of the products that torch dispatches while `run` runs."""
    return counting(evidence, run).matmul


def forward_and_backward(evidence, layers):
    """Return torch's count of a forward pass through the layers, and of the backward pass from the outputs' sum."""
    x, weights = layers.in_torch()
    outputs = []
    forward = dispatched(evidence, lambda: outputs.append(networks.chain(x, *weights)))
    backward = dispatched(evidence, outputs[0].sum().backward) if outputs[0].requires_grad else 0
    return forward, backward


def by_convention(operations):
    """Return the FLOPs of products by convention: 2 per multiplication, as if each sum began with an addition to 0."""
    return 2 * operations.multiplications


def large_sizes(kind, count):
    """Return `count` different sizes of a type of integer: its largest value, a half of that, a third, and so on."""
    largest = 10**25 if kind is int else int(np.iinfo(kind).max)
    return [kind(largest // divisor) for divisor in range(1, count + 1)]


def check_formula(evidence, count, predicted, **inputs):
    """Check that the formula gives this count, as a Python integer, which never overflows."""
    evidence.equal(count, predicted, what="the formula", unit="FLOPs", **inputs)
    evidence.true(isinstance(count, int), "the count is a Python integer", type=type(count).__name__, **inputs)


def check_refusals(evidence, formula, *names, **sizes):
    """Check that a formula raises for each of its sizes that is negative, fractional or no number.

    A second size of 0 or −1 is tried beside the negative one: the product of the two is not negative.
    """
    sizes = dict.fromkeys(names, 8) | sizes
    for name in sizes:
        for size in INVALID_SIZES:
            if size is None and name in OPTIONAL:
                continue
            evidence.raises((ValueError, TypeError), partial(formula, **sizes | {name: size}), **{name: size})
    for first, second in permutations(names, 2):
        for size in (0, -1):
            pair = {first: size, second: -1}
            evidence.raises((ValueError, TypeError), partial(formula, **sizes | pair), **pair)


@verifies(flops.DEFINITION)
@given(operators=st.operators)
def test_every_addition_and_multiplication_is_one_flop(evidence, operators):
    """An expression of n additions, subtractions and multiplications takes n FLOPs, in any order."""

    def expression(x):
        for each in operators:
            x = OPERATORS[each](x, 1)
        return x

    evidence.equal(count_operations(expression, [2]).total, len(operators), what="the count by hand", unit="FLOPs")


@verifies(flops.DEFINITION)
def test_flops_are_work_at_any_speed(evidence, device):
    """A product takes the same FLOPs in a fast dtype as in a slow one, and two products take twice as many."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.ones(6, 6, dtype=dtype, device=device)
        for products, run in ((1, lambda x=x: x @ x), (2, lambda x=x: x @ x @ x)):
            count = dispatched(evidence, run)
            predicted = products * 2 * 6**3
            evidence.equal(count, predicted, what="torch's count", unit="FLOPs", dtype=dtype, products=products)


@verifies(flops.DEFINITION)
def test_work_and_speed_have_names_of_their_own(evidence):
    """Every claim writes FLOPs for work and FLOP/s for speed, and none writes FLOPS, which could mean either."""
    for claim in (claim for chapter in claims.load() for claim in chapter.claims):
        names = re.findall(r"[\w/]*FLOP[\w/]*", f"{claim.says} {claim.law} {claim.condition}")
        mixed = [name for name in names if not re.fullmatch("[KMGTPE]?FLOP(s|/s)?", name)]
        evidence.equal(mixed, [], what="the names that could mean work or speed", claim=claim.id)


@verifies(flops.MATMUL)
@given(points=st.sizes, inputs=st.sizes, outputs=st.sizes)
def test_a_product_multiplies_bdk_times(impl, evidence, points, inputs, outputs):
    """A product takes B·D·K multiplications and B·K·(D − 1) additions by hand, and the formula gives 2·B·D·K."""
    x, w = np.ones((points, inputs), int), np.ones((inputs, outputs), int)
    counted = count_operations(np.matmul, x, w)
    evidence.equal(counted.multiplications, points * inputs * outputs, unit="multiplications")
    evidence.equal(counted.additions, points * outputs * (inputs - 1), unit="additions")
    check_formula(evidence, impl.flops.matmul(points, inputs, outputs), 2 * points * inputs * outputs)


@refutes(flops.MATMUL)
def test_one_addition_fewer_than_multiplications(evidence):
    """Each of the B·K sums of D terms takes D − 1 additions, so that 2·B·D·K counts B·K FLOPs too many."""
    for points, inputs, outputs in ((2, 3, 4), (1, 1, 1), (5, 1, 2), (3, 8, 1)):
        counted = count_operations(np.matmul, np.ones((points, inputs), int), np.ones((inputs, outputs), int))
        literal = 2 * points * inputs * outputs
        sizes = {"points": points, "inputs": inputs, "outputs": outputs}
        evidence.differs(counted.total, literal, unit="FLOPs", **sizes)
        evidence.equal(literal - counted.total, points * outputs, what="the difference", unit="FLOPs", **sizes)


@verifies(flops.MATMUL)
@pytest.mark.parametrize(("left", "right", "sizes"), PRODUCTS, ids=str)
def test_leading_dimensions_multiply_and_vectors_are_rows_or_columns(impl, evidence, left, right, sizes):
    """torch counts as many FLOPs for a product with leading dimensions or vectors as the formula for its sizes."""
    count = dispatched(evidence, lambda: torch.ones(left) @ torch.ones(right))
    evidence.equal(impl.flops.matmul(*sizes), count, what="the formula", unit="FLOPs")


@verifies(flops.MATMUL)
def test_the_notes_product(impl, evidence):
    """B = 16384, D = 32768 and K = 8192 make 8,796,093,022,208 FLOPs, as Python's or as NumPy's integers."""
    for kind in (int, np.int32, np.uint32, np.int64):
        sizes = {"points": kind(16384), "inputs": kind(32768), "outputs": kind(8192)}
        check_formula(evidence, impl.flops.matmul(**sizes), 8_796_093_022_208, **sizes)


@verifies(flops.MATMUL)
def test_products_of_any_size(impl, evidence):
    """2·B·D·K is exact for the largest integers of every type, for a size of 0, and for equal sizes in any order."""
    for kind in INTEGERS:
        points, inputs, outputs = large_sizes(kind, 3)
        for sizes in ((points, inputs, outputs), (points, kind(0), outputs), (points, points, points)):
            predicted = 2 * math.prod(map(int, sizes))
            check_formula(evidence, impl.flops.matmul(*sizes), predicted, sizes=sizes)
    for sizes in product((1, 2, 3), repeat=3):
        check_formula(evidence, impl.flops.matmul(*sizes), 2 * math.prod(sizes), sizes=sizes)


@verifies(flops.MATMUL)
def test_a_product_needs_sizes(impl, evidence):
    """The formula of a product refuses a negative size, a fraction and anything that is no number."""
    check_refusals(evidence, impl.flops.matmul, "points", "inputs", "outputs")


@verifies(flops.ELEMENTWISE_LINEAR)
@example(shape=(), name="+")
@example(shape=(0,), name="+")
@example(shape=(3, 3, 3), name="×")
@given(shape=st.operand_shapes, name=st.one_operator)
def test_an_elementwise_pass_takes_one_flop_per_element(impl, evidence, shape, name):
    """Adding, subtracting or multiplying two tensors of one shape takes one scalar operation for each element."""
    x = np.ones(shape, int)
    counted = count_operations(OPERATORS[name], x, x)
    check_formula(evidence, impl.flops.elementwise(*shape), counted.total)


@verifies(flops.ELEMENTWISE_LINEAR)
def test_a_sum_takes_one_flop_per_element_less_one_per_result(impl, evidence):
    """The sums of a matrix's rows take one addition for each element, less one for each row."""
    for rows, columns in ((1, 1), (3, 5), (4, 2), (7, 1)):
        counted = count_operations(partial(np.sum, axis=-1), np.ones((rows, columns), int))
        predicted = impl.flops.elementwise(rows, columns) - impl.flops.elementwise(rows)
        evidence.equal(counted.total, predicted, what="the count by hand", unit="FLOPs", rows=rows, columns=columns)


@verifies(flops.ELEMENTWISE_LINEAR)
def test_twice_the_rows_take_twice_the_flops(impl, evidence):
    """By torch's count elementwise work takes one FLOP per element, and sum, mean and softmax double with the rows."""
    for name, (compute, along_rows) in TORCH_OPERATIONS.items():
        count, twice = (counting(evidence, partial(compute, torch.ones(rows, 4))).elementwise for rows in (3, 6))
        evidence.equal(twice, 2 * count, what="torch's count of twice the rows", unit="FLOPs", operation=name)
        if not along_rows:
            evidence.equal(impl.flops.elementwise(3, 4), count, what="the formula", unit="FLOPs", operation=name)


@verifies(flops.ELEMENTWISE_LINEAR)
def test_tensors_of_any_size(impl, evidence):
    """The product of five sizes is exact, even for the largest integers of every type."""
    for kind in INTEGERS:
        sizes = large_sizes(kind, 5)
        predicted = 1
        for size in sizes:
            predicted *= int(size)
        check_formula(evidence, impl.flops.elementwise(*sizes), predicted, shape=sizes)


@verifies(flops.ELEMENTWISE_LINEAR)
def test_a_shape_needs_sizes(impl, evidence):
    """The elementwise formula refuses a negative size, a fraction and what is no number, at any index of the shape."""
    for size in INVALID_SIZES:
        for shape in ((size,), (3, size), (size, 3), (0, size)):
            evidence.raises((ValueError, TypeError), partial(impl.flops.elementwise, *shape), shape=shape)
    evidence.raises((ValueError, TypeError), partial(impl.flops.elementwise, -2, -3), shape="(-2, -3)")


def product_and_passes(x, passes):
    """Multiply two matrices, then add to the result so many times."""
    y = x @ x
    for _ in range(passes):
        y = y + x
    return y


@verifies(flops.MATMUL_DOMINATES)
def test_the_share_of_a_product_grows_with_its_size(impl, evidence):
    """Beside c elementwise passes, a product of n × n matrices takes 2n/(2n + c) of the FLOPs by all three counts."""
    for n, passes in ((1, 1), (2, 5), (3, 1), (5, 2), (8, 4), (10**9, 12)):
        sizes = {"n": n, "passes": passes}
        share = 2 * n / (2 * n + passes)
        product, each = impl.flops.matmul(n, n, n), impl.flops.elementwise(n, n)
        evidence.equal(product / (product + passes * each), share, what="the product's share by the formula", **sizes)
        if n < 10:
            counted = counting(evidence, partial(product_and_passes, torch.ones(n, n), passes))
            by_torch = counted.matmul / counted.total
            evidence.equal(by_torch, share, what="the product's share by torch's count", **sizes)
            product, each = (count_operations(run, *[np.ones((n, n), int)] * 2) for run in (np.matmul, np.add))
            by_hand = by_convention(product) / (by_convention(product) + passes * each.total)
            evidence.equal(by_hand, share, what="the product's share by hand", **sizes)


@refutes(flops.MATMUL_DOMINATES)
def test_a_small_product_is_not_the_most_expensive(evidence):
    """Eight elementwise passes over 2 × 2 values take more FLOPs than the product of two such matrices."""
    product, each = (count_operations(run, *[np.ones((2, 2), int)] * 2) for run in (np.matmul, np.add))
    most = "the product" if product.total >= 8 * each.total else "elementwise work"
    evidence.differs(most, "the product", what="the most expensive work")


@verifies(flops.FORWARD)
@given(layers=st.linear_layers)
def test_linear_layers_take_two_flops_per_point_and_parameter(impl, evidence, layers):
    """A forward pass through linear layers takes 2·points·parameters FLOPs by all three counts."""
    points, parameters = layers.points, sum(layers.parameters)
    predicted = 2 * points * parameters
    by_hand, by_torch = networks.count_linear_forward(layers), forward_and_backward(evidence, layers)[0]
    evidence.equal(by_convention(by_hand), predicted, what="the count by hand", unit="FLOPs")
    evidence.equal(by_torch, predicted, what="torch's count", unit="FLOPs")
    check_formula(evidence, impl.flops.forward(points, parameters), predicted)


def transformer_formula(impl, sizes, **options):
    """Return what the formula gives for a Transformer's forward pass."""
    arguments = sizes._asdict() | {"width": sizes.width}
    del arguments["head_width"]
    return impl.flops.transformer_forward(**arguments, **options)


@verifies(flops.FORWARD)
@given(sizes=st.transformers, tied=st.either, causal=st.either)
def test_the_products_of_a_transformer(impl, evidence, sizes, tied, causal):
    """A Transformer's products take 2·tokens·parameters FLOPs and attention's own, by all three counts."""
    model = Transformer(sizes, tied=tied)
    tokens, reach = sizes.batch * sizes.context, (sizes.context + 1) / 2 if causal else sizes.context
    attention = 4 * sizes.layers * tokens * reach * sizes.width
    predicted = 2 * tokens * model.multiplied + int(attention)
    by_hand = by_convention(networks.count_transformer(sizes, causal=causal))
    by_torch = dispatched(evidence, partial(model.logits, causal=causal))
    evidence.equal(by_hand, predicted, what="the count by hand", unit="FLOPs")
    evidence.equal(by_torch, predicted, what="torch's count", unit="FLOPs")
    check_formula(evidence, transformer_formula(impl, sizes, causal=causal), predicted)


@verifies(flops.FORWARD)
@pytest.mark.parametrize("sizes", LARGER + EQUAL, ids=str)
def test_the_products_of_larger_transformers_and_of_equal_sizes(impl, evidence, sizes):
    """The formula agrees with torch for large and for equal sizes, and a tied head changes no product."""
    free, tied = Transformer(sizes), Transformer(sizes, tied=True)
    predicted = dispatched(evidence, free.logits)
    evidence.equal(transformer_formula(impl, sizes), predicted, what="the formula", unit="FLOPs")
    evidence.equal(dispatched(evidence, tied.logits), predicted, what="torch's count with a tied head", unit="FLOPs")
    fewer = free.parameters - tied.parameters
    evidence.equal(fewer, sizes.vocabulary * sizes.width, what="the parameters saved by a tied head", unit="parameters")


@verifies(flops.FORWARD)
def test_attention_is_what_two_per_token_and_parameter_leave_out(impl, evidence):
    """Attention, which 2·tokens·parameters leaves out, takes context/(6·width + context) of the layers' FLOPs."""
    for heads, head_width, context in ((2, 4, 1), (2, 4, 8), (1, 4, 24), (3, 2, 64)):
        width = heads * head_width
        sizes = Sizes(2, heads, head_width, context, vocabulary=1, feedforward=4 * width, batch=2)
        count = dispatched(evidence, Transformer(sizes).hidden)
        literal = 2 * sizes.batch * context * (sizes.layers * 12 * width**2)
        share = context / (6 * width + context)
        evidence.equal((count - literal) / count, share, what="attention's share", width=width, context=context)
        bare = impl.flops.transformer_forward(
            layers=2, width=width, heads=heads, context=context, vocabulary=0, batch=2
        )
        evidence.equal(bare, count, what="the formula", unit="FLOPs", width=width, context=context)


@refutes(flops.FORWARD)
def test_parameters_and_tokens_alone_do_not_tell(evidence):
    """2·tokens·parameters is wrong for a long context, for a large embedding and for a mixture of experts."""
    long_context, large_embedding = Sizes(1, 1, 4, 24, 1, 16, 1), Sizes(1, 1, 4, 2, 500, 16, 1)
    for sizes in (long_context, large_embedding):
        model = Transformer(sizes)
        literal = 2 * sizes.batch * sizes.context * model.parameters
        evidence.differs(dispatched(evidence, model.logits), literal, unit="FLOPs", sizes=sizes)
    tokens = 6
    mixture = Experts(tokens, width=4, feedforward=5, experts=8, chosen=2)
    evidence.differs(dispatched(evidence, mixture.outputs), 2 * tokens * mixture.parameters, unit="FLOPs", experts=8)


@verifies(flops.FORWARD)
@pytest.mark.parametrize(("experts", "chosen"), [(1, 1), (4, 1), (8, 2), (5, 5)])
def test_only_active_experts_take_flops(impl, evidence, experts, chosen):
    """A mixture of experts takes 2 FLOPs per token and parameter of the router and of the chosen experts."""
    tokens = 6
    model = Experts(tokens, width=4, feedforward=5, experts=experts, chosen=chosen)
    active = model.active_parameters()
    count = dispatched(evidence, model.outputs)
    evidence.equal(count, 2 * tokens * active, what="torch's count", unit="FLOPs")
    evidence.equal(impl.flops.forward(tokens, active), count, what="the formula", unit="FLOPs")


@verifies(flops.FORWARD)
def test_forward_passes_of_any_size(impl, evidence):
    """The forward formulas are exact for the largest integers of every type, sizes of 0, and default arguments."""
    for kind in INTEGERS:
        layers, width, context, vocabulary, batch = large_sizes(kind, 5)
        for points in (layers, kind(0), width):
            sizes = {"points": points, "parameters": width}
            check_formula(evidence, impl.flops.forward(**sizes), 2 * int(points) * int(width), **sizes)
        given = {"layers": layers, "heads": kind(1), "context": context, "width": width, "vocabulary": vocabulary}
        count = partial(impl.flops.transformer_forward, **given)
        layers, width, context, vocabulary = map(int, (layers, width, context, vocabulary))
        for causal, reach in ((False, 2 * context), (True, context + 1)):
            # One sequence: 12·width² parameters in each layer, the output head, and attention.
            head = 2 * context * width * vocabulary
            attention = 2 * layers * context * reach * width
            sequence = 2 * context * 12 * layers * width**2 + head + attention
            check_formula(evidence, count(causal=causal), sequence, **given, causal=causal)
            whole = count(causal=causal, batch=batch, feedforward=None)
            check_formula(evidence, whole, sequence * int(batch), **given, causal=causal, batch=batch)
            for feedforward in (batch, kind(0)):
                wider = 4 * layers * context * width * (int(feedforward) - 4 * width)
                whole = count(causal=causal, feedforward=feedforward)
                check_formula(evidence, whole, sequence + wider, causal=causal, feedforward=feedforward)
            with_a_size_of_0 = {"batch": 0, "context": 0, "width": 0, "layers": head, "vocabulary": sequence - head}
            for name, predicted in with_a_size_of_0.items():
                check_formula(evidence, count(causal=causal, **{name: kind(0)}), predicted, causal=causal, zero=name)


@verifies(flops.FORWARD)
def test_a_forward_pass_needs_sizes(impl, evidence):
    """The forward formulas refuse what is no size, and the Transformer's also heads that do not divide the width."""
    sizes = {"layers": 2, "width": 8, "heads": 2, "context": 4, "vocabulary": 10, "feedforward": 16, "batch": 3}
    check_refusals(evidence, impl.flops.forward, "points", "parameters")
    check_refusals(evidence, impl.flops.transformer_forward, **sizes)
    for heads, error in ((3, ValueError), (0, (ValueError, ZeroDivisionError))):
        uneven = partial(impl.flops.transformer_forward, **sizes | {"heads": heads})
        evidence.raises(error, uneven, heads=heads, width=8)


@verifies(flops.BACKWARD)
@example(layers=Layers(2, [2, 2, 2], (True, True)))
@example(layers=Layers(3, [3, 3], (True,)))
@given(layers=st.linear_layers)
def test_a_backward_pass_saves_the_first_gradient_and_those_of_frozen_layers(impl, evidence, layers):
    """Each layer that learns takes a product for its weights' gradient, and each layer after it one for its input's."""
    needs_input_gradient = [layers.input_learns or any(layers.learn[:layer]) for layer in range(len(layers.learn))]
    sizes = list(zip(layers.parameters, layers.learn, needs_input_gradient, strict=True))
    predicted = sum(2 * layers.points * count * (learns + passes_on) for count, learns, passes_on in sizes)
    by_hand = by_convention(networks.count_linear_backward(layers))
    evidence.equal(by_hand, predicted, what="the count by hand", unit="FLOPs")
    evidence.equal(forward_and_backward(evidence, layers)[1], predicted, what="torch's count", unit="FLOPs")
    if predicted:
        # The formula knows no frozen layers. The backward pass ends at the first layer that learns, so that the formula
        # is given the parameters from there on. After it, a frozen layer takes no product for its weights.
        first = 0 if layers.input_learns else layers.learn.index(True)
        reached, learn = layers.parameters[first:], layers.learn[first:]
        frozen = sum(count for count, learns in zip(reached, learn, strict=True) if not learns)
        whole = impl.flops.backward(layers.points, sum(reached), 0 if layers.input_learns else reached[0])
        check_formula(evidence, whole - 2 * layers.points * frozen, predicted)


@refutes(flops.BACKWARD)
def test_two_layers_take_less_than_four_per_point_and_parameter(evidence):
    """Two layers take 6144 FLOPs, and 4·points·parameters = 10240 only when the input needs a gradient."""
    layers = Layers(8, (16, 16, 4), (True, True))
    count = forward_and_backward(evidence, layers)[1]
    evidence.differs(count, 4 * 8 * sum(layers.parameters), unit="FLOPs")
    evidence.equal(count, 6144, what="torch's count", unit="FLOPs")
    with_gradient = forward_and_backward(evidence, layers._replace(input_learns=True))[1]
    evidence.equal(with_gradient, 10240, what="torch's count with the input's gradient", unit="FLOPs")


@refutes(flops.BACKWARD)
def test_frozen_layers_take_less(evidence):
    """Where only the last of two layers learns, the backward pass takes one product, for that layer's weights."""
    layers = Layers(8, (16, 16, 4), (False, True))
    count = forward_and_backward(evidence, layers)[1]
    evidence.differs(count, 4 * 8 * sum(layers.parameters), unit="FLOPs")
    evidence.equal(count, 2 * 8 * 16 * 4, what="torch's count", unit="FLOPs")


@verifies(flops.BACKWARD)
def test_backward_passes_of_any_size(impl, evidence):
    """The backward formula is exact for the largest integers of every type, with or without a first layer's saving."""
    for kind in INTEGERS:
        parameters, points, first = large_sizes(kind, 3)
        four, two = 4 * int(points) * int(parameters), 2 * int(points) * int(first)
        sizes = {"points": points, "parameters": parameters}
        check_formula(evidence, impl.flops.backward(points, parameters), four, **sizes)
        saving = {"first_layer_parameters": first}
        check_formula(evidence, impl.flops.backward(points, parameters, first), four - two, **sizes, **saving)
        arguments = sizes | {"first_layer_parameters": parameters}
        check_formula(evidence, impl.flops.backward(**arguments), four // 2, **arguments)
        none = {"points": kind(0), "parameters": parameters, "first_layer_parameters": first}
        check_formula(evidence, impl.flops.backward(kind(0), parameters, first), 0, **none)


@verifies(flops.BACKWARD)
def test_a_backward_pass_needs_sizes(impl, evidence):
    """The backward formula refuses a negative count, a fraction and what is no number."""
    check_refusals(evidence, impl.flops.backward, "points", "parameters", "first_layer_parameters")


@verifies(flops.TRAINING)
@example(layers=Layers(2, [2, 2, 2], (True, True)))
@example(layers=Layers(3, [3, 3], (True,)))
@given(layers=st.learning_layers)
def test_training_takes_the_sum_of_both_passes(impl, evidence, layers):
    """A step takes 6·points·parameters FLOPs less 2·points·(the first layer's parameters), by all three counts."""
    points, parameters = layers.points, sum(layers.parameters)
    first = 0 if layers.input_learns else layers.parameters[0]
    predicted = 6 * points * parameters - 2 * points * first
    passes = networks.count_linear_forward(layers), networks.count_linear_backward(layers)
    evidence.equal(sum(map(by_convention, passes)), predicted, what="the count by hand", unit="FLOPs")
    evidence.equal(sum(forward_and_backward(evidence, layers)), predicted, what="torch's count", unit="FLOPs")
    check_formula(evidence, impl.flops.training(points, parameters, first), predicted)


@verifies(flops.TRAINING)
def test_the_shortfall_of_equal_layers(impl, evidence):
    """A step through L equal layers takes 1/(3L) less than 6·points·parameters FLOPs."""
    for depth in range(1, 9):
        layers = Layers(8, [16] * (depth + 1), [True] * depth)
        literal = 6 * 8 * sum(layers.parameters)
        counts = {
            "torch's count": sum(forward_and_backward(evidence, layers)),
            "the formula": impl.flops.training(8, depth * 256, 256),
        }
        for name, count in counts.items():
            shortfall = (literal - count) / literal
            evidence.equal(shortfall, 1 / (3 * depth), what=f"the shortfall of {name}", layers=depth)


@refutes(flops.TRAINING)
def test_six_per_point_and_parameter_is_too_much(evidence):
    """A step through two layers of unequal size takes 274,432 FLOPs, and not 6·points·parameters = 405,504."""
    layers = Layers(64, (32, 32, 1), (True, True))
    count = sum(forward_and_backward(evidence, layers))
    evidence.differs(count, 6 * 64 * sum(layers.parameters), unit="FLOPs")
    evidence.equal(count, 274_432, what="torch's count", unit="FLOPs")


@verifies(flops.TRAINING)
def test_a_transformer_trains_at_three_times_its_forward_pass(evidence):
    """A Transformer, whose embedding learns, takes three times the FLOPs of its forward pass for a step of training."""
    for sizes in LARGER:
        for tied in (False, True):
            model = Transformer(sizes, tied=tied, learns=True)
            forward = dispatched(evidence, model.logits)
            step = dispatched(evidence, lambda model=model: model.logits().sum().backward())
            evidence.equal(step, 3 * forward, what="torch's count", unit="FLOPs", sizes=sizes, tied=tied)


@verifies(flops.TRAINING)
def test_training_of_any_size(impl, evidence):
    """The training formula is exact for the largest integers of every type, with or without a first layer's saving."""
    for kind in INTEGERS:
        parameters, points, first = large_sizes(kind, 3)
        six, two = 6 * int(points) * int(parameters), 2 * int(points) * int(first)
        sizes, saved = {"points": points, "parameters": parameters}, {"first_layer_parameters": first}
        check_formula(evidence, impl.flops.training(points, parameters), six, **sizes)
        check_formula(evidence, impl.flops.training(points, parameters, **saved), six - two, **sizes, **saved)
        check_formula(evidence, impl.flops.training(points, kind(0)), 0, points=points, parameters=kind(0))


@verifies(flops.TRAINING)
def test_training_needs_sizes(impl, evidence):
    """The training formula refuses a negative count, a fraction and what is no number."""
    check_refusals(evidence, impl.flops.training, "points", "parameters", "first_layer_parameters")
