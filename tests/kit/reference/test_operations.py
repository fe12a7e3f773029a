"""What impl.operations promises beyond the contract: which error refuses what, and a product of its own."""

import pytest
import torch

from impl import operations


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), (3, 2)), ((2, 3), (3,)), ((), (3, 2)), ((2, 3), (2, 3)), ((2, 1), (3, 2)), ((2, 3, 3), (4, 3, 3))],
    ids=str,
)
def test_what_is_no_pair_of_matrices_is_a_value_error(left, right):
    """Vectors and scalars, inner sizes that differ and leading dimensions that do not broadcast raise ValueError."""
    with pytest.raises(ValueError, match=r"must agree|broadcast"):
        operations.batched_matmul(torch.ones(left), torch.ones(right))


def test_the_product_is_a_new_tensor():
    """It shares its storage with neither operand, unit matrices and single values included."""
    for x, w in ((torch.rand(2, 3), torch.eye(3)), (torch.eye(2), torch.rand(2, 2)), (torch.ones(1, 1),) * 2):
        product = operations.batched_matmul(x, w)
        assert product.untyped_storage().data_ptr() not in (
            x.untyped_storage().data_ptr(),
            w.untyped_storage().data_ptr(),
        )


@pytest.mark.parametrize("length", [2.5, 2.0, "2", None], ids=repr)
def test_a_mask_needs_an_integer(length):
    """Any other length raises TypeError."""
    with pytest.raises(TypeError):
        operations.causal_mask(length)
