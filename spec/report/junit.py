"""pytest's own report, in JUnit's XML: a disk that is full for it neither ends the run nor costs the table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spec.report import files


class Junit:
    """Stands in for two hooks of pytest's writer of XML, which raises before the table is shown."""

    def __init__(self, writer: Any, root: Path | None, failed: Callable[[str], None]) -> None:
        """Call `failed` with a line where nothing can be written; with a `root`, leave out the host and that path."""
        self.path = Path(writer.logfile)
        self.root = root
        self.failed = failed
        self.write = writer.pytest_sessionfinish
        self.announce = writer.pytest_terminal_summary

    def pytest_sessionfinish(self) -> None:
        try:
            self.write()
            if self.root:
                files.leave_out_host(self.path, self.root)
        except OSError as error:
            files.remove(self.path)  # Half an XML file serves nobody, and a whole one names the host.
            self.failed(f"{self.path}: cannot be written: {error.strerror}")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if self.path.is_file():
            self.announce(terminalreporter=terminalreporter, config=config)


def guarded(manager: pytest.PytestPluginManager, root: Path | None, failed: Callable[[str], None]) -> Junit | None:
    """Guard pytest's writer of XML, where there is one: its hooks are looked up anew when it is registered again."""
    writer: Any = next((plugin for plugin in manager.get_plugins() if type(plugin).__name__ == "LogXML"), None)
    if writer is None:
        return None
    guard = Junit(writer, root, failed)
    manager.unregister(writer)
    writer.pytest_sessionfinish, writer.pytest_terminal_summary = (
        guard.pytest_sessionfinish,
        guard.pytest_terminal_summary,
    )
    manager.register(writer)
    return guard
