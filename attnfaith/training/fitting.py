"""Training a classifier with Transformers' Trainer, without side effects other than the trained weights."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import EvalPrediction, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from attnfaith.errors import InputError
from attnfaith.functional.decision import Decision, decision_of
from attnfaith.parameter_names import parameter
from attnfaith.progress import duration
from attnfaith.storage.atomic_files import folder_of
from attnfaith.storage.fingerprint import fingerprint_model
from attnfaith.text.encoder import TextEncoder
from attnfaith.training.best_epoch import BestEpoch
from attnfaith.training.dataset import TrainingRows
from attnfaith.training.identity import claimed, refuse_other
from attnfaith.training.objectives.objective import Objective
from attnfaith.training.objectives.running import RunningObjectives, WithObjectives, checked_objectives, collate_extras
from attnfaith.training.one_answer import compare_with_one_answer
from attnfaith.training.recipes import learning_rate_at, make_optimizer
from attnfaith.training.restore_state import restore_after_training
from attnfaith.training.resumable import ResumableTrainer
from attnfaith.transformers_versions import grouped_by_length
from attnfaith.validation import number, share, whole_number

MOST_RATE = 1e30
"""The largest learning rate; much larger ones overflow single precision in the optimizer."""


@dataclass(frozen=True)
class History:
    """The course of a training.

    Attributes:
        epochs: for each epoch "epoch" (from 1), "loss" (the mean over its steps), and with validation data
            "validation_loss" and "validation_accuracy" (NaN for a regression; for several labels the share of texts
            with all labels right), and the figures of the objectives.
        best_epoch: the epoch whose weights the model has now: the first with the highest accuracy (for a regression,
            and with objectives that add to the loss, with the lowest loss); without validation data the last.
        stopped: whether training stopped early.
        seconds: the time of the whole call, reading the texts included.
        one_answer: what always giving one answer would have reached on the validation data: "answer" (the most
            frequent there), "accuracy" (for a regression "loss"), "texts" (their number), "p_value" (exact one-sided
            binomial, times the number of epochs that the best was chosen from) and "better", whether the model is
            better than that. None without validation data.
    """

    epochs: tuple[dict[str, float], ...]
    best_epoch: int
    stopped: bool
    seconds: float
    one_answer: dict[str, Any] | None = None

    @property
    def best(self) -> dict[str, float]:
        """The record of the best epoch."""
        return self.epochs[self.best_epoch - 1]

    def __str__(self) -> str:
        """The result in a sentence."""
        best = self.best
        accuracy = best.get("validation_accuracy", math.nan)
        figure = "" if "validation_loss" not in best else f", validation loss {best['validation_loss']:.4g}"
        figure = figure if math.isnan(accuracy) else f", validation accuracy {accuracy:.3f}"
        stopped = ", stopped early" if self.stopped else ""
        return (
            f"{len(self.epochs)} epochs in {duration(self.seconds)}{stopped}; the weights are those of epoch "
            f"{self.best_epoch}: loss {best['loss']:.3g}{figure}."
        )

    @property
    def warning(self) -> str | None:
        """A sentence if the model is no better than always giving one answer; else None."""
        if self.one_answer is None or self.one_answer["better"]:
            return None
        figure, number = (
            ("loss", "validation_loss") if "loss" in self.one_answer else ("accuracy", "validation_accuracy")
        )
        p_value = self.one_answer["p_value"]
        test = "" if math.isnan(p_value) else f" (p = {p_value:.2g})"
        return (
            f"As far as {self.one_answer['texts']} texts can tell, the model is no better than always answering "
            f"{self.one_answer['answer']!r}: validation {figure} "
            f"{self.best[number]:.3f} against {self.one_answer[figure]:.3f}{test}. Are the labels right? "
            f"Otherwise try more texts, more {parameter('epochs')}, or another {parameter('learning_rate')}."
        )


def fit(
    model: nn.Module,
    tokenizer: Any,
    train: Any,
    validation: Any = None,
    *,
    learning_rate: float,
    epochs: int = 20,
    batch_size: int = 32,
    text_column: str = "text",
    label_column: str = "label",
    second_text_column: str | None = None,
    max_length: int | None = None,
    optimizer: str = "adam",
    amsgrad: bool = False,
    weight_decay: float = 0.0,
    weight_decay_exclude: str | None = None,
    max_grad_norm: float | None = None,
    warmup: float | None = None,
    patience: int | None = 5,
    freeze_vectors: bool = False,
    objectives: Sequence[Objective] = (),
    seed: int = 0,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    quiet: bool = True,
) -> History:
    """Train a classifier in place, and keep the weights of the epoch that is best on the validation data.

    It works for any text classifier of Transformers or `attnfaith.models`; `recipe` returns the papers' settings.
    Afterwards the model is in evaluation mode, on its device, without gradients; the random states of the process are
    as before, and no file is left but checkpoints. The same model, data and seed give the same weights on the same
    machine with the same number of threads; the initial weights of a new model depend on ``torch.manual_seed``.

    Args:
        model: a classifier whose forward pass takes ``labels`` and returns a loss.
        tokenizer: the model's own.
        train: a list of dicts, a DataFrame or a ``datasets.Dataset``; labels are whole numbers from 0 (for one logit 0
            and 1; for several labels lists of 0 and 1; for a regression numbers).
        validation: data of the same form for choosing the epoch; without it, all epochs are run and the last is kept.
        learning_rate: constant, unless ``warmup`` is given. 1e-3 suits small models from scratch, 2e-5 pretrained
            Transformers.
        epochs: the largest number of passes over the data.
        batch_size: texts in a step; texts of similar length are batched together.
        text_column: the column of the texts.
        label_column: the column of the labels.
        second_text_column: the column of the second texts, for pairs.
        max_length: longer texts are truncated; by default to what tokenizer and model take.
        optimizer: "adam" or "adamw".
        amsgrad: use the AMSGrad variant.
        weight_decay: applied to all parameters ...
        weight_decay_exclude: ... except those whose name contains a match of this regular expression.
        max_grad_norm: larger gradients are scaled down to this norm; None for no limit.
        warmup: the share of the steps in which the learning rate rises from 0; then it falls to 0 with the last step.
            None for a constant rate.
        patience: stop after this many epochs without a better validation accuracy; None never stops.
        freeze_vectors: do not train the word embeddings.
        objectives: interventions on the training, such as ``[DeceptiveAttention(["he", "she"])]``. What they add to
            the loss is in "loss" and "validation_loss".
        seed: the seed of the order of the texts and of dropout.
        checkpoint_dir: a folder for checkpoints: after each epoch, and in long epochs every half minute. If the
            training is interrupted or killed, the same call continues from the last one, to the same weights.
        quiet: show no progress.

    Example:
        >>> import attnfaith as af
        >>> data = [{"text": text, "label": label} for text, label in [("a good film", 1), ("a bad film", 0)] * 8]
        >>> tokenizer = af.models.WordTokenizer.train([row["text"] for row in data], min_count=1)
        >>> model = af.models.from_preset("FLANnoenc", tokenizer=tokenizer, embedding_size=8)
        >>> history = fit(model, tokenizer, data, data, learning_rate=0.1, epochs=10, batch_size=4)
        >>> history.best["validation_accuracy"]
        1.0
    """
    start = time.perf_counter()
    _check_numbers(learning_rate, epochs, batch_size, patience, weight_decay, max_grad_norm, warmup)
    config: Any = getattr(model, "config", None)
    if not isinstance(getattr(config, "num_labels", None), int):
        raise InputError(f"{type(model).__name__} has no config with num_labels; expected a Transformers classifier.")
    _check_padding(config, batch_size)
    texts = TextEncoder(tokenizer, model, max_length)
    decision = decision_of(config, config.num_labels)
    objectives = checked_objectives(objectives)

    def read(data: Any, data_name: str) -> TrainingRows:
        columns = {"text": text_column, "second_text": second_text_column, "label": label_column}
        return TrainingRows(
            texts, data, columns, kind=decision.kind, num_labels=config.num_labels, data_name=data_name,
            objectives=objectives,
        )  # fmt: skip

    rows = read(train, "train")
    running = RunningObjectives(objectives, rows.setting(model, texts, seed), rows.marks) if objectives else None
    held_out = None if validation is None else read(validation, "validation")
    identity: dict[str, Any] = {
        "learning_rate": learning_rate,
        "epochs": epochs,
        "batch_size": batch_size,
        "optimizer": optimizer,
        "amsgrad": amsgrad,
        "weight_decay": weight_decay,
        "weight_decay_exclude": weight_decay_exclude,
        "max_grad_norm": max_grad_norm,
        "warmup": warmup,
        "patience": patience,
        "freeze_vectors": freeze_vectors,
        "seed": seed,
    }
    if objectives:
        identity["objectives"] = [objective.identity() for objective in objectives]
    with (
        nullcontext() if checkpoint_dir is None else _claimed(checkpoint_dir, identity, model, rows, held_out),
        _folder(checkpoint_dir) as folder,
        _frozen_vectors(model, freeze_vectors),
        restore_after_training(model),
        nullcontext() if running is None else running.held(),
        BestEpoch(
            model,
            patience=patience,
            epochs=epochs,
            quiet=quiet,
            by_loss=running is not None and running.penalises,
        ) as best,
    ):
        torch_optimizer = make_optimizer(
            model,
            optimizer=optimizer,
            learning_rate=learning_rate,
            amsgrad=amsgrad,
            weight_decay=weight_decay,
            weight_decay_exclude=weight_decay_exclude,
        )
        arguments = TrainingArguments(
            output_dir=str(folder),
            num_train_epochs=epochs,
            per_device_train_batch_size=batch_size,
            per_device_eval_batch_size=4 * batch_size,
            max_grad_norm=max_grad_norm or 0.0,
            **grouped_by_length(TrainingArguments),
            eval_strategy="no" if held_out is None else "epoch",
            logging_strategy="epoch",
            logging_nan_inf_filter=False,
            save_strategy="no" if checkpoint_dir is None else "epoch",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            label_names=["labels"],
            dataloader_pin_memory=False,
            seed=seed,
        )
        rate = learning_rate_at(warmup, epochs * math.ceil(len(rows) / batch_size))
        trainer = _Trainer(
            best=best,
            objectives=running,
            model=model,
            args=arguments,
            data_collator=partial(_collate, texts, running),
            train_dataset=rows,
            eval_dataset=held_out,
            compute_metrics=None if decision.kind == "regression" else _accuracy,
            optimizers=(torch_optimizer, LambdaLR(torch_optimizer, rate)),
            preprocess_logits_for_metrics=partial(_predictions, decision),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.resume()
        best.restore_best()
    seconds = best.earlier_seconds + time.perf_counter() - start
    records, one_answer = tuple(best.epochs), None
    if held_out is not None:
        names = getattr(config, "id2label", None) or {}
        one_answer = compare_with_one_answer(decision.kind, held_out.labels, records, best.best_epoch, names)
    return History(records, best.best_epoch, best.stopped, seconds, one_answer)


def _claimed(
    checkpoint_dir: Any, settings: dict[str, Any], model: nn.Module, rows: TrainingRows, held_out: TrainingRows | None
) -> AbstractContextManager[None]:
    """Note in the folder of checkpoints which training it belongs to; refuse that of another."""
    folder = folder_of(checkpoint_dir)
    identity = settings | {
        "model": fingerprint_model(model),
        "train": rows.fingerprint,
        "validation": None if held_out is None else held_out.fingerprint,
    }
    if refuse_other(folder, identity, argument="checkpoint_dir") is not None:
        return nullcontext()
    if present := sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []:
        raise InputError(
            f"{str(folder)!r} holds other files ({present[0]!r}). Give a new or empty folder as "
            f"{parameter('checkpoint_dir')}.",
            code="not-a-run",
        )
    return claimed(folder, {"training": identity})


@contextmanager
def _folder(given: Any) -> Iterator[Path]:
    """The folder of checkpoints, or one that is removed."""
    if given is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    yield folder_of(given)


def _check_numbers(
    learning_rate: Any,
    epochs: Any,
    batch_size: Any,
    patience: Any,
    weight_decay: Any,
    max_grad_norm: Any,
    warmup: Any,
) -> None:
    whole_number(epochs, "epochs", least=1)
    whole_number(batch_size, "batch_size", least=1)
    number(learning_rate, "learning_rate", above=0, most=MOST_RATE)
    number(weight_decay, "weight_decay", least=0)
    if patience is not None:
        whole_number(patience, "patience", least=1, also="None")
    if max_grad_norm is not None:
        number(max_grad_norm, "max_grad_norm", above=0)
    if warmup is not None:
        share(warmup, "warmup", zero=True)


def _check_padding(config: Any, batch_size: int) -> None:
    if batch_size > 1 and hasattr(config, "pad_token_id") and config.pad_token_id is None:
        raise InputError(
            "The model's configuration has no padding token, so the model can read only one text at a time. Set "
            "model.config.pad_token_id = tokenizer.pad_token_id (and tokenizer.pad_token = tokenizer.eos_token if the "
            "tokenizer has none either), or "
            f"{parameter('batch_size', 1)}.",
            code="missing-padding-token",
        )


@contextmanager
def _frozen_vectors(model: nn.Module, freeze: bool) -> Iterator[None]:
    """Freeze the word embeddings while entered, if ``freeze`` is set."""
    if not freeze:
        yield
        return
    if not hasattr(model, "get_input_embeddings"):
        raise InputError(
            f"{type(model).__name__} has no get_input_embeddings(), so its word embeddings are not known. Freeze them "
            "yourself."
        )
    embeddings: Any = model.get_input_embeddings  # torch types every attribute of a module as a tensor
    parameters = list(embeddings().parameters())
    before = [parameter.requires_grad for parameter in parameters]
    try:
        for parameter in parameters:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter, flag in zip(parameters, before, strict=True):
            parameter.requires_grad_(flag)


class _Trainer(WithObjectives, ResumableTrainer):
    """Transformers' Trainer, with checkpoints and objectives."""


def _collate(texts: TextEncoder, running: RunningObjectives | None, rows: list[dict[str, Any]]) -> dict[str, Any]:
    inputs: dict[str, Any] = texts.collate([row["encoded"] for row in rows])
    extras = {} if running is None else collate_extras(texts, rows, inputs["input_ids"].shape[1])
    return inputs | {"labels": torch.stack([row["labels"] for row in rows])} | extras


def _predictions(decision: Decision, logits: Any, labels: Tensor) -> Tensor:
    """The prediction for each text; some models return a tuple that begins with the logits."""
    logits = logits[0] if isinstance(logits, tuple | list) else logits
    if decision.kind == "regression":
        return logits
    return (logits > decision.threshold).float() if decision.kind == "multilabel" else decision.predict(logits)


def _accuracy(prediction: EvalPrediction) -> dict[str, float]:
    right = np.asarray(prediction.predictions == prediction.label_ids)
    return {"accuracy": float(right.reshape(len(right), -1).all(-1).mean())}
