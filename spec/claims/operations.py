"""§2.2.2b and §2.2.2c: operations that compute new tensors."""

from spec.claim import Chapter

chapter = Chapter("operations", section="2.2.2b", title="Tensor operations")

ELEMENTWISE_NEW = chapter.claim(
    "elementwise-new",
    says="pow, sqrt, rsqrt, +, × and ÷ compute a new tensor, element by element.",
    law="new storage, an unchanged input and the same shape; each value is the exact one within the dtype's rounding; "
    "integers become the default float dtype in sqrt, rsqrt and ÷, and stay integers in pow, + and ×",
)

TRIU = chapter.claim(
    "triu",
    says="triu keeps the upper triangle of a matrix.",
    law="element (i, j) of every matrix is kept where j ≥ i + diagonal and is 0 elsewhere; "
    "a causal mask forbids exactly what lies strictly above the diagonal",
)

MATMUL_SHAPE = chapter.claim(
    "matmul-shape",
    section="2.2.2c",
    says="A (16, 32) matrix times a (32, 2) matrix is a (16, 2) matrix.",
    law="(m, k) @ (k, n) is (m, n) for all sizes, zero included; inner sizes that differ raise",
)

MATMUL_BATCHED = chapter.claim(
    "matmul-batched",
    section="2.2.2c",
    says="@ multiplies the last two dimensions, once for every index of the leading ones.",
    law="equal to a loop over the broadcast leading dimensions, gradients included; a vector is a row on the left and "
    "a column on the right, and its dimension is gone from the result; sizes that do not fit raise",
    source="https://docs.pytorch.org/docs/stable/generated/torch.matmul.html",
)
