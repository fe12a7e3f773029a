"""§3.8: what a training step gains by low precision."""

import torch
from torch import nn

from spec.claim import verifies
from spec.claims import precision
from spec.run import benchmarks
from spec.run.benchmarks import Work

WIDTH, LAYERS = {"cpu": 512}, 4
FULL = 4096  # on accelerators


@verifies(precision.TRADE_OFF)
def test_a_step_under_autocast_against_float32(impl, evidence, meter, device):
    """The FLOP/s of a step of a deep linear network in bfloat16, and what becomes of them in float32.

    Neither exceeds what is promised for its dtype. A CPU without bfloat16 instructions is slower with it: the gain is
    reported and decides nothing.
    """
    width = WIDTH.get(device.type, FULL) if meter.timed else 32
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(width, width, generator=generator).to(device)
    model = nn.Sequential(*[nn.Linear(1, 1, bias=False, device="meta") for _ in range(LAYERS)])
    for layer in model:  # without torch's own random numbers
        layer.weight = nn.Parameter(torch.rand(width, width, generator=generator).to(device) / width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def low():
        return impl.precision.mixed_precision_step(model, optimizer, x, x)

    def full():
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    products = 3 * LAYERS - 1  # the input needs no gradient
    flops = products * 2 * width**3
    works = {
        "a step under autocast": Work(low, flops=flops, dtype=torch.bfloat16, shape=(LAYERS, width, width)),
        "a step in float32": Work(full, flops=flops, dtype=torch.float32, shape=(LAYERS, width, width)),
    }
    for rate in meter.rates(works, device).values():
        benchmarks.within_promise(evidence, rate)
