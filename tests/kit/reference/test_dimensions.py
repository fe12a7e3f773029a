"""What impl.dimensions promises beyond the contract: NumPy's integers, sizes of 0, and which error refuses what."""

import numpy as np
import pytest
import torch

from impl import dimensions


@pytest.mark.parametrize("number", [np.int8, np.uint16, np.int64])
def test_a_number_of_heads_may_be_numpys(number):
    """NumPy's integers of any width count heads as Python's do."""
    x = torch.arange(12.0).reshape(2, 6)
    assert torch.equal(dimensions.split_heads(x, number(3)), dimensions.split_heads(x, 3))


@pytest.mark.parametrize("heads", [0, -1, 4, 12], ids=str)
def test_heads_that_do_not_divide_are_a_value_error(heads):
    """A number of heads that is not positive or does not divide the size raises ValueError."""
    with pytest.raises(ValueError, match="heads do not divide"):
        dimensions.split_heads(torch.ones(2, 6), heads)


@pytest.mark.parametrize("heads", [2.0, 1.5, "2", None], ids=repr)
def test_heads_that_are_no_integer_are_a_type_error(heads):
    """A float raises TypeError, a whole one too, and so do text and nothing."""
    with pytest.raises(TypeError):
        dimensions.split_heads(torch.ones(2, 6), heads)


@pytest.mark.parametrize(("left", "right"), [(1, 4), (4, 1), (3, 4), (0, 1)])
def test_hidden_sizes_that_differ_are_a_value_error(left, right):
    """Queries and keys of two hidden sizes raise ValueError, one of size 1 too, which einsum would stretch."""
    with pytest.raises(ValueError, match="hidden sizes differ"):
        dimensions.attention_scores(torch.ones(2, left), torch.ones(3, right))


def test_nothing_is_split_and_merged():
    """Tensors without values, points or rows have heads of no values, and merge to what they were."""
    for shape, heads in (((2, 0), 3), ((0, 6), 2), ((0,), 1)):
        split = dimensions.split_heads(torch.ones(shape), heads)
        assert split.shape == (*shape[:-1], heads, shape[-1] // heads)
        assert dimensions.merge_heads(split).shape == shape
    assert torch.equal(dimensions.attention_scores(torch.ones(2, 0), torch.ones(3, 0)), torch.zeros(2, 3))
    assert torch.equal(dimensions.sum_hidden(torch.ones(2, 0)), torch.zeros(2))


def test_a_merge_copies_only_where_it_must():
    """Heads that lie one after the other are merged in place."""
    x = torch.ones(2, 6)
    assert dimensions.merge_heads(dimensions.split_heads(x, 3)).data_ptr() == x.data_ptr()
