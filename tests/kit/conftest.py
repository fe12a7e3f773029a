"""What several of the kit's tests start from."""

import pytest

from spec.hardware import devices
from tests.kit.project import Project


@pytest.fixture
def project(pytester, monkeypatch, pytestconfig):
    """Give a small project that is all right as it stands."""
    for name in ("CI", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(devices, "accelerators", list)  # as on a machine that has none
    return Project(pytester, monkeypatch, pytestconfig.option.hypothesis_profile or "default")
