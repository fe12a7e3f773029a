"""§2.1.1: what a tensor is, and what it is used for."""

from spec.claim import HOLDS_IF, Chapter

chapter = Chapter("tensors", section="2.1.1", title="Tensors")

RANK = chapter.claim(
    "rank",
    says="Scalars, vectors and matrices are tensors of 0, 1 and 2 dimensions.",
    law="a list nested n deep makes a tensor of n dimensions with one size per level; an index takes one away",
)

ACCELERATION = chapter.claim(
    "acceleration",
    says="Accelerators compute tensor operations faster.",
    law="a product that fills the device takes less time there than on this machine's CPU; a tiny one takes more",
    standing=HOLDS_IF,
    condition="the operation is large enough to outweigh its launch",
)

AUTOGRAD = chapter.claim(
    "autograd",
    says="A tensor that requires grad remembers how it was computed, and backward() carries gradients to the leaves.",
    law="the graph reaches exactly the leaves in use that require grad, and only they keep a gradient; "
    "it equals the central finite difference within float64's rounding",
    source="https://docs.pytorch.org/docs/stable/notes/autograd.html",
)

BROADCASTING = chapter.claim(
    "broadcasting",
    says="A scalar combined with a matrix acts as a matrix of that value.",
    law="shapes that fit combine as their explicit expansions do, others raise; expanding copies nothing; "
    "a 0-dimensional operand does not widen the dtype of another of its kind",
    source="https://docs.pytorch.org/docs/stable/notes/broadcasting.html",
)
