"""One process per accelerator, as torchrun starts them: each checks its own and writes a report of its own."""

import json
import subprocess
import sys

import pytest
import torch

from spec.hardware import devices, ranks
from tests.kit.project import BYTES, TEST_BYTES

pytest_plugins = ["pytester"]

ANYWHERE = """
@verifies(storage.BYTES)
def test_anywhere(evidence, device):
    evidence.equal(torch.empty(3, device=device).nbytes, 12, unit="bytes")
"""
TWO = [torch.device("meta:0"), torch.device("meta:1")]


@pytest.fixture
def project(project, monkeypatch):
    """Give a project with a claim about any device, on a machine that seems to have two accelerators."""
    project.state(BYTES)
    project.test(TEST_BYTES, ANYWHERE)
    project.student("def tensor_bytes(numel, itemsize):\n    return numel * itemsize\n")
    monkeypatch.setattr(devices, "accelerators", lambda: list(TWO))
    monkeypatch.setattr(devices, "describe", lambda device: f"a fake {device.type}")
    return project


def launch(monkeypatch, index, world, local_world=None):
    """Pretend that torchrun started this process."""
    variables = {"RANK": index, "LOCAL_RANK": index, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": local_world or world}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))


def test_each_rank_checks_its_own_accelerator(project, monkeypatch):
    """Its report is named after its rank, says how many there are, and has no other accelerator in it."""
    launch(monkeypatch, 1, 2)
    ran = project.run()
    assert ran.status == 0
    assert {path.name for path in (project.path / "report").iterdir()} == {"claims.rank1.json", "junit.rank1.xml"}
    report = json.loads((project.path / "report" / "claims.rank1.json").read_text())
    assert {row["device"] for row in report["claims"]} == {"cpu", "meta:1"}
    told = report["environment"]
    assert (told["rank"], told["ranks"], set(told["devices"])) == (1, 2, {"cpu", "meta:1"})


def test_a_chosen_device_is_every_ranks(project, monkeypatch):
    """--spec-device says more than the rank does."""
    launch(monkeypatch, 1, 2)
    project.run("--spec-device=cpu")
    report = json.loads((project.path / "report" / "claims.rank1.json").read_text())
    assert "meta:1" not in report["environment"]["devices"]


def test_more_ranks_than_accelerators_is_refused(project, monkeypatch):
    """Two processes on one accelerator would slow each other down."""
    launch(monkeypatch, 2, 3)
    ran = project.run()
    assert ran.status == pytest.ExitCode.USAGE_ERROR
    assert ran.err.strip() == (
        "ERROR: rank 2 has no accelerator of its own: torch sees 2; use torchrun --nproc-per-node=2"
    )


def test_a_rank_may_see_only_its_own_accelerator(monkeypatch):
    """Some launchers show each process one accelerator; torchrun, which tells how many run here, does not."""
    assert ranks.own(ranks.Rank(3, 3, 4, local_world=0), TWO[:1]) == TWO[0]
    assert "torch sees 1" in ranks.own(ranks.Rank(3, 3, 4, local_world=4), TWO[:1])
    assert ranks.own(ranks.Rank(3, 3, 4, local_world=4), []) is None


def test_on_a_second_machine_the_local_rank_counts():
    """Rank 3 of 4 has the second accelerator of the second machine."""
    assert ranks.own(ranks.Rank(3, 1, 4, local_world=2), TWO) == TWO[1]


@pytest.mark.parametrize("missing", ranks.NAMES)
def test_half_a_rank_is_none(monkeypatch, missing):
    """A variable of the same name that means something else does not make this process one of many."""
    launch(monkeypatch, 0, 2)
    assert ranks.rank() == ranks.Rank(0, 0, 2, 2)
    monkeypatch.setenv(missing, "some")
    assert ranks.rank() is None


def test_torchrun_writes_a_report_for_each_rank(project):
    """The command of the README, with two processes on a machine without accelerators."""
    command = ["-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "pytest", "-m", "gpu", "--spec-report=all"]
    environment = project.environment(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    done = subprocess.run(
        [sys.executable, *command], cwd=project.path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (project.path / "all").iterdir()}
    assert names == {
        f"{stem}.rank{rank}.{end}" for rank in (0, 1) for stem, end in (("claims", "json"), ("junit", "xml"))
    }
