"""An accelerator's own sensors, read through torch or its maker's library. A sensor that cannot be read is left out."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from spec.hardware import devices

DRIVER = Path("/proc/driver/nvidia/version")
# NVML documents these bits of nvmlDeviceGetCurrentClocksEventReasons.
REASONS = {
    0x1: "idle",
    0x2: "clocks set by an application",
    0x4: "power cap",
    0x8: "slowed by hardware",
    0x10: "kept in step with others",
    0x20: "too hot, slowed by software",
    0x40: "too hot, slowed by hardware",
    0x80: "power brake",
    0x100: "display clock",
}
# These reasons mean that the device is throttled. The power cap is none of them, as a healthy device reaches it under
# load; nor is 0x8, which any change of the clock reports.
SLOWED = {0x20, 0x40, 0x80}
MILLIWATTS = 1e3  # One watt has this many.


def state(device: torch.device) -> dict[str, Any]:
    """Return an accelerator's driver, memory, clocks, power and other processes, as far as they can be read."""
    handle, nvml = _nvml(device)
    module = _try(lambda: torch.get_device_module(device))
    readings: dict[str, Callable[[], Any]] = {
        "driver": driver,
        "memory_bytes": lambda: int(module.get_device_properties(device).total_memory),
        "free_bytes": lambda: devices.free_bytes(device),
        "cache_bytes": lambda: devices.cache_bytes(device) or None,
        "units": lambda: devices.units(device),
        "clock_mhz": lambda: int(module.clock_rate(device)),
        "power_watts": lambda: module.power_draw(device) / _power_units_per_watt(device),
        "maximum_clock_mhz": lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "power_limit_watts": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / MILLIWATTS,
        "throttled_by": lambda: _named(_reasons(nvml, handle)),
        "other_processes": lambda: _others(nvml, handle),
    }
    values = {name: _try(read) for name, read in readings.items()}
    return {name: value for name, value in values.items() if value is not None}


def slowed(device: torch.device) -> str:
    """Return why the device is throttled now; an empty string where it is not, or where it cannot be known."""
    handle, nvml = _nvml(device)
    reasons = _try(lambda: _reasons(nvml, handle)) or 0
    return "; ".join(_named(reasons & sum(SLOWED)))


def driver() -> str | None:
    """Return the version of NVIDIA's driver, from its kernel module."""
    version = re.search(r"\s(\d+\.\d+(\.\d+)?)\s", DRIVER.read_text(encoding="utf-8"))
    return version[1] if version else None


def _nvml(device: torch.device) -> tuple[Any, Any]:
    """Return NVML's handle of a CUDA device, found by its UUID, and the module pynvml; None and None without them."""

    def handle() -> tuple[Any, Any]:
        import pynvml  # type: ignore[import-not-found]

        pynvml.nvmlInit()
        identity = torch.cuda.get_device_properties(device).uuid
        return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{identity}"), pynvml

    absent = device.type != "cuda" or torch.version.hip is not None
    return (None, None) if absent else _try(handle) or (None, None)


def _reasons(nvml: Any, handle: Any) -> int:
    # Until 2023 the function had another name.
    read = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    read = read or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    return int(read(handle))


def _power_units_per_watt(device: torch.device) -> float:
    """Return 1000 where torch reports milliwatts, for CUDA; it reports watts for ROCm and XPU."""
    return MILLIWATTS if device.type == "cuda" and not torch.version.hip else 1.0


def _named(reasons: int) -> list[str]:
    return [name for bit, name in REASONS.items() if reasons & bit]


def _others(nvml: Any, handle: Any) -> int:
    """Count the other processes that compute on the device. In a container NVML may count this process, too."""
    return sum(process.pid != os.getpid() for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle))


def _try(read: Callable[[], Any]) -> Any:
    """Return the reading, or None whatever goes wrong: a receipt with a gap is better than no run."""
    try:
        return read()
    except Exception:
        return None
