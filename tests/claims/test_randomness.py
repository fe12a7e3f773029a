"""§3.3: runs that repeat."""

import random
from functools import partial

import numpy as np
import torch
from hypothesis import given, settings

from spec import strategies as st
from spec.claim import refutes, verifies
from spec.claims import randomness
from spec.oracles.streams import restored, seeded

# A faulty seeding takes some of these for one another: 0 for a default, and seeds of the same bytes or halves.
ALIKE = (0, 1, 42, 123, 1234, 1337, 255, 256, 2**16, 2**16 + 1, 2**24, 0x01010101, 0xFF00FF00, 2**31, 2**32 - 1)
NUMBERS = (np.int32, np.int64, np.uint32, np.uint8)


def seeded_run(package, seed, before, device="cpu"):
    """Draw `before` times from every stream, seed, and draw once more; return the last numbers of each stream.

    This function also runs in fresh processes, so it has imports of its own.
    """
    import importlib
    import random

    import numpy as np
    import torch

    def draw():
        order = list(range(20))
        random.shuffle(order)
        dropped = torch.nn.functional.dropout(torch.ones(20, device=device))
        tensors = [torch.rand(3), torch.randn(3), torch.randperm(20), torch.rand(3, device=device), dropped]
        return {
            "Python": [random.random(), random.gauss(0, 1), *order],
            "NumPy": [*np.random.rand(3).tolist(), *np.random.randn(3).tolist(), *np.random.permutation(20).tolist()],
            "torch": [number for tensor in tensors for number in tensor.tolist()],
        }

    # Normal numbers are made in pairs. `draw` takes an odd number of them, so that a stream has one in reserve, which
    # seeding has to discard.
    for _ in range(before):
        draw()
    importlib.import_module(f"{package}.randomness").seed_everything(seed)
    return draw()


def package_of(impl, pytestconfig):
    """Return the name of the package under test; a missing seed_everything ends the test as unchecked."""
    return impl.randomness.seed_everything and pytestconfig.option.spec_impl


DRAWS = {
    "Python": lambda: [random.random(), random.gauss(0, 1)],
    "NumPy": lambda: np.random.randn(3).tolist(),
    "torch": lambda: torch.randn(3).tolist(),
}


def are_equal(evidence, second, first, **inputs):
    """Require that two runs have drawn the same numbers from each stream."""
    for stream in DRAWS:
        measured, predicted = (torch.tensor(run[stream], dtype=torch.float64) for run in (second, first))
        evidence.equal(measured, predicted, what="the numbers after the same seed", stream=stream, **inputs)


@verifies(randomness.SEEDING)
@given(seed=st.seeds)
def test_the_streams_repeat_in_one_process(impl, evidence, pytestconfig, device, seed):
    """All three streams repeat after the same seed, whatever was drawn before, also after another seed."""
    run = partial(seeded_run, package_of(impl, pytestconfig), device=device)
    with restored(device):
        first, _, again = run(seed, 0), run(2**32 - 1 - seed, 1), run(seed, 1)
    are_equal(evidence, again, first)


@verifies(randomness.SEEDING)
@settings(max_examples=2)
@given(seed=st.seeds)
def test_every_bit_of_the_seed_matters(impl, evidence, seed):
    """A seed that differs in any one of its 32 bits makes all three streams give other numbers."""
    seed ^= 0xAAAAAAAA  # Even the simplest seed, 0, gets many bits, of which float32 would lose the last.
    with restored():
        impl.randomness.seed_everything(seed)
        first = {stream: draw() for stream, draw in DRAWS.items()}
        for bit in range(32):
            impl.randomness.seed_everything(seed ^ 2**bit)
            for stream, draw in DRAWS.items():
                evidence.differs(
                    draw(), first[stream], what="the numbers after a seed with another bit", stream=stream, bit=bit
                )


@verifies(randomness.SEEDING)
def test_similar_seeds_give_other_numbers(impl, evidence):
    """No two of fifteen seeds that a faulty seeding takes for one another give equal numbers, in any stream."""
    first = {stream: {} for stream in DRAWS}
    with restored():
        for seed in ALIKE:
            impl.randomness.seed_everything(seed)
            for stream, draw in DRAWS.items():
                earliest = first[stream].setdefault(str(draw()), seed)
                evidence.equal(earliest, seed, what="the first seed with these numbers", stream=stream)


@verifies(randomness.SEEDING)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_the_streams_repeat_in_fresh_processes(impl, evidence, fresh, pytestconfig, device, seed):
    """All three streams give the same numbers in two fresh processes and in this one, whatever was drawn before."""
    package = package_of(impl, pytestconfig)
    start = partial(fresh.start, seeded_run, package=package, seed=seed, device=str(device))
    runs = [start(before=before) for before in range(2)]
    with restored(device):
        here = seeded_run(package, seed, 2, device)
    first, second = (run.wait() for run in runs)
    are_equal(evidence, second, first, compared="two fresh processes")
    are_equal(evidence, first, here, compared="a fresh process and this one")


@verifies(randomness.SEEDING)
@settings(max_examples=6)
@given(seed=st.seeds, number=st.three_counts)
def test_no_stream_disturbs_another(impl, evidence, seed, number):
    """The numbers from one stream do not depend on how many are drawn from the others."""
    with restored():
        for stream, draw in DRAWS.items():
            impl.randomness.seed_everything(seed)
            alone = draw()
            impl.randomness.seed_everything(seed)
            for count, other in zip(number, DRAWS.values(), strict=True):
                for _ in range(count if other is not draw else 0):
                    other()
            evidence.equal(draw(), alone, what="the numbers after draws from the other streams", stream=stream)


@verifies(randomness.SEEDING)
def test_numpy_integers_are_seeds(impl, evidence, pytestconfig):
    """A NumPy integer up to 2³² − 1 seeds like the Python integer of the same value."""
    package = package_of(impl, pytestconfig)
    for number in NUMBERS:
        for seed in (0, 1, min(np.iinfo(number).max, 2**32 - 1)):
            with restored():
                python, numpys = seeded_run(package, int(seed), 0), seeded_run(package, number(seed), 0)
            are_equal(evidence, numpys, python, seed=seed, number=number.__name__)


@verifies(randomness.SEEDING)
def test_invalid_seeds_are_refused(impl, evidence):
    """A seed below 0, or of 2³² or more, raises ValueError, and one that is no integer raises TypeError."""
    with restored():
        for seed in (-1, -(2**31), 2**32, 2**63, 2**64 + 1):
            evidence.raises(ValueError, partial(impl.randomness.seed_everything, seed), seed=seed)
        for seed in (1.0, "1", None):
            evidence.raises(TypeError, partial(impl.randomness.seed_everything, seed), seed=seed)


@refutes(randomness.SEEDING)
@settings(max_examples=6)
@given(seed=st.seeds)
def test_a_numpy_generator_does_not_repeat(impl, evidence, seed):
    """A NumPy Generator made without a seed gives other numbers each time, and seeding leaves existing ones alone."""
    generator, alike = np.random.default_rng(seed), np.random.default_rng(seed)
    drawn = []
    with restored():
        for _ in range(2):
            impl.randomness.seed_everything(seed)
            drawn.append(np.random.default_rng().random(4).tolist())
            numbers, predicted = (each.random(4).tolist() for each in (generator, alike))
            evidence.equal(numbers, predicted, what="the numbers of a Generator that existed before")
    evidence.differs(drawn[1], drawn[0], what="the numbers of a new Generator")


@verifies(randomness.SEEDING)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_a_torch_generator_is_left_alone(impl, evidence, device, seed):
    """Seeding leaves an existing torch.Generator alone: it continues its own stream."""
    generator, alike = seeded(seed, device), seeded(seed, device)
    with restored(device):
        for _ in range(2):
            impl.randomness.seed_everything(seed)
            drawn, predicted = (torch.rand(4, generator=each, device=device) for each in (generator, alike))
            evidence.equal(drawn, predicted, what="the numbers of a Generator that existed before")


@verifies(randomness.SEEDING)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_a_run_repeats_to_the_bit_in_deterministic_mode(impl, evidence, device, seed):
    """In torch's deterministic mode even sums whose order may vary are the same to the bit after the same seed."""
    before = torch.get_deterministic_debug_mode()
    sums = []
    with restored(device):
        torch.set_deterministic_debug_mode("error")
        try:
            for _ in range(2):
                impl.randomness.seed_everything(seed)
                indices = torch.randint(10, (2**14,), device=device)
                values = torch.randn(2**14, device=device)
                sums.append(torch.zeros(10, device=device).index_add(0, indices, values))
        finally:
            torch.set_deterministic_debug_mode(before)
    evidence.equal(sums[1], sums[0], what="the sums after the same seed")
