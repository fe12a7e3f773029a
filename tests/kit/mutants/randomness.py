"""§3.3: wrong and unusual ways to seed."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from operator import index

import numpy as np
import torch

from impl.randomness import seed_everything
from spec.claims import randomness
from tests.kit.overlay import mutant, twin

default_rng = np.random.default_rng


def checked(seed):
    """Return a valid seed as a Python integer; raise ValueError for others."""
    if not 0 <= index(seed) < 2**32:
        raise ValueError("no seed")
    return index(seed)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def seeds_torch_only(seed):
    """Does not seed Python and NumPy."""
    torch.manual_seed(checked(seed))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def forgets_python(seed):
    """Does not seed Python's own stream."""
    np.random.seed(checked(seed))
    torch.manual_seed(seed)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def forgets_numpy(seed):
    """Does not seed NumPy's stream."""
    random.seed(checked(seed))
    torch.manual_seed(index(seed))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def forgets_torch(seed):
    """Does not seed torch's stream."""
    random.seed(checked(seed))
    np.random.seed(seed)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def seeds_numpys_new_way(seed):
    """Makes a seeded NumPy Generator that nobody uses."""
    random.seed(checked(seed))
    np.random.default_rng(seed)
    torch.manual_seed(index(seed))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def always_takes_42(seed):
    """Ignores the seed."""
    checked(seed)
    seed_everything(42)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def takes_24_bits_for_python(seed):
    """Rounds the seed to float32 for Python, which is exact for small seeds."""
    random.seed(int(np.float32(checked(seed))))
    np.random.seed(seed)
    torch.manual_seed(index(seed))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def takes_31_bits_for_torch(seed):
    """Loses the seed's first bit for torch."""
    seed_everything(checked(seed))
    torch.manual_seed(index(seed) % 2**31)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def takes_any_seed(seed):
    """Wraps seeds that are out of range instead of refusing them."""
    seed_everything(index(seed) % 2**32)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def rounds_seeds(seed):
    """Accepts floats and strings, and converts them to integers."""
    seed_everything(checked(int(seed)))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def wants_pythons_integers(seed):
    """Refuses NumPy's integers, as Python's random.seed does."""
    random.seed(seed)
    seed_everything(seed)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def depends_on_the_process(seed):
    """Adds the process id to the seed."""
    seed_everything((checked(seed) + os.getpid()) % 2**32)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def depends_on_hashing(seed):
    """Combines the seed with the hash of a string, which differs between interpreters."""
    seed_everything((checked(seed) ^ hash("seed")) % 2**32)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING, value=True)
def seeds_only_once():
    """Does nothing when it is called again."""
    called = []

    def seed(seed):
        if not called:
            seed_everything(seed)
        called.append(checked(seed))

    return seed


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def adds_to_what_was(seed):
    """Adds a number from NumPy's stream to the seed."""
    seed_everything((checked(seed) + np.random.randint(2**31)) % 2**32)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def leaves_normals_at_hand(seed):
    """Keeps the normal number that NumPy has in reserve."""
    _, _, _, has, reserve = np.random.get_state()
    seed_everything(seed)
    np.random.set_state((*np.random.get_state()[:3], has, reserve))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def draws_all_from_one(seed):
    """Replaces Python's random.random by NumPy's."""
    seed_everything(seed)
    random.random = np.random.random


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def seeds_generators_too(seed):
    """Lets every NumPy Generator without a seed start from this one."""
    seed_everything(seed)
    np.random.default_rng = lambda given=None: default_rng(seed if given is None else given)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def turns_deterministic_mode_on(seed):
    """Turns torch's deterministic mode on."""
    seed_everything(seed)
    torch.set_deterministic_debug_mode("error")


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def says_so(seed):
    """Prints the seed."""
    seed_everything(seed)
    print("seed", seed)


# ---- unusual, and right ----
@twin("impl.randomness.seed_everything")
def is_the_notes_own(seed):
    """Seeds NumPy first, which refuses invalid seeds, and converts NumPy integers to Python's."""
    seed = seed.item() if isinstance(seed, np.integer) else seed
    np.random.seed(seed)
    random.seed(seed)
    torch.manual_seed(seed)


@twin("impl.randomness.seed_everything")
def derives_three_seeds(seed):
    """Derives a different seed for each stream."""
    first, second, third = np.random.SeedSequence(checked(seed)).generate_state(3).tolist()
    random.seed(first)
    np.random.seed(second)
    torch.manual_seed(third)


@twin("impl.randomness.seed_everything")
def returns_the_seed(seed):
    """Returns the seed, sets PYTHONHASHSEED for later processes, and seeds every CUDA device."""
    os.environ["PYTHONHASHSEED"] = str(checked(seed))
    seed_everything(seed)
    torch.cuda.manual_seed_all(index(seed))
    return seed


@twin("impl.randomness.seed_everything")
def sets_states(seed):
    """Sets each stream to the state of a seeded generator."""
    random.setstate(random.Random(checked(seed)).getstate())
    np.random.set_state(np.random.RandomState(index(seed)).get_state())
    torch.manual_seed(0)
    torch.set_rng_state(torch.Generator().manual_seed(index(seed)).get_state())


# ---- look-alikes ----
@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def takes_0_for_none(seed):
    """Replaces a seed of 0 by 42."""
    seed_everything(checked(seed) or 42)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def leaves_0_out(seed):
    """Does nothing where the seed is 0."""
    if checked(seed):
        seed_everything(seed)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def folds_the_seed(seed):
    """Combines both halves of the seed in 16 bits."""
    seed = checked(seed)
    seed_everything((seed ^ seed >> 16) & 0xFFFF)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def adds_the_bytes_up(seed):
    """Seeds Python and torch from the seed, and NumPy from the sum of its bytes."""
    seed_everything(seed)
    np.random.seed(sum(index(seed).to_bytes(4, "little")))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING, value=True)
def skips_the_seed_it_had_last():
    """Does nothing where the seed is that of the last call."""
    last = []

    def skipping(seed):
        if last != [checked(seed)]:
            seed_everything(seed)
        last[:] = [index(seed)]

    return skipping


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING, value=True)
def goes_on_where_the_seed_was_left():
    """Restores torch's last state under a seed where that seed is used again."""
    states, last = {}, []

    def going_on(seed):
        if last:
            states[last[0]] = torch.get_rng_state()
        seed_everything(checked(seed))
        if index(seed) in states:
            torch.set_rng_state(states[index(seed)])
        last[:] = [index(seed)]

    return going_on


@twin("impl.randomness.seed_everything")
def seeds_by_bytes(seed):
    """Seeds Python with bytes, and NumPy with an array of words."""
    random.seed(checked(seed).to_bytes(4, "big"))
    np.random.seed([index(seed) >> 16, index(seed) & 0xFFFF, 1])
    torch.random.manual_seed(index(seed) - 2**31)


@twin("impl.randomness.seed_everything")
def seeds_in_a_thread(seed):
    """Seeds in another thread, and waits for it."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(seed_everything, seed).result()


@twin("impl.randomness.seed_everything", value=True)
def puts_states_back():
    """Saves the states after each seed, and restores them where the seed is used again."""
    states = {}

    def putting_back(seed):
        seed_everything(checked(seed))
        states.setdefault(index(seed), (random.getstate(), np.random.get_state(), torch.get_rng_state()))
        python, numpys, torchs = states[index(seed)]
        random.setstate(python)
        np.random.set_state(numpys)
        torch.set_rng_state(torchs)

    return putting_back
