"""What several of the kit's tests start from."""

import shutil
import subprocess

import pytest

from spec.hardware import devices
from spec.instruments import processes
from tests.kit.project import ROOT, Project

processes.PRELOAD.append("spec.claim")  # with pytest, which every overlay is made with


@pytest.fixture
def project(pytester, monkeypatch, pytestconfig):
    """Give a small project that is all right as it stands."""
    for name in ("CI", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(devices, "accelerators", list)  # as on a machine that has none
    return Project(pytester, monkeypatch, pytestconfig.option.hypothesis_profile or "default")


@pytest.fixture
def copy(tmp_path):
    """Give a copy of the project's files, as a fresh clone has them, below a folder whose name has a space."""
    folder = tmp_path / "my notes" / "kit"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def fresh(spec_fresh):
    """Run functions in fresh processes."""
    return spec_fresh
