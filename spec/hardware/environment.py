"""The receipt: versions, devices and settings that a verdict depends on; no host, user or serial number."""

import os
import platform
from importlib import metadata
from typing import Any

import torch

from spec import guard
from spec.hardware import devices

PACKAGES = ("numpy", "pytest", "hypothesis", "einops", "jaxtyping", "beartype", "pytest-benchmark")


def receipt(implementation: str, profile: str, seed: str, chosen: list[torch.device]) -> dict[str, Any]:
    """Return what this run is measured on, in plain JSON values."""
    return {
        "implementation": implementation,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "devices": {str(device): devices.describe(device) for device in chosen},
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "profile": profile,
        "seed": seed,
        "settings": {
            "default dtype": str(torch.get_default_dtype()).removeprefix("torch."),
            "float32 matmul precision": guard.matmul_precision(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        },
    }


def header(receipt: dict[str, Any]) -> list[str]:
    """Return the lines that open a run: what is checked, on what, in which settings."""
    names = ", ".join(f"{device} ({name})" for device, name in receipt["devices"].items())
    settings = ", ".join(f"{name} {value}" for name, value in receipt["settings"].items())
    return [
        f"implementation: {receipt['implementation']}; profile: {receipt['profile']}",
        f"torch {receipt['torch']} on {names}",
        f"settings: {settings}",
    ]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
