"""What impl.throughput promises beyond the contract: which seconds and operands it refuses, and how."""

import math

import pytest
import torch

from impl import throughput


@pytest.mark.parametrize("seconds", [0, 0.0, -1.0, math.inf, math.nan])
def test_seconds_are_positive_and_finite(seconds):
    """Any others raise ValueError, whatever the FLOPs."""
    for flops in (0, 6):
        with pytest.raises(ValueError, match=f"{flops} FLOPs in {seconds} seconds"):
            throughput.flop_per_second(flops, seconds)


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
