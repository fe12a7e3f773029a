"""What is claimed: one module per chapter of the notes, each with a `chapter`."""

import importlib
import pkgutil

from spec.claim import Chapter


def load(package: str = "spec.claims") -> list[Chapter]:
    """Return the written chapters of `package` in the notes' order."""
    path = importlib.import_module(package).__path__
    modules = (importlib.import_module(f"{package}.{module.name}") for module in pkgutil.iter_modules(path))
    return sorted((module.chapter for module in modules), key=lambda chapter: (chapter.section, chapter.name))
