"""What a person is shown of a failed test: the message, the law, the command that reruns it; each message once."""

import copy
import inspect
import os
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from spec.claim import Claim
from spec.evidence import EvidenceError
from spec.implementation import contract
from spec.report import properties


def rerun(item: pytest.Item) -> str:
    """Return the command that runs just this test in the same way, from the folder in which pytest was started."""
    option = item.config.option
    words = ["pytest", shlex.quote(_from_here(item))]
    if option.spec_impl != contract.REFERENCE:
        words.append(f"--spec-impl={option.spec_impl}")
    for name, value in (("profile", option.hypothesis_profile), ("seed", option.hypothesis_seed)):
        if value is not None:
            words.append(f"--hypothesis-{name}={value}")
    if option.spec_device:
        words.append(f"--spec-device={option.spec_device}")
    words += [f"--spec-promised={shlex.quote(given)}" for given in option.spec_promised]
    return " ".join(words)


def _from_here(item: pytest.Item) -> str:
    """Return the test's id with its path as seen from the folder in which pytest was started."""
    here = item.config.invocation_params.dir
    path, *names = item.nodeid.split("::")
    return "::".join([os.path.relpath(item.config.rootpath / path, here), *names])


class Crash(NamedTuple):
    """Where and why, for pytest's short summary."""

    path: str
    lineno: int
    message: str


class Message:
    """A failure as a student reads it: the message, the notes' sentence and the law, without the kit's traceback."""

    def __init__(self, text: str, crash: Crash) -> None:
        self.text = text
        self.reprcrash = crash

    def __str__(self) -> str:
        return self.text

    def toterminal(self, out: Any) -> None:
        head, *rest = self.text.split("\n")
        out.line(head, red=True, bold=True)
        for line in rest:
            out.line(line)


def explain(
    report: pytest.TestReport, raised: pytest.ExceptionInfo[BaseException], item: pytest.Item, claim: Claim
) -> None:
    """Replace the traceback of a failed measurement by its message; add the command to rerun any other failure."""
    if not isinstance(raised.value, EvidenceError):
        report.sections.append(("rerun", rerun(item)))
        return
    head, *rest = str(raised.value).split("\n")
    lines = [head, f"  notes: {claim.says} (§{claim.section})", f"  law:   {claim.law}"]
    if doc := inspect.getdoc(getattr(item, "function", None)):
        lines.append(f"  test:  {doc.splitlines()[0]}")
    path, line, _ = item.location
    report.longrepr = Message("\n".join(lines + rest), Crash(path, line or 0, head))  # type: ignore[assignment]


def group_by_message(failed: Sequence[pytest.TestReport]) -> list[pytest.TestReport]:
    """Merge failures with the same text, such as that of a missing function, into the first of them."""
    alike: dict[str, list[pytest.TestReport]] = {}
    for report in failed:
        head = str(report.longrepr).split("\n", 1)[0]
        text = head.partition("] ")[2] if "claims" in properties.of(report) and head.startswith("[") else ""
        alike.setdefault(text or report.nodeid, []).append(report)
    return [_merged(first, rest) if rest else first for first, *rest in alike.values()]


def _merged(first: pytest.TestReport, rest: Sequence[pytest.TestReport]) -> pytest.TestReport:
    claims = dict.fromkeys(claim for report in rest for claim in properties.of(report)["claims"].split())
    head, *lines = str(first.longrepr).split("\n")
    path, line, _ = first.location
    merged = copy.copy(first)
    also = f"  also:  {len(rest)} more tests, of {', '.join(claims)}"
    merged.longrepr = Message("\n".join([head, also, *lines]), Crash(path, line or 0, head))  # type: ignore[assignment]
    return merged
