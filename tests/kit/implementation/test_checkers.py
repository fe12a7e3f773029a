"""Runtime type checkers around an implementation: what they refuse is refused, and what is right is not rejected."""

import os
import subprocess
import sys

import pytest

from spec.implementation import skeleton
from tests.kit.project import DOUBLE, ROOT

pytest_plugins = ["pytester"]

# jaxtyping's own documentation asks for this release: later ones read its strings, such as "batch dim", as code.
TYPEGUARD = "typeguard==2.13.3"
CHAPTERS = [f"tests/claims/test_{chapter}.py" for chapter in ("dimensions", "flops", "optimizer", "planning")]
TEST_REFUSES = """
@verifies(storage.DOUBLE)
def test_refuses(impl, evidence):
    evidence.equal(impl.storage.double(3), 6, unit="bytes")
    evidence.raises(TypeError, lambda: impl.storage.double("3"), n="3")
"""
GUARDED = """
from beartype import beartype


@beartype
def double(n: int) -> int:
    return 2 * n
"""
CAPRICIOUS = """
class TypeCheckError(Exception):
    pass


def double(n):
    if isinstance(n, str):
        raise TypeCheckError("strings are dull")
    return 2 * n
"""


def run(module, *arguments, path=""):
    """Run a module of Python's in a process of its own, in the folder of the kit."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", module, *arguments]
    environment["PYTHONPATH"] = path
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_a_checkers_refusal_counts_as_one(project):
    """A call that beartype refuses has been refused, though beartype's exception is no TypeError."""
    pytest.importorskip("beartype")
    project.state(DOUBLE)
    project.test(TEST_REFUSES)
    project.student(GUARDED)
    assert project.run("--spec-impl=mine").verdicts() == {"storage.double": "holds"}


def test_an_exception_of_a_checkers_name_is_not_a_checkers(project):
    """An implementation's own exception counts for what it is, whatever it is called."""
    project.state(DOUBLE)
    project.test(TEST_REFUSES)
    project.student(CAPRICIOUS)
    ran = project.run("--spec-impl=mine")
    assert ran.verdicts() == {"storage.double": "fails"}
    assert "mine.storage.double raises TypeCheckError" in ran.reason("storage.double") or "raises" in ran.printed


def test_the_reference_passes_under_a_checker():
    """With beartype around every function of the reference, no claim's test fails."""
    pytest.importorskip("beartype")
    done = run("pytest", "--jaxtyping-packages=impl,beartype.beartype", "--hypothesis-profile=quick", "-q")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_reference_passes_under_another_checker(tmp_path):
    """With typeguard around the functions of four chapters, none of their tests fails."""
    installed = run("pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), TYPEGUARD)
    if installed.returncode:
        pytest.skip(f"pip cannot install {TYPEGUARD}: {installed.stderr.strip().splitlines()[-1]}")
    options = ["--jaxtyping-packages=impl,typeguard.typechecked", "--hypothesis-profile=quick", "-q"]
    done = run("pytest", *options, *CHAPTERS, path=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_skeleton_takes_every_integer():
    """What `python -m spec new` writes is annotated as the reference is: NumPy's integers are integers, too."""
    files = skeleton.package("mine")
    assert "points: SupportsIndex" in files["flops.py"]
    assert "from typing import SupportsIndex" in files["flops.py"]
    assert ": int," not in files["flops.py"] + files["memory.py"] + files["parameters.py"]
