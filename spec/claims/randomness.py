"""§3.3: runs that repeat."""

from spec.claim import HOLDS_IF, Chapter

chapter = Chapter("randomness", section="3.3", title="Randomness")

SEEDING = chapter.claim(
    "seeding",
    says="Seeding torch, NumPy and Python makes a run repeat.",
    law="after seed_everything(seed), 0 ≤ seed < 2³², Python's, NumPy's legacy and torch's streams, on every device,"
    " give the same numbers in two fresh processes, and twice in one, others after another seed, and none disturbs"
    " another; a seed out of range is refused",
    standing=HOLDS_IF,
    condition="the run draws from these streams alone, not from a NumPy Generator that was made without a seed, and its"
    " operations are deterministic, for which torch has a mode",
    source="https://docs.pytorch.org/docs/stable/notes/randomness.html",
)
