"""How two runs differ in the erasure test, in words."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from attnfaith.estimates.differences import OTHER_SEARCH, both_values, is_clear, points_apart, rows_of
from attnfaith.estimates.lookup import display_name, listed
from attnfaith.evaluation.verdict_text import PLACES

_TOLD = {"mean_fraction": "removes {}", "never_flipped": "never flips {}", "skill": "goes {}"}
_OF = {
    "mean_fraction": "of the items",
    "never_flipped": "of the texts",
    "skill": "of the way from a random order to the smallest sets known",
}


def sentences(rows: pd.DataFrame, names: tuple[str, str]) -> Iterator[str]:
    """Of attention, and of the other rankings, level by level.

    Args:
        rows: of this test in a comparison.
        names: of the two runs.
    """
    for level in dict.fromkeys(rows["erase_level"]):
        here, where = rows[rows["erase_level"] == level], f"Erased at {PLACES[level]}"
        fractions = rows_of(here, "erasure", "mean_fraction")
        keys = [(row.ranking_level, row.ranking) for row in fractions]
        own = next((key for key in keys if key[1] == "attention"), None)  # of the final attention, where it was run
        for figure, told in _TOLD.items():
            for row in rows_of(here, "erasure", figure):
                if (row.ranking_level, row.ranking) == own and (row.a, row.b) != (0, 0):
                    yield f"{where}, attention {told.format(both_values(row, names, _OF[figure]))}."
        others = [(key, row) for key, row in zip(keys, fractions, strict=True) if key[1] != "attention"]
        apart = [f"{display_name(key, keys)} ({points_apart(row)})" for key, row in others if is_clear(row)]
        if apart:
            yield f"{where}, these other rankings differ in the share removed: {listed(apart)}."
        elif others:
            yield f"{where}, no other ranking clearly differs in the share removed."
    if (rows["note"] == OTHER_SEARCH).any():
        yield f"Efficiency and skill are not compared: {OTHER_SEARCH}."
    yield "Shares removed are means over texts; of a text that never flips, everything."
