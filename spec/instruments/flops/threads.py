"""Lets the threads that a block starts be counted too, and says which threads ran beside it unseen.

A mode is in force in one thread. While a counter is open, a thread that is started from a counted one, and a task that
is handed to a pool of threads from there, take the mode along. Another thread that was there before the counter does
its work unseen; it is named unless the system says that it has not run.
"""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from typing import Any

from torch.utils import _python_dispatch as modes

from spec.instruments.flops.dispatch import Dispatch

COMPILED = "torch._inductor.output_code"
KERNELS = "torch.compile (what its own kernels compute)"
_LOCK = threading.Lock()
_OPEN: list[object] = []  # It holds the open blocks of all threads.
# Each entry says whose attribute was replaced, its name, what it was and what it is meanwhile.
_REPLACED: list[tuple[Any, str, Any, Any]] = []


def follow(block: object) -> None:
    """Take the modes along to threads and tasks, from now on."""
    with _LOCK:
        if not _OPEN:
            _replace(threading.Thread, "start", _starting)
            _replace(ThreadPoolExecutor, "submit", _submitting)
            if compiled := sys.modules.get(COMPILED):
                _replace(compiled.CompiledFxGraph, "__call__", _calling)
        _OPEN.append(block)


def _replace(owner: Any, name: str, wrapping: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    meanwhile = wrapping(original)
    setattr(owner, name, meanwhile)
    _REPLACED.append((owner, name, original, meanwhile))


def leave(block: object) -> None:
    """End it, when no other block is open."""
    with _LOCK:
        _OPEN.remove(block)
        while not _OPEN and _REPLACED:
            owner, name, original, meanwhile = _REPLACED.pop()
            if getattr(owner, name) is meanwhile:  # Otherwise somebody wrapped it, and it only passes on.
                setattr(owner, name, original)


def _starting(start: Callable[..., None]) -> Callable[..., None]:
    @wraps(start)
    def started(thread: threading.Thread) -> None:
        if counters := _counters():
            run, own = thread.run, "run" in vars(thread)

            def counted() -> None:
                if own:
                    thread.run = run  # type: ignore[method-assign]
                else:
                    del thread.run
                _with(counters, run)

            thread.run = counted  # type: ignore[method-assign]
        start(thread)

    return started


def _calling(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def called(graph: Any, *args: Any, **kwargs: Any) -> Any:
        for counter, _ in _counters():
            counter.list_uncounted(KERNELS)
        return call(graph, *args, **kwargs)

    return called


def has_compiled() -> bool:
    """Whether torch.compile has generated kernels in this process."""
    utils = sys.modules.get("torch._dynamo.utils")
    return COMPILED in sys.modules and utils is not None and any(utils.counters["inductor"].values())


def _submitting(submit: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(submit)
    def submitted(pool: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        counters = _counters()
        if not counters:
            return submit(pool, function, *args, **kwargs)
        return submit(pool, _with, counters, function, *args, **kwargs)

    return submitted


def _counters() -> list[Any]:
    """Return the counters that are in force in this thread, with the blocks that they are in."""
    stack = modes._get_current_dispatch_mode_stack()
    return [(each.counter, each.block) for each in stack if isinstance(each, Dispatch) and each.is_open]


def _with(counters: list[Any], function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in this thread under counters, those that are not in force here yet and are still open."""
    here = _counters()
    new = [Dispatch(counter) for counter, block in counters if counter.block is block and (counter, block) not in here]
    for mode in new:
        modes._push_mode(mode)
    try:
        return function(*args, **kwargs)
    finally:
        for _ in new:
            modes._pop_mode()


def clocks() -> dict[threading.Thread, int | None]:
    """Return the other threads with the time that each has run, or None where the system does not say."""
    here = threading.current_thread()
    return {thread: _clock(thread) for thread in threading.enumerate() if thread is not here}


def _clock(thread: threading.Thread) -> int | None:
    """Return the nanoseconds that a thread has run."""
    try:
        return int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def ran(before: dict[threading.Thread, int | None]) -> list[str]:
    """Return the names of the threads that may have run since then: all but those whose clocks stand still."""
    now = clocks()
    return sorted(thread.name for thread, clock in before.items() if clock is None or now.get(thread) != clock)
