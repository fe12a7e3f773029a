"""python -m spec: what it writes, what it says, and what it refuses."""

import ast
import importlib.util
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import impl
from spec.implementation import skeleton

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted(module.name for module in pkgutil.iter_modules(impl.__path__))

SOURCE = '''
"""A chapter."""

from __future__ import annotations
import math
import os.path as paths
from collections.abc import Callable, Sequence

__all__ = ["LIMITS", "Model", "area"]

Size = Sequence[float]
SECRET = 42


def _helper(x: Callable) -> int:
    """Not for others."""
    return SECRET


LIMITS = {"high": _helper(abs)}


class Model(paths.Base):
    """A model."""

    width: int = 3
    secret = SECRET

    @property
    def depth(self) -> Size:
        """How deep."""
        return [SECRET]

    @math.cached
    def area(self):
        return SECRET

    def _hidden(self) -> Callable:
        return _helper


def area(size: Size = (), *, scale: float = math.pi) -> float:
    """Return
    the area."""
    return SECRET
'''.lstrip()

BARE = '''
"""A chapter."""

from __future__ import annotations
import math
import os.path as paths
from collections.abc import Sequence

__all__ = ['LIMITS', 'Model', 'area']


Size = Sequence[float]


# Data, and yours to write:
# LIMITS: object = …


class Model(paths.Base):
    """A model."""
    width: int = 3

    @property
    def depth(self) -> Size:
        """How deep."""
        raise NotImplementedError

    def area(self):
        raise NotImplementedError


def area(size: Size=(), *, scale: float=math.pi) -> float:
    """Return
    the area."""
    raise NotImplementedError


def __getattr__(name: str) -> object:
    """Stand in for what is not written yet."""
    if name in __all__:
        raise NotImplementedError(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
'''.lstrip()


def run(*words, folder):
    """Run `python …` in a folder, with the kit on the import path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def load(path):
    """Import a module from a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where dataclasses look for a class's module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    return module


def parameters(function):
    """Return what a call of a function has to give: names, kinds and defaults."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Give the folder in which a skeleton called homework was written, and what was printed."""
    folder = tmp_path_factory.mktemp("student")
    done = run("-m", "spec", "new", "homework", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder, done.stdout


def test_a_module_loses_its_code_and_keeps_what_its_names_need():
    """Public names, docstrings, signatures and what those mention stay; bodies, data and private names go."""
    assert skeleton.module(SOURCE) == BARE


def test_a_skeleton_has_a_module_for_every_chapter(written):
    """It says what it wrote, and how to go on."""
    folder, printed = written
    assert sorted(path.stem for path in (folder / "homework").iterdir()) == ["__init__", *CHAPTERS]
    assert all(f"{name}.py" in printed for name in CHAPTERS)
    assert printed.splitlines()[-1].endswith("pytest --spec-impl=homework")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_skeleton_has_the_references_names_and_none_of_its_code(written, chapter):
    """Each public name has the reference's parameters and docstring, and says that it is not implemented."""
    reference = importlib.import_module(f"impl.{chapter}")
    mine = load(written[0] / "homework" / f"{chapter}.py")
    assert mine.__all__ == reference.__all__
    assert mine.__doc__ == inspect.cleandoc(reference.__doc__)
    for name in reference.__all__:
        public = getattr(reference, name)
        if not callable(public):
            with pytest.raises(NotImplementedError, match=f"{chapter}.{name}"):
                getattr(mine, name)
        else:
            assert inspect.getdoc(getattr(mine, name)) == inspect.getdoc(public)
            assert parameters(getattr(mine, name)) == parameters(public)
    functions = [n for n in ast.walk(ast.parse(inspect.getsource(mine))) if isinstance(n, ast.FunctionDef)]
    assert {ast.unparse(f.body[-1]) for f in functions if f.name != "__getattr__"} == {"raise NotImplementedError"}


def test_a_fresh_skeleton_is_unchecked(written):
    """pytest passes on it; no claim that needs an implementation is said to hold or to fail, and each says why."""
    folder, _ = written
    options = ["--spec-impl=homework", "--spec-report=report", "--hypothesis-profile=quick", "-p", "no:cacheprovider"]
    done = run("-m", "pytest", "-c", str(ROOT / "pytest.ini"), str(ROOT / "tests/claims"), *options, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    claims = {row["id"]: row for row in json.loads((folder / "report/claims.json").read_text())["claims"]}
    assert [name for name, row in claims.items() if row["verdict"] not in ("holds", "unchecked")] == []
    told = claims["dimensions.einsum"]
    assert (told["verdict"], told["reason"]) == ("unchecked", "not implemented: homework.dimensions.attention_scores")
    assert "not implemented: homework.floats" in claims["floats.float32-layout"]["reason"]
    assert "not implemented: " in done.stdout


def test_what_exists_is_left_alone(written):
    """A folder of that name stays as it is."""
    folder, _ = written
    before = {path: path.stat().st_mtime_ns for path in (folder / "homework").iterdir()}
    done = run("-m", "spec", "new", "homework", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "python -m spec: homework exists already, and is left as it is: choose another name\n"
    assert {path: path.stat().st_mtime_ns for path in (folder / "homework").iterdir()} == before


@pytest.mark.parametrize("name", ["my-own", "1st", "a.b", "../up", "class", "", "torch", "spec", "impl", "json"])
def test_a_name_that_cannot_be_a_package_is_refused(tmp_path, name):
    """One line says why, the exit status is 2, and nothing is written."""
    done = run("-m", "spec", "new", name, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_without_a_command_the_usage_is_shown(tmp_path):
    """The exit status is 2."""
    done = run("-m", "spec", folder=tmp_path)
    assert done.returncode == 2
    assert "usage: python -m spec" in done.stderr


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    """Not a traceback."""
    (tmp_path / "locked").mkdir(mode=0o500)
    if os.access(tmp_path / "locked", os.W_OK):
        pytest.skip("this user may write everywhere")
    done = run("-m", "spec", "new", "homework", folder=tmp_path / "locked")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
