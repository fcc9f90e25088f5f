"""The papers' training settings as arguments of fit."""

import inspect

import pytest
import torch
from torch import nn

import attnfaith as af
from attnfaith.errors import InputError
from attnfaith.models.paper_presets import PRESETS, Preset
from attnfaith.training import fit, recipe
from attnfaith.training.recipes import make_optimizer
from tests.helpers.training_data import small


@pytest.mark.parametrize("name", af.models.presets())
def test_a_recipe_holds_the_papers_settings_as_arguments_of_fit(name):
    known = inspect.signature(fit).parameters
    for dataset in [None, *PRESETS[name].datasets]:
        result = recipe(name, dataset=dataset)
        assert set(result) <= set(known)
        training = af.models.preset(name, dataset=dataset).training
        assert result == {key: value for key, value in training.items() if key != "min_count"}
        assert result["learning_rate"] > 0


def test_recipes_of_the_papers():
    assert recipe("HANnoenc", dataset="amazon") == {
        "optimizer": "adam", "max_grad_norm": 10.0, "patience": 10, "learning_rate": 2e-4,
    }  # fmt: skip
    assert recipe("JW-conv-dot") == {
        "optimizer": "adam", "amsgrad": True, "learning_rate": 1e-3, "weight_decay": 1e-5,
        "weight_decay_exclude": "attention", "batch_size": 32,
    }  # fmt: skip


def test_unknown_names_are_refused(monkeypatch):
    with pytest.raises(InputError, match="FLANrnn"):
        recipe("FLANrn")
    with pytest.raises(InputError, match="imdb"):
        recipe("FLANrnn", dataset="sst")
    monkeypatch.setitem(PRESETS, "odd", Preset("nobody", {}, {"momentum": 0.9}))
    with pytest.raises(InputError, match="momentum"):
        recipe("odd")


def test_weight_decay_excludes_the_parameters_that_the_papers_exclude():
    model, _ = small("HANrnn")
    made = make_optimizer(
        model, optimizer="adam", learning_rate=0.1, weight_decay=0.5, weight_decay_exclude="attention"
    )
    decayed, spared = [[id(parameter) for parameter in group["params"]] for group in made.param_groups]
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {names[item].split(".")[0] for item in spared} == {"attention", "word_attention"}
    assert {names[item].split(".")[0] for item in decayed} == {"embeddings", "encoder", "word_encoder", "classifier"}
    assert [group["weight_decay"] for group in made.param_groups] == [0.5, 0.0]
    assert all(group["lr"] == 0.1 for group in made.param_groups)


def test_only_parameters_that_require_gradients_are_optimized():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    made = make_optimizer(model, optimizer="adamw", learning_rate=0.1, weight_decay_exclude="bias")
    assert isinstance(made, torch.optim.AdamW)
    assert [len(group["params"]) for group in made.param_groups] == [1, 1]
    with pytest.raises(InputError, match="one of 'adam', 'adamw', got 'sgd'"):
        make_optimizer(model, optimizer="sgd", learning_rate=0.1)


def test_few_texts_get_more_epochs():
    many = recipe("HANnoenc", texts=10**6)
    assert (many["epochs"], many["patience"], many["batch_size"]) == (20, 10, 32)  # the paper's patience
    for name in af.models.presets():
        few, steps = recipe(name, texts=320), 10
        assert few["epochs"] * steps == 2000
        assert few["patience"] * steps == 400
        assert recipe(name).items() <= (few | recipe(name)).items()
        assert few["learning_rate"] == recipe(name)["learning_rate"]
    tuned = recipe("fine-tuning", texts=320)
    assert (tuned["epochs"], tuned["patience"], tuned["batch_size"]) == (25, 10, 16)
    assert recipe("fine-tuning", texts=10**6)["epochs"] == recipe("fine-tuning")["epochs"] == 3
    with pytest.raises(InputError, match="one recipe"):
        recipe("fine-tuning", dataset="imdb")
    with pytest.raises(InputError, match="Expected texts"):
        recipe("HANrnn", texts=0)


def test_fine_tuning_spares_biases_and_norms_from_weight_decay():
    from attnfaith.tiny_models import tiny_model

    settings = recipe("fine-tuning")
    for family in ("bert", "gpt2", "distilbert"):
        model = tiny_model(family)
        options = {name: settings[name] for name in ("optimizer", "learning_rate", "weight_decay")}
        made = make_optimizer(model, weight_decay_exclude=settings["weight_decay_exclude"], **options)
        spared = {id(weight) for group in made.param_groups if not group["weight_decay"] for weight in group["params"]}
        for name, weight in model.named_parameters():
            assert (id(weight) in spared) == (weight.dim() == 1), f"{family}: {name}"
