"""§2.2.4: how long a product takes, and how much of the promised speed that is."""

from spec.claim import HOLDS_IF, Chapter

chapter = Chapter("throughput", section="2.2.4", title="Timing and model FLOPs utilisation")

SYNCHRONIZE = chapter.claim(
    "synchronize",
    says="A GPU works asynchronously: Python goes on before a product is done, and a clock has to wait for it.",
    law="issuing a large product takes less than half of the time until the device is done; time_matmul takes what the "
    "device's own events say, whatever was queued before, and leaves out a first product that is slow",
    source="https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
)

TIMING = chapter.claim(
    "timing",
    says="The mean of repeated, synchronised runs is the time of one product.",
    law="where each product takes a known time, time_matmul returns the mean of as many as it was asked for; it agrees "
    "with an independent timer, and grows with B·D·K once the product outweighs its call",
)

MFU = chapter.claim(
    "mfu",
    says="MFU is the achieved FLOP/s divided by the promised FLOP/s.",
    law="FLOP/s = FLOPs ÷ seconds and MFU = achieved ÷ promised, within rounding; 0 < MFU ≤ 1, or unknown where "
    "nothing is promised; rates that are not positive and finite raise",
    standing=HOLDS_IF,
    condition="the promise is the dense peak of the same device and the same dtype",
    source="PaLM: Scaling Language Modeling with Pathways, arXiv:2204.02311, appendix B",
)

HARDWARE = chapter.claim(
    "hardware",
    says="The FLOP/s that are reached depend on the hardware.",
    law="of one product, the accelerator and this machine's CPU reach rates that differ at least by a factor of two",
)

DTYPE = chapter.claim(
    "dtype",
    says="bfloat16 reaches more FLOP/s than float32.",
    law="faster on a device with matrix units for bfloat16, for products that fill them; less than half as fast on a "
    "CPU without; no more than twice as fast for a tiny product",
    standing=HOLDS_IF,
    condition="the device has matrix units for bfloat16 and the product fills them",
)
