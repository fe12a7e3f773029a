"""Which operators have a formula, which are free, and which are made of others."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch._ops import OpOverload

from spec.instruments.flops import elementwise, fused, products, reductions
from spec.instruments.flops.fused import Convention
from spec.instruments.flops.lines import Flops, Formula, tensors

COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
COMPOSITE_NESTED = torch._C.DispatchKey.CompositeImplicitAutogradNestedTensor
# All keys below this one belong to kernels that compute.
KERNELS = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)


class Registry(dict[Any, Callable[..., int]]):
    """FlopCounterMode's formulas, each of which is looked up by the operator's name when it is first called."""

    def __init__(
        self, tally: Callable[..., int], inherited: Any, own: Mapping[Any, Any], known: dict[str, Formula]
    ) -> None:
        super().__init__()
        self._tally, self._inherited, self.own, self._known = tally, inherited, own, known
        self._formulas: dict[Any, Formula | None] = {}

    def __contains__(self, called: object) -> bool:
        """Whether a packet is to be counted; whether an operator is left whole, as it is made of no others."""
        answer = is_whole(called) if isinstance(called, OpOverload) else not is_free(str(called))
        return answer or called in self.own

    def __missing__(self, packet: Any) -> Callable[..., int]:
        self[packet] = tally = partial(self._tally, packet)
        return tally

    def formula(self, packet: Any) -> Formula | None:
        """Return the formula of an operator: the user's own, this package's, or FlopCounterMode's."""
        if packet not in self._formulas:
            self._formulas[packet] = self._find(packet)
        return self._formulas[packet]

    def _find(self, packet: Any) -> Formula | None:
        formula = find(self._known, str(packet))
        if packet in self.own or (formula is None and packet in self._inherited):
            return partial(_inherit, self._inherited[packet])
        return formula


def _inherit(formula: Callable[..., int], result: Any, *args: Any, **named: Any) -> Flops:
    return Flops(formula(*args, **named, out_val=result))


@cache
def is_whole(operator: OpOverload[..., Any]) -> bool:
    """Whether an operator is one to the dispatcher, not made of others."""
    try:
        return not operator.has_kernel_for_dispatch_key(COMPOSITE)
    except RuntimeError:  # some operators are TorchScript's alone, and unknown to the dispatcher
        return True


def has_kernel(operator: OpOverload[..., Any], args: Iterable[Any]) -> bool:
    """Whether the dispatcher has a kernel for one of these tensors that it prefers to the operator's decomposition."""
    return any(_has_kernel(operator, torch._C._dispatch_keys(each)) for each in tensors(args))


def _has_kernel(operator: OpOverload[..., Any], keys: Any) -> bool:
    if keys.has(torch._C.DispatchKey.AutogradNestedTensor) and operator.has_kernel_for_dispatch_key(COMPOSITE_NESTED):
        return True
    key = (keys & KERNELS).highestPriorityTypeId()
    return operator.has_kernel_for_dispatch_key(key)


def is_free(name: str) -> bool:
    """Whether an operator is known to cost nothing."""
    return name.startswith(("prim.", "profiler.")) or not elementwise.FREE_NAMES.isdisjoint(_names(name))


def formulas(attention: Convention = "full") -> dict[str, Formula]:
    """Return the formulas by the operators' names, but for those of elementwise operators at large (see find)."""
    return {**elementwise.FORMULAS, **reductions.FORMULAS, **products.FORMULAS, **fused.formulas(attention)}


def find(known: dict[str, Formula], name: str) -> Formula | None:
    """Return an operator's formula, if it has one."""
    for each in _names(name):
        formula = known.get(each) or elementwise.elementwise(each.removeprefix("aten."))
        if formula is not None:
            return formula
    return None


def _names(name: str) -> tuple[str, ...]:
    """Return an operator's name, and that of the operator which it is in place, or returning a copy."""
    return name, name.removesuffix("_"), name.removesuffix("_copy")
