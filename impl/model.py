"""§3.2: a deep linear network, and how many parameters it has."""

from operator import index
from typing import SupportsIndex

from torch import Generator, Tensor, nn

from .parameters import scaled_normal

__all__ = ["Cruncher", "Linear", "count_parameters"]


class Linear(nn.Module):
    """A linear layer without bias, (…, inputs) → (…, outputs): x @ weight, with weight of shape (inputs, outputs).

    Any leading dimensions do, none included; an x of another width is refused, as torch's product does it.

    The weight is a `parameters.scaled_normal` of torch's default dtype, drawn from `generator` or else from torch's own
    random stream. Raises ValueError for a negative size, TypeError for one that is not an integer.
    """

    weight: nn.Parameter

    def __init__(self, inputs: SupportsIndex, outputs: SupportsIndex, *, generator: Generator | None = None) -> None:
        super().__init__()
        self.weight = scaled_normal(inputs, outputs, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


class Cruncher(nn.Module):
    """`num_layers` linear layers of dim to dim and a head of dim to 1, with nothing between: (B, dim) → (B,).

    The parameters are layers.0.weight to layers.{num_layers − 1}.weight and final.weight, all of them `Linear` weights
    that are drawn independently from `generator`, or else from torch's own random stream. B may be 0, and so may
    num_layers. Raises ValueError for a negative size, TypeError for one that is not an integer.
    """

    layers: nn.ModuleList
    final: Linear

    def __init__(self, dim: SupportsIndex, num_layers: SupportsIndex, *, generator: Generator | None = None) -> None:
        super().__init__()
        if index(num_layers) < 0:
            raise ValueError(f"num_layers {num_layers} is negative")
        self.layers = nn.ModuleList([Linear(dim, dim, generator=generator) for _ in range(num_layers)])
        self.final = Linear(dim, 1, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        y: Tensor = self.final(x)
        return y.squeeze(-1)


def count_parameters(module: nn.Module) -> int:
    """Return how many numbers a module's parameters hold, frozen ones too; a parameter that is shared counts once."""
    return sum(parameter.numel() for parameter in module.parameters())
