"""Pivot a long table into matrices with a row for each text and a column for each ranking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.errors import InputError

Array = NDArray[np.float64]
Key = tuple[str, ...]  # (ranking_level, ranking): "random" and others exist at both levels


def numbers(values: pd.Series) -> Array:
    """Convert a column to floats, with NaN for missing values.

    Example:
        >>> numbers(pd.Series([True, None, False], dtype=object)), numbers(pd.Series([3, None], dtype="Int64"))
        (array([ 1., nan,  0.]), array([ 3., nan]))
    """
    array: Array = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return array


class Pivot:
    """A long table by text and ranking, with the texts in ascending order.

    Attributes:
        text_ids: ``[n]``, the ids of the texts.
        keys: the key of each column: its values of ``by``, sorted.
        present: ``[n, F]``, where the table has a row.
    """

    def __init__(self, table: pd.DataFrame, by: Sequence[str]) -> None:
        self._table = table
        self.text_ids, self._rows = np.unique(table["text_id"].to_numpy(dtype=np.int64), return_inverse=True)
        joined = np.zeros(len(table), dtype=np.int64)
        for name in by:
            codes, names = pd.factorize(table[name], sort=True)
            joined = joined * len(names) + codes
        _, first, self._columns = np.unique(joined, return_index=True, return_inverse=True)
        self.keys: tuple[Key, ...] = tuple(tuple(str(table[name].iloc[row]) for name in by) for row in first)
        self.present = np.zeros((len(self.text_ids), len(self.keys)), dtype=bool)
        self.present[self._rows, self._columns] = True
        if self.present.sum() != len(table):
            cells = pd.Series(self._rows * max(len(self.keys), 1) + self._columns)
            row = int(np.flatnonzero(cells.duplicated())[0])
            raise InputError(
                f"Expected one row for each text and ranking; text {self.text_ids[self._rows[row]]} has several for "
                f"{self.keys[self._columns[row]]}. Are the tables of several runs in one directory?"
            )

    def matrix(self, name: str) -> Array:
        """One column of the table as a matrix ``[n, F]``, with NaN for missing rows and values."""
        matrix = np.full(self.present.shape, np.nan)
        matrix[self._rows, self._columns] = numbers(self._table[name])
        return matrix

    def flags(self, name: str) -> NDArray[np.bool_]:
        """``[n, F]``, True where a column of the table is positive."""
        flags = np.zeros(self.present.shape, dtype=bool)
        flags[self._rows, self._columns] = numbers(self._table[name]) > 0
        return flags

    def vector(self, name: str) -> Array:
        """A column whose value is the same in all rows of a text, ``[n]``."""
        vector = np.full(len(self.text_ids), np.nan)
        vector[self._rows] = numbers(self._table[name])
        return vector


def levels_of(table: pd.DataFrame) -> list[str]:
    """The erase levels of a table, the attention level first."""
    return sorted(table["erase_level"].dropna().unique(), key=lambda level: (level != "attention", level))
