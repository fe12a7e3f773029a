"""The package under test: found by name, imported module by module when a test first asks."""

import functools
import importlib
import importlib.util
import pkgutil
import types
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from spec.implementation import contract, guard
from spec.run.collection import suggestion


class ImplementationError(Exception):
    """What the implementation does that makes its claims fail; the message is one line."""


class Implementation:
    """Attribute access gives a chapter's module: `impl.storage.can_view(…)`."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._chapters: dict[str, Chapter] = {}
        self.asked = False  # Each test sets it back when it begins.

    @functools.cached_property
    def _error(self) -> str | None:
        """What is wrong with the package itself: it is imported first, so that this counts against every chapter."""
        return _import(self._package)[1]

    def __getattr__(self, name: str) -> "Chapter":
        if name.startswith("_"):  # pytest and hypothesis ask any object for these.
            raise AttributeError(name)
        self.asked = True
        if name not in self._chapters:
            self._chapters[name] = Chapter(self._package, name, self._error)
        return self._chapters[name]


class Chapter:
    """One module of the implementation; a name is checked against the contract when it is first used."""

    def __init__(self, package: str, name: str, error: str | None) -> None:
        self._path = f"{package}.{name}"
        self._contract = contract.chapter(name)
        self._module, self._error = (None, error) if error else _import(self._path)

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        if isinstance(self._error, str):
            raise ImplementationError(self._error)
        if self._module is None:
            pytest.skip(f"not implemented: there is no module {self._path}")
        entry = self._contract.get(name)
        if not hasattr(self._module, name):
            told = f"{self._path} lacks {name}{entry or ''}"
            raise ImplementationError(f"{told}; one that raises NotImplementedError is unchecked until it is written")
        value = getattr(self._module, name)
        if entry and (mismatch := entry.mismatch(value)):
            raise ImplementationError(f"{self._path}.{name} {mismatch}")
        setattr(self, name, value)
        return value


def find(package: str) -> str:
    """Return why `package` cannot be an implementation; an empty string if it can. Runs none of its code."""
    if not all(part.isidentifier() for part in package.split(".")):
        return f"--spec-impl={package}: not a package name; write it as in an import, for example --spec-impl=mine"
    name, *parts = package.split(".")
    try:
        spec = importlib.util.find_spec(name)
        for part in parts:  # step by step, for importlib would import the packages above
            name = f"{name}.{part}"
            inside = spec.submodule_search_locations if spec else None
            spec = PathFinder.find_spec(name, list(inside)) if inside else None
    except KeyError:  # a folder without __init__.py in another: a package, which only an import can look into
        return ""
    except ValueError:  # __main__
        spec = None
    if spec is None:
        return f"--spec-impl={package}: no such package on the import path; run pytest from the folder that holds it"
    if spec.submodule_search_locations is None:
        path = f"{package.replace('.', '/')}/optimizer.py"
        return f"--spec-impl={package}: a single module; an implementation is a package, with {path} for AdaGrad, say"
    inside = list(spec.submodule_search_locations)
    found = {module.name for module in pkgutil.iter_modules(inside)}
    if not found & contract.chapters():
        near = [f"{name}{hint}" for name in sorted(found) if (hint := suggestion(name, sorted(contract.chapters())))]
        told = ", ".join(near) or f"there are {', '.join(sorted(contract.chapters()))}"
        return f"--spec-impl={package}: has no module under the name of one of the reference's: {told}"
    return ""


def hidden(package: str, folder: Path) -> str:
    """Return a line where one of the same name comes before the package in `folder`; an empty string otherwise."""
    name = package.partition(".")[0]
    spec = importlib.util.find_spec(name)
    found = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    own = folder / name
    if not found or not any(own.glob("*.py")) or any(place.exists() and place.samefile(own) for place in found):
        return ""
    return f"--spec-impl={package}: {found[0]} comes before the one in this folder, which needs another name"


def _import(path: str) -> tuple[types.ModuleType | None, str | None]:
    """Import a module: the module, or None and what went wrong, or None and None where it does not exist."""
    module, error = None, None
    with guard.watched(path.partition(".")[0]) as left:
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError as missing:
            if missing.name != path:
                error = f"{path} cannot be imported: {missing}"
        except SystemExit as stop:
            error = f"{path} calls sys.exit({stop.code!r}) when it is imported"
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            text = " ".join(str(raised).split())
            error = f"{path} cannot be imported: it raises {type(raised).__name__}: {text}"
    if left and error is None:
        error = f"{path}, when it is imported, {'; '.join(left)}"
    return module, error
