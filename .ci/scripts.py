"""Gives .venv the commands that pip left out (pytest, torchrun…), as it does for what another folder provides already.

Usage: .venv/bin/python .ci/scripts.py DISTRIBUTION…
"""

import sys
import sysconfig
from contextlib import suppress
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution
from pathlib import Path

# A shell finds the interpreter even where its path is long or has spaces in it, which a #! line takes badly.
SCRIPT = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys
from {module} import {name}
sys.exit({attribute}())
"""


def write(command: EntryPoint, folder: Path) -> None:
    """Write one command, unless pip has."""
    path = folder / command.name
    if not path.exists():
        name = command.attr.split(".")[0]
        text = SCRIPT.format(python=sys.executable, module=command.module, name=name, attribute=command.attr)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)


def main() -> None:
    folder = Path(sysconfig.get_path("scripts"))
    for name in sys.argv[1:]:
        with suppress(PackageNotFoundError):  # A torch built from source may say nothing of itself.
            for entry in distribution(name).entry_points.select(group="console_scripts"):
                write(entry, folder)


main()
