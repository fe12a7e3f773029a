"""Benchmarks: timed by the kit's own timer, handed on to pytest-benchmark, and shown as rates against the promises."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from spec.evidence import Evidence
from spec.hardware import devices, sensors
from spec.hardware.promises import Promise, Promises
from spec.instruments import timer
from spec.instruments.timer import Timing
from spec.messages.sentences import Json
from spec.report import properties

UNTIMED = "timed only under --benchmark-only, --benchmark-enable or -m gpu"
PARALLEL = "not timed: under pytest-xdist other tests run at the same time"
TOO_FAST = "the promised peak or the clock is wrong"


@dataclass(frozen=True)
class Work:
    """Something to time: what one run of it does, counted by hand, and what it does it on."""

    run: Callable[[], object]
    flops: int = 0
    bytes: int = 0  # read and written, each operand and result once
    dtype: torch.dtype | None = None
    shape: tuple[int, ...] = ()
    note: str = ""  # A remark, such as that memory ran out at twice the size.


@dataclass(frozen=True)
class Rate:
    """What a device did per second, against what it promises."""

    name: str
    device: torch.device
    work: Work
    timing: Timing
    peak: Promise | None  # None unless the work counts FLOPs of a dtype.
    bandwidth: Promise | None  # None unless the work counts bytes.
    doubt: str  # why the timing decides nothing; empty where it does

    @property
    def seconds(self) -> float:
        return self.timing.median

    @property
    def flop_per_second(self) -> float:
        return self.work.flops / self.seconds

    @property
    def bytes_per_second(self) -> float:
        return self.work.bytes / self.seconds

    @property
    def mfu(self) -> float | None:
        """FLOP/s as a part of the promised peak; None where none is promised or no FLOPs are counted."""
        return self.peak.share(self.flop_per_second) if self.peak else None

    @property
    def share_of_bandwidth(self) -> float | None:
        return self.bandwidth.share(self.bytes_per_second) if self.bandwidth else None

    def json(self) -> Json:
        """Return what reports and pytest-benchmark's files keep, in plain JSON values."""
        timing, work = self.timing, self.work
        told: Json = {
            "name": self.name,
            "device": str(self.device),
            "device_name": devices.describe(self.device),
            "dtype": str(work.dtype).removeprefix("torch.") if work.dtype else "",
            "shape": list(work.shape),
            "seconds": timing.median,
            "lower_quartile": timing.low,
            "upper_quartile": timing.high,
            "runs": timing.runs,
            "uncertainty": timing.uncertainty if timing.runs > 5 else None,
            "doubt": self.doubt,
            "note": work.note,
        }
        if work.flops:
            told |= {"flops": work.flops, "flop_per_second": self.flop_per_second}
        if self.peak:
            mfu = "unknown" if self.mfu is None else self.mfu
            told |= {"promised_flop_per_second": self.peak.value, "promise": _origin(self.peak), "mfu": mfu}
        if work.bytes:
            told |= {"bytes": work.bytes, "bytes_per_second": self.bytes_per_second}
        if self.bandwidth:
            share = "unknown" if self.share_of_bandwidth is None else self.share_of_bandwidth
            promised = {"promised_bytes_per_second": self.bandwidth.value, "bandwidth_promise": _origin(self.bandwidth)}
            told |= promised | {"share_of_bandwidth": share}
        return told


class Meter:
    """Times what a benchmark gives it, and hands the rates on: to pytest-benchmark, the closing table and the report.

    Where benchmarks are not timed, everything runs once, and the rates are those of a single cold run.
    """

    def __init__(self, benchmark: Any, promises: Promises, untimed: str, budget: float, node: pytest.Item) -> None:
        self.benchmark = benchmark
        self.promises = promises
        self.untimed = untimed  # why nothing is timed; empty where it is
        self.budget = budget  # seconds of measuring, shared by the variants
        self.node = node
        self.told: list[Json] = []

    @property
    def timed(self) -> bool:
        return not self.untimed

    def rate(self, name: str, work: Work, device: torch.device, *, flush: bool | None = None) -> Rate:
        """Time one thing."""
        return self.rates({name: work}, device, flush=flush)[name]

    def rates(self, works: Mapping[str, Work], device: torch.device, *, flush: bool | None = None) -> dict[str, Rate]:
        """Time several things in turn; the first of a test's is the one that pytest-benchmark's own table shows."""
        runs = {name: work.run for name, work in works.items()}
        if self.untimed:
            timings = {name: timer.once(run, device) for name, run in runs.items()}
        else:
            timings = timer.sample(runs, device, budget=self.budget, flush=flush)
        slowed = self.untimed or sensors.slowed(device)
        found = {name: self._rate(name, work, device, timings[name], slowed) for name, work in works.items()}
        self._hand_on(list(found.values()))
        return found

    def _rate(self, name: str, work: Work, device: torch.device, timing: Timing, slowed: str) -> Rate:
        peak = self.promises.peak(device, work.dtype) if work.flops and work.dtype else None
        bandwidth = self.promises.bandwidth(device) if work.bytes else None
        return Rate(name, device, work, timing, peak, bandwidth, slowed or timing.doubt)

    def _hand_on(self, rates: Sequence[Rate]) -> None:
        if not self.told:
            _replayed[:] = rates[0].timing.taken
            self.benchmark.pedantic(_replay, rounds=len(_replayed))
        self.told += [rate.json() for rate in rates]
        first, *others = self.told
        self.benchmark.extra_info |= first | ({"against": others} if others else {})
        if not self.untimed:
            properties.hand_on(self.node, rates=json.dumps(self.told))


def decided(evidence: Evidence, *rates: Rate) -> None:
    """End the test undecided where a timing is too noisy or the device was slowed down; skip where none was timed."""
    for rate in rates:
        if rate.doubt in (UNTIMED, PARALLEL):
            pytest.skip(rate.doubt)
        if rate.doubt:
            evidence.ambiguous(f"{rate.name}: {rate.doubt}")


def within_promise(evidence: Evidence, rate: Rate) -> None:
    """Require 0 < MFU ≤ 1, or that it is unknown where nothing is promised; no noise makes a device too fast.

    A graphics card's clock may rise above the published one, which decides nothing.
    """
    if rate.mfu is None:
        evidence.equal(rate.json()["mfu"], "unknown", unit="MFU", FLOPs=rate.work.flops, seconds=rate.seconds)
        return
    if rate.mfu > 1 and rate.peak:
        told = f"{rate.flop_per_second:.4g} FLOP/s of {_origin(rate.peak)} {rate.peak.value:.4g}"
        if rate.peak.ceiling is not None and rate.flop_per_second <= rate.peak.ceiling:
            evidence.ambiguous(f"{rate.name}: MFU {rate.mfu:.3f}: its clock rose above the published one ({told})")
        evidence.fail(f"measured MFU {rate.mfu:.3f}, predicted at most 1: {TOO_FAST} ({told})")
    cold = rate.doubt in (UNTIMED, PARALLEL)
    evidence.at_most(rate.mfu, 1, unit="MFU", cold=cold, FLOPs=rate.work.flops, seconds=rate.seconds)


def within_bandwidth(evidence: Evidence, rate: Rate) -> None:
    """Require that no more bytes per second are read and written than is promised, or that nothing is promised."""
    if rate.share_of_bandwidth is None:
        evidence.equal(rate.json()["share_of_bandwidth"], "unknown", unit="of the bandwidth", bytes=rate.work.bytes)
        return
    evidence.at_most(rate.share_of_bandwidth, 1, unit="of the bandwidth", bytes=rate.work.bytes, seconds=rate.seconds)


# ---- pytest-benchmark is given the seconds that the timer took: its clock goes on by one of them per call ----

_replayed: list[float] = []
_now = 0.0


def replayed_clock() -> float:
    """Return the time by the kit's timer, as pytest-benchmark is to see it."""
    return _now


def _replay() -> None:
    global _now
    _now += _replayed.pop(0) if _replayed else 0.0


def prepare(item: pytest.Item) -> None:
    """Give a benchmark that uses the meter its clock, beside the options it has of its own."""
    marker = item.get_closest_marker("benchmark")
    options = dict(marker.kwargs) if marker else {}
    item.add_marker(pytest.mark.benchmark(**options | {"timer": replayed_clock}), append=False)


def machine_info(receipt: Mapping[str, object]) -> dict[str, object]:
    """Return what pytest-benchmark's files say of the machine: what stays the same from run to run, and no names."""
    lasting = ("python", "platform", "torch", "packages", "libraries", "devices", "threads", "cpus", "settings")
    return {name: receipt[name] for name in lasting if name in receipt}


# ---- the closing table ----


def table(rates: Sequence[Json]) -> Iterator[str]:
    """Yield the lines of the table of rates, one for each thing that was timed."""
    rows: list[tuple[str, ...]] = [
        ("benchmark", "dtype", "shape", "median", "±", "FLOP/s", "MFU", "bytes/s", "of promised", "")
    ]
    rows += [_row(rate) for rate in rates]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(rate: Json) -> tuple[str, ...]:
    def number(key: str, form: str = ".4g") -> str:
        value = rate.get(key)
        return "" if value is None else value if isinstance(value, str) else f"{value:{form}}"

    remarks = [rate["doubt"], rate["note"]]
    return (
        f"{rate['name']} ({rate['device']})",
        rate["dtype"],
        "×".join(map(str, rate["shape"])),
        f"{rate['seconds']:.4g} s",
        number("uncertainty", ".1%"),
        number("flop_per_second"),
        number("mfu", ".3f"),
        number("bytes_per_second"),
        number("share_of_bandwidth", ".3f"),
        "; ".join(filter(None, remarks)),
    )


def _origin(promise: Promise) -> str:
    return f"{promise.origin}: {promise.note}"
