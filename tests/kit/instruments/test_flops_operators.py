"""Every operator of torch's that is a product has a formula or is listed, and none is both counted and free."""

import re

import pytest
import torch

from spec.instruments.flops import FlopCounter, Flops, elementwise, registry
from tests.kit.instruments.flop_cases import values
from tests.kit.instruments.test_flops import counted


def test_products_of_complex_numbers_and_of_integers_with_what_is_added():
    for kind, addr, addmm in (
        (torch.complex64, Flops(15 * 6, 15 * 2), Flops(105 * 8, 21 * 2)),  # 4 × and 2 +, then 2 +
        (torch.int64, Flops(integer=15 + 15), Flops(integer=210 + 21)),
    ):
        make = lambda *shape, kind=kind: torch.ones(shape, dtype=kind)  # noqa: E731
        assert counted(torch.addr, make(3, 5), make(3), make(5)).flops == addr
        assert counted(torch.addmm, make(7), make(3, 5), make(5, 7)).flops == addmm


def test_bilinear_gone_through_by_what_it_sums_over():
    x, weight, y = values(3, 5), values(7, 5, 2), values(3, 2)
    program = lambda: torch._trilinear(x, weight, y, [1, 3], [0], [1, 2], [2, 3], 2)  # noqa: E731
    assert counted(program).flops == Flops(5 * (3 * 7 * 2 + 2 * 3 * 7 * 2 + 3 * 7))  # x·w, then Σ ·y, then added up


def test_a_product_with_an_activation():
    each = counted(torch._addmm_activation, values(7), values(3, 5), values(5, 7))
    assert each.flops == Flops(210, 21)
    assert each.uncounted == {"aten._addmm_activation (its elementwise work)": 1}


def test_differences_of_complex_numbers_and_a_fused_norm():
    x = values(3, 5)
    z = torch.complex(x, x)
    assert counted(torch.sub, z, z).flops == Flops(elementwise=2 * 15)
    packet = torch.ops.aten._fused_rms_norm
    for weight, each in ((None, 3 * 5 + 3), (x[0], 4 * 5 + 3)):  # squares, additions, products; a root, 1/…, + ε, / n
        counter = FlopCounter()
        counter.flop_registry[packet](x, [5], weight, 1e-5, out_val=None)
        assert counter.elementwise == 3 * each


@pytest.mark.parametrize("name", elementwise.ONE.split())
def test_an_elementary_operation_is_one_per_element(name):
    packet = getattr(torch.ops.aten, name)
    x = values(3, 5).abs()
    overload = getattr(packet, packet.overloads()[0])
    takes = sum(each.type.kind() == "TensorType" for each in overload._schema.arguments)
    scalar = (0.5,) if name in ("clamp_max", "clamp_min", "pow", "rsub", "float_power", "fmod", "remainder") else ()
    args = (x, *scalar) if scalar else (x,) * max(takes, 2 if name in ("max", "min") else 1)
    each = counted(packet, *args)
    assert (each.flops, each.uncounted) == (Flops(elementwise=15), {})


SEVERAL = {"silu_backward": 8, "native_dropout_backward": 2, "relu6": 2, "frac": 2, "leaky_relu_backward": 1}


@pytest.mark.parametrize("name", SEVERAL)
def test_operators_that_torch_may_take_apart(name):
    x = values(3, 5)
    each = FlopCounter()
    each.flop_registry[getattr(torch.ops.aten, name)](x, x, x, out_val=x)
    assert each.elementwise == 15 * SEVERAL[name]


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
    "_cudnn_attention_forward _lstm_mps _mps_convolution _mps_convolution_transpose "
    "_scaled_dot_product_attention_math_for_mps _triton_multi_head_attention _triton_scaled_dot_attention "
    "cudnn_convolution_add_relu lstm_mps_backward "
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
    formulas, new = registry.formulas(), []
    for name, overloads in operators().items():
        packet = overloads[0].overloadpacket
        if not PRODUCT.search(name) or registry.find(formulas, str(packet)) or registry.is_free(str(packet)):
            continue
        if all(not registry.is_whole(overload) for overload in overloads):
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
    both = [name for name in elementwise.FREE_NAMES if registry.find(registry.formulas(), name)]
    assert not both
