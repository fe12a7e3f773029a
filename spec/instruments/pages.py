"""Which pages of a mapped file are in memory, by the kernel's own account of this process."""

import mmap
from pathlib import Path
from typing import Any

import numpy as np

PAGEMAP = Path("/proc/self/pagemap")  # a 64-bit word per page: https://docs.kernel.org/admin-guide/mm/pagemap.html
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
