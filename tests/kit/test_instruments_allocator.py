"""The allocator meter, and the claims that need it, against an allocator whose books we keep ourselves."""

import weakref
from types import SimpleNamespace

import pytest
import torch

from spec.evidence import Evidence, EvidenceError
from spec.instruments import allocator
from tests.claims import test_storage as claims

CPU = torch.device("cpu")
REQUESTED, ALLOCATED = "requested_bytes.all.current", "allocated_bytes.all.current"


class Books:
    """Gives memory out in blocks and takes it back, by what torch.empty is asked for."""

    def __init__(self, block):
        self.block = block
        self.told = {REQUESTED: 1000, ALLOCATED: 2 * block}  # what others hold

    def empty(self, *sizes, **options):
        tensor = _empty(*sizes, **options)
        size = tensor.untyped_storage().nbytes()
        self.add(size)
        weakref.finalize(tensor, self.add, -size)
        return tensor

    def add(self, size):
        sign = 1 if size > 0 else -1
        self.told[REQUESTED] += size
        self.told[ALLOCATED] += sign * allocator.in_blocks(abs(size), self.block)


_empty = torch.empty


@pytest.fixture(params=[512, 256, 1])
def books(request, monkeypatch):
    books = Books(request.param)
    monkeypatch.setattr(torch, "empty", books.empty)
    monkeypatch.setattr(
        torch, "get_device_module", lambda device: SimpleNamespace(memory_stats=lambda device: books.told)
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
    before = dict(books.told)
    assert allocator.growth(lambda: torch.empty(300, dtype=torch.int16), CPU) == (
        600,
        allocator.in_blocks(600, books.block),
    )
    assert books.told == before


def test_the_block_is_measured(books):
    """A tensor of one byte takes one block."""
    assert allocator.block(CPU) == books.block


def test_an_allocator_that_does_not_tell_has_no_block(monkeypatch):
    """Where a backend keeps no statistics, or other ones, there is nothing to measure."""
    for module in (SimpleNamespace(), SimpleNamespace(memory_stats=lambda device: {ALLOCATED: 1})):
        monkeypatch.setattr(torch, "get_device_module", lambda device, module=module: module)
        assert allocator.statistics(CPU) is None
        assert allocator.block(CPU) == 0
        with pytest.raises(RuntimeError, match="does not tell"):
            allocator.growth(lambda: None, CPU)


def test_the_claims_accept_blocks_of_any_size(books, evidence):
    """Memory given out in blocks verifies the law, and refutes the notes' wording unless a block is one byte."""
    claims.test_memory_grows_by_the_tensor_in_whole_blocks(evidence=evidence, accelerator=CPU)
    if books.block > 1:
        claims.test_a_single_value_takes_a_whole_block(evidence, CPU)
    else:
        with pytest.raises(EvidenceError, match="measured 4 bytes allocated, predicted anything but 4"):
            claims.test_a_single_value_takes_a_whole_block(evidence, CPU)


def test_the_claims_reject_other_books(books, evidence, monkeypatch):
    """Memory asked for beyond the values, or given out beyond the last block, fails the law."""
    add = books.add
    monkeypatch.setattr(books, "add", lambda size: add(size + (8 if size > 1 else -8 if size < -1 else 0)))
    with pytest.raises(
        EvidenceError, match=r"^\[storage.allocator\] measured \d+ bytes requested, predicted \d+ bytes"
    ):
        claims.test_memory_grows_by_the_tensor_in_whole_blocks(evidence=evidence, accelerator=CPU)


def test_the_claims_are_skipped_where_nothing_is_told(evidence, monkeypatch):
    """Without statistics there is no verdict."""
    monkeypatch.setattr(torch, "get_device_module", lambda device: SimpleNamespace())
    for test in (
        claims.test_memory_grows_by_the_tensor_in_whole_blocks,
        claims.test_a_single_value_takes_a_whole_block,
    ):
        with pytest.raises(pytest.skip.Exception, match="does not tell what it gave out"):
            test(evidence=evidence, accelerator=CPU)
