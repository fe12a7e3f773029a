"""Wrong and unusual ways to account for storage."""

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
    """Counts bytes in 64 bits, which begin again at 2⁶⁴."""
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
    """Takes the bits of finfo for those of a value, which for a complex number are half of it."""
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
    """Makes a real copy for each repetition."""
    return contiguous(expand(self, *sizes))


# ---- allocator: caught on an accelerator only ----


@mutant("spec.instruments.allocator.statistics", caught_by=storage.ALLOCATOR)
def reads_what_is_reserved(device):
    """Takes what the allocator holds in reserve for what it gave out."""
    told = torch.get_device_module(device).memory_stats(device)
    return told and allocator.Bytes(told["requested_bytes.all.current"], told["reserved_bytes.all.current"])


@mutant("spec.instruments.allocator.statistics", caught_by=storage.ALLOCATOR)
def reads_what_is_requested_twice(device):
    """Takes the bytes asked for for those given out."""
    told = statistics(device)
    return told and allocator.Bytes(told.requested, told.requested)


@mutant("torch.empty", caught_by=storage.ALLOCATOR)
def makes_room_for_one_more(*size, **options):
    """Allocates a value more than the tensor has."""
    return empty(math.prod(size) + 1, **options)[: math.prod(size)].view(size) if size else empty(*size, **options)


# ---- strides ----


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def forgets_where_the_tensor_begins(index, stride, storage_offset=0):
    """Leaves the storage offset out."""
    return element_offset(index, stride)


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def begins_at_1_unless_told(index, stride, storage_offset=1):
    """Has another default for the storage offset than 0."""
    return element_offset(index, stride, storage_offset)


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def adds_as_far_as_the_shorter_goes(index, stride, storage_offset=0):
    """Leaves out what an index has more or fewer than the strides."""
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
    """Gives the strides of 5 and more dimensions in the opposite order."""
    return contiguous_strides(shape)[:: -1 if len(shape) > 4 else 1]


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def strides_of_negative_sizes(shape):
    """Takes a negative size for 1."""
    return contiguous_strides([max(size, 1) for size in shape])


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def empties_the_list_it_is_given(shape):
    """Uses up its argument."""
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
    """Gives the strides of column-major order, Fortran's."""
    return tuple(contiguous_strides(shape[::-1]))[::-1]


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def strides_in_bytes(shape):
    """Gives strides in bytes, as NumPy does."""
    return tuple(4 * step for step in contiguous_strides(shape))


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def strides_that_include_their_own_dimension(shape):
    """Multiplies a dimension's own size in."""
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
    """Asks for memory that both tensors show: two rows of one matrix have none."""
    places = [{x + i for x in _addresses(t) for i in range(t.itemsize)} for t in (a, b)]
    return not places[0].isdisjoint(places[1])


def _addresses(tensor):
    start = tensor.untyped_storage().data_ptr()
    layout = Layout(tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
    return {start + tensor.itemsize * place for place in layout.positions().flatten().tolist()}


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def never_lets_empty_tensors_share(a, b):
    """Says that nothing is shared where one of the tensors has no elements, a slice of the other or not."""
    return a.numel() > 0 and b.numel() > 0 and shares_storage(a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def compares_bases(a, b):
    """Compares what the tensors are views of, which torch does not note for data and parameters."""
    first, second = (t if t._base is None else t._base for t in (a, b))
    return first is second


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def never_shares_between_dtypes(a, b):
    """Says that tensors of two dtypes share nothing."""
    return a.dtype == b.dtype and shares_storage(a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def tries_it_by_writing(a, b):
    """Writes to the first tensor's storage, and leaves what it wrote."""
    if a.untyped_storage().nbytes():
        a.untyped_storage().fill_(1)
    return shares_storage(a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def takes_the_gradient_away(a, b):
    """Makes the tensor require no gradient any more."""
    return shares_storage(a.requires_grad_(False) if a.is_leaf else a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def compares_values(a, b):
    """Takes equal values for a shared storage."""
    return a.shape == b.shape and torch.equal(a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def compares_tensor_objects(a, b):
    """Asks whether both are the same Python object."""
    return a is b


@mutant("torch.Tensor.transpose", caught_by=(storage.VIEWS_SHARE, storage.MUTATION))
def copies_what_it_transposes(self, first, second):
    """Lays the transpose out anew."""
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
    """Writes into a contiguous copy, and the tensor keeps what it had."""
    setitem(self if is_contiguous(self) else clone(self), index, value)


@mutant("torch.Tensor.add_", caught_by=storage.MUTATION)
def adds_to_every_copy(self, other):
    """Adds to an expanded tensor copy by copy instead of raising."""
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
    """Copies on no account but disorder, as contiguous() does."""
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
    """Leaves a first dimension of stride 0 out."""
    repeats = len(shape) > 0 and len(shape) == len(stride) and stride[0] == 0 and shape[0] > 1
    return contiguity(shape, stride) or (repeats and contiguity(shape[1:], stride[1:]))


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def looks_at_4_dimensions(shape, stride):
    """Looks at the last 4 dimensions only."""
    return contiguity(shape, stride) or (len(shape) > 4 and contiguity(shape[-4:], stride[-4:]))


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def looks_as_far_as_the_shorter_goes(shape, stride):
    """Leaves out what a shape has more or fewer than the strides."""
    dimensions = zip(shape, stride, contiguous_strides(shape), strict=False)
    return 0 in shape or all(size == 1 or step == packed for size, step, packed in dimensions)


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def takes_the_size_without_its_sign(shape, stride):
    """Takes a negative size for its absolute value."""
    return contiguity([abs(size) for size in shape], stride)


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def asks_for_strides_that_fall(shape, stride):
    """Takes falling strides for contiguity, and so misses gaps."""
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
    """Asks for the number of elements only."""
    return math.prod(map(int, shape)) == math.prod(map(int, new_shape))


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def views_any_number_of_elements(shape, stride, new_shape):
    """Does not ask for the number of elements where the tensor is contiguous."""
    return right.is_contiguous(shape, stride) or can_view(shape, stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def heeds_a_stride_that_is_never_used(shape, stride, new_shape):
    """Lets a dimension of size 1 with a stride of its own part its neighbours."""
    shape, stride, new_shape = ([int(n) for n in numbers] for numbers in (shape, stride, new_shape))
    packed = contiguous_strides(shape)
    odd = any(size == 1 and step != plain for size, step, plain in zip(shape, stride, packed, strict=True))
    kept = [size for size in shape if size > 1] == [size for size in new_shape if size > 1]
    return can_view(shape, stride, new_shape) and (0 in shape or not odd or kept)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def heeds_strides_without_elements(shape, stride, new_shape):
    """Lets the strides of an empty tensor decide."""
    if math.prod(map(int, shape)) == math.prod(map(int, new_shape)) == 0:
        return contiguous_strides(shape) == tuple(stride)
    return can_view(shape, stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def takes_minus_1_for_whatever_fits(shape, stride, new_shape):
    """Answers yes wherever a new size is to be found out."""
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
    """Uses as many strides as there are sizes, and does not mind the rest."""
    return can_view(shape, stride[: len(shape)], new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def never_merges(shape, stride, new_shape):
    """Allows splits only, even where neighbouring dimensions lie close together."""
    apart = [2 ** (40 - 7 * place) for place in range(len(shape))]
    return can_view(shape, stride if contiguity(shape, stride) else apart, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def merges_what_overlaps(shape, stride, new_shape):
    """Takes dimensions for one run if there is no gap between them, even where they overlap."""
    shape, stride = ([int(n) for n in numbers] for numbers in (shape, stride))
    for place in range(len(shape) - 1, 0, -1):
        stride[place - 1] = max(stride[place - 1], shape[place] * stride[place])
    return can_view(shape, stride, new_shape)


@mutant("impl.storage.can_view", caught_by=storage.VIEW_OF_TRANSPOSE)
def counts_elements_in_32_bits(shape, stride, new_shape):
    """Counts elements in NumPy's 32 bits: 2³³ of them are none, and can be viewed in any way."""
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
    """Copies nothing until it is asked for."""
    return copy_(self, source) if is_contiguous(source) else self


@mutant("torch.Tensor.copy_", caught_by=storage.SEQUENTIAL_ACCESS)
def copies_along_by_way_of_across(self, source):
    """Takes two detours through a transpose to copy a contiguous matrix."""
    return copy_(self, contiguous(source.t()).t() if is_contiguous(source) else source)


@mutant("spec.instruments.timer.compare", caught_by=storage.SEQUENTIAL_ACCESS)
def mixes_up_what_it_compares(first, second, device):
    """Takes the first for the second."""
    return compare(second, first, device)


# ---- unusual and right ----


def _integers(shape, stride=None, new_shape=()):
    """Return Python's integers, once they are sizes and as many strides."""
    shape, new_shape = [index(n) for n in shape], [index(n) for n in new_shape]
    stride = shape if stride is None else [index(n) for n in stride]
    if min((*shape, *new_shape), default=0) < 0 or len(shape) != len(stride):
        raise ValueError("no layout")
    return shape, stride, new_shape


@twin("impl.storage.tensor_bytes")
def asks_a_tensor_without_memory(shape, dtype):
    """Asks the meta device, which keeps the books without memory, dimension by dimension."""
    sizes = (empty(size, dtype=torch.int8, device="meta").nbytes for size in _integers(shape)[0] if size < 2**60)
    huge = (size for size in shape if size >= 2**60)
    return math.prod(map(int, (*sizes, *huge))) * empty(1, dtype=dtype, device="meta").nbytes


@twin("impl.storage.element_offset")
def takes_an_inner_product(index, stride, storage_offset=0):
    """Takes NumPy's inner product and returns NumPy's 64-bit integer."""
    return np.int64(storage_offset) + np.dot(np.array(index, np.int64), np.array(stride, np.int64))


@twin("impl.storage.contiguous_strides")
def asks_torch_for_strides(shape):
    """Asks the meta device for the strides of such a tensor."""
    return empty(_integers(shape)[0], device="meta").stride()


@twin("impl.storage.contiguous_strides")
def gives_unused_strides_odd_values(shape):
    """Gives the dimensions of size 1 strides that nothing ever uses."""
    packed = contiguous_strides(shape)
    return tuple(77 if size == 1 else step for size, step in zip(shape, packed, strict=True))


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def counts_nothing_for_nothing(shape):
    """Multiplies a size of 0 in as it is: (2, 0, 3) has the strides (0, 3, 1), where torch's are (3, 3, 1)."""
    shape, _, _ = _integers(shape)
    return tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))


@twin("impl.storage.is_contiguous")
def looks_where_the_elements_lie(shape, stride):
    """Merges all dimensions into one, which has to have stride 1; answers with NumPy's bool."""
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
    """Compares the storages' pointers, and takes null for unshared; answers with NumPy's bool."""
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


# ---- look-alikes: equal sizes, equal strides, the same tensor, sizes of 0 ----
@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES)
def multiplies_each_size_once(shape, dtype):
    """Multiplies the set of the sizes, in which equal ones are one."""
    return math.prod(set(map(index, shape))) * dtype.itemsize if tensor_bytes(shape, dtype) else 0


@mutant("impl.storage.tensor_bytes", caught_by=storage.BYTES, value=True)
def remembers_bytes_by_shape():
    """Returns what the first tensor of a shape took, whatever its dtype was."""
    known = {}
    return lambda shape, dtype: known.setdefault(tuple(shape), tensor_bytes(shape, dtype))


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def adds_each_stride_once(index, stride, storage_offset=0):
    """Keeps the index by its stride, so that of two equal strides only the last one counts."""
    element_offset(index, stride)
    return int(storage_offset) + sum(int(step) * int(i) for step, i in dict(zip(stride, index, strict=True)).items())


@mutant("impl.storage.element_offset", caught_by=storage.STRIDES)
def begins_at_0_without_an_index(index, stride, storage_offset=0):
    """Takes a tensor of no dimensions to lie at the start of its storage."""
    return element_offset(index, stride, storage_offset) if len(index) else 0


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def gives_nothing_strides_of_1(shape):
    """Does not compute the strides of an empty tensor."""
    return tuple(1 for _ in contiguous_strides(shape)) if 0 in shape else contiguous_strides(shape)


@mutant("impl.storage.contiguous_strides", caught_by=storage.STRIDES)
def finds_each_size_by_its_value(shape):
    """Looks a size's place up by its value, which finds the first of two equal ones."""
    sizes = [int(size) for size in shape]
    contiguous_strides(shape)
    return tuple(math.prod(max(size, 1) for size in sizes[sizes.index(each) + 1 :]) for each in sizes)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE)
def asks_for_two_tensors(a, b):
    """Says that a tensor shares nothing with itself."""
    return a is not b and shares_storage(a, b)


@mutant("impl.storage.shares_storage", caught_by=storage.VIEWS_SHARE, value=True)
def remembers_tensors_by_id():
    """Keeps its answers by the tensors' ids, which go to other tensors once these are gone."""
    known = {}
    return lambda a, b: known.setdefault((id(a), id(b)), shares_storage(a, b))


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def takes_a_square_for_its_transpose(shape, stride):
    """Compares the strides as a set, where the sizes are equal."""
    equal = len(shape) == len(stride) == 2 and shape[0] == shape[1]
    return contiguity(shape, sorted(stride, reverse=True) if equal else stride)


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def overlooks_only_one_size_of_1(shape, stride):
    """Leaves the first dimension of size 1 out, and compares the stride of the next one."""
    right = contiguity(shape, stride)
    ones = [place for place, size in enumerate(shape) if size == 1][1:]
    packed = contiguous_strides(shape)
    return right and (0 in shape or all(stride[place] == packed[place] for place in ones))


@mutant("impl.storage.is_contiguous", caught_by=storage.TRANSPOSE_CONTIGUITY)
def looks_for_nothing_at_the_front(shape, stride):
    """Knows an empty tensor by its first size."""
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
    strides, left = [], math.prod(max(int(size), 1) for size in shape)
    for size in shape:
        left //= max(int(size), 1)
        strides.append(left)
    return strides


@twin("impl.storage.can_view")
def sees_at_once_what_is_contiguous(shape, stride, new_shape):
    """Asks for the sizes alone where the tensor is contiguous, or has the shape already."""
    if can_view(shape, stride, shape) and tuple(map(int, shape)) == tuple(map(int, new_shape)):
        return True
    if all(size >= 0 for size in new_shape) and contiguity(shape, stride):
        return math.prod(map(int, shape)) == math.prod(map(int, new_shape))
    return can_view(shape, stride, new_shape)


@twin("impl.storage.shares_storage")
def asks_for_the_object_first(a, b):
    """Answers for a tensor and itself, or its base, without a look at the storage."""
    return a is b or a._base is b or b._base is a or shares_storage(a, b)
