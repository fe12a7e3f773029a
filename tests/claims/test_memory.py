"""§3.5, accounting: the memory that training takes."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given

from spec import bounds
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import memory
from spec.instruments import allocator
from spec.instruments.flops import FlopCounter
from spec.oracles import steps

STATES = {"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2}
COUNTERS = {"sgd": 0, "momentum": 0, "adagrad": 1, "adam": 1}
HUGE = (2**26 + 1, 2**30 + 1, 2**13 + 1)  # points, width and layers: beyond 2⁶⁴ values, and odd, as no float is there
# In the first network activations decide the peak, in the second the highest point of backward, in the third the
# optimizer. The others have a single layer, or as many points as dimensions.
EACH_PHASE = ((200, 5, 1), (40, 64, 4), (1, 64, 5), (1, 64, 1), (64, 64, 2))
WHOLE = (int, np.int32, np.int64, np.uint32, np.uint64)
KINDS = ("parameters", "activations", "gradients", "optimizer_states")
NO_SIZES = (-1, np.int64(-1), 2.5, np.float64(8.0), "8", None)


def parameters_of(width, layers):
    """Return how many parameters the notes' network has."""
    return width * width * layers + width


def is_python_int(evidence, count, **inputs):
    """Require that a count is an integer of Python's, which never overflows."""
    evidence.true(isinstance(count, int), "the count is a Python integer", result_type=type(count).__name__, **inputs)


def count_is(evidence, count, predicted, what, **inputs):
    """Require a count, and that it is an integer of Python's."""
    evidence.equal(count, predicted, what=what, **inputs)
    is_python_int(evidence, count, **inputs)


def holds_at_any_size(evidence, impl, kind, predicted):
    """Require a count of huge networks, given by integers of any type, and of every optimizer."""
    for number in WHOLE:
        for optimizer in STATES:
            counted = impl.memory.training_budget(*map(number, HUGE), optimizer)
            inputs = {"sizes": HUGE, "type": number.__name__, "optimizer": optimizer}
            what = f"the number of {kind.replace('_', ' ')}"
            count_is(evidence, getattr(counted, kind), predicted(*HUGE, optimizer), what, **inputs)


def network(points, width, layers, device="cpu"):
    """Return a batch, its targets and the weights of the notes' network."""
    x, weights = steps.network(points, width, layers).in_torch(device)
    return x, torch.zeros(points, device=device), weights


def step_of_the_peak(evidence, impl, optimizer, networks, device=steps.CPU):
    """Require that the allocator's peaks are those predicted for one way to write the step; return its measurements.

    What a step holds besides its four counts depends on how it is written. Each recipe is tried until one fits.
    """
    predicted = [impl.memory.peak_bytes(*sizes, optimizer) for sizes in networks]
    for count in predicted:
        is_python_int(evidence, count)
    nearest = None
    for recipe in steps.recipes(optimizer):
        measured = [steps.measure(steps.network(*sizes), optimizer, device, recipe) for sizes in networks]
        peaks = [step.peak.requested for step in measured]
        allowed = [bounds.memory.peak(peak, sizes[2]) for peak, sizes in zip(peaks, networks, strict=True)]
        off = [abs(peak - count) / most for peak, count, most in zip(peaks, predicted, allowed, strict=True)]
        if nearest is None or max(off) < nearest[0]:
            nearest = max(off), recipe, measured, peaks, allowed
        if max(off) <= 1:
            break
    _, recipe, measured, peaks, allowed = nearest
    for sizes, step, peak, count, most in zip(networks, measured, peaks, predicted, allowed, strict=True):
        inputs = dict(zip(("points", "width", "layers"), sizes, strict=True)) | {"optimizer": optimizer}
        inputs |= {"measured_by": "the allocator", "predicted_by": "peak_bytes", "nearest_step": str(recipe)}
        if device.type == "cpu":
            inputs["peaks_in"] = max(step.live, key=lambda phase: max(step.live[phase]))
        evidence.close(peak, count, tolerance=most, what="the peak of requested memory", unit="bytes", **inputs)
    return list(zip(measured, predicted, strict=True))


@verifies(memory.PARAMETERS)
@given(points=st.sizes, width=st.sizes, layers=st.few_layers, optimizer=st.optimizers)
@example(points=3, width=3, layers=3, optimizer="adagrad")
@example(points=1, width=1, layers=1, optimizer="adam")
def test_the_weights_are_as_many(impl, evidence, points, width, layers, optimizer):
    """The weights of L layers and a head take 4·(D²·L + D) bytes, whatever the batch and the optimizer."""
    with steps.growth_of(steps.CPU) as growth:
        x, weights = steps.network(points, width, layers).in_torch()
        del x
    evidence.equal(growth[0], 4 * parameters_of(width, layers), what="the weights", unit="bytes")
    counted = impl.memory.training_budget(points, width, layers, optimizer).parameters
    count_is(evidence, counted, growth[0] // 4, "the number of parameters")
    del weights


@verifies(memory.PARAMETERS)
def test_parameters_are_counted_at_any_size(impl, evidence):
    """The number of parameters is exact beyond 2⁶⁴, and for NumPy's integers."""
    holds_at_any_size(evidence, impl, "parameters", lambda points, width, layers, _: parameters_of(width, layers))


@verifies(memory.ACTIVATIONS)
@given(points=st.sizes, width=st.sizes, layers=st.few_layers, optimizer=st.optimizers)
@example(points=3, width=3, layers=3, optimizer="adagrad")
@example(points=1, width=1, layers=1, optimizer="adam")
def test_autograd_saves_as_many(impl, evidence, points, width, layers, optimizer):
    """Besides parameters, batch and the loss's own B values, autograd saves 4·B·D·L bytes."""
    x, y, weights = network(points, width, layers)
    saved = steps.saved_for_backward(lambda: steps.forward(x, y, weights), x, y, *weights)
    evidence.equal(saved, 4 * points * width * layers + 4 * points, what="the saved tensors", unit="bytes")
    counted = impl.memory.training_budget(points, width, layers, optimizer).activations
    count_is(evidence, counted, saved // 4 - points, "the number of activations")


@verifies(memory.ACTIVATIONS)
def test_activations_are_counted_at_any_size(impl, evidence):
    """The number of activations is exact beyond 2⁶⁴, and for NumPy's integers."""
    holds_at_any_size(evidence, impl, "activations", lambda points, width, layers, _: points * width * layers)


@refutes(memory.ACTIVATIONS)
@given(points=st.sizes, width=st.sizes, layers=st.sizes)
def test_a_nonlinearity_saves_more(evidence, points, width, layers):
    """With a SiLU after every layer autograd saves 2·B·D·L values, and with the loss B more."""
    x, y, weights = network(points, width, layers)

    def forward():
        hidden = x
        for weight in weights[:-1]:
            hidden = torch.nn.functional.silu(hidden @ weight)
        return torch.nn.functional.mse_loss((hidden @ weights[-1]).squeeze(-1), y)

    saved = steps.saved_for_backward(forward, x, y, *weights) // 4
    evidence.equal(saved, 2 * points * width * layers + points, what="the saved tensors", unit="values")
    evidence.differs(saved, points * width * layers, what="the saved tensors", unit="values")


@verifies(memory.GRADIENTS)
@given(points=st.sizes, width=st.sizes, layers=st.few_layers, optimizer=st.optimizers)
@example(points=3, width=3, layers=3, optimizer="adagrad")
@example(points=1, width=1, layers=1, optimizer="adam")
def test_backward_leaves_one_gradient_per_parameter(impl, evidence, points, width, layers, optimizer):
    """When prediction and loss are gone, a backward pass has left exactly one value per parameter."""
    x, y, weights = network(points, width, layers)
    with steps.growth_of(steps.CPU) as growth:
        steps.forward(x, y, weights)[1].backward()
    evidence.equal(growth[0], 4 * parameters_of(width, layers), what="the gradients", unit="bytes")
    counted = impl.memory.training_budget(points, width, layers, optimizer).gradients
    count_is(evidence, counted, growth[0] // 4, "the number of gradients")


@verifies(memory.GRADIENTS)
def test_gradients_are_counted_at_any_size(impl, evidence):
    """The number of gradients is exact beyond 2⁶⁴, and for NumPy's integers."""
    holds_at_any_size(evidence, impl, "gradients", lambda points, width, layers, _: parameters_of(width, layers))


@verifies(memory.OPTIMIZER_STATES)
@given(points=st.sizes, width=st.sizes, layers=st.few_layers, optimizer=st.optimizers)
@example(points=3, width=3, layers=3, optimizer="adagrad")
@example(points=1, width=1, layers=1, optimizer="adam")
def test_optimizers_keep_as_many_states(impl, evidence, points, width, layers, optimizer):
    """Per parameter the first step leaves no value for SGD, 1 with momentum, 1 for AdaGrad, and 2 for Adam."""
    _, _, weights = network(points, width, layers)
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    with steps.growth_of(steps.CPU) as growth:
        stepping = steps.REFERENCE_RECIPE.optimizer(optimizer, weights)
        stepping.step()
    counters = COUNTERS[optimizer] * (layers + 1)
    predicted = STATES[optimizer] * parameters_of(width, layers)
    evidence.equal(growth[0], 4 * (predicted + counters), what="the optimizer's state", unit="bytes", counters=counters)
    counted = impl.memory.training_budget(points, width, layers, optimizer).optimizer_states
    count_is(evidence, counted, growth[0] // 4 - counters, "the number of optimizer states")
    del stepping


@verifies(memory.OPTIMIZER_STATES)
def test_states_are_counted_at_any_size(impl, evidence):
    """The number of states is exact beyond 2⁶⁴, and for NumPy's integers; AdaGrad's where no optimizer is named."""
    holds_at_any_size(
        evidence, impl, "optimizer_states", lambda _, width, layers, name: STATES[name] * parameters_of(width, layers)
    )


@verifies(memory.TOTAL)
@given(points=st.sizes, width=st.sizes, layers=st.few_layers, optimizer=st.optimizers)
@example(points=3, width=3, layers=3, optimizer="adagrad")
@example(points=1, width=1, layers=1, optimizer="adam")
def test_the_sum_is_what_comes_to_exist(impl, evidence, points, width, layers, optimizer):
    """The total is 4 bytes for each value of the four counts, whose names and order are the notes'."""
    budget = impl.memory.training_budget(points, width, layers, optimizer)
    parameters, activations = parameters_of(width, layers), points * width * layers
    expected = (parameters, activations, parameters, STATES[optimizer] * parameters)
    evidence.equal(tuple(budget), expected, what="the four counts")
    evidence.equal(tuple(budget._fields), KINDS, what="the names of the counts")
    evidence.equal(budget.total_bytes, 4 * sum(expected), what="the total", unit="bytes")
    is_python_int(evidence, budget.total_bytes)


@verifies(memory.TOTAL)
@given(networks=st.measured_networks, optimizer=st.optimizers)
@example(networks=EACH_PHASE, optimizer="sgd")
@example(networks=EACH_PHASE, optimizer="momentum")
@example(networks=EACH_PHASE, optimizer="adagrad")
@example(networks=EACH_PHASE, optimizer="adam")
def test_the_peak_is_the_largest_of_three_phases(impl, evidence, networks, optimizer):
    """The predicted peak of a step is the one that the allocator measures, in networks of any size."""
    step_of_the_peak(evidence, impl, optimizer, networks)


@verifies(memory.TOTAL)
def test_there_is_no_size_too_large(impl, evidence):
    """Beyond 2⁶⁴, too, the peak lies between what is alive at the end of backward and all that comes to exist.

    An optimizer's temporaries are no more than three per parameter, though it goes through all of them at once.
    """
    points, width, layers = HUGE
    parameters, batch = parameters_of(width, layers), points * (width + 1)
    for optimizer, states in STATES.items():
        alive = parameters * (2 + states) + batch
        everything = alive + points * (width + 1) * (layers + 2) + 3 * parameters
        for number in WHOLE:
            predicted = impl.memory.peak_bytes(*map(number, HUGE), optimizer)
            inputs = {"sizes": HUGE, "type": number.__name__, "optimizer": optimizer}
            evidence.at_least(predicted, 4 * alive, what="the peak", unit="bytes", **inputs)
            evidence.at_most(predicted, 4 * everything, what="the peak", unit="bytes", **inputs)


@verifies(memory.TOTAL)
def test_adagrad_is_the_optimizer_unless_another_is_named(impl, evidence):
    """Without an optimizer, counts and peak are those of AdaGrad, and sizes can be given by name."""
    sizes = {"batch_size": 7, "dim": 64, "num_layers": 3}
    for function in (impl.memory.training_budget, impl.memory.peak_bytes):
        what = f"the result of {function.__name__} without an optimizer"
        evidence.equal(function(**sizes), function(**sizes, optimizer="adagrad"), what=what, **sizes)


@verifies(memory.TOTAL)
def test_what_is_no_size_or_optimizer_is_refused(impl, evidence):
    """Negative sizes raise ValueError; sizes that are no integers and unknown optimizers raise it or TypeError."""
    for function in (impl.memory.training_budget, impl.memory.peak_bytes):
        function(8, 8, 8, "adam")  # A cached result for 8 must not be returned for 8.0.
        for argument in range(3):
            for size in NO_SIZES:
                sizes = [8, 8, 8]
                sizes[argument] = size
                error = ValueError if isinstance(size, int | np.integer) else (ValueError, TypeError)
                call = partial(function, *sizes, "adam")
                evidence.raises(error, call, function=function.__name__, sizes=sizes)
        for name in ("no optimizer", "", "ada"):  # No other optimizer has these names, so nobody may support them.
            call = partial(function, 8, 8, 8, name)
            evidence.raises((ValueError, TypeError), call, function=function.__name__, optimizer=name)


@refutes(memory.TOTAL)
@pytest.mark.parametrize(
    ("points", "layers", "optimizer", "above"), [(64, 16, "sgd", False), (256, 1, "adam", True), (1, 2, "adam", True)]
)
def test_the_sum_is_not_the_peak(evidence, points, layers, optimizer, above):
    """Few points in many layers under SGD peak at three quarters of the sum; a large batch and Adam peak above it."""
    width, what = 64, "the peak over the sum"
    parameters = parameters_of(width, layers)
    literal = 4 * (parameters * (2 + STATES[optimizer]) + points * width * layers)
    measured = steps.measure(steps.network(points, width, layers), optimizer).peak.requested
    evidence.differs(measured, literal, what="the peak", unit="bytes")
    if above:
        evidence.at_least(measured / literal, 5 / 4, what=what)
    else:
        evidence.at_most(measured / literal, 3 / 4, what=what)


@verifies(memory.TOTAL)
def test_a_step_leaves_no_more_than_its_states(evidence):
    """Over the phases of a step the bytes alive rise and fall, and end where they began."""
    step = steps.measure(steps.network(64, 64, 4), "adam")
    evidence.equal(
        step.live["zero_grad"][-1], step.live["forward"][0], what="the memory alive at the end", unit="bytes"
    )
    evidence.equal(max(map(max, step.live.values())), step.peak.requested, what="the peak", unit="bytes")
    evidence.equal(step.left, 0, what="the memory left after the step", unit="bytes")
    changes = 0
    for phase, live in step.live.items():
        evidence.series(
            f"bytes alive in {phase}", range(changes, changes + len(live)), live, unit="bytes", along="changes"
        )
        changes += len(live) - 1


@verifies(memory.TOTAL)
def test_the_peak_on_an_accelerator(impl, evidence, accelerator):
    """The bytes requested of its allocator peak as on the CPU, and what it gives is more by less than a block each."""
    block = allocator.block(accelerator) or pytest.skip(allocator.silent(accelerator))
    networks = ((64, 64, 4), (200, 96, 2), (1, 256, 1), (30, 128, 3))
    for optimizer in STATES:
        measured_steps = step_of_the_peak(evidence, impl, optimizer, networks, accelerator)
        for (points, width, layers), (step, predicted) in zip(networks, measured_steps, strict=True):
            sizes = {"points": points, "width": width, "layers": layers, "optimizer": optimizer}
            tolerance = bounds.memory.peak(step.peak.requested, layers) + bounds.memory.spare(block, layers)
            evidence.close(
                step.peak.allocated, predicted, tolerance=tolerance, what="the allocated memory", unit="bytes", **sizes
            )
            evidence.equal(
                step.left, 0, what="the memory left after the step", unit="bytes", workspace=step.workspace, **sizes
            )


@verifies(memory.FLOPS_PER_STEP)
@given(points=st.sizes, width=st.sizes, layers=st.few_layers)
def test_the_first_layer_passes_no_gradient_on(evidence, points, width, layers):
    """A step's products take 6·B·P FLOPs, but 2·B times the parameters of the first layer, be it the head, less."""
    x, y, weights = network(points, width, layers)
    with FlopCounter() as counter:
        steps.forward(x, y, weights)[1].backward()
    predicted = 6 * points * parameters_of(width, layers) - 2 * points * weights[0].numel()
    evidence.equal(counter.matmul, predicted, what="the products of a step", unit="FLOPs")


@refutes(memory.FLOPS_PER_STEP)
@pytest.mark.parametrize("layers", [0, 1, 4])
def test_a_step_takes_less_than_six_flops_per_parameter(evidence, layers):
    """Counted on a real step, the FLOPs fall short of 6·B·P: by a third with the head alone."""
    points, width = 5, 8
    x, y, weights = network(points, width, layers)
    with FlopCounter() as counter:
        steps.forward(x, y, weights)[1].backward()
    evidence.differs(
        counter.matmul, 6 * points * parameters_of(width, layers), what="the products of a step", unit="FLOPs"
    )
