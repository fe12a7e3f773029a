"""The reference implementation's memory, beyond what its claims demand: the peak to the byte, and the table in bytes.

Measure more networks with `python -m tests.kit.reference.test_peak 500`.
"""

import random
import sys

import pytest

from impl.memory import peak_bytes, training_budget
from spec.oracles import steps


def measured(draws, seed, *, largest_width=160):
    """Yield networks drawn at random, each with its measured and its predicted peak, in bytes."""
    generator = random.Random(seed)
    for _ in range(draws):
        points, width = (int(2 ** generator.uniform(0, high)) for high in (8.5, 0))
        width = generator.randint(1, 63) if generator.random() < 0.2 else generator.randint(64, largest_width)
        layers, optimizer = generator.randrange(8), generator.choice(list(steps.OPTIMIZERS))
        peak = steps.measure(steps.network(points, width, layers), optimizer).peak.requested
        yield (points, width, layers, optimizer), peak, peak_bytes(points, width, layers, optimizer)


def test_the_peak_is_predicted_to_the_byte():
    """Of networks of any size, hardly any layers or points among them, the measured peak is the predicted one."""
    off = [(sizes, peak, predicted) for sizes, peak, predicted in measured(40, 0) if peak != predicted]
    assert off == []


@pytest.mark.parametrize("optimizer", steps.OPTIMIZERS)
def test_the_smallest_networks_are_predicted_too(optimizer):
    """To the byte also without points, without width, or with one of either."""
    for points, width in ((0, 0), (0, 1), (0, 5), (2, 0), (1, 1), (3, 1)):
        for layers in (0, 1, 2):
            peak = steps.measure(steps.network(points, width, layers), optimizer).peak.requested
            assert peak_bytes(points, width, layers, optimizer) == peak, (points, width, layers)


@pytest.mark.parametrize("sizes", [(0, 0, 0), (0, 3, 2), (2, 0, 2), (2, 3, 0), (1, 1, 1)])
def test_sizes_of_0_are_counted(sizes):
    """Without points there are no activations, without width no parameters, without layers the head's alone."""
    points, width, layers = sizes
    parameters = width * width * layers + width
    counted = training_budget(*sizes, "adam")
    assert counted == (parameters, points * width * layers, parameters, 2 * parameters)


@pytest.mark.parametrize("function", [training_budget, peak_bytes])
def test_what_is_refused_is_refused_by_name(function):
    """A negative size and an unknown optimizer raise ValueError, what is no integer TypeError."""
    for place, name in enumerate(("batch_size", "dim", "num_layers")):
        for size, error in ((-1, ValueError), (8.0, TypeError), ("8", TypeError), (None, TypeError)):
            sizes = [8, 8, 8]
            sizes[place] = size
            with pytest.raises(error, match=name):
                function(*sizes)
    with pytest.raises(ValueError, match="sgd, momentum, adagrad, adam"):
        function(8, 8, 8, "ada")


@pytest.mark.parametrize(
    ("optimizer", "precision", "per_parameter"),
    [
        ("adam", "float32", 4 + 4 + 8),
        ("adam", "mixed", 2 + 2 + 4 + 8),
        ("adam", "mixed without masters", 2 + 2 + 8),
        ("adagrad", "float32", 4 + 4 + 4),
        ("momentum", "mixed", 2 + 2 + 4 + 4),
        ("sgd", "mixed", 2 + 2 + 4),
    ],
)
def test_the_table_adds_up(optimizer, precision, per_parameter):
    """A line per count gives values, bytes per value and bytes; without points the total is what parameters take."""
    told = training_budget(0, 8, 3, optimizer)
    head, *lines, total = told.table(precision).splitlines()
    assert head.split()[-2:] == ["bytes/value", "bytes"]
    parts = [line.split()[-3:] for line in lines]
    assert [int(values) for values, _, _ in parts] == list(told)
    assert all(int(values) * int(each) == int(size) for values, each, size in parts)
    assert int(total.split()[-1]) == sum(int(size) for *_, size in parts) == per_parameter * told.parameters


def test_the_table_knows_its_precisions():
    """Activations take 2 bytes in mixed precision, and a precision without a name has no table."""
    assert training_budget(5, 8, 3).table("mixed").splitlines()[2].split() == ["activations", "120", "2", "240"]
    with pytest.raises(ValueError, match="float32, mixed"):
        training_budget(5, 8, 3).table("float8")


if __name__ == "__main__":
    results = list(measured(int(sys.argv[1]), 1))
    exact = sum(peak == predicted for _, peak, predicted in results)
    worst = max(abs(peak - predicted) / peak for _, peak, predicted in results)
    print(f"{exact} of {len(results)} to the byte, the worst within {worst:.3%}")
