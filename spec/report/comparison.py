"""Several reports side by side: where their verdicts differ, what each device did per second, and which one lags."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spec import bounds
from spec.implementation.contract import REFERENCE
from spec.messages.sentences import Json
from spec.report.verdicts import ABSENT

Cells = Mapping[int, str]  # by report, its place in the command


@dataclass(frozen=True)
class Part:
    """One device of one report."""

    report: int
    device: str
    name: str  # The device reports this name.


@dataclass(frozen=True)
class Lag:
    """What a device took longer for than others of its name."""

    part: Part
    rate: str
    excess: float  # over the median of the others, as a part of it
    noise: float  # the largest excess that noise explains


def lines(paths: Sequence[Path], reports: Sequence[Json]) -> Iterator[str]:
    """Yield the comparison, line by line."""
    yield from _reports(paths, reports)
    yield ""
    verdicts = _verdicts(reports)
    apart = {name: cells for name, cells in verdicts.items() if len(cells) < len(reports) or len({*cells.values()}) > 1}
    if apart:
        yield from _grid("claim", apart, len(reports))
    yield f"{len(verdicts) - len(apart)} of {len(verdicts)} claims have the same verdict in each report"
    if rates := _rates(reports):
        yield ""
        yield from _grid("seconds", {name: _seconds(found) for name, found in rates.items()}, len(reports))
        if any(rate["doubt"] for parts in rates.values() for rate in parts.values()):
            yield "?: in doubt, for it was too noisy, throttled or not timed"
    yield ""
    yield from _told(list(lags(reports)), rates, paths)


def lags(reports: Sequence[Json]) -> Iterator[Lag]:
    """Yield each rate of each device that is slower than the others of the same name beyond noise.

    A device is held against the median of the others. `bounds.timing.lag` says how far it may lag behind by noise: by
    the uncertainty of the timings, and by how far the others lie apart. A timing in doubt takes no part.
    """
    for name, found in _rates(reports).items():
        sure = _sure(found)
        for part, rate in sure.items():
            others = [other for which, other in sure.items() if which != part and which.name == part.name]
            if not others:
                continue
            usual = statistics.median(other["seconds"] for other in others)
            excess = rate["seconds"] / usual - 1
            apart = [abs(other["seconds"] / usual - 1) for other in others]
            noise = bounds.timing.lag(rate["uncertainty"], [other["uncertainty"] for other in others], apart)
            if excess > noise:
                yield Lag(part, name, excess, noise)


def _reports(paths: Sequence[Path], reports: Sequence[Json]) -> Iterator[str]:
    worlds = {report["environment"].get("ranks") for report in reports}
    for place, (path, report) in enumerate(zip(paths, reports, strict=True), start=1):
        told = report["environment"]
        names = ", ".join(f"{device} ({name})" for device, name in told["devices"].items())
        rank = f", rank {told['rank']} of {told['ranks']}" if "rank" in told else ""
        unfinished = "" if report["complete"] else ", unfinished"
        judged = "" if told["implementation"] == REFERENCE else f", of {told['implementation']}"
        yield f"[{place}] {path}: torch {told['torch']} on {names}{judged}{rank}{unfinished}"
    (world,) = worlds if len(worlds) == 1 else (None,)
    if world is not None and (absent := set(range(world)) - {r["environment"]["rank"] for r in reports}):
        yield f"of {world} ranks there is no report of {', '.join(map(str, sorted(absent)))}"
    elif len(worlds - {None}) > 1:
        yield "these reports are of several runs: they differ in how many ranks there were"


def _verdicts(reports: Sequence[Json]) -> dict[str, Cells]:
    """Return the verdicts by claim, with a claim's devices joined where they differ."""
    found: dict[str, dict[int, str]] = {}
    for place, report in enumerate(reports):
        for row in report["claims"]:
            if not row["ran"]:
                continue
            cell = found.setdefault(row["id"], {}).get(place)
            shown = row["verdict"] if row["device"] in ("cpu", ABSENT) else f"{row['verdict']} ({row['device']})"
            found[row["id"]][place] = shown if cell is None else f"{cell}, {shown}"
    return dict(found)


def _rates(reports: Sequence[Json]) -> dict[str, dict[Part, Json]]:
    """Return what was timed, by name, dtype and shape, and then by device."""
    found: dict[str, dict[Part, Json]] = {}
    for place, report in enumerate(reports):
        for rate in report.get("rates", []):
            shape = "×".join(map(str, rate["shape"]))
            name = " ".join(filter(None, (rate["name"], rate["dtype"], shape)))
            found.setdefault(name, {})[Part(place, rate["device"], rate["device_name"])] = rate
    return found


def _sure(found: Mapping[Part, Json]) -> dict[Part, Json]:
    """Return the timings that are not in doubt."""
    return {part: rate for part, rate in found.items() if not rate["doubt"] and rate["uncertainty"] is not None}


def _seconds(found: Mapping[Part, Json]) -> Cells:
    cells: dict[int, str] = {}
    for part, rate in found.items():
        sure = "?" if rate["doubt"] or rate["uncertainty"] is None else f" ±{rate['uncertainty']:.1%}"
        shown = f"{rate['seconds']:.4g}{sure}"
        cells[part.report] = shown if part.report not in cells else f"{cells[part.report]}, {shown}"
    return cells


def _told(found: Sequence[Lag], rates: Mapping[str, Mapping[Part, Json]], paths: Sequence[Path]) -> Iterator[str]:
    """Say which device is slower than the rest; or that none is, or why that cannot be said."""
    several = [parts for parts in rates.values() if len(parts) > 1]
    compared = sum(max(Counter(part.name for part in _sure(parts)).values(), default=0) > 1 for parts in several)
    if not several:
        yield "nothing was timed in more than one report: time the claims about speed with -m gpu or --benchmark-only"
    elif not compared:
        yield f"none of {len(several)} timings can be compared: they are in doubt (?), or of devices of different names"
    elif not found:
        among = f"{compared} of {len(several)} timings compared"
        yield f"no device is slower than others of its name beyond noise ({among})"
    for part in dict.fromkeys(lag.part for lag in found):
        yield f"[{part.report + 1}] {part.device} ({part.name}) is slower than the rest: {paths[part.report]}"
        for lag in found:
            if lag.part == part:
                yield f"    {lag.rate}: {lag.excess:+.1%}, where noise explains {lag.noise:.1%}"


def _grid(title: str, rows: Mapping[str, Cells], columns: int) -> Iterator[str]:
    """Lay out a row for each name and a column for each report."""
    table = [[title, *(f"[{place + 1}]" for place in range(columns))]]
    table += [[name, *(cells.get(place, "") for place in range(columns))] for name, cells in rows.items()]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
