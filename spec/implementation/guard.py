"""What an implementation must leave as it found it: torch's global state, random streams, and standard output."""

import contextlib
import io
import os
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

MIXED = "a mixture of both interfaces"


def matmul_precision() -> str:
    """Return how products of float32 may be rounded; torch refuses to say where its two interfaces disagree."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return MIXED


def _set_matmul_precision(precision: str) -> None:
    if precision != MIXED:
        torch.set_float32_matmul_precision(precision)


def _set_default_device(device: torch.device) -> None:
    # None rather than "cpu", which is another state: a mode that slows down every later call.
    torch.set_default_device(None if device.type == "cpu" else device)


def _flushes_denormals() -> bool:
    return sys.float_info.min * sys.float_info.epsilon == 0


def _folder() -> str:
    with contextlib.suppress(FileNotFoundError):  # it may have been deleted
        return os.getcwd()
    return "a folder that is gone"


# Each setting under the name that a message uses: how to read it, and how to put it back.
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "torch's grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's default device": (torch.get_default_device, _set_default_device),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's deterministic mode": (
        lambda: ("default", "warn", "error")[torch.get_deterministic_debug_mode()],
        torch.set_deterministic_debug_mode,
    ),
    "torch's float32 precision": (
        lambda: getattr(torch.backends, "fp32_precision", "none"),
        lambda old: setattr(torch.backends, "fp32_precision", old),
    ),
    "torch's float32 matmul precision": (matmul_precision, _set_matmul_precision),
    "torch's autocast": (torch.is_autocast_enabled, torch.set_autocast_enabled),
    "torch's autocast on the CPU": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda old: torch.set_autocast_enabled("cpu", old),
    ),
    "torch's flushing of denormal numbers": (_flushes_denormals, torch.set_flush_denormal),
    "the working folder": (_folder, os.chdir),
}

# Each stream of random numbers: how to read its state as something that compares, and how to put it back.
STREAMS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "torch's": (
        lambda: torch.get_rng_state().numpy().tobytes(),
        lambda old: torch.set_rng_state(torch.frombuffer(bytearray(old), dtype=torch.uint8)),
    ),
    "NumPy's": (lambda: pickle.dumps(np.random.get_state()), lambda old: np.random.set_state(pickle.loads(old))),
    "Python's": (random.getstate, random.setstate),
}


class _Tee(io.StringIO):
    """Keeps what is written and passes it on, so that a student still sees their own print."""

    def __init__(self, out: Any) -> None:
        super().__init__()
        self.out: Any = out.out if isinstance(out, _Tee) else out  # what is caught inside is not caught again outside

    def write(self, text: str) -> int:
        self.out.write(text)
        return super().write(text)

    def close(self) -> None:
        """Stay open: an implementation may close its standard output, but not ours."""


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """Run the body, restore torch's global state, and fill the list with what the body left changed or printed."""
    before = {name: read() for name, (read, _) in SETTINGS.items()}
    drawn = {name: read() for name, (read, _) in STREAMS.items()}
    left: list[str] = []
    printed = _Tee(sys.stdout)
    try:
        with contextlib.redirect_stdout(printed):
            yield left
    finally:
        for name, (read, restore) in SETTINGS.items():
            if (new := read()) != before[name]:
                left.append(f"left {name} changed from {before[name]} to {new}")
                restore(before[name])
        for name, (read, restore) in STREAMS.items():
            if read() != drawn[name]:
                left.append(f"left {name} random state changed: draw from a generator of your own")
                restore(drawn[name])
        if text := printed.getvalue().strip():
            left.append(f"printed {text.splitlines()[0]!r} to standard output: return values, do not print")
