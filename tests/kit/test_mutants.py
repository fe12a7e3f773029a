"""Every wrong implementation is caught by each claim it names; every unusual right one is accepted."""

import importlib
import pkgutil
import re
from collections import Counter
from contextlib import closing

import pytest

import impl
from spec import claims
from tests.kit import children, overlay

overlay.load()
for module in pkgutil.iter_modules(impl.__path__):  # imported once, here, for all the forked children
    importlib.import_module(f"impl.{module.name}")

ENOUGH = 3  # mutants of a claim that impl takes part in; a claim about the platform alone has at least one


@pytest.fixture(scope="module", autouse=True)
def _children():
    yield
    children.close()


@pytest.mark.parametrize("wrong", overlay.MUTANTS, ids=lambda wrong: wrong.name)
def test_a_wrong_implementation_is_caught(wrong):
    """Each claim that the mutant names fails, with a message of its own."""
    ran = children.judge(wrong, wrong.claims)
    for claim in wrong.claims:
        if not ran.messages("failed", claim):  # it may be a matter of what is made at import, or of time
            ran = children.judge_from_the_start(wrong, [claim], children.TIMED)
        if ran.outcomes(claim) == {"skipped"}:
            pytest.skip(f"{claim}: {ran.messages('skipped', claim)[0]}")
        messages = ran.messages("failed", claim)
        assert messages, f"{claim} does not catch a mutant that {wrong.replacement.__doc__}\n{ran.output}"
        first = messages[0].splitlines()[0]
        assert first.startswith(f"[{claim}] "), first
        assert " lacks " not in first, first
        assert "the contract is" not in first, first
        # What the implementation leaves changed or prints, and what it raises, needs no inputs to be understood.
        assert re.search(r"\w=\S|^\S+ \S+ (left|printed) | raises ", first), f"without the inputs: {first}"


@pytest.mark.parametrize("right", overlay.TWINS, ids=lambda right: right.name)
def test_an_unusual_right_implementation_is_accepted(right):
    """No claim of the chapter rejects it."""
    ran = children.judge(right) if right.target.startswith("impl.") else children.judge_from_the_start(right)
    assert ran.outcomes() <= {"passed", "skipped"}, "\n".join([*ran.messages("failed"), ran.output])
    assert "passed" in ran.outcomes(), ran.output


def test_every_claim_has_its_mutants():
    """A claim that impl takes part in has at least three mutants, and any other at least one."""
    with closing(children.Collected("--collect-only", "tests/claims", "tests/benchmarks")) as every_test:
        collected = every_test.judge(children.Job())
    implemented = {claim for test in collected.tests if "spec_impl" in test["fixtures"] for claim in test["claims"]}
    named = Counter(claim for wrong in overlay.MUTANTS for claim in wrong.claims)
    every = [claim.id for chapter in claims.load() for claim in chapter.claims]
    short = {claim: named[claim] for claim in every if named[claim] < (ENOUGH if claim in implemented else 1)}
    assert short == {}


def test_every_overlay_says_what_it_does():
    """Each has a docstring of its own, which the failure message quotes."""
    overlays = overlay.MUTANTS + overlay.TWINS
    assert [each.name for each in overlays if not each.replacement.__doc__] == []
    assert [name for name, count in Counter(each.name for each in overlays).items() if count > 1] == []
