"""§3.6: the training loop, SGD on the mean squared error."""

import math
import sys
import time
from collections.abc import Callable
from operator import index
from typing import NamedTuple, SupportsFloat, SupportsIndex

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from .model import Cruncher
from .optimizer import SGD

__all__ = ["TrainingRun", "train"]


class TrainingRun(NamedTuple):
    """The result of a training run: the loss of each batch before the step on it, and the trained model."""

    losses: list[float]
    model: nn.Module


def train(
    get_batch: Callable[[int], tuple[Tensor, Tensor]],
    *,
    dim: SupportsIndex,
    num_layers: SupportsIndex,
    batch_size: SupportsIndex,
    steps: SupportsIndex,
    lr: SupportsFloat,
    device: torch.device | str = "cpu",
) -> TrainingRun:
    """Train a new `model.Cruncher(dim, num_layers)` by SGD, w ← w − lr·gradient, on the mean squared error.

    Once per step `get_batch(batch_size)` is called. It returns inputs, (batch_size, dim), and targets, (batch_size,),
    which are left as they are, and moved to `device`, where the model is. The loss is the mean of (prediction −
    target)² over the batch; each step takes the gradient of its own batch's loss alone. With 0 steps the model is as it
    started out, drawn from torch's own random stream, which is not seeded; with `num_layers` 0 it is the head alone.

    While a longer run lasts, a line on standard error shows how far it is, if that is a terminal.

    Returns the losses, one float per step, each from before the step, and the model. Raises ValueError for a negative
    size, number of steps or learning rate, a batch size of 0, a learning rate that is not finite, and a batch of other
    shapes; TypeError for a size or number of steps that is not an integer.
    """
    batch_size, steps = index(batch_size), index(steps)
    if batch_size < 1 or steps < 0:
        raise ValueError(f"a run takes at least one point and no less than 0 steps, not {batch_size} and {steps}")
    if not math.isfinite(lr) or float(lr) < 0:
        raise ValueError(f"the learning rate is negative or not finite: {lr}")
    model = Cruncher(dim, num_layers).to(device)
    optimizer = SGD(model.parameters(), lr=lr)
    losses: list[float] = []
    show = _progress(steps)
    for _ in range(steps):
        x, y = get_batch(batch_size)
        if x.shape != (batch_size, dim) or y.shape != (batch_size,):
            raise ValueError(f"the batch has shapes {tuple(x.shape)} and {tuple(y.shape)}")
        loss = mse_loss(model(x.to(device)), y.to(device))
        losses.append(loss.item())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        show(losses)
    return TrainingRun(losses, model)


def _progress(steps: int, *, pause: float = 0.5) -> Callable[[list[float]], None]:
    """Return a function that rewrites a line on a terminal, at most once per `pause` seconds, and ends one it began."""
    shown, begun = time.monotonic(), False

    def show(losses: list[float]) -> None:
        nonlocal shown, begun
        last = len(losses) == steps
        if (time.monotonic() - shown > pause or (begun and last)) and sys.stderr.isatty():
            shown, begun = time.monotonic(), True
            line = f"\rstep {len(losses)} of {steps}: loss {losses[-1]:<12.6g}"
            print(line, end="\n" if last else "", file=sys.stderr, flush=True)

    return show
