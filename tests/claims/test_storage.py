"""§2.2, §2.2.1, §2.2.2a: what a tensor occupies, where its values lie, and what shares or copies them."""

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

SHAPES = tuple(shape for dimensions in range(4) for shape in product(range(4), repeat=dimensions))
HUGE = (16384, 32768, 8192)  # the lecture's sizes: too many elements for 32 bits
# Larger sizes and more dimensions than the strategies draw.
LARGER = ((7,), (7, 16), (16, 1, 7), (100, 7, 3), (5, 2, 7, 4), (2, 3, 1, 7, 2), (3, 2, 2, 5, 1, 2), (2,) * 7)
LARGER_LAYOUTS = tuple(dict.fromkeys(layout for shape in LARGER for layout in layouts_of(shape)))
DOES_NOT_FIT = (ValueError, TypeError, IndexError)  # of a shape and strides of another number of dimensions
NUMBERS = (int, np.int32, np.uint32, np.int64)
# Those whose values take whole bytes, each its own: neither packed nor quantized.
WHOLE_BYTES = re.compile(r"torch\.(bool|(b?float|complex|u?int)(8|16|32|64|128)(_e\w+)?)")
DTYPES = sorted(
    {x for x in vars(torch).values() if isinstance(x, torch.dtype) and WHOLE_BYTES.fullmatch(str(x))}, key=str
)


def shared(yes):
    return "shared" if yes else "separate"


def contiguous(yes):
    return "contiguous" if yes else "non-contiguous"


def possible(yes):
    return "possible" if yes else "impossible"


def views(tensor, shape):
    """Say whether torch can view the tensor so."""
    try:
        tensor.view(shape)
    except RuntimeError:
        return False
    return True


def foresees(can_view, layout, shape):
    """Ask can_view, which may also refuse a shape of more or fewer elements."""
    try:
        return can_view(layout.shape, layout.stride, shape)
    except ValueError:
        if math.prod(layout.shape) == math.prod(shape):
            raise
        return False


def as_numbers(number, *sequences):
    """Return the sequences as tuples of this type of number."""
    return [tuple(number(n) for n in sequence) for sequence in sequences]


@verifies(storage.BYTES)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_a_fresh_tensor_takes_numel_times_itemsize(impl, evidence, device):
    """The storage of a freshly made tensor has numel × itemsize bytes, for every dtype and small shape."""
    for dtype, shape in product(DTYPES, SHAPES):
        try:
            fresh = torch.empty(shape, dtype=dtype, device=device)
        except (RuntimeError, TypeError):  # not every device has every dtype
            continue
        predicted, inputs = math.prod(shape) * dtype.itemsize, {"shape": shape, "dtype": dtype}
        evidence.equal(bytes_of(fresh), predicted, unit="bytes of storage", **inputs)
        evidence.equal(impl.storage.tensor_bytes(shape, dtype), predicted, unit="bytes", **inputs)


@verifies(storage.BYTES)
def test_a_32_by_32_float32_tensor_takes_4096_bytes(impl, evidence, device):
    """The notes' own tensor takes 32·32·4 bytes."""
    evidence.equal(bytes_of(torch.zeros(32, 32, device=device)), 4096, unit="bytes of storage")
    evidence.equal(impl.storage.tensor_bytes((32, 32), torch.float32), 4096, unit="bytes")


@verifies(storage.BYTES)
def test_bytes_do_not_overflow(impl, evidence):
    """Sizes of the lecture's scale and above give the exact bytes, as Python's integers or NumPy's."""
    # The second has more bytes than a float64 counts exactly.
    for (sizes, dtype), number in product(((HUGE, torch.float32), ((2**27 + 1,) * 2, torch.int8)), NUMBERS):
        huge, (shape,) = torch.empty(sizes, dtype=dtype, device="meta"), as_numbers(number, sizes)
        evidence.equal(impl.storage.tensor_bytes(shape, dtype), bytes_of(huge), unit="bytes", shape=shape, dtype=dtype)


@verifies(storage.BYTES)
def test_bytes_are_exact_whatever_their_number(impl, evidence):
    """Sizes that are no powers of 2, and more bytes than 64 bits count, give numel × itemsize to the byte."""
    for shape in (*LARGER, (100, 50), (1000, 77), (2**31, 2**31 + 1, 3), (2**62, 2, 2), (10**30 + 1, 7)):
        predicted = math.prod(shape) * 4
        evidence.equal(impl.storage.tensor_bytes(shape, torch.float32), predicted, unit="bytes", shape=shape)


@verifies(storage.BYTES)
def test_what_is_no_size_is_refused(impl, evidence):
    """A negative size is a ValueError, and what is not a number a TypeError."""
    for shape in ((-1,), (-2, -3), (0, -1)):
        evidence.raises(ValueError, partial(impl.storage.tensor_bytes, shape, torch.float32), shape=shape)
    for shape in (("3",), (2, None)):
        evidence.raises(TypeError, partial(impl.storage.tensor_bytes, shape, torch.float32), shape=shape)


@verifies(storage.BYTES)
def test_expanding_and_slicing_leave_the_storage_as_it_is(evidence, device):
    """An expanded tensor has more elements than its storage holds, a sliced one fewer."""
    for rows, columns in product((2, 3, 5), (1, 2, 3)):
        row, matrix = torch.empty(columns, device=device), torch.empty(rows, columns, device=device)
        inputs = {"rows": rows, "columns": columns}
        evidence.equal(bytes_of(row.expand(rows, columns)), 4 * columns, unit="bytes of an expanded row", **inputs)
        evidence.equal(bytes_of(matrix[1:]), 4 * rows * columns, unit="bytes of a sliced matrix", **inputs)


@verifies(storage.STRIDES)
@example(layout=Layout((), (), 3), pick=0)
@example(layout=Layout((3, 4), (1, 1), 2), pick=7)
@given(layout=st.layouts, pick=st.picks)
def test_an_element_lies_at_offset_plus_index_times_stride(impl, evidence, device, layout, pick):
    """Whatever the strides, the flat storage holds the element at offset + Σ index·stride."""
    tensor = layout.make(device)
    evidence.equal(tensor, flat(tensor)[layout.positions().to(device)], unit="as the element")
    for place in (pick, -1) if tensor.numel() else ():
        index = index_of(place, tensor.shape)
        offset = impl.storage.element_offset(index, layout.stride, layout.offset)
        evidence.equal(offset, int(tensor[index]), unit="elements from the start", index=index)


@verifies(storage.STRIDES)
def test_contiguous_strides_count_the_elements_row_by_row(impl, evidence):
    """By contiguous strides the elements lie at 0, 1, 2, … in the order of their indices, for every small shape."""
    # Only where the elements lie matters: an empty tensor uses no stride, and neither does a dimension of size 1.
    for shape in SHAPES:
        for strides, whose in (
            (torch.empty(shape).stride(), "torch"),
            (impl.storage.contiguous_strides(shape), "impl"),
        ):
            evidence.equal(len(strides), len(shape), unit=f"strides by {whose}", shape=shape)
            places = Layout(shape, tuple(strides)).positions()
            evidence.equal(places, counting(shape), unit=f"as the place by {whose}", shape=shape)


@verifies(storage.STRIDES)
def test_the_strides_of_an_empty_tensor_are_torchs(impl, evidence):
    """A size of 0 counts as 1 in the strides before it: (2, 0, 3) has the strides (3, 3, 1), as in torch."""
    for shape in (*(shape for shape in SHAPES if 0 in shape), (0, 7, 5), (4, 0, 1, 6), (3, 2, 0, 0)):
        strides, used = impl.storage.contiguous_strides(shape), [place for place, n in enumerate(shape) if n != 1]
        evidence.equal(len(strides), len(shape), unit="strides", shape=shape)
        measured, predicted = ([steps[place] for place in used] for steps in (strides, torch.empty(shape).stride()))
        evidence.equal(measured, predicted, unit="as the strides of sizes other than 1", shape=shape)


@verifies(storage.STRIDES)
def test_more_dimensions_and_larger_sizes_follow_the_same_rule(impl, evidence):
    """Up to 7 dimensions, and sizes up to 100, have the same strides as in torch and the same places."""
    for shape in LARGER:
        tensor, sizes = torch.empty(shape, device="meta"), list(shape)
        strides = tuple(impl.storage.contiguous_strides(sizes))
        evidence.equal(sizes, list(shape), unit="as the sizes afterwards", shape=shape)
        evidence.equal(len(strides), len(shape), unit="strides by impl", shape=shape)
        used = [place for place, size in enumerate(shape) if size != 1]
        measured, predicted = ([steps[place] for place in used] for steps in (strides, tensor.stride()))
        evidence.equal(measured, predicted, unit="as the strides", shape=shape)
        index = tuple(size - 1 for size in shape)
        offset = impl.storage.element_offset(index, tensor.stride())
        evidence.equal(offset, tensor.numel() - 1, unit="elements from the start", index=index, stride=tensor.stride())
    # More places than a float64 counts exactly.
    index, stride = (2**30 + 1, 1), (2**31 - 1, 1)
    offset = impl.storage.element_offset(index, stride, 2**40 + 1)
    evidence.equal(offset, 2**61 + 2**40 + 2**30 + 1, unit="elements from the start", index=index, stride=stride)


@verifies(storage.STRIDES)
def test_what_is_no_place_is_refused(impl, evidence):
    """A negative size, an index of another length than the strides, and what is not a number are errors."""
    for shape in ((-1,), (2, -3), (0, -1), (-2, -3)):
        evidence.raises(ValueError, partial(impl.storage.contiguous_strides, shape), shape=shape)
    for shape in (("3", 2), (2, None)):
        evidence.raises(TypeError, partial(impl.storage.contiguous_strides, shape), shape=shape)
    for index, stride in (((1,), (3, 1)), ((1, 1, 1), (3, 1))):
        call = partial(impl.storage.element_offset, index, stride)
        evidence.raises(DOES_NOT_FIT, call, index=index, stride=stride)
    for index, stride in (((1, None), (3, 1)), ((1, 1), (3, None))):
        evidence.raises(TypeError, partial(impl.storage.element_offset, index, stride), index=index, stride=stride)


@verifies(storage.STRIDES)
def test_the_strides_of_a_4_by_4_matrix_are_4_and_1(impl, evidence):
    """A step down a 4×4 matrix passes over 4 elements, a step to the right over 1."""
    evidence.equal(torch.empty(4, 4).stride(), (4, 1), unit="as torch's strides")
    evidence.equal(tuple(impl.storage.contiguous_strides((4, 4))), (4, 1), unit="as the strides", shape=(4, 4))


@verifies(storage.STRIDES)
def test_places_do_not_overflow(impl, evidence):
    """Strides and places of the lecture's scale are exact, as Python's integers or NumPy's."""
    huge = torch.empty((2, *HUGE), device="meta")
    far = (16383, 32767)
    for number in NUMBERS:
        shape, index, stride = as_numbers(number, huge.shape, far, huge.stride()[1:3])
        evidence.equal(tuple(impl.storage.contiguous_strides(shape)), huge.stride(), unit="as the strides", shape=shape)
        offset, place = impl.storage.element_offset(index, stride, number(3)), huge[0, *far, 3].storage_offset()
        evidence.equal(offset, place, unit="elements from the start", index=index, stride=stride)


@verifies(storage.VIEWS_SHARE)
@given(shape=st.filled_shapes, steps=st.view_chains)
def test_a_chain_of_views_shares_storage_with_its_base(impl, evidence, device, shape, steps):
    """Slicing, transposing, permuting, expanding, viewing… again and again never leaves the storage."""
    base = torch.empty(shape, device=device)
    view = follow(base, steps)
    evidence.equal(shared(same(view, base)), "shared", unit="storage")
    evidence.equal(shared(impl.storage.shares_storage(view, base)), "shared", unit="storage by shares_storage")


# A storage without a byte has nothing to share: only that separately made ones are separate is asked of impl.
PAIRS = {
    "tensor and itself": ("shared", lambda x: (x, x)),
    "row and column": ("shared", lambda x: (x[0], x[:, 1])),
    "view and transpose": ("shared", lambda x: (x.view(3, 2), x.transpose(1, 0))),
    "one row and the next": ("shared", lambda x: (x[0], x[1])),
    "tensor and its slice without elements": ("shared", lambda x: (x, x[:0])),
    "tensor and its bits as int32": ("shared", lambda x: (x, x.view(torch.int32))),
    "tensor and its values as complex numbers": ("shared", lambda x: (x, torch.view_as_complex(x.view(3, 2)))),
    "tensor and its data": ("shared", lambda x: (x, x.data)),
    "tensor that requires a gradient and what is detached from it": (
        "shared",
        lambda x: (x.requires_grad_(), x.detach()),
    ),
    "tensor and the parameter made of it": ("shared", lambda x: (x, torch.nn.Parameter(x))),
    "row of a parameter and its data": ("shared", lambda x: ((p := torch.nn.Parameter(x))[1], p.data)),
    "tensor and its clone": ("separate", lambda x: (x, x.clone())),
    "transpose and its contiguous copy": ("separate", lambda x: (x.t(), x.t().contiguous())),
    "two tensors": ("separate", lambda x: (x, torch.zeros_like(x))),
    "two empty tensors": ("separate", lambda x: (x.new_empty(0), x.new_empty(0))),
    "empty tensors of two shapes": ("separate", lambda x: (x.new_empty(0, 3), x.new_empty(2, 0))),
    "slice without elements and its clone": ("separate", lambda x: (x[:0], x[:0].clone())),
    "tensor and empty tensor": ("separate", lambda x: (x, x.new_empty(0))),
}


@verifies(storage.VIEWS_SHARE)
def test_parts_of_one_tensor_share_and_separate_tensors_do_not(impl, evidence, device):
    """Disjoint and even empty parts of a tensor share its storage; copies and separate tensors have their own."""
    for pair, (predicted, make) in PAIRS.items():
        a, b = make(torch.zeros(2, 3, device=device))
        evidence.equal(shared(same(a, b)), predicted, unit="storage", pair=pair)
        for answer in (impl.storage.shares_storage(a, b), impl.storage.shares_storage(b, a)):
            evidence.equal(shared(answer), predicted, unit="storage by shares_storage", pair=pair)


@verifies(storage.VIEWS_SHARE)
def test_what_was_shared_once_says_nothing_of_later_tensors(impl, evidence, device):
    """New tensors are judged by themselves, though they may get the ids and the memory of earlier ones."""
    for attempt in range(50):  # in turn, so that two answers meet at one id
        a = torch.zeros(2, 3, device=device)
        b = a.view(3, 2) if attempt % 2 else torch.zeros(3, 2, device=device)
        predicted, answer = shared(attempt % 2), impl.storage.shares_storage(a, b)
        evidence.equal(shared(answer), predicted, unit="storage by shares_storage", attempt=attempt)


@verifies(storage.VIEWS_SHARE)
def test_to_ask_what_is_shared_changes_nothing(impl, evidence, device):
    """Whether two tensors share their storage or not, they keep their values and what they require."""
    for make in (torch.Tensor.detach, torch.Tensor.clone):
        a = torch.arange(6.0, device=device).requires_grad_()
        b = make(a)
        before = a.requires_grad, b.requires_grad
        for pair in ((a, b), (b, a)):
            impl.storage.shares_storage(*pair)
        evidence.equal((a.requires_grad, b.requires_grad), before, unit="as requires_grad", b=f"a.{make.__name__}()")
        for tensor in (a, b):
            evidence.equal(tensor.detach(), torch.arange(6.0, device=device), unit="as the values")


@verifies(storage.MUTATION)
@given(shape=st.filled_shapes, steps=st.view_chains, other=st.views, pick=st.picks)
def test_what_is_written_through_a_view_shows_in_every_other(evidence, device, shape, steps, other, pick):
    """One element written through a view changes wherever the storage shows it, and nowhere else."""
    base = counting(shape, device)
    tensors = {"base": base, "view": follow(base, steps), "other view": follow(base, [other])}
    index = index_of(pick, tensors["view"].shape)
    place = int(tensors["view"][index])
    expected = {name: torch.where(tensor == place, -1, tensor) for name, tensor in tensors.items()}
    tensors["view"][index] = -1
    for name, tensor in tensors.items():
        evidence.equal(tensor, expected[name], unit=f"in the {name}")


@verifies(storage.MUTATION)
def test_the_copies_of_an_expanded_row_are_one(evidence, device):
    """One element written through an expanded row shows in all its copies."""
    for copies, columns in product((1, 2, 5), (1, 2, 3)):
        expanded = counting((columns,), device).expand(copies, columns)
        expected = torch.arange(columns, device=device).repeat(copies, 1)
        expected[:, columns // 2] = -1
        expanded[copies // 2, columns // 2] = -1
        evidence.equal(expanded, expected, unit="in the copies", copies=copies, columns=columns)


@verifies(storage.MUTATION)
def test_adding_in_place_to_a_whole_expanded_tensor_raises(evidence):
    """On the CPU an in-place addition refuses a tensor that shows an element more than once."""
    for copies in (2, 3, 8):
        row = counting((5,))
        evidence.raises(RuntimeError, partial(row.expand(copies, 5).add_, 1), copies=copies)
        evidence.equal(row, counting((5,)), unit="in the row", copies=copies)


@verifies(storage.CLONE)
@given(shape=st.filled_shapes, steps=st.view_chains, pick=st.picks)
def test_a_clone_has_a_life_of_its_own(evidence, device, shape, steps, pick):
    """A clone of any view has equal values in a new storage, and later writes do not cross over."""
    base = counting(shape, device)
    view = follow(base, steps)
    clone = view.clone()
    evidence.equal(shared(same(clone, base)), "separate", unit="storage")
    evidence.equal(clone, view, unit="in the clone")
    index = index_of(pick, view.shape)
    clone[index] = -1
    evidence.equal(base, counting(shape, device), unit="in the base")
    view[index] = -2
    evidence.equal(int(clone[index]), -1, unit="in the clone")


@verifies(storage.TRANSPOSE_CONTIGUITY)
def test_a_transpose_is_contiguous_unless_both_sizes_exceed_1(impl, evidence, device):
    """A transposed matrix is contiguous if one of its sizes is 0 or 1, and not otherwise."""
    for rows, columns in product(range(6), repeat=2):
        transposed = torch.empty(rows, columns, device=device).t()
        predicted, inputs = contiguous(rows <= 1 or columns <= 1), {"rows": rows, "columns": columns}
        evidence.equal(contiguous(transposed.is_contiguous()), predicted, unit="transpose", **inputs)
        answer = impl.storage.is_contiguous(tuple(transposed.shape), transposed.stride())
        evidence.equal(contiguous(answer), predicted, unit="transpose by is_contiguous", **inputs)


@refutes(storage.TRANSPOSE_CONTIGUITY)
def test_a_transposed_row_or_column_is_still_contiguous(evidence, device):
    """Transposing a matrix of one row or one column leaves it contiguous."""
    for shape in ((1, 5), (5, 1)):
        transposed = torch.empty(shape, device=device).t()
        evidence.differs(contiguous(transposed.is_contiguous()), "non-contiguous", unit="transpose", shape=shape)


@verifies(storage.TRANSPOSE_CONTIGUITY)
@example(layout=Layout((1, 1, 3), (7, 9, 1)))
@example(layout=Layout((2, 0, 0), (5, 5, 5)))
@example(layout=Layout((3, 3), (1, 3)))
@given(layout=st.layouts)
def test_contiguity_is_what_torch_says(impl, evidence, layout):
    """is_contiguous agrees with torch for any shape and strides, and for those that hardly differ."""
    for shape, stride, _ in layout.nearby():
        answer, predicted = (
            impl.storage.is_contiguous(shape, stride),
            torch.empty_strided(shape, stride).is_contiguous(),
        )
        inputs = {"shape": shape, "stride": stride}
        evidence.equal(contiguous(answer), contiguous(predicted), unit="layout by is_contiguous", **inputs)


@verifies(storage.TRANSPOSE_CONTIGUITY)
def test_contiguity_of_more_dimensions_and_larger_sizes(impl, evidence):
    """is_contiguous agrees with torch on up to 7 dimensions, packed, with gaps, swapped or expanded."""
    for shape, stride, _ in LARGER_LAYOUTS:
        predicted = torch.empty_strided(shape, stride, device="meta").is_contiguous()
        answer, inputs = impl.storage.is_contiguous(shape, stride), {"shape": shape, "stride": stride}
        evidence.equal(contiguous(answer), contiguous(predicted), unit="layout by is_contiguous", **inputs)


@verifies(storage.TRANSPOSE_CONTIGUITY)
def test_what_is_no_layout_is_not_asked_for_contiguity(impl, evidence):
    """A negative size, strides of another length than the shape, and what is not a number are errors."""
    for error, shape, stride in (
        (ValueError, (-1,), (1,)),
        (ValueError, (-2, 3), (3, 1)),
        (ValueError, (2, -3), (3, 1)),
        (DOES_NOT_FIT, (2, 3), (3, 1, 1)),
        (DOES_NOT_FIT, (3, 2), (1,)),
        (DOES_NOT_FIT, (3,), ()),
        (TypeError, ("3",), (1,)),
        (TypeError, (2, None), (3, 1)),
        (TypeError, (2, 3), (3, None)),
    ):
        evidence.raises(error, partial(impl.storage.is_contiguous, shape, stride), shape=shape, stride=stride)


@verifies(storage.TRANSPOSE_CONTIGUITY)
def test_channels_last_is_contiguous_too_where_there_is_nothing_to_swap(impl, evidence):
    """A tensor in channels-last order is contiguous as well if it has one channel or one pixel."""
    for shape in ((2, 1, 1, 1), (2, 1, 4, 5), (2, 3, 1, 1), (2, 3, 4, 5)):
        last = torch.empty(shape).contiguous(memory_format=torch.channels_last)
        predicted = contiguous(shape[1] == 1 or shape[2] * shape[3] == 1)
        evidence.equal(contiguous(last.is_contiguous()), predicted, unit="layout", shape=shape)
        answer = impl.storage.is_contiguous(shape, last.stride())
        evidence.equal(contiguous(answer), predicted, unit="layout by is_contiguous", shape=shape, stride=last.stride())


@verifies(storage.TRANSPOSE_CONTIGUITY)
def test_contiguity_does_not_overflow(impl, evidence):
    """2³³ elements are contiguous one way round and not the other, by Python's integers or NumPy's."""
    huge = torch.empty(65536, 65536, 2, device="meta")
    for tensor, number in product((huge, huge.transpose(0, 1)), NUMBERS):
        shape, stride = as_numbers(number, tensor.shape, tensor.stride())
        answer = impl.storage.is_contiguous(shape, stride)
        evidence.equal(contiguous(answer), contiguous(tensor.is_contiguous()), unit="layout", shape=shape)


@verifies(storage.CONTIGUOUS_COPIES)
@example(layout=Layout((3, 2), (1, 3)))
@example(layout=Layout((3, 1), (1, 3)))
@given(layout=st.layouts)
def test_contiguous_copies_what_is_not_contiguous(evidence, device, layout):
    """A contiguous tensor is returned itself, any other copied; the values are the same either way."""
    tensor = layout.make(device)
    result, already = tensor.contiguous(), tensor.is_contiguous()
    evidence.equal(shared(same(result, tensor)), shared(already), unit="storage")
    evidence.equal("same" if result is tensor else "new", "same" if already else "new", unit="tensor")
    evidence.equal(contiguous(result.is_contiguous()), "contiguous", unit="result")
    evidence.equal(result, layout.positions().to(device), unit="in the result")


@refutes(storage.CONTIGUOUS_COPIES)
def test_contiguous_copies_nothing_of_a_contiguous_tensor(evidence, device):
    """contiguous() on a fresh matrix, or on the transpose of a single row or column, makes no copy."""
    matrix, row, column = (torch.zeros(shape, device=device) for shape in ((2, 3), (1, 3), (3, 1)))
    for tensor in (matrix, row.t(), column.t()):
        evidence.differs(shared(same(tensor.contiguous(), tensor)), "separate", unit="storage", tensor=tensor)


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
    """view() works exactly where strides exist that leave each element in its place, and reshape() copies elsewhere."""
    layout, shapes = case
    tensor = layout.make(device)
    for shape in shapes:
        works = views(tensor, shape)
        evidence.equal(possible(works), possible(layout.allows(shape)), unit="view", new_shape=shape)
        foreseen = foresees(impl.storage.can_view, layout, shape)
        evidence.equal(possible(foreseen), possible(works), unit="view by can_view", new_shape=shape)
        if math.prod(shape) == tensor.numel():
            reshaped = tensor.reshape(shape)
            evidence.equal(shared(same(reshaped, tensor)), shared(works), unit="storage", new_shape=shape)
            places = layout.positions().view(shape).to(device)
            evidence.equal(reshaped, places, unit="in the result", new_shape=shape)


@verifies(storage.VIEW_OF_TRANSPOSE)
def test_views_of_more_dimensions_and_larger_sizes(impl, evidence):
    """can_view agrees with torch on up to 7 dimensions, swapped or expanded, and on scalars."""
    scalars = [((), ()), ((1,), (5,)), ((1, 1), (3, 0)), ((2,), (1,)), ((0,), (1,))]
    cases = [(Layout(*layout), shape) for layout in scalars for shape in ((), (1,), (1,) * 6, (2,), (0,), (0, 2))]
    expanded = [Layout((3, 4), stride) for stride in ((0, 0), (0, 1), (1, 0), (4, 1))]
    cases += [(layout, shape) for layout in expanded for shape in ((12,), (4, 3), (3, 2, 2), (1, 12, 1))]
    for layout in LARGER_LAYOUTS:
        sizes = layout.shape
        merged = [(*sizes[:d], sizes[d] * sizes[d + 1], *sizes[d + 2 :]) for d in range(len(sizes) - 1)]
        for shape in {sizes, sizes[::-1], (math.prod(sizes),), (1, *sizes, 1), *merged}:
            cases.append((layout, shape))
    for layout, shape in cases:
        works = views(torch.empty_strided(layout.shape, layout.stride, device="meta"), shape)
        inputs = {"shape": layout.shape, "stride": layout.stride, "new_shape": shape}
        foreseen = foresees(impl.storage.can_view, layout, shape)
        evidence.equal(possible(foreseen), possible(works), unit="view by can_view", **inputs)


@verifies(storage.VIEW_OF_TRANSPOSE)
def test_what_is_no_view_is_refused(impl, evidence):
    """A negative size, strides of another length than the shape, and what is not a number are errors."""
    for error, shape, stride, new_shape in (
        (ValueError, (-1,), (1,), (-1,)),
        (ValueError, (-2, -3), (3, 1), (6,)),
        (ValueError, (2, 3), (3, 1), (-2, -3)),
        (DOES_NOT_FIT, (2, 3), (3, 1, 1), (6,)),
        (DOES_NOT_FIT, (2, 3), (1,), (6,)),
        (TypeError, (None,), (1,), (3,)),
        (TypeError, (2, 3), (3, None), (6,)),
        (TypeError, (2, 3), (3, 1), (None, 6)),
    ):
        inputs = {"shape": shape, "stride": stride, "new_shape": new_shape}
        evidence.raises(error, partial(impl.storage.can_view, shape, stride, new_shape), **inputs)
    # −1 is outside what is asked of can_view; but nothing makes a view of this transpose possible.
    foreseen = foresees(impl.storage.can_view, Layout((3, 4), (1, 3)), (-1,))
    evidence.equal(possible(foreseen), "impossible", unit="view by can_view", new_shape=(-1,))


@verifies(storage.VIEW_OF_TRANSPOSE)
def test_can_view_does_not_overflow(impl, evidence):
    """2³³ elements can be merged one way round and not the other, by Python's integers or NumPy's."""
    huge, merged = torch.empty(65536, 65536, 2, device="meta"), (32768, 262144)
    for tensor, number in product((huge, huge.transpose(0, 1)), NUMBERS):
        shape, stride, new_shape = as_numbers(number, tensor.shape, tensor.stride(), merged)
        answer = impl.storage.can_view(shape, stride, new_shape)
        evidence.equal(possible(answer), possible(views(tensor, merged)), unit="view by can_view", shape=shape)


@refutes(storage.VIEW_OF_TRANSPOSE)
def test_a_view_may_split_a_transposed_tensor(evidence, device):
    """view() takes a transposed tensor as long as it merges none of its dimensions: (4, 6).T as (2, 3, 4), for one."""
    for rows, columns, parts in ((4, 2, 3), (2, 5, 1), (3, 1, 4)):
        transposed, shape = torch.empty(rows, columns * parts, device=device).t(), (columns, parts, rows)
        evidence.differs(possible(views(transposed, shape)), "impossible", unit="view", new_shape=shape)


def block_of(device):
    return allocator.block(device) or pytest.skip(allocator.silent(device))


@verifies(storage.ALLOCATOR)
@example(values=32 * 32)
@given(values=st.values_of_less_than_a_mebibyte)
def test_memory_grows_by_the_tensor_in_whole_blocks(evidence, accelerator, values):
    """The allocator is asked for numel × itemsize bytes, and gives them in whole blocks."""
    block = block_of(accelerator)
    grown = allocator.growth(partial(torch.empty, values, dtype=torch.float32, device=accelerator), accelerator)
    evidence.equal(grown.requested, 4 * values, unit="bytes requested")
    evidence.equal(grown.allocated, allocator.in_blocks(4 * values, block), unit="bytes allocated", block=block)


@refutes(storage.ALLOCATOR)
def test_a_single_value_takes_a_whole_block(evidence, accelerator):
    """One float32 value, 4 bytes, makes the allocated memory grow by more than that."""
    block_of(accelerator)
    grown = allocator.growth(partial(torch.empty, 1, dtype=torch.float32, device=accelerator), accelerator)
    evidence.differs(grown.allocated, 4, unit="bytes allocated")
