"""Wrong implementations of the claims about storage, and unusual right ones."""

import math
from itertools import accumulate
from operator import index, mul

import numpy as np
import torch

from impl import storage as right
from spec.claims import storage
from spec.instruments import allocator, timer
from spec.oracles.layouts import Layout
from tests.kit.overlay import mutant, twin

clone = torch.Tensor.clone
contiguous = torch.Tensor.contiguous
copy_ = torch.Tensor.copy_
empty = torch.empty
expand = torch.Tensor.expand
is_contiguous = torch.Tensor.is_contiguous
reshape = torch.Tensor.reshape
setitem = torch.Tensor.__setitem__
statistics = allocator.statistics
compare = timer.compare
transpose = torch.Tensor.transpose
can_view, element_offset, contiguous_strides = right.can_view, right.element_offset, right.contiguous_strides
shares_storage, tensor_bytes, contiguity = right.shares_storage, right.tensor_bytes, right.is_contiguous


# ---- bytes ----


@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES)
def counts_bytes_in_32_bits(shape, dtype):
    """Multiplies the sizes as 32-bit integers, which overflow at the lecture's scale."""
    if any(size < 0 for size in shape):
        raise ValueError("negative")
    return int(np.prod(np.array(shape, np.int32), dtype=np.int32)) * dtype.itemsize


@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES)
def counts_bytes_in_floats(shape, dtype):
    """Multiplies the sizes as floats, which are exact only up to 2⁵³."""
    return int(float(np.prod([float(size) for size in shape]))) * dtype.itemsize if tensor_bytes(shape, dtype) else 0


@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES)
def counts_bytes_in_64_bits(shape, dtype):
    """Counts bytes in 64 bits, where 2⁶⁴ counts as 0."""
    return tensor_bytes(shape, dtype) % 2**64


@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES)
def counts_whole_blocks(shape, dtype):
    """Rounds a larger tensor up to whole blocks of 512 bytes, as the allocator does."""
    counted = tensor_bytes(shape, dtype)
    return counted if counted < 2**14 else -(-counted // 512) * 512


@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES)
def takes_every_value_for_4_bytes(shape, dtype):
    """Counts 4 bytes per value, whatever the dtype."""
    return tensor_bytes(shape, torch.float32)


@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES)
def counts_a_complex_number_as_one_float(shape, dtype):
    """Counts the bits that finfo gives for a dtype: for a complex number they are those of one of its two floats."""
    bits = torch.finfo(dtype).bits if dtype.is_floating_point or dtype.is_complex else 8 * dtype.itemsize
    return tensor_bytes(shape, torch.uint8) * bits // 8


@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES)
def accepts_negative_sizes(shape, dtype):
    """Multiplies negative sizes like any other."""
    return math.prod(shape) * dtype.itemsize


@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES)
def counts_an_empty_dimension_as_one(shape, dtype):
    """Takes a size of 0 for 1, so that an empty tensor takes memory."""
    return tensor_bytes([size or 1 for size in shape], dtype)


@mutant("torch.Tensor.expand", caught_by=(storage.BYTES, storage.MUTATION))
def copies_what_it_expands(self, *sizes):
    """Copies the values for each repetition."""
    return contiguous(expand(self, *sizes))


# ---- allocator: caught on an accelerator only ----


@mutant("spec.instruments.allocator.statistics", caught_by=storage.ALLOCATOR)
def reads_what_is_reserved(device):
    """Reads the bytes that the allocator has reserved instead of those that it handed out."""
    stats = torch.get_device_module(device).memory_stats(device)
    return stats and allocator.Bytes(stats["requested_bytes.all.current"], stats["reserved_bytes.all.current"])


@mutant("spec.instruments.allocator.statistics", caught_by=storage.ALLOCATOR)
def reads_what_is_requested_twice(device):
    """Reads the requested bytes instead of those that the allocator handed out."""
    read = statistics(device)
    return read and allocator.Bytes(read.requested, read.requested)


@mutant("torch.empty", caught_by=storage.ALLOCATOR)
def makes_room_for_one_more(*size, **options):
    """Allocates one value more than the tensor has."""
    return empty(math.prod(size) + 1, **options)[: math.prod(size)].view(size) if size else empty(*size, **options)


# ---- strides ----


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def forgets_where_the_tensor_begins(index, stride, storage_offset=0):
    """Leaves the storage offset out."""
    return element_offset(index, stride)


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def begins_at_1_unless_told(index, stride, storage_offset=1):
    """Takes 1 as the default of the storage offset."""
    return element_offset(index, stride, storage_offset)


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def adds_as_far_as_the_shorter_goes(index, stride, storage_offset=0):
    """Ignores the surplus of an index or strides of which one is longer."""
    return int(storage_offset) + sum(int(i) * int(step) for i, step in zip(index, stride, strict=False))


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def computes_places_in_floats(index, stride, storage_offset=0):
    """Adds floats, which are exact only up to 2⁵³."""
    return float(element_offset(index, stride, storage_offset))


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def adds_4_dimensions(index, stride, storage_offset=0):
    """Leaves out the first of 5 or more dimensions."""
    return element_offset(index[-4:], stride[-4:], storage_offset)


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def turns_strides_round_from_5_dimensions_on(shape):
    """Returns the strides of 5 and more dimensions in reverse order."""
    return contiguous_strides(shape)[:: -1 if len(shape) > 4 else 1]


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def strides_of_negative_sizes(shape):
    """Takes a negative size for 1."""
    return contiguous_strides([max(size, 1) for size in shape])


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def empties_the_list_it_is_given(shape):
    """Empties the list that is its argument."""
    shape = shape if isinstance(shape, list) else list(shape)
    strides = contiguous_strides(shape)
    shape.clear()
    return strides


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def counts_bytes_of_a_float32(index, stride, storage_offset=0):
    """Counts bytes where elements are asked for."""
    return 4 * element_offset(index, stride, storage_offset)


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def assumes_the_last_stride_is_1(index, stride, storage_offset=0):
    """Adds the last index without its stride."""
    return element_offset(index, (*stride[:-1], 1)[-len(index) :] if index else (), storage_offset)


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def computes_places_in_numpys_own_width(index, stride, storage_offset=0):
    """Keeps NumPy's 32-bit integers, which overflow at the lecture's scale."""
    return sum((i * step for i, step in zip(index, stride, strict=True)), start=storage_offset)


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def strides_column_by_column(shape):
    """Returns the strides of column-major order, Fortran's."""
    return tuple(contiguous_strides(shape[::-1]))[::-1]


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def strides_in_bytes(shape):
    """Returns strides in bytes, as NumPy does."""
    return tuple(4 * step for step in contiguous_strides(shape))


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def strides_that_include_their_own_dimension(shape):
    """Includes a dimension's own size in the product."""
    return tuple(accumulate(shape[::-1], mul))[::-1]


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def strides_in_numpys_own_width(shape):
    """Keeps NumPy's 32-bit integers, which overflow at the lecture's scale."""
    return tuple(accumulate((1, *np.array(shape[:0:-1], np.int32)), np.multiply))[::-1][-len(shape) :] if shape else ()


# ---- views-share ----


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def compares_tensor_pointers(a, b):
    """Compares the tensors' own pointers, which differ where the offset differs."""
    return a.data_ptr() == b.data_ptr()


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def compares_storage_pointers(a, b):
    """Compares the storages' pointers, which are both null for two empty tensors."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def looks_for_a_common_byte(a, b):
    """Requires a byte that both tensors show: two rows of one matrix have none."""
    first, second = ({x + i for x in _addresses(t) for i in range(t.itemsize)} for t in (a, b))
    return not first.isdisjoint(second)


def _addresses(tensor):
    start = tensor.untyped_storage().data_ptr()
    layout = Layout(tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
    return {start + tensor.itemsize * position for position in layout.positions().flatten().tolist()}


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def never_lets_empty_tensors_share(a, b):
    """Says that a tensor without elements shares nothing, even a slice of the other tensor."""
    return a.numel() > 0 and b.numel() > 0 and shares_storage(a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def compares_bases(a, b):
    """Compares the tensors' bases, which torch does not record for .data and parameters."""
    first, second = (t if t._base is None else t._base for t in (a, b))
    return first is second


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def never_shares_between_dtypes(a, b):
    """Says that tensors of two dtypes share nothing."""
    return a.dtype == b.dtype and shares_storage(a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def tries_it_by_writing(a, b):
    """Writes to the first tensor's storage and does not restore it."""
    if a.untyped_storage().nbytes():
        a.untyped_storage().fill_(1)
    return shares_storage(a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def takes_the_gradient_away(a, b):
    """Sets requires_grad of the first tensor to False."""
    return shares_storage(a.requires_grad_(False) if a.is_leaf else a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def compares_values(a, b):
    """Takes tensors of equal values to share their storage."""
    return a.shape == b.shape and torch.equal(a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def compares_tensor_objects(a, b):
    """Asks whether both are the same Python object."""
    return a is b


@mutant("torch.Tensor.transpose", caught_by=(storage.VIEWS_SHARE, storage.MUTATION))
def copies_what_it_transposes(self, first, second):
    """Returns a contiguous copy of the transpose."""
    return clone(transpose(self, first, second), memory_format=torch.contiguous_format)


# ---- mutation ----


@mutant("torch.Tensor.__setitem__", caught_by=storage.MUTATION)
def writes_two_elements(self, index, value):
    """Writes the next element of the storage as well."""
    setitem(self, index, value)
    if isinstance(index, tuple) and all(isinstance(i, int) for i in index):
        here = self[index]
        flat = torch.empty(0, dtype=self.dtype).set_(self.untyped_storage())
        setitem(flat, (here.storage_offset() + 1) % flat.numel(), value)


@mutant("torch.Tensor.__setitem__", caught_by=storage.MUTATION)
def writes_to_a_copy_of_what_is_not_contiguous(self, index, value):
    """Writes into a copy, so that the tensor itself does not change."""
    setitem(self if is_contiguous(self) else clone(self), index, value)


@mutant("torch.Tensor.add_", caught_by=storage.MUTATION)
def adds_to_every_copy(self, other):
    """Adds to an expanded tensor once per repetition instead of raising."""
    for row in self.unbind():
        row.copy_(row + other)
    return self


# ---- clone ----


@mutant("torch.Tensor.clone", caught_by=storage.CLONE)
def clones_by_sharing(self):
    """Returns a new tensor over the same storage."""
    return self.view_as(self)


@mutant("torch.Tensor.clone", caught_by=storage.CLONE)
def clones_only_what_is_not_contiguous(self):
    """Copies only what is not contiguous, as contiguous() does."""
    return contiguous(self)


@mutant("torch.Tensor.clone", caught_by=storage.CLONE)
def clones_the_shape_alone(self):
    """Makes a tensor of the same shape and forgets the values."""
    return torch.zeros_like(self)


# ---- transpose-contiguity ----


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def heeds_the_stride_of_a_single_element(shape, stride):
    """Compares the strides of dimensions of size 1 too, though nothing ever steps along them."""
    return 0 in shape or tuple(stride) == contiguous_strides(shape)


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def heeds_the_strides_of_nothing(shape, stride):
    """Compares strides even where there are no elements."""
    steps = zip(shape, stride, contiguous_strides(shape), strict=True)
    return all(size == 1 or step == packed for size, step, packed in steps)


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def takes_an_expanded_row_for_contiguous(shape, stride):
    """Ignores a first dimension of stride 0."""
    repeats = len(shape) > 0 and len(shape) == len(stride) and stride[0] == 0 and shape[0] > 1
    return contiguity(shape, stride) or (repeats and contiguity(shape[1:], stride[1:]))


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def looks_at_4_dimensions(shape, stride):
    """Looks at the last 4 dimensions only."""
    return contiguity(shape, stride) or (len(shape) > 4 and contiguity(shape[-4:], stride[-4:]))


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def looks_as_far_as_the_shorter_goes(shape, stride):
    """Ignores the surplus of a shape or strides of which one is longer."""
    dimensions = zip(shape, stride, contiguous_strides(shape), strict=False)
    return 0 in shape or all(size == 1 or step == packed for size, step, packed in dimensions)


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def takes_the_size_without_its_sign(shape, stride):
    """Takes a negative size for its absolute value."""
    return contiguity([abs(size) for size in shape], stride)


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def asks_for_strides_that_fall(shape, stride):
    """Requires falling strides only, and so misses gaps."""
    used = [step for size, step in zip(shape, stride, strict=True) if size != 1]
    return 0 in shape or used == sorted(used, reverse=True)


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def asks_for_a_last_stride_of_1(shape, stride):
    """Looks at the last dimension only."""
    return 0 in shape or not shape or shape[-1] == 1 or stride[-1] == 1


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def takes_any_order_for_contiguous(shape, stride):
    """Accepts any order of the dimensions that leaves no gap, channels last included."""
    order = sorted(range(len(shape)), key=lambda d: (-stride[d], -shape[d]))
    return contiguity([shape[d] for d in order], [stride[d] for d in order])


# ---- contiguous-copies ----


@mutant("torch.Tensor.contiguous", caught_by=storage.CONTIGUOUS_COPIES)
def always_copies(self, memory_format=torch.contiguous_format):
    """Copies a tensor that is contiguous already."""
    return clone(self, memory_format=memory_format)


@mutant("torch.Tensor.contiguous", caught_by=storage.CONTIGUOUS_COPIES)
def never_copies(self, memory_format=torch.contiguous_format):
    """Returns the tensor as it is."""
    return self


@mutant("torch.Tensor.contiguous", caught_by=storage.CONTIGUOUS_COPIES)
def copies_in_the_order_of_the_storage(self, memory_format=torch.contiguous_format):
    """Copies the storage from the tensor's start on, whatever the strides."""
    if is_contiguous(self):
        return self
    return clone(torch.empty(0, dtype=self.dtype).set_(self.untyped_storage()).repeat(self.numel()))[
        : self.numel()
    ].view(self.shape)


# ---- view-of-transpose ----


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def views_only_what_is_contiguous(shape, stride, new_shape):
    """Takes contiguity for the condition: a transpose can never be viewed."""
    return math.prod(shape) == math.prod(new_shape) and right.is_contiguous(shape, stride)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def views_whatever_has_as_many_elements(shape, stride, new_shape):
    """Compares the numbers of elements only."""
    return math.prod(map(int, shape)) == math.prod(map(int, new_shape))


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def views_any_number_of_elements(shape, stride, new_shape):
    """Does not compare the numbers of elements where the tensor is contiguous."""
    return right.is_contiguous(shape, stride) or can_view(shape, stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def heeds_a_stride_that_is_never_used(shape, stride, new_shape):
    """Merges nothing where a dimension of size 1 has another stride than in a contiguous tensor."""
    shape, stride, new_shape = ([int(n) for n in numbers] for numbers in (shape, stride, new_shape))
    packed = contiguous_strides(shape)
    odd = any(size == 1 and step != plain for size, step, plain in zip(shape, stride, packed, strict=True))
    same_sizes = [size for size in shape if size > 1] == [size for size in new_shape if size > 1]
    return can_view(shape, stride, new_shape) and (0 in shape or not odd or same_sizes)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def heeds_strides_without_elements(shape, stride, new_shape):
    """Lets the strides of an empty tensor decide."""
    if math.prod(map(int, shape)) == math.prod(map(int, new_shape)) == 0:
        return contiguous_strides(shape) == tuple(stride)
    return can_view(shape, stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def takes_minus_1_for_whatever_fits(shape, stride, new_shape):
    """Returns True for every new shape that has a −1."""
    return -1 in new_shape or can_view(shape, stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def views_nothing_as_a_scalar(shape, stride, new_shape):
    """Does not know that one element may be viewed without any dimension."""
    return (len(new_shape) > 0 or len(shape) == 0) and can_view(shape, stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def views_no_scalar_as_more(shape, stride, new_shape):
    """Does not know that a scalar may be viewed with dimensions of size 1."""
    return (len(shape) > 0 or len(new_shape) == 0) and can_view(shape, stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def merges_no_repetitions(shape, stride, new_shape):
    """Does not merge two neighbours of stride 0, which are one run of the same element."""
    sizes = [size for size, step in zip(shape, stride, strict=True) if size > 1 and step == 0]
    fewer = len([n for n in new_shape if n != 1]) < len([n for n in shape if n != 1])
    return can_view(shape, stride, new_shape) and not (len(sizes) > 1 and 0 not in shape and fewer)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def views_up_to_5_dimensions(shape, stride, new_shape):
    """Views nothing with 6 or more dimensions."""
    return len(new_shape) < 6 and can_view(shape, stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def views_two_negative_sizes(shape, stride, new_shape):
    """Multiplies negative sizes like any other."""
    return can_view([abs(n) for n in shape], stride, [abs(n) for n in new_shape])


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def leaves_a_surplus_stride_out(shape, stride, new_shape):
    """Ignores the surplus where there are more strides than sizes."""
    return can_view(shape, stride[: len(shape)], new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def never_merges(shape, stride, new_shape):
    """Allows splits only, even where neighbouring dimensions have no gap between them."""
    apart = [2 ** (40 - 7 * d) for d in range(len(shape))]
    return can_view(shape, stride if contiguity(shape, stride) else apart, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def merges_what_overlaps(shape, stride, new_shape):
    """Merges dimensions that have no gap between them, even where they overlap."""
    shape, stride = ([int(n) for n in numbers] for numbers in (shape, stride))
    for d in range(len(shape) - 1, 0, -1):
        stride[d - 1] = max(stride[d - 1], shape[d] * stride[d])
    return can_view(shape, stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def counts_elements_in_32_bits(shape, stride, new_shape):
    """Counts elements in NumPy's 32 bits: 2³³ overflows to 0, and 0 elements can be viewed in any way."""
    counts = [np.prod(np.array(numbers, np.int32), dtype=np.int32) for numbers in (shape, new_shape)]
    return counts[0] == counts[1] and (counts[0] == 0 or can_view(shape, stride, new_shape))


@mutant("torch.Tensor.reshape", caught_by=storage.VIEW_OF_TRANSPOSE)
def reshapes_a_copy(self, *shape):
    """Copies even what can be viewed."""
    return reshape(clone(self), *shape)


@mutant("torch.Tensor.view", caught_by=storage.VIEW_OF_TRANSPOSE)
def copies_rather_than_raise(self, *shape):
    """Copies where the strides allow no view, as reshape does."""
    return reshape(self, *shape)


# ---- sequential-access ----


@mutant("torch.Tensor.copy_", caught_by=storage.SEQUENTIAL_ACCESS)
def puts_a_transposed_copy_off(self, source):
    """Returns without copying if the source is transposed."""
    return copy_(self, source) if is_contiguous(source) else self


@mutant("torch.Tensor.copy_", caught_by=storage.SEQUENTIAL_ACCESS)
def copies_along_by_way_of_across(self, source):
    """Copies a contiguous matrix by way of its transpose, which takes longer."""
    return copy_(self, contiguous(source.t()).t() if is_contiguous(source) else source)


@mutant("spec.instruments.timer.compare", caught_by=storage.SEQUENTIAL_ACCESS)
def mixes_up_what_it_compares(first, second, device):
    """Swaps the two runs that it compares."""
    return compare(second, first, device)


# ---- right but unusual ----


def _integers(shape, stride=None, new_shape=()):
    """Return Python's integers; raise ValueError for a negative size or for more or fewer strides than sizes."""
    shape, new_shape = [index(n) for n in shape], [index(n) for n in new_shape]
    stride = shape if stride is None else [index(n) for n in stride]
    if min((*shape, *new_shape), default=0) < 0 or len(shape) != len(stride):
        raise ValueError("no layout")
    return shape, stride, new_shape


@twin("impl.storage.tensor_bytes")
def asks_a_tensor_without_memory(shape, dtype):
    """Multiplies the bytes of one-dimensional tensors on the meta device, which needs no memory."""
    sizes = (empty(size, dtype=torch.int8, device="meta").nbytes for size in _integers(shape)[0] if size < 2**60)
    huge = (size for size in shape if size >= 2**60)
    return math.prod(map(int, (*sizes, *huge))) * empty(1, dtype=dtype, device="meta").nbytes


@twin("impl.storage.element_offset")
def takes_an_inner_product(index, stride, storage_offset=0):
    """Takes NumPy's inner product and returns NumPy's 64-bit integer."""
    return np.int64(storage_offset) + np.dot(np.array(index, np.int64), np.array(stride, np.int64))


@twin("impl.storage.contiguous_strides")
def asks_torch_for_strides(shape):
    """Makes such a tensor on the meta device and returns its strides."""
    return empty(_integers(shape)[0], device="meta").stride()


@twin("impl.storage.contiguous_strides")
def gives_unused_strides_odd_values(shape):
    """Returns the stride 77 for dimensions of size 1, where nothing uses it."""
    packed = contiguous_strides(shape)
    return tuple(77 if size == 1 else step for size, step in zip(shape, packed, strict=True))


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def counts_nothing_for_nothing(shape):
    """Multiplies by a size of 0 as it is: (2, 0, 3) has the strides (0, 3, 1), where torch's are (3, 3, 1)."""
    shape, _, _ = _integers(shape)
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


@twin("impl.storage.is_contiguous")
def looks_where_the_elements_lie(shape, stride):
    """Merges all dimensions into one, which has to have stride 1; returns NumPy's bool."""
    shape, stride, _ = _integers(shape, stride)
    numel = math.prod(shape)
    return np.bool_(
        numel < 2 or (can_view((*shape, 2), (*(2 * int(n) for n in stride), 1), (2 * numel,)) and _ends(shape, stride))
    )


def _ends(shape, stride):
    return (
        sum((int(n) - 1) * int(step) for n, step in zip(shape, stride, strict=True)) == math.prod(map(int, shape)) - 1
    )


@twin("impl.storage.shares_storage")
def compares_pointers_that_are_not_null(a, b):
    """Compares the storages' pointers, where null counts as not shared; returns NumPy's bool."""
    pointers = [t.untyped_storage().data_ptr() for t in (a, b)]
    return np.bool_(pointers[0] == pointers[1] != 0)


@twin("impl.storage.shares_storage")
def compares_storage_handles(a, b):
    """Compares the handles of torch's storage objects."""
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


@twin("impl.storage.can_view")
def tries_it_without_memory(shape, stride, new_shape):
    """Tries the view on the meta device."""
    shape, stride, new_shape = _integers(shape, stride, new_shape)
    try:
        torch.empty_strided(shape, stride, device="meta").view(new_shape)
    except RuntimeError:
        return False
    return True


@twin("impl.storage.can_view")
def refuses_another_number_of_elements(shape, stride, new_shape):
    """Raises ValueError where the new shape has more or fewer elements."""
    if math.prod(map(int, shape)) != math.prod(map(int, new_shape)):
        raise ValueError("the new shape does not fit")
    return can_view(shape, stride, new_shape)


# ---- wrong only where two things are equal, or a size is 0 ----
@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES)
def multiplies_each_size_once(shape, dtype):
    """Multiplies the set of the sizes, in which equal sizes count once."""
    return math.prod(set(map(index, shape))) * dtype.itemsize if tensor_bytes(shape, dtype) else 0


@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES, value=True)
def remembers_bytes_by_shape():
    """Returns the bytes of the first tensor of this shape, whatever its dtype was."""
    known = {}
    return lambda shape, dtype: known.setdefault(tuple(shape), tensor_bytes(shape, dtype))


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def adds_each_stride_once(index, stride, storage_offset=0):
    """Stores the index in a dictionary by its stride, where the last of two equal strides replaces the first."""
    element_offset(index, stride)
    return int(storage_offset) + sum(int(step) * int(i) for step, i in dict(zip(stride, index, strict=True)).items())


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def begins_at_0_without_an_index(index, stride, storage_offset=0):
    """Ignores the storage offset of a tensor of no dimensions."""
    return element_offset(index, stride, storage_offset) if len(index) else 0


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def gives_nothing_strides_of_1(shape):
    """Returns 1 for every stride of an empty tensor."""
    return tuple(1 for _ in contiguous_strides(shape)) if 0 in shape else contiguous_strides(shape)


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def finds_each_size_by_its_value(shape):
    """Looks a dimension up by its size, which finds the first of two equal ones."""
    sizes = [int(size) for size in shape]
    contiguous_strides(shape)
    return tuple(math.prod(max(size, 1) for size in sizes[sizes.index(each) + 1 :]) for each in sizes)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def asks_for_two_tensors(a, b):
    """Says that a tensor shares nothing with itself."""
    return a is not b and shares_storage(a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE, value=True)
def remembers_tensors_by_id():
    """Remembers its answers by the tensors' ids, which Python gives to other tensors later."""
    known = {}
    return lambda a, b: known.setdefault((id(a), id(b)), shares_storage(a, b))


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def takes_a_square_for_its_transpose(shape, stride):
    """Compares the strides as a set, where the sizes are equal."""
    equal = len(shape) == len(stride) == 2 and shape[0] == shape[1]
    return contiguity(shape, sorted(stride, reverse=True) if equal else stride)


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def overlooks_only_one_size_of_1(shape, stride):
    """Ignores the stride of the first dimension of size 1, but not of the next one."""
    right = contiguity(shape, stride)
    ones = [d for d, size in enumerate(shape) if size == 1][1:]
    packed = contiguous_strides(shape)
    return right and (0 in shape or all(stride[d] == packed[d] for d in ones))


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def looks_for_nothing_at_the_front(shape, stride):
    """Recognises an empty tensor by its first size only."""
    right = contiguity(shape, stride)
    sizes = tuple(shape)
    return right if 0 not in sizes or sizes[0] == 0 else tuple(stride) == contiguous_strides(sizes)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def takes_equal_sizes_for_the_same_dimensions(shape, stride, new_shape):
    """Views whatever has the same sizes in another order."""
    return can_view(shape, stride, new_shape) or sorted(map(int, shape)) == sorted(map(int, new_shape))


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def merges_all_of_a_square(shape, stride, new_shape):
    """Views a square matrix as a vector, whichever of its dimensions is the outer one."""
    square = len(shape) == 2 and shape[0] == shape[1] and sorted(stride) == [1, shape[0]]
    return can_view(shape, sorted(stride, reverse=True) if square else stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def views_nothing_only_as_it_is(shape, stride, new_shape):
    """Views an empty tensor in as many dimensions as it has, and in no others."""
    return can_view(shape, stride, new_shape) and (0 not in shape or len(shape) == len(new_shape))


@twin("impl.storage.contiguous_strides")
def counts_from_the_last_element(shape):
    """Divides the number of elements by one size after the other."""
    contiguous_strides(shape)
    strides, remaining = [], math.prod(max(int(size), 1) for size in shape)
    for size in shape:
        remaining //= max(int(size), 1)
        strides.append(remaining)
    return strides


@twin("impl.storage.can_view")
def sees_at_once_what_is_contiguous(shape, stride, new_shape):
    """Compares the sizes alone where the tensor is contiguous or has the new shape already."""
    if can_view(shape, stride, shape) and tuple(map(int, shape)) == tuple(map(int, new_shape)):
        return True
    if all(size >= 0 for size in new_shape) and contiguity(shape, stride):
        return math.prod(map(int, shape)) == math.prod(map(int, new_shape))
    return can_view(shape, stride, new_shape)


@twin("impl.storage.shares_storage")
def asks_for_the_object_first(a, b):
    """Does not look at the storage if one tensor is the other one or its base."""
    return a is b or a._base is b or b._base is a or shares_storage(a, b)
