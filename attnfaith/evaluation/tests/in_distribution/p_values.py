"""From the vectors of all texts to the p value of each text with holes."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd
import pyarrow as pa

from attnfaith.estimates.pivot import levels_of, numbers
from attnfaith.functional.in_distribution import rank_p_values, tail_p_values, unusualness
from attnfaith.functional.statistics import benjamini_hochberg

BY_TEXT = "in_distribution_p"
"""The table of the p values."""
COLUMNS: list[tuple[str, pa.DataType]] = [
    ("text_id", pa.int64()),
    ("ranking", pa.string()),
    ("ranking_level", pa.string()),
    ("erase_level", pa.string()),
    ("items", pa.int64()),
    ("removed", pa.int64()),
    ("length", pa.int64()),
    ("score", pa.float64()),
    ("p", pa.float64()),
    ("p_adjusted", pa.float64()),
    ("shorter", pa.bool_()),
]
TIE = 1e-5
"""Components that differ by this share of the root mean square of all are equal: so much depends on the batch."""


def p_value_table(
    parts: Iterable[pd.DataFrame], *, combination: str, nearest: int | None, alpha: float = 0.05
) -> pa.Table:
    """The p values of whole texts and of texts with holes, level by level, beside the whole texts of the run.

    They are adjusted by Benjamini and Hochberg's method for the number of removals of a ranking at a level that are
    tested: the rows of one ranking, so that nothing about it depends on which other rankings were run. The p values of
    one ranking come from one set of whole texts, and so depend on each other positively. Bates et al. (2023) prove that
    the method allows this where that set was not used for the score; here it was, but for the text itself.

    There are none with fewer than 1 / alpha whole texts: the smallest possible would be above alpha.

    Args:
        parts: of the table "in_distribution".
        combination: see `attnfaith.functional.in_distribution.unusualness`.
        nearest: see `attnfaith.functional.in_distribution.rank_p_values`.
        alpha: the level of significance.
    """
    schema = pa.schema(COLUMNS)
    whole = pd.concat([*parts], ignore_index=True)
    tables = [
        _of_level(whole[whole["erase_level"] == level].reset_index(drop=True), combination, nearest, alpha)
        for level in levels_of(whole)
    ]
    if not tables:
        return schema.empty_table()
    table = pd.concat(tables).sort_values("text_id", kind="stable")
    return pa.Table.from_pandas(table[schema.names], schema=schema, preserve_index=False)


def _of_level(table: pd.DataFrame, combination: str, nearest: int | None, alpha: float) -> pd.DataFrame:
    """The rows of one level with their p values."""
    known = np.flatnonzero(table["vector"].notna())
    reference = known[table["ranking"].iloc[known].isna()]
    ids, lengths = table["text_id"].to_numpy(dtype=np.int64), numbers(table["length"])
    score, p = np.full((2, len(table)), np.nan)
    adjusted = p.copy()
    if len(reference) >= math.ceil(1 / alpha):
        order = np.argsort(ids[reference])
        reference = reference[order]
        own = np.searchsorted(ids[reference], ids[known])
        vectors = np.stack(table["vector"].iloc[known].to_list()).astype(np.float64)
        sample = np.stack(table["vector"].iloc[reference].to_list()).astype(np.float64)
        tolerance = TIE * float(np.sqrt(np.square(sample).mean()))
        score[known] = unusualness(tail_p_values(vectors, sample, own, tolerance), combination)
        p[known] = rank_p_values(score[known], lengths[known], own, score[reference], lengths[reference], nearest)
    keys = table["ranking_level"].fillna("") + "/" + table["ranking"].fillna("")
    for key in keys.unique():
        rows = np.flatnonzero((keys == key) & table["ranking"].notna())
        adjusted[rows] = benjamini_hochberg(p[rows])
    shorter = pd.array(lengths < lengths[reference].min(initial=np.inf), dtype="boolean")
    shorter[np.isnan(lengths)] = pd.NA
    return table.assign(score=score, p=p, p_adjusted=adjusted, shorter=shorter)
