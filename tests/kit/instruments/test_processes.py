"""Fresh processes: nothing of this one reaches them, they report what happens there, and can be killed."""

import os
import signal
import time

import pytest
import torch

from spec.instruments import processes


def add(a, b):
    return a + b


def first_draw(seed):
    import torch

    return [torch.initial_seed(), int(torch.randint(1000, (), generator=torch.Generator().manual_seed(seed)))]


def parents_pid():
    import os

    return [os.getpid(), os.getppid()]


def fail():
    raise ValueError("not\ntoday")


def end():
    import os

    os._exit(3)


def write_then_sleep(path):
    import pathlib
    import time

    pathlib.Path(path).write_text("here")
    time.sleep(60)


def wait_for(path):
    import pathlib
    import time

    while not pathlib.Path(path).exists():
        time.sleep(0.001)


def modules():
    import sys

    return sorted(name for name in ("torch", "numpy", "pytest", "hypothesis", "impl") if name in sys.modules)


def threads():
    import torch

    return [torch.get_num_threads(), float((torch.ones(600, 600) @ torch.ones(600, 600)).sum())]


@pytest.fixture(scope="module")
def fresh():
    """Give a source of fresh processes that has imported what it does outside the kit's own tests, and no more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "PRELOAD", processes.PRELOAD[:2])
        source = processes.Fresh()
    yield source
    source.close()


def test_a_function_is_run_elsewhere(fresh):
    """It has another process id, each call its own, and is not a child of ours."""
    assert fresh.run(add, a=2, b=3) == 5
    first, second = fresh.run(parents_pid), fresh.run(parents_pid)
    assert len({os.getpid(), first[0], second[0]}) == 3
    assert first[1] == second[1] != os.getpid()


def test_nothing_of_this_process_reaches_it(fresh):
    """It has imported torch and NumPy only, and its random state is not ours."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12345)
        assert fresh.run(modules) == ["numpy", "torch"]
        draw = int(torch.randint(1000, (), generator=torch.Generator().manual_seed(7)))
        seed, drawn = fresh.run(first_draw, seed=7)
        assert (seed == 12345, drawn) == (False, draw)


def test_it_computes_on_several_threads(fresh):
    """A fork that has not computed yet can start threads of its own."""
    assert fresh.run(threads) == [torch.get_num_threads(), 600.0**3]


def test_an_exception_is_told(fresh):
    """Its type and its message come back on one line."""
    with pytest.raises(
        processes.ProcessError, match=r"^fail, in a fresh process, raises ValueError: not today$"
    ) as got:
        fresh.run(fail)
    assert got.value.kind == "ValueError"


def test_a_process_that_dies_is_told(fresh):
    """It neither hangs the run nor passes for a result."""
    with pytest.raises(processes.ProcessError, match="the fresh process that ran end died"):
        fresh.run(end)


def test_a_process_can_be_killed(fresh, tmp_path):
    """When `kill` returns the process is gone."""
    path = tmp_path / "file"
    process = fresh.start(write_then_sleep, path=str(path))
    while not path.exists():
        time.sleep(0.001)
    process.kill()
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:  # its parent takes note a moment later
        try:
            os.kill(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.001)
    else:
        pytest.fail("still alive")


def test_an_answer_that_nobody_waits_for_is_dropped(capfd, tmp_path):
    """A process whose caller has gone meanwhile ends without a word on standard error."""
    own = processes.Fresh()
    process = own.start(wait_for, path=str(tmp_path / "file"))
    process._lines.close()
    (tmp_path / "file").touch()
    deadline = time.monotonic() + 300
    while os.path.exists(f"/proc/{process.pid}") and time.monotonic() < deadline:
        time.sleep(0.001)
    own._server.stdin.close()
    own._server.wait(300)
    assert capfd.readouterr().err == ""


def test_a_prelude_comes_first(fresh, monkeypatch):
    """What every process has to do before its function is done there."""
    monkeypatch.setattr(processes, "PRELUDE", ["import sys; sys.modules['impl'] = sys"])
    assert fresh.run(modules) == ["impl", "numpy", "torch"]


def test_the_interpreter_ends_with_the_session():
    """Once its standard input closes it goes, and takes its folder along."""
    own = processes.Fresh()
    assert own.run(add, a=1, b=1) == 2
    own._server.stdin.close()
    assert own._server.wait(300) == 0
    assert not own._folder.exists()


def test_an_interrupt_does_not_end_it():
    """Ctrl-C reaches the whole group of processes; the run still has something to report."""
    own = processes.Fresh()
    own.run(add, a=1, b=1)
    own._server.send_signal(signal.SIGINT)
    assert own.run(add, a=1, b=2) == 3
    own._server.stdin.close()
    own._server.wait(300)


def test_a_fork_leaves_the_waiting_interpreter_alone():
    """What ends in a fork of this process, pytest itself, say, is not the end of the processes here."""
    child = os.fork()
    if not child:
        processes.fresh().close()
        os._exit(0)
    os.waitpid(child, 0)
    assert processes.fresh().run(add, a=1, b=2) == 3
