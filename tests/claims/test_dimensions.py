"""§2.2.3: dimensions that have names, in types (jaxtyping) and in operations (einops)."""

import inspect
import itertools
import math
import typing
from functools import partial

import einops
import jaxtyping
import pytest
import torch
from hypothesis import example, given
from jaxtyping import Float
from torch import Tensor

from spec import bounds
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import dimensions
from spec.instruments import storage
from spec.instruments.scalars import count_operations

PRODUCT = "batch seq1 hidden, batch seq2 hidden -> batch seq1 seq2"
PRODUCTS = "... seq1 hidden, ... seq2 hidden -> ... seq1 seq2"
SPLIT = "... (heads hidden) -> ... heads hidden"
MERGE = "... heads hidden -> ... (heads hidden)"
REDUCTIONS = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}
LAYOUTS = {
    "contiguous": lambda device, *shape: whole(*shape).to(device),
    "every other value": lambda device, *shape: whole(*shape[:-1], 2 * shape[-1]).to(device)[..., 1::2],
    "last dimension outermost": lambda device, *shape: whole(shape[-1], *shape[:-1]).to(device).movedim(0, -1),
    "one value repeated": lambda device, *shape: whole(*shape[:-1], 1).to(device).expand(shape),
}
# Leading dimensions, rows, heads and hidden. Some have no elements, one has a single value, others many or large
# dimensions.
SIZES = [((), 0, 2, 3), ((0,), 2, 3, 1), ((2, 0), 3, 1, 2), ((), 1, 1, 1), ((3,), 7, 6, 11)]
SIZES += [((2, 1, 3, 1, 2), 5, 2, 3), ((17,), 2, 12, 5)]
# Sizes that do not fit may raise ValueError (the contract), RuntimeError (torch, einops), TypeError (a type checker) or
# ZeroDivisionError (a remainder in Python).
REFUSALS = (ValueError, RuntimeError, TypeError, ZeroDivisionError)

Points = Float[Tensor, "batch inputs"]
Weights = Float[Tensor, "inputs outputs"]


def whole(*shape, seed=0, limit=128):
    """Return random whole numbers in float32, at most ±`limit`: few enough bits that their products sum up exactly."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-limit, limit + 1, shape, generator=generator).float()


def products(impl, x, y):
    """Return the product of x and the transpose of y in the three ways that the claim calls equal."""
    return x @ y.transpose(-2, -1), einops.einsum(x, y, PRODUCT), impl.dimensions.attention_scores(x, y)


def dot_products(q, k):
    """Return the dot product of each row of q with each row of k."""
    return (q[..., :, None, :] * k[..., None, :, :]).sum(dim=-1)


def compare_gradients(evidence, function, reference, arguments):
    """Check that two functions have the same gradients of a weighted sum of their results; none counts as zeros."""
    found = []
    for each in (function, reference):
        leaves = [x.clone().requires_grad_() for x in arguments]
        result = each(*leaves)
        weighted = (result * whole(*result.shape, seed=2)).sum()
        if weighted.requires_grad:
            found.append(torch.autograd.grad(weighted, leaves, allow_unused=True, materialize_grads=True))
        else:
            found.append([torch.zeros_like(x) for x in arguments])
    for measured, predicted in zip(*found, strict=True):
        evidence.equal(measured, predicted, what="the gradient", shape=tuple(predicted.shape))


def by_index(function, leading, *tensors):
    """Apply a function at every leading index, and stack what it returns."""
    results = [function(*(x[i] for x in tensors)) for i in itertools.product(*map(range, leading))]
    return torch.stack(results).reshape([*leading, *results[0].shape])


def outcome(call):
    """Return "accepted" for a call that returns, or else the error that it raises."""
    try:
        call()
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return "accepted"


def arguments(batch, inputs, outputs, misfit=None):
    """Return points and weights; the points have a wrong size, rank or dtype where `misfit` says so."""
    shape = [batch, inputs + 1] if misfit == "size" else [inputs] if misfit == "rank" else [batch, inputs]
    points = torch.ones(shape, dtype=torch.int64 if misfit == "dtype" else torch.float32)
    return points, torch.ones(inputs, outputs)


def forward(x: Points, w: Weights) -> Float[Tensor, "batch outputs"]:
    """Return a tensor of the annotated shape, even where the arguments do not fit their annotations."""
    y: Float[Tensor, "batch outputs"] = torch.ones(len(x), w.shape[-1])
    return y


def checked(function):
    """Return the function with a runtime checker that enforces its annotations."""
    beartype = pytest.importorskip("beartype", reason="no runtime checker: beartype is not installed").beartype
    if not __debug__:
        pytest.skip("no runtime checker: python -O switches beartype off")
    if jaxtyping.config.jaxtyping_disable:
        pytest.skip("no runtime checker: JAXTYPING_DISABLE is set")

    def call(*args, **kwargs):
        return function(*args, **kwargs)

    call.__signature__ = inspect.signature(function, eval_str=True)
    return jaxtyping.jaxtyped(call, typechecker=beartype)


def kind(hint):
    """Return "jaxtyping" for a type that names dimensions, alone or within a union or an alias, or else the type."""
    parts = typing.get_args(getattr(hint, "__value__", hint))
    names = isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)
    return "jaxtyping" if names or "jaxtyping" in map(kind, parts) else getattr(hint, "__name__", str(hint))


@refutes(dimensions.ANNOTATIONS)
@pytest.mark.parametrize("misfit", ["rank", "size", "dtype"])
def test_an_annotation_alone_enforces_nothing(evidence, misfit):
    """Without a checker an annotated function accepts a wrong rank, a wrong size and a wrong dtype."""
    evidence.equal(outcome(partial(forward, *arguments(2, 3, 4, misfit))), "accepted", what="the call")


@verifies(dimensions.ANNOTATIONS)
@pytest.mark.parametrize("misfit", ["rank", "size", "dtype"])
def test_a_check_against_a_named_type_tells_what_fits(evidence, misfit):
    """isinstance() rejects tensors whose rank, sizes or dtype disagree with their named types, and accepts others."""
    for sizes in itertools.product((1, 2, 3), repeat=3):
        for tensors, fits in (arguments(*sizes), True), (arguments(*sizes, misfit), False):
            with jaxtyping.jaxtyped("context"):
                checks = [isinstance(tensor, names) for tensor, names in zip(tensors, (Points, Weights), strict=True)]
            fact = f"isinstance() {'accepts' if fits else 'rejects'} the tensors"
            evidence.true(all(checks) == fits, fact, sizes=sizes, misfit=misfit)


@verifies(dimensions.ANNOTATIONS)
@pytest.mark.parametrize("misfit", ["rank", "size", "dtype"])
def test_a_checker_refuses_what_does_not_fit(evidence, misfit):
    """Under a runtime checker a wrong rank, size or dtype raises, and what fits is accepted."""
    enforced = checked(forward)
    evidence.equal(outcome(partial(enforced, *arguments(2, 3, 4))), "accepted", what="the call")
    evidence.raises(jaxtyping.TypeCheckError, partial(enforced, *arguments(2, 3, 4, misfit)))


@verifies(dimensions.ANNOTATIONS)
@pytest.mark.parametrize(
    ("function", "tensors"),
    [("attention_scores", ["q", "k"]), ("sum_hidden", ["x"]), ("split_heads", ["x"]), ("merge_heads", ["x"])],
)
def test_the_implementation_is_annotated(impl, evidence, function, tensors):
    """Every tensor that a public function takes or returns has a jaxtyping type."""
    signature = inspect.signature(getattr(impl.dimensions, function), eval_str=True)
    hints = {name: getattr(signature.parameters.get(name), "annotation", None) for name in tensors}
    for name, hint in (hints | {"return": signature.return_annotation}).items():
        evidence.equal(kind(hint), "jaxtyping", what="the annotation", function=function, of=name)


@verifies(dimensions.ANNOTATIONS)
@pytest.mark.parametrize(
    ("function", "fitting", "misfit"),
    [
        ("attention_scores", [(2, 3, 4), (2, 5, 4)], [(2, 3, 1), (2, 5, 4)]),
        ("attention_scores", [(3, 4), (5, 4)], [(4,), (5, 4)]),
        ("sum_hidden", [(2, 3, 4)], [()]),
        ("split_heads", [(2, 3, 8), 2], [(), 1]),
        ("merge_heads", [(2, 3, 2, 4)], [(8,)]),
    ],
)
def test_the_implementation_passes_under_a_checker(impl, evidence, function, fitting, misfit):
    """Under a runtime checker the public functions accept tensors that fit their names, and no others."""
    enforced = checked(getattr(impl.dimensions, function))
    fitting, misfit = ([torch.ones(s) if isinstance(s, tuple) else s for s in shapes] for shapes in (fitting, misfit))
    evidence.equal(outcome(partial(enforced, *fitting)), "accepted", what="the call")
    evidence.raises(Exception, partial(enforced, *misfit))


@verifies(dimensions.EINSUM)
@example(batch=3, seq1=3, hidden=3, seed=0)
@given(batch=st.small, seq1=st.small, hidden=st.widths, seed=st.seeds)
@example(batch=2, seq1=3, hidden=2, seed=0)  # Both operands have one shape.
def test_einsum_is_the_product_with_the_transpose(impl, evidence, device, batch, seq1, hidden, seed):
    """einsum gives the dot product of every row of x with every row of y, as x @ yᵀ does."""
    # Products of these whole numbers sum up without rounding.
    x, y = whole(batch, seq1, hidden, seed=seed), whole(batch, 3, hidden, seed=seed + 1)
    exact = dot_products(x, y)
    for product in products(impl, x.to(device), y.to(device)):
        evidence.equal(product.cpu(), exact, what="the product of whole numbers")
    # Those of fractions are rounded.
    x, y = x / 3, y / 7
    exact, magnitude = dot_products(x.double(), y.double()), dot_products(x.abs(), y.abs())
    tolerance = bounds.rounding.dot_product(magnitude, hidden, torch.float32)
    for product in products(impl, x.to(device), y.to(device))[1:]:
        evidence.close(product, exact, tolerance=tolerance, what="the product")


@verifies(dimensions.EINSUM)
@pytest.mark.parametrize(("batch", "seq1", "seq2", "hidden"), [(2, 3, 5, 4), (1, 1, 1, 1), (3, 4, 1, 2), (4, 1, 3, 1)])
def test_einsum_multiplies_as_often_as_the_product(evidence, batch, seq1, seq2, hidden):
    """einsum takes batch·seq1·seq2·hidden multiplications, as many as the product with the transpose."""
    x, y = torch.ones(batch, seq1, hidden), torch.ones(batch, seq2, hidden)
    named = count_operations(lambda x, y: einops.einsum(x, y, PRODUCT), x, y)
    explicit = count_operations(lambda x, y: x @ y.swapaxes(-2, -1), x, y)
    evidence.equal(named.multiplications, batch * seq1 * seq2 * hidden, unit="multiplications")
    evidence.equal(explicit.multiplications, named.multiplications, what="the product", unit="multiplications")


@verifies(dimensions.ELLIPSIS)
@pytest.mark.parametrize("rank", range(4))
def test_an_ellipsis_stands_for_any_leading_dimensions(evidence, device, rank):
    """einsum over `...` gives the product at every leading index, and broadcasts sizes of 1 and missing dimensions."""
    leading = (4, 2, 3)[:rank]
    for right in (leading[missing:] for missing in range(rank + 1)):
        for stretched in itertools.product(*((1, size) for size in right)):
            left = *leading[: rank - len(right)], *stretched
            x, y = whole(*left, 2, 3), whole(*right, 4, 3, seed=1)
            exact = by_index(dot_products, leading, x.expand(*leading, 2, 3), y.expand(*leading, 4, 3))
            product = einops.einsum(x.to(device), y.to(device), PRODUCTS).cpu()
            evidence.equal(product, exact, what="the product", left=left, right=right)


@verifies(dimensions.ELLIPSIS)
def test_the_implementation_takes_any_leading_dimensions(impl, evidence):
    """With any number of leading dimensions, each function gives at every leading index what it gives without them."""
    for leading in (sizes for rank in range(4) for sizes in itertools.product((1, 2, 3), repeat=rank)):
        x, y, z = whole(*leading, 2, 3), whole(*leading, 4, 3, seed=1), whole(*leading, 6)
        scores, merged = by_index(dot_products, leading, x, y), by_index(torch.ravel, leading, x)
        split = by_index(lambda row: torch.stack(row.chunk(2)), leading, z)
        evidence.equal(impl.dimensions.attention_scores(x, y), scores, what="the scores", leading=leading)
        evidence.equal(impl.dimensions.merge_heads(x), merged, what="the merged heads", leading=leading)
        evidence.equal(impl.dimensions.split_heads(z, 2), split, what="the split heads", leading=leading)
        evidence.equal(impl.dimensions.sum_hidden(z), by_index(torch.sum, leading, z), what="the sum", leading=leading)


@verifies(dimensions.ELLIPSIS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_implementation_takes_any_size_and_float_dtype(impl, evidence, dtype):
    """For empty and large sizes, many leading dimensions and each float dtype, each function gives what torch gives."""
    for leading, rows, heads, hidden in SIZES:
        x, y = whole(*leading, rows, heads * hidden, limit=1), whole(*leading, 9, heads * hidden, seed=1, limit=1)
        before = x.clone(), y.clone()
        split = x.unflatten(-1, (heads, hidden)).to(dtype)
        inputs = {"shape": tuple(x.shape), "heads": heads}
        for what, measured, exact in (
            ("the scores", impl.dimensions.attention_scores(x.to(dtype), y.to(dtype)), dot_products(x, y)),
            ("the sum", impl.dimensions.sum_hidden(x.to(dtype)), x.sum(dim=-1)),
        ):
            evidence.equal(measured, exact.to(dtype), what=what, **inputs)
        if x.numel():  # An implementation may use reshape(-1), which torch refuses for a tensor without elements.
            evidence.equal(impl.dimensions.split_heads(x.to(dtype), heads), split, what="the split heads", **inputs)
            evidence.equal(impl.dimensions.merge_heads(split), x.to(dtype), what="the merged heads", **inputs)
        impl.dimensions.attention_scores(x, y)
        impl.dimensions.sum_hidden(x)
        evidence.equal(x, before[0], what="the first argument after the call", **inputs)
        evidence.equal(y, before[1], what="the second argument after the call", **inputs)


@verifies(dimensions.EINSUM)
def test_scores_carry_gradients_to_queries_and_keys(impl, evidence):
    """The scores have the gradients of the dot products, with respect to queries and keys."""
    arguments = whole(2, 3, 4), whole(2, 5, 4, seed=1)
    compare_gradients(evidence, impl.dimensions.attention_scores, dot_products, arguments)


@verifies(dimensions.EINSUM)
def test_a_tensor_may_be_queries_and_keys(impl, evidence):
    """The scores of a tensor with itself are the dot products of its rows, and so are their gradients."""
    for shape in ((3, 3), (3, 3, 3), (2, 3, 4)):
        x = whole(*shape)
        evidence.equal(impl.dimensions.attention_scores(x, x), dot_products(x, x), what="the scores", shape=shape)
        scores = lambda x: impl.dimensions.attention_scores(x, x)  # noqa: E731
        compare_gradients(evidence, scores, lambda x: dot_products(x, x), [x])


@verifies(dimensions.REDUCE)
def test_a_sum_carries_gradients(impl, evidence):
    """The sum has the gradient of torch's sum."""
    compare_gradients(evidence, impl.dimensions.sum_hidden, lambda x: x.sum(dim=-1), [whole(2, 3, 4)])


@verifies(dimensions.REARRANGE)
def test_splitting_and_merging_carry_gradients(impl, evidence):
    """Splitting and merging heads have the gradients of torch's unflatten and flatten."""
    split = lambda x: x.unflatten(-1, (2, 4))  # noqa: E731
    compare_gradients(evidence, lambda x: impl.dimensions.split_heads(x, 2), split, [whole(2, 3, 8)])
    compare_gradients(evidence, impl.dimensions.merge_heads, lambda x: x.flatten(-2), [whole(2, 3, 2, 4)])


@verifies(dimensions.REDUCE)
def test_a_sum_keeps_nan_and_infinity(impl, evidence):
    """The sum of values with a NaN or an infinity among them is the NaN or infinity that torch gives."""
    for values in ([1.0, math.nan, 2.0], [math.inf, 1.0, 2.0], [math.inf, -math.inf, 1.0]):
        x = torch.tensor([values, [1.0, 2.0, 3.0]])
        evidence.equal(impl.dimensions.sum_hidden(x), x.sum(dim=-1), what="the sum", values=values)


@verifies(dimensions.REDUCE)
@example(shape=(3, 3, 3, 3), names=tuple("cadb"), rank=2, operation="sum", seed=0)
@given(shape=st.four_sizes, names=st.name_orders, rank=st.up_to_three, operation=st.reductions, seed=st.seeds)
def test_reduce_agrees_with_torch(impl, evidence, device, shape, names, rank, operation, seed):
    """Reducing to some of the names is torch's reduction over the other dimensions, in the order of the names."""
    x = whole(*shape, seed=seed, limit=2**16)
    reduced = einops.reduce(x.to(device), f"a b c d -> {' '.join(names[:rank])}", operation).cpu()
    indices = ["abcd".index(name) for name in names]
    remaining, removed = indices[:rank], indices[rank:]
    order = [sorted(remaining).index(index) for index in remaining]
    expected = REDUCTIONS[operation](x.double(), dim=removed).permute(order)
    if operation == "mean":
        values = math.prod(shape[index] for index in removed)
        magnitude = x.double().abs().mean(dim=removed).permute(order)
        tolerance = bounds.rounding.mean(magnitude, values, torch.float32)
        evidence.close(reduced, expected, tolerance=tolerance, what="the mean by einops")
    else:
        evidence.equal(reduced, expected.float(), what=f"the {operation} by einops")
    evidence.equal(impl.dimensions.sum_hidden(x.to(device)).cpu(), x.sum(dim=-1), what="the sum")


@verifies(dimensions.REDUCE)
def test_ones_sum_to_the_size_of_the_dimension(impl, evidence):
    """Ones of shape (2, 3, 4), summed over the last dimension, are a (2, 3) tensor of fours."""
    for summed in (
        einops.reduce(torch.ones(2, 3, 4), "a b c -> a b", "sum"),
        impl.dimensions.sum_hidden(torch.ones(2, 3, 4)),
    ):
        evidence.equal(summed, torch.full((2, 3), 4.0), what="the sum of ones", shape=(2, 3, 4))


@verifies(dimensions.REARRANGE)
@example(layout="contiguous", leading=(3,), heads=3, hidden=3)
@example(layout="last dimension outermost", leading=(2, 2), heads=2, hidden=2)
@given(layout=st.head_layouts, leading=st.leading, heads=st.small, hidden=st.small)
def test_a_split_is_a_view_that_a_merge_undoes(impl, evidence, device, layout, leading, heads, hidden):
    """In any memory layout, head h is a view of the h-th run of the last dimension, and a merge undoes the split."""
    x = LAYOUTS[layout](device, *leading, heads * hidden)
    runs = torch.stack(x.chunk(heads, dim=-1), dim=-2)
    for split in einops.rearrange(x, SPLIT, heads=heads), impl.dimensions.split_heads(x, heads):
        evidence.equal(split, runs, what="the split heads")
        evidence.true(storage.same(split, x), "the split heads share the tensor's storage")
        evidence.equal(impl.dimensions.merge_heads(split), x, what="the merged heads")
        evidence.equal(einops.rearrange(split, MERGE), x, what="the heads merged by einops")


@verifies(dimensions.REARRANGE)
def test_a_merge_after_a_permutation_copies(impl, evidence, device):
    """Where heads were transposed, no view puts them end to end, so that merging them copies."""
    for leading, heads, hidden in itertools.product([(), (1,), (2, 3)], (2, 3, 4), (2, 3, 4)):
        first = whole(*leading, hidden, heads).to(device).transpose(-2, -1)
        evidence.raises(RuntimeError, partial(first.view, *leading, heads * hidden))
        # The second tensor has the same sizes and strides but other values, which a cached result would miss.
        for x in (first, (-first.mT).mT):
            for merged in einops.rearrange(x, MERGE), impl.dimensions.merge_heads(x):
                sizes = {"leading": leading, "heads": heads, "hidden": hidden}
                evidence.equal(merged, torch.cat(x.unbind(dim=-2), dim=-1), what="the merged heads", **sizes)
                evidence.true(not storage.same(merged, x), "the merged heads have a storage of their own", **sizes)


@verifies(dimensions.REARRANGE)
def test_heads_that_do_not_divide_the_size_raise(impl, evidence):
    """A number of heads that does not divide the size, or is not positive, is refused."""
    for size, heads in itertools.product(range(1, 9), (2, 3, 5, 9)):
        if size % heads:
            evidence.raises(einops.EinopsError, partial(einops.rearrange, torch.ones(size), SPLIT, heads=heads))
    for size, heads in itertools.product(range(1, 9), (-2, -1, 0, 2, 3, 5, 9)):
        if heads < 1 or size % heads:
            x = torch.ones(2, size)
            evidence.raises(REFUSALS, partial(impl.dimensions.split_heads, x, heads), size=size, heads=heads)
