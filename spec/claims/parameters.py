"""§3.1: what a parameter is, and how its values start out."""

from spec.claim import CORRECTED, HOLDS_IF, Chapter

chapter = Chapter("parameters", section="3.1", title="Parameters")

IS_TENSOR = chapter.claim(
    "is-tensor",
    says="A Parameter is a tensor that requires grad by default and that its module lists; its data is a plain Tensor.",
    law="an instance of Tensor and of Parameter, a leaf that requires grad, found in its module's parameters(); .data"
    " is of exactly the type Tensor; impl's have the shape, dtype and device that were asked for",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html",
)

IDENTITY = chapter.claim(
    "identity",
    says="A parameter's values are changed through .data; rebinding its name loses it to the optimizer.",
    law="after an in-place change the optimizer moves the module's parameter; after rebinding to another Parameter it"
    " moves the old one; assigning a plain tensor raises; autograd notices an in-place change under no_grad and refuses"
    " a backward pass that needs the old values, and does not notice one through .data: its gradient is silently wrong",
    source="https://docs.pytorch.org/docs/stable/notes/autograd.html",
)

ROW_VECTOR = chapter.claim(
    "row-vector",
    says="A 1-D tensor times a matrix acts as a row vector.",
    law="(d,) @ (d, k) has shape (k,) and the values of the product with a (1, d) matrix, and so has its gradient;"
    " another length than d raises",
    source="https://docs.pytorch.org/docs/stable/generated/torch.matmul.html",
)

GROWTH = chapter.claim(
    "growth",
    says="With standard normal inputs and weights, outputs have a standard deviation of √fan_in.",
    law="the outputs' root mean square is √fan_in times the inputs', from fan_in = 4 to 4,096, within a bound that a"
    " right implementation passes but once in 10⁹ runs; the weights are independent, and the generator's alone",
)

SCALED = chapter.claim(
    "scaled",
    says="Dividing the weights by √fan_in gives outputs of unit variance, and is Xavier initialisation.",
    law="outputs and inputs have the same root mean square for any fan_out, with weights of variance 1/fan_in, which is"
    " LeCun's rule; Xavier's gives 2/(fan_in + fan_out), He's 2/fan_in",
    standing=HOLDS_IF,
    condition="fan_in and fan_out are equal: only then are LeCun's rule, which this is, and Xavier's the same",
    source="LeCun et al., Efficient BackProp (1998), §4.6; Glorot and Bengio, Understanding the difficulty of training"
    " deep feedforward neural networks (2010), eq. 12; He et al., Delving deep into rectifiers (2015), eq. 10",
)

TAILS = chapter.claim(
    "tails",
    says="A sample of normal numbers has no bound, so that a large enough one holds extreme values.",
    law="the largest of n in absolute value grows like √(2·ln n): it lies between the quantile that n draws miss once"
    " in 10¹⁵ times, above 4 at n = 2²⁰, and √(2·(ln n + 35.3))",
)

TRUNCATED = chapter.claim(
    "truncated",
    says="Truncating the weights to [−3, 3] is safer.",
    law="truncated at ±b standard deviations, no weight lies beyond b/√fan_in nor do they gather there, and their own"
    " standard deviation is √(1 − 2b·φ(b)/(2Φ(b) − 1))/√fan_in: 0.9866/√fan_in for b = 3",
    standing=CORRECTED,
    condition="the bounds are absolute: with a standard deviation of 1/√fan_in, ±3 lies √fan_in times as far out as was"
    " meant and cuts nothing off; ±3/√fan_in does",
    source="https://docs.pytorch.org/docs/stable/nn.init.html#torch.nn.init.trunc_normal_",
)
