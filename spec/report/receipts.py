"""Reports that were kept: read from their files, and held against today's claims."""

import json
from collections.abc import Iterator, Sequence
from numbers import Real
from pathlib import Path

from spec import compare
from spec.claim import Chapter, Claim
from spec.messages.sentences import CUT, Json, sentence
from spec.report.verdicts import Verdict


class ReportError(Exception):
    """Why a file cannot be used as a report, in one line."""


def read(path: Path) -> Json:
    """Return the report in a file."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        report["environment"]["devices"], report["complete"]
        [(row["id"], row["law"], row["device"], row["verdict"], row["evidence"]) for row in report["claims"]]
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{path}: not a report: write one with pytest --spec-report=DIR") from error
    return dict(report)


def changed(report: Json, chapters: Sequence[Chapter]) -> Iterator[str]:
    """Yield a line for each claim of which today's kit says something else than the report, or nothing."""
    today = {claim.id: claim for chapter in chapters for claim in chapter.claims}
    then = {row["id"]: row for row in report["claims"]}
    for name in sorted(today.keys() | then.keys()):
        if name not in then:
            yield f"{name} is new since"
        elif name not in today:
            yield f"{name} is no longer claimed"
        elif parts := _differences(then[name], today[name]):
            yield f"{name} has another {' and '.join(parts)} now"


def misfits(report: Json, chapters: Sequence[Chapter]) -> Iterator[str]:
    """Yield a line for each claim, unchanged since, that the report speaks against, and for each of its own errors."""
    today = {claim.id: claim for chapter in chapters for claim in chapter.claims}
    if not report["complete"]:
        yield "the run was not complete"
    for row in report["claims"]:
        claim = today.get(row["id"])
        if claim is None or _differences(row, claim):
            continue
        if row["verdict"] == Verdict.FAILS.value:
            yield f"{row['id']} fails on {row['device']}: {row['reason']}"
        yield from contradictions(row)


def contradictions(row: Json) -> Iterator[str]:
    """Yield a line for each record that speaks against the claim whose row says that it holds."""
    for record in row["evidence"] if row["verdict"] == Verdict.HOLDS.value else ():
        if not record["holds"] or _denies(record) or not _is_within(record["extremes"], record["measured"]):
            yield f"{row['id']} is said to hold on {row['device']}, but {sentence(record)}"


def _differences(row: Json, claim: Claim) -> list[str]:
    """Say which parts of what is claimed are not as they were; a change of the other words changes no finding."""
    parts = {"law": claim.law, "standing": claim.standing.value, "condition": claim.condition}
    return [part for part, text in parts.items() if row.get(part) != text]


def _denies(record: Json) -> bool:
    """Return whether a record's own values break its relation; of text that was cut off, too little is known."""
    measured, predicted, tolerance = record["measured"], record["predicted"], record["tolerance"]
    numbers = all(isinstance(value, Real) for value in (measured, predicted))
    same = compare.difference(measured, predicted) is None
    match record["relation"]:
        case "exact" | "true" | "raises":
            return not same
        case "not":
            return same and not str(measured).endswith(CUT)
        case "at most":
            return numbers and compare.excess(measured, predicted) > 0
        case "at least":
            return numbers and compare.shortfall(measured, predicted) > 0
        case _:
            return numbers and isinstance(tolerance, Real) and compare.worst(measured, predicted, tolerance)[0] > 1


def _is_within(extremes: Sequence[object], value: object) -> bool:
    """Return whether a value lies between the extremes of its record, as far as they are numbers."""
    numbers = [each for each in (*extremes, value) if isinstance(each, Real) and not isinstance(each, bool)]
    return len(numbers) < 3 or numbers[0] <= numbers[2] <= numbers[1]
