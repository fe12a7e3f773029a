"""Wrong and unusual counts of floating-point operations."""

import functools
import math
import operator
from fractions import Fraction

import numpy as np
import torch

from impl.flops import backward, elementwise, forward, matmul, training, transformer_forward
from spec.claims import flops
from spec.instruments.flops.products import of_products
from spec.oracles.networks import Experts
from tests.kit.overlay import mutant, twin


# ---- what a FLOP is ----
@mutant("spec.instruments.scalars.Operations.total", caught_by=flops.DEFINITION, value=True)
def fuses():
    """Counts a multiplication and the addition after it as one."""
    return property(lambda self: max(self.additions, self.multiplications))


@mutant("spec.instruments.scalars.Counted.__sub__", caught_by=flops.DEFINITION)
def overlooks_subtractions(self, other):
    """Does not count a subtraction."""
    return type(self)(self.value - other, self.operations)


@mutant("spec.instruments.flops.products.of_products", caught_by=flops.DEFINITION)
def takes_speed_for_work(terms, kind, **lines):
    """Counts a product of 16-bit floats as half the work, because it takes half the time."""
    return of_products(terms // (4 // kind.itemsize or 1), kind, **lines)


@mutant("spec.claims.flops.chapter.claims", caught_by=flops.DEFINITION, value=True)
def writes_flops_in_capitals():
    """Writes FLOPS in a claim, which could mean work or speed."""
    worded = type(flops.FORWARD)(**vars(flops.FORWARD) | {"law": "a forward pass takes 2·N FLOPS"})
    return [worded if claim is flops.FORWARD else claim for claim in flops.chapter.claims]


# ---- products ----
@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def calls_multiply_adds_flops(points, inputs, outputs):
    """Counts a multiplication and an addition as one."""
    return matmul(points, inputs, outputs) // 2


@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def counts_the_additions_there_are(points, inputs, outputs):
    """Counts the B·K·(2·D − 1) scalar operations there are, which is not the convention."""
    return matmul(points, inputs, outputs) - int(points) * int(outputs)


@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def overflows_in_32_bits(points, inputs, outputs):
    """Multiplies NumPy's int32."""
    sizes = np.array([points, inputs, outputs]).astype(object)
    matmul(*sizes)
    with np.errstate(all="ignore"):
        return int(2 * np.multiply.reduce([np.int32(int(size) & 0x7FFFFFFF) for size in sizes]))


@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def overflows_in_64_bits(points, inputs, outputs):
    """Multiplies in a tensor of int64."""
    matmul(points, inputs, outputs)
    return int(torch.tensor([int(size) % 2**63 for size in (2, points, inputs, outputs)]).prod())


@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def computes_in_whatever_it_is_given(points, inputs, outputs):
    """Multiplies NumPy's integers as they are."""
    matmul(points, inputs, outputs)
    with np.errstate(all="ignore"):
        return 2 * points * inputs * outputs


@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def counts_in_floats(points, inputs, outputs):
    """Returns a float, which holds no integer above 2⁵³ exactly."""
    return 2.0 * matmul(points, inputs, outputs) / 2


@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def rounds_through_a_float(points, inputs, outputs):
    """Returns an integer that was a float in between."""
    return int(float(matmul(points, inputs, outputs)))


@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def accepts_negative_sizes(points, inputs, outputs):
    """Checks only that sizes are integers."""
    return 2 * operator.index(points) * operator.index(inputs) * operator.index(outputs)


@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def rounds_fractions(points, inputs, outputs):
    """Takes 2.5 for 2, and "8" for 8."""
    return matmul(
        *(int(size or 0) if not isinstance(size, list) else matmul(size, 1, 1) for size in (points, inputs, outputs))
    )


@twin("impl.flops.matmul")
def does_not_say_which(points, inputs, outputs):
    """Refuses a size without the argument's name, which the contract does not ask for."""
    try:
        return matmul(points, inputs, outputs)
    except (ValueError, TypeError) as error:
        raise type(error)("bad size") from None


@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def pads_to_tiles(points, inputs, outputs):
    """Rounds each size above 16 up to a multiple of 16, as a device that computes in tiles does."""
    sizes = [-(-int(size) // 16) * 16 if size > 16 else size for size in (points, inputs, outputs)]
    return matmul(*sizes)


@mutant("spec.instruments.scalars.Counted.__add__", caught_by=flops.MATMUL)
def counts_no_additions(self, other):
    """Takes additions for free."""
    return type(self)(self.value + getattr(other, "value", other), self.operations)


@mutant("impl.flops.matmul", caught_by=flops.MATMUL, value=True)
def tires():
    """Is right for the first calls only."""
    calls = iter(range(40))
    return lambda points, inputs, outputs: matmul(points, inputs, outputs) if next(calls, 40) < 39 else 0


# ---- elementwise ----
@mutant("impl.flops.elementwise", caught_by=(flops.ELEMENTWISE_LINEAR, flops.MATMUL_DOMINATES))
def adds_sizes_up(*shape):
    """Adds the sizes where they multiply."""
    elementwise(*shape)
    return sum(map(int, shape))


@mutant("impl.flops.elementwise", caught_by=(flops.ELEMENTWISE_LINEAR, flops.MATMUL_DOMINATES))
def reads_and_writes(*shape):
    """Counts the value that is read and the one that is written."""
    return 2 * elementwise(*shape)


@mutant("impl.flops.elementwise", caught_by=flops.ELEMENTWISE_LINEAR)
def takes_a_scalar_for_nothing(*shape):
    """Counts no FLOP for a tensor of no dimensions."""
    return elementwise(*shape) if shape else 0


@mutant("impl.flops.elementwise", caught_by=flops.ELEMENTWISE_LINEAR)
def takes_empty_dimensions_for_one(*shape):
    """Counts an empty dimension as if it were not there."""
    return elementwise(*[size or 1 if isinstance(size, int) else size for size in shape])


@mutant("impl.flops.elementwise", caught_by=flops.ELEMENTWISE_LINEAR)
def multiplies_with_numpy(*shape):
    """Lets NumPy multiply, which overflows."""
    elementwise(*shape)
    with np.errstate(all="ignore"):
        return int(np.prod(np.array([int(size) % 2**63 for size in shape], dtype=np.int64)))


@mutant("impl.flops.elementwise", caught_by=flops.ELEMENTWISE_LINEAR)
def looks_at_the_product_only(*shape):
    """Refuses a negative number of elements, so two negative sizes pass."""
    count = math.prod(map(operator.index, shape))
    if count < 0:
        raise ValueError(f"shape {shape}")
    return count


@mutant("impl.flops.elementwise", caught_by=flops.ELEMENTWISE_LINEAR)
def knows_four_dimensions(*shape):
    """Leaves out sizes after the fourth."""
    elementwise(*shape)
    return elementwise(*shape[:4])


# ---- products dominate ----
@mutant("impl.flops.matmul", caught_by=flops.MATMUL_DOMINATES)
def counts_the_results(points, inputs, outputs):
    """Counts one FLOP for each value of the result."""
    matmul(points, inputs, outputs)
    return int(points) * int(outputs)


@mutant("impl.flops.matmul", caught_by=flops.MATMUL_DOMINATES)
def counts_the_operands(points, inputs, outputs):
    """Counts a product in proportion to the elements of its operands."""
    return (elementwise(points, inputs) + elementwise(inputs, outputs)) * 2


@mutant("torch.mm", caught_by=flops.MATMUL_DOMINATES)
def multiplies_nothing(x, w, *, out):
    """Returns at once, so that a product takes no time."""
    return out


# ---- forward ----
@mutant("impl.flops.forward", caught_by=flops.FORWARD)
def takes_a_parameter_for_one_flop(points, parameters):
    """Counts multiply-adds."""
    return forward(points, parameters) // 2


@mutant("impl.flops.forward", caught_by=flops.FORWARD)
def forgets_the_points(points, parameters):
    """Counts one point."""
    forward(points, parameters)
    return forward(1, parameters)


@mutant("impl.flops.forward", caught_by=flops.FORWARD)
def trains(points, parameters):
    """Counts the backward pass too."""
    return 3 * forward(points, parameters)


@mutant("impl.flops.forward", caught_by=flops.FORWARD)
def checks_the_result(points, parameters):
    """Refuses sizes whose product is negative, which that of two negative sizes is not."""
    count = 2 * operator.index(points) * operator.index(parameters)
    if count < 0:
        raise ValueError(f"points {points} or parameters {parameters} is negative")
    return count


@mutant("impl.flops.forward", caught_by=flops.FORWARD)
def accepts_fractions(points, parameters):
    """Takes any positive number."""
    if not points >= 0 <= parameters:
        raise ValueError("points and parameters")
    return int(2 * points * parameters)


@mutant("spec.oracles.networks.Experts.active_parameters", caught_by=flops.FORWARD)
def takes_all_experts_for_active(self):
    """Counts the parameters of experts that a token is not sent to."""
    return self.parameters


@mutant("spec.oracles.networks.Experts.active_parameters", caught_by=flops.FORWARD)
def forgets_the_router(self):
    """Counts the chosen experts only."""
    return Experts_active(self) - self.router.numel()


Experts_active = Experts.active_parameters


def changed(change):
    """Return the count for sizes that were changed, every one of them checked first."""

    @functools.wraps(transformer_forward)
    def count(*, layers, width, heads, context, vocabulary, feedforward=None, batch=1, causal=False):
        sizes = dict(layers=layers, width=width, heads=heads, context=context, vocabulary=vocabulary)
        sizes |= dict(feedforward=feedforward, batch=batch, causal=causal)
        whole = transformer_forward(**sizes)
        plain = {name: size if size is None else int(size) for name, size in sizes.items()}
        return change(plain, whole)

    return count


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def ignores_attention():
    """Counts 2·tokens·parameters."""
    return changed(lambda s, whole: whole - attention(s))


def attention(s):
    pairs = s["context"] * (s["context"] + 1) // 2 if s["causal"] else s["context"] ** 2
    return 4 * s["layers"] * s["batch"] * pairs * s["width"]


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def counts_the_scores_only():
    """Leaves out the product of attention's weights with the values."""
    return changed(lambda s, whole: whole - attention(s) // 2)


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def counts_attention_for_every_head():
    """Multiplies attention by the heads as if each were as wide as all of them."""
    return changed(lambda s, whole: whole + (s["heads"] - 1) * attention(s))


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def halves_exactly():
    """Counts context²/2 pairs for causal attention, and with them only half of the diagonal."""
    return changed(lambda s, w: w - attention(s) + attention(s | {"causal": False}) // 2 if s["causal"] else w)


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def leaves_the_diagonal_out():
    """Lets causal attention look at earlier positions only."""
    return changed(lambda s, w: w - s["causal"] * 4 * s["layers"] * s["batch"] * s["context"] * s["width"])


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def ignores_causal():
    """Counts every pair of positions, even when causal is True."""
    return changed(lambda s, whole: transformer_forward(**s | {"causal": False}))


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def skips_by_default():
    """Counts causal attention by default."""

    def count(*, layers, width, heads, context, vocabulary, feedforward=None, batch=1, causal=True):
        return transformer_forward(**locals())

    return count


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def halves_everything():
    """Halves all the products when attention is causal."""
    return changed(lambda s, w: transformer_forward(**s | {"causal": False}) // 2 if s["causal"] else w)


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def counts_the_embedding():
    """Takes the embedding look-up for a product with one-hot rows."""
    return changed(lambda s, w: w + 2 * s["batch"] * s["context"] * s["vocabulary"] * s["width"])


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def skips_the_head():
    """Takes the output head for free, as if a tied matrix were not multiplied with."""
    return changed(lambda s, w: transformer_forward(**s | {"vocabulary": 0}))


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def counts_the_head_per_layer():
    """Multiplies the output head by the layers."""
    return changed(lambda s, w: w + (s["layers"] - 1) * matmul(s["batch"] * s["context"], s["width"], s["vocabulary"]))


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def ignores_feedforward():
    """Takes the feedforward network for 4·width wide, whatever the argument says."""
    return changed(lambda s, w: transformer_forward(**s | {"feedforward": None}))


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def has_a_third_feedforward_matrix():
    """Counts a gated feedforward network."""
    return changed(
        lambda s, w: (
            w
            + s["layers"]
            * matmul(
                s["batch"] * s["context"], s["width"], 4 * s["width"] if s["feedforward"] is None else s["feedforward"]
            )
        )
    )


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def defaults_to_a_narrow_network():
    """Takes the width for the feedforward network's."""
    return changed(
        lambda s, w: transformer_forward(**s | {"feedforward": s["width"]}) if s["feedforward"] is None else w
    )


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def takes_no_network_for_the_default():
    """Tests for a feedforward network by its truth value."""
    return changed(lambda s, w: transformer_forward(**s | {"feedforward": s["feedforward"] or None}))


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def ignores_batch():
    """Counts one sequence."""
    return changed(lambda s, w: transformer_forward(**s | {"batch": 1}))


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def attends_across_the_batch():
    """Takes the batch for one long sequence."""
    return changed(lambda s, w: transformer_forward(**s | {"batch": 1, "context": s["batch"] * s["context"]}))


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def counts_a_token():
    """Counts the FLOPs of one token."""
    return changed(lambda s, w: w // (s["batch"] * s["context"] or 1))


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def forgets_the_output_projection():
    """Counts three square matrices per layer."""
    return changed(lambda s, w: w - s["layers"] * matmul(s["batch"] * s["context"], s["width"], s["width"]))


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def predicts_the_last_token_only():
    """Multiplies the output head with one position of each sequence."""
    return changed(lambda s, w: w - 2 * s["batch"] * max(s["context"] - 1, 0) * s["width"] * s["vocabulary"])


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def shares_keys_and_values():
    """Counts one head of keys and values for all heads of queries."""
    return changed(lambda s, w: w - 4 * s["layers"] * s["batch"] * s["context"] * s["width"] * shared(s))


def shared(s):
    return s["width"] - s["width"] // s["heads"]


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD)
def accepts_any_heads(*, layers, width, heads, context, vocabulary, feedforward=None, batch=1, causal=False):
    """Does not ask whether the heads divide the width."""
    transformer_forward(layers=0, width=heads, heads=heads, context=0, vocabulary=0)
    return transformer_forward(
        layers=layers,
        width=width,
        heads=1,
        context=context,
        vocabulary=vocabulary,
        feedforward=feedforward,
        batch=batch,
        causal=causal,
    )


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD)
def takes_no_heads_for_one(*, heads, **sizes):
    """Takes a Transformer without heads for one with a single head."""
    return transformer_forward(heads=1 if heads == 0 else heads, **sizes)


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD)
def checks_what_it_needs(*, layers, width, heads, context, vocabulary, feedforward=None, batch=1, causal=False):
    """Never looks at a negative batch."""
    one = transformer_forward(
        layers=layers,
        width=width,
        heads=heads,
        context=context,
        vocabulary=vocabulary,
        feedforward=feedforward,
        causal=causal,
    )
    return one * batch if isinstance(batch, float | Fraction | str) else one * operator.index(batch)


# ---- backward ----
@mutant("impl.flops.backward", caught_by=flops.BACKWARD)
def passes_every_gradient_on(points, parameters, first_layer_parameters=0):
    """Counts the gradient of the input, which nobody needs."""
    backward(points, parameters, first_layer_parameters)
    return backward(points, parameters)


@mutant("impl.flops.backward", caught_by=flops.BACKWARD)
def skips_the_first_layer(points, parameters, first_layer_parameters=0):
    """Subtracts both products of the first layer, including the gradient of its weights."""
    backward(points, parameters, first_layer_parameters)
    return 4 * int(points) * (int(parameters) - int(first_layer_parameters))


@mutant("impl.flops.backward", caught_by=flops.BACKWARD)
def takes_half_a_product_off(points, parameters, first_layer_parameters=0):
    """Subtracts only the multiplications of the product that is saved."""
    return backward(points, parameters, first_layer_parameters) + int(points) * int(first_layer_parameters)


@mutant("impl.flops.backward", caught_by=flops.BACKWARD)
def goes_back_as_it_came(points, parameters, first_layer_parameters=0):
    """Takes the backward pass for as much work as the forward pass."""
    backward(points, parameters, first_layer_parameters)
    return forward(points, parameters)


@mutant("impl.flops.backward", caught_by=flops.BACKWARD)
def saves_half_by_default(points, parameters, first_layer_parameters=None):
    """Takes all parameters for the first layer's by default."""
    return backward(points, parameters, parameters if first_layer_parameters is None else first_layer_parameters)


@mutant("impl.flops.backward", caught_by=flops.BACKWARD)
def wants_more_than_one_layer(points, parameters, first_layer_parameters=0):
    """Takes a network that is all first layer for one whose input needs a gradient."""
    count = backward(points, parameters, first_layer_parameters)
    return backward(points, parameters) if parameters == first_layer_parameters else count


@mutant("impl.flops.backward", caught_by=flops.BACKWARD)
def subtracts_unsigned(points, parameters, first_layer_parameters=0):
    """Multiplies by the points as a NumPy integer, which overflows."""
    whole = backward(points, parameters, first_layer_parameters)
    with np.errstate(all="ignore"):
        return (
            whole
            if isinstance(points, int)
            else int(points * np.asarray(whole // (int(points) or 1)).astype(points.dtype))
        )


# ---- training ----
@mutant("impl.flops.training", caught_by=flops.TRAINING)
def takes_three(points, parameters, first_layer_parameters=0):
    """Counts 3·N·D."""
    return training(points, parameters, first_layer_parameters) // 2


@mutant("impl.flops.training", caught_by=flops.TRAINING)
def takes_six(points, parameters, first_layer_parameters=0):
    """Counts 6·N·D, the limit of deep networks."""
    training(points, parameters, first_layer_parameters)
    return training(points, parameters)


@mutant("impl.flops.training", caught_by=flops.TRAINING)
def takes_four(points, parameters, first_layer_parameters=0):
    """Forgets the forward pass."""
    return backward(points, parameters, first_layer_parameters)


@mutant("impl.flops.training", caught_by=flops.TRAINING)
def saves_a_third(points, parameters, first_layer_parameters=0):
    """Subtracts the first layer from the forward pass as well."""
    training(points, parameters, first_layer_parameters)
    return training(int(points), int(parameters)) - 4 * int(points) * int(first_layer_parameters)


@mutant("impl.flops.training", caught_by=flops.TRAINING)
def trains_in_floats(points, parameters, first_layer_parameters=0):
    """Computes the count in floating point."""
    count = training(points, parameters, first_layer_parameters)
    return round(6.0 * float(points) * float(parameters) - 2.0 * float(points) * float(first_layer_parameters)) or count


@mutant("impl.flops.training", caught_by=flops.TRAINING)
def checks_nothing(points, parameters, first_layer_parameters=0):
    """Multiplies whatever it is given."""
    return 6 * points * parameters - 2 * points * first_layer_parameters


# ---- right ones ----
def size(name, value):
    """Check a size in another way than the reference does, and return it as an int."""
    if isinstance(value, float | str | Fraction | list | np.floating) or value is None:
        raise ValueError(f"`{name}` must be a whole number")
    if value < 0:
        raise ValueError(f"`{name}` must not be negative")
    return int(value)


@twin("impl.flops.matmul")
def adds_in_a_loop(points, inputs, outputs):
    """Adds up bit by bit, as multiplication is taught."""
    left, right = size("points", points) * size("inputs", inputs), size("outputs", outputs)
    return sum(left << bit + 1 for bit in range(right.bit_length()) if right >> bit & 1)


@twin("impl.flops.matmul")
def computes_in_fractions(points, inputs, outputs):
    """Multiplies fractions and returns the numerator."""
    sizes = (size("points", points), size("inputs", inputs), size("outputs", outputs))
    return math.prod(map(Fraction, sizes), start=Fraction(2)).numerator


@twin("impl.flops.matmul")
def names_all_arguments(points, inputs, outputs):
    """Names all the arguments in the message about any one of them."""
    sizes = (points, inputs, outputs)
    if not all(isinstance(each, int | np.integer) and each >= 0 for each in sizes):
        raise ValueError("points, inputs and outputs must be integers and not negative")
    return math.prod(map(int, sizes)) << 1


@twin("impl.flops.elementwise")
def multiplies_objects(*shape):
    """Lets NumPy multiply Python's integers."""
    return int(np.prod(np.array([size("shape", each) for each in shape], dtype=object)))


@twin("impl.flops.elementwise", value=True)
def remembers():
    """Caches its results."""
    return functools.cache(multiplies_objects)


class Count(int):
    """An integer that shows itself in thousands."""

    def __repr__(self):
        return f"{int(self):,}"


@twin("impl.flops.forward")
def returns_a_kind_of_integer(points, parameters):
    """Returns an integer of a type of its own."""
    return Count(2 * size("points", points) * size("parameters", parameters))


@twin("impl.flops.forward")
def takes_more_arguments(points, parameters, *, multiply_adds=False):
    """Has an argument that the contract lacks."""
    return (1 if multiply_adds else 2) * size("points", points) * size("parameters", parameters)


@twin("impl.flops.backward")
def adds_layer_by_layer(points, parameters, first_layer_parameters=0):
    """Adds the first layer's product to the two of each of the others."""
    points, first = size("points", points), size("first_layer_parameters", first_layer_parameters)
    weights = 2 * points * size("parameters", parameters)
    return weights + (weights - 2 * points * first)


@twin("impl.flops.backward")
def has_none_for_a_default(points, parameters, first_layer_parameters=None):
    """Takes None for an input that needs a gradient, and leaves other sizes to another check."""
    return adds_layer_by_layer(points, parameters, 0 if first_layer_parameters is None else first_layer_parameters)


@twin("impl.flops.training")
def multiplies_by_three(points, parameters, first_layer_parameters=0):
    """Takes three times the forward pass, less what is saved."""
    points, first = size("points", points), size("first_layer_parameters", first_layer_parameters)
    return 2 * points * (3 * size("parameters", parameters) - first)


@twin("impl.flops.transformer_forward")
def adds_position_by_position(**sizes):
    """Adds up the pairs of causal attention one position at a time, as long as the context is short."""
    feedforward = sizes.get("feedforward")
    batch, causal = sizes.get("batch", 1), sizes.get("causal", False)
    names = ("layers", "width", "heads", "context", "vocabulary")
    layers, width, heads, context, vocabulary = (size(name, sizes[name]) for name in names)
    feedforward = 4 * width if feedforward is None else size("feedforward", feedforward)
    batch = size("batch", batch)
    if width % heads:
        raise ValueError("the heads must divide the width")
    if causal and context < 1000:
        pairs = sum(position + 1 for position in range(context))
    else:
        pairs = math.comb(context + 1, 2) if causal else context * context
    layer = 2 * context * width * (4 * width + 2 * feedforward) + heads * 4 * pairs * (width // heads)
    return batch * (layers * layer + 2 * context * width * vocabulary)


# ---- look-alikes: sizes that are equal, or the same in another order ----
@mutant("impl.flops.matmul", caught_by=flops.MATMUL)
def multiplies_different_sizes(points, inputs, outputs):
    """Multiplies the set of the sizes, which holds equal sizes once."""
    matmul(points, inputs, outputs)
    return 2 * math.prod({int(points), int(inputs), int(outputs)})


@mutant("impl.flops.matmul", caught_by=flops.MATMUL, value=True)
def remembers_sizes_as_a_set():
    """Caches counts by the set of the sizes, which is the same for (2, 2, 3) and (2, 3, 3)."""
    known = {}
    return lambda points, inputs, outputs: known.setdefault(
        frozenset((points, inputs, outputs)), matmul(points, inputs, outputs)
    )


@mutant("impl.flops.elementwise", caught_by=flops.ELEMENTWISE_LINEAR)
def multiplies_each_size_once(*shape):
    """Multiplies the set of the sizes, which holds equal sizes once."""
    return elementwise(*shape) and math.prod(set(map(int, shape)))


@mutant("impl.flops.elementwise", caught_by=flops.ELEMENTWISE_LINEAR)
def takes_nothing_for_a_scalar(*shape):
    """Counts one FLOP for a tensor of one dimension without elements."""
    return elementwise(*shape) or (1 if len(shape) == 1 else 0)


@mutant("impl.flops.forward", caught_by=flops.FORWARD)
def squares_only_once(points, parameters):
    """Counts a single point where there are as many points as parameters."""
    return forward(1 if points == parameters else points, parameters)


@mutant("impl.flops.backward", caught_by=flops.BACKWARD)
def takes_equal_layers_for_one(points, parameters, first_layer_parameters=0):
    """Takes two layers of one size for the first layer alone."""
    two = parameters == 2 * first_layer_parameters
    return backward(points, parameters, parameters if two else first_layer_parameters)


@mutant("impl.flops.training", caught_by=flops.TRAINING)
def has_an_input_that_learns_for_one_layer(points, parameters, first_layer_parameters=0):
    """Takes a network that is all first layer for one whose input needs a gradient."""
    one = parameters == first_layer_parameters
    return training(points, parameters, 0 if one else first_layer_parameters)


def when_equal(first, second, **instead):
    """Return a count of a Transformer that takes other sizes where these two are equal."""

    def count(**sizes):
        count_right = transformer_forward(**sizes)
        equal = sizes.get(first) is not None and sizes.get(first) == sizes.get(second)
        return transformer_forward(**sizes | instead) if equal else count_right

    return count


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def takes_a_square_head_for_free():
    """Counts no output head where the vocabulary is as large as the width."""
    return when_equal("vocabulary", "width", vocabulary=0)


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def attends_causally_to_a_square():
    """Skips half of attention where the context is as long as the width."""
    return when_equal("context", "width", causal=True)


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def takes_heads_for_layers():
    """Counts one layer where there are as many heads."""
    return when_equal("heads", "layers", layers=1)


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def folds_the_batch_into_the_layers():
    """Counts one sequence where there are as many sequences as layers."""
    return when_equal("batch", "layers", batch=1)


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def takes_single_values_for_no_heads():
    """Leaves attention out where each head has a single value."""
    return when_equal("heads", "width", context=1)


@mutant("impl.flops.transformer_forward", caught_by=flops.FORWARD, value=True)
def refuses_a_width_of_nothing():
    """Divides by the width, even where it is 0."""

    def count(**sizes):
        if sizes["width"] == 0:
            raise ZeroDivisionError("by the width")
        return transformer_forward(**sizes)

    return count


@twin("impl.flops.matmul")
def sorts_the_sizes(points, inputs, outputs):
    """Sorts the sizes before it multiplies them."""
    return 2 * math.prod(sorted((size("points", points), size("inputs", inputs), size("outputs", outputs))))


@twin("impl.flops.elementwise")
def counts_equal_sizes_together(*shape):
    """Takes a power of each size that occurs more than once."""
    sizes = [size("shape", each) for each in shape]
    return math.prod(each ** sizes.count(each) for each in set(sizes))


@twin("impl.flops.transformer_forward")
def counts_the_parameters_first(*, layers, width, heads, context, vocabulary, feedforward=None, batch=1, causal=False):
    """Counts two FLOPs for each token and parameter, and adds attention."""
    names = {"layers": layers, "width": width, "heads": heads, "context": context, "vocabulary": vocabulary}
    layers, width, heads, context, vocabulary = (size(name, value) for name, value in names.items())
    batch, feedforward = size("batch", batch), 4 * width if feedforward is None else size("feedforward", feedforward)
    if width % heads:
        raise ValueError("the heads must divide the width")
    reach = context + 1 if causal else 2 * context
    parameters = layers * width * (4 * width + 2 * feedforward) + width * vocabulary
    return 2 * batch * context * (parameters + layers * width * reach)
