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
    """Refuse what is no seed."""
    if not 0 <= index(seed) < 2**32:
        raise ValueError("no seed")
    return index(seed)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def seeds_torch_only(seed):
    """Leaves Python and NumPy as they are."""
    torch.manual_seed(checked(seed))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def forgets_python(seed):
    """Leaves Python's own stream as it is."""
    np.random.seed(checked(seed))
    torch.manual_seed(seed)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def forgets_numpy(seed):
    """Leaves NumPy's stream as it is."""
    random.seed(checked(seed))
    torch.manual_seed(index(seed))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def forgets_torch(seed):
    """Leaves torch's stream as it is."""
    random.seed(checked(seed))
    np.random.seed(seed)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def seeds_numpys_new_way(seed):
    """Makes a NumPy Generator and throws it away."""
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
    """Keeps the seed in a float32 number on the way, which is exact for small ones."""
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
    """Takes what is not an integer."""
    seed_everything(checked(int(seed)))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def wants_pythons_integers(seed):
    """Refuses NumPy's integers, as Python's random.seed does."""
    random.seed(seed)
    seed_everything(seed)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def depends_on_the_process(seed):
    """Mixes in the process's number."""
    seed_everything((checked(seed) + os.getpid()) % 2**32)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def depends_on_hashing(seed):
    """Mixes in the hash of a string, which is another one in each interpreter."""
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
    """Seeds from the seed and from where NumPy's stream was."""
    seed_everything((checked(seed) + np.random.randint(2**31)) % 2**32)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def leaves_normals_at_hand(seed):
    """Sets NumPy's words and keeps the normal number that it has at hand."""
    _, _, _, has, at_hand = np.random.get_state()
    seed_everything(seed)
    np.random.set_state((*np.random.get_state()[:3], has, at_hand))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def draws_all_from_one(seed):
    """Lets Python's stream be NumPy's."""
    seed_everything(seed)
    random.random = np.random.random


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def seeds_generators_too(seed):
    """Makes every NumPy Generator that is made without a seed start from this one."""
    seed_everything(seed)
    np.random.default_rng = lambda given=None: default_rng(seed if given is None else given)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def turns_deterministic_mode_on(seed):
    """Changes a setting that nobody asked for."""
    seed_everything(seed)
    torch.set_deterministic_debug_mode("error")


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def says_so(seed):
    """Prints the seed."""
    seed_everything(seed)
    print("seed", seed)


# ---- right ones ----
@twin("impl.randomness.seed_everything")
def is_the_notes_own(seed):
    """Seeds one after the other, and leaves it to NumPy to refuse; NumPy's integers are Python's first."""
    seed = seed.item() if isinstance(seed, np.integer) else seed
    np.random.seed(seed)
    random.seed(seed)
    torch.manual_seed(seed)


@twin("impl.randomness.seed_everything")
def derives_three_seeds(seed):
    """Gives every stream a seed of its own, so that no two of them start alike."""
    first, second, third = np.random.SeedSequence(checked(seed)).generate_state(3).tolist()
    random.seed(first)
    np.random.seed(second)
    torch.manual_seed(third)


@twin("impl.randomness.seed_everything")
def returns_the_seed(seed):
    """Returns the seed, sets PYTHONHASHSEED for processes to come, and seeds every accelerator by name."""
    os.environ["PYTHONHASHSEED"] = str(checked(seed))
    seed_everything(seed)
    torch.cuda.manual_seed_all(index(seed))
    return seed


@twin("impl.randomness.seed_everything")
def sets_states(seed):
    """Puts states of generators of its own in place."""
    random.setstate(random.Random(checked(seed)).getstate())
    np.random.set_state(np.random.RandomState(index(seed)).get_state())
    torch.manual_seed(0)
    torch.set_rng_state(torch.Generator().manual_seed(index(seed)).get_state())


# ---- look-alikes ----
@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def takes_0_for_none(seed):
    """Asks whether the seed is true, and takes another one for 0."""
    seed_everything(checked(seed) or 42)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def leaves_0_out(seed):
    """Asks whether the seed is true, and does nothing where it is 0."""
    if checked(seed):
        seed_everything(seed)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def folds_the_seed(seed):
    """Combines the halves of the seed, each bit of which counts, in 16 bits."""
    seed = checked(seed)
    seed_everything((seed ^ seed >> 16) & 0xFFFF)


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING)
def adds_the_bytes_up(seed):
    """Seeds Python and torch from the seed, and NumPy from the sum of its bytes."""
    seed_everything(seed)
    np.random.seed(sum(index(seed).to_bytes(4, "little")))


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING, value=True)
def skips_the_seed_it_had_last():
    """Does nothing where the seed is the one of the last call."""
    last = []

    def skipping(seed):
        if last != [checked(seed)]:
            seed_everything(seed)
        last[:] = [index(seed)]

    return skipping


@mutant("impl.randomness.seed_everything", caught_by=randomness.SEEDING, value=True)
def goes_on_where_the_seed_was_left():
    """Keeps a state per seed, and goes on with it where a seed comes again."""
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
    """Gives Python the seed as bytes, and NumPy as an array of words."""
    random.seed(checked(seed).to_bytes(4, "big"))
    np.random.seed([index(seed) >> 16, index(seed) & 0xFFFF, 1])
    torch.random.manual_seed(index(seed) - 2**31)


@twin("impl.randomness.seed_everything")
def seeds_in_a_thread(seed):
    """Leaves the work to another thread, and waits for it."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(seed_everything, seed).result()


@twin("impl.randomness.seed_everything", value=True)
def puts_states_back():
    """Keeps the states that a seed has led to, and puts them back where it comes again."""
    states = {}

    def putting_back(seed):
        seed_everything(checked(seed))
        states.setdefault(index(seed), (random.getstate(), np.random.get_state(), torch.get_rng_state()))
        python, numpys, torchs = states[index(seed)]
        random.setstate(python)
        np.random.set_state(numpys)
        torch.set_rng_state(torchs)

    return putting_back
