"""Wrong and unusual training loops."""

import copy
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn

from impl import model
from impl import training as right
from spec.claims import training
from spec.oracles import descent
from spec.oracles.descent import Descent
from tests.kit.overlay import mutant, twin

train, Run, Cruncher, mse_loss = right.train, right.TrainingRun, model.Cruncher, nn.functional.mse_loss
sgd_step, descent_errors, randn = torch.optim.SGD.step, Descent.errors, torch.randn
TRAIN = "impl.training.train"
EARLIER = {}
CLAIMS = (training.ARGUMENTS, training.RECOVERS_WEIGHTS)


def loop(
    get_batch,
    *,
    dim,
    num_layers,
    batch_size,
    steps,
    lr,
    device="cpu",
    build=Cruncher,
    loss_of=mse_loss,
    update=lambda p, lr: p.sub_(lr * p.grad),
    clear=True,
    before=True,
    keep=None,
):
    """A plain training loop of which each part can be changed; it refuses what the reference refuses."""
    train(get_batch, dim=dim, num_layers=num_layers, batch_size=batch_size, steps=min(steps, 0), lr=lr, device=device)
    network, losses = build(dim, num_layers).to(device), []
    for step in range(steps):
        x, y = get_batch(batch_size) if keep is None or step == 0 else keep
        if x.shape != (batch_size, dim) or y.shape != (batch_size,):
            raise ValueError("shape")
        keep = None if keep is None else (x, y)
        x, y = x.to(device), y.to(device)
        loss = loss_of(network(x), y)
        if clear:
            network.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in network.parameters():
                update(parameter, lr)
        losses.append((loss if before else mse_loss(network(x), y)).item())
    return Run(losses, network)


# ---- arguments ----


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def ignores_the_rate(get_batch, **arguments):
    """Trains at 0.01, as the notes' function does."""
    train(get_batch, **arguments | {"steps": 0})
    return train(get_batch, **arguments | {"lr": 0.01})


@mutant(TRAIN, caught_by=(training.ARGUMENTS, training.HEAD_ONLY))
def ignores_the_layers(get_batch, **arguments):
    """Trains the head alone, as the notes' function does."""
    train(get_batch, **arguments | {"steps": 0})
    return train(get_batch, **arguments | {"num_layers": 0})


@mutant(TRAIN, caught_by=(training.ARGUMENTS, training.HEAD_ONLY))
def ignores_the_dimension(get_batch, **arguments):
    """Trains a network of 16 dimensions whatever it is told, and cuts or fills up the inputs."""

    def batches(size):
        x, y = get_batch(size)
        return nn.functional.pad(x, (0, 16 - x.shape[1])), y

    return train(batches, **arguments | {"dim": 16})


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def asks_for_four_points(get_batch, **arguments):
    """Asks for batches of 4 whatever it is told."""
    train(get_batch, **arguments | {"steps": 0})
    return train(get_batch, **arguments | {"batch_size": 4})


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def takes_one_step_more(get_batch, **arguments):
    """Takes a step more than it is told."""
    train(get_batch, **arguments | {"steps": 0})
    return train(get_batch, **arguments | {"steps": arguments["steps"] + 1})


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def asks_for_a_batch_to_begin_with(get_batch, **arguments):
    """Asks for one batch before the first step, and throws it away."""
    train(get_batch, **arguments | {"steps": 0})
    get_batch(arguments["batch_size"])
    return train(get_batch, **arguments)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def uses_one_batch_for_all_steps(get_batch, **arguments):
    """Asks for one batch and takes every step with it."""
    return loop(get_batch, **arguments, keep=())


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def returns_losses_after_the_steps(get_batch, **arguments):
    """Measures each loss after its step."""
    return loop(get_batch, **arguments, before=False)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def accumulates_gradients(get_batch, **arguments):
    """Never clears the gradients, so that each step repeats all earlier ones."""
    return loop(get_batch, **arguments, clear=False)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def sums_the_loss(get_batch, **arguments):
    """Minimises the sum of the squared errors rather than their mean."""
    return loop(get_batch, **arguments, loss_of=lambda p, y: (p - y).square().sum())


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def halves_the_loss(get_batch, **arguments):
    """Minimises half of the mean squared error, as textbooks do."""
    return loop(get_batch, **arguments, loss_of=lambda p, y: mse_loss(p, y) / 2)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def minimises_the_absolute_error(get_batch, **arguments):
    """Minimises the mean absolute error."""
    return loop(get_batch, **arguments, loss_of=nn.functional.l1_loss)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def spreads_targets_over_predictions(get_batch, **arguments):
    """Subtracts a row of targets from a column of predictions, which makes a square of them."""
    return loop(get_batch, **arguments, loss_of=lambda p, y: (p[:, None] - y).square().mean())


@mutant(TRAIN, caught_by=CLAIMS)
def climbs(get_batch, **arguments):
    """Moves along the gradient, not against it."""
    return loop(get_batch, **arguments, update=lambda p, lr: p.add_(lr * p.grad))


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def moves_by_the_sign(get_batch, **arguments):
    """Moves by the sign of the gradient alone."""
    return loop(get_batch, **arguments, update=lambda p, lr: p.sub_(lr * p.grad.sign()))


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def clips_the_gradient(get_batch, **arguments):
    """Cuts every gradient to ±0.1."""
    return loop(get_batch, **arguments, update=lambda p, lr: p.sub_(lr * p.grad.clamp(-0.1, 0.1)))


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def decays_weights(get_batch, **arguments):
    """Shrinks the weights at each step, too."""
    return loop(get_batch, **arguments, update=lambda p, lr: p.mul_(1 - lr).sub_(lr * p.grad))


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def keeps_momentum(get_batch, **arguments):
    """Keeps half of the last step's direction."""
    moving = {}

    def update(p, lr):
        moving[p] = 0.5 * moving.get(p, 0) + p.grad
        p.sub_(lr * moving[p])

    return loop(get_batch, **arguments, update=update)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def lowers_the_rate(get_batch, **arguments):
    """Lowers the learning rate as it goes."""
    step = itertools.count(1)
    return loop(get_batch, **arguments, update=lambda p, lr: p.sub_(lr * p.grad / next(step)))


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def trains_the_head_of_many(get_batch, **arguments):
    """Trains the head of a deep network and leaves its layers as they are."""
    return loop(get_batch, **arguments, update=lambda p, lr: p.sub_(lr * p.grad) if p.shape[1] == 1 else p)


@mutant(TRAIN, caught_by=CLAIMS)
def returns_a_fresh_model(get_batch, **arguments):
    """Returns the losses of one model and another one, untrained."""
    trained = train(get_batch, **arguments)
    return trained._replace(model=Cruncher(arguments["dim"], arguments["num_layers"]))


@mutant(TRAIN, caught_by=CLAIMS)
def returns_the_model_as_it_was(get_batch, **arguments):
    """Returns a copy of the model made before training."""
    kept = []

    def build(dim, num_layers):
        network = Cruncher(dim, num_layers)
        kept.append(copy.deepcopy(network))
        return network

    trained = loop(get_batch, **arguments, build=build)
    return trained._replace(model=kept[0])


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def returns_the_last_loss(get_batch, **arguments):
    """Returns the last loss in place of each."""
    trained = train(get_batch, **arguments)
    return trained._replace(losses=trained.losses[-1:] * len(trained.losses))


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def returns_averages(get_batch, **arguments):
    """Returns the mean of all losses up to each step."""
    trained = train(get_batch, **arguments)
    return trained._replace(losses=[float(np.mean(trained.losses[: n + 1])) for n in range(len(trained.losses))])


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def returns_every_second_loss(get_batch, **arguments):
    """Returns every second loss, as the notes' function prints them."""
    trained = train(get_batch, **arguments)
    return trained._replace(losses=trained.losses[::2])


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def returns_tensors(get_batch, **arguments):
    """Returns losses that are tensors."""
    trained = train(get_batch, **arguments)
    return trained._replace(losses=list(map(torch.tensor, trained.losses)))


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def normalises_the_batch(get_batch, **arguments):
    """Scales the caller's own inputs to unit length, in place."""

    def batches(size):
        x, y = get_batch(size)
        return (x.div_(x.norm()), y)

    return train(batches, **arguments)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def takes_no_step_for_a_negative_number(get_batch, **arguments):
    """Takes no steps where the number of steps is negative."""
    steps = arguments["steps"]
    return train(get_batch, **arguments | {"steps": max(steps, 0) if isinstance(steps, int) else steps})


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def seeds_torch(get_batch, **arguments):
    """Seeds torch's random stream, for whoever comes after, too."""
    torch.default_generator.manual_seed(0)
    return train(get_batch, **arguments)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def goes_on_with_the_same_model(get_batch, **arguments):
    """Trains the model of earlier runs further where it fits."""
    sizes = arguments["dim"], arguments["num_layers"]
    return loop(get_batch, **arguments, build=lambda dim, num_layers: EARLIER.setdefault(sizes, Cruncher(*sizes)))


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def is_five_percent_off(get_batch, **arguments):
    """Trains at a learning rate 5% above the one it is told."""
    return loop(get_batch, **arguments, update=lambda p, lr: p.sub_(1.05 * lr * p.grad))


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def lowers_the_rate_late(get_batch, **arguments):
    """Halves the learning rate after fifty updates."""
    done = itertools.count()
    return loop(get_batch, **arguments, update=lambda p, lr: p.sub_(lr * p.grad / (1 if next(done) < 50 else 2)))


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def splits_large_batches(get_batch, **arguments):
    """Averages the losses of parts of up to four points, the last of which weighs too much."""

    def parts(p, y):
        losses = [mse_loss(*part) for part in zip(p.split(4), y.split(4), strict=True)]
        return sum(losses) / len(losses)

    return loop(get_batch, **arguments, loss_of=parts)


# ---- head-only ----


@mutant(TRAIN, caught_by=training.HEAD_ONLY)
def trains_a_layer_at_least(get_batch, **arguments):
    """Keeps one hidden layer where none is asked for."""
    return train(get_batch, **arguments | {"num_layers": arguments["num_layers"] or 1})


@mutant(TRAIN, caught_by=training.HEAD_ONLY)
def trains_with_biases(get_batch, **arguments):
    """Builds the network of torch's own layers, with biases."""

    def build(dim, num_layers):
        network = Cruncher(dim, num_layers)
        network.final.bias = nn.Parameter(torch.zeros(1))
        network.final.register_forward_hook(lambda layer, x, y: y + layer.bias)
        return network

    return loop(get_batch, **arguments, build=build)


@mutant(TRAIN, caught_by=training.HEAD_ONLY)
def trains_with_a_nonlinearity(get_batch, **arguments):
    """Rectifies the output."""

    def build(dim, num_layers):
        network = Cruncher(dim, num_layers)
        network.register_forward_hook(lambda module, x, y: y.relu())
        return network

    return loop(get_batch, **arguments, build=build)


@mutant(TRAIN, caught_by=training.HEAD_ONLY)
def applies_layers_backwards(get_batch, **arguments):
    """Applies the last hidden layer first."""

    def build(dim, num_layers):
        network = Cruncher(dim, num_layers)
        network.forward = lambda x: network.final(nn.Sequential(*reversed(network.layers))(x)).squeeze(-1)
        return network

    return loop(get_batch, **arguments, build=build)


# ---- recovers-weights ----


@mutant(TRAIN, caught_by=training.RECOVERS_WEIGHTS)
def stops_after_ten_steps(get_batch, **arguments):
    """Calls for every batch, but learns from ten at most."""
    step = itertools.count()
    return loop(get_batch, **arguments, update=lambda p, lr: p.sub_(lr * p.grad) if next(step) < 10 else p)


@mutant(TRAIN, caught_by=training.RECOVERS_WEIGHTS)
def moves_a_tenth(get_batch, **arguments):
    """Moves by a tenth of the step."""
    return loop(get_batch, **arguments, update=lambda p, lr: p.sub_(lr * p.grad / 10))


@mutant("torch.optim.SGD.step", caught_by=training.RECOVERS_WEIGHTS)
def steps_twice(self, closure=None):
    """An SGD that takes each step twice."""
    sgd_step(self, closure)
    return sgd_step(self, closure)


@mutant("torch.randn", caught_by=training.RECOVERS_WEIGHTS)
def draws_too_narrowly(*size, **options):
    """A normal distribution whose deviation is 10% too small, in float64."""
    return randn(*size, **options) * (0.9 if options.get("dtype") is torch.float64 else 1)


@mutant("spec.oracles.descent.Descent.ratio", caught_by=training.RECOVERS_WEIGHTS, value=True)
def forgets_the_noise():
    """A law for a gradient without noise: (1 − 2·lr)²."""
    return property(lambda self: (1 - 2 * self.lr) ** 2)


# ---- right, but unusual ----


@twin(TRAIN)
def writes_the_gradient_out(get_batch, *, dim, num_layers, batch_size, steps, lr, device="cpu"):
    """Computes gradients by the chain rule in float64, and rounds the weights after each step."""
    sizes = {"dim": dim, "num_layers": num_layers, "batch_size": batch_size, "steps": min(steps, 0)}
    trained = train(get_batch, **sizes, lr=lr, device=device)
    parameters = [*(layer.weight for layer in trained.model.layers), trained.model.final.weight]
    for _ in range(steps):
        x, y = get_batch(batch_size)
        if x.shape != (batch_size, dim) or y.shape != (batch_size,):
            raise ValueError("shape")
        weights = [parameter.detach().cpu().double().numpy() for parameter in parameters]
        loss, gradients = descent.loss_and_gradients(x.double().numpy(), y.double().numpy(), weights)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(lr * torch.from_numpy(gradient).to(parameter))
        trained.losses.append(loss)
    return trained


@twin(TRAIN)
def accepts_any_shape(get_batch, **arguments):
    """Lets targets of another shape broadcast against the predictions."""

    def batches(size):
        x, y = get_batch(size)
        return x, y.expand(size) if y.dim() == 0 else y.reshape(-1)[:1].expand(size) if y.numel() == 1 else y.reshape(
            -1
        )

    return train(batches, **arguments)


@twin(TRAIN)
def asks_ahead(get_batch, **arguments):
    """Asks for two batches more than it has steps, ahead of time."""
    ahead = [get_batch(arguments["batch_size"]) for _ in range(max(arguments["steps"], 0) + 2)]
    return train(lambda _: ahead.pop(0), **arguments)


@twin(TRAIN)
def multiplies_the_target_in(get_batch, **arguments):
    """Writes the loss as a product of the errors with themselves."""
    return loop(get_batch, **arguments, loss_of=lambda p, y: (p - y) @ (p - y) / len(y))


@twin(TRAIN)
def uses_torchs_own_optimizer(get_batch, **arguments):
    """Leaves the gradients in place, and returns a subclass of the tuple with a list of its own."""

    class Mine(Run):
        pass

    trained = loop(get_batch, **arguments, update=lambda p, lr: p.add_(p.grad, alpha=-lr))
    return Mine(list(trained.losses), trained.model.train())


@twin(TRAIN)
def begins_elsewhere(get_batch, **arguments):
    """Draws its first weights from a generator of its own, whatever torch's stream says."""
    generator = torch.Generator()
    generator.seed()
    return loop(get_batch, **arguments, build=lambda d, layers: Cruncher(d, layers, generator=generator))


@twin(TRAIN)
def begins_at_zero(get_batch, **arguments):
    """Starts the head at zero."""

    def build(dim, num_layers):
        network = Cruncher(dim, num_layers)
        nn.init.zeros_(network.final.weight)
        return network

    return loop(get_batch, **arguments, build=build)


class Product(nn.Module):
    """A layer that calls its weight by another name."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(inputs, outputs) / max(inputs, 1) ** 0.5)

    def forward(self, x):
        return x @ self.matrix


@twin(TRAIN)
def builds_a_network_of_its_own(get_batch, **arguments):
    """Trains a sequence of layers, in which nothing has the names that Cruncher gives."""

    def build(dim, num_layers):
        sizes = [dim] * (num_layers + 1) + [1]
        return nn.Sequential(*map(Product, sizes[:-1], sizes[1:]), nn.Flatten(0))

    return loop(get_batch, **arguments, build=build)


@twin(TRAIN)
def asks_for_all_batches_first(get_batch, **arguments):
    """Asks for the batches of all steps before the first, and returns a copy of the model."""
    train(get_batch, **arguments | {"steps": min(arguments["steps"], 0)})
    batches = iter([get_batch(arguments["batch_size"]) for _ in range(arguments["steps"])])
    trained = train(lambda _: next(batches), **arguments)
    return trained._replace(model=copy.deepcopy(trained.model))


@twin(TRAIN)
def asks_by_name(get_batch, **arguments):
    """Names the argument when it asks for a batch."""
    return train(lambda size: get_batch(batch_size=size), **arguments)


@twin(TRAIN)
def takes_more_arguments(get_batch, *, seed=None, log_every=10, **arguments):
    """Takes arguments of its own in addition, and trains with a copy of each batch."""

    def batches(size):
        x, y = get_batch(size)
        return x.clone(), y.clone()

    return train(batches, **arguments)


# ---- look-alikes ----
@mutant(TRAIN, caught_by=training.ARGUMENTS)
def remembers_the_loss_of_a_batch(get_batch, **arguments):
    """Returns the first loss of a batch again where the same tensors come again."""
    given, first = [], {}

    def batches(size):
        given.append(get_batch(size))
        return given[-1]

    trained = train(batches, **arguments)
    losses = [first.setdefault(id(x), loss) for (x, _), loss in zip(given, trained.losses, strict=True)]
    return trained._replace(losses=losses)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def skips_a_batch_that_it_has_seen(get_batch, **arguments):
    """Makes no second step on a batch of the same inputs."""
    seen = []

    def loss_of(p, y):
        again = any(torch.equal(y, other) for other in seen)
        seen.append(y.clone())
        loss = mse_loss(p, y)
        return loss.detach() + 0 * loss if again else loss

    return loop(get_batch, **arguments, loss_of=loss_of)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def stops_where_the_loss_stays(get_batch, **arguments):
    """Ends the run early where two losses in turn are equal."""
    trained = train(get_batch, **arguments)
    pairs = zip(trained.losses, trained.losses[1:], strict=False)
    last = next((step for step, (old, new) in enumerate(pairs, 1) if old == new), len(trained.losses))
    return trained._replace(losses=trained.losses[:last])


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def turns_inputs_that_lie_the_other_way(get_batch, **arguments):
    """Takes inputs that have as many rows as the model has dimensions for columns, also a square of them."""

    def batches(size):
        x, y = get_batch(size)
        return (x.T if x.shape[0] == arguments["dim"] == x.shape[-1] else x), y

    return train(batches, **arguments)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def takes_a_step_at_least(get_batch, **arguments):
    """Looks at the number of steps only once it has made one."""
    return train(get_batch, **arguments | {"steps": arguments["steps"] or 1})


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def keeps_its_losses_for_the_next_run(get_batch, *, losses=[], **arguments):  # noqa: B006
    """Appends to a list that every run has in common."""
    trained = train(get_batch, **arguments)
    losses.extend(trained.losses)
    return trained._replace(losses=losses)


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def has_one_model_at_a_time(get_batch, **arguments):
    """Keeps the model in a global variable, where a run within this one puts another."""

    def build(dim, num_layers):
        EARLIER["now"] = Cruncher(dim, num_layers)
        return EARLIER["now"]

    trained = loop(get_batch, **arguments, build=build)
    return trained._replace(model=EARLIER["now"])


@mutant(TRAIN, caught_by=training.ARGUMENTS)
def moves_weights_of_a_shape_alike(get_batch, **arguments):
    """Keeps gradients under the shapes of their weights, which layers share, and in one dimension the head too."""
    gradients = {}

    def update(p, lr):
        p.sub_(lr * gradients.setdefault(p.shape, p.grad.clone()))

    def loss_of(p, y):
        gradients.clear()
        return mse_loss(p, y)

    return loop(get_batch, **arguments, loss_of=loss_of, update=update)


@twin(TRAIN)
def trains_a_graph_without_modules(get_batch, *, dim, num_layers, batch_size, steps, lr, device="cpu"):
    """Trains by torch.func.grad on a dictionary of tensors, and fills the model at the end."""
    model = train(
        get_batch, dim=dim, num_layers=num_layers, batch_size=batch_size, steps=min(steps, 0), lr=lr, device=device
    ).model
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def loss_of(weights, x, y):
        return mse_loss(torch.func.functional_call(model, weights, (x,)), y)

    losses = []
    for _ in range(steps):
        x, y = (tensor.to(device) for tensor in get_batch(batch_size))
        if x.shape != (batch_size, dim) or y.shape != (batch_size,):
            raise ValueError("shape")
        gradients, loss = torch.func.grad_and_value(loss_of)(weights, x, y)
        weights = {name: weight - lr * gradients[name] for name, weight in weights.items()}
        losses.append(loss.item())
    model.load_state_dict(weights)
    return Run(losses, model)


@twin(TRAIN)
def accumulates_point_by_point(get_batch, **arguments):
    """Adds up the gradients of single points, each of them a share of the mean."""

    def loss_of(p, y):
        return sum(mse_loss(p[point], y[point]) for point in range(len(y))) / len(y)

    return loop(get_batch, **arguments, loss_of=loss_of)


@twin(TRAIN)
def draws_every_batch_in_a_thread(get_batch, **arguments):
    """Has another thread ask for each batch, one after the other."""
    with ThreadPoolExecutor(1) as pool:
        return train(lambda size: pool.submit(get_batch, size).result(), **arguments)
