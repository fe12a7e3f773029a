"""The closing table: every claim with its standing, its verdict, and what was measured against what was predicted."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from spec.claim import Standing
from spec.messages.sentences import Json, show
from spec.report.verdicts import ABSENT, OTHERS, Finding, Verdict

COLOURS = {
    Verdict.HOLDS: {"green": True},
    Verdict.FAILS: {"red": True, "bold": True},
    Verdict.AMBIGUOUS: {"yellow": True},
    Verdict.UNCHECKED: {"yellow": True},
}


NARROW = 60  # characters: where less is left beside a claim or its verdict, text stands below it


def table(
    findings: Sequence[Finding], width: int, verbose: bool, benchmark_only: bool = False
) -> Iterator[tuple[str, dict[str, bool]]]:
    """Yield the lines of the closing table, each with its markup."""
    selected = [finding for finding in findings if finding.ran]
    several = len({finding.device for finding in selected} - {ABSENT}) > 1
    names = [f.claim.id + (f" ({f.device})" if several else "") for f in selected]
    column = max(map(len, names), default=0)
    margin = column + 2 if width - column - 2 >= NARROW else 4
    yield f"{'claim':<{column}}  {'standing':<9}  {'verdict':<9}  measured against predicted", {"bold": True}
    for name, finding in zip(names, selected, strict=True):
        claim = finding.claim
        head = f"{name:<{column}}  {claim.standing.value:<9}  {finding.verdict.value:<9}  "
        for line in _row(head, summary(finding, verbose), margin, width):
            yield line, COLOURS[finding.verdict]
        notes: dict[str, str] = {}
        if claim.standing is not Standing.HOLDS:
            notes["if" if claim.standing is Standing.HOLDS_IF else "but"] = claim.condition
            against = (r for r in finding.evidence if (r["role"], r["relation"]) == ("refutes", "not"))
            counter = next(against, None)
            if counter:
                inputs = ", ".join(f"{name}={value}" for name, value in counter["inputs"].items())
                notes["against the wording:"] = measurement(counter) + (f", for {inputs}" if inputs else "")
        if verbose:
            notes |= {"notes:": claim.says, "law:": claim.law}
        for word, text in notes.items():
            for line in textwrap.wrap(f"{word} {text}", max(width - margin, 40), subsequent_indent="  "):
                yield f"{'':<{margin}}{line}", {}
    yield (closing_benchmarks if benchmark_only else closing)(findings), {"bold": True}
    if all(finding.ran for finding in findings):
        yield wording(findings), {}


def _row(head: str, text: str, margin: int, width: int) -> Iterator[str]:
    """Yield a claim's line and, where that is too long, those that it goes on in; nothing is cut."""
    room = width - len(head)
    if len(text) > room and room < NARROW:
        yield head.rstrip()
        yield from (f"{'':<{margin}}{line}" for line in textwrap.wrap(text, max(width - margin, 40)))
        return
    first, *rest = textwrap.wrap(text, max(room, 40)) or [""]
    yield (head + first).rstrip()
    yield from (f"{'':<{len(head)}}{line}" for line in rest)


def summary(finding: Finding, verbose: bool) -> str:
    """Say the reason where a claim was not found to hold, and otherwise its most telling measurement."""
    if finding.verdict is not Verdict.HOLDS:
        reason, others, _ = finding.reason.partition(OTHERS)
        reason = finding.reason if verbose or not others else f"{reason} (-v names the others)"
        return reason.replace(f"[{finding.claim.id}] ", "")
    if not finding.evidence:
        return ""
    checks = sum(record["checks"] for record in finding.evidence)
    return f"{measurement(max(finding.evidence, key=_telling))}; {checks} checks"


def measurement(record: Json) -> str:
    """Say what a record that holds measured, over all its checks: shorter than a failure's sentence."""
    if record["relation"] == "true":
        return str(record["what"])
    unit = f" {record['unit']}" if record["unit"] else ""
    unit += " of a single cold run" if record["cold"] else ""
    what = f"{record['what']}: " if record["what"] else ""
    measured = _short(record["measured"])
    if record["relation"] == "raises":
        return f"{what}raised {measured}, as it has to"
    if record["relation"] == "exact":
        if len(set(record["extremes"])) == 2:
            measured = " to ".join(map(_short, record["extremes"]))
        return f"{what}{measured}{unit}, as predicted"
    predicted = _short(record["predicted"])
    if record["relation"] == "within":
        return f"{what}{measured} against {predicted}{unit} (within {_short(record['tolerance'])})"
    return f"{what}{measured}{unit}, {'not' if record['relation'] == 'not' else record['relation']} {predicted}"


def wording(findings: Sequence[Finding]) -> str:
    """Say in one line what was found about the notes' own sentences."""
    standings = Counter({finding.claim.id: finding.claim.standing for finding in findings}.values())
    told = {"hold as put": Standing.HOLDS, "under a condition": Standing.HOLDS_IF, "false as put": Standing.CORRECTED}
    return "the notes' sentences: " + ", ".join(f"{standings[standing]} {words}" for words, standing in told.items())


def closing(findings: Sequence[Finding]) -> str:
    """Count the verdicts in one line."""
    counts = Counter(f.verdict for f in findings if f.ran)
    parts = [f"{counts[verdict]} {'hold' if verdict is Verdict.HOLDS else verdict.value}" for verdict in Verdict]
    skipped = sum(not f.ran for f in findings)
    return ", ".join(parts) + (f"; {skipped} not run" if skipped else "")


def closing_benchmarks(findings: Sequence[Finding]) -> str:
    """Say in one line what the benchmarks alone amount to: most claims have other tests, which decide them."""
    ran = [finding for finding in findings if finding.ran]
    fail, ambiguous = (sum(f.verdict is verdict for f in ran) for verdict in (Verdict.FAILS, Verdict.AMBIGUOUS))
    return (
        f"the benchmarks of {len(ran)} claims: {fail} fail, {ambiguous} ambiguous; to check every claim, run pytest "
        "without --benchmark-only"
    )


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else show(value)


def _telling(record: Json) -> tuple[int, bool, bool]:
    """Rank a record: a deviation tells more than an equality, a number more than a word, and something than nothing."""
    rank = 0 if record["cold"] else {"not": 0, "raises": 0, "true": 1, "exact": 1}.get(record["relation"], 2)
    return rank, bool(record["extremes"]), record["measured"] != 0
