"""What impl.throughput promises beyond the contract: which seconds and operands it refuses, and how."""

import math

import pytest
import torch

from impl import throughput
from spec.instruments.pace import Pace


@pytest.mark.parametrize("seconds", [0, 0.0, -1.0, math.inf, math.nan])
def test_seconds_are_positive_and_finite(seconds):
    """Any others raise ValueError, whatever the FLOPs."""
    for flops in (0, 6):
        with pytest.raises(ValueError, match=f"{flops} FLOPs in {seconds} seconds"):
            throughput.flop_per_second(flops, seconds)


@pytest.mark.parametrize("flops", [-1, -0.5, math.nan])
def test_flops_are_not_negative(flops):
    """Negative FLOPs raise ValueError, and so do those that are no number."""
    with pytest.raises(ValueError, match=f"{flops} FLOPs in 1.0 seconds"):
        throughput.flop_per_second(flops, 1.0)


def test_a_first_product_is_not_timed(monkeypatch):
    """By a clock on which the first product takes 100 s and the others 1, 2 and 3, one takes 2 s."""
    with Pace([0.0]) as pace:
        monkeypatch.setattr(throughput, "perf_counter", lambda: sum((100, 1, 2, 3)[: pace.products]))
        assert throughput.time_matmul(torch.ones(2, 3), torch.ones(3, 4), trials=3) == 2


def test_operands_are_matrices_and_trials_a_whole_number():
    """Vectors and batches raise ValueError, and so do no trials; half a trial raises TypeError."""
    matrix = torch.ones(3, 3)
    for other in (torch.ones(3), torch.ones(2, 3, 3), torch.ones(())):
        for operands in ((matrix, other), (other, matrix)):
            with pytest.raises(ValueError, match="the inner sizes of two matrices must agree"):
                throughput.time_matmul(*operands)
    with pytest.raises(ValueError, match="0 trials: at least one is needed"):
        throughput.time_matmul(matrix, matrix, 0)
    with pytest.raises(TypeError):
        throughput.time_matmul(matrix, matrix, 2.5)
