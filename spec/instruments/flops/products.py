"""Formulas of the operators that multiply matrices: one multiplication and one addition for each term of each sum.

The first term's addition, to nothing, is counted as well (2·B·D·K, not B·K·(2D − 1)), as everywhere in the literature.
A complex multiplication and addition are 4 real multiplications and 4 real additions, and are counted as 8 FLOPs.
A product's own bias is one addition per element of the result, and one multiplication for each of `alpha` and `beta`
that is not 1. A sparse matrix is multiplied where it has numbers stored. A convolution multiplies padding's zeros too.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from spec.instruments.flops.lines import Flops, Formula, is_dense, stored


def of_products(terms: int, kind: Tensor, *, bias: int = 0, elementwise: int | None = 0) -> Flops:
    """Return the cost of `terms` multiplications and as many additions of a tensor's kind of numbers."""
    if kind.is_floating_point():
        return Flops(2 * terms, bias, elementwise)
    if kind.is_complex():
        return Flops(8 * terms, 2 * bias, elementwise)
    return Flops(integer=2 * terms + bias)


def added(result: Tensor, beta: complex = 1, alpha: complex = 1) -> int:
    """Return the operations of beta·self + alpha·product beside the product."""
    return result.numel() * _added(beta, alpha)


def _added(beta: complex, alpha: complex) -> int:
    return (beta != 0) + (beta not in (0, 1)) + (alpha != 1)


def _terms(result: Tensor, left: Tensor, right: Tensor) -> int | None:
    """Return the terms of all sums in a product of (…, rows, inner) with (…, inner, columns), either one a vector."""
    if left.is_nested:
        return sum(prod(each) for each in _matrices(left, right))
    if is_dense(left) and is_dense(right):
        return result.numel() * left.shape[-1]
    if is_dense(left):
        return stored(right) * left.shape[-2]
    if is_dense(right):
        return stored(left) * (right.shape[-1] if right.ndim > 1 else 1)
    return None  # where two sparse matrices' numbers meet is known only to who looks at them


def _matrices(left: Tensor, right: Tensor) -> Iterable[tuple[int, ...]]:
    """Return the sizes (…, rows, inner, columns) of each product of nested tensors, or of one with a plain tensor."""
    pairs = zip(left.unbind(), right.unbind() if right.is_nested else [right] * left.size(0), strict=True)
    return ((*a.shape, b.shape[-1]) for a, b in pairs)


def multiply(result: Tensor, left: Tensor, right: Tensor, *_: Any, **__: Any) -> Flops | None:
    """Cost of mm, bmm, mv: no bias."""
    terms = _terms(result, left, right)
    return None if terms is None else of_products(terms, left)


def multiply_add(
    result: Tensor, bias: Tensor, left: Tensor, right: Tensor, *_: Any, beta: Any = 1, alpha: Any = 1, **__: Any
) -> Flops | None:
    """Cost of addmm, baddbmm, addmv."""
    terms = _terms(result, left, right)
    return None if terms is None else of_products(terms, left, bias=added(result, beta, alpha))


def multiply_sampled(
    result: Tensor, bias: Tensor, left: Tensor, right: Tensor, *, beta: complex = 1, alpha: complex = 1
) -> Flops:
    """Cost of sparse_sampled_addmm, which computes a product only where `bias` has numbers stored."""
    places = stored(bias)
    return of_products(places * left.shape[-1], left, bias=places * _added(beta, alpha))


def multiply_activate(
    result: Tensor, bias: Tensor, left: Tensor, right: Tensor, *, beta: Any = 1, alpha: Any = 1, **_: Any
) -> Flops:
    """Cost of _addmm_activation, whose activation is not counted."""
    return of_products(result.numel() * left.shape[-1], left, bias=added(result, beta, alpha), elementwise=None)


def multiply_sum(
    result: Tensor, bias: Tensor, left: Tensor, right: Tensor, *, beta: Any = 1, alpha: Any = 1, **_: Any
) -> Flops:
    """Cost of addbmm: the products of all matrices, summed."""
    return of_products(left.numel() * right.shape[-1], left, bias=added(result, beta, alpha))


def multiply_scaled(result: Tensor, left: Tensor, right: Tensor, *rest: Any, bias: Any = None, **_: Any) -> Flops:
    """Cost of products with scaled or packed weights; how often they are scaled depends on the kernel."""
    bias = rest[2] if len(rest) > 2 else bias  # after two scales
    biased = result.numel() if isinstance(bias, Tensor) else 0
    return Flops(2 * result.numel() * left.shape[-1], biased, None)


def multiply_scaled_blocks(result: Tensor, left: Tensor, right: Tensor, *rest: Any, **_: Any) -> Flops:
    """Cost of _scaled_mm_v2. float4 has two numbers in each byte that a shape counts."""
    packed = 2 if left.dtype == getattr(torch, "float4_e2m1fn_x2", None) else 1
    biased = result.numel() if len(rest) > 6 and isinstance(rest[6], Tensor) else 0
    return Flops(2 * result.numel() * left.shape[-1] * packed, biased, None)


def multiply_groups(result: Tensor, left: Tensor, right: Tensor, offsets: Any = None, bias: Any = None) -> Flops:
    """Cost of _grouped_mm: 2-D operands are cut into groups, along rows, columns or the inner dimension."""
    terms = left.numel() * right.shape[-1]  # also where both are 3-D, or the groups are cut along the inner dimension
    if left.ndim == 3 and right.ndim == 2:
        terms = left.shape[-2] * right.numel()
    return of_products(terms, left, bias=0 if bias is None else result.numel())


def multiply_each(result: Sequence[Tensor], left: Sequence[Tensor], right: Sequence[Tensor]) -> Flops:
    """Cost of _foreach_mm."""
    return of_products(sum(a.numel() * b.shape[-1] for a, b in zip(left, right, strict=True)), left[0])


def dot(result: Tensor, left: Tensor, right: Tensor, **_: Any) -> Flops:
    """Cost of an inner product."""
    return of_products(left.numel(), left)


def outer_add(result: Tensor, bias: Tensor, left: Tensor, right: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Flops:
    """Cost of addr: an outer product multiplies and has nothing to add up."""
    biased, products = added(result, beta, alpha), left.numel() * right.numel()
    if left.is_floating_point():
        return Flops(products, biased)
    return Flops(6 * products, 2 * biased) if left.is_complex() else Flops(integer=products + biased)


def linear(result: Tensor, x: Tensor, weight: Tensor, bias: Any = None, *_: Any, **__: Any) -> Flops:
    """Cost of a linear layer in one operator."""
    # A nested tensor has no last size, but the weight has it too.
    points = x.numel() // weight.shape[-1]
    return of_products(weight.numel() * points, x, bias=0 if bias is None else result.numel())


def linear_backward(_: Any, x: Tensor, gradient: Tensor, weight: Tensor, mask: Sequence[bool]) -> Flops:
    """Cost of a linear layer's gradients: a product for each of the input's and the weight's, a sum for the bias's."""
    points = x.numel() // weight.shape[-1]
    biased = gradient.numel() - weight.shape[0] if mask[2] else 0
    return of_products((mask[0] + mask[1]) * weight.numel() * points, x, bias=biased)


def trilinear(
    result: Tensor, first: Tensor, second: Tensor, third: Tensor, *places: Sequence[int], unroll_dim: int = 1
) -> Flops | None:
    """Cost of _trilinear, by which bilinear and its gradients are computed: two products, one after the other.

    The first two operands are multiplied and summed over what the third does not have, then with the third. One
    dimension is gone through in a loop: if the result does not have it, the loop adds up its products.
    """
    *missing, sums = map(set, places[:4])
    loop = places[4] if len(places) > 4 else unroll_dim
    sizes: dict[int, int] = {}
    for operand, absent in zip((first, second, third), missing, strict=True):
        held = [dim for dim in range(operand.ndim + len(absent)) if dim not in absent]
        sizes.update(zip(held, operand.shape, strict=True))
    early = sums & missing[2] - {loop}
    if not first.is_floating_point() or early & (missing[0] | missing[1]):
        return None
    pair = prod(size for dim, size in sizes.items() if dim not in missing[0] & missing[1])
    rest = prod(size for dim, size in sizes.items() if dim not in early)
    sums_up = result.numel() * sizes[loop] if loop in sums else 0
    return Flops(pair * (2 if early else 1) + rest * (2 if sums - early - {loop} else 1) + sums_up)


def convolution(result: Tensor, x: Tensor, weight: Tensor, *rest: Any, **named: Any) -> Flops:
    """Cost of a convolution, grouped or not: at every position of the result each weight of each group is used once."""
    return _convolution(result, result, weight, rest, named)


def convolution_transposed(result: Tensor, x: Tensor, weight: Tensor, *rest: Any, **named: Any) -> Flops:
    """Cost of a transposed convolution: at every position of the input each weight is used once."""
    return _convolution(result, x, weight, rest, named)


def convolution_either(result: Tensor, x: Tensor, weight: Tensor, *rest: Any, **named: Any) -> Flops:
    """Cost of aten.convolution; its 7th argument says whether it is transposed."""
    return _convolution(result, x if rest[4] else result, weight, rest, named)


def convolution_activate(result: Tensor, x: Tensor, weight: Tensor, *rest: Any, **named: Any) -> Flops:
    """Cost of a convolution with an activation, which is not counted."""
    return _convolution(result, result, weight, rest[:1], named)._replace(elementwise=None)


def _convolution(result: Tensor, positions: Tensor, weight: Tensor, rest: Any, named: dict[str, Any]) -> Flops:
    bias = any(isinstance(value, Tensor) for value in rest) or isinstance(named.get("bias"), Tensor)
    terms = weight.numel() * _positions(positions)
    return of_products(terms, weight, bias=result.numel() if bias else 0)


def _positions(images: Tensor) -> int:
    return images.shape[0] * images.shape[2:].numel()


def convolution_time_first(result: Tensor, x: Tensor, weight: Tensor, bias: Tensor, *_: Any) -> Flops:
    """Cost of conv_tbc: (time, batch, channel)."""
    return of_products(weight.numel() * result.shape[:2].numel(), weight, bias=result.numel())


def convolution_backward(_: Any, gradient: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> Flops:
    """Cost of a convolution's gradients: each of the input's and the weight's is as much as the convolution itself."""
    return _convolution_backward(gradient, x if rest[4] else gradient, weight, rest[-1])


def convolution_backward_slow(_: Any, gradient: Tensor, x: Tensor, weight: Tensor, *rest: Any, **__: Any) -> Flops:
    """Cost of _slow_conv2d_backward, whose `out=` variant computes all three gradients."""
    mask = rest[3] if len(rest) > 3 else (True, True, True)
    return _convolution_backward(gradient, gradient, weight, mask)


def _convolution_backward(gradient: Tensor, positions: Tensor, weight: Tensor, mask: Sequence[bool]) -> Flops:
    terms = (mask[0] + mask[1]) * weight.numel() * _positions(positions)
    return of_products(terms, weight, bias=gradient.numel() - gradient.shape[1] if mask[2] else 0)


_BY_NAME: dict[Formula, str] = {
    multiply: "mm bmm matmul mv _int_mm hspmm _sparse_mm",
    multiply_add: "addmm baddbmm addmv _sparse_addmm",
    multiply_sum: "addbmm",
    multiply_sampled: "sparse_sampled_addmm",
    multiply_activate: "_addmm_activation",
    multiply_scaled: "_scaled_mm _weight_int8pack_mm _weight_int4pack_mm _weight_int4pack_mm_for_cpu",
    multiply_scaled_blocks: "_scaled_mm_v2",
    multiply_groups: "_grouped_mm",
    multiply_each: "_foreach_mm",
    dot: "dot vdot",
    outer_add: "addr",
    linear: "linear mkldnn_linear",
    linear_backward: "linear_backward mkldnn_linear_backward",
    trilinear: "_trilinear",
    convolution: "cudnn_convolution mkldnn_convolution miopen_convolution miopen_depthwise_convolution "
    "_slow_conv2d_forward slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d _conv_depthwise2d "
    "conv_depthwise3d _nnpack_spatial_convolution",
    convolution_transposed: "cudnn_convolution_transpose miopen_convolution_transpose slow_conv_transpose2d "
    "slow_conv_transpose3d",
    convolution_either: "convolution _convolution convolution_overrideable",
    convolution_activate: "cudnn_convolution_relu miopen_convolution_relu",
    convolution_time_first: "conv_tbc",
    convolution_backward: "convolution_backward convolution_backward_overrideable",
    convolution_backward_slow: "_slow_conv2d_backward",
}

FORMULAS: dict[str, Formula] = {
    f"aten.{name}": formula for formula, names in _BY_NAME.items() for name in names.split()
}
