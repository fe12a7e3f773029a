"""What an implementation must leave as it found it: torch's settings, the process's, random streams, standard output.

Two tables say what is watched, each setting with how to read it and how to put it back. What torch computes with is
judged always. Settings of the whole process are judged unless a module was imported meanwhile: importing a library sets
warning filters, environment variables and the like, for which nobody else is to blame.
"""

import contextlib
import decimal
import gc
import io
import locale
import logging
import os
import pickle
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from spec.implementation import checkers

MIXED = "a mixture of both interfaces"
UNSET = "unset"
LONGEST = 80  # characters of a value in a message
Settings = Mapping[str, tuple[Callable[[], Any], Callable[[Any], object]]]


def _read(read: Callable[[], Any]) -> Any:
    """Read a precision; torch refuses to say it where its older and its newer interface disagree."""
    try:
        return read()
    except RuntimeError:
        return MIXED


def matmul_precision() -> str:
    """Return how products of float32 may be rounded."""
    return str(_read(torch.get_float32_matmul_precision))


def _set_matmul_precision(precision: str) -> None:
    if precision != MIXED:
        torch.set_float32_matmul_precision(precision)


def _set_default_device(device: torch.device) -> None:
    # None rather than "cpu", which is another state: a mode that slows down every later call.
    torch.set_default_device(None if device.type == "cpu" else device)


def _autocast_nesting() -> int:
    """Return how many autocast blocks are open; torch tells it only to who opens or closes one."""
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


def _restore_autocast_nesting(old: int) -> None:
    """Close the blocks that were left open: until the last is closed, torch reuses casts of weights that have moved."""
    while _autocast_nesting() > old:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
    while _autocast_nesting() < old:
        torch.autocast_increment_nesting()


def _flushes_denormals() -> bool:
    return sys.float_info.min * sys.float_info.epsilon == 0


def _folder() -> str:
    with contextlib.suppress(FileNotFoundError):  # it may have been deleted
        return os.getcwd()
    return "a folder that is gone"


def _attribute(owner: Any, path: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Return how to read and set an attribute that is a setting; None stands for one that this build lacks."""
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent, None)

    def restore(old: Any) -> None:
        if old is not None and old != MIXED:
            setattr(owner, name, old)

    return partial(_read, partial(getattr, owner, name, None)), restore


# ---- what torch computes with ----

# Settings of torch.backends, outer ones first: setting an outer float32 precision sets those within it as well.
BACKENDS = (
    "cudnn.allow_tf32",
    "cudnn.fp32_precision",
    "mkldnn.fp32_precision",
    "cuda.matmul.fp32_precision",
    "cudnn.conv.fp32_precision",
    "cudnn.rnn.fp32_precision",
    "mkldnn.matmul.fp32_precision",
    "mkldnn.conv.fp32_precision",
    "mkldnn.rnn.fp32_precision",
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
    "cuda.matmul.allow_fp16_accumulation",
    "cudnn.enabled",
    "cudnn.benchmark",
    "cudnn.benchmark_limit",
    "cudnn.deterministic",
    "mkldnn.enabled",
    "mkldnn.deterministic",
    "opt_einsum.enabled",
    "opt_einsum.strategy",
)

# The ways of computing attention, by the name that torch.backends.cuda gives their switches.
ATTENTION = {
    "flash": "enable_flash_sdp",
    "mem_efficient": "enable_mem_efficient_sdp",
    "math": "enable_math_sdp",
    "cudnn": "enable_cudnn_sdp",
}

TORCH: Settings = {
    "torch's grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's default device": (torch.get_default_device, _set_default_device),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's deterministic mode": (
        lambda: ("default", "warn", "error")[torch.get_deterministic_debug_mode()],
        torch.set_deterministic_debug_mode,
    ),
    "torch's filling of uninitialized memory": _attribute(torch.utils.deterministic, "fill_uninitialized_memory"),
    "torch's float32 precision": _attribute(torch.backends, "fp32_precision"),
    "torch's float32 matmul precision": (matmul_precision, _set_matmul_precision),
    "torch's autocast": (torch.is_autocast_enabled, torch.set_autocast_enabled),
    "torch's autocast on the CPU": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda old: torch.set_autocast_enabled("cpu", old),
    ),
    "torch's dtype of autocast on the CPU": (
        lambda: torch.get_autocast_dtype("cpu"),
        lambda old: torch.set_autocast_dtype("cpu", old),
    ),
    "torch's cache of autocast": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    "torch's nesting of autocast": (_autocast_nesting, _restore_autocast_nesting),
    "torch's anomaly detection": (
        lambda: torch.is_anomaly_enabled() and ("with" if torch.is_anomaly_check_nan_enabled() else "without") + " NaN",
        lambda old: torch.set_anomaly_enabled(bool(old), old != "without NaN"),
    ),
    "torch's flushing of denormal numbers": (_flushes_denormals, torch.set_flush_denormal),
    **{f"torch.backends.{path}": _attribute(torch.backends, path) for path in BACKENDS},
    **{
        f"torch's {name} attention": (
            getattr(torch.backends.cuda, f"{name}_sdp_enabled"),
            getattr(torch.backends.cuda, switch),
        )
        for name, switch in ATTENTION.items()
    },
    "torch's attention in 16 bits": (
        torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed,
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp,
    ),
    "torch's fast path of attention": (
        torch.backends.mha.get_fastpath_enabled,
        torch.backends.mha.set_fastpath_enabled,
    ),
    "the working folder": (_folder, os.chdir),
}


# ---- what belongs to the whole process ----

# Variables that right code sets without a word and that change nothing in this process: PYTHONHASHSEED is for processes
# to come, the others torch sets for itself on the first use of a device, of the profiler or of the compiler.
TOLERATED = (
    "PYTHONHASHSEED",
    "CUDA_MODULE_LOADING",
    "DISABLE_CUPTI_LAZY_REINIT",
    "TEARDOWN_CUPTI",
    "CUDA_HOME",
    "KMP_DUPLICATE_LIB_OK",
    "TORCH_WARM_POOL",
    "TORCHINDUCTOR_CACHE_DIR",
    "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR",
    "TRITON_CACHE_DIR",
    "TRITON_LIBDEVICE_PATH",
    "TRITON_PTXAS_PATH",
)

# Signals that programs handle; asking for all of them takes 30 µs.
HANDLED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGCHLD", "SIGPIPE", "SIGUSR1", "SIGUSR2")
SIGNALS = [signal.Signals[name] for name in HANDLED if name in signal.Signals.__members__]
DECIMALS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def _variables() -> dict[Any, Any]:
    """Return the environment that is judged; what lies beneath os.environ is read at once, decoding takes 30 µs."""
    variables = dict(getattr(os.environ, "_data", os.environ))
    for name in TOLERATED:
        variables.pop(name, None)
        variables.pop(os.fsencode(name), None)
    return variables


def _restore_variables(old: Mapping[Any, Any]) -> None:
    for key in {**old, **(new := _variables())}:
        if key not in old:
            del os.environ[os.fsdecode(key)]
        elif new.get(key) != old[key]:
            os.environ[os.fsdecode(key)] = os.fsdecode(old[key])


def _restore_filters(old: list[Any]) -> None:
    warnings.resetwarnings()  # also forgets which warnings were shown under the changed filters
    warnings.filters[:] = old  # type: ignore[index]


def _handlers() -> dict[str, Any]:
    return {name.name: signal.getsignal(name) for name in SIGNALS}


def _restore_handlers(old: Mapping[str, Any]) -> None:
    for name, handler in old.items():
        if handler is not None and signal.getsignal(signal.Signals[name]) is not handler:
            with contextlib.suppress(ValueError):  # only the main thread may set one
                signal.signal(signal.Signals[name], handler)


def _restore_decimals(old: Mapping[str, Any]) -> None:
    for name, value in old.items():
        setattr(decimal.getcontext(), name, value)


PROCESS: Settings = {
    "sys.stdout": _attribute(sys, "stdout"),
    "sys.stderr": _attribute(sys, "stderr"),
    "sys.stdin": _attribute(sys, "stdin"),
    "sys.excepthook": _attribute(sys, "excepthook"),
    "sys.unraisablehook": _attribute(sys, "unraisablehook"),
    "sys.displayhook": _attribute(sys, "displayhook"),
    "threading.excepthook": _attribute(threading, "excepthook"),
    "sys.path": (lambda: list(sys.path), lambda old: sys.path.__setitem__(slice(None), old)),
    "the recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "the switch interval of threads": (sys.getswitchinterval, sys.setswitchinterval),
    "the longest integer that is shown": (sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    "the garbage collector's state": (gc.isenabled, lambda old: gc.enable() if old else gc.disable()),
    "the environment": (_variables, _restore_variables),
    "the handlers of signals": (_handlers, _restore_handlers),
    "the warning filters": (lambda: list(warnings.filters), _restore_filters),
    "warnings.showwarning": _attribute(warnings, "showwarning"),
    "the level of logging": (lambda: logging.root.level, logging.root.setLevel),
    "logging's disabled level": (lambda: logging.root.manager.disable, logging.disable),
    "the locale": (lambda: locale.setlocale(locale.LC_ALL), lambda old: locale.setlocale(locale.LC_ALL, old)),
    "the decimal context": (
        lambda: {name: getattr(decimal.getcontext(), name) for name in DECIMALS},
        _restore_decimals,
    ),
    "NumPy's handling of floating-point errors": (np.geterr, lambda old: np.seterr(**old)),
    "NumPy's print options": (np.get_printoptions, lambda old: np.set_printoptions(**old)),
    "torch's print options": (
        lambda: dict(vars(torch._tensor_str.PRINT_OPTS)),
        lambda old: torch.set_printoptions(**old),  # type: ignore[no-untyped-call]
    ),
    "torch's repeating of warnings": (torch.is_warn_always_enabled, torch.set_warn_always),
}

# ---- streams of random numbers ----

# How to read each stream's state as something that compares, and how to put it back.
STREAMS: Settings = {
    "torch's": (
        lambda: torch.get_rng_state().numpy().tobytes(),
        lambda old: torch.set_rng_state(torch.frombuffer(bytearray(old), dtype=torch.uint8)),
    ),
    "NumPy's": (
        lambda: pickle.dumps(np.random.get_state(legacy=False)),
        lambda old: np.random.set_state(pickle.loads(old)),
    ),
    "Python's": (random.getstate, random.setstate),
}


class _Tee(io.StringIO):
    """Keeps what is written and passes it on, so that a student still sees their own print."""

    def __init__(self, out: Any) -> None:
        super().__init__()
        self.out: Any = out.out if isinstance(out, _Tee) else out  # Nested, one print counts once.
        here = threading.current_thread()
        self.strangers = {thread.ident for thread in threading.enumerate() if thread is not here}

    def write(self, text: str) -> int:
        self.out.write(text)
        # What threads from before print, another plugin's say, is nobody's that is judged here.
        return len(text) if threading.get_ident() in self.strangers else super().write(text)

    def close(self) -> None:
        """Stay open: an implementation may close its standard output, but not ours."""


@dataclass
class _Watch:
    """What `watched()` found when it began."""

    torch: dict[str, Any]
    process: dict[str, Any]
    streams: dict[str, Any]
    modules: int

    @classmethod
    def begin(cls) -> "_Watch":
        return cls(_readings(TORCH), _readings(PROCESS), _readings(STREAMS), len(sys.modules))

    def end(self, package: str) -> Iterator[str]:
        """Put back what has changed, and yield a line for each change that is judged."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of its older interfaces
            yield from _settled(TORCH, self.torch)
        imported = len(sys.modules) - self.modules
        if imported:
            _allow({name: new for name, new in _changes(PROCESS, self.process) if name != "sys.stdout"}, imported)
        else:
            yield from _settled(PROCESS, self.process)
        for name, _ in _changes(STREAMS, self.streams):
            if name != "Python's" or not checkers.draw_in(package):
                yield f"left {name} random state changed: draw from a generator of your own"
            STREAMS[name][1](self.streams[name])


_watches: list[_Watch] = []  # those that have begun and not ended, the innermost last


def _allow(settings: Mapping[str, Any], modules: int) -> None:
    """Let settings that were changed along with an import be as they are for the watches around this one, too."""
    for outer in _watches:
        outer.process.update(settings)
        outer.modules += modules


def _readings(table: Settings) -> dict[str, Any]:
    return {name: read() for name, (read, _) in table.items()}


def _changes(table: Settings, before: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, new) for name, (read, _) in table.items() if (new := read()) != before[name]]


def _settled(table: Settings, before: Mapping[str, Any]) -> Iterator[str]:
    for name, new in _changes(table, before):
        table[name][1](before[name])
        yield f"left {name} changed{_difference(before[name], new)}"


def _difference(old: Any, new: Any) -> str:
    """Say what has changed; of several values in one setting, which of them."""
    if isinstance(old, list):
        return ""
    if not isinstance(old, dict):
        return f" from {_shown(old)} to {_shown(new)}"
    keys = [key for key in {**old, **new} if old.get(key, UNSET) != new.get(key, UNSET)]
    parts = [f"{_shown(key)} from {_shown(old.get(key, UNSET))} to {_shown(new.get(key, UNSET))}" for key in keys]
    return ": " + ", ".join(parts)


def _shown(value: Any) -> str:
    text = os.fsdecode(value) if isinstance(value, bytes) else str(getattr(value, "__qualname__", value))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


@contextlib.contextmanager
def watched(package: str = "") -> Iterator[list[str]]:
    """Run the body, put back what it changed, and fill the list with what `package` left changed or printed in it."""
    left: list[str] = []
    printed = _Tee(sys.stdout)
    try:
        with contextlib.redirect_stdout(printed):
            watch = _Watch.begin()
            _watches.append(watch)
            try:
                yield left
            finally:
                _watches.remove(watch)
                left += watch.end(package)
    finally:
        if text := printed.getvalue().strip():
            left.append(f"printed {text.splitlines()[0]!r} to standard output: return values, do not print")
