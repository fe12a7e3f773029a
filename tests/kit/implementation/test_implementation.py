"""What an implementation may do and still be judged fairly, and what it may not do."""

import pytest
import torch

from tests.kit.project import BYTES, DOUBLE, IMPL, TEST_BYTES, TEST_DOUBLE

pytest_plugins = ["pytester"]

PRELUDE = "import functools, os, random, sys\nimport numpy\nimport torch\n"
DOUBLES = "\ndef double(n):\n    return 2 * n\n"


@pytest.fixture
def project(project):
    """Give a project with one claim for each function, so that one can fail and the other hold."""
    project.state(BYTES, DOUBLE)
    project.test(TEST_BYTES, TEST_DOUBLE)
    return project


def state():
    """Return torch's global state, as comparable values."""
    return [
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_num_threads(),
        torch.get_deterministic_debug_mode(),
        torch.get_float32_matmul_precision(),
        torch.backends.fp32_precision,
        torch.get_rng_state().tolist(),
    ]


def calling(statement, result="elements * size"):
    """Return a module whose tensor_bytes runs a statement at each call."""
    return f"{PRELUDE}\ndef tensor_bytes(elements, size=4):\n    {statement}\n    return {result}\n{DOUBLES}"


MISBEHAVIOUR = {
    "print('hello')": "printed 'hello' to standard output: return values, do not print",
    "torch.set_grad_enabled(False)": "left torch's grad mode changed from True to False",
    "torch.set_default_dtype(torch.float64)": "left torch's default dtype changed from torch.float32 to torch.float64",
    "torch.set_default_device('meta')": "left torch's default device changed from cpu to meta",
    "torch.set_num_threads(torch.get_num_threads() + 1)": "left torch's number of threads changed from ",
    "torch.set_deterministic_debug_mode('error')": "left torch's deterministic mode changed from default to error",
    "torch.set_float32_matmul_precision('high')": "left torch's float32 matmul precision changed from highest to high",
    "torch.backends.fp32_precision = 'tf32'": "left torch's float32 precision changed from none to tf32",
    "torch.manual_seed(0)": "left torch's random state changed: draw from a generator of your own",
    "torch.rand(1)": "left torch's random state changed: draw from a generator of your own",
    "torch.autocast('cpu').__enter__()": "left torch's autocast on the CPU changed from False to True",
    "torch.set_flush_denormal(True)": "left torch's flushing of denormal numbers changed from False to True",
    "os.chdir('/')": "left the working folder changed from ",
}
# Around an example hypothesis puts these streams back itself.
OUTSIDE_EXAMPLES = {
    "numpy.random.rand()": "left NumPy's random state changed: draw from a generator of your own",
    "random.random()": "left Python's random state changed: draw from a generator of your own",
}


@pytest.mark.parametrize(("statement", "does"), MISBEHAVIOUR.items())
def test_a_call_that_misbehaves_fails_its_claim_alone(project, statement, does):
    """The claim's line says what the call did; other claims hold, and torch's state is put back."""
    before = state()
    project.student(calling(statement))
    ran = project.run("--spec-impl=mine")
    assert (ran.status, ran.verdicts()) == (1, {"storage.bytes": "fails", "storage.double": "holds"})
    assert ran.reason("storage.bytes").startswith(f"[storage.bytes] mine {does}")
    assert "Traceback" not in ran.printed
    assert state() == before


@pytest.mark.parametrize(("statement", "does"), (MISBEHAVIOUR | OUTSIDE_EXAMPLES).items())
def test_an_import_that_misbehaves_fails_the_claims_of_its_chapter(project, statement, does):
    """Every claim of the chapter says what its import did; torch's state is put back."""
    before = state()
    project.student(f"{PRELUDE}\n{statement}\n{IMPL}")
    ran = project.run("--spec-impl=mine")
    assert (ran.status, set(ran.verdicts().values())) == (1, {"fails"})
    for claim in ("storage.bytes", "storage.double"):
        assert ran.reason(claim).startswith(f"[{claim}] mine.storage, when it is imported, {does}")
    assert state() == before


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("raise ValueError('two\\nlines')", "cannot be imported: it raises ValueError: two lines"),
        ("import nowhere", "cannot be imported: No module named 'nowhere'"),
        (
            "from mine import nowhere",
            "cannot be imported: it raises ImportError: cannot import name 'nowhere' from 'mine'",
        ),
        ("x = = 1", "cannot be imported: it raises SyntaxError: invalid syntax (storage.py, line "),
        ("sys.exit(3)", "calls sys.exit(3) when it is imported"),
        ("class Odd(BaseException): pass\nraise Odd('x')", "cannot be imported: it raises Odd: x"),
    ],
)
def test_an_import_that_ends_early_fails_the_claims_of_its_chapter(project, statement, line):
    """Every claim of the chapter says in one line how the import ended; claims of other chapters are checked."""
    project.write("myclaims/floats.py", (project.path / "myclaims/storage.py").read_text().replace("storage", "floats"))
    project.state(BYTES.replace("takes", "needs"), DOUBLE.replace("Twice", "Two times"))
    text = (project.path / "tests/claims/test_storage.py").read_text()
    project.write("tests/claims/test_floats.py", text.replace("storage", "floats"))
    project.write("mine/floats.py", IMPL)
    project.student(f"{PRELUDE}\n{statement}\n{IMPL}")
    ran = project.run("--spec-impl=mine")
    assert ran.verdicts() == {
        "floats.bytes": "holds",
        "floats.double": "holds",
        "storage.bytes": "fails",
        "storage.double": "fails",
    }
    assert ran.reason("storage.double").startswith(f"[storage.double] mine.storage {line}")
    assert "Traceback" not in ran.printed


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("print('hi')", "mine, when it is imported, printed 'hi' to standard output"),
        ("1 / 0", "mine cannot be imported: it raises ZeroDivisionError: division by zero"),
        ("import mine.nowhere", "mine cannot be imported: No module named 'mine.nowhere'"),
        ("import mine.storage, mine.memory", "mine cannot be imported: No module named 'mine.memory'"),
    ],
)
def test_what_the_package_does_counts_against_every_chapter(project, statement, line):
    """A package whose own import misbehaves fails the claims of all its chapters, whichever is tested first."""
    project.student(init=statement)
    ran = project.run("--spec-impl=mine")
    for claim in ("storage.bytes", "storage.double"):
        assert ran.reason(claim).startswith(f"[{claim}] {line}")


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("sys.exit('bye')", "calls sys.exit('bye')"),
        ("exit()", "calls sys.exit(None)"),
        ("return tensor_bytes(elements, size)", "raises RecursionError: "),
        ("return elements + 'a'", "raises TypeError: unsupported operand type(s) for +: "),
        ("raise ValueError('two\\nlines')", "raises ValueError: two lines for elements=1, size=1"),
        ("class Odd(BaseException): pass\n    raise Odd('x')", "raises Odd: x for elements=1, size=1"),
        ("raise NotImplementedError if elements > 99 else KeyError(3)", "raises KeyError: 3 for elements=1, size=1"),
        ("return torch.empty(2) @ torch.empty(3)", "raises RuntimeError: "),
        ("return numpy.zeros(2) @ numpy.zeros(3)", "raises ValueError: "),
    ],
)
def test_a_call_that_ends_badly_fails_its_claim_alone(project, statement, line):
    """The claim's line says which function ended how, for which inputs; other claims hold."""
    project.student(calling(statement))
    ran = project.run("--spec-impl=mine")
    assert (ran.status, ran.verdicts()) == (1, {"storage.bytes": "fails", "storage.double": "holds"})
    assert ran.reason("storage.bytes").startswith(f"[storage.bytes] mine.storage.tensor_bytes {line}")


def test_an_error_shows_the_implementations_own_frames(project):
    """Below the line are the frames of the student's functions, by file and line, and none of the kit's or torch's."""
    project.student(
        f"{PRELUDE}\n"
        "class Sizes:\n    def total(self, elements):\n        return torch.empty(2) @ torch.empty(elements + 2)\n\n"
        f"def tensor_bytes(elements, size=4):\n    return Sizes().total(elements)\n{DOUBLES}"
    )
    ran = project.run("--spec-impl=mine")
    frames = [line.strip() for line in ran.printed.splitlines() if line.strip().startswith("File ")]
    assert frames == [
        f'File "{project.path}/mine/storage.py", line 10, in tensor_bytes',
        f'File "{project.path}/mine/storage.py", line 7, in total',
    ]
    assert ran.line("return ") == "return Sizes().total(elements)"


def test_an_answer_that_comes_and_goes_is_told_in_one_line(project):
    """An implementation that is wrong only once fails, and the line says that it was right for the same inputs."""
    project.student(calling("CALLS.append(1)", "elements * size + (len(CALLS) == 3)") + "\nCALLS = []\n")
    ran = project.run("--spec-impl=mine")
    assert ran.verdicts()["storage.bytes"] == "fails"
    assert ran.reason("storage.bytes").endswith("; the same inputs gave another result when tried again")
    assert "Traceback" not in ran.printed


ODD = """
class Odd:
    def __eq__(self, other): {body}
    def __bool__(self): {body}
    __len__ = __iter__ = __hash__ = None
"""
UNJUDGED = """
import numpy as np
@verifies(storage.DOUBLE)
def test_double(impl, evidence):
    for size in (3, 4):
        answer = impl.storage.double(size)
        {statement}
        evidence.equal(size, size)
"""


@pytest.mark.parametrize(
    ("answer", "statement", "error"),
    [
        ("numpy.zeros(2)", "np.zeros(3) @ answer", "ValueError: matmul: "),
        ("torch.zeros(2)", "torch.zeros(3) @ answer", "RuntimeError: "),
        ("torch.zeros(2)", "bool(answer)", "RuntimeError: Boolean value of Tensor"),
        ("None", "len(answer)", "TypeError: object of type 'NoneType' has no len()"),
        ("None", "answer.shape", "AttributeError: 'NoneType' object has no attribute 'shape'"),
        ("{}", "answer['x']", "KeyError: 'x'"),
        ("()", "a, b = answer", "ValueError: not enough values to unpack"),
        ("0", "1 / answer", "ZeroDivisionError: division by zero"),
        ("0", "assert answer", "AssertionError"),
        ("Odd()", "list(answer)", "TypeError: 'Odd' object is not iterable"),
        ("0", "raise ExceptionGroup('two', [KeyError(answer), ValueError()])", "KeyError: 0"),
        ("0", "import warnings; warnings.warn('old', DeprecationWarning)", "DeprecationWarning: old"),
    ],
)
def test_what_a_test_stumbles_over_is_one_line(project, answer, statement, error):
    """The line says what happened, with what the test ran on, and below it stands where; no traceback of the kit's."""
    project.test(TEST_BYTES, UNJUDGED.format(statement=statement))
    project.student(PRELUDE + ODD.format(body="return True") + IMPL.replace("return 2 * n", f"return {answer}"))
    ran = project.run("--spec-impl=mine", "-Werror")
    assert ran.verdicts() == {"storage.bytes": "holds", "storage.double": "fails"}
    reason = ran.reason("storage.double")
    assert reason.startswith(f"[storage.double] what mine returned cannot be judged: {error}")
    assert "size=3" in reason
    assert "Traceback" not in ran.printed
    assert statement.split(";")[-1].strip() in ran.printed


@pytest.mark.parametrize("body", ["raise ValueError('no')", "raise KeyError('no')", "1 / 0"])
def test_an_answer_that_cannot_be_compared_is_one_line(project, body):
    """An object whose own equality raises is not what was predicted, whatever it raises."""
    project.student(PRELUDE + ODD.format(body=body) + IMPL.replace("return 2 * n", "return Odd()"))
    ran = project.run("--spec-impl=mine")
    assert ran.reason("storage.double").startswith("[storage.double] measured <mine.storage.Odd object at ")
    assert "Traceback" not in ran.printed


@pytest.mark.parametrize("statement", ["raise ValueError('of the kit')", "raise TypeError('of the kit')"])
def test_a_fault_of_the_kits_keeps_its_traceback(project, statement):
    """With the reference nothing is put down to what it returned, nor with any package before it was asked."""
    asked = UNJUDGED.format(statement=statement)
    project.student()
    for test, package in ((asked, "impl"), (asked.replace("impl.storage.double(size)", statement), "mine")):
        project.test(TEST_BYTES, test.replace(f"answer = {statement}", statement))
        ran = project.run(f"--spec-impl={package}")
        assert ran.verdicts()["storage.double"] == "fails"
        assert "cannot be judged" not in ran.printed
        assert f"{statement.removeprefix('raise ').partition('(')[0]}: of the kit" in ran.printed
        assert "\nE  " in ran.printed  # a traceback of pytest's


def test_what_an_error_was_raised_from_is_the_implementations(project):
    """A test that raises an error from the implementation's tells the implementation's."""
    caught = """try:
            impl.storage.double(size)
        except KeyError as error:
            raise RuntimeError("while judging") from error"""
    project.test(TEST_BYTES, UNJUDGED.format(statement=caught).replace("answer = impl.storage.double(size)", "pass"))
    project.student(IMPL.replace("return 2 * n", "raise KeyError(n)"))
    ran = project.run("--spec-impl=mine")
    assert ran.reason("storage.double").startswith("[storage.double] mine.storage.double raises ")
    assert "Traceback" not in ran.printed


def test_an_error_that_is_not_the_implementations_keeps_its_traceback(project):
    """A test that goes wrong by itself shows pytest's own traceback, and then the command that reruns it."""
    project.test(TEST_BYTES, TEST_DOUBLE.replace("evidence.equal", "nonsense"))
    ran = project.run()
    assert ran.verdicts()["storage.double"] == "fails"
    assert "NameError: name 'nonsense' is not defined" in ran.printed
    assert ran.line("pytest ") == "pytest tests/claims/test_storage.py::test_double"


def test_a_test_that_measures_nothing_fails(project):
    """A test of a claim that ends without any evidence says nothing about it, and so does not pass."""
    project.test(TEST_BYTES, "@verifies(storage.DOUBLE)\ndef test_double(impl):\n    impl.storage.double(3)\n")
    assert project.run().reason("storage.double").startswith("[storage.double] measured nothing: ")


def test_what_is_missing_is_unchecked_or_fails(project):
    """A missing module leaves its claims unchecked, a missing name fails its claims with the signature it needs."""
    for package in ("impl", "mine"):
        project.write(f"{package}/__init__.py", "")
        project.write(f"{package}/floats.py", "__all__ = []")
    ran = project.run("--spec-impl=mine")
    assert (ran.status, set(ran.verdicts().values())) == (0, {"unchecked"})
    assert ran.reason("storage.bytes") == "not implemented: there is no module mine.storage"
    project.student(DOUBLES)
    ran = project.run("--spec-impl=mine")
    assert ran.verdicts() == {"storage.bytes": "fails", "storage.double": "holds"}
    assert ran.reason("storage.bytes") == (
        "[storage.bytes] mine.storage lacks tensor_bytes(elements, size=4);"
        " one that raises NotImplementedError is unchecked until it is written"
    )


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("raise NotImplementedError", "mine.storage.tensor_bytes"),
        ("raise NotImplementedError()  # soon", "mine.storage.tensor_bytes"),
        ("raise NotImplementedError('sizes')", "sizes"),
    ],
)
def test_a_function_that_is_still_to_be_written_leaves_its_claims_unchecked(project, body, what):
    """`raise NotImplementedError` means that there is nothing to judge yet."""
    project.student(calling(body))
    ran = project.run("--spec-impl=mine")
    assert (ran.status, ran.verdicts()) == (0, {"storage.bytes": "unchecked", "storage.double": "holds"})
    assert ran.reason("storage.bytes") == f"not implemented: {what}"


def test_torchs_own_not_implemented_error_is_an_error(project):
    """An operation that torch does not have fails the claim: the student did write the function."""
    project.student(calling("return torch.empty(1, device='meta').to('cpu')"))
    ran = project.run("--spec-impl=mine")
    assert ran.verdicts()["storage.bytes"] == "fails"
    assert "tensor_bytes raises NotImplementedError: Cannot copy out of meta tensor" in ran.reason("storage.bytes")


def test_a_wrong_answer_is_told_beside_the_misbehaviour(project):
    """A call that leaves torch's state changed and returns the wrong value shows both: one may come of the other."""
    project.student(calling("torch.manual_seed(0)", result="0"))
    ran = project.run("--spec-impl=mine")
    assert ran.reason("storage.bytes").startswith("[storage.bytes] mine left torch's random state changed")
    assert "[storage.bytes] measured 0 bytes, predicted 1 bytes (exact) for elements=1, size=1" in ran.out


def test_a_module_that_is_a_package_is_named_in_full(project):
    """A chapter may be a package of several modules; a message names the module that failed."""
    project.write("mine/storage/__init__.py", f"from mine.storage.sizes import tensor_bytes\n{DOUBLES}")
    project.write("mine/storage/sizes.py", "def tensor_bytes(elements, size=4):\n    return elements['x']\n")
    ran = project.run("--spec-impl=mine")
    assert ran.reason("storage.bytes").startswith("[storage.bytes] mine.storage.sizes.tensor_bytes raises TypeError: ")


def test_standard_output_is_the_implementations_to_close(project):
    """Closing the standard output neither fails the claim nor stops the run."""
    project.student(calling("sys.stdout.close()"))
    assert set(project.run("--spec-impl=mine").verdicts().values()) == {"holds"}


def test_what_makes_many_tests_fail_is_told_once(project):
    """A message that several tests end in stands there once, with their number and claims; the counts are of all."""
    project.state(BYTES, DOUBLE)
    twice = TEST_DOUBLE.replace("test_double", "test_twice")
    project.test(TEST_BYTES, TEST_DOUBLE, twice)
    project.student("import nothing_of_the_kind")
    ran = project.run("--spec-impl=mine")
    told = "mine.storage cannot be imported: No module named 'nothing_of_the_kind'"
    assert sum(line.endswith(told) and line.startswith("[") for line in ran.out.splitlines()) == 1
    assert ran.line("also: ") == "also:  2 more tests, of storage.double"
    assert "3 failed" in ran.out
    assert ran.verdicts() == {"storage.bytes": "fails", "storage.double": "fails"}
    failed = [line.split(" - ")[0] for line in ran.out.splitlines() if line.startswith("FAILED ")]
    assert failed == [f"FAILED tests/claims/test_storage.py::test_{name}" for name in ("bytes", "double", "twice")]


def test_torchs_colours_and_lengths_are_left_out(project):
    """Another's error is on one line, without escape codes, and not endless."""
    project.student("def tensor_bytes(elements, size=4):\n    raise ValueError('\\x1b[1mbold' + 'x' * 1000)")
    reason = project.run("--spec-impl=mine").reason("storage.bytes")
    assert "raises ValueError: boldxxx" in reason
    assert "x…" in reason
