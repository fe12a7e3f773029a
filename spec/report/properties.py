"""What a test hands on with its report, also from xdist's workers: under names that other plugins do not use."""

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
