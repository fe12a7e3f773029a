"""§3.5: the memory that training a `Cruncher(dim, num_layers)` takes: the notes' four counts, and a step's peak."""

from operator import index
from typing import NamedTuple, SupportsIndex

__all__ = ["MemoryBudget", "peak_bytes", "training_budget"]

STATES = {"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2}  # An optimizer has this many values per parameter.
COUNTERS = {"sgd": 0, "momentum": 0, "adagrad": 1, "adam": 1}  # Per matrix, these count the steps.
ROOTS = {"sgd": 0, "momentum": 0, "adagrad": 1, "adam": 2}  # The division by a root copies a matrix this often.
VALUE = 4  # A float32 value takes 4 bytes.

# Bytes per parameter, activation, gradient and optimizer state. In mixed precision a parameter is two values: one of
# 16 bits to compute with, and its float32 master; some recipes do without the latter.
BYTES = {"float32": (4, 4, 4, 4), "mixed": (2 + 4, 2, 2, 4), "mixed without masters": (2, 2, 2, 4)}


class MemoryBudget(NamedTuple):
    """How many values a training step of `Cruncher(dim, num_layers)` keeps, by kind."""

    parameters: int
    activations: int
    gradients: int
    optimizer_states: int

    @property
    def total_bytes(self) -> int:
        """The notes' formula, in bytes: 4 for each of the values, all of them float32."""
        return VALUE * sum(self)

    def table(self, precision: str = "float32") -> str:
        """Return a line for each count with its bytes, and one for their sum.

        `precision` is "float32"; or "mixed": 16 bits per value, but for the optimizer's states and a master copy of
        the parameters, in float32; or "mixed without masters". Raises ValueError for another one.
        """
        if precision not in BYTES:
            raise ValueError(f"precision is {precision!r}, none of {', '.join(BYTES)}")
        lines = [f"{precision:<22}{'values':>16}  bytes/value{'bytes':>18}"]
        for name, count, size in zip(self._fields, self, BYTES[precision], strict=True):
            lines.append(f"{name.replace('_', ' '):<22}{count:>16}  {size:>11}{count * size:>18}")
        total = sum(count * size for count, size in zip(self, BYTES[precision], strict=True))
        return "\n".join([*lines, f"{'total':<22}{sum(self):>16}  {'':>11}{total:>18}"])


def training_budget(
    batch_size: SupportsIndex, dim: SupportsIndex, num_layers: SupportsIndex, optimizer: str = "adagrad"
) -> MemoryBudget:
    """Return the four counts of the notes, of values, for a step of training on `batch_size` points.

    There are P = dim²·num_layers + dim parameters, the output of each hidden layer for each point as activations
    (batch_size·dim·num_layers), a gradient per parameter, and per parameter 0 optimizer states for "sgd", 1 for
    "momentum" and "adagrad", 2 for "adam".

    Sizes are Python or NumPy integers, however large, and the counts are Python integers. Raises ValueError for a
    negative size or an unknown optimizer, TypeError for a size that is not an integer.
    """
    points, width, layers = _sizes(batch_size, dim, num_layers, optimizer)
    parameters = width * width * layers + width
    return MemoryBudget(parameters, points * width * layers, parameters, STATES[optimizer] * parameters)


def peak_bytes(
    batch_size: SupportsIndex, dim: SupportsIndex, num_layers: SupportsIndex, optimizer: str = "adagrad"
) -> int:
    """Return the largest number of bytes alive at once in a float32 training step, with B = `batch_size` points.

    The step is a later one of plain torch on the CPU, with the optimizer that torch.optim calls SGD (for "momentum"
    with momentum), Adagrad or Adam, `foreach=False`: the optimizer's states exist, the gradients are None.

        x = batch                            # (B, dim), held, and so is the target, (B,)
        for weight in weights:               # num_layers of (dim, dim), then a head of (dim, 1), without biases
            x = x @ weight
        prediction = x.squeeze(-1)           # held to the end of the step, and so is the loss
        loss = F.mse_loss(prediction, target)
        loss.backward()                      # frees what it used, layer by layer; the batch gets no gradient
        optimizer.step()

    Alive all along are parameters, optimizer states and the batch. Besides, the peak is the largest of these:

    - At the end of forward there are the activations, B·dim per hidden layer, the prediction's B values, and as many
      twice for the loss, which is cut from a tensor of the prediction's size and needs another to get there.
    - In backward the gradient of a layer's weight is made first, then that of its input, of B·dim values, and only then
      are the layer's output, its gradient and the layer's input freed, each as far as nothing later needs it. Each
      layer thus leaves the gradients of its weights in the place of its activations.
    - In the step there are all gradients. Adagrad and Adam go through the weights in turn: Adagrad makes 1 tensor of
      the weight's size, the root of its state, and Adam 2, a root and its quotient; the last of them is freed only
      when the next weight has got its own.

    Numbers count as well: Adagrad and Adam keep one of 4 bytes per weight, the gradient of the loss is another, and an
    operation on a tensor and a number makes 12 bytes of it for a moment.

    Sizes are Python or NumPy integers, and so is the result a Python integer. Raises ValueError for a negative size or
    an unknown optimizer, TypeError for a size that is not an integer.
    """
    points, width, layers = _sizes(batch_size, dim, num_layers, optimizer)
    matrix, outputs = width * width, points * width
    parameters = matrix * layers + width
    number = 12 // VALUE

    always = parameters * (1 + STATES[optimizer]) + COUNTERS[optimizer] * (layers + 1) + outputs + points
    held = points + max(points, 1)  # prediction and loss
    forward = outputs * layers + held + points + number

    # The gradient of the loss, and then the head's: of the prediction, the head's weight, and the last hidden layer.
    backward = outputs * layers + held + 1 + points + width + (outputs if layers else 0)
    for layer in (1, layers - 1, layers):  # The bytes alive are linear in `layer`: the maximum is at an end.
        if 1 <= layer <= layers:
            inputs = 0 if layer == layers else outputs  # The batch needs no gradient.
            alive = held + 1 + width + layer * matrix + (layers - layer + 1) * outputs + inputs
            backward = max(backward, alive)

    roots = ROOTS[optimizer]
    before = matrix if layers and roots else 0  # The previous weight's tensor is not yet freed.
    step = max(roots * width + before, (roots * matrix + (before if layers > 1 else 0)) if layers else 0)
    step += parameters + held + (0 if optimizer == "sgd" else number)
    return VALUE * (always + max(forward, backward, step))


def _sizes(
    batch_size: SupportsIndex, dim: SupportsIndex, num_layers: SupportsIndex, optimizer: str
) -> tuple[int, int, int]:
    """Return the sizes as Python's own integers, which never overflow as NumPy's do."""
    if optimizer not in STATES:
        raise ValueError(f"optimizer is {optimizer!r}, none of {', '.join(STATES)}")
    return _size("batch_size", batch_size), _size("dim", dim), _size("num_layers", num_layers)


def _size(name: str, size: SupportsIndex) -> int:
    try:
        number = index(size)
    except TypeError:
        raise TypeError(f"{name} is not an integer: {size!r}") from None
    if number < 0:
        raise ValueError(f"{name} is negative: {number}")
    return number
