"""§2.2.4 and §2.2.5: how many floating-point operations a computation takes."""

from spec.claim import CORRECTED, HOLDS_IF, Chapter

chapter = Chapter("flops", section="2.2.4", title="FLOPs")

DEFINITION = chapter.claim(
    "definition",
    says="A FLOP is one addition or multiplication of floating-point numbers; FLOPs measure work and FLOP/s speed.",
    law="every scalar addition, subtraction and multiplication of a computation counts once, whatever its dtype; "
    "work is in FLOPs and speed in FLOP/s, and neither name is ever written for the other",
)

MATMUL = chapter.claim(
    "matmul",
    says="A (B, D) by (D, K) product takes 2·B·D·K FLOPs.",
    law="B·D·K multiplications and B·K·(D − 1) additions, for which 2·B·D·K is the convention; "
    "2·batch·M·D·K with leading dimensions, and a vector is a matrix of one row or column",
    standing=HOLDS_IF,
    condition="the first of D terms counts as an addition too: B·K more FLOPs than there are",
)

ELEMENTWISE_LINEAR = chapter.claim(
    "elementwise-linear",
    says="Operations other than products take FLOPs in proportion to the tensor's size.",
    law="one FLOP per element for each elementwise pass, and for a sum one per element less one per result",
)

MATMUL_DOMINATES = chapter.claim(
    "matmul-dominates",
    says="Of all operations, the product of large enough matrices is the most expensive.",
    law="beside c elementwise passes over n × n values, an n × n product takes 2n/(2n + c) of the FLOPs; "
    "of the time it takes a smaller share than that, as elementwise work is bound by bandwidth",
    standing=HOLDS_IF,
    condition="2n is large beside the number of elementwise passes",
)

FORWARD = chapter.claim(
    "forward",
    says="A forward pass takes 2 × tokens × parameters FLOPs, that of a Transformer included.",
    law="exactly that for the matrices of a linear network; a Transformer adds 4·layers·tokens·context·width for "
    "attention (causal work skipped: (context + 1)/2 in the place of context), which with a feedforward of 4·width and "
    "no output head is context/(6·width + context) of the whole",
    standing=HOLDS_IF,
    condition="parameters means the matrices that a token is multiplied with: no embedding look-up, a tied output head "
    "once more, of experts only the active ones; and the context is short beside 6·width",
    source="Chowdhery et al., PaLM, 2022, appendix B, https://arxiv.org/abs/2204.02311",
)

BACKWARD = chapter.claim(
    "backward",
    section="2.2.5",
    says="A backward pass takes 4 × points × parameters FLOPs.",
    law="2·points·parameters for the gradients of the weights, and as much for those of the inputs of every layer "
    "but the first; twice the forward pass exactly when the first layer's input needs a gradient",
    standing=CORRECTED,
    condition="the first layer's input needs no gradient, which saves 2·points·(its parameters), and "
    "frozen layers save more",
    source="Kaplan et al., Scaling Laws for Neural Language Models, 2020, §2.1, https://arxiv.org/abs/2001.08361",
)

TRAINING = chapter.claim(
    "training",
    section="2.2.5",
    says="A step of training takes 6 × points × parameters FLOPs.",
    law="the sum of forward and backward pass; of L equal layers 1/(3L) less than 6·points·parameters, "
    "and three times the forward pass exactly when the first layer's input needs a gradient",
    standing=CORRECTED,
    condition="6 is the limit of deep networks: the first layer passes no gradient on",
    source="Kaplan et al., Scaling Laws for Neural Language Models, 2020, §2.1, https://arxiv.org/abs/2001.08361",
)
