"""§3.8: the forward pass in low precision, everything else in float32."""

from typing import Any, SupportsFloat

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["mixed_precision_step"]


def mixed_precision_step(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    *,
    dtype: torch.dtype = torch.bfloat16,
    scaler: Any = None,
    max_norm: SupportsFloat | None = None,
) -> Tensor:
    """Make one training step with products in `dtype`, and return the loss before it: float32, a scalar, detached.

    The model, on the device of x, computes its prediction under autocast, which then is left: the next step casts the
    weights anew. The loss is the mean squared error in float32 between the prediction and y, of one shape. Gradients of
    earlier steps do not count. Parameters, gradients and the optimizer's state stay float32.

    With a `scaler`, a torch.amp.GradScaler, the loss is scaled on its way back, so that small float16 gradients last;
    where a gradient overflows, the step is left out and the scale lowered. The scaler is updated once in both cases.
    Without one nothing is scaled. With `max_norm`, the gradients of all the optimizer's parameters are scaled down
    together where their Euclidean norm, after unscaling, is larger. The order is scale, backward, unscale, clip, step,
    update. Where none of the optimizer's parameters gets a gradient, no step is made and the scaler stays as it is.

    Raises ValueError, and makes no step, where the shapes of prediction and y differ; RuntimeError where the loss
    depends on nothing that requires a gradient, as under torch.no_grad().
    Source: Micikevicius et al., Mixed Precision Training (2018), arXiv:1710.03740.
    """
    if scaler is None:
        scaler = torch.amp.GradScaler(x.device.type, enabled=False)  # A disabled scaler changes nothing.
    with torch.autocast(x.device.type, dtype=dtype):
        prediction = model(x)
    if prediction.shape != y.shape:
        raise ValueError(f"a prediction of shape {tuple(prediction.shape)} for y of shape {tuple(y.shape)}")
    loss = F.mse_loss(prediction.float(), y.float())
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if all(parameter.grad is None for parameter in parameters):
        return loss.detach()  # A scaler refuses a step without gradients: "No inf checks were recorded".
    if max_norm is not None:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(parameters, float(max_norm))
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()
