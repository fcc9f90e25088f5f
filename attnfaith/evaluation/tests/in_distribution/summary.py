"""Quantities and sentences of the in-distribution test: how often decisions flip on texts unknown to the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.attribution.method import ATTENTION, CONTROL
from attnfaith.estimates.lookup import SummaryLookup, listed
from attnfaith.estimates.pivot import Array, Key, Pivot, levels_of
from attnfaith.estimates.quantities import Median, Number, Quantities, Quantity, Share
from attnfaith.evaluation.verdict_rule import FEW
from attnfaith.evaluation.verdict_text import PLACES, WAYS
from attnfaith.functional.in_distribution import compared_members

SMALLEST = "smallest_set"
"""The name that the smallest flipping sets have among the rankings."""
FEW_WHOLE = "too few whole texts to compare with"


def quantities(p_values: pd.DataFrame, alpha: float = 0.05, nearest: int | None = None) -> Iterator[Quantities]:
    """The quantities of the in-distribution test, for each level and ranking, over the texts whose decision flips.

    - ``unusual``: the share of flips with a p value of at most ``alpha``; of whole texts it is ``alpha``
    - ``out_of_distribution``: the same of the p values adjusted for the number of removals that are tested
    - ``median_p``: the median p value; of whole texts it is 0.5
    - ``shorter_than_any``: the share of flips that leave less than the shortest whole text has

    Beside them ``alpha``, and ``smallest_p``, the smallest p value that there can be.

    Args:
        p_values: one row for each text, level and ranking; rows of whole texts have no ranking.
        alpha: the level of significance.
        nearest: with how many whole texts each is compared, see
            `attnfaith.functional.in_distribution.rank_p_values`.

    Example:
        >>> same = {"erase_level": "input", "ranking_level": "input", "ranking": "lrp", "shorter": False}
        >>> rows = pd.DataFrame({"text_id": [0, 1], "p": [0.02, 0.5], "p_adjusted": [0.04, 0.5], "length": 3})
        >>> (level,) = quantities(rows.assign(**same))
        >>> [(one.name, one.values.ravel().tolist()) for one in level.quantities_for(np.arange(2))[2:4]]
        [('unusual', [1.0, 0.0]), ('out_of_distribution', [1.0, 0.0])]
    """
    for level in levels_of(p_values):
        here = p_values[p_values["erase_level"] == level]
        rows, whole = here[here["ranking"].notna()], int(here.loc[here["ranking"].isna(), "p"].notna().sum())
        smallest = 1 / (1 + min(whole - 1, compared_members(whole, nearest))) if whole else np.nan
        yield Quantities(
            np.unique(rows["text_id"].to_numpy(dtype=np.int64)),
            partial(_of_level, Pivot(rows, ("ranking_level", "ranking")), alpha, smallest),
            level,
            missing="fewer than two items to erase, or not in the sample of this test",
        )


def _of_level(pivot: Pivot, alpha: float, smallest: float, indices: NDArray[np.intp]) -> list[Quantity | Number]:
    p, adjusted, length = (pivot.matrix(name)[indices] for name in ("p", "p_adjusted", "length"))
    flips = np.isfinite(length)
    about: dict[str, Any] = {"keys": pivot.keys, "note": "" if np.isfinite(p).any() or not flips.any() else FEW_WHOLE}

    def share(values: Array) -> Array:
        return np.where(np.isnan(values), np.nan, values <= alpha)

    return [
        Number("alpha", alpha, len(indices)),
        Number("smallest_p", smallest, len(indices)),
        Share("unusual", share(p), **about),
        Share("out_of_distribution", share(adjusted), **about),
        Median("median_p", p, **about),
        Share("shorter_than_any", np.where(flips, pivot.flags("shorter")[indices], np.nan), keys=pivot.keys),
    ]


def sentences(figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
    """The sentences for the verdict: on attention's flips, at the input level if something was erased there."""
    levels = [level for level in ("input", "attention") if figures.keys(level, "unusual")]
    if not levels:
        return
    level = levels[0]
    keys = figures.keys(level, "unusual")
    attention = next((key for key in sorted(keys, key=lambda key: key[0] != "attention") if key[1] == ATTENTION), None)
    place, way = PLACES[level], facts.get("hide")
    how = f" ({WAYS.get(way, way)})" if level == "input" and way else ""
    if attention is None or not figures.get(level, "unusual", attention).known:
        yield f"At {place} too few whole texts, or too few flips, are there to say how unusual what is left is."
        return
    unusual, alpha = figures.get(level, "unusual", attention), figures.get(level, "alpha").value
    others = [
        f"{figures.get(level, 'unusual', key)} for {name}"
        for key, name in _others(keys, level)
        if figures.get(level, "unusual", key).known
    ]
    yield (
        f"Where attention's removals flip the decision at {place}{how}, what is left is, to the model's last layer, "
        f"as unusual as the most unusual {100 * alpha:g} % of whole texts of its length on {unusual} of the texts."
    )
    if others:
        yield f"It is {listed(others)}."
    clear = figures.get(level, "out_of_distribution", attention)
    if clear.texts < FEW:
        yield "These are too few flips to say more."
    elif clear.low > 0.5:
        yield (
            f"Corrected for the number of removals tested, {clear} of attention's flips are out of distribution: most "
            "happen where the model is out of its depth, and may be the work of the holes. Compare other ways of "
            "hiding."
        )
    elif figures.get(level, "smallest_p").value > alpha / 2:
        yield (
            f"Corrected for the number of removals tested, {clear} of attention's flips are out of distribution. With "
            "so few whole texts to compare with, hardly any could be: this says nothing."
        )
    elif clear.high < 0.5:
        yield (
            f"Corrected for the number of removals tested, {clear} of attention's flips are out of distribution: there "
            "is no sign that most happen where the model is out of its depth. This is no proof: at a flip a text lies "
            "between two decisions, where the test sees little."
        )
    else:
        yield (
            f"Corrected for the number of removals tested, {clear} of attention's flips are out of distribution: "
            "whether it is most of them, more texts would tell."
        )
    shorter = figures.get(level, "shorter_than_any", attention)
    if shorter.value > 0.25:
        yield f"On {shorter} of the texts less is left than any text of the run has: the shortest ones were compared."


def _others(keys: list[Key], level: str) -> Iterator[tuple[Key, str]]:
    names = {CONTROL: "a random order", SMALLEST: "the smallest sets known"}
    for name, words in names.items():
        yield from ((key, words) for key in keys if key == (level, name))
