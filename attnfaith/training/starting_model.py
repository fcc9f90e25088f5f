"""The model that a training starts from: a new one of a preset, or a Transformer, with a head for the labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from attnfaith.attribution.model_loading import load_body
from attnfaith.data.source import ModelLabels
from attnfaith.errors import InputError
from attnfaith.functional.decision import decision_of
from attnfaith.models import WordTokenizer, from_preset, load_vectors
from attnfaith.models.paper_presets import PRESETS, preset
from attnfaith.parameter_names import parameter
from attnfaith.training.labelled_texts import LabelledTexts, class_name
from attnfaith.validation import did_you_mean, short_repr

SMALL = 10_000
"""With fewer texts, words that occur twice are known; papers that say otherwise had more."""
_PROBLEMS = {"multiclass": "single_label_classification", "sigmoid": "single_label_classification"}
_PROBLEMS |= {"multilabel": "multi_label_classification", "regression": "regression"}


def is_preset(name: Any) -> bool:
    """Whether a name is that of a preset; a misspelt one is refused."""
    if name in PRESETS:
        return True
    near = "" if not isinstance(name, str) or Path(name).exists() else did_you_mean(name, PRESETS)
    if near:
        raise InputError(
            f"There is no preset and no folder {short_repr(name)}.{near} {PRESETS.where}",
            code="unknown-name",
        )
    return False


def new_model(
    name: str,
    data: LabelledTexts,
    *,
    dataset: str | None,
    vectors: Any,
    freeze_vectors: bool,
    min_count: int | None,
    max_length: int | None,
    seed: int,
) -> tuple[Any, Any, tuple[str, ...]]:
    """A new model of a preset, its tokenizer, and notes.

    Args:
        name: the preset.
        data: the texts, from which the vocabulary and the classes come.
        dataset: the data set of the paper whose settings to take.
        vectors: a file of word vectors; None for random ones.
        freeze_vectors: do not train the word vectors.
        min_count: how often a word must occur; None for the paper's number, but 2 with fewer than `SMALL` texts.
        max_length: the length to which texts are truncated.
        seed: of the initial weights.
    """
    settings = preset(name, dataset=dataset)
    if min_count is None:
        min_count = 2 if len(data.train) < SMALL else settings.training.get("min_count", 5)
    by_sentences = settings.config.get("by_sentences", False)
    tokenizer = WordTokenizer.train(
        data.texts, min_count=min_count, sentences=by_sentences, model_max_length=max_length
    )
    words = len(tokenizer) - len(set(tokenizer.all_special_ids))
    if words < 2:
        raise InputError(
            f"The texts have only one word that occurs {min_count} times or more, so they all look the same to a "
            f"model. Give other texts, or a smaller {parameter('min_count')}.",
            code="no-texts",
        )
    notes: tuple[str, ...] = (f"The model knows {words:,} words, which occur {min_count} times or more.",)
    options: dict[str, Any] = {"num_labels": data.labels.count, "problem_type": _PROBLEMS[data.labels.kind]}
    options |= _names(data.labels)
    options |= {"query": True} if "second_text" in data.train[0] else {}
    found = None
    if vectors is not None:
        known = {form for word in tokenizer.get_vocab() for form in (word, word.lower())}
        found = load_vectors(vectors, _words_beside(Path(vectors)), only=known)
        if not found.words:
            raise InputError(
                f"{str(vectors)!r} has a vector for none of the {words:,} words of the texts. Give vectors of the same "
                f"language, or leave {parameter('vectors')} out.",
                code="unreadable-data",
            )
        options["embedding_size"] = found.matrix.shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = from_preset(name, tokenizer=tokenizer, dataset=dataset, **options)
    if data.labels.numbers_are_names:
        model.config.numbers_are_names = True
    if found is not None:
        coverage = model.set_word_vectors(tokenizer, found)
        notes += (f"{coverage}{', which training leaves as it is' if freeze_vectors else ''}.",)
    return model, tokenizer, notes


def load_start(name: Any) -> tuple[Any, Any, ModelLabels | None]:
    """A Transformer and its tokenizer, with its classes; None for classes if it has no trained head."""
    model, tokenizer, headless = load_body(name)
    if headless:
        return model, tokenizer, None
    config = model.config
    decision = decision_of(config, config.num_labels)
    return model, tokenizer, ModelLabels.of_config(config, decision.kind, config.num_labels)


def with_head(name: Any, labels: ModelLabels, seed: int) -> Any:
    """A Transformer with a new head for these classes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, _, _ = load_body(name, num_labels=labels.count, problem_type=_PROBLEMS[labels.kind], **_names(labels))
    if labels.numbers_are_names:
        model.config.numbers_are_names = True
    return model


def _names(labels: ModelLabels) -> dict[str, Any]:
    if not labels.usable_names or labels.kind == "sigmoid":
        return {}
    names = {number: class_name(labels, number) for number in range(labels.classes)}
    return {"id2label": names, "label2id": {label: number for number, label in names.items()}}


def _words_beside(path: Path) -> Path | None:
    """The list of words of a ``.npy`` matrix: the text file with its name, or the only one beside it."""
    if path.suffix != ".npy" or not path.parent.is_dir():
        return None
    if path.with_suffix(".txt").is_file():
        return path.with_suffix(".txt")
    lists = sorted(path.parent.glob("words*.txt"))
    return lists[0] if len(lists) == 1 else None
