"""§3.1: wrong and unusual parameters."""

import functools
import math
from operator import index

import numpy as np
import torch
from torch import nn

from impl import parameters as right
from spec.claims import parameters
from tests.kit.overlay import mutant, twin

normal, scaled_normal, truncated_normal = right.normal, right.scaled_normal, right.truncated_normal
register = nn.Module.__setattr__
matmul = torch.Tensor.__matmul__


# ---- what a parameter is ----
@mutant("impl.parameters.normal", caught_by=parameters.IS_TENSOR)
def returns_a_plain_tensor(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Returns a tensor that requires grad, which no module lists."""
    return normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device).detach().requires_grad_()


@mutant("impl.parameters.scaled_normal", caught_by=parameters.IS_TENSOR)
def freezes_the_weights(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Returns a parameter without gradient."""
    return scaled_normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device).requires_grad_(False)


@mutant("impl.parameters.truncated_normal", caught_by=parameters.IS_TENSOR)
def turns_the_shape_round(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Returns (fan_out, fan_in), as torch.nn.Linear has it."""
    weights = truncated_normal(fan_in, fan_out, bound=bound, generator=generator, dtype=dtype, device=device)
    return nn.Parameter(weights.detach().mT)


@mutant("impl.parameters.normal", caught_by=parameters.IS_TENSOR)
def forgets_the_dtype(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Returns float32, whatever the dtype given."""
    return normal(fan_in, fan_out, generator=generator, dtype=torch.float32, device=device)


@mutant("impl.parameters.normal", caught_by=parameters.IS_TENSOR)
def takes_float32_for_the_default(fan_in, fan_out, *, generator=None, dtype=torch.float32, device=None):
    """Ignores torch's default dtype."""
    return normal(fan_in, fan_out, generator=generator, dtype=dtype or torch.float32, device=device)


@mutant("impl.parameters.truncated_normal", caught_by=parameters.IS_TENSOR)
def forgets_the_device(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Draws on the CPU, whatever the device given."""
    return truncated_normal(fan_in, fan_out, bound=bound, generator=generator, dtype=dtype)


@mutant("impl.parameters.scaled_normal", caught_by=parameters.IS_TENSOR)
def takes_sizes_as_they_come(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Truncates floats to integers, and takes a negative size for 0."""
    sizes = (max(int(size), 0) for size in (fan_in, fan_out))
    return scaled_normal(*sizes, generator=generator, dtype=dtype, device=device)


@mutant("impl.parameters.scaled_normal", caught_by=parameters.IS_TENSOR)
def counts_in_eight_bits(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Cuts each size off to 8 bits."""
    return scaled_normal(index(fan_in) % 256, fan_out, generator=generator, dtype=dtype, device=device)


@mutant("impl.parameters.normal", caught_by=parameters.IS_TENSOR)
def is_no_leaf(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Multiplies the parameter by 1, so that the result is a plain tensor."""
    return normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device) * 1


@mutant("torch.nn.Parameter.__new__", caught_by=parameters.IS_TENSOR)
def makes_parameters_that_do_not_learn(cls, data=None, requires_grad=False):
    """Makes parameters that do not require grad by default."""
    return torch.Tensor._make_subclass(cls, data, requires_grad)


# ---- changed in place ----
@mutant("torch.nn.Module.__setattr__", caught_by=parameters.IDENTITY)
def takes_plain_tensors_for_parameters(self, name, value):
    """Makes a parameter of a plain tensor that takes a parameter's name."""
    known = name in self.__dict__.get("_parameters", {})
    register(self, name, nn.Parameter(value) if known and type(value) is torch.Tensor else value)


@mutant("torch.nn.Module.__setattr__", caught_by=parameters.IDENTITY)
def copies_into_the_old_parameter(self, name, value):
    """Copies a new parameter's values into the old one instead of binding it."""
    old = self.__dict__.get("_parameters", {}).get(name)
    if isinstance(value, nn.Parameter) and old is not None:
        old.data = value.data
    else:
        register(self, name, value)


@mutant("torch.optim.SGD.step", caught_by=parameters.IDENTITY)
def never_steps(self, closure=None):
    """Never updates a parameter."""


@mutant("torch.Tensor.mul_", caught_by=parameters.IDENTITY, value=True)
def hides_changes_from_autograd():
    """Changes values without counting the change for autograd."""
    multiply = torch.Tensor.mul_

    def multiplied(self, factor):
        multiply(self.data, factor)
        return self

    return multiplied


# ---- a vector times a matrix ----
@mutant("torch.Tensor.__matmul__", caught_by=parameters.ROW_VECTOR)
def keeps_the_row(self, other):
    """Keeps the dimension of 1 in the product of a vector."""
    return matmul(self[None, :], other) if self.dim() == 1 else matmul(self, other)


@mutant("torch.Tensor.__matmul__", caught_by=parameters.ROW_VECTOR)
def takes_vectors_for_columns(self, other):
    """Multiplies from the other side where that fits."""
    return matmul(other, self) if self.dim() == 1 and other.shape[0] == other.shape[1] else matmul(self, other)


@mutant("torch.Tensor.__matmul__", caught_by=parameters.ROW_VECTOR)
def cuts_vectors_to_fit(self, other):
    """Cuts off the elements of a vector that is too long."""
    return matmul(self[: other.shape[0]], other) if self.dim() == 1 else matmul(self, other)


# ---- how weights vary ----
def randn(*shape, generator):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def rand(*shape, generator):
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


def one(fan_in, fan_out):
    return 1.0


def lecun(fan_in, fan_out):
    return 1 / math.sqrt(fan_in) if fan_in else 1.0


def weights_from(sample, scale):
    """Return a function like `normal` from one that gives the weights before they are scaled."""

    def weights(fan_in, fan_out, *, generator=None, dtype=None, device=None, **more):
        drawn = sample(right._shape(fan_in, fan_out), generator, **more) * scale(fan_in, fan_out)
        return nn.Parameter(drawn.to(device=device, dtype=dtype or torch.get_default_dtype()))

    return weights


def sample(name, scale, *caught_by):
    """Register a sample (shape, generator) → float64 tensor as a wrong `name` of impl.parameters, or as a right one."""

    def register(drawn):
        weights = functools.wraps(drawn, assigned=("__module__", "__name__", "__doc__"))(weights_from(drawn, scale))
        del weights.__wrapped__  # The wrapped function has another signature.
        target = f"impl.parameters.{name}"
        mutant(target, caught_by=caught_by)(weights) if caught_by else twin(target)(weights)
        return drawn

    return register


@sample("normal", one, parameters.GROWTH, parameters.TAILS)
def uniform(shape, generator):
    """Draws uniform weights of the right variance."""
    return (2 * rand(*shape, generator=generator) - 1) * math.sqrt(3)


@sample("scaled_normal", lecun, parameters.SCALED)
def uniform_and_scaled(shape, generator):
    """Draws uniform weights of the right variance."""
    return uniform(shape, generator)


@sample("normal", one, parameters.TAILS)
def twelve_uniform_ones(shape, generator):
    """Adds twelve uniform numbers up, whose sum is nearly normal, and never beyond 6."""
    return rand(12, *shape, generator=generator).sum(0) - 6


@sample("normal", one, parameters.GROWTH)
def logistic(shape, generator):
    """Draws from a logistic distribution, which looks much like a normal one."""
    u = rand(*shape, generator=generator)
    return torch.log((u + 2.0**-54) / (1 - u)) * math.sqrt(3) / math.pi


@sample("normal", one, parameters.GROWTH)
def one_row(shape, generator):
    """Repeats one row."""
    return randn(1, shape[1], generator=generator).repeat(shape[0], 1)


@sample("scaled_normal", lecun, parameters.SCALED)
def of_exact_deviation(shape, generator):
    """Divides each draw by its own standard deviation."""
    drawn = randn(*shape, generator=generator)
    return drawn / drawn.std() if drawn.numel() > 1 else drawn


@sample("normal", one, parameters.GROWTH)
def of_exact_mean(shape, generator):
    """Subtracts each draw's own mean."""
    drawn = randn(*shape, generator=generator)
    return drawn - drawn.mean() if drawn.numel() else drawn


def arranged(shape, parts):
    """Return the numbers as a matrix of this shape, row by row."""
    return parts.flatten()[: shape[0] * shape[1]].reshape(shape)


def half(shape, generator):
    return randn((shape[0] * shape[1] + 1) // 2, generator=generator)


@sample("normal", one, parameters.GROWTH)
def opposite_halves(shape, generator):
    """Draws half of the weights and takes their negatives for the rest."""
    first = half(shape, generator)
    return arranged(shape, torch.cat([first, -first]))


@sample("scaled_normal", lecun, parameters.SCALED)
def opposite_pairs(shape, generator):
    """Follows each weight by its negative, so that the mean is 0."""
    first = half(shape, generator)
    return arranged(shape, torch.stack([first, -first], 1))


@sample("normal", one, parameters.GROWTH)
def mirrored(shape, generator):
    """Draws half of the weights and reads them backwards for the rest."""
    first = half(shape, generator)
    return arranged(shape, torch.cat([first, first.flip(0)]))


@sample("scaled_normal", lecun, parameters.SCALED)
def shuffled_copies(shape, generator):
    """Uses each number several times, in a random order."""
    pool = half(shape, generator)
    return pool[torch.randint(len(pool), shape, generator=generator)] if len(pool) else pool.reshape(shape)


@sample("normal", one, parameters.GROWTH)
def a_part_in_common(shape, generator):
    """Adds the same random number to all weights of a row."""
    return (randn(*shape, generator=generator) + randn(shape[0], 1, generator=generator)) / math.sqrt(2)


@sample("normal", one, parameters.GROWTH)
def columns_of_one_length(shape, generator):
    """Scales every column to the expected norm."""
    weights = randn(*shape, generator=generator)
    return weights / weights.square().mean(0, keepdim=True).sqrt()


@sample("scaled_normal", lecun, parameters.SCALED)
def off_centre(shape, generator):
    """Has a mean of 0.2 and the right mean square."""
    return randn(*shape, generator=generator) * math.sqrt(0.96) + 0.2


@sample("normal", one, parameters.TAILS)
def four_at_most(shape, generator):
    """Clamps weights beyond ±4, which only a large sample shows."""
    return randn(*shape, generator=generator).clamp(-4, 4)


@sample("normal", one, parameters.TAILS, parameters.GROWTH)
def from_eight_bits(shape, generator):
    """Starts from uniform numbers of 8 bits, as torch 2.10 does for bfloat16."""
    u = (torch.randint(256, (2, *shape), generator=generator).double() + 0.5) / 256
    return torch.sqrt(-2 * torch.log(u[0])) * torch.cos(2 * math.pi * u[1])


@sample("scaled_normal", lecun, parameters.SCALED)
def in_order(shape, generator):
    """Sorts the weights of each column."""
    return randn(*shape, generator=generator).sort(0).values


@sample("normal", one, parameters.GROWTH)
def with_one_nan(shape, generator):
    """Has a NaN among the weights."""
    weights = randn(*shape, generator=generator)
    weights.flatten()[-1:] = math.nan
    return weights


@sample("normal", one, parameters.GROWTH)
def symmetric(shape, generator):
    """Makes the largest square of the weights symmetric."""
    weights = randn(*shape, generator=generator)
    side = min(shape)
    square = weights[:side, :side]
    weights[:side, :side] = square.triu() + square.triu(1).mT
    return weights


@mutant("impl.parameters.normal", caught_by=parameters.GROWTH, value=True)
def reuses_its_memory():
    """Returns the parameter of the last call again, with new values."""
    known = {}

    def draw(fan_in, fan_out, *, generator=None, dtype=None, device=None):
        new = normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)
        reused = known.setdefault((new.shape, new.dtype), new)
        reused.data.copy_(new.data)
        return reused

    return draw


@mutant("impl.parameters.scaled_normal", caught_by=parameters.SCALED)
def is_wrong_in_float64(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Does not scale the weights in float64."""
    draw = normal if dtype is torch.float64 else scaled_normal
    return draw(fan_in, fan_out, generator=generator, dtype=dtype, device=device)


@mutant("impl.parameters.scaled_normal", caught_by=parameters.SCALED)
def is_wrong_in_bfloat16(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Divides by the integer part of √fan_in in bfloat16."""
    if dtype is not torch.bfloat16:
        return scaled_normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)
    weights = normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)
    return nn.Parameter(weights.detach() / max(math.isqrt(fan_in), 1))


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def cuts_one_side_only(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Redraws weights above the upper bound, but not those below the lower one."""
    if not bound > 0:
        raise ValueError("no bound")
    inside = truncated_normal(fan_in, fan_out, bound=bound, generator=generator, dtype=dtype, device=device)
    whole = scaled_normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)
    return nn.Parameter(torch.where(whole * math.sqrt(fan_in) > bound, inside, whole).detach())


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def scales_the_bound_by_fan_out(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Takes bound/√fan_out for the bound."""
    bound = bound * math.sqrt(fan_in / fan_out) if fan_in and fan_out else bound
    return truncated_normal(fan_in, fan_out, bound=bound, generator=generator, dtype=dtype, device=device)


def standard(shape, generator):
    return randn(*shape, generator=generator)


def scaled_by(caught_by):
    """Register a wrong scale (fan_in, fan_out) for `scaled_normal`."""

    def register(scale):
        weights = functools.wraps(scale, assigned=("__module__", "__name__", "__doc__"))(weights_from(standard, scale))
        del weights.__wrapped__
        mutant("impl.parameters.scaled_normal", caught_by=caught_by)(weights)
        return scale

    return register


@scaled_by(parameters.SCALED)
def xavier(fan_in, fan_out):
    """Is Xavier's rule, which the claim names."""
    return math.sqrt(2 / max(fan_in + fan_out, 1))


@scaled_by(parameters.SCALED)
def he(fan_in, fan_out):
    """Is He's rule, for layers followed by a ReLU."""
    return math.sqrt(2 / max(fan_in, 1))


@scaled_by(parameters.SCALED)
def swaps_the_fans(fan_in, fan_out):
    """Divides by √fan_out."""
    return 1 / math.sqrt(max(fan_out, 1))


@scaled_by(parameters.SCALED)
def forgets_the_root(fan_in, fan_out):
    """Divides by fan_in."""
    return 1 / max(fan_in, 1)


@scaled_by(parameters.SCALED)
def divides_by_a_rounded_root(fan_in, fan_out):
    """Divides by the whole part of √fan_in."""
    return 1 / max(math.isqrt(fan_in), 1)


@scaled_by(parameters.SCALED)
def is_two_percent_short(fan_in, fan_out):
    """Has a standard deviation that is 2% too small."""
    return 0.98 * lecun(fan_in, fan_out)


@mutant("impl.parameters.normal", caught_by=parameters.GROWTH)
def grows_with_the_inputs(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Divides by √fan_in, as only `scaled_normal` should."""
    return scaled_normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)


@mutant("impl.parameters.normal", caught_by=parameters.GROWTH)
def ignores_the_generator(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Draws from torch's own stream even where a generator is given."""
    return normal(fan_in, fan_out, dtype=dtype, device=device)


@mutant("impl.parameters.scaled_normal", caught_by=parameters.SCALED)
def draws_on_from_the_global_stream(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Seeds torch's own stream from the generator and leaves it so."""
    if generator is not None:
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
    return scaled_normal(fan_in, fan_out, dtype=dtype, device=device)


@mutant("impl.parameters.scaled_normal", caught_by=parameters.SCALED)
def leaves_the_generator_where_it_was(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Draws from a copy of the generator: every layer gets the same weights."""
    copy = torch.Generator().set_state(generator.get_state()) if generator else None
    return scaled_normal(fan_in, fan_out, generator=copy, dtype=dtype, device=device)


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def starts_the_generator_again(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Seeds the generator with what it was first seeded with."""
    generator = generator and generator.manual_seed(generator.initial_seed())
    return truncated_normal(fan_in, fan_out, bound=bound, generator=generator, dtype=dtype, device=device)


@mutant("impl.parameters.truncated_normal", caught_by=parameters.GROWTH)
def seeds_itself(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Draws from a generator of its own where none is given, so that seeding torch repeats nothing."""
    if generator is None:
        generator = torch.Generator()
        generator.seed()
    return truncated_normal(fan_in, fan_out, bound=bound, generator=generator, dtype=dtype, device=device)


# ---- truncation ----
def cut(weights, fan_in, change):
    """Return a parameter of changed weights, in units of their standard deviation."""
    root = math.sqrt(fan_in)
    return nn.Parameter(change(weights.detach().double() * root).div(root).to(weights.dtype))


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def cuts_at_absolute_bounds(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Cuts at ±3, as the notes do, whatever the standard deviation."""
    weights = scaled_normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)
    return nn.Parameter(weights.detach().clamp(-bound, bound))


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def gathers_the_tails_at_the_bound(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Clamps weights beyond the bound to the bound."""
    weights = scaled_normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)
    return cut(weights, fan_in, lambda z: z.clamp(-bound, bound))


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def puts_zeros_for_the_tails(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Sets weights beyond the bound to 0."""
    weights = scaled_normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)
    return cut(weights, fan_in, lambda z: torch.where(z.abs() > bound, 0, z))


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def redraws_once(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Redraws weights beyond the bound only once."""
    how = {"generator": generator, "dtype": dtype, "device": device}
    weights, others = (scaled_normal(fan_in, fan_out, **how).detach() for _ in range(2))
    return nn.Parameter(torch.where(weights.abs() * math.sqrt(fan_in) > bound, others, weights))


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def folds_the_tails_back(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Takes weights beyond the bound modulo the bound."""
    weights = scaled_normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)
    return cut(weights, fan_in, lambda z: torch.where(z.abs() > bound, torch.fmod(z, bound), z))


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def stretches_to_unit_variance(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Rescales the weights to the standard deviation before truncation."""
    weights = truncated_normal(fan_in, fan_out, bound=bound, generator=generator, dtype=dtype, device=device)
    return cut(weights, fan_in, lambda z: z / 0.9866)


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def always_cuts_at_three(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Ignores the bound."""
    bound = 3.0 if bound > 0 else bound
    return truncated_normal(fan_in, fan_out, bound=bound, generator=generator, dtype=dtype, device=device)


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def cuts_at_two_by_default(fan_in, fan_out, *, bound=2.0, generator=None, dtype=None, device=None):
    """Has torch's own default bound."""
    return truncated_normal(fan_in, fan_out, bound=bound, generator=generator, dtype=dtype, device=device)


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def takes_any_bound(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Uses a bound of 3 instead of one that is not above 0."""
    bound = bound if bound > 0 else 3.0
    return truncated_normal(fan_in, fan_out, bound=bound, generator=generator, dtype=dtype, device=device)


@sample("truncated_normal", lecun, parameters.TRUNCATED)
def uniform_within_the_bound(shape, generator, bound=3.0):
    """Draws uniform weights of the variance that truncation leaves, which lie within the bound."""
    if not bound > 0:
        raise ValueError("no bound")
    variance = 1 - bound * math.exp(-(bound**2) / 2) * math.sqrt(2 / math.pi) / math.erf(bound / math.sqrt(2))
    return uniform(shape, generator) * min(math.sqrt(variance), bound / math.sqrt(3))


@mutant("torch.nn.init.trunc_normal_", caught_by=parameters.TRUNCATED)
def reads_bounds_as_deviations(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Takes the bounds for multiples of the standard deviation, as if the notes' call were right."""
    with torch.no_grad():
        tensor.copy_(truncated_normal(*tensor.shape, bound=b, generator=generator) * math.sqrt(tensor.shape[0]) * std)


# ---- right ones ----
@sample("normal", one)
def box_and_muller(shape, generator):
    """Computes normal numbers from uniform ones."""
    u = rand(2, *shape, generator=generator)
    return torch.sqrt(-2 * torch.log1p(-u[0])) * torch.sin(2 * math.pi * u[1])


@sample("scaled_normal", lecun)
def numpys_numbers(shape, generator):
    """Draws with NumPy from a seed that the generator gives, or torch's own stream."""
    seed = int(torch.randint(2**31, (), generator=generator))
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


@twin("impl.parameters.scaled_normal")
def calls_kaiming(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Uses He's initialiser for a linear gain on the transpose, in the dtype itself, and refuses empty weights."""
    if index(fan_in) < 1 or index(fan_out) < 1:
        raise ValueError("no weights")
    weights = torch.empty(index(fan_out), index(fan_in), dtype=dtype, device=device)
    return nn.Parameter(nn.init.kaiming_normal_(weights, nonlinearity="linear", generator=generator).T)


@twin("impl.parameters.normal")
def draws_in_the_dtype_itself(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Draws in bfloat16 where that dtype is given, however coarse torch's source is."""
    sizes = right._shape(fan_in, fan_out)
    return nn.Parameter(torch.randn(sizes, generator=generator, dtype=dtype, device=device))


@twin("impl.parameters.truncated_normal")
def calls_trunc_normal(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Calls torch's own sampler with bounds of the right size, in the dtype itself."""
    if not bound > 0:
        raise ValueError("no bound")
    weights = torch.empty(right._shape(fan_in, fan_out), dtype=dtype, device=device)
    std = lecun(fan_in, fan_out)
    return nn.Parameter(nn.init.trunc_normal_(weights, 0.0, std, -bound * std, bound * std, generator=generator))


@sample("truncated_normal", lecun)
def redraws_until_all_fit(shape, generator, bound=3.0):
    """Redraws single weights until none lies beyond the bound."""
    if not bound > 0:
        raise ValueError("no bound")
    weights = randn(*shape, generator=generator)
    while len(outside := torch.nonzero(weights.abs() > bound, as_tuple=True)[0]):
        weights[weights.abs() > bound] = randn(len(outside), generator=generator)
    return weights


@twin("impl.parameters.truncated_normal")
def uses_the_global_stream_and_puts_it_back(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Draws from torch's own stream and restores it."""
    if generator is None:
        return truncated_normal(fan_in, fan_out, bound=bound, dtype=dtype, device=device)
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return truncated_normal(fan_in, fan_out, bound=bound, dtype=dtype, device=device)


class Weight(nn.Parameter):
    """A subclass of Parameter with its own name."""


@twin("impl.parameters.normal", value=True)
def has_parameters_of_its_own():
    """Returns a subclass of Parameter."""
    return lambda fan_in, fan_out, *, generator=None, dtype=None, device=None: Weight(
        normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device).detach()
    )


# ---- look-alikes: square weights, equal seeds, a single weight, one parameter under two names ----
@sample("normal", one, parameters.GROWTH)
def orthogonal_if_square(shape, generator):
    """Makes square weights orthogonal, which have the right mean square exactly."""
    drawn = randn(*shape, generator=generator)
    return torch.linalg.qr(drawn).Q * math.sqrt(len(drawn)) if shape[0] == shape[1] > 1 else drawn


@sample("scaled_normal", lecun, parameters.SCALED)
def symmetric_if_square(shape, generator):
    """Makes square weights symmetric."""
    drawn = randn(*shape, generator=generator)
    return (drawn.tril() + drawn.tril(-1).T) if shape[0] == shape[1] else drawn


@mutant("impl.parameters.truncated_normal", caught_by=parameters.TRUNCATED)
def forgets_to_cut_squares(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Does not truncate square weights."""
    cut = math.inf if fan_in == fan_out and bound > 0 else bound
    return truncated_normal(fan_in, fan_out, bound=cut, generator=generator, dtype=dtype, device=device)


@sample("normal", one, parameters.IS_TENSOR)
def undefined_if_single(shape, generator):
    """Divides a single weight by its own standard deviation, which is undefined."""
    drawn = randn(*shape, generator=generator)
    return drawn / drawn.std() if drawn.numel() == 1 else drawn


@mutant("impl.parameters.normal", caught_by=parameters.IS_TENSOR, value=True)
def remembers_what_a_seed_gave():
    """Caches parameters by the state of the generator."""
    known = {}

    def remembered(fan_in, fan_out, *, generator=None, dtype=None, device=None):
        state = None if generator is None else bytes(generator.get_state().cpu().numpy())
        drawn = normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)
        return drawn if state is None else known.setdefault((state, *drawn.shape, drawn.dtype, str(device)), drawn)

    return remembered


@mutant("impl.parameters.scaled_normal", caught_by=parameters.IS_TENSOR, value=True)
def cuts_weights_from_one_piece():
    """Reuses one block of memory for all weights of a shape."""
    memory = {}

    def cut(fan_in, fan_out, *, generator=None, dtype=None, device=None):
        drawn = scaled_normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)
        shared = memory.setdefault((drawn.shape, drawn.dtype, drawn.device), drawn.detach())
        return nn.Parameter(shared.copy_(drawn.detach()))

    return cut


MADE_ONCE = torch.Generator().manual_seed(0)


@mutant("impl.parameters.scaled_normal", caught_by=parameters.GROWTH)
def draws_from_a_default_made_once(fan_in, fan_out, *, generator=MADE_ONCE, dtype=None, device=None):
    """Has a default generator of its own, which ignores torch's own stream."""
    return scaled_normal(fan_in, fan_out, generator=generator, dtype=dtype, device=device)


@mutant("torch.nn.Module.parameters", caught_by=parameters.IS_TENSOR)
def lists_every_name(self, recurse=True):
    """Lists a parameter once for each of its names."""
    return (weight for module in self.modules() for weight in module._parameters.values() if weight is not None)


@mutant("torch.nn.Module.parameters", caught_by=parameters.IS_TENSOR)
def lists_equal_parameters_once(self, recurse=True):
    """Lists only one of several parameters with equal values."""
    found = []
    for _, weight in self.named_parameters(recurse=recurse):
        if not any(each.shape == weight.shape and torch.equal(each, weight) for each in found):
            found.append(weight)
    return iter(found)


@sample("scaled_normal", lecun)
def column_by_column(shape, generator):
    """Draws one column after the other."""
    columns = [randn(shape[0], 1, generator=generator) for _ in range(shape[1])]
    return torch.cat(columns, 1) if columns else randn(*shape, generator=generator)


@twin("impl.parameters.normal")
def lays_columns_end_to_end(fan_in, fan_out, *, generator=None, dtype=None, device=None):
    """Returns a parameter whose columns are contiguous."""
    drawn = normal(fan_out, fan_in, generator=generator, dtype=dtype, device=device)
    return nn.Parameter(drawn.detach().mT)


@twin("impl.parameters.truncated_normal")
def truncates_the_transpose(fan_in, fan_out, *, bound=3.0, generator=None, dtype=None, device=None):
    """Draws (fan_out, fan_in) weights for fan_out inputs, and sets their scale and shape right."""
    drawn = truncated_normal(fan_out, fan_in, bound=bound, generator=generator, dtype=torch.float64, device=device)
    scale = math.sqrt(fan_out / fan_in) if fan_in and fan_out else 1.0
    return nn.Parameter((drawn.detach() * scale).mT.contiguous().to(dtype or torch.get_default_dtype()))
