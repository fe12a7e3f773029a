"""Which storage a tensor lies in, how large that is, and what it holds from end to end."""

import torch
from torch import Tensor


def same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors lie in one storage: in one object of torch's, not at one address.

    All storages without a byte are at address 0, and parts of one storage at many addresses.
    """
    return bool(a.untyped_storage()._cdata == b.untyped_storage()._cdata)


def bytes_of(tensor: Tensor) -> int:
    """Return the bytes of the whole storage that a tensor lies in."""
    return tensor.untyped_storage().nbytes()


def flat(tensor: Tensor) -> Tensor:
    """Return the whole storage that a tensor lies in as a vector of the tensor's dtype, which shares it."""
    vector = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return vector.set_(tensor.untyped_storage())
