"""Every wrong implementation is caught by each claim it names; every unusual right one is accepted."""

import importlib
import pkgutil
import re
from collections import Counter

import pytest

import impl
from spec import claims
from tests.kit import overlay

overlay.load()
for module in pkgutil.iter_modules(impl.__path__):  # imported once, here, for all the forked children
    importlib.import_module(f"impl.{module.name}")

ENOUGH = 3  # mutants of a claim that impl takes part in; a claim about the platform alone has at least one


@pytest.mark.parametrize("wrong", overlay.MUTANTS, ids=lambda wrong: wrong.name)
def test_a_wrong_implementation_is_caught(wrong):
    """Each claim that the mutant names fails, with a message of its own."""
    for claim in wrong.claims:
        chosen = ("-m", f"claim(id={claim!r})", *overlay.modules_of(claim.split(".")[0]))
        ran = overlay.run(*chosen, overlay=wrong)
        assert ran.tests, ran.output
        if not any(test["outcome"] == "failed" for test in ran.tests):  # it may be a matter of time
            ran = overlay.run("--benchmark-enable", *chosen, overlay=wrong)
        if {test["outcome"] for test in ran.tests} == {"skipped"}:
            pytest.skip(f"{claim}: {ran.tests[0]['message']}")
        messages = [test["message"] for test in ran.tests if test["outcome"] == "failed"]
        assert messages, f"{claim} does not catch a mutant that {wrong.replacement.__doc__}\n{ran.output}"
        first = messages[0].splitlines()[0]
        assert first.startswith(f"[{claim}] "), ran.output
        assert " lacks " not in first, first
        assert "the contract is" not in first, first
        # What the implementation leaves changed or prints, and what it raises, needs no inputs to be understood.
        assert re.search(r"\w=\S|^\S+ \S+ (left|printed) | raises ", first), f"without the inputs: {first}"


@pytest.mark.parametrize("right", overlay.TWINS, ids=lambda right: right.name)
def test_an_unusual_right_implementation_is_accepted(right):
    """No claim of the chapter rejects it."""
    chapter = right.name.split(".")[0]
    ran = overlay.run(*overlay.modules_of(chapter), overlay=right)
    assert ran.tests, ran.output
    assert not [test["message"] for test in ran.tests if test["outcome"] not in ("passed", "skipped")], ran.output


def test_every_claim_has_its_mutants():
    """A claim that impl takes part in has at least three mutants, and any other at least one."""
    collected = overlay.run("--collect-only", "tests/claims", "tests/benchmarks")
    implemented = {claim for test in collected.tests if "impl" in test["fixtures"] for claim in test["claims"]}
    named = Counter(claim for wrong in overlay.MUTANTS for claim in wrong.claims)
    every = [claim.id for chapter in claims.load() for claim in chapter.claims]
    short = {claim: named[claim] for claim in every if named[claim] < (ENOUGH if claim in implemented else 1)}
    assert short == {}


def test_every_overlay_says_what_it_does():
    """Each has a docstring of its own, which the failure message quotes."""
    overlays = overlay.MUTANTS + overlay.TWINS
    assert [each.name for each in overlays if not each.replacement.__doc__] == []
    assert [name for name, count in Counter(each.name for each in overlays).items() if count > 1] == []
