"""Labelled texts for training, validation and test: read from one table or from several, and encoded for the model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import datasets

from attnfaith.data.files import open_path
from attnfaith.data.labels import ModelLabels
from attnfaith.data.source import DataOptions, DataSource, Row
from attnfaith.errors import InputError
from attnfaith.evaluation.runner import encode
from attnfaith.functional.keyed_order import rows_at
from attnfaith.parameter_names import parameter
from attnfaith.text.encoded import EncodedText
from attnfaith.text.encoder import TextEncoder

PARTS = ("train", "validation", "test")
NAMES = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "dev", "development"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""The names that splits of a data set have."""
SHARES = (0.7, 0.15, 0.15)
"""The shares of a table without splits that become the three parts."""
SMALL = (400, 100, 100)
"""The most texts of each part in a small diagnosis."""
LEAST = 2
"""The fewest texts of a part."""
_SHARD = 1024


@dataclass(frozen=True, eq=False)
class TextPart:
    """The texts of one part.

    Attributes:
        rows: with their labels.
        encoded: the same texts, encoded for the model.
    """

    rows: Sequence[Row]
    encoded: Sequence[EncodedText]

    @property
    def labels(self) -> list[int]:
        """The class of each text."""
        return [int(row.label) for row in self.rows]  # type: ignore[arg-type]  # checked when they were read

    def for_training(self) -> list[dict[str, Any]]:
        """The rows as `attnfaith.training.fit` reads them: "text", "label", and for pairs "second_text"."""
        return [
            {"text": row.text, "label": label, **({} if row.pair is None else {"second_text": row.pair})}
            for row, label in zip(self.rows, self.labels, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Texts:
    """The three parts, and how they were made.

    Attributes:
        parts: by name, see `PARTS`.
        classes: the number of classes.
        notes: for the reader of the results.
    """

    parts: Mapping[str, TextPart]
    classes: int
    notes: tuple[str, ...] = ()

    def __getitem__(self, part: str) -> TextPart:
        return self.parts[part]


def read_texts(
    data: Any,
    options: DataOptions,
    labels: ModelLabels,
    encoder: TextEncoder,
    *,
    validation: Any = None,
    test: Any = None,
    small: bool = False,
    seed: int = 0,
) -> Texts:
    """Read labelled texts, and divide them into texts for training, validation and test.

    Data that have splits of these names are taken as they are divided. Else the rows of a table are divided at random,
    by the seed; a part that is given by itself is not taken from them.

    Args:
        data: the texts for training, or all of them.
        options: which columns are read.
        labels: what the model can predict.
        encoder: of the model.
        validation: other data for validation.
        test: other data for the test.
        small: read only a few texts of each part.
        seed: of the division.
    """
    if options.label_column is None:
        raise InputError(
            f"The diagnostics train models, which needs labels. Name their column with {parameter('label_column')}.",
            code="missing-labels",
        )
    given = {"train": data, "validation": validation, "test": test}
    splits: dict[str, str | None] = {"train": options.split, "validation": None, "test": None}
    for part, name in _named_splits(data, options).items():
        if given[part] is None or part == "train":
            given[part], splits[part] = data, splits[part] or name
    rows, notes = {}, []
    for part, source in given.items():
        if source is not None:
            rows[part], more = _read(source, replace(options, split=splits[part]), labels, part)
            notes += more
    rows, divided = _divide(rows, seed)
    notes += divided
    parts = {}
    for part, size in zip(PARTS, SMALL, strict=True):
        drawn = rows_at(range(min(size, len(rows[part]))), len(rows[part]), seed).tolist() if small else []
        chosen = [rows[part][index] for index in sorted(drawn)] if small else rows[part]
        encoded, excluded = encode(encoder, chosen)
        if excluded:
            notes.append(
                f"{len(excluded)} of {len(chosen)} texts for {part} were left out: no token of theirs is left."
            )
        parts[part] = TextPart([chosen[index] for index in sorted(encoded)], [encoded[i] for i in sorted(encoded)])
    if small:
        notes.append("This is a small diagnosis, on few texts: it shows what will be made, and settles nothing.")
    texts = Texts(parts, labels.classes, tuple(dict.fromkeys(notes)))
    _check(texts)
    return texts


def _named_splits(data: Any, options: DataOptions) -> dict[str, str]:
    """The splits of data that are for training, validation and test; none unless there is one for training."""
    if isinstance(data, str | os.PathLike):
        data = open_path(data, subset=options.subset, needed=options.columns).data
    if not isinstance(data, Mapping) or not all(isinstance(part, datasets.Dataset) for part in data.values()):
        return {}
    named = {part: next((name for name in names if name in data), None) for part, names in NAMES.items()}
    found = {part: name for part, name in named.items() if name is not None}
    return found if "train" in found and len(found) > 1 else {}


def _read(data: Any, options: DataOptions, labels: ModelLabels, part: str) -> tuple[list[Row], list[str]]:
    """The labelled rows of some data, and notes on the others."""
    source = DataSource(data, options)
    source.read_labels(labels)
    if not source.labelled:
        raise InputError(
            f"The diagnostics train models, and the data for {part} have no column {options.label_column!r} of labels. "
            f"Name it with {parameter('label_column')}.",
            code="missing-labels",
        )
    rows = [row for _, shard in source.shards(_SHARD) for row in shard]
    kept = [row for row in rows if row.text is not None and row.label is not None]
    notes = [] if len(kept) == len(rows) else [f"{len(rows) - len(kept)} of {len(rows)} rows have no text or no label."]
    return kept, [*source.notes, *notes]


def _divide(rows: Mapping[str, list[Row]], seed: int) -> tuple[dict[str, list[Row]], list[str]]:
    """Take the parts that are missing from the texts for training."""
    missing = [part for part in PARTS if part not in rows]
    if not missing:
        return dict(rows), []
    table = rows["train"]
    order = rows_at(range(len(table)), len(table), seed).tolist() if table else []
    divided, start = dict(rows), 0
    for part in missing:
        size = round(SHARES[PARTS.index(part)] * len(table))
        divided[part] = [table[index] for index in sorted(order[start : start + size])]
        start += size
    divided["train"] = [table[index] for index in sorted(order[start:])]
    sizes = ", ".join(f"{len(divided[part]):,} for {part}" for part in PARTS)
    return divided, [f"The {len(table):,} texts were divided at random: {sizes}."]


def _check(texts: Texts) -> None:
    """Refuse texts from which nothing can be learned, or on which nothing can be measured."""
    train = texts["train"].labels
    if len(set(train)) < 2:
        raise InputError(
            f"All {len(train)} texts for training have the same label, so there is nothing to learn. Give texts of at "
            "least two classes."
        )
    for part in PARTS:
        size = len(texts[part].rows)
        if size < max(LEAST, texts.classes):
            raise InputError(
                f"There are {size} texts for {part}, and {texts.classes} classes: expected at least as many texts as "
                "classes. Give more texts.",
                code="no-texts",
            )
