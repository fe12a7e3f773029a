"""What a device promises per second: its datasheet's dense peak and bandwidth, found by its exact name, or unknown."""

import csv
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from spec.hardware import devices, processors

DATASHEETS = Path(__file__).with_name("devices.csv")
BANDWIDTH = "bandwidth"
# The columns of peaks, each named after its dtype but for two that a setting chooses.
PEAKS = ("float64", "float32", "tf32", "float16", "float16_acc16", "bfloat16", "float8", "int8")
# A graphics card's published clock is the one it typically reaches. Drivers let these chips run at up to so many Hz:
# owners of an RTX 3090, two RTX 4090 and two RTX PRO 6000 report these maximum clocks.
HIGHEST = {"sm_86": 2100e6, "sm_89": 3120e6, "sm_120": 3135e6}
# The highest clock of other chips is not known here. It is taken to be below this many times the published one.
MORE = 2.0
EXAMPLE = "write NAME=NUMBER, for example bfloat16=989e12 (FLOP/s) or bandwidth=4.8e12 (bytes/s)"
DIFFERENT = 0.04  # memory clock × bus, against the datasheet; two kinds of memory under one name are 5% apart or more


@dataclass(frozen=True)
class Datasheet:
    """One part's figures in FLOP/s and bytes/s, dense; what is not published or not verified is missing."""

    name: str
    names: tuple[str, ...]  # the exact names under which torch reports it
    vendor: str
    arch: str
    units: int | None  # streaming multiprocessors or compute units
    clock: float | None  # Hz
    figures: Mapping[str, float]
    others: tuple[float, ...]  # These are the bandwidths, in bytes/s, of other memory sold under the same name.
    derived: bool  # from units × clock × the architecture's rate, rather than published
    accumulation: str
    sparse: float | None  # bfloat16 with 2:4 sparsity, where a source gives it
    explained: str  # why units × clock is not the figure
    source: str
    notes: str


@dataclass(frozen=True)
class Promise:
    """A rate per second and where it comes from; `value` is None where nothing is known, and `note` says why."""

    value: float | None
    origin: str  # given, datasheet, derived, computed, or unknown
    note: str
    ceiling: float | None = None  # A graphics card reaches this at its highest clock, which is above the published one.

    def share(self, rate: float) -> float | None:
        """Return what part of the promise a rate is: MFU, for FLOP/s. None where nothing is promised."""
        return None if self.value is None else rate / self.value


@dataclass(frozen=True)
class Promises:
    """What devices promise; `given` holds what --spec-promised says, by column, and comes before anything else."""

    given: Mapping[str, float] = field(default_factory=dict)

    def peak(self, device: torch.device, dtype: torch.dtype) -> Promise:
        """Return the dense peak of products of `dtype` on `device`, in FLOP/s, as torch's settings are now."""
        chosen = column(dtype, device)
        if chosen is None:
            return unknown(f"torch's settings leave open in what precision {_bare(dtype)} is multiplied")
        if chosen in self.given:
            return Promise(self.given[chosen], "given", f"--spec-promised {chosen}")
        if device.type == "cpu":
            value, note = processors.peak(chosen)
            return Promise(value, "unknown" if value is None else "computed", note)
        return promised(find(devices.name(device), devices.units(device)), chosen)

    def bandwidth(self, device: torch.device) -> Promise:
        """Return how many bytes per second the device's memory reads and writes together."""
        if BANDWIDTH in self.given:
            return Promise(self.given[BANDWIDTH], "given", f"--spec-promised {BANDWIDTH}")
        if device.type == "cpu":
            return unknown("a CPU's memory bandwidth depends on the board")
        sheet = find(devices.name(device), devices.units(device))
        promise = promised(sheet, BANDWIDTH)
        if isinstance(sheet, str) or promise.value is None:
            return promise
        return _of_the_memory(sheet, promise, (promise.value, *sheet.others), devices.memory_rate(device))


@functools.cache
def datasheets() -> tuple[Datasheet, ...]:
    """Read the data file."""
    with DATASHEETS.open(encoding="utf-8", newline="") as lines:
        return tuple(_datasheet(row) for row in csv.DictReader(lines))


def find(name: str, units: int | None = None) -> Datasheet | str:
    """Return the datasheet of the device that torch calls exactly so, or why there is none.

    `units` is the number of multiprocessors that the device reports: parts of one name can differ in it.
    """
    sheet = next((sheet for sheet in datasheets() if name in sheet.names), None)
    if sheet is None:
        return f"no datasheet for {name!r}"
    if sheet.vendor == "apple" and units is None:
        return f"no datasheet for {name!r} of an unknown number of cores"
    if units is not None and sheet.units is not None and units != sheet.units:
        return f"this {name!r} has {units} units, the one of the datasheet {sheet.units}"
    return sheet


def promised(sheet: Datasheet | str, chosen: str) -> Promise:
    """Return what a datasheet promises in one of its columns."""
    if isinstance(sheet, str):
        return unknown(sheet)
    if chosen == "tf32" and sheet.vendor == "nvidia" and int(sheet.arch.removeprefix("sm_")) < 80:
        chosen = "float32"  # TF32 came with sm_80: earlier devices do not heed the setting
    if chosen not in sheet.figures:
        return unknown(f"nothing verified is published about {chosen} on {sheet.name}")
    value, origin = sheet.figures[chosen], "derived" if sheet.derived else "datasheet"
    return Promise(value, origin, sheet.source, None if chosen == BANDWIDTH else _ceiling(sheet, value))


def unknown(why: str) -> Promise:
    return Promise(None, "unknown", why)


def column(dtype: torch.dtype, device: torch.device) -> str | None:
    """Return in which column the peak of products of `dtype` stands, given torch's settings; None for an open case.

    TF32 applies where products of float32 may be rounded to it. float16 is accumulated in float32 unless
    `torch.backends.cuda.matmul.allow_fp16_accumulation` is set.
    """
    name = _bare(dtype)
    if dtype is torch.float32:
        return _float32_column(device)
    if dtype is torch.float16 and device.type == "cuda" and torch.backends.cuda.matmul.allow_fp16_accumulation:
        return "float16_acc16" if torch.version.hip is None else None
    return "float8" if name.startswith("float8_") else name


def parse(words: Sequence[str]) -> dict[str, float] | str:
    """Read what --spec-promised was given, word by word; return one line that says what is wrong with one."""
    given: dict[str, float] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip()
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not equals:
            return f"--spec-promised {word}: {EXAMPLE}"
        if name not in (*PEAKS, BANDWIDTH):
            return f"--spec-promised {word}: {name!r} is none of {', '.join((*PEAKS, BANDWIDTH))}"
        if not 0 < value < float("inf"):
            return f"--spec-promised {word}: {text!r} is not a positive number; {EXAMPLE}"
        if given.setdefault(name, value) != value:
            return f"--spec-promised {word}: {name} is given twice, as {given[name]:g} and {value:g}"
    return given


def _ceiling(sheet: Datasheet, value: float) -> float | None:
    if not any(kind in sheet.name for kind in ("GeForce", "RTX", "Radeon")) or not sheet.clock:
        return None
    return value * HIGHEST.get(sheet.arch, MORE * sheet.clock) / sheet.clock


def _of_the_memory(sheet: Datasheet, promise: Promise, rates: Sequence[float], running: float | None) -> Promise:
    """Return the promise of the memory that is there: graphics cards of one name come with memory of several kinds."""
    if not sheet.others and (running is None or sheet.accumulation != "half"):
        return promise
    published = " or ".join(f"{rate:.4g}" for rate in rates)
    if running is None:
        return unknown(f"cards called {sheet.name!r} come with memory of {published} bytes/s")
    fitting = [rate for rate in rates if abs(running / rate - 1) <= DIFFERENT]
    if len(fitting) != 1:
        return unknown(f"its memory's clock gives {running:.4g} bytes/s, the datasheet {published}")
    return replace(promise, value=fitting[0])


def _float32_column(device: torch.device) -> str | None:
    if device.type == "cuda":
        tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
        if tf32 and torch.version.hip is not None:
            return None  # whether ROCm heeds the setting depends on the device and on its libraries' own settings
        return "tf32" if tf32 else "float32"
    if device.type == "cpu":
        onednn: Any = torch.backends.mkldnn  # It multiplies as the setting allows.
        precision = onednn.matmul.fp32_precision
        return {"bf16": "bfloat16", "tf32": "tf32"}.get(precision, "float32")
    return "float32"


def _datasheet(row: Mapping[str, str]) -> Datasheet:
    return Datasheet(
        name=row["name"],
        names=tuple(filter(None, (row["name"], row["alias"]))),
        vendor=row["vendor"],
        arch=row["arch"],
        units=int(row["units"]) if row["units"] else None,
        clock=_number(row["clock"]),
        figures={key: float(row[key]) for key in (*PEAKS, BANDWIDTH, "float8_acc16") if row.get(key)},
        others=tuple(map(float, row["other_bandwidth"].split())),
        derived=row["confidence"].endswith("derived"),
        accumulation=row["accumulation"],
        sparse=_number(row["sparse_bfloat16"]),
        explained=row["explained"],
        source=row["source"],
        notes=row["notes"],
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


def _bare(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
