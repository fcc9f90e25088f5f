"""Each attention-level method's slow twin: finite differences, loops, the model's own attention, rollout in numpy."""

import copy

import numpy as np
import pytest
import torch

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.tiny_models import tiny_model
from tests.helpers.comparing import inputs_of
from tests.helpers.difference_quotients import FLOAT32, OUTPUTS, also, close, close_of, explained, step_of
from tests.helpers.full_forward import erase_slow
from tests.helpers.methods import FEW_STEPS, alone, ask, in_double, items

pytestmark = FEW_STEPS
TAILS = ["bert", "eurobert", "HANrnn", *also("llama", "gpt2", "t5", "deberta-v2", "FLANrnn", "FLANnoenc")]


class Tail:
    """One text of a batch at the attention level: the number explained, as a function of its weights."""

    def __init__(self, family, text, output, target=None):
        self.done, self.step = in_double(family), step_of(family)
        self.text, self.output, capture = text, output, self.done.capture
        self.cut, self.inputs = self.done.cut, self.done.inputs
        self.weights = capture.weights[text]
        self.exists = torch.ones(len(self.weights)) if capture.groups is None else capture.groups[text]
        self.count = int(capture.mask[text].sum())
        self.items = capture.mask[text].nonzero().flatten().tolist()
        self.target = int(capture.logits[text].argmax()) if target is None else target

    def __call__(self, weights):
        edit = self.done.capture.weights.unsqueeze(1).clone()
        edit[self.text, 0] = weights
        return explained(self.cut.rerun(self.done.capture, weights=edit)[self.text, 0], self.target, self.output)

    def erased(self, removed):
        keep = [index in self.items and index not in removed for index in range(self.weights.shape[1])]
        return self(torch.tensor([erase_slow(row.tolist(), keep) for row in self.weights], dtype=torch.float64))

    def along(self, weights, direction):
        """How fast the number changes in a direction."""
        return (self(weights + self.step * direction) - self(weights - self.step * direction)) / (2 * self.step)

    def along_many(self, starts, direction):
        """The same from several weights, which run as the candidates of one call."""
        ends = [start + sign * self.step * direction for start in starts for sign in (1, -1)]
        edit = self.done.capture.weights.unsqueeze(1).repeat(1, len(ends), 1, 1)
        edit[self.text] = torch.stack(ends)
        rows = self.cut.rerun(self.done.capture, weights=edit)[self.text]
        values = [float(explained(row, self.target, self.output)) for row in rows]
        return [(ahead - behind) / (2 * self.step) for ahead, behind in zip(values[::2], values[1::2], strict=True)]

    def at_item(self, item, of=None):
        """A direction: all distributions at one item, or ``of`` there."""
        direction = torch.zeros_like(self.weights)
        direction[:, item] = self.exists.to(self.weights) if of is None else of[:, item]
        return direction

    def scores(self, name, **settings):
        target = [None] * len(self.done.capture.logits)
        target[self.text] = self.target
        _, scores = ask(self.cut, "attention", name, self.inputs, target=target, output=self.output, **settings)
        return scores.values[self.text][self.items]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("text", [0, 1])
@pytest.mark.parametrize("family", TAILS)
def test_gradients_of_the_attention(family, text, output):
    if output == "log_odds" and family in FLOAT32:
        pytest.skip("the coarse steps would cross kinks")
    tail = Tail(family, text, output, target=1)
    w = tail.weights
    close(tail.scores("gradient"), [tail.along(w, tail.at_item(i)) for i in tail.items], close_of(family))
    product = [tail.along(w, tail.at_item(i, w)) for i in tail.items]
    close(tail.scores("gradient_x_attention"), product, close_of(family))
    points = [(step + 0.5) / 40 for step in range(40)]  # the midpoint rule, literally
    path = [np.mean(tail.along_many([point * w for point in points], tail.at_item(i, w))) for i in tail.items]
    close(
        tail.scores("integrated_gradients", steps=30), path, 2e-2 if output == "log_odds" else 3e-3
    )  # log-odds may have kinks


@pytest.mark.parametrize("family", TAILS)
def test_the_integrated_path_of_the_attention_is_exact_enough(family):
    """Simpson's rule on many points, where the midpoint rule above is coarse."""
    tail = Tail(family, 1, "logit")
    points, w = np.linspace(0, 1, 41), tail.weights
    parts = np.array([1, *([4, 2] * 19), 4, 1]) / 120
    # w = 0 is not far from where a rectified or normalised tail turns: both sides of it are smooth here
    path = [
        sum(p * tail.along(at * w, tail.at_item(i, w)) for at, p in zip(points, parts, strict=True)) for i in tail.items
    ]
    close(tail.scores("integrated_gradients", steps=60), path, max(1e-3, close_of(family)))


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("family", TAILS)
def test_occlusion_of_the_attention(family, output):
    for text in (0, 1):
        tail = Tail(family, text, output, target=2)
        whole = tail(tail.weights)
        close(tail.scores("occlusion"), [whole - tail.erased({i}) for i in tail.items], 1e-6)


@pytest.mark.parametrize("family", TAILS)
def test_greedy_takes_what_lowers_the_margin_most(family):
    for text in (0, 1):
        tail = Tail(family, text, "log_odds")  # of the prediction, whatever the target
        removed, expected = [], {}
        for index in range(tail.count):
            left = [item for item in tail.items if item not in removed]
            best = min(left, key=lambda item: tail.erased({*removed, item}))
            expected[best] = tail.count - index
            removed.append(best)
        other = Tail(family, text, "probability", target=(tail.target + 1) % 3)
        for asked in (tail, other):
            assert asked.scores("greedy").tolist() == [expected[item] for item in tail.items]


def test_greedy_gives_what_changes_nothing_the_same_place_in_every_batch():
    """Of items outside the window of the final attention, rounding would prefer one alone and another in a batch."""
    base = tiny_model("modernbert", dtype=torch.float64)
    config = copy.deepcopy(base.config)
    config.layer_types, config.local_attention = ["full_attention", "sliding_attention"], 8
    model = type(base)(config).double().eval()
    model.load_state_dict(base.state_dict(), strict=False)
    cut = af.cut(model)
    for seed in range(4):
        inputs = inputs_of(model, lengths=(9, 13, 17), seed=seed)
        request, together = ask(cut, "attention", "greedy", inputs)
        outside = (request.capture.weights == 0).all(1) & request.capture.mask
        assert outside.sum(1).tolist() == [4, 8, 12]
        for text in range(3):
            assert torch.equal(items(together, text), items(ask(cut, "attention", "greedy", alone(inputs, text))[1], 0))
            assert together.values[text][outside[text]].diff().unique().tolist() == [-1], "neighbours, the first first"


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "eurobert"])
def test_attention_is_the_model_s_own(family):
    """Against the attentions that Transformers' eager implementation puts out."""
    model = tiny_model(family, dtype=torch.float64, attn_implementation="eager")
    inputs = in_double(family).inputs
    done = in_double(family)
    got = ask(done.cut, "attention", "attention", inputs)[1].values
    every = ask(af.cut(model), "input", "attention", inputs, layer="final")[1].values
    assert torch.allclose(got, every, atol=1e-6)
    with torch.no_grad():
        layers = model(**inputs, output_attentions=True).attentions
    for text, length in enumerate(inputs["attention_mask"].sum(-1).tolist()):
        rows = {"bert": [0], "eurobert": range(length)}.get(family, [length - 1])
        expected = np.mean([[layers[-1][text, head, row].tolist() for row in rows] for head in range(4)], axis=(0, 1))
        close(got[text], expected, 1e-6)
        rolled = np.eye(length)
        for layer in layers:
            matrix = layer[text, :, :length, :length].numpy().mean(0) + np.eye(length)
            rolled = np.array([row / row.sum() for row in matrix]) @ rolled
        close(ask(done.cut, "input", "rollout", inputs)[1].values[text, :length], rolled[list(rows)].mean(0), 1e-6)
        if family != "eurobert":
            means = np.mean([layer[text, :, rows[0]].numpy().mean(0) for layer in layers], axis=0)
            mean = Attributor(model, method="attention", layer="mean").score(inputs)[1].values[text]
            close(mean, means, 1e-6)


def test_a_han_s_word_weighs_its_sentence_times_itself():
    done = in_double("HANrnn")
    with torch.no_grad():
        seen = done.model.attend(**done.inputs)
    got = ask(done.cut, "input", "attention", done.inputs)[1].values
    for text, length in enumerate(done.inputs["attention_mask"].sum(-1).tolist()):
        for index in range(length):
            inside = [n for n, (a, b) in enumerate(seen.spans[text].tolist()) if a <= index < b]
            expected = sum(float(seen.weights[text, n] * seen.word_weights[text, index]) for n in inside)
            assert float(got[text, index]) == pytest.approx(expected, abs=1e-15)
        assert float(got[text].sum()) == pytest.approx(1, abs=1e-12)
