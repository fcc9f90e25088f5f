"""A training that breaks off anywhere continues to the same weights, and no other training continues it."""

import json

import pytest
import torch

from attnfaith.errors import InputError, NumericalError, StorageError
from attnfaith.training import DeceptiveAttention, GumbelSoftmax, MaskedFineTuning, WordPrediction, fit, resumable
from attnfaith.training.recipes import learning_rate_at
from tests.helpers.training_data import rows, same, small, weights

TRAIN, HELD_OUT = rows(60), rows(24, seed=1)
OPTIONS = {"learning_rate": 0.03, "epochs": 4, "batch_size": 12, "patience": 2, "warmup": 0.1}
STEPS = 5  # in an epoch


class KilledError(BaseException):
    """Nothing in the library may catch it."""


@pytest.fixture
def often(monkeypatch):
    """A checkpoint after every step."""
    monkeypatch.setattr(resumable, "SECONDS", 0)
    monkeypatch.setattr(resumable, "COST", 0)


@pytest.fixture(scope="module")
def whole():
    return trained()


def trained(validation=HELD_OUT, **options):
    model, tokenizer = small(input_dropout=0.3)
    history = fit(model, tokenizer, TRAIN, validation, **(OPTIONS | options))
    return weights(model), history


def break_off(monkeypatch, step, folder, error=KilledError, **options):
    """Train up to a step, and break off there."""

    def stop(self, *arguments, original=resumable.ResumableTrainer.training_step, **more):
        if self.state.global_step == step:
            raise error
        return original(self, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(resumable.ResumableTrainer, "training_step", stop)
        with pytest.raises(error):
            trained(checkpoint_dir=folder, **options)


@pytest.mark.parametrize("step", [0, 3, STEPS, STEPS + 1, 3 * STEPS - 1])
def test_a_training_that_broke_off_gives_the_same_weights(step, whole, often, monkeypatch, tmp_path):
    break_off(monkeypatch, step, tmp_path)
    found = resumable.last_checkpoint(tmp_path)
    assert (found.name if found else None) == (f"checkpoint-{step}" if step else None)
    again, history = trained(checkpoint_dir=tmp_path)
    assert same(whole[0], again)
    assert (history.epochs, history.best_epoch, history.stopped) == (
        whole[1].epochs,
        whole[1].best_epoch,
        whole[1].stopped,
    )
    once_more, same_history = trained(checkpoint_dir=tmp_path)  # it is finished: nothing is trained
    assert same(whole[0], once_more)
    assert same_history.epochs == history.epochs


@pytest.mark.parametrize(
    "objectives",
    [
        [GumbelSoftmax(), WordPrediction()],
        [MaskedFineTuning(hide="attention_mask"), DeceptiveAttention(["a"])],
    ],
    ids=["random states", "keyed draws"],
)
def test_what_objectives_draw_is_continued(objectives, often, monkeypatch, tmp_path):
    expected, history = trained(objectives=objectives)
    break_off(monkeypatch, STEPS + 3, tmp_path, objectives=objectives)
    again, continued = trained(objectives=objectives, checkpoint_dir=tmp_path)
    assert same(expected, again)
    assert continued.epochs == history.epochs


def test_refused_arguments_claim_no_folder(tmp_path):
    for options in ({"optimizer": "sgd"}, {"weight_decay": -1}, {"objectives": [DeceptiveAttention(["zzz"])]}):
        with pytest.raises(InputError):
            trained(checkpoint_dir=tmp_path / "new", **options)
        with pytest.raises(InputError):
            trained(checkpoint_dir=tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_without_validation_and_with_seldom_checkpoints(monkeypatch, tmp_path):
    monkeypatch.setattr(resumable, "COST", 0)
    expected, _ = trained(None)
    break_off(monkeypatch, STEPS + 3, tmp_path, validation=None)
    assert resumable.last_checkpoint(tmp_path).name == f"checkpoint-{STEPS}"
    again, history = trained(None, checkpoint_dir=tmp_path)
    assert same(expected, again)
    assert history.best_epoch == 4


def test_breaking_off_while_a_checkpoint_is_written_keeps_the_last(whole, often, monkeypatch, tmp_path):
    def stop(self, *arguments, original=resumable.ResumableTrainer._save_rng_state):
        original(self, *arguments)
        if self.state.global_step == 7:
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(resumable.ResumableTrainer, "_save_rng_state", stop)
        patched.setattr(resumable.shutil, "rmtree", lambda *arguments, **options: None)  # as a kill leaves it
        with pytest.raises(KilledError):
            trained(checkpoint_dir=tmp_path)
    assert (tmp_path / ".unfinished" / "checkpoint-7").is_dir()
    assert resumable.last_checkpoint(tmp_path).name == "checkpoint-6"
    assert same(whole[0], trained(checkpoint_dir=tmp_path)[0])
    assert sorted(entry.name.partition("-")[0] for entry in tmp_path.iterdir()) == [
        "best",
        "checkpoint",
        "training.json",
    ]


def test_another_training_is_refused(often, monkeypatch, tmp_path):
    break_off(monkeypatch, 6, tmp_path)
    for options, words in [
        ({"learning_rate": 0.01}, "learning_rate was 0.03 there, and is 0.01 now"),
        ({"seed": 1}, "seed was 0 there, and is 1 now"),
        ({"validation": None}, "the validation data differ"),
    ]:
        with pytest.raises(InputError, match=words):
            trained(checkpoint_dir=tmp_path, **options)
    model, tokenizer = small(seed=5)
    with pytest.raises(InputError, match="the model differs"):
        fit(model, tokenizer, TRAIN, HELD_OUT, checkpoint_dir=tmp_path, **OPTIONS)
    model, tokenizer = small(input_dropout=0.3)
    with pytest.raises(InputError, match="the data differ"):
        fit(model, tokenizer, TRAIN[1:], HELD_OUT, checkpoint_dir=tmp_path, **OPTIONS)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(InputError, match="other files"):
        trained(checkpoint_dir=tmp_path / "other")


def test_a_damaged_checkpoint_is_an_error(often, monkeypatch, tmp_path):
    break_off(monkeypatch, 6, tmp_path)
    checkpoint = resumable.last_checkpoint(tmp_path)
    for name in ("attnfaith_state.json", "optimizer.pt", "model.safetensors"):
        content = (checkpoint / name).read_bytes()
        (checkpoint / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(StorageError, match="train from the start"):
            trained(checkpoint_dir=tmp_path)
        (checkpoint / name).write_bytes(content)
    (tmp_path / "training.json").write_text("{")
    with pytest.raises(StorageError, match=r"training\.json"):
        trained(checkpoint_dir=tmp_path)


def test_a_loss_of_nan_leaves_the_last_good_weights(monkeypatch):
    """From the third epoch on, every loss is no number."""
    model, tokenizer = small(input_dropout=0.3)
    expected, _ = small(input_dropout=0.3)
    fit(expected, tokenizer, TRAIN, HELD_OUT, **(OPTIONS | {"warmup": None, "epochs": 2}))

    def spoiled(self, *arguments, original=resumable.ResumableTrainer.compute_loss, **options):
        loss = original(self, *arguments, **options)
        evaluated = options.get("return_outputs")  # at the end of an epoch
        return loss if evaluated or self.state.global_step < 2 * STEPS else loss * torch.nan

    monkeypatch.setattr(resumable.ResumableTrainer, "compute_loss", spoiled)
    with pytest.raises(NumericalError, match=r"nan in epoch 3, at step 11 of 20. The model has the weights of epoch"):
        fit(model, tokenizer, TRAIN, HELD_OUT, **(OPTIONS | {"warmup": None}))
    assert same(weights(expected), weights(model))


@pytest.mark.parametrize("killed_at", [2 * STEPS, 2 * STEPS + 1])
def test_a_resumed_training_without_validation_keeps_good_weights(killed_at, often, monkeypatch, tmp_path):
    """It is killed in the third epoch, goes on, and every loss from step 13 on is no number."""
    options = {"warmup": None, "patience": None}
    break_off(monkeypatch, killed_at, tmp_path, validation=None, **options)
    reached = small(input_dropout=0.3)
    start = weights(reached[0])

    def spoiled(self, *arguments, original=resumable.ResumableTrainer.compute_loss, **more):
        loss = original(self, *arguments, **more)
        return loss if self.state.global_step < 12 else loss * torch.nan

    monkeypatch.setattr(resumable.ResumableTrainer, "compute_loss", spoiled)
    kept = "of epoch 2" if killed_at == 2 * STEPS else "after step 11"
    with pytest.raises(NumericalError, match=f"at step 13 of 20. The model has the weights {kept} again"):
        fit(*reached, TRAIN, None, checkpoint_dir=tmp_path, **(OPTIONS | options))
    assert not same(start, weights(reached[0]))


def test_the_learning_rate_rises_and_falls():
    assert [learning_rate_at(0.25, 8)(step) for step in range(9)] == pytest.approx(
        [0, 0.5, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0]
    )
    assert learning_rate_at(0.0, 4)(0) == 1
    assert learning_rate_at(None, 4)(3) == 1
    with pytest.raises(InputError, match="Expected warmup"):
        trained(warmup=1.5)


def test_the_folder_says_which_training_it_belongs_to(tmp_path):
    trained(checkpoint_dir=tmp_path, epochs=1)
    stored = json.loads((tmp_path / "training.json").read_text())["training"]
    assert stored["learning_rate"] == 0.03
    assert {"model", "train", "validation", "seed"} <= set(stored)
