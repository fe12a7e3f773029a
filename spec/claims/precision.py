"""§3.8: mixed-precision training."""

from spec.claim import Chapter

chapter = Chapter("precision", section="3.8", title="Mixed-precision training")

TRADE_OFF = chapter.claim(
    "trade-off",
    says="More precision makes training more accurate and stable, and more expensive; less does the opposite.",
    law="a product's distance from the one in float64 stays within the rounding bound of its dtype, and falls from "
    "bfloat16 over float16 to float32, which take 2, 2 and 4 bytes per value; a weight of 1 absorbs an update of 1e-3 "
    "in bfloat16 and keeps it in float32",
)
FORWARD_ONLY = chapter.claim(
    "forward-only",
    says="The forward pass runs in low precision, and the rest in float32.",
    law="under autocast products come out in the low dtype, while the loss, the parameters, the gradients that they "
    "accumulate and the optimizer's state are float32, so that updates which the low dtype would lose are kept",
    source="Micikevicius et al. 2018, Mixed Precision Training, arXiv:1710.03740",
)
AUTOCAST = chapter.claim(
    "autocast",
    says="torch's automatic mixed precision does this by itself.",
    law="a step under autocast ends within the rounding bound of the low dtype of where float32 ends; each step casts "
    "the weights anew, which one autocast around the whole loop does not",
    source="https://docs.pytorch.org/docs/stable/amp.html",
)
SCALING = chapter.claim(
    "scaling",
    says="Training in float16 needs its loss scaled.",
    law="a gradient of at most 2⁻²⁵ vanishes in float16 without scaling and survives with it; where one overflows, the "
    "step is left out and the scale lowered, and after a number of good steps it is raised; the gradients of all the "
    "optimizer's parameters, and no others, are clipped together, as they are once unscaled",
    source="https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
)
