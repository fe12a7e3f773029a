"""Every command of the README runs, in a fresh copy of the project."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from spec import claims
from spec.claim import CORRECTED, HOLDS_IF
from spec.report import receipts

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
# Once `make verify` has run every test, the other commands collect all and run those of three chapters.
RUN = ("storage", "tensors", "parameters")
OTHERS = [path for path in sorted(ROOT.glob("tests/[cb]*/test_*.py")) if path.stem.removeprefix("test_") not in RUN]
FEW = {"PYTEST_ADDOPTS": " ".join(f"--deselect={path.relative_to(ROOT).as_posix()}" for path in OTHERS)}
SET_UP, ACTIVATE = ("make verify", "make test"), ". .venv/bin/activate"
ELSEWHERE = ("cd homework", "python -m pytest ../kit --spec-impl=mine")

WRONG = """
def training_days(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    return 5.0


def largest_model(memory_bytes, bytes_per_parameter=16):
    return 5
"""


def commands(block):
    """Return the commands of a block, without their comments."""
    lines = (re.sub(r"\s+#.*", "", line).strip() for line in block.splitlines())
    return tuple(line for line in lines if line)


def run(command, folder, **variables):
    """Run a shell command with this Python's programs first; return what it printed once it has succeeded."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment | {"PATH": path} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_readme_leads_with_the_two_commands():
    """Its first commands are `make verify` and `make test`, and CI runs the second as it stands there."""
    assert commands(BLOCKS[0]) == SET_UP
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == SET_UP[1]


def test_the_readme_counts_the_claims():
    """Its first paragraph says how many claims there are, in how many chapters, and how many of each standing."""
    chapters = claims.load()
    every = [claim for chapter in chapters for claim in chapter.claims]
    standings = Counter(claim.standing for claim in every)
    counted = (
        f"covers {len(every)} statements in {len(chapters)} chapters: {standings[HOLDS_IF]} need a condition that the "
        f"notes leave out, {standings[CORRECTED]} are false as put."
    )
    assert counted in " ".join(README.split())


def test_make_verify_sets_up_and_reports(copy):
    """`make verify` makes an environment with the given Python's torch, and writes the report; it can be activated."""
    printed = run(f"make verify PYTHON='{sys.executable}' && {ACTIVATE} && which python", copy)
    assert " 0 fails" in printed
    assert printed.splitlines()[-1].startswith(str(copy))
    assert {path.name for path in (copy / "report").iterdir()} >= {"claims.json", "junit.xml"}
    # Each record of the whole run, benchmarks included, agrees with its own verdict.
    assert list(receipts.misfits(receipts.read(copy / "report" / "claims.json"), claims.load())) == []


def test_a_package_in_another_folder_is_checked(copy):
    """From the folder that holds it, as the README says; what fails is rerun there with the line that is shown."""
    assert ELSEWHERE in map(commands, BLOCKS)
    assert copy.name == "kit"
    (copy.parent / "homework").mkdir()
    run(f"PYTHONPATH='{copy}' python -m spec new mine", copy.parent / "homework")
    (copy.parent / "homework" / "mine" / "planning.py").write_text(WRONG)
    printed = run(f"{ELSEWHERE[0]} && ! {ELSEWHERE[1]} -k planning", copy.parent)
    reruns = re.findall("rerun: pytest (.*)", printed)
    assert len(reruns) >= 2
    assert "measured 5 days" in printed
    assert "1 failed" in run(f"! python -m pytest {reruns[0]}", copy.parent / "homework")


@pytest.mark.parametrize(
    "block", [b for b in BLOCKS[1:] if commands(b) not in ((ACTIVATE,), ELSEWHERE)], ids=lambda b: commands(b)[0]
)
def test_a_block_of_commands_runs(copy, block):
    """Its commands succeed one after the other."""
    for command in commands(block):
        run(command, copy, **FEW)
