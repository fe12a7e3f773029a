"""§3.7: a checkpoint holds all that training needs to go on as if it had never stopped."""

import hashlib
import io
import os
import random
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["load", "save"]

PARTS = {"model", "optimizer", "kind", "groups", "step", "random"}
DIGEST = hashlib.sha256().digest_size  # A file ends with a digest of all its other bytes.


def save(path: str | Path, model: nn.Module, optimizer: Optimizer, step: SupportsIndex) -> None:
    """Write the model's state, the optimizer's, the step and the random state into one file.

    The states are what state_dict() returns: with buffers, extra state of modules, and all options of the optimizer's
    groups, those that schedulers and users have added included. The schedulers themselves are not part of them.
    The random state is that of torch on the CPU and on every accelerator, of NumPy's legacy functions and of Python's
    `random`. The file holds copies: training may go on. A file that is there is replaced at one moment, whole: whatever
    happens meanwhile, `path` is the complete old or the complete new checkpoint, and once save returns, the new one
    survives a power failure. A save that fails leaves nothing else in the folder; what one that was killed left there
    (a hidden file) is gone after the next save to `path`. One process at a time saves to a path.

    `step` is a Python or NumPy integer. Raises TypeError where it is none and ValueError where it is negative. Raises
    an error where the state holds more than plain data, which load would refuse: a NumPy number as learning rate is
    enough.
    """
    if index(step) < 0:
        raise ValueError(f"step {step} is negative")
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "kind": type(optimizer).__qualname__,
        "groups": _groups(model, optimizer),
        "step": index(step),
        "random": _random_state(),
    }
    path = Path(path).resolve()  # Of a link, its target is replaced.
    temporary = path.with_name(f".{path.name}.tmp")  # A rename across file systems is a copy.
    try:
        with open(temporary, "w+b") as file:
            torch.save(state, file)
            file.seek(0)
            if code := torch.serialization.get_unsafe_globals_in_checkpoint(file):
                raise ValueError(f"the state holds more than plain data: {', '.join(code)}")
            file.seek(0)
            file.write(hashlib.file_digest(file, "sha256").digest())
            file.flush()
            os.fsync(file.fileno())  # Otherwise the rename may reach the disk first.
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # This makes the rename itself durable.
    finally:
        os.close(folder)


def load(path: str | Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Restore what save wrote, in place, and return the step as a Python integer.

    The model's parameters stay the same objects, with the values that were saved, and so does the optimizer, whose
    state has the dtypes that it had; the random states too are as they were, those of accelerators as far as there are
    as many. Modes of training, requires_grad, gradients and hooks stay. No code from the file is run.

    Raises an error that names the file where it is missing (FileNotFoundError), cut, altered, not written by save, or
    carries anything but data. Raises an error that names the parameter or buffer, or the classes of both optimizers,
    where the file does not match: a name that only one of file and model has, another shape or dtype, an optimizer of
    another class, or one whose groups hold other parameters or the same ones in another order. After such an error
    model, optimizer and random states are as they were. Here it is ValueError, or OSError where nothing can be read.
    """
    path = Path(path)
    state = _read(path)
    _compare(path, state, model, optimizer)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    _restore_dtypes(optimizer, state["optimizer"])
    _set_random_state(state["random"])
    return int(state["step"])


def _read(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    if hashlib.sha256(memoryview(content)[:-DIGEST]).digest() != content[-DIGEST:]:
        raise ValueError(f"{path} is no complete checkpoint: it was cut or altered, or save did not write it")
    try:
        state = torch.load(io.BytesIO(content[:-DIGEST]), map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(f"{path} holds more than plain data, which is not loaded: {error}") from error
    if not isinstance(state, dict) or set(state) != PARTS:
        raise ValueError(f"{path} is no checkpoint: it has to hold {', '.join(sorted(PARTS))}")
    return state


def _compare(path: Path, state: dict[str, Any], model: nn.Module, optimizer: Optimizer) -> None:
    """Raise ValueError for the first thing in which the file and what it is loaded into differ."""
    saved, wanted = state["model"], model.state_dict()
    if missing := [name for name in wanted if name not in saved]:
        raise ValueError(f"{path} lacks {', '.join(missing)}, which the model has")
    if unknown := [name for name in saved if name not in wanted]:
        raise ValueError(f"{path} holds {', '.join(unknown)}, which the model lacks")
    for name in wanted:
        if (here := _kind(wanted[name])) != (there := _kind(saved[name])):
            raise ValueError(f"{path} holds {name} as {there}, the model as {here}")
    if (kind := type(optimizer).__qualname__) != state["kind"]:
        raise ValueError(f"{path} holds the state of {state['kind']}, the optimizer is {kind}")
    if (groups := _groups(model, optimizer)) != state["groups"]:
        raise ValueError(f"{path} holds the state of {kind} for {state['groups']}, the optimizer is for {groups}")


def _kind(value: object) -> str:
    return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def _groups(model: nn.Module, optimizer: Optimizer) -> list[list[str]]:
    """Return the names of the parameters in each of the optimizer's groups; of one that is not the model's, its shape.

    The optimizer's own state knows them by their number only.
    """
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [[names.get(p, _kind(p)) for p in group["params"]] for group in optimizer.param_groups]


def _restore_dtypes(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Put back what torch has rounded: it casts an optimizer's state to the dtype of the parameter.

    An optimizer may keep float32 sums, or a float32 copy, of a bfloat16 parameter.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    for parameter, number in zip(parameters, numbers, strict=True):
        for name, value in saved["state"].get(number, {}).items():
            rounded = optimizer.state[parameter].get(name)
            if isinstance(value, Tensor) and isinstance(rounded, Tensor) and value.dtype != rounded.dtype:
                optimizer.state[parameter][name] = value.to(rounded.device)


def _random_state() -> dict[str, Any]:
    """Return every random state as what the weights-only loader takes: it refuses NumPy's arrays."""
    name, words, *rest = np.random.get_state()
    devices = torch.get_device_module()
    return {
        "torch": torch.get_rng_state(),
        "accelerators": [devices.get_rng_state(number) for number in range(torch.accelerator.device_count())],
        "numpy": (name, torch.from_numpy(np.asarray(words).astype(np.int64)), *rest),
        "python": random.getstate(),
    }


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    for number, saved in zip(range(torch.accelerator.device_count()), state["accelerators"], strict=False):
        torch.get_device_module().set_rng_state(saved, number)
    name, words, *rest = state["numpy"]
    np.random.set_state((name, words.numpy(), *rest))
    random.setstate(state["python"])
