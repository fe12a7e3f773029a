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

# Seeds that are easily taken for one another: 0 for a default, and such as have the same bytes, or halves.
ALIKE = (0, 1, 42, 123, 1234, 1337, 255, 256, 2**16, 2**16 + 1, 2**24, 0x01010101, 0xFF00FF00, 2**31, 2**32 - 1)
NUMBERS = (np.int32, np.int64, np.uint32, np.uint8)


def seeded_run(package, seed, before, device="cpu"):
    """Draw `before` times from every stream, seed, and draw again: return what that gave, stream by stream.

    It is run in fresh processes too, and so does its own imports.
    """
    import importlib
    import random

    import numpy as np
    import torch

    def draw():
        order = list(range(20))
        random.shuffle(order)
        dropped = torch.nn.functional.dropout(torch.ones(20, device=device))
        drawn = [torch.rand(3), torch.randn(3), torch.randperm(20), torch.rand(3, device=device), dropped]
        return {
            "Python": [random.random(), random.gauss(0, 1), *order],
            "NumPy": [*np.random.rand(3).tolist(), *np.random.randn(3).tolist(), *np.random.permutation(20).tolist()],
            "torch": [number for tensor in drawn for number in tensor.tolist()],
        }

    for _ in range(before):  # an odd number of normal ones, the next of which is then at hand already
        draw()
    importlib.import_module(f"{package}.randomness").seed_everything(seed)
    return draw()


def package_of(impl, pytestconfig):
    """Return the package's name, for where it is imported by name; what is not written is not run."""
    return impl.randomness.seed_everything and pytestconfig.option.spec_impl


DRAWS = {
    "Python": lambda: [random.random(), random.gauss(0, 1)],
    "NumPy": lambda: np.random.randn(3).tolist(),
    "torch": lambda: torch.randn(3).tolist(),
}


def are_equal(evidence, drawn, predicted, **inputs):
    for stream in DRAWS:
        numbers, same = (torch.tensor(each[stream], dtype=torch.float64) for each in (drawn, predicted))
        evidence.equal(numbers, same, unit="as a number drawn after the same seed", stream=stream, **inputs)


@verifies(randomness.SEEDING)
@given(seed=st.seeds)
def test_the_streams_repeat_in_one_process(impl, evidence, pytestconfig, device, seed):
    """All three streams repeat after the same seed, wherever they were, and after another one was used."""
    run = partial(seeded_run, package_of(impl, pytestconfig), device=device)
    with restored(device):
        first, _, again = run(seed, 0), run(2**32 - 1 - seed, 1), run(seed, 1)
    are_equal(evidence, again, first)


@verifies(randomness.SEEDING)
@settings(max_examples=2)
@given(seed=st.seeds)
def test_every_bit_of_the_seed_counts(impl, evidence, seed):
    """All three streams give other numbers after a seed of another bit, whichever of the 32."""
    seed ^= 0xAAAAAAAA  # one of many bits, of which a float32 number would lose the last
    with restored():
        impl.randomness.seed_everything(seed)
        first = {stream: draw() for stream, draw in DRAWS.items()}
        for bit in range(32):
            impl.randomness.seed_everything(seed ^ 2**bit)
            for stream, draw in DRAWS.items():
                evidence.differs(draw(), first[stream], unit="after a seed of another bit", stream=stream, bit=bit)


@verifies(randomness.SEEDING)
def test_seeds_that_are_alike_differ(impl, evidence):
    """All three streams give other numbers after each of some seeds that are easily taken for one another."""
    first = {stream: {} for stream in DRAWS}
    with restored():
        for seed in ALIKE:
            impl.randomness.seed_everything(seed)
            for stream, draw in DRAWS.items():
                before = first[stream].setdefault(str(draw()), seed)
                evidence.equal(before, seed, unit="as the first seed to give these numbers", stream=stream)


@verifies(randomness.SEEDING)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_the_streams_repeat_in_fresh_processes(impl, evidence, fresh, pytestconfig, device, seed):
    """All three streams give the same numbers in two fresh processes and in this one, wherever they were before."""
    package = package_of(impl, pytestconfig)
    start = partial(fresh.start, seeded_run, package=package, seed=seed, device=str(device))
    runs = [start(before=before) for before in range(2)]
    with restored(device):
        here = seeded_run(package, seed, 2, device)
    first, second = (run.wait() for run in runs)
    are_equal(evidence, second, first, where="in two fresh processes")
    are_equal(evidence, first, here, where="in a fresh process and in this one")


@verifies(randomness.SEEDING)
@settings(max_examples=6)
@given(seed=st.seeds, number=st.three_counts)
def test_no_stream_disturbs_another(impl, evidence, seed, number):
    """What is drawn from one stream does not depend on what is drawn from the others."""
    with restored():
        for stream, draw in DRAWS.items():
            impl.randomness.seed_everything(seed)
            alone = draw()
            impl.randomness.seed_everything(seed)
            for count, other in zip(number, DRAWS.values(), strict=True):
                for _ in range(count if other is not draw else 0):
                    other()
            evidence.equal(draw(), alone, unit="whatever the others gave", stream=stream)


@verifies(randomness.SEEDING)
def test_seeds_may_be_numpys(impl, evidence, pytestconfig):
    """A seed up to 2³² − 1 is the same one as Python's integer or as NumPy's."""
    package = package_of(impl, pytestconfig)
    for number in NUMBERS:
        for seed in (0, 1, min(np.iinfo(number).max, 2**32 - 1)):
            with restored():
                python, numpys = seeded_run(package, int(seed), 0), seeded_run(package, number(seed), 0)
            are_equal(evidence, numpys, python, seed=seed, number=number.__name__)


@verifies(randomness.SEEDING)
def test_what_is_no_seed_is_refused(impl, evidence):
    """A seed below 0 or from 2³² on is a ValueError, what is not an integer a TypeError."""
    with restored():
        for seed in (-1, -(2**31), 2**32, 2**63, 2**64 + 1):
            evidence.raises(ValueError, partial(impl.randomness.seed_everything, seed), seed=seed)
        for seed in (1.0, "1", None):
            evidence.raises(TypeError, partial(impl.randomness.seed_everything, seed), seed=seed)


@refutes(randomness.SEEDING)
@settings(max_examples=6)
@given(seed=st.seeds)
def test_a_numpy_generator_does_not_repeat(impl, evidence, seed):
    """A NumPy Generator made without a seed gives other numbers each time, and one that exists goes on where it was."""
    generator, alike = np.random.default_rng(seed), np.random.default_rng(seed)
    drawn = []
    with restored():
        for _ in range(2):
            impl.randomness.seed_everything(seed)
            drawn.append(np.random.default_rng().random(4).tolist())
            evidence.equal(generator.random(4).tolist(), alike.random(4).tolist(), unit="from a Generator of one's own")
    evidence.differs(drawn[1], drawn[0], unit="from a new Generator")


@verifies(randomness.SEEDING)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_a_seeded_generator_of_torchs_stays_as_it_is(impl, evidence, device, seed):
    """A torch Generator of one's own is not seeded with the rest."""
    generator, alike = seeded(seed, device), seeded(seed, device)
    with restored(device):
        for _ in range(2):
            impl.randomness.seed_everything(seed)
            drawn, predicted = (torch.rand(4, generator=each, device=device) for each in (generator, alike))
            evidence.equal(drawn, predicted, unit="from a Generator of one's own")


@verifies(randomness.SEEDING)
@settings(max_examples=3)
@given(seed=st.seeds)
def test_a_run_repeats_to_the_bit_in_deterministic_mode(impl, evidence, device, seed):
    """Sums whose order may vary, too, are the same to the bit after the same seed, in torch's deterministic mode."""
    before = torch.get_deterministic_debug_mode()
    sums = []
    with restored(device):
        torch.set_deterministic_debug_mode("error")
        try:
            for _ in range(2):
                impl.randomness.seed_everything(seed)
                places = torch.randint(10, (2**14,), device=device)
                values = torch.randn(2**14, device=device)
                sums.append(torch.zeros(10, device=device).index_add(0, places, values))
        finally:
            torch.set_deterministic_debug_mode(before)
    evidence.equal(sums[1], sums[0], unit="as the sums")
