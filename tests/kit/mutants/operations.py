"""Wrong implementations of the claims about operations, and unusual right ones."""

import functools
from operator import index

import numpy as np
import torch
from torch import Tensor

from impl import operations as right
from spec.claims import operations
from tests.kit.overlay import mutant, twin

matmul, causal_mask = right.batched_matmul, right.causal_mask
power, root, triu, at, divide = Tensor.pow, Tensor.sqrt, Tensor.triu, Tensor.__matmul__, Tensor.__truediv__


# ---- elementwise ----
@mutant("torch.Tensor.sqrt", caught_by=operations.ELEMENTWISE_NEW)
def takes_the_root_in_place(self):
    """Overwrites the tensor with its roots."""
    return self.sqrt_() if self.is_floating_point() else root(self)


@mutant("torch.Tensor.sqrt", caught_by=operations.ELEMENTWISE_NEW)
def takes_the_root_in_half_precision(self):
    """Computes the root in float16."""
    return root(self.half()).to(root(self).dtype)


@mutant("torch.Tensor.pow", caught_by=operations.ELEMENTWISE_NEW)
def makes_floats_of_squares(self, exponent):
    """Returns the squares of integers as floats."""
    return power(self if self.is_floating_point() else self.float(), exponent)


@mutant("torch.Tensor.rsqrt", caught_by=operations.ELEMENTWISE_NEW)
def inverts_without_the_root(self):
    """Computes 1/x instead of 1/√x."""
    return self.reciprocal()


@mutant("torch.Tensor.__truediv__", caught_by=operations.ELEMENTWISE_NEW)
def floors_integer_division(self, other):
    """Returns the integer quotient of integers."""
    whole = isinstance(other, Tensor) and not self.is_floating_point()
    return torch.floor_divide(self, other.clamp(min=1)) if whole else divide(self, other)


@mutant("torch.Tensor.__mul__", caught_by=operations.ELEMENTWISE_NEW)
def multiplies_into_the_first_factor(self, other):
    """Overwrites the first factor with the product."""
    return self.mul_(other)


# ---- triangles ----
@mutant("torch.Tensor.triu", caught_by=operations.TRIU)
def multiplies_by_a_mask(self, diagonal=0):
    """Multiplies by 0 below the diagonal, which turns infinity into NaN."""
    return self * triu(torch.ones_like(self), diagonal)


@mutant("torch.Tensor.triu", caught_by=operations.TRIU)
def counts_diagonals_downwards(self, diagonal=0):
    """Moves the diagonal in the opposite direction."""
    return triu(self, -diagonal)


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU)
def looks_into_the_future(length, device=None):
    """Allows the columns j ≥ i."""
    return causal_mask(length, device).T


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU)
def does_not_look_at_itself(length, device=None):
    """Leaves the diagonal out."""
    return causal_mask(length, device).tril(-1)


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU)
def says_what_is_forbidden(length, device=None):
    """Returns the opposite mask, True where a position may not look."""
    return ~causal_mask(length, device)


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU)
def adds_minus_infinity(length, device=None):
    """Returns a mask of 0 and −∞ to add to scores, not a boolean one."""
    return torch.zeros(length, length, device=device).masked_fill(~causal_mask(length, device), -torch.inf)


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU)
def takes_a_negative_length_for_nothing(length, device=None):
    """Returns an empty mask where the length is negative."""
    return causal_mask(max(length, 0) if isinstance(length, int) else length, device)


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU)
def counts_positions_in_8_bits(length, device=None):
    """Counts positions in int8, where 128 is −128."""
    position = torch.arange(causal_mask(length, device).shape[0], device=device).to(torch.int8)
    return position <= position[:, None]


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU, value=True)
def hands_out_the_same_mask_again():
    """Returns the same tensor for each call with a length, even after it was overwritten."""
    return functools.cache(causal_mask)


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU)
def cuts_off_a_fraction(length, device=None):
    """Accepts the length 2.5 as 2."""
    return causal_mask(int(length) if isinstance(length, float) else length, device)


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU)
def takes_none_for_nothing(length, device=None):
    """Returns an empty mask where the length is None."""
    return causal_mask(0 if length is None else length, device)


# ---- products ----
@mutant("torch.Tensor.__matmul__", caught_by=operations.MATMUL_SHAPE)
def broadcasts_the_inner_size(self, other):
    """Broadcasts an inner size of 1 instead of refusing it."""
    if self.dim() == other.dim() == 2 and 1 in (self.shape[1], other.shape[0]):
        inner = max(self.shape[1], other.shape[0])
        self, other = self.expand(-1, inner), other.expand(inner, -1)
    return at(self, other)


@mutant("torch.Tensor.__matmul__", caught_by=operations.MATMUL_SHAPE)
def returns_columns_first(self, other):
    """Returns the transposed product."""
    return at(self, other).mT if self.dim() == other.dim() == 2 else at(self, other)


@mutant("torch.Tensor.__matmul__", caught_by=operations.MATMUL_SHAPE)
def leaves_an_empty_sum_undefined(self, other):
    """Fills the product with NaN where the inner size is 0."""
    product = at(self, other)
    return product if self.shape[-1] or not product.is_floating_point() else product.fill_(torch.nan)


@mutant("torch.Tensor.__matmul__", caught_by=operations.MATMUL_BATCHED)
def keeps_the_dimension_of_a_vector(self, other):
    """Does not drop the dimension of size 1 of a vector on the left."""
    return at(self[None, :], other) if self.dim() == 1 < other.dim() else at(self, other)


def tf32(x):
    """Round a float32 tensor to 10 fraction bits, except where that would lose its gradient."""
    rounds = x.dtype is torch.float32 and not x.requires_grad
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32) if rounds else x


def multiply_in_tf32(self, other):
    return at(tf32(self), tf32(other))


@mutant("torch.Tensor.__matmul__", caught_by=operations.MATMUL_BATCHED, value=True)
def rounds_unasked():
    """Rounds float32 operands to TF32 although torch's matmul precision is "highest"."""
    return multiply_in_tf32


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def leaves_the_sizes_to_einsum(x, w):
    """Does not compare the inner sizes: einsum broadcasts a size of 1."""
    return torch.einsum("...mk,...kn->...mn", x, w)


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def uses_the_first_matrix_for_all(x, w):
    """Multiplies every x by the first w."""
    return matmul(x, w[(0,) * (w.dim() - 2)].expand(w.shape) if w.numel() else w)


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def lines_leading_dimensions_up_from_the_front(x, w):
    """Lines the leading dimensions up at the first one where that is possible."""
    front = w.reshape(*w.shape[:-2], *[1] * (x.dim() - w.dim()), *w.shape[-2:])
    fits = all(b in (1, a) for a, b in zip(x.shape[:-2], front.shape[:-2], strict=False))
    return matmul(x, front if fits else w)


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def drops_dimensions_of_one(x, w):
    """Squeezes the product."""
    return matmul(x, w).squeeze()


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def always_returns_float32(x, w):
    """Returns the product in float32, whatever the operands' dtype."""
    return matmul(x, w).float()


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def multiplies_as_far_as_both_reach(x, w):
    """Cuts the longer inner size off instead of raising an error."""
    inner = min(x.shape[-1], w.shape[-2])
    return matmul(x[..., :inner], w[..., :inner, :])


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def scales_its_input(x, w):
    """Overwrites its first operand."""
    y = matmul(x, w)
    x.detach().mul_(2)
    return y


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def allows_tf32_for_everyone(x, w):
    """Lowers torch's matmul precision and does not restore it."""
    torch.set_float32_matmul_precision("high")
    return matmul(x, w)


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def forgets_the_gradient(x, w):
    """Detaches both operands, so that neither has a gradient."""
    return matmul(x.detach(), w.detach())


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def learns_in_one_operand_only(x, w):
    """Detaches the second operand, which therefore has no gradient."""
    return matmul(x, w.detach())


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def turns_the_gradient_round(x, w):
    """Returns the right product with the opposite gradient."""
    y = matmul(x, w)
    return 2 * y.detach() - y if y.requires_grad else y


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def tidies_up_infinities(x, w):
    """Replaces NaN and infinity in the product by finite numbers."""
    return matmul(x, w).nan_to_num()


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def skips_what_is_not_finite(x, w):
    """Replaces infinity and NaN in the second operand by 0."""
    return matmul(x, torch.where(w.isfinite(), w, torch.zeros_like(w)))


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def multiplies_integers_as_floats(x, w):
    """Multiplies integers as float64, which loses the last digits of large ones."""
    return matmul(x.double(), w.double()).to(x.dtype)


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def adds_64_terms_at_most(x, w):
    """Adds only the first 64 terms of each sum."""
    return matmul(x[..., :64], w[..., :64, :]) if x.shape[-1] == w.shape[-2] else matmul(x, w)


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def knows_three_leading_dimensions(x, w):
    """Flattens more than three leading dimensions to three."""
    y = matmul(x, w)
    return y.flatten(0, -5) if y.dim() > 5 else y


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED, value=True)
def remembers_products():
    """Returns the earlier product of the same two tensors, even if their values have changed."""
    known = []

    def remembered(x, w):
        for first, second, y in known:
            if first is x and second is w:
                return y
        known.append((x, w, matmul(x, w)))
        return known[-1][-1]

    return remembered


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED, value=True)
def keeps_one_result_for_each_shape():
    """Overwrites the tensor that it returned for the previous product of the same shape."""
    results = {}

    def reused(x, w):
        y = matmul(x, w)
        return y if y.requires_grad else results.setdefault((y.shape, y.dtype), y).copy_(y)

    return reused


# ---- right but unusual ----
@twin("torch.Tensor.__matmul__", value=True)
def multiplies_in_tf32():
    """Rounds float32 operands to TF32, as torch's matmul precision "high" allows."""
    torch.set_float32_matmul_precision("high")
    return multiply_in_tf32


@twin("torch.Tensor.pow")
def takes_powers_of_the_c_library(self, exponent):
    """Computes float64 powers and rounds them."""
    return torch.as_tensor(np.power(self.double().numpy(), exponent)).to(self.dtype)


@twin("torch.Tensor.__truediv__")
def multiplies_by_the_reciprocal(self, other):
    """Divides by multiplying by the reciprocal, which rounds twice."""
    return self * (1 / other if isinstance(other, float) else other.reciprocal())


@twin("impl.operations.batched_matmul")
def calls_matmul(x, w):
    """Calls torch.matmul, which raises RuntimeError and accepts vectors, too."""
    return torch.matmul(x, w)


@twin("impl.operations.batched_matmul")
def contracts_by_name(x, w):
    """Uses einsum, after comparing the inner sizes, because einsum broadcasts a size of 1."""
    if x.shape[-1] != w.shape[-2]:
        raise ValueError("inner sizes")
    return torch.einsum("...mk,...kn->...mn", x, w)


@twin("impl.operations.batched_matmul")
def multiplies_a_stack_of_matrices(x, w):
    """Flattens the leading dimensions for bmm."""
    leading = torch.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    count = torch.Size(leading).numel()
    x, w = (t.expand(*leading, -1, -1).reshape(count, *t.shape[-2:]) for t in (x, w))
    return torch.bmm(x, w).view(*leading, x.shape[-2], w.shape[-1])


@twin("impl.operations.batched_matmul")
def adds_outer_products(x, w):
    """Sums over the inner index from the last to the first, and rounds each partial sum to the dtype."""
    if x.shape[-1] != w.shape[-2]:
        raise ValueError("inner sizes")
    y = x[..., :, :0].sum(-1, keepdim=True, dtype=x.dtype) + w[..., :0, :].sum(-2, keepdim=True, dtype=x.dtype)
    for k in reversed(range(x.shape[-1])):
        y = y + x[..., :, k, None] * w[..., None, k, :]
    return y


@twin("impl.operations.causal_mask")
def keeps_the_lower_triangle(length, device=None):
    """Uses tril."""
    if length < 0:
        raise ValueError("negative length")
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


@twin("impl.operations.causal_mask")
def slides_a_window(length, device=None):
    """Makes each row a window on one line of ones and zeros."""
    if length < 1:
        return causal_mask(length, device)
    line = torch.arange(2 * length - 1, device=device) < length
    return line.unfold(0, length, 1).flip(0)


@twin("impl.operations.causal_mask", value=True)
def returns_what_cannot_be_written_to():
    """Returns a mask that was made in inference mode and cannot be written to."""
    return torch.inference_mode()(causal_mask)


# ---- wrong only for square matrices, equal batch sizes, the same tensor twice, or batch sizes of 0 and 1 ----
@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def transposes_square_stacks(x, w):
    """Transposes the second operand if it is a stack of square matrices."""
    square = w.dim() > 2 and w.shape[-1] == w.shape[-2] == x.shape[-1]
    return matmul(x, w.mT if square else w)


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def pairs_rows_with_the_batch(x, w):
    """Pairs the rows of x with the matrices of w where there are equally many."""
    if x.dim() == w.dim() == 3 and x.shape[1] == w.shape[0] > 1 and x.shape[2] == w.shape[1]:
        return (x[..., None] * w).sum(-2).to(x.dtype)
    return matmul(x, w)


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def repeats_nothing_once(x, w):
    """Broadcasts leading sizes of 0 and 1 to 1, the larger of the two."""
    y = matmul(x, w)
    if y.numel() or 0 not in y.shape[:-2] or not 0 < x.dim() - 2 == w.dim() - 2:
        return y
    return y.new_zeros(*map(max, x.shape[:-2], w.shape[:-2]), *y.shape[-2:])


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def fits_nothing_to_anything(x, w):
    """Accepts any leading size beside one of 0."""
    try:
        return matmul(x, w)
    except ValueError:
        if x.shape[-1] != w.shape[-2] or 0 not in x.shape[:-2] + w.shape[:-2]:
            raise
        return x.new_zeros(0, x.shape[-2], w.shape[-1])


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def takes_a_square_for_symmetric(x, w):
    """Multiplies a tensor by its transpose if both operands are the same tensor."""
    return matmul(x, w.mT) if x is w else matmul(x, w)


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def learns_once_of_a_square(x, w):
    """Returns half of the gradient if both operands are the same tensor."""
    return matmul(x, w.detach()) if x is w else matmul(x, w)


@mutant("impl.operations.batched_matmul", caught_by=operations.MATMUL_BATCHED)
def returns_the_operand_itself(x, w):
    """Returns x itself if w is the identity matrix, so that a write to the product changes x."""
    square = w.dim() == 2 and w.shape[0] == w.shape[1] == x.shape[-1]
    unit = square and torch.equal(w.detach(), torch.eye(len(w), dtype=w.dtype, device=w.device))
    return x if unit else matmul(x, w)


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU)
def makes_a_mask_of_lists(length, device=None):
    """Loses the second dimension of a mask without positions."""
    rows = causal_mask(length, device).tolist()
    return torch.tensor(rows, dtype=torch.bool, device=device)


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU)
def squeezes_a_single_position(length, device=None):
    """Loses both dimensions of a mask of one position."""
    return causal_mask(length, device).squeeze()


@mutant("impl.operations.causal_mask", caught_by=operations.TRIU, value=True)
def remembers_masks_by_length():
    """Copies the first mask of a length, whichever device it was on."""
    known = {}
    return lambda length, device=None: known.setdefault(length, causal_mask(length, device)).clone()


@twin("impl.operations.batched_matmul")
def multiplies_a_square_by_itself(x, w):
    """Computes the second power of a matrix that is both operands."""
    if x is w and x.dim() == 2 and x.is_floating_point() and x.shape[0] == x.shape[1]:
        return torch.linalg.matrix_power(x, 2)
    return matmul(x, w)


@twin("impl.operations.causal_mask", value=True)
def keeps_one_large_mask():
    """Copies each mask from a corner of the largest mask made so far on the device."""
    known = {}

    def cut(length, device=None):
        length = index(length)
        if length < 0:
            raise ValueError("negative")
        device = torch.device("cpu" if device is None else device)
        if len(known.get(device, ())) < length or device not in known:
            known[device] = causal_mask(length, device)
        return known[device][:length, :length].clone()

    return cut


@twin("impl.operations.batched_matmul")
def repeats_what_is_broadcast(x, w):
    """Copies every matrix that is used more than once."""
    if min(x.dim(), w.dim()) < 2 or x.shape[-1] != w.shape[-2]:
        raise ValueError("two matrices whose inner sizes agree")
    leading = torch.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    return torch.matmul(x.expand(*leading, -1, -1).contiguous(), w.expand(*leading, -1, -1).contiguous())
