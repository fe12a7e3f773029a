"""Checkpoints under stress: interrupted training, killed saves and full disks.

`saving_and_loading` runs each of them in a process of its own: see `processes`. `package` names the implementation,
whose module `checkpoint` saves and loads.
"""

import contextlib
import importlib
import os
import random
import resource
import signal
import stat
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from spec.instruments import interruption

HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}  # A forked process cannot use an accelerator.


def saving_and_loading(work: str, arguments: dict[str, object]) -> object:
    """Run one function of this module in a fresh process, on one thread: several would wait for each other."""
    import torch

    from spec.instruments import checkpoints, eager

    eager.without_compiler()
    torch.set_num_threads(1)
    return getattr(checkpoints, work)(**arguments)


def train(package: str, folder: str, device: str, optimizers: list[str], stages: list[Any]) -> list[dict[str, Any]]:
    """Train a small network in stages, each from one step to another; return each stage's losses and last state.

    A stage (first, last) that does not begin at step 0 goes on from the checkpoint that the one from 0 left. Without a
    package, checkpoints are plain files of all that matters, and a stage (first, last, lacks) does without its "step"
    or "random states". Network and data depend on every stream of random numbers, the learning rate on the step.
    """
    save: Callable[..., object] = _save_all
    load: Callable[..., int] = _load
    if package:
        module = importlib.import_module(f"{package}.checkpoint")
        save, load = module.save, module.load

    def run(name: str, first: int, last: int, *lacks: str) -> dict[str, list[float]]:
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(first + 1)
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.25), nn.Linear(8, 2)).to(device)
        groups: list[Any] = [
            {"params": model[:2].parameters()},
            {"params": model[2:].parameters(), "weight_decay": 0.1},
        ]
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(torch.optim, name)(groups, lr=0.1, **options)
        start = load(f"{folder}/{name}", model, optimizer, *lacks) if first else 0
        losses = []
        for step in range(start, start + last - first):
            for group in optimizer.param_groups:
                group["lr"] = 0.1 / (1 + step)
            x = torch.randn(4, 3) + random.gauss(
                0, 1
            )  # `gauss` draws a pair of numbers and holds the second for later.
            y = torch.rand(4, 2, device=device) + np.random.standard_normal()
            loss = (model(x.to(device)) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if not first:
            save(f"{folder}/{name}", model, optimizer, last)
        values = [*model.state_dict().values()]
        for state in optimizer.state_dict()["state"].values():
            values += [torch.as_tensor(value) for value in state.values() if value is not None]
        return {"losses": losses, "state": [number for value in values for number in value.flatten().tolist()]}

    return [{name: run(name, *stage) for name in optimizers} for stage in stages]


def _save_all(path: str, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    streams = torch.get_rng_state(), np.random.get_state(), random.getstate()
    torch.save([model.state_dict(), optimizer.state_dict(), step, streams], path)


def _load(path: str, model: nn.Module, optimizer: torch.optim.Optimizer, lacks: str = "") -> int:
    weights, state, step, (of_torch, of_numpy, of_python) = torch.load(path, weights_only=False)
    model.load_state_dict(weights)
    optimizer.load_state_dict(state)
    if lacks != "random states":
        torch.set_rng_state(of_torch)
        np.random.set_state(of_numpy)
        random.setstate(of_python)
    return 0 if lacks == "step" else int(step)


def kill_saves(package: str, folder: str, last: int, parts: int, timed: int) -> dict[str, Any]:
    """Kill saves and return what was found after each.

    They are killed at the `last` of their file operations, at `parts` of the file, which are met in C++ too, where
    Python sees no operation, and `timed` in the course of time. Also returned are what lay in the folder after one more
    save, the order in which a save synchronises and renames, and by how many bytes a file has grown from one to the
    other.
    """
    os.environ |= HIDDEN
    module = importlib.import_module(f"{package}.checkpoint")
    path = f"{folder}/checkpoint"

    def filled(number: int) -> tuple[torch.nn.ParameterList, torch.optim.Optimizer]:
        weight = torch.nn.Parameter(torch.full((24, 24), float(number)))
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        optimizer.state[weight]["momentum_buffer"] = torch.full((24, 24), float(number))
        return torch.nn.ParameterList([weight]), optimizer

    def found(old: int, new: int) -> tuple[str, int]:
        model, optimizer = filled(-1)
        try:
            step = module.load(path, model, optimizer)
        except NotImplementedError:
            raise
        except Exception as error:
            return f"{type(error).__name__}: {error}", old
        state = optimizer.state[model[0]].get(
            "momentum_buffer", torch.tensor(-1.0)
        )  # Without a momentum, −1 stands for one that was not restored.
        values = {step, *model[0].flatten().tolist(), *state.flatten().tolist()}
        checkpoint = {(old,): "the old one", (new,): "the new one"}.get(tuple(values), f"parts of {sorted(values)}")
        return checkpoint, step

    def save(number: int) -> interruption.Work:
        return lambda: module.save(path, *filled(number), number)

    begun: list[str] = []
    synchronised: dict[tuple[int, int], int] = {}
    late = [0]

    def note(name: str) -> None:
        begun.append(name)
        if name in interruption.SYNCS:
            synchronised.clear()
            synchronised.update(_sizes(folder, opened=True))
        elif name == "renamed" and "synchronised" not in begun:
            late.extend(size - synchronised.get(file, size) for file, size in _sizes(folder).items())

    save(0)()
    interruption.watch(save(1), note)
    operations = list(enumerate(begun))[max(len(begun) - last, 0) :]
    kills: list[Any] = [(interruption.kill_at, moment, name) for moment, name in operations]
    took = sorted(interruption.duration(save(number)) for number in (1, 0, 1))[1]
    after, _ = found(0, 1)
    if after == "the old one":
        raise RuntimeError("a fork of a process that has saved cannot save")
    if after != "the new one":  # Even an undisturbed save loses data: report only that, and kill nothing.
        return {"found": [["nothing", after]], "left": [], "order": [], "late": 0}
    sizes = [os.path.getsize(path) * n // parts for n in range(parts)]
    kills += [(interruption.kill_beyond, size, f"byte {size} of a file") for size in sizes]
    kills += [(interruption.kill_after, took * 1.25 * (n + 0.5) / timed, "a while") for n in range(timed)]
    results, before = [], 1
    for number, (kill, moment, name) in enumerate(kills, 2):
        kill(save(number), moment)
        file, before = found(before, number)
        results.append([name, file])
    save(before)()
    left = [name for name in os.listdir(folder) if name != "checkpoint"]
    meant = dict.fromkeys(interruption.SYNCS, "sync") | dict.fromkeys(interruption.RENAMES, "rename")
    order = [meant[name] for name in begun if name in meant]
    return {"found": results, "left": left, "order": order, "late": max(late)}


def _sizes(folder: str, *, opened: bool = False) -> dict[tuple[int, int], int]:
    """Return the size of every file in a folder, and of those that this process has open, by device and number."""
    found = [entry.stat() for entry in os.scandir(folder)]
    for descriptor in range(256 if opened else 0):
        with contextlib.suppress(OSError):
            found.append(os.fstat(descriptor))
    return {(each.st_dev, each.st_ino): each.st_size for each in found if stat.S_ISREG(each.st_mode)}


def fill_the_disk(package: str, folder: str, parts: int) -> list[str]:
    """Save under limits on the file's size; return the outcome of the save, the load, and the folder's files."""
    os.environ |= HIDDEN
    module = importlib.import_module(f"{package}.checkpoint")
    path = f"{folder}/checkpoint"
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # A write beyond the limit then fails as on a full disk.
    model = torch.nn.Linear(20, 20)
    optimizer = torch.optim.SGD(model.parameters())
    module.save(path, model, optimizer, 1)
    size = os.path.getsize(path)
    outcomes = []
    for part in range(parts):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size * part // parts, resource.RLIM_INFINITY))
        try:
            module.save(path, model, optimizer, 2)
            outcomes.append("no error")
        except NotImplementedError:
            raise
        except Exception:
            outcomes.append("an error")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        try:
            outcomes.append(f"step {module.load(path, model, optimizer)}")
        except Exception as error:
            outcomes.append(f"{type(error).__name__}: {error}")
        outcomes.append(", ".join(sorted(os.listdir(folder))))
    return outcomes
