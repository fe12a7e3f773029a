"""§3.7: checkpoints."""

from spec.claim import HOLDS_IF, Chapter

chapter = Chapter("checkpoint", section="3.7", title="Checkpointing")

RESUME = chapter.claim(
    "resume",
    says="Saving the states of model and optimizer keeps the progress of a training run.",
    law="k steps, a save, a load in a fresh process and k steps more end, to the last bit, where 2k steps without a "
    "break do; a checkpoint that lacks a name, or has one too many, another shape or other groups, is refused",
    standing=HOLDS_IF,
    condition="the step and every random state are saved too",
    source="https://docs.pytorch.org/docs/stable/notes/randomness.html",
)
CRASH = chapter.claim(
    "crash",
    says="With checkpoints a crash in the middle of training does not lose the results.",
    law="whenever a save is killed or fails, the file is the complete old or the complete new checkpoint, and after "
    "the next save nothing else is in the folder; a cut or altered file raises an error, and changes "
    "nothing; loading runs no code from a file",
    standing=HOLDS_IF,
    condition="the file is written elsewhere, synchronised and then renamed: a crash while the only file is being "
    "overwritten loses it",
    source="https://man7.org/linux/man-pages/man2/rename.2.html and fsync.2.html",
)
