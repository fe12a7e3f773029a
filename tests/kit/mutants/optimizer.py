"""Optimizers that take other steps than SGD's and AdaGrad's, and unusual ones that take theirs."""

import copy
import math

import torch

import impl.optimizer as right
from spec.claims import optimizer
from tests.kit.overlay import mutant, twin

SGD, AdaGrad = right.SGD, right.AdaGrad
SHARED_SUMS = {}  # SumsAreShared keeps its sums here, by index, shape and dtype.
sgd_step, adagrad_step = SGD.step, AdaGrad.step
zero_grad, module_state = torch.optim.Optimizer.zero_grad, torch.nn.Module.state_dict


def by(update):
    """Return a step that does `update(p, g, state, group)` for each parameter with a gradient."""

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if p.grad.is_sparse or p.is_complex():
                        raise RuntimeError("sparse and complex")
                    update(p, p.grad, self.state[p], group)
        return loss

    return step


def summed(state, g):
    """Return AdaGrad's sum with a gradient added."""
    state["g2"] = state["g2"] + g * g if "g2" in state else g * g
    return state["g2"]


def adagrad(divisor, *, total=summed, given=lambda g: g):
    """Return a step of AdaGrad that divides by `divisor(G, group)` and changes the gradient by `given` beforehand."""

    def update(p, g, state, group):
        g = given(g)
        p.sub_(group["lr"] * g / divisor(total(state, g), group))

    return by(update)


def root(g2, group):
    """Return AdaGrad's divisor, √(G + ε)."""
    return (g2 + group["eps"]).sqrt()


def around(step, before=lambda self: None, after=lambda self: None):
    """Return a step that calls `before(optimizer)`, the given step, and `after(optimizer)`."""

    def wrapped(self, closure=None):
        before(self)
        loss = step(self, closure)
        with torch.no_grad():
            after(self)
        return loss

    return wrapped


def parameters_of(self):
    """Return an optimizer's parameters."""
    return [p for group in self.param_groups for p in group["params"]]


# ---- AdaGrad's rule ----
@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.EFFECTIVE_RATE), value=True)
def adds_epsilon_to_the_root():
    """Adds ε outside the root, as torch's own AdaGrad does."""
    return adagrad(lambda g2, group: g2.sqrt() + group["eps"])


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.EFFECTIVE_RATE), value=True)
def has_torchs_epsilon():
    """Uses ε = 1e-10, whatever eps is given."""
    return adagrad(lambda g2, group: (g2 + 1e-10).sqrt())


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def knows_only_the_notes_epsilon():
    """Uses ε = 1e-5, whatever eps is given."""
    return adagrad(lambda g2, group: (g2 + 1e-5).sqrt())


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.ADAGRAD)
class EpsilonByDefault(AdaGrad):
    """Uses ε = 1e-6 where no eps is given."""

    def __init__(self, params, lr=0.01, eps=1e-6):
        super().__init__(params, lr, eps)


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.ADAGRAD)
class RateByDefault(AdaGrad):
    """Uses a learning rate of 1e-3 where none is given."""

    def __init__(self, params, lr=1e-3, eps=1e-5):
        super().__init__(params, lr, eps)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.EFFECTIVE_RATE), value=True)
def divides_by_the_sum_before():
    """Divides by the root of the sum without the present gradient."""

    def update(p, g, state, group):
        before = state.get("g2", torch.zeros_like(p))
        p.sub_(group["lr"] * g / (before + group["eps"]).sqrt())
        summed(state, g)

    return by(update)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.EFFECTIVE_RATE), value=True)
def forgets_the_root():
    """Divides by G + ε."""
    return adagrad(lambda g2, group: g2 + group["eps"])


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.EFFECTIVE_RATE), value=True)
def goes_uphill():
    """Moves by +lr·g/√(G + ε)."""
    return adagrad(lambda g2, group: -(g2 + group["eps"]).sqrt())


@mutant(
    "impl.optimizer.AdaGrad.step",
    caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR, optimizer.EFFECTIVE_RATE),
    value=True,
)
def averages_the_squares():
    """Keeps a moving average of the squares, as RMSProp does."""

    def total(state, g):
        state["g2"] = 0.9 * state["g2"] + 0.1 * g * g if "g2" in state else 0.1 * g * g
        return state["g2"]

    return adagrad(root, total=total)


@mutant(
    "impl.optimizer.AdaGrad.step",
    caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR, optimizer.EFFECTIVE_RATE),
    value=True,
)
def forgets_the_past():
    """Keeps the last square instead of the sum."""

    def total(state, g):
        state["g2"] = g * g
        return state["g2"]

    return adagrad(root, total=total)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR), value=True)
def adds_up_magnitudes():
    """Adds up |g| instead of g²."""

    def total(state, g):
        state["g2"] = state.get("g2", 0) + g.abs()
        return state["g2"]

    return adagrad(root, total=total)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR), value=True)
def adds_up_gradients():
    """Adds up g, and squares the sum, which shrinks where the sign changes."""

    def total(state, g):
        state["sum"] = state.get("sum", 0) + g
        state["g2"] = state["sum"] ** 2
        return state["g2"]

    return adagrad(root, total=total)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR), value=True)
def has_one_sum_per_parameter():
    """Sums the squares over all elements of a parameter, and divides them all alike."""

    def total(state, g):
        state["g2"] = state.get("g2", 0) + (g * g).sum().expand(g.shape)
        return state["g2"]

    return adagrad(root, total=total)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR), value=True)
def starts_above_zero():
    """Starts the sum from 0.1, as Keras does."""

    def total(state, g):
        state["g2"] = state.get("g2", 0.1) + g * g
        return state["g2"]

    return adagrad(root, total=total)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR), value=True)
def sums_in_bfloat16():
    """Keeps the sum in 16 bits."""

    def total(state, g):
        state["g2"] = (state.get("g2", 0) + g * g).bfloat16()
        return state["g2"].to(g.dtype)

    return adagrad(root, total=total)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def computes_in_float32():
    """Loses half of a float64 parameter's digits."""

    def update(p, g, state, group):
        g2 = summed(state, g)
        p.sub_((group["lr"] * g.float() / (g2.float() + group["eps"]).sqrt()).to(p.dtype))

    return by(update)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def averages_over_the_steps():
    """Divides by the root of the mean of the squares."""

    def update(p, g, state, group):
        state["steps"] = state.get("steps", 0) + 1
        p.sub_(group["lr"] * g / (summed(state, g) / state["steps"] + group["eps"]).sqrt())

    return by(update)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.EFFECTIVE_RATE), value=True)
def keeps_its_first_root():
    """Divides by the root of the first square in every step."""

    def update(p, g, state, group):
        summed(state, g)
        state.setdefault("root", root(state["g2"], group))
        p.sub_(group["lr"] * g / state["root"])

    return by(update)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def decays_the_weights():
    """Shrinks the parameter by a hundredth of lr as well."""

    def update(p, g, state, group):
        p.mul_(1 - 0.01 * group["lr"])
        p.sub_(group["lr"] * g / root(summed(state, g), group))

    return by(update)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def clips_gradients():
    """Cuts gradients off at ±1000."""
    return adagrad(root, given=lambda g: g.clamp(-1000, 1000))


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def hides_what_is_not_a_number():
    """Replaces NaN in a gradient by 0."""
    return adagrad(root, given=lambda g: g.nan_to_num())


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def squares_the_gradient_in_place():
    """Leaves g² in .grad."""

    def update(p, g, state, group):
        old = g.clone()
        p.sub_(group["lr"] * old / root(summed(state, old), group))
        g.square_()

    return by(update)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def gives_the_unused_zeros():
    """Makes a gradient of zeros where there is none."""

    def fill(self):
        for p in parameters_of(self):
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad

    return around(adagrad_step, before=fill)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def moves_the_unused_on():
    """Moves a parameter without a gradient by the last gradient that it had."""

    def repeat(self):
        for p in parameters_of(self):
            if p.grad is None and "last" in self.state[p]:
                p.sub_(0.01 * self.state[p]["last"])
            if p.grad is not None:
                self.state[p]["last"] = p.grad.clone()

    return around(adagrad_step, after=repeat)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR), value=True)
def forgets_those_without_a_gradient():
    """Drops a parameter's sum when it has no gradient in a step."""

    def drop(self):
        for p in parameters_of(self):
            if p.grad is None:
                self.state.pop(p, None)

    return around(adagrad_step, before=drop)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def takes_columns_for_rows():
    """Pairs elements by their order in memory, which differs where a gradient is transposed."""

    def update(p, g, state, group):
        other = g.reshape(-1)[torch.argsort(torch.arange(g.numel()).reshape(g.shape[::-1]).T.reshape(-1))]
        other = other.reshape(g.shape)
        p.sub_(group["lr"] * other / root(summed(state, other), group))

    return by(update)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def moves_the_first_hundred_rows():
    """Moves the first hundred rows of a matrix alone."""

    def update(p, g, state, group):
        move = group["lr"] * g / root(summed(state, g), group)
        if p.dim() > 1:
            move[100:] = 0
        p.sub_(move)

    return by(update)


@mutant("impl.optimizer.AdaGrad", caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR))
class KeepsItsSumsToItself(AdaGrad):
    """Keeps the sums in an attribute, where no state_dict finds them."""

    def step(self, closure=None):
        sums = self.__dict__.setdefault("sums", {})
        for p in parameters_of(self):
            if p in sums:
                self.state[p]["g2"] = sums[p]
        loss = super().step(closure)
        for p in parameters_of(self):
            if "g2" in self.state[p]:
                sums[p] = self.state[p].pop("g2")
        return loss


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.ADAGRAD)
class LoadsOptionsOnly(AdaGrad):
    """Starts the sums from 0 again when a state is loaded."""

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict | {"state": {}})


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.ADAGRAD)
class LoadsSumsOnly(AdaGrad):
    """Keeps its own options when a state is loaded."""

    def load_state_dict(self, state_dict):
        options = [{name: group[name] for name in ("lr", "eps")} for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, own in zip(self.param_groups, options, strict=True):
            group.update(own)


@mutant("impl.optimizer.AdaGrad", caught_by=(optimizer.ADAGRAD, optimizer.STATE_DICT))
class TellsNoSums(AdaGrad):
    """Leaves the sums out of its state_dict."""

    def state_dict(self):
        saved = super().state_dict()
        return saved | {"state": {index: {} for index in saved["state"]}}


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.ADAGRAD)
class SumsAreShared(AdaGrad):
    """Keeps the sums for the class, so that a second optimizer goes on where the first one stopped."""

    def step(self, closure=None):
        for index, p in enumerate(parameters_of(self)):
            old = SHARED_SUMS.setdefault((index, p.shape, p.dtype), torch.zeros_like(p))
            self.state[p].setdefault("g2", old)
        return super().step(closure)


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.ADAGRAD)
class LoadsSumsAsTheyAre(AdaGrad):
    """Loads sums in the dtype they were saved in, and goes on adding up in that."""

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        for index, p in enumerate(parameters_of(self)):
            if index in state_dict["state"]:
                self.state[p]["g2"] = state_dict["state"][index]["g2"].clone()


# ---- the sums ----
@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ACCUMULATOR, value=True)
def caps_its_sums():
    """Lets no sum exceed 100."""

    def total(state, g):
        state["g2"] = (state.get("g2", 0) + g * g).clamp(max=100.0)
        return state["g2"]

    return adagrad(root, total=total)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ACCUMULATOR, value=True)
def starts_again_every_third_step():
    """Restarts each sum at every third step."""

    def total(state, g):
        state["steps"] = state.get("steps", 0) + 1
        state["g2"] = g * g if state["steps"] % 3 == 0 else state.get("g2", 0) + g * g
        return state["g2"]

    return adagrad(root, total=total)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR), value=True)
def keeps_the_largest_square():
    """Keeps the largest square instead of the sum."""

    def total(state, g):
        state["g2"] = torch.maximum(state.get("g2", torch.zeros_like(g)), g * g)
        return state["g2"]

    return adagrad(root, total=total)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR), value=True)
def starts_from_epsilon():
    """Starts the sum from ε, so that each step is right and the sum is not."""

    def total(state, g):
        state["g2"] = state.get("g2", 1e-5) + g * g
        return state["g2"] - 1e-5

    return adagrad(root, total=total)


# ---- groups ----
@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.ADAGRAD, optimizer.GROUPS), value=True)
def stops_where_there_is_no_gradient():
    """Leaves the rest of a group once a parameter has no gradient."""

    def step(self, closure=None):
        groups = self.param_groups
        self.param_groups = []
        for group in groups:
            used = [p.grad is not None for p in group["params"]]
            end = used.index(False) if False in used else len(used)
            self.param_groups.append(group | {"params": group["params"][:end]})
        loss = adagrad_step(self, closure)
        self.param_groups = groups
        return loss

    return step


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def keeps_a_momentum_of_no_use():
    """Saves each gradient in the state, and never uses it."""

    def update(p, g, state, group):
        state["momentum"] = g.clone()
        p.sub_(g, alpha=group["lr"])

    return by(update)


@mutant("impl.optimizer.SGD", caught_by=optimizer.GROUPS)
class TakesARateOfZeroForNone(SGD):
    """Steps by the default rate where the rate is 0."""

    def __init__(self, params, lr=0.01):
        super().__init__(params, lr or 0.01)


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def calls_the_closure_something_else():
    """Accepts the closure by position, and ignores one that is passed by name."""

    def step(self, function=None, **others):
        loss = sgd_step(self, function)
        return None if "closure" in others else loss

    return step


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.GROUPS, value=True)
def steps_the_first_group():
    """Steps the first group alone."""

    def step(self, closure=None):
        groups, self.param_groups = self.param_groups, self.param_groups[:1]
        loss = adagrad_step(self, closure)
        self.param_groups = groups
        return loss

    return step


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def steps_the_first_parameter_of_each():
    """Steps the first parameter of each group alone."""

    def update(p, g, state, group):
        if p is group["params"][0]:
            p.sub_(g, alpha=group["lr"])

    return by(update)


def at_the_default_rate(original):
    """Return a step that uses the optimizer's default options in place of its groups' own."""

    def step(self, closure=None):
        own = [dict(group) for group in self.param_groups]
        for group in self.param_groups:
            group.update(self.defaults)
        loss = original(self, closure)
        for group, options in zip(self.param_groups, own, strict=True):
            group.update(options)
        return loss

    return step


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def ignores_the_groups_rates():
    """Uses the default learning rate for every group."""
    return at_the_default_rate(sgd_step)


@mutant("impl.optimizer.AdaGrad.step", caught_by=(optimizer.GROUPS, optimizer.ADAGRAD), value=True)
def ignores_the_groups_options():
    """Uses the default learning rate and ε for every group."""
    return at_the_default_rate(adagrad_step)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.GROUPS, value=True)
def takes_the_first_groups_epsilon():
    """Divides by a root with the first group's ε."""

    def step(self, closure=None):
        first = self.param_groups[0]["eps"]
        return adagrad(lambda g2, group: (g2 + first).sqrt())(self, closure)

    return step


@mutant("impl.optimizer.SGD", caught_by=optimizer.GROUPS)
class KeepsItsFirstRate(SGD):
    """Uses the learning rate that a group had at first, and ignores schedulers."""

    def step(self, closure=None):
        now = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            group["lr"] = group.setdefault("first", group["lr"])
        loss = super().step(closure)
        for group, lr in zip(self.param_groups, now, strict=True):
            group["lr"] = lr
        return loss


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def steps_twice():
    """Moves each parameter twice."""
    return around(sgd_step, before=lambda self: sgd_step(self))


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def has_momentum():
    """Adds nine tenths of the last step."""

    def update(p, g, state, group):
        state["last"] = g + 0.9 * state.get("last", 0)
        p.sub_(state["last"], alpha=group["lr"])

    return by(update)


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def normalises_gradients():
    """Divides a gradient by its length where that is more than 1."""
    return by(lambda p, g, state, group: p.sub_(g / g.norm().clamp(min=1), alpha=group["lr"]))


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def goes_up():
    """Moves along the gradient."""
    return by(lambda p, g, state, group: p.add_(g, alpha=group["lr"]))


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def moves_in_float32():
    """Rounds a float64 parameter's step to float32."""
    return by(lambda p, g, state, group: p.sub_((group["lr"] * g.float()).to(p.dtype)))


@mutant("impl.optimizer.SGD", caught_by=optimizer.GROUPS)
class RateOfSgd(SGD):
    """Uses a learning rate of 1e-3 where none is given."""

    def __init__(self, params, lr=1e-3):
        super().__init__(params, lr)


@mutant("impl.optimizer.SGD", caught_by=optimizer.GROUPS)
class ForgetsLaterGroups(SGD):
    """Ignores groups that are added later."""

    def add_param_group(self, param_group):
        if not self.__dict__.get("made"):
            super().add_param_group(param_group)

    def step(self, closure=None):
        self.made = True
        return super().step(closure)


@mutant("impl.optimizer.SGD", caught_by=optimizer.GROUPS)
class TakesAParameterTwice(SGD):
    """Lets a parameter be in two groups, and moves it twice a step."""

    def add_param_group(self, param_group):
        groups, self.param_groups = self.param_groups, []
        super().add_param_group(param_group)
        self.param_groups = groups + self.param_groups


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.GROUPS)
class LaterGroupsHaveDefaults(AdaGrad):
    """Uses the default ε for a group that is added later."""

    def add_param_group(self, param_group):
        super().add_param_group(param_group | ({"eps": self.defaults["eps"]} if self.param_groups else {}))


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.GROUPS)
class MergesGroups(AdaGrad):
    """Puts all parameters in one group."""

    def step(self, closure=None):
        first, *others = self.param_groups
        first["params"] += [p for group in others for p in group["params"]]
        self.param_groups[:] = [first]
        return super().step(closure)


@mutant("impl.optimizer.SGD", caught_by=optimizer.GROUPS)
class MovesCopies(SGD):
    """Copies the parameters, and moves the copies."""

    def __init__(self, params, lr=0.01):
        super().__init__(params, lr)
        for group in self.param_groups:
            group["params"] = [copy.deepcopy(p) for p in group["params"]]


@mutant("impl.optimizer.SGD", caught_by=optimizer.GROUPS)
class DropsTheFrozen(SGD):
    """Holds only parameters that require grad."""

    def __init__(self, params, lr=0.01):
        super().__init__(params, lr)
        for group in self.param_groups:
            group["params"] = [p for p in group["params"] if p.requires_grad]


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def freezes_for_good():
    """Leaves the parameters without requires_grad."""
    return around(sgd_step, after=lambda self: [p.requires_grad_(False) for p in parameters_of(self)])


# ---- closures ----
def with_closure(call):
    """Return SGD's step that gets the loss from `call(closure)`."""

    def step(self, closure=None):
        loss = None if closure is None else call(closure)
        sgd_step(self)
        return loss

    return step


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def ignores_the_closure():
    """Steps by the present gradients, without calling the closure."""
    return with_closure(lambda closure: None)


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def calls_the_closure_twice():
    """Calls the closure twice."""
    return with_closure(lambda closure: (closure(), closure())[1])


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def returns_a_number():
    """Returns the loss as a number."""
    return with_closure(lambda closure: float(closure()))


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def keeps_the_loss():
    """Returns None instead of the loss."""

    def step(self, closure=None):
        sgd_step(self, closure)

    return step


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.GROUPS, value=True)
def calls_the_closure_afterwards():
    """Steps by the gradients from before the closure is called."""

    def step(self, closure=None):
        adagrad_step(self)
        with torch.enable_grad():
            return None if closure is None else closure()

    return step


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def calls_the_closure_without_gradients():
    """Does not enable gradients for the closure."""

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else closure()
        sgd_step(self)
        return loss

    return step


# ---- what is refused ----
class Unchecked(AdaGrad):
    """Takes any option."""

    def __init__(self, params, lr=0.01, eps=1e-5):
        torch.optim.Optimizer.__init__(self, params, {"lr": lr, "eps": eps})


@twin("impl.optimizer.AdaGrad")
class TakesAnyOption(Unchecked):
    """Takes a negative learning rate."""


def densely(self):
    """Make sparse gradients dense."""
    for p in parameters_of(self):
        if p.grad is not None and p.grad.is_sparse:
            p.grad = p.grad.to_dense()


@twin("impl.optimizer.SGD.step", value=True)
def takes_sparse_gradients():
    """Steps by a sparse gradient, as torch lets it."""
    return around(sgd_step, before=densely)


@twin("impl.optimizer.AdaGrad.step", value=True)
def makes_sparse_gradients_dense():
    """Steps by a sparse gradient, made dense."""
    return around(adagrad_step, before=densely)


@twin("impl.optimizer.SGD.step", value=True)
def takes_complex_parameters():
    """Steps complex parameters, as torch's own does."""

    @torch.no_grad()
    def step(self, closure=None):
        real = not any(p.is_complex() for p in parameters_of(self))
        return sgd_step(self, closure) if real else [p.sub_(0.01 * p.grad) for p in parameters_of(self)]

    return step


@twin("impl.optimizer.AdaGrad.step", value=True)
def refuses_without_a_reason():
    """Refuses without a reason in the message."""

    def step(self, closure=None):
        if any(p.grad is not None and (p.is_complex() or p.grad.is_sparse) for p in parameters_of(self)):
            raise RuntimeError("no")
        return adagrad_step(self, closure)

    return step


# ---- the rate ----
@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.EFFECTIVE_RATE, value=True)
def has_no_history():
    """Moves by the gradient alone, as SGD does."""

    def update(p, g, state, group):
        summed(state, g)
        p.sub_(g, alpha=group["lr"])

    return by(update)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.EFFECTIVE_RATE, value=True)
def counts_ten_steps():
    """Stops adding to the sum after ten steps."""

    def total(state, g):
        state["steps"] = state.get("steps", 0) + 1
        return summed(state, g) if state["steps"] <= 10 else state["g2"]

    return adagrad(root, total=total)


# ---- the model's state_dict ----
def rebound(step):
    """Return a step that gives each parameter new storage first."""

    def move(self):
        for p in parameters_of(self):
            p.data = p.data.clone()

    return around(step, before=move)


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.STATE_DICT, value=True)
def sgd_gives_parameters_new_storage():
    """Writes p − lr·g to new storage, so that an earlier state_dict keeps the old values."""
    return rebound(sgd_step)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.STATE_DICT, value=True)
def adagrad_gives_parameters_new_storage():
    """Writes the new values to new storage, so that an earlier state_dict keeps the old ones."""
    return rebound(adagrad_step)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.STATE_DICT, value=True)
def moves_nothing():
    """Adds up squares, and moves no parameter."""
    return by(lambda p, g, state, group: summed(state, g))


@mutant("torch.nn.Module.state_dict", caught_by=optimizer.STATE_DICT)
def state_dict_copies(self, *args, **kwargs):
    """Returns copies, as the notes say."""
    return {name: tensor.clone() for name, tensor in module_state(self, *args, **kwargs).items()}


# ---- zero_grad ----
@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ZERO_GRAD, value=True)
def keeps_the_last_gradient():
    """Saves the gradient in the state, so that zero_grad cannot free its memory."""

    def update(p, g, state, group):
        p.sub_(group["lr"] * g / root(summed(state, g), group))
        state["last"] = g

    return by(update)


@mutant("impl.optimizer.AdaGrad.zero_grad", caught_by=optimizer.ZERO_GRAD)
def zero_grad_does_nothing(self, set_to_none=True):
    """Leaves the gradients as they are."""


@mutant("impl.optimizer.SGD.zero_grad", caught_by=optimizer.ZERO_GRAD)
def always_fills_with_zeros(self, set_to_none=True):
    """Makes zeros of the gradients, and frees nothing."""
    zero_grad(self, set_to_none=False)


@mutant("impl.optimizer.SGD.zero_grad", caught_by=optimizer.ZERO_GRAD)
def always_frees(self, set_to_none=True):
    """Frees the gradients where zeros are asked for."""
    zero_grad(self)


@mutant("impl.optimizer.AdaGrad.zero_grad", caught_by=optimizer.ZERO_GRAD)
def fills_with_zeros_by_default(self, set_to_none=False):
    """Fills with zeros unless set_to_none=True is given."""
    zero_grad(self, set_to_none)


@mutant("impl.optimizer.AdaGrad.zero_grad", caught_by=optimizer.ZERO_GRAD)
def frees_the_first_group(self, set_to_none=True):
    """Leaves the gradients of all groups but the first."""
    for p in self.param_groups[0]["params"]:
        if p.grad is not None:
            p.grad = None if set_to_none else p.grad.zero_()


@mutant("impl.optimizer.AdaGrad.zero_grad", caught_by=optimizer.ZERO_GRAD)
def keeps_old_gradients(self, set_to_none=True):
    """Keeps the gradients in the optimizer, so that nothing is freed."""
    self.__dict__.setdefault("old", []).append([p.grad for p in parameters_of(self)])
    zero_grad(self, set_to_none)


@mutant("impl.optimizer.SGD.zero_grad", caught_by=optimizer.ZERO_GRAD)
def makes_new_zeros(self, set_to_none=True):
    """Replaces each gradient by a new tensor of zeros."""
    for p in parameters_of(self):
        if p.grad is not None:
            p.grad = None if set_to_none else torch.zeros_like(p)


@mutant("impl.optimizer.SGD.zero_grad", caught_by=optimizer.ZERO_GRAD)
def multiplies_by_zero(self, set_to_none=True):
    """Multiplies gradients by 0, which makes NaN of infinity."""
    for parameter in parameters_of(self):
        if parameter.grad is not None:
            parameter.grad = None if set_to_none else parameter.grad.mul_(0)


@mutant("impl.optimizer.SGD.zero_grad", caught_by=optimizer.ZERO_GRAD)
def gives_zeros_to_all(self, set_to_none=True):
    """Makes zeros for parameters without a gradient, too."""
    zero_grad(self, set_to_none)
    for p in parameters_of(self):
        if not set_to_none and p.grad is None:
            p.grad = torch.zeros_like(p)


# ---- unusual, and right ----
@twin("impl.optimizer.AdaGrad.step", value=True)
def steps_all_at_once():
    """Steps all parameters of a group at once."""

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            if any(p.is_complex() or p.grad.is_sparse for p in moved):
                raise TypeError("no complex numbers, and no sparse gradients")
            gradients = [p.grad for p in moved]
            for p in moved:
                self.state[p].setdefault("g2", torch.zeros_like(p))
            sums = [self.state[p]["g2"] for p in moved]
            if moved:
                torch._foreach_addcmul_(sums, gradients, gradients)
                roots = torch._foreach_add(sums, group["eps"])
                torch._foreach_sqrt_(roots)
                torch._foreach_addcdiv_(moved, gradients, roots, -group["lr"])
        return loss

    return step


@twin("impl.optimizer.AdaGrad")
class SumsFromTheStart(AdaGrad):
    """Creates the sums when parameters are added."""

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            self.state[p]["g2"] = torch.zeros_like(p, memory_format=torch.preserve_format)


@twin("impl.optimizer.AdaGrad")
class CountsItsSteps(AdaGrad):
    """Keeps the number of steps in its state as well, and an option of its own."""

    def __init__(self, params, lr=0.01, eps=1e-5, *, loud=False):
        super().__init__(params, lr=lr, eps=eps)
        for group in self.param_groups:
            group.setdefault("loud", loud)

    def step(self, closure=None):
        loss = super().step(closure)
        for p in parameters_of(self):
            if p.grad is not None:
                self.state[p]["step"] = torch.as_tensor(self.state[p].get("step", 0)) + 1
        return loss


@twin("impl.optimizer.AdaGrad.step", value=True)
def multiplies_by_the_reciprocal_root():
    """Multiplies lr·g by 1/√(G + ε)."""
    return by(lambda p, g, state, group: p.sub_(group["lr"] * g * (summed(state, g) + group["eps"]).rsqrt()))


@twin("impl.optimizer.AdaGrad.step", value=True)
def raises_to_minus_a_half():
    """Raises G + ε to the power −½, and multiplies by lr last."""
    return by(lambda p, g, state, group: p.sub_(g * (summed(state, g) + group["eps"]).pow(-0.5) * group["lr"]))


@twin("impl.optimizer.AdaGrad.step", value=True)
def moves_data():
    """Computes on .data, with gradients enabled, and makes a new sum in each step."""

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.is_sparse or torch.is_complex(p):
                    raise ValueError("Sparse gradients and complex parameters are not supported")
                g = p.grad.data
                state = self.state[p]
                state["g2"] = state.get("g2", torch.zeros_like(g)) + torch.square(g)
                p.data -= group["lr"] * g / torch.sqrt(state["g2"] + group["eps"])
        return loss

    return step


@twin("impl.optimizer.AdaGrad.step", value=True)
def computes_in_float64():
    """Computes a step in float64 and rounds once."""

    def update(p, g, state, group):
        g2 = summed(state, g)
        move = group["lr"] * g.double() / (g2.double() + group["eps"]).sqrt()
        p.copy_((p.double() - move).to(p.dtype))

    return by(update)


@twin("impl.optimizer.AdaGrad.step", value=True)
def sums_in_float32():
    """Keeps the sums of 16-bit parameters in float32."""

    def update(p, g, state, group):
        wide = torch.promote_types(p.dtype, torch.float32)
        g2 = summed(state, g.to(wide))
        p.sub_((group["lr"] * g.to(wide) / (g2 + group["eps"]).sqrt()).to(p.dtype))

    return by(update)


@twin("impl.optimizer.AdaGrad")
class LooksAtLaterGroupsToo(AdaGrad):
    """Refuses wrong options and complex parameters as soon as it is given them."""

    def add_param_group(self, param_group):
        for name in ("lr", "eps"):
            if not 0 <= param_group.get(name, self.defaults[name]) < math.inf:
                raise ValueError(f"{name} is wrong")
        super().add_param_group(param_group)
        if any(p.is_complex() for p in self.param_groups[-1]["params"]):
            raise ValueError("complex parameters")


@twin("impl.optimizer.AdaGrad.step", value=True)
def skips_gradients_that_are_all_zero():
    """Does nothing for a parameter whose gradient is 0 everywhere."""

    def update(p, g, state, group):
        if g.any():
            p.sub_(group["lr"] * g / root(summed(state, g), group))

    return by(update)


@twin("impl.optimizer.AdaGrad.step", value=True)
def takes_the_hypotenuse():
    """Divides by the hypotenuse of √G and √ε."""
    return adagrad(lambda g2, group: torch.hypot(g2.sqrt(), torch.full_like(g2, group["eps"]).sqrt()))


@twin("impl.optimizer.SGD.step", value=True)
def adds_the_negative():
    """Adds −lr·g."""
    return by(lambda p, g, state, group: p.add_(-group["lr"] * g))


@twin("impl.optimizer.SGD.step", value=True)
def steps_from_the_last():
    """Steps groups and parameters in reverse order."""

    def step(self, closure=None):
        def turn():
            self.param_groups.reverse()
            for group in self.param_groups:
                group["params"].reverse()

        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        turn()
        sgd_step(self)
        turn()
        return loss if closure is not None else None

    return step


@twin("impl.optimizer.SGD")
class WithManyOptions(SGD):
    """Accepts an extra option, and counts its steps in the state."""

    def __init__(self, params, lr=0.01, *, maximize=False):
        super().__init__(params, lr=lr)
        self.defaults["maximize"] = maximize

    def step(self, closure=None):
        loss = super().step(closure)
        for p in parameters_of(self):
            if p.grad is not None:
                self.state[p]["steps"] = self.state[p].get("steps", 0) + 1
        return loss


@twin("impl.optimizer.SGD.zero_grad")
def drops_gradients_itself(self, set_to_none=True):
    """Drops each gradient itself, without torch's zero_grad."""
    for group in self.param_groups:
        for p in group["params"]:
            if p.grad is not None and not set_to_none:
                p.grad.fill_(0)
            elif p.grad is not None:
                p.grad = None


# ---- look-alikes ----
@mutant("impl.optimizer.AdaGrad", caught_by=(optimizer.ADAGRAD, optimizer.ACCUMULATOR))
class SharesSumsByShape(AdaGrad):
    """Shares one sum among all parameters of a shape and dtype."""

    @torch.no_grad()
    def step(self, closure=None):
        sums = self.__dict__.setdefault("sums", {})
        for p in parameters_of(self):
            if p.grad is not None:
                zeros = self.state[p].get("g2", torch.zeros_like(p))
                self.state[p]["g2"] = sums.setdefault((p.shape, p.dtype), zeros)
        return super().step(closure)


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.ADAGRAD)
class LoadsSumsByShape(AdaGrad):
    """Gives each parameter the first loaded sum of its shape and dtype, instead of its own."""

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        first = {}
        for p in parameters_of(self):
            if "g2" in self.state[p]:
                g2 = first.setdefault((p.shape, p.dtype), self.state[p]["g2"])
                self.state[p]["g2"] = g2.clone()


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.ADAGRAD)
class LoadsOneSumForEqualOnes(AdaGrad):
    """Lets parameters share one sum where their loaded sums are equal."""

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        sums = []
        for p in parameters_of(self):
            if "g2" in self.state[p]:
                g2 = self.state[p]["g2"]
                alike = [other for other in sums if other.dtype == g2.dtype and torch.equal(other, g2)]
                self.state[p]["g2"] = alike[0] if alike else g2
                sums.append(self.state[p]["g2"])


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.GROUPS, value=True)
def keeps_the_sum_with_the_parameter():
    """Saves the sum as an attribute of the parameter, so that a second optimizer uses it too."""

    def total(p, state, g):
        if not hasattr(p, "squares"):
            p.squares = state.get("g2", torch.zeros_like(p))
        p.squares = state["g2"] = p.squares + g * g
        return state["g2"]

    def update(p, g, state, group):
        p.sub_(group["lr"] * g / root(total(p, state, g), group))

    return by(update)


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def steps_equal_parameters_once():
    """Steps only one of several parameters that have equal values."""

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = None if closure is None else closure()
        seen = []
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and (p.grad.is_sparse or p.is_complex()):
                    raise RuntimeError("sparse and complex")
                if p.grad is not None and not any(p.dtype == q.dtype and torch.equal(p, q) for q in seen):
                    seen.append(p.clone())
                    p.sub_(group["lr"] * p.grad)
        return loss

    return step


@mutant("impl.optimizer.SGD.step", caught_by=optimizer.GROUPS, value=True)
def steps_equal_gradients_once():
    """Steps only one of several parameters that have the same gradient object."""

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = None if closure is None else closure()
        seen = set()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and (p.grad.is_sparse or p.is_complex()):
                    raise RuntimeError("sparse and complex")
                if p.grad is not None and id(p.grad) not in seen:
                    seen.add(id(p.grad))
                    p.sub_(group["lr"] * p.grad)
        return loss

    return step


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.GROUPS, value=True)
def finds_groups_by_their_rate():
    """Indexes its groups by learning rate, so that of groups with the same rate only the last one is stepped."""

    def step(self, closure=None):
        groups = self.param_groups
        self.param_groups = list({group["lr"]: group for group in groups}.values())
        try:
            return adagrad_step(self, closure)
        finally:
            self.param_groups = groups

    return step


DEFAULTS = {}


@mutant("impl.optimizer.SGD", caught_by=optimizer.GROUPS)
class SharesDefaults(SGD):
    """Shares the default options among all optimizers of the class."""

    def __init__(self, params, lr=0.01):
        super().__init__(params, lr)
        DEFAULTS.update(self.defaults)
        self.defaults = DEFAULTS


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def keeps_squares_of_a_gradient():
    """Caches squares by the gradient's address, where a later gradient may lie."""
    squares = {}

    def total(state, g):
        square = squares.setdefault((g.data_ptr(), g.shape, g.dtype), g * g)
        state["g2"] = state["g2"] + square if "g2" in state else square.clone()
        return state["g2"]

    return adagrad(root, total=total)


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.GROUPS, value=True)
def finds_sums_by_number():
    """Numbers the sums by the gradients that exist, so that the numbers shift where one is missing."""

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = None if closure is None else closure()
        learning = [(p, group) for group in self.param_groups for p in group["params"] if p.grad is not None]
        sums = [state["g2"] for state in self.state.values() if "g2" in state]
        for number, (p, group) in enumerate(learning):
            if p.grad.is_sparse or p.is_complex():
                raise RuntimeError("sparse and complex")
            if number < len(sums) and sums[number].shape == p.shape and sums[number].dtype == p.dtype:
                self.state[p]["g2"] = sums[number]
            p.sub_(group["lr"] * p.grad / root(summed(self.state[p], p.grad), group))
        return loss

    return step


@mutant("impl.optimizer.SGD.zero_grad", caught_by=optimizer.ZERO_GRAD)
def clears_each_address_once(self, set_to_none=True):
    """Clears one parameter per address; all empty parameters have the same address."""
    for p in {p.data_ptr(): p for p in parameters_of(self)}.values():
        if p.grad is not None:
            if set_to_none:
                p.grad = None
            else:
                p.grad.zero_()


@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.ADAGRAD, value=True)
def keeps_sums_by_address():
    """Indexes sums by the parameter's address, which empty parameters share."""

    def step(self, closure=None):
        sums = {}
        for p in parameters_of(self):
            if p.grad is not None:
                zeros = self.state[p].get("g2", torch.zeros_like(p))
                self.state[p]["g2"] = sums.setdefault((p.data_ptr(), p.dtype), zeros)
        return adagrad_step(self, closure)

    return step


# ---- schedulers, and options and state that users add ----
@mutant("impl.optimizer.AdaGrad.step", caught_by=optimizer.GROUPS, value=True)
def steps_by_the_first_rates():
    """Uses `initial_lr` where a scheduler has set one."""

    def step(self, closure=None):
        rates = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            group["lr"] = group.get("initial_lr", group["lr"])
        loss = adagrad_step(self, closure)
        for group, rate in zip(self.param_groups, rates, strict=True):
            group["lr"] = rate
        return loss

    return step


@mutant("impl.optimizer.SGD.zero_grad", caught_by=optimizer.ZERO_GRAD)
def clears_what_learns(self, set_to_none=True):
    """Leaves the gradients of frozen parameters."""
    for p in parameters_of(self):
        if p.requires_grad and p.grad is not None:
            if set_to_none:
                p.grad = None
            else:
                p.grad.zero_()


@mutant("impl.optimizer.AdaGrad.zero_grad", caught_by=optimizer.ZERO_GRAD)
def clears_what_has_state(self, set_to_none=True):
    """Leaves the gradients of parameters that have no sum yet."""
    for p in list(self.state):
        if p.grad is not None:
            if set_to_none:
                p.grad = None
            else:
                p.grad.zero_()


@mutant("impl.optimizer.SGD", caught_by=optimizer.GROUPS)
class DropsOptionsOfOnesOwn(SGD):
    """Drops the options of a group that it does not know."""

    def add_param_group(self, param_group):
        super().add_param_group({name: value for name, value in param_group.items() if name in ("params", "lr")})


@mutant("impl.optimizer.AdaGrad", caught_by=optimizer.ADAGRAD)
class LoadsOptionsItKnows(AdaGrad):
    """Drops the options of a loaded group that it does not know, such as those of schedulers."""

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            for name in set(group) - {"params", "lr", "eps"}:
                del group[name]


@twin("impl.optimizer.AdaGrad")
class StacksParametersThatAreAlike(AdaGrad):
    """Steps parameters of one shape and dtype together, stacked, each with its own sum and its own options."""

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = None if closure is None else closure()
        buckets = {}
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if p.is_complex() or p.grad.is_sparse:
                        raise RuntimeError("sparse and complex")
                    buckets.setdefault((p.shape, p.dtype), []).append((p, group))
        for bucket in buckets.values():
            old = [self.state[p].get("g2", torch.zeros_like(p)) for p, _ in bucket]
            g, g2 = torch.stack([p.grad for p, _ in bucket]), torch.stack(old)
            g2 = g2 + g * g
            roots = torch.stack([total + group["eps"] for total, (_, group) in zip(g2, bucket, strict=True)]).sqrt()
            for (p, group), total, move in zip(bucket, g2, g / roots, strict=True):
                self.state[p]["g2"] = total.clone()
                p.sub_(move, alpha=group["lr"])
        return loss


@twin("impl.optimizer.AdaGrad")
class KeepsSumsUnderIds(AdaGrad):
    """Keeps the sums in a dictionary by the parameter's id, and the same tensors in its state."""

    @torch.no_grad()
    def step(self, closure=None):
        sums = self.__dict__.setdefault("sums", {})
        for p in parameters_of(self):
            if id(p) in sums and sums[id(p)][0] is p and "g2" not in self.state[p]:
                self.state[p]["g2"] = sums[id(p)][1]
        loss = super().step(closure)
        sums.update({id(p): (p, self.state[p]["g2"]) for p in parameters_of(self) if "g2" in self.state[p]})
        return loss


@twin("impl.optimizer.SGD")
class BorrowsTorchs(torch.optim.SGD):
    """Is torch's own SGD, with foreach=True."""

    def __init__(self, params, lr=0.01):
        super().__init__(params, lr=lr, foreach=True)
        for group in [*self.param_groups]:
            if group["lr"] < 0:
                raise ValueError("negative")
