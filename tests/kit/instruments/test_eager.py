"""Optimizers without the compiler: they do the same, and whoever wants the compiler gets it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

STEP = """
import sys, torch
sys.path.insert(0, {root!r})
from spec.instruments import eager
{before}
ends = []
for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam"):
    weight = torch.nn.Parameter(torch.arange(4.0))
    optimizer = getattr(torch.optim, name)([weight], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (weight * weight).sum().backward()
        optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    ends.append(weight.tolist())
{after}
"""


def run(before, after):
    """Run optimizers in a fresh interpreter and return what it prints at the end."""
    code = STEP.format(root=str(ROOT), before=before, after=after)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_steps_are_the_same_and_nothing_is_imported():
    """Every optimizer ends where it does with the compiler, which is not imported, nor is what it brings along."""
    stands_in = run("eager.without_compiler()", "print(ends, 'sympy' in sys.modules)")
    real = run("import torch._dynamo", "print(ends, 'sympy' in sys.modules)")
    assert stands_in == real.replace("True", "False")


@pytest.mark.parametrize(
    "wanted",
    [
        "print(torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)).item())",
        "import torch._dynamo.config; print(float(hasattr(torch._dynamo.config, 'cache_size_limit')) + 1)",
        "from torch._dynamo import optimize; print(1.0 + callable(optimize))",
        "print(1.0 + bool(torch._dynamo.list_backends()))",
    ],
    ids=["compile", "submodule", "from", "attribute"],
)
def test_the_compiler_comes_when_it_is_wanted(wanted):
    """Whatever else is asked of it brings the real one, and optimizers go on with that."""
    after = f"{wanted}; optimizer.step(); print(type(sys.modules['torch._dynamo']).__name__)"
    assert run("eager.without_compiler()", after).split() == ["2.0", "module"]


def test_one_that_is_there_stays():
    """A compiler that was imported before is left alone."""
    told = "print(type(sys.modules['torch._dynamo']).__name__)"
    assert run("import torch._dynamo; eager.without_compiler()", told).split() == ["module"]
