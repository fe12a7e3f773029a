"""From the tests' outcomes to one verdict per claim and device."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from spec.claim import Chapter, Claim
from spec.messages.sentences import Json

OTHERS = "; not run: "  # where the names of a claim's other tests begin
ABSENT = "accelerator"  # the device of a test that needs one where there is none


class Verdict(Enum):
    """What a run says of a claim. Only HOLDS is good news, and only FAILS is a failed test."""

    HOLDS = "holds"
    FAILS = "fails"
    AMBIGUOUS = "ambiguous"
    UNCHECKED = "unchecked"


@dataclass
class Outcome:
    """What became of one test on one device."""

    test: str
    claims: tuple[str, ...]
    device: str
    verdict: Verdict
    reason: str = ""
    evidence: list[Json] = field(default_factory=list)
    series: list[Json] = field(default_factory=list)
    expected: dict[str, list[str]] = field(default_factory=dict)  # by claim, its tests on this device, run or not


@dataclass
class Finding:
    """The verdict on one claim on one device, with the evidence for it."""

    claim: Claim
    device: str
    verdict: Verdict
    reason: str
    evidence: list[Json]
    series: list[Json] = field(default_factory=list)
    ran: bool = True

    def json(self) -> Json:
        """Return this row of the report as plain JSON values."""
        claim = self.claim
        return {
            "id": claim.id,
            "section": claim.section,
            "statement": claim.says,
            "law": claim.law,
            "standing": claim.standing.value,
            "condition": claim.condition,
            "source": claim.source,
            "device": self.device,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "ran": self.ran,
            "evidence": self.evidence,
            "series": self.series,
        }


def findings(chapters: Sequence[Chapter], outcomes: Iterable[Outcome]) -> Iterator[Finding]:
    """Yield a finding per claim and device, in the notes' order; a claim no test of which ran is unchecked."""
    by_claim: dict[str, dict[str, list[Outcome]]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: outcome.test):  # they arrive in any order from xdist
        for claim_id in outcome.claims:
            by_claim.setdefault(claim_id, {}).setdefault(outcome.device, []).append(outcome)
    for claim in (claim for chapter in chapters for claim in chapter.claims):
        devices = by_claim.get(claim.id)
        if not devices:
            yield Finding(claim, "", Verdict.UNCHECKED, "none of its tests ran", [], ran=False)
            continue
        # The accelerator that is not there matters only to a claim that needs one.
        present = sorted(devices.keys() - {ABSENT}, key=lambda name: (name != "cpu", name))
        for device in present or [ABSENT]:
            yield _judge(claim, device, devices[device])


def _judge(claim: Claim, device: str, outcomes: list[Outcome]) -> Finding:
    every = list(dict.fromkeys(test for o in outcomes for test in o.expected.get(claim.id, [])))
    outcomes = sorted(outcomes, key=lambda o: every.index(o.test) if o.test in every else -1)  # as they are written
    worst = (Verdict.FAILS, Verdict.AMBIGUOUS, Verdict.UNCHECKED, Verdict.HOLDS)
    verdict = next(v for v in worst if any(o.verdict is v for o in outcomes))
    reasons = dict.fromkeys(o.reason for o in outcomes if o.verdict is verdict and o.reason)
    evidence = [record | {"test": o.test} for o in outcomes for record in o.evidence]
    series = [{"test": o.test} | curve for o in outcomes for curve in o.series]
    if verdict is Verdict.HOLDS:
        ran = {o.test for o in outcomes}
        if missing := [test.split("::", 1)[-1] for test in sorted({*every} - ran)]:
            verdict = Verdict.UNCHECKED
            told = f"{len(ran)} of its {len(ran | {*every})} tests ran, all passed{OTHERS}{', '.join(missing)}"
            reasons = {told: None}
    return Finding(claim, device, verdict, "; ".join(reasons), evidence, series)
