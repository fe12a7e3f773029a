"""Other people's plugins and pytest's own switches: whatever runs beside the kit, the verdicts are the same."""

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata

import pytest

from tests.kit.project import ROOT

PACKAGES = (
    *("pytest-randomly", "pytest-playwright", "pytest-timeout", "pytest-cov", "pytest-html", "pytest-repeat"),
    *("pytest-rerunfailures", "pytest-sugar", "pytest-instafail", "pytest-forked", "pytest-asyncio", "anyio"),
    "pytest-mock",
)
# What these plugins do only when they are asked to. pytest-forked is loaded but not asked: its release 1.7.5 cannot
# hand on any test's report under pytest 9.2.
AT_WORK = (
    ("--cov=impl", "--cov-report=", "--timeout=300", "--instafail", "--reruns=1"),
    ("--count=2", "-p", "no:randomly"),
    ("-n", "2", "--reruns=1"),
)
SWITCHES = (
    ("-p", "no:cacheprovider", "-p", "no:logging", "-p", "no:logging", "--assert=rewrite"),
    ("--import-mode=prepend", "-W", "error"),
    ("-n", "2"),
)
CHAPTERS = ("tests/claims/test_operations.py", "tests/claims/test_randomness.py")

NOSY = '''
"""A plugin that has the kit's names for itself, and draws and seeds around every test."""

import random

import numpy as np
import pytest
import torch


def fixture(name):
    return pytest.fixture(scope="session", name=name)(lambda: "another plugin's")


device, impl, evidence, fresh, timed, meter, accelerator = map(
    fixture, ("device", "impl", "evidence", "fresh", "timed", "meter", "accelerator")
)


def pytest_configure(config):
    for marker in ("gpu: needs a game to run", "claim(insurance): what is paid for"):
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", ["phone", "tablet"])


def disturb():
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    torch.set_grad_enabled(True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    disturb()
    try:
        return (yield)
    finally:
        disturb()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    disturb()
    try:
        return (yield)
    finally:
        disturb()


def pytest_runtest_setup(item):
    disturb()


def pytest_runtest_teardown(item):
    disturb()
'''


def run(folder, *arguments, path="", **variables):
    """Run pytest on the claims in a process of its own; return its status, its output and its verdicts."""
    report = folder / "report"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--hypothesis-profile=quick", f"--spec-report={report}", *arguments],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(path)} | variables,
        capture_output=True,
        text=True,
    )
    printed = f"{done.stdout}\n{done.stderr}"
    assert (report / "claims.json").exists(), printed
    claims = json.loads((report / "claims.json").read_text(encoding="utf-8"))["claims"]
    return done.returncode, printed, {(row["id"], row["device"]): row["verdict"] for row in claims}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return the verdicts on two chapters in a plain run."""
    status, printed, verdicts = run(tmp_path_factory.mktemp("plain"), *CHAPTERS)
    assert status == 0, printed
    return verdicts


@pytest.fixture(scope="session")
def installed(pytestconfig):
    """Install the plugins into a folder of their own, which stays; skip where they cannot be had."""
    folder = pytestconfig.cache.mkdir("plugins") / f"python{sys.version_info.minor}"
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != " ".join(PACKAGES):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
        done = subprocess.run([*pip, "--target", str(folder), *PACKAGES], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"pip cannot install the plugins: {done.stderr.strip().splitlines()[-1]}")
        for pattern in ("pytest", "pytest-[0-9]*", "_pytest", "pluggy*", "packaging*"):  # The kit's own pytest is used.
            for path in folder.glob(pattern):
                shutil.rmtree(path)
        ready.write_text(" ".join(PACKAGES))
    return folder


def test_a_plugin_with_the_kits_names_changes_nothing(plain, tmp_path):
    """Fixtures, markers and parameters of the kit's names, and seeding in every hook, leave every verdict as it is."""
    (tmp_path / "nosy.py").write_text(NOSY, encoding="utf-8")
    status, printed, verdicts = run(tmp_path, "-p", "nosy", *CHAPTERS, path=tmp_path)
    assert (status, verdicts) == (0, plain), printed


@pytest.mark.parametrize("switches", SWITCHES, ids=" ".join)
def test_a_switch_of_pytests_changes_nothing(plain, tmp_path, switches):
    """Two processes, no cache, no logging, rewritten asserts, other imports and strict warnings change no verdict."""
    status, printed, verdicts = run(tmp_path, *switches, *CHAPTERS)
    assert (status, verdicts) == (0, plain), printed


@pytest.mark.parametrize("arguments", AT_WORK, ids=" ".join)
def test_plugins_at_work_change_nothing(plain, installed, tmp_path, arguments):
    """Coverage, time limits, repetitions and second attempts leave every verdict as it is."""
    status, printed, verdicts = run(tmp_path, *arguments, *CHAPTERS, path=installed)
    assert (status, verdicts) == (0, plain), printed


def test_all_plugins_at_once_change_nothing(installed, tmp_path):
    """With every plugin loaded, as pytest does by itself, all claims have the verdicts that they have without."""
    _, _, without = run(tmp_path / "without")
    status, printed, verdicts = run(tmp_path / "with", path=installed)
    assert (status, verdicts) == (0, without), printed
    names = {dist.name for dist in metadata.distributions(path=[str(installed)])}
    assert set(PACKAGES) <= names
