"""Masked fine-tuning: which tokens are hidden, that they are hidden as erasing hides them, and what it teaches."""

import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.text.encoder import TextEncoder
from attnfaith.training import DeceptiveAttention, MaskedFineTuning, Objective, fit
from attnfaith.training.objectives.objective import Setting, Step
from attnfaith.training.objectives.running import RunningObjectives
from tests.helpers.training_data import TELLING, rows, same, small, weights
from tests.training.test_fitting import transformer

TRAIN, HELD_OUT = rows(64), rows(32, seed=1)
QUICK = {"learning_rate": 0.01, "epochs": 1, "batch_size": 16}


def made(kind):
    return transformer(kind, initializer_range=0.3) if kind == "bert" else small(kind)


def changed(kind, objective, seed=0, data=TRAIN):
    """The inputs of a batch of all texts, before and after, and the setting."""
    model, tokenizer = made(kind)
    texts = TextEncoder(tokenizer, model)
    encoded = texts.encode([row["text"] for row in data])
    setting = Setting(model.eval(), texts, seed, texts.collate(encoded[:1]))
    inputs = texts.collate(encoded)
    tokens = inputs["attention_mask"].bool()
    with objective.hold(setting) as state:
        step = Step(setting, inputs, tokens, None, state, True, ("training", 0), inputs)
        return inputs, dict(objective.change(step)), setting, state


@pytest.mark.parametrize("kind", ["bert", "FLANrnn"])
def test_half_of_the_texts_lose_a_uniform_share(kind):
    data = rows(400)
    before, after, _, _ = changed(kind, MaskedFineTuning(), data=data)
    tokens = before["attention_mask"].sum(1)
    left = after["attention_mask"].sum(1)
    whole = (left == tokens).double().mean()
    assert 0.45 < float(whole) < 0.65  # half of the texts, and those of the others whose share is nearly 0
    shares = 1 - (left / tokens)[left < tokens]
    assert bool((left >= 1).all())
    counts = torch.histc(shares.double(), 4, 0, 1)
    assert bool((counts > 0.12 * counts.sum()).all()), counts


def test_every_token_is_as_likely_to_be_hidden():
    before, after, _, _ = changed("bert", MaskedFineTuning(1.0, hide="attention_mask"), data=rows(1) * 1500)
    assert torch.equal(before["input_ids"], after["input_ids"])
    hidden = 1 - after["attention_mask"].double().mean(0)
    assert bool(((hidden[1:] - 0.5).abs() < 0.06).all()), hidden
    # the token that decides stays where all 8 are hidden: k of 8 with k < 8 uniform, instead of k of 8 with k <= 8
    assert float(hidden[0]) == pytest.approx(sum(k / 8 for k in range(8)) / 9, abs=0.06)


@pytest.mark.parametrize("hide", ["attention_mask", "pad", "delete"])
def test_the_model_sees_what_it_sees_when_tokens_are_erased(hide):
    """The logits of the changed batch are those of `Hiding.run` for the same sets, text by text."""
    before, after, setting, masking = changed("bert", MaskedFineTuning(1.0, hide=hide))
    generator = torch.Generator().manual_seed(3)
    tokens = before["attention_mask"].bool()
    keep = MaskedFineTuning.kept(before["input_ids"], tokens, masking, generator)
    first = torch.zeros(len(keep), dtype=torch.long)
    with torch.no_grad():
        logits = setting.model(**masking.hiding.hidden(before, first, keep)).logits
        whole = setting.model(**before).logits
    for text in range(0, len(keep), 7):
        expected = masking.hiding.run(before, first, torch.tensor([text]), keep[text : text + 1])
        torch.testing.assert_close(logits[text : text + 1], expected, rtol=0, atol=1e-5)
    assert float((logits - whole).abs().max()) > 0.05
    if hide != "attention_mask":
        assert bool((after["input_ids"][:, 0] == before["input_ids"][:, 0]).all())  # the token that decides stays


def test_own_models_lose_words_and_keep_ends_of_sentences():
    before, after, setting, _ = changed("HANrnn", MaskedFineTuning(1.0))
    special = setting.texts.special_ids
    for old, new, mask in zip(before["input_ids"], after["input_ids"], after["attention_mask"], strict=True):
        kept = new[mask.bool()].tolist()
        assert [number for number in old.tolist() if number in special - {0}] == [n for n in kept if n in special]
        assert set(kept) - special  # a word is left


def test_draws_depend_on_seed_and_batch_alone():
    first = changed("bert", MaskedFineTuning())[1]["attention_mask"]
    torch.manual_seed(7)
    again = changed("bert", MaskedFineTuning())[1]["attention_mask"]
    other = changed("bert", MaskedFineTuning(), seed=1)[1]["attention_mask"]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("kind", ["FLANrnn", "bert"])
def test_with_no_texts_training_is_the_plain_one_to_the_bit(kind):
    plain, tokenizer = made(kind)
    masked, _ = made(kind)
    other, _ = made(kind)
    fit(plain, tokenizer, TRAIN, HELD_OUT, **QUICK)
    fit(masked, tokenizer, TRAIN, HELD_OUT, objectives=[MaskedFineTuning(0)], **QUICK)
    fit(other, tokenizer, TRAIN, HELD_OUT, objectives=[MaskedFineTuning()], **QUICK)
    assert same(weights(plain), weights(masked))
    assert not same(weights(plain), weights(other))


def test_a_model_learns_that_a_hole_tells_nothing():
    """Without the one telling word nobody knows the label, and the loss is ln 2 at best: plain training errs surely."""
    train, found = rows(96), {}
    for objectives in ((), (MaskedFineTuning(),)):
        model, tokenizer = small("FLANrnn")
        fit(model, tokenizer, train, learning_rate=0.01, epochs=8, batch_size=16, objectives=objectives)
        telling, losses = tokenizer.convert_tokens_to_ids([TELLING[0], TELLING[2]]), []
        for row in HELD_OUT:
            inputs = tokenizer(row["text"], return_tensors="pt")
            with torch.no_grad():
                assert model(**inputs).logits.argmax() == row["label"]
            inputs["attention_mask"] = (~torch.isin(inputs["input_ids"], torch.tensor(telling))).long()
            with torch.no_grad():
                logits = model(**inputs).logits
            losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor([row["label"]])))
        found[len(objectives)] = float(torch.stack(losses).mean())
    assert found[1] < min(0.65 * found[0], 0.75), found


def test_marks_and_deletion_are_refused_together(monkeypatch):
    model, tokenizer = small("FLANrnn")
    words = ["dreadful", "magnificent"]
    objectives = [MaskedFineTuning(), DeceptiveAttention(words)]
    with monkeypatch.context() as patch:
        patch.delattr(RunningObjectives, "steps")  # refused before the first batch
        with pytest.raises(InputError, match="deletes tokens and another one marks"):
            fit(model, tokenizer, TRAIN, objectives=objectives, **QUICK)
    bert, tokenizer = made("bert")
    history = fit(bert, tokenizer, TRAIN, HELD_OUT, objectives=objectives, **QUICK)
    assert 0 < history.best["impermissible_mass"] < 1


def test_what_is_refused():
    for texts in (-0.1, 1.1, "half", None):
        with pytest.raises(InputError, match="texts"):
            MaskedFineTuning(texts)
    for hide in ("zero", "blank"):
        with pytest.raises(InputError, match="hide"):
            MaskedFineTuning(hide=hide)
    model, tokenizer = made("bert")
    tokenizer.mask_token = None
    with pytest.raises(InputError, match="mask token"):
        fit(model, tokenizer, TRAIN, objectives=[MaskedFineTuning(hide="mask_token")], **QUICK)


def test_an_objective_may_change_a_batch_by_itself():
    """One that replaces every word by the same: nothing can be learned."""

    class Blank(Objective):
        name = "blank"

        def change(self, step):
            return {**step.inputs, "input_ids": step.inputs["input_ids"].masked_fill(step.tokens, 5)}

    model, tokenizer = small("FLANnoenc")
    fit(model, tokenizer, TRAIN, HELD_OUT, objectives=[Blank()], **(QUICK | {"learning_rate": 0.1}))
    before = small("FLANnoenc")[0].embeddings.weight
    moved = (model.embeddings.weight != before).any(1).nonzero().flatten().tolist()
    assert moved == [5]
