"""Loads the specification kit's pytest plugin, and nothing else."""

pytest_plugins = ["spec.plugin"]
