"""Forked children that run claims' tests under an overlay; what importing and collecting take is paid once for many."""

import gc
import json
import os
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from spec.instruments import processes
from spec.run import judging
from tests.kit import overlay, simulated
from tests.kit.overlay import Overlay

PATIENCE = 600.0  # seconds until a child is taken to hang: on an idle machine the slowest takes 7
TIMED = "--benchmark-enable"
# A failure's message stands without the traceback, which pytest would spend most of a child's time on.
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist", "--tb=native", f"--rootdir={overlay.ROOT}")


@dataclass
class Ran:
    """What a child's pytest reported: per test its claims, its outcome and its message, and everything it printed."""

    tests: list[dict[str, Any]]
    output: str

    def outcomes(self, claim: str = "") -> set[str]:
        """Return what became of a claim's tests, or of all; those after the first that failed are "not run"."""
        return {test["outcome"] for test in self.tests if claim in (*test["claims"], "")}

    def messages(self, outcome: str, claim: str = "") -> list[str]:
        """Return what the tests said that ended so, those of one claim or all."""
        return [test["message"] for test in self.tests if test["outcome"] == outcome and claim in (*test["claims"], "")]


@dataclass(frozen=True)
class Job:
    """What one child is to do: run every test, or those of some claims, each claim's until the first that fails."""

    overlay: str = ""
    claims: tuple[str, ...] = ()
    seed: int | None = None


class Collected:
    """A process that has collected the tests of some modules; it forks a child for each job, one after the other."""

    def __init__(self, *arguments: str, beneath: Overlay | None = None) -> None:
        processes.fresh()  # the children share it
        self._folder = tempfile.TemporaryDirectory()
        self._told, self._printed = Path(self._folder.name, "told"), Path(self._folder.name, "printed")
        ours, theirs = socket.socketpair()
        self._process = os.fork()
        if self._process == 0:
            ours.close()
            _collect(arguments, beneath, _Jobs(theirs, self._told, self._printed))
        theirs.close()
        self._lines = ours.makefile("rw", encoding="utf-8")
        ours.close()  # the file keeps the connection open

    def judge(self, job: Job) -> Ran:
        """Do a job; RuntimeError where its child dies or hangs."""
        self._lines.write(json.dumps(asdict(job)) + "\n")
        self._lines.flush()
        ended = self._lines.readline().strip() or "died"
        printed = self._printed.read_text(encoding="utf-8", errors="replace")
        if ended != "done":
            raise RuntimeError(f"the child {ended}:\n{printed}")
        return Ran(json.loads(self._told.read_text(encoding="utf-8")), printed)

    def close(self) -> None:
        """End the process."""
        self._lines.close()
        os.waitpid(self._process, 0)
        self._folder.cleanup()


def judge(over: Overlay, claims: Sequence[str] = (), *, profile: str = "ci", seed: int | None = None) -> Ran:
    """Run the tests of the overlay's chapter, of these claims or all, with benchmarks passed through once.

    The overlay is put in place once the tests are collected; most reach what it replaces only as they run.
    """
    return _collected(*_tests_of(over, profile)).judge(Job(over.name, tuple(claims), seed))


def judge_from_the_start(
    over: Overlay, claims: Sequence[str] = (), *options: str, profile: str = "ci", seed: int | None = None
) -> Ran:
    """Run them with the overlay in place before any test is collected."""
    with closing(Collected(*_tests_of(over, profile), *options, beneath=over)) as own:
        return own.judge(Job("", tuple(claims), seed))


def _tests_of(over: Overlay, profile: str) -> tuple[str, ...]:
    return *overlay.modules_of(over.chapter), f"--hypothesis-profile={profile}"


_open: dict[tuple[str, ...], Collected] = {}


def _collected(*arguments: str) -> Collected:
    """Return the process that has collected these tests; it stays until others are asked for."""
    if arguments not in _open:
        close()
        _open[arguments] = Collected(*arguments)
    return _open[arguments]


def close() -> None:
    """End the process that waits for more to do."""
    while _open:
        _open.popitem()[1].close()


# ---- in the child ----


class _Jobs:
    """The pytest plugin that records the tests and, in place of running them all, does what it is asked for."""

    def __init__(self, connection: socket.socket, told: Path, printed: Path) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self.told, self.printed = told, printed
        self.lines = connection.makefile("rw", encoding="utf-8")
        connection.close()

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Leave failing examples as they are found: a smaller one is no better proof."""
        phases = [phase for phase in hypothesis.settings.default.phases if phase is not hypothesis.Phase.shrink]
        hypothesis.settings.register_profile("unshrunk", hypothesis.settings.default, phases=phases)
        hypothesis.settings.load_profile("unshrunk")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            claims = [str(mark.kwargs["id"]) for mark in item.iter_markers("claim")]
            fixtures = list(getattr(item, "fixturenames", ()))
            told = {"id": item.nodeid, "claims": claims, "fixtures": fixtures, "outcome": "not run", "message": ""}
            self.tests[item.nodeid] = told

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None
        gc.freeze()  # so that no child copies what it looks through
        self.serve(session.items, timed=session.config.option.benchmark_enable)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests[report.nodeid]
        if test["outcome"] in ("not run", "passed"):
            test["outcome"], test["message"] = report.outcome, str(report.longrepr or "")

    def serve(self, items: Sequence[pytest.Item], timed: bool = False) -> None:
        """Do one job after the other until there are no more, each in a child of its own."""
        collected = self.printed.stat().st_size
        for line in iter(self.lines.readline, ""):
            os.truncate(self.printed, collected)
            self.told.unlink(missing_ok=True)
            child = os.fork()
            if child == 0:
                _end_after(lambda: self._do(Job(**json.loads(line)), items, timed))  # noqa: B023
            hung = not _ends(child)
            self.lines.write(f"{'hung' if hung else 'done' if self.told.exists() else 'died'}\n")
            self.lines.flush()

    def _do(self, job: Job, items: Sequence[pytest.Item], timed: bool) -> None:
        if job.overlay:
            _apply(overlay.named(job.overlay))
        if timed or any(item.path.name == "test_throughput.py" for item in items):
            simulated.install(simulated.Machine())
        hypothesis.core.global_force_seed = job.seed  # as --hypothesis-seed does
        of = {claim: [item for item in items if claim in self._claims(item)] for claim in job.claims}
        for item in items[:1]:  # what the tests ask their session is which others run
            item.session.items = list({item: None for chosen in of.values() for item in chosen}) or list(items)
        for chosen in of.values() if job.claims else [items]:
            self._run(chosen, until_one_fails=bool(job.claims))
        self.told.write_text(json.dumps(list(self.tests.values())), encoding="utf-8")

    def _claims(self, item: pytest.Item) -> list[str]:
        return self.tests[item.nodeid]["claims"]

    def _run(self, items: Sequence[pytest.Item], until_one_fails: bool) -> None:
        for item in items:
            test = self.tests[item.nodeid]
            if test["outcome"] == "not run":
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if until_one_fails and test["outcome"] == "failed":
                return


def _collect(arguments: Sequence[str], beneath: Overlay | None, jobs: _Jobs) -> None:
    """Collect the tests and do the jobs. Never returns."""

    def run() -> None:
        _redirect(jobs.printed)
        _forget_the_parent()
        if beneath is not None:
            _apply(beneath)
        pytest.main([*OPTIONS, *arguments], plugins=[jobs])
        jobs.serve([])  # where there was nothing to run, each hears of tests that were not

    _end_after(run)


def _end_after(run: Any) -> None:
    """Never returns."""
    try:
        run()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _redirect(printed: Path) -> None:
    out = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)


def _forget_the_parent() -> None:
    """Leave behind what a fork shares with its parent and cannot use."""
    os.chdir(overlay.ROOT)
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]
    for optimizer in torch.optim.Optimizer.__subclasses__():
        _unhook(optimizer)
    torch.set_num_threads(1)  # a fork has none of its parent's OpenMP threads, and would wait for them for ever
    torch.accelerator.device_count = lambda: 0  # nor can it go on using its parent's accelerators,
    torch.cuda.is_available = lambda: False  # the stream of which Adam asks about


def _unhook(optimizer: type[torch.optim.Optimizer]) -> None:
    """Undo what torch did to a class at its first use: it wraps `step`, and a subclass would call the hooks twice."""
    step: Any = vars(optimizer).get("step")
    if optimizer.__module__.startswith("impl.") and getattr(step, "hooked", False):
        optimizer.step = step.__wrapped__  # type: ignore[method-assign]


def _apply(over: Overlay) -> None:
    over.apply()
    judging.is_reference = lambda package: False  # What goes wrong now is what the overlay returned.
    processes.PRELUDE.append(f"from tests.kit import overlay; overlay.named({over.name!r}).apply()")


def _ends(child: int) -> bool:
    """Wait for a child; end it where it does not do so by itself."""
    end = time.monotonic() + PATIENCE
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.002)
    return True
