"""Small overlays over impl, torch or an instrument, and the forked child that runs the claims under one of them."""

import importlib
import json
import os
import pkgutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from spec import running
from spec.claim import Claim
from spec.instruments import processes

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds until a child is taken to hang


@dataclass(frozen=True)
class Overlay:
    """A replacement for one attribute; right ones (`claims` empty) pass, wrong ones fail every claim they name."""

    target: str
    replacement: Callable[..., Any]
    claims: tuple[str, ...]
    value: bool

    @property
    def name(self) -> str:
        return f"{self.replacement.__module__.rsplit('.', 1)[-1]}.{self.replacement.__name__}"

    def apply(self) -> None:
        """Put the replacement in place, for the rest of this process."""
        *path, last = self.target.split(".")
        owner, depth = None, len(path)
        while owner is None:
            try:
                owner = importlib.import_module(".".join(path[:depth]))
            except ModuleNotFoundError:
                depth -= 1
        for attribute in path[depth:]:
            owner = getattr(owner, attribute)
        setattr(owner, last, self.replacement() if self.value else self.replacement)


MUTANTS: list[Overlay] = []
TWINS: list[Overlay] = []


def mutant(target: str, *, caught_by: Claim | tuple[Claim, ...], value: bool = False) -> Callable[[Any], Any]:
    """Replace `target` by a wrong implementation that each of these claims has to catch."""
    claims = (caught_by,) if isinstance(caught_by, Claim) else caught_by

    def register(replacement: Any) -> Any:
        MUTANTS.append(Overlay(target, replacement, tuple(claim.id for claim in claims), value))
        return replacement

    return register


def twin(target: str, *, value: bool = False) -> Callable[[Any], Any]:
    """Replace `target` by an unusual right implementation, which no claim of its chapter may reject."""

    def register(replacement: Any) -> Any:
        TWINS.append(Overlay(target, replacement, (), value))
        return replacement

    return register


def load() -> None:
    """Import every module of overlays once."""
    package = importlib.import_module("tests.kit.mutants")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"tests.kit.mutants.{module.name}")


def apply_named(name: str) -> None:
    """Put an overlay in place by its name, in a process that has not loaded any."""
    importlib.import_module(f"tests.kit.mutants.{name.split('.')[0]}")
    next(each for each in MUTANTS + TWINS if each.name == name).apply()


@dataclass
class Ran:
    """What a child's pytest reported: per test its claims, its outcome and its message, and everything it printed."""

    tests: list[dict[str, Any]]
    output: str


class _Recorder:
    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            claims = [str(mark.kwargs["id"]) for mark in item.iter_markers("claim")]
            fixtures = list(getattr(item, "fixturenames", ()))
            told = {"id": item.nodeid, "claims": claims, "fixtures": fixtures, "outcome": "not run", "message": ""}
            self.tests[item.nodeid] = told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests[report.nodeid]
        if test["outcome"] in ("not run", "passed"):
            test["outcome"], test["message"] = report.outcome, str(report.longrepr or "")


def run(*arguments: str, overlay: Overlay | None = None) -> Ran:
    """Run pytest on the claims in a forked child, which spares it the imports; `overlay` is in force only there."""
    processes.fresh()  # the children share it
    with tempfile.TemporaryDirectory() as folder:
        told, printed = Path(folder, "told"), Path(folder, "printed")
        child = os.fork()
        if child == 0:
            _in_child(list(arguments), overlay, told, printed)
        _wait(child, printed)
        if not told.exists():
            raise RuntimeError(f"the child died:\n{printed.read_text(errors='replace')}")
        return Ran(json.loads(told.read_text()), printed.read_text(errors="replace"))


def _in_child(arguments: list[str], overlay: Overlay | None, told: Path, printed: Path) -> None:
    """Never returns."""
    try:
        out = os.open(printed, os.O_WRONLY | os.O_CREAT)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(ROOT)
        for name in [name for name in os.environ if name.startswith("PYTEST_")]:
            del os.environ[name]
        torch.set_num_threads(1)  # a fork has none of its parent's OpenMP threads, and would wait for them for ever
        torch.accelerator.device_count = lambda: 0  # nor can it go on using its parent's accelerators,
        torch.cuda.is_available = lambda: False  # the stream of which Adam asks about
        recorder = _Recorder()
        if overlay is not None:
            overlay.apply()
            running.is_reference = lambda package: False  # what goes wrong now is what the overlay returned
            processes.PRELUDE.append(f"from tests.kit import overlay; overlay.apply_named({overlay.name!r})")
        options = ["--hypothesis-profile=ci", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={ROOT}"]
        pytest.main([*options, *arguments], plugins=[recorder])
        told.write_text(json.dumps(list(recorder.tests.values())))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _wait(child: int, printed: Path) -> None:
    end = time.monotonic() + PATIENCE
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise RuntimeError(f"the child hung:\n{printed.read_text(errors='replace')}")
        time.sleep(0.005)


def modules_of(chapter: str) -> list[str]:
    """Return the test modules of a chapter, relative to the root."""
    rooms = ("tests/claims", "tests/benchmarks")
    return [path for room in rooms if Path(ROOT, path := f"{room}/test_{chapter}.py").exists()]
