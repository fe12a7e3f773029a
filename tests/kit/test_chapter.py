"""The command that checks one chapter."""

import subprocess

import pytest

from spec import claims
from tests.kit import chapter
from tests.kit.overlay import ROOT


@pytest.mark.parametrize("name", ["", "storages", "../storage"])
def test_another_name_gives_one_line_that_lists_the_chapters(name):
    """Nothing runs, and the line says how to write it."""
    told = chapter.main(name)
    assert told.startswith(f"no chapter is called {name!r}; write CHAPTER= and one of ")
    assert {"storage", "planning"} <= set(told.replace(",", "").split())
    assert "\n" not in told


@pytest.mark.parametrize("name", [each.name for each in claims.load()])
def test_every_file_of_a_chapter_is_looked_at(name):
    """Each command names files that there are; together they are all those of the chapter's name."""
    named = {word for command in chapter.commands(name, "2") for word in command if word.endswith(".py")}
    rooms = ("spec/claims", "impl", "tests/kit/mutants", "tests/claims/test_", "tests/benchmarks/test_")
    there = {f"{room}{'' if room.endswith('_') else '/'}{name}.py" for room in rooms}
    assert named == {path for path in there if (ROOT / path).exists()} | {"tests/kit/test_mutants.py"}


def test_the_first_command_that_fails_is_told_and_ends_it(monkeypatch):
    """Its status is that of a failure, and what comes after is not run."""
    ran = []

    def run(command, cwd):
        ran.append(command)
        return subprocess.CompletedProcess(command, returncode=int("format" in command))

    monkeypatch.setattr(subprocess, "run", run)
    assert chapter.main("planning").startswith("planning: failed: python -m ruff format --check")
    assert len(ran) == 2
    monkeypatch.setattr(subprocess, "run", lambda command, cwd: subprocess.CompletedProcess(command, returncode=0))
    assert chapter.main("planning") == ""
