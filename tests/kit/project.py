"""Small projects with claims of their own, and pytest run on them: the words that the plugin's tests are written in.

The projects' claims are about two functions, `impl.storage.tensor_bytes` and `impl.storage.double`.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import settings

from spec.implementation import contract
from spec.report import files
from spec.run import profiles

ROOT = Path(__file__).parents[2]

CONFTEST = 'pytest_plugins = ["spec.plugin"]'
INI = """
[pytest]
spec_claims = myclaims
testpaths =
    tests/claims
    tests/benchmarks
pythonpath = .
addopts = --import-mode=importlib --strict-markers --strict-config --assert=plain -p no:cacheprovider
"""
CLAIMS = """
from spec.claim import CORRECTED, HOLDS_IF, Chapter, Claim

chapter = Chapter("storage", section="2.2", title="Storage")
"""
BYTES = """
BYTES = chapter.claim("bytes", says="A tensor takes elements × size bytes.", law="bytes = elements × size")
"""
DOUBLE = """
DOUBLE = chapter.claim("double", says="Twice as many take twice as much.", law="double(n) = 2·n")
"""
TESTS = """
import pytest
import torch
from hypothesis import given, strategies as st
from myclaims import storage
from spec.claim import refutes, verifies

SIZES = st.integers(1, 9)
"""
TEST_BYTES = """
@verifies(storage.BYTES)
@given(elements=SIZES, size=SIZES)
def test_bytes(impl, evidence, elements, size):
    evidence.equal(impl.storage.tensor_bytes(elements, size), elements * size, unit="bytes")
"""
TEST_DOUBLE = """
@verifies(storage.DOUBLE)
def test_double(impl, evidence):
    evidence.equal(impl.storage.double(3), 6, unit="bytes")
"""
IMPL = """
__all__ = ["double", "tensor_bytes"]


def tensor_bytes(elements: int, size: int = 4) -> int:
    return elements * size


def double(n: int) -> int:
    return 2 * n
"""


@dataclass
class Ran:
    """What a run of pytest ended in."""

    status: int
    out: str
    err: str
    claims: dict[str, dict[str, object]]  # of claims.json, by id, with " (device)" where there is more than one

    @property
    def printed(self) -> str:
        return f"{self.out}\n{self.err}"

    def errors(self, start: str = "") -> list[str]:
        """Return the lines in which pytest refuses to run, those that begin so."""
        return [line for line in self.printed.splitlines() if line.startswith(f"ERROR: {start}")]

    def stops_with(self, part: str) -> bool:
        """Whether the run was refused, with a usage error's status, in just one line, which has this part."""
        errors = self.errors()
        clean = "Traceback" not in self.printed and "INTERNALERROR" not in self.printed
        return self.status == 4 and clean and len(errors) == 1 and part in errors[0]

    def line(self, start: str) -> str:
        """Return the first printed line that begins so, without its indent."""
        return next((line.strip() for line in self.printed.splitlines() if line.strip().startswith(start)), "")

    def verdicts(self) -> dict[str, str]:
        return {name: str(claim["verdict"]) for name, claim in self.claims.items()}

    def reason(self, claim: str) -> str:
        return str(self.claims[claim]["reason"])


class Project:
    """A folder with claims, tests, the reference package `impl` and, where one is written, a student's package."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, profile: str) -> None:
        self.pytester = pytester
        self.profile = profile
        self.monkeypatch = monkeypatch
        self.path = pytester.path
        self.write("conftest.py", CONFTEST)
        self.write("pytest.ini", INI)
        self.write("myclaims/__init__.py", "")
        self.write("impl/__init__.py", "")
        self.write("impl/storage.py", IMPL)
        self.state(BYTES)
        self.test(TEST_BYTES)

    def write(self, path: str, text: str) -> Path:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
        return file

    def state(self, *claims: str) -> None:
        """Write the claims of the chapter on storage."""
        self.write("myclaims/storage.py", CLAIMS + "".join(map(dedent, claims)))

    def test(self, *tests: str) -> None:
        """Write the tests of the chapter on storage."""
        self.write("tests/claims/test_storage.py", TESTS + "".join(map(dedent, tests)))

    def other_test(self, tests: str, room: str = "claims") -> None:
        """Write a second module of tests."""
        self.write(f"tests/{room}/test_other.py", TESTS + dedent(tests))

    def student(self, text: str = IMPL, *, init: str = "") -> None:
        """Write the student's package, `mine`, with these two modules."""
        self.write("mine/__init__.py", init)
        self.write("mine/storage.py", text)

    def run(self, *arguments: str) -> Ran:
        """Run pytest here in this process, as if it were a new one, with a report."""
        with self.monkeypatch.context() as patch:
            for name in [name for name in sys.modules if name.split(".")[0] in ("impl", "mine", "myclaims", "tests")]:
                patch.delitem(sys.modules, name)
            contract.chapter.cache_clear()
            try:
                result = self.pytester.runpytest_inprocess(*self._reporting(arguments))
            finally:
                contract.chapter.cache_clear()
                profiles.register(contract.REFERENCE)
                settings.load_profile(self.profile)
        return self._ran(int(result.ret), "\n".join(result.outlines), "\n".join(result.errlines))

    def run_apart(self, *arguments: str, flags: tuple[str, ...] = (), **environment: str) -> Ran:
        """Run pytest here in a process of its own."""
        command = [sys.executable, *flags, "-m", "pytest", *self._reporting(arguments)]
        done = subprocess.run(
            command, cwd=self.path, env=self.environment(**environment), capture_output=True, text=True, timeout=600
        )
        return self._ran(done.returncode, done.stdout, done.stderr)

    def environment(self, **extra: str) -> dict[str, str]:
        """Return the variables of a process that can import the kit; no continuous integration unless asked for."""
        kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST_")}
        return kept | {"PYTHONPATH": str(ROOT)} | extra

    def report(self) -> dict[str, object]:
        """Return claims.json as it is now; empty where there is none."""
        path = self.path / "report" / files.CLAIMS
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}

    def _reporting(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        given = any(argument.startswith("--spec-report") for argument in arguments)
        return arguments if given else ("--spec-report=report", *arguments)

    def _ran(self, status: int, out: str, err: str) -> Ran:
        rows = list(self.report().get("claims", []))
        several = len({row["device"] for row in rows} - {"", "accelerator"}) > 1
        claims = {row["id"] + (f" ({row['device']})" if several and row["device"] else ""): row for row in rows}
        return Ran(status, out, err, claims)
