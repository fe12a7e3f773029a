"""What an accelerator says of its own state, where torch or its maker's library tells; asking never fails."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from spec.hardware import devices

DRIVER = Path("/proc/driver/nvidia/version")
# The bits of nvmlDeviceGetCurrentClocksEventReasons that NVML documents.
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
# Not the power cap, which a device under load reaches in good health, nor 0x8, which any change of its clock reports.
SLOWED = {0x20, 0x40, 0x80}
WATT = 1e3  # milliwatts


def state(device: torch.device) -> dict[str, Any]:
    """Return driver, memory, clocks, power and company of an accelerator, as far as anything tells."""
    handle, nvml = _nvml(device)
    module = _try(lambda: torch.get_device_module(device))
    asked: dict[str, Callable[[], Any]] = {
        "driver": driver,
        "memory_bytes": lambda: int(module.get_device_properties(device).total_memory),
        "free_bytes": lambda: devices.free_bytes(device),
        "cache_bytes": lambda: devices.cache_bytes(device) or None,
        "units": lambda: devices.units(device),
        "clock_mhz": lambda: int(module.clock_rate(device)),
        "power_watts": lambda: (
            module.power_draw(device) / (WATT if device.type == "cuda" and not torch.version.hip else 1)
        ),
        "maximum_clock_mhz": lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "power_limit_watts": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / WATT,
        "throttled_by": lambda: _named(_reasons(nvml, handle)),
        "other_processes": lambda: _others(nvml, handle),
    }
    found = {name: _try(ask) for name, ask in asked.items()}
    return {name: value for name, value in found.items() if value is not None}


def slowed(device: torch.device) -> str:
    """Return why the device does not run as fast as it can just now; empty where it does, or does not tell."""
    handle, nvml = _nvml(device)
    reasons = _try(lambda: _reasons(nvml, handle)) or 0
    return "; ".join(_named(reasons & sum(SLOWED)))


def driver() -> str | None:
    """Return the version of NVIDIA's driver, which its kernel module tells."""
    version = re.search(r"\s(\d+\.\d+(\.\d+)?)\s", DRIVER.read_text(encoding="utf-8"))
    return version[1] if version else None


def _nvml(device: torch.device) -> tuple[Any, Any]:
    """Return NVML's handle of a CUDA device, found by what identifies it, and NVML; None and None without."""

    def handle() -> tuple[Any, Any]:
        import pynvml  # type: ignore[import-not-found]

        pynvml.nvmlInit()
        identity = torch.cuda.get_device_properties(device).uuid
        return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{identity}"), pynvml

    absent = device.type != "cuda" or torch.version.hip is not None
    return (None, None) if absent else _try(handle) or (None, None)


def _reasons(nvml: Any, handle: Any) -> int:
    ask = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or (
        nvml.nvmlDeviceGetCurrentClocksThrottleReasons  # its name until 2023
    )
    return int(ask(handle))


def _named(reasons: int) -> list[str]:
    return [name for bit, name in REASONS.items() if reasons & bit]


def _others(nvml: Any, handle: Any) -> int:
    """Count the other processes that compute on the device; in a container NVML may not tell which is ours."""
    return sum(process.pid != os.getpid() for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle))


def _try(ask: Callable[[], Any]) -> Any:
    """Return the answer, or None whatever goes wrong: a receipt with a gap is better than no run."""
    try:
        return ask()
    except Exception:
        return None
