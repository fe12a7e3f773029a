"""The receipt of a run: versions, devices and settings that a verdict depends on; no host, user or serial number."""

import datetime
import os
import platform
import re
from importlib import metadata
from typing import Any

import torch

from spec.hardware import devices, sensors
from spec.implementation import guard

PACKAGES = ("numpy", "pytest", "hypothesis", "einops", "jaxtyping", "beartype", "pytest-benchmark", "triton")
BUILT_WITH = {
    "mkl": r"Math Kernel Library Version ([\d.]+)",
    "onednn": r"MKL-DNN v([\d.]+)",
    "blas": r"BLAS_INFO=(\w+)",
}


def receipt(implementation: str, profile: str, seed: str, chosen: list[torch.device]) -> dict[str, Any]:
    """Return what this run is measured on, in plain JSON values."""
    return {
        "date": datetime.date.today().isoformat(),
        "implementation": implementation,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "libraries": libraries(),
        "devices": {str(device): devices.describe(device) for device in chosen},
        "accelerators": {str(device): sensors.state(device) for device in chosen if device.type != "cpu"},
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "profile": profile,
        "seed": seed,
        "settings": {
            "default dtype": str(torch.get_default_dtype()).removeprefix("torch."),
            "float32 matmul precision": guard.matmul_precision(),
            "float32 products on CUDA": str(torch.backends.cuda.matmul.fp32_precision),
            "float16 accumulation": bool(torch.backends.cuda.matmul.allow_fp16_accumulation),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        },
    }


def libraries() -> dict[str, str]:
    """Return the versions of the libraries that torch multiplies with, and the CPU's vector instructions it uses."""
    config = torch.__config__.show()
    found = {name: match[1] for name, pattern in BUILT_WITH.items() if (match := re.search(pattern, config))}
    found["vector instructions"] = torch.backends.cpu.get_cpu_capability()
    own = {"cuda": torch.version.cuda, "hip": torch.version.hip, "cudnn": _cudnn()}
    return found | {name: version for name, version in own.items() if version}


def header(receipt: dict[str, Any]) -> list[str]:
    """Return the lines that open a run: the implementation, the devices and the settings."""
    names = ", ".join(f"{device} ({name})" for device, name in receipt["devices"].items())
    shown = ("default dtype", "float32 matmul precision", "deterministic")
    settings = ", ".join(f"{name} {receipt['settings'][name]}" for name in shown)
    return [
        f"implementation: {receipt['implementation']}; profile: {receipt['profile']}",
        f"torch {receipt['torch']} on {names}",
        f"settings: {settings}",
    ]


def _cudnn() -> str | None:
    cudnn: Any = torch.backends.cudnn
    try:
        number = cudnn.version() if torch.accelerator.is_available() else None
    except RuntimeError:  # The installed cuDNN is another one than torch was built with.
        return None
    return str(number) if number else None


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
