"""Formulas of everything that is no product: elementwise operations, reductions, and what costs nothing.

Counted as one FLOP each: an addition, subtraction, multiplication or division; an elementary function (square root,
power, exponential, logarithm, trigonometric, hyperbolic and error functions, and their inverses); rounding to an
integer; the larger or smaller of two numbers. What is defined by those, as softmax or layer normalisation, is counted
by its definition, which the formula's docstring gives. So a sum of n numbers costs n − 1, their mean n.

Free: whatever only moves, makes, selects, compares or draws numbers, and what only touches their sign (FREE, by kind).
On complex numbers an addition is 2 and a multiplication 6; their other operations have no formula.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from spec.instruments.flops.lines import NOTHING, Flops, Formula, is_dense, stored

FREE = {
    "moving": "_conj _copy_from _lazy_clone _neg_view _pack_padded_sequence _pad_packed_sequence _reshape_alias "
    "_reshape_copy _stack _to_copy _to_dense _to_sparse _to_sparse_bsc _to_sparse_bsr "
    "_to_sparse_csc _to_sparse_csr _unsafe_view alias as_strided block_diag cat "
    "channel_shuffle clone _coalesced complex constant_pad_nd contiguous copy detach diag_embed "
    "diagonal diagonal_backward diagonal_scatter expand flip im2col lift lift_fresh lift_fresh_copy movedim narrow "
    "permute pixel_shuffle pixel_unshuffle real imag reflection_pad1d reflection_pad2d reflection_pad3d repeat "
    "replication_pad1d replication_pad2d replication_pad3d reshape resize resize_as roll rot90 select select_backward "
    "select_scatter set slice slice_backward slice_inverse slice_scatter split split_with_sizes squeeze stack t to "
    "transpose as_strided_scatter unbind unfold unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze values "
    "_values indices _indices view view_as_complex view_as_real _foreach_copy _foreach_clone _chunk_cat _pin_memory "
    "_fw_primal _make_dual sparse_mask to_mkldnn chunk crow_indices col_indices",
    "nesting": "_jagged_to_padded_dense_forward _nested_compute_contiguous_strides_offsets _nested_from_padded "
    "_nested_get_jagged_dummy _nested_get_lengths _nested_get_max_seqlen _nested_get_min_seqlen _nested_get_offsets "
    "_nested_get_ragged_idx _nested_get_values _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned "
    "_nested_tensor_from_tensor_list _nested_tensor_storage_offsets "
    "_nested_tensor_strides _nested_view_from_buffer _nested_view_from_jagged _padded_dense_to_jagged_forward "
    "to_padded_tensor",
    "making": "arange bartlett_window blackman_window empty empty_like empty_permuted empty_strided eye fill full "
    "full_like hamming_window hann_window kaiser_window linspace logspace new_empty new_empty_strided new_full "
    "new_ones new_zeros _efficientzerotensor ones ones_like scalar_tensor zero zeros zeros_like _foreach_zero "
    "_new_zeros_with_same_feature_meta _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors "
    "_sparse_coo_tensor_unsafe _sparse_compressed_tensor_unsafe",
    "drawing": "bernoulli binomial cauchy exponential geometric log_normal multinomial normal normal_functional "
    "poisson rand rand_like randint randint_like randn randn_like random randperm uniform",
    "selecting": "embedding gather index index_copy index_fill index_select kthvalue masked_fill masked_scatter "
    "masked_select median mode nan_to_num nonzero sort sparse_dim take threshold threshold_backward topk "
    "tril triu _unique2 unique_dim unique_consecutive _unsafe_index _unsafe_masked_index where max_unpool2d "
    "max_unpool3d value_selecting_reduction_backward",
    "comparing": "all allclose any argmax argmin argsort bucketize count_nonzero eq equal ge gt isclose isfinite isin "
    "isinf isnan isneginf isposinf le logical_and logical_not logical_or logical_xor lt ne searchsorted signbit "
    "_is_all_true _is_any_true is_nonzero heaviside",
    "signs": "conj conj_physical _conj_physical copysign neg positive sign _foreach_neg _foreach_sign",
    "asking": "_assert_async _assert_tensor_metadata _functional_assert_async _fused_sdp_choice _local_scalar_dense "
    "_nnz _dimI _dimV _has_same_storage_numel _use_cudnn_rnn_flatten_weight _cudnn_rnn_flatten_weight dense_dim "
    "is_coalesced is_pinned is_same_size is_set_to item record_stream _nested_tensor_size _print",
}

FREE_NAMES = {f"aten.{name}" for names in FREE.values() for name in names.split()}

# One FLOP per element of the result.
ONE = (
    "acos acosh add asin asinh atan atan2 atanh ceil clamp_max clamp_min cos cosh div digamma erf erfc erfinv exp exp2 "
    "expm1 float_power floor floor_divide fmax fmin fmod hypot lgamma log log10 log1p log2 maximum minimum "
    "mul pow reciprocal relu remainder round rsqrt rsub sin sinh sqrt square sub tan tanh trunc max min"
)
# More than one, by their definitions.
SEVERAL = {
    "frac": 2,  # x − trunc(x)
    "hardtanh": 2,  # min(max(x, low), high)
    "leaky_relu": 1,  # slope · x, and a selection
    "leaky_relu_backward": 1,
    "lerp": 3,  # a + w · (b − a)
    "logit": 3,  # log(x / (1 − x))
    "native_dropout_backward": 2,  # g · mask · scale
    "relu6": 2,
    "sigmoid": 3,  # 1 / (1 + exp(−x))
    "sigmoid_backward": 3,  # g · (1 − y) · y
    "silu": 4,  # x / (1 + exp(−x)), as x · sigmoid(x)
    "silu_backward": 8,  # g · s · (1 + x · (1 − s)), s = sigmoid(x)
    "tanh_backward": 3,  # g · (1 − y · y)
}
COMPLEX = {"add": 2, "sub": 2, "rsub": 2, "mul": 6}
Each = Callable[..., int]


def _scaled(factor: Any) -> bool:
    return not (isinstance(factor, int | float) and factor == 1)


def _each(name: str) -> Each | None:
    """Return what gives the FLOPs per element of an elementwise operator, from its arguments."""
    if name in {"add", "sub", "rsub"}:  # x + alpha · y
        return lambda *args, alpha=1, **_: 1 + _scaled(args[2] if len(args) > 2 else alpha)
    if name in {"addcdiv", "addcmul"}:  # x + value · a · b
        return lambda *args, value=1, **_: 2 + _scaled(args[3] if len(args) > 3 else value)
    if name == "clamp":
        return lambda x, low=None, high=None, **named: sum(
            bound is not None for bound in (low, high, named.get("min"), named.get("max"))
        )
    if name == "gelu":  # x · ½ · (1 + erf(x · √½)); ½ · x · (1 + tanh(b · (x + c · x·x·x)))
        return lambda *_, approximate="none", **__: 9 if approximate == "tanh" else 5
    if name == "gelu_backward":  # g · (cdf + x · pdf), cdf as above (4), pdf = a · exp(−½ · x·x) (4); or through tanh
        return lambda *_, approximate="none", **__: 18 if approximate == "tanh" else 11
    count = 1 if name in ONE.split() else SEVERAL.get(name)
    return None if count is None else lambda *_, **__: count


def elementwise(name: str) -> Formula | None:
    """Return the formula of an elementwise operator, or of one on a list of tensors (_foreach_…)."""
    each = _each(name.removeprefix("_foreach_"))
    if each is None:
        return None
    if name.startswith("_foreach_"):

        def of_lists(_: Any, first: list[Tensor], *args: Any, **named: Any) -> Flops | None:
            if any(tensor.is_complex() for tensor in first):
                return None
            return Flops(
                elementwise=each(first, *args, **named) * sum(t.numel() for t in first if t.is_floating_point())
            )

        return of_lists

    of_complex = COMPLEX.get(name)

    def of_result(result: Tensor, *args: Any, **named: Any) -> Flops | None:
        if result.layout is not torch.strided and not is_dense(result):
            return _of_sparse(name, each(*args, **named), result)
        if result.is_floating_point():
            return Flops(elementwise=each(*args, **named) * result.numel())
        if not result.is_complex():
            return NOTHING
        plain = of_complex is not None and each(*args, **named) == 1
        return Flops(elementwise=of_complex * result.numel()) if plain else None  # type: ignore[operator]

    return of_result


def _of_sparse(name: str, count: int, result: Tensor) -> Flops | None:
    """Cost of an elementwise operator on a sparse tensor: of the numbers stored. Where two are added is not known."""
    if not result.is_floating_point() or name in {"add", "sub", "rsub"}:
        return None
    return Flops(elementwise=count * stored(result))


def coalesce(result: Tensor, x: Tensor) -> Flops | None:
    """Cost of adding up the entries of a sparse tensor that are stored twice."""
    return Flops(elementwise=stored(x) - stored(result)) if x.is_floating_point() else None


def of_sign(_: Any, x: Tensor) -> Flops | None:
    """Cost of what touches only a real number's sign; on complex ones it is a length, or an angle."""
    return None if x.is_complex() else NOTHING


def scatter(*_: Any, reduce: str | None = None, **__: Any) -> Flops | None:
    """Cost of scatter, which moves numbers, or as an overload of it adds or multiplies them."""
    return NOTHING if reduce is None else None


FORMULAS: dict[str, Formula] = {
    "aten._coalesce": coalesce,
    "aten.abs": of_sign,
    "aten.angle": of_sign,
    "aten.sgn": of_sign,
    "aten.scatter": scatter,
}
