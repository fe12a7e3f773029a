"""The contract: read from the reference's source, and kept by any signature that can be called in its ways."""

import functools
import operator

import pytest
import torch

from spec.implementation import contract
from tests.kit.project import IMPL

pytest_plugins = ["pytester"]

SOURCE = """
from typing import NamedTuple

__all__ = ["LIMITS", "Linear", "Pair", "rows", "scale", "tensor_bytes"]
LIMITS: dict[str, int] = {"a": 1}


def tensor_bytes(elements: int, size: int = 4) -> int: ...
def rows(*sizes: int) -> int: ...
def scale(x: float, *, bound: float, times: float = 3.0) -> float: ...
def _hidden(): ...
def unlisted(): ...


class Linear:
    def __init__(self, inputs: int, outputs: int, *, generator: object = None) -> None: ...


class Pair(NamedTuple):
    left: int
    right: int
"""
RAISE = "\nraise RuntimeError('the reference was imported')\n"


@pytest.fixture
def entries(project, monkeypatch):
    """Give the contract of a chapter of a reference that could not be imported."""
    project.write("reference/__init__.py", "")
    project.write("reference/shop.py", SOURCE + RAISE)
    monkeypatch.syspath_prepend(project.path)
    return contract.chapter("shop", "reference")


def test_the_contract_is_what_all_lists(entries):
    """The public names are those of __all__, whether functions, classes or data."""
    assert sorted(entries) == ["LIMITS", "Linear", "Pair", "rows", "scale", "tensor_bytes"]


def test_a_chapter_without_a_module_has_no_contract():
    """Where the reference implements nothing, there is nothing to keep to."""
    assert contract.chapter("nowhere") == {}


def test_the_contract_shows_names_and_defaults(entries):
    """A signature is shown as it is called; a class by its constructor; data have none."""
    assert {name: str(entry) for name, entry in entries.items()} == {
        "LIMITS": "",
        "Linear": "(inputs, outputs, *, generator=None)",
        "Pair": "",
        "rows": "(*sizes)",
        "scale": "(x, *, bound, times=3.0)",
        "tensor_bytes": "(elements, size=4)",
    }


class Callable:
    """An object that can be called."""

    def __call__(self, elements, size=4):
        return elements * size


class Linear(torch.nn.Module):
    """A layer with more arguments than it needs."""

    def __init__(self, inputs, outputs, bias=False, *, generator=None, device=None):
        super().__init__()


def undecorated(function):
    """Wrap a function without a word about it."""
    return lambda *args, **kwargs: function(*args, **kwargs)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tensor_bytes", lambda elements, size=8: 0),
        ("tensor_bytes", lambda elements, size=4, dtype=None: 0),
        ("tensor_bytes", lambda elements, size=4, *rest, dtype=None, **more: 0),
        ("tensor_bytes", lambda *args, **kwargs: 0),
        ("tensor_bytes", functools.partial(lambda unit, elements, size=4: 0, 1)),
        ("tensor_bytes", functools.partial(lambda elements, size=4, unit=0: 0, unit=1)),
        ("tensor_bytes", functools.cache(lambda elements, size=4: 0)),
        ("tensor_bytes", torch.no_grad()(lambda elements, size=4: 0)),
        ("tensor_bytes", undecorated(lambda elements, size=4: 0)),
        ("tensor_bytes", Callable()),
        ("tensor_bytes", Callable().__call__),
        ("tensor_bytes", max),
        ("tensor_bytes", torch.add),
        ("rows", lambda *shape: 0),
        ("rows", lambda first=1, *shape: 0),
        ("scale", lambda x, bound, times=1.0: 0),
        ("scale", lambda x, **options: 0),
        ("Linear", Linear),
        ("Linear", lambda inputs, outputs, generator=None: 0),
        ("Pair", tuple),
        ("LIMITS", 3),
    ],
)
def test_any_signature_that_can_be_called_so_is_accepted(entries, name, value):
    """More arguments, other defaults, partials, objects, wrappers and builtins keep to the contract."""
    assert entries[name].mismatch(value) == ""


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("tensor_bytes", lambda elements: 0, "takes (elements): the contract is (elements, size=4)"),
        ("tensor_bytes", lambda elements, size: 0, "takes (elements, size): the contract is (elements, size=4)"),
        ("tensor_bytes", lambda n, size=4: 0, "takes (n, size=4): the contract is (elements, size=4)"),
        ("tensor_bytes", lambda size=4, elements=1: 0, "takes (size=4, elements=1): "),
        ("tensor_bytes", lambda elements, size=4, /: 0, "takes (elements, size=4, /): "),
        ("tensor_bytes", lambda elements, *, size=4: 0, "takes (elements, *, size=4): "),
        ("tensor_bytes", lambda elements, size=4, *, dtype: 0, "takes (elements, size=4, *, dtype): "),
        ("tensor_bytes", lambda: 0, "takes (): the contract is (elements, size=4)"),
        ("tensor_bytes", 12, "is not callable: the contract is (elements, size=4)"),
        ("rows", lambda shape: 0, "takes (shape): the contract is (*sizes)"),
        ("scale", lambda x, *, limit, times=3.0: 0, "takes (x, *, limit, times=3.0): "),
        ("scale", lambda x, *, bound: 0, "takes (x, *, bound): the contract is (x, *, bound, times=3.0)"),
        ("Linear", torch.nn.Linear, "takes (in_features, out_features, bias=True, "),
        ("Linear", operator.neg, "takes (a, /): the contract is (inputs, outputs, *, generator=None)"),
        ("tensor_bytes", functools.partial(lambda elements, size: 0, size=4), "takes (elements, *, size=4): "),
    ],
)
def test_any_other_signature_is_told_beside_the_contract(entries, name, value, told):
    """What cannot be called as the contract says is told in one line, with both signatures."""
    mismatch = entries[name].mismatch(value)
    assert mismatch.startswith(told)
    assert "\n" not in mismatch


def test_a_default_of_many_lines_is_told_in_one(entries):
    """A default whose repr has several lines leaves the message on one."""
    weights = torch.zeros(3, 3)
    assert "\n" not in entries["tensor_bytes"].mismatch(lambda elements, weights=weights: 0)


def test_a_wrong_signature_fails_the_claim_in_one_line(project):
    """The claim's line names the function, what it takes and what the contract is."""
    project.student(IMPL.replace("elements: int, size: int = 4", "size, elements"))
    ran = project.run("--spec-impl=mine")
    assert ran.verdicts() == {"storage.bytes": "fails"}
    assert ran.reason("storage.bytes") == (
        "[storage.bytes] mine.storage.tensor_bytes takes (size, elements): the contract is (elements, size=4)"
    )


def test_an_unusual_right_signature_holds(project):
    """What keeps to the contract is called, whatever it is made of."""
    project.student(
        "import functools\n\n\nclass Sizes:\n    def __call__(self, elements, size=4, **more):\n"
        "        return elements * size\n\n\ntensor_bytes = functools.partial(Sizes(), more=1)\n"
    )
    assert project.run("--spec-impl=mine").verdicts() == {"storage.bytes": "holds"}
