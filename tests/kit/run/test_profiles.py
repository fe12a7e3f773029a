"""How hard hypothesis tries: the same profile with and without CI=true, and one database per implementation."""

import json
import os

import pytest

from spec.run.profiles import EXAMPLES

pytest_plugins = ["pytester"]

TELLS = """
import json
from hypothesis import settings


@verifies(storage.BYTES)
def test_settings(evidence):
    now = settings.default
    told = {
        "examples": now.max_examples,
        "deadline": now.deadline,
        "derandomized": now.derandomize,
        "database": str(getattr(now.database, "path", now.database)),
        "print_blob": now.print_blob,
    }
    with open("told.json", "w") as file:
        json.dump(told, file)
    evidence.equal(1, 1)
"""


@pytest.fixture
def project(project):
    """Give a project whose test tells the settings that hypothesis runs it with."""
    project.test(TELLS)
    project.student()
    return project


def settings_of(name, implementation="impl"):
    """Return the settings that a profile stands for."""
    return {
        "examples": EXAMPLES[name],
        "deadline": None,
        "derandomized": name == "ci",
        "database": "None" if name == "ci" else f".hypothesis/examples/{implementation}",
        "print_blob": False,
    }


def told(project):
    """Return the settings that the project's test told of."""
    return json.loads((project.path / "told.json").read_text())


@pytest.mark.parametrize("ci", ["", "true"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_profile_is_what_it_is_called(project, monkeypatch, name, ci):
    """An explicit profile is the same whether CI is set or not; deadlines are always off."""
    monkeypatch.setenv("CI", ci)
    ran = project.run(f"--hypothesis-profile={name}")
    assert told(project) == settings_of(name)
    assert project.report()["environment"]["profile"] == name
    assert ran.line("implementation: ") == f"implementation: impl; profile: {name}"


def test_thorough_tries_two_thousand_examples():
    """The profiles differ in how many examples they try: thorough is 2,000 for each test."""
    assert EXAMPLES["quick"] < EXAMPLES["default"] < EXAMPLES["thorough"] == 2000


def test_another_implementation_has_another_database(project):
    """An example that one implementation failed on is not tried first on another."""
    project.run("--spec-impl=mine")
    assert told(project) == settings_of("default", "mine")


def test_without_a_word_the_profile_is_the_default(project):
    """Without CI, and without an option, the profile is the default one, and its seed is random."""
    ran = project.run()
    assert told(project) == settings_of("default")
    assert ran.line("implementation: ") == "implementation: impl; profile: default"
    assert project.report()["environment"]["seed"] == "random"


def test_under_ci_the_profile_is_fixed(project, monkeypatch):
    """Where CI is set, a run without a word is the same every time, and leaves no database."""
    monkeypatch.setenv("CI", "true")
    project.run()
    assert told(project) == settings_of("ci")
    assert project.report()["environment"]["seed"] == "fixed"
    assert not os.path.exists(".hypothesis/examples")


def test_the_seed_is_reported(project):
    """A seed given is the seed reported."""
    project.run("--hypothesis-seed=7")
    assert project.report()["environment"]["seed"] == "7"


def test_hypothesis_own_settings_for_ci_change_nothing(project):
    """hypothesis looks at CI when it is imported: in a process of its own the explicit profile still counts."""
    project.run_apart("--hypothesis-profile=quick", CI="true")
    assert told(project) == settings_of("quick")


def test_the_rerun_line_names_the_profile_that_ci_chose(project, monkeypatch):
    """A failure under CI can be rerun where CI is not set, with the same examples."""
    monkeypatch.setenv("CI", "true")
    project.test("@verifies(storage.BYTES)\ndef test_wrong(evidence):\n    evidence.equal(1, 2)\n")
    ran = project.run()
    assert ran.line("rerun: ") == "rerun: pytest tests/claims/test_storage.py::test_wrong --hypothesis-profile=ci"
