"""What the kit needs of the Python that runs it: where that is missing, one line says so instead of a traceback."""

import importlib.util
import re
import sys

PYTHON = (3, 11)
TORCH = (2, 10)
MODULES = ("torch", "numpy", "pytest", "hypothesis", "einops", "jaxtyping", "pytest_benchmark")
REMEDY = "activate the environment that make sets up (. .venv/bin/activate), or install what pyproject.toml lists"


def missing() -> str:
    """Return in one line what this Python lacks; an empty string where it lacks nothing."""
    lack = _lack()
    return f"{sys.executable} {lack}: {REMEDY}" if lack else ""


def _lack() -> str:
    if sys.version_info < PYTHON:
        return f"is Python {_dotted(sys.version_info[:3])}, and {_dotted(PYTHON)} or newer is needed"
    if absent := [name for name in MODULES if importlib.util.find_spec(name) is None]:
        return f"has no {', '.join(absent)}"
    try:
        import torch
    except Exception as error:  # A build of torch for another machine raises an OSError, for example.
        return f"cannot import torch: {' '.join(str(error).split())}"
    found = tuple(int(part) for part in re.findall("[0-9]+", torch.__version__)[:2])
    return f"has torch {torch.__version__}, and {_dotted(TORCH)} or newer is needed" if found < TORCH else ""


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
