"""§3.2: a deep linear network, and how many parameters it has."""

import copy
import math
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from torch import nn
from torch.nn.utils import parametrize
from torch.optim.swa_utils import AveragedModel

from spec import bounds
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import model
from spec.oracles.samples import (
    are_distributed,
    are_independent,
    are_spread,
    drawn_twice,
    root_mean_square,
    standardised,
)
from spec.oracles.streams import restored, seed_torch, seeded
from spec.oracles.updates import as_float64

NUMBERS = (int, np.int32, np.uint8, np.int64)
LEADING = ((), (0,), (1,), (4,), (2, 3), (2, 0, 3), (2, 1, 3, 2))
DOES_NOT_FIT = (ValueError, RuntimeError)  # torch's own products raise RuntimeError.


def names(num_layers):
    """Return the names of Cruncher's parameters, from the first layer to the head."""
    return [f"layers.{index}.weight" for index in range(num_layers)] + ["final.weight"]


def small_integers(*shape, start=0, dtype=torch.float32, device="cpu"):
    """Return −1, 0 and 1 in an irregular order; products and sums of a few of them have no rounding error."""
    numbers = torch.arange(math.prod(shape), device=device) + start
    return ((numbers * numbers + numbers // 3) % 3 - 1).to(dtype).reshape(shape)


def in_order(module):
    """Return a module's weights from the first layer to the last, whatever order it registers them in."""
    found = dict(module.named_parameters())
    return [found[name] for name in sorted(found, key=lambda name: (name.startswith("final"), len(name), name))]


def filled(module):
    """Give every weight of a module new values, in place, and return them in order."""
    weights = [small_integers(*weight.shape, start=5 * index) for index, weight in enumerate(in_order(module))]
    with torch.no_grad():
        for weight, values in zip(in_order(module), weights, strict=True):
            weight.copy_(values)
    return [as_float64(values) for values in weights]


def through(x, weights):
    """Return the output x·W₁·…·w, and the gradients of the sum of the outputs for x and for each weight.

    The gradient for a layer's weight is (the layer's input)ᵀ · (the gradient for its output), and the one for its input
    is (the gradient for its output)·Wᵀ.
    """
    activations = [x]
    for weight in weights:
        activations.append(activations[-1] @ weight)
    slope, slopes = np.ones_like(activations[-1]), []
    for index in reversed(range(len(weights))):
        slopes.append(activations[index].T @ slope)
        slope = slope @ weights[index].T
    return activations[-1][:, 0], slope, *slopes[::-1]


def gradient(tensor):
    """Return a tensor's gradient on the CPU; None where it has none."""
    return None if tensor.grad is None else tensor.grad.cpu()


def magnitude(x, weights):
    """Return |x|·|W₁|·…·|w|, the size of the sums whose rounding error is to be bounded."""
    for weight in weights:
        x = np.abs(x) @ np.abs(weight)
    return torch.as_tensor(x[:, 0])


def flat(module):
    """Return all of a module's weights in one vector."""
    return torch.cat([weight.detach().flatten() for weight in in_order(module)])


@verifies(model.SHAPES)
@example(points=3, dim=3, num_layers=3, seed=0)
@example(points=1, dim=1, num_layers=1, seed=0)
@example(points=1, dim=4, num_layers=0, seed=0)
@example(points=0, dim=2, num_layers=2, seed=0)
@given(points=st.sizes_with_zero, dim=st.sizes, num_layers=st.up_to_three, seed=st.seeds)
def test_a_batch_is_multiplied_through_the_layers(impl, evidence, device, points, dim, num_layers, seed):
    """With small integers as weights the output is exactly x·W₁·…·w, of shape (B,), and all gradients are exact."""
    network = impl.model.Cruncher(dim, num_layers, generator=seeded(seed)).to(device)
    evidence.equal(sorted(dict(network.named_parameters())), sorted(names(num_layers)), what="the parameters' names")
    weights = filled(network)
    x = small_integers(points, dim, start=seed % 7, device=device)
    predicted, *slopes = map(torch.as_tensor, through(as_float64(x), weights))
    evidence.equal(network(x).detach().cpu(), predicted.float(), what="the output")
    evidence.equal(x, small_integers(points, dim, start=seed % 7, device=device), what="the batch afterwards")
    evidence.equal(x._version, 0, what="in-place changes of the batch")
    evidence.equal(network.eval()(-x).detach().cpu(), -predicted.float(), what="the output for −x in eval mode")
    y = network.train()(x.requires_grad_())
    evidence.equal(y.detach().cpu(), predicted.float(), what="the output in train mode")
    y.sum().backward()
    for tensor, name, slope in zip((x, *in_order(network)), ("batch", *names(num_layers)), slopes, strict=True):
        evidence.equal(gradient(tensor), slope.float(), what="the gradient", of=name)


@verifies(model.SHAPES)
def test_large_batches_and_what_is_not_a_number(impl, evidence, device):
    """A thousand points are multiplied exactly, also after the head's weight is replaced; a NaN stays in its row."""
    network = impl.model.Cruncher(70, 2, generator=seeded(1)).to(device).eval()
    filled(network)
    x = small_integers(1000, 70, device=device)
    network(x[:1])
    network.final.weight = nn.Parameter(small_integers(70, 1, start=3, device=device))
    exact, *_ = through(as_float64(x), [as_float64(weight) for weight in in_order(network)])
    predicted = torch.as_tensor(exact).float()
    evidence.equal(network(x).detach().cpu(), predicted, what="the output", x=(1000, 70), num_layers=2)
    x[17, 3] = predicted[17] = math.nan
    evidence.equal(
        network(x).detach().cpu(), predicted, what="the output with a NaN in the batch", x=(1000, 70), num_layers=2
    )


@verifies(model.SHAPES)
def test_a_dozen_layers_keep_their_order(impl, evidence, device):
    """A batch is multiplied by twelve layers in their order, layers.10 after layers.2, and each has a gradient."""
    network = impl.model.Cruncher(3, 12, generator=seeded(1)).to(device)
    with torch.no_grad():
        # No two neighbours commute, so that any other order gives another output; the product is invertible.
        for index, weight in enumerate(in_order(network)):
            weight.copy_(torch.eye(3)[:, : weight.shape[1]])
            weight[index % 3, (index + 1) % weight.shape[1]] = 2 - index % 2
    x = small_integers(6, 3, device=device)
    predicted, _, *slopes = map(
        torch.as_tensor, through(as_float64(x), [as_float64(weight) for weight in in_order(network)])
    )
    y = network(x)
    evidence.equal(y.detach().cpu(), predicted.float(), what="the output", x=(6, 3), num_layers=12)
    y.sum().backward()
    for weight, name, slope in zip(in_order(network), names(12), slopes, strict=True):
        evidence.equal(gradient(weight), slope.float(), what="the gradient", of=name)


@verifies(model.SHAPES)
def test_layers_that_share_a_weight_each_multiply_by_it(impl, evidence, device):
    """Two layers that share a weight both multiply by it, and its gradient is the sum of both gradients."""
    for share in (lambda layers: layers.__setitem__(2, layers[0]), lambda layers: tie(layers[2], layers[0])):
        network = impl.model.Cruncher(3, 4, generator=seeded(1)).to(device)
        share(network.layers)
        filled(network)
        x = small_integers(4, 3, device=device)
        weights = [layer.weight for layer in (*network.layers, network.final)]
        predicted, _, *slopes = map(torch.as_tensor, through(as_float64(x), [as_float64(weight) for weight in weights]))
        y = network(x)
        evidence.equal(y.detach().cpu(), predicted.float(), what="the output")
        y.sum().backward()
        evidence.equal(gradient(weights[0]), (slopes[0] + slopes[2]).float(), what="the shared weight's gradient")


def tie(layer, other):
    """Let a layer share another layer's weight."""
    layer.weight = other.weight


def assigned(network, weights):
    """Assign a new parameter to each layer's weight."""
    for layer, weight in zip((*network.layers, network.final), weights, strict=True):
        layer.weight = nn.Parameter(weight.clone())
    return network


def loaded(network, weights):
    """Replace the parameters by new ones with load_state_dict(assign=True)."""
    network.load_state_dict(dict(zip(names(len(weights) - 1), weights, strict=True)), strict=False, assign=True)
    return network


def called_with(network, weights):
    """Return a function that calls the network with other weights, by torch.func.functional_call."""
    return partial(torch.func.functional_call, network, dict(zip(names(len(weights) - 1), weights, strict=True)))


class Constant(nn.Module):
    """Is a parametrization whose result is always the same weight."""

    def __init__(self, weight):
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, _):
        return self.weight


def parametrized(network, weights):
    """Register a parametrization that computes each layer's weight."""
    for layer, weight in zip((*network.layers, network.final), weights, strict=True):
        parametrize.register_parametrization(layer, "weight", Constant(weight))
    return network


@verifies(model.SHAPES)
def test_replaced_weights_count(impl, evidence, device):
    """A network multiplies by its present weights, be they assigned, loaded, computed or passed in the call."""
    x = small_integers(4, 3, start=2, device=device)
    weights = [small_integers(3, columns, start=7 * columns + index) for index, columns in enumerate((3, 3, 1))]
    predicted, *_ = map(torch.as_tensor, through(as_float64(x), [as_float64(weight) for weight in weights]))
    for way in (assigned, loaded, called_with, parametrized):
        network = impl.model.Cruncher(3, 2, generator=seeded(1)).to(device)
        network(x)
        call = way(network, [weight.to(device) for weight in weights])
        evidence.equal(call(x).detach().cpu(), predicted.float(), what="the output", way=way.__name__)


@verifies(model.SHAPES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=lambda mode: mode.__name__)
def test_a_later_call_leaves_an_output_as_it_is(impl, evidence, device, mode):
    """Without gradients each call returns a new tensor, which later calls on batches of the same size leave alone."""
    networks = [impl.model.Cruncher(3, 1, generator=seeded(1)).to(device) for _ in range(2)]
    weights = [filled(network) for network in networks]
    networks[1].final.weight.data.mul_(2)
    x = small_integers(4, 3, device=device)
    once, *_ = map(torch.as_tensor, through(as_float64(x), weights[0]))
    with mode():
        outputs = [network(x) for network in networks]
        networks[0](-x)
    for factor, output in enumerate(outputs, start=1):
        evidence.equal(output.cpu(), (once * factor).float(), what="the output after later calls", factor=factor)


@verifies(model.SHAPES)
def test_a_frozen_weight_lets_gradients_through(impl, evidence, device):
    """A frozen weight gets no gradient, and the gradients of the other weights are the same as without freezing."""
    x = small_integers(4, 3, start=1, device=device)
    for frozen in range(3):
        network = impl.model.Cruncher(3, 2, generator=seeded(1)).to(device)
        _, _, *slopes = map(torch.as_tensor, through(as_float64(x), filled(network)))
        in_order(network)[frozen].requires_grad_(False)
        network(x).sum().backward()
        for index, (weight, slope) in enumerate(zip(in_order(network), slopes, strict=True)):
            expected = None if index == frozen else slope.float()
            evidence.equal(gradient(weight), expected, what="the gradient", of=names(2)[index], frozen=frozen)


@verifies(model.SHAPES)
def test_hooks_are_called(impl, evidence, device):
    """Forward hooks of the network and of a layer are called, and may change the batch and the output."""
    x = small_integers(4, 3, device=device)
    for module in (impl.model.Cruncher(3, 1, generator=seeded(1)), impl.model.Linear(3, 2, generator=seeded(1))):
        filled(module.to(device))
        predicted = module(-x).detach() + 1
        module.register_forward_pre_hook(lambda module, batch: (-batch[0],))
        module.register_forward_hook(lambda module, batch, output: output + 1)
        evidence.equal(module(x).detach(), predicted, what="the output", of=type(module).__name__)


@verifies(model.SHAPES)
@given(points=st.sizes, dim=st.widths, num_layers=st.up_to_three, seed=st.seeds)
def test_fresh_weights_only_multiply(impl, evidence, device, points, dim, num_layers, seed):
    """With freshly drawn weights, too, the output is x·W₁·…·w, within rounding."""
    generator = seeded(seed)
    network = impl.model.Cruncher(dim, num_layers, generator=generator).to(device)
    x = torch.randn(dim, points, generator=generator).mT.to(device)
    weights = [as_float64(weight) for weight in in_order(network)]
    predicted, *_ = through(as_float64(x), weights)
    tolerance = bounds.rounding.products(magnitude(as_float64(x), weights), [dim] * (num_layers + 1), torch.float32)
    evidence.close(network(x), torch.as_tensor(predicted), tolerance=tolerance, what="the output")


@verifies(model.SHAPES)
@example(sizes=(4, 4))
@example(sizes=(1, 1))
@given(sizes=st.linear_sizes)
def test_a_linear_layer_multiplies_the_last_dimension(impl, evidence, device, sizes):
    """Linear maps (…, inputs) to (…, outputs) for any leading dimensions, with the right gradient."""
    inputs, outputs = sizes
    for number, leading in zip((*NUMBERS, int, int, int), LEADING, strict=True):
        layer = impl.model.Linear(number(inputs), outputs=number(outputs), generator=seeded(1)).to(device)
        evidence.equal([*dict(layer.named_parameters())], ["weight"], what="the parameters' names")
        evidence.equal(tuple(layer.weight.shape), sizes, what="the weight's shape")
        (weight,) = filled(layer)
        x = small_integers(*leading, inputs, device=device)
        y = layer(x)
        predicted = torch.as_tensor(as_float64(x) @ weight).float()
        evidence.equal(y.detach().cpu(), predicted, what="the output", leading=leading)
        y.sum().backward()
        slope = torch.as_tensor(as_float64(x).reshape(-1, inputs).sum(0)[:, None].repeat(outputs, 1))
        evidence.equal(gradient(layer.weight), slope.float(), what="the gradient", leading=leading)


@verifies(model.SHAPES)
@given(sizes=st.sampled_networks, seed=st.seeds)
def test_every_layer_starts_as_scaled_normal(impl, evidence, sizes, seed):
    """The weights of all layers, times √fan_in, are independent, standard normal and drawn from the generator alone."""
    dim, num_layers = sizes

    def draw(generator):
        weights = flat(impl.model.Cruncher(dim, num_layers, generator=generator))
        evidence.equal(len(weights), dim**2 * num_layers + dim, what="the number of weights")
        return weights

    values = standardised(drawn_twice(evidence, draw, seed, torch.device("cpu")), 1 / math.sqrt(dim)).reshape(-1, dim)
    are_spread(evidence, values, torch.float32)
    are_distributed(evidence, values, torch.float32)
    are_independent(evidence, values, torch.float32)


@verifies(model.SHAPES)
@settings(max_examples=2)
@given(seed=st.seeds)
def test_the_head_starts_as_the_layers_do(impl, evidence, seed):
    """Over many networks the weights of each layer and of the head, times √fan_in, have mean 0 and deviation 1."""
    generator = seeded(seed)
    networks = [in_order(impl.model.Cruncher(32, 2, generator=generator)) for _ in range(24)]
    for name, weights in zip(names(2), zip(*networks, strict=True), strict=True):
        values = standardised(torch.cat(weights), 1 / math.sqrt(32))
        mean = bounds.chance.normal_mean(values.size) + bounds.chance.sampled(torch.float32)
        evidence.close(values.mean(), 0.0, tolerance=mean, what="the mean of √fan_in·w", of=name)
        off = bounds.chance.chi_square(values.size) / values.size + bounds.chance.sampled(torch.float32)
        measured, tolerance = root_mean_square(values), bounds.chance.spread(1.0, off)
        evidence.close(measured, 1.0, tolerance=tolerance, what="the deviation of √fan_in·w", of=name)


@verifies(model.SHAPES)
@given(shape=st.weight_shapes, seed=st.seeds)
def test_a_linear_layer_starts_as_scaled_normal(impl, evidence, shape, seed):
    """Linear's weights times √inputs are standard normal, whatever the number of outputs."""

    def draw(generator):
        return impl.model.Linear(*shape, generator=generator).weight

    values = standardised(drawn_twice(evidence, draw, seed, torch.device("cpu")), 1 / math.sqrt(shape[0]))
    are_spread(evidence, values, torch.float32)
    are_distributed(evidence, values, torch.float32)


@verifies(model.SHAPES)
@given(seed=st.seeds)
def test_without_a_generator_weights_come_from_torchs_own_stream(impl, evidence, seed):
    """Without a generator equal states of torch's own stream give equal weights, and later states give others."""
    for build in (partial(impl.model.Cruncher, 6, 2), partial(impl.model.Linear, 7, 5)):
        with restored():
            seed_torch(seed)
            first, second = flat(build()), flat(build())
            seed_torch(seed)
            again = flat(build())
        evidence.equal(again, first, what="the weights from the same state of torch's stream")
        evidence.true(not torch.equal(second, first), "the next state of torch's stream gives other weights")


@verifies(model.SHAPES)
def test_sizes_that_do_not_fit_are_refused(impl, evidence):
    """Negative sizes raise ValueError, sizes that are no integers TypeError, and batches of another width an error."""
    cruncher, linear = (partial(build, generator=seeded(1)) for build in (impl.model.Cruncher, impl.model.Linear))
    for build, sizes in product((cruncher, linear), ((-1, 2), (2, -1), (0, -3))):
        evidence.raises(ValueError, partial(build, *sizes), sizes=sizes)
    for build, sizes in product((cruncher, linear), ((2.0, 3), (3, 2.5), ("3", 2), (2, None))):
        evidence.raises(TypeError, partial(build, *sizes), sizes=sizes)
    for module in (cruncher(4, 1), cruncher(4, 0), linear(4, 2)):
        for width in (3, 5, 1):
            evidence.raises(DOES_NOT_FIT, partial(module, torch.ones(2, width)), width=width)


@verifies(model.PARAMETERS)
def test_there_are_d_squared_l_plus_d(impl, evidence):
    """Cruncher has a D×D weight per layer and a D×1 head, D²L + D parameters, and count_parameters says so."""
    for dim, num_layers in (*product(range(1, 6), range(4)), (3, 12), (70, 3), (300, 1)):
        for number in NUMBERS if dim < 256 else (int,):
            network = impl.model.Cruncher(number(dim), num_layers=number(num_layers), generator=seeded(1))
            inputs = {"dim": dim, "num_layers": num_layers}
            shapes = {name: tuple(weight.shape) for name, weight in network.named_parameters()}
            predicted = dict.fromkeys(names(num_layers), (dim, dim)) | {"final.weight": (dim, 1)}
            evidence.equal(shapes, predicted, what="the parameters' names and shapes", **inputs)
            count = dim**2 * num_layers + dim
            numbers = sum(math.prod(shape) for shape in shapes.values())
            evidence.equal(numbers, count, what="the network's size", unit="parameters", **inputs)
            evidence.equal(
                impl.model.count_parameters(network), count, what="count_parameters", unit="parameters", **inputs
            )
            saved = sorted(set(names(num_layers)) & set(network.state_dict()))  # It may hold buffers as well.
            evidence.equal(saved, sorted(names(num_layers)), what="the weights in the state_dict", **inputs)


@verifies(model.PARAMETERS)
def test_every_parameter_counts_once(impl, evidence):
    """Every parameter counts once, be it shared, frozen or deeply nested, and buffers do not count."""

    def counts(module, expected, of):
        counted, shapes = impl.model.count_parameters(module), [tuple(each.shape) for each in module.parameters()]
        kind = type(counted).__name__
        evidence.true(isinstance(counted, int), "count_parameters returns an int", returned=kind, shapes=shapes)
        evidence.equal(counted, expected, what=f"the count of {of}", unit="parameters", shapes=shapes)

    module = nn.Module()
    counts(module, 0, of="an empty module")
    module.weight = nn.Parameter(torch.zeros(3, 5))
    module.frozen = nn.Parameter(torch.zeros(7, dtype=torch.float64), requires_grad=False)
    module.scalar = nn.Parameter(torch.zeros((), dtype=torch.bfloat16))
    module.empty = nn.Parameter(torch.zeros(0, 4))
    module.register_buffer("buffer", torch.zeros(100))
    counts(module, 15 + 7 + 1, of="a module with frozen, scalar and empty ones")
    outer = nn.Module()
    outer.first, outer.second = module, module
    outer.tied = module.weight
    outer.twice = nn.ModuleList([module, nn.ModuleDict({"inner": module})])
    counts(outer, 15 + 7 + 1, of="a module that shares all of them")
    outer.equal = nn.Parameter(torch.zeros(3, 5))
    outer.overlapping = nn.Parameter(module.weight.detach()[:1])
    counts(outer, 15 + 7 + 1 + 15 + 5, of="a module with equal and overlapping ones")
    outer.third = impl.model.Cruncher(4, 2, generator=seeded(1))
    counts(outer, 15 + 7 + 1 + 15 + 5 + 36, of="a module with a Cruncher")
    outer.huge = nn.Parameter(torch.empty(2**31, 2**24 + 1, device="meta"))
    counts(outer, 79 + 2**55 + 2**31, of="a module with more than 2⁵³")
    outer.alike = nn.Parameter(torch.empty(2**31, 2**24 + 1, device="meta"))
    counts(outer, 79 + 2**56 + 2**32, of="a module with two on the meta device")
    for inputs in range(1, 21):  # A new module may get the id of one that was deleted.
        counts(impl.model.Linear(inputs, 3, generator=seeded(1)), 3 * inputs, of="a layer")


class WithBias(nn.Module):
    """Is the notes' network built from torch.nn.Linear, which the notes import later."""

    def __init__(self, dim, num_layers):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(num_layers)])
        self.final = nn.Linear(dim, 1)


@refutes(model.PARAMETERS)
def test_biases_add_ld_plus_one(impl, evidence):
    """With torch.nn.Linear there are L·D + 1 parameters more: L(D² + D) + D + 1."""
    for dim, num_layers in product((1, 2, 5, 64), range(4)):
        with restored():
            network = WithBias(dim, num_layers)
        measured = sum(weight.numel() for weight in network.parameters())
        inputs = {"dim": dim, "num_layers": num_layers}
        what, unit = "the size of a network with biases", "parameters"
        evidence.differs(measured, dim**2 * num_layers + dim, what=what, unit=unit, **inputs)
        evidence.equal(measured, num_layers * (dim**2 + dim) + dim + 1, what=what, unit=unit, **inputs)
        counted = impl.model.count_parameters(network)
        evidence.equal(counted, measured, what="count_parameters", unit=unit, **inputs)


class Holder(nn.Module):
    """Holds layers in a container, a ModuleList or a plain list."""

    def __init__(self, container, count):
        super().__init__()
        self.layers = container([nn.Module() for _ in range(count)])
        for layer in self.layers:
            layer.weight = nn.Parameter(torch.ones(2))


def lower_by_one(module, parameters):
    """Take an SGD step that lowers each of the parameters by 1, if the optimizer finds it in the module."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    sum(weight.sum() for weight in parameters).backward()
    optimizer.step()


@verifies(model.MODULE_LIST)
@given(count=st.small)
def test_an_optimizer_finds_what_a_module_list_holds(evidence, count):
    """An optimizer moves the weights of layers in a ModuleList, and none of those in a plain list."""
    for container, listed in ((nn.ModuleList, count), (list, 0)):
        holder = Holder(container, count)
        holder.other = nn.Parameter(torch.ones(()))
        weights = [layer.weight for layer in holder.layers]
        lower_by_one(holder, [*weights, holder.other])
        moved = sum(int((weight == 0).all()) for weight in weights)
        evidence.equal(moved, listed, what="the layers that a step moves", unit="layers", container=container.__name__)
        saved = len(holder.state_dict())
        evidence.equal(
            saved, listed + 1, what="the size of the state_dict", unit="tensors", container=container.__name__
        )


@verifies(model.MODULE_LIST)
@given(dim=st.small, num_layers=st.up_to_three)
def test_an_optimizer_moves_every_layer_of_cruncher(impl, evidence, dim, num_layers):
    """Cruncher's layers are Linear in a ModuleList, and one step moves each of their weights and the head's."""
    network = impl.model.Cruncher(dim, num_layers, generator=seeded(1))
    held = type(network.layers).__name__
    evidence.true(isinstance(network.layers, nn.ModuleList), "the layers are in a ModuleList", layers=held)
    layers = [*network.layers, network.final]
    evidence.equal(len(layers), num_layers + 1, what="the number of layers and the head", unit="layers")
    for name, layer in zip(names(num_layers), layers, strict=True):
        evidence.true(isinstance(layer, impl.model.Linear), "the layer is a Linear", weight=name, layer=repr(layer))
    before = [layer.weight.detach().clone() for layer in layers]
    lower_by_one(network, [layer.weight for layer in layers])
    for name, layer, old in zip(names(num_layers), layers, before, strict=True):
        evidence.equal(layer.weight.data, old - 1, what="the weight after a step", weight=name)


@verifies(model.MODULE_LIST)
@given(seed=st.seeds)
def test_a_state_dict_holds_all_there_is(impl, evidence, seed):
    """A network that loads another's state_dict gives its output; so do a copy, an average and one of the same seed."""
    build = partial(impl.model.Cruncher, 5, 2)
    network, loaded, alike = (build(generator=seeded(each)) for each in (seed, seed + 1, seed))
    loaded.load_state_dict(network.state_dict())
    others = {"loaded one": loaded, "copy": copy.deepcopy(network), "average": AveragedModel(network), "alike": alike}
    x = small_integers(3, 5, start=seed % 7)
    y = network(x).detach()
    evidence.equal(loaded(x).detach(), y, what="the output after load_state_dict")
    filled(network)
    for name, other in others.items():
        evidence.equal(other(x).detach(), y, what="the output after the first network has changed", of=name)
    others["average"].update_parameters(network)  # The first update sets the average to the network's weights.
    evidence.equal(others["average"](x).detach(), network(x).detach(), what="the average's output after an update")


@verifies(model.DEVICE)
@given(num_layers=st.up_to_three, dtype=st.float_dtypes)
def test_every_parameter_moves(impl, evidence, device, num_layers, dtype):
    """After to() all parameters have the device and the dtype, and so have the output and the gradients."""
    network = impl.model.Cruncher(4, num_layers, generator=seeded(1)).to(device, dtype)
    where = {(weight.device.type, weight.dtype) for weight in network.parameters()}
    evidence.equal(where, {(device.type, dtype)}, what="the parameters' devices and dtypes")
    weights = filled(network)
    x = small_integers(3, 4, dtype=dtype, device=device)
    y = network(x)
    y.sum().backward()
    predicted, _, *slopes = through(as_float64(x), weights)
    evidence.equal(y.device.type, device.type, what="the output's device")
    evidence.equal(y.detach().cpu(), torch.as_tensor(predicted).to(dtype), what="the output")
    for weight, slope in zip(in_order(network), slopes, strict=True):
        evidence.equal(gradient(weight), torch.as_tensor(slope).to(dtype), what="the gradient")


@verifies(model.DEVICE)
def test_nothing_stays_behind(impl, evidence):
    """On the meta device, where tensors have no values, the output and all gradients are on that device, too."""
    for num_layers in range(3):
        network = impl.model.Cruncher(4, num_layers, generator=seeded(1)).to("meta")
        y = network(torch.ones(3, 4, device="meta"))
        y.sum().backward()
        devices = [weight.grad.device.type for weight in network.parameters() if weight.grad is not None]
        evidence.equal(y.device.type, "meta", what="the output's device", num_layers=num_layers)
        evidence.equal(devices, ["meta"] * (num_layers + 1), what="the gradients' devices", num_layers=num_layers)
        evidence.equal(tuple(y.shape), (3,), what="the output's shape", num_layers=num_layers)


@verifies(model.DEVICE)
def test_a_network_starts_in_torchs_default_dtype(impl, evidence):
    """Every parameter is created in torch's default dtype."""
    before = torch.get_default_dtype()
    for dtype in (torch.float64, torch.bfloat16):
        torch.set_default_dtype(dtype)
        try:
            network = impl.model.Cruncher(4, 2, generator=seeded(1))
        finally:
            torch.set_default_dtype(before)
        dtypes = sorted({str(weight.dtype) for weight in network.parameters()})
        evidence.equal(dtypes, [str(dtype)], what="the parameters' dtypes", default=dtype)
