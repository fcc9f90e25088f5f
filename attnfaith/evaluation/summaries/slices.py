"""Parts of the texts: by class, by length, by confidence, right or wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.errors import InputError
from attnfaith.evaluation.summaries.grid import Array, numbers

BY = ("class", "confidence", "correct", "length")


@dataclass(frozen=True)
class Part:
    """Some of the texts.

    Attributes:
        label: as in the column ``slice``, such as "length=10-19".
        text_ids: which, ascending.
    """

    label: str
    text_ids: NDArray[np.int64]

    def of(self, text_ids: NDArray[np.int64]) -> NDArray[np.intp]:
        """The places of this part's texts in ascending ids."""
        places = np.searchsorted(text_ids, self.text_ids)
        inside = places < len(text_ids)
        inside[inside] = text_ids[places[inside]] == self.text_ids[inside]
        return places[inside]


def parts_of(texts: pd.DataFrame, by: str | None) -> list[Part]:
    """The parts of the texts that a summary speaks of; all of them in one, where ``by`` is None.

    Texts that were set aside are in no part, nor are those without the value that parts are made by.

    Args:
        texts: one row for each text.
        by: "class" (the predicted one), "length" (quarters by the number of items), "confidence" (thirds by the
            probability of the prediction) or "correct".

    Example:
        >>> texts = pd.DataFrame({"text_id": [0, 1, 2], "aside": None, "correct": [True, False, True]})
        >>> [(part.label, part.text_ids.tolist()) for part in parts_of(texts, "correct")]
        [('correct=False', [1]), ('correct=True', [0, 2])]
    """
    if by is not None and by not in BY:
        raise InputError(f"Expected by to be one of {', '.join(BY)}, or None; got {by!r}.")
    here = texts[texts["aside"].isna()].sort_values("text_id")
    ids = here["text_id"].to_numpy(dtype=np.int64)
    if by is None:
        return [Part("all", ids)]
    found = {"class": _classes, "confidence": _thirds, "correct": _correct, "length": _quarters}[by](here)
    return [Part(f"{by}={label}", ids[mask]) for label, mask in found if mask.any()]


def _classes(texts: pd.DataFrame) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    said = texts["prediction"].dropna()
    if said.map(np.ndim).any():
        raise InputError("Slices by class need one class per text; this is a multi-label model. Use by='length'.")
    values = numbers(texts["prediction"])
    if not _known(texts, "confidence").any() and not np.array_equal(values, np.round(values), equal_nan=True):
        raise InputError("Slices by class need classes; this is a regression. Use by='length'.")
    for value in np.unique(values[~np.isnan(values)]):
        yield f"{value:g}", values == value


def _thirds(texts: pd.DataFrame) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    values = numbers(texts["confidence"])
    if not _known(texts, "confidence").any():
        raise InputError(
            "Slices by confidence need the probability of one predicted class; multi-label models and regressions "
            "have none. Use by='length'."
        )
    lower, upper = np.nanquantile(values, [1 / 3, 2 / 3])
    yield "low", values < lower  # equal confidences stay together: those of 1.0 are high, however many they are
    yield "middle", (values >= lower) & (values < upper)
    yield "high", values >= upper


def _correct(texts: pd.DataFrame) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    values = numbers(texts["correct"])
    if np.isnan(values).all():
        raise InputError("Slices by right or wrong need labels, of classes; there are none. Give label_column.")
    yield "False", values == 0
    yield "True", values == 1


def _quarters(texts: pd.DataFrame) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    values = numbers(texts["items"])
    if not len(values):
        return
    before = -np.inf
    for edge in np.unique(np.nanquantile(values, [0.25, 0.5, 0.75, 1.0], method="inverted_cdf")):
        mask = (values > before) & (values <= edge)
        start = values[mask].min()
        yield f"{start:.0f}-{edge:.0f}" if start < edge else f"{edge:.0f}", mask
        before = edge


def _known(texts: pd.DataFrame, name: str) -> NDArray[np.bool_]:
    values: Array = numbers(texts[name])
    return ~np.isnan(values)
