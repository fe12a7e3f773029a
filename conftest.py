"""Loads the specification kit's pytest plugin, and nothing else."""

import gc

gc.disable()  # until the plugin stands: all that torch makes at import stays, and looking through it takes a while
pytest_plugins = ["spec.plugin"]
