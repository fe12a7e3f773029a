"""Matrix products under control: each is counted, and takes as long as it is told to."""

import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

PRODUCTS = {
    *("__matmul__", "__rmatmul__", "matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "mv", "addmv", "dot", "vdot"),
    *("inner", "linear", "einsum", "tensordot", "chain_matmul", "multi_dot", "linalg_multi_dot", "linalg_matmul"),
    *("_int_mm", "_scaled_mm", "addmm_", "addbmm_", "baddbmm_", "addmv_"),
}


class Pace(TorchFunctionMode):
    """Counts the matrix products that this thread asks torch for, by whichever of its functions, and slows them down.

    The i-th takes seconds[i] more than it does anyway, and after the last it begins again.
    """

    def __init__(self, seconds: Sequence[float]) -> None:
        super().__init__()
        self.seconds = seconds
        self.results: list[tuple[int, torch.dtype]] = []  # of the products so far: how many values, of which dtype
        self.taken: list[float] = []  # the seconds of each, which a sleep may exceed

    @property
    def products(self) -> int:
        return len(self.results)

    def count(self, values: int, dtype: torch.dtype) -> int:
        """Return how many of the products had so many values of that dtype."""
        return self.results.count((values, dtype))

    def slowest(self, number: int) -> float:
        """Return the mean seconds of so many products, those that took longest."""
        return statistics.fmean(sorted(self.taken)[-number:] or [0.0])

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "").split(".")[0] in PRODUCTS:  # an operator's overload is called mm.default
            delay = self.seconds[self.products % len(self.seconds)]
            self.results.append((result.numel(), result.dtype))
            if delay:
                time.sleep(delay)
            self.taken.append(time.perf_counter() - start)
        return result
