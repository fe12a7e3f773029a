"""Work that is killed at a chosen moment: what came before has happened, and nothing after it has."""

import os

import pytest

from spec.instruments import interruption, processes


def kill_a_writer(folder, moments):
    """Kill a program of known file operations at each moment: the list of moments, and what lay in the folder."""
    import os
    import threading

    from spec.instruments import interruption

    def work():
        with open(f"{folder}/first", "wb", buffering=0) as file:  # 0
            file.write(b"1")  # 1
            os.fsync(file.fileno())  # 2
        os.replace(f"{folder}/first", f"{folder}/second")  # 3, and 4 once it has been renamed
        os.close(os.open(f"{folder}/second", os.O_WRONLY | os.O_SYNC))  # 5, 6 and 7
        remover = threading.Thread(target=os.unlink, args=(f"{folder}/second",))
        remover.start()  # 8, in a thread of its own
        remover.join()

    begun, found = interruption.moments(work), []
    for moment in range(moments):
        interruption.kill_at(work, moment)
        found.append(sorted(f"{name} {os.path.getsize(f'{folder}/{name}')}" for name in os.listdir(folder)))
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
    return [begun, found]


def kill_a_sleeper(path, seconds):
    """Kill a program that writes every 10 ms: how long that took, and how often it wrote."""
    import os
    import time

    from spec.instruments import interruption

    def work():
        while True:
            with open(path, "ab") as file:
                file.write(b"x")
            time.sleep(0.01)

    start = time.monotonic()
    interruption.kill_after(work, seconds)
    took, size = time.monotonic() - start, os.path.getsize(path) if os.path.exists(path) else 0
    time.sleep(0.05)
    return [took, size, os.path.getsize(path) if os.path.exists(path) else 0]


def test_each_moment_is_just_before_its_operation(tmp_path):
    """Killed at a moment, the program has done what comes before and not the operation itself."""
    begun, found = processes.fresh().run(kill_a_writer, folder=str(tmp_path), moments=10)
    assert begun == ["open", "write", "fsync", "replace", "renamed", "open", "synchronised", "close", "unlink"]
    assert found == [[], ["first 0"], ["first 1"], ["first 1"], *[["second 1"]] * 5, []]


def test_it_ends_after_a_while(tmp_path):
    """Killed after 0.2 s it has written at most so long, and writes no more."""
    took, size, later = processes.fresh().run(kill_a_sleeper, path=str(tmp_path / "file"), seconds=0.2)
    assert took >= 0.2
    assert size == later <= took / 0.01 + 1


def test_an_error_of_the_work_is_raised_and_the_watch_ends():
    """Without a fork the work's own error comes through, and nothing is watched any more."""
    import sys

    with pytest.raises(ZeroDivisionError):
        interruption.moments(lambda: 1 / 0)
    assert sys.getprofile() is None


def test_what_python_calls_itself_is_seen(tmp_path):
    """pathlib's and shutil's operations are those of os."""
    import shutil

    path = tmp_path / "a"

    def work():
        path.write_bytes(b"12")
        shutil.move(path, tmp_path / "b")
        os.sync()
        (tmp_path / "b").unlink()

    begun = interruption.moments(work)
    assert [name for name in begun if name in interruption.SYNCS | interruption.RENAMES] == ["rename", "sync"]
    assert "write" in begun
    assert "unlink" in begun
