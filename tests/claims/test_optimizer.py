"""§3.5: the optimizer."""

import copy
import io
import math
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
from spec.oracles.updates import Followed, exactly

NAMES = ("SGD", "AdaGrad")
# Where nothing else is said there is one parameter of each shape; of those alike, two have the same dtype as well.
SHAPES = ((), (4, 5), (4, 5), (0, 3), (4, 5), (0,), (7,), (2, 1, 3))
ALIKE = {"options": {}, "shapes": ((2, 3),) * 4, "seed": 0}
DTYPES = (torch.float32, torch.float64, torch.bfloat16)
PRECISE = DTYPES[:2]
NOTHING = {"SGD": {"eps": None}, "AdaGrad": {}}  # what a Followed has to know where no option is given


class Draw:
    """Draws parameters, and their gradients from 1e-6 to 1e6, a ninth of them 0."""

    def __init__(self, seed, device="cpu"):
        self.random = np.random.default_rng(seed)
        self.device = device

    def tensor(self, shape, dtype):
        """Return normal values; a matrix has its columns in memory one after the other."""
        values = self.random.standard_normal(shape[::-1]).T
        return torch.as_tensor(values).to(dtype).to(self.device)

    def parameters(self, dtypes=DTYPES, shapes=SHAPES):
        """Return a parameter of each shape, in each dtype in turn."""
        first = int(self.random.integers(len(dtypes)))
        kinds = [dtypes[(first + place) % len(dtypes)] for place in range(len(shapes))]
        return [nn.Parameter(self.tensor(shape, dtype)) for shape, dtype in zip(shapes, kinds, strict=True)]

    def gradient(self, parameter, zeros=True):
        """Give a parameter a gradient of its own."""
        signs = np.sign(
            self.random.integers(-4, 5, parameter.shape) if zeros else self.random.normal(size=parameter.shape)
        )
        sizes = 10 ** self.random.uniform(-6, 6, parameter.shape)
        parameter.grad = torch.as_tensor(signs * sizes).to(parameter.dtype).to(self.device)

    def gradients(self, parameters, missing=1 / 8):
        """Give parameters a gradient each; leave some without."""
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


def squares_of(stepping, parameter):
    """Return the sum of squares that AdaGrad keeps; zeros where it keeps none yet."""
    kept = stepping.state.get(parameter, {})
    return exactly(kept["g2"]) if "g2" in kept else np.zeros(tuple(parameter.shape))


def moves(evidence, followed, step):
    """Require of a step that it moves each parameter as its rule has it, and leaves its gradient as it is."""
    gradients = [each.parameter.grad for each in followed]
    learning = [each.parameter.requires_grad for each in followed]
    starts = [exactly(each.parameter) for each in followed]
    expected = [each.step() for each in followed]
    step()
    for each, start, goal in zip(followed, starts, expected, strict=True):
        at = {"lr": each.lr, "eps": each.eps, "step": each.steps, "dtype": each.parameter.dtype}
        after, parameter, near = exactly(each.parameter), goal.parameter, goal.near
        if (place := first_off(after, goal)) is not None:  # one element says more than all of them
            at |= {"element": list(place)} if place else {}
            at |= {"before": start[place], "gradient": None if goal.gradient is None else goal.gradient[place]}
            after, parameter, near = after[place], parameter[place], near[place]
        evidence.close(after, parameter, tolerance=near, unit="as the parameter", **at)
    still = [each.parameter.requires_grad for each in followed]
    evidence.equal(still, learning, unit="as what requires grad")
    kept = [each.parameter.grad is gradient for each, gradient in zip(followed, gradients, strict=True)]
    evidence.equal(kept, [True] * len(followed), unit="that the gradients are the same ones")
    same = [
        gradient is None or np.array_equal(exactly(gradient), goal.gradient, equal_nan=True)
        for gradient, goal in zip(gradients, expected, strict=True)
    ]
    evidence.equal(same, [True] * len(followed), unit="that the gradients are as before", parameters=len(followed))


def first_off(after, goal):
    """Return where the first element is that is not where a step is to take it; None where all are."""
    if after.shape != goal.parameter.shape:
        return None
    there = (np.abs(after - goal.parameter) <= goal.near) | (after == goal.parameter)
    off = np.argwhere(~(there | (np.isnan(after) & np.isnan(goal.parameter))))
    return tuple(map(int, off[0])) if len(off) else None


def adds_up(evidence, followed, stepping):
    """Require of AdaGrad's sums that each is that of its parameter's squared gradients."""
    for each in followed:
        nearly = each.squares * bounds.updates.summed(each.steps, each.parameter.dtype)
        evidence.close(squares_of(stepping, each.parameter), each.squares, tolerance=nearly, unit='as state[p]["g2"]')


def through_a_file(kept):
    """Return what torch.load makes of what torch.save wrote, without running code from it."""
    file = io.BytesIO()
    torch.save(kept, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


class Product(nn.Module):
    """Multiplies by a weight; what torch's own layers start from comes out of the global stream."""

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
    """Return where a tensor's storage is."""
    return tensor.untyped_storage().data_ptr()


def values_of(tensors):
    """Return each tensor's values, in arrays of their own, by name."""
    return {name: exactly(tensor) for name, tensor in tensors.items()}


def are_equal(evidence, measured, predicted, unit):
    """Require the same names, and the same values under each."""
    evidence.equal(list(measured), list(predicted), unit=f"as the names of {unit}")
    for name, values in measured.items():
        evidence.equal(values, predicted[name], unit=f"as {unit}", name=name)


def places_of(parameters, group):
    """Return where each parameter of a group stands among `parameters`."""
    places = {id(parameter): place for place, parameter in enumerate(parameters)}
    return [places.get(id(parameter), "another") for parameter in group["params"]]


def stepped(impl, name, seed, device):
    """Return parameters of two groups and their optimizer; one has made no step, and one is frozen since."""
    draw = Draw(seed, device)
    parameters = draw.parameters(dtypes_of(device))
    groups = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.5}]
    stepping = getattr(impl.optimizer, name)(groups)
    draw.gradients(parameters[:-1], missing=0)
    stepping.step()
    stepping.zero_grad()
    parameters[1].requires_grad_(False)
    return parameters, stepping


def given_gradients(parameters):
    """Give all parameters but the last but one a gradient, and return how many bytes that takes."""
    chosen = [*parameters[:-2], parameters[-1]]
    for parameter in chosen:
        parameter.grad = torch.ones_like(parameter)
    return sum(parameter.numel() * parameter.element_size() for parameter in chosen)


@verifies(optimizer.ADAGRAD)
@given(options=st.adaptive_options, by_name=st.yes_or_no, shapes=st.parameter_shapes, seed=st.seeds)
@example(by_name=True, **ALIKE)
def test_each_step_follows_the_rule(impl, evidence, device, options, by_name, shapes, seed):
    """Over five steps, with gradients from 1e-6 to 1e6, p moves by −lr·g/√(G + ε) and G is the sum of g²."""
    draw = Draw(seed, device)
    parameters = draw.parameters(dtypes_of(device), shapes)
    followed = [Followed(parameter, **options) for parameter in parameters]
    in_order = () if by_name or "lr" not in options else tuple(options.values())
    stepping = impl.optimizer.AdaGrad(parameters, *in_order, **({} if in_order else options))
    for _ in range(5):
        draw.gradients(parameters)
        moves(evidence, followed, stepping.step)
    adds_up(evidence, followed, stepping)


@verifies(optimizer.ADAGRAD)
@given(seed=st.seeds)
def test_without_eps_it_is_torchs(impl, evidence, device, seed):
    """With ε = 0 each of five steps is that of torch.optim.Adagrad, an implementation by others, within rounding."""
    draw = Draw(seed, device)
    (parameter,) = draw.parameters([torch.float32], [(5, 7)])
    others = parameter.detach().clone().requires_grad_()
    stepping = impl.optimizer.AdaGrad([parameter], lr=0.1, eps=0.0)
    theirs = torch.optim.Adagrad([others], lr=0.1, eps=0.0)
    followed = Followed(parameter, lr=0.1, eps=0.0)
    taken, predicted, near = [], [], []
    for _ in range(5):
        draw.gradient(parameter, zeros=False)
        others.grad = parameter.grad
        near.append(2 * followed.step().near)
        stepping.step()
        theirs.step()
        taken.append(exactly(parameter))
        predicted.append(exactly(others))
        with torch.no_grad():
            others.copy_(parameter)
    taken, predicted, near = map(np.stack, (taken, predicted, near))
    evidence.close(taken, predicted, tolerance=near, unit="as torch's parameter")


@verifies(optimizer.ADAGRAD)
@pytest.mark.parametrize("way", ["state dict", "deep copy", "file", "copied optimizer"])
def test_the_sums_go_along(impl, evidence, way):
    """After a trip through state_dict, a deep copy or a file, options and sums are the same, and go on in use.

    Of two parameters of the same shape and dtype the sums are equal until then, and go on by gradients of their own.
    """
    draw = Draw(3)
    parameters = draw.parameters(PRECISE)
    groups = [{"params": parameters[:2], "lr": 0.5, "note": "kept"}, {"params": parameters[2:], "eps": 1e-2}]
    options = [{"lr": 0.5}] * 2 + [{"lr": 0.25, "eps": 1e-2}] * (len(parameters) - 2)
    followed = [Followed(parameter, **option) for parameter, option in zip(parameters, options, strict=True)]
    stepping = impl.optimizer.AdaGrad(groups, lr=0.25)
    for _ in range(3):
        draw.gradients(parameters, missing=0)
        parameters[4].grad = parameters[2].grad.clone()
        moves(evidence, followed, stepping.step)
    if way == "copied optimizer":
        stepping = copy.deepcopy(stepping)
        parameters = [parameter for group in stepping.param_groups for parameter in group["params"]]
    else:
        change = {"state dict": lambda kept: kept, "deep copy": copy.deepcopy, "file": through_a_file}[way]
        kept = change(stepping.state_dict())
        parameters = [nn.Parameter(parameter.detach().clone()) for parameter in parameters]
        stepping = impl.optimizer.AdaGrad([{"params": parameters[:2]}, {"params": parameters[2:]}], lr=1.0, eps=1.0)
        stepping.load_state_dict(kept)
    for each, parameter in zip(followed, parameters, strict=True):
        each.parameter = parameter
    evidence.equal(stepping.param_groups[0].get("note"), "kept", unit="as an option of one's own")
    adds_up(evidence, followed, stepping)
    for _ in range(2):
        draw.gradients(parameters)
        moves(evidence, followed, stepping.step)
        adds_up(evidence, followed, stepping)


@verifies(optimizer.ADAGRAD)
def test_sums_of_float32_go_on_in_float64(impl, evidence):
    """Loaded for parameters of float64, the sums keep their values, and the next squares are added in float64."""
    draw = Draw(11)
    narrow = draw.parameters([torch.float32])
    stepping = impl.optimizer.AdaGrad(narrow, lr=0.5)
    for _ in range(2):
        draw.gradients(narrow, missing=0)
        stepping.step()
    wide = [nn.Parameter(parameter.detach().double()) for parameter in narrow]
    followed = [Followed(parameter, lr=0.5) for parameter in wide]
    for each, parameter in zip(followed, narrow, strict=True):
        each.squares = squares_of(stepping, parameter)
    later = impl.optimizer.AdaGrad(wide)
    later.load_state_dict(through_a_file(stepping.state_dict()))
    for _ in range(2):
        draw.gradients(wide, missing=0)
        moves(evidence, followed, later.step)
    adds_up(evidence, followed, later)


@verifies(optimizer.ADAGRAD)
def test_what_is_not_a_number_stays_where_it_is(impl, evidence, device):
    """A NaN makes a NaN of its own element alone, and an infinite gradient too, as ∞/√∞ is none."""
    parameter = nn.Parameter(torch.ones(6, device=device))
    followed = [Followed(parameter)]
    stepping = impl.optimizer.AdaGrad([parameter])
    for gradient in ((1.0, math.nan, 1e-3, math.inf, -0.0, -2.0), (1.0, 1.0, 0.0, 1.0, 0.0, 1e-6)):
        parameter.grad = torch.tensor(gradient, device=device)
        with np.errstate(invalid="ignore"):
            moves(evidence, followed, stepping.step)


@verifies(optimizer.ADAGRAD)
def test_large_parameters_too(impl, evidence, device):
    """Every one of 30,000 elements of a matrix moves as the rule has it."""
    draw = Draw(4, device)
    parameters = draw.parameters([torch.float32], [(150, 200)])
    followed = [Followed(parameter) for parameter in parameters]
    stepping = impl.optimizer.AdaGrad(parameters)
    for _ in range(2):
        draw.gradients(parameters, missing=0)
        moves(evidence, followed, stepping.step)


@verifies(optimizer.ACCUMULATOR)
@given(options=st.adaptive_options, shapes=st.parameter_shapes, seed=st.seeds)
@example(**ALIKE)
def test_sums_never_shrink(impl, evidence, device, options, shapes, seed):
    """From 0 on, no element of G becomes less in any step, and without a gradient none becomes more."""
    draw = Draw(seed, device)
    parameters = draw.parameters(dtypes_of(device), shapes)
    followed = [Followed(parameter, **options) for parameter in parameters]
    stepping = impl.optimizer.AdaGrad(parameters, **options)
    adds_up(evidence, followed, stepping)
    for _ in range(5):
        before = [squares_of(stepping, parameter) for parameter in parameters]
        draw.gradients(parameters)
        for each in followed:
            each.step()
        stepping.step()
        added = [squares_of(stepping, parameter) - old for parameter, old in zip(parameters, before, strict=True)]
        evidence.at_least(min(float(each.min(initial=0)) for each in added), 0.0, unit="added to a sum")
        unused = [each for each, parameter in zip(added, parameters, strict=True) if parameter.grad is None]
        evidence.equal([each.any() for each in unused], [False] * len(unused), unit="as growth without a gradient")
    adds_up(evidence, followed, stepping)


@verifies(optimizer.EFFECTIVE_RATE)
@given(options=st.adaptive_options, exponent=st.exponents, dtype=st.precise_dtypes)
def test_the_tth_step_under_a_constant_gradient(impl, evidence, options, exponent, dtype):
    """Under a constant gradient g the t-th step from 0 is lr·g/√(t·g² + ε)."""
    lr, eps, count = options.get("lr", 0.01), options.get("eps", 1e-5), 12
    parameter = nn.Parameter(torch.zeros(2, dtype=dtype))
    parameter.grad = torch.tensor([-(10**exponent), 10**exponent], dtype=dtype)
    g = exactly(parameter.grad)
    stepping = impl.optimizer.AdaGrad([parameter], **options)
    places = [exactly(parameter)]
    for _ in range(count):
        stepping.step()
        places.append(exactly(parameter))
    t = np.arange(1, count + 1)[:, None]
    law = lr * g / np.sqrt(t * g**2 + eps)
    steps = -np.diff(places, axis=0)
    off = [bounds.updates.adapted(int(n), dtype, parameter.device) for n in t[:, 0]]
    near = [
        bounds.updates.moved(np.abs(there - step), np.abs(step), by, dtype)
        for there, step, by in zip(places[:-1], law, off, strict=True)
    ]
    evidence.close(steps, law, tolerance=np.stack(near), unit="as the step", g=g[1], dtype=dtype)
    evidence.series("measured", range(1, count + 1), steps[:, 1] / lr, unit="lr", along="steps")
    evidence.series("law", range(1, count + 1), law[:, 1] / lr, unit="lr", along="steps")


@verifies(optimizer.EFFECTIVE_RATE)
@given(exponent=st.exponents, times=st.sizes)
def test_a_large_history_shortens_the_step(impl, evidence, device, exponent, times):
    """Of two elements with the same gradient now, the one that had larger gradients before moves less."""
    parameter = nn.Parameter(torch.zeros(2, device=device))
    followed = Followed(parameter)
    stepping = impl.optimizer.AdaGrad([parameter])
    g = max(10**exponent, 0.01)  # below that ε rules the root, and rounding the comparison
    for _ in range(times):
        parameter.grad = torch.tensor([g, 4 * g], device=device)
        followed.step()
        stepping.step()
    before = exactly(parameter)
    parameter.grad = torch.tensor([g, g], device=device)
    moves(evidence, [followed], stepping.step)
    small, large = np.abs(exactly(parameter) - before).tolist()
    evidence.at_most(large, small, unit="of a step", g=g)


@verifies(optimizer.GROUPS)
@given(name=st.steppers, seed=st.seeds)
def test_each_parameter_moves_once_by_its_groups_options(impl, evidence, device, name, seed):
    """Parameters of several groups, one of them added later, each move once a step, by the rates in force then."""
    draw = Draw(seed, device)
    parameters = draw.parameters(dtypes_of(device))
    rule = NOTHING[name]
    groups = [{"params": parameters[:2], "lr": 0.5}, {"params": parameters[2], "note": "kept"}]
    followed = [Followed(parameter, lr=0.5, **rule) for parameter in parameters[:2]]
    followed.append(Followed(parameters[2], lr=0.125, **rule))
    stepping = getattr(impl.optimizer, name)(groups, lr=0.125)
    draw.gradients(parameters)
    moves(evidence, followed, stepping.step)
    own = {"lr": 0.25} | ({"eps": 0.5} if name == "AdaGrad" else {})
    stepping.add_param_group({"params": iter(parameters[3:]), **own})
    followed += [Followed(parameter, **rule | own) for parameter in parameters[3:]]
    evidence.raises(ValueError, partial(stepping.add_param_group, {"params": parameters[:1]}), group="a second one")
    draw.gradients(parameters)
    moves(evidence, followed, stepping.step)
    stepping.param_groups[0]["lr"] = followed[0].lr = followed[1].lr = 2.0
    if name == "AdaGrad":
        stepping.param_groups[1]["eps"] = followed[2].eps = 0.5
    draw.gradients(parameters)
    moves(evidence, followed, stepping.step)
    held = [places_of(parameters, group) for group in stepping.param_groups]
    evidence.equal(held, [[0, 1], [2], [*range(3, len(SHAPES))]], unit="as the parameters of each group")
    evidence.equal(stepping.param_groups[1].get("note"), "kept", unit="as an option of one's own")


@verifies(optimizer.GROUPS)
@pytest.mark.parametrize("name", NAMES)
def test_a_model_with_shared_frozen_and_unused_parameters(impl, evidence, device, name):
    """A parameter that two layers share is held and moved once; frozen and unused ones stay, and those after move."""
    draw = Draw(5, device)
    model = products(draw, *[(3, 3)] * 5)
    model[1].weight = model[0].weight
    model[2].weight.requires_grad_(False)
    x = draw.tensor((2, 3), torch.float32)
    parameters = [model[0].weight, model[2].weight, model[3].weight, model[4].weight]
    stepping = getattr(impl.optimizer, name)(model.parameters())
    held = [places_of(parameters, group) for group in stepping.param_groups]
    evidence.equal(held, [[0, 1, 2, 3]], unit="as the parameters of each group")
    followed = [Followed(parameter, **NOTHING[name]) for parameter in parameters]
    moves(evidence, followed, stepping.step)  # none, as there is no gradient yet
    for _ in range(3):
        stepping.zero_grad()
        model[4](model[2](model[1](model[0](x)))).sum().backward()
        moves(evidence, followed, stepping.step)
    evidence.equal(model[0].weight is model[1].weight, True, unit="that it is shared")


@verifies(optimizer.GROUPS)
@pytest.mark.parametrize("name", NAMES)
def test_look_alikes_go_their_own_ways(impl, evidence, device, name):
    """Parameters that have the same values, even gradients, groups of the same options, and two optimizers do not mix.

    Both optimizers hold three of the parameters, and the second is made before the first gets its last group.
    """
    draw, rule, make = Draw(12, device), NOTHING[name], getattr(impl.optimizer, name)
    start = draw.tensor((3, 3), torch.float32)
    parameters = [nn.Parameter(start.clone()) for _ in range(5)]
    first = make([{"params": parameters[:2]}, {"params": parameters[2:4]}], lr=0.5)
    second = make(parameters[1:4], lr=0.25)
    first.add_param_group({"params": parameters[4:]})
    both = [
        (first, [Followed(parameter, lr=0.5, **rule) for parameter in parameters]),
        (second, [Followed(parameter, lr=0.25, **rule) for parameter in parameters[1:4]]),
    ]
    for parameter in parameters:
        parameter.grad = parameters[0].grad if parameters[0].grad is not None else torch.ones_like(parameter)
    for _ in range(3):
        for stepping, followed in both:
            moves(evidence, followed, stepping.step)
        draw.gradients(parameters, missing=0)
        parameters[1].grad = None
    if name == "AdaGrad":
        for stepping, followed in both:
            adds_up(evidence, followed, stepping)


@verifies(optimizer.GROUPS)
@pytest.mark.parametrize("name", NAMES)
def test_a_closure_is_called_once(impl, evidence, name):
    """step(closure) calls it once, with gradients enabled, steps by what it leaves in .grad, and returns its loss."""
    parameters = Draw(6).parameters(PRECISE, SHAPES[:3])
    followed = [Followed(parameter, **NOTHING[name]) for parameter in parameters]
    stepping = getattr(impl.optimizer, name)(parameters)
    calls, losses, returned = [], [], []

    def closure():
        calls.append(torch.is_grad_enabled())
        stepping.zero_grad(set_to_none=False)
        with torch.enable_grad():
            losses.append(sum((parameter * parameter).sum() for parameter in parameters))
        losses[-1].backward()
        return losses[-1]

    def step():
        for parameter in parameters:
            parameter.grad.fill_(7.0)  # which the closure makes good
        returned.append(stepping.step(closure=closure) if returned else stepping.step(closure))

    for _ in range(2):
        for parameter in parameters:
            parameter.grad = 2 * parameter.detach()
        moves(evidence, followed, step)
    evidence.equal(calls, [True, True], unit="as the calls and whether gradients are enabled")
    evidence.equal(
        [loss is mine for loss, mine in zip(returned, losses, strict=True)], [True] * 2, unit="as the losses"
    )
    evidence.equal(stepping.step() is None, True, unit="that there is no loss without a closure")


@verifies(optimizer.GROUPS)
@pytest.mark.parametrize("name", NAMES)
def test_schedulers_and_hooks_work_on_it(impl, evidence, name):
    """A scheduler of torch's halves the learning rate from the next step on, and hooks are called around each step."""
    draw = Draw(7)
    parameters = draw.parameters(PRECISE)
    followed = [Followed(parameter, lr=0.5, **NOTHING[name]) for parameter in parameters]
    stepping = getattr(impl.optimizer, name)(parameters, lr=0.5)
    halving = torch.optim.lr_scheduler.ExponentialLR(stepping, gamma=0.5)
    hooked = []
    stepping.register_step_pre_hook(lambda *_: hooked.append("before"))
    stepping.register_step_post_hook(lambda *_: hooked.append("after"))
    for _ in range(3):
        draw.gradients(parameters)
        moves(evidence, followed, stepping.step)
        halving.step()
        for each in followed:
            each.lr /= 2
    evidence.equal(hooked, ["before", "after"] * 3, unit="as the calls of hooks")


@verifies(optimizer.GROUPS)
@pytest.mark.parametrize("name", NAMES)
def test_a_rate_of_0_moves_nothing(impl, evidence, name):
    """A learning rate of 0 is one, and not the default."""
    still = nn.Parameter(torch.ones(2))
    still.grad = torch.ones(2)
    moves(evidence, [Followed(still, lr=0.0, **NOTHING[name])], getattr(impl.optimizer, name)([still], lr=0.0).step)


@verifies(optimizer.GROUPS)
def test_sgd_keeps_no_state(impl, evidence):
    """After a step nothing of a parameter's size is kept for it."""
    parameter = nn.Parameter(torch.ones(5))
    parameter.grad = torch.ones(5)
    stepping = impl.optimizer.SGD([parameter])
    stepping.step()
    values = [value for state in stepping.state.values() for value in state.values()]
    large = sum(isinstance(value, torch.Tensor) and value.numel() > 1 for value in values)
    evidence.equal(large, 0, unit="tensors in the state", parameter=(5,))


@verifies(optimizer.STATE_DICT)
@given(name=st.steppers, seed=st.seeds)
def test_what_is_kept_follows_every_step(impl, evidence, device, name, seed):
    """The model's state_dict shares storage with its parameters, and has their values after every step."""
    draw = Draw(seed, device)
    model = products(draw, (3, 4), (4, 2))
    parameters = dict(model.named_parameters())
    kept, before = model.state_dict(), values_of(parameters)
    sharing = [name for name in kept if storage_of(kept[name]) == storage_of(parameters[name])]
    evidence.equal(sharing, list(parameters), unit="as what shares storage with the model")
    stepping = getattr(impl.optimizer, name)(model.parameters(), lr=0.1)
    for _ in range(2):
        draw.gradients(parameters.values(), missing=0)
        stepping.step()
        are_equal(evidence, values_of(kept), values_of(model.state_dict()), "what was kept")
    for name, values in values_of(kept).items():
        told = "as it was" if np.array_equal(values, before[name]) else "moved"
        evidence.equal(told, "moved", unit="by two steps", name=name)


@verifies(optimizer.STATE_DICT)
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, through_a_file, lambda kept: {n: t.clone() for n, t in kept.items()}]
)
def test_copies_stay(impl, evidence, device, copied):
    """A deep copy, what a file gives back and clones have the values from before the steps."""
    draw = Draw(8, device)
    model = products(draw, (3, 4), (4, 2))
    kept, before = copied(model.state_dict()), values_of(model.state_dict())
    are_equal(evidence, values_of(kept), before, "the copy")
    stepping = impl.optimizer.AdaGrad(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        draw.gradient(parameter)
    stepping.step()
    are_equal(evidence, values_of(kept), before, "the copy")


@verifies(optimizer.STATE_DICT)
def test_the_sums_are_in_the_optimizers_state_alone(impl, evidence, device):
    """The model's state_dict names its parameters, before and after; the optimizer's has each one's sum and options."""
    draw = Draw(9, device)
    model = products(draw, (3, 4), (4, 2))
    names = [name for name, _ in model.named_parameters()]
    evidence.equal(list(model.state_dict()), names, unit="as the names")
    followed = [Followed(parameter) for parameter in model.parameters()]
    stepping = impl.optimizer.AdaGrad(model.parameters())
    for _ in range(2):
        draw.gradients(model.parameters(), missing=0)
        moves(evidence, followed, stepping.step)
    evidence.equal(list(model.state_dict()), names, unit="as the names")
    kept = stepping.state_dict()
    evidence.equal(sorted(kept), ["param_groups", "state"], unit="as the optimizer's names")
    (group,) = kept["param_groups"]
    evidence.equal((group["lr"], group["eps"]), (0.01, 1e-5), unit="as the options")
    for place, each in zip(group["params"], followed, strict=True):
        nearly = each.squares * bounds.updates.summed(each.steps, torch.float32)
        sums = kept["state"].get(place, {}).get("g2", torch.zeros_like(each.parameter))
        evidence.close(exactly(sums), each.squares, tolerance=nearly, unit='as "g2" of the state')


@refutes(optimizer.STATE_DICT)
@pytest.mark.parametrize("kept_as", ["state_dict", "copy of the dict", "dict of the dict"])
def test_a_kept_state_dict_is_no_copy(evidence, device, kept_as):
    """After a step of torch's own AdaGrad a kept state_dict, or a copy() of it, has no longer the old values."""
    draw = Draw(10, device)
    model = products(draw, (2, 1))
    keep = {"state_dict": lambda kept: kept, "copy of the dict": lambda kept: kept.copy(), "dict of the dict": dict}
    kept, before = keep[kept_as](model.state_dict()), values_of(model.state_dict())
    for parameter in model.parameters():
        draw.gradient(parameter)
    torch.optim.Adagrad(model.parameters(), lr=0.1).step()
    for name, values in values_of(kept).items():
        evidence.differs(values.tolist(), before[name].tolist(), unit="as the copy", of=name)


@verifies(optimizer.ZERO_GRAD)
@given(name=st.steppers, seed=st.seeds, by_default=st.yes_or_no)
def test_the_gradients_memory_is_given_back(impl, evidence, device, name, seed, by_default):
    """zero_grad leaves every .grad None, and the bytes alive fall by those of the gradients, stepped by or not."""
    parameters, stepping = stepped(impl, name, seed, device)
    with metered(device) as meter:
        size = given_gradients(parameters)
        made = meter.read().live.requested
        stepping.zero_grad() if by_default else stepping.zero_grad(set_to_none=True)
        left = meter.read().live.requested
    evidence.equal(made, size, unit="bytes of gradients")
    evidence.equal(made - left, size, unit="bytes freed")
    evidence.equal([parameter.grad is None for parameter in parameters], [True] * len(parameters), unit="as None")
    given_gradients(parameters)
    held = [StorageWeakRef(parameter.grad.untyped_storage()) for parameter in parameters if parameter.grad is not None]
    stepping.step()
    stepping.zero_grad()
    evidence.equal([storage.expired() for storage in held], [True] * len(held), unit="that nothing else holds them")


@verifies(optimizer.ZERO_GRAD)
@given(name=st.steppers, seed=st.seeds)
def test_zeros_take_as_much_memory(impl, evidence, device, name, seed):
    """zero_grad(set_to_none=False) makes zeros of the same gradients, of infinite ones too, and frees nothing."""
    parameters, stepping = stepped(impl, name, seed, device)
    with metered(device) as meter:
        given_gradients(parameters)
        parameters[1].grad.fill_(math.inf)
        gradients = [parameter.grad for parameter in parameters]
        made = meter.read().live.requested
        stepping.zero_grad(set_to_none=False)
        left = meter.read().live.requested
    evidence.equal(left, made, unit="bytes alive")
    for parameter, gradient in zip(parameters, gradients, strict=True):
        evidence.equal(parameter.grad is gradient, True, unit="that it has its gradient")
        if gradient is not None:
            evidence.equal(exactly(gradient), np.zeros(tuple(parameter.shape)), unit="as the gradient")
    before = [exactly(parameter) for parameter in parameters]
    stepping.step()
    for parameter, start in zip(parameters, before, strict=True):
        evidence.equal(exactly(parameter), start, unit="as the parameter")
