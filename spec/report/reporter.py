"""Gathers the tests' reports as they arrive, also from xdist's workers, and shows and writes what they amount to."""

import functools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spec.claim import Chapter
from spec.hardware.ranks import Rank
from spec.messages.sentences import Json
from spec.report import files, junit, properties, terminal
from spec.report.verdicts import Finding, Outcome, Verdict, findings
from spec.run import benchmarks, collection, telling

UNFINISHED = "stopped before its test ended"
FAULTS = "spec_faults"  # under which one of xdist's workers hands on what is wrong with the collected tests


class Reporter:
    """The part of the plugin that runs where the results come together."""

    def __init__(
        self, chapters: Sequence[Chapter], environment: dict[str, object], folder: Path | None, rank: Rank | None
    ) -> None:
        self.chapters = chapters
        self.environment = environment
        self.folder = folder
        self.claims, self.junit = (folder and folder / files.name(file, rank) for file in (files.CLAIMS, files.JUNIT))
        self.xml: junit.Junit | None = None  # where pytest writes one
        self.faults: list[str] = []
        self.outcomes: dict[str, Outcome] = {}
        self.rates: list[Json] = []
        self.trouble = ""  # why a report cannot be written any more
        self.nothing_ran = False
        self.failed: list[pytest.TestReport] = []  # each of them, while those of one message are shown as one

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if self.junit:
            self.junit.unlink(missing_ok=True)  # an old report never passes for this run's
        root = session.config.rootpath if self.folder else None
        self.xml = junit.guarded(session.config.pluginmanager, root, functools.partial(self.lose, session))
        self.write(complete=False)

    def lose(self, session: pytest.Session, trouble: str) -> None:
        """End the run with a line that says which report could not be written, and with a status that is not 0."""
        self.trouble = self.trouble or trouble
        session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        handed_on = properties.of(report)
        if report.nodeid not in self.outcomes:
            if "claims" not in handed_on:
                return
            self.outcomes[report.nodeid] = Outcome(
                report.nodeid,
                tuple(handed_on["claims"].split()),
                handed_on["device"],
                Verdict.UNCHECKED,
                UNFINISHED,
                expected=json.loads(handed_on["tests"]),
            )
        outcome = self.outcomes[report.nodeid]
        outcome.evidence = json.loads(handed_on.get("evidence", "[]"))
        outcome.series = json.loads(handed_on.get("series", "[]"))
        if report.failed:  # also one of xdist's workers that died
            outcome.verdict, outcome.reason = Verdict.FAILS, _first_line(report)
        elif report.skipped:
            undecided = handed_on.get("undecided", "")
            outcome.verdict = Verdict.AMBIGUOUS if undecided else Verdict.UNCHECKED
            outcome.reason = undecided or _reason(report)
        elif report.when == "call":
            outcome.verdict, outcome.reason = Verdict.HOLDS, ""
        if report.when not in ("setup", "call"):
            self.rates += [{"test": report.nodeid} | rate for rate in json.loads(handed_on.get("rates", "[]"))]
            self.write(complete=False)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.faults = getattr(node, "workeroutput", {}).get(FAULTS, self.faults)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.faults:
            raise pytest.UsageError(*self.faults)
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        self.nothing_ran = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        self.write(complete=ended and not session.shouldfail and not session.shouldstop)
        if self.trouble:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        screen = session.config.pluginmanager.getplugin("terminalreporter")
        if screen and (failed := screen.stats.get("failed", [])):
            self.failed = failed
            # The long summary shows failures of one message once.
            screen.stats["failed"] = telling.group_by_message(failed)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.failed:
            terminalreporter.stats["failed"] = self.failed  # The short summary, which follows, lists each.
        if self.rates:
            terminalreporter.section("rates")
            for line in benchmarks.table(self.rates):
                terminalreporter.write_line(line)
        if self.outcomes:
            terminalreporter.section("claims")
            width, verbose = shutil.get_terminal_size((120, 24)).columns, terminalreporter.verbosity > 0
            lines = terminal.table(self.findings(), width, verbose, terminalreporter.config.option.benchmark_only)
            for line, markup in lines:
                terminalreporter.write_line(line, **markup)
        elif self.nothing_ran:
            option = terminalreporter.config.option
            if hint := collection.unmatched(option.keyword, option.markexpr, self.chapters):
                terminalreporter.write_line(hint)
        if self.trouble:
            terminalreporter.write_line(f"ERROR: {self.trouble}", red=True)
        elif self.folder:
            written = [str(self.claims), *([str(self.xml.path)] if self.xml else [])]
            terminalreporter.write_line(f"report: {', '.join(written)}")

    def findings(self) -> list[Finding]:
        return list(findings(self.chapters, self.outcomes.values()))

    def write(self, *, complete: bool) -> None:
        if self.claims and not self.trouble:
            try:
                files.write(self.claims, self.environment, self.findings(), complete, self.rates)
            except OSError as error:  # a full disk, say: what the run finds is still worth showing
                self.trouble = f"--spec-report={self.folder}: cannot be written any more: {error.strerror}"


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
    return lines[0] if lines else "failed"
