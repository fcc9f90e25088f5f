"""Figures of the rationales test: what the top of each ranking carries, and how much of it people marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from attnfaith.attribution.method import ATTENTION, CONTROL
from attnfaith.estimates.comparison_columns import ComparisonColumns, columns
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, unit_at
from attnfaith.estimates.pivot import Array, Pivot, levels_of, numbers
from attnfaith.estimates.summary_table import (
    EstimateTable,
    IntervalOptions,
    TextSlice,
    build_summary,
    start_slice,
    written,
)
from attnfaith.functional.rationale import agreement, f1, top_count
from attnfaith.functional.statistics import Resamples, means_of

TEST = "rationales"
MEASURES = ("comprehensiveness", "sufficiency")
AGREEMENT = ("auprc", "token_f1", "iou_f1")
NO_RATIONALE = "the data mark nothing that the model reads"


def summarise_rationales(
    rationales: pd.DataFrame,
    texts: pd.DataFrame,
    *,
    shares: Sequence[float],
    top: float | None = None,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
    by: str | None = None,
) -> pd.DataFrame:
    """The figures of the rationales test.

    For each level and ranking, means over texts:

    - ``comprehensiveness``: how much the probability of the explained class falls without the top items (of a
      regression: how much the value changes), as a mean over the shares; more is better. ``sufficiency``: the same with
      the top items alone; less is better. ``comprehensiveness_at_10%`` and so on: at one share of the items.
    - ``aopc_comprehensiveness``, ``aopc_sufficiency``: the same means with one more step, an empty top: nothing erased,
      and everything. This is ERASER's formula; the other is what its program computes.
    - ``auprc``: the area under the curve of precision against recall of the marked items
    - ``token_f1``: of the top k items and the marked ones, k being ``top_share`` of the items
    - ``iou_f1``: of the spans that the top k items make, which count where they share half with a marked span;
      precision and recall are means over texts, and the F1 is theirs
    - ``undefined_scores``: the share of texts with items without a score

    With the random control in ``other``, for each ranking, paired: ``comprehensiveness_difference``, and so on.

    For each level: ``too_short`` (texts with fewer than two items); ``all_erased``: what ``comprehensiveness`` is with
    everything erased; and where people marked something ``rationale_share`` (the share of the items that is marked),
    ``top_share`` (the share that is compared), ``without_rationale`` (how many texts have nothing that is marked),
    ``whole_rationale`` (how many have nothing else), ``cut_off`` (how many have marks past what the model reads).

    Args:
        rationales: one row for each text, ranking and level.
        texts: one row for each text.
        shares: of the items, in the order of the lists of the table.
        top: the share of the items that is compared with the marks; None for their own share, over all texts.
        n_resamples: how often the texts are drawn anew.
        confidence_level: of the intervals.
        seed: of the draws.
        by: "class", "length", "confidence" or "correct", for the figures of parts of the texts.

    Example:
        >>> row = {
        ...     "erase_level": "input",
        ...     "ranking_level": "input",
        ...     "ranking": "lrp",
        ...     "undefined": 0,
        ...     "all_erased": 0.6,
        ... }
        >>> row |= {"comprehensiveness": 0.3, "sufficiency": 0.1, "order": None, "rationale": None, "auprc": None}
        >>> row |= {"comprehensiveness_at": [0.2, 0.4], "sufficiency_at": [0.2, 0.0], "unread": None}
        >>> texts = pd.DataFrame({"text_id": [0, 1], "aside": None})
        >>> table = summarise_rationales(
        ...     pd.DataFrame([row | {"text_id": text} for text in (0, 1)]), texts, shares=(0.1, 0.5), n_resamples=99
        ... )
        >>> table.set_index("figure").value[["comprehensiveness_at_50%", "aopc_sufficiency"]].round(4).tolist()
        [0.4, 0.2667]
    """
    intervals = IntervalOptions(n_resamples, confidence_level, seed)
    levels = [
        _Level(rationales[rationales["erase_level"] == name], name, shares, top) for name in levels_of(rationales)
    ]

    def lots_of(part: TextSlice) -> Iterator[EstimateTable]:
        for level in levels:
            rows, places = start_slice(TEST, part, level.pivot.text_ids, level.name)
            if len(places):
                level.add_figures(rows, places, intervals.resamples(len(places)))
            yield rows

    return build_summary(TEST, texts, by, lots_of)


def sides(rationales: pd.DataFrame) -> dict[str, ComparisonColumns]:
    """What two runs are compared by, by level."""
    found = {}
    for level in levels_of(rationales):
        pivot = Pivot(rationales[rationales["erase_level"] == level], ("ranking_level", "ranking"))
        means = {name: pivot.matrix(name) for name in (*MEASURES, "auprc")}
        if np.isnan(means["auprc"]).all():
            del means["auprc"]
        found[level] = ComparisonColumns(pivot.text_ids, columns(means, pivot.keys))
    return found


def at(measure: str, share: float) -> str:
    """The name of a figure at one share of the items.

    Example:
        >>> at("sufficiency", 0.05), at("sufficiency", 0.125)
        ('sufficiency_at_5%', 'sufficiency_at_12.5%')
    """
    return f"{measure}_at_{100 * share:.10g}%"


def share_at(figure: str, measure: str) -> float | None:
    """The share that a figure's name tells; None for the names of others.

    Example:
        >>> share_at("sufficiency_at_5%", "sufficiency"), share_at("sufficiency", "sufficiency")
        (0.05, None)
    """
    start = f"{measure}_at_"
    return float(figure.removeprefix(start).rstrip("%")) / 100 if figure.startswith(start) else None


class _Level:
    """What was found at one level."""

    def __init__(self, table: pd.DataFrame, name: str, shares: Sequence[float], top: float | None) -> None:
        table, self.name, self.given = table.reset_index(drop=True), name, top
        own: dict[str, Array] = {measure: numbers(table[measure]) for measure in MEASURES}
        last = {"comprehensiveness": 0.0, "sufficiency": numbers(table["all_erased"])}
        for measure in MEASURES:
            each = np.stack(table[f"{measure}_at"].to_list()).astype(np.float64)
            own[f"aopc_{measure}"] = (each.sum(1) + last[measure]) / (len(shares) + 1)
            own |= {at(measure, share): each[:, place] for place, share in enumerate(shares)}
        self.means = list(own)
        self.marked, self.top = bool(table["order"].notna().any()), np.nan
        if self.marked:
            compared, self.top = _with_agreement(table, top)
            own |= compared
            self.means += ["auprc", "token_f1"]
        kept = ["text_id", "ranking_level", "ranking", "all_erased", "undefined"]
        self.pivot = Pivot(pd.concat([table[kept], pd.DataFrame(own)], axis=1), ("ranking_level", "ranking"))

    def add_figures(self, rows: EstimateTable, places: np.ndarray, resamples: Resamples) -> None:
        """All figures of some of the texts; the resamples are of those."""
        keys = self.pivot.keys
        values = {name: self.pivot.matrix(name)[places] for name in self.means}
        control = next((place for place, key in enumerate(keys) if key == (self.name, CONTROL)), None)
        others = [place for place in range(len(keys)) if place != control]
        if control is not None:
            compared = (name for name in (*MEASURES, *AGREEMENT) if name in values)
            values |= {f"{name}_difference": values[name][:, others] - values[name][:, [control]] for name in compared}
        ends = np.cumsum([0, *(matrix.shape[1] for matrix in values.values())])
        found = resamples.mean(np.hstack(list(values.values())))
        if self.marked:
            self._about_marks(rows, places, resamples)
        rows.add_each("all_erased", resamples.mean(self.pivot.vector("all_erased")[places]), [("", "")])
        note = self._left_out(places)
        for name, start, stop in zip(values, ends[:-1], ends[1:], strict=True):
            own, part = keys, found.take(slice(start, stop))
            against = None
            if name.endswith("_difference") and control is not None:
                own, against = tuple(keys[place] for place in others), [written(keys[control])] * len(others)
            rows.add_each(name, part, own, others=against, notes=note if name.startswith(AGREEMENT) else "")
        if self.marked:
            self._spans(rows, places, resamples, control, others)
        undefined = np.where(self.pivot.present, self.pivot.flags("undefined"), np.nan)[places]
        rows.add_each("undefined_scores", resamples.share(undefined), keys)

    def _about_marks(self, rows: EstimateTable, places: np.ndarray, resamples: Resamples) -> None:
        """How much is marked, how much of that is compared, and of how many texts nothing can be said."""
        able, relevant, unread = (self.pivot.vector(name)[places] for name in ("able", "relevant", "unread"))
        rows.add_each("rationale_share", resamples.ratio(relevant, able), [("", "")])
        note = "of all texts, as people marked" if self.given is None else "as asked"
        rows.add("top_share", self.top, texts=int(np.isfinite(able).sum()), note=note)
        counts = {"without_rationale": ~(relevant > 0), "whole_rationale": relevant == able, "cut_off": unread > 0}
        for name, those in counts.items():
            rows.add(name, int(those.sum()), texts=len(places))

    def _spans(
        self, rows: EstimateTable, places: np.ndarray, resamples: Resamples, control: int | None, others: Sequence[int]
    ) -> None:
        """The F1 of mean precision and mean recall."""
        keys, note = self.pivot.keys, self._left_out(places)
        sides = [self.pivot.matrix(name)[places] for name in ("precision", "recall")]
        value, draws = f1(*map(means_of, sides)), f1(*map(resamples.draws, sides))
        texts = (~np.isnan(sides[0])).sum(0)
        rows.add_each("iou_f1", resamples.estimate(value, draws, texts), keys, notes=note)
        if control is not None:
            gap = resamples.estimate(value - value[control], draws - draws[:, [control]], texts).take(list(others))
            own, against = [keys[place] for place in others], [written(keys[control])] * len(others)
            rows.add_each("iou_f1_difference", gap, own, others=against, notes=note)

    def _left_out(self, places: np.ndarray) -> str:
        if not self.marked:
            return ""
        without = int((~(self.pivot.vector("relevant")[places] > 0)).sum())
        return f"without {without} texts in which nothing is marked" if without else ""


def _with_agreement(table: pd.DataFrame, top: float | None) -> tuple[dict[str, Array], float]:
    """What is compared with people's marks, row by row; and the share of the items that is."""
    names = ("able", "relevant", "unread", "token_f1", "precision", "recall")
    found = {name: np.full(len(table), np.nan) for name in names}
    orders, spans = table["order"].to_list(), [_pairs(lot) for lot in table["rationale"]]
    marked = [[place for span in lot for place in range(*span)] for lot in spans]
    known = np.flatnonzero(table["order"].notna())
    found["unread"][known] = numbers(table["unread"])[known]
    for row in known:
        found["able"][row] = len(orders[row])
        found["relevant"][row] = len(set(marked[row]))
    each = known[~table["text_id"].iloc[known].duplicated().to_numpy()]
    share = found["relevant"][each].sum() / max(found["able"][each].sum(), 1) if top is None else top
    for row in known[found["relevant"][known] > 0]:
        chosen = orders[row][: top_count(share, len(orders[row]))]
        compared = agreement(chosen, marked[row], spans[row])
        for name, value in zip(("token_f1", "precision", "recall"), compared, strict=True):
            found[name][row] = value
    return found | {"auprc": numbers(table["auprc"])}, float(share)


def _pairs(lot: Any) -> list[tuple[int, int]]:
    return [] if lot is None else [(int(start), int(stop)) for start, stop in lot]


def said(figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
    """What attention's top does, and how it agrees with people, each beside a random order's."""
    order = ("attention", "input") if facts["tail_is_affine"] else ("input", "attention")
    places = ((level, key) for level in order for key in figures.keys(level, "comprehensiveness"))
    level, key = min(
        (place for place in places if place[1][1] == ATTENTION),
        key=lambda place: (order.index(place[0]), place[1][0] != "attention"),
        default=("", ("", "")),
    )
    control = (level, CONTROL)
    own, chance = ({name: figures.get(level, name, one) for name in (*MEASURES, *AGREEMENT)} for one in (key, control))
    if not own["comprehensiveness"].known or not chance["comprehensiveness"].known:
        return
    unit = unit_at(facts["unit"], level)
    gap = figures.get(level, "comprehensiveness_difference", key, control)
    than = "more than" if gap.low > 0 else "less than" if gap.high < 0 else "not clearly different from"
    value = facts.get("decision") == "regression"

    def shown(estimate: SummaryValue) -> str:
        return _number(estimate, ".3g" if value else ".2f")

    removed, kept = (shown(own[name]) for name in MEASURES)
    removed_by_chance, kept_by_chance = (shown(chance[name]) for name in MEASURES)
    if value:
        yield (
            f"Removing attention's top {unit} changes the value by {removed} (comprehensiveness), {than} a random "
            f"order's {removed_by_chance}; keeping only them changes it by {kept} (sufficiency), a random order's by "
            f"{kept_by_chance}."
        )
    else:
        yield (
            f"Removing attention's top {unit} lowers the probability of the explained class by {removed} "
            f"(comprehensiveness), {than} a random order's {removed_by_chance}; keeping only them lowers it by {kept} "
            f"(sufficiency), a random order's by {kept_by_chance}."
        )
    if not value and min(one[name].value for one in (own, chance) for name in MEASURES) < -0.005:
        yield "A negative number is a probability that rises."
    if own["token_f1"].known:
        share = figures.get(level, "rationale_share")
        yield (
            f"People marked {share} of the {unit}; attention's top agrees with them with a token F1 of "
            f"{_number(own['token_f1'])}, a random order's with {_number(chance['token_f1'])}."
        )


def _number(figure: SummaryValue, form: str = ".2f") -> str:
    value, *ends = (f"{float(format(one, form)) + 0.0:{form}}" for one in (figure.value, figure.low, figure.high))
    return value if np.isnan(figure.low) else f"{value} [{', '.join(ends)}]"
