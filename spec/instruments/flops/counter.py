"""A FlopCounterMode that counts what torch's own leaves out, and lists what it cannot count.

    with FlopCounter() as counter:
        model(x).sum().backward()
    print(counter.table())

Work that a program does without torch's operators (in NumPy, or in another process) passes by it unseen. The calls of
programs that `torch.compile` generated kernels for are listed. See dispatch for how operators are seen, and modules for
what belongs to a module.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch.utils import _python_dispatch as modes
from torch.utils.flop_counter import FlopCounterMode

from spec.instruments.flops import threads
from spec.instruments.flops.dispatch import Dispatch, computes
from spec.instruments.flops.fused import Convention
from spec.instruments.flops.lines import Flops, holds_numbers, tensors
from spec.instruments.flops.modules import Modules
from spec.instruments.flops.registry import Registry, formulas

BESIDE = [(index, line) for index, line in enumerate(Flops._fields) if line != "matmul"]


class FlopCounter(FlopCounterMode):
    """Counts FLOPs by kind (see Flops), by operator and by module, and lists the operators that it has no count for.

    `attention` says what fused attention kernels count for under a causal mask: "full" is every pair of positions, as
    attention that is written out computes them; "causal" the allowed pairs only. `custom_mapping` has formulas for
    operators of one's own, as FlopCounterMode takes them: their FLOPs are matmul FLOPs.

    `uncounted` has the calls of every operator with floating-point numbers among its arguments that has no formula, and
    of those whose products are counted but not the rest of their work. `unseen` has the names of the threads that were
    there before the counter and ran meanwhile: what they did, but for tasks that the block handed them, is in no count.
    """

    def __init__(self, attention: Convention = "full", custom_mapping: dict[Any, Any] | None = None) -> None:
        if attention not in ("full", "causal"):
            raise ValueError(f'attention is {attention!r}: neither "full" nor "causal"')
        super().__init__(display=False, custom_mapping=custom_mapping)
        self.flop_registry: Registry = Registry(
            self._tally, self.flop_registry, custom_mapping or {}, formulas(attention)
        )
        self.flop_counts: Any = defaultdict(partial(defaultdict, int))
        self.mod_tracker: Any = Modules()
        self.uncounted: dict[str, int] = {}
        self.unseen: list[str] = []
        self.block: object = None  # Every block gets an object of its own.
        self.entries = 0  # It grows whenever something is counted or listed.
        self._lock = threading.Lock()

    def __enter__(self) -> "FlopCounter":
        self.uncounted, self.unseen, self.entries, self.block = {}, [], 0, object()
        self.flop_counts.clear()
        self._clocks = threads.clocks()
        self._had_compiled = threads.has_compiled()
        threads.follow(self.block)
        self.mod_tracker.open(self._is_in_force)
        self.mode: Any = Dispatch(self)
        self.mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: Any) -> None:
        self.mode.__exit__(*exception)
        self.mode = None
        self.mod_tracker.close()
        threads.leave(self.block)
        if not self._had_compiled and threads.has_compiled() and threads.KERNELS not in self.uncounted:
            self.list_uncounted(threads.KERNELS)  # Its class was not there to be watched.
        self.unseen = threads.ran(self._clocks)
        self.block = None

    def _is_in_force(self) -> bool:
        """Whether the operators of the thread that asks are counted."""
        stack = modes._get_current_dispatch_mode_stack()
        return any(isinstance(each, Dispatch) and each.counter is self and each.is_open for each in stack)

    def _cost(self, packet: Any, result: Any, args: Any, named: Any) -> Flops | None:
        """Return what an operator costs, or None where that is not known."""
        formula = self.flop_registry.formula(packet)
        try:
            flops = None if formula is None else formula(result, *args, **named)
        except Exception:  # The formula was not made for such tensors, but the program goes on.
            return None
        # A size that is a symbol stands for a number that nobody knows yet.
        return None if flops and any(isinstance(each, torch.SymInt) for each in flops) else flops

    def enter(self, packet: Any, result: Any, args: Any, named: Any) -> None:
        """Enter what an operator costs for every module it runs in, or list it."""
        if matmul := self._enter(packet, result, args, named):
            with self._lock:
                for module in self.mod_tracker.parents:
                    self.flop_counts[module][packet] += matmul

    def _tally(self, packet: Any, /, *args: Any, out_val: Any = None, **named: Any) -> int:
        return self._enter(packet, out_val, args, named)

    def _enter(self, packet: Any, result: Any, args: Any, named: Any) -> int:
        """Enter all that an operator costs but its matmul FLOPs: those are returned."""
        if not computes((*args, *named.values())):
            return 0
        flops = self._cost(packet, result, args, named)
        if flops is None:
            if any(map(holds_numbers, tensors((*args, *named.values())))):
                self.list_uncounted(str(packet))
            return 0
        if flops.elementwise is None:
            self.list_uncounted(f"{packet} (its elementwise work)")
        parents = self.mod_tracker.parents
        with self._lock:
            self.entries += any(flops)
            for index, line in BESIDE:
                if count := flops[index]:
                    for module in parents:
                        self.flop_counts[module][packet, line] += count
        return flops.matmul

    def would_cost(self, func: Any, result: Any, args: Any, named: Any) -> bool:
        """Whether an operator costs anything, by its formula."""
        flops = self._cost(func._overloadpacket, result, args, named)
        return flops is None or any(flops)

    def list_uncounted(self, name: str) -> None:
        """List an operator that is not counted."""
        with self._lock:
            self.entries += 1
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
        lines += [f"uncounted: {name}, {calls} ×" for name, calls in sorted(self.uncounted.items())]
        return "\n".join([*lines, *(f"unseen: what the thread {name} does" for name in self.unseen)])

    table = get_table


def _sum(flops: Iterable[Flops]) -> Flops:
    columns = zip(*flops, strict=True)
    return Flops(*(sum(column) for column in columns))
