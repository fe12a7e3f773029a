"""§3.5, accounting: the memory that training takes."""

from spec.claim import CORRECTED, HOLDS_IF, Chapter

chapter = Chapter("memory", section="3.5", title="Memory")

PARAMETERS = chapter.claim(
    "parameters",
    says="A network of L layers of D by D and a head has D·D·L + D parameters.",
    law="its weights take 4·(D²·L + D) bytes in float32, by the allocator's own word",
)

ACTIVATIONS = chapter.claim(
    "activations",
    says="Every layer, point and dimension has an activation to be stored: B·D·L in all.",
    law="autograd saves exactly 4·B·D·L bytes besides the parameters, the batch and the loss's own B values",
    standing=HOLDS_IF,
    condition="nothing but products stands between the layers, and the B predictions that the loss saves are not"
    " counted; a SiLU after every layer doubles the number",
    source="https://docs.pytorch.org/docs/stable/notes/autograd.html#saved-tensors",
)

GRADIENTS = chapter.claim(
    "gradients",
    says="The backward pass makes as many gradients as there are parameters.",
    law="after a backward pass exactly one value per parameter more is alive than before the forward pass",
)

OPTIMIZER_STATES = chapter.claim(
    "optimizer-states",
    says="AdaGrad keeps one value per parameter as its state.",
    law="of values the size of a parameter, SGD keeps 0, SGD with momentum 1, AdaGrad 1 and Adam 2; torch's AdaGrad and"
    " Adam keep one number more per tensor, the steps taken",
)

TOTAL = chapter.claim(
    "total",
    says="In float32 training takes 4 × (parameters + activations + gradients + optimizer states) bytes.",
    law="that many bytes of these four kinds come to exist over a step; the peak is the largest of what is alive at the"
    " end of forward, in backward and in the optimizer's step, temporaries and batch included",
    standing=CORRECTED,
    condition="activations are freed while gradients appear, and the batch, the backward pass and the optimizer need"
    " memory of their own: 64 points in 16 layers of 64 by 64 peak at 0.73 times the sum under SGD, 256 in one"
    " layer at 2.2 times",
)

FLOPS_PER_STEP = chapter.claim(
    "flops-per-step",
    says="A step of training on B points takes 6·B·(D·D·L + D) FLOPs.",
    law="the products take 6·B·(D²·L + D) − 2·B·D² FLOPs with L ≥ 1 layers, 4·B·D with the head alone: see"
    " flops.training",
    standing=CORRECTED,
    condition="the first layer's input needs no gradient",
)
