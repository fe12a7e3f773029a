"""The pytest plugin: options, markers, fixtures and hooks."""

import functools
import gc
import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from hypothesis import settings

from spec import claims
from spec.claim import PREFIX, Chapter, arguments, problems
from spec.evidence import Evidence
from spec.hardware import environment, promises
from spec.implementation import loading
from spec.instruments import allocator, eager, processes, timer
from spec.report import files, properties
from spec.report.reporter import FAULTS, Reporter
from spec.report.verdicts import ABSENT
from spec.run import benchmarks, collection, judging, options, profiles, telling

CHAPTERS = pytest.StashKey[Sequence[Chapter]]()
ACCELERATORS = pytest.StashKey[list[torch.device]]()
EVIDENCE = pytest.StashKey[Evidence]()
# Every test of a claim on a device, whether it is selected or not, by (claim id, device).
TESTS = pytest.StashKey[dict[tuple[str, str], list[str]]]()
WHOLE = "spec_whole"
MARKER = (
    "the claim of the notes that the test is tied to: its id, such as 'flops.matmul'; the test's role, 'verifies' (the "
    "law holds) or 'refutes' (the notes' wording fails); the wording's standing, 'holds', 'holds if' (under a "
    "condition that the notes leave out) or 'corrected' (false as put). "
    "To select by them: -m \"claim(standing='holds if')\""
)
HEADER = pytest.StashKey[list[str]]()
RECEIPT = pytest.StashKey[Mapping[str, object]]()
PROMISES = pytest.StashKey[promises.Promises]()


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if faults := list(options.missing_plugins(config)):
        raise pytest.UsageError(*faults)
    config.addinivalue_line("markers", f"claim(id, role, standing): {MARKER}")
    config.addinivalue_line("markers", "gpu: needs an accelerator")
    sys.path.append(str(config.invocation_params.dir))  # A student's own package lies there.
    try:
        chapters = claims.load(config.getini("spec_claims"))
    except Exception as error:
        raise pytest.UsageError(f"the claims cannot be read: {type(error).__name__}: {error}") from error
    chosen = options.read(config, chapters, list(problems(chapters)))
    _prepare_torch_and_hypothesis(config, chosen.profile)
    if chosen.folder and not getattr(config.option, "xmlpath", ""):
        config.option.xmlpath = str(chosen.folder / files.name(files.JUNIT, chosen.rank))
    config.stash[CHAPTERS] = chapters
    config.stash[ACCELERATORS] = chosen.accelerators
    config.stash[EVIDENCE] = Evidence()
    config.stash[TESTS] = {}
    config.stash[PROMISES] = promises.Promises(chosen.promised)
    if not hasattr(config, "workerinput"):
        _report_with(config, chosen)


def _prepare_torch_and_hypothesis(config: pytest.Config, profile: str) -> None:
    """Set what holds for the whole run, and set the garbage collector to work again, which conftest.py had stopped."""
    eager.without_compiler()
    allocator.keep_workspaces()
    profiles.register(config.option.spec_impl)
    settings.load_profile(profile)
    config.option.benchmark_disable = config.option.benchmark_disable or not options.is_timed(config)
    config.option.benchmark_quiet = not options.wants_pytest_benchmarks_table(config)
    # The objects that torch and hypothesis made at import stay alive. Looking through them at the end takes half a
    # second, and most objects that tests make are freed without the collector.
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def _report_with(config: pytest.Config, chosen: options.Chosen) -> None:
    """Take the receipt of this run, and register the reporter."""
    used = [torch.device("cpu"), *chosen.accelerators]
    seed = "fixed" if chosen.profile == "ci" else str(config.getoption("hypothesis_seed", None) or "random")
    receipt = environment.receipt(config.option.spec_impl, chosen.profile, seed, used)
    receipt |= {"rank": chosen.rank.index, "ranks": chosen.rank.world} if chosen.rank else {}
    config.stash[HEADER] = environment.header(receipt)
    config.stash[RECEIPT] = receipt
    reporter = Reporter(config.stash[CHAPTERS], receipt, chosen.folder, chosen.rank)
    config.pluginmanager.register(reporter, "spec-reporter")


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
        config.workeroutput[FAULTS] = faults  # xdist would take an exception of a worker for a crash.
        items.clear()
    items[:] = collection.in_the_notes_order(items, config.stash[CHAPTERS])
    device = str([*config.stash[ACCELERATORS], "cpu"][0])  # Benchmarks run on this one.
    for claim, test in collection.left_out([item.path for item in items], config.rootpath):
        config.stash[TESTS].setdefault((claim, device), []).append(test)
    for item in items:
        if "meter" in collection.arguments_of(item):
            benchmarks.prepare(item)
        ids = list(dict.fromkeys(claim for claim, _ in collection.claims_of(item)))
        if ids:
            device = judging.device_of(item)
            tests = {claim: config.stash[TESTS].get((claim, device), []) for claim in ids}
            item.extra_keyword_matches.update(ids)  # -k then knows the ids, too.
            properties.hand_on(item, claims=" ".join(ids), device=device, tests=json.dumps(tests))
            judging.show_examples_to(config.stash[EVIDENCE], item)
    if config.option.benchmark_only:
        _keep(config, items, [item for item in items if "benchmark" in collection.arguments_of(item)])


def pytest_collection_finish(session: pytest.Session) -> None:
    if any("fresh" in collection.arguments_of(item) for item in session.items):
        processes.fresh()  # It imports torch while the first tests run.


def pytest_unconfigure() -> None:
    gc.freeze()  # The process ends, so that nothing needs to be collected any more.
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
        telling.explain(report, call.excinfo, item, claim)
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


def _is_whole(config: pytest.Config) -> bool:
    """Return whether the whole suite is collected; one of xdist's workers is told so."""
    if hasattr(config, "workerinput"):
        return bool(config.workerinput[WHOLE])
    return options.is_whole(config)


def _no_accelerator(config: pytest.Config) -> str:
    if config.option.spec_device == "cpu":
        return "no accelerator: --spec-device=cpu leaves it out"
    return f"no accelerator: torch {torch.__version__} finds none on this machine"


def _untimed(config: pytest.Config) -> str:
    """Return why benchmarks are not timed in this run; an empty string where they are."""
    if hasattr(config, "workerinput"):  # pytest-benchmark measures nothing in xdist's workers either.
        return benchmarks.PARALLEL
    return benchmarks.UNTIMED if config.option.benchmark_disable else ""


def _keep(config: pytest.Config, items: list[pytest.Item], kept: Sequence[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
