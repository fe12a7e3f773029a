"""§2.1.1: what a tensor is, and what it is used for."""

from spec.claim import Chapter

chapter = Chapter("tensors", section="2.1.1", title="Tensors")

RANK = chapter.claim(
    "rank",
    says="Scalars, vectors and matrices are tensors of 0, 1 and 2 dimensions.",
    law="a nested list of depth n makes a tensor of n dimensions, with one size per level",
)
