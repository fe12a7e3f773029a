"""§2.2.2b and §2.2.2c: elementwise operations, upper triangles and matrix products, which compute new tensors."""

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

# Each operation is written twice: as the call of torch, and as its formula for NumPy. Unary operations ignore y.
ELEMENTWISE = {
    "pow": (lambda x, y: x.pow(2), lambda x, y: x * x),
    "sqrt": (lambda x, y: x.sqrt(), lambda x, y: np.sqrt(x)),
    "rsqrt": (lambda x, y: x.rsqrt(), lambda x, y: 1 / np.sqrt(x)),
    "+": (operator.add, operator.add),
    "×": (operator.mul, operator.mul),
    "÷": (operator.truediv, operator.truediv),
}
# These operations convert integers to the default float dtype.
FRACTIONAL = {"sqrt", "rsqrt", "÷"}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# The strategies draw no sizes as large as these. Each line has the leading dimensions of both operands, and then the
# rows of the first, the inner size and the columns of the second.
LARGE = (
    ((), (), (40, 2, 33)),
    ((), (2,), (2, 70, 3)),
    ((1, 2, 1, 3), (2, 1, 1, 1), (2, 9, 6)),
    ((2, 1, 1, 2), (2, 1), (2, 0, 3)),
)
# Positions from 128 or 256 on do not fit into 8 bits.
MASK_LENGTHS = (2, 8, 17, 64, 65, 300)


def on(device, tensor):
    """Return the tensor on a device; discard the example if the device does not have its dtype."""
    try:
        return tensor.to(device)
    except (TypeError, RuntimeError):
        reject()


def filled(shape, values, dtype, device):
    """Return a tensor of this shape that repeats the values."""
    count = torch.Size(shape).numel()
    repeated = torch.tensor(values, dtype=dtype).repeat(count // len(values) + 1)
    return on(device, repeated[:count].reshape(shape))


def as_float64(tensor):
    """Return the values as a NumPy array of float64, which holds each of them exactly."""
    return tensor.detach().cpu().double().numpy()


def address(tensor):
    """Return the address of a tensor's storage."""
    return tensor.untyped_storage().data_ptr()


def looped(x, w):
    """Return the products of NumPy matrices, one pair for every index of the broadcast leading dimensions."""
    leading = np.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    x, w = np.broadcast_to(x, leading + x.shape[-2:]), np.broadcast_to(w, leading + w.shape[-2:])
    y = np.zeros((*leading, x.shape[-2], w.shape[-1]))
    for index in np.ndindex(leading):
        y[index] = x[index] @ w[index]
    return y


def small_integers(shape, dtype, device):
    """Return a tensor of integers from −3 to 3: every dtype holds their products and sums exactly, in any order."""
    count = torch.Size(shape).numel()
    return on(device, ((torch.arange(count) * 3) % 7 - 3).to(dtype).reshape(shape))


def signs(shape, dtype, device):
    """Return a tensor of −1, 0 and 1, or of 0 and 1 if unsigned: sums of up to 127 of them are exact in every dtype."""
    values = small_integers(shape, torch.int64, device).sign()
    return (values if dtype.is_signed else values.abs()).to(dtype)


def stacks(leading, sizes, fill):
    """Return two stacks of matrices that can be multiplied, the second one a transposed view."""
    rows, inner, columns = sizes
    return fill((*leading.left, rows, inner)), fill((*leading.right, columns, inner)).mT


@verifies(operations.ELEMENTWISE_NEW)
@given(shape=st.operand_shapes, dtype=st.arithmetic_dtypes, values=st.moderate_floats)
def test_each_operation_gives_a_new_tensor_of_the_exact_values(evidence, device, shape, dtype, values):
    """Each operation returns a new tensor of the same shape, with the exact values rounded to the promoted dtype."""
    if not dtype.is_floating_point:
        values = [int(abs(value)) % 12 for value in values]  # The squares, up to 121, fit into int8.
    x, y = filled(shape, values, dtype, device), filled(shape, values[::-1], dtype, device)
    before = x.clone()
    for name, (compute, formula) in ELEMENTWISE.items():
        result = compute(x, y)
        with np.errstate(all="ignore"):
            exact = torch.as_tensor(np.asarray(formula(as_float64(x), as_float64(y))))
        promoted = torch.get_default_dtype() if name in FRACTIONAL and not dtype.is_floating_point else dtype
        reused = x.numel() and address(result) in (address(x), address(y))
        tolerance = bounds.rounding.elementwise(name, exact, promoted, device)
        evidence.close(result, exact, tolerance=tolerance, what="the result", operation=name)
        evidence.equal(result.dtype, promoted, what="the result's dtype", operation=name)
        evidence.true(not reused, "the result has a storage of its own", operation=name)
    evidence.equal(x, before, what="the input after the operations")


@verifies(operations.ELEMENTWISE_NEW)
def test_one_four_nine(evidence, device):
    """The notes' example, the integers 1, 4 and 9, gives the values and dtypes that the notes write down."""
    x = torch.tensor([1, 4, 9], device=device)
    integer, default = torch.int64, torch.get_default_dtype()
    for name, result, values, dtype in (
        ("pow", x.pow(2), [1, 16, 81], integer),
        ("sqrt", x.sqrt(), [1, 2, 3], default),
        ("rsqrt", x.rsqrt(), [1, 1 / 2, 1 / 3], default),
        ("+", x + x, [2, 8, 18], integer),
        ("×", x * 2, [2, 8, 18], integer),
        ("÷", x / 0.5, [2, 8, 18], default),
    ):
        exact = torch.tensor(values, dtype=torch.float64)
        evidence.equal(result.dtype, dtype, what="the result's dtype", operation=name)
        tolerance = bounds.rounding.elementwise(name, exact, dtype, device)
        evidence.close(result, exact, tolerance=tolerance, what="the result", operation=name)


@verifies(operations.TRIU)
@given(leading=st.leading_sizes, sizes=st.matrix_sizes, diagonal=st.diagonals, dtype=st.triangle_dtypes)
@example(leading=(2,), sizes=(3, 4, 1), diagonal=0, dtype=torch.float32)  # Some elements are below the diagonal.
def test_triu_keeps_what_lies_on_or_above_the_diagonal(evidence, device, leading, sizes, diagonal, dtype):
    """triu keeps element (i, j) if j ≥ i + diagonal and replaces all others by 0, even infinite ones."""
    shape = (*leading, *sizes[:2])
    x = (torch.arange(torch.Size(shape).numel(), device=device) % 100 + 1).to(dtype).reshape(shape)
    rows, columns = np.indices(shape[-2:])
    dropped = torch.as_tensor(columns < rows + diagonal, device=device)
    evidence.equal(x.triu(diagonal), x.masked_fill(dropped, 0), what="the triangle")
    if dtype.is_floating_point:
        x = x.masked_fill(dropped, float("inf"))
        evidence.equal(x.triu(diagonal), x.masked_fill(dropped, 0), what="the triangle above infinities")


@verifies(operations.TRIU)
@example(length=0)
@example(length=1)
@given(length=st.sizes_with_zero)
def test_a_causal_mask_forbids_the_strictly_upper_part(impl, evidence, device, length):
    """The mask is True where j ≤ i: it forbids what torch.ones(length, length).triu(1) marks."""
    mask = impl.operations.causal_mask(np.int32(length), device)
    allowed = torch.tensor([[j <= i for j in range(length)] for i in range(length)], dtype=torch.bool, device=device)
    evidence.equal(mask, allowed.reshape(length, length), what="the mask")
    evidence.equal(~mask, torch.ones_like(mask).triu(1), what="the forbidden part")
    evidence.equal(mask.device.type, device.type, what="the mask's device")


@verifies(operations.TRIU)
def test_each_call_makes_a_mask_of_its_own(impl, evidence, device):
    """A second call with the same length gives a right mask, even after the first mask was overwritten."""
    for length in MASK_LENGTHS:
        allowed = torch.as_tensor(np.tri(length, dtype=bool), device=device)
        for attempt in ("first", "second"):
            mask = impl.operations.causal_mask(length, device)
            evidence.equal(mask, allowed, what=f"the {attempt} mask", length=length)
            with contextlib.suppress(RuntimeError):  # An implementation may return a mask that cannot be written to.
                mask.logical_not_()
        elsewhere = impl.operations.causal_mask(length, "meta")
        evidence.equal(elsewhere.device.type, "meta", what="the device of a third mask", length=length)


@verifies(operations.TRIU)
def test_a_mask_needs_a_length(impl, evidence):
    """A negative length raises ValueError, text or None TypeError, and a fraction one of the two."""
    either = (TypeError, ValueError)
    for length, error in ((-1, ValueError), (-2, ValueError), ("four", TypeError), (None, TypeError), (2.5, either)):
        evidence.raises(error, partial(impl.operations.causal_mask, length), length=length)


@verifies(operations.MATMUL_SHAPE)
@given(sizes=st.matrix_sizes)
@example(sizes=(16, 32, 2))
@example(sizes=(2, 0, 3))
def test_a_product_has_the_rows_of_the_first_and_the_columns_of_the_second(evidence, device, sizes):
    """(m, k) @ (k, n) is (m, n), all zeros where k is 0; inner sizes that differ raise an error, even if one is 1."""
    rows, inner, columns = sizes
    x, w = torch.ones(rows, inner, device=device), torch.ones(inner, columns, device=device)
    evidence.equal(x @ w, torch.full((rows, columns), float(inner), device=device), what="the product of ones")
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
    """@ and batched_matmul give exactly one matrix product for every index of the broadcast leading dimensions."""
    if device.type != "cpu" and not dtype.is_floating_point:
        dtype = torch.float32  # torch multiplies integer matrices on the CPU only.
    x, w = stacks(leading, sizes, lambda shape: small_integers(shape, dtype, device))
    predicted = torch.as_tensor(looped(as_float64(x), as_float64(w))).to(dtype)
    before = x.clone(), w.clone()
    evidence.equal(x @ w, predicted, what="x @ w", x=x, w=w)
    evidence.equal(impl.operations.batched_matmul(x, w), predicted, what="batched_matmul(x, w)", x=x, w=w)
    evidence.equal(x, before[0], what="the first operand after the products")
    evidence.equal(w, before[1], what="the second operand after the products")


@verifies(operations.MATMUL_BATCHED)
@given(sizes=st.matrix_sizes, dtype=st.float_dtypes, values=st.moderate_floats)
def test_rounding_is_all_that_differs(impl, evidence, device, sizes, dtype, values):
    """For any values, @ and batched_matmul are within rounding of the exact products, even if x requires a gradient."""
    rows, inner, columns = sizes
    sixteenths = [value / 16 for value in values]  # No sum of their products overflows float16.
    x, w = filled((2, rows, inner), sixteenths, dtype, device), filled((inner, columns), sixteenths, dtype, device)
    exact, magnitude = (torch.as_tensor(looped(f(as_float64(x)), f(as_float64(w)))) for f in (np.positive, np.abs))
    tolerance = bounds.rounding.dot_product(magnitude, inner, dtype)
    product = impl.operations.batched_matmul(x.requires_grad_(), w)
    evidence.close(product.detach(), exact, tolerance=tolerance, what="batched_matmul(x, w)")
    evidence.close((x @ w).detach(), exact, tolerance=tolerance, what="x @ w")


@verifies(operations.MATMUL_BATCHED)
def test_large_products_of_every_dtype(impl, evidence, device):
    """Products with 70 terms, 40 rows or 4 leading dimensions are exact, and have the operands' dtype."""
    for dtype in FLOATS + INTEGERS if device.type == "cpu" else FLOATS:
        for left, right, sizes in LARGE:
            x, w = stacks(Operands(left, right, ()), sizes, partial(signs, dtype=dtype, device=device))
            predicted = torch.as_tensor(looped(as_float64(x), as_float64(w))).to(dtype)
            shapes = {"x": tuple(x.shape), "w": tuple(w.shape)}
            evidence.equal(x @ w, predicted, what="x @ w", **shapes)
            evidence.equal(impl.operations.batched_matmul(x, w), predicted, what="batched_matmul(x, w)", **shapes)


@verifies(operations.MATMUL_BATCHED)
def test_large_integers_stay_exact(impl, evidence):
    """Products of int64 matrices are exact, even 2⁵³ + 1, which float64 does not have."""
    x, w = torch.tensor([[2**53, 1], [2**62, -1]]), torch.tensor([[1, -1], [1, 1]])
    predicted = torch.tensor([[2**53 + 1, 1 - 2**53], [2**62 - 1, -(2**62) - 1]])
    evidence.equal(x @ w, predicted, what="x @ w", x=x, w=w)
    evidence.equal(impl.operations.batched_matmul(x, w), predicted, what="batched_matmul(x, w)", x=x, w=w)


@verifies(operations.MATMUL_BATCHED)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_infinity_and_nan_reach_the_products(impl, evidence, device, dtype):
    """A product with an infinite term is infinite, and one with 0 × ∞, ∞ − ∞ or NaN is NaN."""
    inf, nan = float("inf"), float("nan")
    x = on(device, torch.tensor([[1, 2], [0, 1], [inf, 1], [-inf, 1], [nan, 0]], dtype=dtype))
    w = on(device, torch.tensor([[1, inf, 0, -inf, 1], [2, 1, inf, inf, nan]], dtype=dtype))
    with np.errstate(all="ignore"):
        predicted = torch.as_tensor((as_float64(x)[:, :, None] * as_float64(w)).sum(1)).to(dtype)
    evidence.equal(x @ w, predicted, what="x @ w", x=x, w=w)
    evidence.equal(impl.operations.batched_matmul(x, w), predicted, what="batched_matmul(x, w)", x=x, w=w)


@verifies(operations.MATMUL_BATCHED)
def test_each_product_is_computed_anew(impl, evidence, device):
    """When operands change, a new call gives their new product, and neither earlier products nor operands change."""
    x, w = stacks(Operands((2,), (), ()), (3, 4, 2), lambda shape: small_integers(shape, torch.float32, device))
    predicted = torch.as_tensor(looped(as_float64(x), as_float64(w))).float()
    first = impl.operations.batched_matmul(x, w)
    for factor, operand in ((-2, x), (3, w)):
        operand.data.mul_(factor)  # A change through .data does not raise the tensor's version number.
        predicted_before, predicted = predicted, predicted * factor
        second = impl.operations.batched_matmul(x, w)
        evidence.equal(second, predicted, what="the product of the changed operands")
        evidence.equal(first, predicted_before, what="the earlier product after the later one")
        first = second
    before = x.clone()
    product = impl.operations.batched_matmul(x, torch.eye(4, device=device))
    evidence.equal(product, before, what="the product with the identity matrix")
    with contextlib.suppress(RuntimeError):  # An implementation may return a product that cannot be written to.
        product.zero_()
    evidence.equal(x, before, what="the operand after its product was overwritten")


@verifies(operations.MATMUL_BATCHED)
@pytest.mark.parametrize(("left", "right"), [((), ()), ((2, 1), (3,)), ((), (2, 2)), ((3,), ())], ids=str)
def test_gradients_reach_both_operands(impl, evidence, device, left, right):
    """Both operands have the same gradients from batched_matmul as from @, also where an operand is broadcast."""
    x, w = stacks(Operands(left, right, ()), (2, 4, 3), lambda shape: small_integers(shape, torch.float32, device))
    x, w = x.requires_grad_(), w.requires_grad_()
    product, by_torch = impl.operations.batched_matmul(x, w), x @ w
    evidence.true(product.requires_grad, "the product requires a gradient")
    weights = small_integers(by_torch.shape, torch.float32, device)
    gradients = []
    for result in (by_torch, product):
        x.grad = w.grad = None
        (result * weights).sum().backward()  # backward() of anything but a scalar makes autograd import much.
        gradients.append([torch.zeros_like(one) if one.grad is None else one.grad for one in (x, w)])
    for operand, predicted, gradient in zip(("first", "second"), *gradients, strict=True):
        evidence.equal(gradient, predicted, what=f"the {operand} operand's gradient")


@verifies(operations.MATMUL_BATCHED)
@pytest.mark.parametrize("leading", [(), (3,), (1, 2)], ids=str)
def test_a_tensor_may_be_both_operands(impl, evidence, device, leading):
    """A tensor times itself is the product of two equal tensors, and its gradient is the sum of their gradients."""
    x = small_integers((*leading, 3, 3), torch.float32, device)
    first, second = (x.clone().requires_grad_() for _ in range(2))
    weights = small_integers(x.shape, torch.float32, device) + 1
    ((first @ second) * weights).sum().backward()
    product = impl.operations.batched_matmul(x.requires_grad_(), x)
    evidence.equal(product.detach(), torch.as_tensor(looped(as_float64(x), as_float64(x))).float(), what="the square")
    (product * weights).sum().backward()
    evidence.equal(x.grad, first.grad + second.grad, what="the gradient of the square")


@verifies(operations.MATMUL_BATCHED)
@given(leading=st.leading_sizes, sizes=st.matrix_sizes)
def test_a_vector_is_a_row_on_the_left_and_a_column_on_the_right(evidence, device, leading, sizes):
    """A vector acts as a one-row matrix on the left and a one-column matrix on the right; that dimension is dropped."""
    rows, inner, columns = sizes
    v, x, w = (
        small_integers(shape, torch.float32, device)
        for shape in ((inner,), (*leading, rows, inner), (*leading, inner, columns))
    )
    row = looped(as_float64(v)[None, :], as_float64(w))[..., 0, :]
    column = looped(as_float64(x), as_float64(v)[:, None])[..., 0]
    dot = np.sum(as_float64(v) ** 2)
    for what, product, predicted in (("v @ w", v @ w, row), ("x @ v", x @ v, column), ("v @ v", v @ v, dot)):
        evidence.equal(product, torch.as_tensor(predicted).float(), what=what)


@verifies(operations.MATMUL_BATCHED)
@example(leading=Operands((0,), (2,), ()), sizes=(3, 3, 3))
@example(leading=Operands((2, 3), (3, 2), ()), sizes=(3, 3, 3))
@given(leading=st.incompatible, sizes=st.matrix_sizes)
def test_stacks_that_do_not_fit_raise(impl, evidence, device, leading, sizes):
    """Leading dimensions that do not broadcast raise an error, and so do inner sizes that differ, even if one is 1."""
    rows, inner, columns = sizes
    for left, right, longer in ((leading.left, leading.right, 0), (leading.left, leading.left, 1)):
        x = torch.ones(*left, rows, inner, device=device)
        w = torch.ones(*right, inner + longer, columns, device=device)
        shapes = {"x": tuple(x.shape), "w": tuple(w.shape)}
        evidence.raises(RuntimeError, partial(operator.matmul, x, w), **shapes)
        evidence.raises((ValueError, RuntimeError), partial(impl.operations.batched_matmul, x, w), **shapes)
