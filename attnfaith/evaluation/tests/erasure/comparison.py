"""The sentences on the erasure test in a comparison of two runs."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.method import ATTENTION
from attnfaith.estimates.differences import OTHER_SEARCH, is_clear, points_apart, rows_of, with_values
from attnfaith.estimates.lookup import listed
from attnfaith.evaluation.verdict_text import PLACES

_ATTENTION = {
    "mean_fraction": "At {place}, attention flips the decision after {a} of the items in {first} and {b} in {second}: "
    "{difference}.",
    "never_flipped": "At {place}, attention never flips the decision on {a} of the texts in {first} and {b} in "
    "{second}: {difference}.",
    "skill": "At {place}, the skill of attention is {a} in {first} and {b} in {second}: {difference}.",
}


def sentences(rows: pd.DataFrame, names: tuple[str, str]) -> Iterator[str]:
    """The sentences on attention and the other rankings, level by level.

    Args:
        rows: of this test in a comparison.
        names: of the two runs.
    """
    for level in dict.fromkeys(rows["erase_level"]):
        here, level_name = rows[rows["erase_level"] == level], PLACES[level]
        fractions = rows_of(here, "erasure", "mean_fraction")
        keys = [(row.ranking_level, row.ranking) for row in fractions]
        attention = next((key for key in keys if key[1] == ATTENTION), None)  # of the final attention, where it was run
        for figure, sentence in _ATTENTION.items():
            for row in rows_of(here, "erasure", figure):
                if (row.ranking_level, row.ranking) == attention and (row.a, row.b) != (0, 0):
                    yield with_values(sentence, row, names, place=level_name)
        others = [(key, row) for key, row in zip(keys, fractions, strict=True) if key[1] != ATTENTION]
        apart = [f"{display_name(key, keys)} ({points_apart(row)})" for key, row in others if is_clear(row)]
        if apart:
            yield f"At {level_name}, these other rankings remove clearly more or less: {listed(apart)}."
        elif others:
            yield f"At {level_name}, no other ranking removes clearly more or less."
    if (rows["note"] == OTHER_SEARCH).any():
        yield f"Efficiency and skill are not compared: {OTHER_SEARCH}."
    yield "Shares removed are means over texts, 100 % for a text that never flips."
