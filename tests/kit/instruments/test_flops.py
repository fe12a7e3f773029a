"""The dispatch-level counter agrees with loops, lists what it cannot count, and is no slower than FlopCounterMode."""

import resource
import sys
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from spec.instruments.flops import FlopCounter, Flops
from spec.instruments.scalars import count_operations
from tests.kit.calls import calls
from tests.kit.instruments import flop_loops as loops
from tests.kit.instruments.flop_cases import values
from tests.kit.instruments.flop_table import CASES, judge, main

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")


def counted(program, *inputs, attention="full"):
    """Run a program under the counter."""
    with FlopCounter(attention) as counter:
        program(*inputs)
    return counter


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_counts_what_loops_count(case):
    row = judge(case)
    assert row.same, "the loops compute something else than the program"
    assert row.agrees, (row.expected, row.counter.flops)


def test_the_loops_count_as_the_scalars_do():
    x, w, tally = values(3, 5), values(5, 7), loops.Tally()
    loops.matmul(tally, tally.numbers(x), tally.numbers(w))
    scalars = count_operations(np.matmul, x.tolist(), w.tolist())
    assert tally.counts["matmul"] == scalars.total + 3 * 7  # what is added to nothing


def test_there_are_many_cases():
    assert len({case.name for case in CASES}) == len(CASES) >= 40


UNCOUNTED = {
    "aten._sparse_sparse_matmul": lambda x: torch.sparse.mm(x.to_sparse(), x.T.to_sparse()),
    "aten._linalg_solve_ex": lambda x: torch.linalg.solve(x @ x.T + torch.eye(3), x),
    "aten._linalg_svd": torch.linalg.svd,
    "aten._fft_r2c": torch.fft.fft,
    "aten._cdist_forward": lambda x: torch.cdist(x, x, p=3.0),
    "aten.native_batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "aten.max_pool2d_with_indices": lambda x: F.max_pool2d(x[None], 2),
    "aten.exp": lambda x: torch.complex(x, x).exp(),
    "aten.abs": lambda x: torch.complex(x, x).abs(),
    "aten.scatter": lambda x: x.scatter(0, torch.zeros(1, 5, dtype=torch.int64), 2.0, reduce="add"),
    "aten.col2im": lambda x: F.fold(x.new_zeros(1, 4, 4), (3, 3), 2),
    "aten.elu": F.elu,
    "aten.embedding_dense_backward": lambda x: (
        F.embedding(torch.tensor([1, 2]), x.clone().requires_grad_(), padding_idx=1).sum().backward()
    ),
}


@pytest.mark.parametrize("name", UNCOUNTED)
def test_what_has_no_count_is_listed(name):
    counter = counted(UNCOUNTED[name], values(3, 5))
    assert counter.uncounted[name] == 1
    assert name not in counter.by_operator


def test_an_operator_of_ones_own_is_listed_or_has_a_formula():
    twice = torch.library.custom_op("kit::twice", lambda x: 2 * x, mutates_args=(), schema="(Tensor x) -> Tensor")
    x = values(3, 5)
    assert counted(twice, x).uncounted == {"kit.twice": 1}
    packet = torch.ops.kit.twice
    with FlopCounter(custom_mapping={packet: lambda shape, out_shape: shape.numel()}) as counter:
        twice(x)
    assert (counter.matmul, counter.uncounted) == (15, {})


def test_operators_on_integers_need_no_count():
    counter = counted(lambda: torch.arange(6).reshape(2, 3).cumsum(0).fmod(2).sum())
    assert (counter.flops, counter.uncounted) == (Flops(), {})


def test_empty_tensors_cost_nothing():
    empty = torch.ones(3, 0)
    programs = [
        lambda: empty @ empty.T,
        lambda: empty.T @ torch.ones(3, 5),
        lambda: empty.softmax(1),
        lambda: empty.log_softmax(1),
        lambda: empty.cumsum(1),
        lambda: empty.sum(0),
        lambda: F.layer_norm(torch.ones(0, 3), (3,)),
        lambda: F.mse_loss(empty, empty, reduction="sum"),
        lambda: F.conv2d(torch.ones(0, 4, 5, 5), torch.ones(3, 4, 2, 2)),
    ]
    assert [counted(program).flops for program in programs] == [Flops()] * len(programs)


# Modules.


def model():
    """Return two layers in a module, and a layer beside it."""
    return nn.Sequential(nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 2)), nn.Linear(2, 3, bias=False))


def test_modules_include_their_children_forward_and_backward():
    net, x = model(), values(3, 5).requires_grad_()
    counter = counted(lambda x: net(x).sum().backward(), x)
    modules = counter.by_module
    layers = {"Sequential.0.0": 3 * 5 * 7, "Sequential.0.2": 3 * 7 * 2, "Sequential.1": 3 * 2 * 3}
    assert {name: modules[name].matmul for name in layers} == {name: 6 * terms for name, terms in layers.items()}
    assert modules["Sequential.0"].matmul == 6 * (3 * 5 * 7 + 3 * 7 * 2)
    assert modules["Sequential.0"].bias == 3 * 7 + 3 * 2
    assert modules["Sequential"].matmul == modules["Global"].matmul
    assert modules["Global"] == counter.flops
    assert modules["Global"].elementwise - modules["Sequential"].elementwise == 8  # the sum
    assert counter.flops == Flops(*map(sum, zip(*counter.by_operator.values(), strict=True)))
    assert counter.total == counter.matmul + counter.bias + counter.elementwise
    assert counter.operators_of("Sequential.0.1").keys() == {"aten.gelu", "aten.gelu_backward"}


def test_it_is_used_as_flop_counter_mode_is():
    net, x = model(), values(3, 5).requires_grad_()
    with FlopCounterMode(display=False) as theirs:
        net(x).sum().backward()
    ours = counted(lambda x: net(x).sum().backward(), x)
    assert isinstance(ours, FlopCounterMode)
    assert ours.get_total_flops() == theirs.get_total_flops() == ours.matmul
    assert ours.get_flop_counts() == theirs.get_flop_counts()
    assert "Sequential.0.1" in ours.table()
    assert "Sequential.0.1" not in ours.table(depth=2)
    assert "aten.addmm" in ours.table()


def test_every_entry_starts_afresh_and_counts_what_is_inside():
    counter, x = FlopCounter(), values(3, 5)
    for _ in range(2):
        with counter:
            x @ x.T
            torch.linalg.svd(x)
        assert (counter.matmul, counter.uncounted) == (90, {"aten._linalg_svd": 1})
    x @ x.T
    assert counter.matmul == 90
    with counter:
        pass
    assert (counter.flops, counter.by_operator, counter.by_module, counter.uncounted) == (Flops(), {}, {}, {})


def test_a_module_in_inference_mode():
    net, x = model(), values(3, 5).requires_grad_()
    with torch.inference_mode():
        assert counted(net, x).matmul == 2 * (3 * 5 * 7 + 3 * 7 * 2 + 3 * 2 * 3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_program(backend):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.compile(lambda x, w: (x @ w).relu(), backend=backend)
        x, w = values(3, 5), values(5, 7)
        assert [counted(program, x, w).flops for _ in range(2)] == [Flops(210, 0, 21)] * 2


def test_seventy_billion_parameters_take_no_memory():
    width, feedforward, layers, tokens = 8192, 28672, 80, 8
    shapes = [(width, width)] * 2 + [(width // 8, width)] * 2 + [(feedforward, width)] * 2 + [(width, feedforward)]
    meta = {"device": "meta", "dtype": torch.bfloat16}
    weights = [[torch.empty(shape, **meta, requires_grad=True) for shape in shapes] for _ in range(layers)]
    head = torch.empty(128256, width, **meta, requires_grad=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def program():
        x = torch.empty(1, tokens, width, **meta, requires_grad=True)
        for q, o, k, v, gate, up, down in weights:
            heads = [F.linear(x, weight).unflatten(-1, (-1, 128)).transpose(1, 2) for weight in (q, k, v)]
            seen = F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
            x = x + F.linear(seen.transpose(1, 2).flatten(2), o)
            x = x + F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)
        F.linear(x, head).sum().backward()

    counter = counted(program)
    parameters = head.numel() + sum(weight.numel() for layer in weights for weight in layer)
    attention = layers * 2 * 2 * tokens * tokens * width
    assert parameters > 69e9
    assert counter.matmul == 6 * tokens * parameters + 3 * attention
    unit = 1 if sys.platform == "darwin" else 1024  # bytes
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < 500e6  # the weights are 140 GB


# Speed.


class Block(nn.Module):
    """A layer of GPT-2."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (
            each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(self.before(x)).chunk(3, -1)
        )
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.output(seen)
        return x + self.down(F.gelu(self.up(self.between(x))))


class Gpt2(nn.Module):
    """GPT-2 small, of 124 million parameters."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.blocks = nn.Sequential(*(Block(768, 12) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 50257, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def test_it_has_no_more_to_do_than_flop_counter_mode():
    with torch.device("meta"):
        net = Gpt2()
        tokens = torch.zeros(1, 1024, dtype=torch.int64)

    def called(make):
        def counted_step():
            with make():
                F.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten()).backward()

        return calls(counted_step)

    ours, theirs = called(FlopCounter), called(lambda: FlopCounterMode(display=False))
    print(f"\n{ours} calls, {ours / theirs:.2f} × FlopCounterMode's")
    assert ours <= 1.3 * theirs
    counter = counted(lambda: net(tokens))
    layer = 24 * 1024 * 768**2 + 4 * 1024**2 * 768
    assert counter.matmul == 12 * layer + 2 * 1024 * 768 * 50257


# The table.


def test_the_table_can_be_printed(monkeypatch, capsys):
    from tests.kit.instruments import flop_table

    monkeypatch.setattr(flop_table, "CASES", CASES[:1])
    threads = torch.get_num_threads()
    try:
        main()
    finally:
        torch.set_num_threads(threads)
    header, row = capsys.readouterr().out.splitlines()
    assert header.startswith("case | loops | FlopCounter | FlopCounterMode | fvcore")
    assert row.startswith("x @ w | 210 matmul | right | 210 | ")
