"""Reports of real accelerators, kept under reports/: each still fits today's claims, or it is said what changed."""

import copy
import warnings
from pathlib import Path

import pytest

from spec import claims
from spec.claim import HOLDS_IF, Chapter
from spec.report import receipts
from tests.kit.project import BYTES, DOUBLE, TEST_BYTES, TEST_DOUBLE

pytest_plugins = ["pytester"]

KEPT = sorted((Path(__file__).parents[3] / "reports").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_report_fits_todays_claims(path):
    """What it measured agrees with every claim that is still the same; the others are named."""
    report, chapters = receipts.read(path), claims.load()
    for line in receipts.changed(report, chapters):
        warnings.warn(f"{path.name}: {line}", stacklevel=1)
    assert list(receipts.misfits(report, chapters)) == []
    assert set(report["environment"]["devices"]) - {"cpu"}, "it is of a CPU alone"


@pytest.fixture
def report(project):
    """Give the report of a small project whose claims hold."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES, TEST_DOUBLE)
    assert project.run().status == 0
    return receipts.read(project.path / "report" / "claims.json")


@pytest.fixture
def chapter():
    """Give what that project claims."""
    storage = Chapter("storage", section="2.2", title="Storage")
    storage.claim("bytes", says="A tensor takes elements × size bytes.", law="bytes = elements × size")
    storage.claim("double", says="Twice as many take twice as much.", law="double(n) = 2·n")
    return storage


def other(claims, **changes):
    """Return a chapter with these laws."""
    storage = Chapter("storage", section="2.2", title="Storage")
    for name, law in claims.items():
        storage.claim(name, says=f"Something about {name}.", law=law, **changes)
    return storage


def test_an_unchanged_report_fits(report, chapter):
    """Nothing changed, and nothing speaks against a claim."""
    assert list(receipts.changed(report, [chapter])) == []
    assert list(receipts.misfits(report, [chapter])) == []


def test_changes_are_named(report):
    """A claim with another law, one that is gone and one that is new."""
    today = other({"bytes": "bytes = elements × size + 1", "triple": "triple(n) = 3·n"})
    assert list(receipts.changed(report, [today])) == [
        "storage.bytes has another law now",
        "storage.double is no longer claimed",
        "storage.triple is new since",
    ]


def test_a_finding_about_the_wording_is_part_of_the_claim(report):
    """One with another standing, or another condition, is not what the report is about."""
    laws = {"bytes": "bytes = elements × size", "double": "double(n) = 2·n"}
    for changes, parts in (({"standing": HOLDS_IF}, "standing"), ({"condition": "n is even"}, "condition")):
        expected = [f"storage.{name} has another {parts} now" for name in laws]
        assert list(receipts.changed(report, [other(laws, **changes)])) == expected


def test_a_failure_is_a_misfit_until_the_law_changes(report, chapter):
    """A device that a claim fails on speaks against the claim as it stood, and not against another law."""
    row = report["claims"][0]
    row |= {"verdict": "fails", "reason": "measured 3 bytes"}
    assert list(receipts.misfits(report, [chapter])) == ["storage.bytes fails on cpu: measured 3 bytes"]
    today = other({"bytes": "bytes = 3", "double": "double(n) = 2·n"})
    assert list(receipts.misfits(report, [today])) == []


@pytest.mark.parametrize(
    ("relation", "measured", "predicted", "tolerance"),
    [
        ("exact", 3, 4, None),
        ("exact", "[1.0] (1 float32 tensor)", "[2.0] (1 float32 tensor)", None),
        ("exact", True, 1, None),
        ("not", "2×3 int64 tensor", "2×3 int64 tensor", None),
        ("not", 3, 3, None),
        ("at most", 5, 4, None),
        ("at least", 3.5, 4, None),
        ("within", 3, 4, 0.5),
    ],
)
def test_numbers_that_break_their_relation_are_misfits(report, chapter, relation, measured, predicted, tolerance):
    """A record that was changed by hand does not pass for a measurement."""
    evidence = report["claims"][0]["evidence"]
    evidence.append(record := dict(evidence[0]))
    record |= {"relation": relation, "measured": predicted, "predicted": predicted, "tolerance": tolerance}
    record["extremes"] = []
    if relation == "not":
        record["measured"] = "another"
    right = copy.deepcopy(report)
    record["measured"] = measured
    assert list(receipts.misfits(right, [chapter])) == []
    (line,) = receipts.misfits(report, [chapter])
    assert line.startswith(f"storage.bytes is said to hold on cpu, but measured {measured}")


@pytest.mark.parametrize(
    ("changes", "ending"),
    [
        ({"holds": False}, "measured 6 bytes, predicted 6 bytes (exact)"),
        ({"measured": 7, "predicted": 7}, "measured 7 bytes, predicted 7 bytes (exact)"),  # the extremes are 6 and 6
    ],
)
def test_a_record_that_contradicts_itself_is_a_misfit(report, chapter, changes, ending):
    """A claim that holds has no record that does not, and what it measured lies between its extremes."""
    report["claims"][1]["evidence"][0] |= changes
    (line,) = receipts.misfits(report, [chapter])
    assert line == f"storage.double is said to hold on cpu, but {ending}"


def test_text_that_was_cut_off_is_believed(report, chapter):
    """Two long texts may differ after what is shown of them."""
    record = report["claims"][0]["evidence"][0]
    record |= {"relation": "not", "measured": "x" * 9 + "…", "predicted": "x" * 9 + "…"}
    assert list(receipts.misfits(report, [chapter])) == []


def test_an_unfinished_report_is_a_misfit(report, chapter):
    """It says nothing of the tests that did not run."""
    report["complete"] = False
    assert list(receipts.misfits(report, [chapter])) == ["the run was not complete"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"environment": {}, "complete": true, "claims": [3]}', "\xff"])
def test_what_is_no_report_is_refused(tmp_path, text):
    """One line names the file and says what to do."""
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(receipts.ReportError, match=r"x\.json: not a report: write one with pytest --spec-report=DIR"):
        receipts.read(path)
    with pytest.raises(receipts.ReportError, match=r"nowhere: cannot be read: No such file"):
        receipts.read(tmp_path / "nowhere")
