"""What the memory claims measure a training step by, and the reference implementation's progress line."""

import io
import sys
import time
from types import SimpleNamespace

import pytest
import torch

from impl import memory, training
from spec.oracles import steps
from tests.claims import test_memory as claims
from tests.kit.judging import running


@pytest.mark.parametrize("sizes", [(5, 7, 0), (5, 7, 3), (1, 1, 1), (64, 16, 2)])
def test_what_autograd_saves_is_what_stays_alive(sizes):
    """What the hooks count, the allocator has given out when forward ends, and as much again for the loss itself."""
    points = sizes[0]
    x, weights = steps.network(*sizes).in_torch()
    y = torch.zeros(points)
    saved = steps.saved_for_backward(lambda: steps.forward(x, y, weights), x, y, *weights)
    with steps.growth_of(steps.CPU) as growth:
        kept = steps.forward(x, y, weights)
    assert growth[0] == saved + 4 * points  # a loss is cut from a tensor of the prediction's size
    del kept


def test_known_tensors_and_views_are_not_counted_again():
    """A storage that is saved twice counts once, and one that was there before does not count."""
    x = torch.ones(3, 4, requires_grad=True)
    assert steps.saved_for_backward(lambda: (x * x).sum(), x) == 0
    assert steps.saved_for_backward(lambda: (x * x).sum()) == 48
    assert steps.saved_for_backward(lambda: x.exp() * x.T.sum(), x) == 48 + 4


def test_a_step_is_measured_phase_by_phase():
    """Each phase begins where the one before ended, and the largest number in them is the peak."""
    step = steps.measure(steps.network(8, 16, 2), "momentum")
    phases = list(step.live.values())
    assert list(step.live) == ["forward", "backward", "step", "zero_grad"]
    assert [before[-1] for before in phases[:-1]] == [after[0] for after in phases[1:]]
    assert max(map(max, phases)) == step.peak.requested == step.peak.allocated
    assert (step.left, step.workspace) == (0, 0)


def test_a_run_leaves_no_workspace_on_the_cpu():
    """What an accelerator's libraries keep is the baseline there; the CPU's keep nothing, as the meter finds."""
    with steps.growth_of(steps.CPU) as growth:
        steps.train(steps.network(64, 64, 2), "adam", steps.CPU, lambda phase: None)
    assert growth == [0]


def test_the_claim_about_accelerators_can_be_run(monkeypatch):
    """Its test passes with the CPU in the place of an accelerator whose blocks are single bytes."""
    monkeypatch.setattr(claims.allocator, "block", lambda device: 1)
    with running() as evidence:
        claims.test_the_peak_on_an_accelerator(
            impl=SimpleNamespace(memory=memory), evidence=evidence, accelerator=steps.CPU
        )
        assert {record["what"] for record in evidence.json()} == {
            "the peak of requested memory",
            "the allocated memory",
            "the memory left after the step",
            "the count is a Python integer",
        }


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "clock", "lines"), [(Terminal, 0.4, 2), (Terminal, 0.2, 2), (Terminal, 0.0, 0), (io.StringIO, 0.4, 0)]
)
def test_progress_is_shown_on_a_terminal_alone(monkeypatch, capsys, stream, clock, lines):
    """A run of seconds rewrites a line twice a second at most; a short one, or one that nobody watches, writes none."""
    written, now = stream(), [0.0]

    def get_batch(points):
        now[0] += clock
        return torch.ones(points, 2), torch.ones(points)

    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    training.train(get_batch, dim=2, num_layers=0, batch_size=3, steps=4, lr=0.1)
    assert capsys.readouterr().out == ""
    assert written.getvalue().count("\r") == lines
    assert written.getvalue().endswith("\n") == bool(lines)
    assert ("step 4 of 4: loss " in written.getvalue()) == bool(lines)
