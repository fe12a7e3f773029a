"""Memory: how many bytes may be allocated or mapped beyond those that a law counts."""


def peak(measured: int, layers: int) -> float:
    """Bound how far a model of the largest number of bytes alive in a training step may be from the measured one.

    A model that knows every tensor is exact. It may leave out what has no size to model: the numbers that torch keeps
    (4 bytes of each weight's optimizer state) or makes in passing (12 bytes, and 4 of the loss's gradient). The 1% is
    what the claim promises; a matrix of a layer that is left out, or counted twice, is more: at most 5 layers have four
    tensors each, and the optimizer three besides, and the batch and activations are at most as large as 25 matrices.
    """
    return measured / 100 + 4 * (layers + 1) + 16


def spare(block: int, layers: int) -> int:
    """Bound what an accelerator's allocator gives a training step in addition, in blocks, for tensors up to 1 MiB.

    Less than a block for each tensor: at most six per weight (itself, its gradient, two states, a counter, a temporary
    one), two per layer (its output and that one's gradient), and ten of the batch, the loss and their gradients.
    """
    return block * (8 * (layers + 1) + 10)


def mapped(touched: int, ranges: int, page: int) -> int:
    """Bound the bytes that the kernel maps when a program touches so many `ranges` of a file, of `touched` bytes each.

    Touching a byte maps at most the aligned `page` bytes around it, and a range of n bytes meets at most
    ⌊(n − 1)/page⌋ + 2 of those.
    """
    return ranges * ((touched - 1) // page + 2) * page
