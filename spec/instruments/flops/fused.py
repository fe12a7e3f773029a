"""Formulas of kernels that do a whole attention or recurrent layer: their products, and what is added to them.

Their elementwise work is not counted but listed: how often a softmax is rescaled, or a gate computed again, is the
kernel's affair. Attention multiplies two matrices, queries·keys and weights·values; its gradient five, the first of
them again because no kernel keeps the weights. (Attention written out, or torch's "math" path, keeps them: four.)

For `is_causal` there are two conventions. "full" counts every pair of a query and a key, as attention written out
computes them and then hides half. "causal" counts the pairs that are allowed, context·(context + 1)/2, as a kernel
computes them that skips the rest (real ones skip whole blocks, so they are somewhere between).
"""

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor

from spec.instruments.flops.lines import Flops, Formula
from spec.instruments.flops.products import of_products

Convention = Literal["full", "causal"]
# Which keys a query sees: those up to its own place from the start, or from the end, or all of them.
Corner = Literal["start", "end"] | None


def pairs(queries: int, keys: int, corner: Corner) -> int:
    """Return how many pairs of a query and a key are allowed."""
    if corner is None:
        return queries * keys
    hidden_first = 0 if corner == "start" else keys - queries  # keys that the first query sees before its own place
    # Query i sees hidden_first + i + 1 keys, at least 0 and at most all.
    low, high = max(1, hidden_first + 1), hidden_first + queries
    some = max(0, min(high, keys) - low + 1)
    return some * (low + min(high, keys)) // 2 + (max(0, high - max(keys, low - 1)) * keys if high > keys else 0)


def attend(query: Tensor, key: Tensor, value: Tensor, corner: Corner, *, backward: bool = False) -> Flops:
    """Return the cost of attention on (batch, heads, context, width); fewer heads of keys are shared among queries."""
    batch, heads, queries, width = query.shape
    return _attend(query, batch * heads * pairs(queries, key.shape[-2], corner), width, value.shape[-1], backward)


def _attend(kind: Tensor, count: int, width: int, out: int, backward: bool) -> Flops:
    return of_products(count * (3 * width + 2 * out if backward else width + out), kind, elementwise=None)


def _attention(causal_at: int, convention: Convention, *, backward: bool = False) -> Formula:
    """Return the formula of an operator whose argument number `causal_at` says whether it is causal."""

    def formula(_: Any, *args: Any, **named: Any) -> Flops | None:
        is_causal = args[causal_at] if len(args) > causal_at else named.get("is_causal", False)
        if not isinstance(is_causal, bool):  # another overload, with arguments of its own
            return None
        query, key, value = args[backward : backward + 3]
        corner: Corner = "start" if is_causal and convention == "causal" else None
        return attend(query, key, value, corner, backward=backward)

    return formula


def _lengths(offsets: Tensor, longest: int) -> list[int]:
    """Return the lengths of the sequences in a ragged batch; where there are no values to read, the longest for all."""
    if offsets.device.type == "meta" or type(offsets) is not Tensor:
        return [longest] * (offsets.shape[0] - 1)
    return offsets.diff().tolist()


def _ragged(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    offsets: Sequence[Any],
    longest: Sequence[Any],
    corner: Corner,
    back: bool,
) -> Flops:
    """Return the cost of attention on (batch, context, heads, width), or on sequences laid end to end."""
    *_, queries, heads, width = query.shape
    if offsets[0] is None:
        count = query.shape[0] * pairs(queries, key.shape[-3], corner)
    else:
        ends = offsets[0], offsets[0] if offsets[1] is None else offsets[1]
        lengths = [_lengths(end, most) for end, most in zip(ends, longest, strict=True)]
        count = sum(pairs(q, k, corner) for q, k in zip(*lengths, strict=True))
    return _attend(query, heads * count, width, value.shape[-1], back)


def _flash(convention: Convention, *, backward: bool = False) -> Formula:
    """Return the formula of _flash_attention_forward or _backward."""

    def formula(_: Any, *args: Any, window_size_left: Any = None, window_size_right: Any = None, **__: Any) -> Any:
        query, key, value = args[backward : backward + 3]
        offsets = args[6:8] if backward else args[3:5]
        longest, (_dropout, is_causal) = (args[8:10], args[10:12]) if backward else (args[5:7], args[7:9])
        if convention == "causal" and not {window_size_left, window_size_right} <= {None, -1}:
            return None
        corner: Corner = "end" if is_causal and convention == "causal" else None
        return _ragged(query, key, value, offsets, longest, corner, backward)

    return formula


def _efficient(convention: Convention, *, backward: bool = False) -> Formula:
    """Return the formula of _efficient_attention_forward or _backward."""

    def formula(_: Any, *args: Any, window_size: Any = None, **__: Any) -> Any:
        query, key, value = args[backward : backward + 3]
        offsets, longest = (args[6:8], args[8:10]) if backward else (args[4:6], args[6:8])
        mask = args[14] if backward else args[9]
        if convention == "causal" and window_size not in (None, 0):
            return None
        corners: dict[int, Corner] = {1: "start", 2: "end"}
        corner = corners.get(mask) if convention == "causal" else None
        return _ragged(query, key, value, offsets, longest, corner, backward)

    return formula


def multi_head(_: Any, query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, *rest: Any) -> Flops:
    """Cost of _native_multi_head_attention: four projections with biases, and attention."""
    return _multi_head(query, key, width, heads, biased=True)


def _multi_head(query: Tensor, key: Tensor, width: int, heads: int, *, biased: bool) -> Flops:
    batch, queries, _ = query.shape
    keys = key.shape[1]
    tokens = batch * (2 * queries + 2 * keys)  # query and output projections, key and value projections
    terms = tokens * width * width + 2 * batch * queries * keys * width
    return of_products(terms, query, bias=tokens * width if biased else 0, elementwise=None)


def encoder_layer(_: Any, x: Tensor, width: int, heads: int, *rest: Any, **__: Any) -> Flops:
    """Cost of _transformer_encoder_layer_fwd: multi-head attention, then two linear layers."""
    attention = _multi_head(x, x, width, heads, biased=True)
    up, up_bias, down, down_bias = rest[11:15]
    points = x.numel() // width
    terms, biased = points * (up.numel() + down.numel()), points * (up_bias.numel() + down_bias.numel())
    network = of_products(terms, x, bias=biased)
    return Flops(attention.matmul + network.matmul, attention.bias + network.bias, None)


def _recurrent(weights: Sequence[Tensor], x: Tensor) -> Flops:
    """Return the cost of a recurrent layer: each weight matrix is multiplied with every token once."""
    tokens = x.numel() // x.shape[-1]
    matrices = sum(weight.numel() for weight in weights if weight.ndim == 2)
    biases = sum(weight.numel() for weight in weights if weight.ndim == 1)
    return of_products(tokens * matrices, x, bias=tokens * biases, elementwise=None)


def recurrent(_: Any, x: Tensor, weights: Sequence[Tensor], *rest: Any) -> Flops:
    """Cost of _cudnn_rnn and miopen_rnn: all layers and directions."""
    return _recurrent(weights, x)


def recurrent_backward(_: Any, x: Tensor, weights: Sequence[Tensor], *rest: Any) -> Flops:
    """Cost of their gradients: the inputs' are always computed, the weights' where the mask, which is last, says so."""
    forward, learns = _recurrent(weights, x), rest[-1][3]
    tokens = x.numel() // x.shape[-1]
    return Flops(forward.matmul * (1 + learns), forward.bias // tokens * (tokens - 1) * learns if tokens else 0, None)


def recurrent_layer(
    _: Any, x: Tensor, w_input: Tensor, w_hidden: Tensor, b_input: Tensor, b_hidden: Tensor, *rest: Any
) -> Flops:
    """Cost of mkldnn_rnn_layer: one layer in one direction."""
    has_biases = rest[7]
    return _recurrent([w_input, w_hidden, *([b_input, b_hidden] if has_biases else [])], x)


def recurrent_layer_backward(_: Any, x: Tensor, w_input: Tensor, w_hidden: Tensor, *rest: Any) -> Flops:
    """Cost of its gradients, which are all computed; both biases have the same one."""
    has_biases = rest[-6]
    cost = _recurrent([w_input, w_hidden], x)
    tokens, gates = x.numel() // x.shape[-1], w_input.shape[0]
    return Flops(2 * cost.matmul, max(tokens - 1, 0) * gates if has_biases else 0, None)


def formulas(convention: Convention) -> dict[str, Formula]:
    """Return the formulas by the operators' names."""
    attention = "aten._scaled_dot_product_"
    named: dict[str, Formula] = {
        f"{attention}flash_attention": _attention(4, convention),
        f"{attention}flash_attention_for_cpu": _attention(4, convention),
        f"{attention}efficient_attention": _attention(6, convention),
        f"{attention}cudnn_attention": _attention(6, convention),
        f"{attention}fused_attention_overrideable": _attention(5, convention),
        f"{attention}flash_attention_backward": _attention(11, convention, backward=True),
        f"{attention}flash_attention_for_cpu_backward": _attention(7, convention, backward=True),
        f"{attention}efficient_attention_backward": _attention(11, convention, backward=True),
        f"{attention}cudnn_attention_backward": _attention(14, convention, backward=True),
        f"{attention}fused_attention_overrideable_backward": _attention(13, convention, backward=True),
        "aten._flash_attention_forward": _flash(convention),
        "aten._flash_attention_backward": _flash(convention, backward=True),
        "aten._efficient_attention_forward": _efficient(convention),
        "aten._efficient_attention_backward": _efficient(convention, backward=True),
        "aten._native_multi_head_attention": multi_head,
        "aten._transformer_encoder_layer_fwd": encoder_layer,
        "aten._cudnn_rnn": recurrent,
        "aten._cudnn_rnn_backward": recurrent_backward,
        "aten.miopen_rnn": recurrent,
        "aten.miopen_rnn_backward": recurrent_backward,
        "aten.mkldnn_rnn_layer": recurrent_layer,
        "aten.mkldnn_rnn_layer_backward": recurrent_layer_backward,
    }
    inplace = named["aten._flash_attention_forward"]
    named["aten._flash_attention_forward_no_dropout_inplace"] = lambda out, _, *args, **rest: inplace(
        out, *args, **rest
    )
    return named
