"""Runtime type checkers (beartype, typeguard, jaxtyping) around an implementation: what is theirs and not its own."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import FunctionType

CHECKERS = {"beartype", "typeguard", "jaxtyping"}
BEARTYPED = "<@beartype("  # how the file name of code begins that beartype has written


def refuses(error: BaseException) -> bool:
    """Return whether an error is a checker's: it refuses a call before, or its result after, the call's own code."""
    return any(kind.__module__.partition(".")[0] in CHECKERS for kind in type(error).__mro__)


def draw_in(package: str) -> bool:
    """Return whether beartype checks functions of a package: which items of a list, it draws from Python's `random`."""
    modules = [module for name, module in list(sys.modules.items()) if f"{name}.".startswith(f"{package}.")]
    return any(_is_beartyped(value, set()) for module in modules for value in _functions(vars(module)))


def _functions(namespace: Mapping[str, object]) -> Iterator[FunctionType]:
    """Yield the functions of a module, and those of its classes."""
    for value in list(namespace.values()):
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, type):
            yield from (each for each in vars(value).values() if isinstance(each, FunctionType))


def _is_beartyped(function: FunctionType, seen: set[FunctionType]) -> bool:
    """Follow a function to those it wraps: jaxtyping keeps what beartype made of it in closures."""
    if function in seen:
        return False
    seen.add(function)
    if function.__code__.co_filename.startswith(BEARTYPED):
        return True
    wrapped = [getattr(function, "__wrapped__", None), *_held(function)]
    return any(_is_beartyped(each, seen) for each in wrapped if isinstance(each, FunctionType))


def _held(function: FunctionType) -> Iterator[object]:
    """Yield what a function's closure holds."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it may be empty
            yield cell.cell_contents
