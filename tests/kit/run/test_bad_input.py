"""What a user may get wrong on the command line: one line, exit status 4, no traceback."""

import os

import pytest

from tests.kit.project import IMPL

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--spec-impl=nowhere"], "--spec-impl=nowhere: no such package on the import path; "),
        (["--spec-impl=my-package"], "--spec-impl=my-package: not a package name; "),
        (["--spec-impl=mine/"], "--spec-impl=mine/: not a package name; "),
        (["--spec-impl="], "--spec-impl=: not a package name; "),
        (["--spec-impl=conftest"], "--spec-impl=conftest: a single module; "),
        (["--spec-impl=impl.storage"], "--spec-impl=impl.storage: a single module; "),
        (["--spec-impl=impl.nowhere"], "--spec-impl=impl.nowhere: no such package on the import path; "),
        (["--spec-device=toaster"], "--spec-device=toaster: no such kind of device; this machine has cpu"),
        (["--spec-device=meta"], "--spec-device=meta: not on this machine, which has cpu"),
        (["--spec-device=cuda:99"], "--spec-device=cuda:99: not on this machine, which has cpu"),
        (["--spec-device=cpu:x"], "--spec-device=cpu:x: no such kind of device; this machine has cpu"),
        (["--spec-device="], "--spec-device=: no such kind of device; this machine has cpu"),
        (
            ["--hypothesis-profile=slow"],
            "--hypothesis-profile=slow: no such profile; there are quick, default, thorough, ci",
        ),
        (["--hypothesis-profile="], "--hypothesis-profile=: no such profile; there are quick, default, thorough, ci"),
        (["-m", "claim(id='storage.byte')"], "-m: no claim has the id 'storage.byte'; did you mean 'storage.bytes'?"),
        (["-m", "claim(id='zebra')"], "-m: no claim has the id 'zebra'"),
        (["-m", "not claim(id = '')"], "-m: no claim has the id ''"),
        (
            ["-m", "claim(standing='wrong')"],
            "-m: no claim has the standing 'wrong': there are 'holds', 'holds if', 'corrected'",
        ),
        (["-m", "claim( role = 'x')"], "-m: no claim has the role 'x': there are 'verifies', 'refutes'"),
        (
            ["-m", "not claim(id='storage.bytes', chapter='storage')"],
            "-m: claim(…) has no 'chapter': there are id, role, standing; -k selects by a part of the id",
        ),
        (["--spec-report="], "--spec-report=: names no folder; "),
        (["-n", "2", "--spec-impl=nowhere"], "--spec-impl=nowhere: no such package on the import path; "),
    ],
)
def test_an_unknown_name_is_refused(project, arguments, line):
    """One line says which name, and what there is instead; nothing runs."""
    refused = project.run(*arguments)
    assert refused.stops_with(line)
    assert refused.printed.strip() == refused.errors()[0]


def test_every_fault_is_told_at_once(project):
    """Three mistakes on one command line make three lines."""
    refused = project.run("--spec-impl=nowhere", "--spec-device=toaster", "--hypothesis-profile=slow")
    assert refused.status == 4
    assert len(refused.errors()) == 3


@pytest.fixture
def obstacles(project):
    """Put in the way of a report what no permission is needed to trip over."""
    project.write("a_file", "")
    os.symlink("/nowhere/at/all", "dangling")
    os.symlink("circle", "circle")
    os.makedirs("taken/claims.json")
    os.makedirs("junit_taken/junit.xml")
    return project


@pytest.mark.parametrize(
    "folder",
    [
        "a_file",
        "a_file/below",
        "dangling",
        "circle",
        "circle/below",
        "taken",
        "junit_taken",
        "/proc/nowhere",
        "x" * 300,
    ],
)
@pytest.mark.skipif(not os.path.isdir("/proc"), reason="no /proc here")
def test_a_report_folder_that_cannot_be_written_is_refused(obstacles, folder):
    """One line says which folder and why; nothing runs, and what was in the way is left there."""
    refused = obstacles.run(f"--spec-report={folder}")
    assert refused.stops_with(f"--spec-report={os.path.join(obstacles.path, folder)}: ")
    assert refused.printed.strip() == refused.errors()[0]
    assert os.path.islink("dangling")
    assert os.path.isdir("taken/claims.json")


def test_a_report_folder_is_made(project):
    """A folder that is not there yet is made, with those above it."""
    ran = project.run("--spec-report=a/b/c")
    assert ran.status == 0
    assert sorted(os.listdir("a/b/c")) == ["claims.json", "junit.xml"]


def test_old_links_in_a_report_folder_are_replaced(project):
    """Reports that are broken links are written anew, and not where the links point."""
    os.makedirs("report")
    for name in ("claims.json", "junit.xml"):
        os.symlink("/nowhere/at/all", f"report/{name}")
    assert project.run().status == 0
    assert not any(os.path.islink(f"report/{name}") for name in os.listdir("report"))


def test_a_refused_run_leaves_the_last_report(project):
    """A mistyped name does not cost the report of the run before."""
    project.run()
    before = project.report()
    assert project.run("--spec-impl=nowhere").status == 4
    assert project.report() == before
    assert os.path.isfile("report/junit.xml")


@pytest.mark.parametrize("package", ["homework.mine", "homework.deep.er"])
def test_a_package_may_lie_in_another(project, package):
    """Any importable package will do: one below another, with or without __init__.py."""
    project.write(f"{package.replace('.', '/')}/storage.py", IMPL)
    assert project.run(f"--spec-impl={package}").verdicts() == {"storage.bytes": "holds"}


def test_a_package_is_found_where_pytest_is_started(project, monkeypatch):
    """A student may keep a package in a folder of its own, and start pytest there."""
    project.write("homework/theirs/storage.py", IMPL)
    monkeypatch.chdir("homework")
    ran = project.run("-c", "../pytest.ini", "../tests/claims", "--spec-impl=theirs", "--spec-report=../report")
    assert ran.verdicts() == {"storage.bytes": "holds"}


@pytest.mark.parametrize("option", ["--spec-impl=impl", "--spec-impl=impl.inner"])
def test_a_package_that_another_hides_is_refused(project, monkeypatch, option):
    """A student's package called impl is not what would be imported: the reference's verdicts are not theirs."""
    for folder in ("homework/impl", "homework/impl/inner", "impl/inner"):
        project.write(f"{folder}/storage.py", IMPL)
    monkeypatch.chdir("homework")
    refused = project.run("../tests/claims", option, "--spec-report=../report")
    told = f"{option}: {project.path}/impl comes before the one in this folder, which needs another name"
    assert refused.stops_with(told)
    assert project.run("../tests/claims", "--spec-report=../report").status == 0


def test_a_package_is_no_test(project):
    """`pytest mine` finds no test: a line says how to check a package."""
    project.student()
    ran = project.run("mine")
    assert (ran.status, ran.line("no test is there; ")[-23:]) == (5, "pytest --spec-impl=mine")
    assert project.run("-m", "gpu").line("no test is there") == ""


def test_finding_a_package_runs_none_of_it(project):
    """A name is looked up without importing: what a package does then counts against its claims, not the run."""
    project.write("homework/__init__.py", "raise SystemExit")
    project.write("homework/mine/__init__.py", "")
    project.write("homework/mine/storage.py", "")
    ran = project.run("--spec-impl=homework.mine")
    assert (ran.status, ran.verdicts()) == (1, {"storage.bytes": "fails"})
    assert ran.reason("storage.bytes") == "[storage.bytes] homework.mine calls sys.exit(None) when it is imported"


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("storages", "storages; did you mean 'storage'?"),
        ("homework", "there are storage"),
    ],
)
def test_a_package_without_a_module_to_judge_is_refused(project, module, line):
    """Under another name nothing would be found, and everything unchecked: the names are told, a near one first."""
    project.write("mine/__init__.py", "")
    project.write(f"mine/{module}.py", IMPL)
    ran = project.run("--spec-impl=mine")
    told = "--spec-impl=mine: has no module under the name of one of the reference's: "
    assert (ran.status, ran.errors(told)) == (4, [f"ERROR: {told}{line}"])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-p", "no:benchmark"], "the claims about speed need pytest-benchmark: leave out -p no:benchmark"),
        (
            ["-p", "no:hypothesispytest"],
            "the claims are tried on examples from hypothesis, by its pytest plugin: leave out -p no:hypothesispytest",
        ),
        (["-p", "no:skipping"], "what cannot be checked here is skipped: leave out -p no:skipping"),
        (["-n", "2", "--benchmark-only"], "--benchmark-only times one thing after the other: leave out -n"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_refused(project, arguments, line):
    """One line says what to leave out."""
    if "-n" in arguments:
        pytest.importorskip("xdist")
    ran = project.run_apart(*arguments)
    assert (ran.status, ran.errors(line)) == (4, [f"ERROR: {line}"])


def test_without_its_plugins_the_kit_says_so(project):
    """Where pytest is told to load none by itself, a line for each plugin that is missing names the variable."""
    ran = project.run_apart(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert ran.status == 4
    assert [line.rpartition("leave out ")[2] for line in ran.errors()] == [
        "-p no:benchmark and PYTEST_DISABLE_PLUGIN_AUTOLOAD",
        "-p no:hypothesispytest and PYTEST_DISABLE_PLUGIN_AUTOLOAD",
    ]


def test_without_pytests_xml_the_report_is_the_rest(project):
    """-p no:junitxml leaves claims.json, and the line at the end names no other file."""
    ran = project.run_apart("-p", "no:junitxml")
    assert (ran.status, ran.verdicts()) == (0, {"storage.bytes": "holds"})
    assert ran.line("report: ") == f"report: {project.path}/report/claims.json"


@pytest.mark.parametrize(
    ("word", "hint"), [("storge", "; did you mean 'storage'?"), ("zebra", ""), ("zebra and storage", "")]
)
def test_a_keyword_that_selects_nothing_is_told(project, word, hint):
    """A mistyped -k runs no test: a line says what it is looked for in, and which name is near."""
    ran = project.run("-k", word)
    told = f"-k {word!r} selects nothing: it is looked for in tests' names and claims' ids, as flops.matmul{hint}"
    assert (ran.status, ran.line("-k ")) == (5, told)
