"""The pytest plugin: options, markers, fixtures and hooks."""

import functools
import gc
import json
import os
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from spec import claims
from spec.claim import PREFIX, Chapter, arguments, problems
from spec.evidence import Evidence
from spec.hardware import devices, environment, promises, ranks
from spec.implementation import contract, loading
from spec.instruments import allocator, eager, processes, timer
from spec.report import files, properties
from spec.report.reporter import FAULTS, Reporter
from spec.report.verdicts import ABSENT
from spec.run import benchmarks, collection, judging, profiles

CHAPTERS = pytest.StashKey[Sequence[Chapter]]()
ACCELERATORS = pytest.StashKey[list[torch.device]]()
EVIDENCE = pytest.StashKey[Evidence]()
TESTS = pytest.StashKey[dict[tuple[str, str], list[str]]]()  # by claim and device: every test, selected or not
WHOLE = "spec_whole"
MARKER = (
    "the claim of the notes that the test is tied to: its id, such as 'flops.matmul'; the test's role, 'verifies' (the "
    "law holds) or 'refutes' (the notes' wording fails); the wording's standing, 'holds', 'holds if' (under a "
    "condition that the notes leave out) or 'corrected' (false as put). "
    "To select by them: -m \"claim(standing='holds if')\""
)
NEEDED = {  # Each plugin that no run can do without: an option that it brings, and what it is needed for.
    "benchmark": ("benchmark_only", "the claims about speed need pytest-benchmark"),
    "hypothesispytest": (
        "hypothesis_profile",
        "the claims are tried on examples from hypothesis, by its pytest plugin",
    ),
    "skipping": ("runxfail", "what cannot be checked here is skipped"),
}
HEADER = pytest.StashKey[list[str]]()
RECEIPT = pytest.StashKey[Mapping[str, object]]()
PROMISES = pytest.StashKey[promises.Promises]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("spec", "the specification of the lecture notes")
    group.addoption("--spec-impl", default=contract.REFERENCE, metavar="PACKAGE", help="the package to check")
    group.addoption("--spec-device", metavar="DEVICE", help="the accelerator to check on, such as cuda:1; cpu for none")
    group.addoption("--spec-report", metavar="DIR", help=f"write {files.CLAIMS} and {files.JUNIT} into this folder")
    group.addoption(
        "--spec-promised",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="what the device promises instead of its datasheet: FLOP/s by dtype, or bandwidth in bytes/s; repeatable",
    )
    parser.addini("spec_claims", "the package whose modules state the claims", default="spec.claims")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if faults := list(_missing_plugins(config)):
        raise pytest.UsageError(*faults)
    config.addinivalue_line("markers", f"claim(id, role, standing): {MARKER}")
    config.addinivalue_line("markers", "gpu: needs an accelerator")
    sys.path.append(str(config.invocation_params.dir))  # where a student's own package lies
    try:
        chapters = claims.load(config.getini("spec_claims"))
    except Exception as error:
        raise pytest.UsageError(f"the claims cannot be read: {type(error).__name__}: {error}") from error
    faults = list(problems(chapters)) or list(collection.unknown_marks(option.markexpr or "", chapters))
    if os.environ.get("CI") and option.hypothesis_profile is None:
        option.hypothesis_profile = "ci"  # and so the command that reruns a failure elsewhere says it
    profile = "default" if option.hypothesis_profile is None else option.hypothesis_profile
    if profile not in profiles.EXAMPLES:
        faults.append(f"--hypothesis-profile={profile}: no such profile; there are {', '.join(profiles.EXAMPLES)}")
    if option.benchmark_only and getattr(option, "numprocesses", None):
        faults.append("--benchmark-only times one thing after the other: leave out -n")
    if fault := loading.find(option.spec_impl) or _hidden_package(config):
        faults.append(fault)
    present = devices.accelerators()
    rank = ranks.rank()
    chosen = ranks.own(rank, present) if rank else None
    if option.spec_device is not None:
        chosen = devices.parse(option.spec_device)
    if isinstance(chosen, str):
        faults.append(chosen)
    given = promises.parse(option.spec_promised)
    if isinstance(given, str):
        faults.append(given)
    folder = _report_folder(config)
    if option.spec_report == "":
        faults.append("--spec-report=: names no folder; for example --spec-report=report")
    elif folder and (fault := files.prepare(folder)):
        faults.append(fault)
    if faults or isinstance(given, str):
        raise pytest.UsageError(*faults)

    eager.without_compiler()
    allocator.keep_workspaces()
    profiles.register(option.spec_impl)
    settings.load_profile(profile)
    timed = option.benchmark_only or option.benchmark_enable or _words(option.markexpr) == {"gpu"}
    option.benchmark_disable = option.benchmark_disable or not timed
    option.benchmark_quiet = not _wants_pytest_benchmarks_table(config)
    if folder and not getattr(option, "xmlpath", ""):
        option.xmlpath = str(folder / files.name(files.JUNIT, rank))
    gc.freeze()  # what torch and hypothesis made at import stays: looking through it at the end takes half a second
    gc.set_threshold(10_000)  # most of what the tests make is gone by itself, and each look costs
    gc.enable()
    config.stash[CHAPTERS] = chapters
    config.stash[ACCELERATORS] = [device for device in present if chosen in (None, device)]
    config.stash[EVIDENCE] = Evidence()
    config.stash[TESTS] = {}
    config.stash[PROMISES] = promises.Promises(given)
    if not hasattr(config, "workerinput"):
        used = [torch.device("cpu"), *config.stash[ACCELERATORS]]
        seed = "fixed" if profile == "ci" else str(config.getoption("hypothesis_seed", None) or "random")
        receipt = environment.receipt(option.spec_impl, profile, seed, used)
        receipt |= {"rank": rank.index, "ranks": rank.world} if rank else {}
        config.stash[HEADER] = environment.header(receipt)
        config.stash[RECEIPT] = receipt
        config.pluginmanager.register(Reporter(chapters, receipt, folder, rank), "spec-reporter")


def pytest_report_header(config: pytest.Config) -> list[str]:
    return config.stash.get(HEADER, [])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = arguments(metafunc.fixturenames)
    accelerators = metafunc.config.stash[ACCELERATORS]
    for argument in {"device", "accelerator"} & set(names):
        params = []
        for kind in collection.device_kinds(names, accelerators):
            if kind == "cpu":
                params.append(pytest.param(torch.device("cpu"), id="cpu"))
            elif accelerators:
                params += [pytest.param(device, id=str(device), marks=pytest.mark.gpu) for device in accelerators]
            else:
                absent = pytest.mark.skip(reason=_no_accelerator(metafunc.config))
                params.append(pytest.param(None, id=ABSENT, marks=[pytest.mark.gpu, absent]))
        metafunc.parametrize(PREFIX + argument, params)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, object, object]:
    made = yield
    for item in made if isinstance(made, list) else [made]:
        if isinstance(item, pytest.Item):
            for claim, _ in collection.claims_of(item):
                tests = collector.config.stash[TESTS].setdefault((claim, judging.device_of(item)), [])
                tests.append(item.nodeid)
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    whole = _is_whole(config) and not session.testsfailed
    if faults := list(collection.problems(items, config.stash[CHAPTERS], whole)):
        if not hasattr(config, "workeroutput"):
            raise pytest.UsageError(*faults)
        config.workeroutput[FAULTS] = faults  # xdist takes an error of a worker's for a crash
        items.clear()
    items[:] = collection.in_the_notes_order(items, config.stash[CHAPTERS])
    device = str([*config.stash[ACCELERATORS], "cpu"][0])  # on which benchmarks run
    for claim, test in collection.left_out([item.path for item in items], config.rootpath):
        config.stash[TESTS].setdefault((claim, device), []).append(test)
    for item in items:
        if "meter" in collection.arguments_of(item):
            benchmarks.prepare(item)
        ids = list(dict.fromkeys(claim for claim, _ in collection.claims_of(item)))
        if ids:
            device = judging.device_of(item)
            tests = {claim: config.stash[TESTS].get((claim, device), []) for claim in ids}
            item.extra_keyword_matches.update(ids)  # so that -k knows them, too
            properties.hand_on(item, claims=" ".join(ids), device=device, tests=json.dumps(tests))
            judging.show_examples_to(config.stash[EVIDENCE], item)
    if config.option.benchmark_only:
        _keep(config, items, [item for item in items if "benchmark" in collection.arguments_of(item)])


def pytest_collection_finish(session: pytest.Session) -> None:
    if any("fresh" in collection.arguments_of(item) for item in session.items):
        processes.fresh()  # imports torch beside the first tests


def pytest_unconfigure() -> None:
    gc.freeze()  # the process ends: what is left goes with it, unsearched
    if processes.fresh.cache_info().currsize:
        processes.fresh().close()
        processes.fresh.cache_clear()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell one of xdist's workers what only the command line says."""
    node.workerinput[WHOLE] = _is_whole(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_generate_machine_info(config: pytest.Config) -> dict[str, object]:
    """Say what pytest-benchmark's files were measured on, without its default's name of the host."""
    return benchmarks.machine_info(config.stash[RECEIPT])


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_commit_info(commit_info: dict[str, object]) -> None:
    """Leave out what people name after themselves."""
    for name in ("project", "branch"):
        commit_info.pop(name, None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Judge what the test itself does, and nothing that other plugins do before or after it, such as seeding."""
    ties = collection.claims_of(pyfuncitem)
    if not ties:
        return (yield)
    test = pyfuncitem.obj

    @functools.wraps(test)
    def judged(*args: object, **kwargs: object) -> object:
        with _on_few_threads(pyfuncitem), judging.judged(pyfuncitem, *ties[0], pyfuncitem.config.stash[EVIDENCE]):
            return test(*args, **kwargs)

    pyfuncitem.obj = judged
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


def _on_few_threads(item: pytest.Item) -> AbstractContextManager[object]:
    """Run small tensors on one thread: they are done before a second has woken up, on a busy machine long before.

    What an accelerator is compared with is all of the CPU.
    """
    names = collection.arguments_of(item)
    small = "accelerator" not in names and ("benchmark" not in names or _untimed(item.config))
    return timer.one_thread() if small else nullcontext()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo and (ties := collection.claims_of(item)):
        chapters = item.config.stash[CHAPTERS]
        claim = next(claim for chapter in chapters for claim in chapter.claims if claim.id == ties[0][0])
        judging.explain(report, call.excinfo, item, claim)
    return report


# Tests ask for these by their names without the prefix: see spec.claim.


@pytest.fixture(scope="session")
def spec_impl(pytestconfig: pytest.Config) -> loading.Implementation:
    """The implementation under test: `impl.storage.can_view(…)`."""
    return loading.Implementation(pytestconfig.option.spec_impl)


@pytest.fixture(scope="session")
def spec_evidence(pytestconfig: pytest.Config) -> Evidence:
    """Asserts and records what the running test measures."""
    return pytestconfig.stash[EVIDENCE]


@pytest.fixture(scope="session")
def spec_fresh() -> processes.Fresh:
    """Run functions in fresh processes, which a test may also kill: `fresh.run(function, seed=1)`."""
    return processes.fresh()


@pytest.fixture(scope="session")
def spec_timed(pytestconfig: pytest.Config) -> bool:
    """Whether benchmarks are measured in this run, or only passed through once."""
    return not _untimed(pytestconfig)


@pytest.fixture
def spec_meter(benchmark: Any, pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> benchmarks.Meter:
    """Times what a benchmark gives it, against what the device promises."""
    budget = float(pytestconfig.option.benchmark_max_time)
    return benchmarks.Meter(benchmark, pytestconfig.stash[PROMISES], _untimed(pytestconfig), budget, request.node)


def _missing_plugins(config: pytest.Config) -> Iterator[str]:
    """Yield a line for each plugin without which no claim can be checked."""
    auto = " and PYTEST_DISABLE_PLUGIN_AUTOLOAD" if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") else ""
    for name, (option, why) in NEEDED.items():
        if not hasattr(config.option, option):
            yield f"{why}: leave out -p no:{name}{auto}"


def _hidden_package(config: pytest.Config) -> str:
    """Return a line where the package that was asked for is not the one in the folder pytest was started in."""
    given = any(str(argument).startswith("--spec-impl") for argument in config.invocation_params.args)
    return loading.hidden(config.option.spec_impl, config.invocation_params.dir) if given else ""


def _report_folder(config: pytest.Config) -> Path | None:
    """Return where the report goes; only the process that gathers the results writes it."""
    option = config.option
    if option.spec_report is None or option.collectonly or hasattr(config, "workerinput"):
        return None
    return Path(config.invocation_params.dir, option.spec_report)


def _is_whole(config: pytest.Config) -> bool:
    """Return whether the whole suite is collected; one of xdist's workers is told so."""
    if hasattr(config, "workerinput"):
        return bool(config.workerinput[WHOLE])
    option = config.option
    narrowed = option.keyword or option.markexpr or option.ignore or option.ignore_glob or getattr(option, "lf", False)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not narrowed


def _no_accelerator(config: pytest.Config) -> str:
    if config.option.spec_device == "cpu":
        return "no accelerator: --spec-device=cpu leaves it out"
    return f"no accelerator: torch {torch.__version__} finds none on this machine"


def _untimed(config: pytest.Config) -> str:
    """Return why benchmarks are not timed in this run; an empty string where they are."""
    if hasattr(config, "workerinput"):  # where pytest-benchmark measures nothing either
        return benchmarks.PARALLEL
    return benchmarks.UNTIMED if config.option.benchmark_disable else ""


def _wants_pytest_benchmarks_table(config: pytest.Config) -> bool:
    """Return whether to show it beside the table of rates, which says the same in half the width."""
    shaping = tuple("--benchmark-" + name for name in ("columns", "compare", "cprofile", "group-by", "name", "sort"))
    arguments = config.invocation_params.args
    return config.option.verbose > 0 or any(str(argument).startswith(shaping) for argument in arguments)


def _words(expression: str) -> set[str]:
    return set(expression.split())


def _keep(config: pytest.Config, items: list[pytest.Item], kept: Sequence[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
