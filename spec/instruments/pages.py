"""The pages of a mapped file that are in memory, from the kernel's page map of this process."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

# The page map has a 64-bit word for each page: https://docs.kernel.org/admin-guide/mm/pagemap.html
PAGEMAP = Path("/proc/self/pagemap")
STATUS = Path("/proc/self/status")
PRESENT = np.uint64(1 << 63)
HUGE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
USUAL_HUGE_PAGE = 2**21  # A huge page has this many bytes where a page has 4096.


def can_be_read() -> bool:
    """Return whether this process may read its page map."""
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


def largest_page() -> int:
    """Return the largest number of bytes that the kernel maps, aligned to that number, when one byte is touched."""
    try:
        return int(HUGE.read_text())
    except (OSError, ValueError):
        return USUAL_HUGE_PAGE


@contextmanager
def little_memory(limit: int) -> Iterator[None]:
    """Where Linux can, let this process allocate no more than `limit` further bytes. Mapped files do not count."""
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
