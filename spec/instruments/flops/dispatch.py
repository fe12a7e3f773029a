"""The mode that sees every operator: it runs each as it would run without the mode, and hands on what it did.

Operators that torch makes of others are taken apart, but not where the dispatcher would not. A tensor subclass does its
own operators, on tensors of its own, and those are counted; its operator itself only if nothing was seen inside. Modes
that were entered before the counter stay below it: what they do is theirs, and a subclass's work below one is listed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils import _python_dispatch as modes
from torch.utils._python_dispatch import TorchDispatchMode

from spec.instruments.flops import higher_order
from spec.instruments.flops.lines import tensors
from spec.instruments.flops.registry import has_kernel, is_free, is_whole

# These subclasses of torch's own stand for plain tensors.
PLAIN = frozenset({FakeTensor, FunctionalTensor})
# Only the subclass itself can answer these.
ABOUT = frozenset(
    getattr(getattr(namespace, name), overload)
    for namespace, names in (
        (torch.ops.aten, "sym_is_contiguous is_contiguous is_strides_like_format is_non_overlapping_and_dense size "
         "sym_size stride sym_stride storage_offset sym_storage_offset numel sym_numel dim"),
        (torch.ops.prim, "layout"),
    )
    for name in names.split()
    if hasattr(namespace, name)
    for overload in getattr(namespace, name).overloads()
)  # fmt: skip
FREE, MADE_OF_OTHERS, COUNTED = range(3)


class Dispatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operator of a thread to the counter, as long as the counter is in the block that made this mode."""

    supports_higher_order_operators = True

    def __init__(self, counter: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counter, self.block = counter, counter.block
        self._kinds: dict[Any, int] = {}
        self._local = threading.local()  # The threads of autograd share the mode.

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let `torch.compile` compile, as it would without the counter, which sees what the compiled program calls."""
        return True

    @property
    def is_open(self) -> bool:
        """Whether the counter is still in the block that made this mode: threads may outlive it."""
        return self.counter.block is self.block

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if types and func in ABOUT:
            return NotImplemented
        if not self.is_open:
            return func(*args, **kwargs)
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = self._kind(func)
        if types and not PLAIN.issuperset(types):
            return self._of_subclass(kind, func, types, args, kwargs)
        if isinstance(func, HigherOrderOperator):
            return higher_order.run(self, func, args, kwargs)
        return self.run(kind, func, args, kwargs)

    def _kind(self, func: Any) -> int:
        packet = getattr(func, "_overloadpacket", func)
        if func in self.counter.flop_registry.own or packet in self.counter.flop_registry.own:
            return COUNTED
        if is_free(str(packet)):
            return FREE
        return COUNTED if isinstance(func, HigherOrderOperator) or is_whole(func) else MADE_OF_OTHERS

    def run(self, kind: int, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator, and enter what it cost."""
        if kind == MADE_OF_OTHERS and not has_kernel(func, (*args, *kwargs.values())):
            with self.again():
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        self._local.seen = getattr(self._local, "seen", 0) + 1
        if kind != FREE:
            self.counter.enter(func._overloadpacket, result, args, kwargs)
        return result

    @contextmanager
    def again(self) -> Iterator[None]:
        """Be in force again inside the handling of an operator, for which torch takes the mode out of force."""
        modes._push_mode(self)
        try:
            yield
        finally:
            modes._pop_mode()

    def others(self) -> list[Any]:
        """Return the modes below this one, but for those of torch's own (of fake tensors, of tracing)."""
        return [each for each in modes._get_current_dispatch_mode_stack() if getattr(each, "_mode_key", None) is None]

    def _of_subclass(self, kind: int, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator on a tensor subclass, and see what the subclass does."""
        if getattr(self._local, "passes", None) is func:
            self._local.passes = None
            return NotImplemented  # Then torch hands it to the subclass, with this mode in force.
        names = ", ".join(sorted({each.__name__ for each in types if each not in PLAIN}))
        if self.others():
            result = func(*args, **kwargs)
            if kind != FREE:
                self.counter.list_uncounted(f"{_name(func)} (of {names}, below another mode)")
            return result
        seen, entered = getattr(self._local, "seen", 0), self.counter.entries
        with self.again():
            self._local.passes = func
            try:
                result = func(*args, **kwargs)
            finally:
                self._local.passes = None
        if kind != FREE and entered == self.counter.entries:
            self._enter_whole(seen, names, func, result, args, kwargs)
        return result

    def _enter_whole(self, seen: int, names: str, func: Any, result: Any, args: Any, kwargs: Any) -> None:
        """Enter an operator of a subclass that did none which costs anything: by the sizes that it shows, or listed."""
        if getattr(self._local, "seen", 0) == seen:
            self.counter.enter(getattr(func, "_overloadpacket", func), result, args, kwargs)
        elif self.counter.would_cost(func, result, args, kwargs):
            self.counter.list_uncounted(f"{_name(func)} (of {names})")


def _name(func: Any) -> str:
    return str(getattr(func, "_overloadpacket", func))


def computes(args: Any) -> bool:
    """Whether arguments hold numbers: while torch traces a program, its tensors are fakes."""
    tracing = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None
    return not (tracing and any(isinstance(each, FakeTensor) for each in tensors(args)))
