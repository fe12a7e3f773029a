"""Page residency by the page map, against the kernel's other account of the same mapping."""

import mmap
import re
from pathlib import Path

import numpy as np
import pytest

from spec import bounds
from spec.instruments import pages

pytestmark = pytest.mark.skipif(
    not pages.can_be_read(), reason="this kernel does not let this process read its page map"
)
SMAPS = Path("/proc/self/smaps")


def rss(path):
    """Return the resident bytes of every mapping of a file, as smaps has them."""
    sizes = re.findall(rf"{re.escape(str(path))}\n(?:\w+: .*\n)*?Rss: +(\d+) kB", SMAPS.read_text())
    return sum(map(int, sizes)) * 1024


@pytest.mark.parametrize("touched", [(), (0,), (5 * 2**20,), (0, 3 * 2**20, 2**23 - 1), tuple(range(0, 2**23, 4096))])
def test_it_agrees_with_smaps(tmp_path, touched):
    """For no page, some and all of a file: the two accounts are the kernel's, by different ways."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(2**23)
    array = np.memmap(path, np.uint8, mode="r")
    for place in touched:
        int(array[place])
    assert pages.resident(array) == rss(path)
    limit = bounds.memory.mapped(1, len(touched), pages.largest_page())
    assert min(len(touched), 1) * mmap.PAGESIZE <= pages.resident(array) + (not touched) <= limit + (not touched)


def test_anonymous_memory_counts_once_it_is_written():
    """Pages of a fresh array are there from the first write on."""
    array = np.frombuffer(mmap.mmap(-1, 2**22), np.uint8)  # what malloc gives may have been written before
    before = pages.resident(array)
    array[:] = 1
    assert pages.resident(array) >= array.nbytes > before


def test_a_part_of_an_array_is_its_own_pages(tmp_path):
    """A slice that begins within a page counts that page, and no other."""
    array = np.ones(4 * mmap.PAGESIZE, np.uint8)
    assert pages.resident(array[5:10]) in (mmap.PAGESIZE, 2 * mmap.PAGESIZE)


def test_without_the_page_map_it_says_so(monkeypatch):
    """Elsewhere than on Linux nothing is guessed."""
    monkeypatch.setattr(pages, "PAGEMAP", Path("/nowhere"))
    assert not pages.can_be_read()
    monkeypatch.setattr(pages, "HUGE", Path("/nowhere"))
    assert pages.largest_page() == 2**21


def test_memory_is_refused_beyond_the_limit():
    """A mapped file of any size is not memory of one's own; once out of it, the limit is gone."""
    with pages.little_memory(2**26):
        mapping = mmap.mmap(-1, 2**30, prot=mmap.PROT_READ)
        with pytest.raises(MemoryError):
            np.zeros(2**30, np.uint8)
        assert np.zeros(2**20, np.uint8).nbytes == 2**20
    assert np.zeros(2**30, np.uint8).nbytes == len(mapping)
