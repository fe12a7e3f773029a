"""A CPU's peak, computed: cores × clock × floating-point operations per cycle of its vector units."""

import ctypes
import functools
import mmap
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

CPUINFO = Path("/proc/cpuinfo")
CPUS = Path("/sys/devices/system/cpu")
# x86-64 machine code: rcx and eax get the argument; then, until rcx is 0, eax = eax · eax is computed eight times.
# Each product waits for the one before it.
CHAIN = bytes.fromhex("4889f9 89f8" + "0fafc0" * 8 + "48ffc9 75e3 c3")
CYCLES = 8 * 3  # One turn has 8 products of 3 cycles each, on every x86 since Nehalem and Zen (uops.info).
TURNS = 20_000


class Vector(NamedTuple):
    """The vector units of one core: the float32 fused multiply-adds that they start per cycle, and a description."""

    lanes: int
    units: str


def peak(column: str) -> tuple[float | None, str]:
    """Return the highest FLOP/s of torch's threads and how it is computed; None and the reason where it is unknown."""
    if column not in ("float32", "float64", "bfloat16"):
        return None, f"the speed of a CPU in {column} is not known here"
    processors = cpuinfo()
    vector = vectors(processors[0]) if processors else None
    if vector is None:
        return None, "the vector units of this CPU are not known here"
    per_cycle = operations_per_cycle(column, vector, processors[0].get("flags", "").split())
    if per_cycle is None:
        return None, f"this CPU has no vector instructions for {column}"
    if (clock := clock_rate()) is None:
        return None, "the clock of this CPU is not known"
    cores = min(torch.get_num_threads(), cores_of(processors))
    note = f"{cores} cores × {clock / 1e9:.2f} GHz × {per_cycle} FLOP per cycle, for {vector.units}"
    return cores * clock * per_cycle, note


def operations_per_cycle(column: str, vector: Vector, flags: list[str]) -> int | None:
    """Return one core's floating-point operations per cycle: a fused multiply-add is two.

    float64 has half of float32's lanes. bfloat16 has twice its products (AVX512-BF16), or 1024 operations per cycle
    in AMX's tiles (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Intel AMX").
    """
    if column == "bfloat16":
        if "amx_bf16" in flags:
            return 1024
        return 4 * vector.lanes if "avx512_bf16" in flags else None
    return 2 * vector.lanes if column == "float32" else vector.lanes


def vectors(processor: dict[str, str]) -> Vector | None:
    """Return a core's vector units by maker, family and model, as its flags do not say them; None if unknown.

    AMD: Zen and Zen+ split 256-bit operations, Zen 4 splits 512-bit ones, Zen 5 has two full 512-bit units (AMD's
    software optimization guides for families 17h, 19h and 1Ah). Intel: two units of the widest vectors are assumed, as
    all Xeon Gold and Platinum have them; the peak of a part with a single 512-bit unit is given too high.
    """
    flags = processor.get("flags", "").split()
    maker, family = processor.get("vendor_id"), int(processor.get("cpu family", "0"))
    if "fma" not in flags or "avx2" not in flags:
        return None
    if maker == "AuthenticAMD":
        if family == 26 and "avx512f" in flags:
            return Vector(32, "two 512-bit units (Zen 5)")
        if family in (25, 26) or (family == 23 and int(processor.get("model", "0")) >= 0x30):
            return Vector(16, "two 256-bit units (Zen 2 to 4)")
        return Vector(8, "two 128-bit units (Zen)") if family == 23 else None
    if maker == "GenuineIntel" and family == 6:
        return Vector(32, "two 512-bit units, assumed") if "avx512f" in flags else Vector(16, "two 256-bit units")
    return None


def cores_of(processors: list[dict[str, str]]) -> int:
    """Return how many physical cores this process may use. Two hardware threads of a core share its vector units."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    cores = {
        (p.get("physical id", ""), p.get("core id", p["processor"]))
        for p in processors
        if allowed is None or int(p["processor"]) in allowed
    }
    return max(len(cores), 1)


@functools.cache
def cpuinfo() -> list[dict[str, str]]:
    """Return the fields of /proc/cpuinfo for each processor; an empty list on systems other than Linux."""
    try:
        blocks = CPUINFO.read_text(encoding="utf-8").strip().split("\n\n")
    except OSError:
        return []
    pairs = [[line.partition(":") for line in block.splitlines()] for block in blocks]
    found = [{name.strip(): value.strip() for name, _, value in lines} for lines in pairs]
    return [processor for processor in found if "processor" in processor]


def restricted() -> bool:
    """Return whether oneDNN, which multiplies bfloat16, is off or kept from some of the processor's instructions."""
    limits = [os.environ.get(f"{name}_MAX_CPU_ISA", "ALL").upper() for name in ("ONEDNN", "DNNL")]
    mkldnn: Any = torch.backends.mkldnn
    return not mkldnn.is_available() or not mkldnn.enabled or not {*limits} <= {"ALL", "DEFAULT"}


@functools.cache
def clock_rate() -> float | None:
    """Return the highest clock in Hz: the kernel's maximum, or the measured clock if that is higher.

    The kernel of a virtual machine gives no maximum. The figure in /proc/cpuinfo is no help either: it is the nominal
    clock, which cores exceed.
    """
    rates = [rate for rate in (_kernels_maximum(), measured_rate()) if rate]
    return max(rates, default=None)


def _kernels_maximum() -> float | None:
    try:
        rates = [int(path.read_text()) for path in CPUS.glob("cpu[0-9]*/cpufreq/cpuinfo_max_freq")]
    except (OSError, ValueError):
        rates = []
    return max(rates) * 1e3 if rates else None


def measured_rate() -> float | None:
    """Measure the clock in Hz by a chain of products that takes a known number of cycles; None where it cannot run."""
    if platform.machine() not in ("x86_64", "AMD64") or platform.system() != "Linux":
        return None
    try:
        page = mmap.mmap(-1, len(CHAIN), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:  # Some systems let no program write its own code.
        return None
    page.write(CHAIN)
    chain: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(
        ctypes.addressof(ctypes.c_char.from_buffer(page))
    )
    best = min(_seconds(lambda: chain(TURNS)) for _ in range(40))  # Other programs can only slow a run down.
    return TURNS * CYCLES / best


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
