"""The closing table: every claim with its standing, its verdict, and what was measured against what was predicted."""

from collections import Counter
from collections.abc import Iterator, Sequence

from spec.claim import Standing
from spec.evidence import Json, sentence
from spec.report.verdicts import NOT_RUN, Finding, Verdict

COLOURS = {
    Verdict.HOLDS: {"green": True},
    Verdict.FAILS: {"red": True, "bold": True},
    Verdict.AMBIGUOUS: {"yellow": True},
    Verdict.UNCHECKED: {"yellow": True},
}


def table(findings: Sequence[Finding], width: int, verbose: bool) -> Iterator[tuple[str, dict[str, bool]]]:
    """Yield the lines of the closing table, each with its markup."""
    selected = [finding for finding in findings if finding.reason != NOT_RUN]
    devices = {finding.device for finding in selected}
    names = {id(f): f.claim.id + (f" ({f.device})" if len(devices) > 1 and f.device else "") for f in selected}
    column = max(map(len, names.values()), default=0)
    yield f"{'claim':<{column}}  {'standing':<9}  {'verdict':<9}  measured against predicted", {"bold": True}
    for finding in selected:
        claim = finding.claim
        head = f"{names[id(finding)]:<{column}}  {claim.standing.value:<9}  {finding.verdict.value:<9}  "
        yield head + _fit(summary(finding), width - len(head)), COLOURS[finding.verdict]
        if claim.standing is not Standing.HOLDS:
            word = "if" if claim.standing is Standing.HOLDS_IF else "but"
            yield _fit(f"{'':<{column}}  {word} {claim.condition}", width), {}
        if verbose:
            yield _fit(f"{'':<{column}}  notes: {claim.says}", width), {}
            yield _fit(f"{'':<{column}}  law:   {claim.law}", width), {}
    yield closing(findings), {"bold": True}


def summary(finding: Finding) -> str:
    """Say the reason where a claim was not found to hold, and otherwise its most telling measurement."""
    if finding.verdict is not Verdict.HOLDS:
        return finding.reason
    if not finding.evidence:
        return ""
    record = max(finding.evidence, key=_telling)
    checks = sum(record["checks"] for record in finding.evidence)
    return f"{sentence(record | {'inputs': {}})}; {checks} checks"


def closing(findings: Sequence[Finding]) -> str:
    """Count the verdicts in one line."""
    counts = Counter(f.verdict for f in findings if f.reason != NOT_RUN)
    parts = [f"{counts[verdict]} {'hold' if verdict is Verdict.HOLDS else verdict.value}" for verdict in Verdict]
    skipped = sum(f.reason == NOT_RUN for f in findings)
    return ", ".join(parts) + (f"; {skipped} not run" if skipped else "")


def _telling(record: Json) -> tuple[bool, bool]:
    number = isinstance(record["measured"], int | float) and not isinstance(record["measured"], bool)
    return record["relation"] != "not", number


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 1)] + "…"
