"""Settings of a retraining: what was stored beside the model, what is given, and what is left."""

import json
import logging

import pytest
import torch

from attnfaith.diagnostics.retraining import Retraining, recorded_training, settings_of
from attnfaith.errors import InputError
from attnfaith.tiny_models import tiny_model
from attnfaith.training import recipe
from tests.helpers.training_data import small


def test_what_was_stored_beside_a_model_is_used(tmp_path):
    stored = {"start": "FLANrnn", "learning_rate": 0.01, "epochs": 9, "seed": 3, "vectors": "glove.txt"}
    (tmp_path / "training.json").write_text(json.dumps({"training": stored, "finished": True}))
    recorded = recorded_training(tmp_path)
    assert recorded == stored
    assert settings_of(recorded, {"epochs": 2}) == {"learning_rate": 0.01, "epochs": 2}
    assert settings_of(recorded, {"patience": 0})["patience"] is None  # as on the command line: never stop early
    assert recorded_training(tmp_path / "none") == recorded_training(object()) == {}


def test_a_checkpoint_is_fine_tuned_by_the_recipe():
    model, tokenizer = tiny_model("bert"), small("FLANnoenc")[1]
    tuned = Retraining(model, tokenizer, start="somewhere", settings={"epochs": 4}, texts=300).arguments
    assert tuned == recipe("fine-tuning", texts=300) | {"epochs": 4}
    assert Retraining(model, tokenizer).arguments["learning_rate"] > tuned["learning_rate"]


def test_word_vectors_are_for_models_of_attnfaith():
    with pytest.raises(InputError, match="vectors"):
        Retraining(tiny_model("bert"), small("FLANnoenc")[1], vectors=object())


def test_a_training_begins_with_the_body_of_a_checkpoint_that_has_no_head(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)  # so that caplog sees it
    model, tokenizer = tiny_model("bert"), small("FLANnoenc")[1]
    model.base_model.save_pretrained(tmp_path)  # an encoder as it is published: no head, no tokenizer
    fresh = Retraining(model, tokenizer, start=str(tmp_path)).fresh(0)
    body = fresh.base_model.state_dict()
    assert all(torch.equal(part, body[name]) for name, part in model.base_model.state_dict().items())
    assert not torch.equal(fresh.classifier.weight, model.classifier.weight)
    assert "MISSING" not in caplog.text


@pytest.mark.parametrize("other", [{"model_type": "electra"}, {"intermediate_size": 24}])
def test_a_checkpoint_of_another_architecture_is_refused(tmp_path, other):
    model, tokenizer = tiny_model("bert"), small("FLANnoenc")[1]
    if "model_type" in other:
        start = tiny_model("electra")
    else:
        start = type(model)(type(model.config).from_dict(model.config.to_dict() | other))
    start.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="another architecture"):
        Retraining(model, tokenizer, start=str(tmp_path)).fresh(0)
