"""§3.4: training data that stays on disk."""

import mmap
import os
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings

from spec import bounds
from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import data
from spec.instruments import pages
from spec.oracles.streams import restored

REFUSED = (ValueError, TypeError, OSError, EOFError, OverflowError)
MUCH = 2**30  # To open a file or to draw a small batch, no implementation needs so many bytes.
CODES = ("u2", "u1", "i1", "i2", "i4", "u4", ">u2", ">i4", "i8", "u8")
SOURCES = ("list", "iterator", "array", "every second of an array", "tuple of NumPy integers")
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture(scope="module")
def folder():
    """Provide one temporary folder for all tests of this module."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


SCATTERED = [number * 37 % 65 for number in range(65)]  # These are 0 to 64 in an irregular order.


def ids_across(dtype, sixtyfourths):
    """Return ids of a dtype: 0 stands for its least id, 64 for its largest one, and 32 for the middle."""
    limits = np.iinfo(dtype)
    return [int(limits.min) + (int(limits.max) - int(limits.min)) * number // 64 for number in sixtyfourths]


def is_a_memmap(evidence, tokens, dtype, **inputs):
    """Require that tokens are a memmap of a dtype."""
    evidence.true(
        isinstance(tokens, np.memmap), "open_tokens returns a memmap", returned=type(tokens).__name__, **inputs
    )
    evidence.equal(tokens.dtype, dtype, what="the dtype of the tokens", **inputs)


def sparse(path, size):
    """Make a file of `size` zero bytes that uses no space on the disk."""
    try:
        with path.open("wb") as file:
            file.truncate(size)
    except OSError as error:  # Some file systems limit a file to 4 GiB.
        pytest.skip(f"no file of {size} bytes here: {error.strerror}")
    return path


def offered(ids, source):
    """Return ids as the kind of source that write_tokens is to read them from."""
    dtype = np.uint64 if max(ids) >= 2**63 else np.int64
    match source:
        case "list":
            return ids
        case "iterator":
            return iter(ids)
        case "array":
            return np.array(ids, dtype)
        case "every second of an array":
            return np.repeat(np.array(ids, dtype), 2)[::2]
        case _:
            return tuple(map(dtype, ids))


@verifies(data.MEMMAP)
@pytest.mark.parametrize("source", SOURCES)
@given(dtype=st.token_dtypes, sixtyfourths=st.fractions)
@example(dtype=np.dtype("u2"), sixtyfourths=SCATTERED)
@example(dtype=np.dtype("u2"), sixtyfourths=[3, 3, 3, 0, 0])
def test_written_ids_come_back(impl, evidence, folder, source, dtype, sixtyfourths):
    """Ids from the whole range of a dtype, and from any source, are written as its bytes and mapped unchanged."""
    ids, path = ids_across(dtype, sixtyfourths), folder / "tokens.bin"
    impl.data.write_tokens(str(path), offered(ids, source), dtype)
    evidence.equal(path.read_bytes(), np.array(ids, dtype).tobytes(), what="the file")
    tokens = impl.data.open_tokens(path, dtype)
    is_a_memmap(evidence, tokens, dtype)
    evidence.equal(tokens.tolist(), ids, what="the mapped ids")


@verifies(data.MEMMAP)
def test_each_dtype_is_written_as_it_is_named(impl, evidence, folder):
    """Ids are written raw in the byte order of the dtype, from its least to its largest id, even to a .npy path."""
    path = folder / "tokens.npy"
    for code in CODES:
        ids = ids_across(np.dtype(code), SCATTERED)
        for order in (ids, ids[::-1]):  # The second file has the first one's name and size.
            impl.data.write_tokens(path, order, np.dtype(code))
            evidence.equal(path.read_bytes(), np.array(order, code).tobytes(), what="the file", dtype=code)
            evidence.equal(
                impl.data.open_tokens(path, np.dtype(code)).tolist(), order, what="the mapped ids", dtype=code
            )


@verifies(data.MEMMAP)
@pytest.mark.parametrize("name", ["recorded.npy", "recorded.bin"])
def test_a_header_decides_the_dtype(impl, evidence, folder, name):
    """A .npy file, whatever its name, is opened in its header's dtype, whether the caller passes that dtype or none."""
    path = folder / name
    for code in ("u2", "i4", ">u4", "u1", "i8"):
        dtype = np.dtype(code)
        ids = ids_across(dtype, range(65))
        with path.open("wb") as file:
            np.lib.format.write_array(file, np.array(ids, dtype), version=(2, 0) if dtype.itemsize == 1 else None)
        for known in (None, dtype):
            tokens = impl.data.open_tokens(str(path), known)
            is_a_memmap(evidence, tokens, dtype, passed=known)
            evidence.equal(tokens.tolist(), ids, what="the mapped ids", dtype=code)
    # NumPy 1.13 writes a header of 80 bytes, where later versions write 128.
    header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (65,), }".ljust(69) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00\x46\x00" + header + np.array(SCATTERED, "<i4").tobytes())
    evidence.equal(impl.data.open_tokens(path).tolist(), SCATTERED, what="the ids after a header of 80 bytes")


@verifies(data.MEMMAP)
def test_an_opened_file_is_read_only(impl, evidence, folder):
    """Writing to the mapped array raises an error, and the file does not change."""
    for path in (folder / "raw", folder / "recorded.npy"):
        array = np.array(IDS, np.uint16)
        array.tofile(path) if path.name == "raw" else np.save(path, array)
        before = path.read_bytes()
        tokens = impl.data.open_tokens(path, np.uint16)
        evidence.raises(
            (ValueError, TypeError, OSError), lambda tokens=tokens: tokens.__setitem__(0, 7), file=path.name
        )
        evidence.equal(path.read_bytes(), before, what="the file", file=path.name)


@verifies(data.MEMMAP)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_an_id_that_does_not_fit_is_refused(impl, evidence, folder, dtype):
    """An id just outside the dtype's range raises OverflowError, alone, in a list, a tuple or an array."""
    path, limits = folder / "refused", np.iinfo(dtype)
    for wrong in (int(limits.max) + 1, int(limits.min) - 1, 2**70):
        sources = {"list": [*IDS, wrong], "one": [wrong], "tuple": (wrong, 1)}
        if -(2**63) <= wrong < 2**63:
            sources["array"] = np.array([1, wrong, 2], np.int64)
        for source, ids in sources.items():
            evidence.raises(
                OverflowError, lambda ids=ids: impl.data.write_tokens(path, ids, dtype), id=wrong, source=source
            )


@verifies(data.MEMMAP)
def test_tokens_that_are_no_integers_are_refused(impl, evidence, folder):
    """A token that is no integer raises an error, in a list or an array."""
    cases = [("list", [1, wrong]) for wrong in (2.5, "3", None)]
    for source, tokens in (*cases, ("array", np.array([1, 2.5]))):
        call = partial(impl.data.write_tokens, folder / "none", tokens, np.int32)
        evidence.raises(REFUSED, call, tokens=tokens, source=source)


@verifies(data.MEMMAP)
def test_an_id_is_refused_wherever_it_stands(impl, evidence, folder):
    """An id that does not fit raises OverflowError also after thousands of ids that do."""
    many = [7] * 5000
    for wrong in (2**16, -1):
        array = np.full(2**17 + 3, 7)
        array[-2] = wrong
        sources = {"list": [*many, wrong, 1], "iterator": iter([*many, wrong, 1]), "array": array}
        for source, ids in sources.items():
            call = partial(impl.data.write_tokens, folder / "long", ids, np.uint16)
            evidence.raises(OverflowError, call, id=wrong, source=source)


@verifies(data.MEMMAP)
def test_many_tokens_are_written_whole(impl, evidence, folder):
    """All of a million tokens from an array, and of 20,001 from an iterator, are written."""
    path, array = folder / "many", np.full(2**20 + 3, 200, np.int64)
    array[::7] = 3
    for count, source in ((len(array), "array"), (20_001, "iterator")):
        impl.data.write_tokens(path, array if source == "array" else map(int, array[:count]), np.uint8)
        written = np.fromfile(path, np.uint8)
        evidence.equal(len(written), count, what="the length of the file", unit="tokens", source=source)
        wrong = int(np.count_nonzero(written != array[:count]))
        evidence.equal(wrong, 0, what="the number of wrong tokens", unit="tokens", source=source)


@verifies(data.MEMMAP)
def test_a_damaged_or_ambiguous_file_is_refused(impl, evidence, folder):
    """A file that is missing, empty, cut, of an odd size, of unknown dtype or of another dtype than named raises."""
    array = np.arange(100, dtype=np.int32)

    def file(name, content):
        path = folder / name
        np.save(path, content) if isinstance(content, np.ndarray) else path.write_bytes(content)
        return path

    raw, recorded = file("raw.bin", array.tobytes()), file("recorded.npy", array)
    whole = recorded.read_bytes()
    cases = [
        ("no dtype is recorded or named", raw, None),
        ("the header says another dtype", recorded, np.uint16),
        ("missing", folder / "missing.bin", np.int32),
        ("a folder", folder, np.int32),
        ("empty", file("empty.bin", b""), np.int32),
        ("an odd size", file("odd.bin", array.tobytes()[:-1]), np.int32),
        ("cut after the header", file("cut.npy", whole[:-4]), None),
        ("cut within the header", file("stub.npy", whole[:40]), None),
    ]
    for why, path, dtype in cases:
        evidence.raises(REFUSED, lambda path=path, dtype=dtype: impl.data.open_tokens(path, dtype), file=why)


@verifies(data.MEMMAP)
def test_a_file_of_more_than_4_gibibytes_is_mapped_whole(impl, evidence, folder):
    """A file of 2³¹ + 5 tokens of 2 bytes is mapped whole, and the last tokens are those at its end."""
    path, count = folder / "long", 2**31 + 5
    with sparse(path, 2 * count).open("r+b") as file:
        file.seek(-2 * len(IDS), os.SEEK_END)
        file.write(np.array(IDS, np.uint16).tobytes())
    with pages.little_memory(MUCH):
        tokens = impl.data.open_tokens(path, np.uint16)
    evidence.equal(len(tokens), count, what="the number of tokens", unit="tokens", bytes=path.stat().st_size)
    evidence.equal(tokens[-len(IDS) :].tolist(), IDS, what="the last tokens", bytes=path.stat().st_size)


@refutes(data.MEMMAP)
def test_a_file_read_in_another_way_gives_other_tokens(evidence, folder):
    """A .npy file of 10 int32 tokens has 42 when it is mapped raw, and a raw one read as uint16 has other tokens."""
    array, path = np.arange(1, 11, dtype=np.int32), folder / "ten.npy"
    np.save(path, array)
    count = len(np.memmap(path, np.int32, mode="r"))
    evidence.differs(count, len(array), what="the length of a .npy file mapped raw", unit="tokens")
    array.tofile(path)
    as_uint16 = np.memmap(path, np.uint16, mode="r")[:4].tolist()
    evidence.differs(as_uint16, array[:4].tolist(), what="the first tokens, read as uint16")


@verifies(data.LAZY)
def test_only_touched_pages_are_loaded(impl, evidence, folder):
    """Opening a large file maps no page of it, and reading a slice or a batch maps little more than its own pages."""
    if not pages.can_be_read():
        pytest.skip("this process may not read its page map")
    page = pages.largest_page()
    size = 64 * page
    raw, recorded = sparse(folder / "large", size), folder / "large.npy"
    np.lib.format.open_memmap(recorded, "w+", np.uint16, (size // 2,))
    for path in (raw, recorded):
        tokens = impl.data.open_tokens(path, np.uint16)
        evidence.equal(pages.resident(tokens), 0, what="the memory mapped by opening", unit="bytes", file=path.name)
        int(tokens[size // 4 : size // 4 + 2048].sum())
        limit = bounds.memory.mapped(4096, 1, page)
        mapped, what = pages.resident(tokens), "the memory mapped for a slice"
        evidence.at_most(mapped, limit, what=what, unit="bytes", file=path.name)
        evidence.at_least(mapped, 4096, what=what, unit="bytes", file=path.name)
        tokens = impl.data.open_tokens(path, np.uint16)
        impl.data.sample_batch(tokens, 3, 100, generator=torch.Generator().manual_seed(0))
        limit = bounds.memory.mapped(200, 3, page)
        mapped, what = pages.resident(tokens), "the memory mapped for a batch"
        evidence.at_most(mapped, limit, what=what, unit="bytes", file=path.name)


@verifies(data.BATCHES)
@given(dtype=st.token_dtypes, sizes=st.windows, seed=st.seeds)
@example(dtype=np.dtype("u2"), sizes=(3, 5, 3), seed=0)
def test_a_batch_is_windows_of_the_data(impl, evidence, device, dtype, sizes, seed):
    """Each row of a batch is a window of the tokens, in int64, on the device; the batch is a copy."""
    length, more, batch_size = sizes
    ids = ids_across(dtype if dtype.itemsize < 8 else np.int64, SCATTERED[: length + more])  # No id occurs twice.
    tokens = np.array(ids, dtype if min(ids) >= np.iinfo(dtype).min else np.int64)
    for source in (tokens, np.repeat(tokens, 3)[::3]):  # The second array is not contiguous.
        generator = torch.Generator().manual_seed(seed)
        batch = impl.data.sample_batch(source, batch_size, length, generator=generator, device=device)
        evidence.equal(batch.device.type, device.type, what="the batch's device")
        evidence.equal(batch.dtype, torch.int64, what="the batch's dtype")
        evidence.equal(tuple(batch.shape), (batch_size, length), what="the batch's shape")
        for row in batch.cpu().tolist():
            start = ids.index(row[0]) if row[0] in ids else 0
            evidence.equal(row, ids[start : start + length], what="a window")
        batch.zero_()
        evidence.equal(source.tolist(), ids, what="the tokens after the batch was overwritten")


@verifies(data.BATCHES)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_every_window_is_equally_likely(impl, evidence, seed):
    """Each start, the first and the last included, is drawn equally often, and the rows are independent."""
    draws, starts = 60_000, 7
    tokens = np.arange(100, 100 + starts + 4, dtype=np.uint16)
    generator = torch.Generator().manual_seed(seed)
    rows = impl.data.sample_batch(tokens, draws, 5, generator=generator)[:, 0].numpy() - 100
    single = [int(impl.data.sample_batch(tokens, 1, 5, generator=generator)[0, 0]) - 100 for _ in range(500)]
    observed = {"the share of a start": rows, "the share of a step from batch to batch": np.diff(single) % starts}
    # Where starts are independent and uniform, their differences and sums modulo 7 are uniform as well. Rows that
    # repeat, follow or mirror earlier rows fail here.
    for lag in (1, 2, 3, draws // 2):
        observed[f"the share of a difference of starts {lag} rows apart"] = (rows[lag:] - rows[:-lag]) % starts
        observed[f"the share of a sum of starts {lag} rows apart"] = (rows[lag:] + rows[:-lag]) % starts
    predicted = torch.full((starts,), 1 / starts, dtype=torch.float64)
    for what, outcomes in observed.items():
        shares = torch.from_numpy(np.bincount(outcomes, minlength=starts) / len(outcomes))
        tolerance = bounds.chance.bounded_mean((1 - 1 / starts) / starts, 1.0, len(outcomes))
        evidence.close(shares, predicted, tolerance=tolerance, what=what)
    repeated = np.array([0, 0, 0, 1, 1, 0], np.uint16)  # Some windows of two are equal, and some only begin alike.
    rows = impl.data.sample_batch(repeated, draws, 2, generator=generator)
    for window, count in {(0, 0): 2, (0, 1): 1, (1, 1): 1, (1, 0): 1}.items():
        share = float((rows == torch.tensor(window)).all(1).double().mean())
        tolerance = bounds.chance.bounded_mean(count / 5 * (1 - count / 5), 1.0, draws)
        evidence.close(share, count / 5, tolerance=tolerance, what="the share of a repeated window", window=window)
    # That 256 independent draws from 400 windows are all different has a probability of 10⁻⁴⁷.
    distinct = len(impl.data.sample_batch(np.arange(400), 256, 1, generator=generator).unique())
    evidence.at_most(distinct, 255, what="the different windows among 256 draws from 400", unit="windows")


@verifies(data.BATCHES)
def test_no_window_of_many_is_left_out(impl, evidence):
    """Among 2²⁵ windows those at odd starts are drawn too, which float32 starts of 24 bits would leave out."""
    tokens = np.full(2**24, 256, "<u2").view(np.uint8)  # The ids are 0 and 1 in turn.
    batch = impl.data.sample_batch(tokens, 100, 1, generator=torch.Generator().manual_seed(0))
    # That 100 independent starts are all even, or all odd, has a probability of 2⁻⁹⁹.
    evidence.equal(batch.unique().tolist(), [0, 1], what="the ids that are drawn", batch_size=len(batch))


@verifies(data.BATCHES)
def test_windows_beyond_4_gibibytes_are_drawn(impl, evidence, folder):
    """Windows are drawn from the second and the last third of a 6 GiB file, as the kernel's page map shows."""
    if not pages.can_be_read():
        pytest.skip("this process may not read its page map")
    tokens = np.memmap(sparse(folder / "longer", 3 * 2**31), np.uint8, mode="r")
    tokens.base.madvise(mmap.MADV_RANDOM)  # The kernel does not read ahead, which would be slow.
    with pages.little_memory(MUCH):
        impl.data.sample_batch(tokens, 60, 2, generator=torch.Generator().manual_seed(0))
    for third in (1, 2):
        touched = pages.resident(tokens[third * 2**31 : (third + 1) * 2**31])
        # That 60 independent starts all miss one third has a probability of (2/3)⁶⁰.
        evidence.at_least(touched, 1, what="the memory mapped for a third", unit="bytes", third=third)


@verifies(data.BATCHES)
def test_a_part_gives_its_own_windows_alone(impl, evidence, folder):
    """A slice of a mapped file, with a header or without, gives windows of the slice alone."""
    array = np.arange(100, 160, dtype=np.uint16)
    for path in (folder / "part", folder / "part.npy"):
        array.tofile(path) if path.suffix == "" else np.save(path, array)
        part = impl.data.open_tokens(path, np.uint16)[20:41]
        batch = impl.data.sample_batch(part, 50, 5, generator=torch.Generator().manual_seed(0))
        evidence.equal(batch, batch[:, :1] + torch.arange(5), what="the windows", file=path.name)
        evidence.at_least(int(batch.min()), 120, what="the least id", file=path.name)
        evidence.at_most(int(batch.max()), 140, what="the largest id", file=path.name)


@verifies(data.BATCHES)
def test_ids_of_the_whole_range_are_sampled(impl, evidence, device):
    """Ids from a dtype's least to the largest that int64 can hold are the same in the batch."""
    for code in CODES:
        ids = [id for id in ids_across(np.dtype(code), SCATTERED) if id < 2**63]
        tokens, generator = np.array(ids, code), torch.Generator().manual_seed(0)
        batch = impl.data.sample_batch(tokens, 100, 4, generator=generator, device=device)
        starts = [ids.index(id) if id in ids[:-3] else 0 for id in batch[:, 0].tolist()]
        predicted = torch.tensor([ids[start : start + 4] for start in starts])
        evidence.equal(batch.cpu(), predicted, what="the windows", dtype=code)


@verifies(data.BATCHES)
def test_the_only_window_is_drawn(impl, evidence):
    """Tokens as long as a window give that window, as a copy; too few tokens, and sizes that are none, are refused."""
    tokens = np.arange(2**32 - 5, 2**32, dtype=np.uint32)
    draw = partial(impl.data.sample_batch, generator=torch.Generator())
    predicted = torch.arange(2**32 - 5, 2**32).repeat(3, 1)
    evidence.equal(draw(tokens, 3, 5), predicted, what="the only window", tokens=5, batch_size=3, sequence_length=5)
    sizes = np.int32(2), np.uint8(3)
    evidence.equal(tuple(draw(tokens, *sizes).shape), (2, 3), what="the batch's shape", sizes=sizes)
    steps, ones = draw(np.arange(5000, dtype=np.uint16), 3, 2000).diff(), torch.ones(3, 1999, dtype=torch.int64)
    evidence.equal(steps, ones, what="the differences within long windows", sequence_length=2000)

    # The batch is a copy, and a second call reads the tokens again: neither a view nor a cache will do.
    wide, alike = np.arange(5), np.array([0, 8, 8, 8, 8])
    draw(wide, 1, 5).zero_()
    evidence.equal(wide.tolist(), [0, 1, 2, 3, 4], what="the tokens after the batch was overwritten", batch_size=1)
    window = torch.tensor([[0, 8, 8, 8, 8]])
    evidence.equal(draw(alike, 1, 5), window, what="the window of an array that begins alike", tokens=alike.tolist())
    wide[1:] = 9
    window = torch.tensor([[0, 9, 9, 9, 9]])
    evidence.equal(draw(wide, 1, 5), window, what="the window after the tokens were changed", tokens=wide.tolist())

    for length in (6, 7, 100):
        evidence.raises(ValueError, lambda length=length: draw(tokens, 1, length), length=length, tokens=5)
    evidence.raises(ValueError, lambda: draw(tokens[:0], 1, 1), tokens=0)
    for sizes in ((-1, 2), (1, -1)):
        evidence.raises(ValueError, lambda sizes=sizes: draw(tokens, *sizes), sizes=sizes)
    for sizes in (("2", 2), (2, "2"), (None, 2), (2, None)):
        evidence.raises(TypeError, lambda sizes=sizes: draw(tokens, *sizes), sizes=sizes)


@verifies(data.BATCHES)
@settings(max_examples=10)
@given(seed=st.seeds)
def test_the_generator_decides(impl, evidence, seed):
    """Equal states of the generator give equal batches; later states, also of torch's own stream, give others."""
    tokens = np.arange(10_000, dtype=np.int32)
    first, again = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    batch = impl.data.sample_batch(tokens, 9, 4, generator=first)
    evidence.equal(impl.data.sample_batch(tokens, 9, 4, generator=again), batch, what="the batch from an equal state")
    for stream, generator in (("the generator", {"generator": again}), ("torch's own", {})):
        with restored():
            batch, other = (impl.data.sample_batch(tokens, 9, 4, **generator) for _ in range(2))
        evidence.true(not torch.equal(batch, other), "a later state gives another batch", stream=stream)
