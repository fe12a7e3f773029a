"""Wrong operations on named dimensions, and unusual right ones."""

import math

import einops
import torch
from jaxtyping import Float
from torch import Tensor

from spec.claims import dimensions
from tests.kit.overlay import mutant, twin

Queries = Float[Tensor, "... seq1 hidden"]
Keys = Float[Tensor, "... seq2 hidden"]
Scores = Float[Tensor, "... seq1 seq2"]
Total = Float[Tensor, "... total"]
Heads = Float[Tensor, "... heads hidden"]

einsum, reduce, rearrange = einops.einsum, einops.reduce, einops.rearrange


# ---- annotations ----
@mutant("impl.dimensions.attention_scores", caught_by=dimensions.ANNOTATIONS)
def writes_the_dimensions_in_a_comment(q: Tensor, k: Tensor) -> Tensor:  # (… seq1 hidden), (… seq2 hidden)
    """Names the dimensions in comments, which no checker reads."""
    return q @ k.transpose(-2, -1)


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.ANNOTATIONS)
def names_the_hidden_sizes_apart(q: Float[Tensor, "... seq1 hidden1"], k: Float[Tensor, "... seq2 hidden2"]) -> Scores:
    """Gives two names to sizes that must agree, and broadcasts a size of 1."""
    return einsum(q, k, "... seq1 hidden, ... seq2 hidden -> ... seq1 seq2")


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.ANNOTATIONS)
def names_a_result_the_other_way_round(q: Queries, k: Keys) -> Float[Tensor, "... seq2 seq1"]:
    """Returns (… seq1 seq2), but says (… seq2 seq1)."""
    return q @ k.transpose(-2, -1)


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.ANNOTATIONS)
def names_a_batch_that_need_not_be(
    q: Float[Tensor, "batch seq1 hidden"], k: Float[Tensor, "batch seq2 hidden"]
) -> Float[Tensor, "batch seq1 seq2"]:
    """Is annotated with exactly one leading dimension."""
    return q @ k.transpose(-2, -1)


@mutant("impl.dimensions.sum_hidden", caught_by=dimensions.ANNOTATIONS)
def names_no_dimension(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Is annotated to take any tensor, even a scalar."""
    return x.sum(dim=-1)


@mutant("impl.dimensions.split_heads", caught_by=dimensions.ANNOTATIONS)
def leaves_the_result_without_a_type(x: Total, heads: int):
    """Annotates its argument but not its result."""
    return x.unflatten(-1, (heads, -1))


@mutant("jaxtyping._array_types._MetaAbstractArray.__instancecheck__", caught_by=dimensions.ANNOTATIONS)
def accepts_everything(cls, obj):
    """Accepts every tensor as an instance of every named type, as a checker does that is switched off."""
    return True


# ---- einsum ----
@mutant("impl.dimensions.attention_scores", caught_by=dimensions.EINSUM)
def scales_by_the_root_of_hidden(q: Queries, k: Keys) -> Scores:
    """Divides by √hidden, as attention does afterwards."""
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.EINSUM)
def transposes_the_scores(q: Queries, k: Keys) -> Scores:
    """Returns (… seq2 seq1)."""
    return k @ q.transpose(-2, -1)


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.EINSUM)
def sums_over_the_batch(q: Queries, k: Keys) -> Scores:
    """Drops the leading dimensions from the result, so that they are summed over."""
    return torch.einsum("bqh,bkh->qk", q, k)


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.EINSUM)
def rounds_to_bfloat16(q: Queries, k: Keys) -> Scores:
    """Multiplies in bfloat16."""
    return (q.bfloat16() @ k.bfloat16().transpose(-2, -1)).to(q.dtype)


@mutant("einops.einsum", caught_by=dimensions.EINSUM)
def mixes_up_the_operands(x, y, pattern):
    """Multiplies the second operand by the first, where the two have the same shape."""
    return einsum(y, x, pattern) if x.shape == y.shape else einsum(x, y, pattern)


# ---- ellipsis ----
@mutant("impl.dimensions.attention_scores", caught_by=dimensions.ELLIPSIS)
def multiplies_every_leading_index_by_every_other(q: Queries, k: Keys) -> Scores:
    """Contracts only the last dimension, so that the result has all leading dimensions of both operands."""
    return torch.tensordot(q, k, dims=([-1], [-1]))


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.ELLIPSIS)
def returns_one_leading_dimension(q: Queries, k: Keys) -> Scores:
    """Uses bmm, which needs exactly one leading dimension."""
    return torch.bmm(q.reshape(-1, *q.shape[-2:]), k.reshape(-1, *k.shape[-2:]).mT)


@mutant("einops.einsum", caught_by=dimensions.ELLIPSIS)
def drops_what_one_operand_lacks(x, y, pattern):
    """Keeps only the first index of every leading dimension that the second operand does not have."""
    return einsum(x[(0,) * (x.dim() - y.dim())], y, pattern)


@mutant("impl.dimensions.split_heads", caught_by=dimensions.ELLIPSIS)
def flattens_the_leading_dimensions(x: Total, heads: int) -> Heads:
    """Flattens the leading dimensions into one, and adds one where there is none."""
    return x.reshape(-1, heads, x.shape[-1] // heads)


@mutant("impl.dimensions.merge_heads", caught_by=dimensions.ELLIPSIS)
def squeezes_leading_ones(x: Heads) -> Total:
    """Loses every leading dimension of size 1."""
    leading = [size for size in x.shape[:-2] if size != 1]
    return x.reshape(*leading, x.shape[-2] * x.shape[-1])


# ---- reduce ----
@mutant("impl.dimensions.sum_hidden", caught_by=dimensions.REDUCE)
def averages(x: Total) -> Float[Tensor, "..."]:
    """Takes the mean."""
    return x.mean(dim=-1)


@mutant("impl.dimensions.sum_hidden", caught_by=dimensions.REDUCE)
def sums_the_first_dimension(x: Total) -> Float[Tensor, "..."]:
    """Sums over the first dimension."""
    return x.sum(dim=0)


@mutant("impl.dimensions.sum_hidden", caught_by=dimensions.REDUCE)
def sums_in_half_precision(x: Total) -> Float[Tensor, "..."]:
    """Adds up in float16, where 65520 is already infinite."""
    return x.half().sum(dim=-1).to(x.dtype)


@mutant("einops.reduce", caught_by=dimensions.REDUCE)
def leaves_the_names_in_order(tensor, pattern, reduction):
    """Returns the remaining dimensions in their old order, whatever order the pattern gives."""
    left, right = pattern.split("->")
    kept = [name for name in left.split() if name in right.split()]
    return reduce(tensor, f"{left}-> {' '.join(kept)}", reduction)


# ---- rearrange ----
@mutant("impl.dimensions.split_heads", caught_by=dimensions.REARRANGE)
def copies_the_heads(x: Total, heads: int) -> Heads:
    """Returns the right heads in a storage of their own."""
    return x.unflatten(-1, (heads, -1)).clone()


@mutant("impl.dimensions.split_heads", caught_by=dimensions.REARRANGE)
def copies_what_is_not_contiguous(x: Total, heads: int) -> Heads:
    """Makes the tensor contiguous before it splits it, which may copy."""
    return x.contiguous().unflatten(-1, (heads, -1))


@mutant("impl.dimensions.split_heads", caught_by=dimensions.REARRANGE)
def deals_the_values_out(x: Total, heads: int) -> Heads:
    """Gives each head every heads-th value: (hidden heads) instead of (heads hidden)."""
    return rearrange(x, "... (hidden heads) -> ... heads hidden", heads=heads)


@mutant("impl.dimensions.split_heads", caught_by=dimensions.REARRANGE)
def takes_heads_for_their_size(x: Total, heads: int) -> Heads:
    """Makes heads of `heads` values each, instead of as many heads."""
    return rearrange(x, "... (heads hidden) -> ... heads hidden", hidden=heads)


@mutant("impl.dimensions.split_heads", caught_by=dimensions.REARRANGE)
def drops_the_remainder(x: Total, heads: int) -> Heads:
    """Drops the values that are left over where the heads do not divide the size."""
    hidden = x.shape[-1] // heads
    return x[..., : heads * hidden].unflatten(-1, (heads, hidden))


@mutant("impl.dimensions.split_heads", caught_by=dimensions.REARRANGE)
def takes_any_number_that_fits(x: Total, heads: int) -> Heads:
    """Reads a negative number of heads as if it were positive."""
    return x.unflatten(-1, (abs(heads), -1))


@mutant("impl.dimensions.merge_heads", caught_by=dimensions.REARRANGE)
def interleaves_the_heads(x: Heads) -> Total:
    """Takes one value of each head in turn."""
    return rearrange(x, "... heads hidden -> ... (hidden heads)")


@mutant("impl.dimensions.merge_heads", caught_by=dimensions.REARRANGE)
def reads_on_in_memory(x: Heads) -> Total:
    """Never copies: it reads the values in the order in which they lie in memory."""
    size, stride = (*x.shape[:-2], x.shape[-2] * x.shape[-1]), (*x.stride()[:-2], min(x.stride()[-2:]))
    return x.as_strided(size, stride)


@mutant("einops.rearrange", caught_by=dimensions.REARRANGE)
def always_copies(tensor, pattern, **sizes):
    """Copies even where a view would do."""
    return rearrange(tensor, pattern, **sizes).clone()


# ---- unusual and right ----
@twin("impl.dimensions.attention_scores")
def scores_by_torch_einsum(q: Queries, k: Keys) -> Scores:
    """Uses torch's einsum with its one-letter names."""
    return torch.einsum("...qh,...kh->...qk", q, k)


@twin("impl.dimensions.attention_scores")
def scores_by_matmul(q: Queries, k: Keys) -> Scores:
    """Uses the product with the transpose."""
    return torch.matmul(q, k.mT)


@twin("impl.dimensions.attention_scores")
def scores_by_loops(
    q: Float[Tensor, "*batch seq1 hidden"], k: Float[Tensor, "*batch seq2 hidden"]
) -> Float[Tensor, "*batch seq1 seq2"]:
    """Adds up one product after another, from the last to the first."""
    scores = q.new_zeros(*q.shape[:-1], k.shape[-2])
    for h in reversed(range(q.shape[-1])):
        scores += q[..., :, None, h] * k[..., None, :, h]
    return scores


@twin("impl.dimensions.attention_scores")
def scores_with_annotations_in_strings(q: "Queries", k: "Keys") -> "Scores":
    """Has annotations that are strings, as under `from __future__ import annotations`."""
    return q @ k.transpose(-2, -1)


class _Sum:
    def __call__(self, x: Float[Tensor, "*leading hidden"]) -> Float[Tensor, "*leading"]:
        return torch.stack(list(x.unbind(-1))).sum(0)


@twin("impl.dimensions.sum_hidden", value=True)
def sums_as_an_object():
    """Is an object that can be called, not a function."""
    return _Sum()


@twin("impl.dimensions.sum_hidden")
def sums_by_a_product(x: Float[Tensor, "... hidden"] | Float[Tensor, " hidden"]) -> Float[Tensor, "..."]:
    """Multiplies by ones; its type is a union."""
    return x @ x.new_ones(x.shape[-1])


@twin("impl.dimensions.split_heads")
def splits_by_unflatten(x: Total, heads: int) -> Float[Tensor, "... {heads} hidden"]:
    """Uses unflatten, whose error is torch's own, and names the number of heads in the result's type."""
    return x.unflatten(-1, (heads, x.shape[-1] // heads))


@twin("impl.dimensions.split_heads")
def splits_by_strides(x: Total, heads: int) -> Heads:
    """Computes the strides of the result itself."""
    hidden, rest = divmod(x.shape[-1], heads)
    if heads < 1 or rest:
        raise ValueError(f"{heads} heads do not divide {x.shape[-1]}")
    size, stride = (*x.shape[:-1], heads, hidden), (*x.stride()[:-1], hidden * x.stride(-1), x.stride(-1))
    return x.as_strided(size, stride, x.storage_offset())


@twin("impl.dimensions.merge_heads")
def merges_by_flatten(x: Heads) -> Total:
    """Uses flatten, which copies only where it must."""
    return x.flatten(-2)


@twin("impl.dimensions.merge_heads")
def merges_into_a_copy(x: Heads) -> Total:
    """Always copies, which the contract leaves open."""
    return torch.cat(x.unbind(-2), dim=-1)


@twin("impl.dimensions.split_heads", value=True)
def splits_under_a_checker():
    """Is decorated with the runtime checker where there is one."""
    try:
        from beartype import beartype
    except ModuleNotFoundError:
        return splits_by_unflatten
    from jaxtyping import jaxtyped

    return jaxtyped(splits_by_unflatten, typechecker=beartype)


@mutant("impl.dimensions.sum_hidden", caught_by=dimensions.REDUCE)
def forgets_where_the_sum_came_from(x):
    """Detaches the sum, so that no gradient reaches the values."""
    return x.sum(dim=-1).detach()


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.ELLIPSIS)
def multiplies_in_place(q, k):
    """Writes over the caller's queries once it has its scores."""
    scores = q @ k.transpose(-2, -1)
    q.mul_(2)
    return scores


@mutant("impl.dimensions.merge_heads", caught_by=dimensions.ELLIPSIS)
def widens_while_merging(x):
    """Returns float32 whatever the dtype of its argument."""
    return x.flatten(-2).float()


@twin("impl.dimensions.merge_heads")
def merges_by_an_unspecified_size(x: Float[Tensor, "... heads hidden"]) -> Float[Tensor, "... merged"]:
    """Leaves the size to reshape(-1), which cannot infer it for a tensor without elements."""
    return x.reshape(*x.shape[:-2], -1)


# ---- look-alikes: as many queries as keys, as many heads as values, equal sizes throughout ----
@mutant("impl.dimensions.attention_scores", caught_by=dimensions.EINSUM)
def transposes_square_scores(q: Queries, k: Keys) -> Scores:
    """Returns (… seq2 seq1) where there are as many queries as keys."""
    scores = q @ k.mT
    return scores.mT if scores.shape[-1] == scores.shape[-2] else scores


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.EINSUM)
def multiplies_as_they_come(q: Queries, k: Keys) -> Scores:
    """Forgets the transpose where the sizes fit without it."""
    return q @ k if k.shape[-1] == k.shape[-2] == q.shape[-1] else q @ k.mT


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.EINSUM)
def pairs_queries_with_the_batch(q: Queries, k: Keys) -> Scores:
    """Forgets to insert a dimension before it multiplies and adds, where the batch is as large as the queries."""
    as_many = q.dim() == k.dim() == 3 and q.shape[0] == q.shape[1]
    return (q[..., None, :] * k).sum(-1) if as_many else q @ k.mT


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.EINSUM)
def halves_scores_with_itself(q: Queries, k: Keys) -> Scores:
    """Computes one triangle of the scores of a tensor with itself, and leaves the other one 0."""
    return (q @ k.mT).tril() if q is k else q @ k.mT


@mutant("impl.dimensions.attention_scores", caught_by=dimensions.EINSUM)
def hides_its_gradient_from_itself(q: Queries, k: Keys) -> Scores:
    """Has half of the gradient where queries and keys are the same tensor."""
    return q @ (k.detach() if q is k else k).mT


@mutant("impl.dimensions.sum_hidden", caught_by=dimensions.REDUCE)
def sums_a_square_from_above(x: Float[Tensor, "... hidden"]) -> Float[Tensor, "..."]:
    """Sums over the second-to-last dimension where the last one has the same size."""
    return x.sum(-2 if x.shape[-2:] == x.shape[-1:] * 2 else -1)


@mutant("impl.dimensions.split_heads", caught_by=dimensions.REARRANGE)
def deals_out_where_both_are_equal(x: Total, heads: int) -> Heads:
    """Gives each head every heads-th value where there are as many heads as values in each."""
    split = x.unflatten(-1, (heads, -1))
    return split.mT if split.shape[-1] == split.shape[-2] else split


@mutant("impl.dimensions.split_heads", caught_by=dimensions.REARRANGE)
def puts_heads_before_as_many_rows(x: Total, heads: int) -> Heads:
    """Returns (heads … hidden) where there are as many rows as heads."""
    split = x.unflatten(-1, (heads, -1))
    return split.transpose(-3, -2) if split.dim() > 2 and split.shape[-3] == heads else split


@mutant("impl.dimensions.merge_heads", caught_by=dimensions.REARRANGE)
def interleaves_where_both_are_equal(x: Heads) -> Total:
    """Takes one value of each head in turn where there are as many heads as values in each."""
    return (x.mT if x.shape[-1] == x.shape[-2] else x).flatten(-2)


@mutant("impl.dimensions.merge_heads", caught_by=dimensions.REARRANGE, value=True)
def remembers_what_it_merged():
    """Caches merged tensors by shape, unless they need a gradient."""
    known = {}

    def remembered(x: Heads) -> Total:
        key = (x.shape, x.dtype, x.stride())
        return x.flatten(-2) if x.requires_grad or x.is_contiguous() else known.setdefault(key, x.flatten(-2))

    return remembered


@twin("impl.dimensions.attention_scores")
def scores_half_of_what_is_symmetric(q: Queries, k: Keys) -> Scores:
    """Mirrors one triangle of a tensor's scores with itself to fill the other one."""
    scores = q @ k.mT
    return scores.tril() + scores.tril(-1).mT if q is k else scores


@twin("impl.dimensions.sum_hidden")
def sums_by_folding(x: Float[Tensor, "... hidden"]) -> Float[Tensor, "..."]:
    """Adds one value after another to zeros."""
    total = torch.zeros_like(x.sum(-1))
    for value in x.double().unbind(-1) if x.shape[-1] and x.device.type != "mps" else ():
        total = total + value
    return total.to(x.dtype)


@twin("impl.dimensions.split_heads")
def splits_into_chunks_of_views(x: Total, heads: int) -> Heads:
    """Unfolds the last dimension into adjacent windows."""
    if heads < 1 or x.shape[-1] % heads:
        raise ValueError(f"{heads} heads do not divide {x.shape[-1]}")
    return x.unfold(-1, x.shape[-1] // int(heads), x.shape[-1] // int(heads))
