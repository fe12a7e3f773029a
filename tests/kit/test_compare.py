"""Which values evidence takes for the same, for close, and for within a limit."""

import math

import numpy as np
import pytest
import torch

from tests.kit.judging import message, name, running

NAN, INF = math.nan, math.inf
META = torch.zeros(3, device="meta")


@pytest.fixture
def evidence():
    """Give an Evidence that is running a test."""
    with running() as made:
        yield made


SAME = [
    (60, 60),
    (1, 1.0),
    (0.0, -0.0),
    (INF, INF),
    (NAN, NAN),
    (NAN, np.float32(NAN)),
    (2.0**70, 2**70),
    (10**400, 10**400),
    (True, True),
    (np.bool_(True), True),
    (np.int64(60), 60),
    (np.float32(0.5), 0.5),
    (np.array(60), 60),
    (torch.tensor(60), 60),
    (torch.tensor(True), True),
    ((np.int64(3), 1), (3, 1)),
    (torch.Size([3, 1]), (3, 1)),
    ("shared", "shared"),
    (torch.float32, torch.float32),
    (np.array([1.0, NAN]), np.array([1.0, NAN])),
    (np.array([1, 2], dtype=">u2"), np.array([1, 2], dtype="<u2")),
    (torch.tensor([1.0, NAN, INF, 0.0]), torch.tensor([1.0, NAN, INF, -0.0])),
    (torch.ones(2, requires_grad=True), torch.ones(2)),
    (torch.nn.Parameter(torch.ones(2)), torch.ones(2)),
    (torch.zeros(0, 3), torch.zeros(0, 3)),
    (torch.tensor([1.5]).to(torch.float8_e4m3fn), torch.tensor([1.5]).to(torch.float8_e4m3fn)),
    (META, META),
]
OTHER = [
    (60, 61),
    (2**70, 2**70 + 1),
    (2.0**70, 2**70 + 1),
    (0.1, np.float32(0.1)),
    (1, True),
    (np.bool_(True), 1),
    (np.int64(1), True),
    (INF, -INF),
    (NAN, 0.0),
    (None, 60),
    (None, torch.ones(2)),
    ([3, 1], (3, 1)),
    ("True", True),
    (torch.tensor([5]), 5),
    (torch.ones(2), 1.0),
    (np.ones(2), 1.0),
    (np.ones(2), torch.ones(2)),
    (np.ones(2), np.ones(2, dtype=np.float32)),
    (torch.ones(2), torch.ones(2, 1)),
    (torch.ones(2), torch.ones(2, dtype=torch.float64)),
    (torch.ones(()), torch.ones(1)),
    (torch.tensor([1.0, NAN]), torch.tensor([1.0, 2.0])),
    (torch.zeros(0, 3), torch.zeros(3, 0)),
    (META, torch.zeros(3)),
]


@pytest.mark.parametrize(("measured", "predicted"), SAME, ids=name)
def test_equal_accepts_the_same_value(evidence, measured, predicted):
    """What is the same passes `equal`, from either side, and fails `differs`."""
    evidence.equal(measured, predicted)
    evidence.equal(predicted, measured)
    assert message(evidence.differs, measured, predicted)


@pytest.mark.parametrize(("measured", "predicted"), OTHER, ids=name)
def test_equal_rejects_any_other_value(evidence, measured, predicted):
    """What is not the same fails `equal`, from either side, in one line, and passes `differs`."""
    assert message(evidence.equal, measured, predicted).startswith("[flops.matmul] measured ")
    assert message(evidence.equal, predicted, measured)
    evidence.differs(measured, predicted)


@pytest.mark.parametrize(
    ("measured", "predicted", "tolerance"),
    [
        (1.0, 1.0, 0),
        (1.0, 1.25, 0.25),
        (2**70, 2**70 + 1, 1),
        (10**400, 10**400 + 1, 1),
        (NAN, NAN, 0),
        (INF, INF, 0.1),
        (1.0, 2.0, INF),
        (np.float32(1), 1, 0),
        (torch.tensor(1.0), 1.25, 0.25),
        (torch.tensor([1.0, NAN, INF]), torch.tensor([1.25, NAN, INF]), 0.25),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0])),
        (torch.tensor([1, 2]), torch.tensor([1.0, 2.0], dtype=torch.float64), 0),
        (torch.ones(2, 3, requires_grad=True), 1.0, 0),
        (torch.tensor([1 + 1j]), torch.tensor([1 + 1.5j]), 0.5),
        (torch.zeros(0), torch.zeros(0), 0),
    ],
    ids=name,
)
def test_close_accepts_what_is_within_its_tolerance(evidence, measured, predicted, tolerance):
    """A deviation up to and including the tolerance passes."""
    evidence.close(measured, predicted, tolerance=tolerance)
    assert [kept["holds"] for kept in evidence.json()] == [True]


@pytest.mark.parametrize(
    ("measured", "predicted", "tolerance"),
    [
        (1.0, math.nextafter(1.0, 2.0), 0),
        (1.0, 1.25, math.nextafter(0.25, 0.0)),
        (2**70, 2**70 + 2, 1),
        (0, 10**400, 1e-300),
        (NAN, 1.0, INF),
        (INF, -INF, 1e300),
        (INF, -INF, INF),
        (torch.tensor([INF]), torch.tensor([-INF]), INF),
        (INF, 1e308, 1e300),
        (1.0, 2.0, NAN),
        (1.0, 2.0, -1.0),
        (None, 1.0, 1.0),
        ("1", 1.0, 1.0),
        (1 + 1j, 1.0, 0.5),
        (1.0, torch.ones(2), 1.0),
        (torch.ones(2), torch.ones(2, 1), 1.0),
        (torch.ones(1), torch.ones(2), 1.0),
        (META, torch.zeros(3), 1.0),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, 1.0]), 0.25),
        (torch.tensor([1.0, 1.0]), torch.tensor([1.0, 2.0]), torch.tensor([1.0, NAN])),
        (torch.tensor([1 + 1j]), torch.tensor([1.0]), 0.5),
    ],
    ids=name,
)
def test_close_rejects_what_is_beyond_its_tolerance(evidence, measured, predicted, tolerance):
    """A deviation beyond the tolerance fails in one line, and so does a measurement that is no number."""
    assert message(evidence.close, measured, predicted, tolerance=tolerance).startswith("[flops.matmul] measured ")


ORDERED = [(1, 2), (2, 2), (-INF, INF), (INF, INF), (2**70, 2**70 + 1), (2.0**53, 2**53 + 1), (1, 10**400)]


@pytest.mark.parametrize(("low", "high"), [*ORDERED, (np.uint8(0), 1), (torch.tensor(1.5), 2), (-0.0, 0.0)], ids=name)
def test_limits_accept_their_own_side(evidence, low, high):
    """A value up to and including the limit is at most that, and the limit at least the value."""
    evidence.at_most(low, high)
    evidence.at_least(high, low)


@pytest.mark.parametrize(
    ("low", "high"), [*(pair for pair in ORDERED if pair[0] != pair[1]), (np.uint8(0), 1)], ids=name
)
def test_limits_reject_the_other_side(evidence, low, high):
    """Anything past the limit fails, however near or large."""
    assert " predicted at most " in message(evidence.at_most, high, low)
    assert " predicted at least " in message(evidence.at_least, low, high)


@pytest.mark.parametrize("measured", [NAN, None, "1", torch.ones(2), 1j], ids=name)
def test_limits_reject_what_is_not_on_the_line(evidence, measured):
    """NaN and anything that is no number lie on neither side of a limit."""
    assert message(evidence.at_most, measured, 5)
    assert message(evidence.at_least, measured, -5)
