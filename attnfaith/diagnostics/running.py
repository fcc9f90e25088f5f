"""`diagnose`: run Wiegreffe & Pinter's tests on a model."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pandas as pd

from attnfaith import validation
from attnfaith.adapters.cut import cut
from attnfaith.attribution.model_loading import load_model
from attnfaith.data.labels import ModelLabels
from attnfaith.diagnostics.diagnosis import SUMMARY, Diagnosis
from attnfaith.diagnostics.folder import DiagnosisFolder
from attnfaith.diagnostics.known import diagnostics
from attnfaith.diagnostics.retraining import Retraining, recorded_training, settings_of
from attnfaith.diagnostics.seeds.diagnostic import LEAST_SEEDS
from attnfaith.diagnostics.session import Session
from attnfaith.diagnostics.texts import PARTS, Texts, read_texts
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.estimates.summary_table import check
from attnfaith.evaluation.run_options import data_options_of
from attnfaith.functional.decision import decision_of
from attnfaith.models.word_vectors import load_vectors
from attnfaith.parameter_names import parameter
from attnfaith.storage.fingerprint import fingerprint_model, fingerprint_rows, fingerprint_tokenizer
from attnfaith.text.encoder import TextEncoder

LAMBDAS = (0.0, 0.0001, 0.001, 0.01, 0.1)
"""The weights of the divergence that adversaries are trained with."""
SMALL_SEEDS, SMALL_LAMBDAS = 2, 2
PACKAGES = ("attnfaith", "torch", "transformers", "numpy", "scipy")


def diagnose(
    model: Any,
    data: Any,
    tokenizer: Any = None,
    *,
    output_dir: str | os.PathLike[str],
    tests: str | Sequence[str] = "all",
    validation_data: Any = None,
    test_data: Any = None,
    input_column: str = "text",
    second_input_column: str | None = None,
    label_column: str | None = "label",
    label_mapping: Mapping[str, Any] | None = None,
    subset: str | None = None,
    split: str | None = None,
    start: str | os.PathLike[str] | None = None,
    training: Mapping[str, Any] | None = None,
    vectors: Any = None,
    seeds: int = 5,
    lambdas: Sequence[float] = LAMBDAS,
    max_distance: float = 0.05,
    small: bool = False,
    max_length: int | None = None,
    batch_size: int = 32,
    keep_models: bool = True,
    seed: int = 0,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    quiet: bool = False,
) -> Diagnosis:
    """Run Wiegreffe & Pinter's tests on a model: it is trained again under other conditions, and compared.

    A diagnosis that was interrupted goes on with the same arguments: a model that is there is not trained again. With
    more tests, seeds or lambdas, it is extended.

    Args:
        model: a Transformers classifier or one of `attnfaith.models`, its path, or a pipeline.
        data: labelled texts, as for ``Evaluator.compute``. Splits called train, validation and test are taken as they
            are; else the rows are divided at random, 70, 15 and 15 %.
        tokenizer: of the model, unless it comes with its path.
        output_dir: the folder of the diagnosis: new, empty, or of the same diagnosis.
        tests: "all", or some of their names.
        validation_data: other data for choosing epochs and the adversary.
        test_data: other data for all figures.
        input_column: the column of texts.
        second_input_column: the column of second texts, for pairs.
        label_column: the column of labels.
        label_mapping: ``{class in the model: label in the data}``.
        subset: of data that have several.
        split: of data that have several: the one for training, or all of them.
        start: a checkpoint that each training begins with, such as the pretrained encoder that was fine-tuned; without
            it, trainings begin with random weights.
        training: arguments of `attnfaith.training.fit` that the model was trained with. What `attnfaith.training.train`
            stored beside a model is used unless it is given here.
        vectors: word vectors that a model of `attnfaith.models` begins with: a file, or what
            ``attnfaith.models.load_vectors`` returns.
        seeds: how many training seeds.
        lambdas: the weights of the divergence in the objective of the adversary.
        max_distance: the mean total variation distance from the outputs of the model that an adversary may have.
        small: a rehearsal: few texts, seeds, lambdas and epochs.
        max_length: longer texts are truncated.
        batch_size: texts in a batch when outputs are computed.
        keep_models: keep the trained models in the folder.
        seed: of the division of the texts, and the first seed of the trainings.
        n_resamples: how often texts are resampled for intervals.
        confidence_level: of the intervals.
        quiet: show no progress.

    Returns:
        A `Diagnosis`; ``print`` it.
    """
    begun = time.monotonic()
    names = _tests_of(tests)
    _check_numbers(seeds, lambdas, max_distance, seed, batch_size, n_resamples, confidence_level)
    counts = (min(seeds, SMALL_SEEDS), tuple(lambdas)[-SMALL_LAMBDAS:]) if small else (seeds, tuple(lambdas))
    folder = DiagnosisFolder(output_dir)
    folder.refuse_unusable()
    loaded, tokenizer = load_model(model, tokenizer)
    if tokenizer is None:
        raise InputError("Pass the model's tokenizer as the third argument.", code="wrong-tokenizer")
    cut_model = cut(loaded)
    base = cut_model.model
    if isinstance(vectors, str | os.PathLike):
        vectors = load_vectors(os.fspath(vectors), only=set(tokenizer.get_vocab()))
    recorded = recorded_training(model)
    max_length = recorded.get("max_length") if max_length is None else max_length
    retraining = Retraining(
        base,
        tokenizer,
        None if start is None else os.fspath(start),
        settings_of(recorded, training or {}),
        vectors,
        max_length,
    )
    config: Any = base.config
    decision = decision_of(config, config.num_labels)
    if decision.kind not in ("multiclass", "sigmoid"):
        raise UnsupportedModelError(
            f"The diagnostics are for models that choose one class for each text; this one is {decision.kind}. Use "
            "attnfaith evaluate, which knows its decision."
        )
    labels = ModelLabels.of_config(config, decision.kind, config.num_labels)
    options = data_options_of(
        input_column=input_column,
        second_input_column=second_input_column,
        label_column=label_column,
        label_mapping=label_mapping,
        subset=subset,
        split=split,
    )
    encoder = TextEncoder(tokenizer, base, max_length)
    texts = read_texts(
        data, options, labels, encoder, validation=validation_data, test=test_data, small=small, seed=seed
    )
    retraining = replace(retraining, texts=len(texts["train"].rows))
    texts = replace(texts, notes=(*texts.notes, *_notes(retraining, texts, recorded)))
    folder.start(
        {
            "model": fingerprint_model(base),
            "tokenizer": fingerprint_tokenizer(tokenizer),
            "texts": {part: fingerprint_rows(texts[part].rows) for part in PARTS},
            "begins with": retraining.origin,
            "training": retraining.arguments,
            "small": small,
            "seed": seed,
            "max length": encoder.max_length,
        },
        {
            "model": model if isinstance(model, str) else type(base).__name__,
            "labels": list(labels.names),
            "classes": texts.classes,
            "texts": {part: len(texts[part].rows) for part in PARTS},
            "begins with": retraining.origin,
        },
        texts.notes,
    )
    session = Session(
        cut=cut_model,
        encoder=encoder,
        decision=decision,
        texts=texts,
        folder=folder,
        retraining=retraining,
        tests=names,
        seeds=tuple(range(seed, seed + counts[0])),
        lambdas=counts[1],
        max_distance=max_distance,
        batch_size=batch_size,
        small=small,
        quiet=quiet,
    )
    session.prepare([plan for name in names for plan in diagnostics[name]().plans(session)])
    statistics = {"resamples": n_resamples, "confidence": confidence_level, "seed": seed}
    _measure(session, statistics)
    if not keep_models:
        folder.remove_models()
    finished = {**folder.manifest.pop("measured"), "seconds": round(time.monotonic() - begun, 1)}
    folder.finish({**finished, "statistics": statistics, "versions": _versions()})
    return Diagnosis(folder)


def _measure(session: Session, statistics: Mapping[str, Any]) -> None:
    """Make all tables and estimates, and store them."""
    tables: dict[str, pd.DataFrame] = {}
    facts = session.folder.manifest["facts"]
    for name in session.tests:
        tables |= diagnostics[name]().measure(session)
    for name, table in tables.items():
        session.folder.write_table(name, table)
    summaries = [diagnostics[name]().summarise(tables, facts, statistics) for name in session.tests]
    session.folder.write_table(SUMMARY, pd.concat(summaries, ignore_index=True))
    session.folder.manifest["measured"] = {
        "tests": list(session.tests),
        "tables": list(tables),
        "seeds": list(session.seeds),
        "lambdas": list(session.lambdas),
        "max_distance": session.max_distance,
    }


def _tests_of(tests: Any) -> tuple[str, ...]:
    """The diagnostics to run, in their own order."""
    chosen = validation.several(tests, "tests")
    if chosen == "all":
        return tuple(diagnostics)
    for name in chosen:
        validation.one_of(name, list(diagnostics), "tests")
    if not chosen:
        raise InputError(f"{parameter('tests')} is empty. Known: {', '.join(diagnostics)}.")
    return tuple(name for name in diagnostics if name in chosen)


def _check_numbers(
    seeds: Any, lambdas: Any, max_distance: Any, seed: Any, batch_size: Any, n_resamples: Any, confidence: Any
) -> None:
    validation.whole_number(seeds, "seeds", least=LEAST_SEEDS)
    validation.whole_number(seed, "seed", least=0)
    validation.whole_number(batch_size, "batch_size", least=1)
    validation.share(max_distance, "max_distance", one=True)
    for weight in validation.several(lambdas, "lambdas", ()):
        validation.number(weight, "lambdas", least=0)
    if not len(lambdas):
        raise InputError(f"{parameter('lambdas')} is empty. Give at least one weight, such as 0.01.")
    check(n_resamples, confidence)


def _notes(retraining: Retraining, texts: Texts, recorded: Mapping[str, Any]) -> list[str]:
    """What a reader must know of how models are trained again."""
    notes = [f"Each training begins with {retraining.origin}; its settings: {_listed(retraining.arguments)}."]
    if recorded.get("vectors") and retraining.vectors is None:
        notes.append(
            f"The model was trained with the word vectors {recorded['vectors']!r}, and these trainings begin without: "
            f"give the file as {parameter('vectors')}."
        )
    if not retraining.own and retraining.start is None:
        notes.append(
            f"A Transformer that begins with random weights learns little from {len(texts['train'].rows):,} texts, and "
            f"is another model than one that was pretrained. If this one was, give its checkpoint as "
            f"{parameter('start')}."
        )
    return notes


def _listed(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(arguments.items()))


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
