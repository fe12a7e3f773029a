"""Optimizers without torch's compiler.

torch's optimizers import the compiler when they are first used, which takes as long as importing torch itself. No claim
is about compiled code, and an optimizer's two calls into the compiler do nothing outside compiled code.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

import torch

COMPILER = "torch._dynamo"


class _StandIn(ModuleType):
    """Stands in for the compiler in an optimizer's calls, and imports the real one as soon as anything else is used."""

    @staticmethod
    def graph_break(*_: object, **__: object) -> None:
        """Do nothing, since nothing is being compiled."""

    @staticmethod
    def disable(fn: Any, *_: object, **__: object) -> Any:
        """Return the function unchanged, since nothing would compile it."""
        return fn

    def __getattr__(self, name: str) -> Any:
        # Code that looks through all modules, such as inspect, asks for dunder names. It needs no compiler.
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(COMPILER) is self:
            del sys.modules[COMPILER]
            vars(torch).pop("_dynamo", None)
        return getattr(importlib.import_module(COMPILER), name)


def without_compiler() -> None:
    """Keep torch's compiler from being imported until something needs more of it than an optimizer does."""
    if COMPILER not in sys.modules:
        sys.modules[COMPILER] = stand_in = _StandIn(COMPILER)
        vars(torch)["_dynamo"] = stand_in
