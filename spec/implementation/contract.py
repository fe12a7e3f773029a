"""The public surface another implementation is held to: read from the reference package's source, never imported."""

import ast
import functools
import inspect
import pkgutil
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

REFERENCE = "impl"
Parameter = inspect.Parameter


@dataclass(frozen=True)
class Entry:
    """One public name: its source for a skeleton, and the parameters of a call (None where it is not callable)."""

    node: ast.stmt
    parameters: tuple[Parameter, ...] | None

    def __str__(self) -> str:
        return "" if self.parameters is None else str(inspect.Signature(self.parameters))

    def mismatch(self, value: object) -> str:
        """Say in what way `value` cannot be called as the contract says; an empty string if it can."""
        if self.parameters is None:
            return ""
        if not callable(value):
            return f"is not callable: the contract is {self}"
        try:
            found = inspect.signature(value)
        except (TypeError, ValueError):  # a builtin that does not tell
            return ""
        plain = [p for p in self.parameters if p.kind is not Parameter.KEYWORD_ONLY]
        variadic = any(p.kind is Parameter.VAR_POSITIONAL for p in plain)
        required = [p for p in self.parameters if p.default is Parameter.empty]
        keywords = {p.name: 0 for p in self.parameters if p.kind is Parameter.KEYWORD_ONLY}
        names = [p.name for p in plain]
        calls: list[tuple[list[str], dict[str, int]]] = [(["", ""] if variadic else names, keywords)]
        if not variadic:
            calls.append(([], {p.name: 0 for p in self.parameters}))
            calls.append(([], {p.name: 0 for p in required}))
        for args, kwargs in calls:
            try:
                bound = found.bind(*args, **kwargs).arguments
            except TypeError:
                return f"takes {_bare(found)}: the contract is {self}"
            if args == names and any(name in names and bound[name] != name for name in bound):  # in another order
                return f"takes {_bare(found)}: the contract is {self}"
        return ""


def chapters(package: str = REFERENCE) -> frozenset[str]:
    """Return the names of the reference package's modules."""
    spec = PathFinder.find_spec(package)
    inside = spec.submodule_search_locations if spec else None
    return frozenset(module.name for module in pkgutil.iter_modules(list(inside or [])))


@functools.cache
def chapter(name: str, package: str = REFERENCE) -> dict[str, Entry]:
    """Return the public names of one chapter's module in the reference package; empty if there is none."""
    spec = PathFinder.find_spec(package)
    path = Path((spec.submodule_search_locations or [""])[0] if spec else "", f"{name}.py")
    if not path.is_file():
        return {}
    nodes = {_name(node): node for node in ast.parse(path.read_text(encoding="utf-8")).body}
    return {
        name: Entry(nodes[name], _parameters(nodes[name])) for name in _public(nodes.get("__all__")) if name in nodes
    }


def _name(node: ast.stmt) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", node)
    return str(getattr(target, "name", getattr(target, "id", "")))


def _public(node: ast.stmt | None) -> list[str]:
    return list(ast.literal_eval(node.value)) if isinstance(node, ast.Assign | ast.AnnAssign) and node.value else []


def _parameters(node: ast.stmt) -> tuple[Parameter, ...] | None:
    if isinstance(node, ast.ClassDef):
        init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        return _parameters(init)[1:] if init and _parameters(init) else None  # type: ignore[index]
    if not isinstance(node, ast.FunctionDef):
        return None
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults

    def parameter(argument: ast.arg, kind: inspect._ParameterKind, default: ast.expr | None) -> Parameter:
        shown = Parameter.empty if default is None else _Source(ast.unparse(default))
        return Parameter(argument.arg, kind, default=shown)

    found = [parameter(a, Parameter.POSITIONAL_OR_KEYWORD, d) for a, d in zip(positional, defaults, strict=True)]
    if arguments.vararg:
        found.append(parameter(arguments.vararg, Parameter.VAR_POSITIONAL, None))
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found += [parameter(a, Parameter.KEYWORD_ONLY, d) for a, d in pairs]
    return tuple(found)


def _bare(signature: inspect.Signature) -> str:
    """Write a signature without annotations, as the contract's, on one line."""
    parameters = [p.replace(annotation=Parameter.empty) for p in signature.parameters.values()]
    return " ".join(str(inspect.Signature(parameters)).split())


class _Source(str):
    """A default value, shown as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
