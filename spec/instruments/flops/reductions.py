"""Formulas of reductions, losses and normalisation, and of what is added at places: see elementwise for what counts."""

from typing import Any

from torch import Tensor

from spec.instruments.flops.lines import NOTHING, Flops, Formula, is_real_or_complex, rows, summed


def _real(tensor: Tensor) -> bool:
    return tensor.is_floating_point()


def sums(result: Tensor, x: Tensor, *_: Any, **__: Any) -> Flops:
    """Cost of sum, amax and amin: n − 1 for each result."""
    if result.is_complex():
        return Flops(elementwise=2 * summed(x, result))
    return Flops(elementwise=summed(x, result)) if _real(result) else NOTHING


def products(result: Tensor, x: Tensor, *_: Any, **__: Any) -> Flops | None:
    """Cost of prod: n − 1 for each result."""
    return None if result.is_complex() else sums(result, x)


def trace(result: Tensor, x: Tensor) -> Flops | None:
    """Cost of the sum of the diagonal."""
    return Flops(elementwise=max(min(x.shape) - 1, 0)) if _real(result) else None


def extremes(result: Any, x: Tensor, *args: Any, **named: Any) -> Flops:
    """Cost of max and min: of two tensors, of all of one, or along a dimension (with indices)."""
    if isinstance(result, Tensor) and args and isinstance(args[0], Tensor):
        return Flops(elementwise=result.numel()) if _real(result) else NOTHING
    return sums(result if isinstance(result, Tensor) else result[0], x)


def both_extremes(result: Any, x: Tensor, *_: Any, **__: Any) -> Flops:
    """Cost of aminmax."""
    return Flops(elementwise=2 * summed(x, result[0])) if _real(x) else NOTHING


def mean(result: Tensor, x: Tensor, *_: Any, **__: Any) -> Flops | None:
    """Cost of a mean: a sum and a division."""
    return Flops(elementwise=summed(x, result) + result.numel()) if _real(result) else None


def variance(root: bool) -> Formula:
    """Cost of Σ(x − mean)² / (n − c), and of its square root: n for the mean, n differences, n squares, their mean."""

    def formula(result: Any, x: Tensor, *_: Any, **__: Any) -> Flops | None:
        each = result[0] if isinstance(result, tuple | list) else result
        return Flops(elementwise=4 * x.numel() + root * each.numel()) if _real(x) else None

    return formula


def vector_norm(result: Tensor, x: Tensor, order: Any = 2, *_: Any, **__: Any) -> Flops | None:
    """Cost of √Σx²: n squares, n − 1 additions, a root. Other norms have no formula."""
    plain = order in (None, 2) and _real(x)
    return Flops(elementwise=x.numel() + summed(x, result) + result.numel()) if plain else None


def norms(result: list[Tensor], xs: list[Tensor], order: Any = 2, *_: Any, **__: Any) -> Flops | None:
    """Cost of vector_norm on each of a list."""
    plain = order == 2 and all(_real(x) for x in xs)
    return Flops(elementwise=sum(2 * x.numel() for x in xs)) if plain else None


def cumulative(result: Tensor, x: Tensor, dim: int, *_: Any, **__: Any) -> Flops | None:
    """Cost of cumsum and cumprod: n − 1 for a row of n."""
    count, length = rows(x, dim)
    return Flops(elementwise=count * (length - 1)) if _real(result) else None


def log_sum_exp(result: Tensor, x: Tensor, *_: Any, **__: Any) -> Flops | None:
    """Cost of m + log Σexp(x − m), m = max x."""
    additions = summed(x, result)
    return Flops(elementwise=2 * additions + 2 * x.numel() + 2 * result.numel()) if _real(result) else None


def softmax(result: Tensor, x: Tensor, dim: int, *_: Any, **__: Any) -> Flops:
    """Cost of e / Σe, e = exp(x − max x): 5n − 2 for a row of n."""
    count, length = rows(x, dim)
    return Flops(elementwise=count * (5 * length - 2))


def log_softmax(result: Tensor, x: Tensor, dim: int, *_: Any, **__: Any) -> Flops:
    """Cost of d − log Σexp(d), d = x − max x: 5n − 1 for a row of n."""
    count, length = rows(x, dim)
    return Flops(elementwise=count * (5 * length - 1))


def softmax_backward(_: Any, gradient: Tensor, y: Tensor, dim: int, *__: Any, **___: Any) -> Flops:
    """Cost of y · (g − Σ g·y), or of g − exp(y) · Σg: 4n − 1 for a row of n."""
    count, length = rows(y, dim)
    return Flops(elementwise=count * (4 * length - 1))


def layer_norm(_: Any, x: Tensor, shape: Any, weight: Any, bias: Any, *__: Any) -> Flops:
    """Cost of (x − mean) · (1 / √(variance + ε)) · weight + bias: 5n + 3 for a row of n, weight and bias n each."""
    count = _row_count(x, shape)
    scaled = sum(operand is not None for operand in (weight, bias))
    return Flops(elementwise=(5 + scaled) * x.numel() + 3 * count)


def _row_count(x: Tensor, shape: Any) -> int:
    return x.shape[: x.ndim - len(shape)].numel()


def layer_norm_backward(_: Any, gradient: Tensor, x: Tensor, shape: Any, *rest: Any) -> Flops:
    """Cost, with z = (x − mean) · rstd and h = g · weight, of rstd · (h − Σh/n − z · (Σ h·z)/n), Σ g·z and Σ g."""
    weight, mask, count = rest[2], rest[-1], _row_count(x, shape)
    length = x.numel() // count if count else 0
    inner = (7 + (weight is not None)) * x.numel() if mask[0] else 0
    again = 2 * x.numel() if mask[0] or mask[1] else 0
    over_rows = max(count - 1, 0) * length
    return Flops(elementwise=inner + again + mask[1] * (x.numel() + over_rows) + mask[2] * over_rows)


def rms_norm(_: Any, x: Tensor, shape: Any, weight: Any, *__: Any) -> Flops:
    """Cost of x · (1 / √(Σx²/n + ε)) · weight: 3n + 3 for a row of n, and n for the weight."""
    return Flops(elementwise=(3 + (weight is not None)) * x.numel() + 3 * _row_count(x, shape))


def _reduced(count: int, reduction: int) -> int:
    """Return the cost of reducing losses: 0 keeps them, 1 takes the mean, 2 the sum."""
    return (0, count, max(count - 1, 0))[reduction]


def square_loss(_: Any, x: Tensor, y: Tensor, reduction: int = 1, **__: Any) -> Flops:
    """Cost of (x − y)²."""
    return Flops(elementwise=2 * x.numel() + _reduced(x.numel(), reduction))


def square_loss_backward(result: Tensor, *_: Any, **__: Any) -> Flops:
    """Cost of (x − y) · (2/n) · g."""
    return Flops(elementwise=3 * result.numel())


def likelihood_loss(_: Any, x: Tensor, target: Tensor, weight: Any, reduction: int, *__: Any, **___: Any) -> Flops:
    """Cost of picking −x[target] and reducing; class weights are multiplied, and summed for the mean."""
    count = target.numel()
    weighted = count + _reduced(count, 2) * (reduction == 1) if weight is not None else 0
    return Flops(elementwise=weighted + _reduced(count, reduction))


def likelihood_loss_backward(
    _: Any, gradient: Tensor, x: Tensor, target: Tensor, weight: Any, reduction: int, *__: Any, **___: Any
) -> Flops:
    """Cost of −g · weight / n at every target."""
    return Flops(elementwise=target.numel() * ((weight is not None) + (reduction == 1)))


def dropout(_: Any, x: Tensor, probability: float, train: bool | None = True) -> Flops:
    """Cost of x · mask · scale, in training."""
    return NOTHING if train is False else Flops(elementwise=2 * x.numel())


def embedding_backward(
    _: Any, gradient: Tensor, indices: Tensor, count: int, padding: int, by_frequency: bool
) -> Flops | None:
    """Cost of adding every gradient to its row; unless rows are left out or scaled, which their numbers decide."""
    return None if padding >= 0 or by_frequency else Flops(elementwise=gradient.numel())


def adding_at(result: Tensor, x: Tensor, dim: int, index: Tensor, source: Any, *, alpha: Any = 1, **_: Any) -> Any:
    """Cost of index_add and scatter_add: one for each number added."""
    if not _real(result) or not isinstance(source, Tensor):
        return NOTHING if not is_real_or_complex(result) else None
    added = index.numel() if index.ndim == source.ndim else source.numel()  # an index for each, or for each row
    return Flops(elementwise=added * (2 if alpha != 1 else 1))


def putting(result: Tensor, x: Tensor, index: Any, values: Tensor, accumulate: bool = False, *_: Any) -> Flops | None:
    """Cost of index_put: nothing, or one for each number added. How many a mask of bools selects is not known."""
    if not accumulate or not is_real_or_complex(result):
        return NOTHING
    places = [place for place in index if place is not None]
    if result.is_complex() or any(not place.dtype.is_signed for place in places):
        return None
    widest = [max(sizes) for sizes in zip(*(_padded(place, places) for place in places), strict=True)]
    count = 1
    for size in (*widest, *(n for n, place in zip(x.shape, [*index, *[None] * x.ndim], strict=False) if place is None)):
        count *= size
    return Flops(elementwise=count)


def _padded(place: Tensor, places: list[Tensor]) -> list[int]:
    return [1] * (max(p.ndim for p in places) - place.ndim) + list(place.shape)


def distances(result: Tensor, left: Tensor, right: Tensor, order: float, *_: Any) -> Flops | None:
    """Cost of cdist, pair by pair: √Σ(x − y)² is 3n for points of n numbers, Σ|x − y| is 2n − 1, others have none.

    (torch may compute the former of more than 25 points by a product; for so few numbers to be had it is all one.)
    """
    length = left.shape[-1]
    if order == 2:
        return Flops(elementwise=3 * length * result.numel())
    return Flops(elementwise=max(2 * length - 1, 0) * result.numel()) if order == 1 else None


def euclidean(result: Tensor, left: Tensor, right: Tensor) -> Flops:
    """Cost of √(Σx² + Σy² − 2·x·y), as a product of (−2x, Σx², 1) with (y, 1, Σy²)."""
    length = left.shape[-1]
    squares = (left.numel() + right.numel()) * 2 - (left.numel() + right.numel()) // length if length else 0
    return Flops(2 * result.numel() * (length + 2), 0, squares + left.numel() + 2 * result.numel())


_BY_NAME: dict[Formula, str] = {
    sums: "sum nansum amax amin",
    trace: "trace",
    products: "prod",
    extremes: "max min",
    both_extremes: "aminmax",
    mean: "mean",
    variance(False): "var var_mean",
    variance(True): "std std_mean",
    vector_norm: "linalg_vector_norm norm",
    norms: "_foreach_norm",
    cumulative: "cumsum cumprod",
    log_sum_exp: "logsumexp",
    softmax: "_softmax _safe_softmax",
    log_softmax: "_log_softmax",
    softmax_backward: "_softmax_backward_data _log_softmax_backward_data",
    layer_norm: "native_layer_norm",
    layer_norm_backward: "native_layer_norm_backward",
    rms_norm: "_fused_rms_norm",
    square_loss: "mse_loss",
    square_loss_backward: "mse_loss_backward",
    likelihood_loss: "nll_loss_forward nll_loss2d_forward",
    likelihood_loss_backward: "nll_loss_backward nll_loss2d_backward",
    dropout: "native_dropout",
    embedding_backward: "embedding_dense_backward",
    adding_at: "index_add scatter_add",
    putting: "index_put _index_put_impl _unsafe_index_put",
    distances: "_cdist_forward",
    euclidean: "_euclidean_dist",
}

FORMULAS: dict[str, Formula] = {
    f"aten.{name}": formula for formula, names in _BY_NAME.items() for name in names.split()
}
