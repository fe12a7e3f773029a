"""What impl.data promises beyond the contract: nothing half written, errors by name, files that change while open."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from impl import data
from spec.instruments import processes
from spec.oracles import streams
from tests.kit.calls import calls


def test_a_refused_write_leaves_everything_as_it_was(tmp_path):
    """The old file stays, and nothing lies beside it."""
    path = tmp_path / "tokens"
    data.write_tokens(path, [1, 2, 3], np.uint8)
    for wrong, error in ((256, OverflowError), (-1, OverflowError), (1.0, TypeError)):
        with pytest.raises(error):
            data.write_tokens(path, iter([*range(200), wrong]), np.uint8)
    with pytest.raises(TypeError):
        data.write_tokens(path, np.array([1.0]), np.uint8)
    with pytest.raises(TypeError):
        data.write_tokens(path, [1], np.float32)
    with pytest.raises(ValueError, match="dimension"):
        data.write_tokens(path, np.ones((2, 2), int), np.uint8)
    assert path.read_bytes() == b"\1\2\3"
    assert list(tmp_path.iterdir()) == [path]


def test_a_long_iterator_is_written_in_chunks(tmp_path, monkeypatch):
    """It is read once, and the file is whole."""
    monkeypatch.setattr(data, "CHUNK", 7)
    for tokens, count in ((iter(range(100)), 100), (np.arange(100), 100), (range(0), 0), (range(7), 7)):
        data.write_tokens(tmp_path / "tokens", tokens)
        assert (tmp_path / "tokens").read_bytes() == np.arange(count, dtype=np.uint16).tobytes()


def test_an_iterator_is_never_held_whole(tmp_path, monkeypatch):
    """Of 100,000 tokens no more than a chunk of 1,000 is in memory at once, the integers themselves included."""
    monkeypatch.setattr(data, "CHUNK", 1000)
    tracemalloc.start()
    data.write_tokens(tmp_path / "tokens", iter(range(1000, 101_000)), np.uint32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 100_000
    assert len(data.open_tokens(tmp_path / "tokens", np.uint32)) == 100_000


def test_a_file_may_be_written_from_its_own_tokens(tmp_path):
    """What is mapped stays readable until all of it is written, and is then the old file."""
    path = tmp_path / "tokens"
    data.write_tokens(path, range(5000))
    tokens = data.open_tokens(path, np.uint16)
    data.write_tokens(path, tokens[1::2])
    assert data.open_tokens(path, np.uint16).tolist() == list(range(1, 5000, 2))
    assert tokens.tolist() == list(range(5000))


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (0, 5)])
def test_batches_of_no_windows_and_windows_of_no_tokens(sizes):
    """They are int64 of the shape that was asked for."""
    batch = data.sample_batch(np.arange(5), *sizes)
    assert (batch.dtype, tuple(batch.shape)) == (torch.int64, sizes)


def test_without_a_generator_torchs_own_stream_is_drawn_from():
    """After the same seed it gives the same batch."""
    with streams.restored():
        batches = [torch.manual_seed(7) and data.sample_batch(np.arange(10_000), 9, 4) for _ in range(2)]
    assert torch.equal(*batches)


@pytest.mark.parametrize(
    "content",
    [np.ones((2, 3), np.int32), np.ones(3, np.float32), np.array([None]), np.array(3)],
    ids=["matrix", "floats", "objects", "scalar"],
)
def test_a_npy_file_of_something_else_is_refused_by_name(tmp_path, content):
    """Tokens are integers in one dimension."""
    path = tmp_path / "other.npy"
    np.save(path, content)
    with pytest.raises(ValueError, match=r"other\.npy"):
        data.open_tokens(path)


def test_errors_say_which_file_it_is(tmp_path):
    """A missing file, a folder, a cut one, one of no known or another dtype, and one longer than its header says."""
    (tmp_path / "odd").write_bytes(b"123")
    (tmp_path / "empty").write_bytes(b"")
    np.save(tmp_path / "other.npy", np.arange(9, dtype=np.uint16))
    (tmp_path / "short").write_bytes((tmp_path / "other.npy").read_bytes()[:-2])
    (tmp_path / "stub").write_bytes((tmp_path / "other.npy").read_bytes()[:40])
    with (tmp_path / "long").open("wb") as file:
        np.save(file, np.arange(9, dtype=np.uint16))
        file.write(b"more")
    names = ("missing", ".", "odd", "empty", "long", "short", "stub")
    for name, dtype in (*((name, np.uint16) for name in names), ("odd", None), ("long", None), ("other.npy", np.int32)):
        with pytest.raises((OSError, ValueError), match=str(tmp_path)):
            data.open_tokens(tmp_path / name, dtype)
    with pytest.raises(TypeError, match="float32"):
        data.open_tokens(tmp_path / "odd", np.float32)


def test_tokens_of_another_kind_are_refused():
    """Floats, and tokens of several dimensions."""
    with pytest.raises(TypeError, match="float32"):
        data.sample_batch(np.ones(9, np.float32), 1, 2)
    with pytest.raises(ValueError, match="dimension"):
        data.sample_batch(np.ones((3, 3), np.int32), 1, 2)
    for sizes in ((2.0, 2), (2, 2.0)):
        with pytest.raises(TypeError):
            data.sample_batch(np.ones(9, np.int32), *sizes)


def sample_after(path, change):
    """Open a file, change it, and sample; return what came of it. A cut file may kill the process."""
    import os

    import numpy as np

    from impl import data

    np.zeros(2**20, np.uint16).tofile(path)
    os.utime(path, ns=(0, 0))  # long ago
    tokens = data.open_tokens(path, np.uint16)
    if change.endswith("under a part"):
        tokens = np.asarray(tokens[100:-100])[10:]
    data.sample_batch(tokens, 4, 16)
    if change.startswith("cut"):
        os.truncate(path, 4096)
    elif change == "removed":
        os.unlink(path)
    elif change == "overwritten":
        np.ones(2**20, np.uint16).tofile(path)
    elif change == "replaced":
        np.ones(2**20, np.uint16).tofile(path + ".new")
        os.replace(path + ".new", path)
    try:
        return str(data.sample_batch(tokens, 64, 16).shape)
    except (ValueError, FileNotFoundError) as error:
        return str(error)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("none", "torch.Size([64, 16])"),
        ("cut", "{}: was cut to 4096 bytes since it was opened"),
        ("cut under a part", "{}: was cut to 4096 bytes since it was opened"),
        ("removed", "[Errno 2] No such file or directory: '{}'"),
        ("overwritten", "{}: was written to since it was opened"),
        ("replaced", "{}: another file was put in its place since it was opened"),
    ],
)
def test_a_file_that_changed_while_open_is_refused(tmp_path, change, told):
    """A cut file would kill the process; a replaced one would silently go on being the old one."""
    path = tmp_path / "changing"
    assert processes.fresh().run(sample_after, path=str(path), change=change) == told.format(path)


def open_as_somebody(path):
    """Try to open a file without the rights to; return what came of it."""
    import os

    from impl import data

    if os.geteuid() == 0:
        os.seteuid(65534)  # whom nothing belongs to
    try:
        return str(data.open_tokens(path, "u1"))
    except PermissionError as error:
        return str(error)


def test_a_file_that_may_not_be_read_is_refused_by_name(tmp_path):
    """Permission is denied."""
    path = tmp_path / "secret"
    path.write_bytes(b"123")
    path.chmod(0)
    assert str(path) in processes.fresh().run(open_as_somebody, path=str(path))


def anonymous():
    """Return the bytes of this process's own memory, which no file stands behind."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells what memory is anonymous")
def test_batches_of_a_large_file_take_no_memory(tmp_path):
    """A thousand batches of a file of 1 GB leave less than 16 MB behind."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(10**9)
    tokens = data.open_tokens(path, np.uint16)
    generator = torch.Generator().manual_seed(0)
    before = anonymous()
    for _ in range(1000):
        data.sample_batch(tokens, 64, 1024, generator=generator)
    grown = anonymous() - before
    print(f"1,000 batches: {grown / 1e6:+.1f} MB of anonymous memory")
    assert grown < 16e6


def test_a_batch_is_drawn_at_once():
    """64 windows take as many calls of Python's as 8 do, and a fifth of what slices take, stacked one by one."""
    tokens = np.arange(50_000, dtype=np.uint16)
    generator = torch.Generator().manual_seed(0)

    def at_once(batch):
        return calls(lambda: data.sample_batch(tokens, batch, 1024, generator=generator))

    def one_by_one():
        starts = torch.randint(len(tokens) - 1024 + 1, (64,), generator=generator)
        torch.stack([torch.from_numpy(tokens[start : start + 1024].astype(np.int64)) for start in starts])

    assert at_once(64) == at_once(8)
    assert at_once(64) * 5 <= calls(one_by_one)
