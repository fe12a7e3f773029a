"""Which pages of a mapped file are in memory, by the kernel's own account of this process."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

PAGEMAP = Path("/proc/self/pagemap")  # a 64-bit word per page: https://docs.kernel.org/admin-guide/mm/pagemap.html
STATUS = Path("/proc/self/status")
PRESENT = np.uint64(1 << 63)
HUGE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
USUAL = 2**21  # bytes of a huge page where pages have 4096


def told() -> bool:
    """Return whether the kernel tells which pages are in memory."""
    try:
        with PAGEMAP.open("rb") as words:
            return len(words.read(8)) == 8
    except OSError:
        return False


def resident(array: np.ndarray[Any, Any]) -> int:
    """Return how many bytes of the pages that an array lies on are mapped into this process now."""
    page = mmap.PAGESIZE
    first, last = array.ctypes.data // page, (array.ctypes.data + array.nbytes - 1) // page
    words = np.fromfile(PAGEMAP, np.uint64, count=last - first + 1, offset=8 * first)
    return int(np.count_nonzero(words & PRESENT)) * page


def around() -> int:
    """Return how many bytes, aligned to as many, the kernel maps at most for one touch: those of a huge page."""
    try:
        return int(HUGE.read_text())
    except (OSError, ValueError):
        return USUAL


@contextmanager
def little_memory(limit: int) -> Iterator[None]:
    """Refuse this process more than `limit` further bytes of its own, which mapped files are not, where Linux can."""
    try:
        import resource

        own = (
            next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith("VmData:")) * 1024
        )
    except (ImportError, OSError, StopIteration):
        yield
        return
    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    lower = own + limit if most == resource.RLIM_INFINITY else min(own + limit, most)
    resource.setrlimit(resource.RLIMIT_DATA, (lower, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, most))
