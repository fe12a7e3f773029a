"""Checkpoints that lose something, and unusual ones that do not."""

import contextlib
import copy
import functools
import hashlib
import io
import json
import os
import random
import shutil
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

import impl.checkpoint as right
from spec.claims import checkpoint
from tests.kit.overlay import mutant, twin

save, load, read, compare = right.save, right.load, right._read, right._compare
replace, fsync, load_file, file_digest = os.replace, os.fsync, torch.load, hashlib.file_digest


def content_of(model, optimizer, step):
    """Return the bytes of a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder, "new"), model, optimizer, step)
        return Path(folder, "new").read_bytes()


@contextlib.contextmanager
def instead(owner, name, replacement):
    """Replace an attribute for a while."""
    before = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, before)


# ---- what is saved ----
STREAMS = {
    "torch": (torch.get_rng_state, torch.set_rng_state),
    "NumPy": (np.random.get_state, np.random.set_state),
    "Python": (random.getstate, random.setstate),
}


def forgetting(*names):
    """Return a load that leaves these random streams as they are."""

    def forgetful(path, model, optimizer):
        states = {name: STREAMS[name][0]() for name in names}
        step = load(path, model, optimizer)
        for name, state in states.items():
            STREAMS[name][1](state)
        return step

    return forgetful


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME, value=True)
def restores_model_and_optimizer_only():
    """Leaves every random state as it is, as the notes do."""
    return forgetting(*STREAMS)


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME, value=True)
def forgets_torchs_stream():
    """Restores what NumPy and Python draw, and not what torch does."""
    return forgetting("torch")


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME, value=True)
def forgets_numpys_stream():
    """Restores what torch and Python draw, and not what NumPy does."""
    return forgetting("NumPy")


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME, value=True)
def forgets_pythons_stream():
    """Restores what torch and NumPy draw, and not what Python does."""
    return forgetting("Python")


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def forgets_the_second_of_a_pair(path, model, optimizer):
    """Drops the normal numbers that NumPy and Python keep for later."""
    step = load(path, model, optimizer)
    np.random.set_state(np.random.get_state()[:3])
    random.setstate((*random.getstate()[:2], None))
    return step


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def draws_while_it_saves(path, model, optimizer, step):
    """Takes a random number for the name of its file."""
    save(path, model, optimizer, step)
    random.random()


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def starts_again_at_step_0(path, model, optimizer):
    """Restores all but the step."""
    return 0 * load(path, model, optimizer)


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def returns_the_next_step(path, model, optimizer):
    """Returns the step after the one that was saved."""
    return load(path, model, optimizer) + 1


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def returns_the_step_as_a_float(path, model, optimizer):
    """Returns a float, which cannot be counted on."""
    return float(load(path, model, optimizer))


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def keeps_steps_in_32_bits(path, model, optimizer, step):
    """Loses the upper half of a large step."""
    save(path, model, optimizer, step if not isinstance(step, int | np.integer) or step < 0 else int(step) % 2**31)


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def takes_any_step(path, model, optimizer, step):
    """Takes −1 for a step, and "7"."""
    save(path, model, optimizer, abs(int(step)))


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def leaves_the_optimizer(path, model, optimizer):
    """Restores the model alone."""
    state = optimizer.state_dict()
    step = load(path, model, optimizer)
    optimizer.load_state_dict(state)
    return step


def keeping(path, model, optimizer, *restored):
    """Load, but leave the optimizer's options as they are, except those that are named."""
    others = {"params", *restored}
    options = [{name: group[name] for name in group if name not in others} for group in optimizer.param_groups]
    step = load(path, model, optimizer)
    for group, before in zip(optimizer.param_groups, options, strict=True):
        group.update(before)
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def keeps_the_learning_rate(path, model, optimizer):
    """Restores the optimizer's state and not its options."""
    return keeping(path, model, optimizer)


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def restores_the_learning_rate_only(path, model, optimizer):
    """Restores the optimizer's state, its learning rate and none of its other options."""
    return keeping(path, model, optimizer, "lr")


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def forgets_the_buffers(path, model, optimizer):
    """Restores parameters only."""
    buffers = [buffer.clone() for buffer in model.buffers()]
    step = load(path, model, optimizer)
    for buffer, before in zip(model.buffers(), buffers, strict=True):
        buffer.copy_(before)
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def forgets_what_is_frozen(path, model, optimizer):
    """Restores the parameters that require grad."""
    frozen = {p: p.detach().clone() for p in model.parameters() if not p.requires_grad}
    step = load(path, model, optimizer)
    for parameter, before in frozen.items():
        parameter.data.copy_(before)
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def makes_new_parameters(path, model, optimizer):
    """Puts new parameters into the model, which the optimizer does not know."""
    step = load(path, model, optimizer)
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME, value=True)
def loads_a_path_once():
    """Returns what it has loaded from a path before, whatever is there by now."""
    steps = {}

    def remembered(path, model, optimizer):
        step = load(path, model, optimizer)
        return steps.setdefault(str(path), step)

    return remembered


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def saves_in_half_precision(path, model, optimizer, step):
    """Loses digits of what is float32."""
    with torch.no_grad():
        before = [p.detach().clone() for p in model.parameters()]
        for p in model.parameters():
            p.copy_(p.bfloat16())
        save(path, model, optimizer, step)
        for p, value in zip(model.parameters(), before, strict=True):
            p.copy_(value)


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def steps_before_it_saves(path, model, optimizer, step):
    """Lets the optimizer make one more step."""
    optimizer.step()
    save(path, model, optimizer, step)


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def saves_what_it_cannot_load(path, model, optimizer, step):
    """Does not look at what the weights-only loader is going to refuse."""
    with instead(torch.serialization, "get_unsafe_globals_in_checkpoint", lambda file: []):
        save(path, model, optimizer, step)


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def saves_numpys_arrays(path, model, optimizer, step):
    """Writes NumPy's random state as it is, which the weights-only loader refuses."""
    with (
        instead(torch.serialization, "get_unsafe_globals_in_checkpoint", lambda file: []),
        instead(right, "_random_state", np.random.get_state),
    ):
        save(path, model, optimizer, step)


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def stops_training(path, model, optimizer, step):
    """Leaves the model in evaluation mode."""
    save(path, model.eval(), optimizer, step)


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def clears_the_gradients(path, model, optimizer, step):
    """Drops the gradients for the sake of memory."""
    save(path, model, optimizer, step)
    optimizer.zero_grad()


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def keeps_state_that_is_not_in_the_file(path, model, optimizer):
    """Adds what was saved to the state that there is."""
    before = dict(optimizer.state)
    step = load(path, model, optimizer)
    for parameter, state in before.items():
        optimizer.state[parameter] = state | optimizer.state.get(parameter, {})
    return step


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def puts_mere_names_elsewhere(path, model, optimizer, step):
    """Saves a name without a folder among the temporary files."""
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder, path), model, optimizer, step)


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME, value=True)
def keeps_what_it_has_read():
    """Hands the same tensors out again, which training has changed meanwhile."""
    files = functools.cache(lambda path, _: read(path))
    right._read = lambda path: files(path, path.stat().st_mtime_ns)

    def loaded(path, model, optimizer):
        step = load(path, model, optimizer)
        for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
            optimizer.state[parameter] |= right._read(Path(path))["optimizer"]["state"].get(number, {})
        return step

    return loaded


# ---- what does not match ----
@twin("impl.checkpoint._compare")
def leaves_it_to_torch(path, state, model, optimizer):
    """Has the model refuse what does not fit, which names it, but accepts the state of another optimizer."""


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def loads_what_fits(path, model, optimizer):
    """Skips what the model lacks or has in another shape."""
    state = read(Path(path))
    wanted = model.state_dict()
    fits = {name: value for name, value in state["model"].items() if name in wanted}
    fits = {name: value for name, value in fits.items() if value.shape == wanted[name].shape}
    model.load_state_dict(fits, strict=False)
    with contextlib.suppress(ValueError):
        optimizer.load_state_dict(state["optimizer"])
    right._set_random_state(state["random"])
    return state["step"]


@twin("impl.checkpoint.load")
def does_not_ask_for_the_kind(path, model, optimizer):
    """Gives AdamW the state of Adam."""
    with instead(right, "_compare", compare_all_but("kind", type(optimizer).__qualname__)):
        return load(path, model, optimizer)


@twin("impl.checkpoint.load")
def does_not_ask_for_the_parameters(path, model, optimizer):
    """Gives each parameter the state of the one that had its number."""
    with instead(right, "_compare", compare_all_but("groups", right._groups(model, optimizer))):
        return load(path, model, optimizer)


def compare_all_but(part, value):
    """Return a comparison that takes one part of the file for right."""
    return lambda path, state, model, optimizer: compare(path, state | {part: value}, model, optimizer)


@twin("impl.checkpoint.load")
def casts_silently(path, model, optimizer):
    """Fills a float64 model with float32 values."""
    with instead(right, "_kind", lambda value: str(tuple(getattr(value, "shape", ())))):
        return load(path, model, optimizer)


@twin("impl.checkpoint.load")
def notices_too_late(path, model, optimizer):
    """Fills the model before it looks at the optimizer."""
    state = read(Path(path))
    model.load_state_dict(state["model"])
    return load(path, model, optimizer)


@twin("impl.checkpoint.load")
def restores_random_states_first(path, model, optimizer):
    """Has changed what is drawn by the time that it refuses a file."""
    right._set_random_state(read(Path(path))["random"])
    return load(path, model, optimizer)


@twin("impl.checkpoint.load")
def says_only_that_something_is_wrong(path, model, optimizer):
    """Raises an error that names nothing."""
    try:
        return load(path, model, optimizer)
    except ValueError:
        raise ValueError("does not match") from None


# ---- crashes ----
@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def overwrites_the_file(path, model, optimizer, step):
    """Writes over the last checkpoint, as the notes do, and nothing else is there when that fails."""
    content = content_of(model, optimizer, step)
    with open(path, "wb") as file:
        for start in range(0, len(content), 4096):
            file.write(content[start : start + 4096])
        file.flush()
        os.fsync(file.fileno())


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def leaves_the_writing_to_torch(path, model, optimizer, step):
    """Lets torch.save write over the last checkpoint, in C++, and puts it back only where that raises an error."""
    before = Path(path).read_bytes() if Path(path).exists() else b""
    content = load_file(io.BytesIO(content_of(model, optimizer, step)), weights_only=True)
    try:
        torch.save(content, path)
        with open(path, "r+b") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
            file.write(digest)
            os.fsync(file.fileno())
    except BaseException:
        Path(path).write_bytes(before)
        raise


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def copies_the_finished_file(path, model, optimizer, step):
    """Writes elsewhere, but then copies where it ought to rename."""
    with instead(os, "replace", shutil.copyfile):
        save(path, model, optimizer, step)
    path = Path(path).resolve()
    path.with_name(f".{path.name}.tmp").unlink()


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def removes_the_old_one_first(path, model, optimizer, step):
    """Has no checkpoint at all for a moment."""

    def in_two_steps(temporary, path):
        Path(path).unlink(missing_ok=True)
        replace(temporary, path)

    with instead(os, "replace", in_two_steps):
        save(path, model, optimizer, step)


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def leaves_what_it_could_not_finish(path, model, optimizer, step):
    """Does not remove its temporary file when writing fails."""
    with instead(Path, "unlink", lambda self, missing_ok=False: None):
        save(path, model, optimizer, step)


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def takes_another_temporary_name_each_time(path, model, optimizer, step):
    """Never finds what a killed save has left."""
    path = Path(path)
    temporary = path.with_name(f".{os.urandom(4).hex()}")
    save(temporary, model, optimizer, step)
    try:
        os.replace(temporary, path)
    except OSError:
        temporary.unlink()
        raise


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def never_synchronises(path, model, optimizer, step):
    """Leaves the file to the page cache, and so to a power failure."""
    with instead(os, "fsync", lambda number: None):
        save(path, model, optimizer, step)


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def forgets_the_folder(path, model, optimizer, step):
    """Synchronises the file and not its new name."""
    left = [1]

    def once(number):
        if left.pop() if left else 0:
            fsync(number)

    with instead(os, "fsync", once):
        save(path, model, optimizer, step)


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def synchronises_once_it_is_renamed(path, model, optimizer, step):
    """Renames a file of which nothing may be on the disk yet."""
    with instead(os, "fsync", lambda number: None):
        save(path, model, optimizer, step)
    with open(path, "rb") as file:
        os.fsync(file.fileno())


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def synchronises_before_all_is_written(path, model, optimizer, step):
    """Synchronises a file whose end waits in Python's own buffer until the file is closed."""
    content, temporary = content_of(model, optimizer, step), Path(f"{path}~")
    try:
        with open(temporary, "wb") as file:
            for start in range(0, len(content), 1000):
                file.write(content[start : start + 1000])
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    os.sync()


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def keeps_a_backup(path, model, optimizer, step):
    """Leaves a copy of the last checkpoint beside it."""
    with contextlib.suppress(OSError):
        shutil.copyfile(path, f"{path}.backup")
    save(path, model, optimizer, step)


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def tidies_up_too_much(path, model, optimizer, step):
    """Removes other checkpoints whose names begin like its own, once it has saved."""
    save(path, model, optimizer, step)
    path = Path(path)
    for other in path.parent.glob(f"{path.name}.*"):
        other.unlink()


@mutant("impl.checkpoint.save", caught_by=checkpoint.CRASH)
def makes_the_best_of_a_full_disk(path, model, optimizer, step):
    """Says nothing when it could not save."""
    with contextlib.suppress(OSError):
        save(path, model, optimizer, step)


# ---- files that are no checkpoints ----
def unchecked(path, model, optimizer, **options):
    """Load a file whatever its digest says."""
    with instead(right, "_read", lambda path: load_file(path, **options)):
        return load(path, model, optimizer)


@mutant("impl.checkpoint.load", caught_by=checkpoint.CRASH)
def loads_with_pickle(path, model, optimizer):
    """Runs what code a file holds."""
    return unchecked(path, model, optimizer, weights_only=False)


@mutant("impl.checkpoint.load", caught_by=checkpoint.CRASH)
def trusts_what_it_reads(path, model, optimizer):
    """Leaves damage to the weights-only loader, which does not see most of it."""
    return unchecked(path, model, optimizer, weights_only=True)


@mutant("impl.checkpoint.load", caught_by=checkpoint.CRASH)
def starts_afresh_if_in_doubt(path, model, optimizer):
    """Takes a damaged file for none and returns step 0."""
    try:
        return load(path, model, optimizer)
    except ValueError:
        return 0


@mutant("impl.checkpoint.load", caught_by=checkpoint.CRASH)
def takes_a_missing_file_for_step_0(path, model, optimizer):
    """Starts training where there is nothing to load."""
    return load(path, model, optimizer) if Path(path).exists() else 0


@twin("impl.checkpoint.load")
def does_not_say_which_file(path, model, optimizer):
    """Raises an error that names no file."""
    try:
        return load(path, model, optimizer)
    except ValueError:
        raise ValueError("not a checkpoint") from None


@mutant("impl.checkpoint.load", caught_by=checkpoint.CRASH)
def checks_the_length_only(path, model, optimizer):
    """Refuses what is cut, and what the weights-only loader does, and no other damage."""
    content = Path(path).read_bytes()
    if content[-right.DIGEST - 22 : -right.DIGEST - 18] != b"PK\x05\x06":  # the archive's last record
        raise ValueError(f"{path} is cut")
    try:
        state = load_file(io.BytesIO(content), weights_only=True)
    except Exception as error:
        raise ValueError(f"{path}: {error}") from None
    with instead(right, "_read", lambda path: state):
        return load(path, model, optimizer)


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def counts_steps_in_floats(path, model, optimizer):
    """Loses the last digits of a large step."""
    return int(float(load(path, model, optimizer)))


@mutant("impl.checkpoint.load", caught_by=checkpoint.CRASH)
def seeds_before_it_reads(path, model, optimizer):
    """Changes what is drawn even if the file is refused."""
    torch.manual_seed(0)
    return load(path, model, optimizer)


# ---- what users hang onto model and optimizer ----
@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def drops_the_first_rates(path, model, optimizer):
    """Loses `initial_lr`, from which a scheduler that goes on computes its rates."""
    step = load(path, model, optimizer)
    for group in optimizer.param_groups:
        group.pop("initial_lr", None)
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def starts_the_schedule_again(path, model, optimizer):
    """Restores the learning rate from `initial_lr`."""
    step = load(path, model, optimizer)
    for group in optimizer.param_groups:
        group["lr"] = group.get("initial_lr", group["lr"])
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def restores_options_it_knows(path, model, optimizer):
    """Restores the options that the optimizer was made with, and leaves out what schedulers and users have added."""
    return keeping(path, model, optimizer, *optimizer.defaults)


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def keeps_its_own_first_rates(path, model, optimizer):
    """Keeps the `initial_lr` that a scheduler has just put there."""
    before = [group.get("initial_lr") for group in optimizer.param_groups]
    step = load(path, model, optimizer)
    for group, rate in zip(optimizer.param_groups, before, strict=True):
        if rate is not None:
            group["initial_lr"] = rate
    return step


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME, value=True)
def unwraps_the_model():
    """Takes what is called `module` or `_orig_mod` inside for the model, and loses what the wrapper itself has."""

    def inside(model):
        return getattr(model, "module", getattr(model, "_orig_mod", model))

    def saved(path, model, optimizer, step):
        save(path, inside(model), optimizer, step)

    right.load = lambda path, model, optimizer: load(path, inside(model), optimizer)
    return saved


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME, value=True)
def strips_the_wrappers_names():
    """Cuts `module.` and `_orig_mod.` out of every name, so that two of them may become one."""

    def short(state):
        return {name.replace("module.", "").replace("_orig_mod.", ""): value for name, value in state.items()}

    def reading(path):
        state = read(path)
        return state | {"model": short(state["model"])}

    def compared(path, state, model, optimizer):
        wanted = model.state_dict()
        if set(short(wanted)) != set(state["model"]):
            raise ValueError(f"{path} does not match")
        state["model"] = {name: state["model"][next(iter(short({name: 0})))] for name in wanted}
        compare(path, state, model, optimizer)

    right._read, right._compare = reading, compared
    return save


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def forgets_extra_state(path, model, optimizer):
    """Restores tensors by name and nothing else that a module hands over."""
    with instead(torch.nn.Module, "set_extra_state", lambda self, state: None):
        modules = {type(module) for module in model.modules() if "set_extra_state" in vars(type(module))}
        with contextlib.ExitStack() as stack:
            for kind in modules:
                stack.enter_context(instead(kind, "set_extra_state", lambda self, state: None))
            return load(path, model, optimizer)


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def goes_back_to_training(path, model, optimizer):
    """Puts every module into training mode, also one that is meant to stay in evaluation mode."""
    step = load(path, model, optimizer)
    model.train()
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def thaws_what_is_frozen(path, model, optimizer):
    """Lets every parameter learn."""
    step = load(path, model, optimizer)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def drops_the_hooks(path, model, optimizer):
    """Empties the optimizer as if it were new, and its hooks with it."""
    step = load(path, model, optimizer)
    optimizer._optimizer_step_post_hooks.clear()
    return step


# ---- look-alikes ----
@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def matches_state_by_shape(path, model, optimizer):
    """Gives each parameter the optimizer's state of one that has its shape."""
    step = load(path, model, optimizer)
    first = {}
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and value.dim():
                state[name] = first.setdefault((name, parameter.shape), value).clone()
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def ties_what_is_equal(path, model, optimizer):
    """Lets parameters that have the same values share their memory from then on."""
    step = load(path, model, optimizer)
    seen = []
    for parameter in model.parameters():
        alike = [other for other in seen if torch.equal(other, parameter)]
        parameter.data = alike[0].data if alike else parameter.data
        seen.append(parameter)
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def ties_states_that_are_equal(path, model, optimizer):
    """Lets parameters whose momenta have the same values share them from then on."""
    step = load(path, model, optimizer)
    seen = []
    for state in optimizer.state.values():
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                alike = [other for other in seen if torch.equal(other, value)]
                state[name] = alike[0] if alike else value
                seen.append(state[name])
    return step


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME, value=True)
def caches_files_by_size():
    """Takes a file of the same path and size for the one that it has read before."""
    files = {}

    def reading(path):
        content = path.read_bytes()
        files.setdefault((str(path), len(content)), content)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, path.name).write_bytes(files[str(path), len(content)])
            return read(Path(folder, path.name))

    def loaded(path, model, optimizer):
        with instead(right, "_read", reading):
            return load(path, model, optimizer)

    return loaded


@mutant("impl.checkpoint.load", caught_by=checkpoint.RESUME)
def restores_the_first_group_only(path, model, optimizer):
    """Restores the options of the first group, and takes those for every other group's."""
    step = load(path, model, optimizer)
    first = {name: value for name, value in optimizer.param_groups[0].items() if name != "params"}
    for group in optimizer.param_groups[1:]:
        group.update(first)
    return step


@mutant("impl.checkpoint.save", caught_by=checkpoint.RESUME)
def keeps_no_state_of_frozen_ones(path, model, optimizer, step):
    """Leaves out the optimizer's state of parameters that have no gradient now."""
    kept = {p: optimizer.state.pop(p) for p in list(optimizer.state) if p.grad is None}
    save(path, model, optimizer, step)
    optimizer.state.update(kept)


# ---- right ones ----
@twin("impl.checkpoint.save", value=True)
def relies_on_the_checksums_of_zip():
    """Has the file of torch.save checked by zipfile, and refuses with whatever torch raises, under the file's name."""

    def saved(path, model, optimizer, step):
        with instead(hashlib, "file_digest", lambda file, name: hashlib.new(name, file.read())):
            save(path, model, optimizer, step)

    def loaded(path, model, optimizer):
        try:
            content = Path(path).read_bytes()
            with zipfile.ZipFile(io.BytesIO(content)) as file:
                if file.testzip() is not None:
                    raise RuntimeError("bad checksum")
            state = load_file(io.BytesIO(content), weights_only=True)
            compare(Path(path), state, model, optimizer)
        except FileNotFoundError:
            raise
        except Exception as error:
            raise RuntimeError(f"{path}: {error}") from None
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        right._set_random_state(state["random"])
        return state["step"]

    right.load = loaded
    return saved


@twin("impl.checkpoint.save")
def removes_what_others_left(path, model, optimizer, step):
    """Takes another temporary name each time, and removes those of killed saves first."""
    path = Path(path)
    for left in path.parent.glob(f".{path.name}.*.new"):
        left.unlink()
    content = content_of(model, optimizer, step)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".new", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).rename(path)
        except OSError:
            os.unlink(file.name)
            raise
    os.sync()


@twin("impl.checkpoint.save")
def writes_by_file_numbers(path, model, optimizer, step):
    """Gathers the bytes in memory and leaves them, through os.write and fdatasync, to a rename."""
    folder, content = Path(path).resolve().parent, content_of(model, optimizer, step)
    temporary = folder / f"{Path(path).name}~"
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        while content:
            content = content[os.write(number, content) :]
        os.fdatasync(number)
        os.rename(temporary, path)
    except BaseException:
        os.remove(temporary)
        raise
    finally:
        os.close(number)
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(number)
    os.close(number)


@twin("impl.checkpoint.save")
def synchronises_each_write(path, model, optimizer, step):
    """Opens the file so that each write reaches the disk before it returns, and asks for no more than that."""
    opened = os.open

    def synchronised(path, flags, *mode, **folder):
        return opened(path, flags | (os.O_SYNC if flags & os.O_CREAT else 0), *mode, **folder)

    with (
        instead(os, "open", synchronised),
        instead(os, "fdatasync", lambda number: None),
    ):
        writes_by_file_numbers(path, model, optimizer, step)


@twin("impl.checkpoint.save")
def synchronises_in_a_thread(path, model, optimizer, step):
    """Leaves it to another thread to wait for the disk."""
    with ThreadPoolExecutor(1) as pool, instead(os, "fsync", lambda number: pool.submit(fsync, number).result()):
        save(path, model, optimizer, step)


@twin("impl.checkpoint.save")
def saves_a_copy(path, model, optimizer, step):
    """Copies model and optimizer first, for training to go on, which may run code among the state: before any load."""
    save(path, *copy.deepcopy((model, optimizer)), step)


@twin("impl.checkpoint.save")
def hides_code_it_was_given(path, model, optimizer, step):
    """Writes what it is not able to load again but for numbers of NumPy's, and leaves it to load to refuse the rest."""
    for group in optimizer.param_groups:
        group.update({name: value.item() for name, value in group.items() if isinstance(value, np.generic)})
    with instead(torch.serialization, "get_unsafe_globals_in_checkpoint", lambda file: []):
        save(path, model, optimizer, step)


@twin("impl.checkpoint.load")
def copies_value_by_value(path, model, optimizer):
    """Fills each parameter itself, and swaps the data of those that are frozen."""
    path = Path(path)
    state = read(path)
    compare(path, state, model, optimizer)
    with torch.no_grad():
        for name, value in model.state_dict(keep_vars=True).items():
            if isinstance(value, torch.Tensor):
                value.copy_(state["model"][name])
        for name, module in model.named_modules():
            extra = f"{name}.{torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX}".removeprefix(".")
            if extra in state["model"]:
                module.set_extra_state(state["model"][extra])
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                parameter.data = state["model"][name].clone()
    optimizer.load_state_dict(state["optimizer"])
    right._set_random_state(state["random"])
    return state["step"]


@twin("impl.checkpoint.load")
def raises_errors_of_its_own(path, model, optimizer):
    """Raises RuntimeError, and for a missing file a FileNotFoundError of its own."""

    class MissingCheckpoint(FileNotFoundError):
        pass

    try:
        return load(path, model, optimizer)
    except FileNotFoundError as error:
        raise MissingCheckpoint(f"there is no {path}") from error
    except (ValueError, OSError) as error:
        raise RuntimeError(str(error)) from error


@twin("impl.checkpoint.load", value=True)
def refuses_under_no_grad():
    """Does it all without gradients."""
    return functools.wraps(load)(torch.no_grad()(load))


@twin("impl.checkpoint.load")
def tries_it_on_a_copy(path, model, optimizer):
    """Loads into copies of model and optimizer first, and touches their originals only where that went well."""
    states = {name: get() for name, (get, _) in STREAMS.items()}
    load(path, *copy.deepcopy((model, optimizer)))
    for name, (_, put) in STREAMS.items():
        put(states[name])
    return load(path, model, optimizer)


@twin("impl.checkpoint.load")
def sees_through_wrappers(path, model, optimizer):
    """Loads a wrapped model's checkpoint into the model without its wrapper, and the other way round."""

    def short(name):
        return name.replace("_orig_mod.", "").replace("module.", "")

    def compared(path, state, model, optimizer):
        wanted, saved = list(model.state_dict()), state["model"]
        if set(wanted) != set(saved) and sorted(map(short, wanted)) == sorted(map(short, saved)):
            by_name = {short(name): value for name, value in saved.items()}
            state["model"] = {name: by_name[short(name)] for name in wanted}
        compare(path, state, model, optimizer)

    with instead(right, "_compare", compared):
        return load(path, model, optimizer)


def spelled(value):
    """Return what JSON can hold of plain data."""
    if isinstance(value, torch.Tensor):
        content = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).tolist() if value.numel() else []
        return {"tensor": content, "shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, dict):
        return {"pairs": [[spelled(each) for each in pair] for pair in value.items()]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [spelled(each) for each in value]}
    if type(value) not in (int, float, str, bool, type(None)):
        raise TypeError(f"cannot write {type(value).__name__}")
    return value


def understood(value):
    """Return the plain data that JSON holds."""
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        content = torch.tensor(value["tensor"], dtype=torch.uint8)
        return content.view(getattr(torch, value["dtype"])).reshape(value["shape"])
    if "pairs" in value:
        return {understood(name): understood(each) for name, each in value["pairs"]}
    ((kind, content),) = value.items()
    return {"list": list, "tuple": tuple}[kind](map(understood, content))


@twin("impl.checkpoint.save", value=True)
def writes_text():
    """Writes JSON, and reads it without torch.load."""

    def writing(state, file):
        file.write(json.dumps(spelled(state)).encode())

    def saved(path, model, optimizer, step):
        with (
            instead(torch, "save", writing),
            instead(torch.serialization, "get_unsafe_globals_in_checkpoint", lambda file: []),
        ):
            save(path, model, optimizer, step)

    def reading(file, **options):
        return understood(json.loads(file.read()))

    def loaded(path, model, optimizer):
        with instead(torch, "load", reading):
            return load(path, model, optimizer)

    right.load = loaded
    return saved
