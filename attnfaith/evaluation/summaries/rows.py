"""The long table that figures are collected in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from attnfaith.functional.statistics import Estimate

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


class Rows:
    """Rows of one test, level and slice, as they are made.

    Example:
        >>> rows = Rows("erasure", "attention")
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
        """One figure; ``key`` is the (ranking_level, ranking) it is about, ("", "") for none."""
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
        """One figure of each ranking, or of each pair of a ranking and another."""
        said = [notes] * len(keys) if isinstance(notes, str) else notes
        second = [""] * len(keys) if others is None else others
        for key, other, note, value, low, high, texts in zip(keys, second, said, *found, strict=True):
            self.add(figure, value, low, high, texts=texts, key=key, other=other, note=note)

    def frame(self) -> pd.DataFrame:
        """All rows, in the order in which they were added."""
        return joined([self._rows])


def joined(parts: Sequence[list[dict[str, object]] | pd.DataFrame]) -> pd.DataFrame:
    """Several lots of rows as one table with all columns, whether or not there are any rows."""
    frames = [pd.DataFrame(part, columns=list(COLUMNS)) for part in parts if len(part)]
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(COLUMNS))
    kinds = dict.fromkeys(COLUMNS, "str") | dict.fromkeys(NUMBERS, "float64") | {"texts": "int64"}
    return table.astype(kinds)


def written(key: tuple[str, ...]) -> str:
    """How a pair's second ranking is named: with its level, since names exist at several.

    Example:
        >>> written(("input", "gradient"))
        'input/gradient'
    """
    return "/".join(key)
