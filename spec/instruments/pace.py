"""Matrix products under control: each one is counted, and made to take longer by a chosen time."""

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
    """Counts this thread's matrix products, whichever function of torch computes them, and slows them down.

    Product number i sleeps for seconds[i % len(seconds)]. `results` holds each product's number of values and dtype,
    `taken` the seconds that it took in all.
    """

    def __init__(self, seconds: Sequence[float]) -> None:
        super().__init__()
        self.seconds = seconds
        self.results: list[tuple[int, torch.dtype]] = []
        self.taken: list[float] = []

    @property
    def products(self) -> int:
        return len(self.results)

    def count(self, values: int, dtype: torch.dtype) -> int:
        """Return how many products had a result of this many values in this dtype."""
        return self.results.count((values, dtype))

    def slowest(self, number: int) -> float:
        """Return the mean seconds of the `number` slowest products."""
        return statistics.fmean(sorted(self.taken)[-number:] or [0.0])

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        # The overload of an operator is called mm.default: the part before the dot names the operator.
        if getattr(func, "__name__", "").split(".")[0] in PRODUCTS:
            delay = self.seconds[self.products % len(self.seconds)]
            self.results.append((result.numel(), result.dtype))
            if delay:
                time.sleep(delay)
            self.taken.append(time.perf_counter() - start)
        return result
