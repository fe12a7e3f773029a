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
    """Gives out batches of inputs within ±½ with normal targets, and keeps what was asked for and given.

    With `one` it gives out the tensors of the first batch each time.
    """

    def __init__(self, dim, seed, *, one=False):
        self.dim, self.generator, self.one = dim, streams.seeded(seed), one
        self.asked, self.given, self.copies = [], [], []

    def __call__(self, batch_size):
        self.asked.append(batch_size)
        points = max(int(batch_size), 0)  # to refuse fewer is the implementation's part
        x = torch.rand(points, self.dim, generator=self.generator) - 0.5
        drawn = x, torch.randn(points, generator=self.generator)
        self.given.append(self.given[0] if self.one and self.given else drawn)
        self.copies.append(tuple(tensor.clone() for tensor in self.given[-1]))
        return self.given[-1]


def towards_the_truth(seed):
    """Return what gives out the notes' batches: normal inputs, and y = x·(0, 1, …, D − 1)."""
    generator = streams.seeded(seed)

    def get_batch(batch_size):
        x = torch.randn(int(batch_size), NOTES.dims, generator=generator)
        get_batch.given.append((x, x @ torch.arange(NOTES.dims, dtype=torch.float32)))
        return get_batch.given[-1]

    get_batch.given = []
    return get_batch


def run(impl, batches, seed, *, ended=lambda state: None, **arguments):
    """Train with torch's random stream seeded, whose state at the end is told, and then put back."""
    with streams.restored():
        streams.seed_torch(seed)
        trained = impl.training.train(batches, **arguments)
        ended(hash(torch.get_rng_state().numpy().tobytes()))
        return trained


def weights_of(model):
    """Return a model's parameters in the order in which they act: by the names in Cruncher, or else as registered."""
    named = dict(model.named_parameters())
    names = [*(f"layers.{place}.weight" for place in range(len(named) - 1)), "final.weight"]
    return [named[name] for name in names] if set(names) == set(named) else [*named.values()]


def squared_error(weights):
    """Return how far weights are from 0, 1, …, D − 1, squared."""
    return float(np.square(np.asarray(weights).reshape(-1) - np.arange(NOTES.dims)).sum())


def weights_are(evidence, model, dim, num_layers):
    """Require that a model has the parameters of the notes' network, and no more."""
    shapes = [(dim, dim)] * num_layers + [(dim, 1)]
    told = [tuple(weight.shape) for weight in weights_of(model)]
    evidence.equal(told, shapes, unit="as the parameters", names=[name for name, _ in model.named_parameters()])


def asks_for(evidence, batches, points, length):
    """Require that a run has asked for a batch per step, each of as many points; some may be asked for ahead."""
    evidence.at_least(len(batches.asked), length, unit="batches")
    if batches.asked:
        evidence.equal(sorted(set(batches.asked)), [points], unit="as the points asked for")


def likely(impl, batches, trained, seed, **sizes):
    """Return what names the mistake of a run, should it fail: found from where an untrained model begins."""

    def name():
        if len(batches.given) < sizes["steps"]:  # no batch of its own for each step
            return ""
        try:
            start = run(impl, batches, seed, **sizes | {"steps": 0}).model
            return mistake(batches.given[: sizes["steps"]], weights_of(start), weights_of(trained.model), sizes["lr"])
        except Exception:  # what is wrong otherwise is told by the failure itself
            return ""

    return name


def follows(evidence, trained, batches, length, lr, name=None):
    """Require that a run's losses are those of SGD on its first batches, which ended at its model's weights."""
    used = batches.given[:length]
    evidence.equal(len(trained.losses), length, unit="losses")
    types = {type(loss).__name__ for loss in trained.losses} | {"float"}
    evidence.equal(sorted(types), ["float"], unit="as the types of losses")
    predicted, first = replay(used, weights_of(trained.model), lr)
    magnified = bounds.descent.magnified([x for x, _ in used], len(first) - 1, lr)
    tolerance = [bounds.descent.replayed(x, y, first, len(predicted), magnified) for x, y in used]
    measured, predicted, tolerance = (
        torch.tensor(each, dtype=torch.float64) for each in (trained.losses, predicted, tolerance)
    )
    evidence.close(measured, predicted, tolerance=tolerance, unit="as the loss", likely=name, lr=lr, steps=length)


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
    evidence.close(measured, law, tolerance=band, unit="of the first squared error")
    ratios = errors[1:] / errors[:-1]
    one = bounds.descent.mean_of_products(NOTES.moments(bounds.descent.ORDER), 1, ratios.numel())
    evidence.close(float(ratios.mean()), NOTES.ratio, tolerance=one * NOTES.ratio, unit="per step")
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
        evidence.close(mean, descent.ratio, tolerance=tolerance, unit="per step", lr=descent.lr)
        if share == 0.5:
            evidence.at_most(mean, 1.0, unit="per stable step", lr=descent.lr)
        if share == 2.0:
            evidence.at_least(mean, 1.0, unit="per unstable step", lr=descent.lr)


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
    evidence.at_most(left[100], most, unit="as the squared error", likely=name, **sizes, steps=100)
    evidence.at_most(left[100], left[10], unit="as the squared error", likely=name, **sizes, steps=100)


@verifies(training.HEAD_ONLY)
@given(points=st.sizes, width=st.sizes, layers=st.up_to_three, seed=st.seeds)
def test_without_layers_the_head_is_left(impl, evidence, device, points, width, layers, seed):
    """The model has `num_layers` square matrices and a head, and its output is the product with each in turn."""
    batches = Batches(width, seed)
    trained = run(impl, batches, seed, dim=width, num_layers=layers, batch_size=points, steps=1, lr=0.0, device=device)
    weights_are(evidence, trained.model, width, layers)
    devices = {str(weight.device.type) for weight in trained.model.parameters()}
    evidence.equal(devices, {torch.device(device).type}, unit="as the device")
    x, weights = batches.given[0][0], [weight.detach().cpu().double() for weight in weights_of(trained.model)]
    output = trained.model(x.to(device)).detach()
    predicted, magnitude = steps.chain(x.double(), *weights), steps.chain(x.double().abs(), *(w.abs() for w in weights))
    tolerance = bounds.rounding.products(magnitude, [width] * (layers + 1), torch.float32).squeeze(-1)
    evidence.close(output, predicted.squeeze(-1), tolerance=tolerance, unit="as the output")


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
    follows(evidence, trained, batches, length, lr, likely(impl, batches, trained, seed, **sizes))
    for given_out, copies in zip(batches.given, batches.copies, strict=True):
        for tensor, copy in zip(given_out, copies, strict=True):
            evidence.equal(tensor, copy, unit="in a batch that was given out")


@verifies(training.ARGUMENTS)
@pytest.mark.parametrize(
    ("width", "layers", "points", "length", "lr"),
    [(2, 0, 3, 120, 0.03), (9, 2, 40, 2, 0.0005), (33, 0, 70, 5, 0.05), (1, 0, 1, 3, 0.5), (2, 2, 4, 3, 0.03)],
)
def test_long_runs_wide_layers_and_large_batches(impl, evidence, width, layers, points, length, lr):
    """A run of a hundred steps is one of SGD to its end, and so are those of larger sizes than are drawn."""
    batches = Batches(width, length)
    sizes = {"dim": width, "num_layers": layers, "batch_size": points, "steps": length, "lr": lr}
    trained = run(impl, batches, 0, **sizes)
    asks_for(evidence, batches, points, length)
    weights_are(evidence, trained.model, width, layers)
    follows(evidence, trained, batches, length, lr, likely(impl, batches, trained, 0, **sizes))


@verifies(training.ARGUMENTS)
@pytest.mark.parametrize("lr", [0.0005, 0.0])
def test_a_batch_that_comes_again_is_trained_on_again(impl, evidence, lr):
    """Where each batch is the same one, each step is one of SGD on it, also where the losses are all equal."""
    batches = Batches(3, 0, one=True)
    trained = run(impl, batches, 0, **SIZES | {"steps": 4, "lr": lr})
    follows(evidence, trained, batches, 4, lr)


@verifies(training.ARGUMENTS)
def test_a_run_within_a_run_has_a_model_of_its_own(impl, evidence):
    """Whoever gives out the batches may train a model of the same sizes meanwhile."""
    outer, inner = Batches(3, 0), Batches(3, 1)
    within = []

    def get_batch(batch_size):
        within.append(impl.training.train(inner, **SIZES | {"steps": 1}))
        return outer(batch_size)

    follows(evidence, run(impl, get_batch, 0, **SIZES), outer, SIZES["steps"], SIZES["lr"])
    follows(evidence, within[0], inner, 1, SIZES["lr"])


@verifies(training.ARGUMENTS)
def test_a_run_leaves_earlier_models_alone(impl, evidence):
    """A second run trains a model of its own, keeps losses of its own, and no run seeds torch's random stream."""
    states = []
    first = run(impl, Batches(3, 0), 0, ended=states.append, **SIZES)
    kept = [weight.detach().clone() for weight in first.model.parameters()], list(first.losses)
    second = run(impl, Batches(3, 1), 1, ended=states.append, **SIZES | {"lr": 0.1})
    evidence.differs(states[0], states[1], unit="as the hash of torch's random state", after="runs from two seeds")
    evidence.differs(second.losses, kept[1], unit="as the losses")
    evidence.equal(first.losses, kept[1], unit="as the losses")
    for weight, before in zip(first.model.parameters(), kept[0], strict=True):
        evidence.equal(weight.detach(), before, unit="as the weights")


@verifies(training.ARGUMENTS)
def test_numbers_of_any_type_are_honoured(impl, evidence):
    """NumPy's integers and floats train as Python's do."""
    for number in WHOLE:
        sizes = {name: number(size) for name, size in SIZES.items() if name != "lr"}
        batches = Batches(3, 0)
        trained = run(impl, batches, 0, **sizes, lr=np.float64(SIZES["lr"]))
        weights_are(evidence, trained.model, 3, 1)
        follows(evidence, trained, batches, SIZES["steps"], SIZES["lr"], likely(impl, batches, trained, 0, **SIZES))


@verifies(training.ARGUMENTS)
def test_what_fits_no_run_is_refused(impl, evidence):
    """Negative sizes and steps raise ValueError, what is no integer raises, and so do batches that do not fit."""
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
    head = torch.zeros(NOTES.dims, 1, requires_grad=True)  # what num_layers=0 leaves, whatever the argument says
    optimizer = torch.optim.SGD([head], lr=0.01)  # whatever the argument says
    x, y = batches(NOTES.points)
    steps.forward(x, y, [head])[1].backward()
    optimizer.step()
    asked = steps.network(NOTES.points, NOTES.dims, layers)
    _, (gradient,) = loss_and_gradients(x.numpy(), y.numpy(), [np.zeros((NOTES.dims, 1))])
    moved = float(head.detach().square().sum().sqrt())
    told = (head.numel(), round(moved / float(np.linalg.norm(gradient)), 5))
    evidence.equal(told, (NOTES.dims, 0.01), unit="as parameters and rate")
    evidence.differs(told, (sum(asked.parameters), lr), unit="as parameters and rate")
