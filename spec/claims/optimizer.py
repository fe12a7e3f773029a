"""§3.5: the optimizer."""

from spec.claim import CORRECTED, Chapter

chapter = Chapter("optimizer", section="3.5", title="Optimizer")

ADAGRAD = chapter.claim(
    "adagrad",
    says="AdaGrad adds up each parameter's squared gradients in G, and moves it by −lr·g/√(G + ε), with ε = 1e-5.",
    law="each step, G ← G + g², then p ← p − lr·g/√(G + ε), element by element and with ε inside the root, by the"
    " parameter's own group's lr and ε; a parameter without a gradient stays as it is, and G survives state_dict()",
    source="Duchi, Hazan and Singer, Adaptive Subgradient Methods for Online Learning and Stochastic Optimization,"
    " Journal of Machine Learning Research 12 (2011)",
)

ACCUMULATOR = chapter.claim(
    "accumulator",
    says="The sum of squared gradients only ever grows.",
    law="no step makes any element of G smaller, be its gradient negative, tiny, zero or None; G starts from 0",
)

EFFECTIVE_RATE = chapter.claim(
    "effective-rate",
    says="A parameter whose squared gradients have summed up to much moves less, as if its learning rate had shrunk.",
    law="under a constant gradient g the t-th step is lr·g/√(t·g² + ε); of two parameters with the same gradient now,"
    " the one with the larger G moves less",
)

GROUPS = chapter.claim(
    "groups",
    says="The optimizer's param_groups hold all parameters, and step() goes through them.",
    law="each parameter is in exactly one group, whether given by itself, in a group or later on; a step moves it once,"
    " by its group's present options: SGD by −lr·g, AdaGrad by its own rule",
    source="https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options",
)

STATE_DICT = chapter.claim(
    "state-dict",
    says="A model's state_dict() holds copies of its parameters, and is something else than the optimizer's state.",
    law="its tensors share storage with the parameters and follow every step; a deep copy, a clone and a file do not;"
    " the optimizer's state, with G, is in the state_dict() of the optimizer alone",
    standing=CORRECTED,
    condition="it holds references: a step changes an earlier state_dict() as well, and a copy() of the dict too",
    source="https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",
)

ZERO_GRAD = chapter.claim(
    "zero-grad",
    says="After the step, zero_grad(set_to_none=True) gives the gradients' memory back.",
    law="it leaves every .grad None, and the bytes alive fall by exactly those of the gradients; with False they become"
    " zeros in place, and nothing is freed",
    source="https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
)
