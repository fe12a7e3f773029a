"""§3.1: what a parameter is, and how its values are initialised."""

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
SQUARE = (60, 60)  # Wrong weights of this shape may be symmetric. √60 is irrational.
MANY = (512, 1024)  # This is half a million weights.
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
POINTS = 32  # A layer is given so many inputs at a time.


def in_each_dtype(**inputs):
    """Add an example with these inputs in each dtype."""

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
    """Return a module with one parameter, and an SGD optimizer of that parameter."""
    module = nn.Module()
    module.weight = nn.Parameter(torch.tensor(values, device=device))
    return module, torch.optim.SGD(module.parameters(), lr=lr)


def take_a_step(module, optimizer):
    """Take a step of the optimizer with a gradient of 1 in every element."""
    module.weight.sum().backward()
    optimizer.step()


@verifies(parameters.IS_TENSOR)
@given(sizes=st.row_sizes)
@example(sizes=(3, 3))  # A square matrix fits from either side.
def test_a_parameter_is_a_tensor_that_its_module_lists(evidence, device, sizes):
    """A Parameter is a leaf tensor that requires grad, its data is a plain Tensor, and its module lists it once."""
    values = torch.arange(math.prod(sizes), dtype=torch.float32, device=device).reshape(sizes)
    is_parameter(evidence, nn.Parameter(values))
    evidence.equal(nn.Parameter(values).data, values, what="the data")
    frozen = nn.Parameter(values, requires_grad=False)
    evidence.true(not frozen.requires_grad, "a parameter made with requires_grad=False does not require grad")
    module = nn.Module()
    module.first = module.again = nn.Parameter(values)
    module.alike = nn.Parameter(values.clone())
    # The module has one parameter under two names, which it lists once, and another one of equal values.
    names = {id(weight): name for name, weight in vars(module)["_parameters"].items() if name != "first"}
    listed = [names[id(weight)] for weight in module.parameters()]
    evidence.equal(listed, ["again", "alike"], what="the parameters listed")


def is_parameter(evidence, weights, **inputs):
    """Check that a tensor is a leaf Parameter that requires grad, with plain data, and that a module lists it."""
    module = nn.Module()
    module.weight = weights
    inputs = {"type": type(weights).__name__} | inputs
    evidence.true(isinstance(weights, torch.Tensor), "the parameter is a Tensor", **inputs)
    evidence.true(isinstance(weights, nn.Parameter), "the parameter is a Parameter", **inputs)
    evidence.true(type(weights.data) is torch.Tensor, "the parameter's data is a plain Tensor", **inputs)
    evidence.true(weights.requires_grad, "the parameter requires grad", **inputs)
    evidence.true(weights.is_leaf, "the parameter is a leaf", **inputs)
    listed = [each is weights for each in module.parameters()]
    evidence.true(listed == [True], "the module lists the parameter, once", **inputs)


@verifies(parameters.IS_TENSOR)
def test_weights_are_parameters(impl, evidence, device):
    """Each function returns a new parameter of the given shape, dtype and device, which receives gradients."""
    for name in FUNCTIONS:
        draw = getattr(impl.parameters, name)
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            if dtype is torch.float64 and device.type == "mps":
                continue
            weights = draw(3, 2, generator=seeded(1, device), dtype=dtype, device=device)
            inputs = {"function": name, "dtype": dtype}
            is_parameter(evidence, weights, **inputs)
            evidence.equal(tuple(weights.shape), (3, 2), what="the shape", **inputs)
            evidence.equal(weights.dtype, dtype, what="the dtype", **inputs)
            evidence.equal(weights.device.type, device.type, what="the device", **inputs)
            (weights.sum() * 2).backward()
            evidence.equal(weights.grad, torch.full_like(weights.data, 2.0), what="the gradient", **inputs)
            before = weights.detach().clone()
            alike = draw(3, 2, generator=seeded(1, device), dtype=dtype, device=device)
            alike.data.zero_()
            evidence.equal(weights.data, before, what="the weights after equal ones were set to 0", **inputs)
            single = draw(1, 1, generator=seeded(1, device), dtype=dtype, device=device)
            evidence.true(bool(single.isfinite().all()), "a single weight is finite", **inputs)


@verifies(parameters.IS_TENSOR)
def test_dtype_and_device_are_torchs_unless_given(impl, evidence):
    """The dtype and the device default to torch's, and a device that does not exist raises."""
    before = torch.get_default_dtype()
    for name in FUNCTIONS:
        draw = partial(getattr(impl.parameters, name), 3, 2, generator=seeded(1))
        for dtype in (torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            try:
                weights = draw()
            finally:
                torch.set_default_dtype(before)
            evidence.equal(weights.dtype, dtype, what="the dtype", function=name)
            evidence.equal(weights.device.type, "cpu", what="the device", function=name)
        evidence.equal(draw(device="cpu").device.type, "cpu", what="the device", function=name)
        evidence.raises((RuntimeError, ValueError), partial(draw, device="nowhere"), function=name, device="nowhere")


@verifies(parameters.IS_TENSOR)
def test_sizes_are_integers(impl, evidence):
    """Sizes may be Python's or NumPy's integers; a negative size raises ValueError, and anything else TypeError."""
    for name in FUNCTIONS:
        draw = partial(getattr(impl.parameters, name), generator=seeded(1))
        for number in NUMBERS:
            weights = draw(fan_out=number(2), fan_in=number(300))
            evidence.equal(tuple(weights.shape), (300, 2), what="the shape", function=name, number=number.__name__)
        for sizes in ((0, 3), (3, 0), (0, 0)):
            try:
                shape = tuple(draw(*sizes).shape)
            except ValueError:  # An implementation may refuse a size of 0.
                shape = sizes
            evidence.equal(shape, sizes, what="the shape", function=name)
        for sizes in ((-1, 3), (3, -1), (-2, -2), (-1, 0)):
            evidence.raises(ValueError, partial(draw, *sizes), function=name, sizes=sizes)
        for sizes in ((2.0, 3), (3, 2.5), ("3", 2), (2, None)):
            evidence.raises(TypeError, partial(draw, *sizes), function=name, sizes=sizes)


@verifies(parameters.IDENTITY)
@given(values=st.three_values, lr=st.rates)
def test_the_optimizer_moves_what_is_changed_in_place(evidence, device, values, lr):
    """An optimizer updates a parameter that was changed in place, and not a new one that was bound to its name."""
    for way in IN_PLACE:
        module, optimizer = with_optimizer(values, lr, device)
        IN_PLACE[way](module.weight, 2.0)
        before = module.weight.detach().clone()
        take_a_step(module, optimizer)
        evidence.equal(module.weight.data, before - lr, what="the parameter after a step", way=way)
    module, optimizer = with_optimizer(values, lr, device)
    old, new = module.weight, nn.Parameter(module.weight.detach() * 2)
    module.weight = new
    before, old_before = new.detach().clone(), old.detach().clone()
    old.grad = torch.ones_like(old)
    take_a_step(module, optimizer)
    evidence.equal(new.data, before, what="the newly bound parameter after a step")
    evidence.equal(old.data, old_before - lr, what="the old parameter after a step")


@verifies(parameters.IDENTITY)
def test_a_plain_tensor_cannot_take_a_parameters_name(evidence):
    """Assigning a plain tensor to a parameter's name raises, and the parameter keeps its name."""
    module, _ = with_optimizer((1.0, 2.0, 3.0), 0.5, "cpu")
    weight = module.weight
    evidence.raises(TypeError, partial(setattr, module, "weight", weight.data * 2), value="a plain tensor")
    evidence.true(module.weight is weight, "the parameter is still under its name", value="a plain tensor")


@verifies(parameters.IDENTITY)
@given(values=st.three_values)
def test_autograd_notices_what_no_grad_does_and_not_what_data_does(evidence, device, values):
    """After w² the backward pass refuses a w changed under no_grad, and for one changed through .data it is wrong."""
    for way, change in IN_PLACE.items():
        weight = nn.Parameter(torch.tensor(values, device=device))
        old, version = weight.detach().clone(), weight._version
        squares = weight * weight
        change(weight, 3.0)
        noticed = way == "no_grad"
        evidence.equal(weight._version - version, int(noticed), what="the changes that autograd counted", way=way)
        if noticed:
            evidence.raises(RuntimeError, squares.sum().backward, way=way)
        else:
            squares.sum().backward()
            # The right gradient of w² is 2·w with the old w. Autograd uses the new one, which is 3·w.
            evidence.equal(weight.grad, 2 * 3 * old, what="the wrong gradient", way=way)


@verifies(parameters.ROW_VECTOR)
@given(sizes=st.row_sizes)
@example(sizes=(3, 3))  # A square matrix fits from either side.
def test_a_vector_times_a_matrix_is_a_row(evidence, device, sizes):
    """(d,) @ (d, k) is the row of (1, d) @ (d, k), in values and gradient, and a vector of another length raises."""
    inputs, outputs = sizes
    x = torch.arange(inputs, dtype=torch.float32, device=device) % 5 - 2
    w = (torch.arange(inputs * outputs, dtype=torch.float32, device=device) % 7 - 3).reshape(inputs, outputs)
    x.requires_grad_()
    y = x @ nn.Parameter(w)
    row = np.asarray(x.detach().cpu())[None, :] @ np.asarray(w.cpu())
    evidence.equal(tuple(y.shape), (outputs,), what="the shape")
    evidence.equal(y.detach().cpu(), torch.as_tensor(row[0]), what="the product")
    y.sum().backward()
    evidence.equal(x.grad, w.sum(1), what="the gradient of the vector")
    evidence.raises(RuntimeError, lambda: torch.ones(inputs + 2, device=device) @ w)


@verifies(parameters.GROWTH)
@given(fan_in=st.fans_in, seed=st.seeds)
def test_outputs_grow_with_the_root_of_fan_in(impl, evidence, device, fan_in, seed):
    """The outputs' root mean square is √fan_in times that of the standard normal inputs."""
    outputs_vary(evidence, impl.parameters.normal, fan_in, seed, device, math.sqrt(fan_in))


def outputs_vary(evidence, draw, fan_in, seed, device, growth):
    """Check that the outputs' root mean square is `growth` times that of the inputs."""
    generator = seeded(seed, device)
    inputs = torch.randn(POINTS, fan_in, generator=generator, device=device)
    fan_out = max(64, 2**14 // fan_in)
    outputs = inputs @ draw(fan_in, fan_out, generator=generator, device=device).detach()
    inputs, outputs = inputs.cpu().double().numpy(), outputs.cpu().double().numpy()
    predicted = root_mean_square(inputs) * growth
    tolerance = bounds.chance.outputs(inputs @ inputs.T, fan_out) * predicted
    evidence.close(root_mean_square(outputs), predicted, tolerance=tolerance, what="the outputs' root mean square")


@verifies(parameters.GROWTH)
@example(shape=(90, 90), dtype=torch.float32, seed=0)
@given(shape=st.weight_shapes, dtype=st.weight_dtypes, seed=st.seeds)
@in_each_dtype(shape=SQUARE, seed=1)
def test_normal_weights_are_standard_normal(impl, evidence, device, shape, dtype, seed):
    """`normal` gives independent standard normal weights, and the same ones from the same state of a generator."""
    needs(dtype, device)
    draw = partial(impl.parameters.normal, *shape, dtype=dtype, device=device)
    values = standardised(drawn_twice(evidence, draw, seed, device), 1.0)
    are_spread(evidence, values, dtype)
    are_distributed(evidence, values, dtype)
    are_independent(evidence, values, dtype)


@verifies(parameters.GROWTH)
@given(seed=st.seeds)
def test_without_a_generator_weights_come_from_torchs_own_stream(impl, evidence, device, seed):
    """Without a generator, equal states of torch's own stream give equal weights, and the next state gives others."""
    for name in FUNCTIONS:
        draw = partial(getattr(impl.parameters, name), 30, 20, device=device)
        with restored(device):
            seed_torch(seed, device)
            first, second = draw().detach(), draw().detach()
            seed_torch(seed, device)
            again = draw().detach()
        evidence.equal(again, first, what="the weights from the same state of torch's stream", function=name)
        differ = not torch.equal(second, first)
        evidence.true(differ, "the next state of torch's stream gives other weights", function=name)


@verifies(parameters.SCALED)
@example(shape=(90, 90), dtype=torch.float32, seed=0)
@given(shape=st.weight_shapes, dtype=st.weight_dtypes, seed=st.seeds)
@in_each_dtype(shape=SQUARE, seed=1)
def test_scaled_weights_have_a_deviation_of_one_over_the_root_of_fan_in(impl, evidence, device, shape, dtype, seed):
    """`scaled_normal` weights times √fan_in are independent and standard normal, for any fan_out."""
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
    """Half a million weights have a deviation of 1 within 1%, around which rows, columns and draws scatter."""
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
    """Half a million weights have a deviation of 1/√fan_in within 1%, around which rows, columns and draws scatter."""
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
    """`scaled_normal` has LeCun's variance 1/fan_in, and not Xavier's 2/(fan_in + fan_out) or He's 2/fan_in."""
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
        evidence.close(
            measured,
            math.sqrt(variance / lecun),
            tolerance=tolerance,
            what="the standard deviation over LeCun's",
            variance=variance,
        )
        if variance == lecun and abs(fan_in - fan_out) > 1:
            for name, other in (("Xavier", xavier), ("He", he)):
                apart = abs(measured - math.sqrt(other / lecun))
                evidence.at_least(apart, tolerance, what="the distance from the rule's standard deviation", rule=name)


@verifies(parameters.TAILS)
@given(seed=st.seeds, dtype=st.weight_dtypes)
def test_the_largest_of_n_grows(impl, evidence, device, seed, dtype):
    """The largest of n weights grows like √(2·ln n), within the bounds of chance."""
    needs(dtype, device)
    generator = seeded(seed, device)
    for count in (2**4, 2**8, 2**12):
        weights = impl.parameters.normal(count // 4, 4, generator=generator, dtype=dtype, device=device)
        has_tails(evidence, weights)


@verifies(parameters.TAILS)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_the_largest_of_a_million_lies_beyond_four(impl, evidence, device, seed):
    """The largest of a million weights is above 4, and as many lie beyond ±3 as of normal numbers."""
    weights = impl.parameters.normal(1024, 1024, generator=seeded(seed, device), device=device)
    has_tails(evidence, weights)
    beyond(evidence, weights, 3.0)


@verifies(parameters.TRUNCATED)
@example(shape=(90, 90), dtype=torch.float32, bound=3.0, seed=0)
@given(shape=st.weight_shapes, dtype=st.weight_dtypes, bound=st.cuts, seed=st.seeds)
@in_each_dtype(shape=SQUARE, bound=2.0, seed=1)
def test_truncated_weights_lie_within_the_bound(impl, evidence, device, shape, dtype, bound, seed):
    """`truncated_normal` weights are independent and normally distributed without the tails beyond ±bound/√fan_in."""
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
    """By default weights are truncated at ±3 standard deviations, which leaves 0.9866 of the standard deviation."""
    weights = impl.parameters.truncated_normal(*MANY, generator=seeded(seed, device), device=device)
    values = standardised(weights, 1 / math.sqrt(MANY[0]))
    are_cut_off(evidence, values, 3.0, torch.float32)
    are_spread(evidence, values, torch.float32, 3.0)
    are_distributed(evidence, values[::4], torch.float32, 3.0)
    given_bound = impl.parameters.truncated_normal(3, 2, bound=3.0, generator=seeded(seed, device), device=device)
    default = impl.parameters.truncated_normal(3, 2, generator=seeded(seed, device), device=device)
    evidence.equal(default.data, given_bound.data, what="the weights of the default bound")


@refutes(parameters.TRUNCATED)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_absolute_bounds_of_three_cut_nothing_off(evidence, seed):
    """With a standard deviation of 1/√fan_in, truncation to [−3, 3] leaves weights beyond three standard deviations."""
    fan_in, fan_out = 1024, 64
    weights = torch.empty(fan_in, fan_out)
    nn.init.trunc_normal_(weights, std=1 / math.sqrt(fan_in), a=-3, b=3, generator=seeded(seed))
    beyond = standardised(weights, 1 / math.sqrt(fan_in))
    limit = 3 * (1 + bounds.rounding.gamma(4, torch.float32))
    evidence.at_least(float(np.abs(beyond).max()), limit, what="the largest weight", unit="standard deviations")


@verifies(parameters.TRUNCATED)
def test_what_is_no_bound_is_refused(impl, evidence):
    """A bound that is not above 0 raises ValueError, and one that is no number TypeError."""
    draw = partial(impl.parameters.truncated_normal, 3, 2, generator=seeded(1))
    for bound in (0, 0.0, -1.0, math.nan, -math.inf):
        evidence.raises(ValueError, partial(draw, bound=bound), bound=bound)
    evidence.raises(TypeError, partial(draw, bound="3"), bound="3")
