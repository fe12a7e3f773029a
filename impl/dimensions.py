"""Operations on tensors whose dimensions have names (§2.2.3)."""

from operator import index
from typing import SupportsIndex

from einops import einsum, rearrange, reduce
from jaxtyping import Float
from torch import Tensor

__all__ = ["attention_scores", "merge_heads", "split_heads", "sum_hidden"]


def attention_scores(
    q: Float[Tensor, "... seq1 hidden"], k: Float[Tensor, "... seq2 hidden"]
) -> Float[Tensor, "... seq1 seq2"]:
    """Return the dot product of each row of `q` with each row of `k`: (… seq1 hidden), (… seq2 hidden) → (… seq1 seq2).

    The scores are not scaled: attention divides them by √hidden. Raises ValueError where the two hidden sizes differ.
    """
    if q.shape[-1] != k.shape[-1]:  # einsum alone would broadcast a hidden size of 1.
        raise ValueError(f"hidden sizes differ: {q.shape[-1]} in q, {k.shape[-1]} in k")
    return einsum(q, k, "... seq1 hidden, ... seq2 hidden -> ... seq1 seq2")


def sum_hidden(x: Float[Tensor, "... hidden"]) -> Float[Tensor, "..."]:
    """Return the sum over the last dimension: (… hidden) → (…)."""
    return reduce(x, "... hidden -> ...", "sum")


def split_heads(x: Float[Tensor, "... total"], heads: SupportsIndex) -> Float[Tensor, "... heads hidden"]:
    """Split the last dimension into heads, without copying: (… (heads hidden)) → (… heads hidden).

    Head h is the h-th run of `hidden` values. Raises ValueError where `heads` is not positive or does not divide
    the size, TypeError where it is not an integer.
    """
    heads = index(heads)
    if heads < 1 or x.shape[-1] % heads:
        raise ValueError(f"{heads} heads do not divide a dimension of {x.shape[-1]}")
    return rearrange(x, "... (heads hidden) -> ... heads hidden", heads=heads)


def merge_heads(x: Float[Tensor, "... heads hidden"]) -> Float[Tensor, "... heads*hidden"]:
    """Join the last two dimensions, head after head: (… heads hidden) → (… (heads hidden)).

    This undoes `split_heads`. It copies where the values of a head do not follow those of the head before in memory.
    """
    return rearrange(x, "... heads hidden -> ... (heads hidden)")
