"""Counts the scalar operations of a real computation, with numbers that count the arithmetic they take part in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Operations:
    """How often numbers were added (or subtracted), multiplied and divided, and the result."""

    additions: int = 0
    multiplications: int = 0
    divisions: int = 0
    result: Any = None

    @property
    def total(self) -> int:
        """The FLOPs: every one of these operations."""
        return self.additions + self.multiplications + self.divisions


class Counted:
    """A number that counts the arithmetic it takes part in, with another Counted or with a plain number."""

    __slots__ = ("operations", "value")

    def __init__(self, value: Any, operations: Operations) -> None:
        self.value = value
        self.operations = operations

    def __add__(self, other: Any) -> "Counted":
        self.operations.additions += 1
        return Counted(self.value + _value(other), self.operations)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Counted":
        self.operations.additions += 1
        return Counted(self.value - _value(other), self.operations)

    def __rsub__(self, other: Any) -> "Counted":
        self.operations.additions += 1
        return Counted(_value(other) - self.value, self.operations)

    def __mul__(self, other: Any) -> "Counted":
        self.operations.multiplications += 1
        return Counted(self.value * _value(other), self.operations)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Counted":
        self.operations.divisions += 1
        return Counted(self.value / _value(other), self.operations)

    def __rtruediv__(self, other: Any) -> "Counted":
        self.operations.divisions += 1
        return Counted(_value(other) / self.value, self.operations)

    def __neg__(self) -> "Counted":
        """Flip the sign, which is no addition: only a bit changes."""
        return Counted(-self.value, self.operations)


def count_operations(compute: Callable[..., Any], *arguments: Any) -> Operations:
    """Run `compute` on object arrays of counted numbers made from the arguments (arrays, or nested lists of one depth).

    NumPy's own functions and operators run on such arrays: `count_operations(np.matmul, x, w)`. The result comes
    back as plain numbers.
    """
    operations = Operations()
    counted = np.frompyfunc(lambda value: Counted(value, operations), 1, 1)
    result = compute(*(counted(np.asarray(argument, dtype=object)) for argument in arguments))
    operations.result = np.frompyfunc(_value, 1, 1)(result)
    return operations


def _value(number: Any) -> Any:
    return number.value if isinstance(number, Counted) else number
