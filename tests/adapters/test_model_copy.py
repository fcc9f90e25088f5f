"""The copy that shares weights: it follows the owner's model, and changes nothing of it, in any thread."""

import contextlib
import copy
import functools
import gc
import threading
import types
import weakref

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.adapters.inference_state import inference_state
from attnfaith.adapters.model_copy import shared_copy
from attnfaith.tiny_models import tiny_model
from tests.adapters.test_inference_state import numbers, run_together
from tests.helpers.comparing import assert_close, families, inputs_of, keeps_of, model_of, orders_of


def own_logits(model, inputs):
    with torch.no_grad():
        return copy.deepcopy(model).eval()(**inputs).logits


@pytest.mark.parametrize("family", families())
def test_the_copy_shares_the_memory_of_weights_and_no_module(family):
    model = model_of(family).train()
    with inference_state(model) as shared:
        assert shared is not model
        mine, theirs = dict(shared.named_parameters()), dict(model.named_parameters())
        assert mine.keys() == theirs.keys()
        for name, parameter in mine.items():
            assert parameter.data_ptr() == theirs[name].data_ptr()
            assert not parameter.requires_grad
            assert parameter is not theirs[name]
        owners = {id(module) for module in model.modules()} | {id(model.config)}
        assert not owners & ({id(module) for module in shared.modules()} | {id(shared.config)})
        assert not any(module.training for module in shared.modules())
    assert all(module.training for module in model.modules())


def change_weight(model):
    with torch.no_grad():
        model.classifier.weight.mul_(-2)


def replace_parameter(model):
    model.classifier.weight = nn.Parameter(-2 * model.classifier.weight.detach())


def replace_data(model):
    model.classifier.weight.data = -2 * model.classifier.weight.data


def assign_state(model):
    model.load_state_dict({name: 1.1 * value for name, value in model.state_dict().items()}, assign=True)


def load_state(model):
    state = {name: 1.1 * value if value.is_floating_point() else value for name, value in model.state_dict().items()}
    model.load_state_dict(state)


def change_dtype(model):
    change_weight(model.double())


def swap_module(model):
    torch.manual_seed(5)
    model.bert.encoder.layer[0].output.dense = nn.Linear(64, 32)


def add_hook(model):
    model.bert.encoder.layer[0].register_forward_hook(lambda module, args, output: 2 * output)


def patch(model):
    layer = model.bert.encoder.layer[0].intermediate
    original = layer.forward
    layer.forward = lambda *args: 2 * original(*args)


def wrap(model):
    """As accelerate does: the old bound method on the module, and a partial function over the module."""
    layer = model.bert.encoder.layer[0].intermediate
    layer._old_forward = layer.forward
    layer.forward = functools.partial(lambda module, *args: 3 * module._old_forward(*args), layer)


def other_activation(model):
    model.bert.encoder.layer[0].intermediate.intermediate_act_fn = nn.ReLU()


CHANGES = [
    *(change_weight, replace_parameter, replace_data, assign_state, load_state, change_dtype, swap_module, add_hook),
    *(patch, wrap, other_activation),
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_copy_follows_changes_of_the_owners_model(change):
    model = tiny_model("bert")
    inputs = inputs_of(model)
    cut = af.cut(model)
    before = cut.capture(**inputs).logits
    change(model)
    after = cut.capture(**inputs)
    expected = own_logits(model, inputs)
    assert (expected - before).abs().max() > 1e-2 * before.abs().max(), "the change changes nothing"
    assert_close(after.logits, expected, 1e-6)
    fresh = af.cut(copy.deepcopy(model)).capture(**inputs)
    assert_close(
        cut.rerun(after, keep=keeps_of(after)), af.cut(copy.deepcopy(model)).rerun(fresh, keep=keeps_of(fresh)), 1e-5
    )


def test_a_configuration_changed_by_its_owner():
    model = tiny_model("gpt2")
    model.config.pad_token_id = None
    cut = af.cut(model)
    inputs = inputs_of(tiny_model("gpt2"))
    with pytest.raises(af.InputError, match="pad_token_id"):
        cut.capture(**inputs)
    model.config.pad_token_id = 1
    assert_close(cut.capture(**inputs).logits, own_logits(model, inputs), 1e-6)


class Odd(nn.Module):
    """Reaches its parts in every way but through the tree of modules."""

    def __init__(self, way):
        super().__init__()
        self.embed, self.score, self.drop = nn.Embedding(30, 8), nn.Linear(8, 1), nn.Dropout(0.9)
        self.decide = nn.Linear(8, 3)
        decide, drop = self.decide, self.drop

        def through(states):
            return decide(drop(states))

        self.last = {
            "closure": through,
            "method": self._last,
            "partial": functools.partial(Odd._last, self),
            "list": [drop, decide],
            "object": types.SimpleNamespace(drop=drop, decide=decide),
            "reference": (weakref.ref(drop), weakref.ref(decide)),
            "global": lambda states: GLOBAL[0].decide(GLOBAL[0].drop(states)),
            "parametrised": through,
            "weight norm": through,
        }[way]
        if way == "parametrised":
            nn.utils.parametrizations.weight_norm(self.decide)
        if way == "weight norm":
            with pytest.warns(FutureWarning):
                nn.utils.weight_norm(self.decide)
        GLOBAL[:] = [self]

    def _last(self, states):
        return self.decide(self.drop(states))

    def forward(self, input_ids, attention_mask):
        states = self.embed(input_ids)
        scores = self.score(states).squeeze(-1).masked_fill(attention_mask == 0, -torch.inf)
        mean = (scores.softmax(-1).unsqueeze(1) @ states).squeeze(1)
        last = self.last
        if isinstance(last, types.SimpleNamespace):
            return last.decide(last.drop(mean))
        if isinstance(last, list | tuple):
            drop, decide = (part() if isinstance(part, weakref.ref) else part for part in last)
            return decide(drop(mean))
        return last(mean)


GLOBAL = []
WAYS = ["closure", "method", "partial", "list", "object", "reference", "global", "parametrised", "weight norm"]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_modules_referenced_from_outside_the_module_tree(way, training):
    model = Odd(way).train(training)
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8, 9], [9, 3, 4, 0, 0]])}
    inputs["attention_mask"] = (inputs["input_ids"] != 0).long()
    with torch.no_grad():
        expected = model.eval()(**inputs)
    model.train(training)
    cut = af.cut(model, example=inputs)
    capture = cut.capture(**inputs)
    assert_close(capture.logits, expected, 1e-6)
    weights = capture.weights.unsqueeze(1).clone().requires_grad_()
    cut.rerun(capture, weights=weights).sum().backward()
    assert weights.grad.abs().sum() > 0
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(module.training == training for module in model.modules())
    assert (cut.adapter.model is model) == (way == "global"), "only what no copy can follow is borrowed"


def test_tied_weights_stay_tied():
    model = tiny_model("t5")
    with inference_state(model) as shared:
        assert shared.transformer.shared.weight is shared.transformer.encoder.embed_tokens.weight


def test_a_model_is_freed_with_its_cuts():
    model = tiny_model("bert")
    inputs, gone = inputs_of(model), weakref.ref(model)
    cut = af.cut(model)
    assert shared_copy(model) is shared_copy(cut.adapter.model)
    cut.capture(**inputs)
    del model, cut
    gc.collect()
    assert gone() is None


def train(model, inputs, labels, steps):
    """Losses, and the gradients of the last step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        assert all(module.training for module in model.modules())
        loss = nn.functional.cross_entropy(model(**inputs).logits, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("family", ["bert", "llama", "FLANrnn"])
def test_a_thread_trains_while_others_cut_capture_and_rerun(family):
    """Losses, gradients and weights are those of training alone, to the last bit; the others meet documented errors."""
    model, alone = model_of(family).train(), model_of(family).train()
    for module in [*model.modules(), *alone.modules()]:
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # draws of several threads would come in another order
    inputs, labels = inputs_of(model), torch.tensor([0, 2])
    expected = train(alone, inputs, labels, 60)
    cut, done = af.cut(model), threading.Event()
    captured = []

    def trains():
        try:
            return train(model, inputs, labels, 60)
        finally:
            done.set()

    def watches():
        while not done.is_set():
            capture = cut.capture(**inputs)
            cut.rerun(capture, keep=keeps_of(capture))
            weights = capture.weights.unsqueeze(1).clone().requires_grad_()
            cut.rerun(capture, weights=weights).sum().backward()
            captured.append(capture.logits)

    def cuts():
        while not done.is_set():
            with contextlib.suppress(af.AttnFaithError):  # its weights changed in the middle of a comparison
                numbers(model, inputs)

    losses, gradients = run_together([trains, watches, cuts])[0]
    assert losses[-1] < losses[0]
    assert losses == expected[0]
    assert all(map(torch.equal, gradients, expected[1]))
    assert all(map(torch.equal, model.parameters(), alone.parameters()))
    assert len(captured) > 1
    assert not torch.equal(captured[0], captured[-1]), "the copy did not follow"


def test_seeded_draws_in_another_thread_are_not_disturbed():
    model = tiny_model("bert").train()
    inputs = inputs_of(model)

    def draws():
        torch.manual_seed(7)
        return [torch.rand(3) for _ in range(20_000)]

    expected = draws()
    done = threading.Event()

    def work():
        while not done.is_set():
            numbers(model, inputs)

    def drawn():
        try:
            return draws()
        finally:
            done.set()

    _, got = run_together([work, drawn])
    assert all(map(torch.equal, got, expected))


@pytest.mark.parametrize("family", ["bert", "HANrnn"])
def test_eight_threads_on_one_model_and_one_cut(family):
    model = model_of(family).train()
    cut = af.cut(model)
    batches = [inputs_of(model, seed=seed) for seed in range(8)]
    expected = [numbers(model, batch, cut) for batch in batches]

    def job(index):
        return lambda: [numbers(model, batches[index], cut) for _ in range(10)]

    for position, results in enumerate(run_together([job(index) for index in range(8)])):
        assert all(torch.equal(*pair) for result in results for pair in zip(result, expected[position], strict=True))
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("family", families())
def test_a_model_that_requires_gradients_of_its_inputs(family):
    """As Trainer and PEFT leave models, with checkpointing of activations."""
    model, plain = model_of(family), model_of(family)
    inputs = inputs_of(model)
    expected = numbers(plain, inputs)
    if getattr(model, "supports_gradient_checkpointing", False):
        model.gradient_checkpointing_enable()
    try:
        model.enable_input_require_grads()
        model.eval()(**inputs)
    except (NotImplementedError, RuntimeError, AttributeError) as error:
        pytest.skip(f"its own forward pass fails so: {error}")
    if family == "ctrl":  # it scales its vectors in place, which fails with frozen weights for its owner too
        with pytest.raises(af.UnsupportedModelError, match="in-place"):
            af.cut(model.train())
        return
    cut = af.cut(model.train())
    capture = cut.capture(**inputs)
    for name in ("weights", "logits", "log_weights"):
        assert not getattr(capture, name).requires_grad
    assert not cut.adapter.attended(capture).requires_grad
    got = [*numbers(model, inputs, cut), cut.without_each(capture)]
    assert not any(item.requires_grad for item in got)
    for first, other in zip(got[:-1], expected, strict=True):
        assert_close(first, other, 1e-6)
    assert orders_of(capture).shape == capture.mask.shape


def test_a_container_that_contains_itself_is_copied_once():
    model = model_of("bert")
    model.parts = [model.classifier]
    model.parts.append(model.parts)
    model.same = model.parts
    with inference_state(model) as shared:
        assert shared is not model
        assert shared.parts is shared.same
        assert shared.parts[0] is shared.classifier is not model.classifier
