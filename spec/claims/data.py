"""§3.4: training data that stays on disk."""

from spec.claim import HOLDS_IF, Chapter

chapter = Chapter("data", section="3.4", title="Data loading")

MEMMAP = chapter.claim(
    "memmap",
    says="A memory-mapped file of tokens equals the array that was written to it.",
    law="every id comes back where the file is read in the dtype it was written in; a .npy file says its own; ids that "
    "do not fit, another dtype than the header's, and files that are cut, empty or of an odd size are refused",
    standing=HOLDS_IF,
    condition="a raw file is read in the dtype it was written in, and a .npy file's header is not taken for tokens",
    source="https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html",
)

LAZY = chapter.claim(
    "lazy",
    says="The data stays on disk, and a part of it is loaded when it is touched.",
    law="opening a file maps none of its pages; after a slice or a batch was read, what is mapped is no more than that "
    "and what the kernel maps around each fault, however large the file",
)

BATCHES = chapter.claim(
    "batches",
    says="A batch is a number of random windows of the data.",
    law="int64 windows that match the data, every start as likely as any other, the last one included, drawn "
    "independently from the generator; tokens fewer than a window are refused",
)
