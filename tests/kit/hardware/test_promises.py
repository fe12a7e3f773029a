"""What devices promise: by exact names, from a data file whose figures fit together; a CPU's peak, computed."""

import contextlib
import csv
import os

import pytest
import torch

from spec.evidence import EvidenceError
from spec.hardware import devices, processors, promises
from spec.hardware.promises import Promise, Promises, find
from tests.kit.judging import running

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")
SHEETS = {sheet.name: sheet for sheet in promises.datasheets()}
# FLOPs per clock of one multiprocessor, for float16 accumulated in float32 (NVIDIA's architecture whitepapers).
# For CDNA 1 to 4 likewise, of one compute unit (AMD's architecture whitepapers).
CDNA = {"gfx908": 1024, "gfx90a": 1024, "gfx942": 2048, "gfx950": 4096}
# These are the rates of float32 of two compute units, which torch counts as one (AMD's RDNA 3 and RDNA 4).
RDNA = {"gfx1100": 512, "gfx1201": 512}
FULL_RATE = {70: 1024, 75: 1024, 80: 2048, 86: 1024, 89: 1024, 90: 4096, 100: 8192, 103: 8192, 120: 1024}
PER_LANE = 2  # one fused multiply-add of each of a multiprocessor's 64 or 128 float32 lanes
LANES = {70: 64, 75: 64, 80: 64, 86: 128, 89: 128, 90: 128, 100: 128, 103: 128, 120: 128, 121: 128}
# Hz: float32 units have a clock of their own here, or the tensor units do (H100 whitepaper, table 3).
OTHER_CLOCK = {
    "NVIDIA H100 80GB HBM3": 1980e6,
    "NVIDIA H200": 1980e6,
    "NVIDIA GH200 480GB": 1980e6,
    "NVIDIA GH200 144G HBM3e": 1980e6,
    "NVIDIA H100 PCIe": 1755e6,
}
DERIVED_GEFORCE = """
3050, 3060, 3060 Ti, 4060, 4060 Ti, 4070 Ti SUPER, 4090 D, 5050, 5060, 5060 Ti, 5070 Ti, 5080
""".strip().split(", ")
NEAR_MISSES = """
NVIDIA H100
H100
NVIDIA H100 SXM
NVIDIA H100 80GB HBM2e
NVIDIA H100 80GB HBM3 MIG 1g.10gb
NVIDIA H100 80GB HBM3 MIG 3g.40gb
NVIDIA H100 PCIe MIG 7g.80gb
NVIDIA H100 96GB HBM3
NVIDIA H100 NVL 94GB
NVIDIA GH200
NVIDIA H200 SXM
NVIDIA H200 MIG 1g.18gb
NVIDIA H20-3e
NVIDIA H800 PCIe
NVIDIA H800 NVL
NVIDIA A100
NVIDIA A100-SXM-80GB
NVIDIA A100-SXM4-40GB MIG 1g.5gb
NVIDIA A100-PCIE-80GB
NVIDIA A10G-24Q
NVIDIA A10-24Q
NVIDIA A10M
NVIDIA A16
NVIDIA A30X
NVIDIA L4S
NVIDIA L40G
GRID T4-16Q
NVIDIA T4G
NVIDIA GeForce RTX 4070 Laptop GPU
NVIDIA GeForce RTX 4080 Laptop GPU
NVIDIA GeForce RTX 4090 Laptop GPU
NVIDIA GeForce RTX 3080 Laptop GPU
NVIDIA GeForce RTX 3080 Ti Laptop GPU
NVIDIA GeForce RTX 5090 D
NVIDIA RTX 6000 Ada
NVIDIA RTX A6000 Laptop GPU
Tesla V100-SXM3-32GB
Tesla V100-DGXS-32GB
NVIDIA B200 MIG 1g.23gb
AMD Instinct MI250X/MI250
AMD Instinct MI300X VF
AMD Instinct MI308X
AMD Radeon Graphics
Apple M1 Pro Max
nvidia h200
NVIDIA A800-SXM4-40GB
NVIDIA A800 40GB Active
NVIDIA A2-16Q
NVIDIA L2
NVIDIA H20 NVL16
NVIDIA GH200 120GB
NVIDIA B300
NVIDIA B300 SXM6 PC
NVIDIA GB300 NVL
NVIDIA GB300 MIG 1g.34gb
NVIDIA Thor
Orin
NVIDIA GeForce RTX 3050 OEM
NVIDIA GeForce RTX 3050 Laptop GPU
NVIDIA GeForce RTX 3050 Ti Laptop GPU
NVIDIA GeForce RTX 3060 Laptop GPU
NVIDIA GeForce RTX 3070 Laptop GPU
NVIDIA GeForce RTX 3070 Ti Laptop GPU
NVIDIA GeForce RTX 3070 Ti SUPER
GeForce RTX 3070 Ti
NVIDIA GeForce RTX 4050 Laptop GPU
NVIDIA GeForce RTX 4060 Laptop GPU
NVIDIA GeForce RTX 5050 Laptop GPU
NVIDIA GeForce RTX 5060 Laptop GPU
NVIDIA GeForce RTX 5070 Laptop GPU
NVIDIA GeForce RTX 5070 Ti Laptop GPU
NVIDIA GeForce RTX 5080 Laptop GPU
NVIDIA GeForce RTX 5090 Laptop GPU
NVIDIA GeForce RTX 5090 D v2
NVIDIA RTX A1000 Laptop GPU
NVIDIA RTX A2000 8GB Laptop GPU
NVIDIA RTX A2000 Embedded GPU
NVIDIA RTX A4000H
NVIDIA RTX 2000 Ada Generation Laptop GPU
NVIDIA RTX 2000E Ada Generation
NVIDIA RTX 4000 Ada Generation Laptop GPU
NVIDIA RTX 5000 Ada Generation Laptop GPU
NVIDIA RTX 5000 Ada Generation Embedded GPU
NVIDIA RTX PRO 4000 Blackwell SFF Edition
NVIDIA RTX PRO 5000 Blackwell Generation Laptop GPU
NVIDIA RTX 6000D
Radeon RX 7900
Radeon RX 7900 GRE
Radeon RX 7900M
AMD Radeon(TM) 8060S Graphics
Intel(R) Data Center GPU Max 1550
""".strip().splitlines()


@pytest.fixture
def called(monkeypatch):
    """Pretend that cuda:0 is called so, has so many units, and memory of such a rate."""

    def pretend(name, units=None, memory=None):
        monkeypatch.setattr(devices, "name", lambda device: name)
        monkeypatch.setattr(devices, "units", lambda device: units)
        monkeypatch.setattr(devices, "memory_rate", lambda device: memory)
        return CUDA

    return pretend


# ---- names ----


@pytest.mark.parametrize("sheet", SHEETS.values(), ids=lambda sheet: sheet.name)
def test_every_name_finds_its_own_datasheet(sheet):
    """Each name, and each alias, is that of one row, and the device of that row is found by it."""
    for name in sheet.names:
        assert [other.name for other in promises.datasheets() if name in other.names] == [sheet.name]
        assert find(name, sheet.units) is sheet
        assert sheet.vendor == "apple" or find(name) is sheet


def test_the_data_file_has_a_source_for_every_row():
    """All of the 110 devices, each with a source and how sure it is."""
    with promises.DATASHEETS.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(SHEETS) == 110
    assert [
        row["name"] for row in rows if not row["source"] or row["confidence"] not in ("A", "B", "C derived", "C")
    ] == []


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_finds_nothing(name):
    """A name that is none of the data file's promises nothing, however near it is to one."""
    assert find(name) == f"no datasheet for {name!r}"
    assert find(name, 132) == f"no datasheet for {name!r}"


@pytest.mark.parametrize("sheet", SHEETS.values(), ids=lambda sheet: sheet.name)
def test_a_longer_or_a_shorter_name_is_another_devices(sheet):
    """With something more at its end, or without its last word, a name is that of a row of its own or of none."""
    longer = (" Ti", " SUPER", " D", " Laptop GPU", " with Max-Q Design", " MIG 1g.5gb", "-8Q", "X")
    for name in (sheet.name.rsplit(" ", 1)[0], *(sheet.name + end for end in longer)):
        own = SHEETS.get(name)
        assert find(name, own.units if own else None) == (own or f"no datasheet for {name!r}")


def test_names_that_are_often_confused_have_figures_of_their_own():
    """Dense bfloat16 peaks and bandwidths of parts whose names contain one another."""
    peaks = {
        "NVIDIA H100 80GB HBM3": (989.4e12, 3352e9),
        "NVIDIA H100 PCIe": (756e12, 2039e9),
        "NVIDIA H100 NVL": (835.5e12, 3938e9),
        "NVIDIA H200": (989.5e12, 4800e9),
        "NVIDIA A100-SXM4-80GB": (312e12, 2039e9),
        "NVIDIA A100-SXM4-40GB": (312e12, 1555e9),
        "NVIDIA A100-PCIE-40GB": (312e12, 1555e9),
        "NVIDIA A100 80GB PCIe": (312e12, 1935e9),
        "NVIDIA A10": (125e12, 600e9),
        "NVIDIA A10G": (70e12, 600e9),
        "NVIDIA L4": (121e12, 300e9),
        "NVIDIA L40S": (362e12, 864e9),
        "NVIDIA L20": (119.5e12, 864e9),
        "NVIDIA B200": (2250e12, 8000e9),
        "NVIDIA GB200": (2500e12, 8000e9),
        "NVIDIA GB300": (2500e12, 8000e9),
        "NVIDIA GeForce RTX 3070": (40.6e12, 448e9),
        "NVIDIA GeForce RTX 3070 Ti": (43.5e12, 608e9),
        "NVIDIA GeForce RTX 4070 Ti": (80.2e12, 504e9),
        "NVIDIA GeForce RTX 4070 Ti SUPER": (88.2e12, 672e9),
        "NVIDIA GeForce RTX 4090": (165.2e12, 1008e9),
        "NVIDIA GeForce RTX 4090 D": (147.1e12, 1008e9),
        "NVIDIA GeForce RTX 5070": (61.7e12, 672e9),
        "NVIDIA GeForce RTX 5070 Ti": (87.9e12, 896e9),
        "NVIDIA RTX A4000": (76.7e12, 448e9),
        "AMD Instinct MI250": (181.05e12, 1638e9),
        "AMD Instinct MI250X": (191.5e12, 1638e9),  # one die, which is one device to torch
    }
    found = {name: (SHEETS[name].figures["bfloat16"], SHEETS[name].figures["bandwidth"]) for name in peaks}
    assert found == peaks


def test_parts_of_one_name_are_told_apart_by_their_units():
    """Cards that share a name but not its number of units, and chips with some cores left out, promise nothing."""
    assert find("NVIDIA GeForce RTX 3080", 68) is SHEETS["NVIDIA GeForce RTX 3080"]
    assert (
        find("NVIDIA GeForce RTX 3080", 70)
        == "this 'NVIDIA GeForce RTX 3080' has 70 units, the one of the datasheet 68"
    )
    # An RTX 3050 of 6 GB has 18 units, a virtual GPU for games has those of the A10G under it, an MI250X has 110, and
    # other libraries than torch count 96 in an RX 7900 XTX.
    others = {
        "NVIDIA GeForce RTX 3050": 18,
        "NVIDIA GeForce RTX 3060": 80,
        "AMD Instinct MI250": 110,
        "AMD Radeon RX 7900 XTX": 96,
    }
    for name, units in others.items():
        assert f"has {units} units" in find(name, units)
    assert find("Apple M1", 8) is SHEETS["Apple M1"]
    assert "7 units" in find("Apple M1", 7)
    assert "unknown number of cores" in find("Apple M1")


@pytest.mark.parametrize(
    ("name", "units", "rate", "known"),
    [
        ("NVIDIA GeForce RTX 4070", 46, 504.05e9, 504e9),
        ("NVIDIA GeForce RTX 4070", 46, 480.05e9, 480e9),
        ("NVIDIA GeForce RTX 4070", 46, 492e9, None),
        ("NVIDIA GeForce RTX 4070", 46, 560e9, None),
        ("NVIDIA GeForce RTX 4070", 46, None, None),
        ("NVIDIA GeForce RTX 3060 Ti", 38, 448.06e9, 448e9),
        ("NVIDIA GeForce RTX 3060 Ti", 38, 608.3e9, 608e9),
        ("NVIDIA GeForce RTX 3060 Ti", 38, None, None),
        ("NVIDIA GeForce RTX 3060", 28, 240.03e9, 240e9),
        ("NVIDIA GeForce RTX 3080 Ti", 80, 760.3e9, 760e9),
        ("NVIDIA GeForce RTX 3070 Ti", 48, 608.3e9, 608e9),
        ("NVIDIA GeForce RTX 3070 Ti", 48, 448.06e9, None),
        ("NVIDIA GeForce RTX 3070 Ti", 48, None, 608e9),
        ("NVIDIA H200", 132, 4917e9, 4800e9),
        ("NVIDIA GB300", 152, 7928e9, 8000e9),
        ("NVIDIA GB300", 152, 7161e9, 7100e9),
        ("NVIDIA GB300", 152, None, None),
    ],
)
def test_cards_of_one_name_are_told_apart_by_their_memory(called, name, units, rate, known):
    """Each is promised the bandwidth of the memory that it has, and none where its clock fits no kind or two of them.

    A card that comes with one kind of memory needs no clock for that. HBM may run below its rated clock.
    """
    promise = Promises().bandwidth(called(name, units, rate))
    assert promise.value == known
    assert (promise.origin == "unknown") == (known is None)


def test_every_kind_of_memory_under_one_name_is_recognised(called):
    """The memory clock of each of the kinds that a row lists chooses that one's bandwidth."""
    several = [sheet for sheet in SHEETS.values() if sheet.others]
    assert len(several) >= 5
    for sheet in several:
        for rate in (sheet.figures["bandwidth"], *sheet.others):
            assert Promises().bandwidth(called(sheet.name, sheet.units, rate)).value == rate, sheet.name


# ---- figures that fit together ----


def having(column):
    """Return NVIDIA's parts that have a figure there."""
    return [s for s in SHEETS.values() if s.vendor == "nvidia" and column in s.figures]


@pytest.mark.parametrize("sheet", having("float16"), ids=lambda sheet: sheet.name)
def test_units_times_clock_give_the_figure(sheet):
    """Multiprocessors × clock × FLOPs per clock is the float16 peak within 3%, or the data file says why not."""
    rate = FULL_RATE[int(sheet.arch.removeprefix("sm_"))] / (2 if sheet.accumulation.startswith("half") else 1)
    ratio = sheet.units * sheet.clock * rate / sheet.figures["float16"]
    assert (abs(ratio - 1) <= 0.03) == (not sheet.explained), f"{ratio:.3f}: {sheet.explained}"


def test_compute_units_times_clock_give_the_figure():
    """Compute units × clock × FLOPs per clock is the float16 peak of AMD's parts within 3%, as bfloat16's is."""
    parts = [sheet for sheet in SHEETS.values() if sheet.arch in CDNA]
    assert len(parts) >= 9
    for sheet in parts:
        computed = sheet.units * sheet.clock * CDNA[sheet.arch]
        assert sheet.figures["float16"] == pytest.approx(computed, rel=0.03), sheet.name
        slower = 2 if sheet.arch == "gfx908" else 1  # CDNA 1 multiplies bfloat16 at half the rate.
        assert sheet.figures["bfloat16"] == sheet.figures["float16"] / slower, sheet.name


def test_pairs_of_compute_units_times_clock_give_the_figure():
    """For Radeon cards it is the float32 peak, and twice that is the float16 peak, within 3%."""
    parts = [sheet for sheet in SHEETS.values() if sheet.vendor == "amd" and sheet.arch not in CDNA]
    assert len(parts) >= 3
    for sheet in parts:
        computed = sheet.units * sheet.clock * RDNA[sheet.arch]
        assert sheet.figures["float32"] == pytest.approx(computed, rel=0.03), sheet.name
        assert sheet.figures.get("float16", 2 * computed) == pytest.approx(2 * computed, rel=0.03), sheet.name


@pytest.mark.parametrize("sheet", having("float32"), ids=lambda sheet: sheet.name)
def test_lanes_times_clock_give_float32(sheet):
    """Multiprocessors × lanes × 2 × clock is the float32 peak within 3%, but for parts with another clock for it."""
    clock = OTHER_CLOCK.get(sheet.name, sheet.clock)
    ratio = sheet.units * clock * LANES[int(sheet.arch.removeprefix("sm_"))] * PER_LANE / sheet.figures["float32"]
    assert abs(ratio - 1) <= 0.03 or sheet.explained, f"{ratio:.3f}"


def test_dense_figures_are_half_of_the_sparse_ones():
    """Wherever a source gives the figure with 2:4 sparsity too, it is twice ours, in the digits it is printed with."""
    both = {sheet.name: sheet.sparse / sheet.figures["bfloat16"] for sheet in SHEETS.values() if sheet.sparse}
    assert len(both) >= 3
    assert both == pytest.approx(dict.fromkeys(both, 2.0), rel=1e-3)


def test_dtypes_stand_in_the_ratios_of_their_widths():
    """On NVIDIA's data-centre parts float8 is twice float16, which is bfloat16 and twice TF32, within rounding."""
    for sheet in SHEETS.values():
        figures = sheet.figures
        if sheet.vendor == "nvidia" and "bfloat16" in figures:
            assert figures["bfloat16"] == figures["float16"], sheet.name
        if sheet.vendor == "nvidia" and sheet.accumulation == "full" and "float8" in figures:
            assert figures["float8"] == pytest.approx(2 * figures["float16"], rel=0.015), sheet.name
        if sheet.vendor == "nvidia" and sheet.accumulation == "full" and "int8" in figures:
            assert figures["int8"] == pytest.approx(2 * figures["float16"], rel=0.015), sheet.name
        if sheet.accumulation == "full" and "tf32" in figures:
            assert figures["tf32"] == pytest.approx(figures["float16"] / 2, rel=0.015), sheet.name


def test_what_is_not_verified_is_not_there():
    """Cells that nobody has checked, and figures that sources dispute, are blank."""
    blank = {
        "NVIDIA H20": {"float32", "tf32", "float8", "int8", "bandwidth"},
        "NVIDIA A30": {"tf32", "int8"},
        "NVIDIA GeForce RTX 5080": {"float8", "int8"},
        "NVIDIA GB300": {"int8"},
        "NVIDIA RTX PRO 6000 Blackwell Server Edition": {"float32", "float16", "bfloat16", "float8"},
        "NVIDIA RTX PRO 5000 Blackwell": {"float32", "float16", "bfloat16", "float8"},
        "NVIDIA RTX 4000 Ada Generation": {"tf32", "float16", "bfloat16", "float8"},
        "NVIDIA RTX 5880 Ada Generation": {"bandwidth"},
        "Radeon RX 7900 XTX": {"bfloat16"},
        "AMD Radeon RX 9070 XT": {"float16", "bfloat16"},
        "NVIDIA GB10": {"tf32", "float16", "bfloat16", "float8"},
        "Apple M3 Max": {"float32", "float16", "bandwidth"},
        "Apple M1 Ultra": {"bandwidth"},
        "Tesla T4": {"float16_acc16", "bfloat16", "tf32"},
    }
    assert {name: columns & set(SHEETS[name].figures) for name, columns in blank.items()} == {
        name: set() for name in blank
    }
    assert {name for name, sheet in SHEETS.items() if sheet.derived} == {
        *(f"NVIDIA GeForce RTX {model}" for model in DERIVED_GEFORCE),
        *(f"NVIDIA {model}" for model in ("A2", "RTX A1000", "RTX A5500")),
        *(f"NVIDIA RTX {model} Ada Generation" for model in (4500, 5880)),
    }


# ---- which figure ----


@pytest.fixture
def settings():
    """Leave torch's precision settings as they were."""
    matmul = torch.backends.cuda.matmul
    before = torch.get_float32_matmul_precision(), matmul.allow_fp16_accumulation
    yield matmul
    torch.set_float32_matmul_precision(before[0])
    matmul.allow_fp16_accumulation = before[1]


@pytest.mark.parametrize(("precision", "expected"), [("highest", 66.9e12), ("high", 494.7e12), ("medium", 494.7e12)])
def test_tf32_chooses_its_column(called, settings, precision, expected):
    """float32 promises the TF32 peak exactly where torch may round products to TF32."""
    torch.set_float32_matmul_precision(precision)
    promise = Promises().peak(called("NVIDIA H200", 132), torch.float32)
    assert (promise.value, promise.origin) == (expected, "datasheet")
    assert "H200 datasheet" in promise.note
    assert Promises().peak(CUDA, torch.bfloat16).value == 989.5e12


def test_the_newer_interface_to_tf32_is_heeded_too(called, settings):
    """torch.backends.cuda.matmul.fp32_precision = "tf32" is the same setting."""
    before = settings.fp32_precision
    try:
        settings.fp32_precision = "tf32"
        assert Promises().peak(called("NVIDIA H200", 132), torch.float32).value == 494.7e12
    finally:
        settings.fp32_precision = before


def test_a_card_without_tf32_does_not_heed_it(called, settings):
    """Before sm_80 the setting changes nothing; where the TF32 figure is not verified, nothing is promised."""
    torch.set_float32_matmul_precision("high")
    assert Promises().peak(called("Tesla T4", 40), torch.float32).value == 8.1e12
    assert Promises().peak(called("NVIDIA B200", 148), torch.float32).value == 1125e12
    assert Promises().peak(called("NVIDIA A30", 56), torch.float32).value is None


def test_on_rocm_the_settings_leave_the_precision_open(called, settings, monkeypatch):
    """Whether ROCm heeds them is not known here: with TF32, or reduced accumulation, nothing is promised."""
    monkeypatch.setattr(torch.version, "hip", "6.4")
    card = called("AMD Instinct MI300X", 304)
    assert Promises().peak(card, torch.float32).value == 163.4e12
    assert Promises().peak(card, torch.float16).value == 1307.4e12
    settings.allow_fp16_accumulation = True
    torch.set_float32_matmul_precision("high")
    assert Promises().peak(card, torch.float32).value is None
    assert Promises().peak(card, torch.float16).value is None
    assert "settings leave open" in Promises().peak(card, torch.float16).note


def test_reduced_accumulation_chooses_its_column(called, settings):
    """float16 accumulates in float32 unless torch is told otherwise, which doubles a GeForce's peak for it alone."""
    card = called("NVIDIA GeForce RTX 4090", 128)
    assert Promises().peak(card, torch.float16).value == 165.2e12
    settings.allow_fp16_accumulation = True
    assert Promises().peak(card, torch.float16).value == 330.4e12
    assert Promises().peak(card, torch.bfloat16).value == 165.2e12


def test_what_has_no_figure_is_unknown(called):
    """An unknown device, a dtype without a column and a blank cell are unknown, each with its reason."""
    for name, dtype, reason in [
        ("NVIDIA H300", torch.bfloat16, "no datasheet for 'NVIDIA H300'"),
        ("NVIDIA H200", torch.float64, "nothing verified is published about float64 on NVIDIA H200"),
        ("Tesla T4", torch.bfloat16, "nothing verified is published about bfloat16 on Tesla T4"),
        ("NVIDIA H200", torch.complex64, "nothing verified is published about complex64 on NVIDIA H200"),
    ]:
        assert Promises().peak(called(name), dtype) == Promise(None, "unknown", reason)
    assert Promises().bandwidth(called("NVIDIA H300")).value is None
    assert Promise(None, "unknown", "").share(1e12) is None


def test_float8_has_one_column(called):
    """E4M3 and E5M2 have the same peak."""
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        assert Promises().peak(called("NVIDIA GeForce RTX 4090", 128), dtype).value == 330.4e12
        assert Promises({"float8": 5e12}).peak(CUDA, dtype).value == 5e12


# ---- --spec-promised ----


def test_a_derived_figure_says_so(called):
    """One that is computed from units and clock is told from a published one."""
    assert Promises().peak(called("NVIDIA GeForce RTX 4060", 24), torch.float16).origin == "derived"


def test_given_figures_come_first(called):
    """What the command line promises goes before the datasheet, and makes an unknown device known."""
    given = promises.parse(["bfloat16=1e15", "bandwidth=4.8e12", "tf32=5e14"])
    assert given == {"bfloat16": 1e15, "bandwidth": 4.8e12, "tf32": 5e14}
    for name in ("NVIDIA H200", "something new"):
        peak = Promises(given).peak(called(name), torch.bfloat16)
        assert (peak.value, peak.origin) == (1e15, "given")
        assert Promises(given).bandwidth(CUDA).value == 4.8e12
    assert Promises(given).peak(CPU, torch.bfloat16).value == 1e15
    assert Promises(given).peak(CUDA, torch.float32).value is None  # what is given is TF32's
    assert Promises(given).peak(called("something new"), torch.float16).value is None


@pytest.mark.parametrize(
    "words",
    [
        ["bfloat16"],
        ["bfloat17=1e12"],
        ["=1e12"],
        ["bfloat16="],
        ["bfloat16=fast"],
        ["bfloat16=0"],
        ["bfloat16=-1e12"],
        ["bfloat16=nan"],
        ["bfloat16=inf"],
        ["bfloat16=1e12", "bfloat16=2e12"],
    ],
    ids=" ".join,
)
def test_a_figure_that_is_none_is_told_in_one_line(words):
    """Each mistake ends in one line that names the option and the word."""
    message = promises.parse(words)
    assert isinstance(message, str)
    assert message.startswith(f"--spec-promised {words[-1]}: ")
    assert "\n" not in message


# ---- a CPU's peak ----

FLAGS = {"zen4": "fma avx2 avx512f avx512_bf16", "zen3": "fma avx2", "amx": "fma avx2 avx512f avx512_bf16 amx_bf16"}


@pytest.fixture
def cpu(monkeypatch):
    """Pretend a processor of 2 cores of this make at 3 GHz, and as many threads."""

    def pretend(maker, family, model, flags, threads=2, cores=2, sockets=1):
        block = {"vendor_id": maker, "cpu family": str(family), "model": str(model), "flags": flags}
        known = [
            block | {"processor": str(n), "core id": str(n % cores // sockets), "physical id": str(n % sockets)}
            for n in range(2 * cores)
        ]
        monkeypatch.setattr(processors, "cpuinfo", lambda: known)
        monkeypatch.setattr(processors, "clock_rate", lambda: 3e9)
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(2 * cores)), raising=False)

    return pretend


@pytest.mark.parametrize(
    ("maker", "family", "model", "flags", "expected"),
    [
        ("AuthenticAMD", 25, 17, FLAGS["zen4"], {"float32": 32, "float64": 16, "bfloat16": 64}),
        ("AuthenticAMD", 25, 1, FLAGS["zen3"], {"float32": 32, "float64": 16, "bfloat16": None}),
        ("AuthenticAMD", 23, 1, FLAGS["zen3"], {"float32": 16, "float64": 8, "bfloat16": None}),
        ("AuthenticAMD", 26, 2, FLAGS["zen4"], {"float32": 64, "float64": 32, "bfloat16": 128}),
        ("GenuineIntel", 6, 143, FLAGS["amx"], {"float32": 64, "float64": 32, "bfloat16": 1024}),
        ("GenuineIntel", 6, 158, FLAGS["zen3"], {"float32": 32, "float64": 16, "bfloat16": None}),
        ("GenuineIntel", 6, 15, "sse2", {"float32": None}),
        ("SomeoneElse", 1, 1, FLAGS["zen3"], {"float32": None}),
        ("AuthenticAMD", 25, 17, FLAGS["zen4"], {"float16": None, "int8": None, "tf32": None}),
    ],
)
def test_the_peak_is_cores_times_clock_times_flops_per_cycle(cpu, maker, family, model, flags, expected):
    """2 cores of 3 GHz make 6e9 times the FLOPs per cycle of the make's vector units, or nothing that is known."""
    cpu(maker, family, model, flags)
    found = {column: processors.peak(column)[0] for column in expected}
    assert found == {column: per_cycle and 6e9 * per_cycle for column, per_cycle in expected.items()}
    assert all(processors.peak(column)[1] for column in expected)


def test_threads_beyond_the_cores_add_nothing(cpu):
    """One thread uses one core, and two hardware threads of a core share its units."""
    for threads, cores in ((1, 1), (2, 2), (4, 2), (64, 2)):
        cpu("AuthenticAMD", 25, 17, FLAGS["zen4"], threads)
        assert processors.peak("float32")[0] == cores * 3e9 * 32


def test_cores_of_every_socket_count_where_they_are_allowed(cpu, monkeypatch):
    """Two sockets number their cores alike; a process that may run on one of four cores has one."""
    cpu("AuthenticAMD", 25, 17, FLAGS["zen4"], threads=8, cores=4, sockets=2)
    assert processors.peak("float32")[0] == 4 * 3e9 * 32
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 5})
    assert processors.peak("float32")[0] == 1 * 3e9 * 32


@pytest.fixture
def named(monkeypatch, tmp_path):
    """Give a kernel that names the clocks of its cores, in kHz."""

    def pretend(*rates):
        for place, rate in enumerate(rates):
            (tmp_path / f"cpu{place}" / "cpufreq").mkdir(parents=True)
            (tmp_path / f"cpu{place}" / "cpufreq" / "cpuinfo_max_freq").write_text(f"{rate}\n")

    monkeypatch.setattr(processors, "CPUS", tmp_path)
    processors.clock_rate.cache_clear()
    yield pretend
    processors.clock_rate.cache_clear()


@pytest.mark.parametrize(
    ("rates", "measured", "expected"),
    [
        ((3_000_000, 4_500_000, 2_000_000), 3.1e9, 4.5e9),
        ((4_500_000, 2_000_000, 3_000_000), 3.1e9, 4.5e9),
        ((3_000_000,), 3.1e9, 3.1e9),
        ((), 3.1e9, 3.1e9),
        ((), None, None),
    ],
)
def test_the_clock_is_the_highest_there_is(named, monkeypatch, rates, measured, expected):
    """The fastest core's, as the kernel names it or as it is measured, whichever is more: MFU is no more than 1."""
    named(*rates)
    monkeypatch.setattr(processors, "measured_rate", lambda: measured)
    assert processors.clock_rate() == expected


def test_an_unknown_clock_makes_the_peak_unknown(cpu, monkeypatch):
    """Without a clock there is no peak, and the reason says so."""
    cpu("AuthenticAMD", 25, 17, FLAGS["zen4"])
    monkeypatch.setattr(processors, "clock_rate", lambda: None)
    assert processors.peak("float32") == (None, "the clock of this CPU is not known")


def test_where_there_is_no_cpuinfo_the_peak_is_unknown(monkeypatch):
    """Another system than Linux tells nothing, and promises nothing."""
    monkeypatch.setattr(processors, "cpuinfo", list)
    assert Promises().peak(CPU, torch.float32).origin == "unknown"


def test_the_measured_clock_is_that_of_the_fastest_chain(monkeypatch):
    """Its cycles over the least seconds that the chain takes, of 40 runs; whatever else runs only makes it slower."""
    if processors.measured_rate() is None:
        pytest.skip("the clock is not measured on this kind of processor or system")
    assert processors.measured_rate() > 0  # by the machine's own clock
    taken = [2e-4] * 30 + [1e-4] + [3e-4] * 9
    monkeypatch.setattr(processors, "_seconds", lambda run: (run(), taken.pop())[1])
    assert processors.measured_rate() == pytest.approx(20_000 * 8 * 3 / 1e-4)
    assert taken == []


def test_the_settings_choose_a_cpus_column(cpu, settings):
    """Where torch may round float32 products to bfloat16, a CPU's peak for them is that of bfloat16."""
    cpu("AuthenticAMD", 25, 17, FLAGS["zen4"])
    assert Promises().peak(CPU, torch.float32).value == 6e9 * 32
    torch.set_float32_matmul_precision("medium")
    assert Promises().peak(CPU, torch.float32).value == 6e9 * 64
    assert Promises().peak(CPU, torch.float32).origin == "computed"


@pytest.mark.parametrize(
    ("name", "units", "dtype", "rate", "expected"),
    [
        ("NVIDIA GeForce RTX 4090", 128, torch.float16, 168.38e12, "decides nothing"),
        ("NVIDIA GeForce RTX 3090", 82, torch.bfloat16, 82e12, "decides nothing"),
        ("NVIDIA GeForce RTX 2080 Ti", 68, torch.float16, 60e12, "decides nothing"),
        ("NVIDIA RTX A6000", 84, torch.bfloat16, 170e12, "decides nothing"),
        ("NVIDIA GeForce RTX 4090", 128, torch.float16, 165e12, "holds"),
        ("NVIDIA GeForce RTX 4090", 128, torch.float16, 1.8 * 165.2e12, "fails"),
        ("NVIDIA H200", 132, torch.bfloat16, 995e12, "fails"),
        ("NVIDIA L40S", 142, torch.bfloat16, 370e12, "fails"),
    ],
)
def test_a_graphics_cards_clock_may_rise_above_the_published_one(called, name, units, dtype, rate, expected):
    """A little more than promised decides nothing there; more than at the highest clock fails, and elsewhere any.

    168.38 TFLOP/s were measured on an RTX 4090, which promises 165.2; an RTX 3090 was seen at 1980 MHz, of 1695.
    """
    from spec.instruments.timer import Timing
    from spec.run import benchmarks

    promise = Promises().peak(called(name, units), dtype)
    work = benchmarks.Work(lambda: None, flops=int(rate), dtype=dtype, shape=(1,))
    measured = benchmarks.Rate("product", CUDA, work, Timing(1.0, 1.0, 1.0, 7), promise, None, "")
    outcomes = {"holds": contextlib.nullcontext()} | {
        "decides nothing": pytest.raises(pytest.skip.Exception, match="rose above the published one"),
        "fails": pytest.raises(EvidenceError, match=benchmarks.TOO_FAST),
    }
    with running() as evidence, outcomes[expected]:
        benchmarks.within_promise(evidence, measured)


def test_a_bandwidth_has_no_ceiling_above_it(called):
    """The clock of memory does not rise by itself."""
    assert Promises().bandwidth(called("NVIDIA GeForce RTX 4090", 128, 1008.1e9)).ceiling is None


def test_a_share_above_one_is_told():
    """MFU above 1 fails in one line, with where the promise comes from."""
    from spec.instruments.timer import Timing
    from spec.run import benchmarks

    work = benchmarks.Work(lambda: None, flops=10**12, dtype=torch.bfloat16, shape=(1,))
    promise = Promise(0.5e12, "given", "--spec-promised bfloat16")
    rate = benchmarks.Rate("product", CPU, work, Timing(1.0, 1.0, 1.0, 7), promise, None, "")
    with running() as evidence, pytest.raises(EvidenceError, match="the promised peak or the clock is wrong") as error:
        benchmarks.within_promise(evidence, rate)
    first = str(error.value).splitlines()[0]
    assert "measured MFU 2.000, predicted at most 1" in first
    assert "--spec-promised bfloat16" in first
