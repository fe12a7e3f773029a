"""Which module an operator belongs to: in forward by the calls that are open, in backward by autograd's node.

Every call of a module is a scope below the scope that called it. autograd numbers its nodes as it makes them, so that
the scope of a node is the one that was open when its number was due. A module that backward calls again, as activation
checkpointing does, is sought among the scopes in which it ran in forward; where several fit, their common one is taken.
FLOPs go to a scope and all that enclose it, so that the parts never exceed the whole. What belongs to no module, or to
one that is not known, is "Global" alone.
"""

import threading
import weakref
from bisect import bisect_right
from collections.abc import Iterable
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

next_number: Any = torch._C._autograd._get_sequence_nr
NOT_NUMBERED = 2**63  # Nodes that accumulate gradients have the largest number there is.


class Scope:
    """The calls of a module within the same calls of others."""

    def __init__(self, module: nn.Module | None = None, name: str = "Global", outer: "Scope | None" = None) -> None:
        self.outer, self.name = outer, name
        names = () if outer is None else outer.names
        self.names: tuple[str, ...] = names if name in names else (*names, name)
        self._module = None if module is None else weakref.ref(module)
        self._inner: dict[int, Scope] = {}

    def is_of(self, module: nn.Module) -> bool:
        """Whether it is a module's own."""
        return self._module is not None and self._module() is module

    def known(self, module: nn.Module) -> "Scope | None":
        """Return the scope of a module that was called in this one."""
        scope = self._inner.get(id(module))
        return scope if scope is not None and scope.is_of(module) else None

    def inner(self, module: nn.Module) -> "Scope":
        """Return the scope of a module that is called in this one; a module that calls itself stays in its own."""
        if self.is_of(module):
            return self
        scope = self.known(module)
        if scope is None:
            scope = self._inner[id(module)] = self._new(module)
        return scope

    def _new(self, module: nn.Module) -> "Scope":
        """Return the scope of a module that was not called in this one; a grandchild's is in its own parent's."""
        outer = self._module() if self._module is not None else None
        scope, name = self, ""
        for part, each in _path(outer, module) if outer is not None else [(type(module).__name__, module)]:
            name = f"{name}.{part}" if name else part
            if each is module:
                return Scope(module, name if scope.outer is None else f"{scope.name}.{name}", scope)
            if not isinstance(each, nn.ModuleList | nn.ModuleDict):  # Those are never called.
                scope, name = scope._at(each, name), ""
        raise AssertionError("a path ends at its module")

    def _at(self, module: nn.Module, name: str) -> "Scope":
        scope = self.known(module)
        if scope is None:
            scope = self._inner[id(module)] = Scope(module, f"{self.name}.{name}", self)
        return scope

    def enclosing(self) -> "Iterable[Scope]":
        """Yield it and all that enclose it, the outermost last."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


def _path(outer: nn.Module, module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the names and modules on the shortest way from one module to another, or the latter's class for a name."""
    ways: list[list[tuple[str, nn.Module]]] = [[]]
    seen = {id(outer)}
    for way in ways:
        for name, child in (way[-1][1] if way else outer).named_children():
            if id(child) not in seen:
                seen.add(id(child))
                ways.append([*way, (name, child)])
                if child is module:
                    return ways[-1]
    return [(type(module).__name__, module)]


def common(one: Scope, other: Scope) -> Scope:
    """Return the innermost scope that encloses two."""
    scopes = list(one.enclosing())
    return next(scope for scope in other.enclosing() if scope in scopes)


class _Call(NamedTuple):
    """An open call: of which module, in which scope, from which of autograd's nodes, and whether the scope is sure."""

    module: nn.Module
    scope: Scope
    node: Any
    sure: bool


class _Thread:
    """The calls that are open in a thread, and the scopes of the nodes that it made, by the numbers they begin at."""

    def __init__(self, outermost: Scope) -> None:
        self.calls: list[_Call] = []
        # autograd has threads of its own for devices: one of those begins with a module that backward calls again.
        self.task = None if torch._C._current_autograd_node() is None else torch._C._current_graph_task_id()
        self._numbers = [next_number()]
        self._scopes = [outermost]

    def note(self, scope: Scope) -> None:
        """Note the scope of the nodes to come."""
        number = next_number()
        if number == self._numbers[-1]:
            self._scopes[-1] = scope
        else:
            self._numbers.append(number)
            self._scopes.append(scope)

    def scope_of(self, number: int) -> Scope | None:
        """Return the scope of a node by its number, unless it is older than the first."""
        index = bisect_right(self._numbers, number)
        return self._scopes[index - 1] if index else None


class Modules:
    """Follows the calls of modules in every thread whose operators are counted."""

    def __init__(self) -> None:
        self._hooks: list[Any] = []
        self._forget()

    def _forget(self) -> None:
        self._outermost = Scope()
        self._threads: dict[int, _Thread] = {}

    def open(self, is_watched: Any) -> None:
        """Begin: `is_watched` says of the thread that asks whether its operators are counted."""
        self._forget()
        self._is_watched = is_watched
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        self._here()

    def close(self) -> None:
        """End."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        for thread in self._threads.values():
            thread.calls.clear()

    def _here(self) -> _Thread:
        ident = threading.get_ident()
        thread = self._threads.get(ident)
        if thread is None:
            thread = self._threads[ident] = _Thread(self._outermost)
            if thread.task is not None:
                # The nodes that it makes do not outlive the backward pass, and later ones have the same numbers.
                torch.autograd.Variable._execution_engine.queue_callback(partial(self._drop, ident))
        return thread

    def _drop(self, ident: int) -> None:
        self._threads.pop(ident, None)

    def _makers(self) -> list[_Thread]:
        """Return the threads that may have made the nodes of the backward pass that runs in this thread."""
        task, here = torch._C._current_graph_task_id(), self._threads.get(threading.get_ident())
        if here is not None and here.task not in (None, task):
            return [here]  # This pass is inside another, and goes through what this thread has just computed again.
        return [thread for thread in list(self._threads.values()) if thread.task is None or thread.task != task]

    def _enter(self, module: nn.Module, _: Any) -> None:
        if not self._is_watched():
            return
        here, node = self._here(), torch._C._current_autograd_node()
        scope, sure = self._called(here, node, module)
        here.calls.append(_Call(module, scope, node, sure))
        here.note(scope)

    def _called(self, here: _Thread, node: Any, module: nn.Module) -> tuple[Scope, bool]:
        """Return the scope of a module that is called now, and whether it is sure."""
        if here.calls and here.calls[-1].node is node:
            last = here.calls[-1]
            return (last.scope.inner(module) if last.sure else last.scope), last.sure
        if node is None:
            return self._outermost.inner(module), True
        return _again(self._scope_of(node), node, module)

    def _leave(self, module: nn.Module, _: Any, __: Any) -> None:
        here = self._threads.get(threading.get_ident())
        if here is None or not any(call.module is module for call in here.calls):
            return  # It was called before the counter was entered.
        while here.calls.pop().module is not module:
            pass  # Only an Exception lets torch call this for every module that it ends.
        here.note(here.calls[-1].scope if here.calls else self._outermost)

    def _scope_of(self, node: Any) -> Scope:
        """Return the scope that was open when autograd made a node."""
        number = node._sequence_nr()
        if number >= NOT_NUMBERED:
            return self._outermost
        # Every thread numbers its own nodes, and a node does not say which thread made it.
        scopes = [scope for thread in self._makers() if (scope := thread.scope_of(number))]
        return reduce(common, scopes, scopes[0]) if scopes else self._outermost

    @property
    def scope(self) -> Scope:
        """The scope of what is computed now in this thread."""
        node, here = torch._C._current_autograd_node(), self._threads.get(threading.get_ident())
        if here is not None and here.calls and here.calls[-1].node is node:
            return here.calls[-1].scope
        return self._outermost if node is None else self._scope_of(node)

    @property
    def parents(self) -> tuple[str, ...]:
        """The names of the modules that what is computed now belongs to, "Global" first."""
        return self.scope.names


def _again(scope: Scope, node: Any, module: nn.Module) -> tuple[Scope, bool]:
    """Return the scope of a module that backward calls, from a node made in some scope, and whether it is sure.

    Checkpointing with re-entry calls it from a node made where the checkpoint was; without re-entry from the first node
    that needs what it saved, somewhere inside.
    """
    if node.name() == "CheckpointFunctionBackward":
        return scope.inner(module), True
    callers = [each for each in scope.enclosing() if each.known(module)]
    if not callers:
        return scope.inner(module), True
    return (callers[0].inner(module), True) if len(callers) == 1 else (callers[-1], False)
