"""Contract 2: a model is handed back exactly as it was: when all went well, on bad input, when the model raises."""

import copy
import random

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface

import attnfaith as af
from tests.helpers.comparing import PRESETS, families, inputs_of, keeps_of, model_of, orders_of

HOOKS = """_forward_hooks _forward_pre_hooks _backward_hooks _backward_pre_hooks _forward_hooks_with_kwargs
_forward_pre_hooks_with_kwargs _forward_hooks_always_called _state_dict_hooks _load_state_dict_pre_hooks""".split()
MODES = ["fine", "bad input", "the model raises"]


class Snapshot:
    """Everything about a model and its surroundings that a cut might disturb."""

    def __init__(self, model):
        modules = dict(model.named_modules())
        configs = {id(module.config): module.config for module in modules.values() if hasattr(module, "config")}
        self.seen = {
            "hooks": {name: [list(getattr(module, kind)) for kind in HOOKS] for name, module in modules.items()},
            "attributes": {name: {key: id(value) for key, value in vars(m).items()} for name, m in modules.items()},
            "forward": [name for name, module in modules.items() if "forward" in vars(module)],
            "training": {name: module.training for name, module in modules.items()},
            "requires_grad": {name: value.requires_grad for name, value in model.named_parameters()},
            "grad": {name: value.grad is None for name, value in model.named_parameters()},
            "graph": {name: value.grad_fn is None for name, value in model.named_parameters()},
            "configs": [copy.deepcopy(config.to_dict()) for config in configs.values()],
            "implementations": [getattr(config, "_attn_implementation", None) for config in configs.values()],
            "registries": (dict(AttentionInterface._global_mapping), dict(AttentionMaskInterface._global_mapping)),
            "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()),
            "random": (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]),  # noqa: NPY002
            "function modes": torch._C._len_torch_function_stack(),
        }
        self.torch_random = torch.random.get_rng_state()
        self.values = {name: value.clone() for name, value in model.state_dict().items()}

    def __eq__(self, other):
        same = self.values.keys() == other.values.keys()
        return (
            {name: self.seen[name] == other.seen[name] for name in self.seen} == dict.fromkeys(self.seen, True)
            and torch.equal(self.torch_random, other.torch_random)
            and same
            and all(torch.equal(value, other.values[name]) for name, value in self.values.items())
        )


def assert_untouched(model, before):
    after = Snapshot(model)
    for name, value in before.seen.items():
        assert after.seen[name] == value, f"{name} changed"
    assert torch.equal(after.torch_random, before.torch_random), "torch's random state changed"
    assert after == before, "weights changed"


def used_model(family):
    """As a user may have it: part of it training, one parameter frozen, a hook of the user's own."""
    model = model_of(family)
    modules = list(model.modules())
    for module in modules[::3]:
        module.training = True
    next(model.parameters()).requires_grad_(False)
    modules[-1].register_forward_hook(lambda module, args, output: None)
    return model


class TroubleError(Exception):
    """Raised in the middle of the model."""


def last_called(model):
    """The module without children that a forward pass calls last."""
    called = []
    handles = [
        module.register_forward_pre_hook(lambda module, args: called.append(module))
        for module in model.modules()
        if not list(module.children())
    ]
    with torch.no_grad():
        model(**inputs_of(model))
    for handle in handles:
        handle.remove()
    return called[-1]


def raise_on(module, after=0):
    """Make a module raise at its next call but ``after``."""
    left = [after]

    def trouble(module, args):
        left[0] -= 1
        if left[0] < 0:
            raise TroubleError

    return module.register_forward_pre_hook(trouble)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", families())
def test_cut_leaves_nothing_behind(family, mode):
    model = used_model(family)
    if mode == "the model raises":  # at the first, second, ... of the forward passes of the self-check
        last = last_called(model)
        for after in range(5):
            handle = raise_on(last, after)
            before = Snapshot(model)
            if family in PRESETS and after > 1:
                break  # their check takes two
            with pytest.raises((TroubleError, af.AttnFaithError)):
                af.cut(model)
            assert_untouched(model, before)
            handle.remove()
        return
    before = Snapshot(model)
    if mode == "fine":
        af.cut(model)
    else:
        with pytest.raises(af.InputError):
            af.cut(model, example={"input_ids": torch.zeros(1, 5)})
        if family not in PRESETS:
            assert_untouched(model, before)
            with pytest.raises(af.InputError):
                af.cut(model, layer=99)
    assert_untouched(model, before)


@pytest.mark.parametrize("family", families())
def test_cutting_a_model_in_evaluation_mode_leaves_nothing_behind(family):
    """It is called itself once, to compare with."""
    model = model_of(family)
    with torch.no_grad():
        model(**inputs_of(model))  # what a first forward pass leaves is the model's own affair
    before = Snapshot(model)
    af.cut(model)
    assert_untouched(model, before)


LOOKED_AT = []
STAYS = ("hooks", "attributes", "forward", "training", "requires_grad", "grad", "graph", "configs", "implementations")


@pytest.mark.parametrize("family", families())
def test_the_owners_model_is_as_it_was_while_calls_last(family):
    """Looked at from inside the forward passes, where any other thread might look."""
    model = used_model(family)
    inputs, seen = inputs_of(model), []
    leaf = [module for module in model.modules() if not list(module.children())][-1]
    LOOKED_AT[:] = [model]  # a closure over the model would be a closure over the copy there

    def look(module, args, output):
        with torch._C.DisableTorchFunction():
            seen.append((Snapshot(LOOKED_AT[0]), module.training))

    leaf.register_forward_hook(look)
    before = Snapshot(model)
    cut = af.cut(model)
    capture = cut.capture(**inputs)
    cut.rerun(capture, keep=keeps_of(capture))
    cut.rerun(capture, weights=capture.weights.unsqueeze(1).clone().requires_grad_())
    cut.prefixes(capture, orders_of(capture))
    cut.without_each(capture)
    if family not in PRESETS:
        assert seen, "nobody looked"
    for inside, training in seen:
        assert not training, "it ran in training mode"
        for name in STAYS:
            assert inside.seen[name] == before.seen[name], f"{name} changed"
        assert torch.equal(inside.torch_random, before.torch_random)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", families())
def test_calls_leave_nothing_behind(family, mode):
    model = used_model(family)
    cut = af.cut(model)
    inputs = inputs_of(model)
    capture = cut.capture(**inputs)
    keep, order, weights = keeps_of(capture), orders_of(capture), capture.weights.unsqueeze(1).clone()
    if mode == "bad input":
        inputs["attention_mask"] = inputs["attention_mask"][:, :-1]
        keep, order, weights = keep[..., :-1], order.float(), weights.fill_(float("nan"))
    elif mode == "the model raises":
        raise_on(last_called(model))
    calls = {
        "capture": lambda: cut.capture(**inputs),
        "keep": lambda: cut.rerun(capture, keep=keep),
        "weights": lambda: cut.rerun(capture, weights=weights.requires_grad_()),
        "prefixes": lambda: cut.prefixes(capture, order),
    }
    before = Snapshot(model)
    for name, call in calls.items():
        if mode == "fine":
            call()
        elif mode == "bad input":
            with pytest.raises(af.InputError):
                call()
        elif family not in PRESETS:
            with pytest.raises((TroubleError, af.AttnFaithError)):
                call()
        elif name == "capture":  # the rest of their forward pass is arithmetic, without a module that could raise
            with pytest.raises(TroubleError):
                call()
        assert_untouched(model, before)


def test_the_snapshot_notices():
    """Each kind of trace, left on purpose, is found."""

    def hook(model):
        model.classifier.register_forward_hook(lambda *args: None)

    def grad(model):
        model(torch.tensor([[1, 2, 3]])).logits.sum().backward()

    def weight(model):
        model.classifier.weight.data[0, 0] += 1e-7

    traces = [
        hook,
        grad,
        weight,
        lambda model: setattr(model.classifier, "forward", model.classifier.forward),
        lambda model: model.bert.train(),
        lambda model: model.classifier.requires_grad_(False),
        lambda model: setattr(model.config, "num_hidden_layers", 7),
        lambda model: setattr(model.config, "_attn_implementation_internal", "eager"),
        lambda model: torch.rand(1),
        lambda model: random.random(),
        lambda model: np.random.rand(),  # noqa: NPY002
    ]
    for trace in traces:
        model = model_of("bert")
        before = Snapshot(model)
        assert_untouched(model, before)
        trace(model)
        with pytest.raises(AssertionError):
            assert_untouched(model, before)
