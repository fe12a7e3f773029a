"""Evidence: the grammar of its messages, and what it keeps of many checks."""

import json
import math
import timeit
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from spec.evidence import EvidenceError
from spec.implementation.loading import ImplementationError
from spec.messages.sentences import plain, sentence, show, show_input
from tests.kit.judging import message, name, running

NAN, INF = math.nan, math.inf
META = torch.zeros(3, device="meta")


@pytest.fixture
def evidence():
    """Give an Evidence that is running a test."""
    with running() as made:
        yield made


def record(evidence):
    """Return the one record kept, after a trip through JSON that knows no NaN literal."""
    (kept,) = json.loads(json.dumps(evidence.json(), allow_nan=False))
    return kept


def thrower(error):
    """Return a function that raises `error`."""

    def throw():
        raise error

    return throw


def test_raises_names_the_errors(evidence):
    """One of the errors asked for passes, subclasses too; of another, or of none, a line says who has to raise what."""
    evidence.raises(ValueError, thrower(UnicodeError("x")))
    evidence.raises((TypeError, ValueError), thrower(ValueError()))
    calls = {
        "the call returned 3 for these arguments; it has to raise ValueError": lambda: 3,
        "math.sqrt returned 2 for x=4": partial(math.sqrt, 4),
        "torch.optim.sgd.SGD accepts lr=-1; it": partial(torch.optim.SGD, [torch.ones(1)], 1),
        "the call raises KeyError: 'x' for shape=(3, 5); it has": thrower(KeyError("x")),
        "the call raises KeyError for shape=(3, 5); it has": thrower(KeyError()),
        "storage.can_view returned True for shape=(3, 5)": lambda: impl.storage.can_view(3),
    }
    impl = SimpleNamespace(storage=SimpleNamespace(can_view=lambda shape: True))
    given = ({}, {"x": 4}, {"lr": -1}, *[{"shape": (3, 5)}] * 3)
    for (expected, call), inputs in zip(calls.items(), given, strict=True):
        assert message(evidence.raises, ValueError, call, **inputs).startswith(f"[flops.matmul] {expected}")
    both = message(evidence.raises, (TypeError, ValueError), thrower(KeyError()), shape=(3, 5))
    assert both.endswith("; it has to raise TypeError or ValueError")
    kept = record(evidence)
    assert (kept["relation"], kept["measured"], kept["predicted"]) == ("raises", "KeyError", "TypeError or ValueError")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        (np.int32(3), "np.int32(3)"),
        (3.0, "3.0"),
        (0.25, "0.25"),
        (np.float32(3), "np.float32(3)"),
        (np.bool_(True), "np.bool(True)"),
        ("3", "'3'"),
        ("1e12", "'1e12'"),
        ("None", "'None'"),
        ("row by row", "row by row"),
        (torch.bfloat16, "bfloat16"),
        (1e300, "1e+300"),
        (INF, "inf"),
    ],
    ids=name,
)
def test_an_input_shows_its_type(value, shown):
    """Of values that print alike, a message shows which was given."""
    assert show_input(value) == shown


@pytest.mark.parametrize(
    "error", [NotImplementedError(), ImplementationError("mine.flops lacks matmul"), SystemExit(1)]
)
def test_raises_lets_pass_what_is_no_answer(evidence, error):
    """What is missing or unwritten is not the error that a call was to raise, even where any would do."""
    with pytest.raises(type(error)):
        evidence.raises((Exception,), thrower(error))


@pytest.mark.parametrize(
    ("method", "args", "expected"),
    [
        ("equal", (30, 60), "measured 30 bytes, predicted 60 bytes (exact) for shape=(3, 5)"),
        ("close", (0.5, 0.25), "measured 0.5 bytes, predicted 0.25 bytes (within 0.125) for shape=(3, 5)"),
        ("at_most", (3, 2), "measured 3 bytes, predicted at most 2 bytes for shape=(3, 5)"),
        ("at_least", (2, 3), "measured 2 bytes, predicted at least 3 bytes for shape=(3, 5)"),
        ("differs", (2, 2), "measured 2 bytes, predicted anything but 2 bytes for shape=(3, 5)"),
    ],
)
def test_every_method_speaks_one_grammar(evidence, method, args, expected):
    """[claim] measured X unit, predicted Y unit (tolerance) for inputs; then the command to rerun the test."""
    tolerance = {"tolerance": 0.125} if method == "close" else {}
    with pytest.raises(EvidenceError) as caught:
        getattr(evidence, method)(*args, unit="bytes", shape=(3, 5), **tolerance)
    assert str(caught.value) == f"[flops.matmul] {expected}\n  rerun: pytest that::test"


def test_a_message_names_the_element(evidence):
    """Of two tensors it shows the values that differ (most, in units of the tolerance), and where."""
    measured, predicted = torch.tensor([[1, 2, 3], [4, 7, 9]]), torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert message(evidence.equal, measured, predicted, unit="units") == (
        "[flops.matmul] measured 7 units, predicted 5 units (exact) for element=[1, 1]"
    )
    tolerance = torch.tensor([1.0, 1.0, 2.0])
    assert message(evidence.close, measured, predicted, tolerance=tolerance, unit="units") == (
        "[flops.matmul] measured 7 units, predicted 5 units (within 1) for element=[1, 1]"
    )
    assert message(evidence.equal, measured, predicted.t()) == (
        "[flops.matmul] measured 2×3 int64 tensor, predicted 3×2 int64 tensor (exact); transposed?"
    )


@pytest.mark.parametrize(
    ("measured", "predicted", "expected"),
    [
        (0.1 + 0.2, 0.3, "measured 0.30000000000000004, predicted 0.3 (exact)"),
        ("True", True, "measured 'True', predicted True (exact)"),
    ],
)
def test_a_message_tells_near_values_apart(evidence, measured, predicted, expected):
    """Two values that would be shown alike are shown in full."""
    assert message(evidence.equal, measured, predicted) == f"[flops.matmul] {expected}"


class Rude:
    """An object that cannot even be shown."""

    def __repr__(self):
        raise ValueError("no")


@pytest.mark.parametrize(
    "value",
    [None, "a\nb", "", NAN, -INF, 10**5000, 1j, np.float64(INF), np.float32(0.5), np.bool_(True), np.int64(3)],
    ids=name,
)
def test_any_value_survives_json(value):
    """What is kept is JSON for any value, and what is shown is one line."""
    json.dumps(plain(value), allow_nan=False)
    assert show(value).isprintable()
    assert show(value)


@pytest.mark.parametrize(
    "value", [Rude(), [Rude()], "x" * 500, torch.ones(3, requires_grad=True), META, torch.ones(50)], ids=name
)
def test_any_object_is_shown_short(value):
    """What is shown has an end, whatever the implementation returned."""
    assert 0 < len(show(value)) <= 120


@pytest.mark.parametrize(
    ("value", "expected"), [(np.int64(3), 3), (np.bool_(True), True), (np.float32(0.5), 0.5)], ids=name
)
def test_numpy_numbers_are_kept_as_numbers(value, expected):
    """JSON carries a NumPy scalar as the number or truth value it is."""
    assert plain(value) is expected or (plain(value) == expected and type(plain(value)) is type(expected))


def test_the_worst_case_and_the_extremes_are_kept(evidence):
    """Of many checks a record keeps the largest deviation with its inputs, how many there were, and the extremes."""
    for measured, predicted in [(NAN, NAN), (3.0, 3.1), (-7.0, -6.0), (5.0, 5.5)]:
        evidence.close(measured, predicted, tolerance=2, unit="seconds", points=int(predicted) if predicted > 0 else 0)
    kept = record(evidence)
    assert (kept["measured"], kept["predicted"], kept["tolerance"], kept["inputs"]) == (-7, -6, 2, {"points": "0"})
    assert (kept["checks"], kept["extremes"], kept["holds"]) == (4, [-7, 5], True)


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (lambda: torch.tensor(3), 3),
        (lambda: torch.tensor([3, 4]), "[3, 4] (2 int64 tensor)"),
        (lambda: np.array(3), 3),
        (lambda: np.array([3, 4]), "array([3, 4])"),
        (lambda: [torch.tensor([3])], "[tensor([3])]"),
    ],
    ids=["number", "tensor", "array of no dimensions", "array", "list"],
)
def test_what_is_recorded_is_a_copy(evidence, made, shown):
    """A tensor that a test changes after it was checked stays in the record as it was."""
    measured, predicted = made(), made()
    evidence.equal(measured, predicted)
    for value in (measured, predicted):
        if isinstance(value, list):
            value[0] = value[0] * 0
        else:
            value[...] = 0
    kept = record(evidence)
    assert (kept["measured"], kept["predicted"]) == (shown, shown)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.complex64], ids=str)
def test_the_two_zeros_are_shown_as_one(evidence, dtype):
    """As they are equal to evidence, a record of equal values shows the same."""
    zeros = torch.tensor([0.0, -0.0]).to(dtype)
    evidence.equal(zeros, zeros.flip(0) if dtype is torch.float32 else zeros)
    assert record(evidence)["measured"] == record(evidence)["predicted"]


def test_what_differs_is_recorded_where_it_differs(evidence):
    """Of two tensors that are to differ, the record shows the first elements that do."""
    evidence.differs(torch.arange(50), torch.arange(50) * 2, unit="units")
    kept = record(evidence)
    assert (kept["measured"], kept["predicted"], kept["inputs"]) == (1, 2, {"element": "[1]"})


def test_extremes_have_no_largest_number(evidence):
    """Integers beyond any float, and infinities, are extremes too."""
    for value in (10**400, -INF, 3):
        evidence.at_least(value, -INF)
    low, high = record(evidence)["extremes"]
    assert (low, high[:3]) == ("-inf", "100")


def test_a_failure_is_the_record_that_stays(evidence):
    """The record of a failure shows the check that failed, not a larger deviation that passed."""
    evidence.at_most(1, 2, points=1)
    assert message(evidence.at_most, 3, 2, points=2)
    kept = record(evidence)
    assert (kept["measured"], kept["holds"], kept["inputs"]) == (3, False, {"points": "2"})
    assert sentence(kept) == "measured 3, predicted at most 2 for points=2"


def test_each_relation_and_quantity_is_one_record(evidence):
    """Checks of one relation, one quantity and one unit share a record; others have their own."""
    for _ in range(3):
        evidence.equal(1, 1, unit="bytes")
        evidence.equal(1, 1, unit="FLOPs")
        evidence.at_most(1, 1, unit="bytes")
        evidence.at_most(1, 1, what="the peak", unit="bytes")
    assert [(kept["relation"], kept["unit"], kept["checks"]) for kept in evidence.json()] == [
        ("exact", "bytes", 3),
        ("exact", "FLOPs", 3),
        ("at most", "bytes", 3),
        ("at most", "bytes", 3),
    ]


def test_a_quantity_is_named_before_its_value(evidence):
    """`what` names the quantity, `unit` follows the numbers."""
    assert message(evidence.equal, 4, 8, what="the peak", unit="bytes", points=2) == (
        "[flops.matmul] the peak: measured 4 bytes, predicted 8 bytes (exact) for points=2"
    )


def test_a_fact_is_a_sentence(evidence):
    """A fact that holds is recorded, and one that does not is told as the sentence that is not true."""
    evidence.true([1], "the list has values")
    assert record(evidence)["measured"] is True
    assert message(evidence.true, None, "the gradients are the same objects", step=3) == (
        "[flops.matmul] it is not true that the gradients are the same objects for step=3"
    )


def test_the_drawn_example_is_shown_before_what_the_test_adds(evidence):
    """A message's inputs are those of the running example, then the check's own."""
    evidence.example = {"points": 3, "dtype": torch.bfloat16}
    assert message(evidence.equal, 1, 2, row=0) == (
        "[flops.matmul] measured 1, predicted 2 (exact) for points=3, dtype=bfloat16, row=0"
    )


def test_a_series_is_kept_as_plain_numbers(evidence):
    """Curves of any numbers come out as JSON, the later of two by one name alone; the next test begins without any."""
    evidence.series("law", [0, 1], [9, 9])
    evidence.series("law", range(3), torch.tensor([1, NAN, INF]), unit="bytes", along="steps")
    evidence.series("mean", np.arange(2), np.float32([0.5, 2]))
    assert json.loads(json.dumps(list(evidence.curves.values()), allow_nan=False)) == [
        {"name": "law", "unit": "bytes", "along": "steps", "xs": [0, 1, 2], "ys": [1.0, "nan", "inf"]},
        {"name": "mean", "unit": "", "along": "", "xs": [0, 1], "ys": [0.5, 2.0]},
    ]
    with evidence.running("flops.matmul", "", {}):
        assert evidence.curves == {}


@pytest.mark.parametrize(("xs", "ys"), [(range(201), range(201)), (range(3), range(2))])
def test_a_series_is_short_and_even(evidence, xs, ys):
    """More than 200 points, or xs without their ys, are a mistake of the test's."""
    with pytest.raises(ValueError, match="at most 200"):
        evidence.series("law", xs, ys)


def test_a_check_costs_microseconds(evidence):
    """A passing check on numbers costs microseconds: a claim's tests make thousands."""
    costs = {
        "equal": lambda: evidence.equal(60, 60, unit="bytes"),
        "close": lambda: evidence.close(1.0, 1.0001, tolerance=0.1),
        "at most": lambda: evidence.at_most(1.0, 2.0),
    }
    for method, check in costs.items():
        fastest = min(timeit.repeat(check, number=100, repeat=5)) / 100
        assert fastest < 100e-6, f"{method} takes {fastest * 1e6:.0f} µs"
