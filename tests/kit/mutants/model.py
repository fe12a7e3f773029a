"""§3.2: wrong and unusual networks."""

import functools

import numpy as np
import torch
from torch import nn

from impl import model as right
from spec.claims import model
from tests.kit.overlay import mutant, twin

Cruncher, Linear, count_parameters = right.Cruncher, right.Linear, right.count_parameters
to, module_list, register = nn.Module.to, nn.ModuleList.__init__, nn.Module.__setattr__


# ---- the output ----
@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class SqueezesEverything(Cruncher):
    """Drops every dimension of 1, the batch's among them."""

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.final(x).squeeze()


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class LeavesTheColumn(Cruncher):
    """Returns (B, 1)."""

    def forward(self, x):
        return super().forward(x)[:, None]


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class PutsReluBetween(Cruncher):
    """Applies ReLU between the layers."""

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return self.final(x).squeeze(-1)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class AddsWhatItStartedFrom(Cruncher):
    """Has residual connections."""

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.final(x).squeeze(-1)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class GoesBackwards(Cruncher):
    """Runs the layers from the last to the first."""

    def forward(self, x):
        for layer in reversed(self.layers):
            x = layer(x)
        return self.final(x).squeeze(-1)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class RemembersItsProduct(Cruncher):
    """Multiplies the weights out once, and ignores later changes."""

    def forward(self, x):
        if not hasattr(self, "known"):
            known = torch.eye(len(self.final.weight))
            for layer in (*self.layers, self.final):
                known = known @ layer.weight.detach()
            object.__setattr__(self, "known", known[:, 0])
        return x @ self.known + 0 * sum(weight.sum() for weight in self.parameters())


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class LearnsInItsHeadOnly(Cruncher):
    """Stops gradients before the head."""

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.final(x.detach()).squeeze(-1)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class LearnsNothingOfTheBatch(Cruncher):
    """Has no gradient for the batch."""

    def forward(self, x):
        return super().forward(x.detach())


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class MakesTheBatchFinite(Cruncher):
    """Halves the batch in place."""

    def forward(self, x):
        y = super().forward(x)
        x.detach().div_(2)
        return y


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class RunsOneLayerOver(Cruncher):
    """Uses the first layer's weight in every layer."""

    def forward(self, x):
        for _ in self.layers:
            x = self.layers[0](x)
        return self.final(x).squeeze(-1)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class NeedsAtLeastOne(Cruncher):
    """Takes the mean of an empty batch, which is NaN."""

    def forward(self, x):
        return super().forward(x) if len(x) else x.mean().reshape(1)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class SortsItsLayersByName(Cruncher):
    """Takes layers.10 before layers.2."""

    def forward(self, x):
        named = dict(self.named_parameters())
        for name in sorted(named.keys() - {"final.weight"}):
            x = x @ named[name]
        return self.final(x).squeeze(-1)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class TakesAnyNumberOfLayers(Cruncher):
    """Takes a negative number of layers as 0."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, max(num_layers, 0), generator=generator)


@mutant("impl.model.Linear", caught_by=model.SHAPES)
class StretchesTheBatch(Linear):
    """Broadcasts a batch of width 1 to any other."""

    def forward(self, x):
        return (x[..., None] * self.weight).sum(-2)


@mutant("impl.model.Linear", caught_by=model.SHAPES)
class KnowsMatricesOnly(Linear):
    """Flattens the leading dimensions and leaves them so."""

    def forward(self, x):
        return x.reshape(-1, x.shape[-1]) @ self.weight


@mutant("impl.model.Linear", caught_by=(model.SHAPES, model.PARAMETERS))
class HasABias(Linear):
    """Adds a bias, which starts at zero."""

    def __init__(self, inputs, outputs, *, generator=None):
        super().__init__(inputs, outputs, generator=generator)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return super().forward(x) + self.bias


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class RemembersItsOutputs(Cruncher):
    """Returns an earlier output for a batch of the same shape."""

    def forward(self, x):
        known = self.__dict__.setdefault("known", {})
        if x.shape not in known or x.requires_grad:
            known[x.shape] = super().forward(x)
        return known[x.shape]


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class MultipliesOutForEvalMode(Cruncher):
    """Multiplies the weights out when eval() is called, and ignores later changes in that mode."""

    def train(self, mode=True):
        super().train(mode)
        with torch.no_grad():
            self.__dict__["known"] = functools.reduce(torch.matmul, [x.weight for x in (*self.layers, self.final)])
        return self

    def forward(self, x):
        return super().forward(x) if self.training else (x @ self.known).squeeze(-1)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class DropsNumbersInTraining(Cruncher):
    """Has dropout."""

    def forward(self, x):
        with torch.random.fork_rng(devices=[]):
            return super().forward(nn.functional.dropout(x, training=self.training))


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class TakesSixtyFourPoints(Cruncher):
    """Computes 64 points of a batch, and returns zeros for the rest."""

    def forward(self, x):
        y = super().forward(x)
        return torch.cat([y[:64], 0 * y[64:]])


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class TidiesUp(Cruncher):
    """Replaces NaN in the output by 0."""

    def forward(self, x):
        return super().forward(x).nan_to_num()


@mutant("impl.model.Linear", caught_by=model.SHAPES)
class KeepsItsFirstWeight(Linear):
    """Multiplies by its first weight after another one was assigned."""

    def __init__(self, inputs, outputs, *, generator=None):
        super().__init__(inputs, outputs, generator=generator)
        object.__setattr__(self, "first", self.weight)

    def forward(self, x):
        return x @ self.first


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class MeansItsBatch(Cruncher):
    """Subtracts the batch's mean, as batch normalisation does."""

    def forward(self, x):
        return super().forward(x - x.mean(0, keepdim=True) if len(x) > 1 else x)


# ---- the initial weights ----
@mutant("impl.model.Linear", caught_by=model.SHAPES)
class StartsStandardNormal(Linear):
    """Does not divide by √inputs."""

    def __init__(self, inputs, outputs, *, generator=None):
        super().__init__(inputs, outputs, generator=generator)
        self.weight.data *= inputs**0.5


@mutant("impl.model.Linear", caught_by=model.SHAPES)
class StartsUniform(Linear):
    """Starts as torch.nn.Linear does."""

    def __init__(self, inputs, outputs, *, generator=None):
        super().__init__(inputs, outputs, generator=generator)
        self.weight.data.uniform_(-(inputs**-0.5), inputs**-0.5, generator=generator)


@mutant("impl.model.Linear", caught_by=model.SHAPES)
class StartsAsXavier(Linear):
    """Divides by the root of the mean of inputs and outputs, which is the same for layers of dim to dim."""

    def __init__(self, inputs, outputs, *, generator=None):
        super().__init__(inputs, outputs, generator=generator)
        self.weight.data *= (2 * inputs / (inputs + outputs)) ** 0.5


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class StartsAllLayersAlike(Cruncher):
    """Copies the first layer's weights into the others."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers, generator=generator)
        for layer in self.layers:
            layer.weight.data.copy_(self.layers[0].weight.data)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class ForgetsTheHeadsGenerator(Cruncher):
    """Draws the head from torch's own stream."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers, generator=generator)
        self.final = Linear(dim, 1)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class StartsADeepHeadAtZero(Cruncher):
    """Starts the head at zero where there are layers below it, so that the first output is 0."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers, generator=generator)
        if num_layers:
            self.final.weight.data.zero_()


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class IgnoresTheGenerator(Cruncher):
    """Draws from a generator of seed 0 instead of the one that is given."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers, generator=torch.Generator().manual_seed(0))


# ---- the number of parameters ----
@mutant("impl.model.Cruncher", caught_by=model.PARAMETERS)
class HasOneLayerMore(Cruncher):
    """Has one layer of dim to dim more than it should."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers + 1, generator=generator)


@mutant("impl.model.Cruncher", caught_by=model.PARAMETERS)
class NamesItsHeadOtherwise(Cruncher):
    """Registers the head as `head`; `final` is a plain attribute."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers, generator=generator)
        final = self._modules.pop("final")
        self.head = final
        object.__setattr__(self, "final", final)


@mutant("impl.model.Cruncher", caught_by=(model.PARAMETERS, model.SHAPES))
class SharesOneLayer(Cruncher):
    """Repeats one layer, as [layer] * num_layers does."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers, generator=generator)
        self.layers = nn.ModuleList([*self.layers[:1]] * num_layers)


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS)
def counts_shared_ones_again(module):
    """Adds up the parameters of each module, so that shared ones count again."""
    own = sum(weight.numel() for weight in module._parameters.values())
    return own + sum(counts_shared_ones_again(child) for child in module._modules.values())


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS)
def counts_what_learns(module):
    """Leaves out frozen parameters."""
    return sum(weight.numel() for weight in module.parameters() if weight.requires_grad)


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS)
def counts_buffers_too(module):
    """Counts buffers as well as parameters."""
    return count_parameters(module) + sum(buffer.numel() for buffer in module.buffers())


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS)
def counts_bytes_by_four(module):
    """Divides the bytes by four, whatever the dtype."""
    return sum(parameter.nbytes for parameter in module.parameters()) // 4


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS)
def counts_as_numpy_does(module):
    """Returns a NumPy integer."""
    return np.sum([parameter.numel() for parameter in module.parameters()], dtype=np.int64)


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS)
def counts_in_floats(module):
    """Counts in float, which loses the last digits of large counts."""
    return int(float(count_parameters(module)))


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS)
def takes_equal_values_for_shared(module):
    """Counts parameters of equal values once."""
    known = {(weight.shape, weight.data_ptr() or id(weight)): weight for weight in module.parameters()}
    return sum(
        {
            str(weight.tolist()) if weight.device.type == "cpu" else id(weight): weight.numel()
            for weight in known.values()
        }.values()
    )


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS)
def looks_one_level_deep(module):
    """Counts the parameters of a module and of its children."""
    own = {id(weight): weight for weight in module.parameters(recurse=False)}
    for child in module.children():
        own |= {id(weight): weight for weight in child.parameters(recurse=False)}
    return sum(weight.numel() for weight in own.values())


# ---- the parameters that an optimizer finds ----
class Layers(list):
    """A plain list that can have attributes."""


@mutant("impl.model.Cruncher", caught_by=(model.MODULE_LIST, model.PARAMETERS, model.DEVICE))
class KeepsAPlainList(Cruncher):
    """Keeps its layers in a plain list."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers, generator=generator)
        layers = Layers(self._modules.pop("layers"))
        object.__setattr__(self, "layers", layers)


@mutant("impl.model.Cruncher", caught_by=model.MODULE_LIST)
class KeepsASequential(Cruncher):
    """Keeps its layers in a Sequential, under the same names."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers, generator=generator)
        self.layers = nn.Sequential(*self.layers)


@mutant("impl.model.Cruncher", caught_by=model.MODULE_LIST)
class HasLayersOfTorchs(Cruncher):
    """Builds its layers of torch.nn.Linear without bias."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers, generator=generator)
        with torch.random.fork_rng(devices=[]):
            self.layers = nn.ModuleList([nn.Linear(dim, dim, bias=False) for _ in range(num_layers)])


@mutant("impl.model.Cruncher", caught_by=model.MODULE_LIST)
class CopiesAreTheSame(Cruncher):
    """Returns itself instead of a deep copy."""

    def __deepcopy__(self, memo):
        return self


@mutant("torch.nn.ModuleList.__init__", caught_by=model.MODULE_LIST)
def registers_nothing(self, modules=None):
    """Keeps its modules in a list, and does not register them."""
    nn.Module.__init__(self)
    self.__dict__["held"] = list(modules or [])
    type(self).__iter__ = lambda self: iter(self.held)


# ---- the device and the dtype ----
@mutant("torch.nn.Module.to", caught_by=model.DEVICE)
def moves_the_head_only(self, *where, **how):
    """Moves the last child alone."""
    for child in list(self.children())[-1:]:
        to(child, *where, **how)
    return self


@mutant("impl.model.Linear", caught_by=(model.DEVICE, model.PARAMETERS))
class KeepsATensor(Linear):
    """Has a weight that is not a parameter."""

    def __init__(self, inputs, outputs, *, generator=None):
        super().__init__(inputs, outputs, generator=generator)
        weight = self._parameters.pop("weight").detach().requires_grad_()
        object.__setattr__(self, "weight", weight)


@mutant("impl.model.Cruncher", caught_by=model.DEVICE)
class ReturnsToTheCpu(Cruncher):
    """Returns its output on the CPU; zeros for one on the meta device."""

    def forward(self, x):
        y = super().forward(x)
        return y.cpu() if y.device.type != "meta" else torch.zeros(y.shape, requires_grad=True)


@mutant("impl.model.Cruncher", caught_by=model.DEVICE)
class ComputesInFloat32(Cruncher):
    """Returns float32, whatever its parameters' dtype is."""

    def forward(self, x):
        return super().forward(x).float()


@mutant("impl.model.Linear", caught_by=model.DEVICE)
class StartsInFloat32(Linear):
    """Makes its weight in float32 whatever torch's default dtype is."""

    def __init__(self, inputs, outputs, *, generator=None):
        super().__init__(inputs, outputs, generator=generator)
        self.weight.data = self.weight.data.float()


# ---- unusual, and right ----
@twin("impl.model.Cruncher")
class SumsInAnotherOrder(Cruncher):
    """Multiplies the weights first, from the head on, and the batch last."""

    def forward(self, x):
        y = self.final.weight[:, 0]
        for layer in reversed(self.layers):
            y = layer.weight @ y
        return x @ y


@twin("impl.model.Cruncher")
class TakesAColumn(Cruncher):
    """Takes column 0 of the head's output instead of squeezing it."""

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.final(x)[..., 0]


@twin("impl.model.Linear")
class UsesEinsum(Linear):
    """Uses einsum, and checks the width itself, since einsum broadcasts a width of 1."""

    def forward(self, x):
        if x.shape[-1] != self.weight.shape[0]:
            raise ValueError("another width")
        return torch.einsum("...i,io->...o", x, self.weight)


@twin("impl.model.Linear")
class TransposesForTorch(Linear):
    """Calls torch's own linear function."""

    def forward(self, x):
        return nn.functional.linear(x, self.weight.T)


class Numbered(nn.ModuleList):
    """A subclass of ModuleList."""


@twin("impl.model.Cruncher")
class HasAListOfItsOwn(Cruncher):
    """Draws the head first, registers the layers in a subclass of ModuleList, and has a buffer."""

    def __init__(self, dim, num_layers, *, generator=None):
        final = Linear(dim, 1, generator=generator)
        super().__init__(dim, num_layers, generator=generator)
        self.layers = Numbered(self.layers)
        self.final = final
        self.register_buffer("version", torch.tensor(1))


@twin("impl.model.count_parameters")
def counts_by_identity(module):
    """Visits all modules, and counts each parameter by its id."""
    seen = {id(weight): weight for child in module.modules() for weight in child.parameters(recurse=False)}
    return sum(int(torch.Size(weight.shape).numel()) for weight in seen.values())


# ---- look-alikes: square batches and weights, a layer twice, two networks of one size ----
@mutant("impl.model.Linear", caught_by=model.SHAPES)
class TransposesASquare(Linear):
    """Multiplies by the transpose of a square weight where the batch is no matrix."""

    def forward(self, x):
        square = self.weight.shape[0] == self.weight.shape[1]
        return x @ (self.weight.T if square and x.dim() != 2 else self.weight)


@mutant("impl.model.Linear", caught_by=model.SHAPES)
class MultipliesFromTheLeft(Linear):
    """Multiplies weight by batch where both are square and of one size."""

    def forward(self, x):
        return self.weight @ x if x.shape == self.weight.shape and len(x) == x.shape[1] > 1 else x @ self.weight


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class TurnsASquareBatch(Cruncher):
    """Transposes a square batch."""

    def forward(self, x):
        return super().forward(x.T if x.shape[0] == x.shape[1] else x)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class RunsEveryWeightOnce(Cruncher):
    """Multiplies by each different weight once, although two layers may share it."""

    def forward(self, x):
        for weight in dict.fromkeys(layer.weight for layer in self.layers):
            x = x @ weight
        return self.final(x).squeeze(-1)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class KeepsItsWeightsInAList(Cruncher):
    """Multiplies by the weights that its layers had at first."""

    def __init__(self, dim, num_layers, *, generator=None):
        super().__init__(dim, num_layers, generator=generator)
        object.__setattr__(self, "weights", [layer.weight for layer in self.layers])

    def forward(self, x):
        for weight in self.weights:
            x = x @ weight
        return self.final(x).squeeze(-1)


@mutant("impl.model.Linear", caught_by=model.SHAPES)
class LooksAmongItsParameters(Linear):
    """Looks its weight up among its parameters, where a parametrised weight is missing."""

    def forward(self, x):
        return x @ self._parameters["weight"]


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class SharesItsOutputs(Cruncher):
    """Writes an output without gradients into the tensor that it returned for an earlier batch of that size."""

    outputs = {}  # noqa: RUF012

    def forward(self, x):
        y = super().forward(x)
        return y if y.requires_grad or y.device.type == "meta" else self.outputs.setdefault(y.shape, y).copy_(y)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class LearnsAllOrNothing(Cruncher):
    """Runs without gradients where any of its weights is frozen."""

    def forward(self, x):
        with torch.set_grad_enabled(torch.is_grad_enabled() and all(w.requires_grad for w in self.parameters())):
            return super().forward(x)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class HearsNoHooks(Cruncher):
    """Skips torch's forward hooks."""

    def __call__(self, x):
        return self.forward(x)


@mutant("impl.model.Cruncher", caught_by=model.SHAPES)
class OneForEachSeed(Cruncher):
    """Shares its weights with an earlier network of the same size and generator state."""

    known = {}  # noqa: RUF012

    def __init__(self, dim, num_layers, *, generator=None):
        state = generator and bytes(generator.get_state().numpy())
        super().__init__(dim, num_layers, generator=generator)
        if generator is not None:
            key = int(dim), int(num_layers), state, torch.get_default_dtype()
            self.__dict__ = self.known.setdefault(key, self).__dict__


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS)
def tells_them_by_address_and_shape(module):
    """Counts parameters of one address and shape once; on the meta device all addresses are 0."""
    return sum({(w.data_ptr(), w.shape): w.numel() for w in module.parameters()}.values())


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS)
def tells_them_by_their_last_name(module):
    """Counts one parameter for each last part of a name, which several modules may use."""
    named = [(name.rsplit(".", 1)[-1], weight) for name, weight in module.named_parameters()]
    return sum({(name, weight.shape, weight.dtype): weight.numel() for name, weight in named}.values())


@mutant("impl.model.count_parameters", caught_by=model.PARAMETERS, value=True)
def remembers_modules_by_id():
    """Caches counts by the module's id, which a later module may have."""
    known = {}

    def remembered(module):
        small = isinstance(module, right.Linear)
        return known.setdefault(id(module), count_parameters(module)) if small else count_parameters(module)

    return remembered


@twin("impl.model.Cruncher")
class MultipliesMatrixByMatrix(Cruncher):
    """Multiplies all weights out at every call."""

    def forward(self, x):
        weights = [layer.weight for layer in (*self.layers, self.final)]
        return (x @ functools.reduce(torch.matmul, weights)).flatten(-2)


@twin("impl.model.Linear")
class LaysItsColumnsEndToEnd(Linear):
    """Keeps a weight whose columns are contiguous."""

    def __init__(self, inputs, outputs, *, generator=None):
        super().__init__(inputs, outputs, generator=generator)
        self.weight = nn.Parameter(self.weight.detach().T.contiguous().T)


@twin("impl.model.Cruncher")
class AsksForEachLayerByName(Cruncher):
    """Looks its layers up by their names at every call."""

    def forward(self, x):
        for index in range(len(self.layers)):
            x = self.get_submodule(f"layers.{index}")(x)
        return self.get_submodule("final")(x).squeeze(-1)
