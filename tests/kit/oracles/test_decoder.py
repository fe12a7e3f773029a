"""The reference Transformer: it attends as it says, and its products are those that the formula counts."""

import pytest
import torch

from impl.flops import Decoder, transformer_forward
from spec.instruments.flops import FlopCounter

GPT2_SMALL = {"layers": 12, "width": 768, "heads": 12, "vocabulary": 50257}
LARGE = {"layers": 80, "width": 8192, "heads": 64, "vocabulary": 32000, "feedforward": 28672}  # 60 billion parameters
NARROW = {"layers": 3, "width": 12, "heads": 4, "vocabulary": 11, "feedforward": 30}


def dispatched(run):
    """Return the FLOPs of the products that torch dispatches while `run` runs."""
    with FlopCounter() as counter:
        run()
    return counter.matmul


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    ("sizes", "batch", "context"),
    [(NARROW, 2, 5), (GPT2_SMALL, 4, 1024), (LARGE, 1, 4096)],
    ids=["narrow", "GPT-2 small", "large"],
)
def test_its_products_are_those_of_the_formula(sizes, batch, context, tied):
    """A forward pass takes exactly what `transformer_forward` says, and training three times that, on meta."""
    model = Decoder(**sizes, tied=tied, device="meta")
    tokens = torch.zeros(batch, context, dtype=torch.int64, device="meta")
    logits = []
    predicted = transformer_forward(**sizes, batch=batch, context=context)
    assert dispatched(lambda: logits.append(model(tokens))) == predicted
    assert dispatched(logits[0].sum().backward) == 2 * predicted
    assert logits[0].shape == (batch, context, sizes["vocabulary"])


def test_tying_shares_the_embedding():
    """A tied decoder has vocabulary × width parameters fewer."""
    free, tied = (Decoder(**NARROW, tied=tied, device="meta") for tied in (False, True))
    counts = [sum(parameter.numel() for parameter in model.parameters()) for model in (free, tied)]
    assert counts[0] - counts[1] == 11 * 12


def test_a_position_sees_itself_and_those_before_it():
    """Changing a token changes the logits from its place on, and none before."""
    model = Decoder(**NARROW, generator=torch.Generator().manual_seed(0)).double()
    tokens = torch.tensor([[1, 2, 3, 4, 5]])
    changed = torch.tensor([[1, 2, 7, 4, 5]])
    differs = (model(tokens) - model(changed)).abs().amax(-1)[0] > 1e-9
    assert differs.tolist() == [False, False, True, True, True]


def test_a_block_is_attention_as_torch_computes_it():
    """A block gives what torch's scaled_dot_product_attention gives in the same place."""
    block = Decoder(**NARROW, generator=torch.Generator().manual_seed(1)).double().blocks[0]
    x = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    q, k, v = ((x @ weight).unflatten(-1, (4, 3)).transpose(1, 2) for weight in (block.query, block.key, block.value))
    seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = x + seen.transpose(1, 2).flatten(-2) @ block.output
    torch.testing.assert_close(block(x), y + torch.relu(y @ block.up) @ block.down)


def test_heads_divide_the_width():
    """Heads that do not divide the width are refused."""
    for heads in (0, 5, -4):
        with pytest.raises(ValueError, match="heads"):
            Decoder(**NARROW | {"heads": heads}, device="meta")
