"""Work on files that is killed at a chosen moment: just before a file operation, at a byte of a file, or after a while.

The work runs in a fork of this process, which therefore has to be a small one: see `processes`.
"""

import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

Work = Callable[[], object]
SYNCS = frozenset(("fsync", "fdatasync", "sync", "synchronised"))
RENAMES = frozenset(("rename", "replace"))
# The functions that Python code works on files with. What runs in C or C++ from end to end is one moment of these, and
# `kill_beyond` ends it in the middle.
CALLS = SYNCS | RENAMES | {"open", "write", "writelines", "writev", "pwrite", "sendfile", "copy_file_range", "close"}
CALLS |= {"flush", "truncate", "ftruncate", "link", "symlink", "unlink", "remove"}


def moments(work: Work) -> list[str]:
    """Do the work and return the file operations that it began, in their order.

    "renamed" follows each renaming. "synchronised" says that a file was opened so that each write is synchronised.
    """
    found: list[str] = []
    watch(work, found.append)
    return found


def kill_at(work: Work, moment: int) -> None:
    """Do the work in a fork, and kill that with SIGKILL at one of the `moments`, counted from 0."""
    left = [moment]

    def count(_: str) -> None:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    os.waitpid(_fork(lambda: watch(work, count)), 0)


def kill_beyond(work: Work, size: int) -> None:
    """Do the work in a fork, which ends where it would make any file larger than so many bytes, in C or C++ too."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # Without this the signal would write a core dump.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        work()

    os.waitpid(_fork(limited), 0)


def kill_after(work: Work, seconds: float) -> None:
    """Do the work in a fork, and kill that with SIGKILL after so many seconds, should it still run."""
    child = _fork(work)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def duration(work: Work) -> float:
    """Do the work in a fork, to its end, and return the seconds that it took, those of the fork included."""
    start = time.perf_counter()
    os.waitpid(_fork(work), 0)
    return time.perf_counter() - start


def _fork(work: Work) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
    finally:
        os._exit(0)


def watch(work: Work, tell: Callable[[str], object]) -> None:
    """Do the work and call `tell` with each moment as it comes, in the work's own threads too."""

    def note(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function.__name__ in CALLS:
            tell(function.__name__)
        elif event == "c_return" and function.__name__ in RENAMES:
            tell("renamed")

    def heed(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and sys.getprofile() is note and arguments[2] & (os.O_SYNC | os.O_DSYNC):
            tell("synchronised")

    sys.addaudithook(heed)  # An audit hook cannot be removed: it lasts as long as the process.
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
