"""The devices that claims run on, through torch's device-generic interface; asking creates no device context."""

import torch


def accelerators() -> list[torch.device]:
    """Return every accelerator present, in index order."""
    kind = torch.accelerator.current_accelerator()  # what this torch was built for, present or not
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
    if device.type != "cpu":
        module = torch.get_device_module(device)
        return str(module.get_device_name(device)) if hasattr(module, "get_device_name") else device.type.upper()
    return f"{_processor()}, {torch.get_num_threads()} threads"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        import platform

        return platform.processor() or platform.machine()
