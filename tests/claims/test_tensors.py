"""§2.1.1: tensors."""

import torch
from hypothesis import given

from spec import strategies as st
from spec.claim import verifies
from spec.claims import tensors


@verifies(tensors.RANK)
@given(rows=st.sizes, columns=st.sizes)
def test_rank(evidence, rows, columns):
    """A list of lists makes a tensor of two dimensions."""
    evidence.equal(torch.tensor([[0.0] * columns] * rows).dim(), 2, unit="dimensions")
