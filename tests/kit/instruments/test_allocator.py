"""The allocator meter, and the claims that need it, against an allocator whose books we keep ourselves."""

import gc
import os
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from spec.evidence import Evidence, EvidenceError
from spec.instruments import allocator
from tests.claims import test_storage as claims

CPU = torch.device("cpu")
REQUESTED, ALLOCATED = "requested_bytes.all.current", "allocated_bytes.all.current"
REQUESTED_PEAK, ALLOCATED_PEAK = "requested_bytes.all.peak", "allocated_bytes.all.peak"


class Books:
    """Gives memory out in blocks and takes it back, by what torch.empty is asked for."""

    def __init__(self, block):
        self.block = block
        self.stats = {REQUESTED: 1000, ALLOCATED: 2 * block}  # what others hold

    def empty(self, *sizes, **options):
        tensor = _empty(*sizes, **options)
        size = tensor.untyped_storage().nbytes()
        self.add(size)
        weakref.finalize(tensor, self.add, -size)
        return tensor

    def add(self, size):
        sign = 1 if size > 0 else -1
        self.stats[REQUESTED] += size
        self.stats[ALLOCATED] += sign * allocator.in_blocks(abs(size), self.block)


_empty = torch.empty


@pytest.fixture(params=[512, 256, 1])
def books(request, monkeypatch):
    books = Books(request.param)
    monkeypatch.setattr(torch, "empty", books.empty)
    monkeypatch.setattr(
        torch, "get_device_module", lambda device: SimpleNamespace(memory_stats=lambda device: books.stats)
    )
    return books


@pytest.fixture
def evidence():
    evidence = Evidence()
    evidence.claim = "storage.allocator"
    return evidence


@pytest.mark.parametrize(("size", "blocks"), [(0, 0), (1, 1), (511, 1), (512, 1), (513, 2), (4096, 8)])
def test_sizes_are_rounded_up_to_whole_blocks(size, blocks):
    """A byte takes a block, a full block one, a byte more two."""
    assert allocator.in_blocks(size, 512) == 512 * blocks


def test_growth_is_what_the_new_tensor_adds(books):
    """What others hold does not count, and nothing is kept."""
    before = dict(books.stats)
    assert allocator.growth(lambda: torch.empty(300, dtype=torch.int16), CPU) == (
        600,
        allocator.in_blocks(600, books.block),
    )
    assert books.stats == before


def test_the_block_is_measured(books):
    """A tensor of one byte takes one block."""
    assert allocator.block(CPU) == books.block


def test_an_allocator_that_does_not_tell_has_no_block(monkeypatch):
    """Where a backend keeps no statistics, or other ones, there is nothing to measure."""
    for module in (SimpleNamespace(), SimpleNamespace(memory_stats=lambda device: {ALLOCATED: 1})):
        monkeypatch.setattr(torch, "get_device_module", lambda device, module=module: module)
        assert allocator.statistics(CPU) is None
        assert allocator.block(CPU) == 0
        with pytest.raises(RuntimeError, match="does not say"):
            allocator.growth(lambda: None, CPU)


def test_an_allocator_that_does_not_count_what_it_is_asked_for_has_no_block(monkeypatch):
    """CUDA's asynchronous one tells of the bytes given out, and always of 0 requested: nothing to measure."""
    books = Books(1)
    monkeypatch.setattr(torch, "empty", books.empty)
    module = SimpleNamespace(memory_stats=lambda device: books.stats | {REQUESTED: 0})
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    card = torch.device("meta")
    assert (allocator.block(card), allocator.can_be_read(card), allocator.can_be_read(CPU)) == (0, False, True)
    module.memory_stats = lambda device: books.stats
    assert (allocator.block(card), allocator.can_be_read(card)) == (1, True)


def test_the_claims_accept_blocks_of_any_size(books, evidence):
    """Memory given out in blocks verifies the law, and refutes the notes' wording unless a block is one byte."""
    claims.test_memory_grows_by_the_tensor_in_whole_blocks(evidence=evidence, accelerator=CPU)
    if books.block > 1:
        claims.test_a_single_value_takes_a_whole_block(evidence, CPU)
    else:
        with pytest.raises(EvidenceError, match="the allocated memory: measured 4 bytes, predicted anything but 4"):
            claims.test_a_single_value_takes_a_whole_block(evidence, CPU)


def test_the_claims_reject_other_books(books, evidence, monkeypatch):
    """Memory asked for beyond the values, or given out beyond the last block, fails the law."""
    add = books.add
    monkeypatch.setattr(books, "add", lambda size: add(size + (8 if size > 1 else -8 if size < -1 else 0)))
    message = r"^\[storage.allocator\] the requested memory: measured \d+ bytes, predicted \d+ bytes"
    with pytest.raises(EvidenceError, match=message):
        claims.test_memory_grows_by_the_tensor_in_whole_blocks(evidence=evidence, accelerator=CPU)


def test_the_claims_are_skipped_where_nothing_is_told(evidence, monkeypatch):
    """Without statistics there is no verdict."""
    monkeypatch.setattr(torch, "get_device_module", lambda device: SimpleNamespace())
    for test in (
        claims.test_memory_grows_by_the_tensor_in_whole_blocks,
        claims.test_a_single_value_takes_a_whole_block,
    ):
        with pytest.raises(pytest.skip.Exception, match="does not say how many bytes"):
            test(evidence=evidence, accelerator=CPU)


def test_workspaces_are_kept_unless_told_otherwise(monkeypatch):
    """torch reads an environment variable before its first product on CUDA; one that is set stays as it is."""
    for before, after in ((None, "1"), ("0", "0")):
        monkeypatch.setenv("TORCH_CUBLAS_WORKSPACE_CACHE", "")
        monkeypatch.delenv("TORCH_CUBLAS_WORKSPACE_CACHE")
        if before:
            monkeypatch.setenv("TORCH_CUBLAS_WORKSPACE_CACHE", before)
        allocator.keep_workspaces()
        assert os.environ["TORCH_CUBLAS_WORKSPACE_CACHE"] == after


# ---- the meter ----


class Storages(TorchDispatchMode):
    """Adds up the storages that operations return, each until it is collected."""

    def __init__(self):
        super().__init__()
        self.live = self.peak = 0
        self.seen = weakref.WeakSet()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = func(*args, **kwargs or {})
        for storage in (
            tensor.untyped_storage() for tensor in tree_leaves(results) if isinstance(tensor, torch.Tensor)
        ):
            if storage not in self.seen:
                self.seen.add(storage)
                self.add(storage.nbytes())
                weakref.finalize(storage, self.add, -storage.nbytes())
        return results

    def add(self, size):
        self.live += size
        self.peak = max(self.peak, self.live)

    def read(self):
        """Return what is alive, and the most that was since the last reading."""
        told, self.peak = (self.live, self.peak), self.live
        return told


def training(read, optimizer):
    """Train a small network twice; yield a reading after every phase."""
    x, y = torch.ones(5, 7), torch.ones(5)
    weights = [torch.full((7, 7), 0.1, requires_grad=True), torch.full((7, 1), 0.1, requires_grad=True)]
    optimizer = optimizer(weights)
    yield read()
    for _ in range(2):
        prediction = (x @ weights[0] @ weights[1]).squeeze(-1)
        loss = torch.nn.functional.mse_loss(prediction, y)
        yield read()
        loss.backward()
        yield read()
        optimizer.step()
        yield read()
        optimizer.zero_grad()
        del prediction, loss
        yield read()


OPTIMIZERS = {
    "sgd": lambda weights: torch.optim.SGD(weights),
    "momentum": lambda weights: torch.optim.SGD(weights, momentum=0.9),
    "adagrad": lambda weights: torch.optim.Adagrad(weights),
    "adam": lambda weights: torch.optim.Adam(weights),
}


@pytest.fixture(params=["legacy", "present"])
def profiler(request, monkeypatch):
    if request.param == "legacy" and not allocator.Events.legacy:
        pytest.skip("this torch has only the present profiler")
    monkeypatch.setattr(allocator.Events, "legacy", request.param == "legacy")


@pytest.mark.usefixtures("profiler")
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_the_meter_agrees_with_the_storages_that_are_alive(optimizer):
    """In each phase of a training step, the allocator's events add up to the storages that operations returned.

    Inside an operation only the allocator sees: the loss makes a tensor like the prediction, and a number has 12 bytes.
    """
    with allocator.MemoryMeter(CPU) as meter:
        heard = list(training(meter.read, optimizer))
    with Storages() as storages:
        seen = list(training(storages.read, optimizer))
    assert [reading.live.requested for reading in heard] == [live for live, _ in seen]
    hidden = [reading.peak.requested - peak for reading, (_, peak) in zip(heard, seen, strict=True)]
    assert hidden[2] == hidden[6] == 0  # backward
    assert all(0 <= size <= 4 * 5 + 12 for size in hidden)
    assert max(meter.history) == max(reading.peak.requested for reading in heard) > heard[0].live.requested > 0


@pytest.mark.usefixtures("profiler")
def test_the_meter_hears_every_change():
    """Each tensor counts with its own bytes, from when it is made until it is freed, the peak between readings too."""
    with allocator.MemoryMeter(CPU) as meter:
        assert meter.read() == ((0, 0), (0, 0))
        kept = torch.empty(10)
        torch.empty(3, dtype=torch.float64)
        kept.view(5, 2)
        assert meter.read() == ((40, 40), (64, 64))
        assert meter.read() == ((40, 40), (40, 40))
        del kept
        assert meter.read() == ((0, 0), (40, 40))
    assert meter.history == [0, 40, 64, 40, 0]


def test_the_meter_is_spared_the_garbage_collector():
    """Cycles are collected after the measurement, not in it, also where it fails."""

    def measure():
        with allocator.MemoryMeter(CPU):
            assert not gc.isenabled()
            raise KeyError

    assert gc.isenabled()
    with pytest.raises(KeyError):
        measure()
    assert gc.isenabled()
    with allocator.MemoryMeter(CPU):  # the profiler has ended, too: it cannot be nested
        pass


class Statistics(Books):
    """An accelerator's books: also the most that was given out since the last reset."""

    def __init__(self, block):
        super().__init__(block)
        self.reset_peak_memory_stats(None)

    def add(self, size):
        super().add(size)
        for peak, name in ((REQUESTED_PEAK, REQUESTED), (ALLOCATED_PEAK, ALLOCATED)):
            self.stats[peak] = max(self.stats[peak], self.stats[name])

    def memory_stats(self, device):
        return self.stats

    def reset_peak_memory_stats(self, device):
        self.stats |= {REQUESTED_PEAK: self.stats[REQUESTED], ALLOCATED_PEAK: self.stats[ALLOCATED]}


def test_the_meter_reads_the_statistics_of_an_accelerator(monkeypatch):
    """Live and peak, requested and allocated, each beyond what was given out at the start."""
    books = Statistics(512)
    monkeypatch.setattr(torch, "empty", books.empty)
    monkeypatch.setattr(torch, "get_device_module", lambda device: books)
    books.stats[REQUESTED_PEAK] = 9000  # of what was there before
    with allocator.MemoryMeter(torch.device("meta")) as meter:
        kept = torch.empty(10)
        torch.empty(300, dtype=torch.float64)
        assert meter.read() == ((40, 512), (2440, 3072))
        del kept
        assert meter.read() == ((0, 0), (40, 512))
    assert meter.history == [0]


def test_the_meter_needs_an_allocator_that_tells(monkeypatch):
    """Where a backend keeps no statistics, there is nothing to read, and the garbage collector is back."""
    monkeypatch.setattr(torch, "get_device_module", lambda device: SimpleNamespace())
    with pytest.raises(RuntimeError, match="does not say"), allocator.MemoryMeter(torch.device("meta")):
        pass
    assert gc.isenabled()
