"""What impl.storage promises beyond the contract: which error refuses what is no shape, stride or index."""

import pytest
import torch

from impl import storage

CALLS = {
    "element_offset": lambda numbers: storage.element_offset(numbers, (1,)),
    "element_offset's strides": lambda numbers: storage.element_offset((1,), numbers),
    "contiguous_strides": storage.contiguous_strides,
    "is_contiguous": lambda numbers: storage.is_contiguous(numbers, (1,)),
    "is_contiguous's strides": lambda numbers: storage.is_contiguous((3,), numbers),
    "can_view": lambda numbers: storage.can_view(numbers, (1,), (3,)),
    "can_view's strides": lambda numbers: storage.can_view((3,), numbers, (3,)),
    "can_view's new shape": lambda numbers: storage.can_view((3,), (1,), numbers),
    "tensor_bytes": lambda numbers: storage.tensor_bytes(numbers, torch.float32),
}
PAIRS = [name for name in CALLS if name not in ("contiguous_strides", "can_view's new shape", "tensor_bytes")]
SHAPES = ("contiguous_strides", "is_contiguous", "can_view", "can_view's new shape", "tensor_bytes")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("wrong", [2.0, 2.5, "2", None, [2]], ids=repr)
def test_what_is_no_integer_is_a_type_error(call, wrong):
    """A fraction, a whole float, text, nothing and a list raise TypeError wherever an integer is asked for."""
    with pytest.raises(TypeError):
        call((wrong,))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("numbers", [(), (1, 1)], ids=str)
def test_another_number_of_dimensions_is_a_value_error(name, numbers):
    """An index or a shape that is longer or shorter than the strides raises ValueError."""
    with pytest.raises(ValueError, match=r"shorter than|longer than"):
        CALLS[name](numbers)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("sizes", [(-1,), (-3,)], ids=str)
def test_a_negative_size_is_a_value_error(name, sizes):
    """A negative size raises ValueError, and so does the −1 that torch's view finds out."""
    with pytest.raises(ValueError, match="a size is negative"):
        CALLS[name](sizes)


def test_an_offset_is_an_integer():
    """Where the tensor begins is a number of elements: half a one raises TypeError."""
    with pytest.raises(TypeError):
        storage.element_offset((1,), (1,), 0.5)
