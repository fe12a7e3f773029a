"""The storage instrument: against growing one storage, against an address, and against NumPy."""

import ctypes
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from spec import strategies as st
from spec.instruments.storage import bytes_of, flat, same
from spec.oracles.layouts import VIEWS, Layout, counting, follow, index_of


def grow_together(a, b):
    """Say whether growing the storage of one tensor, through torch's public interface, grows that of the other."""
    before = b.untyped_storage().nbytes()
    a.untyped_storage().resize_(a.untyped_storage().nbytes() + 8)
    return b.untyped_storage().nbytes() == before + 8


@given(shape=st.filled_shapes, one=st.view_chains, other=st.view_chains)
def test_views_of_one_tensor_grow_together(shape, one, other):
    """Any two views of one tensor lie in one storage, by either way of telling."""
    base = torch.zeros(shape)
    a, b = follow(base, one), follow(base, other)
    assert same(a, b)
    assert grow_together(a, b)


@given(shape=st.filled_shapes, steps=st.view_chains)
def test_a_view_and_a_clone_do_not_grow_together(shape, steps):
    """A view and its clone lie in two storages, by either way of telling."""
    view = follow(torch.zeros(shape), steps)
    clone = view.clone()
    assert not same(view, clone)
    assert not grow_together(view, clone)


PAIRS = {
    "an empty tensor and its view": lambda: (x := torch.empty(0), x.view(0, 3)),
    "an empty tensor and itself": lambda: (x := torch.empty(0), x),
    "a tensor and its slice without elements": lambda: (x := torch.ones(3), x[:0]),
    "a tensor and its slice without elements at the end": lambda: (x := torch.ones(3), x[3:]),
    "adjacent halves": lambda: torch.ones(4).chunk(2),
    "an expanded row": lambda: (x := torch.ones(3), x.expand(2, 3)),
    "another dtype's view": lambda: (x := torch.ones(3), x.view(torch.int32)),
    "two empty tensors": lambda: (torch.empty(0), torch.empty(0)),
    "two tensors": lambda: (torch.ones(3), torch.ones(3)),
    "an empty tensor and another": lambda: (torch.empty(0), torch.ones(3)),
    "a tensor and its clone": lambda: (x := torch.ones(3), x.clone()),
    "a slice without elements and its clone": lambda: (x := torch.ones(3)[:0], x.clone()),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
def test_the_two_ways_of_telling_agree(pair, turned):
    """They agree where addresses mislead: without elements, at other offsets, in other dtypes."""
    a, b = reversed(PAIRS[pair]()) if turned else PAIRS[pair]()
    expected = list(PAIRS).index(pair) < 7
    assert same(a, b) is expected
    assert grow_together(a, b) is expected


@given(layout=st.layouts)
def test_bytes_and_contents_are_those_at_the_storages_address(layout):
    """The bytes in memory, from the storage's address on, are those of the flat storage."""
    tensor = layout.make()
    storage = tensor.untyped_storage()
    memory = ctypes.string_at(storage.data_ptr(), bytes_of(tensor))
    assert flat(tensor).numpy().tobytes() == memory
    assert same(flat(tensor), tensor)


@given(shape=st.filled_shapes)
def test_bytes_are_numpys_where_numpy_made_them(shape):
    """A tensor over an array has a storage of the array's bytes."""
    array = np.zeros(shape, np.int16)
    assert bytes_of(torch.from_numpy(array)) == array.nbytes


@given(layout=st.layouts)
def test_a_layout_lies_where_numpy_puts_it(layout):
    """NumPy, given the strides in bytes, finds the same values."""
    tensor = layout.make()
    array = np.ndarray(layout.shape, np.int64, flat(tensor).numpy(), 8 * layout.offset, [8 * n for n in layout.stride])
    assert np.array_equal(array, layout.positions().numpy())
    assert np.array_equal(array, tensor.numpy())


@given(case=st.viewings)
def test_a_layout_allows_what_numpy_can_reshape_without_a_copy(case):
    """NumPy, which copies only where it has to, reshapes without a copy exactly where strides exist."""
    layout, (*shapes, other) = case
    array = layout.make().numpy()
    for shape in shapes:
        assert math.prod(shape) == array.size
        assert layout.allows(shape) is (not array.size or np.may_share_memory(array.reshape(shape), array))
    assert math.prod(other) != array.size
    assert not layout.allows(other)


def test_layouts_are_of_every_kind():
    """Views and errors, contiguous and not, empty and expanded: each is a good part of what is drawn."""
    seen = Counter()

    @settings(max_examples=500, derandomize=True, database=None)
    @given(case=st.viewings)
    def see(case):
        layout, (shape, *_) = case
        tensor = layout.make()
        kind = "contiguous" if tensor.is_contiguous() else "scattered"
        seen[kind, "views" if layout.allows(shape) else "errors"] += 1
        seen["empty"] += not tensor.numel()
        seen["expanded"] += any(size > 1 and step == 0 for size, step in zip(*layout[:2], strict=True))

    see()
    kinds = [("contiguous", "views"), ("scattered", "views"), ("scattered", "errors"), "empty", "expanded"]
    assert {kind: seen[kind] for kind in kinds if seen[kind] < 15} == {}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_some_of_the_elements_it_is_given(name):
    """No view of the vocabulary loses the last element, makes one up, or copies."""
    base = counting((2, 3, 2))
    for dimension in range(3):
        for number in range(3):
            view = follow(base, [(name, dimension, number)])
            assert view.numel() > 0
            assert same(view, base)
            assert set(view.flatten().tolist()) <= set(range(12))


def test_an_index_is_numpys():
    """The index of a place is the one that NumPy unravels."""
    for place in range(24):
        assert index_of(place, (2, 3, 4)) == np.unravel_index(place, (2, 3, 4))
    assert index_of(-1, (2, 3, 4)) == (1, 2, 3)
    assert index_of(7, ()) == ()
    assert Layout((2, 3), (3, 1), 1).positions().tolist() == [[1, 2, 3], [4, 5, 6]]
