"""The report of a run that ends early, is interrupted or killed, or loses its folder: valid, and true."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from spec.report import files
from tests.kit.project import BYTES, CONFTEST, DOUBLE, TEST_BYTES, TEST_DOUBLE

pytest_plugins = ["pytester"]
jsonschema = pytest.importorskip("jsonschema")

PATIENCE = 600.0  # seconds until a process is taken to hang


def validate(report):
    """Fail where a report does not keep to the schema."""
    jsonschema.Draft202012Validator(json.loads(files.SCHEMA.read_text(encoding="utf-8"))).validate(report)


@pytest.mark.parametrize("arguments", [["-x"], ["--maxfail=1"]])
def test_a_run_that_stops_early_is_not_complete(project, arguments):
    """Stopped at the first failure, a run reports what it checked, the rest as unchecked, and itself as incomplete."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES.replace("elements * size,", "0,"), TEST_DOUBLE)
    assert project.run(*arguments).verdicts() == {"storage.bytes": "fails", "storage.double": "unchecked"}
    assert project.report()["complete"] is False
    validate(project.report())


def test_collecting_alone_reports_nothing(project):
    """--collect-only says nothing of any claim, and so writes no report."""
    assert project.run("--collect-only").status == 0
    assert project.report() == {}


WAITS = """
import pathlib, time

@verifies(storage.DOUBLE)
def test_double(impl, evidence):
    evidence.equal(impl.storage.double(3), 6)
    pathlib.Path("waiting").touch()
    time.sleep(60)
"""


@pytest.fixture
def waiting(project):
    """Give a project, and pytest at work on it: one claim is checked, and the test of the next one takes long."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES, WAITS)
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--spec-report=report"],
        cwd=project.path,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a run in the background ignores it
    )
    end = time.monotonic() + PATIENCE
    while not (project.path / "waiting").exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.02)
    yield project, process
    process.kill()
    process.wait()


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 2), (signal.SIGKILL, -9)])
def test_a_run_that_is_ended_leaves_what_it_checked(waiting, how, status):
    """After an interrupt, and after a kill, the report is valid: the checked claim holds, the other is unchecked."""
    project, process = waiting
    process.send_signal(how)
    printed = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == status, printed
    report = project.report()
    validate(report)
    assert report["complete"] is False
    assert {row["id"]: row["verdict"] for row in report["claims"]} == {
        "storage.bytes": "holds",
        "storage.double": "unchecked",
    }


def test_a_new_run_replaces_the_old_report_before_its_first_test(project):
    """What an earlier run found never passes for what this one, should it end here, would have."""
    project.run()
    assert project.report()["claims"][0]["verdict"] == "holds"
    project.other_test(
        'import os, shutil\nshutil.copy("report/claims.json", "seen.json")\nos.stat("report/junit.xml")\n'
    )
    ran = project.run()
    assert "No such file or directory: 'report/junit.xml'" in ran.out
    seen = json.loads((project.path / "seen.json").read_text())
    assert (seen["claims"][0]["verdict"], seen["complete"]) == ("unchecked", False)
    validate(seen)


REPORT_GONE = """
@verifies(storage.DOUBLE)
def test_double(evidence):
    import os, shutil
    shutil.rmtree("report")
    evidence.equal(1, 1)
"""


def test_a_report_folder_that_vanishes_is_made_again(project):
    """A folder that is deleted during the run costs nothing: each report is the whole one."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES, REPORT_GONE)
    assert project.run().verdicts() == {"storage.bytes": "holds", "storage.double": "holds"}
    assert sorted(os.listdir("report")) == ["claims.json", "junit.xml"]


def test_a_report_that_cannot_be_written_any_more_is_told_at_the_end(project):
    """Where the folder becomes unwritable during the run, the table is still shown, then one line, and status 4."""
    project.state(BYTES, DOUBLE)
    blocked = REPORT_GONE.replace('shutil.rmtree("report")', 'os.makedirs(f"report/.claims.json.{os.getpid()}")')
    project.test(TEST_BYTES, blocked)
    ran = project.run()
    assert ran.stops_with(f"--spec-report={project.path}/report: cannot be written any more: Is a directory")
    assert ran.line("storage.double  holds      holds ")


# Limits what the process may write to a file, once all has been set up: as good as a full disk, without being root.
FULL = """
def pytest_sessionstart():
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
"""


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_full_disk_costs_no_table(project, share):
    """Whether the disk is full at the start or at the end, the table comes, then one line and status 4; no scratch."""
    project.run()
    limit = int(share * os.path.getsize("report/claims.json"))
    project.write("conftest.py", f"import resource\n\nlimit = ({limit}, {limit})\n{CONFTEST}\n{FULL}")
    ran = project.run_apart()
    assert ran.line("storage.bytes  holds      holds ")
    assert ran.stops_with("report: cannot be written any more: File too large")
    assert "generated xml file" not in ran.out
    assert not [name for name in os.listdir("report") if name.startswith(".") or name == "junit.xml"]


@pytest.mark.parametrize("report", [(), ("--spec-report=report",)], ids=["alone", "beside a report"])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_pytests_own_report_may_fail(project, report):
    """The XML that --junitxml asks for may lie on another disk, which is full: one line, and the device stays."""
    ran = project.run_apart(*report, "--junitxml=/dev/full")
    assert ran.line("storage.bytes  holds      holds ")
    assert ran.stops_with("/dev/full: cannot be written: No space left on device")
    assert os.path.exists("/dev/full")


def test_the_reports_are_named_where_they_are(project):
    """Where --junitxml puts pytest's report elsewhere, the line at the end says so; the host's name is in neither."""
    ran = project.run("--junitxml=elsewhere/results.xml")
    folder = project.path
    assert ran.line("report: ") == f"report: {folder}/report/claims.json, {folder}/elsewhere/results.xml"
    assert "hostname" not in (folder / "elsewhere/results.xml").read_text()
    assert "junit.xml" not in ran.out
