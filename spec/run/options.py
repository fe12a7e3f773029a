"""The command line: the kit's options, and one clear line for each that cannot be followed."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from spec.claim import Chapter
from spec.hardware import devices, promises, ranks
from spec.hardware.ranks import Rank
from spec.implementation import contract, loading
from spec.report import files
from spec.run import collection, profiles

# Each plugin that no run can do without, with an option that it brings and the reason why it is needed.
NEEDED = {
    "benchmark": ("benchmark_only", "the claims about speed need pytest-benchmark"),
    "hypothesispytest": (
        "hypothesis_profile",
        "the claims are tried on examples from hypothesis, by its pytest plugin",
    ),
    "skipping": ("runxfail", "what cannot be checked here is skipped"),
}


@dataclass(frozen=True)
class Chosen:
    """What the command line chooses: the profile, the accelerators, given promises, the report's folder, the rank."""

    profile: str
    accelerators: list[torch.device]
    promised: Mapping[str, float]
    folder: Path | None
    rank: Rank | None


def add(parser: pytest.Parser) -> None:
    """Add the kit's options, all of which begin with --spec-."""
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


def missing_plugins(config: pytest.Config) -> Iterator[str]:
    """Yield a line for each plugin without which no claim can be checked."""
    auto = " and PYTEST_DISABLE_PLUGIN_AUTOLOAD" if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") else ""
    for name, (option, why) in NEEDED.items():
        if not hasattr(config.option, option):
            yield f"{why}: leave out -p no:{name}{auto}"


def read(config: pytest.Config, chapters: Sequence[Chapter], faults: Sequence[str]) -> Chosen:
    """Return what is chosen; UsageError with a line for each of the `faults` so far and for each faulty option."""
    option, rank, present = config.option, ranks.rank(), devices.accelerators()
    own = ranks.own(rank, present) if rank else None
    device = own if option.spec_device is None else devices.parse(option.spec_device)
    promised = promises.parse(option.spec_promised)
    lines = [*faults, *_faults(config, chapters), *(line for line in (device, promised) if isinstance(line, str))]
    folder, fault = _report_folder(config)
    if lines or fault or isinstance(device, str) or isinstance(promised, str):
        raise pytest.UsageError(*lines, *filter(None, [fault]))
    return Chosen(profile(config), [each for each in present if device in (None, each)], promised, folder, rank)


def profile(config: pytest.Config) -> str:
    """Return the name of hypothesis's profile. In CI it becomes an option, so that `rerun` states it."""
    option = config.option
    if os.environ.get("CI") and option.hypothesis_profile is None:
        option.hypothesis_profile = "ci"
    return "default" if option.hypothesis_profile is None else str(option.hypothesis_profile)


def is_timed(config: pytest.Config) -> bool:
    """Return whether the command line asks for benchmarks to be timed."""
    option = config.option
    return bool(option.benchmark_only or option.benchmark_enable or set((option.markexpr or "").split()) == {"gpu"})


def wants_pytest_benchmarks_table(config: pytest.Config) -> bool:
    """Return whether pytest-benchmark's own table is wanted beside the table of rates, which says the same."""
    shaping = tuple("--benchmark-" + name for name in ("columns", "compare", "cprofile", "group-by", "name", "sort"))
    given = config.invocation_params.args
    return config.option.verbose > 0 or any(str(argument).startswith(shaping) for argument in given)


def is_whole(config: pytest.Config) -> bool:
    """Return whether the command line leaves out no test."""
    option = config.option
    narrowed = option.keyword or option.markexpr or option.ignore or option.ignore_glob or getattr(option, "lf", False)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not narrowed


def _faults(config: pytest.Config, chapters: Sequence[Chapter]) -> Iterator[str]:
    option, name = config.option, profile(config)
    yield from collection.unknown_marks(option.markexpr or "", chapters)
    if name not in profiles.EXAMPLES:
        yield f"--hypothesis-profile={name}: no such profile; there are {', '.join(profiles.EXAMPLES)}"
    if option.benchmark_only and getattr(option, "numprocesses", None):
        yield "--benchmark-only times one thing after the other: leave out -n"
    if fault := loading.find(option.spec_impl) or _hidden_package(config):
        yield fault


def _hidden_package(config: pytest.Config) -> str:
    """Return a line where the package that was asked for is not the one in the folder pytest was started in."""
    given = any(str(argument).startswith("--spec-impl") for argument in config.invocation_params.args)
    return loading.hidden(config.option.spec_impl, config.invocation_params.dir) if given else ""


def _report_folder(config: pytest.Config) -> tuple[Path | None, str]:
    """Return where the report goes, and a line that says what is wrong with that; xdist's workers write none."""
    option = config.option
    if option.spec_report == "":
        return None, "--spec-report=: names no folder; for example --spec-report=report"
    if option.spec_report is None or option.collectonly or hasattr(config, "workerinput"):
        return None, ""
    folder = Path(config.invocation_params.dir, option.spec_report)
    return folder, files.prepare(folder)
