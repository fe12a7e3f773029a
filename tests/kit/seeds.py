"""Which wrong implementations are caught in every run: `python -m tests.kit.seeds --seeds 20 --profile quick storage`.

`make test` draws the same examples each time. Here each mutant is judged with other ones again and again; one that is
missed now and then needs an explicit example, or a test that draws nothing.
"""

import argparse
import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator, Sequence

import impl
from spec.instruments import processes
from spec.run.profiles import EXAMPLES
from tests.kit import children, overlay
from tests.kit.overlay import Overlay


def missed(wrong: Overlay, seeds: Sequence[int], profile: str) -> Counter[str]:
    """Return how often each claim did not catch a mutant that it is named by, where its tests were not skipped."""
    times: Counter[str] = Counter()
    for seed in seeds:
        ran = children.judge(wrong, wrong.claims, profile=profile, seed=seed)
        for claim in wrong.claims:
            if not ran.messages("failed", claim):
                late = children.judge_from_the_start(wrong, [claim], children.TIMED, profile=profile, seed=seed)
                times[claim] += not late.messages("failed", claim) and late.outcomes(claim) != {"skipped"}
    return times


def chosen(words: Sequence[str]) -> Iterator[Overlay]:
    """Yield the mutants of these chapters, or of these names; all where there are none."""
    for wrong in overlay.MUTANTS:
        if not words or wrong.chapter in words or wrong.name in words:
            yield wrong


def load() -> None:
    """Import once, for all the forked children, what they are about."""
    processes.PRELOAD.append("spec.claim")
    overlay.load()
    for module in pkgutil.iter_modules(impl.__path__):
        importlib.import_module(f"impl.{module.name}")


def main() -> None:
    """Print each mutant that is missed, and how often."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.seeds", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a chapter or a mutant, such as storage.never_copies")
    parser.add_argument("--seeds", type=int, default=5, help="how often each is judged (5)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--profile", choices=EXAMPLES, default="quick", help="how hard hypothesis tries (quick)")
    given = parser.parse_args()
    load()
    if unknown := set(given.names) - {name for wrong in overlay.MUTANTS for name in (wrong.chapter, wrong.name)}:
        parser.error(f"no such chapter or mutant: {', '.join(sorted(unknown))}")
    seeds, count, late = range(given.first, given.first + given.seeds), 0, 0
    for wrong in chosen(given.names):
        count += 1
        if times := +missed(wrong, seeds, given.profile):
            late += 1
            for claim, number in times.items():
                print(f"{wrong.name}: missed by {claim} in {number} of {given.seeds} runs", flush=True)
    children.close()
    print(f"{count} mutants, {given.seeds} runs of each under {given.profile}: {late} missed at least once")


if __name__ == "__main__":
    main()
