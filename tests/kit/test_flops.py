"""What impl.flops promises beyond the contract: errors that name the argument."""

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
