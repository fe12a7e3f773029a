"""Optimizers without torch's compiler: they import it when first used, which takes as long as torch itself.

No claim is about compiled code, and what an optimizer asks of the compiler means nothing outside it.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

import torch

COMPILER = "torch._dynamo"


class _StandIn(ModuleType):
    """Does what an optimizer asks of the compiler outside compiled code, and makes way as soon as more is wanted."""

    @staticmethod
    def graph_break(*_: object, **__: object) -> None:
        """Do nothing: there is no graph."""

    @staticmethod
    def disable(fn: Any, *_: object, **__: object) -> Any:
        """Return the function as it is: nothing compiles it."""
        return fn

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # whoever looks through all modules wants no compiler
            raise AttributeError(name)
        if sys.modules.get(COMPILER) is self:
            del sys.modules[COMPILER]
            vars(torch).pop("_dynamo", None)
        return getattr(importlib.import_module(COMPILER), name)


def without_compiler() -> None:
    """Spare this process the compiler until something needs more of it than an optimizer does."""
    if COMPILER not in sys.modules:
        sys.modules[COMPILER] = stand_in = _StandIn(COMPILER)
        vars(torch)["_dynamo"] = stand_in
