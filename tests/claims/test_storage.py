"""§2.2, §2.2.1, §2.2.2a: how many bytes a tensor takes, where its values lie, and which tensors share or copy them."""

import math
import re
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import example, given

from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import storage
from spec.instruments import allocator
from spec.instruments.storage import bytes_of, flat, same
from spec.oracles.layouts import Layout, counting, follow, index_of, layouts_of

# How these tests are written:
# - A position is a number of elements from the start of a storage. counting(shape) and layout.make() return tensors
#   whose storage holds 0, 1, 2, …, so that each value is its own position.
# - A Layout is a shape, strides and an offset. layout.positions() computes where its elements lie, and layout.nearby()
#   yields layouts that differ from it in one stride or size.
# - st.layouts draws layouts with gaps, with swapped, expanded and overlapping dimensions, and with sizes of 0 and 1.
# - st.picks draws the number of an element, and index_of(number, shape) is that element's index.
# - st.viewings draws a layout and shapes to view it as. st.filled_shapes draws shapes without a size of 0.
# - st.view_chains draws steps such as select, transpose, expand or unfold, which follow(base, steps) applies in turn.
# - same(a, b) compares torch's storage objects. The meta device computes shapes and strides without any memory.

# All shapes of up to 3 dimensions with sizes from 0 to 3.
SHAPES = tuple(shape for dimensions in range(4) for shape in product(range(4), repeat=dimensions))
# The strategies draw neither such sizes nor so many dimensions.
LARGER = ((7,), (7, 16), (16, 1, 7), (100, 7, 3), (5, 2, 7, 4), (2, 3, 1, 7, 2), (3, 2, 2, 5, 1, 2), (2,) * 7)
# Each of these shapes is laid out without gaps, with gaps, expanded, and with two neighbouring dimensions swapped.
LARGER_LAYOUTS = tuple(dict.fromkeys(layout for shape in LARGER for layout in layouts_of(shape)))
# The lecture's sizes have 2⁴² elements: 32 bits cannot count them.
HUGE = (16384, 32768, 8192)
INTEGER_TYPES = (int, np.int32, np.uint32, np.int64)
# A shape and strides of different lengths may raise any of these.
LENGTHS_DIFFER = (ValueError, TypeError, IndexError)
# A packed or quantized dtype is left out: its values do not take whole bytes of their own.
WHOLE_BYTES = re.compile(r"torch\.(bool|(b?float|complex|u?int)(8|16|32|64|128)(_e\w+)?)")
DTYPES = sorted(
    {x for x in vars(torch).values() if isinstance(x, torch.dtype) and WHOLE_BYTES.fullmatch(str(x))}, key=str
)


def view_works(tensor, shape):
    """Return whether torch's view() gives the tensor this shape, or raises."""
    try:
        tensor.view(shape)
    except RuntimeError:
        return False
    return True


def answer_of(can_view, layout, shape):
    """Return can_view's answer; it may also raise ValueError for a shape of another number of elements."""
    try:
        return bool(can_view(layout.shape, layout.stride, shape))
    except ValueError:
        if math.prod(layout.shape) == math.prod(shape):
            raise
        return False


def used_strides(shape, strides):
    """Return the strides of all dimensions but those of size 1, along which nothing ever steps."""
    return [step for size, step in zip(shape, strides, strict=True) if size != 1]


def as_integers(integer, *sequences):
    """Return the sequences as tuples of this type of integer."""
    return [tuple(integer(n) for n in sequence) for sequence in sequences]


@verifies(storage.BYTES)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_a_fresh_tensor_takes_numel_times_itemsize(impl, evidence, device):
    """A fresh tensor's storage has numel × itemsize bytes, as tensor_bytes says, for every dtype and small shape."""
    for dtype, shape in product(DTYPES, SHAPES):
        try:
            tensor = torch.empty(shape, dtype=dtype, device=device)
        except (RuntimeError, TypeError):  # This device does not have this dtype.
            continue
        numel_times_itemsize, inputs = math.prod(shape) * dtype.itemsize, {"shape": shape, "dtype": dtype}
        evidence.equal(bytes_of(tensor), numel_times_itemsize, what="the storage", unit="bytes", **inputs)
        computed = impl.storage.tensor_bytes(shape, dtype)
        evidence.equal(computed, numel_times_itemsize, what="tensor_bytes", unit="bytes", **inputs)


@verifies(storage.BYTES)
def test_a_32_by_32_float32_tensor_takes_4096_bytes(impl, evidence, device):
    """The notes' own example, a 32×32 tensor of 4-byte values, takes 4096 bytes."""
    evidence.equal(bytes_of(torch.zeros(32, 32, device=device)), 4096, what="the storage", unit="bytes")
    evidence.equal(impl.storage.tensor_bytes((32, 32), torch.float32), 4096, what="tensor_bytes", unit="bytes")


@verifies(storage.BYTES)
def test_bytes_do_not_overflow(impl, evidence):
    """tensor_bytes is exact for huge tensors, whether their sizes are Python's integers or NumPy's."""
    # The second tensor has more bytes than a float64 counts exactly.
    for (sizes, dtype), integer in product(((HUGE, torch.float32), ((2**27 + 1,) * 2, torch.int8)), INTEGER_TYPES):
        huge, (shape,) = torch.empty(sizes, dtype=dtype, device="meta"), as_integers(integer, sizes)
        computed = impl.storage.tensor_bytes(shape, dtype)
        evidence.equal(computed, bytes_of(huge), what="tensor_bytes", unit="bytes", shape=shape, dtype=dtype)


@verifies(storage.BYTES)
def test_bytes_are_exact_whatever_their_number(impl, evidence):
    """tensor_bytes is exact for sizes that are not powers of 2, and for more bytes than 64 bits can count."""
    for shape in (*LARGER, (100, 50), (1000, 77), (2**31, 2**31 + 1, 3), (2**62, 2, 2), (10**30 + 1, 7)):
        computed = impl.storage.tensor_bytes(shape, torch.float32)
        evidence.equal(computed, math.prod(shape) * 4, what="tensor_bytes", unit="bytes", shape=shape)


@verifies(storage.BYTES)
def test_tensor_bytes_refuses_an_invalid_size(impl, evidence):
    """tensor_bytes raises ValueError for a negative size, and TypeError for one that is not a number."""
    for shape in ((-1,), (-2, -3), (0, -1)):
        evidence.raises(ValueError, partial(impl.storage.tensor_bytes, shape, torch.float32), shape=shape)
    for shape in (("3",), (2, None)):
        evidence.raises(TypeError, partial(impl.storage.tensor_bytes, shape, torch.float32), shape=shape)


@verifies(storage.BYTES)
def test_expanding_and_slicing_leave_the_storage_as_it_is(evidence, device):
    """A row expanded to a matrix still takes the bytes of one row, and a matrix sliced by one row those of all rows."""
    for rows, columns in product((2, 3, 5), (1, 2, 3)):
        row, matrix = torch.empty(columns, device=device), torch.empty(rows, columns, device=device)
        inputs = {"rows": rows, "columns": columns}
        expanded, sliced = row.expand(rows, columns), matrix[1:]
        evidence.equal(bytes_of(expanded), 4 * columns, what="the expanded row's storage", unit="bytes", **inputs)
        evidence.equal(bytes_of(sliced), 4 * rows * columns, what="the sliced matrix's storage", unit="bytes", **inputs)


@verifies(storage.STRIDES)
@example(layout=Layout((), (), 3), pick=0)
@example(layout=Layout((3, 4), (1, 1), 2), pick=7)
@given(layout=st.layouts, pick=st.picks)
def test_an_element_lies_at_offset_plus_index_times_stride(impl, evidence, device, layout, pick):
    """Whatever the strides, an element lies at offset + Σ index·stride of the flat storage, as element_offset says."""
    tensor = layout.make(device)
    in_storage = flat(tensor)[layout.positions().to(device)]
    evidence.equal(tensor, in_storage, what="the values at offset + Σ index·stride")
    for number in (pick, -1) if tensor.numel() else ():
        index = index_of(number, tensor.shape)
        position = layout.offset + sum(i * step for i, step in zip(index, layout.stride, strict=True))
        evidence.equal(int(tensor[index]), position, what="the element's position", index=index)
        offset = impl.storage.element_offset(index, layout.stride, layout.offset)
        evidence.equal(offset, position, what="element_offset", unit="elements", index=index)


@verifies(storage.STRIDES)
def test_contiguous_strides_count_the_elements_row_by_row(impl, evidence):
    """By the strides of torch and of contiguous_strides, the elements of small shapes are at 0, 1, 2, …, row by row."""
    # We compare positions, not strides: nothing uses the strides of an empty tensor or of a dimension of size 1.
    for shape in SHAPES:
        from_torch, from_impl = torch.empty(shape).stride(), impl.storage.contiguous_strides(shape)
        for source, strides in (("torch", from_torch), ("impl", from_impl)):
            evidence.equal(len(strides), len(shape), what=f"the number of strides from {source}", shape=shape)
            positions = Layout(shape, tuple(strides)).positions()
            evidence.equal(positions, counting(shape), what=f"the positions by strides from {source}", shape=shape)


@verifies(storage.STRIDES)
def test_the_strides_of_an_empty_tensor_are_torchs(impl, evidence):
    """contiguous_strides counts a size of 0 as 1, as torch does: (2, 0, 3) has the strides (3, 3, 1)."""
    for shape in (*(shape for shape in SHAPES if 0 in shape), (0, 7, 5), (4, 0, 1, 6), (3, 2, 0, 0)):
        strides = impl.storage.contiguous_strides(shape)
        evidence.equal(len(strides), len(shape), what="the number of strides", shape=shape)
        measured, predicted = (used_strides(shape, each) for each in (strides, torch.empty(shape).stride()))
        evidence.equal(measured, predicted, what="the strides of sizes other than 1", shape=shape)


@verifies(storage.STRIDES)
def test_more_dimensions_and_larger_sizes_follow_the_same_rule(impl, evidence):
    """Up to 7 dimensions and sizes of 100, contiguous_strides agrees with torch, and element_offset is exact."""
    for shape in LARGER:
        tensor, sizes = torch.empty(shape, device="meta"), list(shape)  # The call must not change a list of sizes.
        strides = tuple(impl.storage.contiguous_strides(sizes))
        evidence.equal(sizes, list(shape), what="the sizes after the call", shape=shape)
        evidence.equal(len(strides), len(shape), what="the number of strides from impl", shape=shape)
        measured, predicted = used_strides(shape, strides), used_strides(shape, tensor.stride())
        evidence.equal(measured, predicted, what="the strides of sizes other than 1", shape=shape)
        last, stride = tuple(size - 1 for size in shape), tensor.stride()
        offset, numel = impl.storage.element_offset(last, stride), math.prod(shape)
        evidence.equal(offset, numel - 1, what="element_offset", unit="elements", index=last, stride=stride)
    # This offset is too large for a float64 to hold exactly.
    index, stride = (2**30 + 1, 1), (2**31 - 1, 1)
    offset, exact = impl.storage.element_offset(index, stride, 2**40 + 1), 2**61 + 2**40 + 2**30 + 1
    evidence.equal(offset, exact, what="element_offset", unit="elements", index=index, stride=stride)


@verifies(storage.STRIDES)
def test_an_invalid_size_index_or_stride_is_refused(impl, evidence):
    """A negative size, an index longer or shorter than the strides, and a value that is not a number raise an error."""
    for shape in ((-1,), (2, -3), (0, -1), (-2, -3)):
        evidence.raises(ValueError, partial(impl.storage.contiguous_strides, shape), shape=shape)
    for shape in (("3", 2), (2, None)):
        evidence.raises(TypeError, partial(impl.storage.contiguous_strides, shape), shape=shape)
    for index, stride in (((1,), (3, 1)), ((1, 1, 1), (3, 1))):
        call = partial(impl.storage.element_offset, index, stride)
        evidence.raises(LENGTHS_DIFFER, call, index=index, stride=stride)
    for index, stride in (((1, None), (3, 1)), ((1, 1), (3, None))):
        evidence.raises(TypeError, partial(impl.storage.element_offset, index, stride), index=index, stride=stride)


@verifies(storage.STRIDES)
def test_the_strides_of_a_4_by_4_matrix_are_4_and_1(impl, evidence):
    """The strides of a 4×4 matrix are 4 and 1: the next row is 4 elements away, the next column 1."""
    evidence.equal(torch.empty(4, 4).stride(), (4, 1), what="torch's strides")
    evidence.equal(tuple(impl.storage.contiguous_strides((4, 4))), (4, 1), what="contiguous_strides", shape=(4, 4))


@verifies(storage.STRIDES)
def test_strides_and_offsets_do_not_overflow(impl, evidence):
    """contiguous_strides and element_offset are exact for a huge tensor, with Python's integers and with NumPy's."""
    huge = torch.empty((2, *HUGE), device="meta")
    row = (16383, 32767)  # This is the index of the last row of the first half.
    for integer in INTEGER_TYPES:
        shape, index, stride = as_integers(integer, huge.shape, row, huge.stride()[1:3])
        strides = tuple(impl.storage.contiguous_strides(shape))
        evidence.equal(strides, huge.stride(), what="contiguous_strides", shape=shape)
        offset, predicted = impl.storage.element_offset(index, stride, integer(3)), huge[0, *row, 3].storage_offset()
        evidence.equal(offset, predicted, what="element_offset", unit="elements", index=index, stride=stride)


@verifies(storage.VIEWS_SHARE)
@given(shape=st.filled_shapes, steps=st.view_chains)
def test_a_chain_of_views_shares_storage_with_its_base(impl, evidence, device, shape, steps):
    """A view of a view of a tensor shares the tensor's storage, whichever kinds of views are chained."""
    base = torch.empty(shape, device=device)
    view = follow(base, steps)
    evidence.true(same(view, base), "the view shares its base's storage")
    evidence.true(impl.storage.shares_storage(view, base), "shares_storage(view, base) returns True")


SHARING = {
    "tensor and itself": lambda x: (x, x),
    "row and column": lambda x: (x[0], x[:, 1]),
    "view and transpose": lambda x: (x.view(3, 2), x.transpose(1, 0)),
    "one row and the next": lambda x: (x[0], x[1]),
    "tensor and its slice without elements": lambda x: (x, x[:0]),
    "tensor and its bits as int32": lambda x: (x, x.view(torch.int32)),
    "tensor and its values as complex numbers": lambda x: (x, torch.view_as_complex(x.view(3, 2))),
    "tensor and its data": lambda x: (x, x.data),
    "tensor that requires a gradient, and its detached view": lambda x: (x.requires_grad_(), x.detach()),
    "tensor and the parameter made of it": lambda x: (x, torch.nn.Parameter(x)),
    "row of a parameter and its data": lambda x: ((p := torch.nn.Parameter(x))[1], p.data),
}
# Two views of one storage of 0 bytes are missing on purpose: they have no byte in common, so either answer is right.
SEPARATE = {
    "tensor and its clone": lambda x: (x, x.clone()),
    "transpose and its contiguous copy": lambda x: (x.t(), x.t().contiguous()),
    "two tensors": lambda x: (x, torch.zeros_like(x)),
    "two empty tensors": lambda x: (x.new_empty(0), x.new_empty(0)),
    "empty tensors of two shapes": lambda x: (x.new_empty(0, 3), x.new_empty(2, 0)),
    "slice without elements and its clone": lambda x: (x[:0], x[:0].clone()),
    "tensor and empty tensor": lambda x: (x, x.new_empty(0)),
}


@verifies(storage.VIEWS_SHARE)
def test_parts_of_one_tensor_share_and_separate_tensors_do_not(impl, evidence, device):
    """Parts of one tensor share a storage, even without a common element, and copies do not; shares_storage agrees."""
    for pairs, shared in ((SHARING, True), (SEPARATE, False)):
        for pair, make in pairs.items():
            a, b = make(torch.zeros(2, 3, device=device))
            evidence.equal(same(a, b), shared, what="the two tensors share a storage", pair=pair)
            for answer in (impl.storage.shares_storage(a, b), impl.storage.shares_storage(b, a)):
                evidence.equal(bool(answer), shared, what="shares_storage", pair=pair)


@verifies(storage.VIEWS_SHARE)
def test_what_was_shared_once_says_nothing_of_later_tensors(impl, evidence, device):
    """shares_storage judges a new tensor by itself, even if it has the id() and the memory of one that is gone."""
    # Python gives ids again: an implementation that remembers its answers by id() would give an old answer.
    for attempt in range(50):
        shared = attempt % 2 == 1
        a = torch.zeros(2, 3, device=device)
        b = a.view(3, 2) if shared else torch.zeros(3, 2, device=device)
        evidence.equal(bool(impl.storage.shares_storage(a, b)), shared, what="shares_storage", attempt=attempt)


@verifies(storage.VIEWS_SHARE)
def test_shares_storage_changes_nothing(impl, evidence, device):
    """shares_storage leaves the values of both tensors as they were, and whether they require a gradient."""
    for make in (torch.Tensor.detach, torch.Tensor.clone):
        a = torch.arange(6.0, device=device).requires_grad_()
        b = make(a)
        before = a.requires_grad, b.requires_grad
        for pair in ((a, b), (b, a)):
            impl.storage.shares_storage(*pair)
        evidence.equal((a.requires_grad, b.requires_grad), before, what="requires_grad", b=f"a.{make.__name__}()")
        for tensor in (a, b):
            evidence.equal(tensor.detach(), torch.arange(6.0, device=device), what="the values")


@verifies(storage.MUTATION)
@given(shape=st.filled_shapes, steps=st.view_chains, other=st.views, pick=st.picks)
def test_what_is_written_through_a_view_shows_in_every_other(evidence, device, shape, steps, other, pick):
    """One element written through a view changes in every tensor that shows it, and no other element changes."""
    base = counting(shape, device)  # Each value is its own position in the storage.
    tensors = {"base": base, "view": follow(base, steps), "other view": follow(base, [other])}
    index = index_of(pick, tensors["view"].shape)
    position = int(tensors["view"][index])
    expected = {name: torch.where(tensor == position, -1, tensor) for name, tensor in tensors.items()}
    tensors["view"][index] = -1
    for name, tensor in tensors.items():
        evidence.equal(tensor, expected[name], what=f"the {name}")


@verifies(storage.MUTATION)
def test_the_copies_of_an_expanded_row_are_one(evidence, device):
    """One element written through an expanded row changes in every repetition of the row."""
    for copies, columns in product((1, 2, 5), (1, 2, 3)):
        expanded = counting((columns,), device).expand(copies, columns)
        expected = torch.arange(columns, device=device).repeat(copies, 1)
        expected[:, columns // 2] = -1
        expanded[copies // 2, columns // 2] = -1
        evidence.equal(expanded, expected, what="the expanded row", copies=copies, columns=columns)


@verifies(storage.MUTATION)
def test_adding_in_place_to_a_whole_expanded_tensor_raises(evidence):
    """On the CPU, adding in place to an expanded row raises RuntimeError and leaves the row as it was."""
    for copies in (2, 3, 8):
        row = counting((5,))
        evidence.raises(RuntimeError, partial(row.expand(copies, 5).add_, 1), copies=copies)
        evidence.equal(row, counting((5,)), what="the row", copies=copies)


@verifies(storage.CLONE)
@given(shape=st.filled_shapes, steps=st.view_chains, pick=st.picks)
def test_a_clone_is_independent(evidence, device, shape, steps, pick):
    """A clone of any view has equal values in a storage of its own, and a later write to one leaves the other alone."""
    base = counting(shape, device)
    view = follow(base, steps)
    clone = view.clone()
    evidence.true(not same(clone, base), "the clone has a storage of its own")
    evidence.equal(clone, view, what="the clone")
    index = index_of(pick, view.shape)
    clone[index] = -1
    evidence.equal(base, counting(shape, device), what="the base after a write to the clone")
    view[index] = -2
    evidence.equal(int(clone[index]), -1, what="the clone's element after a write to the view")


@verifies(storage.TRANSPOSE_CONTIGUITY)
def test_a_transpose_is_contiguous_unless_both_sizes_exceed_1(impl, evidence, device):
    """A transposed matrix is contiguous if one of its sizes is 0 or 1 and not otherwise, as is_contiguous says."""
    for rows, columns in product(range(6), repeat=2):
        transposed = torch.empty(rows, columns, device=device).t()
        predicted, inputs = rows <= 1 or columns <= 1, {"rows": rows, "columns": columns}
        evidence.equal(transposed.is_contiguous(), predicted, what="the transpose is contiguous", **inputs)
        answer = impl.storage.is_contiguous(tuple(transposed.shape), transposed.stride())
        evidence.equal(bool(answer), predicted, what="is_contiguous", **inputs)


@refutes(storage.TRANSPOSE_CONTIGUITY)
def test_a_transposed_row_or_column_is_still_contiguous(evidence, device):
    """Transposing a matrix of one row or one column leaves it contiguous."""
    for shape in ((1, 5), (5, 1)):
        transposed = torch.empty(shape, device=device).t()
        evidence.differs(transposed.is_contiguous(), False, what="the transpose is contiguous", shape=shape)


@verifies(storage.TRANSPOSE_CONTIGUITY)
@example(layout=Layout((1, 1, 3), (7, 9, 1)))
@example(layout=Layout((2, 0, 0), (5, 5, 5)))
@example(layout=Layout((3, 3), (1, 3)))
@given(layout=st.layouts)
def test_contiguity_is_what_torch_says(impl, evidence, layout):
    """is_contiguous agrees with torch for any shape and strides, also after a change of one stride or size."""
    for shape, stride, _ in layout.nearby():
        predicted = torch.empty_strided(shape, stride).is_contiguous()
        answer = bool(impl.storage.is_contiguous(shape, stride))
        evidence.equal(answer, predicted, what="is_contiguous", shape=shape, stride=stride)


@verifies(storage.TRANSPOSE_CONTIGUITY)
def test_contiguity_of_more_dimensions_and_larger_sizes(impl, evidence):
    """is_contiguous agrees with torch on up to 7 dimensions: without gaps, with gaps, swapped and expanded."""
    for shape, stride, _ in LARGER_LAYOUTS:
        predicted = torch.empty_strided(shape, stride, device="meta").is_contiguous()
        answer = bool(impl.storage.is_contiguous(shape, stride))
        evidence.equal(answer, predicted, what="is_contiguous", shape=shape, stride=stride)


@verifies(storage.TRANSPOSE_CONTIGUITY)
def test_is_contiguous_refuses_an_invalid_layout(impl, evidence):
    """is_contiguous raises an error for a negative size, for more or fewer strides than sizes, and for a non-number."""
    for error, shape, stride in (
        (ValueError, (-1,), (1,)),
        (ValueError, (-2, 3), (3, 1)),
        (ValueError, (2, -3), (3, 1)),
        (LENGTHS_DIFFER, (2, 3), (3, 1, 1)),
        (LENGTHS_DIFFER, (3, 2), (1,)),
        (LENGTHS_DIFFER, (3,), ()),
        (TypeError, ("3",), (1,)),
        (TypeError, (2, None), (3, 1)),
        (TypeError, (2, 3), (3, None)),
    ):
        evidence.raises(error, partial(impl.storage.is_contiguous, shape, stride), shape=shape, stride=stride)


@verifies(storage.TRANSPOSE_CONTIGUITY)
def test_channels_last_is_contiguous_too_where_there_is_nothing_to_swap(impl, evidence):
    """A channels-last tensor is contiguous just if it has one channel or one pixel, as is_contiguous says."""
    for shape in ((2, 1, 1, 1), (2, 1, 4, 5), (2, 3, 1, 1), (2, 3, 4, 5)):
        tensor = torch.empty(shape).contiguous(memory_format=torch.channels_last)
        _, channels, height, width = shape
        predicted = channels == 1 or height * width == 1
        evidence.equal(tensor.is_contiguous(), predicted, what="the channels-last tensor is contiguous", shape=shape)
        answer = bool(impl.storage.is_contiguous(shape, tensor.stride()))
        evidence.equal(answer, predicted, what="is_contiguous", shape=shape, stride=tensor.stride())


@verifies(storage.TRANSPOSE_CONTIGUITY)
def test_contiguity_does_not_overflow(impl, evidence):
    """With Python's integers or NumPy's, a tensor of 2³³ elements is contiguous and its transpose is not."""
    huge = torch.empty(65536, 65536, 2, device="meta")
    for tensor, integer in product((huge, huge.transpose(0, 1)), INTEGER_TYPES):
        shape, stride = as_integers(integer, tensor.shape, tensor.stride())
        answer = bool(impl.storage.is_contiguous(shape, stride))
        evidence.equal(answer, tensor.is_contiguous(), what="is_contiguous", shape=shape, stride=stride)


@verifies(storage.CONTIGUOUS_COPIES)
@example(layout=Layout((3, 2), (1, 3)))
@example(layout=Layout((3, 1), (1, 3)))
@given(layout=st.layouts)
def test_contiguous_copies_what_is_not_contiguous(evidence, device, layout):
    """contiguous() returns a contiguous tensor itself and copies any other, with the same values either way."""
    tensor = layout.make(device)
    result, already = tensor.contiguous(), tensor.is_contiguous()
    evidence.equal(same(result, tensor), already, what="the result shares the tensor's storage")
    evidence.equal(result is tensor, already, what="the result is the tensor itself")
    evidence.true(result.is_contiguous(), "the result is contiguous")
    evidence.equal(result, layout.positions().to(device), what="the result")


@refutes(storage.CONTIGUOUS_COPIES)
def test_contiguous_copies_nothing_of_a_contiguous_tensor(evidence, device):
    """contiguous() on a fresh matrix, or on the transpose of a single row or column, makes no copy."""
    matrix, row, column = (torch.zeros(shape, device=device) for shape in ((2, 3), (1, 3), (3, 1)))
    for tensor in (matrix, row.t(), column.t()):
        shared = same(tensor.contiguous(), tensor)
        evidence.differs(shared, False, what="the result shares the tensor's storage", tensor=tensor)


@verifies(storage.VIEW_OF_TRANSPOSE)
@example(case=(Layout((6, 4), (1, 6)), [(2, 3, 4), (24,)]))
@example(case=(Layout((2, 3, 4, 5), (60, 1, 15, 3)), [(2, 12, 5)]))
@example(case=(Layout((2, 1, 4, 5), (20, 1, 5, 1)), [(2, 4, 5), (40,)]))
@example(case=(Layout((2, 1, 1, 1), (1, 1, 1, 1)), [(2,), (1, 2)]))
@example(case=(Layout((2, 1, 3), (3, 100, 1)), [(6,)]))
@example(case=(Layout((2, 3, 4), (100, 4, 1)), [(2, 12), (24,)]))
@example(case=(Layout((2, 0), (7, 5)), [(0, 5), (0,), (3, 0, 1)]))
@example(case=(Layout((3, 3), (1, 3)), [(9,), (3, 3), (1, 9)]))
@given(case=st.viewings)
def test_view_works_where_strides_exist_and_reshape_everywhere(impl, evidence, device, case):
    """view() works where strides for the new shape exist; reshape() works everywhere and copies where view() raises."""
    # layout.allows(shape) searches for strides by which a tensor of the new shape has the same elements in order.
    layout, shapes = case
    tensor = layout.make(device)
    for shape in shapes:
        works = view_works(tensor, shape)
        evidence.equal(works, layout.allows(shape), what="view() works", new_shape=shape)
        evidence.equal(answer_of(impl.storage.can_view, layout, shape), works, what="can_view", new_shape=shape)
        if math.prod(shape) == tensor.numel():
            reshaped = tensor.reshape(shape)
            evidence.equal(same(reshaped, tensor), works, what="reshape() shares the storage", new_shape=shape)
            values = layout.positions().view(shape).to(device)
            evidence.equal(reshaped, values, what="the result of reshape()", new_shape=shape)


@verifies(storage.VIEW_OF_TRANSPOSE)
def test_views_of_more_dimensions_and_larger_sizes(impl, evidence):
    """can_view agrees with torch on up to 7 dimensions, swapped or expanded, and on tensors of a single element."""
    single = [((), ()), ((1,), (5,)), ((1, 1), (3, 0)), ((2,), (1,)), ((0,), (1,))]
    cases = [(Layout(*layout), shape) for layout in single for shape in ((), (1,), (1,) * 6, (2,), (0,), (0, 2))]
    expanded = [Layout((3, 4), stride) for stride in ((0, 0), (0, 1), (1, 0), (4, 1))]
    cases += [(layout, shape) for layout in expanded for shape in ((12,), (4, 3), (3, 2, 2), (1, 12, 1))]
    for layout in LARGER_LAYOUTS:
        sizes = layout.shape
        merged = [(*sizes[:d], sizes[d] * sizes[d + 1], *sizes[d + 2 :]) for d in range(len(sizes) - 1)]
        for shape in {sizes, sizes[::-1], (math.prod(sizes),), (1, *sizes, 1), *merged}:
            cases.append((layout, shape))
    for layout, shape in cases:
        works = view_works(torch.empty_strided(layout.shape, layout.stride, device="meta"), shape)
        inputs = {"shape": layout.shape, "stride": layout.stride, "new_shape": shape}
        evidence.equal(answer_of(impl.storage.can_view, layout, shape), works, what="can_view", **inputs)


@verifies(storage.VIEW_OF_TRANSPOSE)
def test_can_view_refuses_an_invalid_layout_or_shape(impl, evidence):
    """can_view raises an error for a negative size, for more or fewer strides than sizes, and for a non-number."""
    for error, shape, stride, new_shape in (
        (ValueError, (-1,), (1,), (-1,)),
        (ValueError, (-2, -3), (3, 1), (6,)),
        (ValueError, (2, 3), (3, 1), (-2, -3)),
        (LENGTHS_DIFFER, (2, 3), (3, 1, 1), (6,)),
        (LENGTHS_DIFFER, (2, 3), (1,), (6,)),
        (TypeError, (None,), (1,), (3,)),
        (TypeError, (2, 3), (3, None), (6,)),
        (TypeError, (2, 3), (3, 1), (None, 6)),
    ):
        inputs = {"shape": shape, "stride": stride, "new_shape": new_shape}
        evidence.raises(error, partial(impl.storage.can_view, shape, stride, new_shape), **inputs)
    # can_view need not accept −1, torch's sign for a size to be found; but no view of this transpose is a vector.
    answer = answer_of(impl.storage.can_view, Layout((3, 4), (1, 3)), (-1,))
    evidence.equal(answer, False, what="can_view", new_shape=(-1,))


@verifies(storage.VIEW_OF_TRANSPOSE)
def test_can_view_does_not_overflow(impl, evidence):
    """With Python's integers or NumPy's, a tensor of 2³³ elements can be viewed as a matrix, its transpose cannot."""
    huge, merged = torch.empty(65536, 65536, 2, device="meta"), (32768, 262144)
    for tensor, integer in product((huge, huge.transpose(0, 1)), INTEGER_TYPES):
        shape, stride, new_shape = as_integers(integer, tensor.shape, tensor.stride(), merged)
        answer = bool(impl.storage.can_view(shape, stride, new_shape))
        evidence.equal(answer, view_works(tensor, merged), what="can_view", shape=shape, stride=stride)


@refutes(storage.VIEW_OF_TRANSPOSE)
def test_a_view_may_split_a_transposed_tensor(evidence, device):
    """view() splits a dimension of a transposed tensor without an error: a transpose of shape (6, 4) as (2, 3, 4)."""
    for rows, columns, parts in ((4, 2, 3), (2, 5, 1), (3, 1, 4)):
        transposed, shape = torch.empty(rows, columns * parts, device=device).t(), (columns, parts, rows)
        evidence.differs(view_works(transposed, shape), False, what="view() works", new_shape=shape)


def block_of(device):
    """Return the bytes of the allocator's block, or skip the test where the allocator keeps no statistics."""
    return allocator.block(device) or pytest.skip(allocator.silent(device))


@verifies(storage.ALLOCATOR)
@example(values=32 * 32)
@given(values=st.values_of_less_than_a_mebibyte)
def test_memory_grows_by_the_tensor_in_whole_blocks(evidence, accelerator, values):
    """A new tensor requests numel × itemsize bytes, and the allocator hands them out rounded up to whole blocks."""
    block = block_of(accelerator)
    grown = allocator.growth(partial(torch.empty, values, dtype=torch.float32, device=accelerator), accelerator)
    evidence.equal(grown.requested, 4 * values, what="the requested memory", unit="bytes")
    in_blocks = allocator.in_blocks(4 * values, block)
    evidence.equal(grown.allocated, in_blocks, what="the allocated memory", unit="bytes", block=block)


@refutes(storage.ALLOCATOR)
def test_a_single_value_takes_a_whole_block(evidence, accelerator):
    """One float32 value has 4 bytes, but the allocated memory grows by more than that."""
    block_of(accelerator)
    grown = allocator.growth(partial(torch.empty, 1, dtype=torch.float32, device=accelerator), accelerator)
    evidence.differs(grown.allocated, 4, what="the allocated memory", unit="bytes")
