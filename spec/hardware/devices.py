"""The devices that claims run on, through torch's device-generic interface; asking creates no device context."""

from typing import Any

import torch

from spec.hardware import processors

MATRIX_CORES = ("gfx908", "gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")  # AMD's CDNA, RDNA 3 and 4


def accelerators() -> list[torch.device]:
    """Return every accelerator present, in index order."""
    kind = torch.accelerator.current_accelerator()  # torch was built for it; it may be absent.
    if kind is None:
        return []
    module = torch.get_device_module(kind)
    return [torch.device(kind.type, index) for index in range(module.device_count())]


def parse(name: str) -> torch.device | str:
    """Return the device that --spec-device names, or one line that says why it cannot be used."""
    present = [torch.device("cpu"), *accelerators()]
    choices = ", ".join(map(str, present))
    try:
        device = torch.device(name)
    except RuntimeError:
        return f"--spec-device={name}: no such kind of device; this machine has {choices}"
    if device.type != "cpu" and device.index is None:
        device = torch.device(device.type, 0)
    if device.type == "cpu":
        device = torch.device("cpu")
    return device if device in present else f"--spec-device={name}: not on this machine, which has {choices}"


def describe(device: torch.device) -> str:
    """Return the device's own name, such as "NVIDIA H200" or "AMD EPYC, 2 threads"."""
    return name(device) + (f", {torch.get_num_threads()} threads" if device.type == "cpu" else "")


def name(device: torch.device) -> str:
    """Return what torch calls the device, exactly; a CPU's is its maker's."""
    if device.type == "cpu":
        return _processor()
    if device.type == "mps":
        return str(torch.backends.mps.get_name())
    module = torch.get_device_module(device)
    return str(module.get_device_name(device)) if hasattr(module, "get_device_name") else device.type.upper()


def units(device: torch.device) -> int | None:
    """Return the number of multiprocessors, compute units or GPU cores; None where torch does not tell."""
    if device.type == "mps":
        return int(torch.backends.mps.get_core_count())
    return getattr(_properties(device), "multi_processor_count", None)


def memory_rate(device: torch.device) -> float | None:
    """Return the bytes per second that a CUDA device's memory clock and bus amount to, at two transfers per cycle."""
    properties = _properties(device)
    # CUDA counts it in kHz. An XPU has a property of this name in MHz.
    clock = getattr(properties, "memory_clock_rate", 0) if device.type == "cuda" else 0
    return clock * 1e3 * 2 * properties.memory_bus_width / 8 if clock else None


def multiplies_bfloat16(device: torch.device) -> bool | None:
    """Return whether the device has matrix or vector units that multiply bfloat16; None where nothing tells."""
    if device.type == "cpu" and processors.restricted():
        return None
    if device.type == "cpu":
        flags = set(processors.cpuinfo()[0].get("flags", "").split()) if processors.cpuinfo() else set()
        return bool(flags & {"avx512_bf16", "amx_bf16"}) if "avx2" in flags else None
    if device.type == "cuda" and torch.version.hip is not None:  # where is_bf16_supported says yes of any device
        return True if str(_properties(device).gcnArchName).startswith(MATRIX_CORES) else None
    if device.type == "cuda":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return None


def cache_bytes(device: torch.device) -> int:
    """Return the size of the device's last cache as torch tells it; 0 where it does not."""
    return int(getattr(_properties(device), "L2_cache_size", 0))


def free_bytes(device: torch.device) -> int | None:
    """Return how many bytes can still be allocated; None where nothing tells."""
    if device.type == "cpu":
        return _free_on_the_host()
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    module = torch.get_device_module(device)
    return int(module.mem_get_info(device)[0]) if hasattr(module, "mem_get_info") else None


def _properties(device: torch.device) -> Any:
    """Return what torch knows of an accelerator: an object whose fields depend on its kind; None where nothing."""
    if device.type == "cpu":
        return None
    module = torch.get_device_module(device)
    return module.get_device_properties(device) if hasattr(module, "get_device_properties") else None


def _free_on_the_host() -> int | None:
    try:
        with open("/proc/meminfo", encoding="utf-8") as lines:
            kibibytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
        return int(kibibytes) * 2**10
    except (OSError, StopIteration):
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        import platform

        return platform.processor() or platform.machine()
