"""§2.1.1: tensors."""

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

ARITHMETIC = {"+": operator.add, "-": operator.sub, "×": operator.mul}
MAJORANT = ARITHMETIC | {"-": operator.add}
UNION = dict.fromkeys(ARITHMETIC, operator.or_)
TWICE = [("-", 0, 0), ("×", 1, 1), ("+", 0, 1), ("+", 5, 0)]  # a + (c × c + (c − c)): both operands are one tensor


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
    """Walk the graph that `root` remembers, and return the leaves it ends in, each once."""
    found, walked, ahead = {}, set(), [root.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in walked:
            walked.add(node)
            ahead += [parent for parent, _ in node.next_functions]
            if hasattr(node, "variable"):
                found[id(node.variable)] = node.variable
    return found.values()


def slope(expression, values, leaf):
    """Return the central difference quotient of an expression along one leaf, free of rounding."""
    step, ends = Fraction(bounds.rounding.STEP), []
    for shift in (step, -step):
        ends.append(computed(expression, [Fraction(v) + shift * (i == leaf) for i, v in enumerate(values)])[-1])
    return float((ends[0] - ends[1]) / (2 * step))


def majorant(expression, values, leaf):
    """Return the expression with every minus sign made plus, at the values' magnitudes, `leaf` 1 further out."""
    return computed(expression, [abs(v) + (i == leaf) for i, v in enumerate(values)], MAJORANT)[-1]


def numbered(shape, dtype=torch.float32, device=None, start=1):
    """Return a tensor of consecutive numbers."""
    count = torch.Size(shape).numel()
    return torch.arange(start, start + count, dtype=dtype, device=device).reshape(shape)


def expanded(tensor, shape):
    """Write out what broadcasting to `shape` means, by copying."""
    padded = (1,) * (len(shape) - tensor.dim()) + tuple(tensor.shape)
    return tensor.reshape(padded).repeat([size // max(had, 1) for size, had in zip(shape, padded, strict=True)])


def on(device, tensor):
    """Move a tensor to a device that may lack its dtype."""
    try:
        return tensor.to(device)
    except (TypeError, RuntimeError) as error:
        pytest.skip(f"{device} has no {str(tensor.dtype).removeprefix('torch.')}: {error}")


@verifies(tensors.RANK)
@pytest.mark.parametrize("rank", range(4))
def test_a_list_nested_n_deep_makes_n_dimensions(evidence, rank):
    """A number has 0 dimensions, a list 1, a list of lists 2, and an index takes one away."""
    innermost = [(1, 2, 3, 0)] if rank else []  # only there does an empty list say how deep it lies
    for shape in itertools.product(*[(1, 2, 3)] * (rank - 1), *innermost):
        tensor = torch.tensor(nested(shape))
        evidence.equal(tensor.dim(), rank, unit="dimensions", shape=shape)
        evidence.equal(tuple(tensor.shape), shape, unit="sizes")
        if rank and len(tensor):
            evidence.equal(tensor[-1].dim(), rank - 1, unit="dimensions of an element", shape=shape)


@verifies(tensors.AUTOGRAD)
@example(expression=[("-", 0, 0)], requires_grad=(True, True, True))
@example(expression=[("+", 0, 1)], requires_grad=(True, True, True))
@given(expression=st.expressions, requires_grad=st.three_flags)
def test_the_graph_reaches_exactly_the_leaves(evidence, device, expression, requires_grad):
    """The graph that an expression remembers ends in the leaves it uses that require grad, and in nothing else."""
    leaves = [torch.ones((), device=device, requires_grad=flag) for flag in requires_grad]
    names = {id(leaf): name for leaf, name in zip(leaves, "abc", strict=True)}
    reached = sorted(
        names.get(id(leaf), "a tensor made on the way") for leaf in leaves_reached(computed(expression, leaves)[-1])
    )
    used = computed(expression, [{"a"}, {"b"}, {"c"}], UNION)[-1]
    predicted = sorted(name for name, flag in zip("abc", requires_grad, strict=True) if flag and name in used)
    evidence.equal(reached, predicted, unit="leaves")


@verifies(tensors.AUTOGRAD)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@example(expression=TWICE, values=(0.5, 0.5, -1.5))
@example(expression=[("+", 0, 1)], values=(0.5, 0.5, 0.5))
@given(expression=st.expressions, values=st.three_values)
def test_backward_gives_the_leaves_their_slopes(evidence, device, expression, values):
    """After backward() each leaf in use keeps the expression's slope along it, and no other tensor keeps a gradient."""
    leaves = [on(device, torch.tensor(value, dtype=torch.float64)).requires_grad_() for value in values]
    results = computed(expression, leaves)
    results[-1].backward()
    used = computed(expression, [{0}, {1}, {2}], UNION)[-1]
    keep = [place for place, result in enumerate(results) if result.grad is not None]
    evidence.equal(keep, sorted(used), unit="places with a gradient")
    for leaf in used:
        tolerance = bounds.rounding.central_difference(majorant(expression, values, leaf), len(expression))
        evidence.close(leaves[leaf].grad.item(), slope(expression, values, leaf), tolerance=tolerance, leaf="abc"[leaf])


@verifies(tensors.BROADCASTING)
@example(operands=st.Operands((3,), (3, 3), (3, 3)))
@example(operands=st.Operands((3, 3), (3,), (3, 3)))
@example(operands=st.Operands((1, 0), (2, 1), (2, 0)))
@given(operands=st.broadcastable)
def test_operands_combine_as_their_expansions(evidence, device, operands):
    """Operands whose shapes fit give what their copies written out to the common shape give."""
    left = numbered(operands.left, device=device)
    right = numbered(operands.right, device=device, start=1000)
    whole = expanded(left, operands.result), expanded(right, operands.result)
    evidence.equal(left + right, whole[0] + whole[1], unit="as a sum")
    evidence.equal(left * right, whole[0] * whole[1], unit="as a product")


@verifies(tensors.BROADCASTING)
@given(operands=st.broadcastable)
def test_an_expansion_copies_nothing(evidence, device, operands):
    """An expanded tensor keeps the storage it had, and its repeated dimensions have stride 0."""
    tensor = numbered(operands.left, device=device)
    view = tensor.expand(operands.result)
    had = (1,) * (view.dim() - tensor.dim()) + operands.left
    repeated = [place for place, size in enumerate(view.shape) if size > 1 and had[place] == 1]
    evidence.equal(view, expanded(tensor, operands.result), unit="as expanded")
    evidence.equal([view.stride(place) for place in repeated], [0] * len(repeated), unit="strides")
    evidence.equal(view.untyped_storage().nbytes(), tensor.numel() * tensor.element_size(), unit="bytes of storage")
    evidence.equal(view.untyped_storage().data_ptr(), tensor.untyped_storage().data_ptr(), unit="storage address")


@verifies(tensors.BROADCASTING)
@example(operands=st.Operands((0,), (2,), ()))
@example(operands=st.Operands((2, 3), (3, 2), ()))
@given(operands=st.incompatible)
def test_shapes_that_do_not_fit_raise(evidence, device, operands):
    """Two different sizes, neither of them 1, in one place counted from the end raise RuntimeError."""
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
    """A scalar, wider or of Python's, combines with a matrix as a matrix of its value in the matrix's dtype."""
    matrix = numbered((2, 3), narrow, device)
    predicted = matrix + torch.full((2, 3), 5, dtype=narrow, device=device)
    evidence.equal(matrix + torch.tensor(5, dtype=wide, device=device), predicted, unit="as a sum with a tensor")
    evidence.equal(matrix + 5, predicted, unit="as a sum with a number")
    evidence.equal((matrix + torch.tensor([5], dtype=wide, device=device)).dtype, wide, unit="with one dimension")
