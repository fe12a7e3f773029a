"""Higher-order operators, which take functions: `torch.cond`, `while_loop`, `scan`, `flex_attention` and their like.

The kernel of one that is known runs as it would without the counter, and the operators inside it are counted: of a
condition the branch that is taken, of a loop every repetition. A kernel that allows no mode around it gets functions
that bring the mode back. Where nothing can be seen inside (other modes, tensor subclasses, tracing, a compiled kernel,
an operator of a later torch), torch runs the operator untouched, and it is listed.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import _ops

_keys: Any = _ops._compute_keyset
# What the eager kernels of these do is done by operators of torch's.
NAMES = (
    "associative_scan auto_functionalized auto_functionalized_v2 cond flex_attention flex_attention_backward "
    "foreach_map graphsafe_run_with_rng_state hints_wrapper inductor_compiled_code invoke_quant invoke_quant_packed "
    "invoke_subgraph local_map_hop map_impl out_dtype run_and_save_rng_state run_const_graph run_with_rng_state scan "
    "strict_mode while_loop while_loop_stack_output with_effects"
)
SEEN = frozenset(NAMES.split())
# What these do inside is seen in part: a compiled program still calls libraries for some of its products.
IN_PART = frozenset({"inductor_compiled_code"})
FREE = frozenset({"print", "_export_tracepoint"})
TRITON = frozenset({"triton_kernel_wrapper_mutation", "triton_kernel_wrapper_functional"})


def run(mode: Any, operator: Any, args: Any, kwargs: Any) -> Any:
    """Run a higher-order operator, as torch runs it, and count what is inside or list it."""
    name, own = operator.name(), mode.counter.flop_registry.own
    if operator in own or name in TRITON:
        result = operator(*args, **kwargs)
        called = operator if operator in own else _triton_kernel(kwargs)
        mode.counter.enter(called, result, args, kwargs)
        return result
    kernel_key = _kernel_key(mode, operator, args, kwargs) if name in SEEN else None
    if kernel_key is None:
        result = operator(*args, **kwargs)
        if name not in FREE:
            mode.counter.list_uncounted(str(name))
        return result
    if name in IN_PART:
        mode.counter.list_uncounted(f"{name} (but for what it calls of libraries)")
    return _run_seen(mode, operator, kernel_key, args, kwargs)


def _kernel_key(mode: Any, operator: Any, args: Any, kwargs: Any) -> Any:
    """Return the dispatch key of the kernel that torch would run now, or None where the mode cannot be around it."""
    if torch.utils._python_dispatch._get_current_dispatch_mode_stack():
        return None
    key = _keys(args, kwargs, operator.non_fallthrough_keys).highestPriorityTypeId()
    if key == torch._C.DispatchKey.Python:
        return None
    try:
        return key if _ops.resolve_key(operator, key) in operator.py_kernels else None
    except NotImplementedError:
        return None


def _run_seen(mode: Any, operator: Any, key: Any, args: Any, kwargs: Any) -> Any:
    kernel = operator.py_kernels[_ops.resolve_key(operator, key)]
    code = getattr(getattr(kernel, "func", kernel), "__code__", None)
    if code is not None and "_get_current_dispatch_mode" in code.co_names:  # It refuses to run with a mode around it.
        args = tuple(_bringing(mode, each) if callable(each) else each for each in args)
        return operator.dispatch(key, *args, **kwargs)
    with mode.again():
        return operator.dispatch(key, *args, **kwargs)


def _bringing(mode: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs with the mode in force."""

    @wraps(function, updated=())
    def inside(*args: Any, **kwargs: Any) -> Any:
        with mode.again():
            return function(*args, **kwargs)

    return inside


def _triton_kernel(kwargs: dict[str, Any]) -> Any:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    kernel: Any = kernel_side_table.get_kernel(kwargs["kernel_idx"])
    while hasattr(kernel, "configs") or hasattr(kernel, "values"):  # autotuned, or with heuristics
        kernel = kernel.fn
    return kernel
