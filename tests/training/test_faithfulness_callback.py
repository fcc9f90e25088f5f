import math

import pytest
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

import attnfaith as af
from attnfaith.attribution.attributor import Attributor
from attnfaith.errors import InputError
from attnfaith.tiny_models import tiny_model
from attnfaith.training import FaithfulnessCallback
from tests.helpers import tokenizers, training_data

ROWS = training_data.rows(24)
TEXTS = [row["text"] for row in training_data.rows(8, seed=1)]
NAMES = {f"eval_attention_{name}" for name in ("median_fraction", "never_flipped", "efficiency", "agreement")}


class Seen(TrainerCallback):
    """What loggers such as TensorBoard are given."""

    def __init__(self):
        self.logs = []

    def on_log(self, args, state, control, logs, **kwargs):
        self.logs.append(dict(logs))


def flan():
    model, tokenizer = training_data.small("FLANrnn")
    return model, tokenizer, 0.05


def bert():
    """With dropout, so that a draw more or less would show."""
    torch.manual_seed(0)
    model = tiny_model("bert")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.1
    return model, tokenizers.word_piece([row["text"] for row in ROWS]), 0.01


CHECKPOINTING = (
    "activation_checkpointing" if hasattr(TrainingArguments, "activation_checkpointing") else "gradient_checkpointing"
)
MODELS = {"flan": (flan, {}), "bert": (bert, {}), "checkpointing": (bert, {CHECKPOINTING: True})}


def trained(name, folder, callback, **options):
    make, more = MODELS[name]
    model, tokenizer, rate = make()
    data = [{**tokenizer(row["text"]), "label": row["label"]} for row in ROWS]
    settings = {
        "max_steps": 6,
        "eval_strategy": "steps",
        "eval_steps": 3,
        "logging_steps": 3,
        "learning_rate": rate,
        "per_device_train_batch_size": 4,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "save_strategy": "no",
        **more,
        **options,
    }
    arguments = TrainingArguments(str(folder), **settings)
    seen = Seen()
    trainer = Trainer(
        model, arguments, train_dataset=data, eval_dataset=data[:8], processing_class=tokenizer, callbacks=[seen]
    )
    if callback:
        trainer.add_callback(FaithfulnessCallback(trainer, TEXTS))
    trainer.train()
    return trainer, seen


@pytest.mark.parametrize("name", MODELS)
def test_training_is_not_changed_and_figures_are_logged(name, tmp_path):
    without, _ = trained(name, tmp_path / "without", callback=False)
    trainer, seen = trained(name, tmp_path / "with", callback=True)
    before, after = training_data.weights(without.model), training_data.weights(trainer.model)
    assert training_data.same(before, after)
    fresh = training_data.weights(MODELS[name][0]()[0])
    assert not training_data.same(fresh, after)  # it was trained at all
    assert [parameter.requires_grad for parameter in trainer.model.parameters()] == [
        parameter.requires_grad for parameter in without.model.parameters()
    ]
    assert [module.training for module in trainer.model.modules()] == [
        module.training for module in without.model.modules()
    ]
    losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert losses == [entry["eval_loss"] for entry in without.state.log_history if "eval_loss" in entry]
    logged = [entry for entry in trainer.state.log_history if entry.keys() & NAMES]
    assert [entry["step"] for entry in logged] == [3, 6]
    assert all(entry.keys() >= NAMES for entry in logged)
    assert [set(logs) & NAMES for logs in seen.logs if logs.keys() & NAMES] == [NAMES, NAMES]
    # the last figures are those of an Evaluator on the trained model
    level = "attention" if name == "flan" else "input"
    results = af.Evaluator(trainer.model, trainer.processing_class).compute(
        TEXTS, rankings=["attention"], tests=["erasure"], level=level, n_resamples=1, quiet=True
    )
    summary = results.summary().query("ranking == 'attention' and other == ''")
    figures = dict(zip(summary["figure"], summary["value"], strict=True))
    last = logged[-1]
    assert last["eval_attention_never_flipped"] == figures["never_flipped"]
    assert last["eval_attention_median_fraction"] == pytest.approx(figures["median_fraction"], nan_ok=True)
    bound = "efficiency" if level == "attention" else "efficiency_high"
    assert last["eval_attention_efficiency"] == pytest.approx(figures[bound], nan_ok=True)
    assert -1 <= last["eval_attention_agreement"] <= 1


def test_the_agreement_is_the_mean_tau(tmp_path):
    stats = pytest.importorskip("scipy.stats")
    trainer, _ = trained("flan", tmp_path, callback=True)
    scores = [
        [one.scores for one in Attributor(trainer.model, trainer.processing_class, method=method)(TEXTS)]
        for method in ("attention", "gradient_x_attention")
    ]
    taus = [stats.kendalltau(*pair).statistic for pair in zip(*scores, strict=True)]
    metrics = trainer.evaluate()
    assert metrics["eval_attention_agreement"] == pytest.approx(sum(taus) / len(taus))
    logged = len(trainer.state.log_history)
    assert trainer.evaluate()["eval_attention_agreement"] == metrics["eval_attention_agreement"]
    assert len(trainer.state.log_history) == logged + 1  # the same weights are not evaluated, and logged, again
    with torch.no_grad():
        next(trainer.model.parameters()).mul_(-1)
    trainer.evaluate()
    assert len(trainer.state.log_history) == logged + 3


def test_the_best_model_can_be_chosen_by_it(tmp_path):
    options = {"load_best_model_at_end": True, "save_strategy": "steps", "save_steps": 3}
    trainer, _ = trained("flan", tmp_path, callback=True, metric_for_best_model="attention_never_flipped", **options)
    shares = [entry["eval_attention_never_flipped"] for entry in trainer.state.log_history if entry.keys() & NAMES]
    assert trainer.state.best_metric == max(shares)


def test_the_model_that_the_trainer_has_now_is_evaluated(tmp_path):
    """With a ``model_init`` it makes another one when training begins."""
    tokenizer = flan()[1]
    data = [{**tokenizer(row["text"]), "label": row["label"]} for row in ROWS]
    arguments = TrainingArguments(str(tmp_path), max_steps=1, report_to=[], disable_tqdm=True, use_cpu=True)
    trainer = Trainer(
        args=arguments,
        model_init=lambda: flan()[0],
        train_dataset=data,
        eval_dataset=data[:4],
        processing_class=tokenizer,
    )
    callback = FaithfulnessCallback(trainer, TEXTS)
    trainer.add_callback(callback)
    trainer.train()
    assert trainer.evaluate().keys() >= NAMES
    assert callback._model is trainer.model


def test_half_precision_training(tmp_path):
    trainer, _ = trained("bert", tmp_path, callback=True, bf16=True)
    logged = [entry for entry in trainer.state.log_history if entry.keys() & NAMES]
    assert [math.isnan(entry["eval_attention_never_flipped"]) for entry in logged] == [False, False]


def test_refused(tmp_path):
    model, tokenizer, _ = flan()
    trainer = Trainer(model, TrainingArguments(str(tmp_path), report_to=[], use_cpu=True))
    with pytest.raises(InputError, match="processing_class"):
        FaithfulnessCallback(trainer, TEXTS)
    for texts in ("a film", []):
        with pytest.raises(InputError, match="a list of texts"):
            FaithfulnessCallback(trainer, texts, tokenizer=tokenizer)
    with pytest.raises(InputError, match="level"):
        FaithfulnessCallback(trainer, TEXTS, tokenizer=tokenizer, level="both")
    with pytest.raises(InputError, match="Make the Trainer first"):
        FaithfulnessCallback(TEXTS, trainer)
    trainer.is_fsdp_enabled = True
    with pytest.raises(InputError, match="FSDP or DeepSpeed"):
        FaithfulnessCallback(trainer, TEXTS, tokenizer=tokenizer)
    trainer.is_fsdp_enabled, trainer.model = False, torch.nn.Linear(2, 2)
    with pytest.raises(InputError, match="Linear"):
        FaithfulnessCallback(trainer, TEXTS, tokenizer=tokenizer)
