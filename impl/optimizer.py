"""§3.5: two optimizers, SGD and AdaGrad."""

import math
from collections.abc import Callable, Iterator
from typing import Any, SupportsFloat

import torch
from torch import Tensor

__all__ = ["SGD", "AdaGrad"]


class SGD(torch.optim.Optimizer):
    """Stochastic gradient descent: p ← p − lr·g, for each parameter p with gradient g.

    It is a torch.optim.Optimizer. `params` are parameters, or groups of them, which may have an `lr` of their own.
    `step()` moves each parameter once, in place, by its group's present `lr`. It changes no gradient, and skips
    parameters whose gradient is None. `step(closure)` first calls `closure()` once, with gradients enabled, and returns
    its loss; `step()` returns None. SGD keeps no tensor of a parameter's size in `state`. `add_param_group`,
    `zero_grad`, `state_dict`, `load_state_dict`, copies, hooks and schedulers work as with torch's own optimizers.

    Raises ValueError for an `lr` that is negative or not finite, also that of a group in `params`; RuntimeError for a
    complex parameter or a sparse gradient, at the latest in `step()`, with a message that says so, and leaves that
    parameter as it was.
    """

    def __init__(self, params: Any, lr: SupportsFloat = 0.01) -> None:
        super().__init__(params, {"lr": lr})
        _check(self)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = _loss(closure)
        for group in self.param_groups:
            for p, gradient in _gradients(group):
                p.sub_(gradient, alpha=group["lr"])
        return loss


class AdaGrad(torch.optim.Optimizer):
    """AdaGrad: G ← G + g², then p ← p − lr·g/√(G + eps), for each element of a parameter p with gradient g.

    G starts at 0. It is `state[p]["g2"]`, of p's shape, which may be missing before p's first step; `state_dict()` and
    `load_state_dict()` save and restore it. `eps` is inside the root, and a group may have its own. In all else AdaGrad
    is like `SGD`.

    Raises ValueError for an `eps` that is negative or not finite, and what `SGD` raises.
    Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods for Online Learning and Stochastic Optimization,
    Journal of Machine Learning Research 12 (2011), Figure 1, with a diagonal matrix; there, δ is added to the root.
    """

    def __init__(self, params: Any, lr: SupportsFloat = 0.01, eps: SupportsFloat = 1e-5) -> None:
        super().__init__(params, {"lr": lr, "eps": eps})
        _check(self)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = _loss(closure)
        for group in self.param_groups:
            for p, gradient in _gradients(group):
                state = self.state[p]
                if "g2" not in state:
                    state["g2"] = torch.zeros_like(p)
                g2 = state["g2"].addcmul_(gradient, gradient)
                p.addcdiv_(gradient, (g2 + group["eps"]).sqrt_(), value=-group["lr"])
        return loss


def _check(optimizer: torch.optim.Optimizer) -> None:
    for group in (optimizer.defaults, *optimizer.param_groups):
        for name in ("lr", "eps"):
            if not 0 <= group.get(name, 0) < math.inf:
                raise ValueError(f"{name} is negative or not finite: {group[name]}")


def _loss(closure: Callable[[], Any] | None) -> Any:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _gradients(group: dict[str, Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each parameter of a group that has a gradient, and the gradient."""
    for p in group["params"]:
        if p.grad is not None:
            if p.is_complex():
                raise RuntimeError(f"a parameter of shape {tuple(p.shape)} is complex, and only real ones have a step")
            if p.grad.layout is not torch.strided:
                raise RuntimeError(f"a gradient of shape {tuple(p.shape)} is sparse, and only dense ones are a step")
            yield p, p.grad
