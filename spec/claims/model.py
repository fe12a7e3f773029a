"""§3.2: a deep linear network, and how many parameters it has."""

from spec.claim import CORRECTED, Chapter

chapter = Chapter("model", section="3.2", title="Custom model")

SHAPES = chapter.claim(
    "shapes",
    says="Cruncher maps a batch of shape (B, D) to (B,).",
    law="the output is the batch multiplied through the layers' weights in order, with nothing between them; B = 1"
    " gives (1,), B = 0 gives (0,); gradients reach every weight and the batch; every layer starts as scaled_normal,"
    " drawn from the generator alone and independent of the others",
)

PARAMETERS = chapter.claim(
    "parameters",
    says="L layers of D×D and a head of D×1 have D²L + D parameters.",
    law="layers.0.weight to layers.{L − 1}.weight have D² numbers each and final.weight D; a parameter that is shared"
    " counts once",
    standing=CORRECTED,
    condition="this holds for layers without bias, as the notes' own Linear; with torch.nn.Linear, which they import"
    " later, the biases make it L(D² + D) + D + 1",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html",
)

MODULE_LIST = chapter.claim(
    "module-list",
    says="A ModuleList registers layers, so that an optimizer finds their parameters.",
    law="the parameters of layers in a ModuleList are the module's: an optimizer moves each of them, and state_dict"
    " names it; those of layers in a plain list are not",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html",
)

DEVICE = chapter.claim(
    "device",
    says="model.to(device) moves every parameter there.",
    law="every parameter is on the device, and of the dtype, that to() was given, and forward and backward run there",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.to",
)
