"""The counter's formulas of kernels that this machine cannot run; every operator of torch's that may be a product."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from spec.instruments.flops import FlopCounter, counter, elementwise
from spec.instruments.flops.fused import pairs
from tests.kit import flop_loops as loops
from tests.kit.flop_cases import values
from tests.kit.flop_networks import gradients
from tests.kit.test_instruments_flops import counted

# Attention: causal or not, on every kernel. Those of accelerators run on the meta device, which only knows shapes.

Q, K = (2, 3, 5, 7), (2, 3, 4, 7)
KERNELS = ("flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable")


def by_loops(backward, sees=lambda query, key: True):
    """Return the FLOPs of attention, or of its gradients as kernels compute them."""
    q, k = values(*Q), values(*K)
    tally = loops.Tally()
    arrays = [tally.numbers(each) for each in (q, k, k)]
    loops.attention(tally, *arrays, sees=sees)
    forward = tally.counts["matmul"]
    if not backward:
        return forward
    gradients(again=True)(tally, *arrays)
    return tally.counts["matmul"] - 2 * forward


def causal(query, key):
    return key <= query


def arguments(packet, **known):
    """Return an operator's arguments, by its schema: those that are known, and something for the others."""
    schema = packet.default._schema
    return [known.get(each.name) for each in schema.arguments if not each.kwarg_only]


@pytest.mark.parametrize("kernel", [*KERNELS, "flash_attention_for_cpu"])
def test_attention_kernels_of_accelerators(kernel):
    packet = getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}")
    q, k = (torch.empty(shape, device="meta") for shape in (Q, K))
    for is_causal in (False, True):
        for attention in ("full", "causal"):
            expected = by_loops(False, causal if is_causal and attention == "causal" else lambda query, key: True)
            args = arguments(packet, query=q, key=k, value=k, is_causal=is_causal)
            counter = FlopCounter(attention)
            assert counter.flop_registry[packet](*args, out_val=None) == expected
            assert counter.uncounted == {f"{packet} (its elementwise work)": 1}


@pytest.mark.parametrize(
    "name",
    [f"_scaled_dot_product_{kernel}_backward" for kernel in (*KERNELS, "flash_attention_for_cpu")],
)
def test_gradients_of_attention_kernels(name):
    packet = getattr(torch.ops.aten, name)
    q, k = (torch.empty(shape, device="meta") for shape in (Q, K))
    known = {"grad_out": q, "grad_out_": q, "query": q, "key": k, "value": k}
    counter = FlopCounter()
    args = arguments(packet, **known, is_causal=False)
    assert counter.flop_registry[packet](*args, out_val=None) == by_loops(True)
    assert counter.uncounted == {f"aten.{name} (its elementwise work)": 1}
    fewer = FlopCounter("causal").flop_registry[packet](*arguments(packet, **known, is_causal=True), out_val=None)
    assert fewer * 20 == by_loops(True) * 14  # of 5·4 pairs 1 + 2 + 3 + 4 + 4 are allowed


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("kernel", ["_flash_attention", "_efficient_attention"])
@pytest.mark.parametrize("ragged", [False, True])
def test_kernels_that_take_the_context_first(kernel, backward, ragged):
    packet = getattr(torch.ops.aten, f"{kernel}_{'backward' if backward else 'forward'}")
    q, k = (values(*shape).transpose(1, 2) for shape in (Q, K))
    known = {"is_causal": False, "custom_mask_type": 0}
    if ragged:  # the two sequences end to end
        q, k = (each.flatten(0, 1)[(None,) * ("efficient" in kernel)] for each in (q, k))
        ends = {"q": torch.tensor([0, 5, 10]), "k": torch.tensor([0, 4, 8])}
        known |= {f"{name}_{side}": end for side, end in ends.items() for name in ("cum_seq", "cu_seqlens")}
        known |= {"max_q": 5, "max_k": 4, "max_seqlen_q": 5, "max_seqlen_k": 4}
    args = arguments(packet, **known, grad_out=q, grad_out_=q, query=q, key=k, value=k)
    assert FlopCounter().flop_registry[packet](*args, out_val=None) == by_loops(backward)


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (5, 4), (4, 5), (1, 7), (7, 1), (0, 3), (3, 0)])
@pytest.mark.parametrize("corner", ["start", "end", None])
def test_pairs_that_are_allowed(queries, keys, corner):
    shift = {"start": 0, "end": keys - queries}
    allowed = [(i, j) for i in range(queries) for j in range(keys) if corner is None or j <= i + shift[corner]]
    assert pairs(queries, keys, corner) == len(allowed)


def test_causal_attention_by_both_conventions():
    q, k = values(*Q), values(*K)
    program = lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True)  # noqa: E731
    assert counted(program, q, k).matmul == by_loops(False)
    assert counted(program, q, k, attention="causal").matmul == by_loops(False, causal)
    with pytest.raises(ValueError, match="attention"):
        FlopCounter("half")


# Other kernels of accelerators.


def test_recurrent_kernels_of_accelerators():
    layer = nn.LSTM(5, 3, num_layers=2, bidirectional=True, batch_first=True)
    x = values(2, 7, 5)
    tally = loops.Tally()
    loops.recurrent(tally, layer, tally.numbers(x))
    counter = FlopCounter()
    for name in ("_cudnn_rnn", "miopen_rnn"):
        packet = getattr(torch.ops.aten, name)
        weights = list(layer.parameters())
        args = arguments(packet, input=x, weight=weights)
        assert counter.flop_registry[packet](*args, out_val=None) == tally.counts["matmul"]
        packet = getattr(torch.ops.aten, f"{name}_backward")
        for learns in (False, True):
            args = arguments(packet, input=x, weight=weights, output_mask=[True, False, False, learns])
            assert counter.flop_registry[packet](*args, out_val=None) == (1 + learns) * tally.counts["matmul"]
    assert counter.flop_counts["Global"][torch.ops.aten._cudnn_rnn, "bias"] == tally.counts["bias"]


def test_gradients_of_a_recurrent_layer():
    layer = nn.LSTM(5, 3, batch_first=True)
    x = values(2, 7, 5).requires_grad_()
    forward = counted(layer, x).matmul
    assert counted(lambda x: layer(x)[0].sum().backward(), x).matmul >= 3 * forward - 4 * 2 * 2 * 3 * 12
    if torch.backends.mkldnn.is_available():  # which multiplies with the hidden state before the first token, 0, too
        assert counted(lambda x: layer(x)[0].sum().backward(), x).matmul == 3 * forward


def test_products_of_low_precision():
    aten = torch.ops.aten
    x, w = torch.empty(3, 5, device="meta"), torch.empty(5, 7, device="meta")
    result = torch.empty(3, 7, device="meta")
    counter = FlopCounter()
    x8, w8 = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
    scale = torch.ones((), device="meta")
    assert counter.flop_registry[aten._scaled_mm](x8, w8, scale, scale, result[0], out_val=result) == 210
    assert counter.flop_counts["Global"][aten._scaled_mm, "bias"] == 21
    assert counter.flop_registry[aten._weight_int8pack_mm](x, w.T.to(torch.int8), scale, out_val=result) == 210
    assert list(counter.uncounted.values()) == [1, 1]


GROUPED = {  # all of them 2 products of 3·5·7 terms
    "rows": ((6, 5), (2, 5, 7)),
    "columns": ((2, 3, 5), (5, 14)),
    "inner": ((3, 10), (10, 7)),
    "each": ((2, 3, 5), (2, 5, 7)),
}


@pytest.mark.parametrize("groups", GROUPED)
def test_grouped_products(groups):
    x, w = (torch.empty(shape, device="meta") for shape in GROUPED[groups])
    assert FlopCounter().flop_registry[torch.ops.aten._grouped_mm](x, w, None, out_val=x) == 2 * 210


# The operators that there are.

PRODUCT = re.compile(
    r"mm(_|$|\d)|matmul|conv[_\d]|convolution|linear(_|$)|attention|attn|rnn|lstm|gru|(^|_|vec)dot(_|$)|(^|_|add)mv(_|$)"
    r"|outer|(^|_)ger(_|$)|^addr|^bilinear|trilinear$|einsum|cdist|euclid|encoder|chain|kron|multi_head|^inner|tensordot"
    r"|combination|matrix_power|householder|ormqr|cholesky|solve|svd|(^|_)eig|lstsq|qr$|inv(_|$)|inverse$|det$|matrix_exp|_fft_"
)
WITHOUT = {
    "it works until it converges, or as its library sees fit": "_cholesky_solve_helper _compute_linear_combination "
    "_linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd _spsolve cholesky "
    "cholesky_inverse cholesky_solve linalg_cholesky_ex linalg_eig linalg_householder_product linalg_inv_ex "
    "linalg_ldl_solve linalg_lstsq linalg_lu_solve linalg_matrix_exp linalg_pinv linalg_qr linalg_solve_triangular "
    "ormqr triangular_solve _fft_c2c _fft_c2r _fft_r2c",
    "it depends on where numbers are stored": "_sparse_sparse_matmul _sparse_mm_reduce_impl "
    "_sparse_mm_reduce_impl_backward sspaddmm",
    "its operands are packed, in formats of their own": "_cslt_sparse_mm _cslt_sparse_mm_search _dyn_quant_matmul_4bit "
    "_mixed_dtypes_linear _scaled_grouped_mm _scaled_grouped_mm_v2 _sparse_semi_structured_addmm "
    "_sparse_semi_structured_linear _sparse_semi_structured_mm _weight_int4pack_mm_with_scales_and_zeros quantized_gru "
    "quantized_lstm _wrapped_quantized_linear_prepacked",
    "it is elementwise, and never called but by fused cells": "_thnn_fused_gru_cell _thnn_fused_gru_cell_backward "
    "_thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _cdist_backward",
    "it is for ragged batches, or a device that no test could reach": "_cudnn_attention_backward "
    "_cudnn_attention_forward _lstm_mps _mps_convolution_transpose _scaled_dot_product_attention_math_for_mps "
    "_triton_multi_head_attention _triton_scaled_dot_attention cudnn_convolution_add_relu lstm_mps_backward "
    "matmul_backward miopen_convolution_add_relu mkldnn_linear_backward_input mkldnn_linear_backward_weights "
    "mps_convolution_backward mps_convolution_transpose_backward",
    "it prepares weights": "_convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu "
    "_dyn_quant_pack_4bit_weight mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight",
}


def operators():
    """Return torch's own operators by name, each with its overloads."""
    known = {}
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace == "aten" and not overload.endswith("out"):
            known.setdefault(packet, []).append(getattr(getattr(torch.ops.aten, packet), overload or "default"))
    return known


def test_every_operator_that_is_a_product_has_a_formula_or_is_made_of_those_or_is_listed():
    listed = {name for names in WITHOUT.values() for name in names.split()}
    formulas, new = counter.formulas(), []
    for name, overloads in operators().items():
        packet = overloads[0].overloadpacket
        if not PRODUCT.search(name) or counter.find(formulas, str(packet)) or counter.is_free(str(packet)):
            continue
        if all(not counter.is_whole(overload) for overload in overloads):
            continue
        each = FlopCounter()
        assert packet in each.flop_registry
        assert each.flop_registry[packet](torch.ones(2), out_val=None) == 0
        assert each.uncounted == {str(packet): 1}
        if name not in listed:
            new.append(name)
    if new:
        pytest.skip(f"new in torch {torch.__version__}, and listed when they are called: {' '.join(new)}")


def test_no_operator_is_both_free_and_counted():
    both = [name for name in elementwise.FREE_NAMES if counter.find(counter.formulas(), name)]
    assert not both
