"""What stops a run before any test: a claim without its tests, a test without its claim, a faulty claim."""

import importlib

import pytest

from spec import claims
from tests.kit.project import BYTES, DOUBLE, TEST_BYTES, TEST_DOUBLE

pytest_plugins = ["pytester"]

LOOSE = """
def test_loose():
    \"\"\"No claim.\"\"\"
"""
CORRECTED = BYTES.replace("law=", 'standing=CORRECTED, condition="not for views", law=')
TIED_TO_NOTHING = TEST_BYTES.replace("storage.BYTES", 'storage.Claim("storage", "byte", "2.2", "x", "y")')


@pytest.mark.parametrize(
    ("claims", "line"),
    [
        ([BYTES, BYTES.replace("takes", "has")], "duplicate claim id 'storage.bytes': ids are unique and never change"),
        ([BYTES.replace('"bytes"', '"Bytes"')], "malformed claim id 'storage.Bytes': "),
        (
            [BYTES, BYTES.replace('"bytes"', '"more"')],
            "claims storage.bytes and storage.more make the same statement: ",
        ),
        (
            [BYTES.replace("takes", "should take")],
            'claim storage.bytes has a statement that says "should": say what is',
        ),
        ([CORRECTED], "claim storage.bytes is 'corrected' but no @refutes test shows where the notes' wording fails"),
        ([CORRECTED.replace("CORRECTED", "HOLDS_IF")], "claim storage.bytes is 'holds if' but no @refutes test shows "),
        (
            [BYTES, DOUBLE],
            "claim storage.double has no test: write one under tests/claims and decorate it with @verifies",
        ),
        (["x = = 1"], "the claims cannot be read: SyntaxError: invalid syntax (storage.py, line "),
        (["import nowhere"], "the claims cannot be read: ModuleNotFoundError: No module named 'nowhere'"),
        (["del chapter"], "the claims cannot be read: AttributeError: module 'myclaims.storage' has no attribute "),
    ],
)
def test_a_faulty_claim_stops_the_run(project, claims, line):
    """One line says what is wrong, and nothing runs."""
    project.state(*claims)
    refused = project.run()
    assert refused.stops_with(line)


@pytest.mark.parametrize(
    ("room", "tests", "line"),
    [
        (
            "claims",
            LOOSE,
            "tests/claims/test_other.py::test_loose is tied to no claim: decorate it with @verifies(CLAIM)",
        ),
        ("benchmarks", LOOSE, "tests/benchmarks/test_other.py::test_loose is tied to no claim: decorate it with "),
        (
            "claims",
            TIED_TO_NOTHING,
            "is tied to 'storage.byte', which no chapter states; did you mean 'storage.bytes'?",
        ),
    ],
)
def test_a_faulty_test_stops_the_run(project, room, tests, line):
    """One line says what is wrong with it, whether all is run or only its file."""
    project.other_test(tests, room)
    assert project.run().stops_with(line)
    assert project.run(f"tests/{room}/test_other.py").stops_with(line)


def test_every_fault_is_told(project):
    """Two things wrong make two lines."""
    project.state(BYTES, DOUBLE)
    project.other_test(LOOSE)
    refused = project.run()
    assert refused.status == 4
    assert len(refused.errors()) == 2


def test_xdist_tells_the_same(project):
    """What the workers find wrong is told once, in one line, and not as a crash."""
    project.state(BYTES, DOUBLE)
    assert project.run("-n", "2").stops_with("claim storage.double has no test: ")


def test_only_the_rooms_of_claims_ask_for_one(project):
    """A test elsewhere, such as one of the kit's own, needs no claim."""
    project.other_test(LOOSE, room="kit")
    assert project.run("tests/kit").status == 0


@pytest.mark.parametrize(
    "narrowed",
    [
        ["tests/claims/test_storage.py"],
        ["tests/claims/test_storage.py::test_bytes"],
        ["tests/claims"],
        ["-k", "bytes"],
        ["-m", "claim(id='storage.bytes')"],
        ["--ignore=tests/benchmarks"],
    ],
)
def test_part_of_the_suite_need_not_be_whole(project, narrowed):
    """A claim without a test is no obstacle to running one file, one test, or what a keyword or marker selects."""
    project.state(BYTES, DOUBLE)
    ran = project.run(*narrowed)
    assert (ran.status, ran.verdicts()["storage.bytes"]) == (0, "holds")


def test_a_test_module_that_does_not_import_is_told_as_usual(project):
    """pytest says which module and why; the claims that its tests might have had are not reported missing."""
    project.state(BYTES, DOUBLE)
    project.other_test("import nowhere")
    ran = project.run()
    assert ran.status == 2
    assert "No module named 'nowhere'" in ran.printed
    assert not ran.errors("claim ")


def test_to_refute_a_claim_is_not_to_verify_it(project):
    """A claim whose only test shows where the wording fails still lacks the one that shows the law."""
    project.state(CORRECTED)
    project.test(TEST_BYTES.replace("verifies", "refutes"))
    assert project.run().stops_with("claim storage.bytes has no test: ")


def test_a_refuted_claim_is_in_order(project):
    """A CORRECTED claim with both kinds of test runs."""
    project.state(CORRECTED)
    project.test(TEST_BYTES, TEST_DOUBLE.replace("verifies(storage.DOUBLE)", "refutes(storage.BYTES)"))
    assert project.run().verdicts() == {"storage.bytes": "holds"}


def test_one_claim_runs_alone(project):
    """-m "claim(id=…)" runs exactly the tests that are tied to the claim."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES, TEST_DOUBLE)
    ran = project.run("-m", "claim(id='storage.double')", "-v")
    assert "test_storage.py::test_double PASSED" in ran.printed
    assert "1 passed, 1 deselected" in ran.printed
    assert ran.verdicts() == {"storage.bytes": "unchecked", "storage.double": "holds"}


def test_a_claims_constant_is_its_id_in_capitals():
    """By which the tests of a file that is not collected are tied to it without importing them."""
    for chapter in claims.load():
        names = vars(importlib.import_module(f"spec.claims.{chapter.name}"))
        named = {f"{chapter.name}.{name}".lower().replace("_", "-"): value for name, value in names.items()}
        assert all(named.get(claim.id) is claim for claim in chapter.claims)
