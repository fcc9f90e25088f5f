"""Reading the tables that figures are drawn from: columns, numbers, and how many texts are behind them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]

from attnfaith.errors import InputError
from attnfaith.evaluation.summaries.rows import COLUMNS
from attnfaith.report.plots.names import Key

SUMMARY = tuple(name for name in COLUMNS if name != "note")
_PLACES = {"attention": "the final attention", "input": "the input"}


def need(table: pd.DataFrame, columns: Sequence[str], *, figure: str) -> None:
    """Refuse a table that lacks a column the figure is drawn from."""
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise InputError(
            f"The figure {figure!r} is drawn from a table with the columns {', '.join(columns)}. This one has no "
            f"{', '.join(missing)}; its columns are: {', '.join(map(str, table.columns)) or 'none'}."
        )


def keys_of(table: pd.DataFrame) -> list[Key]:
    """The rankings of a table as (level, name), in the order in which they first appear."""
    keys = dict.fromkeys(zip(table["ranking_level"], table["ranking"], strict=True))
    return [key for key in keys if key[1]]  # rows that speak of no ranking have an empty name


def rows_of(table: pd.DataFrame, key: Key) -> pd.DataFrame:
    """The rows of one ranking."""
    return table[(table["ranking_level"] == key[0]) & (table["ranking"] == key[1])]


def levels_of(table: pd.DataFrame) -> list[str]:
    """The levels at which something was erased, the attention's first."""
    found = {level for level in table["erase_level"].dropna() if level}
    return sorted(found, key=lambda level: (level != "attention", level != "input", level))


def of_level(table: pd.DataFrame, erase_level: str | None, *, figure: str) -> tuple[pd.DataFrame, str]:
    """The rows of one erase level and its name; None stands for the only one there is."""
    levels = levels_of(table)
    if erase_level is None and len(levels) > 1:
        raise InputError(f"The table holds {len(levels)} erase levels: give {figure} erase_level=, one of {levels}.")
    if erase_level is not None and levels and erase_level not in levels:
        raise InputError(f"erase_level is {erase_level!r}; the table holds {levels}.")
    level = erase_level or (levels[0] if levels else "attention")
    return table[table["erase_level"] == level], level


def overall(summary: pd.DataFrame, test: str) -> pd.DataFrame:
    """The rows of a summary that speak of all texts."""
    return summary[(summary["test"] == test) & (summary["slice"] == "all")]


def place_of(erase_level: str) -> str:
    """Where items are removed from, in words.

    Example:
        >>> place_of("attention"), place_of("input")
        ('the final attention', 'the input')
    """
    return _PLACES.get(erase_level, f"the level {erase_level!r}")


def counted(texts: Iterable[float]) -> str:
    """How many texts, in words; a range where the rows of a table rest on different numbers of them.

    Example:
        >>> counted([1200, 1200]), counted([131, 150]), counted([1]), counted([])
        ('1,200 texts', '131 to 150 texts', '1 text', '')
    """
    known = sorted({int(count) for count in texts if np.isfinite(count)})
    if not known:
        return ""
    span = f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"
    return f"{span} text" + ("" if known == [1] else "s")


def joined(*parts: str, by: str = ", ") -> str:
    """What there is to say, without what there is not."""
    return by.join(part for part in parts if part)
