"""The lecture's napkin figures: how long a training run takes, and what fits into memory."""

from spec.claim import HOLDS_IF, Chapter

chapter = Chapter("planning", section="1", title="Planning a training run")

TRAINING_TIME = chapter.claim(
    "training-time",
    says="Training a model of 70 billion parameters on 15 trillion tokens takes 1024 H100 about 144 days.",
    law="6 FLOPs per parameter and token, over the rate promised for all devices times the MFU, over 86,400 s a day: "
    "143.9 days at an MFU of 0.5 of 989.5e12 FLOP/s, which is the promise for dense bfloat16",
    source="NVIDIA H100 Tensor Core GPU datasheet: 1,979 bfloat16 TFLOP/s of an H100 SXM with sparsity, half without",
)
LARGEST_MODEL = chapter.claim(
    "largest-model",
    says="The largest model that AdamW trains on 8 H100 of 80 GB has 40 billion parameters.",
    law="the bytes of memory over the bytes per parameter, rounded down and never up: 640e9 over 16, which are "
    "float32's 4 for each of parameter, gradient and two moments; activations are not counted",
)
GPT3_MATRIX = chapter.claim(
    "gpt3-matrix",
    says="A float32 matrix of GPT-3's feedforward layer, 12288 × 49152, takes 2.3 GB.",
    law="2,415,919,104 bytes, which are 2304 MiB or 2.25 GiB",
    standing=HOLDS_IF,
    condition="the 2.3 stands for 2.25 GiB: in GB of 10⁹ bytes it is 2.416",
    source="Brown et al. 2020, Language Models are Few-Shot Learners, table 2.1, arXiv:2005.14165",
)
