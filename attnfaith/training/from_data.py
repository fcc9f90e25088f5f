"""`train`: from a preset or a Transformer and labelled texts of any kind to a folder with a complete model."""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from attnfaith import validation as checks
from attnfaith.addresses import is_address
from attnfaith.errors import InputError, NumericalError
from attnfaith.evaluation.run_options import data_options_of
from attnfaith.functional.decision import KINDS
from attnfaith.parameter_names import parameter
from attnfaith.progress import ProgressLog
from attnfaith.storage.atomic_files import folder_of, probe, storing
from attnfaith.storage.fingerprint import fingerprint_model
from attnfaith.training.fitting import History, fit
from attnfaith.training.identity import NAME, claimed, read_training, refuse_other, write_training
from attnfaith.training.labelled_texts import read_labelled_texts
from attnfaith.training.objectives.objective import Objective
from attnfaith.training.objectives.running import checked_objectives
from attnfaith.training.recipes import FINE_TUNING, recipe
from attnfaith.training.resumable import no_bars
from attnfaith.training.starting_model import is_preset, load_start, new_model, with_head
from attnfaith.training.training_card import training_card

CHECKPOINTS = "checkpoints"


def train(
    model: str | os.PathLike[str],
    data: Any,
    *,
    output_dir: str | os.PathLike[str],
    input_column: str = "text",
    label_column: str = "label",
    second_input_column: str | None = None,
    label_mapping: Mapping[Any, Any] | None = None,
    subset: str | None = None,
    split: str | None = None,
    validation: Any = None,
    decision: str | None = None,
    max_length: int | None = None,
    dataset: str | None = None,
    vectors: str | os.PathLike[str] | None = None,
    freeze_vectors: bool = False,
    min_count: int | None = None,
    learning_rate: float | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    patience: int | None = None,
    weight_decay: float | None = None,
    max_grad_norm: float | None = None,
    warmup: float | None = None,
    objectives: Sequence[Objective] = (),
    seed: int = 0,
    quiet: bool = False,
) -> History:
    """Train a preset from scratch, or fine-tune a Transformer, and save a complete model in a folder.

    Settings that are not given are those of `recipe`, for the number of texts. An interrupted or killed training
    continues when it is called again with the same arguments, to the same weights. A finished one is not repeated.

    Args:
        model: a preset (`attnfaith.models.presets`), the folder of a Transformer, or its name on the hub. A Transformer
            without a trained head gets one for the labels of the data.
        data: anything that `Evaluator.compute` reads.
        output_dir: the folder of the model, new or of the same training.
        input_column: the column of the texts.
        label_column: the column of the labels: classes as numbers or strings, lists of labels, or numbers.
        second_input_column: the column of the second texts, for pairs.
        label_mapping: ``{class in the model: label in the data}``.
        subset: the subset of data that have several.
        split: the split of data that have several; by default "train".
        validation: a split of the data, or other data, for choosing the epoch. By default the split "validation" (or
            "val", "valid", "dev"), else a tenth of the texts, drawn by the seed.
        decision: how a new model decides: "multiclass", "sigmoid", "multilabel" or "regression". By default from the
            labels: classes, or several labels where they are lists.
        max_length: longer texts are truncated.
        dataset: the data set of the preset's paper whose settings to take.
        vectors: a file of word vectors, see `attnfaith.models.load_vectors`.
        freeze_vectors: do not train the word vectors.
        min_count: a preset knows words that occur at least so often; by default 2, and the paper's number from 10,000
            texts on.
        learning_rate: see `fit`, also for the others; None for those of the recipe.
        epochs: the largest number of passes over the data.
        batch_size: texts in a step.
        patience: stop after so many epochs without a better validation accuracy; 0 never stops.
        weight_decay: the weight decay.
        max_grad_norm: larger gradients are scaled down to this norm; 0 for no limit.
        warmup: the share of the steps in which the learning rate rises, before it falls.
        objectives: interventions on the training, see `fit`; not those that replace the attention, which would end with
            the training and be missing in the folder.
        seed: the seed of the initial weights, the order of the texts, dropout, and the texts that are held out.
        quiet: show no progress.

    Example:
        >>> import tempfile
        >>> rows = [
        ...     {"text": text, "label": label} for text, label in [("a good film", "yes"), ("a bad film", "no")] * 9
        ... ]
        >>> folder = tempfile.mkdtemp()
        >>> history = train("FLANnoenc", rows, output_dir=folder, learning_rate=0.1, epochs=5, quiet=True)
        >>> history.best["validation_accuracy"], load_history(folder).best_epoch == history.best_epoch
        (1.0, True)
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError(
            "A training runs in one process, and torchrun has started several. Start it without torchrun; or train "
            "with a script and Transformers' Trainer."
        )
    folder = _checked_folder(output_dir)
    seed = checks.whole_number(seed, "seed", least=0)
    kind: Any = checks.one_of(decision, (None, *KINDS), "decision")
    log = ProgressLog("training", quiet=quiet)
    of_preset = is_preset(model)
    _refuse_foreign_options(model, of_preset, dataset=dataset, vectors=vectors, min_count=min_count)
    objectives = _checked_objectives(objectives)
    checks.positive_int(max_length, "max_length")
    checks.positive_int(min_count, "min_count")
    if vectors is not None:
        checks.path(vectors, "vectors")
    options = data_options_of(
        input_column=input_column,
        second_input_column=second_input_column,
        label_column=label_column,
        label_mapping=label_mapping,
        subset=subset,
        split=split,
    )
    marked = tuple(objective.column for objective in objectives if objective.column is not None)
    options = dataclasses.replace(options, other_columns=marked)
    with torch.random.fork_rng(devices=[]):
        start: tuple[Any, Any, Any] = (None, None, None) if of_preset else load_start(model)
    classifier, tokenizer, labels = start
    texts = read_labelled_texts(data, options, labels=labels, kind=kind, validation=validation, seed=seed)
    notes = texts.notes
    if of_preset:
        classifier, tokenizer, more = new_model(
            str(model),
            texts,
            dataset=dataset,
            vectors=vectors,
            freeze_vectors=freeze_vectors,
            min_count=min_count,
            max_length=max_length,
            seed=seed,
        )
        notes += more
    elif labels is None:
        classifier = with_head(model, texts.labels, seed)
        notes += (f"The model had no trained head, and got one for {max(1, texts.labels.count)} classes.",)
    given = {
        "learning_rate": learning_rate,
        "epochs": epochs,
        "batch_size": batch_size,
        "weight_decay": weight_decay,
        "warmup": warmup,
    }
    settings = recipe(str(model) if of_preset else FINE_TUNING, dataset=dataset, texts=len(texts.train))
    settings |= {name: value for name, value in given.items() if value is not None}
    if patience is not None:
        settings["patience"] = checks.whole_number(patience, "patience", least=0) or None
    if max_grad_norm is not None:
        settings["max_grad_norm"] = max_grad_norm or None
    identity = {
        "start": Path(str(model)).name,
        **settings,
        "seed": seed,
        "max_length": max_length,
        "dataset": dataset,
        "vectors": None if vectors is None else Path(vectors).name,
        "freeze_vectors": freeze_vectors,
        "min_count": min_count,
        "train": texts.fingerprint,
        "model": fingerprint_model(classifier),
    }
    if objectives:
        identity["objectives"] = [objective.identity() for objective in objectives]
    stored = refuse_other(folder, identity, argument="output_dir")
    if stored is not None and stored["finished"]:
        log.say(f"This training is finished: the model is in {str(folder)!r}.")
        return load_history(folder)
    for note in notes:
        log.say(note)
    about = {"notes": notes, "texts": [len(texts.train), len(texts.validation)]}
    unfinished = {"training": identity, "finished": False, **about}
    try:
        with claimed(folder, unfinished) if stored is None else nullcontext():
            history = fit(
                classifier,
                tokenizer,
                texts.train,
                texts.validation,
                second_text_column="second_text" if "second_text" in texts.train[0] else None,
                **settings,
                max_length=max_length,
                freeze_vectors=freeze_vectors,
                objectives=objectives,
                seed=seed,
                checkpoint_dir=folder / CHECKPOINTS,
                quiet=quiet,
            )
    except NumericalError as error:
        _save(folder, classifier, tokenizer)
        raise NumericalError(f"{error.message} They are saved in {str(folder)!r}.", code=error.code) from error
    content = {"training": identity, "finished": True, **about, "history": _as_json(history)}
    _save(folder, classifier, tokenizer)
    if objectives:
        settings["objectives"] = ", ".join(map(repr, objectives))
    card = training_card(str(Path(str(model)).name), classifier, texts, settings, history, content)
    with storing(folder):
        (folder / "README.md").write_text(card, encoding="utf-8")
    write_training(folder, content)
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return history


def load_history(folder: str | os.PathLike[str]) -> History:
    """The course of a training that `train` or ``attnfaith train`` finished, from the folder of its model."""
    path = folder_of(folder)
    stored = read_training(path)
    if stored is None or not stored.get("finished"):
        raise InputError(
            f"{str(path)!r} holds no finished training (no {NAME} that says so). Give the folder of a model that "
            "attnfaith train made.",
            code="unfinished-run" if stored else "not-a-run",
        )
    values = dict(stored["history"])
    epochs, one_answer = tuple(map(_with_nan, values.pop("epochs"))), values.pop("one_answer")
    return History(epochs, **values, one_answer=None if one_answer is None else _with_nan(one_answer))


def _as_json(history: History) -> dict[str, Any]:
    """What `load_history` reads; JSON has no NaN, and null stands for it."""
    values = dataclasses.asdict(history)
    values["epochs"] = list(map(_with_null, history.epochs))
    values["one_answer"] = None if history.one_answer is None else _with_null(history.one_answer)
    return values


def _with_null(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in record.items()}


def _with_nan(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in record.items()}


def _checked_folder(output_dir: Any) -> Path:
    """The folder of the model; one with other files, and one that cannot be written, are refused."""
    if is_address(output_dir):
        raise InputError(f"A model is trained into a local folder; {output_dir!r} is an address. Copy it afterwards.")
    folder = folder_of(checks.path(output_dir, "output_dir"))
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file. Give a folder for the model, as {parameter('output_dir')}.")
    present = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if present and NAME not in present:
        raise InputError(
            f"{str(folder)!r} holds other files ({present[0]!r}) and no {NAME}. Give another "
            f"{parameter('output_dir')}, new or empty.",
            code="not-a-run",
        )
    with storing(folder):
        probe(next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists()))
    return folder


def _checked_objectives(objectives: Any) -> tuple[Objective, ...]:
    objectives = checked_objectives(objectives)
    for objective in objectives:
        if type(objective).replacement is not Objective.replacement:
            raise InputError(
                f"{type(objective).__name__} replaces the attention until the training ends, so the model in the "
                "folder would have another one than was trained. Use `attnfaith.training.fit`, and its method `on`."
            )
        if objective.column in ("text", "second_text", "label"):
            raise InputError(
                f"{type(objective).__name__} reads the column {objective.column!r}, a name that texts or labels get. "
                "Rename it."
            )
    return objectives


def _refuse_foreign_options(model: Any, of_preset: bool, **options: Any) -> None:
    for name, value in options.items():
        if value is not None and not of_preset:
            raise InputError(
                f"{parameter(name)} is for the presets, and {checks.short_repr(str(model))} is a model of its own. "
                "Leave it out."
            )


def _save(folder: Path, model: Any, tokenizer: Any) -> None:
    """Save a model beside what the folder holds: files are written elsewhere, and moved when they are whole."""
    with storing(folder):
        whole = folder / CHECKPOINTS / ".model"
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir(parents=True)
        tokenizer.save_pretrained(whole)
        with no_bars():
            model.save_pretrained(whole)
        for file in sorted(whole.iterdir(), key=lambda entry: entry.name.startswith("model")):
            os.replace(file, folder / file.name)
