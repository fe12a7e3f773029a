"""The counter's formulas of kernels that a CPU does not run, from the shapes of their arguments."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from spec.instruments.flops import FlopCounter, Flops
from spec.instruments.flops.fused import pairs
from tests.kit.instruments import flop_loops as loops
from tests.kit.instruments.flop_cases import values
from tests.kit.instruments.flop_networks import gradients
from tests.kit.instruments.test_flops import counted

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


@pytest.mark.parametrize("convention", ["full", "causal"])
@pytest.mark.parametrize("backward", [False, True])
def test_sliding_windows_are_counted_in_full_or_listed(convention, backward):
    q, k = (values(*shape).transpose(1, 2) for shape in (Q, K))
    known = {"is_causal": True, "custom_mask_type": 2, "grad_out": q, "grad_out_": q, "query": q, "key": k, "value": k}
    for kernel, none, some in (
        ("_flash_attention", {"window_size_left": -1, "window_size_right": -1}, {"window_size_left": 1}),
        ("_efficient_attention", {"window_size": None}, {"window_size": 2}),
    ):
        packet = getattr(torch.ops.aten, f"{kernel}_{'backward' if backward else 'forward'}")
        args = arguments(packet, **known)
        every = FlopCounter(convention).flop_registry[packet](*args, **none, out_val=None)
        # Seen from the end, of 5·4 pairs 0 + 1 + 2 + 3 + 4 are allowed.
        assert every * 2 == by_loops(backward) * (1 if convention == "causal" else 2)
        counter = FlopCounter(convention)
        windowed = counter.flop_registry[packet](*args, **some, out_val=None)
        assert windowed == (0 if convention == "causal" else by_loops(backward))
        assert counter.uncounted == {str(packet) + " (its elementwise work)" * (convention == "full"): 1}


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


CONVOLUTIONS = (
    "_conv_depthwise2d _slow_conv2d_forward cudnn_convolution miopen_convolution miopen_depthwise_convolution "
    "mkldnn_convolution slow_conv_dilated2d _nnpack_spatial_convolution cudnn_convolution_relu "
    "miopen_convolution_relu"
)
TRANSPOSED = "cudnn_convolution_transpose miopen_convolution_transpose slow_conv_transpose2d"


@pytest.mark.parametrize("name", [*CONVOLUTIONS.split(), *TRANSPOSED.split()])
def test_convolutions_by_other_names(name):
    shape = (4, 3, 3, 2) if "transpose" in name else (6, 2, 3, 2)  # in 2 groups
    x, weight, tally = values(2, 4, 5, 6), values(*shape), loops.Tally()
    run = loops.convolution_transposed if "transpose" in name else loops.convolution
    result = torch.empty(run(tally, tally.numbers(x), tally.numbers(weight), groups=2).shape)
    packet = getattr(torch.ops.aten, name)
    for bias in (None, values(6)):
        if bias is None or "Tensor? bias" in str(packet.default._schema):
            each = FlopCounter()
            args = arguments(packet, self=x, input=x, weight=weight, bias=bias)
            assert each.flop_registry[packet](*args, out_val=result) == tally.counts["matmul"]
            added = each.flop_counts["Global"][packet, "bias"]
            assert added == (0 if bias is None else result.numel())


def test_gradients_of_convolutions_by_other_names():
    x, weight, tally = values(2, 4, 5, 6), values(6, 4, 3, 2), loops.Tally()
    gradient = torch.ones(2, 6, 3, 5)
    for gradients_of in (loops.input_gradient, loops.weight_gradient):
        gradients_of(tally, *map(tally.numbers, (gradient, x, weight)), 1)
    for name in ("convolution_backward", "convolution_backward_overrideable", "_slow_conv2d_backward"):
        packet = getattr(torch.ops.aten, name)
        schema = getattr(packet, "output_mask" if "slow" in name else "default")._schema
        known = {"input": x, "self": x, "weight": weight, "transposed": False, "output_mask": [True, True, True]}
        args = [
            (known | {each.name: gradient} if "grad" in each.name else known).get(each.name)
            for each in schema.arguments
        ]
        each = FlopCounter()
        assert each.flop_registry[packet](*args, out_val=None) == tally.counts["matmul"]
        assert each.flop_counts["Global"][packet, "bias"] == 6 * (2 * 3 * 5 - 1)


def test_a_convolution_with_time_first():
    x, weight, bias = values(7, 2, 4), values(3, 4, 5), values(5)
    each = counted(lambda: torch.conv_tbc(x, weight, bias))
    assert each.flops == counted(lambda: F.conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias)).flops
    assert each.flops == Flops(2 * 2 * 5 * 5 * 4 * 3, 2 * 5 * 5)


@pytest.mark.parametrize("name", ["linear", "mkldnn_linear"])
def test_linear_layers_in_one_operator(name):
    x, weight, bias, gradient = values(2, 3, 5), values(7, 5), values(7), values(2, 3, 7)
    aten, each = torch.ops.aten, FlopCounter()
    assert each.flop_registry[getattr(aten, name)](x, weight, bias, out_val=gradient) == 420
    assert each.flop_counts["Global"][getattr(aten, name), "bias"] == 42
    packet = getattr(aten, f"{name}_backward")
    for mask, products, biased in (((True, True, True), 840, 35), ((False, True, False), 420, 0)):
        each = FlopCounter()
        assert each.flop_registry[packet](x, gradient, weight, mask, out_val=None) == products
        assert each.flop_counts["Global"][packet, "bias"] == biased


def test_products_that_are_made_where_numbers_are_stored():
    x, w, places = values(3, 5), values(5, 7), torch.eye(3, 7).to_sparse_csr()
    packet = torch.ops.aten.sparse_sampled_addmm
    each = FlopCounter()
    assert each.flop_registry[packet](places, x, w, beta=2.0, out_val=places) == 3 * 2 * 5
    assert each.flop_counts["Global"][packet, "bias"] == 3 * 2


def test_gradients_of_a_recurrent_layer():
    layer = nn.LSTM(5, 3, batch_first=True)
    x = values(2, 7, 5).requires_grad_()
    forward = counted(layer, x).matmul
    assert counted(lambda x: layer(x)[0].sum().backward(), x).matmul >= 3 * forward - 4 * 2 * 2 * 3 * 12
    if torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled:
        # oneDNN also multiplies by the hidden state before the first token, which is 0.
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


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_scaled_mm_v2"), reason="this torch has no _scaled_mm_v2")
@pytest.mark.parametrize("biased", [False, True])
def test_products_scaled_in_blocks(biased):
    x, w, result = torch.empty(3, 5), torch.empty(5, 7), torch.empty(3, 7)
    packet = torch.ops.aten._scaled_mm_v2
    args = {"self": x, "mat2": w, "scale_a": [x], "scale_b": [x], "bias": result[0] if biased else None}
    each = FlopCounter()
    assert each.flop_registry[packet](*arguments(packet, **args), out_val=result) == 210
    assert each.flop_counts["Global"][packet, "bias"] == 21 * biased
    if hasattr(torch, "float4_e2m1fn_x2"):  # two numbers to a byte: 10 of them are multiplied
        args["self"] = torch.empty(3, 5, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
        assert each.flop_registry[packet](*arguments(packet, **args), out_val=result) == 420


def test_products_with_packed_weights():
    x, result = torch.empty(3, 8), torch.empty(3, 7)
    each = FlopCounter()
    for name in ("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu"):
        packet = getattr(torch.ops.aten, name)
        packed, scales = torch.empty(1, 1, 1, 1), torch.empty(1, 7, 2)
        args = arguments(packet, self=x, mat2=packed, qGroupSize=8, qScaleAndZeros=scales)
        assert each.flop_registry[packet](*args, out_val=result) == 2 * 3 * 8 * 7
        assert not each.flop_counts["Global"][packet, "bias"]


def test_products_of_lists():
    each, aten = FlopCounter(), torch.ops.aten
    if not hasattr(aten, "_foreach_mm"):
        pytest.skip("this torch has no _foreach_mm")
    left, right = [values(3, 5), values(2, 3)], [values(5, 7), values(3, 2)]
    result = [a @ b for a, b in zip(left, right, strict=True)]
    assert each.flop_registry[aten._foreach_mm](left, right, out_val=result) == 210 + 24


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
