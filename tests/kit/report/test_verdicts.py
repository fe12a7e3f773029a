"""What a run says of each claim: the closing table, the header, and the message of a failure."""

import shlex

import pytest
import torch

from tests.kit.project import BYTES, CONFTEST, DOUBLE, TEST_BYTES, TEST_DOUBLE, TESTS

pytest_plugins = ["pytester"]

HOLDS_IF = DOUBLE.replace("law=", 'standing=HOLDS_IF, condition="nothing is shared", law=')
AGAINST = "against the wording: 3 bytes, not 6"
CORRECTED = DOUBLE.replace("law=", 'standing=CORRECTED, condition="not where memory is shared", law=')
REFUTES = """
@refutes(storage.DOUBLE)
def test_shared(evidence):
    evidence.differs(3, 6, unit="bytes")
"""
WRONG = "\n\ndef tensor_bytes(elements, size=4):\n    return elements * size + (elements > 4)\n"
UNDECIDED = TEST_DOUBLE.replace("evidence.equal(", 'evidence.ambiguous("too noisy"); str(')


def table(ran):
    """Return the closing table's lines, with single spaces."""
    lines = iter(ran.printed.splitlines())
    next(line for line in lines if " claims " in line and line.startswith("==="))
    rows = []
    for line in lines:
        rows.append(" ".join(line.split()))
        if " ambiguous, " in line:
            break
    return rows


@pytest.mark.parametrize(
    ("claims", "tests", "rows"),
    [
        (
            [BYTES],
            [TEST_BYTES.replace("SIZES", "st.just(3)")],
            ["storage.bytes holds holds 9 bytes, as predicted; 1 checks"],
        ),
        (
            [HOLDS_IF],
            [TEST_DOUBLE, REFUTES],
            ["storage.double holds if holds 6 bytes, as predicted; 2 checks", "if nothing is shared", AGAINST],
        ),
        (
            [CORRECTED],
            [TEST_DOUBLE, REFUTES],
            [
                "storage.double corrected holds 6 bytes, as predicted; 2 checks",
                "but not where memory is shared",
                AGAINST,
            ],
        ),
        (
            [DOUBLE],
            [TEST_DOUBLE.replace("6,", "7,")],
            ["storage.double holds fails measured 6 bytes, predicted 7 bytes (exact)"],
        ),
        ([DOUBLE], [UNDECIDED], ["storage.double holds ambiguous too noisy"]),
        (
            [DOUBLE],
            [TEST_DOUBLE.replace("evidence.equal(", 'pytest.skip("this torch has no float8"); str(')],
            ["storage.double holds unchecked this torch has no float8"],
        ),
        ([DOUBLE], [TEST_DOUBLE, UNDECIDED.replace("test_d", "test_e")], ["storage.double holds ambiguous too noisy"]),
    ],
)  # fmt: skip
def test_the_table_says_what_became_of_a_claim(project, claims, tests, rows):
    """A row shows id, standing, verdict, and what was measured, or why the claim was not found to hold."""
    project.state(*claims)
    project.test(*tests)
    shown = table(project.run())
    assert shown[0] == "claim standing verdict measured against predicted"
    assert shown[1:-1] == rows


def test_the_worst_verdict_of_its_tests_is_the_claims(project):
    """Of a failed, an undecided, a skipped and a passed test the claim fails, and the closing line counts it once."""
    project.state(DOUBLE)
    names = ["test_double", "test_b", "test_c", "test_d"]
    skipped = TEST_DOUBLE.replace("evidence.equal(", 'pytest.skip("no float8"); str(')
    tests = [TEST_DOUBLE, UNDECIDED, skipped, TEST_DOUBLE.replace("6,", "7,")]
    project.test(*(test.replace("test_double", name) for name, test in zip(names, tests, strict=True)))
    shown = table(project.run())
    assert shown[1:] == [
        "storage.double holds fails measured 6 bytes, predicted 7 bytes (exact)",
        "0 hold, 1 fails, 0 ambiguous, 0 unchecked",
    ]


PARAMETRISED = TEST_DOUBLE.replace("def test_double(", "def test_many(n, ").replace(
    "@verifies(storage.DOUBLE)\n", '@verifies(storage.DOUBLE)\n@pytest.mark.parametrize("n", [1, 2])\n'
)


@pytest.mark.parametrize(
    ("selected", "missing"),
    [
        (["-k", "test_double"], "test_many[1], test_many[2]"),
        (["-k", "test_many"], "test_double"),
        (["tests/claims/test_storage.py::test_many[2]"], "test_double, test_many[1]"),
        (["--deselect", "tests/claims/test_storage.py::test_many[2]"], "test_many[2]"),
    ],
)
def test_a_claim_is_not_found_to_hold_by_part_of_its_tests(project, selected, missing):
    """A claim some of whose tests did not run, of one parameter even, is unchecked, and says which did not."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES, TEST_DOUBLE, PARAMETRISED)
    ran = project.run(*selected)
    count = 3 - len(missing.split(", "))
    expected = f"{count} of its 3 tests ran, all passed; not run: {missing}"
    assert (ran.status, ran.verdicts()["storage.double"]) == (0, "unchecked")
    assert ran.reason("storage.double") == expected


def test_part_of_its_tests_may_make_a_claim_fail(project):
    """One failed test is enough, whatever else did not run."""
    project.test(TEST_BYTES, TEST_BYTES.replace("test_bytes", "test_more"))
    project.student(WRONG)
    assert project.run("--spec-impl=mine", "-k", "test_more").verdicts() == {"storage.bytes": "fails"}


def test_claims_that_were_not_selected_are_counted_only(project):
    """The table shows the claims that ran, and how many others there are."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES, TEST_DOUBLE)
    shown = table(project.run("-m", "claim(id='storage.double')"))
    assert shown[1].startswith("storage.double ")
    assert shown[-1] == "1 hold, 0 fails, 0 ambiguous, 0 unchecked; 1 not run"


def test_verbose_adds_what_the_notes_say_and_the_law(project):
    """With -v each claim's statement and law stand below it."""
    shown = table(project.run("-v"))
    assert shown[2:4] == ["notes: A tensor takes elements × size bytes.", "law: bytes = elements × size"]


def test_the_header_says_what_is_checked_on_what(project):
    """A run opens with the implementation, the profile, torch, the devices and the settings."""
    project.student()
    ran = project.run("--spec-impl=mine", "--hypothesis-profile=quick")
    assert ran.line("implementation: ") == "implementation: mine; profile: quick"
    assert ran.line(f"torch {torch.__version__} on cpu (")
    assert ran.line("settings: ").startswith("settings: default dtype float32, float32 matmul precision highest, ")


def test_a_failure_says_everything_in_four_lines(project):
    """Measured against predicted for the smallest inputs, what the notes say, the law, and the command to rerun it."""
    project.student(WRONG)
    ran = project.run("--spec-impl=mine", "--hypothesis-profile=thorough")
    lines = ran.out.splitlines()
    start = lines.index("[storage.bytes] measured 6 bytes, predicted 5 bytes (exact) for elements=5, size=1")
    assert lines[start + 1 : start + 4] == [
        "  notes: A tensor takes elements × size bytes. (§2.2)",
        "  law:   bytes = elements × size",
        "  rerun: pytest tests/claims/test_storage.py::test_bytes --spec-impl=mine --hypothesis-profile=thorough",
    ]
    assert "Traceback" not in ran.printed
    assert ran.line("FAILED ").startswith("FAILED tests/claims/test_storage.py::test_bytes - [storage.bytes] mea")


PICKY = """
@verifies(storage.BYTES)
@pytest.mark.parametrize("unit", ["it's $HOME", "a b"])
@given(elements=SIZES)
def test_units(impl, evidence, elements, unit):
    evidence.equal(impl.storage.tensor_bytes(elements, 1), elements, unit="bytes")
"""


@pytest.mark.parametrize("arguments", [[], ["--hypothesis-seed=3"], ["--hypothesis-profile=ci", "--spec-device=cpu"]])
def test_the_rerun_line_fails_again_in_the_same_way(project, arguments):
    """The command runs just the test that failed, whatever its parameters, and finds the same inputs wrong."""
    project.student(WRONG)
    project.test(TEST_BYTES, PICKY)
    ran = project.run("--spec-impl=mine", *arguments)
    failures = [line for line in ran.out.splitlines() if line.startswith("[storage.bytes] ")]
    reruns = [line.strip() for line in ran.out.splitlines() if line.startswith("  rerun: ")]
    assert (len(failures), len(reruns)) == (3, 3)
    for failure, command in zip(failures, reruns, strict=True):
        again = project.run(*shlex.split(command)[2:])
        assert "1 failed in" in again.out
        assert [line for line in again.out.splitlines() if line.startswith("[storage.bytes] ")] == [failure]


def test_a_test_of_two_claims_counts_for_both(project):
    """A test that is tied to several claims tells each of them, and a failure leads with the first."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_DOUBLE.replace("verifies(storage.DOUBLE)", "verifies(storage.BYTES, storage.DOUBLE)"))
    project.student("def double(n):\n    return n\n")
    ran = project.run("--spec-impl=mine")
    assert ran.verdicts() == {"storage.bytes": "fails", "storage.double": "fails"}
    assert ran.line("[storage.").startswith("[storage.bytes] measured 3 bytes, predicted 6 bytes (exact)")


def test_a_whole_run_says_what_became_of_the_wording(project):
    """The last line of the table counts the standings of all claims; a part of them has no such line."""
    project.state(BYTES, CORRECTED)
    project.test(TEST_BYTES, TEST_DOUBLE, REFUTES)
    told = "the notes' sentences: 1 hold as put, 0 under a condition, 1 false as put"
    assert project.run().line("the notes' sentences: ") == told
    assert project.run("-k", "test_bytes").line("the notes' sentences: ") == ""


@pytest.mark.parametrize(
    "selected", [("-m", "claim(standing='corrected')"), ("-k", "storage.double")], ids=["standing", "keyword"]
)
def test_claims_are_selected_by_standing_and_by_name(project, selected):
    """The sentences that are false as put are one selection; -k knows a claim by its id."""
    project.state(BYTES, CORRECTED)
    project.test(TEST_BYTES, TEST_DOUBLE, REFUTES)
    assert project.run(*selected).verdicts() == {"storage.bytes": "unchecked", "storage.double": "holds"}


def test_a_long_reason_to_fail_is_told_whole(project, monkeypatch):
    """What does not fit beside the claim stands below it."""
    monkeypatch.setenv("COLUMNS", "80")
    project.student("def tensor_bytes(elements):\n    return elements * 4\n")
    told = " ".join(table(project.run("--spec-impl=mine")))
    assert "fails mine.storage.tensor_bytes takes (elements): the contract is (elements, size=4)" in told


def test_a_claim_is_not_found_to_hold_without_its_benchmarks(project):
    """The tests of the other room's file of the same name count as not run where only one of them is named."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES, TEST_DOUBLE)
    project.write("tests/benchmarks/test_storage.py", TESTS + TEST_DOUBLE.replace("test_double", "test_fast"))
    whole, part = project.run(), project.run("tests/claims/test_storage.py")
    assert whole.verdicts() == {"storage.bytes": "holds", "storage.double": "holds"}
    assert part.verdicts() == {"storage.bytes": "holds", "storage.double": "unchecked"}
    missing = "1 of its 2 tests ran, all passed; not run: test_fast"
    assert part.reason("storage.double") == missing


LONG = """
@verifies(storage.DOUBLE)
@pytest.mark.parametrize("words", ["a rather long input that goes on for more than the column that is left for it"])
def test_double(impl, evidence, words):
    evidence.{}(words, words, unit="as what was said of a tensor that is one of several")

@refutes(storage.DOUBLE)
def test_shared(evidence):
    evidence.differs(3, 6, unit="bytes of a tensor that shares its storage with a number of other tensors in a list")
"""


@pytest.mark.parametrize("columns", [40, 80, 100, 120, 200])
@pytest.mark.parametrize("relation", ["equal", "differs"])
def test_nothing_of_the_table_is_cut(project, monkeypatch, columns, relation):
    """At any width each row goes on below, and no line is longer than the terminal is wide."""
    monkeypatch.setenv("COLUMNS", str(columns))
    project.state(HOLDS_IF.replace('"double"', '"double-with-a-long-name"'))
    project.test(LONG.format(relation))
    ran = project.run("-p", "no:cacheprovider")
    lines = ran.out[ran.out.index(" claims ") :].splitlines()[1:]
    rows = lines[1 : next(index for index, line in enumerate(lines) if " ambiguous, " in line)]
    told = " ".join(" ".join(rows).split())
    assert "as what was said of a tensor that is one of several" in told
    assert "a number of other tensors in a list, not 6" in told
    assert "…" not in told
    assert all(len(row) <= max(columns, 60) for row in rows)


def test_a_rerun_line_works_from_another_folder(project, monkeypatch):
    """A student starts pytest beside their package: the command that reruns a failure is pasted there."""
    project.write("home work/theirs/storage.py", WRONG)
    monkeypatch.chdir("home work")
    ran = project.run("../tests/claims", "--spec-impl=theirs", "--spec-report=../report")
    command = ran.line("rerun: ").removeprefix("rerun: ")
    assert command == "pytest ../tests/claims/test_storage.py::test_bytes --spec-impl=theirs"
    again = project.run(*shlex.split(command)[1:], "--spec-report=../report")
    assert "1 failed in" in again.out
    assert again.reason("storage.bytes") == ran.reason("storage.bytes")


REPEATS = """
import pytest

@pytest.fixture
def __pytest_repeat_step_number(request):
    return request.param

@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc):
    metafunc.fixturenames.append("__pytest_repeat_step_number")
    metafunc.parametrize("__pytest_repeat_step_number", range(2), indirect=True)
"""


PLAIN = """
@verifies(storage.BYTES)
@pytest.mark.parametrize("elements", [3])
def test_plain(impl, evidence, elements):
    evidence.equal(impl.storage.tensor_bytes(elements, 1), elements, unit="bytes")
"""


def test_what_another_plugin_adds_is_no_input(project):
    """pytest-repeat gives every test a parameter for its step: the messages name the test's own arguments alone."""
    project.write("conftest.py", f"{CONFTEST}\n{REPEATS}")
    project.test(TEST_BYTES, PLAIN)
    project.student("def tensor_bytes(elements, size=4):\n    return elements * size + 1\n")
    ran = project.run("--spec-impl=mine")
    assert "measured 4 bytes, predicted 3 bytes (exact) for elements=3;" in f"{ran.reason('storage.bytes')};"
    assert "step_number" not in str(ran.claims)
