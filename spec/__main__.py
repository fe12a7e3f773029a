"""The command line: `new` writes a package for your own implementation, `compare` puts reports side by side."""

import argparse
import importlib.util
import keyword
import sys
from pathlib import Path

from spec import needs

if problem := needs.missing():
    print(f"python -m spec: {problem}", file=sys.stderr)
    sys.exit(2)

from spec.implementation import skeleton
from spec.report import comparison, receipts


def main() -> int:
    """Run one command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m spec", description="Tools of the executable specification.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    new = commands.add_parser("new", help="write a package to fill in: public names and docstrings, without code")
    new.add_argument("name", help="what to call the package; it is made in this folder")
    new.set_defaults(run=lambda given: write(given.name))
    compare = commands.add_parser("compare", help="put reports side by side, and name a device slower than the rest")
    compare.add_argument("reports", nargs="+", type=Path, help="files that pytest --spec-report=DIR wrote")
    compare.set_defaults(run=lambda given: show(given.reports))
    given = parser.parse_args()
    try:
        return int(given.run(given))
    except OSError as error:
        return refuse(f"{error.filename}: {error.strerror}" if error.strerror else str(error))
    except receipts.ReportError as error:
        return refuse(str(error))


def write(name: str) -> int:
    """Write a skeleton package into this folder."""
    if not name.isidentifier() or keyword.iskeyword(name):
        return refuse(f"{name!r} is not a name that Python can import: use letters, digits and _, such as mine")
    if Path(name).exists():
        return refuse(f"{name} exists already, and is left as it is: choose another name")
    if importlib.util.find_spec(name):
        return refuse(f"{name} is a module that Python can import already: choose another name")
    files = skeleton.package(name)
    Path(name).mkdir()
    for file, text in files.items():
        Path(name, file).write_text(text, encoding="utf-8")
    print(f"wrote {name}/: {', '.join(files)}")
    print(f"Fill in what you like; what is not written yet is unchecked. To check it: pytest --spec-impl={name}")
    return 0


def show(paths: list[Path]) -> int:
    """Print reports side by side."""
    if len(paths) < 2:
        return refuse("compare takes two reports or more: those of each rank, or of one device at two times")
    reports = [receipts.read(path) for path in paths]
    for line in comparison.lines(paths, reports):
        print(line)
    return 0


def refuse(reason: str) -> int:
    """Say in one line why nothing is done."""
    print(f"python -m spec: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
