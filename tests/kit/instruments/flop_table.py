"""Programs whose FLOPs loops count; `python -m tests.kit.instruments.flop_table` shows what counters make of them."""

import multiprocessing
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from spec.instruments.flops import FlopCounter
from tests.kit.instruments import flop_loops
from tests.kit.instruments.flop_cases import CASES as PRODUCTS
from tests.kit.instruments.flop_networks import CASES as NETWORKS
from tests.kit.instruments.flop_reductions import CASES as OTHERS

CASES = [*PRODUCTS, *NETWORKS, *OTHERS]


class Program(nn.Module):
    """A function as a module with a parameter, which is what some counters insist on."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.parameter = nn.Parameter(torch.zeros(1))

    def forward(self, *inputs):
        return self.function(*inputs)


@dataclass
class Row:
    """What loops count for a case, what the counter makes of it, and whether the two agree."""

    expected: dict[str, int]
    counter: FlopCounter
    agrees: bool  # in every line that is to be compared
    same: bool  # the loops compute what the program does

    @property
    def verdict(self):
        """Say how the counter did."""
        listed = ", ".join(self.counter.uncounted)
        verdict = "right" if self.agrees else f"wrong: {self.counter.flops}"
        return f"{verdict}; lists {listed}" if listed else verdict


LINES = ("matmul", "bias", "elementwise", "integer")


def judge(case, attention="full"):
    """Run a case under the counter, and its loops."""
    program, inputs = case.make()
    with FlopCounter(attention) as counter:
        results = case.run(program, inputs)
    tally = flop_loops.Tally()
    expected_results = case.loops(tally, program, *map(tally.numbers, inputs))
    expected = {line: tally.counts[line] for line in LINES}
    agrees = all(getattr(counter, line) == expected[line] for line in case.lines)
    # Where elementwise work is not compared, it may be listed.
    agrees &= all(name.endswith("(its elementwise work)") for name in counter.uncounted)
    agrees &= not ("elementwise" in case.lines and counter.uncounted)
    same = all(close(*pair) for pair in zip(results, expected_results, strict=True))
    return Row(expected, counter, agrees, same)


def close(result, loops):
    """Whether a tensor holds the numbers that the loops computed."""
    values = np.vectorize(lambda number: complex(flop_loops.plain(number)), otypes=[complex])(loops)
    ours = torch.view_as_real(torch.tensor(values.tolist(), dtype=torch.complex128))
    theirs = torch.view_as_real(result.detach().to_dense().to(torch.complex128))
    return ours.shape == theirs.shape and bool(torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4))


# Other counters, forward only. Each is asked for FLOPs: those that count multiply-adds are doubled.


def by_torch(case):
    """FlopCounterMode, which is part of torch."""
    program, inputs = case.make()
    with FlopCounterMode(display=False) as counter:
        case.run(program, inputs)
    return counter.get_total_flops()


def by_fvcore(program, inputs):
    """Facebook's: multiply-adds, from a trace."""
    from fvcore.nn import FlopCountAnalysis

    analysis = FlopCountAnalysis(program, inputs).unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    return 2 * int(analysis.total())


def by_calflops(program, inputs):
    """FLOPs, from patched functions and hooks on modules."""
    from calflops import calculate_flops

    flops, _, _ = calculate_flops(
        program, args=list(inputs), print_results=False, print_detailed=False, output_as_string=False
    )
    return int(flops)


def by_torchinfo(program, inputs):
    """Multiply-adds, from modules' sizes."""
    from torchinfo import summary

    return 2 * int(summary(program, input_data=inputs, verbose=0).total_mult_adds)


def by_ptflops(program, inputs, backend="pytorch"):
    """Multiply-adds, from hooks and patched functions, or from the operators that are dispatched."""
    from ptflops import get_model_complexity_info

    macs, _ = get_model_complexity_info(
        program,
        tuple(inputs[0].shape),
        input_constructor=lambda _: {"inputs": inputs},
        backend=backend,
        as_strings=False,
        print_per_layer_stat=False,
    )
    return 2 * int(macs)


class Spread(Program):
    """A program that takes its inputs as one keyword argument, which is how ptflops passes them."""

    def forward(self, inputs):
        return self.function(*inputs)


PEERS: dict[str, Callable[..., Any]] = {
    "fvcore": by_fvcore,
    "calflops": by_calflops,
    "torchinfo": by_torchinfo,
    "ptflops": by_ptflops,
    "ptflops aten": partial(by_ptflops, backend="aten"),
}


def by_peer(name, case):
    """Return what another counter reports, or why it reports nothing."""
    if case.backward:
        return "forward only"
    # In a process of its own: some patch torch, and leave it so when they fail.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_ask, (name, CASES.index(case)))


def _ask(name, place):
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    program, inputs = CASES[place].make()
    wrap = Spread if "ptflops" in name else Program
    module = program if wrap is Program and isinstance(program, nn.Module) else wrap(program)
    try:
        return PEERS[name](module, tuple(inputs))
    except ModuleNotFoundError as error:
        return "not installed" if error.name == name.split()[0] else f"needs {error.name}"
    except BaseException as error:
        return type(error).__name__


def main():
    """Print the table: FLOPs of products and biases, and the elementwise ones where that is all there is."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # a forked process would wait for the others for ever
    header = ["case", "loops", "FlopCounter", "FlopCounterMode", *PEERS]
    print(" | ".join(header))
    for case in CASES:
        row = judge(case)
        kinds = [line for line in LINES if row.expected[line] and line in case.lines]
        loops = " + ".join(f"{row.expected[line]} {line}" for line in kinds) or "0"
        cells = [case.name, loops, row.verdict, by_torch(case), *(by_peer(name, case) for name in PEERS)]
        print(" | ".join(map(str, cells)), flush=True)


if __name__ == "__main__":
    main()
