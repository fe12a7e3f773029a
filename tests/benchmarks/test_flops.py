"""§2.2.4 and §2.2.5: the time of a product against that of an elementwise pass, and the FLOP/s of a training step."""

import pytest
import torch

from spec import bounds
from spec.claim import verifies
from spec.claims import flops
from spec.instruments import timer
from spec.instruments.flops import FlopCounter
from spec.oracles import networks
from spec.run import benchmarks
from spec.run.benchmarks import Work


@verifies(flops.MATMUL_DOMINATES)
def test_a_large_product_takes_most_of_the_time_and_less_than_its_share(evidence, benchmark, device, timed):
    """A product of n × n matrices takes longer than an elementwise pass, and less than 2n times as long."""
    # A product of this size keeps the device busy, and 2n is far above any ratio of the two times.
    large = 1024 if device.type == "cpu" else 8192
    n = large if timed else 64
    x = torch.rand(n, n, generator=torch.Generator(device).manual_seed(n), device=device)
    y = torch.empty_like(x)

    def product():
        return torch.mm(x, x, out=y)

    def elementwise():
        return torch.add(x, x, out=y)

    with timer.one_thread():
        benchmark.pedantic(lambda: timer.seconds(product, device), rounds=5, warmup_rounds=1)
        if not timed:
            pytest.skip("timed only under --benchmark-only, --benchmark-enable or -m gpu")
        times = timer.compare(product, elementwise, device)
    benchmark.extra_info["times an elementwise pass"] = times.ratio
    for edge in (1, 2 * n):
        if times.low < edge * bounds.timing.CLEARLY and times.high > edge / bounds.timing.CLEARLY:
            evidence.ambiguous(
                f"the product takes {times.low:.2f} to {times.high:.2f} times as long, which is too close to {edge}"
            )
    ratio = "the product's time over an elementwise pass's"
    evidence.at_least(times.ratio, 1, what=ratio, n=n)
    evidence.at_most(times.ratio, 2 * n, what=ratio, n=n)


def trained(points, width, layers, device):
    """Return the passes of one step of training, with the FLOPs of each by the corrected law."""
    generator = torch.Generator(device).manual_seed(points)
    x = torch.rand(points, width, generator=generator, device=device)
    weights = [torch.rand(width, width, generator=generator, device=device) / width for _ in range(layers)]
    for weight in weights:
        weight.requires_grad_()
    parameters = layers * width**2
    forward, first = 2 * points * parameters, 2 * points * width**2

    def loss():
        return networks.chain(x, *weights).square().mean()

    def backward():
        for weight in weights:
            weight.grad = None
        loss().backward()

    def step():
        backward()
        with torch.no_grad():
            torch._foreach_add_(weights, [weight.grad for weight in weights], alpha=-0.01)

    sizes = dict(dtype=x.dtype, shape=(points, *[width] * (layers + 1)))
    return {
        "forward": Work(loss, forward, **sizes),
        "forward and backward": Work(backward, 3 * forward - first, **sizes),
        "a step": Work(step, 3 * forward - first, **sizes),
    }


@verifies(flops.TRAINING)
def test_a_step_of_training_takes_its_time(evidence, meter, device):
    """A timed step takes the FLOPs of the law, and none of its passes exceeds the promised FLOP/s."""
    points, width = (2048, {"cpu": 512}.get(device.type, 4096)) if meter.timed else (8, 16)
    works = trained(points, width, 8, device)
    with FlopCounter() as counter:
        works["a step"].run()
    evidence.equal(counter.matmul, works["a step"].flops, what="the products of a step", unit="FLOPs")
    for rate in meter.rates(works, device).values():
        benchmarks.within_promise(evidence, rate)
