"""On which devices claims are checked: on the CPU, and on each accelerator there is."""

import pytest
import torch

from spec.hardware import devices
from tests.kit.project import BYTES, DOUBLE, TEST_BYTES

pytest_plugins = ["pytester"]

ANYWHERE = """
@verifies(storage.BYTES)
def test_anywhere(evidence, device):
    evidence.equal(torch.empty(3, device=device).nbytes, 12, unit="bytes")
"""
ACCELERATED = """
@verifies(storage.DOUBLE)
def test_accelerated(evidence, accelerator):
    evidence.equal(torch.empty(3, device=accelerator).nbytes, 12, unit="bytes")
"""
FASTER = """
@verifies(storage.DOUBLE)
def test_faster(benchmark, evidence, timed, device):
    benchmark(torch.empty, 3, device=device)
    evidence.equal(1, 1, unit="timed" if timed else "passed through")
"""
PICKY = """
@verifies(storage.BYTES)
def test_picky(evidence, device):
    evidence.equal(str(device), "meta:0", unit="device")
"""
THREADS = """
@verifies(storage.BYTES)
def test_small(evidence, device):
    evidence.equal(torch.get_num_threads(), 1, unit="threads")


@verifies(storage.DOUBLE)
def test_compared(evidence, accelerator):
    evidence.equal(torch.get_num_threads(), 3, unit="threads")
"""
BOTH = torch.device("meta:0"), torch.device("meta:1")


@pytest.fixture
def project(project):
    """Give a project with a claim about any device, and one about accelerators."""
    project.state(BYTES, DOUBLE)
    project.test(ANYWHERE, ACCELERATED)
    return project


@pytest.fixture
def two(project, monkeypatch):
    """Pretend that this machine has two accelerators: torch's devices without data, under two indices."""
    monkeypatch.setattr(devices, "accelerators", lambda: list(BOTH))
    monkeypatch.setattr(devices, "describe", lambda device: f"a fake {device.type}")
    return project


def ids(ran):
    """Return the tests that ran or were skipped, in order, without their module."""
    lines = (line.split("::", 1)[1] for line in ran.out.splitlines() if line.startswith("tests/") and "::" in line)
    return [" ".join(line.split(" ")[:2]) for line in lines]


def test_without_an_accelerator_its_claims_are_unchecked(project):
    """A claim about any device is checked on the CPU; one about accelerators says that there is none."""
    ran = project.run("-v")
    assert ids(ran) == [
        "test_anywhere[cpu] PASSED",
        "test_anywhere[accelerator] SKIPPED",
        "test_accelerated[accelerator] SKIPPED",
    ]
    assert (ran.status, ran.verdicts()) == (0, {"storage.bytes": "holds", "storage.double": "unchecked"})
    reason = f"no accelerator: torch {torch.__version__} finds none on this machine"
    assert ran.reason("storage.double") == reason
    assert f"storage.double  holds      unchecked  {reason}"[:80] in ran.out


def test_gpu_claims_are_skipped_with_their_reason_where_there_is_none(project):
    """-m gpu without an accelerator ends well, and says for every claim why it was not checked."""
    ran = project.run("-m", "gpu")
    assert (ran.status, set(ran.verdicts().values())) == (0, {"unchecked"})
    assert "2 skipped, 1 deselected" in ran.out
    assert all(ran.reason(claim).startswith("no accelerator: ") for claim in ran.claims)


def test_each_accelerator_is_a_device_of_its_own(two):
    """Tests run on the CPU and on each accelerator, the latter marked gpu, and the table has a row for each."""
    ran = two.run("-v")
    assert ids(ran) == [
        "test_anywhere[cpu] PASSED",
        "test_anywhere[meta:0] PASSED",
        "test_anywhere[meta:1] PASSED",
        "test_accelerated[meta:0] PASSED",
        "test_accelerated[meta:1] PASSED",
    ]
    assert list(ran.verdicts()) == [
        "storage.bytes (cpu)",
        "storage.bytes (meta:0)",
        "storage.bytes (meta:1)",
        "storage.double (meta:0)",
        "storage.double (meta:1)",
    ]
    assert set(ran.verdicts().values()) == {"holds"}
    assert ran.line("storage.double (meta:1)")
    assert ran.line("torch ").endswith("on cpu (a fake cpu), meta:0 (a fake meta), meta:1 (a fake meta)")


def test_each_device_has_a_verdict_of_its_own(two):
    """A claim may hold on one device and fail on another; the message names the device, and so does the rerun line."""
    two.state(BYTES)
    two.test(PICKY)
    ran = two.run()
    assert ran.verdicts() == {
        "storage.bytes (cpu)": "fails",
        "storage.bytes (meta:0)": "holds",
        "storage.bytes (meta:1)": "fails",
    }
    assert ran.reason("storage.bytes (meta:1)").endswith(" for device=meta:1")
    assert "rerun: pytest 'tests/claims/test_storage.py::test_picky[meta:1]'" in ran.out


def test_gpu_claims_run_on_accelerators_only(two):
    """-m gpu selects what runs on an accelerator, and leaves the CPU out."""
    assert [name.split(" (")[1] for name in two.run("-m", "gpu").verdicts()] == ["meta:0)", "meta:1)"] * 2


def test_an_accelerator_is_compared_with_the_whole_cpu(two):
    """Tests of small tensors run on one thread; those that need an accelerator have as many as torch was given."""
    two.test(THREADS)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        ran = two.run()
    finally:
        torch.set_num_threads(before)
    assert set(ran.verdicts().values()) == {"holds"}


@pytest.mark.parametrize(
    ("name", "used", "unchecked"),
    [("cpu", {"cpu"}, {"storage.double"}), ("meta:1", {"cpu", "meta:1"}, set()), ("meta", {"cpu", "meta:0"}, set())],
)
def test_a_device_can_be_chosen(two, name, used, unchecked):
    """--spec-device names the one accelerator to use, the first of its kind without an index, or the CPU alone."""
    ran = two.run(f"--spec-device={name}")
    assert {row["device"] for row in ran.claims.values()} - {"accelerator"} == used
    assert {claim for claim, verdict in ran.verdicts().items() if verdict == "unchecked"} == unchecked
    if unchecked:
        assert ran.reason("storage.double") == "no accelerator: --spec-device=cpu leaves it out"


@pytest.mark.parametrize(
    ("arguments", "unit"),
    [
        ([], "passed through"),
        (["--benchmark-only"], "timed"),
        (["--benchmark-enable"], "timed"),
        (["-m", "gpu"], "timed"),
        (["-m", "gpu or not gpu"], "passed through"),
    ],
)
def test_benchmarks_are_timed_when_asked_for(two, arguments, unit):
    """A plain run passes through each benchmark once; --benchmark-only, --benchmark-enable and -m gpu time it."""
    two.test(ANYWHERE, FASTER)
    ran = two.run("-v", *arguments)  # -v shows pytest-benchmark's own table.
    assert ran.status == 0
    assert {record["unit"] for claim in ran.claims.values() for record in claim["evidence"]} - {"bytes"} == {unit}
    assert ("Name (time in" in ran.out) == (unit == "timed")


def test_benchmark_only_keeps_the_benchmarks(project):
    """--benchmark-only deselects every other test; a benchmark runs on the CPU where there is nothing else."""
    project.test(TEST_BYTES, ANYWHERE, FASTER)
    ran = project.run("--benchmark-only", "-v")
    assert ids(ran) == ["test_faster[cpu] PASSED"]
    assert "1 passed, 3 deselected" in ran.out
    assert ran.verdicts() == {"storage.bytes": "unchecked", "storage.double": "holds"}
