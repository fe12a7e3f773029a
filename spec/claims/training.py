"""§3.6: the training loop."""

from spec.claim import CORRECTED, Chapter

chapter = Chapter("training", section="3.6", title="Training loop")

RECOVERS_WEIGHTS = chapter.claim(
    "recovers-weights",
    says="SGD on y = x·(0, 1, …, D − 1) moves the weights towards (0, 1, …, D − 1), in 100 steps further than in 10.",
    law="with standard normal inputs and mean squared error a step multiplies the squared error of the weights by"
    " 1 − 4·lr + 4·lr²·(B + D + 1)/B on average, whatever the weights: it falls where lr < B/(B + D + 1), and grows"
    " without end beyond",
)

HEAD_ONLY = chapter.claim(
    "head-only",
    says="With no hidden layers only the final layer is left.",
    law="with num_layers = 0 the model's one parameter is the (D, 1) head, and its output x·head; each layer more "
    "brings a (D, D) matrix",
)

ARGUMENTS = chapter.claim(
    "arguments",
    says="The training function trains a network of as many layers as it is told, at the learning rate it is told.",
    law="every argument is honoured: the model has num_layers layers of dim by dim, each step is one of SGD at lr on"
    " the next batch of batch_size, and the losses are those of the batches before their steps; the notes' own"
    " function trains the head alone, at 0.01",
    standing=CORRECTED,
    condition="the notes' function ignores both: its model always has 0 layers, and its learning rate is 0.01",
)
