"""§2.2, §2.2.1, §2.2.2a: what a tensor occupies, where its values lie, and what shares or copies them."""

from spec.claim import HOLDS_IF, Chapter

chapter = Chapter("storage", section="2.2", title="Storage")

VIEWS = "https://docs.pytorch.org/docs/stable/tensor_view.html"

BYTES = chapter.claim(
    "bytes",
    says="A tensor takes as many bytes as it has values, times the bytes of one value.",
    law="the storage of a freshly made tensor has numel × itemsize bytes; that of an expanded tensor has fewer,"
    " that of a sliced one more",
)

ALLOCATOR = chapter.claim(
    "allocator",
    says="The allocated memory of a GPU grows by exactly the bytes of a new tensor.",
    law="requested bytes grow by exactly numel × itemsize, allocated bytes by that rounded up to whole blocks of the"
    " allocator, for tensors up to 1 MiB; a larger one may be given up to 1 MiB to spare",
    standing=HOLDS_IF,
    condition="the bytes are whole blocks of the allocator (512 bytes on CUDA)",
    source="https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html",
)

STRIDES = chapter.claim(
    "strides",
    section="2.2.1",
    says="A matrix lies in one flat array, its element (i, j) at i·stride(0) + j·stride(1).",
    law="for any number of dimensions and any strides, the element lies at offset + Σ index·stride of the flat storage;"
    " the strides of a 4×4 matrix are 4 and 1",
)

VIEWS_SHARE = chapter.claim(
    "views-share",
    section="2.2.2a",
    says="A row, a column, a view and a transpose of a tensor use the tensor's own storage.",
    law="any chain of views shares storage with its base; clones and separately made tensors do not, empty ones"
    " included",
    source=VIEWS,
)

MUTATION = chapter.claim(
    "mutation",
    section="2.2.2a",
    says="What is written through one tensor shows in every other that shares its storage.",
    law="an element written through any view changes in every view that shows it, and nothing else changes; written"
    " through an expanded tensor it changes all copies, and adding in place to the whole of one raises on the CPU",
    source=VIEWS,
)

CLONE = chapter.claim(
    "clone",
    section="2.2.2a",
    says="clone() forces a copy.",
    law="a clone has a storage of its own and equal values, and what is later written to either does not show in the"
    " other",
    source="https://docs.pytorch.org/docs/stable/generated/torch.clone.html",
)

TRANSPOSE_CONTIGUITY = chapter.claim(
    "transpose-contiguity",
    section="2.2.2a",
    says="Transposing breaks a tensor's contiguity.",
    law="a transposed matrix is non-contiguous if both of its sizes exceed 1, and contiguous otherwise;"
    " is_contiguous agrees with torch for any shape and strides, sizes 0 and 1 included",
    standing=HOLDS_IF,
    condition="both sizes of the matrix exceed 1",
)

CONTIGUOUS_COPIES = chapter.claim(
    "contiguous-copies",
    section="2.2.2a",
    says="contiguous() copies the values, in order, into a storage of their own.",
    law="contiguous() copies a tensor that is not contiguous and returns one that is, itself; the values are equal",
    standing=HOLDS_IF,
    condition="the tensor is not contiguous",
    source="https://docs.pytorch.org/docs/stable/generated/torch.Tensor.contiguous.html",
)

VIEW_OF_TRANSPOSE = chapter.claim(
    "view-of-transpose",
    section="2.2.2a",
    says="Calling view() on a transposed tensor raises an error.",
    law="view() raises if the new shape spans dimensions that the strides do not allow to merge, and works otherwise,"
    " as can_view foresees; reshape() works for every shape of as many elements, and copies only where view() raises",
    standing=HOLDS_IF,
    condition="a new dimension spans dimensions that cannot be merged",
    source="https://docs.pytorch.org/docs/stable/generated/torch.Tensor.view.html",
)

SEQUENTIAL_ACCESS = chapter.claim(
    "sequential-access",
    section="2.2.2a",
    says="Walking through a contiguous tensor runs smoothly along its storage; any other walk jumps about.",
    law="copying a large matrix is not faster transposed than contiguous",
)
