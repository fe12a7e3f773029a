"""Runs a program with and without the counter, and says by loops what products cost."""

import torch
from torch.utils._pytree import tree_leaves

from spec.instruments.flops import FlopCounter
from tests.kit.instruments import flop_loops as loops


def by_loops(*products):
    """Return the FLOPs of products of (rows, inner) by (inner, columns), multiplied out in loops."""
    tally = loops.Tally()
    for rows, inner, columns in products:
        loops.matmul(tally, tally.zeros(rows, inner), tally.zeros(inner, columns))
    return tally.counts["matmul"]


def unchanged(program):
    """Run a program under the counter, which may not change what it computes."""
    plain = program()
    with FlopCounter() as counter:
        counted = program()
    for one, other in zip(tree_leaves(plain), tree_leaves(counted), strict=True):
        assert type(one) is type(other)
        assert same(one, other) if isinstance(one, torch.Tensor) else one == other
    return counter


def same(one, other):
    """Whether two tensors hold the same numbers."""
    if one.is_nested:
        return all(same(*pair) for pair in zip(one.unbind(), other.unbind(), strict=True))
    if one.layout is not torch.strided:
        one, other = one.to_dense(), other.to_dense()
    return one.is_meta or torch.equal(one, other)
