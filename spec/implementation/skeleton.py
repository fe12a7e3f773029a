"""A package to fill in: the reference's public names, signatures and docstrings, without its code."""

import ast
import re
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from spec.implementation.contract import REFERENCE

DECORATORS = {"property", "cached_property", "classmethod", "staticmethod"}  # of a function: any other is code
INIT = '"""An implementation of the lecture notes, a module per chapter: check it with `pytest --spec-impl={}`."""\n'
UNTIL_THEN = '''def __getattr__(name: str) -> object:
    """Stand in for what is not written yet."""
    if name in __all__:
        raise NotImplementedError(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")'''


def package(name: str) -> dict[str, str]:
    """Return the text of each file of a package called `name`: one module for each of the reference.

    Raises FileNotFoundError where the reference is not on the import path.
    """
    spec = PathFinder.find_spec(REFERENCE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"there is no package {REFERENCE}, the reference: run it in the folder of the kit")
    folder = Path(spec.submodule_search_locations[0])
    sources = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("[!_]*.py"))}
    return {"__init__.py": INIT.format(name)} | {file: module(source) for file, source in sources.items()}


def module(source: str) -> str:
    """Return a module with the public names of another and what they mention, but none of its code."""
    tree = ast.parse(source)
    public = next(ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and "__all__" in _binds(n))
    statements = [_bare(node, public) for node in tree.body]
    bound = {name: node for node in statements for name in _binds(node)}
    wanted, mentioned = {"__all__", "annotations"}, [*public]  # annotations: of __future__
    while mentioned:
        name = mentioned.pop()
        if name in bound and name not in wanted:
            wanted.add(name)
            mentioned += [part.id for part in ast.walk(bound[name]) if isinstance(part, ast.Name)]
    imports, rest = [], []
    for node in statements:
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [alias for alias in node.names if _name(alias) in wanted]
            imports += [ast.unparse(node)] if node.names else []
        elif isinstance(node, ast.AnnAssign) and not node.value:
            rest.append(f"# Data, and yours to write:\n# {ast.unparse(node)} = …")
        elif wanted.intersection(_binds(node)):
            rest.append(ast.unparse(node))
    if any(isinstance(bound[name], ast.AnnAssign) for name in public):
        rest.append(UNTIL_THEN)
    parts = [f'"""{ast.get_docstring(tree)}"""', "\n".join(imports), "\n\n\n".join(rest)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _bare(node: ast.stmt, public: list[str]) -> ast.stmt:
    """Return a statement without code: definitions without bodies, public data without its value."""
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = [name for name in node.decorator_list if ast.unparse(name).split(".")[-1] in DECORATORS]
        node.body = [*_docstring(node), *ast.parse("raise NotImplementedError").body]
    elif isinstance(node, ast.ClassDef):
        members = [member for member in node.body if isinstance(member, ast.AnnAssign | ast.FunctionDef)]
        shown = [member for member in members if not re.match("_[^_]", next(_binds(member)))]
        node.body = [*_docstring(node), *(_bare(member, []) for member in shown)] or [ast.Pass()]
    elif public and isinstance(node, ast.Assign | ast.AnnAssign) and set(public).intersection(_binds(node)):
        annotation = node.annotation if isinstance(node, ast.AnnAssign) else ast.Name("object")
        return ast.AnnAssign(ast.Name(next(_binds(node))), annotation, None, simple=1)
    return node


def _docstring(node: ast.FunctionDef | ast.ClassDef) -> list[ast.stmt]:
    return node.body[: ast.get_docstring(node) is not None]


def _binds(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement gives a meaning to."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from map(_name, node.names)
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        yield from (t.id for t in getattr(node, "targets", [getattr(node, "target", None)]) if isinstance(t, ast.Name))


def _name(alias: ast.alias) -> str:
    """Return the name that an import gives: of `import a.b`, that is a."""
    return alias.asname or alias.name.split(".")[0]
