"""§3.7: checkpoints."""

import contextlib
import pickle
import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from spec.claim import refutes, verifies
from spec.claims import checkpoint
from spec.implementation import checkers, guard
from spec.implementation.loading import ImplementationError
from spec.instruments import checkpoints
from spec.run.collection import claims_of

OPTIMIZERS = ("SGD", "Adam", "Adagrad", "RMSprop")
FLIPS, CUTS, PARTS = 20, 6, 4


class Code:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return Path.mkdir, (Path(self.path),)


class Layer(nn.Module):
    """Has the parameters of a linear layer, which nothing has drawn."""

    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None


class Counted(Layer):
    """A layer that has counted something, as a module's extra state."""

    counted = 0

    def get_extra_state(self):
        """Return what torch puts into the state_dict beside the tensors."""
        return {"counted": self.counted}

    def set_extra_state(self, state):
        """Take it back."""
        self.counted = state["counted"]


class Wrapper(nn.Module):
    """Has modules under the names that torch's wrappers give them, and a parameter and a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.module, self._orig_mod, self.weight = Counted(3, 3), Layer(3, 3), nn.Parameter(torch.zeros(3, 3))
        self.register_buffer("n_averaged", torch.tensor(0))
        self._orig_mod.requires_grad_(False).eval()


def start(fresh, work, **arguments):
    """Start one of the works on checkpoints in a process of its own."""
    return fresh.start(checkpoints.saving_and_loading, work=work, arguments=arguments)


@pytest.fixture(scope="module")
def elsewhere(spec_impl, spec_fresh, pytestconfig, tmp_path_factory, request):
    """Start what takes a while beside the tests, before those that ask what came of it; crashes only if they are."""
    package = pytestconfig.option.spec_impl
    kills, disk, plain = (str(tmp_path_factory.mktemp(name)) for name in ("kills", "disk", "plain"))
    stages = [(0, 4), (0, 2), (2, 4, "random states"), (2, 4, "step"), (2, 4, "nothing")]
    there = {"package": "", "device": "cpu", "optimizers": ["SGD"], "stages": stages}
    started = {"plain": start(spec_fresh, "train", folder=plain, **there)}
    if checkpoint.CRASH.id not in {claim for item in request.session.items for claim, _ in claims_of(item)}:
        return started
    with contextlib.suppress(ImplementationError, pytest.skip.Exception):  # The tests themselves report these.
        needed(spec_impl)
        started["kills"] = start(spec_fresh, "kill_saves", package=package, folder=kills, last=10, parts=PARTS, timed=3)
        started["full disk"] = start(spec_fresh, "fill_the_disk", package=package, folder=disk, parts=PARTS)
    return started


def needed(impl):
    """Look up both functions here: one that is missing is then reported before a fresh process starts."""
    return impl.checkpoint.save, impl.checkpoint.load


def numbers(values):
    """Return numbers as a tensor, which is compared as a whole."""
    return torch.tensor(values, dtype=torch.float64)


def network(value, optimizer="Adam", **sizes):
    """Return a network with tied weights, filled with a value, and an optimizer that has made a step."""
    sizes = {"outputs": 2, "bias": True} | sizes
    model = nn.Sequential(Layer(3, 3), Layer(3, 3), Layer(3, sizes["outputs"], sizes["bias"]))
    model[1].weight = model[0].weight
    for number, parameter in enumerate(model.parameters()):
        nn.init.constant_(parameter, value + number / 8)
        parameter.grad = torch.full_like(parameter, value + 1)
    made = getattr(torch.optim, optimizer)(model.parameters(), lr=0.125)
    made.step()
    return model, made


SCHEDULES = {
    "exponential": lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5),
    "one cycle": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=5 * optimizer.param_groups[0]["lr"], total_steps=9
    ),
}


def surrounded(value, schedule):
    """Return a wrapped network filled with a value, its optimizer of two groups that are alike, and a scheduler."""
    model = Wrapper()
    for parameter in model.parameters():  # Those of one shape are equal.
        nn.init.constant_(parameter, value)
    model.n_averaged.fill_(value)
    model.module.counted = value
    parameters = [*model.parameters()]
    groups = [{"params": parameters[:2]}, {"params": parameters[2:], "note": f"number {value}"}]
    optimizer = torch.optim.SGD(groups, lr=0.1 / value, momentum=0.5)
    return model, optimizer, SCHEDULES[schedule](optimizer)


def goes_on(model, optimizer, scheduler, *slopes, alike=1):
    """Make a step of optimizer and scheduler for each slope; each `alike` parameters have the same multiple of it."""
    for slope in slopes:
        for number, parameter in enumerate(model.parameters()):
            parameter.grad = torch.full_like(parameter, slope * (number // alike))
        optimizer.step()
        scheduler.step()


def with_buffers(pair, **buffers):
    """Return a network and its optimizer with further buffers in the network."""
    for name, buffer in buffers.items():
        pair[0].register_buffer(name, buffer.clone())
    return pair


def everything(model, optimizer):
    """Return a copy of all that training depends on: parameters, buffers, optimizer state and options."""
    state, groups = optimizer.state_dict().values()
    states = model.state_dict()
    tensors = {name: value.clone() for name, value in states.items() if isinstance(value, torch.Tensor)}
    for number, of_one in state.items():
        tensors |= {f"{number}.{name}": torch.as_tensor(value).clone() for name, value in of_one.items()}
    options = {f"{number}.{name}": repr(value) for number, group in enumerate(groups) for name, value in group.items()}
    options |= {name: repr(value) for name, value in states.items() if name not in tensors}
    options |= {f"{number}.training": repr(module.training) for number, module in enumerate(model.modules())}
    options |= {f"{number}.requires_grad": repr(each.requires_grad) for number, each in enumerate(model.parameters())}
    return tensors, options


def same(evidence, model, optimizer, before, when):
    """Require that model and optimizer have the tensors and options that they had before."""
    tensors, options = everything(model, optimizer)
    names = sorted({*tensors, *options} ^ {*before[0], *before[1]})
    evidence.equal(names, [], what=f"the names that only one of both has {when}")
    for name, value in before[0].items():
        evidence.equal(tensors[name], value, what=f"the state {when}", name=name)
    name = next((name for name, value in before[1].items() if options[name] != value), "none")
    evidence.equal(options.get(name), before[1].get(name), what=f"an option {when}", name=name)


def draws():
    """Draw from each random stream; some of them draw a pair and hold the second number for the next draw."""
    drawn = [*torch.randn(3).tolist(), *np.random.standard_normal(3), *np.random.random(2)]
    return [float(number) for number in (*drawn, random.gauss(0, 1), random.random())]


def error_of(call):
    """Return the type and the message of the error that a call raises, or "no error"."""
    try:
        call()
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def loads(impl, path, model, optimizer, loaded):
    """Load, and append the step and the random states to `loaded`."""
    loaded.append((impl.checkpoint.load(path, model, optimizer), [read() for read, _ in guard.STREAMS.values()]))


def refused(evidence, error, **inputs):
    """Require that a call raised an error."""
    evidence.true(error != "no error", "the call raises an error", **inputs)


@verifies(checkpoint.RESUME)
@pytest.mark.usefixtures("elsewhere")
def test_training_goes_on_in_a_fresh_process(impl, evidence, fresh, pytestconfig, device, tmp_path):
    """2 steps, a save, a load in a fresh process and 2 steps more are, to the last bit, 4 steps without a break."""
    needed(impl)
    folders = [tmp_path / "whole", tmp_path / "halves"]
    for folder in folders:
        folder.mkdir()
    there = {"package": pytestconfig.option.spec_impl, "device": str(device), "optimizers": OPTIMIZERS}
    whole = start(fresh, "train", folder=str(folders[0]), stages=[(0, 4)], **there)
    halves = []
    for stage in ((0, 2), (2, 4)):
        halves += start(fresh, "train", folder=str(folders[1]), stages=[stage], **there).wait()
    for name, predicted in whole.wait()[0].items():
        losses = halves[0][name]["losses"] + halves[1][name]["losses"]
        evidence.equal(numbers(losses), numbers(predicted["losses"]), what="the losses", optimizer=name)
        state = halves[1][name]["state"]
        evidence.equal(numbers(state), numbers(predicted["state"]), what="the state at the end", optimizer=name)


@refutes(checkpoint.RESUME)
def test_without_random_states_or_step_it_goes_on_elsewhere(evidence, elsewhere):
    """Without random states or the step, training ends in another state; when all is saved, it ends in the same."""
    whole, _, *ends = (numbers(end["SGD"]["state"]) for end in elsewhere["plain"].wait())
    for lacks, end in zip(("random states", "step"), ends, strict=False):
        evidence.differs(end, whole, what="the state at the end", lacks=lacks)
    evidence.equal(ends[-1], whole, what="the state at the end, when all is saved")


@verifies(checkpoint.RESUME)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_loading_restores_what_was_saved_in_place(impl, evidence, optimizer, tmp_path):
    """After any changes a load restores model and optimizer, in the same objects, and does so again."""
    path = tmp_path / "checkpoint"
    model, made = network(1, optimizer)
    before, gradients = everything(model, made), [parameter.grad.clone() for parameter in model.parameters()]
    impl.checkpoint.save(path, model, made, 7)
    same(evidence, model, made, before, "after the save")
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        evidence.equal(parameter.grad, gradient, what="the gradient after the save")
    for target in (model, network(5, optimizer)[0]):
        options = {"lr": 0.5, "weight_decay": 0.25}
        to = made if target is model else getattr(torch.optim, optimizer)(target.parameters(), **options)
        for attempt in ("first", "second"):
            for parameter in target.parameters():
                parameter.grad = torch.ones_like(parameter)
            to.step()
            objects = [*map(id, target.parameters())]
            with guard.watched():
                step = impl.checkpoint.load(str(path), target, to)
            evidence.equal(step, 7, what="the loaded step", unit="steps")
            evidence.true(type(step) is int, "the step is a Python integer", step=step)
            same(evidence, target, to, before, f"after the {attempt} load")
            held = [id(parameter) for group in to.param_groups for parameter in group["params"]]
            for holder, found in (("model", [*map(id, target.parameters())]), ("optimizer", held)):
                evidence.true(found == objects, "the parameters are the same objects", of=holder)
            evidence.true(target[0].weight is target[1].weight, "the tied weights are still tied", load=attempt)


@verifies(checkpoint.RESUME)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_users_hang_onto_them_goes_along(impl, evidence, schedule, tmp_path):
    """Under a scheduler, with options, extra state, wrappers and hooks of one's own, training goes on as it would have.

    After three steps at 0.1, halved each time, the rate is 0.0125, and `initial_lr` 0.1.
    """
    saved, loaded = surrounded(1, schedule), surrounded(2, schedule)
    goes_on(*saved, 1.0, -2.0, 3.0, alike=2)
    if schedule == "exponential":
        evidence.equal(saved[1].param_groups[0]["lr"], 0.0125, what="the learning rate")
    for parameter in saved[0]._orig_mod.parameters():
        parameter.grad = None  # It was frozen half way: it has a state, but no gradient.
    impl.checkpoint.save(tmp_path / "checkpoint", *saved[:2], 3)
    calls = []
    loaded[1].register_step_post_hook(lambda *_: calls.append("called"))
    with guard.watched():
        evidence.equal(
            impl.checkpoint.load(tmp_path / "checkpoint", *loaded[:2]), 3, what="the loaded step", unit="steps"
        )
    same(evidence, *loaded[:2], everything(*saved[:2]), "after the load")
    loaded[2].load_state_dict(saved[2].state_dict())
    for each in (saved, loaded):
        goes_on(*each, 0.5, 1.5)
    same(evidence, *loaded[:2], everything(*saved[:2]), "two steps later")
    evidence.equal(calls, ["called"] * 2, what="the calls of a hook")


@verifies(checkpoint.RESUME)
def test_a_checkpoint_from_before_the_first_step_has_no_state(impl, evidence, tmp_path):
    """Loaded into an optimizer that has made steps, it leaves none of their state."""
    model, made = network(1)
    impl.checkpoint.save(tmp_path / "checkpoint", model, torch.optim.Adam(model.parameters(), lr=0.5), 0)
    with guard.watched():
        impl.checkpoint.load(tmp_path / "checkpoint", model, made)
    evidence.equal(made.state_dict()["state"], {}, what="the optimizer's state", saved="before a step")
    evidence.equal(made.param_groups[0]["lr"], 0.5, what="the learning rate", before=0.125)


@pytest.fixture
def working_folder(tmp_path, monkeypatch):
    """Work in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@verifies(checkpoint.RESUME)
@pytest.mark.usefixtures("working_folder")
def test_a_path_may_be_a_mere_name(impl, evidence):
    """A name without a folder is one in the working folder."""
    impl.checkpoint.save("checkpoint", *network(1), 3)
    with guard.watched():
        evidence.equal(
            impl.checkpoint.load(Path("checkpoint"), *network(2)),
            3,
            what="the loaded step",
            unit="steps",
            path="checkpoint",
        )
    evidence.equal([path.name for path in Path().iterdir()], ["checkpoint"], what="the files in the folder")


@verifies(checkpoint.RESUME)
def test_every_bit_and_dtype_is_kept(impl, evidence, tmp_path):
    """Values of any dtype come back bit by bit, NaN, −0 and no values among them, and so do buffers and frozen ones."""
    bits = torch.tensor([0x7FC00001, -(2**31), 0x7F800000, 1, 0x3F800001, -1], dtype=torch.int64).to(torch.int32)

    def made():
        model = nn.Module()
        model.weight = nn.Parameter(torch.zeros(2, 3))
        model.frozen = nn.Parameter(torch.zeros(6, dtype=torch.bfloat16), requires_grad=False)
        for dtype in (torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64):
            model.register_buffer(f"of_{dtype}".replace(".", "_"), torch.zeros(2, dtype=dtype))
        model.register_buffer("empty", torch.zeros(0, 3))
        model.register_buffer("scalar", torch.zeros(()))
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    model, optimizer = made()
    model.weight.data.copy_(bits.view(torch.float32).reshape(2, 3))
    model.frozen.data.copy_(torch.arange(6) / 8)
    for buffer in model.buffers():
        buffer.fill_(1)
    model.of_torch_int64[0], model.of_torch_float64[0] = 2**62 + 1, 0.1
    impl.checkpoint.save(tmp_path / "checkpoint", model, optimizer, 0)
    other, to = made()
    with guard.watched():
        evidence.equal(
            impl.checkpoint.load(tmp_path / "checkpoint", other, to), 0, what="the loaded step", unit="steps", saved=0
        )
    for name, value in model.state_dict().items():
        if value.is_floating_point() and value.numel():
            width = {8: torch.int64, 4: torch.int32, 2: torch.int16}[value.element_size()]
            evidence.equal(other.state_dict()[name].view(width), value.view(width), what="the bits", name=name)
        else:
            evidence.equal(other.state_dict()[name], value, what="the values", name=name)
    evidence.true(not other.frozen.requires_grad, "the frozen parameter is still frozen")


@verifies(checkpoint.RESUME)
def test_random_numbers_go_on_where_they_were(impl, evidence, tmp_path, pytestconfig):
    """After a load, and after the save itself, torch, NumPy and Python draw what comes after the save."""
    checked = checkers.draw_in(pytestconfig.option.spec_impl)  # beartype itself draws from Python's stream.
    model, optimizer = network(1)
    with guard.watched():
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(20261129)
        draws()
        impl.checkpoint.save(tmp_path / "checkpoint", model, optimizer, 1)
        predicted = draws()
        impl.checkpoint.load(tmp_path / "checkpoint", model, optimizer)
        measured = draws()
    with guard.watched():
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(20261129)
        draws()
        undisturbed = draws()
    names = ["torch"] * 3 + ["NumPy"] * 5 + ["Python"] * 2
    for stream, after, unsaved, loaded in zip(names, predicted, undisturbed, measured, strict=True):
        if stream != "Python" or not checked:
            evidence.equal(after, unsaved, what="the draw after the save", stream=stream)
        evidence.equal(loaded, after, what="the draw after the load", stream=stream)


@verifies(checkpoint.RESUME)
def test_a_step_is_a_whole_number(impl, evidence, tmp_path):
    """NumPy's integers and large ones come back as Python's; a negative step and what is no integer raise."""
    model, optimizer = network(1)
    for step in (0, np.int64(2**40), np.int32(5), np.uint32(2**32 - 1), 2**62 + 1):
        impl.checkpoint.save(tmp_path / "checkpoint", model, optimizer, step)
        with guard.watched():
            loaded = impl.checkpoint.load(tmp_path / "checkpoint", model, optimizer)
        evidence.equal(loaded, int(step), what="the loaded step", unit="steps", saved=step)
        evidence.true(type(loaded) is int, "the step is a Python integer", saved=step)
    for step, error in ((-1, ValueError), ("7", TypeError), (None, TypeError), (1.5, (TypeError, ValueError))):
        evidence.raises(error, partial(impl.checkpoint.save, tmp_path / "new", model, optimizer, step), step=step)
        evidence.raises(
            error, partial(impl.checkpoint.save, tmp_path / "checkpoint", model, optimizer, step), step=step
        )
    evidence.equal([each.name for each in tmp_path.iterdir()], ["checkpoint"], what="the files in the folder")
    with guard.watched():
        evidence.equal(
            impl.checkpoint.load(tmp_path / "checkpoint", model, optimizer),
            2**62 + 1,
            what="the step in the old file",
            unit="steps",
        )


@verifies(checkpoint.RESUME)
def test_what_does_not_match_is_refused(impl, evidence, tmp_path):
    """Another shape, a name too few or too many, and other groups raise."""
    path = tmp_path / "checkpoint"
    with guard.watched():
        impl.checkpoint.save(path, *with_buffers(network(1), average=torch.ones(3)), 3)
    average = torch.zeros(3)
    wrong = {
        "another shape": with_buffers(network(2), average=torch.zeros(4)),
        "a buffer less": network(2),
        "a buffer more": with_buffers(network(2), average=average, variance=average),
        "other parameters": with_buffers(network(2, outputs=3), average=average),
        "a parameter less": with_buffers(network(2, bias=False), average=average),
    }
    model, _ = with_buffers(network(2), average=average)
    parameters = [*model.parameters()]
    wrong["other groups"] = model, torch.optim.Adam([{"params": parameters[:2]}, {"params": parameters[2:]}])
    wrong["fewer parameters"] = model, torch.optim.Adam(parameters[:-1])
    for difference, (model, optimizer) in wrong.items():
        with guard.watched():
            error = error_of(partial(impl.checkpoint.load, path, model, optimizer))
        refused(evidence, error, difference=difference)


@verifies(checkpoint.RESUME)
def test_no_progress_is_saved_that_cannot_be_loaded(impl, evidence, tmp_path):
    """A NumPy number as learning rate, which the weights-only loader refuses: the save raises or the load works."""
    model, optimizer = network(1)
    optimizer.param_groups[0]["lr"] = np.float64(0.25)
    is_refused = error_of(partial(impl.checkpoint.save, tmp_path / "checkpoint", model, optimizer, 1)) != "no error"
    other, to = network(2)
    if not is_refused:
        with guard.watched():
            impl.checkpoint.load(tmp_path / "checkpoint", other, to)
        evidence.equal(float(to.param_groups[0]["lr"]), 0.25, what="the learning rate")
    evidence.equal(len([*tmp_path.iterdir()]), 0 if is_refused else 1, what="the number of files", unit="files")


@verifies(checkpoint.CRASH)
def test_a_save_killed_at_any_moment_leaves_the_old_or_the_new(impl, evidence, elsewhere):
    """A save killed at any moment leaves one complete checkpoint, and the next save removes its leftovers.

    The file's content is synchronised before the file is renamed, and the folder with its new name afterwards.
    """
    needed(impl)
    ended = elsewhere["kills"].wait()
    for killed_before, found in ended["found"]:
        whole = found in ("the old one", "the new one")
        evidence.true(whole, "a complete checkpoint is left", killed_before=killed_before, found=found)
    order = ended["order"]
    evidence.equal(
        ended["left"], [], what="the files that a killed save leaves behind after the next save", order=order
    )
    if "rename" in order:
        first = order.index("rename")
        evidence.at_least(
            order[:first].count("sync"), 1, what="before the renaming", unit="synchronisations", order=order
        )
        evidence.at_least(
            order[first:].count("sync"), 1, what="after the renaming", unit="synchronisations", order=order
        )
    evidence.equal(
        ended["late"],
        0,
        what="the data written after the last synchronisation before the renaming",
        unit="bytes",
        order=order,
    )


@refutes(checkpoint.CRASH)
def test_overwriting_the_only_file_loses_it(evidence, tmp_path):
    """The notes write over the last checkpoint: cut off in the middle, neither old nor new can be loaded."""
    model, optimizer = network(1)
    path = tmp_path / "checkpoint"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)
    found = error_of(partial(torch.load, path, weights_only=True)).split(":")[0]
    evidence.differs(found, "no error", what="the result of loading the remains")


@verifies(checkpoint.CRASH)
def test_a_full_disk_keeps_the_old(impl, evidence, elsewhere):
    """A save that runs out of space anywhere raises, leaves the old checkpoint, and nothing else in the folder."""
    needed(impl)
    results = iter(elsewhere["full disk"].wait())
    for part in range(PARTS):
        for predicted, what in (("an error", "the save"), ("step 1", "the load"), ("checkpoint", "the folder")):
            evidence.equal(next(results), predicted, what=what, room_for=f"{part}/{PARTS} of the file")


@verifies(checkpoint.CRASH)
def test_a_failed_save_keeps_the_old_and_its_neighbours(impl, evidence, tmp_path):
    """State that cannot be stored, or a folder in the way, raises; all files are as they were."""
    model, optimizer = network(1)
    path = tmp_path / "checkpoint"
    for number, name in enumerate(("checkpoint.old", "other", "checkpoint")):
        impl.checkpoint.save(tmp_path / name, model, optimizer, number)
    (tmp_path / "folder").mkdir()
    model, optimizer = network(2)
    optimizer.param_groups[0]["schedule"] = lambda: None
    for failing, pair in ((path, (model, optimizer)), (tmp_path / "folder", network(2))):
        error = error_of(partial(impl.checkpoint.save, failing, *pair, 9))
        refused(evidence, error, path=failing.name)
        found = sorted(each.name for each in tmp_path.iterdir())
        evidence.equal(
            found,
            ["checkpoint", "checkpoint.old", "folder", "other"],
            what="the files in the folder",
            path=failing.name,
        )
    for number, name in enumerate(("checkpoint.old", "other", "checkpoint")):
        with guard.watched():
            evidence.equal(
                impl.checkpoint.load(tmp_path / name, *network(3)),
                number,
                what="the loaded step",
                unit="steps",
                file=name,
            )


@verifies(checkpoint.CRASH)
def test_a_damaged_file_is_refused_or_loads_as_saved(impl, evidence, tmp_path):
    """Cut, or altered in a bit that matters, it raises an error that names the file, and changes nothing."""
    path, damaged = tmp_path / "checkpoint", tmp_path / "file-7"
    saved = network(1)
    with guard.watched():
        draws()  # The random states in the file then differ from the current ones.
        impl.checkpoint.save(path, *saved, 3)
    intact = []
    with guard.watched():
        loads(impl, path, *network(2), intact)
    content = path.read_bytes()
    flips = [(len(content) * n // FLIPS + n * 7, 1 << n % 8) for n in range(FLIPS)]
    for what, altered in {
        "nothing": b"",
        "text": b"checkpoint\n" * 50,
        "appended": content + b"more",
        **{f"cut {n}": content[: len(content) * n // CUTS] for n in range(1, CUTS)},
        "cut by a byte": content[:-1],
        **{f"bit at {at}": bytes([*content[:at], content[at] ^ bit, *content[at + 1 :]]) for at, bit in flips},
    }.items():
        damaged.write_bytes(altered)
        model, optimizer = network(2)
        before = everything(model, optimizer)
        loaded = []
        with guard.watched() as left:
            error = error_of(partial(loads, impl, damaged, model, optimizer, loaded))
        if loaded:  # The altered bit does not matter: it is part of a date, for example.
            evidence.equal(loaded[0][0], 3, what="the step", damage=what)
            evidence.true(loaded == intact, "step and random states are those of the intact file", damage=what)
            same(evidence, model, optimizer, everything(*saved), "after the load of a harmless damage")
            continue
        refused(evidence, error, damage=what)
        evidence.equal(left, [], what="the global state that a refused load changes", damage=what)
        same(evidence, model, optimizer, before, "after a refused load")


@verifies(checkpoint.CRASH)
def test_what_is_no_checkpoint_is_refused(impl, evidence, tmp_path):
    """A missing file, a folder and files that torch or pickle wrote raise."""
    model, optimizer = network(1)
    (tmp_path / "folder-7").mkdir()
    torch.save(model.state_dict(), tmp_path / "weights-7")
    torch.save([], tmp_path / "list-7")
    (tmp_path / "pickle-7").write_bytes(pickle.dumps({"step": 1}))
    for name in ("missing-7", "folder-7", "weights-7", "list-7", "pickle-7"):
        error = error_of(partial(impl.checkpoint.load, tmp_path / name, model, optimizer))
        refused(evidence, error, file=name)


@verifies(checkpoint.CRASH)
def test_loading_runs_no_code(impl, evidence, tmp_path):
    """Code in a file that torch or pickle wrote does not run, nor what save itself makes of code among the state."""
    run = tmp_path / "the code has run"
    model, optimizer = network(1)
    contents = {"alone": Code(run), "model": {"model": Code(run)}}
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1, "note": Code(run)}
    for what, content in {**contents, "whole": whole, "step": whole | {"step": Code(run)}}.items():
        torch.save(content, tmp_path / f"{what}.pt")
        torch.save(content, tmp_path / f"{what}.old", _use_new_zipfile_serialization=False)
        (tmp_path / f"{what}.pickle").write_bytes(pickle.dumps(content))
    optimizer.param_groups[0]["note"] = Code(run)
    error_of(partial(impl.checkpoint.save, tmp_path / "own", model, optimizer, 1))  # It may refuse.
    if run.exists():  # A save may copy the state, which runs the code.
        run.rmdir()
    for path in sorted(tmp_path.iterdir()):
        with guard.watched():
            error = error_of(partial(impl.checkpoint.load, path, *network(2)))
        evidence.true(not run.exists(), "the code in the file has not run", file=path.name)
        if path.name != "own":  # of which save may have left the code out
            refused(evidence, error, file=path.name)
