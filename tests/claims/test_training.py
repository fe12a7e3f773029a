"""§3.6: the training loop."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings

from spec import bounds
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import training
from spec.oracles import steps, streams
from spec.oracles.descent import Descent, loss_and_gradients, mistake, replay

NOTES = Descent(lr=0.01, points=4, dims=16)
SIZES = {"dim": 3, "num_layers": 1, "batch_size": 2, "steps": 2, "lr": 0.0005}
WHOLE = (int, np.int32, np.int64, np.uint8)


class Batches:
    """A `get_batch` that draws inputs within ±½ and normal targets, and remembers the sizes and the batches.

    With `one` it returns the tensors of the first batch each time.
    """

    def __init__(self, dim, seed, *, one=False):
        self.dim, self.generator, self.one = dim, streams.seeded(seed), one
        self.asked, self.given, self.copies = [], [], []

    def __call__(self, batch_size):
        self.asked.append(batch_size)
        points = max(int(batch_size), 0)  # The implementation has to refuse a negative size, not this function.
        x = torch.rand(points, self.dim, generator=self.generator) - 0.5
        drawn = x, torch.randn(points, generator=self.generator)
        self.given.append(self.given[0] if self.one and self.given else drawn)
        self.copies.append(tuple(tensor.clone() for tensor in self.given[-1]))
        return self.given[-1]


def towards_the_truth(seed):
    """Return a `get_batch` for the notes' task: inputs are normal, and y = x·(0, 1, …, D − 1)."""
    generator = streams.seeded(seed)

    def get_batch(batch_size):
        x = torch.randn(int(batch_size), NOTES.dims, generator=generator)
        get_batch.given.append((x, x @ torch.arange(NOTES.dims, dtype=torch.float32)))
        return get_batch.given[-1]

    get_batch.given = []
    return get_batch


def run(impl, batches, seed, *, ended=lambda state: None, **arguments):
    """Train with a seeded random stream, pass a hash of its last state to `ended`, and restore the stream."""
    with streams.restored():
        streams.seed_torch(seed)
        trained = impl.training.train(batches, **arguments)
        ended(hash(torch.get_rng_state().numpy().tobytes()))
        return trained


def weights_of(model):
    """Return a model's parameters in the order in which they act: by the names in Cruncher, or else as registered."""
    named = dict(model.named_parameters())
    names = [*(f"layers.{layer}.weight" for layer in range(len(named) - 1)), "final.weight"]
    return [named[name] for name in names] if set(names) == set(named) else [*named.values()]


def squared_error(weights):
    """Return the squared distance of the weights from the truth, 0, 1, …, D − 1."""
    return float(np.square(np.asarray(weights).reshape(-1) - np.arange(NOTES.dims)).sum())


def weights_are(evidence, model, dim, num_layers):
    """Require that a model has the parameters of the notes' network, and no more."""
    shapes = [(dim, dim)] * num_layers + [(dim, 1)]
    measured = [tuple(weight.shape) for weight in weights_of(model)]
    evidence.equal(
        measured, shapes, what="the parameters' shapes", names=[name for name, _ in model.named_parameters()]
    )


def asks_for(evidence, batches, points, length):
    """Require at least one call of `get_batch` per step, each with the batch size; a run may call it ahead of time."""
    evidence.at_least(len(batches.asked), length, what="the calls of get_batch", unit="batches")
    if batches.asked:
        evidence.equal(sorted(set(batches.asked)), [points], what="the batch sizes asked for", unit="points")


def likely(impl, batches, trained, seed, **sizes):
    """Return a function that names the mistake of a run, by replaying it from the weights of an untrained model."""

    def name():
        if len(batches.given) < sizes["steps"]:  # The replay needs a batch for each step.
            return ""
        try:
            start = run(impl, batches, seed, **sizes | {"steps": 0}).model
            return mistake(batches.given[: sizes["steps"]], weights_of(start), weights_of(trained.model), sizes["lr"])
        except Exception:  # The hint is optional: the failure of the check itself is reported.
            return ""

    return name


def losses_are_those_of_sgd(evidence, trained, batches, length, lr, name=None):
    """Require that a run's losses are those of SGD on its batches, replayed from the last weights to the first.

    The first weights are unknown: an implementation may draw them as it likes. A step w ← w − lr·gradient can be
    solved for the weights before it. The replay does so from the trained model back, and compares every loss.
    """
    used = batches.given[:length]
    evidence.equal(len(trained.losses), length, what="the number of losses", unit="losses")
    types = {type(loss).__name__ for loss in trained.losses} | {"float"}
    evidence.equal(sorted(types), ["float"], what="the types of the losses")
    predicted, first = replay(used, weights_of(trained.model), lr)
    magnified = bounds.descent.magnified([x for x, _ in used], len(first) - 1, lr)
    tolerance = [bounds.descent.replayed(x, y, first, len(predicted), magnified) for x, y in used]
    measured, predicted, tolerance = (
        torch.tensor(each, dtype=torch.float64) for each in (trained.losses, predicted, tolerance)
    )
    evidence.close(
        measured, predicted, tolerance=tolerance, what="the loss of each step", likely=name, lr=lr, steps=length
    )


@verifies(training.RECOVERS_WEIGHTS)
@settings(max_examples=2)
@given(seed=st.seeds)
def test_the_error_falls_as_the_law_says(evidence, seed):
    """Of many runs of torch's SGD, the mean squared error lies in its band around the law after every step."""
    runs, length = 100, 100
    errors = NOTES.errors(runs, length, seed)
    measured = errors.mean(1) / errors[0, 0]
    law = NOTES.ratio ** torch.arange(length + 1, dtype=torch.float64)
    band = law * bounds.descent.mean_curve(NOTES.moments(bounds.descent.ORDER), length, runs)
    evidence.close(measured, law, tolerance=band, what="the squared error over the first")
    ratios = errors[1:] / errors[:-1]
    one = bounds.descent.mean_of_products(NOTES.moments(bounds.descent.ORDER), 1, ratios.numel())
    evidence.close(float(ratios.mean()), NOTES.ratio, tolerance=one * NOTES.ratio, what="the factor of one step")
    for name, curve in {"mean": measured, "law": law, "least": law - band, "most": law + band}.items():
        evidence.series(name, range(length + 1), curve, unit="of the first squared error", along="steps")


@verifies(training.RECOVERS_WEIGHTS)
@pytest.mark.parametrize("points", [1, 4])
@settings(max_examples=2)
@given(seed=st.seeds)
def test_beyond_a_learning_rate_the_error_grows(evidence, points, seed):
    """A step multiplies the squared error as the law says: below 1 at half of B/(B + D + 1), above at its double."""
    dims, runs, length = 6, 1000, 3
    for share in (0.5, 0.9, 2.0):
        descent = Descent(share * Descent(0.0, points, dims).limit, points, dims)
        errors = descent.errors(runs, length, seed)
        mean = float((errors[1:] / errors[:-1]).mean())
        tolerance = (
            bounds.descent.mean_of_products(descent.moments(bounds.descent.ORDER), 1, runs * length) * descent.ratio
        )
        evidence.close(mean, descent.ratio, tolerance=tolerance, what="the factor of one step", lr=descent.lr)
        if share == 0.5:
            evidence.at_most(mean, 1.0, what="the factor of a stable step", lr=descent.lr)
        if share == 2.0:
            evidence.at_least(mean, 1.0, what="the factor of an unstable step", lr=descent.lr)


@verifies(training.RECOVERS_WEIGHTS)
@settings(max_examples=2)
@given(seed=st.seeds)
def test_a_hundred_steps_come_closer_than_ten(impl, evidence, seed):
    """On the notes' own task the weights end closer to the truth after 100 steps than after 10."""
    sizes = {"dim": NOTES.dims, "num_layers": 0, "batch_size": NOTES.points, "lr": NOTES.lr}
    left = {}
    for length in (10, 100):
        batches = towards_the_truth(seed)
        trained = run(impl, batches, seed, **sizes, steps=length)
        weights_are(evidence, trained.model, NOTES.dims, 0)
        left[length] = squared_error(weights_of(trained.model)[0].detach())
    most = bounds.descent.product(NOTES.moments(bounds.descent.ORDER), 100) * bounds.descent.first_error(NOTES.dims)
    name = likely(impl, batches, trained, seed, **sizes, steps=100)
    evidence.at_most(left[100], most, what="the squared error after 100 steps", likely=name, **sizes, steps=100)
    evidence.at_most(
        left[100],
        left[10],
        what="the squared error after 100 steps, not above that after 10",
        likely=name,
        **sizes,
        steps=100,
    )


@verifies(training.HEAD_ONLY)
@given(points=st.sizes, width=st.sizes, layers=st.up_to_three, seed=st.seeds)
def test_without_layers_the_head_is_left(impl, evidence, device, points, width, layers, seed):
    """The model has `num_layers` square matrices and a head, and its output is the product with each in turn."""
    batches = Batches(width, seed)
    trained = run(impl, batches, seed, dim=width, num_layers=layers, batch_size=points, steps=1, lr=0.0, device=device)
    weights_are(evidence, trained.model, width, layers)
    devices = {str(weight.device.type) for weight in trained.model.parameters()}
    evidence.equal(devices, {torch.device(device).type}, what="the devices of the weights")
    x, weights = batches.given[0][0], [weight.detach().cpu().double() for weight in weights_of(trained.model)]
    output = trained.model(x.to(device)).detach()
    predicted, magnitude = steps.chain(x.double(), *weights), steps.chain(x.double().abs(), *(w.abs() for w in weights))
    tolerance = bounds.rounding.products(magnitude, [width] * (layers + 1), torch.float32).squeeze(-1)
    evidence.close(output, predicted.squeeze(-1), tolerance=tolerance, what="the output")


@verifies(training.ARGUMENTS)
@given(
    width=st.small, layers=st.up_to_two, points=st.small, length=st.up_to_three, lr=st.rates_of_descent, seed=st.seeds
)
@example(width=3, layers=2, points=3, length=2, lr=0.0005, seed=0)
@example(width=1, layers=1, points=1, length=0, lr=0.0005, seed=0)
def test_every_step_is_one_of_sgd(impl, evidence, width, layers, points, length, lr, seed):
    """Each step moves a network of `num_layers` by −lr times its gradient on the next batch of `batch_size`."""
    batches = Batches(width, seed)
    sizes = {"dim": width, "num_layers": layers, "batch_size": points, "steps": length, "lr": lr}
    trained = run(impl, batches, seed, **sizes)
    asks_for(evidence, batches, points, length)
    weights_are(evidence, trained.model, width, layers)
    losses_are_those_of_sgd(evidence, trained, batches, length, lr, likely(impl, batches, trained, seed, **sizes))
    for given_out, copies in zip(batches.given, batches.copies, strict=True):
        for tensor, copy in zip(given_out, copies, strict=True):
            evidence.equal(tensor, copy, what="a batch that was given out")


@verifies(training.ARGUMENTS)
@pytest.mark.parametrize(
    ("width", "layers", "points", "length", "lr"),
    [(2, 0, 3, 120, 0.03), (9, 2, 40, 2, 0.0005), (33, 0, 70, 5, 0.05), (1, 0, 1, 3, 0.5), (2, 2, 4, 3, 0.03)],
)
def test_long_runs_wide_layers_and_large_batches(impl, evidence, width, layers, points, length, lr):
    """Every step is a step of SGD also in a run of a hundred steps, with wide layers, and with large batches."""
    batches = Batches(width, length)
    sizes = {"dim": width, "num_layers": layers, "batch_size": points, "steps": length, "lr": lr}
    trained = run(impl, batches, 0, **sizes)
    asks_for(evidence, batches, points, length)
    weights_are(evidence, trained.model, width, layers)
    losses_are_those_of_sgd(evidence, trained, batches, length, lr, likely(impl, batches, trained, 0, **sizes))


@verifies(training.ARGUMENTS)
@pytest.mark.parametrize("lr", [0.0005, 0.0])
def test_a_batch_that_comes_again_is_trained_on_again(impl, evidence, lr):
    """When every batch is the same one, each step is still a step of SGD on it, even if all losses are equal."""
    batches = Batches(3, 0, one=True)
    trained = run(impl, batches, 0, **SIZES | {"steps": 4, "lr": lr})
    losses_are_those_of_sgd(evidence, trained, batches, 4, lr)


@verifies(training.ARGUMENTS)
def test_a_run_within_a_run_has_a_model_of_its_own(impl, evidence):
    """While `get_batch` runs it may train another model of the same sizes, and both runs are right."""
    outer, inner = Batches(3, 0), Batches(3, 1)
    within = []

    def get_batch(batch_size):
        within.append(impl.training.train(inner, **SIZES | {"steps": 1}))
        return outer(batch_size)

    losses_are_those_of_sgd(evidence, run(impl, get_batch, 0, **SIZES), outer, SIZES["steps"], SIZES["lr"])
    losses_are_those_of_sgd(evidence, within[0], inner, 1, SIZES["lr"])


@verifies(training.ARGUMENTS)
def test_a_run_leaves_earlier_models_alone(impl, evidence):
    """A second run trains a model of its own, keeps losses of its own, and no run seeds torch's random stream."""
    states = []
    first = run(impl, Batches(3, 0), 0, ended=states.append, **SIZES)
    weights, losses = [weight.detach().clone() for weight in first.model.parameters()], list(first.losses)
    second = run(impl, Batches(3, 1), 1, ended=states.append, **SIZES | {"lr": 0.1})
    evidence.differs(states[0], states[1], what="the hash of torch's random state", after="runs from two seeds")
    evidence.differs(second.losses, losses, what="the losses of the second run")
    evidence.equal(first.losses, losses, what="the losses of the first run")
    for weight, before in zip(first.model.parameters(), weights, strict=True):
        evidence.equal(weight.detach(), before, what="a weight of the first run")


@verifies(training.ARGUMENTS)
def test_numbers_of_any_type_are_honoured(impl, evidence):
    """NumPy's integers and floats train as Python's do."""
    for number in WHOLE:
        sizes = {name: number(size) for name, size in SIZES.items() if name != "lr"}
        batches = Batches(3, 0)
        trained = run(impl, batches, 0, **sizes, lr=np.float64(SIZES["lr"]))
        weights_are(evidence, trained.model, 3, 1)
        losses_are_those_of_sgd(
            evidence, trained, batches, SIZES["steps"], SIZES["lr"], likely(impl, batches, trained, 0, **SIZES)
        )


@verifies(training.ARGUMENTS)
def test_what_fits_no_run_is_refused(impl, evidence):
    """Negative sizes and steps raise ValueError; sizes that are no integers and batches of a wrong shape raise too."""
    for name in ("dim", "num_layers", "batch_size", "steps"):
        evidence.raises(ValueError, partial(run, impl, Batches(3, 0), 0, **SIZES | {name: -1}), **{name: -1})
        for size in (1.5, "2", None):
            call = partial(run, impl, Batches(3, 0), 0, **SIZES | {name: size})
            evidence.raises((TypeError, ValueError), call, **{name: size})
    too_wide = partial(run, impl, lambda batch_size: (torch.ones(2, 4), torch.ones(2)), 0, **SIZES)
    evidence.raises((ValueError, RuntimeError, IndexError), too_wide, x=(2, 4))


@refutes(training.ARGUMENTS)
@pytest.mark.parametrize(("layers", "lr"), [(2, 0.01), (0, 0.1)])
def test_the_notes_function_trains_the_head_at_one_rate(evidence, layers, lr):
    """Written as in the notes, the function trains 16 parameters and moves them by 0.01 times the gradient."""
    batches = towards_the_truth(0)
    head = torch.zeros(NOTES.dims, 1, requires_grad=True)  # The notes' function always passes num_layers=0.
    optimizer = torch.optim.SGD([head], lr=0.01)  # The notes' function ignores its argument `lr`.
    x, y = batches(NOTES.points)
    steps.forward(x, y, [head])[1].backward()
    optimizer.step()
    asked = steps.network(NOTES.points, NOTES.dims, layers)
    _, (gradient,) = loss_and_gradients(x.numpy(), y.numpy(), [np.zeros((NOTES.dims, 1))])
    moved = float(head.detach().square().sum().sqrt())
    measured = (head.numel(), round(moved / float(np.linalg.norm(gradient)), 5))
    evidence.equal(measured, (NOTES.dims, 0.01), what="the parameters and the rate")
    evidence.differs(measured, (sum(asked.parameters), lr), what="the parameters and the rate")
