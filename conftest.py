"""Loads the specification kit's pytest plugin, and nothing else; where Python lacks what that needs, says so."""

import gc

import pytest

from spec import needs

gc.disable()  # until the plugin stands: all that torch makes at import stays, and looking through it takes a while

if problem := needs.missing():

    def pytest_addoption() -> None:
        """Stop here: an error that this module raised itself would be shown with a traceback."""
        raise pytest.UsageError(problem)

else:
    pytest_plugins = ["spec.plugin"]
