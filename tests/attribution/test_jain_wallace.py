"""The two measures of Jain & Wallace, against finite differences with recorded weights and against shorter texts."""

from contextlib import ExitStack

import pytest
import torch

import attnfaith as af
from attnfaith.attribution.method import methods
from tests.helpers.comparing import prepared
from tests.helpers.difference_quotients import FLOAT32, step_of
from tests.helpers.full_forward import _answered
from tests.helpers.methods import alone, ask, in_double
from tests.helpers.removal_batches import SIZES, batch_of, model_of, one_of


class Recorded:
    """A model whose attention weights are those of one text, whatever it reads afterwards."""

    def __init__(self, model, inputs):
        self.model, self.inputs, self.weights = model, inputs, None
        self.vectors = model.get_input_embeddings()(inputs["input_ids"]).detach()
        self.weights = self.run(self.vectors)[1]

    def run(self, vectors):
        """The logits of word vectors, and every distribution; from the second time on they are what they were."""
        seen = []

        def kept(with_ids):
            seen.append(with_ids if self.weights is None else self.weights[len(seen)])
            return seen[-1]

        def normalised(original):
            return lambda scores: (scores, kept(original(scores)[1]), scores)

        def attended(module, query, key, value, attention_mask, scaling=None, **kwargs):
            key, value = (item.repeat_interleave(query.shape[1] // item.shape[1], 1) for item in (key, value))
            scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
            weights = kept((scores if attention_mask is None else scores + attention_mask).softmax(-1))
            return (weights @ value).transpose(1, 2), None

        with torch.no_grad(), ExitStack() as undo:
            normalisers = [item for name, item in self.model.named_modules() if name.endswith("normaliser")]
            for entry in normalisers:
                undo.callback(setattr, entry, "forward", entry.forward)
                entry.forward = normalised(entry.forward)
            if not normalisers:
                undo.enter_context(_answered(self.model, attended))
            given = {key: value for key, value in self.inputs.items() if normalisers or key != "input_ids"}
            logits = self.model(**given, inputs_embeds=vectors).logits
        assert seen, "no attention was recorded"
        return logits, seen


@pytest.mark.parametrize("output", ["probability", "logit"])
@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "FLANconv", "bert", "gpt2", "llama"])
def test_the_gradient_goes_past_every_attention(family, output):
    done = prepared(family, torch.float64)
    inputs = alone(done.inputs, 0)
    recorded, step = Recorded(done.model, inputs), step_of(family) / 10
    request, got = ask(done.cut, "input", "gradient_attention_fixed", inputs, target=1, output=output)
    expected = []
    for index in range(recorded.vectors.shape[1]):
        way = torch.zeros_like(recorded.vectors)
        way[0, index] = step * recorded.vectors[0, index]
        up, down = (request.quantity(recorded.run(recorded.vectors + sign * way)[0]) for sign in (1, -1))
        expected.append(float((up - down).abs() / (2 * step)))
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(
        got.values[0], expected / expected.sum(), rtol=0, atol=2e-3 if family in FLOAT32 else 1e-6
    )
    through = ask(done.cut, "input", "gradient_x_input", inputs, target=1, output=output)[1].values[0].abs()
    apart = (got.values[0] - through / through.sum()).abs().max()
    assert apart > 1e-3, "the same as through the attention: this proves nothing"


@pytest.mark.parametrize("family", ["FLANnoenc", "HANrnn", "bert", "t5"])
def test_sizes_sum_to_one_over_the_text(family):
    done = in_double(family)
    values = ask(done.cut, "input", "gradient_attention_fixed", done.inputs)[1].values
    assert (values >= 0).all()
    torch.testing.assert_close(values.sum(-1), torch.ones(len(values), dtype=torch.float64))


def test_a_text_that_nothing_moves_has_sizes_of_zero():
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=20)
    cut = af.cut(model)
    with torch.no_grad():
        model.classifier.weight.zero_()
    scores = ask(cut, "input", "gradient_attention_fixed", {"input_ids": torch.tensor([[5, 6, 7]])})[1]
    assert scores.values.tolist() == [[0, 0, 0]]


def test_an_attention_without_a_softmax_is_refused():
    torch.manual_seed(0)
    model = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=20, normaliser="sparsemax")
    with pytest.raises(af.UnsupportedModelError, match=r"softmax.* Use 'gradient_x_input'"):
        ask(af.cut(model), "input", "gradient_attention_fixed", {"input_ids": torch.tensor([[5, 6, 7, 8]])})


def outputs(kind, logits):
    """The probabilities of the classes; for several labels, of each label on and off."""
    if kind == "multiclass":
        exps = [2.718281828459045**value for value in logits]
        return [[value / sum(exps) for value in exps]]
    on = [1 / (1 + 2.718281828459045**-value) for value in logits]
    return [[1 - value, value] for value in on]


def distance(kind, before, after):
    """Half the sum of absolute differences, for several labels on average over them."""
    if kind == "regression":
        return abs(before[0] - after[0])
    pairs = zip(outputs(kind, before), outputs(kind, after), strict=True)
    each = [sum(abs(p - q) for p, q in zip(first, second, strict=True)) / 2 for first, second in pairs]
    return sum(each) / len(each)


@pytest.mark.parametrize("kind", list(SIZES))
@pytest.mark.parametrize("family", ["FLANrnn", "HANrnn", "bert", "llama"])
def test_leaving_one_out_is_the_distance_to_the_shorter_text(family, kind):
    batch = batch_of(family, kind)
    scores = methods["input", "leave_one_out"].run(batch.request)
    model, special, largest = model_of(family, kind), batch.config.settings.special_ids, 0.0
    for text in range(len(batch.rows)):
        single = one_of(batch.inputs, text)
        ids, values = single["input_ids"][0].tolist(), scores.values[text][scores.mask[text]].tolist()
        for index, token in enumerate(ids):
            if token in special:
                assert values[index] != values[index]
                continue
            shorter = {name: torch.cat((value[:, :index], value[:, index + 1 :]), 1) for name, value in single.items()}
            with torch.no_grad():
                after = model(**shorter).logits[0].tolist()
            expected = distance(kind, batch.logits[text].tolist(), after)
            assert values[index] == pytest.approx(expected, rel=1e-5, abs=1e-9)
            largest = max(largest, expected)
    assert largest > 1e-2
    assert kind == "regression" or largest <= 1


def test_a_single_token_cannot_be_left_out():
    ids = torch.tensor([[5, 0, 0], [6, 7, 8]])
    batch = batch_of("FLANrnn", inputs={"input_ids": ids, "attention_mask": (ids > 0).long()})
    scores = methods["input", "leave_one_out"].run(batch.request)
    assert scores.values[0, 0].isnan()
    assert "cannot be left out" in scores.note
    assert scores.values[1].isfinite().all()


@pytest.mark.parametrize("name", ["leave_one_out", "omission"])
def test_of_texts_of_a_single_token_nothing_can_be_left_out(name):
    ids = torch.tensor([[5], [6]])
    batch = batch_of("FLANrnn", inputs={"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    scores = methods["input", name].run(batch.request)
    assert scores.values.shape == (2, 1)
    assert scores.values.isnan().all()
    assert "cannot be left out" in scores.note


def test_omission_and_leaving_one_out_run_the_shorter_texts_once(monkeypatch):
    batch, runs = batch_of("FLANrnn"), []
    forward = type(batch.config.cut.adapter).forward
    monkeypatch.setattr(type(batch.config.cut.adapter), "forward", lambda *given: runs.append(1) or forward(*given))
    methods["input", "omission"].run(batch.request)
    first = len(runs)
    methods["input", "leave_one_out"].run(batch.request)
    assert len(runs) == first > 1
