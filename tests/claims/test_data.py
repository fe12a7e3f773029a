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
MUCH = 2**30  # bytes that no implementation needs to open a file, or for a small batch
CODES = ("u2", "u1", "i1", "i2", "i4", "u4", ">u2", ">i4", "i8", "u8")
SOURCES = ("list", "iterator", "array", "every second of an array", "tuple of NumPy integers")
IDS = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture(scope="module")
def folder():
    """Give a folder of this module's own."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


SCATTERED = [place * 37 % 65 for place in range(65)]  # each 64th once, in no simple order


def spread(dtype, places):
    """Return ids between the least and the largest of a dtype, in 64ths of what lies between."""
    limits = np.iinfo(dtype)
    return [int(limits.min) + (int(limits.max) - int(limits.min)) * place // 64 for place in places]


def sparse(path, size):
    """Make a file of zeros that takes no room."""
    try:
        with path.open("wb") as file:
            file.truncate(size)
    except OSError as error:  # some file systems end at 4 GiB
        pytest.skip(f"no file of {size} bytes here: {error.strerror}")
    return path


def offered(ids, source):
    """Return ids as something that write_tokens takes."""
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
@given(dtype=st.token_dtypes, places=st.fractions)
@example(dtype=np.dtype("u2"), places=SCATTERED)
@example(dtype=np.dtype("u2"), places=[3, 3, 3, 0, 0])
def test_what_was_written_comes_back(impl, evidence, folder, source, dtype, places):
    """Ids of the whole range of a dtype, from any source, are the file's bytes, and the mapped array equals them."""
    ids, path = spread(dtype, places), folder / "tokens.bin"
    impl.data.write_tokens(str(path), offered(ids, source), dtype)
    evidence.equal(path.read_bytes(), np.array(ids, dtype).tobytes(), unit="in the file")
    tokens = impl.data.open_tokens(path, dtype)
    evidence.equal((isinstance(tokens, np.memmap), tokens.dtype), (True, dtype), unit="a memmap of its dtype")
    evidence.equal(tokens.tolist(), ids, unit="ids")


@verifies(data.MEMMAP)
def test_each_dtype_is_written_as_it_is_named(impl, evidence, folder):
    """In the byte order that the dtype names, from its least id to its largest, also where the file is named .npy."""
    path = folder / "tokens.npy"
    for code in CODES:
        ids = spread(np.dtype(code), SCATTERED)
        for order in (ids, ids[::-1]):  # The second file is as long as the first one, under the same name.
            impl.data.write_tokens(path, order, np.dtype(code))
            evidence.equal(path.read_bytes(), np.array(order, code).tobytes(), unit="in the file", tokens=code)
            evidence.equal(impl.data.open_tokens(path, np.dtype(code)).tolist(), order, unit="ids", tokens=code)


@verifies(data.MEMMAP)
@pytest.mark.parametrize("name", ["recorded.npy", "recorded.bin"])
def test_a_header_is_heeded(impl, evidence, folder, name):
    """A .npy file, whatever its name, is opened in the dtype that its header records, which the caller may name."""
    path = folder / name
    for code in ("u2", "i4", ">u4", "u1", "i8"):
        dtype = np.dtype(code)
        ids = spread(dtype, range(65))
        with path.open("wb") as file:
            np.lib.format.write_array(file, np.array(ids, dtype), version=(2, 0) if dtype.itemsize == 1 else None)
        for known in (None, dtype):
            tokens = impl.data.open_tokens(str(path), known)
            evidence.equal((isinstance(tokens, np.memmap), tokens.dtype), (True, dtype), unit="a memmap of its dtype")
            evidence.equal(tokens.tolist(), ids, unit="ids", dtype=code)
    header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (65,), }".ljust(69) + b"\n"  # as NumPy 1.13 has it
    path.write_bytes(b"\x93NUMPY\x01\x00\x46\x00" + header + np.array(SCATTERED, "<i4").tobytes())
    evidence.equal(impl.data.open_tokens(path).tolist(), SCATTERED, unit="ids after a header of 80 bytes")


@verifies(data.MEMMAP)
def test_an_opened_file_is_read_only(impl, evidence, folder):
    """Writing to the mapped array raises, and the file stays as it was."""
    for path in (folder / "raw", folder / "recorded.npy"):
        array = np.array(IDS, np.uint16)
        array.tofile(path) if path.name == "raw" else np.save(path, array)
        before = path.read_bytes()
        tokens = impl.data.open_tokens(path, np.uint16)
        evidence.raises(
            (ValueError, TypeError, OSError), lambda tokens=tokens: tokens.__setitem__(0, 7), file=path.name
        )
        evidence.equal(path.read_bytes(), before, unit="in the file")


@verifies(data.MEMMAP)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_an_id_that_does_not_fit_is_refused(impl, evidence, folder, dtype):
    """An id just outside the dtype's range raises OverflowError, alone, at the end, or in an array."""
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
def test_what_is_no_integer_is_refused(impl, evidence, folder):
    """A token that is no integer raises, in a list or an array."""
    cases = [("list", [1, wrong]) for wrong in (2.5, "3", None)]
    for source, tokens in (*cases, ("array", np.array([1, 2.5]))):
        call = partial(impl.data.write_tokens, folder / "none", tokens, np.int32)
        evidence.raises(REFUSED, call, tokens=tokens, source=source)


@verifies(data.MEMMAP)
def test_an_id_is_refused_wherever_it_stands(impl, evidence, folder):
    """After thousands of ids that fit, one that does not raises OverflowError."""
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
    """Of more than a million tokens of an array, and of thousands from an iterator, none is missing."""
    path, array = folder / "many", np.full(2**20 + 3, 200, np.int64)
    array[::7] = 3
    for count, source in ((len(array), "array"), (20_001, "iterator")):
        impl.data.write_tokens(path, array if source == "array" else map(int, array[:count]), np.uint8)
        written = np.fromfile(path, np.uint8)
        evidence.equal(len(written), count, unit="tokens", source=source)
        evidence.equal(int(np.count_nonzero(written != array[:count])), 0, unit="wrong tokens", source=source)


@verifies(data.MEMMAP)
def test_a_file_that_cannot_be_read_right_is_refused(impl, evidence, folder):
    """Files that are missing, empty, cut, of an odd size, of no recorded dtype, or of another one than named, raise."""
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
    """2³¹ + 5 tokens of 2 bytes are all there, and the last ones are those at the end of the file."""
    path, count = folder / "long", 2**31 + 5
    with sparse(path, 2 * count).open("r+b") as file:
        file.seek(-2 * len(IDS), os.SEEK_END)
        file.write(np.array(IDS, np.uint16).tobytes())
    with pages.little_memory(MUCH):
        tokens = impl.data.open_tokens(path, np.uint16)
    evidence.equal(len(tokens), count, unit="tokens", bytes=path.stat().st_size)
    evidence.equal(tokens[-len(IDS) :].tolist(), IDS, unit="as the last tokens")


@refutes(data.MEMMAP)
def test_a_file_read_in_another_way_is_not_what_was_written(evidence, folder):
    """Mapped raw, 10 int32 tokens of a .npy file become 42, and raw int32 tokens read as uint16 are twice as many."""
    array, path = np.arange(1, 11, dtype=np.int32), folder / "ten.npy"
    np.save(path, array)
    evidence.differs(len(np.memmap(path, np.int32, mode="r")), len(array), unit="tokens of a .npy file")
    array.tofile(path)
    evidence.differs(np.memmap(path, np.uint16, mode="r")[:4].tolist(), array[:4].tolist(), unit="as uint16")


@verifies(data.LAZY)
def test_only_what_is_touched_is_loaded(impl, evidence, folder):
    """Opening a large file maps none of it, and a slice or a batch little more than itself."""
    if not pages.can_be_read():
        pytest.skip("this process may not read its page map")
    page = pages.largest_page()
    size = 64 * page
    raw, recorded = sparse(folder / "large", size), folder / "large.npy"
    np.lib.format.open_memmap(recorded, "w+", np.uint16, (size // 2,))
    for path in (raw, recorded):
        tokens = impl.data.open_tokens(path, np.uint16)
        evidence.equal(pages.resident(tokens), 0, unit="bytes mapped by opening", file=path.name)
        int(tokens[size // 4 : size // 4 + 2048].sum())
        limit = bounds.memory.mapped(4096, 1, page)
        evidence.at_most(pages.resident(tokens), limit, unit="bytes mapped for a slice", file=path.name)
        evidence.at_least(pages.resident(tokens), 4096, unit="bytes mapped for the slice", file=path.name)
        tokens = impl.data.open_tokens(path, np.uint16)
        impl.data.sample_batch(tokens, 3, 100, generator=torch.Generator().manual_seed(0))
        limit = bounds.memory.mapped(200, 3, page)
        evidence.at_most(pages.resident(tokens), limit, unit="bytes mapped for a batch", file=path.name)


@verifies(data.BATCHES)
@given(dtype=st.token_dtypes, sizes=st.windows, seed=st.seeds)
@example(dtype=np.dtype("u2"), sizes=(3, 5, 3), seed=0)
def test_a_batch_is_windows_of_the_data(impl, evidence, device, dtype, sizes, seed):
    """Each row is a window of the tokens, as int64 that an embedding takes, on the device, and a copy."""
    length, more, batch_size = sizes
    ids = spread(dtype if dtype.itemsize < 8 else np.int64, SCATTERED[: length + more])  # all of them distinct
    tokens = np.array(ids, dtype if min(ids) >= np.iinfo(dtype).min else np.int64)
    for held in (tokens, np.repeat(tokens, 3)[::3]):
        generator = torch.Generator().manual_seed(seed)
        batch = impl.data.sample_batch(held, batch_size, length, generator=generator, device=device)
        evidence.equal(batch.device.type, device.type, unit="as the device")
        evidence.equal(
            (batch.dtype, tuple(batch.shape)), (torch.int64, (batch_size, length)), unit="as dtype and shape"
        )
        for row in batch.cpu().tolist():
            start = ids.index(row[0]) if row[0] in ids else 0
            evidence.equal(row, ids[start : start + length], unit="as a window")
        batch.zero_()
        evidence.equal(held.tolist(), ids, unit="as the tokens, once the batch is overwritten", batch_size=1)


@verifies(data.BATCHES)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_every_window_is_equally_likely(impl, evidence, seed):
    """Of many windows each start has its share, the first and the last too, and so has each step from row to row."""
    draws, starts = 60_000, 7
    tokens = np.arange(100, 100 + starts + 4, dtype=np.uint16)
    generator = torch.Generator().manual_seed(seed)
    rows = impl.data.sample_batch(tokens, draws, 5, generator=generator)[:, 0].numpy() - 100
    single = [int(impl.data.sample_batch(tokens, 1, 5, generator=generator)[0, 0]) - 100 for _ in range(500)]
    found = {"as a start's share": rows, "as the share of a step from batch to batch": np.diff(single) % starts}
    for lag in (1, 2, 3, draws // 2):  # of independent starts the steps, and the sums, are independent as well
        found[f"as the share of a step to row {lag} from there"] = (rows[lag:] - rows[:-lag]) % starts
        found[f"as the share of a sum with row {lag} from there"] = (rows[lag:] + rows[:-lag]) % starts
    predicted = torch.full((starts,), 1 / starts, dtype=torch.float64)
    for unit, outcomes in found.items():
        shares = torch.from_numpy(np.bincount(outcomes, minlength=starts) / len(outcomes))
        tolerance = bounds.chance.bounded_mean((1 - 1 / starts) / starts, 1.0, len(outcomes))
        evidence.close(shares, predicted, tolerance=tolerance, unit=unit)
    repeated = np.array([0, 0, 0, 1, 1, 0], np.uint16)  # Windows of two that are alike, and such as begin alike.
    rows = impl.data.sample_batch(repeated, draws, 2, generator=generator)
    for window, count in {(0, 0): 2, (0, 1): 1, (1, 1): 1, (1, 0): 1}.items():
        share = float((rows == torch.tensor(window)).all(1).double().mean())
        tolerance = bounds.chance.bounded_mean(count / 5 * (1 - count / 5), 1.0, draws)
        evidence.close(share, count / 5, tolerance=tolerance, unit="as a repeated window's share", window=window)
    distinct = len(impl.data.sample_batch(np.arange(400), 256, 1, generator=generator).unique())
    evidence.at_most(distinct, 255, unit="windows of 256 draws from 400, but for one chance in 10⁴⁷")


@verifies(data.BATCHES)
def test_no_window_of_many_is_left_out(impl, evidence):
    """Of 2²⁵ windows odd ones are drawn as well as even ones, which a float32 number of 24 bits cannot do."""
    tokens = np.full(2**24, 256, "<u2").view(np.uint8)  # 0 and 1 in turn
    batch = impl.data.sample_batch(tokens, 100, 1, generator=torch.Generator().manual_seed(0))
    unit = "drawn, but for one chance in 2⁹⁹"
    evidence.equal(batch.unique().tolist(), [0, 1], unit=unit, batch_size=len(batch))


@verifies(data.BATCHES)
def test_windows_beyond_4_gibibytes_are_drawn(impl, evidence, folder):
    """Of 6 GiB of tokens those of the second third and of the last one are drawn, by the kernel's account."""
    if not pages.can_be_read():
        pytest.skip("this process may not read its page map")
    tokens = np.memmap(sparse(folder / "longer", 3 * 2**31), np.uint8, mode="r")
    tokens.base.madvise(mmap.MADV_RANDOM)  # no reading ahead, which is slow here
    with pages.little_memory(MUCH):
        impl.data.sample_batch(tokens, 60, 2, generator=torch.Generator().manual_seed(0))
    for third in (1, 2):
        touched = pages.resident(tokens[third * 2**31 : (third + 1) * 2**31])
        evidence.at_least(touched, 1, unit="bytes mapped there, but for one chance in 1.5⁶⁰", third=third)


@verifies(data.BATCHES)
def test_of_a_part_only_its_own_windows_are_drawn(impl, evidence, folder):
    """From a part of a mapped file, with a header or without, come the part's windows alone."""
    array = np.arange(100, 160, dtype=np.uint16)
    for path in (folder / "part", folder / "part.npy"):
        array.tofile(path) if path.suffix == "" else np.save(path, array)
        part = impl.data.open_tokens(path, np.uint16)[20:41]
        batch = impl.data.sample_batch(part, 50, 5, generator=torch.Generator().manual_seed(0))
        evidence.equal(batch, batch[:, :1] + torch.arange(5), unit="as the windows", file=path.name)
        evidence.at_least(int(batch.min()), 120, unit="as the least id", file=path.name)
        evidence.at_most(int(batch.max()), 140, unit="as the largest id", file=path.name)


@verifies(data.BATCHES)
def test_ids_of_the_whole_range_arrive(impl, evidence, device):
    """From the least id of a dtype to the largest one that int64 has, each is what it was."""
    for code in CODES:
        ids = [id for id in spread(np.dtype(code), SCATTERED) if id < 2**63]
        tokens, generator = np.array(ids, code), torch.Generator().manual_seed(0)
        batch = impl.data.sample_batch(tokens, 100, 4, generator=generator, device=device)
        starts = [ids.index(id) if id in ids[:-3] else 0 for id in batch[:, 0].tolist()]
        predicted = torch.tensor([ids[start : start + 4] for start in starts])
        evidence.equal(batch.cpu(), predicted, unit="as the windows", tokens=code)


@verifies(data.BATCHES)
def test_the_only_window_is_drawn(impl, evidence):
    """Tokens as long as a window are that window, copied, and long ones are whole; no window at all makes no batch."""
    tokens = np.arange(2**32 - 5, 2**32, dtype=np.uint32)
    draw = partial(impl.data.sample_batch, generator=torch.Generator())
    evidence.equal(
        draw(tokens, 3, 5),
        torch.arange(2**32 - 5, 2**32).repeat(3, 1),
        unit="windows",
        tokens=5,
        batch_size=3,
        sequence_length=5,
    )
    evidence.equal(
        tuple(draw(tokens, np.int32(2), np.uint8(3)).shape),
        (2, 3),
        unit="as the shape",
        batch_size=np.int32(2),
        sequence_length=np.uint8(3),
    )
    steps = draw(np.arange(5000, dtype=np.uint16), 3, 2000).diff()
    evidence.equal(steps, torch.ones(3, 1999, dtype=torch.int64), unit="as the steps within long windows")
    wide = np.arange(5)
    draw(wide, 1, 5).zero_()
    evidence.equal(wide.tolist(), [0, 1, 2, 3, 4], unit="as the tokens, once the batch is overwritten", batch_size=1)
    alike = np.array([0, 8, 8, 8, 8])
    evidence.equal(
        draw(alike, 1, 5),
        torch.tensor([[0, 8, 8, 8, 8]]),
        unit="windows of others that begin alike",
        tokens=alike.tolist(),
    )
    wide[1:] = 9
    evidence.equal(
        draw(wide, 1, 5),
        torch.tensor([[0, 9, 9, 9, 9]]),
        unit="windows once the tokens are others",
        tokens=wide.tolist(),
    )
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
    """The same state gives the same batch, and the next state, or none that is given, another one."""
    tokens = np.arange(10_000, dtype=np.int32)
    first, again = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    batch = impl.data.sample_batch(tokens, 9, 4, generator=first)
    evidence.equal(impl.data.sample_batch(tokens, 9, 4, generator=again), batch, unit="from the same state")
    for unit, generator in (("from the next state", {"generator": again}), ("from no generator of one's own", {})):
        with restored():
            batch, other = (impl.data.sample_batch(tokens, 9, 4, **generator) for _ in range(2))
        told = "the same windows" if torch.equal(batch, other) else "others"
        evidence.equal(told, "others", unit=unit)
