"""Build a summary table: for each slice of the texts, counts and estimates with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.errors import InputError
from attnfaith.estimates.pivot import Array, numbers
from attnfaith.estimates.quantities import Mean, Number, Quantities, Quantity, Share, estimate_of, shared_means
from attnfaith.functional.statistics import Estimate, Resamples
from attnfaith.parameter_names import parameter
from attnfaith.validation import share, whole_number

MOST_RESAMPLES = 1_000_000
"""Every figure keeps a number for each resample."""


@dataclass(frozen=True)
class IntervalOptions:
    """How intervals are computed: the arguments of every summary."""

    n_resamples: int = 9999
    confidence_level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check(self.n_resamples, self.confidence_level)

    def resamples(self, size: int) -> Resamples:
        """The resamples for a number of texts."""
        return Resamples(size, resamples=self.n_resamples, confidence=self.confidence_level, seed=self.seed)


def summarise(
    test: str,
    quantities: Iterable[Quantities],
    texts: pd.DataFrame,
    *,
    by: str | None = None,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """The summary of a test: an estimate of each of its quantities, with an interval, for each slice of the texts.

    Args:
        test: the name of the test.
        quantities: the quantities at each level.
        texts: one row for each text.
        by: see `slices_of`.
        n_resamples: how often the texts are resampled.
        confidence_level: the confidence level of the intervals.
        seed: the seed of the resamples.
    """
    intervals, levels = IntervalOptions(n_resamples, confidence_level, seed), list(quantities)

    def lots_of(part: TextSlice) -> Iterator[EstimateTable]:
        for level in levels:
            indices, rows = part.of(level.text_ids), EstimateTable(test, level.level, part.label)
            rows.add("too_short", len(part.text_ids) - len(indices), texts=len(part.text_ids), note=level.missing)
            if len(indices):
                _add_estimates(rows, level, indices, intervals.resamples(len(indices)), pairs=part.label == "all")
            yield rows

    return build_summary(test, texts, by, lots_of)


def _add_estimates(
    rows: EstimateTable, level: Quantities, indices: NDArray[np.intp], resamples: Resamples, *, pairs: bool
) -> None:
    """Add the estimates of one slice, resampled within the slice."""
    parts = [part for part in level.quantities_for(indices) if isinstance(part, Number) or part.summarised]
    means = shared_means(parts, resamples)
    for part in parts:
        if isinstance(part, Number):
            rows.add(part.name, part.value, texts=part.texts, note=part.note)
        else:
            estimate = estimate_of(part, means)
            rows.add_each(part.name, estimate, part.keys, others=part.others, notes=part.notes(estimate))
    for row in level.pairs(indices, parts, means) if pairs and level.pairs is not None else ():
        rows.add_each(**row)


def build_summary(
    test: str, texts: pd.DataFrame, by: str | None, tables_of: Callable[[TextSlice], Iterable[EstimateTable]]
) -> pd.DataFrame:
    """Build the summary of a test from the counts and rows of each slice.

    Args:
        test: the name of the test.
        texts: one row for each text.
        by: see `slices_of`.
        tables_of: returns the rows of a slice, as tables.
    """
    tables = []
    for part in slices_of(texts, by):
        tables.append(_counts(test, texts, part).frame())
        tables += [rows.frame() for rows in tables_of(part)]
    return joined(tables)


def check(n_resamples: int, confidence_level: float) -> None:
    """Refuse settings with which no interval can be computed."""
    whole_number(n_resamples, "n_resamples", least=1, most=MOST_RESAMPLES)
    share(confidence_level, "confidence_level")


def _counts(test: str, texts: pd.DataFrame, part: TextSlice) -> EstimateTable:
    """How many texts there are, how many were set aside, a row for each reason, and how often the model is right."""
    rows = EstimateTable(test, part=part.label)
    total = len(texts) if part.label == "all" else len(part.text_ids)
    rows.add("texts", total, texts=total)
    if part.label == "all":
        reasons = texts["aside"].dropna().value_counts()
        for reason, number in sorted(reasons.items()):
            rows.add("set_aside", number, texts=total, note=str(reason))
        if reasons.empty:
            rows.add("set_aside", 0, texts=total)
    _accuracy(rows, texts[texts["text_id"].isin(part.text_ids)])
    return rows


def _accuracy(rows: EstimateTable, texts: pd.DataFrame) -> None:
    """The accuracy of the model on labelled texts, and that of always answering the most frequent label."""
    if not {"correct", "gold"} <= set(texts.columns):
        return
    labelled = texts[texts["correct"].notna() & texts["gold"].notna()]
    if not len(labelled):
        return
    (accuracy,) = (quantity for quantity in _of_texts(labelled) if quantity.name == "accuracy")
    estimate = estimate_of(accuracy, shared_means([], Resamples(len(labelled))))
    rows.add_each("accuracy", estimate, accuracy.keys)
    labels = labelled["gold"].map(lambda gold: tuple(sorted(gold)) if np.ndim(gold) else gold)
    rows.add("majority_label", labels.value_counts(normalize=True).iloc[0], texts=len(labelled))


def quantities_of_texts(texts: pd.DataFrame) -> Quantities:
    """The quantities of the table of texts, over the texts that were not set aside."""
    included = texts[texts["aside"].isna()].sort_values("text_id")
    quantities = _of_texts(included)
    return Quantities(
        included["text_id"].to_numpy(dtype=np.int64),
        lambda indices: [quantity.take(indices) for quantity in quantities],
    )


def _of_texts(texts: pd.DataFrame) -> list[Quantity]:
    kinds = {
        "accuracy": (Share, "correct"),
        "confidence": (Mean, "confidence"),
        "special_weight": (Mean, "special_weight"),
    }
    return [kind(name, numbers(texts[column])) for name, (kind, column) in kinds.items() if column in texts]


COLUMNS = (
    "test",
    "erase_level",
    "ranking",
    "ranking_level",
    "other",
    "slice",
    "figure",
    "value",
    "low",
    "high",
    "texts",
    "note",
)
NUMBERS = ("value", "low", "high")


class EstimateTable:
    """Rows of one test, level and slice, as they are made.

    Example:
        >>> rows = EstimateTable("erasure", "attention")
        >>> rows.add("texts", 12, texts=12)
        >>> rows.frame()[["test", "figure", "value", "texts"]].values.tolist()
        [['erasure', 'texts', 12.0, 12]]
    """

    def __init__(self, test: str, erase_level: str = "", part: str = "all") -> None:
        self._fixed: dict[str, object] = {"test": test, "erase_level": erase_level, "slice": part}
        self._rows: list[dict[str, object]] = []

    def add(
        self,
        figure: str,
        value: float,
        low: float = np.nan,
        high: float = np.nan,
        *,
        texts: int,
        key: tuple[str, ...] = ("", ""),
        other: str = "",
        note: str = "",
    ) -> None:
        """Add one estimate; ``key`` is its (ranking_level, ranking), or ("", "")."""
        row: dict[str, object] = {"ranking_level": key[0], "ranking": key[1]}
        row |= {"other": other, "figure": figure, "note": note}
        numbers = {"value": float(value), "low": float(low), "high": float(high), "texts": int(texts)}
        self._rows.append(self._fixed | row | numbers)

    def add_each(
        self,
        figure: str,
        found: Estimate,
        keys: Sequence[tuple[str, ...]],
        *,
        others: Sequence[str] | None = None,
        notes: Sequence[str] | str = "",
    ) -> None:
        """Add one estimate for each ranking, or for each pair of rankings."""
        all_notes = [notes] * len(keys) if isinstance(notes, str) else notes
        second = [""] * len(keys) if others is None else others
        for key, other, note, value, low, high, texts in zip(keys, second, all_notes, *found, strict=True):
            self.add(figure, value, low, high, texts=texts, key=key, other=other, note=note)

    def frame(self) -> pd.DataFrame:
        """All rows, in the order in which they were added."""
        return joined([self._rows])


def joined(parts: Sequence[list[dict[str, object]] | pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables, and keep all columns even without rows."""
    frames = [pd.DataFrame(part, columns=list(COLUMNS)) for part in parts if len(part)]
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(COLUMNS))
    kinds = dict.fromkeys(COLUMNS, "str") | dict.fromkeys(NUMBERS, "float64") | {"texts": "int64"}
    return table.astype(kinds)


def written(key: tuple[str, ...]) -> str:
    """The name of the second ranking of a pair, with its level.

    Example:
        >>> written(("input", "gradient"))
        'input/gradient'
    """
    return "/".join(key)


BY = ("class", "confidence", "correct", "length")


@dataclass(frozen=True)
class TextSlice:
    """Some of the texts.

    Attributes:
        label: as in the column ``slice``, such as "length=10-19".
        text_ids: the ids of the texts, ascending.
    """

    label: str
    text_ids: NDArray[np.int64]

    def of(self, text_ids: NDArray[np.int64]) -> NDArray[np.intp]:
        """The indices of the texts of this slice in ascending ids."""
        indices = np.searchsorted(text_ids, self.text_ids)
        inside = indices < len(text_ids)
        inside[inside] = text_ids[indices[inside]] == self.text_ids[inside]
        return indices[inside]


def slices_of(texts: pd.DataFrame, by: str | None) -> list[TextSlice]:
    """The slices of a summary; a single one with all texts if ``by`` is None.

    Texts that were set aside are in no slice, and neither are texts without the value that defines the slices.

    Args:
        texts: one row for each text.
        by: "class" (the predicted one), "length" (quarters by the number of items), "confidence" (thirds by the
            probability of the prediction) or "correct".

    Example:
        >>> texts = pd.DataFrame({"text_id": [0, 1, 2], "aside": None, "correct": [True, False, True]})
        >>> [(part.label, part.text_ids.tolist()) for part in slices_of(texts, "correct")]
        [('correct=False', [1]), ('correct=True', [0, 2])]
    """
    if by is not None and by not in BY:
        raise InputError(f"Expected by to be one of {', '.join(BY)}, or None; got {by!r}.")
    included = texts[texts["aside"].isna()].sort_values("text_id")
    ids = included["text_id"].to_numpy(dtype=np.int64)
    if by is None:
        return [TextSlice("all", ids)]
    slices = {"class": _classes, "confidence": _thirds, "correct": _correct, "length": _quarters}[by](included)
    return [TextSlice(f"{by}={label}", ids[mask]) for label, mask in slices if mask.any()]


def _classes(texts: pd.DataFrame) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    predictions = texts["prediction"].dropna()
    if predictions.map(np.ndim).any():
        raise InputError(
            "by='class' needs one predicted class for each text, and this is a multi-label model. Use by='length'."
        )
    values = numbers(texts["prediction"])
    if not _known(texts, "confidence").any() and not np.array_equal(values, np.round(values), equal_nan=True):
        raise InputError("by='class' needs classes, and this is a regression. Use by='length'.")
    for value in np.unique(values[~np.isnan(values)]):
        yield f"{value:g}", values == value


def _thirds(texts: pd.DataFrame) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    values = numbers(texts["confidence"])
    if not _known(texts, "confidence").any():
        raise InputError(
            "by='confidence' needs the probability of one predicted class; multi-label models and regressions have "
            "none. Use by='length'."
        )
    lower, upper = np.nanquantile(values, [1 / 3, 2 / 3])
    yield "low", values < lower  # equal confidences stay together: those of 1.0 are high, however many they are
    yield "middle", (values >= lower) & (values < upper)
    yield "high", values >= upper


def _correct(texts: pd.DataFrame) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    values = numbers(texts["correct"])
    if np.isnan(values).all():
        raise InputError(
            "by='correct' needs texts with a class as their label, and there are none. Evaluate with "
            f"{parameter('label_column')}.",
            code="missing-labels",
        )
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
