"""Training: it learns, is deterministic, keeps the best epoch, and takes any usual model and data."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2ForSequenceClassification

import attnfaith as af
from attnfaith.errors import InputError, NumericalError
from attnfaith.training import fit, recipe
from attnfaith.training.best_epoch import BestEpoch
from tests.helpers.training_data import accuracy, rows, same, small, weights

TRAIN, HELD_OUT = rows(96), rows(48, seed=1)
QUICK = {"learning_rate": 0.01, "epochs": 2, "batch_size": 16}


@pytest.mark.parametrize("name", ["FLANrnn", "FLANconv", "HANrnn", "HANnoenc", "Wen-lstm-deep-gumbel"])
def test_it_learns(name):
    model, tokenizer = small(name, input_dropout=0.1)
    before = accuracy(model.eval(), tokenizer, HELD_OUT)
    history = fit(model, tokenizer, TRAIN, HELD_OUT, learning_rate=0.02, epochs=15, batch_size=16, patience=4)
    assert before < 0.8
    assert accuracy(model, tokenizer, HELD_OUT) > 0.95
    assert history.best["validation_accuracy"] == accuracy(model, tokenizer, HELD_OUT)
    assert history.epochs[-1]["loss"] < history.epochs[0]["loss"] / 2
    assert history.seconds > 0


def fitted(seed=0, outside=0, **options):
    model, tokenizer = small(input_dropout=0.3)
    torch.manual_seed(outside)
    np.random.seed(outside)  # noqa: NPY002
    history = fit(model, tokenizer, TRAIN, HELD_OUT, seed=seed, **(QUICK | options))
    return weights(model), history


def test_the_same_seed_gives_the_same_weights():
    first, history = fitted()
    again, history_again = fitted(outside=7)
    assert same(first, again)
    assert history.epochs == history_again.epochs
    assert not same(first, fitted(seed=1)[0])


def test_the_best_epoch_is_kept():
    """With a rate this large, accuracy goes up and down."""
    options = {"learning_rate": 0.25, "epochs": 12, "batch_size": 8, "patience": 3}
    model, tokenizer = small("FLANnoenc", labels=3, seed=3)
    train, validation = rows(60, classes=3), rows(45, seed=2, classes=3)
    history = fit(model, tokenizer, train, validation, **options)
    seen = [epoch["validation_accuracy"] for epoch in history.epochs]
    assert history.best_epoch == seen.index(max(seen)) + 1  # the first of several
    assert history.best == history.epochs[history.best_epoch - 1]
    assert [epoch["epoch"] for epoch in history.epochs] == list(range(1, len(seen) + 1))
    assert history.stopped
    assert len(seen) == history.best_epoch + 3
    assert min(seen[history.best_epoch :]) < max(seen)
    assert accuracy(model, tokenizer, validation) == max(seen)
    # a run that ends there has the same weights
    other, _ = small("FLANnoenc", labels=3, seed=3)
    shorter = fit(other, tokenizer, train, validation, **(options | {"epochs": history.best_epoch}))
    assert shorter.epochs == history.epochs[: history.best_epoch]
    assert not shorter.stopped
    assert same(weights(other), weights(model))


def test_without_patience_or_validation_every_epoch_is_run():
    model, tokenizer = small("FLANnoenc")
    history = fit(model, tokenizer, TRAIN, HELD_OUT, learning_rate=1e-9, epochs=5, patience=None)
    assert (len(history.epochs), history.stopped, history.best_epoch) == (5, False, 1)
    history = fit(model, tokenizer, TRAIN, learning_rate=1e-9, epochs=5, patience=1)
    assert (len(history.epochs), history.stopped, history.best_epoch) == (5, False, 5)
    assert set(history.best) == {"epoch", "loss"}
    for epochs, stopped in ((9, True), (3, True), (2, False)):  # out of patience after the second
        history = fit(model, tokenizer, TRAIN, HELD_OUT, learning_rate=1e-9, epochs=epochs, patience=1)
        assert (len(history.epochs), history.stopped) == (2, stopped)


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_a_fit_is_a_plain_loop_over_batches(optimizer, amsgrad):
    """The slow twin: one batch is everything, so that its order does not matter; no dropout; float64."""
    plain = {"seed": 5, "input_dropout": 0.0, "classifier_dropout": 0.0}
    model, tokenizer = small("FLANrnn", **plain)
    twin, _ = small("FLANrnn", **plain)
    model, twin = model.double(), twin.double().train()
    options = {"weight_decay": 0.1, "weight_decay_exclude": "attention|bias", "max_grad_norm": 0.01}
    history = fit(
        model, tokenizer, TRAIN, learning_rate=0.01, epochs=4, batch_size=96, optimizer=optimizer, amsgrad=amsgrad,
        **options,
    )  # fmt: skip
    inputs = tokenizer([row["text"] for row in TRAIN], padding=True, return_tensors="pt")
    labels = torch.tensor([row["label"] for row in TRAIN])
    spared, others = [], []
    for name, parameter in twin.named_parameters():
        (spared if name.startswith("attention") or "bias" in name else others).append(parameter)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimizer]
    groups = [{"params": others, "weight_decay": 0.1}, {"params": spared, "weight_decay": 0.0}]
    loop = kind(groups, lr=0.01, amsgrad=amsgrad)
    for step in range(4):
        loss = F.cross_entropy(twin(**inputs).logits, labels)
        loop.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.01)
        assert norm > 0.01
        loop.step()
        assert history.epochs[step]["loss"] == pytest.approx(float(loss.detach()), rel=1e-6)
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=0, atol=1e-9)
    start = small("FLANrnn", **plain)[0].double().state_dict()
    moved = {name: float((value - start[name]).abs().max()) for name, value in model.state_dict().items()}
    assert min(moved.values()) > 1e-5, moved  # so the comparison sees every parameter


@pytest.mark.parametrize("name", af.models.presets())
def test_every_preset_trains_by_its_recipe(name):
    model, tokenizer = small(name, labels=3)
    before = weights(model)
    data = rows(12, classes=3)
    history = fit(model, tokenizer, data, data, epochs=1, **({"batch_size": 6} | recipe(name)))
    assert math.isfinite(history.best["loss"])
    assert 0 <= history.best["validation_accuracy"] <= 1
    changed = {key for key, value in weights(model).items() if not torch.equal(value, before[key])}
    assert changed == set(before)


@pytest.mark.parametrize("name", ["JW-lstm-dot", "HANrnn", "Wen-conv-additive-softmax"])
def test_pairs(name):
    model, tokenizer = small(name, query=True)
    data = [{"premise": row["text"], "question": "was it good", "answer": row["label"]} for row in TRAIN]
    columns = {"text_column": "premise", "second_text_column": "question", "label_column": "answer"}
    history = fit(model, tokenizer, data, data, learning_rate=0.02, epochs=10, batch_size=16, **columns)
    assert history.best["validation_accuracy"] > 0.9


def transformer(kind, **options):
    _, tokenizer = small()
    shared = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "num_labels": 3}
    torch.manual_seed(0)
    if kind == "bert":
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        return BertForSequenceClassification(BertConfig(**(shared | sizes | options))), tokenizer
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    return GPT2ForSequenceClassification(GPT2Config(**(shared | sizes | options))), tokenizer


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_a_transformer_learns(kind):
    model, tokenizer = transformer(kind, initializer_range=0.1)
    train, held_out = rows(120, classes=3), rows(60, seed=1, classes=3)
    history = fit(
        model, tokenizer, train, held_out, learning_rate=5e-3, epochs=12, batch_size=12, optimizer="adamw", patience=8,
        weight_decay=0.01, weight_decay_exclude="bias|LayerNorm", max_grad_norm=1.0,
    )  # fmt: skip
    assert history.best["validation_accuracy"] > 0.9
    assert accuracy(model, tokenizer, held_out) == pytest.approx(history.best["validation_accuracy"], abs=0.02)


def test_one_sigmoid_several_labels_and_a_regression():
    model, tokenizer = small("FLANnoenc", labels=1, problem_type="single_label_classification")
    history = fit(model, tokenizer, TRAIN, HELD_OUT, learning_rate=0.05, epochs=8)
    assert history.best["validation_accuracy"] > 0.93
    assert accuracy(model, tokenizer, HELD_OUT) == history.best["validation_accuracy"]

    both = [row | {"label": [row["label"], 1 - row["label"], row["text"].startswith("They")]} for row in TRAIN]
    model, tokenizer = small("FLANnoenc", labels=3, problem_type="multi_label_classification")
    history = fit(model, tokenizer, both, both, learning_rate=0.05, epochs=15, patience=None)
    with torch.no_grad():
        result = [model(**tokenizer(row["text"], return_tensors="pt")).logits[0] > 0 for row in both]
    right = sum(item.tolist() == row["label"] for item, row in zip(result, both, strict=True)) / len(both)
    assert history.best["validation_accuracy"] == right > 0.6

    graded = [row | {"label": 2.5 * row["label"] - 1} for row in TRAIN]
    model, tokenizer = small("FLANnoenc", labels=1, problem_type="regression")
    history = fit(model, tokenizer, graded, graded, learning_rate=0.05, epochs=8)
    losses = [epoch["validation_loss"] for epoch in history.epochs]
    assert history.best["validation_loss"] == min(losses) < losses[0] / 2
    assert math.isnan(history.best["validation_accuracy"])


def test_frozen_vectors_stay():
    model, tokenizer = small()
    before = weights(model)
    fit(model, tokenizer, TRAIN, freeze_vectors=True, **QUICK)
    after = weights(model)
    assert {name for name in before if torch.equal(before[name], after[name])} == {"embeddings.weight"}
    assert model.embeddings.weight.requires_grad
    model.embeddings.weight.requires_grad_(False)
    fit(model, tokenizer, TRAIN, **QUICK)
    assert torch.equal(model.embeddings.weight, before["embeddings.weight"])
    assert not model.embeddings.weight.requires_grad


def test_a_loss_of_nan_is_an_error():
    model, tokenizer = small()
    with torch.no_grad():
        model.classifier.bias.fill_(math.nan)
    with pytest.raises(NumericalError, match="epoch 1"):
        fit(model, tokenizer, TRAIN, **QUICK)


@pytest.fixture
def spoil(monkeypatch):
    """Makes the weights NaN after the optimizer's step of a number."""

    def at(number):
        def on_step_end(self, args, state, control, *, original=BestEpoch.on_step_end, **more):
            original(self, args, state, control, **more)
            if state.global_step == number:
                with torch.no_grad():
                    self.model.classifier.bias.fill_(math.nan)

        monkeypatch.setattr(BestEpoch, "on_step_end", on_step_end)

    return at


@pytest.mark.parametrize("validation", [None, TRAIN[:6]])
@pytest.mark.parametrize(("step", "kept"), [(1, "before training"), (2, "of epoch 1")])
def test_a_last_step_that_spoils_the_model_is_an_error(validation, step, kept, spoil):
    """The loss of no step shows it: it is that of the weights before the step."""
    options = {"learning_rate": 0.01, "batch_size": len(TRAIN)}
    (model, tokenizer), (expected, _) = small(), small()
    if step == 2:
        fit(expected, tokenizer, TRAIN, validation, epochs=1, **options)
    spoil(step)
    with pytest.raises(NumericalError, match=rf"became nan .*\. The model has the weights {kept} again\. Try a lower"):
        fit(model, tokenizer, TRAIN, validation, epochs=step, **options)
    assert same(weights(expected), weights(model))


def test_an_epoch_that_spoils_the_model_is_never_the_best(spoil):
    """All its answers are one class, which is right more often than the epoch before."""
    (model, tokenizer), one_class = small(), [row for row in HELD_OUT if row["label"] == 0]
    with torch.no_grad():
        model.classifier.bias[1] = 9.0
    spoil(2)
    with pytest.raises(NumericalError, match=r"validation loss became nan after epoch 2\. .* of epoch 1 again"):
        fit(model, tokenizer, TRAIN, one_class, learning_rate=1e-9, epochs=2, batch_size=len(TRAIN))
    assert all(bool(value.isfinite().all()) for value in weights(model).values())


BAD = {
    "learning_rate": [0, -1.0, 1e39, "fast", None, math.nan, math.inf, True],
    "epochs": [0, 1.5, None],
    "batch_size": [0, "16"],
    "patience": [0, 2.0],
    "max_grad_norm": [0, -1, math.inf],
    "optimizer": ["sgdd"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_bad_options_are_refused(name, value):
    model, tokenizer = small()
    with pytest.raises(InputError, match=f"Expected {name} to be"):
        fit(model, tokenizer, TRAIN, **(QUICK | {name: value}))


def test_models_that_cannot_be_fitted_are_refused():
    model, tokenizer = small()
    with pytest.raises(InputError, match="num_labels"):
        fit(torch.nn.Linear(2, 2), tokenizer, TRAIN, **QUICK)
    with pytest.raises(InputError, match="tokenizer"):
        fit(model, None, TRAIN, **QUICK)
    with pytest.raises(InputError, match="problem_type"):
        fit(transformer("bert", num_labels=1)[0], tokenizer, TRAIN, **QUICK)
    with pytest.raises(InputError, match="nothing to train"):
        fit(model.requires_grad_(False), tokenizer, TRAIN, **QUICK)
    decoder, tokenizer = transformer("gpt2", pad_token_id=None)
    with pytest.raises(InputError, match="batch_size=1"):
        fit(decoder, tokenizer, TRAIN, **QUICK)
    fit(decoder, tokenizer, rows(6), **(QUICK | {"batch_size": 1, "epochs": 1}))
