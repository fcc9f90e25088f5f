"""Quantities and sentences of the sanity test: how similar are rankings of a re-initialised model?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.attribution.display_names import display_name, role_of
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, listed
from attnfaith.estimates.pivot import Array, Key, Pivot
from attnfaith.estimates.quantities import Mean, Quantities, Quantity, Share
from attnfaith.estimates.summary_table import written
from attnfaith.evaluation.verdict_rule import FEW
from attnfaith.functional.statistics import means_of

MEASURES = ("spearman", "spearman_absolute", "tau")
RANDOM_LABELS = "random labels"
HALF = 0.5
"""A ranking notices when its rank correlation with itself, all layers re-initialised, is below this."""
TOO_SHORT = "fewer than two items to rank"
_BY = ("ranking_level", "ranking", "depth", "layer")


def notices(kept: Array, suffix: str = "", **about: Any) -> Quantity:
    """The share of texts on which the correlation with the scores of another model is below `HALF`."""
    return Share(f"notices{suffix}", np.where(np.isnan(kept), np.nan, kept < HALF), **about)


def quantities(sanity: pd.DataFrame) -> Quantities:
    """The quantities of the sanity test, for each ranking.

    For each depth, with the number of layers re-initialised and the last of them in ``other``, as "1/classifier", and
    for the model trained on random labels, as "random labels":

    - ``spearman``, ``spearman_absolute``, ``tau``: the means over texts of the rank correlations of the scores before
      and after: Spearman's rho, the same of absolute scores, Kendall's tau-b
    - ``undefined``: the share of texts without a ``spearman``; the note says why, and how many

    With all layers re-initialised:

    - ``kept``, ``kept_absolute``: the mean ``spearman`` and ``spearman_absolute``
    - ``kept_lowest``, ``kept_highest``: the same of the texts of one draw of the weights, the lowest and the highest
    - ``notices``, ``notices_absolute``: the shares of texts on which they are below `HALF`

    Args:
        sanity: one row for each text, ranking and depth.

    Example:
        >>> same = {"ranking_level": "attention", "ranking": "lrp", "depth": 1, "layer": "classifier", "reason": None}
        >>> same |= {"draw": 0, "spearman": [0.2, 0.9], "spearman_absolute": 0.5, "tau": 0.1, "text_id": [0, 1]}
        >>> found = {
        ...     one.name: one.values.tolist() for one in quantities(pd.DataFrame(same)).quantities_for(np.arange(2))
        ... }
        >>> found["spearman"], found["notices"]
        ([[0.2], [0.9]], [[1.0], [0.0]])
    """
    pivot = Pivot(sanity, _BY)

    def of(indices: NDArray[np.intp]) -> list[Quantity]:
        reasons = _reasons(sanity[sanity["text_id"].isin(pivot.text_ids[indices])])
        return [*_by_depth(pivot, indices, reasons), *_of_all_layers(pivot, indices, reasons)]

    return Quantities(pivot.text_ids, of, missing=TOO_SHORT)


def _by_depth(pivot: Pivot, indices: NDArray[np.intp], reasons: dict[Key, str]) -> Iterator[Quantity]:
    others = [RANDOM_LABELS if key[2] == "0" else written(key[2:]) for key in pivot.keys]
    about: dict[str, Any] = {"keys": [key[:2] for key in pivot.keys], "others": others}
    for name in MEASURES:
        yield Mean(name, pivot.matrix(name)[indices], **about)
    missing = np.where(pivot.present[indices], np.isnan(pivot.matrix("spearman")[indices]), np.nan)
    yield Share("undefined", missing, note=[reasons.get(key, "") for key in pivot.keys], **about)


def _of_all_layers(pivot: Pivot, indices: NDArray[np.intp], reasons: dict[Key, str]) -> Iterator[Quantity]:
    deepest = {key[:2]: key for key in sorted(pivot.keys, key=lambda key: int(key[2]))}
    draws = _last(pivot, "draw")[1][indices]
    for suffix in ("", "_absolute"):
        keys, values = _last(pivot, f"spearman{suffix}")
        kept, notes = values[indices], [reasons.get(deepest[key], "") for key in keys]
        yield Mean(f"kept{suffix}", kept, keys=keys, note=notes)
        for end, of_one_draw in _ends(kept, draws).items():
            yield Mean(f"kept{suffix}_{end}", of_one_draw, keys=keys, compared=())
        yield notices(kept, suffix, keys=keys)


def _ends(kept: Array, draws: Array) -> dict[str, Array]:
    """The texts of the re-initialisation with the lowest mean, and with the highest, for each ranking."""
    each = np.unique(draws[~np.isnan(draws)])
    if not len(each):
        return {}
    means = np.stack([means_of(np.where(draws == draw, kept, np.nan)) for draw in each])
    lowest, highest = np.nan_to_num(means, nan=np.inf).argmin(0), np.nan_to_num(means, nan=-np.inf).argmax(0)
    return {
        end: np.where(draws == each[chosen], kept, np.nan) for end, chosen in (("lowest", lowest), ("highest", highest))
    }


def sentences(figures: SummaryLookup) -> Iterator[str]:
    """The sentences for the verdict."""
    keys = figures.keys("", "kept")
    key = next((item for item in sorted(keys) if item[1] == "attention"), None)
    if key is not None:
        yield from _own(figures, key)
    rankings = [item for item in keys if item != key and role_of(item) == "ordinary"]
    others = [ranking for ranking in rankings if _verdict(figures, ranking) == "keeps"]
    if not others:
        return
    names = listed(f"{display_name(item, keys)} ({rho_text(figures.get('', 'kept', item))})" for item in others)
    if key is not None and _verdict(figures, key) == "keeps":
        yield f"The same holds for {names}."
    else:
        yield f"These rankings hardly change when the model's weights are random: {names}."


def _own(figures: SummaryLookup, key: Key) -> Iterator[str]:
    keys, kept = figures.keys("", "kept"), figures.get("", "kept", key)
    chance = figures.get("", "kept", next((item for item in keys if role_of(item) == "control"), ("", "")))
    beside = f" (a random order: {rho_text(chance)})" if chance.known else ""
    verdict = _verdict(figures, key)
    if not kept.known:
        yield (
            "With all layers re-initialised, attention has a rank correlation with the original on no text "
            f"({kept.note or 'the table has the reasons'})."
        )
    elif verdict == "keeps":
        yield (
            f"With all layers re-initialised, attention still has a rank correlation of {rho_text(kept)} with "
            f"the original{beside}: it shows the input more than what the model has learned."
        )
    elif verdict == "notices":
        yield (
            f"With all layers re-initialised, attention has a rank correlation of {rho_text(kept)} with "
            f"the original{beside}: it depends on what the model has learned."
        )
    else:
        yield (
            f"With all layers re-initialised, attention has a rank correlation of {rho_text(kept)} with "
            f"the original{beside}."
        )
    other = figures.get("", "spearman", key, (RANDOM_LABELS,))
    if other.known:
        yield (
            f"In a model that was trained on random labels, attention has a rank correlation of {rho_text(other)} with "
            "the original."
        )


def rho_text(figure: SummaryValue) -> str:
    """Format a correlation with its interval.

    Example:
        >>> rho_text(SummaryValue(0.619, 0.58, 0.66)), rho_text(SummaryValue(-0.001))
        ('0.62 [0.58, 0.66]', '0.00')
    """
    value, low, high = (f"{round(number, 2) + 0.0:.2f}" for number in (figure.value, figure.low, figure.high))
    return value if np.isnan(figure.low) else f"{value} [{low}, {high}]"


def _verdict(figures: SummaryLookup, key: Key) -> str:
    """Whether a ranking "keeps" its order or "notices" the change; neither if texts or re-initialisations disagree."""
    kept, lowest, highest = (figures.get("", name, key) for name in ("kept", "kept_lowest", "kept_highest"))
    if kept.texts < FEW:
        return ""
    if min(kept.low, lowest.value) >= HALF:
        return "keeps"
    return "notices" if max(kept.high, highest.value) < HALF else ""


def _last(pivot: Pivot, name: str) -> tuple[list[Key], Array]:
    """A column for the fully re-initialised model: the rankings, and ``[n, F]``."""
    depth = max((int(key[2]) for key in pivot.keys), default=0)
    chosen = [index for index, key in enumerate(pivot.keys) if depth and key[2] == str(depth)]
    return [pivot.keys[index][:2] for index in chosen], pivot.matrix(name)[:, chosen]


def _reasons(sanity: pd.DataFrame) -> dict[Key, str]:
    """The reasons why texts have no correlation, with counts, for each ranking and depth."""
    counts = sanity.dropna(subset=["reason"]).groupby([*_BY, "reason"]).size()
    result: dict[Key, list[str]] = {}
    for (*key, reason), count in counts.items():
        result.setdefault(tuple(str(part) for part in key), []).append(f"{reason}: {count}")
    return {key: "; ".join(parts) for key, parts in result.items()}
