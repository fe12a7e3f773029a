"""The files a run leaves: valid against the schema, and the same under xdist."""

import copy
import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from spec.report import files
from tests.kit.project import BYTES, DOUBLE, TEST_BYTES, TEST_DOUBLE

pytest_plugins = ["pytester"]
jsonschema = pytest.importorskip("jsonschema")

SCHEMA = json.loads(files.SCHEMA.read_text(encoding="utf-8"))

CORRECTED = DOUBLE.replace("law=", 'standing=CORRECTED, condition="not always", source="a paper", law=')
EVERYTHING = """
FLOOR = chapter.claim("floor", says="One is small.", law="1 ≤ 2", section="2.2.1")
ODD = chapter.claim("odd", says="Odd values are shown.", law="a report carries them all")
QUIET = chapter.claim("quiet", says="Noise is rare.", law="no noise")
TENSORS = chapter.claim("tensors", says="Tensors are shown.", law="by their kind")
"""
TEST_EVERYTHING = """
@refutes(storage.DOUBLE)
def test_refutes(evidence):
    evidence.differs(3, 6, unit="bytes")

@verifies(storage.FLOOR)
@given(value=st.floats(0, 1))
def test_floor(evidence, value):
    evidence.at_most(value, 2, unit="units")
    evidence.at_least(value, float("-inf"), unit="units")
    evidence.close(value, value, tolerance=0.5, unit="units")
    evidence.series("curve", range(2), [value, float("inf")], unit="units", along="steps")

@verifies(storage.ODD)
def test_odd(evidence):
    for value in (float("nan"), float("inf"), 10**400, True, None, "ü\\n", 1j, b"x", torch.float8_e5m2):
        evidence.equal(value, value, unit=type(value).__name__)
    evidence.raises(ValueError, lambda: int("\\ud800"), text="\\ud800")

@verifies(storage.QUIET)
def test_quiet(evidence):
    evidence.true(1 < 2, "1 is less than 2")
    evidence.ambiguous("noise of 30%")

@verifies(storage.TENSORS)
def test_tensors(evidence):
    evidence.equal(torch.ones(2, 3), torch.ones(3, 2), unit="element")
"""


@pytest.fixture
def whole(project):
    """Give a project in which every verdict, standing and relation occurs."""
    project.state(BYTES, CORRECTED, EVERYTHING)
    project.test(TEST_BYTES, TEST_DOUBLE, TEST_EVERYTHING)
    project.student("def double(n):\n    return 2 * n\n")
    return project


VERDICTS = {
    "storage.bytes": "fails",
    "storage.double": "holds",
    "storage.floor": "holds",
    "storage.odd": "holds",
    "storage.quiet": "ambiguous",
    "storage.tensors": "fails",
}


def validate(report):
    """Fail where a report does not keep to the schema."""
    jsonschema.Draft202012Validator(SCHEMA).validate(report)


def test_the_schema_is_a_schema():
    """It keeps to the draft of JSON Schema that it names."""
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_report_keeps_to_the_schema(whole):
    """A run with every verdict and relation, and values that JSON has no word for, leaves a valid, complete report."""
    ran = whole.run("--spec-impl=mine")
    validate(whole.report())
    assert whole.report()["complete"] is True
    assert ran.verdicts() == VERDICTS
    relations = {record["relation"] for row in ran.claims.values() for record in row["evidence"]}
    assert relations == {"exact", "within", "at most", "at least", "not", "true", "raises"}


def test_a_row_says_what_is_claimed_and_what_was_found(whole):
    """Each row repeats the claim in full, and carries the evidence with its test."""
    row = whole.run("--spec-impl=mine").claims["storage.double"]
    assert {name: row[name] for name in row if name not in ("evidence", "series")} == {
        "id": "storage.double",
        "section": "2.2",
        "statement": "Twice as many take twice as much.",
        "law": "double(n) = 2·n",
        "standing": "corrected",
        "condition": "not always",
        "source": "a paper",
        "device": "cpu",
        "verdict": "holds",
        "reason": "",
        "ran": True,
    }
    assert [(record["test"].split("::")[1], record["relation"]) for record in row["evidence"]] == [
        ("test_double", "exact"),
        ("test_refutes", "not"),
    ]
    assert row["series"] == []


def test_a_row_keeps_what_its_tests_drew(whole):
    """A series comes with its test, and with as many xs as ys."""
    (curve,) = whole.run("--spec-impl=mine").claims["storage.floor"]["series"]
    assert curve["test"].endswith("::test_floor")
    assert curve["xs"] == [0, 1]
    assert curve["ys"][1] == "inf"
    assert {name: curve[name] for name in ("name", "unit", "along")} == {
        "name": "curve",
        "unit": "units",
        "along": "steps",
    }


def drop(report, *path):
    """Delete what the path leads to."""
    *path, last = path
    for step in path:
        report = report[step]
    del report[last]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda report: drop(report, "complete"),
        lambda report: drop(report, "environment", "torch"),
        lambda report: drop(report, "environment", "devices", "cpu"),
        lambda report: drop(report, "claims", 0, "verdict"),
        lambda report: drop(report, "claims", 1, "evidence", 0, "checks"),
        lambda report: report.update(more=1),
        lambda report: report["environment"].update(hostname="here"),
        lambda report: report["claims"][0].update(more=1),
        lambda report: report["claims"][0].update(verdict="maybe"),
        lambda report: report["claims"][0].update(standing="so-so"),
        lambda report: report["claims"][0].update(id="Storage.bytes"),
        lambda report: report["claims"][0].update(reason=""),
        lambda report: report["claims"][1].update(reason="it holds"),
        lambda report: report["claims"][1].update(condition=""),
        lambda report: report["claims"][1].update(device=""),
        lambda report: report["claims"][1]["evidence"][0].update(holds=False),
        lambda report: report["claims"][1]["evidence"][0].update(extremes=[1, 2, 3]),
        lambda report: report["claims"][1]["evidence"][0].update(measured=[1]),
        lambda report: report["claims"][1]["evidence"][0].update(relation="about"),
        lambda report: report["claims"][2]["series"][0].update(xs=list(range(201))),
        lambda report: drop(report, "claims", 2, "series", 0, "unit"),
    ],
)
def test_the_schema_is_strict(whole, spoil):
    """A report that lacks something, has more, or contradicts itself is not valid."""
    whole.run("--spec-impl=mine")
    spoiled = copy.deepcopy(whole.report())
    spoil(spoiled)
    with pytest.raises(jsonschema.ValidationError):
        validate(spoiled)


def test_two_processes_find_the_same(whole):
    """-n 2 leaves the same verdicts, reasons and evidence as one process."""
    arguments = ("--spec-impl=mine", "--hypothesis-profile=ci")
    alone = whole.run(*arguments)
    assert alone.verdicts() == VERDICTS
    shared = whole.run(*arguments, "-n", "2")
    assert (shared.status, shared.claims) == (alone.status, alone.claims)
    validate(whole.report())


def test_a_worker_that_dies_fails_its_claim(project):
    """Where an implementation ends one of xdist's workers, its claim fails, and the others are checked."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES, TEST_DOUBLE)
    project.student(
        "import os\n\n\ndef tensor_bytes(elements, size=4):\n    os._exit(3)\n\n\ndef double(n):\n    return 2 * n\n"
    )
    ran = project.run("-n", "1", "--spec-impl=mine")
    assert (ran.status, ran.verdicts()) == (1, {"storage.bytes": "fails", "storage.double": "holds"})
    validate(project.report())


def test_junit_carries_the_evidence(whole):
    """Each test case of junit.xml has its claims, its device and its records among its properties."""
    whole.run("--spec-impl=mine")
    cases = {case.get("name"): case for case in ElementTree.parse("report/junit.xml").iter("testcase")}
    told = {name: {p.get("name"): p.get("value") for p in case.iter("property")} for name, case in cases.items()}
    assert told["test_double"]["spec_claims"] == "storage.double"
    assert told["test_double"]["spec_device"] == "cpu"
    text = Path("report/junit.xml").read_text()
    assert "hostname" not in text
    assert str(whole.path) not in text
    (record,) = json.loads(told["test_double"]["spec_evidence"])
    assert (record["measured"], record["predicted"], record["unit"], record["holds"]) == (6, 6, "bytes", True)
    failure = cases["test_tensors"].find("failure").get("message")
    message = "[storage.tensors] measured 2×3 float32 tensor element, predicted 3×2 float32 tensor element (exact)"
    assert failure == f"{message}; transposed?"


def test_without_asserts_a_wrong_implementation_still_fails(whole):
    """python -O strips asserts, and the claims do not depend on them."""
    ran = whole.run_apart("--spec-impl=mine", flags=("-O",))
    assert (ran.status, ran.verdicts()) == (1, VERDICTS)


def test_half_a_character_is_no_obstacle(project):
    """An error's text that UTF-8 cannot carry is reported as JSON escapes it."""
    project.student("def tensor_bytes(elements, size=4):\n    raise ValueError('\\ud800')\n")
    ran = project.run("--spec-impl=mine")
    assert "raises ValueError: \ud800 for" in ran.reason("storage.bytes")
    assert ran.status == 1


def test_nothing_is_left_beside_the_reports(project):
    """The folder holds the two files, and no scratch."""
    project.run()
    assert sorted(os.listdir("report")) == ["claims.json", "junit.xml"]
