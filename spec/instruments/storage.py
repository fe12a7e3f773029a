"""A tensor's storage: whether two tensors have the same one, how large it is, and all its values."""

import torch
from torch import Tensor


def same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors have the same storage, by the identity of torch's storage object.

    Addresses do not decide this: all empty storages have address 0, and views of one storage begin at many addresses.
    """
    return bool(a.untyped_storage()._cdata == b.untyped_storage()._cdata)


def bytes_of(tensor: Tensor) -> int:
    """Return the number of bytes of a tensor's whole storage."""
    return tensor.untyped_storage().nbytes()


def flat(tensor: Tensor) -> Tensor:
    """Return a vector of the tensor's dtype that is a view of its whole storage."""
    vector = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return vector.set_(tensor.untyped_storage())
