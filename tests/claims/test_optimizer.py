"""§3.5: the optimizer."""

import copy
import io
import math
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from spec import bounds
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import optimizer
from spec.instruments import allocator
from spec.oracles.updates import ExpectedUpdate, as_float64

NAMES = ("SGD", "AdaGrad")
# A test has one parameter of each of these shapes unless it says otherwise. Shapes repeat, and two parameters of one
# shape also share a dtype, so that an optimizer that finds its sums by shape or by dtype mixes them up.
SHAPES = ((), (4, 5), (4, 5), (0, 3), (4, 5), (0,), (7,), (2, 1, 3))
ALIKE = {"options": {}, "shapes": ((2, 3),) * 4, "seed": 0}
DTYPES = (torch.float32, torch.float64, torch.bfloat16)
PRECISE = DTYPES[:2]
# An expected update gets these options where a test passes none: eps=None makes it SGD's, and AdaGrad's lr and eps are
# the notes' 0.01 and 1e-5.
DEFAULTS = {"SGD": {"eps": None}, "AdaGrad": {}}


class Draw:
    """Draws parameters, and their gradients from 1e-6 to 1e6, a ninth of them 0."""

    def __init__(self, seed, device="cpu"):
        self.random = np.random.default_rng(seed)
        self.device = device

    def tensor(self, shape, dtype):
        """Return normal values; the columns of a matrix are contiguous in memory, and its rows are not."""
        values = self.random.standard_normal(shape[::-1]).T
        return torch.as_tensor(values).to(dtype).to(self.device)

    def parameters(self, dtypes=DTYPES, shapes=SHAPES):
        """Return a parameter of each shape; their dtypes take turns."""
        first = int(self.random.integers(len(dtypes)))
        in_turn = [dtypes[(first + index) % len(dtypes)] for index in range(len(shapes))]
        return [nn.Parameter(self.tensor(shape, dtype)) for shape, dtype in zip(shapes, in_turn, strict=True)]

    def gradient(self, parameter, zeros=True):
        """Give a parameter a new gradient; without `zeros` no element of it is 0."""
        signs = np.sign(
            self.random.integers(-4, 5, parameter.shape) if zeros else self.random.normal(size=parameter.shape)
        )
        sizes = 10 ** self.random.uniform(-6, 6, parameter.shape)
        parameter.grad = torch.as_tensor(signs * sizes).to(parameter.dtype).to(self.device)

    def gradients(self, parameters, missing=1 / 8):
        """Give each parameter a new gradient, or None at the rate `missing`."""
        for parameter in parameters:
            if self.random.random() < missing:
                parameter.grad = None
            else:
                self.gradient(parameter)


def metered(device):
    """Return a meter of the device's allocator; skip the test where the allocator cannot be read."""
    return allocator.MemoryMeter(device) if allocator.can_be_read(device) else pytest.skip(allocator.silent(device))


def dtypes_of(device):
    """Return the dtypes that a device computes in."""
    return [dtype for dtype in DTYPES if device.type != "mps" or dtype is not torch.float64]


def gradient_of(parameter):
    """Return a parameter's gradient in float64; zeros where it has none."""
    return np.zeros(tuple(parameter.shape)) if parameter.grad is None else as_float64(parameter.grad)


def squares_of(adagrad, parameter):
    """Return AdaGrad's sum of squared gradients for a parameter; zeros where there is no sum yet."""
    state = adagrad.state.get(parameter, {})
    return as_float64(state["g2"]) if "g2" in state else np.zeros(tuple(parameter.shape))


@contextmanager
def unchanged_gradients(evidence, parameters):
    """Require that the block leaves every gradient, and every `requires_grad`, as it is."""
    before = [(parameter.requires_grad, parameter.grad, gradient_of(parameter)) for parameter in parameters]
    yield
    for index, (parameter, (learning, gradient, values)) in enumerate(zip(parameters, before, strict=True)):
        evidence.equal(parameter.requires_grad, learning, what="requires_grad after the step", parameter=index)
        evidence.true(parameter.grad is gradient, "the gradient is the same object after the step", parameter=index)
        evidence.equal(gradient_of(parameter), values, what="the gradient after the step", parameter=index)


def has_moved_to(evidence, update, expected, tolerance, before):
    """Require that a parameter has its expected values; a failure shows the first element that has not."""
    after, gradient = as_float64(update.parameter), gradient_of(update.parameter)
    inputs = {"lr": update.lr, "eps": update.eps, "step": update.steps, "dtype": update.parameter.dtype}
    if (index := first_outside(after, expected, tolerance)) is not None:
        inputs |= {"element": list(index)} if index else {}
        inputs |= {"before": before[index], "gradient": None if update.parameter.grad is None else gradient[index]}
        after, expected, tolerance = after[index], expected[index], tolerance[index]
    evidence.close(after, expected, tolerance=tolerance, what="the parameter after the step", **inputs)


def first_outside(after, expected, tolerance):
    """Return the index of the first element that is outside its tolerance; None where there is none."""
    if after.shape != expected.shape:
        return None
    right = (np.abs(after - expected) <= tolerance) | (after == expected) | (np.isnan(after) & np.isnan(expected))
    wrong = np.argwhere(~right)
    return tuple(map(int, wrong[0])) if len(wrong) else None


def follows_the_rule(evidence, updates, step):
    """Require that step() moves every parameter by its optimizer's rule and leaves its gradient as it is.

    SGD's rule is p ← p − lr·g. AdaGrad's is G ← G + g², then p ← p − lr·g/√(G + ε). A parameter without a gradient
    stays. An update holds lr, ε and G of one parameter, and predicts its next step in float64. It is called before the
    step, because the prediction starts from the parameter's present value.
    """
    parameters = [update.parameter for update in updates]
    before = [as_float64(parameter) for parameter in parameters]
    expected = [update.step() for update in updates]
    with unchanged_gradients(evidence, parameters):
        step()
    for update, start, goal in zip(updates, before, expected, strict=True):
        has_moved_to(evidence, update, goal.parameter, goal.tolerance, start)


def sums_are_right(evidence, updates, adagrad):
    """Require that AdaGrad's sum for each parameter is that of its squared gradients so far."""
    for update in updates:
        tolerance = update.squares * bounds.updates.summed(update.steps, update.parameter.dtype)
        measured = squares_of(adagrad, update.parameter)
        evidence.close(measured, update.squares, tolerance=tolerance, what='state[p]["g2"]')


def through_a_file(state_dict):
    """Save a state_dict to a file in memory, and return what torch.load reads from it without running any code."""
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


class Product(nn.Module):
    """Multiplies by a given weight. torch's own layers would draw theirs from the global random stream."""

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        """Return x·W."""
        return x @ self.weight


def products(draw, *shapes):
    """Return a model that multiplies by matrices of these shapes in turn."""
    return nn.Sequential(*(Product(draw.tensor(shape, torch.float32)) for shape in shapes))


def storage_of(tensor):
    """Return the address of a tensor's storage."""
    return tensor.untyped_storage().data_ptr()


def values_of(tensors):
    """Return a copy of each named tensor's values."""
    return {name: as_float64(tensor) for name, tensor in tensors.items()}


def are_equal(evidence, measured, predicted, what):
    """Require the same names, and the same values under each."""
    evidence.equal(list(measured), list(predicted), what=f"the names in {what}")
    for name, values in measured.items():
        evidence.equal(values, predicted[name], what=f"the values in {what}", of=name)


def indices_of(parameters, group):
    """Return the index in `parameters` of each parameter of a group; "another" for one that is not among them."""
    index_by_id = {id(parameter): index for index, parameter in enumerate(parameters)}
    return [index_by_id.get(id(parameter), "another") for parameter in group["params"]]


def optimizer_after_a_step(impl, name, seed, device):
    """Return parameters in two groups, and their optimizer after a step; all gradients are None.

    The last parameter had no gradient in that step, and the second one has been frozen since.
    """
    draw = Draw(seed, device)
    parameters = draw.parameters(dtypes_of(device))
    groups = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.5}]
    opt = getattr(impl.optimizer, name)(groups)
    draw.gradients(parameters[:-1], missing=0)
    opt.step()
    opt.zero_grad()
    parameters[1].requires_grad_(False)
    return parameters, opt


def give_gradients(parameters):
    """Give every parameter but the last but one a gradient, and return how many bytes these gradients take."""
    chosen = [*parameters[:-2], parameters[-1]]
    for parameter in chosen:
        parameter.grad = torch.ones_like(parameter)
    return sum(parameter.numel() * parameter.element_size() for parameter in chosen)


@verifies(optimizer.ADAGRAD)
@given(options=st.adaptive_options, by_name=st.yes_or_no, shapes=st.parameter_shapes, seed=st.seeds)
@example(by_name=True, **ALIKE)
def test_each_step_follows_the_rule(impl, evidence, device, options, by_name, shapes, seed):
    """In each of five steps, with gradients from 1e-6 to 1e6, G grows by g² and then p moves by −lr·g/√(G + ε)."""
    draw = Draw(seed, device)
    parameters = draw.parameters(dtypes_of(device), shapes)
    positional = tuple(options.values()) if "lr" in options and not by_name else ()
    adagrad = impl.optimizer.AdaGrad(parameters, *positional, **({} if positional else options))
    lr, eps = options.get("lr", 0.01), options.get("eps", 1e-5)
    sums = [np.zeros(tuple(parameter.shape)) for parameter in parameters]
    updates = [ExpectedUpdate(parameter, **options) for parameter in parameters]  # These give the tolerances.
    for _ in range(5):
        draw.gradients(parameters)
        before = [as_float64(parameter) for parameter in parameters]
        tolerances = [update.step().tolerance for update in updates]
        with unchanged_gradients(evidence, parameters):
            adagrad.step()
        for update, p, G, tolerance in zip(updates, before, sums, tolerances, strict=True):
            g = gradient_of(update.parameter)
            G += g * g
            has_moved_to(evidence, update, p - lr * g / np.sqrt(G + eps), tolerance, before=p)
    sums_are_right(evidence, updates, adagrad)


@verifies(optimizer.ADAGRAD)
@given(seed=st.seeds)
def test_without_eps_it_is_torchs(impl, evidence, device, seed):
    """With ε = 0 each of five steps is, within rounding, that of torch.optim.Adagrad."""
    # torch adds ε outside the root, so the two rules agree only where ε is 0. After each step torch's parameter is set
    # to ours, so that differences do not add up. Both sides are rounded, so the tolerance is that of one, twice.
    draw = Draw(seed, device)
    (ours,) = draw.parameters([torch.float32], [(5, 7)])
    theirs = ours.detach().clone().requires_grad_()
    adagrad = impl.optimizer.AdaGrad([ours], lr=0.1, eps=0.0)
    torchs = torch.optim.Adagrad([theirs], lr=0.1, eps=0.0)
    update = ExpectedUpdate(ours, lr=0.1, eps=0.0)
    measured, predicted, tolerances = [], [], []
    for _ in range(5):
        draw.gradient(ours, zeros=False)
        theirs.grad = ours.grad
        tolerances.append(2 * update.step().tolerance)
        adagrad.step()
        torchs.step()
        measured.append(as_float64(ours))
        predicted.append(as_float64(theirs))
        with torch.no_grad():
            theirs.copy_(ours)
    measured, predicted, tolerances = map(np.stack, (measured, predicted, tolerances))
    evidence.close(measured, predicted, tolerance=tolerances, what="the parameter after torch's steps")


@verifies(optimizer.ADAGRAD)
@pytest.mark.parametrize("way", ["state dict", "deep copy", "file", "copied optimizer"])
def test_sums_survive_saving_and_copying(impl, evidence, way):
    """Restored from a state_dict, a deep copy of it or a file, or copied itself, AdaGrad keeps its G and its options.

    Two parameters of the same shape and dtype have equal sums until then, and different gradients afterwards. An
    optimizer that lets them share a restored sum fails here.
    """
    draw = Draw(3)
    parameters = draw.parameters(PRECISE)
    groups = [{"params": parameters[:2], "lr": 0.5, "note": "a user's own"}, {"params": parameters[2:], "eps": 1e-2}]
    options = [{"lr": 0.5}] * 2 + [{"lr": 0.25, "eps": 1e-2}] * (len(parameters) - 2)
    updates = [ExpectedUpdate(parameter, **option) for parameter, option in zip(parameters, options, strict=True)]
    adagrad = impl.optimizer.AdaGrad(groups, lr=0.25)
    for _ in range(3):
        draw.gradients(parameters, missing=0)
        parameters[4].grad = parameters[2].grad.clone()
        follows_the_rule(evidence, updates, adagrad.step)
    if way == "copied optimizer":
        adagrad = copy.deepcopy(adagrad)
        parameters = [parameter for group in adagrad.param_groups for parameter in group["params"]]
    else:
        transfer = {"state dict": lambda state_dict: state_dict, "deep copy": copy.deepcopy, "file": through_a_file}
        saved = transfer[way](adagrad.state_dict())
        parameters = [nn.Parameter(parameter.detach().clone()) for parameter in parameters]
        # The new optimizer is made with other options, which loading has to replace.
        adagrad = impl.optimizer.AdaGrad([{"params": parameters[:2]}, {"params": parameters[2:]}], lr=1.0, eps=1.0)
        adagrad.load_state_dict(saved)
    for update, parameter in zip(updates, parameters, strict=True):
        update.parameter = parameter
    evidence.equal(adagrad.param_groups[0].get("note"), "a user's own", what="the option that the user has added")
    sums_are_right(evidence, updates, adagrad)
    for _ in range(2):
        draw.gradients(parameters)
        follows_the_rule(evidence, updates, adagrad.step)
        sums_are_right(evidence, updates, adagrad)


@verifies(optimizer.ADAGRAD)
def test_sums_of_float32_go_on_in_float64(impl, evidence):
    """When sums of float32 are loaded for float64 parameters, later squares are added to them in float64."""
    draw = Draw(11)
    narrow = draw.parameters([torch.float32])
    first = impl.optimizer.AdaGrad(narrow, lr=0.5)
    for _ in range(2):
        draw.gradients(narrow, missing=0)
        first.step()
    wide = [nn.Parameter(parameter.detach().double()) for parameter in narrow]
    updates = [ExpectedUpdate(parameter, lr=0.5) for parameter in wide]
    for update, parameter in zip(updates, narrow, strict=True):
        update.squares = squares_of(first, parameter)
    second = impl.optimizer.AdaGrad(wide)
    second.load_state_dict(through_a_file(first.state_dict()))
    for _ in range(2):
        draw.gradients(wide, missing=0)
        follows_the_rule(evidence, updates, second.step)
    sums_are_right(evidence, updates, second)


@verifies(optimizer.ADAGRAD)
def test_a_nan_stays_in_its_element(impl, evidence, device):
    """A NaN in a gradient makes its own element NaN and no other; so does ∞, since ∞/√∞ is NaN."""
    parameter = nn.Parameter(torch.ones(6, device=device))
    updates = [ExpectedUpdate(parameter)]
    adagrad = impl.optimizer.AdaGrad([parameter])
    for gradient in ((1.0, math.nan, 1e-3, math.inf, -0.0, -2.0), (1.0, 1.0, 0.0, 1.0, 0.0, 1e-6)):
        parameter.grad = torch.tensor(gradient, device=device)
        with np.errstate(invalid="ignore"):
            follows_the_rule(evidence, updates, adagrad.step)


@verifies(optimizer.ADAGRAD)
def test_large_parameters_too(impl, evidence, device):
    """Each of the 30,000 elements of a matrix moves by −lr·g/√(G + ε)."""
    draw = Draw(4, device)
    parameters = draw.parameters([torch.float32], [(150, 200)])
    updates = [ExpectedUpdate(parameter) for parameter in parameters]
    adagrad = impl.optimizer.AdaGrad(parameters)
    for _ in range(2):
        draw.gradients(parameters, missing=0)
        follows_the_rule(evidence, updates, adagrad.step)


@verifies(optimizer.ACCUMULATOR)
@given(options=st.adaptive_options, shapes=st.parameter_shapes, seed=st.seeds)
@example(**ALIKE)
def test_sums_never_shrink(impl, evidence, device, options, shapes, seed):
    """G starts from 0, no element of it shrinks in any step, and it stays where a parameter has no gradient."""
    draw = Draw(seed, device)
    parameters = draw.parameters(dtypes_of(device), shapes)
    updates = [ExpectedUpdate(parameter, **options) for parameter in parameters]
    adagrad = impl.optimizer.AdaGrad(parameters, **options)
    sums_are_right(evidence, updates, adagrad)  # All of them are 0.
    for _ in range(5):
        draw.gradients(parameters)
        before = [squares_of(adagrad, parameter) for parameter in parameters]
        for update in updates:
            update.step()
        adagrad.step()
        for index, (update, old) in enumerate(zip(updates, before, strict=True)):
            growth = squares_of(adagrad, update.parameter) - old
            evidence.at_least(float(growth.min(initial=0)), 0.0, what="the least growth of G", parameter=index)
            if update.parameter.grad is None:
                evidence.true(not growth.any(), "G stays where there is no gradient", parameter=index)
    sums_are_right(evidence, updates, adagrad)


@verifies(optimizer.EFFECTIVE_RATE)
@given(options=st.adaptive_options, exponent=st.exponents, dtype=st.precise_dtypes)
def test_the_tth_step_under_a_constant_gradient(impl, evidence, options, exponent, dtype):
    """Under a constant gradient g the t-th step from 0 is lr·g/√(t·g² + ε)."""
    lr, eps, count = options.get("lr", 0.01), options.get("eps", 1e-5), 12
    parameter = nn.Parameter(torch.zeros(2, dtype=dtype))
    parameter.grad = torch.tensor([-(10**exponent), 10**exponent], dtype=dtype)
    g = as_float64(parameter.grad)
    adagrad = impl.optimizer.AdaGrad([parameter], **options)
    positions = [as_float64(parameter)]
    for _ in range(count):
        adagrad.step()
        positions.append(as_float64(parameter))
    t = np.arange(1, count + 1)[:, None]
    law = lr * g / np.sqrt(t * g**2 + eps)
    steps = -np.diff(positions, axis=0)
    relative = [bounds.updates.adapted(int(n), dtype, parameter.device) for n in t[:, 0]]
    tolerances = [
        bounds.updates.moved(np.abs(start - step), np.abs(step), error, dtype)
        for start, step, error in zip(positions[:-1], law, relative, strict=True)
    ]
    evidence.close(steps, law, tolerance=np.stack(tolerances), what="the step", g=g[1], dtype=dtype)
    evidence.series("measured", range(1, count + 1), steps[:, 1] / lr, unit="lr", along="steps")
    evidence.series("law", range(1, count + 1), law[:, 1] / lr, unit="lr", along="steps")


@verifies(optimizer.EFFECTIVE_RATE)
@given(exponent=st.exponents, times=st.sizes)
def test_a_large_history_shortens_the_step(impl, evidence, device, exponent, times):
    """Of two elements with the same gradient now, the one that had larger gradients before moves less."""
    parameter = nn.Parameter(torch.zeros(2, device=device))
    update = ExpectedUpdate(parameter)
    adagrad = impl.optimizer.AdaGrad([parameter])
    # With smaller gradients ε would outweigh both sums, and rounding would decide which step is longer.
    g = max(10**exponent, 0.01)
    for _ in range(times):
        parameter.grad = torch.tensor([g, 4 * g], device=device)
        update.step()
        adagrad.step()
    before = as_float64(parameter)
    parameter.grad = torch.tensor([g, g], device=device)
    follows_the_rule(evidence, [update], adagrad.step)
    after_small, after_large = np.abs(as_float64(parameter) - before).tolist()
    evidence.at_most(after_large, after_small, what="the step after larger gradients", g=g)


@verifies(optimizer.GROUPS)
@given(name=st.steppers, seed=st.seeds)
def test_each_parameter_moves_once_by_its_groups_options(impl, evidence, device, name, seed):
    """Each parameter of three groups, one of them added later, moves once per step by its group's present options."""
    draw = Draw(seed, device)
    parameters = draw.parameters(dtypes_of(device))
    default = DEFAULTS[name]
    groups = [{"params": parameters[:2], "lr": 0.5}, {"params": parameters[2], "note": "a user's own"}]
    opt = getattr(impl.optimizer, name)(groups, lr=0.125)
    updates = [ExpectedUpdate(parameter, lr=0.5, **default) for parameter in parameters[:2]]
    updates.append(ExpectedUpdate(parameters[2], lr=0.125, **default))
    draw.gradients(parameters)
    follows_the_rule(evidence, updates, opt.step)

    own = {"lr": 0.25} | ({"eps": 0.5} if name == "AdaGrad" else {})
    opt.add_param_group({"params": iter(parameters[3:]), **own})
    updates += [ExpectedUpdate(parameter, **default | own) for parameter in parameters[3:]]
    evidence.raises(ValueError, partial(opt.add_param_group, {"params": parameters[:1]}), group="a second one")
    draw.gradients(parameters)
    follows_the_rule(evidence, updates, opt.step)

    opt.param_groups[0]["lr"] = updates[0].lr = updates[1].lr = 2.0
    if name == "AdaGrad":
        opt.param_groups[1]["eps"] = updates[2].eps = 0.5
    draw.gradients(parameters)
    follows_the_rule(evidence, updates, opt.step)

    members = [indices_of(parameters, group) for group in opt.param_groups]
    evidence.equal(members, [[0, 1], [2], [*range(3, len(SHAPES))]], what="the parameters of each group")
    evidence.equal(opt.param_groups[1].get("note"), "a user's own", what="the option that the user has added")


@verifies(optimizer.GROUPS)
@pytest.mark.parametrize("name", NAMES)
def test_a_model_with_shared_frozen_and_unused_parameters(impl, evidence, device, name):
    """A parameter that two layers share is moved once, a frozen or unused one stays, and those that follow it move."""
    draw = Draw(5, device)
    model = products(draw, *[(3, 3)] * 5)
    model[1].weight = model[0].weight
    model[2].weight.requires_grad_(False)
    x = draw.tensor((2, 3), torch.float32)
    parameters = [model[0].weight, model[2].weight, model[3].weight, model[4].weight]
    opt = getattr(impl.optimizer, name)(model.parameters())
    members = [indices_of(parameters, group) for group in opt.param_groups]
    evidence.equal(members, [[0, 1, 2, 3]], what="the parameters of each group")
    updates = [ExpectedUpdate(parameter, **DEFAULTS[name]) for parameter in parameters]
    follows_the_rule(evidence, updates, opt.step)  # There is no gradient yet, so nothing may move.
    for _ in range(3):
        opt.zero_grad()
        model[4](model[2](model[1](model[0](x)))).sum().backward()
        follows_the_rule(evidence, updates, opt.step)
    evidence.true(model[0].weight is model[1].weight, "the two layers still share their weight")


@verifies(optimizer.GROUPS)
@pytest.mark.parametrize("name", NAMES)
def test_look_alikes_go_their_own_ways(impl, evidence, device, name):
    """Parameters of equal values and gradients, groups of equal options, and two optimizers do not affect each other.

    Both optimizers hold three of the five parameters, and the second is made before the first gets its last group.
    """
    draw, default, make = Draw(12, device), DEFAULTS[name], getattr(impl.optimizer, name)
    start = draw.tensor((3, 3), torch.float32)
    parameters = [nn.Parameter(start.clone()) for _ in range(5)]
    first = make([{"params": parameters[:2]}, {"params": parameters[2:4]}], lr=0.5)
    second = make(parameters[1:4], lr=0.25)
    first.add_param_group({"params": parameters[4:]})
    both = [
        (first, [ExpectedUpdate(parameter, lr=0.5, **default) for parameter in parameters]),
        (second, [ExpectedUpdate(parameter, lr=0.25, **default) for parameter in parameters[1:4]]),
    ]
    shared = torch.ones_like(start)
    for parameter in parameters:
        parameter.grad = shared
    for _ in range(3):
        for opt, updates in both:
            follows_the_rule(evidence, updates, opt.step)
        draw.gradients(parameters, missing=0)
        parameters[1].grad = None
    if name == "AdaGrad":
        for opt, updates in both:
            sums_are_right(evidence, updates, opt)


@verifies(optimizer.GROUPS)
@pytest.mark.parametrize("name", NAMES)
def test_a_closure_is_called_once(impl, evidence, name):
    """step(closure) calls the closure once with gradients enabled, steps by its gradients, and returns its loss."""
    parameters = Draw(6).parameters(PRECISE, SHAPES[:3])
    updates = [ExpectedUpdate(parameter, **DEFAULTS[name]) for parameter in parameters]
    opt = getattr(impl.optimizer, name)(parameters)
    enabled, losses, returned = [], [], []

    def closure():
        """Compute the loss Σ p², whose gradient is 2·p."""
        enabled.append(torch.is_grad_enabled())
        opt.zero_grad(set_to_none=False)
        with torch.enable_grad():
            losses.append(sum((parameter * parameter).sum() for parameter in parameters))
        losses[-1].backward()
        return losses[-1]

    def step():
        """Step with wrong gradients in .grad, which the closure has to replace; pass it by position, then by name."""
        for parameter in parameters:
            parameter.grad.fill_(7.0)
        returned.append(opt.step(closure=closure) if returned else opt.step(closure))

    for _ in range(2):
        for parameter in parameters:
            parameter.grad = 2 * parameter.detach()
        follows_the_rule(evidence, updates, step)
    evidence.equal(enabled, [True, True], what="whether gradients are enabled, call by call")
    for number, (result, loss) in enumerate(zip(returned, losses, strict=True), start=1):
        evidence.true(result is loss, "step(closure) returns the closure's loss", step=number)
    evidence.true(opt.step() is None, "step() without a closure returns None", name=name)


@verifies(optimizer.GROUPS)
@pytest.mark.parametrize("name", NAMES)
def test_schedulers_and_hooks_work_on_it(impl, evidence, name):
    """A torch scheduler halves the rate from the next step on, and step hooks are called before and after each step."""
    draw = Draw(7)
    parameters = draw.parameters(PRECISE)
    updates = [ExpectedUpdate(parameter, lr=0.5, **DEFAULTS[name]) for parameter in parameters]
    opt = getattr(impl.optimizer, name)(parameters, lr=0.5)
    halving = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
    calls = []
    opt.register_step_pre_hook(lambda *_: calls.append("before"))
    opt.register_step_post_hook(lambda *_: calls.append("after"))
    for _ in range(3):
        draw.gradients(parameters)
        follows_the_rule(evidence, updates, opt.step)
        halving.step()
        for update in updates:
            update.lr /= 2
    evidence.equal(calls, ["before", "after"] * 3, what="the calls of the hooks")


@verifies(optimizer.GROUPS)
@pytest.mark.parametrize("name", NAMES)
def test_a_rate_of_0_moves_nothing(impl, evidence, name):
    """A learning rate of 0 is not taken for a missing one: the parameter stays."""
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    opt = getattr(impl.optimizer, name)([parameter], lr=0.0)
    follows_the_rule(evidence, [ExpectedUpdate(parameter, lr=0.0, **DEFAULTS[name])], opt.step)


@verifies(optimizer.GROUPS)
def test_sgd_keeps_no_state(impl, evidence):
    """After a step SGD's state holds no tensor of more than one element."""
    parameter = nn.Parameter(torch.ones(5))
    parameter.grad = torch.ones(5)
    sgd = impl.optimizer.SGD([parameter])
    sgd.step()
    values = [value for state in sgd.state.values() for value in state.values()]
    large = sum(isinstance(value, torch.Tensor) and value.numel() > 1 for value in values)
    evidence.equal(large, 0, what="the large tensors in the state", unit="tensors", parameter=(5,))


@verifies(optimizer.STATE_DICT)
@given(name=st.steppers, seed=st.seeds)
def test_a_state_dict_follows_every_step(impl, evidence, device, name, seed):
    """A model's state_dict shares storage with its parameters, so that it has their new values after every step."""
    draw = Draw(seed, device)
    model = products(draw, (3, 4), (4, 2))
    parameters = dict(model.named_parameters())
    state_dict, before = model.state_dict(), values_of(parameters)
    sharing = [each for each in state_dict if storage_of(state_dict[each]) == storage_of(parameters[each])]
    evidence.equal(sharing, list(parameters), what="the tensors that share storage with the model")
    opt = getattr(impl.optimizer, name)(model.parameters(), lr=0.1)
    for _ in range(2):
        draw.gradients(parameters.values(), missing=0)
        opt.step()
        are_equal(evidence, values_of(state_dict), values_of(model.state_dict()), "the earlier state_dict")
    for parameter, values in values_of(state_dict).items():
        changed = not np.array_equal(values, before[parameter])
        evidence.true(changed, "two steps change the values in the state_dict", of=parameter)


@verifies(optimizer.STATE_DICT)
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, through_a_file, lambda state_dict: {n: t.clone() for n, t in state_dict.items()}]
)
def test_copies_stay(impl, evidence, device, copied):
    """A deep copy of the state_dict, one loaded from a file, and clones keep the values from before the step."""
    draw = Draw(8, device)
    model = products(draw, (3, 4), (4, 2))
    copies, before = copied(model.state_dict()), values_of(model.state_dict())
    are_equal(evidence, values_of(copies), before, "the copy before the step")
    adagrad = impl.optimizer.AdaGrad(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        draw.gradient(parameter)
    adagrad.step()
    are_equal(evidence, values_of(copies), before, "the copy after the step")


@verifies(optimizer.STATE_DICT)
def test_the_sums_are_in_the_optimizers_state_alone(impl, evidence, device):
    """The model's state_dict has only the parameters, after steps too; the optimizer's has G and the options."""
    draw = Draw(9, device)
    model = products(draw, (3, 4), (4, 2))
    names = [name for name, _ in model.named_parameters()]
    evidence.equal(list(model.state_dict()), names, what="the names in the model's state_dict")
    updates = [ExpectedUpdate(parameter) for parameter in model.parameters()]
    adagrad = impl.optimizer.AdaGrad(model.parameters())
    for _ in range(2):
        draw.gradients(model.parameters(), missing=0)
        follows_the_rule(evidence, updates, adagrad.step)
    evidence.equal(list(model.state_dict()), names, what="the names in the model's state_dict")
    saved = adagrad.state_dict()
    evidence.equal(sorted(saved), ["param_groups", "state"], what="the names in the optimizer's state_dict")
    (group,) = saved["param_groups"]
    evidence.equal((group["lr"], group["eps"]), (0.01, 1e-5), what="lr and eps in the optimizer's state_dict")
    for index, update in zip(group["params"], updates, strict=True):
        tolerance = update.squares * bounds.updates.summed(update.steps, torch.float32)
        sums = saved["state"].get(index, {}).get("g2", torch.zeros_like(update.parameter))
        evidence.close(
            as_float64(sums), update.squares, tolerance=tolerance, what='"g2" in the optimizer\'s state_dict'
        )


@refutes(optimizer.STATE_DICT)
@pytest.mark.parametrize("kept_as", ["state_dict", "copy of the dict", "dict of the dict"])
def test_a_state_dict_is_no_copy(evidence, device, kept_as):
    """After a step of torch's own AdaGrad an earlier state_dict, or a copy() of the dict, has lost the old values."""
    draw = Draw(10, device)
    model = products(draw, (2, 1))
    ways = {"state_dict": lambda it: it, "copy of the dict": lambda it: it.copy(), "dict of the dict": dict}
    state_dict, before = ways[kept_as](model.state_dict()), values_of(model.state_dict())
    for parameter in model.parameters():
        draw.gradient(parameter)
    torch.optim.Adagrad(model.parameters(), lr=0.1).step()
    for name, values in values_of(state_dict).items():
        evidence.differs(values.tolist(), before[name].tolist(), what="the values after a step", of=name)


@verifies(optimizer.ZERO_GRAD)
@given(name=st.steppers, seed=st.seeds, by_default=st.yes_or_no)
def test_the_gradients_memory_is_given_back(impl, evidence, device, name, seed, by_default):
    """zero_grad() sets every .grad to None and frees exactly the gradients' bytes, also after a step by them."""
    parameters, opt = optimizer_after_a_step(impl, name, seed, device)
    with metered(device) as meter:
        size = give_gradients(parameters)
        allocated = meter.read().live.requested
        opt.zero_grad() if by_default else opt.zero_grad(set_to_none=True)
        left = meter.read().live.requested
    evidence.equal(allocated, size, what="the memory of the gradients", unit="bytes")
    evidence.equal(allocated - left, size, what="the memory freed by zero_grad", unit="bytes")
    for index, parameter in enumerate(parameters):
        evidence.true(parameter.grad is None, "the gradient is None after zero_grad", parameter=index)
    # After a step the optimizer itself might still refer to the gradients, and so keep their memory alive.
    give_gradients(parameters)
    storages = [StorageWeakRef(each.grad.untyped_storage()) for each in parameters if each.grad is not None]
    opt.step()
    opt.zero_grad()
    for index, storage in enumerate(storages):
        evidence.true(storage.expired(), "nothing refers to the gradient's storage any more", gradient=index)


@verifies(optimizer.ZERO_GRAD)
@given(name=st.steppers, seed=st.seeds)
def test_zeros_take_as_much_memory(impl, evidence, device, name, seed):
    """zero_grad(set_to_none=False) fills the same gradients with zeros, infinite ones too, and frees no memory."""
    parameters, opt = optimizer_after_a_step(impl, name, seed, device)
    with metered(device) as meter:
        give_gradients(parameters)
        parameters[1].grad.fill_(math.inf)
        gradients = [parameter.grad for parameter in parameters]
        allocated = meter.read().live.requested
        opt.zero_grad(set_to_none=False)
        left = meter.read().live.requested
    evidence.equal(left, allocated, what="the memory of the gradients", unit="bytes")
    for index, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        evidence.true(parameter.grad is gradient, "the gradient is the same object after zero_grad", parameter=index)
        if gradient is not None:
            zeros = np.zeros(tuple(parameter.shape))
            evidence.equal(as_float64(gradient), zeros, what="the gradient after zero_grad", parameter=index)
    before = [as_float64(parameter) for parameter in parameters]
    opt.step()
    for index, (parameter, start) in enumerate(zip(parameters, before, strict=True)):
        evidence.equal(as_float64(parameter), start, what="the parameter after a step by zeros", parameter=index)
