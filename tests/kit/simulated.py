"""A machine made up: its clock goes on by what a model says that the work takes, so that no real machine decides."""

import time
import timeit
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import impl.throughput
from spec.hardware import processors
from spec.instruments import timer
from spec.instruments.pace import PRODUCTS

READING = 1e-8  # seconds until the clock has been read
CALL = 1e-4  # seconds of any call of torch's, before its work
# FLOP/s of products, so few that a CPU's promise is above them and a small product far longer than its call.
RATES = {torch.float64: 5e8, torch.float32: 1e9, torch.bfloat16: 2e9, torch.float16: 2e9}
BANDWIDTH = 1e9  # bytes per second along a storage
ACROSS = 4  # times as long where a tensor is not read or written along its storage
UNITS = {
    "processor": "0",
    "vendor_id": "AuthenticAMD",
    "cpu family": "26",
    "flags": "fma avx2 avx512f avx512_bf16",
}


class Machine(TorchFunctionMode):
    """One core that is busy with each call of torch's for as long as the model says, and idle while a thread sleeps."""

    def __init__(self, rates: dict[torch.dtype, float] = RATES) -> None:
        super().__init__()
        self.rates = rates
        self.now = 0.0
        self.busy = 0.0  # how much of that the core computes

    def clock(self) -> float:
        self.work(READING)
        return self.now

    def processor_clock(self) -> float:
        self.work(READING)
        return self.busy

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.busy += seconds

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Tensor)]
        if getattr(func, "__name__", "").split(".")[0] in PRODUCTS:
            self.work(CALL + self.product(given, result))
        elif isinstance(result, torch.Tensor) and (not result._is_view() or any(result is value for value in given)):
            self.work(CALL + self.passes([*given, result]))
        return result  # views, and what is asked of a tensor, take no time

    def product(self, given: list[torch.Tensor], result: torch.Tensor) -> float:
        """Return the seconds of a product of two matrices: (m·k · k·n · m·n) = (m·k·n)²."""
        a, b = given[:2]
        multiplications = (a.numel() * b.numel() * result.numel()) ** 0.5
        return 2 * multiplications / self.rates[a.dtype]

    def passes(self, tensors: list[torch.Tensor]) -> float:
        """Return the seconds in which each of the tensors is gone through once."""
        return sum(tensor.nbytes / BANDWIDTH * (1 if tensor.is_contiguous() else ACROSS) for tensor in tensors)


def install(machine: Machine) -> None:
    """Let this machine's clock, processor and speed be all that is seen, for the rest of this process."""
    for owner, name in ((time, "perf_counter"), (time, "monotonic"), (timer, "clock"), (timeit, "default_timer")):
        setattr(owner, name, machine.clock)
    impl.throughput.perf_counter = machine.clock  # type: ignore[attr-defined]
    time.process_time = machine.processor_clock
    for name in ("perf_counter", "monotonic", "process_time"):
        setattr(time, f"{name}_ns", _nanoseconds(getattr(time, name)))
    time.sleep = machine.sleep
    processors.cpuinfo = lambda: [UNITS]
    processors.restricted = lambda: False
    processors.clock_rate = lambda: 3e9
    machine.__enter__()


def _nanoseconds(clock: Callable[[], float]) -> Callable[[], int]:
    return lambda: round(clock() * 1e9)
