"""What an implementation must leave as it found it: torch's global state, and standard output."""

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Any

import torch


def state() -> dict[str, Any]:
    """Return torch's global state, under the names that a message uses."""
    return {
        "grad mode": torch.is_grad_enabled(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "number of threads": torch.get_num_threads(),
        "deterministic mode": torch.are_deterministic_algorithms_enabled(),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "random state": torch.get_rng_state(),
    }


def restore(before: dict[str, Any]) -> None:
    """Put torch's global state back."""
    torch.set_grad_enabled(before["grad mode"])
    torch.set_default_dtype(before["default dtype"])
    if torch.get_default_device() != before["default device"]:
        torch.set_default_device(before["default device"])
    if torch.get_num_threads() != before["number of threads"]:
        torch.set_num_threads(before["number of threads"])
    torch.use_deterministic_algorithms(before["deterministic mode"])
    if torch.get_float32_matmul_precision() != before["float32 matmul precision"]:
        torch.set_float32_matmul_precision(before["float32 matmul precision"])
    torch.set_rng_state(before["random state"])


class _Tee(io.StringIO):
    """Keeps what is written and passes it on, so that a student still sees their own print."""

    def __init__(self, out: Any) -> None:
        super().__init__()
        self.out = out

    def write(self, text: str) -> int:
        self.out.write(text)
        return super().write(text)


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """Run the body, restore torch's global state, and fill the list with what the body left changed or printed."""
    before = state()
    left: list[str] = []
    printed = _Tee(sys.stdout)
    try:
        with contextlib.redirect_stdout(printed):
            yield left
    finally:
        after = state()
        for name, old in before.items():
            new = after[name]
            if name == "random state":
                if not torch.equal(old, new):
                    left.append("left torch's random state changed: draw from a generator of your own")
            elif old != new:
                left.append(f"left torch's {name} changed from {old} to {new}")
        if left:
            restore(before)
        if text := printed.getvalue().strip():
            left.append(f"printed {text.splitlines()[0]!r} to standard output: return values, do not print")
