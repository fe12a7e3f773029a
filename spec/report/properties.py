"""The protocol between a test and the report: named texts that travel with pytest's test report, also from workers.

Each name carries the kit's prefix, so that other plugins' properties are told apart:

- claims: the ids of the claims that the test is tied to, separated by spaces
- device: the device that the test ran on
- tests: for each of the claims, the ids of all its tests on that device (JSON)
- evidence: the records of what was measured, each with the test's role (JSON)
- series: the curves that were measured (JSON); absent where there are none
- rates: what a benchmark timed (JSON); absent where nothing was timed
- undecided: the reason why the test decides nothing; empty where it decides
"""

from typing import Any

import pytest

PREFIX = "spec_"


def hand_on(item: Any, **values: str) -> None:
    """Add properties to a test, in place of what an earlier run of the same test may have handed on."""
    named = {PREFIX + name: value for name, value in values.items()}
    others = [each for each in item.user_properties if each[0] not in named]
    item.user_properties[:] = [*others, *named.items()]


def of(report: pytest.TestReport) -> dict[str, str]:
    """Return a report's properties, by their names in `hand_on`."""
    named = [(name, value) for name, value in report.user_properties if name.startswith(PREFIX)]
    return {name.removeprefix(PREFIX): str(value) for name, value in named}
