"""What several of the kit's tests start from."""

import pytest

from spec.hardware import devices
from tests.kit.project import Project


@pytest.fixture
def project(pytester, monkeypatch, pytestconfig):
    """Give a small project that is all right as it stands."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(devices, "accelerators", list)  # as on a machine that has none
    return Project(pytester, monkeypatch, pytestconfig.option.hypothesis_profile or "default")
