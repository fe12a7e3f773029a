"""Nested, sparse, quantized and other unusual tensors are counted or listed, and what is computed stays the same."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.masked import masked_tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from spec.instruments.flops import FlopCounter
from tests.kit.instruments.flop_cases import values
from tests.kit.instruments.flop_unusual import by_loops, unchanged

pytestmark = pytest.mark.filterwarnings("ignore")
LAYOUTS = [torch.jagged, torch.strided]
LAYER = by_loops((3, 4, 6), (5, 4, 6))  # both rows of nested() by 4→6


def nested(layout, grad=False, width=4):
    """Return a nested tensor of two rows."""
    return torch.nested.nested_tensor([values(3, width), values(5, width)], layout=layout, requires_grad=grad)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("inference", [False, True])
def test_a_linear_layer_of_a_nested_tensor(layout, inference):
    def program():
        with torch.inference_mode(inference):
            return list(F.linear(nested(layout), values(6, 4)).clone().unbind())

    counter = unchanged(program)
    assert (counter.matmul, counter.uncounted) == (LAYER, {}) == (384, {})


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_gradients_of_a_linear_layer_of_a_nested_tensor(layout):
    def program():
        x, weight = nested(layout, grad=True), values(6, 4).requires_grad_()
        F.linear(x, weight).to_padded_tensor(0.0).sum().backward()
        return [weight.grad, *x.grad.unbind()]

    assert unchanged(program).matmul == 3 * LAYER


def test_products_of_nested_tensors():
    x = nested(torch.strided)
    assert unchanged(lambda: torch.bmm(x, x.transpose(1, 2))).matmul == by_loops((3, 4, 3), (5, 4, 5))
    weights = torch.nested.nested_tensor([values(4, 6), values(4, 6)])
    assert unchanged(lambda: torch.matmul(x, weights)).matmul == LAYER


def test_attention_of_nested_tensors_is_counted_by_its_products():
    heads = torch.nested.nested_tensor([values(2, 3, 4), values(2, 5, 4)])
    counter = unchanged(lambda: F.scaled_dot_product_attention(heads, heads, heads))
    assert counter.matmul == 2 * by_loops((3, 4, 3), (3, 3, 4), (5, 4, 5), (5, 5, 4))


def test_what_has_no_count_for_nested_tensors_is_listed():
    assert unchanged(lambda: nested(torch.strided).softmax(-1)).uncounted == {"aten._softmax": 1}


# Sparse tensors.

POSITIONS = [(0, 1), (2, 3)]


def sparse(positions=POSITIONS, grad=False, coalesced=False):
    """Return a sparse 3·4 matrix with numbers stored at positions."""
    made = torch.sparse_coo_tensor(torch.tensor(positions).T, torch.arange(len(positions)) + 2.0, (3, 4))
    return (made.coalesce() if coalesced else made).requires_grad_(grad)


def by_entries(positions, columns):
    """Return the FLOPs of a sparse matrix by a dense one, entry by entry."""
    flops = 0
    for _ in positions:
        for _ in range(columns):
            flops += 2  # a multiplication, and an addition to the result
    return flops


@pytest.mark.parametrize(
    ("positions", "coalesced"),
    [(POSITIONS, False), (POSITIONS, True), ([(0, 1), (0, 1)], False)],
    ids=["", "coalesced", "twice"],
)
def test_every_entry_of_a_sparse_matrix_is_multiplied(positions, coalesced):
    counter = unchanged(lambda: sparse(positions, coalesced=coalesced) @ torch.ones(4, 3))
    assert (counter.matmul, counter.uncounted) == (by_entries(positions, 3), {})


def test_the_transpose_of_an_uncoalesced_matrix_in_backward():
    def program():
        dense = torch.ones(4, 3, requires_grad=True)
        (sparse() @ dense).sum().backward()
        return dense.grad

    counter = unchanged(program)
    assert (counter.matmul, counter.uncounted) == (2 * by_entries(POSITIONS, 3), {})


def test_the_gradient_of_a_sparse_matrix_is_a_dense_product():
    def program():
        left, dense = sparse(grad=True), torch.ones(4, 3, requires_grad=True)
        torch.sparse.mm(left, dense).sum().backward()
        return [dense.grad, left.grad]

    counter = unchanged(program)
    assert (counter.matmul, counter.uncounted) == (2 * by_entries(POSITIONS, 3) + by_loops((3, 3, 4)), {})


SPARSE = {
    "addmm": (lambda: torch.addmm(values(3, 3), sparse(), values(4, 3)), by_entries(POSITIONS, 3)),
    "sparse.addmm": (lambda: torch.sparse.addmm(values(3, 3), sparse(), values(4, 3)), by_entries(POSITIONS, 3)),
    "by a vector": (lambda: torch.mv(sparse(), values(4)), by_entries(POSITIONS, 1)),
    "of batches": (lambda: torch.bmm(torch.stack([sparse(), sparse()]), values(2, 4, 3)), 2 * by_entries(POSITIONS, 3)),
    "dense by sparse": (lambda: values(2, 3) @ sparse(), by_entries(POSITIONS, 2)),
    "blocks": (  # two blocks of 2·2
        lambda: torch.block_diag(values(2, 2), values(2, 2)).to_sparse_bsr((2, 2)) @ values(4, 3),
        by_entries(range(8), 3),
    ),
    "compressed columns": (lambda: values(3, 4).to_sparse_csc() @ values(4, 5), by_loops((3, 4, 5))),
}  # fmt: skip


@pytest.mark.parametrize("name", SPARSE)
def test_products_of_sparse_tensors(name):
    program, expected = SPARSE[name]
    counter = unchanged(program)
    assert (counter.matmul, counter.uncounted) == (expected, {})


def test_elementwise_work_on_sparse_tensors_is_that_of_what_is_stored():
    two = sparse()
    counter = unchanged(lambda: two * 2)
    assert (counter.elementwise, counter.uncounted) == (2, {})
    twice = sparse([(0, 1), (0, 1), (2, 3)])
    assert unchanged(twice.coalesce).elementwise == 1
    assert unchanged(lambda: sparse() + sparse()).uncounted == {"aten.add": 1}
    assert unchanged(lambda: sparse() @ sparse().t()).uncounted == {"aten.mm": 1}


# Tensor subclasses.


class Wrapper(torch.Tensor):
    """Wraps a tensor and does every operator on it."""

    @staticmethod
    def __new__(cls, inside):
        wrapper = torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)
        wrapper.inside = inside
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = tree_map(unwrap, (args, kwargs or {}))
        return tree_map(lambda each: cls(each) if isinstance(each, torch.Tensor) else each, func(*args, **kwargs))


class Twice(Wrapper):
    """Does every operator twice."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        super().__torch_dispatch__(func, types, args, kwargs)
        return super().__torch_dispatch__(func, types, args, kwargs)


class Unseen(Wrapper):
    """Does its products where no mode sees them."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = tree_map(unwrap, args)
        args[0].clone()
        return cls(torch.from_numpy(args[0].numpy() @ args[1].numpy()))


class Plain(torch.Tensor):
    """Hands every operator to torch, below the modes."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return super().__torch_dispatch__(func, types, args, kwargs or {})


class Function(torch.Tensor):
    """Has a __torch_function__."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def unwrap(value):
    return value.inside if isinstance(value, Wrapper) else value


PRODUCT = by_loops((3, 4, 5))
SUBCLASSES = {
    "wrapper": (lambda: (Wrapper(values(3, 4)) @ Wrapper(values(4, 5))).inside, PRODUCT),
    "wrapper of a wrapper": (lambda: (Wrapper(Wrapper(values(3, 4))) @ Wrapper(values(4, 5))).inside.inside, PRODUCT),
    "twice": (lambda: (Twice(values(3, 4)) @ Twice(values(4, 5))).inside, 2 * PRODUCT),
    "below the modes": (lambda: torch.Tensor._make_subclass(Plain, values(3, 4)) @ values(4, 5), PRODUCT),
    "__torch_function__": (lambda: values(3, 4).as_subclass(Function) @ values(4, 5), PRODUCT),
    "mkldnn": (lambda: F.linear(values(3, 4).to_mkldnn(), values(5, 4).to_mkldnn()).to_dense(), PRODUCT),
    "negated view": (lambda: torch.complex(values(3, 4), values(3, 4)).conj().imag @ values(4, 5), PRODUCT),
    "conjugated view": (lambda: (z := torch.complex(values(3, 4), values(3, 4))).mH @ z, 4 * by_loops((4, 3, 4))),
    "fake tensors": (lambda: str(((fake := FakeTensorMode().from_tensor(values(3, 4))) @ fake.T).shape),
                     by_loops((3, 4, 3))),
    "functional": (lambda: torch.func.functionalize(lambda x: (x @ x.T).add_(1))(values(3, 4)), by_loops((3, 4, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", SUBCLASSES)
def test_a_subclass_is_counted_by_what_it_does(name):
    if "mkldnn" in name and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no mkldnn")
    program, expected = SUBCLASSES[name]
    counter = unchanged(program)
    assert (counter.matmul, counter.uncounted) == (expected, {})


def test_masked_tensors_change_nothing():
    def program():
        x = masked_tensor(values(3, 4), values(3, 4) > 0)
        return [(x * x).get_data(), x.sum().get_data()]

    assert unchanged(program).elementwise > 0


def test_what_a_subclass_does_unseen_is_listed():
    counter = unchanged(lambda: (Unseen(values(3, 4)) @ Unseen(values(4, 5))).inside)
    assert (counter.matmul, counter.uncounted) == (0, {"aten.mm (of Unseen)": 1})


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_another_mode_sees_what_it_would_see():
    def program(counter=None):
        x, y = Wrapper(values(3, 4)), Wrapper(values(4, 5))
        with Log() as log:
            if counter is None:
                x @ y
            else:
                with counter:
                    x @ y
        return log.seen

    counter = FlopCounter()
    assert program() == program(counter) == unchanged_log(program)
    assert counter.uncounted == {"aten.mm (of Wrapper, below another mode)": 1}


def unchanged_log(program):
    with FlopCounter() as counter:
        seen = program()
    assert counter.matmul == PRODUCT
    return seen


def test_quantized_products_are_listed():
    x = torch.quantize_per_tensor(values(3, 4), 0.1, 0, torch.quint8)
    assert "aten.dequantize" in unchanged(x.dequantize).uncounted


def test_sizes_that_are_symbols_are_listed_and_stay_symbols():
    def program():
        mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=False)
        x = mode.from_tensor(nn.Parameter(values(3, 4)), static_shapes=False)
        with mode:
            (x @ x.T).softmax(1)
        return len(mode.shape_env.guards)

    with FlopCounter() as counter:
        guards = program()
    assert (counter.matmul, counter.uncounted["aten.mm"], guards) == (0, 1, program())
