"""Operators that take functions are counted by what runs inside, and compute what they compute without the counter."""

import warnings

import pytest
import torch
from torch import nn
from torch._higher_order_ops import out_dtype
from torch._higher_order_ops.auto_functionalize import auto_functionalized
from torch._higher_order_ops.effects import with_effects
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.while_loop import while_loop
from torch._ops import _higher_order_ops
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._python_dispatch import TorchDispatchMode

from spec.instruments.flops import FlopCounter, higher_order
from tests.kit.instruments.flop_cases import values
from tests.kit.instruments.flop_unusual import by_loops, unchanged

pytestmark = pytest.mark.filterwarnings("ignore")
SQUARE = by_loops((4, 4, 4))


@pytest.fixture(autouse=True)
def _compiles_afresh():
    """What torch compiled below a mode does not always run without it."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def three_times(x):
    """Square a matrix three times in a loop of torch's."""
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x @ x), (torch.tensor(0), x))


def choose(positive, x):
    """Multiply twice if the predicate is true, else once."""
    return torch.cond(positive, lambda x: x @ x @ x, lambda x: x @ x, (x,))


def attention(heads=2, queries=3, width=5):
    q = values(1, heads, queries, width)
    return flex_attention(q, q, q)


def with_gradient(function, *shapes):
    """Return a program that runs a function on leaves, and backward."""

    def program():
        leaves = [values(*shape).requires_grad_() for shape in shapes]
        result = function(*leaves)
        result = result if isinstance(result, torch.Tensor) else result[-1]
        result.sum().backward()
        return [result, *(leaf.grad for leaf in leaves)]

    return program


def again(forward):
    """Return the FLOPs of products forward and backward: backward without computing forward again, or with it."""
    return {3 * forward, 4 * forward}


class Grad(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x @ x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient @ x.T + x.T @ gradient


PROGRAMS = {  # each with the products that run, by hand from the program's text
    "while_loop, three times": (lambda: three_times(values(4, 4)), 3 * SQUARE),
    "while_loop, never": (
        lambda: while_loop(lambda i, x: i > 0, lambda i, x: (i + 1, x @ x), (torch.tensor(0), values(4, 4))),
        0,
    ),
    "while_loop of a while_loop": (
        lambda: while_loop(
            lambda i, x: i < 2, lambda i, x: (i + 1, three_times(x)[1]), (torch.tensor(0), values(4, 4) / 4)
        ),
        6 * SQUARE,
    ),
    "while_loop on the meta device": (lambda: three_times(values(4, 4).to("meta")), 3 * SQUARE),
    "map": (lambda: map_over(lambda x: x @ x, values(3, 4, 4)), 3 * SQUARE),
    # torch 2.10 runs one more step, to learn the shapes of the outputs.
    "scan": (
        lambda: scan(lambda c, x: (c @ x, c + x), values(4, 4), values(3, 4, 4)),
        {3 * SQUARE if torch.__version__ >= (2, 11) else 4 * SQUARE},
    ),
    "cond, true": (lambda: choose(torch.tensor(True), values(4, 4)), 2 * SQUARE),
    "cond, false": (lambda: choose(torch.tensor(False), values(4, 4)), SQUARE),
    # Backward has two products for each of forward's, which some versions of torch compute again first.
    "cond, false, and backward": (with_gradient(lambda x: choose(torch.tensor(False), x), (4, 4)), again(SQUARE)),
    "while_loop and backward": (with_gradient(three_times, (4, 4)), again(3 * SQUARE)),
    "map and backward": (with_gradient(lambda x: map_over(lambda x: x @ x, x), (3, 4, 4)), again(3 * SQUARE)),
    # Two products of every query with every key, for each of two heads.
    "flex_attention": (attention, 2 * by_loops((3, 5, 3), (3, 3, 5))),
    "strict_mode": (lambda: strict_mode(lambda x: (x @ x,), (values(4, 4),)), SQUARE),
    "with_effects": (lambda: with_effects(torch.tensor([]), torch.ops.aten.mm.default, values(3, 5), values(5, 7))[1],
                     by_loops((3, 5, 7))),
    "vmap of cond": (  # computes both branches, for each of three matrices
        lambda: torch.vmap(lambda x: choose(x.sum() > 0, x))(values(3, 4, 4)),
        3 * 3 * SQUARE,
    ),
    "vmap of grad of an autograd function": (
        lambda: torch.vmap(torch.func.grad(lambda x: Grad.apply(x).sum()))(values(2, 4, 4)),
        2 * 3 * SQUARE,
    ),
    "jvp": (lambda: torch.func.jvp(lambda x: x @ x, (values(4, 4),), (values(4, 4),)), 3 * SQUARE),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_runs_inside_is_counted(name):
    program, expected = PROGRAMS[name]
    counter = unchanged(program)
    assert counter.matmul in (expected if isinstance(expected, set) else {expected})
    assert counter.uncounted == {}


def test_scan_with_backward_changes_nothing():
    program = with_gradient(lambda x, y: scan(lambda c, x: (c @ x, c + x), x, y), (4, 4), (3, 4, 4))
    counter = unchanged(program)
    assert counter.matmul in again(3 * SQUARE)
    assert counter.uncounted == {}


def test_out_dtype_is_a_product_of_integers():
    eights = torch.ones(3, 5, dtype=torch.int8), torch.ones(5, 7, dtype=torch.int8)
    counter = unchanged(lambda: out_dtype(torch.ops.aten.mm.default, torch.int32, *eights))
    assert (counter.matmul, counter.integer) == (0, by_loops((3, 5, 7)))


def double(x):
    x.mul_(2)


def test_an_operator_that_is_made_functional_is_listed_by_its_own_name():
    if not hasattr(torch.ops.kit, "double_"):
        torch.library.custom_op("kit::double_", double, mutates_args={"x"}, schema="(Tensor(a!) x) -> ()")
    counter = unchanged(lambda: auto_functionalized(torch.ops.kit.double_.default, x=values(3, 5)))
    assert counter.uncounted == {"kit.double_": 1}


def test_an_operator_that_is_not_known_runs_untouched_and_is_listed(monkeypatch):
    monkeypatch.setattr(higher_order, "SEEN", frozenset())
    counter = unchanged(lambda: three_times(values(4, 4)))
    assert (counter.matmul, counter.uncounted) == (0, {"while_loop": 1})


def test_every_known_name_is_an_operator_of_torch_in_some_version():
    missing = (higher_order.SEEN | higher_order.FREE) - set(_higher_order_ops)
    assert len(missing) < len(higher_order.SEEN) / 2, missing


def test_a_formula_of_ones_own():
    operator = _higher_order_ops["while_loop"]
    with FlopCounter(custom_mapping={operator: lambda *args, **named: 7}) as counter:
        three_times(values(4, 4))
    assert (counter.matmul, counter.uncounted) == (7, {})


class Below(TorchDispatchMode):
    supports_higher_order_operators = True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_below_another_mode_it_runs_untouched_and_is_listed():
    x = values(4, 4)
    with Below(), FlopCounter() as counter:
        result = three_times(x)
    square = x @ x
    assert torch.equal(result[1], (square @ square) @ (square @ square))
    assert counter.uncounted == {"while_loop": 1}


def test_above_another_mode_it_is_counted():
    with FlopCounter() as counter, Below():
        choose(torch.tensor(False), values(4, 4))
    assert counter.matmul == SQUARE


def test_tracing_computes_nothing():
    def program():
        return str(make_fx(lambda x: choose(x.sum() > 0, x @ x), tracing_mode="fake")(values(4, 4)).graph)

    counter = unchanged(program)
    assert counter.matmul == 0


def test_an_exported_program_and_a_whole_graph():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = torch.compile(nn.Linear(5, 7), backend="eager", fullgraph=True)
        assert unchanged(lambda: net(values(3, 5))).matmul == by_loops((3, 5, 7))
    with FlopCounter():
        torch.export.export(nn.Linear(5, 7), (values(3, 5),))
