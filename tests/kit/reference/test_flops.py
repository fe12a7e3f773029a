"""What impl.flops promises beyond the contract: errors that name the argument, and a first layer among the others."""

import pytest

from impl import flops

NAMES = {
    flops.matmul: ("points", "inputs", "outputs"),
    flops.forward: ("points", "parameters"),
    flops.backward: ("points", "parameters", "first_layer_parameters"),
    flops.training: ("points", "parameters", "first_layer_parameters"),
    flops.transformer_forward: ("layers", "width", "heads", "context", "vocabulary", "feedforward", "batch"),
}


@pytest.mark.parametrize("wrong", [-1, 2.5, "8", [8]], ids=repr)
@pytest.mark.parametrize(("formula", "name"), [(formula, name) for formula, names in NAMES.items() for name in names])
def test_an_error_names_the_argument(formula, name, wrong):
    """A negative size raises ValueError and what is no integer TypeError, by name."""
    sizes = dict.fromkeys(NAMES[formula], 8) | {name: wrong}
    with pytest.raises(ValueError if wrong == -1 else TypeError, match=rf"\b{name}\b"):
        formula(**sizes)


@pytest.mark.parametrize("wrong", [-1, 2.5, "8", None, [8]], ids=repr)
def test_an_error_names_the_shape(wrong):
    """A negative size of a tensor raises ValueError and what is no integer TypeError, wherever it stands."""
    for shape in ((wrong,), (0, wrong), (wrong, 3)):
        with pytest.raises(ValueError if wrong == -1 else TypeError, match="a size of the shape"):
            flops.elementwise(*shape)


@pytest.mark.parametrize("formula", [flops.backward, flops.training])
def test_the_first_layer_is_one_of_all(formula):
    """A first layer that is larger than the network raises ValueError by name; one that is all of it does not."""
    with pytest.raises(ValueError, match=r"\bfirst_layer_parameters is 5: more than the 4 parameters"):
        formula(3, 4, 5)
    assert formula(3, 4, 4) == formula(3, 4) - 2 * 3 * 4


@pytest.mark.parametrize("heads", [0, 3, 16])
def test_heads_divide_the_width(heads):
    """Heads that do not divide the width raise ValueError, and the message has both numbers."""
    with pytest.raises(ValueError, match=f"heads is {heads}, which does not divide a width of 8"):
        flops.transformer_forward(layers=1, width=8, heads=heads, context=4, vocabulary=10)
