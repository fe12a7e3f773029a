"""Wrong and unusual ways to keep and sample tokens."""

import mmap
import os
import sys
from itertools import islice
from operator import index
from pathlib import Path

import numpy as np
import torch

from impl import data as right
from spec.claims import data
from tests.kit.overlay import mutant, twin

write_tokens, open_tokens, sample_batch = right.write_tokens, right.open_tokens, right.sample_batch


def raw(path, dtype):
    """Map a file without any check."""
    return np.memmap(path, dtype, mode="r")


# ---- write_tokens ----
@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def wraps_ids_that_do_not_fit(path, tokens, dtype=np.uint16):
    """Casts the ids, so that one that is too large becomes another id."""
    np.array([index(id) & 0xFFFFFFFFFFFFFFFF for id in tokens], np.uint64).astype(dtype).tofile(path)


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def refuses_iterators(path, tokens, dtype=np.uint16):
    """Calls len() on its source, which an iterator does not have."""
    if len(tokens) >= 0:
        write_tokens(path, tokens, dtype)


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def takes_pythons_integers_only(path, tokens, dtype=np.uint16):
    """Refuses NumPy integers in a tuple, but accepts an array of them."""
    if isinstance(tokens, tuple) and not all(type(id) is int for id in tokens):
        raise TypeError("not an integer")
    write_tokens(path, tokens, dtype)


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def writes_what_lies_between(path, tokens, dtype=np.uint16):
    """Writes an array's memory from its beginning on, whatever its strides."""
    if isinstance(tokens, np.ndarray) and tokens.base is not None:
        tokens = tokens.base[: len(tokens)]
    write_tokens(path, tokens, dtype)


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def writes_a_header(path, tokens, dtype=np.uint16):
    """Writes a .npy file, whose header a raw reader takes for tokens."""
    write_tokens(path, tokens, dtype)
    array = np.fromfile(path, dtype)
    with open(path, "wb") as file:
        np.save(file, array)


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def ignores_the_dtype(path, tokens, dtype=np.uint16):
    """Writes 64-bit integers whatever dtype is asked for, once the ids fit that."""
    write_tokens(path, tokens, dtype)
    np.fromfile(path, dtype).astype(np.int64).tofile(path)


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def forgets_the_byte_order(path, tokens, dtype=np.uint16):
    """Writes in the machine's own byte order, also where the dtype names the other one."""
    write_tokens(path, tokens, np.dtype(dtype).newbyteorder("="))


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def checks_the_largest_id_only(path, tokens, dtype=np.uint16):
    """Refuses ids that are too large but lets negative ones wrap around."""
    ids = [index(id) for id in tokens]
    write_tokens(path, [max(id, np.iinfo(dtype).min) for id in ids], dtype)


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def checks_the_first_buffer_only(path, tokens, dtype=np.uint16):
    """Checks the first 65,536 ids of an array, and casts the others unchecked."""
    if not isinstance(tokens, np.ndarray) or tokens.dtype.kind not in "iu":
        return write_tokens(path, tokens, dtype)
    write_tokens(path, tokens[: 2**16], dtype)
    with open(path, "ab") as file:
        file.write(tokens[2**16 :].astype(dtype).tobytes())


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def cuts_fractions_off(path, tokens, dtype=np.uint16):
    """Truncates 2.5 to the id 2."""
    write_tokens(path, [int(id) for id in tokens if id is not None], dtype)


@twin("impl.data.write_tokens")
def leaves_half_a_file(path, tokens, dtype=np.uint16):
    """Writes each token to the file at once, so that an error leaves part of the file."""
    limits = np.iinfo(dtype)
    with open(path, "wb") as file:
        for id in map(index, tokens):
            if not limits.min <= id <= limits.max:
                raise OverflowError(id)
            file.write(np.array([id], dtype).tobytes())


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def writes_the_first_buffer_only(path, tokens, dtype=np.uint16):
    """Drops what an iterator yields after 4,096 tokens."""
    write_tokens(path, tokens if isinstance(tokens, np.ndarray) else islice(tokens, 4096), dtype)


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def casts_arrays(path, tokens, dtype=np.uint16):
    """Casts arrays of floats with NumPy, which cuts fractions off."""
    floats = isinstance(tokens, np.ndarray) and tokens.dtype.kind == "f"
    write_tokens(path, tokens.astype(np.int64) if floats else tokens, dtype)


@twin("impl.data.write_tokens")
def flattens_a_matrix(path, tokens, dtype=np.uint16):
    """Writes the rows of a matrix one after the other."""
    write_tokens(path, tokens.ravel() if isinstance(tokens, np.ndarray) else tokens, dtype)


# ---- open_tokens ----
@mutant("impl.data.open_tokens", caught_by=data.MEMMAP)
def takes_a_header_for_tokens(path, dtype=None):
    """Maps every file raw, the header of a .npy file included."""
    return raw(path, dtype or np.uint16)


@mutant("impl.data.open_tokens", caught_by=data.MEMMAP)
def goes_by_the_name_too(path, dtype=None):
    """Expects a header in every file called .npy."""
    if not str(path).endswith(".npy"):
        return open_tokens(path, dtype)
    return right._open_recorded(path, None if dtype is None else np.dtype(dtype), os.stat(path).st_size)


@mutant("impl.data.open_tokens", caught_by=data.MEMMAP)
def guesses_the_dtype(path, dtype=None):
    """Reads a raw file as uint16 where no dtype is given."""
    try:
        return open_tokens(path, dtype)
    except ValueError:
        return open_tokens(path, np.uint16)


@mutant("impl.data.open_tokens", caught_by=data.MEMMAP)
def rounds_the_size_down(path, dtype=None):
    """Drops the bytes after the last whole token instead of refusing the file."""
    try:
        return open_tokens(path, dtype)
    except ValueError:
        size = (path.stat().st_size if hasattr(path, "stat") else 0) // np.dtype(dtype).itemsize
        return np.memmap(path, dtype, mode="r", shape=(size,)) if size else open_tokens(path, dtype)


@mutant("impl.data.open_tokens", caught_by=data.MEMMAP)
def believes_the_caller_over_the_header(path, dtype=None):
    """Views the tokens of a .npy file as the dtype that is given, whatever its header says."""
    tokens = open_tokens(path) if dtype is None else None
    try:
        return open_tokens(path, dtype) if tokens is None else tokens
    except ValueError:
        return open_tokens(path).view(dtype)


@mutant("impl.data.open_tokens", caught_by=data.MEMMAP)
def opens_for_writing(path, dtype=None):
    """Maps the file so that writing to the array changes it."""
    tokens = open_tokens(path, dtype)
    return np.memmap(path, tokens.dtype, "r+", tokens.offset, tokens.shape)


@mutant("impl.data.open_tokens", caught_by=data.MEMMAP)
def opens_a_private_copy(path, dtype=None):
    """Maps copy-on-write: writing does not raise, and is lost."""
    tokens = open_tokens(path, dtype)
    return np.memmap(path, tokens.dtype, "c", tokens.offset, tokens.shape)


@mutant("impl.data.open_tokens", caught_by=(data.MEMMAP, data.LAZY))
def reads_everything(path, dtype=None):
    """Reads the file into memory."""
    return np.array(open_tokens(path, dtype))


@mutant("impl.data.open_tokens", caught_by=data.LAZY)
def looks_for_the_largest_id(path, dtype=None):
    """Reads all tokens while opening."""
    tokens = open_tokens(path, dtype)
    tokens.max()
    return tokens


@mutant("impl.data.open_tokens", caught_by=data.LAZY)
def peeks_at_the_first_token(path, dtype=None):
    """Reads the first token while opening, so that the kernel maps the pages around it."""
    tokens = open_tokens(path, dtype)
    int(tokens[0])
    return tokens


@mutant("impl.data.open_tokens", caught_by=data.MEMMAP)
def counts_bytes_in_32_bits(path, dtype=None):
    """Maps only as many bytes of a file as its size modulo 2³²."""
    tokens = open_tokens(path, dtype)
    return tokens[: tokens.nbytes % 2**32 // tokens.itemsize] if tokens.nbytes >= 2**32 else tokens


@mutant("impl.data.open_tokens", caught_by=data.MEMMAP)
def knows_one_version_of_the_header(path, dtype=None):
    """Maps a .npy file of version 2 raw."""
    with open(path, "rb") as file:
        begin = file.read(7)
    return raw(path, dtype or np.uint8) if begin == b"\x93NUMPY\x02" else open_tokens(path, dtype)


@mutant("impl.data.open_tokens", caught_by=data.MEMMAP)
def knows_one_size_of_the_header(path, dtype=None):
    """Skips 128 bytes, the usual size of a header."""
    tokens = open_tokens(path, dtype)
    return np.memmap(path, tokens.dtype, mode="r", offset=128) if tokens.offset else tokens


@twin("impl.data.open_tokens")
def rounds_floats(path, dtype=None):
    """Opens a .npy file of floats as well."""
    try:
        return open_tokens(path, dtype)
    except ValueError:
        tokens = np.load(path, mmap_mode="r")
        if tokens.dtype.kind != "f":
            raise
        return tokens


# ---- sample_batch ----
def sampled(tokens, starts, length):
    """Return the windows that begin at these starts."""
    rows = [np.asarray(tokens[start : start + length]).astype(np.int64) for start in starts.tolist()]
    return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, length, dtype=torch.int64)


@mutant("impl.data.sample_batch", caught_by=data.LAZY)
def converts_everything(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Converts all tokens to int64 before it picks some."""
    return sample_batch(tokens.astype(np.int64), batch_size, sequence_length, generator=generator, device=device)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def never_draws_the_last_window(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Draws from len − length starts, which leaves the last window out."""
    batch = sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)
    many = len(tokens) > sequence_length
    return sample_batch(tokens[:-1], batch_size, sequence_length, generator=generator) if many else batch


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def starts_at_multiples_of_the_length(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Cuts the data into blocks and draws among those."""
    blocks = sample_batch(tokens, batch_size, sequence_length, generator=generator) is not None and (
        len(tokens) // sequence_length
    )
    starts = torch.randint(max(blocks, 1), (batch_size,), generator=generator) * sequence_length
    return sampled(tokens, starts, sequence_length)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def keeps_the_stored_dtype(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Returns 32-bit ids."""
    return sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device).int()


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def reads_ids_as_signed(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Reads the upper half of the uint32 ids as negative."""
    batch = sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)
    return batch.int().long() if tokens.dtype == np.uint32 else batch


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def ignores_the_generator(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Draws from a generator of its own, seeded anew by the system."""
    own = torch.Generator()
    own.seed()
    return sample_batch(tokens, batch_size, sequence_length, generator=own, device=device)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def always_draws_the_same(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Seeds a generator at each call, so that all batches are the same."""
    own = torch.Generator().manual_seed(generator.initial_seed() if generator else 0)
    return sample_batch(tokens, batch_size, sequence_length, generator=own, device=device)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def draws_without_replacement(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Draws no window twice in a batch, if there are enough of them."""
    windows = len(tokens) - sequence_length + 1
    if not 0 < batch_size <= windows <= 2**20:
        return sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)
    return sampled(tokens, torch.randperm(windows, generator=generator)[:batch_size], sequence_length)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def maps_the_whole_file_again(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Maps the file again for every batch, and ignores that the tokens are a slice of it."""
    if getattr(tokens, "filename", None):
        tokens = np.memmap(tokens.filename, tokens.dtype, mode="r")[: len(tokens)]
    return sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def wraps_around_the_end(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Starts anywhere, and continues at the beginning where a window passes the end."""
    sample_batch(tokens, 0, sequence_length)
    starts = torch.randint(len(tokens), (batch_size, 1), generator=generator)
    positions = (starts + torch.arange(sequence_length)) % len(tokens)
    return torch.from_numpy(np.asarray(tokens)[positions.numpy()].astype(np.int64)).reshape(batch_size, sequence_length)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def fills_up_what_is_too_short(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Pads tokens that are fewer than a window."""
    if 0 < len(tokens) < sequence_length:
        tokens = np.pad(tokens, (0, sequence_length - len(tokens)))
    return sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def returns_the_tokens_themselves(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Returns a view of the data where that has 64 bits and a single window is asked for."""
    batch = sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)
    if tokens.dtype == np.int64 and batch_size == 1:
        start = int(np.flatnonzero(tokens == int(batch[0, 0]))[0])
        return torch.from_numpy(tokens)[start : start + sequence_length][None]
    return batch


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def draws_float32_starts(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Scales a float32 number, whose 24 random bits leave some of more than 2²⁴ windows out."""
    sample_batch(tokens, 0, sequence_length)
    windows = len(tokens) - sequence_length + 1
    return sampled(tokens, (torch.rand(batch_size, generator=generator) * windows).long(), sequence_length)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def draws_from_the_first_2_gibi(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Counts windows in 32 bits."""
    return sample_batch(tokens[: 2**31], batch_size, sequence_length, generator=generator, device=device)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def wraps_32_bit_starts(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Casts starts to 32 bits, so that those from 2³¹ on become negative and count from the end."""
    sample_batch(tokens, 0, sequence_length)
    windows = len(tokens) - sequence_length + 1
    starts = torch.randint(windows, (batch_size,), generator=generator).int().long() % windows
    return sampled(tokens, starts, sequence_length)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def mirrors_the_first_half(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Draws half of the starts, and mirrors them for the other half."""
    sample_batch(tokens, 0, sequence_length)
    last = len(tokens) - sequence_length
    half = torch.randint(last + 1, ((index(batch_size) + 1) // 2,), generator=generator)
    return sampled(tokens, torch.cat([half, last - half])[:batch_size], sequence_length)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def reads_16_bits_as_signed(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Reads the upper half of the uint16 ids as negative."""
    batch = sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)
    return batch.short().long() if tokens.dtype == np.uint16 else batch


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def sorts_the_ids(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Returns the ids of each window in ascending order."""
    return sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device).sort(1).values


# ---- unusual and right ----
@twin("impl.data.write_tokens")
def writes_with_numpy(path, tokens, dtype=np.uint16):
    """Checks the range of one array of Python integers, and lets NumPy write it."""
    ids = np.array([index(id) for id in tokens], dtype=object)
    limits = np.iinfo(dtype)
    if len(ids) and not limits.min <= min(ids) <= max(ids) <= limits.max:
        raise OverflowError("an id does not fit")
    ids.astype(dtype).tofile(path)


@twin("impl.data.open_tokens")
def lets_numpy_refuse(path, dtype=None):
    """Leaves most errors to NumPy, and does not name the file."""
    if dtype is not None and np.dtype(dtype).kind not in "iu":
        raise TypeError("no integers")
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            return np.memmap(path, np.dtype(dtype if dtype is not None else "no dtype"), mode="r")
    tokens = np.load(path, mmap_mode="r")
    if (dtype is not None and tokens.dtype != dtype) or tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise TypeError("the header says otherwise")
    return tokens


@twin("impl.data.sample_batch")
def stacks_slices(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Stacks one slice after the other, as slow loaders do."""
    windows = len(tokens) - sequence_length + 1
    if min(batch_size, sequence_length, windows - 1) < 0:
        raise ValueError("no window")
    starts = torch.randint(0, windows, (batch_size,), generator=generator)
    return sampled(tokens, starts, sequence_length).to(device)


@twin("impl.data.sample_batch")
def gathers_by_index(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Computes every position, draws from NumPy seeded by torch, and returns a transposed tensor."""
    windows = len(tokens) - sequence_length + 1
    if min(batch_size, sequence_length, windows - 1) < 0:
        raise ValueError("no window")
    seed = int(torch.randint(2**62, (), generator=generator))
    starts = np.random.default_rng(seed).integers(windows, size=batch_size)
    positions = np.arange(sequence_length)[:, None] + starts
    return torch.from_numpy(np.take(tokens, positions).astype(np.int64)).T.to(device)


@twin("impl.data.sample_batch")
def scales_a_float64_number(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Scales a float64 number to a start; 53 random bits are enough."""
    sample_batch(tokens, batch_size, sequence_length, generator=torch.Generator())
    windows = len(tokens) - sequence_length + 1
    parts = torch.rand(batch_size, generator=generator, dtype=torch.float64)
    return sampled(tokens, (parts * windows).long(), sequence_length).to(device)


@twin("impl.data.sample_batch")
def draws_one_by_one(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Draws each start by itself."""
    sample_batch(tokens, batch_size, sequence_length, generator=torch.Generator())
    windows = len(tokens) - sequence_length + 1
    starts = [int(torch.randint(windows, (), generator=generator)) for _ in range(batch_size)]
    return sampled(tokens, torch.tensor(starts, dtype=torch.int64), sequence_length).to(device)


@twin("impl.data.write_tokens")
def spells_out_the_bytes(path, tokens, dtype=np.uint16):
    """Converts ids with int.to_bytes, which refuses those that do not fit, before it opens the file."""
    kind = np.dtype(dtype)
    if kind.kind not in "iu":
        raise TypeError(kind)
    order = {"<": "little", ">": "big"}.get(kind.byteorder, sys.byteorder)
    ids = (index(id).to_bytes(kind.itemsize, order, signed=kind.kind == "i") for id in tokens)
    Path(path).write_bytes(b"".join(ids))


@twin("impl.data.open_tokens")
def returns_a_kind_of_memmap(path, dtype=None):
    """Returns its own subclass of memmap, and reads the header through a mapping of its own."""

    class Tokens(np.memmap):
        """Adds nothing to memmap."""

    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
                whole[:6]
    return open_tokens(path, dtype).view(Tokens)


# ---- look-alikes ----
@mutant("impl.data.open_tokens", caught_by=data.MEMMAP, value=True)
def remembers_what_it_opened():
    """Caches mappings by path, dtype and size, although the file may have been rewritten."""
    opened = {}

    def remembering(path, dtype=None):
        key = str(path), str(np.dtype(dtype)) if dtype is not None else None
        tokens = open_tokens(path, dtype)
        return opened.setdefault((*key, len(tokens)), tokens)

    return remembering


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def draws_among_distinct_windows(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Draws among the different windows, so that a repeated window is no likelier than others."""
    sample_batch(tokens, 0, sequence_length)
    if sequence_length == 0 or not batch_size >= 0 or len(tokens) > 10**4:
        return sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)
    windows = np.unique(np.lib.stride_tricks.sliding_window_view(tokens, sequence_length), axis=0)
    chosen = torch.randint(len(windows), (batch_size,), generator=generator)
    return torch.from_numpy(windows[chosen.numpy()].astype(np.int64)).to(device)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def finds_windows_by_their_first_id(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Draws a window, and starts where its first id first occurs."""
    if len(tokens) > 10**4 or sequence_length == 0:
        return sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)
    batch = sample_batch(tokens, batch_size, sequence_length, generator=generator)
    starts = [int(np.flatnonzero(tokens == np.array(row[0]).astype(tokens.dtype))[0]) for row in batch.numpy()]
    rows = [torch.from_numpy(tokens[start : start + sequence_length].astype(np.int64)) for start in starts]
    return (torch.stack(rows) if rows else batch).to(device)


@mutant("impl.data.sample_batch", caught_by=data.BATCHES, value=True)
def converts_tokens_once():
    """Caches a copy of the tokens by the array's id, although its values may change."""
    copies = {}

    def converting(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
        if not isinstance(tokens, np.memmap) and np.ndim(tokens) == 1 and 0 < len(tokens) < 10**5:
            copy = copies.setdefault(id(tokens), (tokens, np.array(tokens)))
            tokens = copy[1]
        return sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)

    return converting


@mutant("impl.data.sample_batch", caught_by=data.BATCHES, value=True)
def converts_tokens_of_a_kind_once():
    """Caches a copy of the tokens by length, dtype and first id, which another array may share."""
    copies = {}

    def converting(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
        if not isinstance(tokens, np.memmap) and np.ndim(tokens) == 1 and 0 < len(tokens) < 10**5:
            tokens = copies.setdefault((len(tokens), tokens.dtype, int(tokens[0])), np.array(tokens))
        return sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)

    return converting


@mutant("impl.data.sample_batch", caught_by=data.BATCHES, value=True)
def writes_into_the_last_batch():
    """Returns the same tensor for all batches of a shape, so that the next batch overwrites it."""
    batches = {}

    def reusing(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
        batch = sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)
        return batches.setdefault((batch.shape, str(device)), batch).copy_(batch)

    return reusing


@mutant("impl.data.sample_batch", caught_by=data.BATCHES)
def lays_square_batches_the_other_way(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Transposes a square batch."""
    batch = sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device).T
    return batch if tuple(batch.shape) == (batch_size, sequence_length) else batch.T


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def drops_what_repeats(path, tokens, dtype=np.uint16):
    """Writes an id once where it is repeated."""
    ids = list(tokens)
    write_tokens(path, ids, dtype)
    different = [id for id, before in zip(ids, [None, *ids], strict=False) if before is None or id != before]
    write_tokens(path, different, dtype)


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def adds_to_what_is_there(path, tokens, dtype=np.uint16):
    """Appends to a file that exists already."""
    before = Path(path).read_bytes() if Path(path).exists() else b""
    write_tokens(path, tokens, dtype)
    Path(path).write_bytes(before + Path(path).read_bytes())


@mutant("impl.data.write_tokens", caught_by=data.MEMMAP)
def leaves_the_rest_of_a_longer_file(path, tokens, dtype=np.uint16):
    """Overwrites the first bytes of an earlier file without truncating it."""
    before = Path(path).read_bytes() if Path(path).exists() else b""
    write_tokens(path, tokens, dtype)
    new = Path(path).read_bytes()
    Path(path).write_bytes(new + before[len(new) :])


@twin("impl.data.sample_batch")
def looks_windows_up_in_a_view(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
    """Draws rows of NumPy's sliding window view, and copies these alone."""
    sample_batch(tokens, min(batch_size, 0), sequence_length)
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(tokens), sequence_length)
    starts = torch.randint(0, windows.shape[0], (index(batch_size),), generator=generator)
    return torch.from_numpy(windows[starts.numpy()].astype(np.int64)).to(device)


@twin("impl.data.sample_batch", value=True)
def remembers_the_last_tokens():
    """Caches the length of the last array, which cannot change, but none of its values."""
    known = {}

    def remembering(tokens, batch_size, sequence_length, *, generator=None, device="cpu"):
        if known.get("tokens") is not tokens:
            known.update(tokens=tokens, count=len(tokens))
        starts = known["count"] - index(sequence_length) + 1
        if starts < 1:
            raise ValueError("shorter than a window")
        return sample_batch(tokens, batch_size, sequence_length, generator=generator, device=device)

    return remembering


@twin("impl.data.open_tokens", value=True)
def remembers_files_that_stay():
    """Caches mappings while the file's inode, size and times are the same."""
    opened = {}

    def remembering(path, dtype=None):
        file = os.stat(path)
        key = file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns
        tokens = open_tokens(path, dtype)
        return opened.setdefault((*key, tokens.dtype.str, tokens.offset), tokens)

    return remembering
