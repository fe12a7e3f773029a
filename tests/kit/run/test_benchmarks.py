"""Benchmarks: what pytest-benchmark, the closing table and the report are given of what the kit's timer measured."""

import json
import os
import platform
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from spec.evidence import EvidenceError
from spec.hardware import devices, environment, sensors
from spec.hardware.promises import Promise, Promises
from spec.implementation.loading import Implementation
from spec.instruments import timer
from spec.run import benchmarks
from tests.benchmarks import test_checkpoint, test_data, test_optimizer
from tests.kit.judging import running
from tests.kit.project import BYTES, DOUBLE, TEST_BYTES, TEST_DOUBLE

pytest_plugins = ["pytester"]
CPU = torch.device("cpu")

TIMED = """
import time
from spec.run import benchmarks
from spec.run.benchmarks import Work

@verifies(storage.DOUBLE)
@pytest.mark.benchmark(group="products")
def test_work(evidence, meter, device, timed):
    \"\"\"Takes 2 ms and 1 ms.\"\"\"
    calls = []
    def slow():
        calls.append("slow")
        time.sleep(0.002)
    def fast():
        calls.append("fast")
        time.sleep(0.001)
    rates = meter.rates({
        "slow": Work(slow, 2_000_000, 4_000, torch.float32, (100, 100), note=f"for {meter.budget} s"),
        "fast": Work(fast, flops=2_000_000, dtype=torch.bfloat16, shape=(100, 100), note="halved"),
    }, device)
    evidence.equal(timed, meter.timed)
    evidence.equal(calls == ["slow", "fast"], not meter.timed, unit="untimed pass")
    for rate in rates.values():
        benchmarks.within_promise(evidence, rate)
    benchmarks.decided(evidence, *rates.values())
"""
GIVEN = ("--spec-promised=float32=4e9", "--spec-promised=bandwidth=4e6")


@pytest.fixture
def project(project):
    """Give a project with one benchmark of a claim."""
    project.state(DOUBLE)
    project.test(TIMED)
    return project


def kept(project, name="out.json"):
    """Return what pytest-benchmark wrote."""
    return json.loads((project.path / name).read_text())


def test_pytest_benchmark_is_given_the_timers_seconds(project):
    """Its statistics are those of the kit's timer, run by run, and its extra_info says what they amount to."""
    ran = project.run("--benchmark-only", "--benchmark-json=out.json", "--benchmark-max-time=0.1", "-v", *GIVEN)
    assert ran.status == 0
    (entry,) = kept(project)["benchmarks"]
    extra = entry["extra_info"]
    assert entry["group"] == "products"
    assert entry["stats"]["median"] == pytest.approx(extra["seconds"])
    assert entry["stats"]["rounds"] == extra["runs"] >= 7
    assert entry["stats"]["min"] >= 0.002
    assert (extra["name"], extra["dtype"], extra["shape"]) == ("slow", "float32", [100, 100])
    assert extra["note"] == "for 0.1 s"
    assert extra["flop_per_second"] == pytest.approx(2e6 / extra["seconds"])
    assert extra["mfu"] == pytest.approx(extra["flop_per_second"] / 4e9)
    assert extra["promise"] == "given: --spec-promised float32"
    assert extra["bytes_per_second"] == pytest.approx(4e3 / extra["seconds"])
    assert extra["share_of_bandwidth"] == pytest.approx(extra["bytes_per_second"] / 4e6)
    assert [other["name"] for other in extra["against"]] == ["fast"]
    assert "Name (time in" in ran.out


@pytest.mark.parametrize(
    ("option", "shown"), [("--benchmark-columns=min", True), ("-v", True), ("--color=no", False)], ids=str
)
def test_pytest_benchmarks_own_table_is_shown_to_whom_it_is_for(project, option, shown):
    """It is 200 columns wide and stands before the claims: it comes with -v, or where an option shapes it."""
    ran = project.run("--benchmark-enable", "--benchmark-max-time=0.1", option)
    assert ("Name (time in" in ran.out) is shown


def test_benchmarks_alone_do_not_end_like_a_failure(project):
    """The last line counts what fails, and says that the claims' other tests were left out."""
    project.state(DOUBLE, BYTES)
    project.test(TIMED, TEST_BYTES, TEST_DOUBLE)
    ran = project.run("--benchmark-only", "--benchmark-max-time=0.1")
    told = "the benchmarks of 1 claims: 0 fail, 0 ambiguous; to check every claim, run pytest without --benchmark-only"
    assert told in ran.out.splitlines()
    assert "unchecked;" not in ran.out
    assert ran.line("storage.double  holds      unchecked  1 of its 2 tests ran, all passed (-v names the others)")


def test_the_closing_table_shows_the_rates(project):
    """One line for each thing timed, with its promise's part, and what else there is to say."""
    ran = project.run("--benchmark-only", "--benchmark-max-time=0.1", *GIVEN)
    slow, fast = ran.line("slow (cpu)"), ran.line("fast (cpu)")
    assert " ".join(ran.line("benchmark  ").split()) == "benchmark dtype shape median ± FLOP/s MFU bytes/s of promised"
    assert "float32" in slow
    assert "100×100" in slow
    assert "halved" in fast
    rates = project.report()["rates"]
    assert [(rate["name"], rate["device"]) for rate in rates] == [("slow", "cpu"), ("fast", "cpu")]
    assert rates[0]["test"].endswith("::test_work[cpu]")


def test_a_plain_run_passes_through_once(project):
    """Untimed, each thing runs once, nothing is shown, and the claim is unchecked with the reason."""
    ran = project.run()
    assert ran.status == 0
    assert ran.verdicts() == {"storage.double": "unchecked"}
    assert ran.reason("storage.double") == benchmarks.UNTIMED
    assert "slow (cpu)" not in ran.out
    assert project.report()["rates"] == []


def test_nothing_is_timed_beside_other_tests(project):
    """Under pytest-xdist the benchmark passes through once, and its claim is unchecked with the reason."""
    ran = project.run_apart("--benchmark-enable", "-n", "2", "-p", "xdist")
    assert ran.status == 0
    assert ran.reason("storage.double") == benchmarks.PARALLEL


def test_a_promise_that_is_exceeded_fails(project):
    """A peak of a thousandth of what is measured: the message says what is wrong, and its rerun keeps the option."""
    ran = project.run("--benchmark-only", "--benchmark-max-time=0.1", "--spec-promised", "float32=1e6")
    assert ran.status == 1
    assert benchmarks.TOO_FAST in ran.reason("storage.double")
    assert ran.line("rerun:").endswith("--spec-promised=float32=1e6")


@pytest.mark.parametrize("word", ["float32", "float32=fast", "float33=1e12", "bandwidth=-1"])
def test_a_bad_promise_stops_the_run_in_one_line(project, word):
    """The option's mistakes are told before anything runs."""
    assert project.run(f"--spec-promised={word}").stops_with(f"--spec-promised {word}: ")


def test_runs_can_be_saved_and_compared(project):
    """--benchmark-autosave and --benchmark-compare work, and two runs here count as runs on the same machine."""
    first = project.run_apart("--benchmark-only", "--benchmark-autosave", "--benchmark-max-time=0.1", *GIVEN)
    second = project.run_apart("--benchmark-only", "--benchmark-compare", "--benchmark-max-time=0.1", *GIVEN)
    assert (first.status, second.status) == (0, 0)
    assert "(NOW)" in second.out
    assert "machine_info is different" not in second.printed


def test_pytest_benchmarks_files_name_nobody(project):
    """They say which device and settings, and nothing of host, user, folder or branch."""
    subprocess.run(["git", "init", "-q", "-b", "alices-branch", str(project.path)], check=True)
    project.run("--benchmark-only", "--benchmark-json=out.json", "--benchmark-max-time=0.1")
    told = kept(project)
    machine = told["machine_info"]
    assert machine["torch"] == torch.__version__
    assert set(machine["devices"]) == {"cpu"}
    assert {"settings", "libraries", "threads"} <= set(machine)
    text = json.dumps([machine, told["commit_info"]])
    for private in (socket.gethostname(), platform.node(), project.path.name, "alices-branch", os.getcwd()):
        assert json.dumps(private).strip('"') not in text


def rate(promise=None, seconds=1.0, taken=(1.0,) * 7, bandwidth=None, doubt=""):
    """Return a rate of 10 FLOP/s and 20 bytes/s with these promises."""
    work = benchmarks.Work(lambda: None, flops=10, bytes=20, dtype=torch.float32, shape=(2, 3), note="halved")
    timing = timer.Timing(seconds, 0.9 * seconds, 1.2 * seconds, len(taken), taken)
    return benchmarks.Rate("work", CPU, work, timing, promise, bandwidth, doubt or timing.doubt)


def given(value):
    return Promise(value, "given", "")


@pytest.mark.parametrize("doubt", ["", "too hot", benchmarks.UNTIMED])
def test_no_share_above_one_is_excused(doubt):
    """Of FLOP/s and of bytes/s 1.01 is too much, however doubtful the timing, and 1 is what was measured."""
    for check, fitting, small, told in (
        (benchmarks.within_promise, {"promise": given(10.0)}, {"promise": given(9.9)}, benchmarks.TOO_FAST),
        (benchmarks.within_bandwidth, {"bandwidth": given(20.0)}, {"bandwidth": given(19.8)}, "measured 1.01"),
    ):
        with running() as evidence:
            check(evidence, rate(**fitting, doubt=doubt))
            assert [record["measured"] for record in evidence.json()] == [1.0]
            with pytest.raises(EvidenceError, match=told):
                check(evidence, rate(**small, doubt=doubt))


def test_where_nothing_is_promised_the_share_is_unknown():
    """It is no number, and recorded as unknown."""
    nothing = Promise(None, "unknown", "")
    with running() as evidence:
        benchmarks.within_promise(evidence, rate(nothing))
        benchmarks.within_bandwidth(evidence, rate(bandwidth=nothing))
        assert [record["measured"] for record in evidence.json()] == ["unknown", "unknown"]


def test_each_figure_stands_in_its_column():
    """Seconds, how well they are known, both rates and both shares, and all there is to say."""
    told = rate(given(40.0), taken=(0.9, 1.1) * 5, bandwidth=given(25.0), doubt="too hot").json()
    _, row = (line.split("  ") for line in benchmarks.table([told]))
    assert [cell.strip() for cell in row if cell] == [
        *("work (cpu)", "float32", "2×3", "1 s", "10.0%", "10", "0.250", "20", "0.800", "too hot; halved")
    ]
    assert (told["lower_quartile"], told["upper_quartile"]) == (0.9, 1.2)
    assert told["device_name"] == devices.describe(CPU)
    assert rate(taken=(1.0,) * 5).json()["uncertainty"] is None


class Measured:
    """A benchmark fixture and a timer that remember what they are given; the device may get hot meanwhile."""

    def __init__(self, monkeypatch, taken=(1.0,) * 7, heats=False):
        self.extra_info, self.options, self.clock, self.properties, hot = {}, [], [], [], []
        monkeypatch.setattr(sensors, "slowed", lambda device: "too hot" if hot else "")

        def sample(runs, device, **options):
            self.options.append(options)
            hot.extend([True] * heats)
            return {name: timer.Timing(1.0, 1.0, 1.0, len(taken), taken) for name in runs}

        monkeypatch.setattr(timer, "sample", sample)
        given = Promises({"float32": 40.0, "bfloat16": 80.0})
        self.meter = benchmarks.Meter(self, given, "", 0.1, SimpleNamespace(user_properties=self.properties))

    def pedantic(self, run, rounds):
        for _ in range(rounds):
            before = benchmarks.replayed_clock()
            run()
            self.clock.append(benchmarks.replayed_clock() - before)

    def times(self, name, dtype=torch.float32, **options):
        return self.meter.rate(name, benchmarks.Work(lambda: None, flops=10, dtype=dtype), CPU, **options)


def test_what_is_timed_later_stands_beside_the_first(monkeypatch):
    """pytest-benchmark is given the first one's runs, one by one, and every other's rate by its own dtype's promise."""
    measured = Measured(monkeypatch, taken=(1.0, 1.25, 0.75, 1.0, 1.0, 1.0, 1.0))
    for name, dtype in (("first", torch.float32), ("second", torch.bfloat16), ("third", torch.float32)):
        measured.times(name, dtype)
    assert measured.clock == [1.0, 1.25, 0.75, 1.0, 1.0, 1.0, 1.0]
    told = [measured.extra_info, *measured.extra_info["against"]]
    assert [(each["name"], each["mfu"]) for each in told] == [("first", 0.25), ("second", 0.125), ("third", 0.25)]
    ((name, rates),) = measured.properties
    assert (name, [each["name"] for each in json.loads(rates)]) == ("spec_rates", ["first", "second", "third"])


def test_the_timer_is_told_how(monkeypatch):
    """What a benchmark says of the caches, and the seconds that the command line allows."""
    measured = Measured(monkeypatch)
    for flush in (True, False, None):
        measured.times("work", flush=flush)
    assert measured.options == [{"budget": 0.1, "flush": flush} for flush in (True, False, None)]


def test_what_happens_during_the_runs_is_told(monkeypatch):
    """A device that gets hot meanwhile, and noise."""
    assert Measured(monkeypatch).times("work").doubt == ""
    assert Measured(monkeypatch, heats=True).times("work").doubt == "too hot"
    assert Measured(monkeypatch, taken=(1.0, 2.0) * 5).times("work").doubt.startswith("after 10 runs")


def test_the_machine_is_the_same_another_day():
    """What changes from run to run is no part of it: the date, the seed, and how warm a card is."""
    first = environment.receipt("mine", "quick", "3", [CPU])
    later = first | {"date": "2100-01-01", "seed": "4", "accelerators": {"cuda:0": {"clock_mhz": 345}}, "rank": 1}
    assert benchmarks.machine_info(first) == benchmarks.machine_info(later)
    assert benchmarks.machine_info(first) != benchmarks.machine_info(first | {"settings": {}})


def test_an_unknown_promise_gives_an_unknown_share():
    """The rate is reported, MFU is "unknown", and why stands beside it."""
    told = rate(Promise(None, "unknown", "no datasheet for 'X'")).json()
    assert (told["flop_per_second"], told["mfu"], told["promised_flop_per_second"]) == (10.0, "unknown", None)
    assert told["promise"] == "unknown: no datasheet for 'X'"
    assert rate(Promise(40.0, "given", "")).json()["mfu"] == 0.25


def test_a_device_that_is_slowed_down_decides_nothing(monkeypatch):
    """What NVML says of heat, and what the runs say of noise, end a test as ambiguous."""
    monkeypatch.setattr(sensors, "slowed", lambda device: "too hot, slowed by hardware")

    def sample(runs, device, **options):
        return {name: timer.once(run, device) for name, run in runs.items()}

    monkeypatch.setattr(timer, "sample", sample)
    benchmark = SimpleNamespace(extra_info={}, pedantic=lambda run, rounds: run())
    meter = benchmarks.Meter(benchmark, Promises(), "", 0.1, SimpleNamespace(user_properties=[]))
    found = meter.rate("work", benchmarks.Work(lambda: None), CPU)
    assert found.doubt == "too hot, slowed by hardware"
    with running() as evidence, pytest.raises(pytest.skip.Exception, match="ambiguous: work: too hot"):
        benchmarks.decided(evidence, found)
    with running() as evidence, pytest.raises(pytest.skip.Exception, match="ambiguous: work: after 6 runs"):
        benchmarks.decided(evidence, rate(), rate(taken=(1.0, 2.0, 3.0, 1.0, 2.0, 3.0)))


# ---- what an accelerator says of itself ----


class FakeNvml:
    """NVML with one device, which is 0123 to CUDA."""

    NVML_CLOCK_SM = 1

    def __init__(self, reasons=0x4):
        self.reasons = reasons

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByUUID(self, identity):
        if identity != "GPU-0123":
            raise ValueError(identity)
        return "handle"

    def nvmlDeviceGetMaxClockInfo(self, handle, clock):
        return 1980

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return 700_000

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        mine = type("Process", (), {"pid": os.getpid()})
        return [mine, type("Process", (), {"pid": 1})]


@pytest.fixture
def card(monkeypatch):
    """Pretend that torch has a CUDA device and that NVML is installed."""
    properties = type("Properties", (), {"uuid": "0123", "total_memory": 2**37, "multi_processor_count": 132})
    other = type("Properties", (), {"uuid": "4567"})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: other if device.index else properties)
    monkeypatch.setattr(torch.cuda, "clock_rate", lambda device: 345)
    monkeypatch.setattr(torch.cuda, "power_draw", lambda device: 71_500)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**36, 2**37))
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return nvml


def test_the_state_of_a_card_is_in_its_units(card, monkeypatch, tmp_path):
    """Bytes, MHz and watts; the driver's version; who slows it; other processes are counted, not named."""
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
    )
    monkeypatch.setattr(sensors, "DRIVER", tmp_path / "version")
    assert sensors.state(torch.device("cuda:0")) == {
        "driver": "580.65.06",
        "memory_bytes": 2**37,
        "free_bytes": 2**36,
        "units": 132,
        "clock_mhz": 345,
        "power_watts": 71.5,
        "maximum_clock_mhz": 1980,
        "power_limit_watts": 700.0,
        "throttled_by": ["power cap"],
        "other_processes": 1,
    }


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (0, ""),
        (0xD, ""),
        (0x20, "too hot, slowed by software"),
        (0x4C, "too hot, slowed by hardware"),
        (0xA4, "too hot, slowed by software; power brake"),
    ],
)
def test_heat_slows_a_card_and_its_power_cap_does_not(card, reasons, expected):
    """A card under load reaches its power cap in good health; what slows it beyond that is told."""
    card.reasons = reasons
    assert sensors.slowed(torch.device("cuda:0")) == expected
    assert sensors.slowed(torch.device("cuda:1")) == ""  # NVML does not know that one


def test_an_older_nvml_tells_by_another_name(card, monkeypatch):
    """Until 2023 the reasons were those of throttling."""
    card.reasons = 0x40
    ask = FakeNvml.nvmlDeviceGetCurrentClocksEventReasons
    monkeypatch.delattr(FakeNvml, "nvmlDeviceGetCurrentClocksEventReasons")
    monkeypatch.setattr(FakeNvml, "nvmlDeviceGetCurrentClocksThrottleReasons", ask, raising=False)
    assert sensors.slowed(torch.device("cuda:0")) == "too hot, slowed by hardware"


def test_a_card_that_tells_nothing_is_no_error(monkeypatch, tmp_path):
    """Without NVML, without a driver, and with a torch that raises at every question, the state is empty."""

    def tells_nothing(device):
        raise RuntimeError

    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(torch, "get_device_module", tells_nothing)
    monkeypatch.setattr(sensors, "DRIVER", tmp_path / "no such file")
    assert sensors.state(torch.device("cuda:0")) == {}
    assert sensors.slowed(torch.device("cuda:0")) == ""
    assert sensors.slowed(CPU) == ""


def test_what_the_host_takes_is_timed_without_flushing(tmp_path):
    """Batches, optimizer steps of many parameters and checkpoints are the host's work: no cache is flushed for them."""
    impl, flushed = Implementation("impl"), []

    class Meter:
        timed = False

        def rates(self, works, device, *, flush=None):
            flushed.append(flush)
            for work in works.values():
                work.run()

        def rate(self, name, work, device, *, flush=None):
            self.rates({name: work}, device, flush=flush)

    with running() as evidence:
        test_data.test_a_batch_is_sampled(impl, evidence, Meter(), CPU, tmp_path)
        test_optimizer.test_steps_under_a_constant_gradient_are_timed(impl, evidence, Meter(), CPU)
        test_checkpoint.test_a_checkpoint_is_saved_and_loaded(impl, evidence, Meter(), CPU, tmp_path)
    assert flushed == [False] * 3
