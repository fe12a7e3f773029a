"""What the threads do that a block starts is counted, and threads that ran beside it unseen are named."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import torch
from torch import nn

from spec.instruments.flops import FlopCounter, threads
from tests.kit.instruments.flop_cases import values
from tests.kit.instruments.flop_unusual import by_loops

PRODUCT = by_loops((3, 5, 7))


def multiply():
    return values(3, 5) @ values(5, 7)


def test_a_thread_that_the_block_starts():
    start = threading.Thread.start
    with FlopCounter() as counter:
        thread = threading.Thread(target=multiply)
        thread.start()
        thread.join()
    assert (counter.matmul, counter.unseen) == (PRODUCT, [])
    assert threading.Thread.start is start


def test_a_thread_of_a_class_of_ones_own_that_starts_another():
    class Starts(threading.Thread):
        def run(self):
            thread = threading.Thread(target=multiply)
            thread.start()
            thread.join()
            multiply()

    with FlopCounter() as counter:
        thread = Starts()
        thread.start()
        thread.join()
    assert counter.matmul == 2 * PRODUCT


def test_a_pool_that_was_there_before_and_one_that_was_not():
    with ThreadPoolExecutor(1) as before:
        before.submit(multiply).result()
        with FlopCounter() as counter, ThreadPoolExecutor(1) as inside:
            before.submit(multiply).result()
            inside.submit(multiply).result()
            list(inside.map(lambda _: multiply(), range(3)))
        before.submit(multiply).result()
    assert counter.matmul == 5 * PRODUCT


def test_a_pool_that_outlives_the_block_counts_no_more_and_counts_again():
    with ThreadPoolExecutor(1) as pool:
        counter = FlopCounter()
        for _ in range(2):
            with counter:
                pool.submit(multiply).result()
            pool.submit(multiply).result()
            assert counter.matmul == PRODUCT
        with counter:
            pass
        assert counter.matmul == 0


def test_every_counter_counts_its_own_threads():
    def other():
        with FlopCounter() as counter:
            multiply()
            counts.append(counter.matmul)

    counts: list[int] = []
    thread = threading.Thread(target=other)
    with FlopCounter() as outer:
        with FlopCounter() as inner:
            multiply()
        thread.start()
        thread.join()
    assert (outer.matmul, inner.matmul, counts) == (2 * PRODUCT, PRODUCT, [PRODUCT])


def test_many_threads_lose_no_count():
    def many():
        for _ in range(50):
            multiply()

    with FlopCounter() as counter, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: many(), range(8)))
    assert counter.matmul == 8 * 50 * PRODUCT


def test_backward_in_another_thread_belongs_to_the_modules_of_the_forward_pass():
    net = nn.Sequential(nn.Linear(5, 7, bias=False))
    with FlopCounter() as counter:
        loss = net(values(3, 5)).sum()
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    assert counter.by_module["Sequential.0"].matmul == counter.matmul == 2 * PRODUCT


def test_modules_of_two_threads_do_not_mix():
    net, other = nn.Sequential(nn.Linear(5, 7, bias=False)), nn.Sequential(nn.Sequential(nn.Linear(5, 7, bias=False)))

    def beside(*_):
        thread = threading.Thread(target=lambda: net(values(3, 5)).sum().backward())
        thread.start()
        thread.join()

    with FlopCounter() as counter:
        handle = other.register_forward_pre_hook(beside)
        other(values(3, 5))
        handle.remove()
    modules = counter.by_module
    assert counter.matmul == 3 * PRODUCT
    assert modules["Sequential.0.0"].matmul == PRODUCT
    assert modules["Sequential"].matmul <= counter.matmul


def test_a_thread_that_was_there_before_and_ran_is_named():
    begin, done, stop = threading.Event(), threading.Event(), threading.Event()

    def loader():
        begin.wait()
        multiply()
        done.set()
        stop.wait()

    thread = threading.Thread(target=loader, name="a loader")
    thread.start()
    try:
        with FlopCounter() as counter:
            begin.set()
            done.wait()
        assert counter.matmul == 0
        assert "a loader" in counter.unseen
        assert "unseen: what the thread a loader does" in counter.table()
    finally:
        stop.set()
        thread.join()


def test_what_fails_in_a_thread_fails_as_without_the_counter():
    def fail():
        raise ValueError("as ever")

    with FlopCounter(), ThreadPoolExecutor(1) as pool:
        error = pool.submit(fail).exception()
    assert isinstance(error, ValueError)
    assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == []


def test_a_program_with_kernels_of_its_own_is_listed_at_every_call(monkeypatch):
    class Compiled:
        def __call__(self, inputs):
            return inputs

    original = Compiled.__call__
    monkeypatch.setitem(sys.modules, threads.COMPILED, SimpleNamespace(CompiledFxGraph=Compiled))
    with FlopCounter() as counter:
        assert [Compiled()(3), Compiled()(5)] == [3, 5]
    assert counter.uncounted == {threads.KERNELS: 2}
    assert Compiled.__call__ is original


def test_a_thread_keeps_a_run_of_its_own():
    thread = threading.Thread()
    thread.run = run = multiply
    with FlopCounter() as counter:
        thread.start()
        thread.join()
    assert counter.matmul == PRODUCT
    assert thread.run is run
