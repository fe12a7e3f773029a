"""Wrong and unusual ways to account for the memory of training."""

import functools
import math
from fractions import Fraction
from operator import index

import numpy as np
import torch

from impl import memory as right
from spec.claims import memory
from spec.oracles import networks, steps
from tests.kit.overlay import mutant, twin

training_budget, peak_bytes, Budget = right.training_budget, right.peak_bytes, right.MemoryBudget
in_torch, forward, adagrad = networks.Layers.in_torch, steps.forward, torch.optim.Adagrad.step
read = steps.MemoryMeter.read
BUDGET, PEAK = "impl.memory.training_budget", "impl.memory.peak_bytes"


def budget(**changed):
    """Return a training_budget of which some counts are changed by functions of (B, D, L, optimizer, right count)."""

    def counts(batch_size, dim, num_layers, optimizer="adagrad"):
        told = training_budget(batch_size, dim, num_layers, optimizer)
        sizes = (index(batch_size), index(dim), index(num_layers), optimizer)
        return told._replace(**{name: change(*sizes, getattr(told, name)) for name, change in changed.items()})

    return counts


# ---- the counts ----


@mutant(BUDGET, caught_by=memory.PARAMETERS, value=True)
def forgets_the_head():
    """Counts the parameters of the layers, but not of the head."""
    return budget(parameters=lambda b, d, layers, name, count: d * d * layers)


@mutant(BUDGET, caught_by=memory.PARAMETERS, value=True)
def counts_biases():
    """Counts a bias for every output, of which the network has none."""
    return budget(parameters=lambda b, d, layers, name, count: count + d * layers + 1)


@mutant(BUDGET, caught_by=memory.PARAMETERS, value=True)
def takes_the_head_for_a_square():
    """Counts the head as one layer more."""
    return budget(parameters=lambda b, d, layers, name, count: d * d * (layers + 1))


@mutant(BUDGET, caught_by=memory.PARAMETERS)
def multiplies_in_numpy(batch_size, dim, num_layers, optimizer="adagrad"):
    """Multiplies sizes as they come, and NumPy's overflow."""
    with np.errstate(over="ignore"):
        parameters = dim * dim * num_layers + dim
    return training_budget(batch_size, dim, num_layers, optimizer)._replace(parameters=int(parameters))


@mutant(BUDGET, caught_by=(memory.PARAMETERS, memory.GRADIENTS), value=True)
def counts_in_floats():
    """Counts in floats, which are no integers."""
    return budget(
        parameters=lambda b, d, layers, name, count: float(count),
        gradients=lambda b, d, layers, name, count: float(count),
    )


@mutant(BUDGET, caught_by=(memory.PARAMETERS, memory.ACTIVATIONS, memory.GRADIENTS, memory.OPTIMIZER_STATES))
def rounds_large_counts(batch_size, dim, num_layers, optimizer="adagrad"):
    """Counts in floats, and returns the integers that they are by then."""
    return Budget(*(int(float(count)) for count in training_budget(batch_size, dim, num_layers, optimizer)))


@mutant(BUDGET, caught_by=memory.ACTIVATIONS, value=True)
def counts_the_prediction():
    """Counts the output of the head as an activation."""
    return budget(activations=lambda b, d, layers, name, count: count + b)


@mutant(BUDGET, caught_by=memory.ACTIVATIONS, value=True)
def counts_the_batch():
    """Counts the inputs as activations."""
    return budget(activations=lambda b, d, layers, name, count: b * d * (layers + 1))


@mutant(BUDGET, caught_by=memory.ACTIVATIONS, value=True)
def counts_one_point():
    """Counts the activations of a single point."""
    return budget(activations=lambda b, d, layers, name, count: d * layers)


@mutant(BUDGET, caught_by=memory.GRADIENTS, value=True)
def averages_gradients_over_layers():
    """Counts the gradients of one layer and the head, as if layers took turns."""
    return budget(gradients=lambda b, d, layers, name, count: d * d + d)


@mutant(BUDGET, caught_by=memory.GRADIENTS, value=True)
def counts_a_gradient_per_point():
    """Counts a gradient per parameter and point."""
    return budget(gradients=lambda b, d, layers, name, count: b * count)


@mutant(BUDGET, caught_by=memory.GRADIENTS, value=True)
def counts_gradients_of_activations():
    """Counts the gradients of the activations too, which are gone when backward ends."""
    return budget(gradients=lambda b, d, layers, name, count: count + b * d * layers)


@mutant(BUDGET, caught_by=memory.OPTIMIZER_STATES, value=True)
def gives_adagrad_two_moments():
    """Takes AdaGrad for an optimizer with two moments."""
    return budget(optimizer_states=lambda b, d, layers, name, count: count * (2 if name == "adagrad" else 1))


@mutant(BUDGET, caught_by=memory.OPTIMIZER_STATES, value=True)
def gives_adam_one_moment():
    """Forgets Adam's second moment."""
    return budget(optimizer_states=lambda b, d, layers, name, count: count // (2 if name == "adam" else 1))


@mutant(BUDGET, caught_by=memory.OPTIMIZER_STATES, value=True)
def ignores_the_optimizer():
    """Counts AdaGrad's states whatever the optimizer, as the notes do."""
    return budget(optimizer_states=lambda b, d, layers, name, count: d * d * layers + d)


@mutant(BUDGET, caught_by=memory.OPTIMIZER_STATES, value=True)
def takes_momentum_for_plain_sgd():
    """Gives SGD with momentum no state."""
    return budget(optimizer_states=lambda b, d, layers, name, count: 0 if name == "momentum" else count)


# ---- the total ----


@mutant("impl.memory.MemoryBudget.total_bytes", caught_by=memory.TOTAL, value=True)
def counts_values_for_bytes():
    """Adds the counts up and forgets that each value takes 4 bytes."""
    return property(sum)


@mutant("impl.memory.MemoryBudget.total_bytes", caught_by=memory.TOTAL, value=True)
def takes_mixed_precision():
    """Counts 2 bytes for parameters, activations and gradients."""
    return property(lambda self: 2 * sum(self[:3]) + 4 * self.optimizer_states)


@mutant(BUDGET, caught_by=memory.TOTAL)
def swaps_activations_and_gradients(batch_size, dim, num_layers, optimizer="adagrad"):
    """Returns the counts in another order."""
    parameters, activations, gradients, states = training_budget(batch_size, dim, num_layers, optimizer)
    return Budget(parameters, gradients, activations, states)


@mutant(BUDGET, caught_by=memory.TOTAL)
def is_adam_by_default(batch_size, dim, num_layers, optimizer="adam"):
    """Counts for Adam where no optimizer is named."""
    return training_budget(batch_size, dim, num_layers, optimizer)


@mutant(BUDGET, caught_by=memory.TOTAL)
def knows_every_optimizer(batch_size, dim, num_layers, optimizer="adagrad"):
    """Takes an optimizer that it does not know for SGD."""
    return training_budget(batch_size, dim, num_layers, optimizer if optimizer in right.STATES else "sgd")


@mutant(BUDGET, caught_by=memory.TOTAL)
def accepts_negative_sizes(batch_size, dim, num_layers, optimizer="adagrad"):
    """Takes a negative size for its absolute value."""
    return training_budget(*(abs(index(size)) for size in (batch_size, dim, num_layers)), optimizer)


@mutant(BUDGET, caught_by=memory.TOTAL)
def truncates_fractions(batch_size, dim, num_layers, optimizer="adagrad"):
    """Takes a size that is no integer for the integer below."""
    return training_budget(*map(int, (batch_size or 0, dim or 0, num_layers or 0)), optimizer)


@mutant(PEAK, caught_by=memory.TOTAL)
def takes_the_sum_for_the_peak(batch_size, dim, num_layers, optimizer="adagrad"):
    """Returns the notes' sum."""
    return training_budget(batch_size, dim, num_layers, optimizer).total_bytes


@mutant(PEAK, caught_by=memory.TOTAL)
def leaves_the_batch_out(batch_size, dim, num_layers, optimizer="adagrad"):
    """Forgets the inputs and targets."""
    return peak_bytes(batch_size, dim, num_layers, optimizer) - 4 * index(batch_size) * (index(dim) + 1)


@mutant(PEAK, caught_by=memory.TOTAL)
def keeps_activations_through_the_step(batch_size, dim, num_layers, optimizer="adagrad"):
    """Adds all activations and all gradients, as if nothing were freed in backward."""
    sizes = batch_size, dim, num_layers
    return training_budget(*sizes, optimizer).total_bytes + 4 * index(batch_size) * (index(dim) + 3) + 16


@mutant(PEAK, caught_by=memory.TOTAL, value=True)
def steps_without_temporaries():
    """Takes the optimizer's step to need no memory of its own."""
    right.ROOTS = dict.fromkeys(right.ROOTS, 0)
    return peak_bytes


@mutant(PEAK, caught_by=memory.TOTAL, value=True)
def frees_each_root_at_once():
    """Takes Adam to free what it divided by before it comes to the next weight."""
    right.ROOTS = right.ROOTS | {"adam": 1}
    return peak_bytes


@mutant(PEAK, caught_by=memory.TOTAL)
def steps_over_all_weights_at_once(batch_size, dim, num_layers, optimizer="adagrad"):
    """Gives Adam and AdaGrad their temporaries for all weights together, as with foreach=True."""
    counts = training_budget(batch_size, dim, num_layers, optimizer)
    step = 4 * (right.ROOTS[optimizer] + 1 + index(2)) * counts.parameters + 4 * counts.optimizer_states
    return max(peak_bytes(batch_size, dim, num_layers, optimizer), step if right.ROOTS[optimizer] else 0)


@mutant(PEAK, caught_by=memory.TOTAL)
def ends_with_forward(batch_size, dim, num_layers, optimizer="adagrad"):
    """Takes the end of forward for the peak."""
    b, d, layers = map(index, (batch_size, dim, num_layers))
    counts = training_budget(b, d, layers, optimizer)
    return 4 * (counts.parameters + counts.optimizer_states + counts.activations + b * (d + 4))


@mutant(PEAK, caught_by=memory.TOTAL)
def looks_at_the_top_of_backward(batch_size, dim, num_layers, optimizer="adagrad"):
    """Takes backward to peak in the last layer, though it leaves more gradients than it frees activations."""
    b, d, layers = map(index, (batch_size, dim, num_layers))
    if optimizer != "sgd" or layers < 2:
        return peak_bytes(b, d, layers, optimizer)
    parameters = training_budget(b, d, layers, optimizer).parameters
    return 4 * (parameters + b * (d + 3) + max(d + d * d + b * d * (layers + 1), parameters))


@mutant(PEAK, caught_by=memory.TOTAL)
def is_right_with_layers_only(batch_size, dim, num_layers, optimizer="adagrad"):
    """Takes the head alone for a network of one layer."""
    return peak_bytes(batch_size, dim, num_layers or 1, optimizer)


@mutant(PEAK, caught_by=memory.TOTAL)
def counts_in_32_bits(batch_size, dim, num_layers, optimizer="adagrad"):
    """Counts bytes in 32 bits, which begin again at 2³²."""
    return peak_bytes(batch_size, dim, num_layers, optimizer) % 2**32


@mutant(PEAK, caught_by=memory.TOTAL)
def ignores_the_optimizers_peak(batch_size, dim, num_layers, optimizer="adagrad"):
    """Models AdaGrad whatever the optimizer."""
    training_budget(batch_size, dim, num_layers, optimizer)
    return peak_bytes(batch_size, dim, num_layers, "adagrad")


@mutant(PEAK, caught_by=memory.TOTAL)
def accepts_any_optimizer(batch_size, dim, num_layers, optimizer="adagrad"):
    """Takes an optimizer that it does not know for SGD."""
    return peak_bytes(batch_size, dim, num_layers, optimizer if optimizer in right.STATES else "sgd")


# ---- the platform ----


@mutant("spec.oracles.steps.MemoryMeter.read", caught_by=(memory.PARAMETERS, memory.GRADIENTS))
def meters_in_blocks(self):
    """Rounds what is alive up to whole blocks of 512 bytes."""
    told = read(self)
    return told._replace(live=told.live._replace(requested=-(-told.live.requested // 512) * 512))


@mutant("torch.optim.Adagrad.step", caught_by=(memory.OPTIMIZER_STATES, memory.TOTAL))
def adagrad_keeps_its_roots(self, closure=None):
    """An AdaGrad that keeps the root of its sums as another state."""
    told = adagrad(self, closure)
    for weight, state in self.state.items():
        state["root"] = state["sum"].sqrt()
        state["more"] = torch.zeros_like(weight, requires_grad=False)
    return told


@mutant("spec.oracles.networks.Layers.in_torch", caught_by=memory.FLOPS_PER_STEP)
def passes_a_gradient_to_the_batch(self, device="cpu"):
    """A network whose batch gets a gradient, too."""
    x, weights = in_torch(self, device)
    return x.requires_grad_(), weights


@mutant("spec.oracles.steps.forward", caught_by=memory.FLOPS_PER_STEP)
def computes_layers_twice(x, y, weights):
    """A forward pass that computes every hidden layer twice."""
    for weight in weights[:-1]:
        x = x @ weight + 0 * (x @ weight)
    return forward(x, y, weights[-1:])


@mutant("spec.oracles.steps.forward", caught_by=(memory.ACTIVATIONS, memory.TOTAL))
def squares_by_hand(x, y, weights):
    """A loss that saves two more tensors of the prediction's size."""
    prediction, _ = forward(x, y, weights)
    return prediction, ((prediction - y).exp().log() ** 2).mean()


# ---- right, but unusual ----


@twin(PEAK)
def simulates_the_step(batch_size, dim, num_layers, optimizer="adagrad"):
    """Walks through the step, tensor by tensor, and keeps the largest sum."""
    b, d, layers = map(index, (batch_size, dim, num_layers))
    if min(b, d, layers) < 0 or optimizer not in right.STATES:
        raise ValueError
    matrices = [d * d] * layers + [d]
    live = sum(matrices) * (1 + right.STATES[optimizer]) + b * d + b
    peak = live

    def change(*sizes):
        nonlocal live, peak
        for size in sizes:
            live += size
            peak = max(peak, live)

    change(*[b * d] * layers, b, b, b, -b)
    flow = b
    change(flow)
    for place in reversed(range(layers + 1)):
        change(matrices[place])
        change(*([b * d] if place else []), -flow)
        change(*([-b * d] if place else []))
        flow = b * d
    kept = 0
    for size in matrices:
        roots = right.ROOTS[optimizer]
        change(roots * size, -(roots - 1) * size if roots else 0, -kept)
        kept = size if roots else 0
    return 4 * peak


@twin(PEAK)
def is_off_by_less_than_a_percent(batch_size, dim, num_layers, optimizer="adagrad"):
    """Estimates the peak half a percent too high."""
    return peak_bytes(batch_size, dim, num_layers, optimizer) * 201 // 200


@twin(BUDGET)
def counts_in_fractions(batch_size, dim, num_layers, optimizer="adagrad"):
    """Counts in fractions of fractions, and returns integers."""
    told = training_budget(batch_size, dim, num_layers, optimizer)
    return type(told)(*(int(Fraction(count, 3) * 3) for count in told))


@twin(BUDGET)
def takes_more_arguments(batch_size, dim, num_layers, optimizer="adagrad", dtype=torch.float32, *, world_size=1):
    """Takes a dtype and a number of devices in addition."""
    return training_budget(batch_size, dim, num_layers, optimizer)


@twin(BUDGET, value=True)
def knows_further_optimizers():
    """Knows RMSprop and AdamW in addition."""
    right.STATES = right.STATES | {"rmsprop": 1, "adamw": 2}
    right.COUNTERS = right.COUNTERS | {"rmsprop": 1, "adamw": 1}
    right.ROOTS = right.ROOTS | {"rmsprop": 1, "adamw": 2}
    return training_budget


class Whole(int):
    """An integer of a type of its own."""


@twin(BUDGET, value=True)
def counts_in_integers_of_its_own():
    """Returns a subclass of the budget, with a subclass of int."""
    Own = type("Own", (Budget,), {"total_bytes": property(lambda self: Whole(4 * sum(self)))})
    return lambda *sizes, **named: Own(*map(Whole, training_budget(*sizes, **named)))


# ---- look-alikes ----
@mutant(BUDGET, caught_by=(memory.PARAMETERS, memory.ACTIVATIONS), value=True)
def multiplies_each_size_once():
    """Multiplies the sizes as a set, in which equal ones are one."""
    return budget(
        parameters=lambda b, d, layers, name, count: count if d != layers else d * d + d,
        activations=lambda b, d, layers, name, count: math.prod({b, d, layers}),
    )


@mutant(BUDGET, caught_by=(memory.PARAMETERS, memory.GRADIENTS, memory.OPTIMIZER_STATES), value=True)
def takes_a_square_head_for_a_layer():
    """Counts weights by their shapes, and so leaves out the head where it has that of the layers."""

    def counts(b, d, layers, name, count):
        return count - (count // (layers + 1) if d == 1 and layers else 0)

    return budget(parameters=counts, gradients=counts, optimizer_states=counts)


@mutant(BUDGET, caught_by=memory.OPTIMIZER_STATES, value=True)
def remembers_sizes_and_not_the_optimizer():
    """Counts once for given sizes, and returns that for every optimizer."""
    known = {}

    def counted(batch_size, dim, num_layers, optimizer="adagrad"):
        right_one = training_budget(batch_size, dim, num_layers, optimizer)
        return known.setdefault((batch_size, dim, num_layers), right_one)

    return counted


@mutant(PEAK, caught_by=memory.TOTAL, value=True)
def remembers_peaks_by_size():
    """Computes a peak once for given sizes, and returns that for every optimizer."""
    known = {}

    def computed(batch_size, dim, num_layers, optimizer="adagrad"):
        right_one = peak_bytes(batch_size, dim, num_layers, optimizer)
        return known.setdefault((batch_size, dim, num_layers), right_one)

    return computed


@mutant(PEAK, caught_by=memory.TOTAL)
def takes_one_layer_for_two(batch_size, dim, num_layers, optimizer="adagrad"):
    """Takes a layer alone to have another before it, whose root Adam has not freed yet."""
    told = peak_bytes(batch_size, dim, num_layers, optimizer)
    return told + (4 * index(dim) ** 2 if index(num_layers) == 1 and right.ROOTS[optimizer] else 0)


@mutant(PEAK, caught_by=memory.TOTAL)
def takes_a_square_batch_for_a_weight(batch_size, dim, num_layers, optimizer="adagrad"):
    """Finds tensors again by their shapes, and so counts a batch of as many points as dimensions with the weights."""
    told = peak_bytes(batch_size, dim, num_layers, optimizer)
    return told - (4 * index(dim) ** 2 if index(batch_size) == index(dim) else 0)


@mutant(PEAK, caught_by=memory.TOTAL, value=True)
def remembers_what_is_equal():
    """Finds the peak of 8 again for 8.0, which is no integer."""
    return functools.lru_cache(peak_bytes)


@twin(BUDGET, value=True)
def remembers_all_that_it_was_asked():
    """Finds a budget again by its sizes, their types and the optimizer."""
    return functools.lru_cache(typed=True)(training_budget)


@twin(PEAK, value=True)
def remembers_peaks_by_all_arguments():
    """Finds a peak again by its sizes, their types and the optimizer."""
    return functools.lru_cache(typed=True)(peak_bytes)


@twin(BUDGET)
def counts_layer_by_layer(batch_size, dim, num_layers, optimizer="adagrad"):
    """Adds up what each layer has, and then the head's."""
    training_budget(batch_size, dim, num_layers, optimizer)
    points, width, layers = index(batch_size), index(dim), index(num_layers)
    parameters = sum(width * width for _ in range(layers)) + width
    activations = sum(points * width for _ in range(layers))
    return Budget(parameters, activations, parameters, sum(parameters for _ in range(right.STATES[optimizer])))


@twin(BUDGET)
def looks_at_a_network_without_memory(batch_size, dim, num_layers, optimizer="adagrad"):
    """Counts the values of tensors on the meta device, where torch can count as far."""
    told = training_budget(batch_size, dim, num_layers, optimizer)
    points, width, layers = index(batch_size), index(dim), index(num_layers)
    if max(points, width) * max(width, 1) * max(layers, 1) >= 2**60:
        return told
    weights = [torch.empty(width, width, device="meta")] * layers + [torch.empty(width, 1, device="meta")]
    parameters = sum(weight.numel() for weight in weights)
    activations = layers * torch.empty(points, width, device="meta").numel()
    return Budget(parameters, activations, parameters, right.STATES[optimizer] * parameters)
