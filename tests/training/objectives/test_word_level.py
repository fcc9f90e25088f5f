"""Word-level objectives against loops, and what a mask, a map between sizes and a HAN mean for them."""

import math

import pytest
import torch

from attnfaith.adapters.attention_in_training import AttentionInTraining
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.text.encoder import TextEncoder
from attnfaith.training import MaskedFineTuning, WordPrediction, WordTying, fit
from attnfaith.training.objectives.objective import Setting, Step
from tests.helpers.training_data import rows, small
from tests.training.test_fitting import transformer

TRAIN, HELD_OUT = rows(48), rows(24, seed=1)
QUICK = {"learning_rate": 0.02, "epochs": 2, "batch_size": 16}


def stepped(kind, objective, check):
    """Run a change, a forward pass and a check in float64."""
    model, tokenizer = transformer("bert", initializer_range=0.3) if kind == "bert" else small(kind)
    model = model.double().eval()
    texts = TextEncoder(tokenizer, model)
    encoded = texts.encode([row["text"] for row in TRAIN[:6]])
    inputs = texts.collate(encoded)
    tokens = inputs["attention_mask"].bool()
    setting = Setting(model, texts, 0, texts.collate(encoded[:1]))
    with objective.hold(setting) as state, AttentionInTraining(model, setting.example).watching() as watched:
        step = Step(setting, inputs, tokens, None, state, True, ("training", 0), inputs)
        step.inputs = dict(objective.change(step))
        model(**step.inputs)
        step.find_attention = lambda: watched.latest(tokens)
        check(model, inputs, step, objective)


def states_of(model, step, text, position):
    """The hidden state of one token: the values of all heads, one after another, mapped to the size of a word."""
    attention = step.attention
    (item,) = (attention.positions[text] == position).logical_and(attention.mask[text]).nonzero().flatten().tolist()
    state = torch.cat([attention.values[text, head, item] for head in range(attention.values.shape[1])])
    mapping = getattr(model, f"attnfaith_{WordTying.name}", None) or getattr(model, f"attnfaith_{WordPrediction.name}")
    return mapping(state)


@pytest.mark.parametrize("kind", ["bert", "FLANrnn", "FLANnoenc"])
def test_tying_is_the_mean_squared_distance(kind):
    def check(model, inputs, step, objective):
        table = model.get_input_embeddings().weight
        special = step.setting.texts.special_ids
        for text, ids in enumerate(inputs["input_ids"].tolist()):
            distances = [
                float(((states_of(model, step, text, position) - table[number]) ** 2).sum().detach())
                for position, number in enumerate(ids)
                if number not in special
            ]
            assert float(objective.term(step)[text].detach()) == pytest.approx(sum(distances) / len(distances))
        if kind == "FLANnoenc":  # its hidden states are the word vectors
            assert float(objective.term(step).detach().max()) == 0

    stepped(kind, WordTying(1.0), check)


@pytest.mark.parametrize("kind", ["bert", "FLANrnn"])
@pytest.mark.parametrize("masked", [0, 0.4])
def test_prediction_is_the_mean_cross_entropy(kind, masked):
    def check(model, inputs, step, objective):
        table = model.get_input_embeddings().weight
        special = step.setting.texts.special_ids
        total = 0
        for text, ids in enumerate(inputs["input_ids"].tolist()):
            losses = []
            for position, number in enumerate(ids):
                replaced = int(step.inputs["input_ids"][text, position]) != number
                if number in special or (masked and not replaced):
                    assert not replaced
                    continue
                scores = [float(states_of(model, step, text, position).detach() @ vector) for vector in table.detach()]
                losses.append(math.log(sum(map(math.exp, scores))) - scores[number])
            total += len(losses)
            expected = sum(losses) / len(losses) if losses else math.nan
            assert float(objective.term(step)[text].detach()) == pytest.approx(expected, nan_ok=True)
        words = sum(number not in special for ids in inputs["input_ids"].tolist() for number in ids)
        assert total == words if not masked else 0.2 * words < total < 0.6 * words

    stepped(kind, WordPrediction(1.0, masked=masked), check)


def test_words_behind_holes_are_not_predicted():
    model, tokenizer = transformer("bert")
    history = fit(model, tokenizer, TRAIN, HELD_OUT, objectives=[MaskedFineTuning(1.0), WordPrediction(0.5)], **QUICK)
    assert math.isfinite(history.best["loss"])
    model, tokenizer = small("FLANrnn")  # tokens are deleted there
    objectives = [MaskedFineTuning(1.0), WordTying(0.5)]
    assert math.isfinite(fit(model, tokenizer, TRAIN, HELD_OUT, objectives=objectives, **QUICK).best["loss"])


def test_a_killed_training_continues_with_the_map(tmp_path):
    """The map between sizes is in the checkpoints: after a crash the weights are those of an unbroken run."""
    objectives = [WordTying(0.5), WordPrediction(0.5)]
    found = []
    for crash in (False, True):
        model, tokenizer = small("FLANrnn")
        options = {**QUICK, "epochs": 3, "objectives": objectives, "checkpoint_dir": tmp_path / str(crash)}
        if crash:
            calls = []

            def trouble(module, args, calls=calls):
                calls.append(1)
                if len(calls) == 12:
                    raise RuntimeError("killed")

            handle = model.classifier.register_forward_pre_hook(trouble)
            with pytest.raises(RuntimeError, match="killed"):
                fit(model, tokenizer, TRAIN, HELD_OUT, **options)
            handle.remove()
            model, tokenizer = small("FLANrnn")
        fit(model, tokenizer, TRAIN, HELD_OUT, **options)
        found.append(model.state_dict())
    assert set(found[0]) == set(small("FLANrnn")[0].state_dict())
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())


def test_what_is_refused():
    model, tokenizer = small("HANrnn")
    with pytest.raises(UnsupportedModelError, match="sentences"):
        fit(model, tokenizer, TRAIN, objectives=[WordTying()], **QUICK)
    for masked in (-0.1, 1, "some"):
        with pytest.raises(InputError, match="masked"):
            WordPrediction(masked=masked)
    for kind in (WordTying, WordPrediction):
        with pytest.raises(InputError, match="weight"):
            kind(-1)
