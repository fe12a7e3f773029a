"""python -m spec compare: reports side by side, and the device that is slower than the rest beyond noise."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from spec.report import comparison
from tests.kit.project import BYTES, DOUBLE, ROOT, TEST_BYTES, TEST_DOUBLE

pytest_plugins = ["pytester"]

RATE = {
    "test": "tests/benchmarks/test_throughput.py::test_rate",
    "name": "product",
    "device": "cuda:0",
    "device_name": "a fake card",
    "dtype": "bfloat16",
    "shape": [8192, 8192, 8192],
    "seconds": 1.0,
    "lower_quartile": 0.99,
    "upper_quartile": 1.01,
    "runs": 20,
    "uncertainty": 0.01,
    "doubt": "",
    "note": "",
}


@pytest.fixture
def report(project):
    """Give the report of a small project that was run on the CPU."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES, TEST_DOUBLE)
    project.run()
    return project.report()


def fleet(report, seconds, **changes):
    """Return a report per rank, each of which took so many seconds for a product, and half of that for a copy."""
    reports = []
    for rank, taken in enumerate(seconds):
        device = f"cuda:{rank}"
        told = {"rank": rank, "ranks": len(seconds), "devices": {device: RATE["device_name"]}}
        rate = RATE | {"device": device, "seconds": taken} | changes
        rates = [rate, rate | {"name": "copy", "seconds": taken / 2}]
        rows = [dict(row) for row in report["claims"]]
        reports.append(report | {"environment": report["environment"] | told, "rates": rates, "claims": rows})
    return reports


def slow(reports):
    """Return the ranks that are pointed out."""
    return sorted({lag.part.report for lag in comparison.lags(reports)})


@pytest.mark.parametrize("which", range(4))
def test_one_slow_device_of_four_is_pointed_out(report, which):
    """It takes 20% longer than the others, each of which has noise of its own: for 100 draws of that."""
    for seed in range(100):
        noise = random.Random(seed)
        seconds = [noise.gauss(1, 0.01) * (1.2 if rank == which else 1) for rank in range(4)]
        assert slow(fleet(report, seconds)) == [which]


def test_four_equal_devices_are_not(report):
    """Noise alone points at none of them, in 1,000 draws of it, small or large."""
    for seed in range(1000):
        noise = random.Random(seed)
        spread = noise.choice([0.001, 0.01, 0.02])
        assert slow(fleet(report, [noise.gauss(1, spread) for _ in range(4)])) == []


def test_two_slow_devices_of_eight_do_not_hide_each_other(report):
    """Each is held against the median of the others."""
    assert slow(fleet(report, [1, 1.01, 1.25, 0.99, 1, 1.02, 1.25, 1])) == [2, 6]


def test_one_that_is_broken_hides_no_other(report):
    """A device ten times as slow moves the mean of the others, and not their median."""
    assert slow(fleet(report, [1, 1.01, 1.2, 10, 1])) == [2, 3]


def test_devices_that_differ_anyway_explain_more(report):
    """Among devices that lie 20% apart, one 25% above the middle is nothing of note."""
    assert slow(fleet(report, [0.8, 1, 1.2, 1.25])) == []
    assert slow(fleet(report, [1, 1, 1, 1.25])) == [3]


def test_of_two_the_slower_one_is_named(report):
    """As when one device is measured before and after a change."""
    assert slow(fleet(report, [1, 1.5])) == [1]


def test_a_timing_in_doubt_points_at_nobody(report):
    """Nor does one that is itself known badly, or another kind of device."""
    assert slow(fleet(report, [1, 1, 1, 1.2], doubt="too hot")) == []
    assert slow(fleet(report, [1, 1, 1, 1.2], uncertainty=None)) == []
    assert slow(fleet(report, [1, 1, 1, 1.2], uncertainty=0.1)) == []
    reports = fleet(report, [1, 1, 1, 1.2])
    for rate in reports[3]["rates"]:
        rate["device_name"] = "a smaller card"
    assert slow(reports) == []


def test_it_shows_verdicts_and_rates_side_by_side(report):
    """Then it names the device that lags, by how much, and what noise would explain."""
    reports = fleet(report, [1, 1, 1, 1.2])
    reports[2]["claims"][0] |= {"verdict": "fails", "reason": "measured 3 bytes"}
    shown = list(comparison.lines([Path(f"claims.rank{rank}.json") for rank in range(4)], reports))
    assert shown[3].startswith("[4] claims.rank3.json: torch ")
    assert shown[3].endswith(" on cuda:3 (a fake card), rank 3 of 4")
    grid = [line.split() for line in shown]
    assert ["claim", "[1]", "[2]", "[3]", "[4]"] in grid
    assert ["storage.bytes", "holds", "holds", "fails", "holds"] in grid
    assert "1 of 2 claims have the same verdict in each report" in shown
    assert not any(line.startswith("storage.double") for line in shown)
    assert ["product", "bfloat16", "8192×8192×8192", "1", "±1.0%", "1", "±1.0%", "1", "±1.0%", "1.2", "±1.0%"] in grid
    assert shown[-3:] == [
        "[4] cuda:3 (a fake card) is slower than the rest: claims.rank3.json",
        "    product bfloat16 8192×8192×8192: +20.0%, where noise explains 10.0%",
        "    copy bfloat16 8192×8192×8192: +20.0%, where noise explains 10.0%",
    ]


def test_it_says_how_much_was_compared(report):
    """Of two timings, both, one or none: those in doubt, and those of other devices, decide nothing."""
    paths, reports = [Path("0.json"), Path("1.json")], fleet(report, [1, 1])
    for told in (
        "no device is slower than others of its name beyond noise (2 of 2 timings compared)",
        "no device is slower than others of its name beyond noise (1 of 2 timings compared)",
        "none of 2 timings can be compared: they are in doubt (?), or of devices of different names",
    ):
        assert list(comparison.lines(paths, reports))[-1] == told
        doubtful = next((rate for rate in reports[0]["rates"] if not rate["doubt"]), {})
        doubtful["doubt"] = "too hot"
    reports = fleet(report, [1, 2])
    for rate in reports[1]["rates"]:
        rate["device_name"] = "a smaller card"
    assert list(comparison.lines(paths, reports))[-1] == told


def test_it_says_what_is_missing(report):
    """A rank without a report, reports of several runs, an unfinished one, and that nothing was timed."""
    reports = fleet(report, [1, 1, 1, 1])
    paths = [Path(f"{rank}.json") for rank in range(4)]
    assert "of 4 ranks there is no report of 1, 3" in list(comparison.lines(paths[::2], reports[::2]))
    reports[0]["environment"]["ranks"] = 2
    reports[1]["complete"] = False
    reports[2]["environment"] = reports[2]["environment"] | {"implementation": "mine"}
    for each in reports:
        each["rates"] = []
    shown = list(comparison.lines(paths, reports))
    assert shown[1].endswith("rank 1 of 4, unfinished")
    assert shown[2].endswith(" on cuda:2 (a fake card), of mine, rank 2 of 4")
    assert shown[4] == "these reports are of several runs: they differ in how many ranks there were"
    assert shown[-1].startswith("nothing was timed in more than one report: ")


def compare(folder, *names):
    """Run the command."""
    done = subprocess.run(
        [sys.executable, "-m", "spec", "compare", *names],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_compares_files(report, tmp_path):
    """It reads each report and ends well, whatever it finds."""
    for rank, each in enumerate(fleet(report, [1, 1, 1.3])):
        (tmp_path / f"{rank}.json").write_text(json.dumps(each))
    status, out, err = compare(tmp_path, "0.json", "1.json", "2.json")
    assert (status, err) == (0, "")
    assert "[3] cuda:2 (a fake card) is slower than the rest: 2.json" in out.splitlines()


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a.json"], "compare takes two reports or more: those of each rank, or of one device at two times"),
        (["a.json", "b.json"], "a.json: not a report: write one with pytest --spec-report=DIR"),
        (["c.json", "d.json"], "c.json: cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, names, told):
    """One line says what is wrong."""
    (tmp_path / "a.json").write_text("{")
    assert compare(tmp_path, *names) == (2, "", f"python -m spec: {told}\n")
