"""What several of the kit's tests start from."""

import pytest

from tests.kit.project import Project


@pytest.fixture
def project(pytester, monkeypatch, pytestconfig):
    """Give a small project that is all right as it stands."""
    monkeypatch.delenv("CI", raising=False)
    return Project(pytester, monkeypatch, pytestconfig.option.hypothesis_profile or "default")
