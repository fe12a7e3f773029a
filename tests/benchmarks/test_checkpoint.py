"""§3.7: how fast checkpoints are saved and loaded."""

import torch
from torch import nn

from spec.claim import verifies
from spec.claims import checkpoint
from spec.run.benchmarks import Work

ROWS = 1448  # of a square weight, with its momentum 16 MiB


@verifies(checkpoint.RESUME)
def test_a_checkpoint_is_saved_and_loaded(impl, evidence, meter, device, tmp_path):
    """The bytes per second of a weight and its momentum, through to the disk and back, which come back as they were."""
    rows, path = ROWS if meter.timed else 64, tmp_path / "checkpoint"
    weight = nn.Parameter(torch.rand(rows, rows, generator=torch.Generator().manual_seed(0)).to(device))
    model, optimizer = nn.ParameterList([weight]), torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    optimizer.state[weight]["momentum_buffer"] = weight.detach() * 2
    before = weight.detach().clone()

    def save():
        impl.checkpoint.save(path, model, optimizer, 1)

    def load():
        return impl.checkpoint.load(path, model, optimizer)

    save()
    works = {
        name: Work(run, bytes=2 * weight.nbytes, dtype=weight.dtype, shape=(2, rows, rows))
        for name, run in (("a save", save), ("a load", load))
    }
    meter.rates(works, device, flush=False)
    weight.data.zero_()
    evidence.equal(load(), 1, what="the loaded step", unit="steps", saved=1)
    evidence.equal(weight.detach(), before, what="the loaded weight", rows=rows)
    evidence.equal(optimizer.state[weight].get("momentum_buffer"), before * 2, what="the loaded momentum")
