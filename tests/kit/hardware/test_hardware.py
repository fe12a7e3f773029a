"""The hardware a run is on: which devices there are, what they are called, and what the receipt leaves out."""

import getpass
import json
import os
import platform
import socket
from types import SimpleNamespace

import pytest
import torch

from spec.hardware import devices, environment, processors, sensors

CPU = torch.device("cpu")
PRESENT = devices.accelerators()


@pytest.fixture
def two(monkeypatch):
    """Pretend that this machine has two accelerators."""
    monkeypatch.setattr(devices, "accelerators", lambda: [torch.device("cuda:0"), torch.device("cuda:1")])


def test_accelerators_are_what_torch_counts():
    """As many as torch counts of the one kind that it was built for, each with its index."""
    assert len(PRESENT) == torch.accelerator.device_count()
    assert [device.index for device in PRESENT] == list(range(len(PRESENT)))
    if PRESENT:
        assert {device.type for device in PRESENT} == {torch.accelerator.current_accelerator().type}


def test_asking_creates_no_context():
    """Counting the accelerators initialises none of them: a forked process can still use them."""
    before = torch.cuda.is_initialized()
    devices.accelerators()
    assert torch.cuda.is_initialized() == before


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cpu", "cpu"),
        ("cpu:0", "cpu"),
        ("cuda", "cuda:0"),
        ("cuda:0", "cuda:0"),
        ("cuda:1", "cuda:1"),
        ("cuda:2", "--spec-device=cuda:2: not on this machine, which has cpu, cuda:0, cuda:1"),
        ("xpu", "--spec-device=xpu: not on this machine, which has cpu, cuda:0, cuda:1"),
        ("meta", "--spec-device=meta: not on this machine, which has cpu, cuda:0, cuda:1"),
        ("cuda:-1", "--spec-device=cuda:-1: no such kind of device; this machine has cpu, cuda:0, cuda:1"),
        ("CPU", "--spec-device=CPU: no such kind of device; this machine has cpu, cuda:0, cuda:1"),
        ("", "--spec-device=: no such kind of device; this machine has cpu, cuda:0, cuda:1"),
        ("gpu", "--spec-device=gpu: no such kind of device; this machine has cpu, cuda:0, cuda:1"),
    ],
)
def test_a_device_is_found_by_its_name(two, name, expected):
    """A name means a device of this machine, the first of its kind without an index; any other is told in one line."""
    assert str(devices.parse(name)) == expected


def test_the_processor_has_a_name_and_its_threads():
    """The CPU is described by its maker's name and by how many threads torch uses."""
    name = devices.describe(CPU)
    assert name.endswith(f", {torch.get_num_threads()} threads")
    assert len(name) > len(f", {torch.get_num_threads()} threads")
    assert name.isprintable()


def test_a_processor_without_a_name_is_described_by_its_kind(monkeypatch):
    """Where there is no /proc/cpuinfo, Python's own word for the processor will do."""

    def no_file(*args, **kwargs):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", no_file)
    assert devices.describe(CPU).split(",")[0] in (platform.processor(), platform.machine())


@pytest.fixture
def receipt():
    """The receipt of a run on this machine."""
    return environment.receipt("mine", "quick", "3", [CPU, *PRESENT])


def test_the_receipt_says_what_a_verdict_depends_on(receipt):
    """It names the implementation, versions, devices, profile, seed and settings, as plain JSON."""
    assert json.loads(json.dumps(receipt)) == receipt
    assert (receipt["implementation"], receipt["profile"], receipt["seed"]) == ("mine", "quick", "3")
    assert (receipt["torch"], receipt["python"]) == (torch.__version__, platform.python_version())
    assert list(receipt["devices"]) == ["cpu", *map(str, PRESENT)]
    assert {"numpy", "pytest", "hypothesis"} <= set(receipt["packages"])
    assert receipt["settings"]["default dtype"] == "float32"


def test_the_receipt_names_nobody(receipt):
    """It holds no name of a host or a user, and no path of theirs."""
    words = set(json.dumps(receipt).replace('"', " ").split())
    private = {socket.gethostname(), platform.node(), getpass.getuser(), os.path.expanduser("~"), os.getcwd()}
    assert not words & private


def test_an_absent_package_is_left_out(receipt, monkeypatch):
    """A package that is not installed has no version to report."""
    monkeypatch.setattr(environment, "PACKAGES", ("numpy", "no-such-package-anywhere"))
    assert list(environment.receipt("mine", "quick", "3", [CPU])["packages"]) == ["numpy"]


def test_precision_settings_that_torch_will_not_tell_are_no_obstacle(monkeypatch):
    """Where torch's two interfaces to float32 precision disagree, which torch calls an error, the receipt says so."""

    def disagrees():
        raise RuntimeError

    monkeypatch.setattr(torch, "get_float32_matmul_precision", disagrees)
    settings = environment.receipt("mine", "quick", "3", [CPU])["settings"]
    assert settings["float32 matmul precision"] == "a mixture of both interfaces"


def test_the_header_is_short(receipt):
    """It opens a run in three lines: what is checked, on what, and in which settings."""
    first, second, third = environment.header(receipt)
    assert first == "implementation: mine; profile: quick"
    assert second.startswith(f"torch {torch.__version__} on cpu (")
    assert third.startswith("settings: default dtype float32, float32 matmul precision ")


def test_the_receipt_names_what_torch_multiplies_with(receipt):
    """The BLAS library and its version, the vector instructions of the CPU, and CUDA's versions where there is one."""
    libraries = receipt["libraries"]
    assert all(isinstance(version, str) and version for version in libraries.values())
    assert libraries["vector instructions"] == torch.backends.cpu.get_cpu_capability()
    assert libraries.get("cuda") == torch.version.cuda
    assert ("mkl" in libraries) <= ("Math Kernel Library" in torch.__config__.show())
    settings = receipt["settings"]
    assert settings["float32 products on CUDA"] == torch.backends.cuda.matmul.fp32_precision
    assert settings["float16 accumulation"] is False


def test_the_receipt_has_the_state_of_each_accelerator(monkeypatch):
    """Of accelerators, and not of the CPU, it keeps what they say of themselves; an identity is no part of that."""
    monkeypatch.setattr(sensors, "state", lambda device: {"units": device.index})
    monkeypatch.setattr(devices, "describe", str)
    cards = [torch.device("cuda:0"), torch.device("cuda:1")]
    receipt = environment.receipt("mine", "quick", "3", [CPU, *cards])
    assert receipt["accelerators"] == {"cuda:0": {"units": 0}, "cuda:1": {"units": 1}}
    assert environment.receipt("mine", "quick", "3", [CPU])["accelerators"] == {}


def test_a_cuda_device_is_what_its_properties_say(monkeypatch):
    """Its name, multiprocessors, cache, and memory clock × 2 × bus: 2,619 MHz and 5,120 bits are 3,352 GB/s."""
    properties = SimpleNamespace(
        multi_processor_count=132, L2_cache_size=50 * 2**20, memory_clock_rate=2_619_000, memory_bus_width=5120
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1234, 5678))
    card = torch.device("cuda:0")
    assert devices.describe(card) == devices.name(card) == "NVIDIA H100 80GB HBM3"
    assert (devices.units(card), devices.cache_bytes(card), devices.free_bytes(card)) == (132, 50 * 2**20, 1234)
    assert devices.memory_rate(card) == pytest.approx(3352e9, rel=1e-3)
    properties.memory_clock_rate = 0
    assert devices.memory_rate(card) is None


def test_an_xpu_counts_in_units_of_its_own(monkeypatch):
    """torch gives its memory clock in MHz, of which no bandwidth is made, and its power in watts, which stay so."""
    properties = SimpleNamespace(total_memory=48 * 2**30, memory_clock_rate=1600, memory_bus_width=8192)
    monkeypatch.setattr(torch.xpu, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.xpu, "power_draw", lambda device: 150.5, raising=False)
    card = torch.device("xpu:0")
    assert devices.memory_rate(card) is None
    assert devices.units(card) is None
    assert sensors.state(card)["power_watts"] == 150.5


def test_a_cpu_has_no_units_that_torch_tells():
    """Neither multiprocessors nor a memory clock, nor the size of its cache."""
    assert (devices.units(CPU), devices.memory_rate(CPU), devices.cache_bytes(CPU)) == (None, None, 0)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("avx2 avx512_bf16", True), ("avx2 amx_bf16", True), ("avx2 avx512f", False), ("asimd", None), ("", None)],
)
def test_a_cpu_multiplies_bfloat16_with_the_instructions_for_it(monkeypatch, flags, expected):
    """AVX512-BF16 or AMX; another kind of processor does not tell in these words."""
    monkeypatch.setattr(processors, "restricted", lambda: False)
    monkeypatch.setattr(processors, "cpuinfo", lambda: [{"flags": flags}])
    assert devices.multiplies_bfloat16(CPU) is expected
    monkeypatch.setattr(processors, "cpuinfo", list)
    assert devices.multiplies_bfloat16(CPU) is None


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_a_cpu_that_is_kept_from_its_instructions_tells_nothing(monkeypatch, name):
    """Where oneDNN is limited or off, the processor's flags do not say what multiplies bfloat16."""
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", True)
    assert not processors.restricted()
    monkeypatch.setenv(name, "SSE41")
    assert processors.restricted()
    assert devices.multiplies_bfloat16(CPU) is None
    monkeypatch.setenv(name, "all")
    assert not processors.restricted()
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert processors.restricted()
