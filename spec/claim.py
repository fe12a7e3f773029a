"""The claims of the notes: one object for each statement, and the decorators that tie a test to a claim."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])

# What a test gets from the kit under these names. pytest knows them with the prefix, so that no other plugin's fixture
# or parameter of the same name takes their place, nor they that of another's.
PREFIX = "spec_"
ARGUMENTS = {"impl", "evidence", "fresh", "timed", "meter", "device", "accelerator"}


class Standing(Enum):
    """What this project found about the notes' own wording."""

    HOLDS = "holds"
    HOLDS_IF = "holds if"
    CORRECTED = "corrected"


HOLDS, HOLDS_IF, CORRECTED = Standing


@dataclass(frozen=True)
class Claim:
    """One statement of the notes, the law that the tests assert, and our finding about the wording.

    `condition` is what the notes leave out (HOLDS_IF) or get wrong (CORRECTED).
    """

    chapter: str
    name: str
    section: str
    says: str
    law: str
    standing: Standing = HOLDS
    condition: str = ""
    source: str = ""

    @property
    def id(self) -> str:
        return f"{self.chapter}.{self.name}"


class Chapter:
    """The claims of one chapter of the notes, in the order they are written."""

    def __init__(self, name: str, *, section: str, title: str) -> None:
        self.name = name
        self.section = section
        self.title = title
        self.claims: list[Claim] = []

    def claim(
        self,
        name: str,
        *,
        says: str,
        law: str,
        section: str = "",
        standing: Standing = HOLDS,
        condition: str = "",
        source: str = "",
    ) -> Claim:
        """State a claim; `section` is the chapter's unless it is given."""
        claim = Claim(self.name, name, section or self.section, says, law, standing, condition, source)
        self.claims.append(claim)
        return claim


def verifies(*claims: Claim) -> Callable[[Test], Test]:
    """Mark a test which shows that the law of each claim holds."""
    return _ties("verifies", claims)


def refutes(*claims: Claim) -> Callable[[Test], Test]:
    """Mark a test which shows an input on which the notes' literal wording fails."""
    return _ties("refutes", claims)


def _ties(role: str, claims: Sequence[Claim]) -> Callable[[Test], Test]:
    def tie(test: Test) -> Test:
        for claim in reversed(claims):
            test = pytest.mark.claim(id=claim.id, role=role, standing=claim.standing.value)(test)
        return _prefixed(test)

    return tie


def _prefixed(test: Test) -> Test:
    """Return a test that pytest gives the kit's arguments under their prefixed names; called by hand, it takes both."""
    signature = inspect.signature(test)
    if not ARGUMENTS.intersection(signature.parameters):
        return test

    @functools.wraps(test)
    def prefixed(*args: Any, **kwargs: Any) -> object:
        return test(*args, **{plain(name): value for name, value in kwargs.items()})

    known = {name: PREFIX + name if name in ARGUMENTS else name for name in signature.parameters}
    renamed = [parameter.replace(name=known[name]) for name, parameter in signature.parameters.items()]
    prefixed.__signature__ = signature.replace(parameters=renamed)  # type: ignore[attr-defined]
    return prefixed  # type: ignore[return-value]


def plain(name: str) -> str:
    """Return the name under which a test knows one of pytest's arguments."""
    bare = name.removeprefix(PREFIX)
    return bare if bare in ARGUMENTS else name


def arguments(names: Iterable[str]) -> list[str]:
    """Return the names of pytest's arguments as a test knows them, without those of others that are like the kit's."""
    return [plain(name) for name in names if name not in ARGUMENTS]


def problems(chapters: Sequence[Chapter]) -> Iterator[str]:
    """Yield one line for each thing that is wrong with the claims themselves."""
    ids: set[str] = set()
    statements: dict[str, str] = {}
    for claim in (claim for chapter in chapters for claim in chapter.claims):
        if not re.fullmatch(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*", claim.id):
            yield f"malformed claim id {claim.id!r}: write chapter.name in lower case, words joined by hyphens"
        if claim.id in ids:
            yield f"duplicate claim id {claim.id!r}: ids are unique and never change"
        ids.add(claim.id)
        for field, text in (("statement", claim.says), ("law", claim.law)):
            if not text.strip():
                yield f"claim {claim.id} has an empty {field}"
            if re.search(r"\bshould\b", text, re.IGNORECASE):
                yield f'claim {claim.id} has a {field} that says "should": say what is'
        same = statements.setdefault(claim.says.strip().casefold(), claim.id)
        if same != claim.id:
            yield f"claims {same} and {claim.id} make the same statement: {claim.says}"
        if claim.standing is not HOLDS and not claim.condition:
            yield f"claim {claim.id} is {claim.standing.value!r} but gives no condition"
