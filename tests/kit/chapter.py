"""Everything that concerns one chapter, in well under a minute: `python -m tests.kit.chapter storage`.

Its claims' tests and its benchmarks, passed through once; its wrong implementations, each of which has to be caught,
and its unusual right ones; whether there are enough of them; and the style of its files.
"""

import subprocess
import sys

from spec import claims
from tests.kit.overlay import ROOT, modules_of

ROOMS = ("spec/claims", "impl", "tests/kit/mutants")


def commands(chapter: str, workers: str) -> list[list[str]]:
    """Return the commands that check a chapter, each as the arguments of `python -m`."""
    rooms = [path for room in ROOMS if (ROOT / (path := f"{room}/{chapter}.py")).exists()]
    files = [*rooms, *modules_of(chapter)]
    overlays = ["tests/kit/test_mutants.py", "-k", f"{chapter}. or every_claim or every_overlay"]
    return [
        ["ruff", "check", "--quiet", *files],
        ["ruff", "format", "--check", "--quiet", *files],
        ["pytest", "-q", *modules_of(chapter)],
        ["pytest", "-q", "--assert=rewrite", "-n", workers, *overlays],
    ]


def main(chapter: str = "", workers: str = "2") -> str:
    """Run the commands of a chapter; return what failed, in one line, or an empty string."""
    known = [each.name for each in claims.load()]
    if chapter not in known:
        return f"no chapter is called {chapter!r}; write CHAPTER= and one of {', '.join(known)}"
    for command in commands(chapter, workers):
        if subprocess.run([sys.executable, "-m", *command], cwd=ROOT).returncode:
            return f"{chapter}: failed: python -m {' '.join(command)}"
    return ""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) or 0)
