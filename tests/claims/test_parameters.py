"""§3.1: what a parameter is, and how its values start out."""

import math
from functools import partial

import numpy as np
import torch
from hypothesis import example, given, reject, settings
from torch import nn

from spec import bounds
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import parameters
from spec.oracles.samples import (
    are_cut_off,
    are_distributed,
    are_independent,
    are_not_adjusted,
    are_spread,
    beyond,
    drawn_twice,
    has_tails,
    norms_vary,
    root_mean_square,
    standardised,
)
from spec.oracles.streams import restored, seed_torch, seeded

FUNCTIONS = ("normal", "scaled_normal", "truncated_normal")
NUMBERS = (int, np.int32, np.uint16, np.int64)
SQUARE = (60, 60)  # which may be symmetric; 60 is no square itself
MANY = (512, 1024)  # half a million weights
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
POINTS = 32  # inputs to a layer at a time


def in_each_dtype(**inputs):
    """Try these inputs in every dtype, whatever else is drawn."""

    def decorate(test):
        for dtype in DTYPES:
            test = example(dtype=dtype, **inputs)(test)
        return test

    return decorate


def needs(dtype, device):
    """Drop an example whose dtype the device lacks."""
    try:
        torch.empty(0, dtype=dtype, device=device)
    except (TypeError, RuntimeError):
        reject()


def in_place(weight, factor):
    with torch.no_grad():
        weight.mul_(factor)


def through_data(weight, factor):
    weight.data.mul_(factor)


def to_data(weight, factor):
    weight.data = weight.data * factor


IN_PLACE = {"no_grad": in_place, ".data": through_data, "set .data": to_data}


def with_optimizer(values, lr, device):
    """Return a module with one parameter, and an optimizer that was given it."""
    module = nn.Module()
    module.weight = nn.Parameter(torch.tensor(values, device=device))
    return module, torch.optim.SGD(module.parameters(), lr=lr)


def stepped(module, optimizer):
    """Step down a slope of 1 in every direction."""
    module.weight.sum().backward()
    optimizer.step()


@verifies(parameters.IS_TENSOR)
@given(sizes=st.row_sizes)
@example(sizes=(3, 3))  # a square fits from either side
def test_a_parameter_is_a_tensor_that_its_module_lists(evidence, device, sizes):
    """A Parameter is a leaf tensor that requires grad, around a plain Tensor, and its module lists it."""
    values = torch.arange(math.prod(sizes), dtype=torch.float32, device=device).reshape(sizes)
    is_parameter(evidence, nn.Parameter(values))
    evidence.equal(nn.Parameter(values).data, values, unit="as its data")
    frozen = nn.Parameter(values, requires_grad=False)
    evidence.equal(frozen.requires_grad, False, unit="as what was asked for")
    module = nn.Module()
    module.first = module.again = nn.Parameter(values)
    module.alike = nn.Parameter(values.clone())
    names = {id(weight): name for name, weight in vars(module)["_parameters"].items() if name != "first"}
    listed = [names[id(weight)] for weight in module.parameters()]
    evidence.equal(listed, ["again", "alike"], unit="as what a module lists of one under two names and of one alike")


def is_parameter(evidence, weights, **inputs):
    """Check what makes a tensor a parameter."""
    module = nn.Module()
    module.weight = weights
    kinds = [isinstance(weights, kind) for kind in (torch.Tensor, nn.Parameter)] + [type(weights.data) is torch.Tensor]
    evidence.equal(kinds, [True] * 3, unit="for a Tensor, a Parameter, plain data", **inputs)
    evidence.equal([weights.requires_grad, weights.is_leaf], [True] * 2, unit="for requires grad, is a leaf", **inputs)
    listed = [each is weights for each in module.parameters()]
    evidence.equal(listed, [True], unit="as what its module lists", **inputs)


@verifies(parameters.IS_TENSOR)
def test_weights_are_parameters(impl, evidence, device):
    """Each function gives a new parameter of the shape and dtype asked for, in which gradients gather."""
    for name in FUNCTIONS:
        draw = getattr(impl.parameters, name)
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            if dtype is torch.float64 and device.type == "mps":
                continue
            weights = draw(3, 2, generator=seeded(1, device), dtype=dtype, device=device)
            inputs = {"function": name, "dtype": dtype}
            is_parameter(evidence, weights, **inputs)
            evidence.equal(tuple(weights.shape), (3, 2), unit="as the shape", **inputs)
            evidence.equal(weights.dtype, dtype, unit="dtype", **inputs)
            evidence.equal(weights.device.type, device.type, unit="device", **inputs)
            (weights.sum() * 2).backward()
            evidence.equal(weights.grad, torch.full_like(weights.data, 2.0), unit="as the gradient", **inputs)
            before = weights.detach().clone()
            alike = draw(3, 2, generator=seeded(1, device), dtype=dtype, device=device)
            alike.data.zero_()
            evidence.equal(weights.data, before, unit="once another one, drawn alike, has changed", **inputs)
            single = draw(1, 1, generator=seeded(1, device), dtype=dtype, device=device)
            evidence.equal(bool(single.isfinite().all()), True, unit="for a single weight that is finite", **inputs)


@verifies(parameters.IS_TENSOR)
def test_dtype_and_device_are_torchs_unless_given(impl, evidence):
    """Without a dtype it is torch's default one; the device may be given by its name, but has to exist."""
    before = torch.get_default_dtype()
    for name in FUNCTIONS:
        draw = partial(getattr(impl.parameters, name), 3, 2, generator=seeded(1))
        for dtype in (torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            try:
                weights = draw()
            finally:
                torch.set_default_dtype(before)
            evidence.equal(weights.dtype, dtype, unit="dtype", function=name)
            evidence.equal(weights.device.type, "cpu", unit="device", function=name)
        evidence.equal(draw(device="cpu").device.type, "cpu", unit="device", function=name)
        evidence.raises((RuntimeError, ValueError), partial(draw, device="nowhere"), function=name, device="nowhere")


@verifies(parameters.IS_TENSOR)
def test_sizes_are_integers(impl, evidence):
    """Sizes may be Python's or NumPy's integers; negative ones are a ValueError, anything else a TypeError."""
    for name in FUNCTIONS:
        draw = partial(getattr(impl.parameters, name), generator=seeded(1))
        for number in NUMBERS:
            weights = draw(fan_out=number(2), fan_in=number(300))
            evidence.equal(tuple(weights.shape), (300, 2), unit="as the shape", function=name, number=number.__name__)
        for sizes in ((0, 3), (3, 0), (0, 0)):
            try:
                shape = tuple(draw(*sizes).shape)
            except ValueError:  # no weights can be refused too
                shape = sizes
            evidence.equal(shape, sizes, unit="as the shape", function=name)
        for sizes in ((-1, 3), (3, -1), (-2, -2), (-1, 0)):
            evidence.raises(ValueError, partial(draw, *sizes), function=name, sizes=sizes)
        for sizes in ((2.0, 3), (3, 2.5), ("3", 2), (2, None)):
            evidence.raises(TypeError, partial(draw, *sizes), function=name, sizes=sizes)


@verifies(parameters.IDENTITY)
@given(values=st.three_values, lr=st.rates)
def test_the_optimizer_moves_what_is_changed_in_place(evidence, device, values, lr):
    """An optimizer moves a parameter changed in place, whichever way, and not one that its name is bound to later."""
    for way in IN_PLACE:
        module, optimizer = with_optimizer(values, lr, device)
        IN_PLACE[way](module.weight, 2.0)
        before = module.weight.detach().clone()
        stepped(module, optimizer)
        evidence.equal(module.weight.data, before - lr, unit="after a step", way=way)
    module, optimizer = with_optimizer(values, lr, device)
    old, new = module.weight, nn.Parameter(module.weight.detach() * 2)
    module.weight = new
    before, old_before = new.detach().clone(), old.detach().clone()
    old.grad = torch.ones_like(old)
    stepped(module, optimizer)
    evidence.equal(new.data, before, unit="after a step that it was bound too late for")
    evidence.equal(old.data, old_before - lr, unit="after a step, though the module no longer has it")


@verifies(parameters.IDENTITY)
def test_a_plain_tensor_cannot_take_a_parameters_name(evidence):
    """Assigning a plain tensor to a parameter's name raises, and leaves the parameter."""
    module, _ = with_optimizer((1.0, 2.0, 3.0), 0.5, "cpu")
    weight = module.weight
    evidence.raises(TypeError, partial(setattr, module, "weight", weight.data * 2), value="a plain tensor")
    kept_name = "the parameter" if module.weight is weight else "something else"
    evidence.equal(kept_name, "the parameter", unit="under its name")


@verifies(parameters.IDENTITY)
@given(values=st.three_values)
def test_autograd_notices_what_no_grad_does_and_not_what_data_does(evidence, device, values):
    """After w² the backward pass refuses a w changed under no_grad; changed through .data it uses the new one."""
    for way, change in IN_PLACE.items():
        weight = nn.Parameter(torch.tensor(values, device=device))
        old, version = weight.detach().clone(), weight._version
        squares = weight * weight
        change(weight, 3.0)
        told = way == "no_grad"
        evidence.equal(weight._version - version, int(told), unit="changes that autograd counted", way=way)
        if told:
            evidence.raises(RuntimeError, squares.sum().backward, way=way)
        else:
            squares.sum().backward()
            evidence.equal(weight.grad, 2 * 3 * old, unit="as the gradient where 2·w is right", way=way)


@verifies(parameters.ROW_VECTOR)
@given(sizes=st.row_sizes)
@example(sizes=(3, 3))  # a square fits from either side
def test_a_vector_times_a_matrix_is_a_row(evidence, device, sizes):
    """(d,) @ (d, k) is the row of (1, d) @ (d, k), values and gradient; a vector of another length does not fit."""
    inputs, outputs = sizes
    x = torch.arange(inputs, dtype=torch.float32, device=device) % 5 - 2
    w = (torch.arange(inputs * outputs, dtype=torch.float32, device=device) % 7 - 3).reshape(inputs, outputs)
    x.requires_grad_()
    y = x @ nn.Parameter(w)
    row = np.asarray(x.detach().cpu())[None, :] @ np.asarray(w.cpu())
    evidence.equal(tuple(y.shape), (outputs,), unit="as the shape")
    evidence.equal(y.detach().cpu(), torch.as_tensor(row[0]), unit="as the row")
    y.sum().backward()
    evidence.equal(x.grad, w.sum(1), unit="as the gradient")
    evidence.raises(RuntimeError, lambda: torch.ones(inputs + 2, device=device) @ w)


@verifies(parameters.GROWTH)
@given(fan_in=st.fans_in, seed=st.seeds)
def test_outputs_grow_with_the_root_of_fan_in(impl, evidence, device, fan_in, seed):
    """The outputs' root mean square is √fan_in times that of the standard normal inputs."""
    outputs_vary(evidence, impl.parameters.normal, fan_in, seed, device, math.sqrt(fan_in))


def outputs_vary(evidence, draw, fan_in, seed, device, growth):
    """Check the root mean square of outputs, given the inputs, against `growth` times theirs."""
    generator = seeded(seed, device)
    inputs = torch.randn(POINTS, fan_in, generator=generator, device=device)
    fan_out = max(64, 2**14 // fan_in)
    outputs = inputs @ draw(fan_in, fan_out, generator=generator, device=device).detach()
    inputs, outputs = inputs.cpu().double().numpy(), outputs.cpu().double().numpy()
    predicted = root_mean_square(inputs) * growth
    tolerance = bounds.chance.outputs(inputs @ inputs.T, fan_out) * predicted
    evidence.close(root_mean_square(outputs), predicted, tolerance=tolerance, unit="as the outputs' root mean square")


@verifies(parameters.GROWTH)
@example(shape=(90, 90), dtype=torch.float32, seed=0)
@given(shape=st.weight_shapes, dtype=st.weight_dtypes, seed=st.seeds)
@in_each_dtype(shape=SQUARE, seed=1)
def test_normal_weights_are_standard_normal(impl, evidence, device, shape, dtype, seed):
    """`normal` weights are independent and standard normal, the same ones from the same state of a generator."""
    needs(dtype, device)
    draw = partial(impl.parameters.normal, *shape, dtype=dtype, device=device)
    values = standardised(drawn_twice(evidence, draw, seed, device), 1.0)
    are_spread(evidence, values, dtype)
    are_distributed(evidence, values, dtype)
    are_independent(evidence, values, dtype)


@verifies(parameters.GROWTH)
@given(seed=st.seeds)
def test_without_a_generator_weights_come_from_torchs_own_stream(impl, evidence, device, seed):
    """Without a generator torch's own stream gives the weights: the same ones from the same state, then others."""
    for name in FUNCTIONS:
        draw = partial(getattr(impl.parameters, name), 30, 20, device=device)
        with restored(device):
            seed_torch(seed, device)
            first, second = draw().detach(), draw().detach()
            seed_torch(seed, device)
            again = draw().detach()
        evidence.equal(again, first, unit="from the same state of torch's stream", function=name)
        told = "the same weights" if torch.equal(second, first) else "others"
        evidence.equal(told, "others", unit="from its next state", function=name)


@verifies(parameters.SCALED)
@example(shape=(90, 90), dtype=torch.float32, seed=0)
@given(shape=st.weight_shapes, dtype=st.weight_dtypes, seed=st.seeds)
@in_each_dtype(shape=SQUARE, seed=1)
def test_scaled_weights_have_a_deviation_of_one_over_the_root_of_fan_in(impl, evidence, device, shape, dtype, seed):
    """`scaled_normal` weights times √fan_in are independent and standard normal, whatever fan_out is."""
    needs(dtype, device)
    draw = partial(impl.parameters.scaled_normal, *shape, dtype=dtype, device=device)
    values = standardised(drawn_twice(evidence, draw, seed, device), 1 / math.sqrt(shape[0]))
    are_spread(evidence, values, dtype)
    are_distributed(evidence, values, dtype)
    are_independent(evidence, values, dtype)


@verifies(parameters.SCALED)
@given(fan_in=st.fans_in, seed=st.seeds)
def test_outputs_of_scaled_weights_vary_as_the_inputs_do(impl, evidence, device, fan_in, seed):
    """The outputs' root mean square is that of the standard normal inputs, for fan_out above and below fan_in."""
    outputs_vary(evidence, impl.parameters.scaled_normal, fan_in, seed, device, 1.0)


@verifies(parameters.GROWTH)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_many_normal_weights(impl, evidence, device, seed):
    """Half a million weights have unit deviation to one percent; no row, column or draw is made to have it exactly."""
    draw = partial(impl.parameters.normal, generator=seeded(seed, device), device=device)
    values = standardised(draw(*MANY), 1.0)
    are_spread(evidence, values, torch.float32)
    are_distributed(evidence, values[::4], torch.float32)
    norms_vary(evidence, values)
    norms_vary(evidence, standardised(draw(128, 128), 1.0))
    are_not_adjusted(evidence, partial(draw, 4, 32), 1.0)


@verifies(parameters.SCALED)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_many_scaled_weights(impl, evidence, device, seed):
    """Half a million weights have 1/√fan_in to one percent; no row, column or draw is made to have it exactly."""
    draw = partial(impl.parameters.scaled_normal, generator=seeded(seed, device), device=device)
    values = standardised(draw(*MANY), 1 / math.sqrt(MANY[0]))
    are_spread(evidence, values, torch.float32)
    are_distributed(evidence, values[::4], torch.float32)
    norms_vary(evidence, values)
    norms_vary(evidence, standardised(draw(128, 128), 1 / math.sqrt(128)))
    are_not_adjusted(evidence, partial(draw, 4, 32), 0.5)


@refutes(parameters.SCALED)
@given(shape=st.weight_shapes, seed=st.seeds)
def test_xaviers_rule_is_another_one(impl, evidence, shape, seed):
    """LeCun's, Xavier's and He's rule give three deviations: 1/fan_in, 2/(fan_in + fan_out) and 2/fan_in, rooted."""
    fan_in, fan_out = shape
    lecun, xavier, he = 1 / fan_in, 2 / (fan_in + fan_out), 2 / fan_in
    count = fan_in * fan_out
    generator = seeded(seed)
    for variance, weights in (
        (lecun, impl.parameters.scaled_normal(fan_in, fan_out, generator=generator)),
        (xavier, nn.init.xavier_normal_(torch.empty(fan_out, fan_in), generator=generator)),
        (he, nn.init.kaiming_normal_(torch.empty(fan_out, fan_in), nonlinearity="relu", generator=generator)),
    ):
        measured = root_mean_square(standardised(weights, math.sqrt(lecun)))
        off = bounds.chance.chi_square(count) / count + bounds.chance.sampled(torch.float32)
        tolerance = bounds.chance.spread(variance / lecun, off * variance / lecun)
        evidence.close(measured, math.sqrt(variance / lecun), tolerance=tolerance, unit="of LeCun's deviation")
        if variance == lecun and abs(fan_in - fan_out) > 1:
            for name, other in (("Xavier", xavier), ("He", he)):
                apart = abs(measured - math.sqrt(other / lecun))
                evidence.at_least(apart, tolerance, unit="of LeCun's deviation away", rule=name)


@verifies(parameters.TAILS)
@given(seed=st.seeds, dtype=st.weight_dtypes)
def test_the_largest_of_n_grows(impl, evidence, device, seed, dtype):
    """The largest of n weights is near √(2·ln n): beyond any bound, if n is large enough."""
    needs(dtype, device)
    generator = seeded(seed, device)
    for count in (2**4, 2**8, 2**12):
        weights = impl.parameters.normal(count // 4, 4, generator=generator, dtype=dtype, device=device)
        has_tails(evidence, weights)


@verifies(parameters.TAILS)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_the_largest_of_a_million_lies_beyond_four(impl, evidence, device, seed):
    """The largest of a million weights lies beyond 4, and as many beyond 3 as of normal ones."""
    weights = impl.parameters.normal(1024, 1024, generator=seeded(seed, device), device=device)
    has_tails(evidence, weights)
    beyond(evidence, weights, 3.0)


@verifies(parameters.TRUNCATED)
@example(shape=(90, 90), dtype=torch.float32, bound=3.0, seed=0)
@given(shape=st.weight_shapes, dtype=st.weight_dtypes, bound=st.cuts, seed=st.seeds)
@in_each_dtype(shape=SQUARE, bound=2.0, seed=1)
def test_truncated_weights_lie_within_the_bound(impl, evidence, device, shape, dtype, bound, seed):
    """`truncated_normal` weights are independent and normal, given that none lies beyond bound/√fan_in."""
    needs(dtype, device)
    draw = partial(impl.parameters.truncated_normal, *shape, bound=bound, dtype=dtype, device=device)
    values = standardised(drawn_twice(evidence, draw, seed, device), 1 / math.sqrt(shape[0]))
    are_cut_off(evidence, values, bound, dtype)
    are_spread(evidence, values, dtype, bound)
    are_distributed(evidence, values, dtype, bound)
    are_independent(evidence, values, dtype)


@verifies(parameters.TRUNCATED)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_many_weights_truncated_at_three_deviations(impl, evidence, device, seed):
    """By default weights are cut off at ±3 standard deviations, which leaves 0.9866 of the deviation."""
    weights = impl.parameters.truncated_normal(*MANY, generator=seeded(seed, device), device=device)
    values = standardised(weights, 1 / math.sqrt(MANY[0]))
    are_cut_off(evidence, values, 3.0, torch.float32)
    are_spread(evidence, values, torch.float32, 3.0)
    are_distributed(evidence, values[::4], torch.float32, 3.0)
    given_bound = impl.parameters.truncated_normal(3, 2, bound=3.0, generator=seeded(seed, device), device=device)
    default = impl.parameters.truncated_normal(3, 2, generator=seeded(seed, device), device=device)
    evidence.equal(default.data, given_bound.data, unit="as with a bound of 3")


@refutes(parameters.TRUNCATED)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_absolute_bounds_of_three_cut_nothing_off(evidence, seed):
    """With a deviation of 1/√fan_in, truncating to [−3, 3] leaves weights beyond three deviations."""
    fan_in, fan_out = 1024, 64
    weights = torch.empty(fan_in, fan_out)
    nn.init.trunc_normal_(weights, std=1 / math.sqrt(fan_in), a=-3, b=3, generator=seeded(seed))
    beyond = standardised(weights, 1 / math.sqrt(fan_in))
    evidence.at_least(float(np.abs(beyond).max()), 3 * (1 + bounds.rounding.gamma(4, torch.float32)), unit="deviations")


@verifies(parameters.TRUNCATED)
def test_what_is_no_bound_is_refused(impl, evidence):
    """A bound that is not above 0 is a ValueError, what is not a number a TypeError."""
    draw = partial(impl.parameters.truncated_normal, 3, 2, generator=seeded(1))
    for bound in (0, 0.0, -1.0, math.nan, -math.inf):
        evidence.raises(ValueError, partial(draw, bound=bound), bound=bound)
    evidence.raises(TypeError, partial(draw, bound="3"), bound="3")
