"""FLOPs belong to the modules that did them, under checkpointing too, and the parts never exceed the whole."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

from spec.instruments.flops import FlopCounter
from tests.kit.instruments.flop_cases import values
from tests.kit.instruments.flop_unusual import by_loops

pytestmark = pytest.mark.filterwarnings("ignore")
LAYER = by_loops((2, 4, 8))  # as much as of (2, 8) by 8→4


def pair():
    """Return two layers without biases."""
    return nn.Sequential(nn.Linear(4, 8, bias=False), nn.Linear(8, 4, bias=False))


def products(program):
    """Return the FLOPs of products by module, and the counter."""
    with FlopCounter() as counter:
        program()
    return {name: flops.matmul for name, flops in counter.by_module.items()}, counter


def holds_its_parts(counter):
    """Whether the FLOPs of no module's children exceed its own, all of them together, on every line."""
    modules = counter.by_module
    for name, whole in modules.items():
        if name == "Global":
            children = [other for other in modules if "." not in other and other != "Global"]
        else:
            children = [other for other in modules if _parent(other, modules) == name]
        for line in ("matmul", "bias", "elementwise", "integer"):
            if sum(getattr(modules[child], line) for child in children) > getattr(whole, line):
                return False
    return True


def _parent(name, modules):
    """Return the nearest module that encloses another."""
    while "." in name:
        name = name.rpartition(".")[0]
        if name in modules:
            return name
    return None


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_checkpointing_without_reentry(needs_gradient):
    net, x = pair(), values(2, 4).requires_grad_(needs_gradient)
    modules, counter = products(lambda: checkpoint(net, x, use_reentrant=False).sum().backward())
    # Forward, and again the first layer only, since nothing needs what the second computes; one gradient of the weight
    # each, and one of the input where there is one.
    first, second = (3 + needs_gradient) * LAYER, 3 * LAYER
    assert modules == {
        "Global": first + second,
        "Sequential": first + second,
        "Sequential.0": first,
        "Sequential.1": second,
    }
    assert holds_its_parts(counter)


def test_checkpointing_with_reentry():
    net, x = pair(), values(2, 4).requires_grad_()
    modules, _ = products(lambda: checkpoint(net, x, use_reentrant=True).sum().backward())
    each = 4 * LAYER  # forward, forward again, and two gradients
    assert modules == {"Global": 2 * each, "Sequential": 2 * each, "Sequential.0": each, "Sequential.1": each}


class Checkpointed(nn.Module):
    """A chain of blocks, each checkpointed."""

    def __init__(self, blocks, **options):
        super().__init__()
        self.blocks, self.options = nn.ModuleList(blocks), options

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return x


@pytest.mark.parametrize("reentrant", [False, True])
def test_blocks_of_a_network(reentrant):
    net, x = Checkpointed([pair(), pair()], use_reentrant=reentrant), values(2, 4).requires_grad_()
    modules, counter = products(lambda: net(x).sum().backward())
    for block in range(2):
        assert modules[f"Checkpointed.blocks.{block}.0"] == 4 * LAYER
        assert modules[f"Checkpointed.blocks.{block}.1"] == (3 + reentrant) * LAYER
    assert modules["Checkpointed"] == modules["Global"]
    assert holds_its_parts(counter)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_thread_of_its_own_for_backward_as_devices_have(reentrant):
    net, x = Checkpointed([pair(), pair()], use_reentrant=reentrant), values(2, 4).requires_grad_()

    def step(backward):
        with FlopCounter() as counter:
            for _ in range(2):
                backward(net(x).sum())
        return {name: flops.matmul for name, flops in counter.by_module.items()}, counter

    def in_a_thread(loss):
        pool.submit(loss.backward).result()

    with ThreadPoolExecutor(1) as pool:
        # The thread has made nodes of other modules before, so that its numbers are ahead of the block's.
        pool.submit(lambda: [values(2, 4).requires_grad_().sin() for _ in range(7)]).result()
        modules, counter = step(in_a_thread)
    assert modules == step(lambda loss: loss.backward())[0]
    assert holds_its_parts(counter)


def test_selective_checkpointing_does_not_repeat_what_it_saved():
    def save_products(_, func, *__, **___):
        is_product = func is torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if is_product else CheckpointPolicy.MUST_RECOMPUTE

    def contexts():
        return create_selective_checkpoint_contexts(save_products)

    net, x = pair(), values(2, 4).requires_grad_()
    modules, _ = products(lambda: checkpoint(net, x, use_reentrant=False, context_fn=contexts).sum().backward())
    assert modules == {"Global": 6 * LAYER, "Sequential": 6 * LAYER, "Sequential.0": 3 * LAYER,
                       "Sequential.1": 3 * LAYER}  # fmt: skip


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_sequence(reentrant):
    net, x = nn.Sequential(*pair(), *pair()), values(2, 4).requires_grad_()
    _, counter = products(lambda: checkpoint_sequential(net, 2, x, use_reentrant=reentrant).sum().backward())
    assert holds_its_parts(counter)
    # Only the first half is checkpointed: four layers forward, one or both of its two again, and eight gradients.
    assert counter.matmul == (13 + reentrant) * LAYER


def test_a_module_in_two_others_and_called_twice():
    class Uses(nn.Module):
        def __init__(self, shared):
            super().__init__()
            self.shared = shared

        def forward(self, x):
            return self.shared(self.shared(x))

    shared = nn.Linear(4, 4, bias=False)
    net = nn.Sequential(Uses(shared), Uses(shared))
    modules, counter = products(lambda: net(values(2, 4)).sum().backward())
    call = by_loops((2, 4, 4))
    expected = {"Sequential.0": 5 * call, "Sequential.0.shared": 5 * call}  # its first call has one gradient
    assert {name: modules[name] for name in expected} == expected
    assert modules["Sequential.1.shared"] == modules["Sequential.1"] == 6 * call
    assert holds_its_parts(counter)


def test_what_follows_an_exception_belongs_to_the_module_that_caught_it():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError

    class Catches(nn.Module):
        def __init__(self):
            super().__init__()
            self.fails = Fails()

        def forward(self, x):
            with contextlib.suppress(ValueError):
                self.fails(x)
            return x @ x.T

    modules, _ = products(lambda: Catches()(values(2, 4)))
    assert modules == {"Global": by_loops((2, 4, 2)), "Catches": by_loops((2, 4, 2))}


def test_a_graph_that_was_made_before_belongs_to_no_module():
    result = pair()(values(2, 4)).sum()
    modules, _ = products(result.backward)
    assert modules == {"Global": 3 * LAYER}


# Any tree of modules.


class Node(nn.Module):
    """Calls its children as its recipe says: plainly, checkpointed, twice, after a failure, with backward inside."""

    def __init__(self, way, children):
        super().__init__()
        self.way, self.inner = way, nn.ModuleList(children)
        self.own = nn.Linear(4, 4)

    def forward(self, x):
        for child in self.inner:
            x = WAYS[self.way](child, x)
        return self.own(x)


class Broken(nn.Module):
    """Computes, and fails."""

    def forward(self, x):
        x @ x.T
        raise ValueError


def backward_inside(child, x):
    with torch.enable_grad():
        inside = child(x.detach().requires_grad_())
        inside.sum().backward()
    return x


def after_a_failure(child, x):
    with contextlib.suppress(ValueError):
        Broken()(x)
    return child(x)


def hooked(child, x):
    handle = child.register_forward_hook(lambda module, inputs, output: output + output)
    result = child(x)
    handle.remove()
    return result


WAYS = {
    "plain": lambda child, x: child(x),
    "twice": lambda child, x: child(child(x)),
    "without re-entry": lambda child, x: checkpoint(child, x, use_reentrant=False),
    "with re-entry": lambda child, x: checkpoint(child, x, use_reentrant=True),
    "early stop off": lambda child, x: checkpoint(lambda y: child(y).relu() @ torch.eye(4), x, use_reentrant=False),
    "backward inside": backward_inside,
    "after a failure": after_a_failure,
    "hooked": hooked,
}


@st.composite
def trees(draw):
    """Draw a tree of modules, in which a module may stand in several places."""
    made = [Node("plain", [])]
    for _ in range(draw(st.integers(1, 4))):
        children = draw(st.lists(st.sampled_from(made), max_size=3))
        made.append(Node(draw(st.sampled_from(sorted(WAYS))), children))
    return made[-1]


@given(tree=trees(), grad=st.booleans())
def test_the_parts_never_exceed_the_whole(tree, grad):
    x = values(2, 4).requires_grad_(grad)
    for parameter in tree.parameters():
        parameter.data.mul_(0.1)
    with FlopCounter() as counter:
        tree(x).sum().backward()
    assert holds_its_parts(counter), counter.table()
    assert counter.by_module["Node"].matmul == counter.matmul
