"""§3.8: mixed-precision training."""

import math
from functools import partial
from itertools import pairwise

import torch
from hypothesis import example, given
from torch import nn

from spec import bounds
from spec import strategies as st
from spec.bounds.rounding import Computed
from spec.claim import verifies
from spec.claims import precision

WIDENING = {torch.bfloat16: 2, torch.float16: 2, torch.float32: 4, torch.float64: 8}  # A value takes this many bytes.


def integers(seed, *shape, device, largest=2):
    """Return integers of a tensor's shape, as float32."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-largest, largest + 1, shape, generator=generator).float().to(device)


def linear(weight, bias=None):
    """Return a linear layer with these weights, of shape (outputs, inputs)."""
    layer = nn.Linear(1, 1, bias=False, device="meta")
    layer.weight = nn.Parameter(weight.clone())
    layer.bias = None if bias is None else nn.Parameter(bias.clone())
    return layer


class Shifted(nn.Module):
    """A layer whose parameters another module shares, and a shift by 0 that learns though no optimizer has it."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.shared = layer, nn.ParameterList(layer.parameters())
        self.shift = nn.Parameter(torch.zeros_like(layer.bias))

    def forward(self, x):
        """Return the layer's output."""
        return self.layer(x) + self.shift


def scaler_of(scale, device, **options):
    """Return a scaler that begins with this scale; None for None."""
    return None if scale is None else torch.amp.GradScaler(device.type, init_scale=scale, **options)


def exact_problem(seed, sizes, device):
    """Return a layer and a batch of small integers, with errors up to 30.

    Products and gradients are exact in every dtype: 4 points times 30 times 2 has no more than bfloat16's 8 bits. The
    squares have.
    """
    points, inputs, outputs = sizes
    x = integers(seed, points, inputs, device=device)
    y = integers(seed + 1, points, outputs, device=device, largest=16)
    return linear(integers(seed + 2, outputs, inputs, device=device), integers(seed + 3, outputs, device=device)), x, y


def exact_step(layer, x, y):
    """Return the mean squared error and the gradients of weight and bias, in float64 and by their formulas."""
    weight, bias, x, y = (tensor.detach().cpu().double() for tensor in (layer.weight, layer.bias, x, y))
    residual = x @ weight.T + bias - y
    slope = 2 * residual / residual.numel()
    return residual.square().mean(), slope.T @ x, slope.sum(0)


def dtypes_of(tensors):
    """Return the dtypes of tensors, each once, as text."""
    return sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors})


# ---- what a dtype can do ----
@verifies(precision.TRADE_OFF)
@given(seed=st.seeds, sizes=st.layer_sizes)
def test_a_product_is_as_exact_as_its_dtype(evidence, device, seed, sizes):
    """Operands and products rounded to a dtype are within its rounding bound of the product in float64."""
    rows, inner, _, columns = sizes
    generator = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(shape, generator=generator).double() for shape in ((rows, inner), (inner, columns)))
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        predicted = Computed.given(x).matmul(Computed.given(w), dtype)
        measured = x.to(device, dtype) @ w.to(device, dtype)
        evidence.close(measured, predicted.exact, tolerance=predicted.error, dtype=dtype)


@verifies(precision.TRADE_OFF)
def test_wider_dtypes_are_more_exact(evidence, device):
    """Over 1,024 products the error falls from bfloat16 over float16 to float32, where that is multiplied whole."""
    angles = torch.arange(32 * 64, dtype=torch.float64)
    x, w = (angles * 2.1).sin().reshape(32, 64), (angles * 3.7).sin().reshape(64, 32)
    # TF32, which some containers turn on, has only float16's 10 bits.
    whole = bounds.rounding.operand_cut(torch.float32) == 0
    errors = {
        dtype: ((x.to(device, dtype) @ w.to(device, dtype)).cpu().double() - x @ w).square().mean().sqrt().item()
        for dtype in (torch.bfloat16, torch.float16, *([torch.float32] if whole else []))
    }
    for narrow, wide in pairwise(errors):
        falls = errors[narrow] / errors[wide]
        evidence.at_least(
            falls, bounds.rounding.FALLS, what="the narrow dtype's error over the wide one's", narrow=narrow, wide=wide
        )


@verifies(precision.TRADE_OFF)
def test_wider_dtypes_take_more_bytes(evidence, device):
    """bfloat16 and float16 take 2 bytes per value, float32 4 and float64 8."""
    for dtype, size in WIDENING.items():
        if device.type == "mps" and dtype is torch.float64:
            continue  # MPS has no float64.
        storage = torch.empty(100, dtype=dtype, device=device).untyped_storage()
        evidence.equal(storage.nbytes(), 100 * size, what="the storage of 100 values", unit="bytes", dtype=dtype)


@verifies(precision.TRADE_OFF)
def test_bfloat16_absorbs_what_float32_keeps(evidence, device):
    """A weight of 1 stays 1 under a thousand updates of 1e-3 in bfloat16; in float32 it ends at 2, but for rounding."""
    one = torch.ones((), device=device)
    for steps, low, wide in ((1, one.bfloat16(), one.clone()), (1000, one.bfloat16(), one.clone())):
        for _ in range(steps):
            low += 1e-3
            wide += 1e-3
        evidence.equal(low.item(), 1, what="the bfloat16 weight", steps=steps)
        tolerance = bounds.updates.additions(1e-3, steps)
        evidence.close(wide.item(), 1 + steps * 1e-3, tolerance=tolerance, what="the float32 weight", steps=steps)


# ---- one step ----
@verifies(precision.FORWARD_ONLY)
@given(seed=st.seeds, sizes=st.exact_sizes, dtype=st.low_dtypes, scale=st.scales)
@example(seed=1, sizes=(4, 3, 2), dtype=torch.bfloat16, scale=None)
@example(seed=2, sizes=(4, 3, 2), dtype=torch.float16, scale=None)
def test_updates_that_the_low_dtype_would_lose_are_kept(impl, evidence, device, seed, sizes, dtype, scale):
    """The layer's output is in the low dtype; the loss, the gradients and the step are exact, as float32 has them."""
    layer, x, y = exact_problem(seed, sizes, device)
    lr = 2.0**-12  # From 1 on, bfloat16's spacing is 2⁻⁷ or more: it would lose these updates.
    passed_x, passed_y = (
        (x[None], y[None]) if seed % 3 == 0 else (x.clone(), y.clone())
    )  # Some batches have another dimension.
    x_before, y_before, outputs = passed_x.clone(), passed_y.clone(), []
    layer.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    optimizer, scaler = torch.optim.SGD(layer.parameters(), lr=lr), scaler_of(scale, device)
    for number in range(2):  # The second step must not add the first one's gradients.
        loss, *gradients = exact_step(layer, x_before.reshape(x.shape), y_before.reshape(y.shape))
        predicted = [p.detach().cpu().double() - lr * g for p, g in zip(layer.parameters(), gradients, strict=True)]
        measured = impl.precision.mixed_precision_step(layer, optimizer, passed_x, passed_y, dtype=dtype, scaler=scaler)
        evidence.equal(dtypes_of(outputs), dtypes_of([torch.empty(0, dtype=dtype)]), what="the output's dtype")
        evidence.equal(measured, loss.float(), what="the loss", step=number)
        evidence.equal(measured.device.type, device.type, what="the loss's device")
        evidence.true(not measured.requires_grad, "the loss has no graph", step=number)
        for name, parameter, value in zip(("weight", "bias"), layer.parameters(), predicted, strict=True):
            evidence.equal(parameter.detach(), value.float(), what=f"the {name} after the step", step=number)
        evidence.equal(passed_x, x_before, what="x after the step")
        evidence.equal(passed_y, y_before, what="y after the step")
        with torch.no_grad():  # Small integers keep the next step exact.
            for parameter in layer.parameters():
                parameter.copy_(parameter.round())


@verifies(precision.FORWARD_ONLY)
def test_all_that_lasts_is_float32(impl, evidence, device):
    """Parameters, their gradients and Adam's state are float32, whatever dtype the forward pass has."""
    for dtype in (torch.bfloat16, torch.float16):
        layer, x, y = exact_problem(1, (4, 3, 2), device)
        parameters = [*layer.parameters()]
        optimizer = torch.optim.Adam(parameters)
        for _ in range(2):
            impl.precision.mixed_precision_step(layer, optimizer, x, y, dtype=dtype)
            states = [tensor for state in optimizer.state.values() for tensor in state.values()]
            gradients = [p.grad for p in parameters if p.grad is not None]
            evidence.equal(
                dtypes_of(parameters + gradients + states),
                ["float32"],
                what="the dtype of parameters, gradients and states",
                dtype=dtype,
            )
            evidence.equal(layer(x).dtype, torch.float32, what="the dtype of a product after the step", dtype=dtype)
        same = [*map(id, parameters)] == [*map(id, layer.parameters())]
        evidence.true(same, "the parameters are the same objects", dtype=dtype)
        steps = {float(state["step"]) for state in optimizer.state.values()}
        evidence.equal(sorted(steps), [2.0], what="Adam's count of steps", calls=2, dtype=dtype)


@verifies(precision.FORWARD_ONLY)
def test_bfloat16_is_the_default(impl, evidence, device):
    """Without a dtype the forward pass is in bfloat16."""
    layer, x, y = exact_problem(2, (2, 3, 1), device)
    outputs = []
    layer.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    impl.precision.mixed_precision_step(layer, torch.optim.SGD(layer.parameters()), x, y)
    evidence.equal(dtypes_of(outputs), ["bfloat16"], what="the output's dtype", dtype="not given")


@verifies(precision.FORWARD_ONLY)
def test_shapes_that_would_broadcast_are_refused(impl, evidence, device):
    """A prediction (B, 1) for y (B), or the other way round, raises ValueError and makes no step."""
    for points in (1, 4):
        layer, x, y = exact_problem(3, (points, 3, 1), device)
        flat = nn.Sequential(layer, nn.Flatten(0))
        optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
        before = layer.weight.detach().clone()
        for model, target in ((layer, y[:, 0]), (flat, y), (layer, y[:1].repeat(points + 1, 1))):
            shape = tuple(target.shape)
            evidence.raises(
                ValueError, partial(impl.precision.mixed_precision_step, model, optimizer, x, target), y=shape
            )
            evidence.equal(layer.weight.detach(), before, what="the weight after a refusal", y=shape)


# ---- many values, many steps ----
@verifies(precision.AUTOCAST)
@given(seed=st.seeds, sizes=st.layer_sizes, dtype=st.low_dtypes, scale=st.scales)
def test_a_step_ends_where_float32_ends_but_for_rounding(impl, evidence, device, seed, sizes, dtype, scale):
    """Loss and parameters of a network of two layers are within the low dtype's rounding of the exact ones."""
    points, inputs, hidden, outputs = sizes
    generator = torch.Generator().manual_seed(seed)
    shapes = (points, inputs), (points, outputs), (hidden, inputs), (hidden,), (outputs, hidden), (outputs,)
    x, y, *parameters = (torch.randn(shape, generator=generator) for shape in shapes)
    loss, gradients, largest = two_layers(x, y, parameters, dtype)
    if scale is not None and scale * largest > torch.finfo(dtype).max / 2:
        scale = None  # An overflow skips the step; another test checks that.
    predicted = [bounds.updates.sgd(p, g, 0.125) for p, g in zip(parameters, gradients, strict=True)]
    x, y, w1, b1, w2, b2 = (tensor.to(device) for tensor in (x, y, *parameters))
    model = nn.Sequential(linear(w1, b1), linear(w2, b2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    step = partial(impl.precision.mixed_precision_step, model, optimizer, x, y)
    measured = step(dtype=dtype, scaler=scaler_of(scale, device))
    evidence.close(measured, loss.exact.squeeze(), tolerance=loss.error.squeeze(), what="the loss")
    for parameter, value in zip(model.parameters(), predicted, strict=True):
        evidence.close(parameter.detach(), value.exact, tolerance=value.error, what="the parameter after the step")


def two_layers(x, y, parameters, dtype):
    """Return the loss and the gradients of a network of two layers, and the largest value in its backward pass.

    Products are in a low dtype, the rest in float32. The largest value includes partial sums.
    """
    x, y, w1, b1, w2, b2 = map(Computed.given, (x, y, *parameters))
    ones = Computed.given(torch.ones(1, len(x.exact)))
    h = x.matmul(w1.T, dtype).plus(b1.rounded(dtype), dtype)
    prediction = h.matmul(w2.T, dtype).plus(b2.rounded(dtype), dtype)
    residual = prediction.plus(y.times(-1), torch.float32)
    flat = Computed(residual.exact.reshape(1, -1), residual.error.reshape(1, -1))
    loss = flat.matmul(flat.T, torch.float32).times(1 / flat.exact.numel()).rounded(torch.float32)
    slope = residual.times(2 / flat.exact.numel()).rounded(torch.float32, 2).rounded(dtype)
    back = slope.matmul(w2, dtype)
    biases = [Computed(g.exact[0], g.error[0]) for g in (ones.matmul(back, dtype), ones.matmul(slope, dtype))]
    gradients = [back.T.matmul(x, dtype), biases[0], slope.T.matmul(h, dtype), biases[1]]
    sums = [slope.size @ w2.size, back.size.T @ x.size, slope.size.T @ h.size, back.size.sum(0), slope.size.sum(0)]
    return loss, gradients, max(float(each.max()) for each in sums)


@verifies(precision.AUTOCAST)
@given(seed=st.seeds, sizes=st.exact_sizes, dtype=st.low_dtypes, scale=st.scales)
def test_each_step_sees_the_weights_of_the_one_before(impl, evidence, device, seed, sizes, dtype, scale):
    """The second step's loss and update are exactly those of the weights as they stand before it."""
    layer, x, y = exact_problem(seed, sizes, device)
    optimizer, scaler = torch.optim.SGD(layer.parameters(), lr=0.5), scaler_of(scale, device)
    first = None
    for number in range(2):
        loss, *gradients = exact_step(layer, x, y)
        predicted = [p.detach().cpu().double() - 0.5 * g for p, g in zip(layer.parameters(), gradients, strict=True)]
        measured = impl.precision.mixed_precision_step(layer, optimizer, x, y, dtype=dtype, scaler=scaler)
        evidence.equal(measured, loss.float(), what="the loss", step=number)
        for name, parameter, value in zip(("weight", "bias"), layer.parameters(), predicted, strict=True):
            evidence.equal(parameter.detach(), value.float(), what=f"the {name} after the step", step=number)
        first = first or (measured, loss.float())
        with torch.no_grad():  # Other small integers keep the next step exact.
            for parameter in layer.parameters():
                parameter.copy_(parameter.round().remainder(5) - 2)
    evidence.equal(*first, what="the first loss after the second step")


@verifies(precision.AUTOCAST)
def test_one_autocast_around_a_loop_reuses_stale_casts(evidence, device):
    """Within one autocast a product uses the weight that was cast first; a new autocast sees the change."""
    for dtype in (torch.bfloat16, torch.float16):
        layer, x = linear(torch.ones(1, 1, device=device)), torch.ones(1, 1, device=device)
        products = []
        with torch.autocast(device.type, dtype=dtype):
            for _ in range(2):
                products.append(layer(x).item())
                with torch.no_grad():
                    layer.weight += 1
        with torch.autocast(device.type, dtype=dtype):
            products.append(layer(x).item())
        evidence.equal(products, [1.0, 1.0, 3.0], what="the products for weights of 1, 2 and 3", dtype=dtype)


@verifies(precision.AUTOCAST)
def test_parameters_without_a_gradient_stay(impl, evidence, device):
    """Frozen and unused parameters stay, with clipping and scaling too, whatever gradient an earlier step left them."""
    scalers = scaler_of(8.0, device), torch.amp.GradScaler(device.type, enabled=False)
    for options in ({}, {"max_norm": 1.0}, *({"max_norm": 1.0, "scaler": scaler} for scaler in scalers)):
        layer, x, y = exact_problem(4, (4, 3, 2), device)
        layer.weight.requires_grad_(False)
        layer.unused = nn.Parameter(torch.ones(2, device=device))
        others = nn.Parameter(torch.ones(2, device=device))  # The optimizer has it, and the model does not.
        layer.unused.grad, others.grad = torch.ones_like(others), torch.ones_like(others)
        before = [layer.weight.clone(), layer.unused.detach().clone(), layer.bias.detach().clone()]
        optimizer = torch.optim.SGD([*layer.parameters(), others], lr=0.5)
        impl.precision.mixed_precision_step(layer, optimizer, x, y, **options)
        shown = ", ".join(options) or "none"
        evidence.equal(layer.weight, before[0], what="the frozen parameter", options=shown)
        evidence.equal(layer.unused.detach(), before[1], what="the unused parameter", options=shown)
        evidence.equal(others.detach(), before[1], what="the parameter that the model lacks", options=shown)
        evidence.differs(layer.bias.detach(), before[2], what="the parameter that learns", options=shown)


# ---- scaling ----
@verifies(precision.SCALING)
def test_a_small_gradient_survives_only_if_it_is_scaled(impl, evidence, device):
    """In float16 gradients from 2⁻²⁵ down vanish, with a scale of 2¹⁶ those from 2⁻⁴¹ down; in bfloat16 none does."""
    one = torch.ones(1, 1, device=device)
    for power in range(22, 44):
        for dtype, scale, least in (
            (torch.float16, None, 24),
            (torch.float16, 2.0**16, 40),
            (torch.bfloat16, None, math.inf),
        ):
            layer = linear(0 * one)
            optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
            y = -(2.0 ** -(power + 1)) * one  # The gradient is twice the error.
            impl.precision.mixed_precision_step(layer, optimizer, one, y, dtype=dtype, scaler=scaler_of(scale, device))
            predicted = -(2.0**-power) if power <= least else 0.0
            evidence.equal(
                layer.weight.item(), predicted, what="the weight after the step", power=power, dtype=dtype, scale=scale
            )


@verifies(precision.SCALING)
def test_an_overflow_skips_the_step_and_lowers_the_scale(impl, evidence, device):
    """While scaled gradients overflow, weight and momentum stay and the scale halves; then the step is made."""
    one = torch.ones(1, 1, device=device)
    for max_norm in (None, 100.0):
        layer = linear(one)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.25, momentum=0.5)
        scaler = scaler_of(2.0**18, device)
        for power in (18, 17, 16, 15, 14):  # The gradient is 2, and 2¹⁶ is infinite in float16.
            evidence.equal(scaler.get_scale(), 2.0**power, what="the scale", max_norm=max_norm)
            evidence.equal(layer.weight.item(), 1, what="the weight while steps are skipped", max_norm=max_norm)
            momenta = [state for state in optimizer.state.values() if state.get("momentum_buffer") is not None]
            evidence.equal(len(momenta), 0, what="the momenta while steps are skipped", max_norm=max_norm)
            loss = impl.precision.mixed_precision_step(
                layer, optimizer, one, 0 * one, dtype=torch.float16, scaler=scaler, max_norm=max_norm
            )
            evidence.equal(loss.item(), 1, what="the loss", max_norm=max_norm)
        evidence.equal(scaler.get_scale(), 2.0**14, what="the scale in the end", max_norm=max_norm)
        evidence.equal(layer.weight.item(), 0.5, what="the weight in the end", max_norm=max_norm)


@verifies(precision.SCALING)
def test_an_infinite_prediction_skips_the_step_too(impl, evidence, device):
    """A prediction that is infinite in float16 gives an infinite loss; weights stay, and the scale halves."""
    for max_norm in (None, 1.0):
        layer, x = linear(torch.full((1, 1), 300.0, device=device)), torch.full((1, 1), 300.0, device=device)
        optimizer, scaler = torch.optim.SGD(layer.parameters(), lr=1.0), scaler_of(8.0, device)
        step = partial(impl.precision.mixed_precision_step, layer, optimizer, x, x, dtype=torch.float16)
        loss = step(scaler=scaler, max_norm=max_norm)
        evidence.equal(loss.item(), math.inf, what="the loss", max_norm=max_norm)
        evidence.equal(layer.weight.item(), 300, what="the weight", max_norm=max_norm)
        evidence.equal(scaler.get_scale(), 4, what="the scale", max_norm=max_norm)


@verifies(precision.SCALING)
def test_the_scale_is_raised_after_enough_good_steps(impl, evidence, device):
    """A growth interval of 3 doubles the scale at every third step, whatever the gradients are clipped to."""
    for max_norm in (None, 1.0):
        layer, x, y = exact_problem(5, (4, 3, 2), device)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.0)
        scaler = scaler_of(4.0, device, growth_interval=3)
        scales = []
        for _ in range(7):
            impl.precision.mixed_precision_step(layer, optimizer, x, y, scaler=scaler, max_norm=max_norm)
            scales.append(scaler.get_scale())
        evidence.equal(
            scales, [4.0, 4.0, 8.0, 8.0, 8.0, 16.0, 16.0], what="the scale after each step", max_norm=max_norm
        )


@verifies(precision.SCALING)
@given(seed=st.seeds, sizes=st.exact_sizes, dtype=st.low_dtypes, scale=st.scales, ratio=st.norm_ratios)
@example(seed=0, sizes=(2, 3, 1), dtype=torch.bfloat16, scale=None, ratio=0.5)
@example(seed=0, sizes=(2, 3, 1), dtype=torch.float16, scale=16.0, ratio=0.5)
@example(seed=1, sizes=(2, 3, 2), dtype=torch.bfloat16, scale=None, ratio=0.5)
@example(seed=1, sizes=(2, 3, 2), dtype=torch.bfloat16, scale=None, ratio=4.0)
@example(seed=1, sizes=(2, 3, 2), dtype=torch.bfloat16, scale=2.0**8, ratio=0.5)
@example(seed=1, sizes=(2, 3, 2), dtype=torch.bfloat16, scale=2.0**8, ratio=4.0)
def test_gradients_are_clipped_once_they_are_unscaled(impl, evidence, device, seed, sizes, dtype, scale, ratio):
    """The gradients of all the optimizer's parameters, and no others, get the norm max_norm if theirs is larger."""
    layer, x, y = exact_problem(seed, sizes, device)
    y = y.sign() + 16  # The errors are −1 to −31, so that the norm is at least 1.
    _, *gradients = exact_step(layer, x, y)
    norm = torch.cat([g.flatten() for g in gradients]).norm().item()
    factor = 1.0 if ratio is None else min(1.0, ratio)
    before = [p.detach().cpu().double() for p in layer.parameters()]
    optimizer = torch.optim.SGD([layer.weight], lr=0.0)
    step = partial(impl.precision.mixed_precision_step, Shifted(layer), optimizer, x, y, dtype=dtype)
    step = partial(step, scaler=scaler_of(scale, device), max_norm=None if ratio is None else ratio * norm)
    step()  # The first step moves nothing, and the group that is added then belongs to the second one.
    optimizer.add_param_group({"params": [layer.bias]})
    for group in optimizer.param_groups:
        group["lr"] = 1.0
    step()
    relative = bounds.updates.clipped(sum(p.numel() for p in layer.parameters()))
    for name, parameter, old, gradient in zip(("weight", "bias"), layer.parameters(), before, gradients, strict=True):
        predicted = old - factor * gradient
        tolerance = bounds.updates.stepped(predicted, factor * gradient, 0.0 if ratio is None else relative)
        evidence.close(parameter.detach(), predicted, tolerance=tolerance, what=f"the {name} after the step", norm=norm)
