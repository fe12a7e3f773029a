"""Small overlays over impl, torch or an instrument, under which the claims are judged: see children.py."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec.claim import Claim

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Overlay:
    """A replacement for one attribute; right ones (`claims` empty) pass, wrong ones fail every claim they name."""

    target: str
    replacement: Callable[..., Any]
    claims: tuple[str, ...]
    value: bool

    @property
    def chapter(self) -> str:
        return self.replacement.__module__.rsplit(".", 1)[-1]

    @property
    def name(self) -> str:
        return f"{self.chapter}.{self.replacement.__name__}"

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


def named(name: str) -> Overlay:
    """Return an overlay by its name, in a process that may have loaded none."""
    importlib.import_module(f"tests.kit.mutants.{name.split('.')[0]}")
    return next(each for each in MUTANTS + TWINS if each.name == name)


def modules_of(chapter: str) -> list[str]:
    """Return the test modules of a chapter, relative to the root."""
    rooms = ("tests/claims", "tests/benchmarks")
    return [path for room in rooms if Path(ROOT, path := f"{room}/test_{chapter}.py").exists()]
