"""What is checked before any test runs: that every claim has its tests, and every test its claim."""

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from spec.claim import Chapter, Standing, arguments

ROLES = ("verifies", "refutes")
ROOMS = {("tests", "claims"), ("tests", "benchmarks")}


def claims_of(item: pytest.Item) -> list[tuple[str, str]]:
    """Return (claim id, role) for each claim a test is tied to, outermost decorator first."""
    marks = reversed(list(item.iter_markers("claim")))  # pytest keeps them in the order they were applied
    pairs = [(str(mark.kwargs.get("id")), mark.kwargs.get("role")) for mark in marks]
    return list(dict.fromkeys((claim, role) for claim, role in pairs if role in ROLES))  # others use the name as well


def arguments_of(item: pytest.Item) -> list[str]:
    """Return the names of all that a test is given, by pytest and by its fixtures, as a test knows them."""
    return arguments(getattr(item, "fixturenames", ()))


def device_kinds(names: Sequence[str], accelerators: Sequence[torch.device]) -> list[str]:
    """Return the kinds of device ("cpu", "accelerator") that a test with these fixtures runs on.

    A benchmark is timed on the accelerator, or else on the CPU.
    """
    if "accelerator" in names:
        return ["accelerator"]
    if "device" not in names:
        return ["cpu"]
    if "benchmark" in names:
        return ["accelerator"] if accelerators else ["cpu"]
    return ["cpu", "accelerator"]


def problems(items: Sequence[pytest.Item], chapters: Sequence[Chapter], whole: bool) -> Iterator[str]:
    """Yield one line for each test without a claim and, in a `whole` suite, each claim without a test."""
    claims = {claim.id: claim for chapter in chapters for claim in chapter.claims}
    roles: dict[str, set[str]] = {claim: set() for claim in claims}
    for item in items:
        ties = claims_of(item)
        room = item.path.relative_to(item.config.rootpath).parts[:2] if _below(item) else ()
        if room in ROOMS and not ties:
            yield f"{item.nodeid} is tied to no claim: decorate it with @verifies(CLAIM) or @refutes(CLAIM)"
        for claim, role in ties:
            if claim not in claims:
                yield f"{item.nodeid} is tied to {claim!r}, which no chapter states{suggestion(claim, list(claims))}"
            else:
                roles[claim].add(role)
    for claim_id, found in roles.items() if whole else ():
        if "verifies" not in found:
            yield f"claim {claim_id} has no test: write one under tests/claims and decorate it with @verifies"
        if claims[claim_id].standing is not Standing.HOLDS and "refutes" not in found:
            standing = claims[claim_id].standing.value
            yield f"claim {claim_id} is {standing!r} but no @refutes test shows where the notes' wording fails"


def left_out(files: Iterable[Path], root: Path) -> Iterator[tuple[str, str]]:
    """Yield (claim id, test) for the tests of files that were not collected: other rooms' under the names of these."""
    collected = set(files)
    for path in {root.joinpath(*room, file.name) for room in ROOMS for file in collected} - collected:
        for test in ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else ():
            if isinstance(test, ast.FunctionDef):
                name = f"{path.relative_to(root).as_posix()}::{test.name}"
                yield from ((claim, name) for tie in test.decorator_list for claim in _tied(tie))


def _tied(decorator: ast.expr) -> Iterator[str]:
    """Yield the id of each claim that a decorator names by its constant, such as flops.MATMUL_DOMINATES."""
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in ("verifies", "refutes"):
        yield from (ast.unparse(claim).lower().replace("_", "-") for claim in decorator.args)


def in_the_notes_order(items: Sequence[pytest.Item], chapters: Sequence[Chapter]) -> list[pytest.Item]:
    """Return the tests chapter by chapter, each folder's for itself; else in the order they were found in."""
    place = {claim.id: place for place, chapter in enumerate(chapters) for claim in chapter.claims}
    folders = list(dict.fromkeys(item.path.parent for item in items))

    def key(item: pytest.Item) -> tuple[int, int]:
        ties = claims_of(item)
        return folders.index(item.path.parent), place.get(ties[0][0], -1) if ties else -1

    return sorted(items, key=key)


def unknown_marks(markexpr: str, chapters: Sequence[Chapter]) -> Iterator[str]:
    """Yield one line for each part of a -m expression's claim(…) that no test can have, with what there is instead."""
    ids = [claim.id for chapter in chapters for claim in chapter.claims]
    known = {"id": ids, "role": ["verifies", "refutes"], "standing": [standing.value for standing in Standing]}
    for given in re.findall(r"\bclaim\s*\(([^)]*)\)", markexpr):
        for name, value in re.findall(r"""(\w+)\s*=\s*['"]([^'"]*)['"]""", given):
            if name not in known:
                yield f"-m: claim(…) has no {name!r}: there are {', '.join(known)}; -k selects by a part of the id"
            elif name == "id" and value not in ids:
                yield f"-m: no claim has the id {value!r}{suggestion(value, ids)}"
            elif value not in known[name]:
                yield f"-m: no claim has the {name} {value!r}: there are {', '.join(map(repr, known[name]))}"


def unmatched(keyword: str, markexpr: str, chapters: Sequence[Chapter]) -> str:
    """Return what to say where no test was selected; nothing where a marker's expression may be the reason."""
    names = [name for chapter in chapters for name in (chapter.name, *(claim.id for claim in chapter.claims))]
    if keyword:
        hint = suggestion(keyword, names)
        return (
            f"-k {keyword!r} selects nothing: it is looked for in tests' names and claims' ids, as flops.matmul{hint}"
        )
    return "" if markexpr else "no test is there; to check a package of your own, name it: pytest --spec-impl=mine"


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return "; did you mean …?" where a known name is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _below(item: pytest.Item) -> bool:
    return item.path.is_relative_to(item.config.rootpath)
