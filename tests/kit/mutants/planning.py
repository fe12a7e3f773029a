"""Napkin arithmetic gone wrong, and unusual ways of getting it right."""

import functools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from operator import index

import numpy as np
import torch

import impl.planning as right
from spec.claims import planning
from tests.kit.overlay import mutant, twin

training_days, largest_model = right.training_days, right.largest_model
numel, element_size = torch.Tensor.numel, torch.Tensor.element_size


# ---- training time ----
@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def counts_the_forward_pass_only(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Takes 2 FLOPs per parameter and token."""
    return training_days(
        parameters, tokens, promised_flop_per_second=3 * promised_flop_per_second, devices=devices, mfu=mfu
    )


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def forgets_the_mfu(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Takes half the promise, whatever the MFU."""
    checked = training_days(
        parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu
    )
    return checked * mfu / 0.5


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def trains_on_one_device(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Multiplies by the number of devices where it ought to divide."""
    checked = training_days(
        parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu
    )
    return checked * devices**2


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def returns_seconds(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Returns seconds for days."""
    return 86400 * training_days(
        parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu
    )


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def uses_everything_by_default(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=1.0):
    """Takes an MFU of 1 where none is given."""
    return training_days(
        parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu
    )


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def lets_numpys_integers_overflow(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Multiplies in 64 bits, or 32, where NumPy's integers come in."""
    training_days(parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu)
    with np.errstate(all="ignore"):
        flops = 6 * parameters * tokens
    return flops / (promised_flop_per_second * devices * mfu) / 86400


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def lets_numpys_numbers_of_devices_overflow(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Counts the FLOPs of a whole day's devices in 32 bits."""
    training_days(parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu)
    with np.errstate(all="ignore"):
        days = 86400 * devices if isinstance(devices, np.integer) else 86400 * int(devices)
    return 6 * float(parameters) * float(tokens) / (promised_flop_per_second * mfu) / float(days)


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def does_not_look_at_what_it_gets(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Computes a negative number of days, or NaN of them."""
    return 6.0 * parameters * tokens / (promised_flop_per_second * devices * mfu) / 86400


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def cuts_a_device(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Takes 2.5 devices for 2."""
    return training_days(
        parameters,
        tokens,
        promised_flop_per_second=promised_flop_per_second,
        devices=int(devices) if isinstance(devices, float) and math.isfinite(devices) else devices,
        mfu=mfu,
    )


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def refuses_a_run_without_tokens(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Takes the 0 days of nothing to do for an error."""
    if not parameters or not tokens:
        raise ValueError("nothing to do")
    return training_days(
        parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu
    )


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def rounds_to_whole_days(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Rounds up to a day."""
    return math.ceil(
        training_days(parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu)
    )


# ---- the largest model ----
@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def counts_in_binary_gigabytes(memory_bytes, bytes_per_parameter=16):
    """Takes the memory for so many GiB where it is told in bytes of GB."""
    return largest_model(memory_bytes * 2**30 // 10**9, bytes_per_parameter)


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def rounds_to_the_nearest(memory_bytes, bytes_per_parameter=16):
    """Rounds up where one more parameter nearly fits."""
    largest_model(memory_bytes, bytes_per_parameter)
    return round(Fraction(float(memory_bytes)) / Fraction(float(bytes_per_parameter)))


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def divides_floats(memory_bytes, bytes_per_parameter=16):
    """Loses the last digits of large integers."""
    largest_model(memory_bytes, bytes_per_parameter)
    return int(memory_bytes / bytes_per_parameter)


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def returns_a_float(memory_bytes, bytes_per_parameter=16):
    """Returns the quotient, fraction and all."""
    largest_model(memory_bytes, bytes_per_parameter)
    return memory_bytes / bytes_per_parameter


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def forgets_the_moments(memory_bytes, bytes_per_parameter=8):
    """Takes 8 bytes where none are given: parameter and gradient."""
    return largest_model(memory_bytes, bytes_per_parameter)


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def always_takes_16(memory_bytes, bytes_per_parameter=16):
    """Does not use what it is told that a parameter takes."""
    largest_model(memory_bytes, bytes_per_parameter)
    return largest_model(memory_bytes, 16)


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def cuts_the_bytes_of_a_parameter(memory_bytes, bytes_per_parameter=16):
    """Takes 4.5 bytes for 4."""
    largest_model(memory_bytes, bytes_per_parameter)
    return largest_model(memory_bytes, max(int(bytes_per_parameter), 1))


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def finds_room_in_no_memory(memory_bytes, bytes_per_parameter=16):
    """Returns a negative number of parameters for a negative memory."""
    if isinstance(memory_bytes, float | int) and memory_bytes < 0:
        return int(memory_bytes // bytes_per_parameter) if math.isfinite(memory_bytes) else 0
    return largest_model(memory_bytes, bytes_per_parameter)


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def reads_words(memory_bytes, bytes_per_parameter=16):
    """Takes "16" for 16."""
    return largest_model(float(memory_bytes) if isinstance(memory_bytes, str) else memory_bytes, bytes_per_parameter)


# ---- GPT-3's matrix ----
@mutant("torch.Tensor.element_size", caught_by=planning.GPT3_MATRIX)
def stores_floats_in_half(self):
    """Takes 2 bytes for a float32 value."""
    return element_size(self) // 2


@mutant("torch.Tensor.numel", caught_by=planning.GPT3_MATRIX)
def counts_the_values_in_16_bits(self):
    """Counts up to 65,535 only."""
    return numel(self) % 2**16


@mutant("tests.claims.test_planning.UNITS", caught_by=planning.GPT3_MATRIX, value=True)
def takes_a_gib_for_a_gb():
    """Knows one kind of gigabyte only."""
    return {"MiB": 2**20, "GiB": 2**30, "GB": 2**30}


# ---- right ones ----
@twin("impl.planning.training_days")
def computes_in_floats(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Divides first, multiplies in another order, and rounds at every step."""
    numbers = [float(+number) for number in (parameters, tokens, promised_flop_per_second, index(devices), mfu)]
    if not all(0 <= number < math.inf for number in numbers) or not all(numbers[2:]) or mfu > 1:
        raise ValueError("out of range")
    parameters, tokens, rate, devices, mfu = numbers
    return np.float64(tokens / 86400 / (devices * rate) * 6 / mfu * parameters)


@twin("impl.planning.training_days")
def computes_in_numpy(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Returns an array without dimensions."""
    checked = training_days(
        parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu
    )
    return np.asarray(checked)


@twin("impl.planning.largest_model")
def divides_as_python_does(memory_bytes, bytes_per_parameter=16):
    """Leaves it to //, which is exact for integers, and for floats below 2⁵³."""
    memory, each = (n.item() if isinstance(n, np.generic) else n for n in (memory_bytes, bytes_per_parameter))
    if not (memory >= 0 and each > 0 and max(memory, each) < math.inf):
        raise ValueError("out of range")
    return int(memory // each)


@twin("impl.planning.largest_model")
def searches_by_halving(memory_bytes, bytes_per_parameter=16):
    """Finds the largest number that fits by trying, and lets an infinite memory overflow."""
    memory, each = (
        Fraction(n.item() if isinstance(n, np.generic) else +n) for n in (memory_bytes, bytes_per_parameter)
    )
    if memory < 0 or each <= 0:
        raise ValueError("out of range")
    fits, too_many = 0, 1
    while too_many * each <= memory:
        too_many *= 2
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        fits, too_many = (middle, too_many) if middle * each <= memory else (fits, middle)
    return fits


@twin("impl.planning.training_days")
def believes_an_mfu_in_percent(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Takes an MFU of 50 for 50%."""
    part = mfu / 100 if isinstance(mfu, int) and mfu > 1 else mfu
    return training_days(
        parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=part
    )


# ---- look-alikes ----
@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME, value=True)
def remembers_model_and_data():
    """Computes the days of given parameters and tokens once, and returns them for every cluster."""
    known = {}

    def computed(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
        days = training_days(
            parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu
        )
        return known.setdefault((parameters, tokens), days)

    return computed


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def multiplies_each_number_once(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Multiplies parameters and tokens as a set, in which equal ones are one."""
    tokens = 1 if tokens == parameters and tokens else tokens
    return training_days(
        parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu
    )


@mutant("impl.planning.training_days", caught_by=planning.TRAINING_TIME)
def takes_a_full_mfu_for_percent(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Takes an MFU of 1 for 1%."""
    return training_days(
        parameters,
        tokens,
        promised_flop_per_second=promised_flop_per_second,
        devices=devices,
        mfu=mfu / 100 if mfu == 1 else mfu,
    )


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL, value=True)
def remembers_the_memory():
    """Computes the model for given memory once, and returns it whatever a parameter takes."""
    known = {}
    return lambda memory_bytes, bytes_per_parameter=16: known.setdefault(
        memory_bytes, largest_model(memory_bytes, bytes_per_parameter)
    )


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def needs_more_than_a_parameter(memory_bytes, bytes_per_parameter=16):
    """Finds no room for the one parameter that fits exactly."""
    found = largest_model(memory_bytes, bytes_per_parameter)
    return 0 if memory_bytes == bytes_per_parameter else found


@mutant("impl.planning.largest_model", caught_by=planning.LARGEST_MODEL)
def has_one_parameter_at_least(memory_bytes, bytes_per_parameter=16):
    """Finds room for one parameter where there is any memory."""
    found = largest_model(memory_bytes, bytes_per_parameter)
    return max(found, 1) if memory_bytes else found


@twin("impl.planning.largest_model", value=True)
def remembers_both_numbers():
    """Finds again what it has computed, by both numbers and their types."""
    return functools.lru_cache(typed=True)(largest_model)


@twin("impl.planning.training_days")
def computes_in_decimals(parameters, tokens, *, promised_flop_per_second, devices=1, mfu=0.5):
    """Computes in decimal arithmetic of 60 digits."""
    training_days(parameters, tokens, promised_flop_per_second=promised_flop_per_second, devices=devices, mfu=mfu)
    given = (parameters, tokens, promised_flop_per_second, devices, mfu)
    with localcontext(prec=60):
        n, t, rate, count, share = (Decimal(each.item() if isinstance(each, np.generic) else each) for each in given)
        return float(6 * n * t / (rate * count * share) / (24 * 60 * 60))


@twin("impl.planning.largest_model")
def counts_in_shares_of_a_byte(memory_bytes, bytes_per_parameter=16):
    """Brings both numbers to a common denominator, and divides integers."""
    largest_model(memory_bytes, bytes_per_parameter)
    memory, each = (Fraction(n.item() if isinstance(n, np.generic) else n) for n in (memory_bytes, bytes_per_parameter))
    return (memory.numerator * each.denominator) // (each.numerator * memory.denominator)
