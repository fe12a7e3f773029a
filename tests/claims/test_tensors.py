"""§2.1.1: the dimensions of a tensor, the gradients that autograd computes, and broadcasting."""

import itertools
import operator
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given

from spec import bounds
from spec import strategies as st
from spec.claim import verifies
from spec.claims import tensors
from spec.instruments.storage import bytes_of, same

ARITHMETIC = {"+": operator.add, "-": operator.sub, "×": operator.mul}
MAJORANT = ARITHMETIC | {"-": operator.add}
UNION = dict.fromkeys(ARITHMETIC, operator.or_)
# An expression is a list of steps. Each step combines two earlier results, counted back from the latest.
# This one is a + (c × c + (c − c)), where one tensor is both operands of an operation.
TWICE = [("-", 0, 0), ("×", 1, 1), ("+", 0, 1), ("+", 5, 0)]


def nested(shape):
    """Return a list of lists (of lists …) of 0.0 with these lengths, outermost first."""
    return [nested(shape[1:]) for _ in range(shape[0])] if shape else 0.0


def computed(expression, leaves, arithmetic=ARITHMETIC):
    """Return the leaves, then the result of each step; the last is the value of the expression."""
    results = list(leaves)
    for sign, left, right in expression:
        results.append(arithmetic[sign](results[-1 - left % len(results)], results[-1 - right % len(results)]))
    return results


def leaves_reached(root):
    """Return the leaves that the autograd graph of `root` ends in, each once."""
    found, visited, pending = {}, set(), [root.grad_fn]
    while pending:
        node = pending.pop()
        if node is not None and node not in visited:
            visited.add(node)
            pending += [parent for parent, _ in node.next_functions]
            if hasattr(node, "variable"):
                found[id(node.variable)] = node.variable
    return found.values()


def slope(expression, values, leaf):
    """Return the slope of an expression along one leaf: (f(x + h) − f(x − h)) / 2h, in exact fractions."""
    step, ends = Fraction(bounds.rounding.STEP), []
    for shift in (step, -step):
        ends.append(computed(expression, [Fraction(v) + shift * (i == leaf) for i, v in enumerate(values)])[-1])
    return float((ends[0] - ends[1]) / (2 * step))


def majorant(expression, values, leaf):
    """Return an upper bound of the expression: every minus becomes plus, every value its magnitude.

    The magnitude of `leaf` is 1 larger, because the difference quotient changes the leaf by less than that.
    """
    return computed(expression, [abs(v) + (i == leaf) for i, v in enumerate(values)], MAJORANT)[-1]


def numbered(shape, dtype=torch.float32, device=None, start=1):
    """Return a tensor of consecutive numbers from `start` on."""
    count = torch.Size(shape).numel()
    return torch.arange(start, start + count, dtype=dtype, device=device).reshape(shape)


def expanded(tensor, shape):
    """Return a copy broadcast to `shape`: missing dimensions are put in front, and sizes of 1 are repeated."""
    padded = (1,) * (len(shape) - tensor.dim()) + tuple(tensor.shape)
    return tensor.reshape(padded).repeat([size // max(own, 1) for size, own in zip(shape, padded, strict=True)])


def on(device, tensor):
    """Return the tensor on a device; skip the test where the device does not have its dtype."""
    try:
        return tensor.to(device)
    except (TypeError, RuntimeError) as error:
        pytest.skip(f"{device} has no {str(tensor.dtype).removeprefix('torch.')}: {error}")


@verifies(tensors.RANK)
@pytest.mark.parametrize("rank", range(4))
def test_a_list_nested_n_deep_makes_n_dimensions(evidence, rank):
    """A number has 0 dimensions, a list 1, a list of lists 2, and an index takes one away."""
    # Only the innermost size may be 0: an empty list further out does not show how deep it would be nested.
    innermost = [(1, 2, 3, 0)] if rank else []
    for shape in itertools.product(*[(1, 2, 3)] * (rank - 1), *innermost):
        tensor = torch.tensor(nested(shape))
        evidence.equal(tensor.dim(), rank, what="the list's tensor", unit="dimensions", shape=shape)
        evidence.equal(tuple(tensor.shape), shape, what="the shape")
        if rank and len(tensor):
            evidence.equal(tensor[-1].dim(), rank - 1, what="the last element", unit="dimensions", shape=shape)


@verifies(tensors.AUTOGRAD)
@example(expression=[("-", 0, 0)], requires_grad=(True, True, True))
@example(expression=[("+", 0, 1)], requires_grad=(True, True, True))
@given(expression=st.expressions, requires_grad=st.three_flags)
def test_the_graph_reaches_exactly_the_leaves(evidence, device, expression, requires_grad):
    """The autograd graph of an expression ends in the leaves that it uses and that require grad, and in no others."""
    leaves = [torch.ones((), device=device, requires_grad=flag) for flag in requires_grad]
    names = {id(leaf): name for leaf, name in zip(leaves, "abc", strict=True)}
    reached = sorted(
        names.get(id(leaf), "an intermediate result") for leaf in leaves_reached(computed(expression, leaves)[-1])
    )
    # The same expression on sets of names, with the union for every operation, collects the leaves that it uses.
    used = computed(expression, [{"a"}, {"b"}, {"c"}], UNION)[-1]
    predicted = sorted(name for name, flag in zip("abc", requires_grad, strict=True) if flag and name in used)
    evidence.equal(reached, predicted, what="the leaves that the graph reaches")


@verifies(tensors.AUTOGRAD)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@example(expression=TWICE, values=(0.5, 0.5, -1.5))
@example(expression=[("+", 0, 1)], values=(0.5, 0.5, 0.5))
@given(expression=st.expressions, values=st.three_values)
def test_backward_gives_the_leaves_their_slopes(evidence, device, expression, values):
    """After backward() each leaf that the expression uses has its slope as gradient, and no other tensor has any."""
    leaves = [on(device, torch.tensor(value, dtype=torch.float64)).requires_grad_() for value in values]
    results = computed(expression, leaves)
    results[-1].backward()
    used = computed(expression, [{0}, {1}, {2}], UNION)[-1]
    with_gradient = [number for number, result in enumerate(results) if result.grad is not None]
    evidence.equal(with_gradient, sorted(used), what="the numbers of the leaves and results with a gradient")
    for leaf in used:
        tolerance = bounds.rounding.central_difference(majorant(expression, values, leaf), len(expression))
        gradient, predicted = leaves[leaf].grad.item(), slope(expression, values, leaf)
        evidence.close(gradient, predicted, tolerance=tolerance, what="the gradient", leaf="abc"[leaf])


@verifies(tensors.BROADCASTING)
@example(operands=st.Operands((3,), (3, 3), (3, 3)))
@example(operands=st.Operands((3, 3), (3,), (3, 3)))
@example(operands=st.Operands((1, 0), (2, 1), (2, 0)))
@given(operands=st.broadcastable)
def test_operands_combine_as_their_expansions(evidence, device, operands):
    """Operands whose shapes broadcast have the same sum and product as their copies expanded to the common shape."""
    left = numbered(operands.left, device=device)
    right = numbered(operands.right, device=device, start=1000)
    whole_left, whole_right = expanded(left, operands.result), expanded(right, operands.result)
    evidence.equal(left + right, whole_left + whole_right, what="the sum")
    evidence.equal(left * right, whole_left * whole_right, what="the product")


@verifies(tensors.BROADCASTING)
@given(operands=st.broadcastable)
def test_an_expansion_copies_nothing(evidence, device, operands):
    """expand() copies nothing: the view has the tensor's own storage, and stride 0 along each repeated dimension."""
    tensor = numbered(operands.left, device=device)
    view = tensor.expand(operands.result)
    own = (1,) * (view.dim() - tensor.dim()) + operands.left
    repeated = [d for d, size in enumerate(view.shape) if size > 1 and own[d] == 1]
    evidence.equal(view, expanded(tensor, operands.result), what="the expanded tensor")
    evidence.equal([view.stride(d) for d in repeated], [0] * len(repeated), what="the strides of repeated dimensions")
    evidence.equal(bytes_of(view), tensor.numel() * tensor.element_size(), what="the storage", unit="bytes")
    evidence.true(same(view, tensor), "the expanded tensor shares the tensor's storage")


@verifies(tensors.BROADCASTING)
@example(operands=st.Operands((0,), (2,), ()))
@example(operands=st.Operands((2, 3), (3, 2), ()))
@given(operands=st.incompatible)
def test_shapes_that_do_not_fit_raise(evidence, device, operands):
    """Shapes are lined up at their ends, and two sizes there that differ, neither of them 1, raise RuntimeError."""
    left, right = (torch.ones(shape, device=device) for shape in operands[:2])
    evidence.raises(RuntimeError, lambda: left + right)


@verifies(tensors.BROADCASTING)
@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        pytest.param(torch.bfloat16, torch.float32, id="bfloat16"),
        pytest.param(torch.float16, torch.float32, id="float16"),
        pytest.param(torch.int8, torch.int64, id="int8"),
    ],
)
def test_a_scalar_acts_as_a_matrix_of_that_value(evidence, device, narrow, wide):
    """A scalar tensor of a wider dtype, or a Python number, acts as a matrix of its value in the matrix's own dtype."""
    matrix = numbered((2, 3), narrow, device)
    predicted = matrix + torch.full((2, 3), 5, dtype=narrow, device=device)
    evidence.equal(matrix + torch.tensor(5, dtype=wide, device=device), predicted, what="the sum with a scalar tensor")
    evidence.equal(matrix + 5, predicted, what="the sum with a Python number")
    with_vector = matrix + torch.tensor([5], dtype=wide, device=device)
    evidence.equal(with_vector.dtype, wide, what="the dtype of the sum with a vector")
