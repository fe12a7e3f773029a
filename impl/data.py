"""§3.4: tokens in a file that is mapped rather than read, and batches of random windows of them."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import torch
from torch import Generator, Tensor

__all__ = ["open_tokens", "sample_batch", "write_tokens"]

Array = np.ndarray[Any, np.dtype[Any]]
# A .npy file begins like this: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
MAGIC = b"\x93NUMPY"
CHUNK = 2**20  # While tokens are written, at most so many are in memory.


def write_tokens(
    path: str | Path, tokens: Iterable[SupportsIndex] | Array, dtype: np.dtype[Any] | type = np.uint16
) -> None:
    """Write token ids to a raw file: n × itemsize bytes of the integer type `dtype`, without a header.

    An iterable is read once, piece by piece. Raises OverflowError for an id that does not fit `dtype`, TypeError for
    one that is no integer and for a `dtype` of no integers, ValueError for an array of several dimensions. An error
    leaves the path as it was: an old file stays, and no partial file is left.
    """
    path, kind = Path(path), _integers(dtype)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as file:
            for ids in _chunks(tokens):
                file.write(_fitting(ids, kind).tobytes())
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def open_tokens(path: str | Path, dtype: np.dtype[Any] | type | None = None) -> np.memmap[Any, Any]:
    """Map a file of token ids, read-only and in one dimension; a page is read when it is first touched.

    A .npy file, whatever its name, records its dtype in its header; a raw file does not, so that the caller has to give
    it. Raises ValueError for a raw file without a `dtype`, for a `dtype` that a header contradicts, for a size that is
    no whole number of tokens, for an empty file, for a .npy file that is shorter or longer than its header says, and
    for one of several dimensions or of no integers; TypeError for a `dtype` of no integers; OSError where the file is
    missing or cannot be read. Each error names the file.
    """
    kind = None if dtype is None else _integers(dtype)
    with open(path, "rb") as file:
        recorded = file.read(len(MAGIC)) == MAGIC
        size = os.fstat(file.fileno()).st_size
    if recorded:
        return _open_recorded(path, kind, size)
    if kind is None:
        raise ValueError(f"{path}: a raw file does not record its dtype: name the one it was written in")
    if size == 0 or size % kind.itemsize:
        raise ValueError(f"{path}: {size} bytes are no whole number of {kind} tokens, one or more")
    return _identified(np.memmap(path, kind, mode="r"))


def sample_batch(
    tokens: Array,
    batch_size: SupportsIndex,
    sequence_length: SupportsIndex,
    *,
    generator: Generator | None = None,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Return random windows of the tokens, each start equally likely: int64 (batch_size, sequence_length).

    The starts are drawn, independently, from `generator`, a CPU one, or else from torch's own stream: the same state
    gives the same batch. `tokens` is one-dimensional, of any integer dtype, in memory or mapped; the batch is a copy.
    It is sent to an accelerator from pinned memory and asynchronously.

    Raises ValueError where there are fewer tokens than a window has, for a negative size, and for tokens of several
    dimensions; TypeError for a size that is no integer, and for tokens that are none. For tokens from `open_tokens`, or
    a slice of them, raises ValueError where the file was cut, replaced or written to since, and OSError where it is
    gone.
    """
    batch_size, sequence_length = index(batch_size), index(sequence_length)
    if tokens.ndim != 1:
        raise ValueError(f"tokens of shape {tokens.shape} have more or less than one dimension")
    windows = len(tokens) - sequence_length + 1
    if batch_size < 0 or sequence_length < 0 or windows < 1:
        raise ValueError(f"{len(tokens)} tokens have no batch of {batch_size} windows of {sequence_length}")
    _integers(tokens.dtype)
    _check_file(tokens)
    starts = torch.randint(windows, (batch_size,), generator=generator)
    flat = np.ascontiguousarray(tokens)
    window = f"V{sequence_length * flat.itemsize}"  # As one item of so many bytes, NumPy copies a window at once.
    chosen = np.ndarray(windows, window, flat, strides=flat.strides)[starts.numpy()]
    batch = torch.from_numpy(np.ndarray((batch_size, sequence_length), flat.dtype, chosen).astype(np.int64))
    return batch if str(device) == "cpu" else _sent(batch, torch.device(device))


def _sent(batch: Tensor, device: torch.device) -> Tensor:
    pinned = batch.pin_memory() if device.type in ("cuda", "xpu") else batch
    return pinned.to(device, non_blocking=True)


def _integers(dtype: np.dtype[Any] | type) -> np.dtype[Any]:
    kind = np.dtype(dtype)
    if kind.kind not in "iu":
        raise TypeError(f"{kind} holds no integers: tokens are ids, for example uint16")
    return kind


def _chunks(tokens: Iterable[SupportsIndex] | Array) -> Iterator[Array | list[int]]:
    if not isinstance(tokens, np.ndarray):
        ids = map(index, tokens)
        while chunk := list(islice(ids, CHUNK)):
            yield chunk
        return
    _integers(tokens.dtype)
    if tokens.ndim != 1:
        raise ValueError(f"tokens of shape {tokens.shape} have more or less than one dimension")
    for start in range(0, len(tokens), CHUNK):
        yield tokens[start : start + CHUNK]


def _fitting(ids: Array | list[int], dtype: np.dtype[Any]) -> Array:
    low, high = (ids.min(), ids.max()) if isinstance(ids, np.ndarray) else (min(ids), max(ids))
    limits = np.iinfo(dtype)
    for id in (int(low), int(high)):
        if not limits.min <= id <= limits.max:
            raise OverflowError(f"token id {id} does not fit {dtype}, which holds {limits.min} to {limits.max}")
    return np.asarray(ids, dtype)


def _open_recorded(path: str | Path, kind: np.dtype[Any] | None, size: int) -> np.memmap[Any, Any]:
    try:
        tokens = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{path}: not a complete .npy file of integers: {error}") from error
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise ValueError(f"{path}: a .npy file of {tokens.dtype} in {tokens.ndim} dimensions holds no tokens")
    if kind not in (None, tokens.dtype):
        raise ValueError(f"{path}: its header says {tokens.dtype}, not {kind}")
    if size != tokens.offset + tokens.nbytes:
        raise ValueError(f"{path}: {size} bytes, where its header says {tokens.offset + tokens.nbytes}")
    return _identified(tokens)


def _identified(tokens: np.memmap[Any, Any]) -> np.memmap[Any, Any]:
    """Record which file is mapped: its path can be given to another, and reading a cut file kills the process."""
    tokens.path = path = str(tokens.filename)  # type: ignore[attr-defined]
    tokens.identity = _identity(path)  # type: ignore[attr-defined]
    return tokens


def _identity(path: str) -> tuple[int, int, int, int]:
    file = os.stat(path)
    return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns


def _check_file(tokens: Any) -> None:
    while not hasattr(tokens, "identity"):  # A slice's `base` is the array that was opened.
        tokens = tokens.base
        if not isinstance(tokens, np.ndarray):
            return
    then, now = tokens.identity, _identity(tokens.path)
    if now == then:
        return
    if now[:2] != then[:2]:
        raise ValueError(f"{tokens.path}: another file was put in its place since it was opened")
    if now[2] < then[2]:
        raise ValueError(f"{tokens.path}: was cut to {now[2]} bytes since it was opened")
    raise ValueError(f"{tokens.path}: was written to since it was opened")
