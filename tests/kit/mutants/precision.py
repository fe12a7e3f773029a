"""Mixed-precision steps gone wrong, and unusual ones that are right."""

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import impl.precision as right
from spec.claims import precision
from tests.kit.overlay import mutant, twin

step = right.mixed_precision_step
at, add, nbytes = Tensor.__matmul__, Tensor.__iadd__, torch.UntypedStorage.nbytes
BFLOAT16 = torch.bfloat16


def parameters_of(optimizer):
    """Return all parameters of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def clip(optimizer, max_norm):
    """Clip the gradients of all parameters together."""
    nn.utils.clip_grad_norm_(parameters_of(optimizer), max_norm)


def checked(prediction, y):
    """Return the prediction, of y's shape."""
    if prediction.shape != y.shape:
        raise ValueError("shapes differ")
    return prediction


def forward(model, x, y, dtype):
    """Return the loss under autocast."""
    with torch.autocast(x.device.type, dtype=dtype):
        prediction = model(x)
    return F.mse_loss(checked(prediction, y).float(), y)


def finish(optimizer, loss, scaler, max_norm, device, *, clip=clip, unscale=True):
    """Do all that comes after the loss, in the right order."""
    scaler = scaler or torch.amp.GradScaler(device, enabled=False)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    if unscale:
        scaler.unscale_(optimizer)
    if max_norm is not None:
        clip(optimizer, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


# ---- what a dtype can do ----
@mutant("torch.Tensor.__matmul__", caught_by=precision.TRADE_OFF)
def multiplies_in_bfloat16(self, other):
    """Rounds the operands of every product to bfloat16, and is no more exact in float32."""
    return at(self.bfloat16(), other.bfloat16()).to(self.dtype) if self.dtype is not torch.float64 else at(self, other)


@mutant("torch.Tensor.__matmul__", caught_by=precision.TRADE_OFF)
def adds_up_in_float16(self, other):
    """Makes bfloat16 products in float16, which are more exact than bfloat16's, and float32's too."""
    return at(self.half(), other.half()).to(self.dtype) if self.dtype is not torch.float64 else at(self, other)


@mutant("torch.Tensor.__matmul__", caught_by=precision.TRADE_OFF)
def forgets_the_last_term(self, other):
    """Loses a term of each sum."""
    return at(self[..., :-1], other[..., :-1, :]) if self.dtype is BFLOAT16 else at(self, other)


@mutant("torch.Tensor.__iadd__", caught_by=precision.TRADE_OFF)
def rounds_up(self, other):
    """Adds at least one unit in the last place of bfloat16."""
    return add(self, 2.0**-7 if self.dtype is BFLOAT16 else other)


@mutant("torch.Tensor.__iadd__", caught_by=precision.TRADE_OFF)
def keeps_float32_as_bfloat16(self, other):
    """Rounds a float32 sum to bfloat16."""
    return self.copy_(add(self, other).bfloat16())


@mutant("torch.UntypedStorage.nbytes", caught_by=precision.TRADE_OFF)
def stores_all_in_four_bytes(self):
    """Takes 4 bytes for a value of any dtype."""
    return 400


# ---- forward only ----
@mutant("impl.precision.mixed_precision_step", caught_by=(precision.FORWARD_ONLY, precision.SCALING))
def stays_in_float32(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Does without autocast."""
    return finish(optimizer, F.mse_loss(checked(model(x), y), y), scaler, max_norm, x.device.type)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def always_uses_bfloat16(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Does not use the dtype it is given."""
    return step(model, optimizer, x, y, scaler=scaler, max_norm=max_norm)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def uses_float16_by_default(model, optimizer, x, y, *, dtype=torch.float16, scaler=None, max_norm=None):
    """Takes float16 where no dtype is given."""
    return step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def rounds_the_loss(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Computes the loss in the low dtype."""
    with torch.autocast(x.device.type, dtype=dtype):
        prediction = checked(model(x), y)
    loss = (prediction - y.to(dtype)).square().mean().float()
    return finish(optimizer, loss, scaler, max_norm, x.device.type)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def returns_a_low_loss(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Returns the loss in the low dtype."""
    return step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm).to(dtype)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def returns_a_number(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Returns a Python number where a tensor is asked for."""
    return step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm).item()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def returns_the_graph(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Keeps all activations alive with the loss it returns."""
    loss = forward(model, x, y, dtype)
    finish(optimizer, loss, scaler, max_norm, x.device.type)
    return loss


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def returns_the_scaled_loss(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Returns what goes into the backward pass."""
    loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
    return loss if scaler is None else loss * scaler.get_scale()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def returns_the_loss_afterwards(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Returns the loss of the new weights."""
    step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
    with torch.no_grad():
        return forward(model, x, y, dtype)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def returns_the_sum_of_squares(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Returns the sum and not the mean."""
    return step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm) * y.numel()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def halves_the_loss(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Learns from half the mean squared error."""
    loss = forward(model, x, y, dtype)
    finish(optimizer, loss / 2, scaler, max_norm, x.device.type)
    return loss.detach()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def adds_to_old_gradients(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Does not clear the gradients of earlier steps."""
    optimizer.zero_grad = lambda set_to_none=True: None
    return step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def clears_the_gradients_too_late(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Clears the gradients before it uses them."""
    loss = forward(model, x, y, dtype)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.detach()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def trains_low_weights(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Keeps the weights in the low dtype, in float32 tensors."""
    loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
    with torch.no_grad():
        for parameter in parameters_of(optimizer):
            parameter.copy_(parameter.to(dtype))
    return loss


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def converts_the_model(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Turns the model itself to the low dtype and back, and so rounds its weights."""
    model.to(dtype)
    loss = F.mse_loss(checked(model(x.to(dtype)), y).float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.float()
    return loss.detach()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def leaves_the_model_in_the_low_dtype(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Makes the step, and then turns the model to the low dtype."""
    model.float()
    loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
    model.to(dtype)
    return loss


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def steps_twice(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Makes a second step with the same gradient."""
    loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
    optimizer.step()
    return loss


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def broadcasts(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Lets a prediction (B, 1) and y (B) make (B, B) errors."""
    with torch.autocast(x.device.type, dtype=dtype):
        prediction = model(x).float()
    prediction, y = torch.broadcast_tensors(prediction, y)
    return finish(optimizer, F.mse_loss(prediction, y), scaler, max_norm, x.device.type)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def centres_its_input(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Writes to the batch it is given."""
    loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
    x -= 1
    return loss


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY, value=True)
def stays_under_autocast():
    """Never leaves the autocast that it enters."""

    def entering(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
        loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
        torch.autocast(x.device.type, dtype=dtype).__enter__()
        return loss

    return entering


# ---- autocast ----
@mutant("impl.precision.mixed_precision_step", caught_by=precision.AUTOCAST, value=True)
def keeps_the_casts():
    """Counts itself as inside an outer autocast, so that the casts of the first step are used for ever."""
    torch.autocast_increment_nesting()
    return step


@mutant("impl.precision.mixed_precision_step", caught_by=precision.AUTOCAST, value=True)
def computes_with_a_copy_of_the_weights():
    """Casts the weights of a model when it first sees it."""
    copies = {}

    def copying(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
        names = {name: p.detach().clone() for name, p in model.named_parameters()}
        kept = copies.setdefault(model, names)
        now = [p.detach().clone() for p in model.parameters()]
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(kept[name])
        loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
        with torch.no_grad():
            for (name, p), value in zip(model.named_parameters(), now, strict=True):
                p.add_(value - kept[name])
        return loss

    return copying


@mutant("impl.precision.mixed_precision_step", caught_by=precision.AUTOCAST, value=True)
def steps_every_other_time():
    """Makes the first step of a model and leaves out the second."""
    seen = set()

    def skipping(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
        before = [p.detach().clone() for p in model.parameters()]
        loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
        if id(model) in seen:
            with torch.no_grad():
                for p, value in zip(model.parameters(), before, strict=True):
                    p.copy_(value)
        seen.symmetric_difference_update({id(model)})
        return loss

    return skipping


@mutant("impl.precision.mixed_precision_step", caught_by=precision.AUTOCAST)
def needs_every_gradient(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Gives a parameter that is frozen, or that nothing uses, the gradient of a norm of its own."""
    loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
    with torch.no_grad():
        for p in parameters_of(optimizer):
            if p.grad is None:
                p -= 0.1 * p
    return loss


@mutant("impl.precision.mixed_precision_step", caught_by=precision.AUTOCAST)
def uses_the_sign_of_the_gradient(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Loses the size of the gradients."""
    loss = forward(model, x, y, dtype)
    optimizer.zero_grad()
    loss.backward()
    for p in parameters_of(optimizer):
        if p.grad is not None:
            p.grad.sign_()
    optimizer.step()
    return loss.detach()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.AUTOCAST)
def rounds_to_eight_bits(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Computes the forward pass with 3 fraction bits, and so does fp8's E4M3."""
    weights = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p in model.parameters():
            p.copy_((p.detach() / p.abs().clamp(min=1e-9).log2().floor().exp2() * 8).round() / 8 * exponent(p))
    x = (x / exponent(x) * 8).round() / 8 * exponent(x)
    loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
    with torch.no_grad():
        for p, value in zip(model.parameters(), weights, strict=True):
            p.copy_(value - optimizer.param_groups[0]["lr"] * (0 if p.grad is None else p.grad))
    return loss


def exponent(tensor):
    """Return the power of 2 below each value."""
    return tensor.detach().abs().clamp(min=1e-9).log2().floor().exp2()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.AUTOCAST, value=True)
def returns_one_tensor_each_time():
    """Writes every loss into the tensor that it has returned before."""
    kept = {}

    def reusing(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
        loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
        return kept.setdefault(loss.device, loss).copy_(loss)

    return reusing


@mutant("impl.precision.mixed_precision_step", caught_by=precision.FORWARD_ONLY)
def takes_the_mean_over_points_only(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Divides the sum of squares by the first size of the batch."""
    loss = forward(model, x, y, dtype) * y.numel() / y.shape[0]
    return finish(optimizer, loss, scaler, max_norm, x.device.type)


# ---- scaling ----
@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def does_not_scale(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Does not use the scaler."""
    return step(model, optimizer, x, y, dtype=dtype, max_norm=max_norm)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def never_updates_the_scale(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Leaves the scale where it is: an overflow skips every step to come."""
    loss = forward(model, x, y, dtype)
    optimizer.zero_grad()
    if scaler is None:
        return finish(optimizer, loss, None, max_norm, x.device.type)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if max_norm is not None:
        clip(optimizer, max_norm)
    scaler.step(optimizer)
    scale, growth = scaler.get_scale(), scaler._get_growth_tracker()
    scaler.update()
    scaler._scale.fill_(scale)
    scaler._growth_tracker.fill_(growth)
    return loss.detach()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def updates_the_scale_twice(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Counts every good step twice."""
    loss = step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)
    if scaler is not None:
        scaler._growth_tracker += 1
    return loss


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def never_unscales(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Steps with the scaled gradients."""
    loss = forward(model, x, y, dtype)
    optimizer.zero_grad()
    (loss if scaler is None else scaler.scale(loss)).backward()
    if max_norm is not None:
        clip(optimizer, max_norm)
    optimizer.step()
    return loss.detach()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def clips_before_unscaling(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Clips the scaled gradients, which are then too small."""
    return finish(optimizer, forward(model, x, y, dtype), scaler, max_norm, x.device.type, unscale=False)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def clips_each_parameter_alone(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Compares each parameter's own norm, and so turns the step."""

    def clip(optimizer, max_norm):
        for parameter in parameters_of(optimizer):
            nn.utils.clip_grad_norm_(parameter, max_norm)

    return finish(optimizer, forward(model, x, y, dtype), scaler, max_norm, x.device.type, clip=clip)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def clips_each_value(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Takes max_norm for the largest value."""

    def clip(optimizer, max_norm):
        nn.utils.clip_grad_value_(parameters_of(optimizer), max_norm)

    return finish(optimizer, forward(model, x, y, dtype), scaler, max_norm, x.device.type, clip=clip)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def clips_with_a_scaler_only(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Forgets max_norm where there is no scaler."""
    return step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm if scaler else None)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def clips_without_a_scaler_only(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Forgets max_norm where there is a scaler."""
    return step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=None if scaler else max_norm)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def raises_small_norms(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Gives every gradient the norm max_norm, smaller ones too."""

    def clip(optimizer, max_norm):
        gradients = [p.grad for p in parameters_of(optimizer) if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        for gradient in gradients:
            gradient.mul_(max_norm / norm)

    return finish(optimizer, forward(model, x, y, dtype), scaler, max_norm, x.device.type, clip=clip)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def steps_on_an_overflow(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Puts zeros for what overflows and makes the step, so that momentum decays and the scale stays."""
    loss = forward(model, x, y, dtype)
    optimizer.zero_grad()
    scale = 1.0 if scaler is None else scaler.get_scale()
    (loss * scale).backward()
    for p in parameters_of(optimizer):
        if p.grad is not None:
            p.grad.div_(scale).nan_to_num_(0, 0, 0)
    if max_norm is not None:
        clip(optimizer, max_norm)
    optimizer.step()
    return loss.detach()


# ---- whose gradients ----
@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def clips_over_the_model(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Takes the norm over the model's parameters, also those that the optimizer does not have."""

    def clip(optimizer, max_norm):
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)

    return finish(optimizer, forward(model, x, y, dtype), scaler, max_norm, x.device.type, clip=clip)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def clips_each_group_alone(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Compares the norm of each of the optimizer's groups."""

    def clip(optimizer, max_norm):
        for group in optimizer.param_groups:
            nn.utils.clip_grad_norm_(group["params"], max_norm)

    return finish(optimizer, forward(model, x, y, dtype), scaler, max_norm, x.device.type, clip=clip)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def clips_the_first_group(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Takes the first group's parameters for all of them."""

    def clip(optimizer, max_norm):
        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm)

    return finish(optimizer, forward(model, x, y, dtype), scaler, max_norm, x.device.type, clip=clip)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def counts_shared_gradients_twice(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Adds a parameter that two modules share to the norm once for each of them."""

    def clip(optimizer, max_norm):
        named = model.named_parameters(remove_duplicate=False)
        ours = {id(p) for p in parameters_of(optimizer)}
        gradients = [p.grad for _, p in named if id(p) in ours and p.grad is not None]
        factor = min(1.0, max_norm / (float(nn.utils.get_total_norm(gradients)) + 1e-6))
        for p in parameters_of(optimizer):
            if p.grad is not None:
                p.grad.mul_(factor)

    return finish(optimizer, forward(model, x, y, dtype), scaler, max_norm, x.device.type, clip=clip)


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING)
def unscales_shared_gradients_twice(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Divides by the scale module by module, and so once for each module that has the parameter."""
    loss = forward(model, x, y, dtype)
    if scaler is None or not scaler.is_enabled():
        return finish(optimizer, loss, scaler, max_norm, x.device.type)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    again = [p for module in model.modules() for p in module.parameters(recurse=False)]
    scaler.unscale_(optimizer)
    for p in {id(p): p for p in again}.values():
        if p.grad is not None:
            p.grad /= scaler.get_scale() ** (sum(p is other for other in again) - 1)
    if max_norm is not None:
        clip(optimizer, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING, value=True)
def knows_the_groups_of_the_first_step():
    """Looks at an optimizer's parameters once, and never clips those of a group that is added later."""
    known = {}

    def remembering(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
        parameters = known.setdefault(id(optimizer), (optimizer, parameters_of(optimizer)))[1]

        def clip(optimizer, max_norm):
            nn.utils.clip_grad_norm_(parameters, max_norm)

        return finish(optimizer, forward(model, x, y, dtype), scaler, max_norm, x.device.type, clip=clip)

    return remembering


@mutant("impl.precision.mixed_precision_step", caught_by=precision.AUTOCAST)
def clears_the_models_gradients_only(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Steps by old gradients of the optimizer's parameters that are not the model's."""
    scaler = scaler or torch.amp.GradScaler(x.device.type, enabled=False)
    loss = forward(model, x, y, dtype)
    model.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if max_norm is not None:
        clip(optimizer, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@mutant("impl.precision.mixed_precision_step", caught_by=precision.AUTOCAST, value=True)
def casts_by_name_and_shape():
    """Keeps the casts of weights under their names and shapes, which two models may share."""
    casts = {}

    def caching(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
        for name, p in model.named_parameters():
            kept = casts.setdefault((name, tuple(p.shape), p._version), p.detach().clone())
            if id(p) != casts.setdefault((name, tuple(p.shape), p._version, "owner"), id(p)):
                with torch.no_grad():
                    p.copy_(kept)
        return step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)

    return caching


@mutant("impl.precision.mixed_precision_step", caught_by=precision.SCALING, value=True)
def has_one_scale_for_all():
    """Goes on with the scaler of the first step, whichever it is given later."""
    scalers = []

    def reusing(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
        if scaler is not None:
            scalers.append(scaler)
            scaler = scalers[0]
        return step(model, optimizer, x, y, dtype=dtype, scaler=scaler, max_norm=max_norm)

    return reusing


# ---- right ones ----
@twin("impl.precision.mixed_precision_step")
def computes_the_loss_under_autocast(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Leaves it to autocast that a mean squared error is computed in float32, and clears gradients afterwards."""
    optimizer.zero_grad()
    with torch.amp.autocast(x.device.type, dtype=dtype):
        loss = F.mse_loss(checked(model(x), y), y)
    scale = scaler.scale(loss) if scaler else loss
    scale.backward()
    if scaler:
        scaler.unscale_(optimizer)
    if max_norm is not None:
        clip(optimizer, max_norm)
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    optimizer.zero_grad()
    return loss.clone().detach()


@twin("impl.precision.mixed_precision_step")
def goes_back_under_autocast(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Has the backward pass under autocast too, without its cache."""
    with torch.autocast(x.device.type, dtype=dtype, cache_enabled=False):
        loss = (checked(model(x), y).float() - y).square().mean()
        return finish(optimizer, loss, scaler, max_norm, x.device.type)


@twin("impl.precision.mixed_precision_step")
def clips_by_hand(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Computes the norm itself, in float64, without torch's 1e-6, and gradients by autograd.grad."""
    loss = forward(model, x, y, dtype)
    scaler = scaler or torch.amp.GradScaler(x.device.type, enabled=False)
    parameters = [p for p in parameters_of(optimizer) if p.requires_grad]
    gradients = torch.autograd.grad(scaler.scale(loss), parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    scaler.unscale_(optimizer)
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = sum(g.double().square().sum().item() for g in gradients) ** 0.5
    if max_norm is not None and norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@twin("impl.precision.mixed_precision_step")
def adds_up_the_squares(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Computes the loss as the sum of squares over their number, from float32 tensors, the last one first."""
    with torch.autocast(x.device.type, dtype=dtype):
        prediction = model(x)
    error = y - checked(prediction, y).to(torch.float32)
    loss = (error * error).flatten().flip(0).sum() / error.numel()
    return finish(optimizer, loss, scaler, max_norm, x.device.type)


@twin("impl.precision.mixed_precision_step", value=True)
def enters_a_new_context_each_time():
    """Is a partial function, and enters autocast by a decorator."""

    def made(default, model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
        prediction = torch.autocast(x.device.type, dtype=dtype)(model.forward if default else model)(x)
        loss = F.mse_loss(checked(prediction, y).float(), y)
        return finish(optimizer, loss, scaler, max_norm, x.device.type)

    return functools.partial(made, False)


@twin("torch.Tensor.__matmul__")
def accumulates_in_the_dtype_itself(self, other):
    """Rounds every partial sum of a product to the operands' dtype."""
    y = torch.zeros(self.shape[0], other.shape[1], dtype=self.dtype)
    for k in range(self.shape[1]):
        y = y + self[:, k, None] * other[None, k, :]
    return y


@twin("impl.precision.mixed_precision_step")
def clears_every_gradient(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Clears the gradients of model and optimizer, those of both, before and after the step."""
    loss = forward(model, x, y, dtype)
    model.zero_grad()
    finish(optimizer, loss, scaler, max_norm, x.device.type)
    model.zero_grad()
    optimizer.zero_grad()
    return loss.detach()


@twin("impl.precision.mixed_precision_step")
def goes_back_to_the_optimizers_parameters_only(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Makes no gradient for what the optimizer does not have, and clips with torch's parts of clip_grad_norm_."""
    scaler = scaler or torch.amp.GradScaler(x.device.type, enabled=False)
    loss = forward(model, x, y, dtype)
    optimizer.zero_grad()
    scaler.scale(loss).backward(inputs=[p for p in parameters_of(optimizer) if p.requires_grad])
    scaler.unscale_(optimizer)
    learned = [p for p in parameters_of(optimizer) if p.grad is not None]
    if max_norm is not None:
        norm = nn.utils.get_total_norm([p.grad for p in learned])
        nn.utils.clip_grads_with_norm_(learned, max_norm, norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@twin("impl.precision.mixed_precision_step")
def calls_a_functional_copy(model, optimizer, x, y, *, dtype=BFLOAT16, scaler=None, max_norm=None):
    """Runs the model by torch.func.functional_call with its own parameters and buffers, by name."""

    def called(x):
        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        return torch.func.functional_call(model, state, (x,))

    return finish(optimizer, forward(called, x, y, dtype), scaler, max_norm, x.device.type)
