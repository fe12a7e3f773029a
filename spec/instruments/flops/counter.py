"""A FlopCounterMode that counts what torch's own leaves out, and lists what it cannot count.

    with FlopCounter() as counter:
        model(x).sum().backward()
    print(counter.table())

torch's mode brings the dispatch, the decomposition of operators made of others, and the modules' names; it is given
other formulas through its `flop_registry`. Work that a program does without torch's operators (in NumPy, or in a kernel
that `torch.compile` generated) passes by it unseen. Of the branches of `torch.cond` the dearer one counts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

from spec.instruments.flops import elementwise, fused, products, reductions
from spec.instruments.flops.fused import Convention
from spec.instruments.flops.lines import Flops, Formula, is_real_or_complex, tensors

# What a formula raises for arguments that it was not made for: nested tensors, or those of another version of torch.
MISFITS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
BESIDE = [(place, line) for place, line in enumerate(Flops._fields) if line != "matmul"]


class FlopCounter(FlopCounterMode):
    """Counts FLOPs by kind (see Flops), by operator and by module, and lists the operators that it has no count for.

    `attention` says what fused attention kernels count for under a causal mask: "full" is every pair of positions, as
    attention that is written out computes them; "causal" the allowed pairs only. `custom_mapping` has formulas for
    operators of one's own, as FlopCounterMode takes them: their FLOPs are matmul FLOPs.

    `uncounted` has the calls of every operator with floating-point numbers among its arguments that has no formula, and
    of those whose products are counted but not the rest of their work.
    """

    def __init__(self, attention: Convention = "full", custom_mapping: dict[Any, Any] | None = None) -> None:
        if attention not in ("full", "causal"):
            raise ValueError(f'attention is {attention!r}: neither "full" nor "causal"')
        super().__init__(display=False, custom_mapping=custom_mapping)
        self.flop_registry = _Registry(self._tally, self.flop_registry, custom_mapping or {}, formulas(attention))
        self.flop_counts = _Counts()
        self.mod_tracker = _Modules()
        self.uncounted: dict[str, int] = {}

    def __enter__(self) -> "FlopCounter":
        self.uncounted = {}
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def _tally(self, packet: Any, formula: Formula | None, /, *args: Any, out_val: Any = None, **named: Any) -> int:
        """Enter what an operator costs for every module it runs in, but for its matmul FLOPs: those are returned."""
        try:
            flops = None if formula is None else formula(out_val, *args, **named)
        except MISFITS:
            flops = None
        if flops is None:
            if any(map(is_real_or_complex, tensors((*args, *named.values())))):
                self._list(str(packet))
            return 0
        if flops.elementwise is None:
            self._list(f"{packet} (its elementwise work)")
        for place, line in BESIDE:
            if count := flops[place]:
                for module in self.mod_tracker.parents:
                    self.flop_counts[module][packet, line] += count
        return flops.matmul

    def _list(self, name: str) -> None:
        self.uncounted[name] = self.uncounted.get(name, 0) + 1

    def operators_of(self, module: str) -> dict[str, Flops]:
        """Return a module's FLOPs by operator, in forward and backward, those of its children included."""
        operators: dict[str, Flops] = {}
        for key, count in self.flop_counts.get(module, {}).items():
            packet, line = key if isinstance(key, tuple) else (key, "matmul")
            if count:
                before = operators.get(str(packet), Flops())
                operators[str(packet)] = before._replace(**{line: count + getattr(before, line)})
        return operators

    @property
    def by_module(self) -> dict[str, Flops]:
        """FLOPs by module, in forward and backward, those of its children included; "Global" is all."""
        return {module: _sum(self.operators_of(module).values()) for module in self.flop_counts}

    @property
    def by_operator(self) -> dict[str, Flops]:
        """FLOPs by operator."""
        return self.operators_of("Global")

    @property
    def flops(self) -> Flops:
        """All FLOPs, by kind."""
        return _sum(self.by_operator.values())

    @property
    def matmul(self) -> int:
        """FLOPs of products."""
        return self.flops.matmul

    @property
    def bias(self) -> int:
        """FLOPs of what product operators add to their products (an addition that is an operator is elementwise)."""
        return self.flops.bias

    @property
    def elementwise(self) -> int:
        """FLOPs of elementwise operations and reductions."""
        return self.flops.elementwise or 0

    @property
    def integer(self) -> int:
        """Operations of products of integers: no FLOPs."""
        return self.flops.integer

    @property
    def total(self) -> int:
        """FLOPs of all kinds."""
        return self.flops.total

    def get_total_flops(self) -> int:
        """Return the FLOPs of products, as FlopCounterMode does."""
        return self.matmul

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return the FLOPs of products by module and operator, as FlopCounterMode does."""
        counts = {
            module: {key: count for key, count in operators.items() if count and not isinstance(key, tuple)}
            for module, operators in self.flop_counts.items()
        }
        return {module: operators for module, operators in counts.items() if operators}

    def get_table(self, depth: int | None = None) -> str:
        """Return everything as text; modules down to a depth, 1 for the outermost."""
        modules = {
            name: flops
            for name, flops in self.by_module.items()
            if depth is None or name == "Global" or name.count(".") < depth
        }
        named = [*sorted(modules.items()), *sorted(self.by_operator.items())]
        rows = [["", *Flops._fields], *([name, *(f"{count or 0:,}" for count in flops)] for name, flops in named)]
        first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([name.ljust(first), *(cell.rjust(size) for cell, size in zip(cells, others, strict=True))])
            for name, *cells in rows
        ]
        return "\n".join([*lines, *(f"uncounted: {name}, {calls} ×" for name, calls in sorted(self.uncounted.items()))])

    table = get_table


class _Counts(defaultdict[str, dict[Any, int]]):
    """FLOPs by module and operator, of which a copy is independent (FlopCounterMode copies them for torch.cond)."""

    def __init__(self) -> None:
        super().__init__(partial(defaultdict, int))

    def __copy__(self) -> "_Counts":
        copied = _Counts()
        for module, counts in self.items():
            copied[module].update(counts)
        return copied


class _Modules(ModuleTracker):
    """A ModuleTracker that can be used in inference mode too, where a tensor that needs a gradient has no graph."""

    def _fw_pre_hook(self, mod: nn.Module, input: Any) -> None:
        super()._fw_pre_hook(mod, () if torch.is_inference_mode_enabled() else input)


class _Registry(dict[Any, Callable[..., int]]):
    """FlopCounterMode's formulas, each of which is looked up by the operator's name when it is first called."""

    def __init__(
        self, tally: Callable[..., int], inherited: Any, own: Mapping[Any, Any], known: dict[str, Formula]
    ) -> None:
        super().__init__()
        self._tally, self._inherited, self._own, self._known = tally, inherited, own, known

    def __contains__(self, called: object) -> bool:
        """Whether a packet is to be counted; whether an operator is left whole, as it is made of no others."""
        answer = _ANSWERS.get(called)
        if answer is None:
            answer = is_whole(called) if isinstance(called, OpOverload) else not is_free(str(called))
            _ANSWERS[called] = answer
        return answer or called in self._own

    def __missing__(self, packet: Any) -> Callable[..., int]:
        formula = find(self._known, str(packet))
        if packet in self._own or (formula is None and packet in self._inherited):
            formula = partial(_inherit, self._inherited[packet])
        self[packet] = tally = partial(self._tally, packet, formula)
        return tally


_ANSWERS: dict[object, bool] = {}


def is_whole(operator: OpOverload[..., Any]) -> bool:
    """Whether an operator is one to the dispatcher, not made of others."""
    return not operator.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)


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


def _inherit(formula: Callable[..., int], result: Any, *args: Any, **named: Any) -> Flops:
    return Flops(formula(*args, **named, out_val=result))


def _sum(flops: Iterable[Flops]) -> Flops:
    columns = zip(*flops, strict=True)
    return Flops(*(sum(column) for column in columns))
