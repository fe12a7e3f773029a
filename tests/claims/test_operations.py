"""§2.2.2b and §2.2.2c: operations that compute new tensors."""

import contextlib
import operator
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given, reject

from spec import bounds
from spec import strategies as st
from spec.claim import verifies
from spec.claims import operations
from spec.strategies import Operands

# What torch does, and what it means; the second operand is for the binary ones.
ELEMENTWISE = {
    "pow": (lambda x, y: x.pow(2), lambda x, y: x * x),
    "sqrt": (lambda x, y: x.sqrt(), lambda x, y: np.sqrt(x)),
    "rsqrt": (lambda x, y: x.rsqrt(), lambda x, y: 1 / np.sqrt(x)),
    "+": (operator.add, operator.add),
    "×": (operator.mul, operator.mul),
    "÷": (operator.truediv, operator.truediv),
}
FRACTIONAL = {"sqrt", "rsqrt", "÷"}  # what integers are converted to floats for
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# Leading dimensions and rows, inner size and columns, larger than those that are drawn.
LARGE = (
    ((), (), (40, 2, 33)),
    ((), (2,), (2, 70, 3)),
    ((1, 2, 1, 3), (2, 1, 1, 1), (2, 9, 6)),
    ((2, 1, 1, 2), (2, 1), (2, 0, 3)),
)
MASKS = (2, 8, 17, 64, 65, 300)  # from 128 and 256 on, 8 bits do not count the positions


def on(device, tensor):
    """Move a tensor to a device; an example whose dtype the device lacks is void."""
    try:
        return tensor.to(device)
    except (TypeError, RuntimeError):
        reject()


def filled(shape, values, dtype, device):
    """Return a tensor that holds the values over and over."""
    count = torch.Size(shape).numel()
    repeated = torch.tensor(values, dtype=dtype).repeat(count // len(values) + 1)
    return on(device, repeated[:count].reshape(shape))


def exactly(tensor):
    """Return the values as NumPy float64, which holds each of them exactly."""
    return tensor.detach().cpu().double().numpy()


def storage(tensor):
    """Return where a tensor's storage begins."""
    return tensor.untyped_storage().data_ptr()


def looped(x, w):
    """Multiply NumPy matrices, one pair for every index of the broadcast leading dimensions."""
    leading = np.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    x, w = np.broadcast_to(x, leading + x.shape[-2:]), np.broadcast_to(w, leading + w.shape[-2:])
    y = np.zeros((*leading, x.shape[-2], w.shape[-1]))
    for place in np.ndindex(leading):
        y[place] = x[place] @ w[place]
    return y


def small_integers(shape, dtype, device):
    """Return −3 to 3 in turn, whose products and sums every dtype holds exactly, whatever the order."""
    count = torch.Size(shape).numel()
    return on(device, ((torch.arange(count) * 3) % 7 - 3).to(dtype).reshape(shape))


def signs(shape, dtype, device):
    """Return −1, 0 and 1 (0 and 1 where there is no sign), whose sums of up to 127 every dtype holds exactly."""
    values = small_integers(shape, torch.int64, device).sign()
    return (values if dtype.is_signed else values.abs()).to(dtype)


def stacks(leading, sizes, fill):
    """Return two stacks of matrices that can be multiplied, the second one a transposed view."""
    rows, inner, columns = sizes
    return fill((*leading.left, rows, inner)), fill((*leading.right, columns, inner)).mT


@verifies(operations.ELEMENTWISE_NEW)
@given(shape=st.operand_shapes, dtype=st.arithmetic_dtypes, values=st.moderate_floats)
def test_each_operation_gives_a_new_tensor_of_the_exact_values(evidence, device, shape, dtype, values):
    """Each operation gives a new tensor of the same shape: the exact values, rounded to the dtype it promotes to."""
    if not dtype.is_floating_point:
        values = [int(abs(value)) % 12 for value in values]  # whose squares fit 8 bits, one of them for a sign
    x, y = filled(shape, values, dtype, device), filled(shape, values[::-1], dtype, device)
    before = x.clone()
    for name, (compute, mean) in ELEMENTWISE.items():
        result = compute(x, y)
        with np.errstate(all="ignore"):
            exact = torch.as_tensor(np.asarray(mean(exactly(x), exactly(y))))
        promoted = torch.get_default_dtype() if name in FRACTIONAL and not dtype.is_floating_point else dtype
        kept = "the input's" if x.numel() and storage(result) in (storage(x), storage(y)) else "its own"
        tolerance = bounds.rounding.elementwise(name, exact, promoted, device)
        evidence.close(result, exact, tolerance=tolerance, operation=name)
        evidence.equal(result.dtype, promoted, unit="dtype", operation=name)
        evidence.equal(kept, "its own", unit="storage", operation=name)
    evidence.equal(x, before, unit="as the input afterwards")


@verifies(operations.ELEMENTWISE_NEW)
def test_one_four_nine(evidence, device):
    """The notes' integers 1, 4 and 9 give the values and dtypes that the notes write down."""
    x = torch.tensor([1, 4, 9], device=device)
    whole, default = torch.int64, torch.get_default_dtype()
    for name, result, values, dtype in (
        ("pow", x.pow(2), [1, 16, 81], whole),
        ("sqrt", x.sqrt(), [1, 2, 3], default),
        ("rsqrt", x.rsqrt(), [1, 1 / 2, 1 / 3], default),
        ("+", x + x, [2, 8, 18], whole),
        ("×", x * 2, [2, 8, 18], whole),
        ("÷", x / 0.5, [2, 8, 18], default),
    ):
        exact = torch.tensor(values, dtype=torch.float64)
        evidence.equal(result.dtype, dtype, unit="dtype", operation=name)
        evidence.close(result, exact, tolerance=bounds.rounding.elementwise(name, exact, dtype, device), operation=name)


@verifies(operations.TRIU)
@given(leading=st.leading_sizes, sizes=st.matrix_sizes, diagonal=st.diagonals, dtype=st.triangle_dtypes)
@example(leading=(2,), sizes=(3, 4, 1), diagonal=0, dtype=torch.float32)  # there is something below the diagonal
def test_triu_keeps_what_lies_on_or_above_the_diagonal(evidence, device, leading, sizes, diagonal, dtype):
    """Element (i, j) is kept where j ≥ i + diagonal; elsewhere it is 0, even where it was infinite."""
    shape = (*leading, *sizes[:2])
    x = (torch.arange(torch.Size(shape).numel(), device=device) % 100 + 1).to(dtype).reshape(shape)
    rows, columns = np.indices(shape[-2:])
    dropped = torch.as_tensor(columns < rows + diagonal, device=device)
    evidence.equal(x.triu(diagonal), x.masked_fill(dropped, 0), unit="as the triangle")
    if dtype.is_floating_point:
        x = x.masked_fill(dropped, float("inf"))
        evidence.equal(x.triu(diagonal), x.masked_fill(dropped, 0), unit="as the triangle under infinities")


@verifies(operations.TRIU)
@example(length=0)
@example(length=1)
@given(length=st.sizes_with_zero)
def test_a_causal_mask_forbids_the_strictly_upper_part(impl, evidence, device, length):
    """Row i may look at column j exactly where j ≤ i: what it forbids is triu with diagonal 1 of all ones."""
    mask = impl.operations.causal_mask(np.int32(length), device)
    allowed = torch.tensor([[j <= i for j in range(length)] for i in range(length)], dtype=torch.bool, device=device)
    evidence.equal(mask, allowed.reshape(length, length), unit="as the mask")
    evidence.equal(~mask, torch.ones_like(mask).triu(1), unit="as what it forbids")
    evidence.equal(mask.device.type, device.type, unit="device")


@verifies(operations.TRIU)
def test_each_call_makes_a_mask_of_its_own(impl, evidence, device):
    """Long masks are right too, as often as they are asked for, and whatever became of the earlier ones."""
    for length in MASKS:
        allowed = torch.as_tensor(np.tri(length, dtype=bool), device=device)
        for attempt in ("first", "second"):
            mask = impl.operations.causal_mask(length, device)
            evidence.equal(mask, allowed, unit=f"as the {attempt} mask", length=length)
            with contextlib.suppress(RuntimeError):  # not every mask can be written to
                mask.logical_not_()
        elsewhere = impl.operations.causal_mask(length, "meta")
        evidence.equal(elsewhere.device.type, "meta", unit="device of a third mask", length=length)


@verifies(operations.TRIU)
def test_a_mask_needs_a_length(impl, evidence):
    """A negative length raises ValueError, what is not a number TypeError, and a fraction either."""
    either = (TypeError, ValueError)
    for length, error in ((-1, ValueError), (-2, ValueError), ("four", TypeError), (None, TypeError), (2.5, either)):
        evidence.raises(error, partial(impl.operations.causal_mask, length), length=length)


@verifies(operations.MATMUL_SHAPE)
@given(sizes=st.matrix_sizes)
@example(sizes=(16, 32, 2))
@example(sizes=(2, 0, 3))
def test_a_product_has_the_rows_of_the_first_and_the_columns_of_the_second(evidence, device, sizes):
    """(m, k) @ (k, n) is (m, n), all zeros where k is 0; inner sizes that differ raise, 1 among them."""
    rows, inner, columns = sizes
    x, w = torch.ones(rows, inner, device=device), torch.ones(inner, columns, device=device)
    evidence.equal(x @ w, torch.full((rows, columns), float(inner), device=device), unit="as the product")
    evidence.raises(RuntimeError, lambda: x @ torch.ones(inner + 1, columns, device=device))
    evidence.raises(RuntimeError, lambda: torch.ones(rows, inner + 1, device=device) @ w)


@verifies(operations.MATMUL_BATCHED)
@example(leading=Operands((3,), (3,), (3,)), sizes=(3, 3, 3), dtype=torch.float32)
@example(leading=Operands((3,), (), (3,)), sizes=(3, 3, 3), dtype=torch.float32)
@example(leading=Operands((2, 2), (2,), (2, 2)), sizes=(2, 2, 2), dtype=torch.float64)
@example(leading=Operands((0,), (1,), (0,)), sizes=(2, 3, 2), dtype=torch.float32)
@example(leading=Operands((1, 2), (0, 1), (0, 2)), sizes=(2, 3, 2), dtype=torch.float32)
@given(leading=st.broadcastable, sizes=st.matrix_sizes, dtype=st.signed_dtypes)
def test_a_product_is_a_loop_over_the_leading_dimensions(impl, evidence, device, leading, sizes, dtype):
    """@ and impl give, to the last bit, one matrix product for every index of the broadcast leading dimensions."""
    if device.type != "cpu" and not dtype.is_floating_point:
        dtype = torch.float32  # torch multiplies integer matrices on the CPU only
    x, w = stacks(leading, sizes, lambda shape: small_integers(shape, dtype, device))
    predicted = torch.as_tensor(looped(exactly(x), exactly(w))).to(dtype)
    before = x.clone(), w.clone()
    evidence.equal(x @ w, predicted, unit="as the product by @", x=x, w=w)
    evidence.equal(impl.operations.batched_matmul(x, w), predicted, unit="as the product", x=x, w=w)
    evidence.equal(x, before[0], unit="as the first operand afterwards")
    evidence.equal(w, before[1], unit="as the second operand afterwards")


@verifies(operations.MATMUL_BATCHED)
@given(sizes=st.matrix_sizes, dtype=st.float_dtypes, values=st.moderate_floats)
def test_rounding_is_all_that_differs(impl, evidence, device, sizes, dtype, values):
    """For any values, of tensors that require grad too, @ and impl are within the rounding of the exact products."""
    rows, inner, columns = sizes
    sixteenths = [value / 16 for value in values]  # so that no sum overflows float16
    x, w = filled((2, rows, inner), sixteenths, dtype, device), filled((inner, columns), sixteenths, dtype, device)
    exact, magnitude = (torch.as_tensor(looped(f(exactly(x)), f(exactly(w)))) for f in (np.positive, np.abs))
    tolerance = bounds.rounding.dot_product(magnitude, inner, dtype)
    product = impl.operations.batched_matmul(x.requires_grad_(), w)
    evidence.close(product.detach(), exact, tolerance=tolerance)
    evidence.close((x @ w).detach(), exact, tolerance=tolerance, unit="by @")


@verifies(operations.MATMUL_BATCHED)
def test_large_products_of_every_dtype(impl, evidence, device):
    """70 terms, 40 rows and 4 leading dimensions change nothing: exact sums, in the operands' dtype."""
    for dtype in DTYPES + WHOLE if device.type == "cpu" else DTYPES:
        for left, right, sizes in LARGE:
            x, w = stacks(Operands(left, right, ()), sizes, partial(signs, dtype=dtype, device=device))
            predicted = torch.as_tensor(looped(exactly(x), exactly(w))).to(dtype)
            shapes = {"x": tuple(x.shape), "w": tuple(w.shape)}
            evidence.equal(x @ w, predicted, unit="as the product by @", **shapes)
            evidence.equal(impl.operations.batched_matmul(x, w), predicted, unit="as the product", **shapes)


@verifies(operations.MATMUL_BATCHED)
def test_large_integers_stay_exact(impl, evidence):
    """2⁵³ + 1, which float64 lacks, is one of the products of int64 matrices."""
    x, w = torch.tensor([[2**53, 1], [2**62, -1]]), torch.tensor([[1, -1], [1, 1]])
    predicted = torch.tensor([[2**53 + 1, 1 - 2**53], [2**62 - 1, -(2**62) - 1]])
    evidence.equal(x @ w, predicted, unit="as the product by @", x=x, w=w)
    evidence.equal(impl.operations.batched_matmul(x, w), predicted, unit="as the product", x=x, w=w)


@verifies(operations.MATMUL_BATCHED)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_infinity_and_nan_reach_the_products(impl, evidence, device, dtype):
    """An infinite term makes a product infinite; 0 × ∞, ∞ − ∞ and NaN make it NaN."""
    inf, nan = float("inf"), float("nan")
    x = on(device, torch.tensor([[1, 2], [0, 1], [inf, 1], [-inf, 1], [nan, 0]], dtype=dtype))
    w = on(device, torch.tensor([[1, inf, 0, -inf, 1], [2, 1, inf, inf, nan]], dtype=dtype))
    with np.errstate(all="ignore"):
        predicted = torch.as_tensor((exactly(x)[:, :, None] * exactly(w)).sum(1)).to(dtype)
    evidence.equal(x @ w, predicted, unit="as the product by @", x=x, w=w)
    evidence.equal(impl.operations.batched_matmul(x, w), predicted, unit="as the product", x=x, w=w)


@verifies(operations.MATMUL_BATCHED)
def test_each_product_is_computed_anew(impl, evidence, device):
    """The same tensors with other values give another product, and the one before keeps its values."""
    x, w = stacks(Operands((2,), (), ()), (3, 4, 2), lambda shape: small_integers(shape, torch.float32, device))
    predicted = torch.as_tensor(looped(exactly(x), exactly(w))).float()
    first = impl.operations.batched_matmul(x, w)
    for factor, operand in ((-2, x), (3, w)):
        operand.data.mul_(factor)  # which leaves the tensor's version as it was
        predicted_before, predicted = predicted, predicted * factor
        second = impl.operations.batched_matmul(x, w)
        evidence.equal(second, predicted, unit="as the product of what changed")
        evidence.equal(first, predicted_before, unit="as the product before, afterwards")
        first = second
    before = x.clone()
    product = impl.operations.batched_matmul(x, torch.eye(4, device=device))
    evidence.equal(product, before, unit="as the product with the unit matrix")
    with contextlib.suppress(RuntimeError):  # not every product can be written to
        product.zero_()
    evidence.equal(x, before, unit="as the operand after its product was written to")


@verifies(operations.MATMUL_BATCHED)
@pytest.mark.parametrize(("left", "right"), [((), ()), ((2, 1), (3,)), ((), (2, 2)), ((3,), ())], ids=str)
def test_gradients_reach_both_operands(impl, evidence, device, left, right):
    """The product's gradients are those of @, summed where an operand was broadcast, and nothing is lost."""
    x, w = stacks(Operands(left, right, ()), (2, 4, 3), lambda shape: small_integers(shape, torch.float32, device))
    x, w = x.requires_grad_(), w.requires_grad_()
    product, by_torch = impl.operations.batched_matmul(x, w), x @ w
    kept = "differentiable" if product.requires_grad else "constant"
    evidence.equal(kept, "differentiable", unit="product")
    weights = small_integers(by_torch.shape, torch.float32, device)
    gradients = []
    for result in (by_torch, product):
        x.grad = w.grad = None
        (result * weights).sum().backward()  # a scalar's: autograd imports much for any other
        gradients.append([torch.zeros_like(one) if one.grad is None else one.grad for one in (x, w)])
    for unit, predicted, gradient in zip(("first", "second"), *gradients, strict=True):
        evidence.equal(gradient, predicted, unit=f"as the {unit} operand's gradient")


@verifies(operations.MATMUL_BATCHED)
@pytest.mark.parametrize("leading", [(), (3,), (1, 2)], ids=str)
def test_a_tensor_may_be_both_operands(impl, evidence, device, leading):
    """The product of square matrices with themselves is that of two tensors alike, and has both their gradients."""
    x = small_integers((*leading, 3, 3), torch.float32, device)
    first, second = (x.clone().requires_grad_() for _ in range(2))
    weights = small_integers(x.shape, torch.float32, device) + 1
    ((first @ second) * weights).sum().backward()
    product = impl.operations.batched_matmul(x.requires_grad_(), x)
    evidence.equal(product.detach(), torch.as_tensor(looped(exactly(x), exactly(x))).float(), unit="as the square")
    (product * weights).sum().backward()
    evidence.equal(x.grad, first.grad + second.grad, unit="as the square's gradient")


@verifies(operations.MATMUL_BATCHED)
@given(leading=st.leading_sizes, sizes=st.matrix_sizes)
def test_a_vector_is_a_row_on_the_left_and_a_column_on_the_right(evidence, device, leading, sizes):
    """A vector multiplies as the matrix it makes with one row or one column, which is then dropped."""
    rows, inner, columns = sizes
    v, x, w = (
        small_integers(shape, torch.float32, device)
        for shape in ((inner,), (*leading, rows, inner), (*leading, inner, columns))
    )
    row = looped(exactly(v)[None, :], exactly(w))[..., 0, :]
    column = looped(exactly(x), exactly(v)[:, None])[..., 0]
    dot = np.sum(exactly(v) ** 2)
    for unit, product, predicted in (("row", v @ w, row), ("column", x @ v, column), ("dot product", v @ v, dot)):
        evidence.equal(product, torch.as_tensor(predicted).float(), unit=f"as the {unit}")


@verifies(operations.MATMUL_BATCHED)
@example(leading=Operands((0,), (2,), ()), sizes=(3, 3, 3))
@example(leading=Operands((2, 3), (3, 2), ()), sizes=(3, 3, 3))
@given(leading=st.incompatible, sizes=st.matrix_sizes)
def test_stacks_that_do_not_fit_raise(impl, evidence, device, leading, sizes):
    """Leading dimensions that do not broadcast raise, and so do inner sizes that differ, 1 among them."""
    rows, inner, columns = sizes
    for left, right, longer in ((leading.left, leading.right, 0), (leading.left, leading.left, 1)):
        x = torch.ones(*left, rows, inner, device=device)
        w = torch.ones(*right, inner + longer, columns, device=device)
        shapes = {"x": tuple(x.shape), "w": tuple(w.shape)}
        evidence.raises(RuntimeError, partial(operator.matmul, x, w), **shapes)
        evidence.raises((ValueError, RuntimeError), partial(impl.operations.batched_matmul, x, w), **shapes)
