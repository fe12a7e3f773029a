"""Lets the threads that a block starts be counted too, and says which threads ran beside it unseen.

A mode is in force in one thread. While a counter is open, a thread that is started from a counted one, and a task that
is handed to a pool of threads from there, take the mode along. Another thread that was there before the counter does
its work unseen; it is named unless the system says that it has not run.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from typing import Any

from torch.utils import _python_dispatch as modes

from spec.instruments.flops.dispatch import Dispatch

_LOCK = threading.Lock()
_OPEN: list[object] = []  # the blocks that are open, in all threads
_ORIGINALS: dict[str, Any] = {}


def follow(block: object) -> None:
    """Take the modes along to threads and tasks, from now on."""
    with _LOCK:
        if not _OPEN:
            _ORIGINALS.update(start=threading.Thread.start, submit=ThreadPoolExecutor.submit)
            threading.Thread.start = _starting(_ORIGINALS["start"])  # type: ignore[method-assign]
            ThreadPoolExecutor.submit = _submitting(_ORIGINALS["submit"])  # type: ignore[method-assign]
        _OPEN.append(block)


def leave(block: object) -> None:
    """End it, when no other block is open."""
    with _LOCK:
        _OPEN.remove(block)
        if not _OPEN:
            threading.Thread.start = _ORIGINALS["start"]  # type: ignore[method-assign]
            ThreadPoolExecutor.submit = _ORIGINALS["submit"]  # type: ignore[method-assign]


def _starting(start: Callable[..., None]) -> Callable[..., None]:
    @wraps(start)
    def started(thread: threading.Thread) -> None:
        counters = _counters()
        if counters:
            run = thread.run

            def counted() -> None:
                del thread.run
                _with(counters, run)

            thread.run = counted  # type: ignore[method-assign]
        start(thread)

    return started


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
    return {
        thread: _clock(thread) for thread in threading.enumerate() if thread is not threading.current_thread()
    }  # fmt: skip


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
