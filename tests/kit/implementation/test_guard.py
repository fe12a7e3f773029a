"""What the guard watches: each setting, changed, is seen, named and put back; what others change is not blamed."""

import decimal
import os
import random
import signal
import sys
import warnings

import numpy as np
import pytest
import torch

from spec.implementation import guard

OTHER = {  # Another value of each setting that is neither a truth value, nor a number, nor a function.
    "torch's default dtype": torch.float64,
    "torch's default device": torch.device("meta"),
    "torch's deterministic mode": "warn",
    "torch's float32 precision": "tf32",
    "torch's float32 matmul precision": "medium",
    "torch's dtype of autocast on the CPU": torch.float16,
    "torch's nesting of autocast": 1,
    "torch's anomaly detection": "without NaN",
    "torch.backends.opt_einsum.strategy": "greedy",
    "the working folder": "/",
    "the level of logging": 5,
    "the decimal context": {"prec": 7},
    "NumPy's handling of floating-point errors": {"divide": "raise"},
    "NumPy's print options": {"precision": 3},
    "torch's print options": {"precision": 3},
    "the switch interval of threads": 0.001,
    "the environment": {b"SPEC_LEFT_BEHIND": b"1"},
    "the handlers of signals": {"SIGUSR1": signal.SIG_IGN},
    "the warning filters": [],
    "sys.path": ["elsewhere"],
    "the locale": "C",
}


def another(name, old):
    """Return another value than a setting has."""
    if name in OTHER:
        return {**old, **OTHER[name]} if isinstance(old, dict) else OTHER[name]
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + 1
    if isinstance(old, str):
        return "tf32" if old != "tf32" else "ieee"
    return lambda *arguments: None


@pytest.mark.parametrize("name", [*guard.TORCH, *guard.PROCESS])
def test_a_changed_setting_is_seen_named_and_put_back(name):
    """Each entry of both tables, set to another value, is reported by its name and put back."""
    read, put = {**guard.TORCH, **guard.PROCESS}[name]
    old = read()
    if old is None:
        pytest.skip(f"torch {torch.__version__} has no such setting")
    with warnings.catch_warnings(), guard.watched() as left:
        put(another(name, old))
        if read() == old:
            pytest.skip("this build or machine has no other value of it")
    assert any(line.startswith(f"left {name} changed") for line in left), left
    assert read() == old


@pytest.mark.parametrize("name", guard.STREAMS)
def test_a_draw_from_a_shared_stream_is_seen_and_undone(name):
    """A number drawn from torch's, NumPy's or Python's stream is reported, and the stream put back."""
    draw = {"torch's": lambda: torch.rand(1), "NumPy's": np.random.rand, "Python's": random.random}[name]
    old = guard.STREAMS[name][0]()
    with guard.watched() as left:
        draw()
    assert left == [f"left {name} random state changed: draw from a generator of your own"]
    assert guard.STREAMS[name][0]() == old


def import_sets_filters(folder):
    """Import a library that sets a warning filter and a variable, as many do."""
    (folder / "spec_a_library.py").write_text(
        "import os, warnings\nwarnings.simplefilter('ignore', ImportWarning)\nos.environ['SPEC_A_LIBRARY'] = '1'\n"
    )
    sys.path.insert(0, str(folder))
    try:
        __import__("spec_a_library")
    finally:
        sys.path.remove(str(folder))


def test_what_an_import_sets_is_nobodys_fault(tmp_path, monkeypatch):
    """Importing a library may set warning filters and variables: it stays so, also for a watch around the first."""
    monkeypatch.setenv("SPEC_A_LIBRARY", "0")
    with warnings.catch_warnings():
        with guard.watched() as outer, guard.watched() as inner:
            import_sets_filters(tmp_path)
        del sys.modules["spec_a_library"]
        assert (outer, inner) == ([], [])
        assert os.environ["SPEC_A_LIBRARY"] == "1"


@pytest.mark.parametrize("name", guard.TOLERATED)
def test_variables_that_torch_sets_for_itself_are_nobodys_fault(name, monkeypatch):
    """A variable that torch sets on the first use of a device or a compiler is not judged."""
    monkeypatch.setenv(name, "before")
    with guard.watched() as left:
        os.environ[name] = "after"
    assert left == []


def test_what_is_changed_and_put_back_is_not_blamed():
    """Settings changed for a while, as context managers do, are as they were."""
    with guard.watched() as left:
        with torch.no_grad(), np.errstate(divide="ignore"), decimal.localcontext() as context:
            context.prec = 5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
    assert left == []
