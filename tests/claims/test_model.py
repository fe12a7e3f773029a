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

NUMBERS = (int, np.int32, np.uint8, np.int64)
LEADING = ((), (0,), (1,), (4,), (2, 3), (2, 0, 3), (2, 1, 3, 2))
DOES_NOT_FIT = (ValueError, RuntimeError)  # torch's products raise the latter


def names(num_layers):
    return [f"layers.{place}.weight" for place in range(num_layers)] + ["final.weight"]


def small_integers(*shape, start=0, dtype=torch.float32, device="cpu"):
    """Return −1, 0 and 1 in no simple order: products and sums of a few of them are exact."""
    places = torch.arange(math.prod(shape), device=device) + start
    return ((places * places + places // 3) % 3 - 1).to(dtype).reshape(shape)


def exactly(tensor):
    """Return the values as NumPy float64, which holds each of them exactly."""
    return tensor.detach().cpu().double().numpy()


def in_order(module):
    """Return a module's weights from the first layer to the last, whatever order it registers them in."""
    found = dict(module.named_parameters())
    return [found[name] for name in sorted(found, key=lambda name: (name.startswith("final"), len(name), name))]


def filled(module):
    """Give every weight of a module new values, in place, and return them in order."""
    weights = [small_integers(*weight.shape, start=5 * place) for place, weight in enumerate(in_order(module))]
    with torch.no_grad():
        for weight, values in zip(in_order(module), weights, strict=True):
            weight.copy_(values)
    return [exactly(values) for values in weights]


def through(x, weights):
    """Multiply a batch through the weights; return the output, and the gradients of its sum for x and each weight."""
    reached = [x]
    for weight in weights:
        reached.append(reached[-1] @ weight)
    slope, slopes = np.ones_like(reached[-1]), []
    for place in reversed(range(len(weights))):
        slopes.append(reached[place].T @ slope)
        slope = slope @ weights[place].T
    return reached[-1][:, 0], slope, *slopes[::-1]


def gradient(tensor):
    """Return a gradient, or None where there is none."""
    return None if tensor.grad is None else tensor.grad.cpu()


def magnitude(x, weights):
    """Return what the absolute values of a batch become."""
    for weight in weights:
        x = np.abs(x) @ np.abs(weight)
    return torch.as_tensor(x[:, 0])


def flat(module):
    """Return all of a module's weights, one after the other."""
    return torch.cat([weight.detach().flatten() for weight in in_order(module)])


@verifies(model.SHAPES)
@example(points=3, dim=3, num_layers=3, seed=0)
@example(points=1, dim=1, num_layers=1, seed=0)
@example(points=1, dim=4, num_layers=0, seed=0)
@example(points=0, dim=2, num_layers=2, seed=0)
@given(points=st.sizes_with_zero, dim=st.sizes, num_layers=st.up_to_three, seed=st.seeds)
def test_a_batch_is_multiplied_through_the_layers(impl, evidence, device, points, dim, num_layers, seed):
    """The output is x·W₁·…·w exactly, of shape (B,), whatever the weights are now; so are all gradients."""
    network = impl.model.Cruncher(dim, num_layers, generator=seeded(seed)).to(device)
    evidence.equal(sorted(dict(network.named_parameters())), sorted(names(num_layers)), unit="as the parameters' names")
    weights = filled(network)
    x = small_integers(points, dim, start=seed % 7, device=device)
    predicted, *slopes = map(torch.as_tensor, through(exactly(x), weights))
    evidence.equal(network(x).detach().cpu(), predicted.float(), unit="as the output")
    evidence.equal(x, small_integers(points, dim, start=seed % 7, device=device), unit="as the batch afterwards")
    evidence.equal(x._version, 0, unit="changes to the batch")
    evidence.equal(network.eval()(-x).detach().cpu(), -predicted.float(), unit="as the negated batch's output")
    y = network.train()(x.requires_grad_())
    evidence.equal(y.detach().cpu(), predicted.float(), unit="as the output again")
    y.sum().backward()
    for tensor, name, slope in zip((x, *in_order(network)), ("batch", *names(num_layers)), slopes, strict=True):
        evidence.equal(gradient(tensor), slope.float(), unit="as the gradient", of=name)


@verifies(model.SHAPES)
def test_large_batches_and_what_is_not_a_number(impl, evidence, device):
    """A thousand points are multiplied exactly too, by a weight in the place of another; a NaN stays its row's."""
    network = impl.model.Cruncher(70, 2, generator=seeded(1)).to(device).eval()
    filled(network)
    x = small_integers(1000, 70, device=device)
    network(x[:1])
    network.final.weight = nn.Parameter(small_integers(70, 1, start=3, device=device))
    exact, *_ = through(exactly(x), [exactly(weight) for weight in in_order(network)])
    predicted = torch.as_tensor(exact).float()
    evidence.equal(network(x).detach().cpu(), predicted, unit="as the output", x=(1000, 70), num_layers=2)
    x[17, 3] = predicted[17] = math.nan
    evidence.equal(network(x).detach().cpu(), predicted, unit="as the output with one NaN", x=(1000, 70), num_layers=2)


@verifies(model.SHAPES)
def test_a_dozen_layers_keep_their_order(impl, evidence, device):
    """Twelve layers are all multiplied through, the tenth after the second, and gradients reach each of them."""
    network = impl.model.Cruncher(3, 12, generator=seeded(1)).to(device)
    with torch.no_grad():
        for place, weight in enumerate(in_order(network)):  # no two neighbours commute, and the product is invertible
            weight.copy_(torch.eye(3)[:, : weight.shape[1]])
            weight[place % 3, (place + 1) % weight.shape[1]] = 2 - place % 2
    x = small_integers(6, 3, device=device)
    predicted, _, *slopes = map(torch.as_tensor, through(exactly(x), [exactly(weight) for weight in in_order(network)]))
    y = network(x)
    evidence.equal(y.detach().cpu(), predicted.float(), unit="as the output", x=(6, 3), num_layers=12)
    y.sum().backward()
    for weight, name, slope in zip(in_order(network), names(12), slopes, strict=True):
        evidence.equal(gradient(weight), slope.float(), unit="as the gradient", of=name)


@verifies(model.SHAPES)
def test_a_layer_that_is_there_twice_multiplies_twice(impl, evidence, device):
    """Layers that share a weight all multiply by it, and its gradient is the sum of theirs."""
    for share in (lambda layers: layers.__setitem__(2, layers[0]), lambda layers: tie(layers[2], layers[0])):
        network = impl.model.Cruncher(3, 4, generator=seeded(1)).to(device)
        share(network.layers)
        filled(network)
        x = small_integers(4, 3, device=device)
        weights = [layer.weight for layer in (*network.layers, network.final)]
        predicted, _, *slopes = map(torch.as_tensor, through(exactly(x), [exactly(weight) for weight in weights]))
        y = network(x)
        evidence.equal(y.detach().cpu(), predicted.float(), unit="as the output")
        y.sum().backward()
        evidence.equal(gradient(weights[0]), (slopes[0] + slopes[2]).float(), unit="as the shared weight's gradient")


def tie(layer, other):
    """Give a layer another one's weight."""
    layer.weight = other.weight


def assigned(network, weights):
    """Bind each layer's weight to a new parameter."""
    for layer, weight in zip((*network.layers, network.final), weights, strict=True):
        layer.weight = nn.Parameter(weight.clone())
    return network


def loaded(network, weights):
    """Load new parameters in the place of the old ones."""
    network.load_state_dict(dict(zip(names(len(weights) - 1), weights, strict=True)), strict=False, assign=True)
    return network


def called_with(network, weights):
    """Call the network with other weights than its own."""
    return partial(torch.func.functional_call, network, dict(zip(names(len(weights) - 1), weights, strict=True)))


class Put(nn.Module):
    """Computes a weight that is always the same."""

    def __init__(self, weight):
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, _):
        return self.weight


def parametrized(network, weights):
    """Let each layer's weight be computed from what it was."""
    for layer, weight in zip((*network.layers, network.final), weights, strict=True):
        parametrize.register_parametrization(layer, "weight", Put(weight))
    return network


@verifies(model.SHAPES)
def test_weights_may_be_put_in_the_place_of_others(impl, evidence, device):
    """Assigned, loaded, computed or given with the call, the weights of the moment are those that count."""
    x = small_integers(4, 3, start=2, device=device)
    weights = [small_integers(3, columns, start=7 * columns + place) for place, columns in enumerate((3, 3, 1))]
    predicted, *_ = map(torch.as_tensor, through(exactly(x), [exactly(weight) for weight in weights]))
    for way in (assigned, loaded, called_with, parametrized):
        network = impl.model.Cruncher(3, 2, generator=seeded(1)).to(device)
        network(x)
        call = way(network, [weight.to(device) for weight in weights])
        evidence.equal(call(x).detach().cpu(), predicted.float(), unit="as the output", way=way.__name__)


@verifies(model.SHAPES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=lambda mode: mode.__name__)
def test_an_output_stays_as_it_is(impl, evidence, device, mode):
    """Without gradients too, each batch of one size has an output of its own, which later ones leave alone."""
    networks = [impl.model.Cruncher(3, 1, generator=seeded(1)).to(device) for _ in range(2)]
    weights = [filled(network) for network in networks]
    networks[1].final.weight.data.mul_(2)
    x = small_integers(4, 3, device=device)
    once, *_ = map(torch.as_tensor, through(exactly(x), weights[0]))
    with mode():
        outputs = [network(x) for network in networks]
        networks[0](-x)
    for factor, output in enumerate(outputs, start=1):
        evidence.equal(output.cpu(), (once * factor).float(), unit="as the output, after others")


@verifies(model.SHAPES)
def test_what_is_frozen_lets_gradients_through(impl, evidence, device):
    """A weight that requires no gradient gets none, and leaves those of the others as they are."""
    x = small_integers(4, 3, start=1, device=device)
    for frozen in range(3):
        network = impl.model.Cruncher(3, 2, generator=seeded(1)).to(device)
        _, _, *slopes = map(torch.as_tensor, through(exactly(x), filled(network)))
        in_order(network)[frozen].requires_grad_(False)
        network(x).sum().backward()
        for place, (weight, slope) in enumerate(zip(in_order(network), slopes, strict=True)):
            expected = None if place == frozen else slope.float()
            evidence.equal(gradient(weight), expected, unit="as the gradient", of=names(2)[place], frozen=frozen)


@verifies(model.SHAPES)
def test_hooks_are_called(impl, evidence, device):
    """What is hung onto the network or a layer sees the batch and the output, and may change both."""
    x = small_integers(4, 3, device=device)
    for module in (impl.model.Cruncher(3, 1, generator=seeded(1)), impl.model.Linear(3, 2, generator=seeded(1))):
        filled(module.to(device))
        predicted = module(-x).detach() + 1
        module.register_forward_pre_hook(lambda module, batch: (-batch[0],))
        module.register_forward_hook(lambda module, batch, output: output + 1)
        evidence.equal(module(x).detach(), predicted, unit="as the output", of=type(module).__name__)


@verifies(model.SHAPES)
@given(points=st.sizes, dim=st.widths, num_layers=st.up_to_three, seed=st.seeds)
def test_fresh_weights_only_multiply(impl, evidence, device, points, dim, num_layers, seed):
    """With the weights it starts from, the output is their product with the batch, within rounding."""
    generator = seeded(seed)
    network = impl.model.Cruncher(dim, num_layers, generator=generator).to(device)
    x = torch.randn(dim, points, generator=generator).mT.to(device)
    weights = [exactly(weight) for weight in in_order(network)]
    predicted, *_ = through(exactly(x), weights)
    tolerance = bounds.rounding.products(magnitude(exactly(x), weights), [dim] * (num_layers + 1), torch.float32)
    evidence.close(network(x), torch.as_tensor(predicted), tolerance=tolerance, unit="as the output")


@verifies(model.SHAPES)
@example(sizes=(4, 4))
@example(sizes=(1, 1))
@given(sizes=st.linear_sizes)
def test_a_linear_layer_multiplies_the_last_dimension(impl, evidence, device, sizes):
    """(…, inputs) becomes (…, outputs) for any leading dimensions, none and empty ones included, gradients too."""
    inputs, outputs = sizes
    for number, leading in zip((*NUMBERS, int, int, int), LEADING, strict=True):
        layer = impl.model.Linear(number(inputs), outputs=number(outputs), generator=seeded(1)).to(device)
        evidence.equal([*dict(layer.named_parameters())], ["weight"], unit="as the names")
        evidence.equal(tuple(layer.weight.shape), sizes, unit="as the weight's shape")
        (weight,) = filled(layer)
        x = small_integers(*leading, inputs, device=device)
        y = layer(x)
        predicted = torch.as_tensor(exactly(x) @ weight).float()
        evidence.equal(y.detach().cpu(), predicted, unit="as the output", leading=leading)
        y.sum().backward()
        slope = torch.as_tensor(exactly(x).reshape(-1, inputs).sum(0)[:, None].repeat(outputs, 1))
        evidence.equal(gradient(layer.weight), slope.float(), unit="as the gradient", leading=leading)


@verifies(model.SHAPES)
@given(sizes=st.sampled_networks, seed=st.seeds)
def test_every_layer_starts_as_scaled_normal(impl, evidence, sizes, seed):
    """The weights of all layers, times √fan_in, are independent and standard normal, the generator's alone."""
    dim, num_layers = sizes

    def draw(generator):
        weights = flat(impl.model.Cruncher(dim, num_layers, generator=generator))
        evidence.equal(len(weights), dim**2 * num_layers + dim, unit="weights")
        return weights

    values = standardised(drawn_twice(evidence, draw, seed, torch.device("cpu")), 1 / math.sqrt(dim)).reshape(-1, dim)
    are_spread(evidence, values, torch.float32)
    are_distributed(evidence, values, torch.float32)
    are_independent(evidence, values, torch.float32)


@verifies(model.SHAPES)
@settings(max_examples=2)
@given(seed=st.seeds)
def test_the_head_starts_as_the_layers_do(impl, evidence, seed):
    """Over many networks, the weights of each layer and those of the head, times √fan_in, are standard normal."""
    generator = seeded(seed)
    networks = [in_order(impl.model.Cruncher(32, 2, generator=generator)) for _ in range(24)]
    for name, weights in zip(names(2), zip(*networks, strict=True), strict=True):
        values = standardised(torch.cat(weights), 1 / math.sqrt(32))
        mean = bounds.chance.normal_mean(values.size) + bounds.chance.sampled(torch.float32)
        evidence.close(values.mean(), 0.0, tolerance=mean, unit="as the mean", of=name)
        off = bounds.chance.chi_square(values.size) / values.size + bounds.chance.sampled(torch.float32)
        measured, tolerance = root_mean_square(values), bounds.chance.spread(1.0, off)
        evidence.close(measured, 1.0, tolerance=tolerance, unit="times the standard deviation 1/√fan_in", of=name)


@verifies(model.SHAPES)
@given(shape=st.weight_shapes, seed=st.seeds)
def test_a_linear_layer_starts_as_scaled_normal(impl, evidence, shape, seed):
    """The weights times √inputs are standard normal, whatever the number of outputs."""

    def draw(generator):
        return impl.model.Linear(*shape, generator=generator).weight

    values = standardised(drawn_twice(evidence, draw, seed, torch.device("cpu")), 1 / math.sqrt(shape[0]))
    are_spread(evidence, values, torch.float32)
    are_distributed(evidence, values, torch.float32)


@verifies(model.SHAPES)
@given(seed=st.seeds)
def test_without_a_generator_weights_come_from_torchs_own_stream(impl, evidence, seed):
    """Without a generator torch's own stream gives the weights: the same ones from the same state, then others."""
    for build in (partial(impl.model.Cruncher, 6, 2), partial(impl.model.Linear, 7, 5)):
        with restored():
            seed_torch(seed)
            first, second = flat(build()), flat(build())
            seed_torch(seed)
            again = flat(build())
        evidence.equal(again, first, unit="from the same state of torch's stream")
        told = "the same weights" if torch.equal(second, first) else "others"
        evidence.equal(told, "others", unit="from its next state")


@verifies(model.SHAPES)
def test_what_does_not_fit_is_refused(impl, evidence):
    """Negative sizes are a ValueError, what is not an integer a TypeError; a batch of another width is refused."""
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
    """Cruncher has one weight per layer and one of the head: D²L + D numbers, under the contract's names."""
    for dim, num_layers in (*product(range(1, 6), range(4)), (3, 12), (70, 3), (300, 1)):
        for number in NUMBERS if dim < 256 else (int,):
            network = impl.model.Cruncher(number(dim), num_layers=number(num_layers), generator=seeded(1))
            inputs = {"dim": dim, "num_layers": num_layers}
            shapes = {name: tuple(weight.shape) for name, weight in network.named_parameters()}
            predicted = dict.fromkeys(names(num_layers), (dim, dim)) | {"final.weight": (dim, 1)}
            evidence.equal(shapes, predicted, unit="as names and shapes", **inputs)
            count = dim**2 * num_layers + dim
            evidence.equal(sum(math.prod(shape) for shape in shapes.values()), count, unit="parameters", **inputs)
            evidence.equal(impl.model.count_parameters(network), count, unit="parameters counted", **inputs)
            saved = sorted(set(names(num_layers)) & set(network.state_dict()))  # there may be buffers beside them
            evidence.equal(saved, sorted(names(num_layers)), unit="in the state_dict", **inputs)


@verifies(model.PARAMETERS)
def test_every_parameter_counts_once(impl, evidence):
    """Shared parameters count once, frozen ones too, buffers never, however deep they lie and however many they are."""

    def counts(module, expected, *, unit):
        counted, shapes = impl.model.count_parameters(module), [tuple(each.shape) for each in module.parameters()]
        told = "int" if isinstance(counted, int) else type(counted).__name__
        evidence.equal(told, "int", unit="as the type", shapes=shapes)
        evidence.equal(counted, expected, unit=unit, shapes=shapes)

    module = nn.Module()
    counts(module, 0, unit="parameters of nothing")
    module.weight = nn.Parameter(torch.zeros(3, 5))
    module.frozen = nn.Parameter(torch.zeros(7, dtype=torch.float64), requires_grad=False)
    module.scalar = nn.Parameter(torch.zeros((), dtype=torch.bfloat16))
    module.empty = nn.Parameter(torch.zeros(0, 4))
    module.register_buffer("buffer", torch.zeros(100))
    counts(module, 15 + 7 + 1, unit="parameters")
    outer = nn.Module()
    outer.first, outer.second = module, module
    outer.tied = module.weight
    outer.twice = nn.ModuleList([module, nn.ModuleDict({"inner": module})])
    counts(outer, 15 + 7 + 1, unit="parameters, each of them shared")
    outer.equal = nn.Parameter(torch.zeros(3, 5))
    outer.overlapping = nn.Parameter(module.weight.detach()[:1])
    counts(outer, 15 + 7 + 1 + 15 + 5, unit="parameters, some of equal values")
    outer.third = impl.model.Cruncher(4, 2, generator=seeded(1))
    counts(outer, 15 + 7 + 1 + 15 + 5 + 36, unit="parameters, some of a Cruncher's")
    outer.huge = nn.Parameter(torch.empty(2**31, 2**24 + 1, device="meta"))
    counts(outer, 79 + 2**55 + 2**31, unit="parameters, more than 53 bits count")
    outer.alike = nn.Parameter(torch.empty(2**31, 2**24 + 1, device="meta"))
    counts(outer, 79 + 2**56 + 2**32, unit="parameters, two of them without an address")
    for inputs in range(1, 21):  # A module may get the id of one that is gone.
        counts(impl.model.Linear(inputs, 3, generator=seeded(1)), 3 * inputs, unit="parameters of a layer")


class WithBias(nn.Module):
    """The notes' network with the layers that the notes import later."""

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
        evidence.differs(measured, dim**2 * num_layers + dim, unit="parameters", **inputs)
        evidence.equal(measured, num_layers * (dim**2 + dim) + dim + 1, unit="parameters", **inputs)
        evidence.equal(impl.model.count_parameters(network), measured, unit="parameters counted", **inputs)


class Holder(nn.Module):
    """Keeps layers in a container."""

    def __init__(self, container, count):
        super().__init__()
        self.layers = container([nn.Module() for _ in range(count)])
        for layer in self.layers:
            layer.weight = nn.Parameter(torch.ones(2))


def stepped(module, parameters):
    """Take an optimizer's step of 1 down a slope of 1 in each of the parameters."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    sum(weight.sum() for weight in parameters).backward()
    optimizer.step()


@verifies(model.MODULE_LIST)
@given(count=st.small)
def test_an_optimizer_finds_what_a_module_list_holds(evidence, count):
    """An optimizer moves the weights of layers in a ModuleList and cannot know of those in a plain list."""
    for container, listed in ((nn.ModuleList, count), (list, 0)):
        holder = Holder(container, count)
        holder.other = nn.Parameter(torch.ones(()))
        weights = [layer.weight for layer in holder.layers]
        stepped(holder, [*weights, holder.other])
        moved = sum(int((weight == 0).all()) for weight in weights)
        evidence.equal(moved, listed, unit="layers moved", container=container.__name__)
        evidence.equal(len(holder.state_dict()), listed + 1, unit="in the state_dict", container=container.__name__)


@verifies(model.MODULE_LIST)
@given(dim=st.small, num_layers=st.up_to_three)
def test_an_optimizer_moves_every_layer_of_cruncher(impl, evidence, dim, num_layers):
    """One step moves each layer's weight and the head's: they are the parameters of its ModuleList and its head."""
    network = impl.model.Cruncher(dim, num_layers, generator=seeded(1))
    evidence.equal(isinstance(network.layers, nn.ModuleList), True, unit="for a ModuleList")
    layers = [*network.layers, network.final]
    evidence.equal(len(layers), num_layers + 1, unit="layers, the head among them")
    linear = [isinstance(layer, impl.model.Linear) for layer in layers]
    evidence.equal(linear, [True] * (num_layers + 1), unit="for a Linear")
    before = [layer.weight.detach().clone() for layer in layers]
    stepped(network, [layer.weight for layer in layers])
    for name, layer, old in zip(names(num_layers), layers, before, strict=True):
        evidence.equal(layer.weight.data, old - 1, unit="after a step", weight=name)


@verifies(model.MODULE_LIST)
@given(seed=st.seeds)
def test_a_state_dict_holds_all_there_is(impl, evidence, seed):
    """A network that loads another one's state_dict, a copy and one from the same seed give its output on their own."""
    build = partial(impl.model.Cruncher, 5, 2)
    network, loaded, alike = (build(generator=seeded(each)) for each in (seed, seed + 1, seed))
    loaded.load_state_dict(network.state_dict())
    others = {"loaded one": loaded, "copy": copy.deepcopy(network), "average": AveragedModel(network), "alike": alike}
    x = small_integers(3, 5, start=seed % 7)
    y = network(x).detach()
    evidence.equal(loaded(x).detach(), y, unit="after load_state_dict")
    filled(network)
    for name, other in others.items():
        evidence.equal(other(x).detach(), y, unit="as the output, whatever became of the first", of=name)
    others["average"].update_parameters(network)  # the first update replaces what was copied
    evidence.equal(others["average"](x).detach(), network(x).detach(), unit="as the average's output after an update")


@verifies(model.DEVICE)
@given(num_layers=st.up_to_three, dtype=st.float_dtypes)
def test_every_parameter_moves(impl, evidence, device, num_layers, dtype):
    """After to() all parameters are on the device, of the dtype, and forward and backward run in it."""
    network = impl.model.Cruncher(4, num_layers, generator=seeded(1)).to(device, dtype)
    where = {(weight.device.type, weight.dtype) for weight in network.parameters()}
    evidence.equal(where, {(device.type, dtype)}, unit="as all parameters' device and dtype")
    weights = filled(network)
    x = small_integers(3, 4, dtype=dtype, device=device)
    y = network(x)
    y.sum().backward()
    predicted, _, *slopes = through(exactly(x), weights)
    evidence.equal(y.device.type, device.type, unit="as the output's device")
    evidence.equal(y.detach().cpu(), torch.as_tensor(predicted).to(dtype), unit="as the output")
    for weight, slope in zip(in_order(network), slopes, strict=True):
        evidence.equal(gradient(weight), torch.as_tensor(slope).to(dtype), unit="as a gradient")


@verifies(model.DEVICE)
def test_nothing_stays_behind(impl, evidence):
    """Moved to the meta device, where tensors have no values, the network runs as if on a real one."""
    for num_layers in range(3):
        network = impl.model.Cruncher(4, num_layers, generator=seeded(1)).to("meta")
        y = network(torch.ones(3, 4, device="meta"))
        y.sum().backward()
        reached = [weight.grad.device.type for weight in network.parameters() if weight.grad is not None]
        evidence.equal(y.device.type, "meta", unit="as the output's device", num_layers=num_layers)
        evidence.equal(reached, ["meta"] * (num_layers + 1), unit="as the gradients' devices", num_layers=num_layers)
        evidence.equal(tuple(y.shape), (3,), unit="as the shape", num_layers=num_layers)


@verifies(model.DEVICE)
def test_a_network_starts_in_torchs_default_dtype(impl, evidence):
    """Every parameter is made in the dtype that is torch's default at that time."""
    before = torch.get_default_dtype()
    for dtype in (torch.float64, torch.bfloat16):
        torch.set_default_dtype(dtype)
        try:
            network = impl.model.Cruncher(4, 2, generator=seeded(1))
        finally:
            torch.set_default_dtype(before)
        dtypes = sorted({str(weight.dtype) for weight in network.parameters()})
        evidence.equal(dtypes, [str(dtype)], unit="as all parameters' dtype", default=dtype)
