"""Sizes that fit: on a device whose memory we make up."""

import pytest
import torch

from spec.hardware import devices
from spec.instruments import fitting

CPU = torch.device("cpu")


def memory(limit, error):
    """Return an allocation that fails above a limit, and the sizes that were asked of it."""
    asked = []

    def make(size):
        asked.append(size)
        if size > limit:
            raise error
        return "made"

    return make, asked


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: you tried …"),
        MemoryError(),
    ],
    ids=["accelerator", "cpu", "python"],
)
def test_a_size_that_does_not_fit_is_halved_and_told(error):
    """Out of memory at 64 and at 32, it is made at 16, and says so."""
    make, asked = memory(20, error)
    assert fitting.fitting(make, 64) == ("made", 16, "out of memory at 32: measured at 16")
    assert asked == [64, 32, 16]


def test_a_size_that_fits_is_kept():
    """Nothing is said where nothing is halved."""
    make, asked = memory(64, MemoryError())
    assert fitting.fitting(make, 64) == ("made", 64, "")
    assert asked == [64]


def test_the_least_size_is_not_halved():
    """Where even that does not fit, the error is the device's own."""
    make, asked = memory(1, torch.OutOfMemoryError("out of memory"))
    with pytest.raises(torch.OutOfMemoryError):
        fitting.fitting(make, 64, least=16)
    assert asked == [64, 32, 16]


def test_other_errors_are_not_taken_for_it():
    """A mistake of the test's is no reason to try a smaller size."""
    make, asked = memory(1, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes"):
        fitting.fitting(make, 64)
    assert asked == [64]


def test_a_real_allocation_that_does_not_fit_is_recognised():
    """More memory than there are addresses: torch's own error on the CPU."""
    with pytest.raises(RuntimeError) as error:
        torch.empty(2**62, dtype=torch.int8)
    assert fitting.out_of_memory(error.value)


@pytest.mark.parametrize(("free", "expected"), [(10**9, 64), (100, 32), (63, 16), (1, 8), (None, 64)])
def test_a_size_is_chosen_for_the_free_memory(monkeypatch, free, expected):
    """A byte per unit of size takes no more than half of what is free; the least size is kept."""
    monkeypatch.setattr(devices, "free_bytes", lambda device: free)
    assert fitting.affordable(64, CPU, bytes_of=float, least=8) == expected


def test_a_size_is_chosen_for_the_time_there_is(monkeypatch):
    """At a second per unit, 20 seconds are enough for 16."""
    monkeypatch.setattr(devices, "free_bytes", lambda device: None)
    assert fitting.affordable(64, CPU, bytes_of=float, seconds_of=float, budget=20.0) == 16


def test_this_machine_has_free_memory():
    """What is free is more than a mebibyte, and no more than there is, where the system tells."""
    free = devices.free_bytes(CPU)
    assert free is None or free > 2**20
