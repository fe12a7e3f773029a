"""§2.2.3: dimensions that have names, in types (jaxtyping) and in operations (einops)."""

from spec.claim import HOLDS_IF, Chapter

chapter = Chapter("dimensions", section="2.2.3", title="Named dimensions")

EINOPS = "A. Rogozhnikov, Einops: Clear and Reliable Tensor Manipulations with Einstein-like Notation, ICLR 2022"

ANNOTATIONS = chapter.claim(
    "annotations",
    says="A type that names every dimension documents a tensor's shape in the code itself, not in a comment.",
    law=(
        "under a runtime checker a wrong rank, size or dtype raises and sizes that share a name agree; "
        "impl's public functions are annotated and pass"
    ),
    standing=HOLDS_IF,
    condition="a runtime checker reads the annotation: alone it enforces nothing",
    source="https://docs.kidger.site/jaxtyping",
)

EINSUM = chapter.claim(
    "einsum",
    says="einsum over named dimensions equals `x @ y.transpose(-2, -1)`.",
    law=(
        "equal to the last bit where every sum is exact, within the bound of a dot product elsewhere, "
        "with batch·seq1·seq2·hidden multiplications either way"
    ),
    source=EINOPS,
)

ELLIPSIS = chapter.claim(
    "ellipsis",
    says="`...` in a pattern stands for any number of leading dimensions, which broadcast.",
    law="zero, one or more leading dimensions give, at every leading index, what the pattern gives without them",
    source=EINOPS,
)

REDUCE = chapter.claim(
    "reduce",
    says="reduce removes the dimensions that the result does not name, by a sum, a mean, a maximum or a minimum.",
    law="equal to torch's reduction over those dimensions; permuting the names that remain permutes the result",
    source=EINOPS,
)

REARRANGE = chapter.claim(
    "rearrange",
    says="rearrange splits the last dimension into heads: (2, 3, 8) with 2 heads becomes (2, 3, 2, 4).",
    law=(
        "head h is the h-th run of values; a split is a view, merging it is the identity, merging after a permutation "
        "copies; a head count that does not divide the size raises"
    ),
    source=EINOPS,
)
