"""Quantities and sentences of the rationales test: faithfulness of the top items, and agreement with annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.attribution.method import ATTENTION, CONTROL
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, unit_at
from attnfaith.estimates.pivot import Array, Pivot, levels_of, numbers
from attnfaith.estimates.quantities import FunctionOfMeans, Mean, Number, Quantities, Quantity, Share, ratio
from attnfaith.estimates.summary_table import written
from attnfaith.functional.rationale import agreement, f1, top_count

MEASURES = ("comprehensiveness", "sufficiency")
SOFT = ("soft_comprehensiveness", "soft_sufficiency")
SOFT_NOTE = "over the texts that lose probability when all embeddings are zero"
AGREEMENT = ("auprc", "token_f1", "iou_f1")


def falls(
    measure: str, mean: Array, each: Array, shares: Sequence[float], first: Array | float | None, **about: Any
) -> list[Quantity]:
    """Drops of the explained output without the top items of a ranking, or with them alone.

    Args:
        measure: "comprehensiveness" or "sufficiency".
        mean: ``[n, F]`` or ``[n]``, over the shares.
        each: ``[n, F, S]`` or ``[n, S]``, at each of the shares.
        shares: of the items.
        first: at one more step, with an empty top; None where that is not known.
        **about: as `Quantity` takes it.
    """
    others = {**about, "compared": ()}  # they hang on the shares, which are options
    result: list[Quantity] = [Mean(measure, mean, **about)]
    if first is not None:
        result.append(Mean(f"aopc_{measure}", (each.sum(-1) + first) / (each.shape[-1] + 1), **others))
    return result + [Mean(at(measure, share), each[..., index], **others) for index, share in enumerate(shares)]


def agreements(
    auprc: Array, token_f1: Array, precision: Array, recall: Array, **about: Any
) -> tuple[list[Quantity], FunctionOfMeans]:
    """Agreement of a ranking with annotations, ``[n, F]`` or ``[n]`` each; the second is the F1 of spans."""
    others = {**about, "compared": ()}  # they hang on how much is marked in all texts, or on an option
    spans = [Mean("", values).values for values in (precision, recall)]
    return [Mean("auprc", auprc, **about), Mean("token_f1", token_f1, **others)], FunctionOfMeans(
        "iou_f1", spans[0], columns=tuple(spans), function=f1, **others
    )


def marked_share(relevant: Array, able: Array) -> float:
    """The share of annotated items over all texts, from the counts of each text ``[n]``."""
    return float(relevant.sum() / max(able.sum(), 1))


def quantities(rationales: pd.DataFrame, shares: Sequence[float], top: float | None = None) -> Iterator[Quantities]:
    """The quantities of the rationales test.

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
    - ``soft_comprehensiveness``, ``soft_sufficiency``: with the option ``soft``, at the input level, Zhao & Aletras'
      figures from 0 to 1, more is better (`attnfaith.functional.soft_erasure`)
    - ``undefined_scores``: the share of texts with items without a score

    With the random control in ``other``, for each ranking, paired: ``comprehensiveness_difference``, and so on.

    For each level: ``too_short`` (texts with fewer than two items); ``all_erased``: what ``comprehensiveness`` is with
    everything erased; and where people marked something ``rationale_share`` (the share of the items that is marked),
    ``top_share`` (the share that is compared), ``without_rationale`` (how many texts have nothing that is marked),
    ``whole_rationale`` (how many have nothing else), ``cut_off`` (how many have marks past what the model reads).

    Args:
        rationales: one row for each text, ranking and level.
        shares: of the items, in the order of the lists of the table.
        top: the share of the items that is compared with the marks; None for their own share, over all texts.

    Example:
        >>> row = {
        ...     "text_id": 0,
        ...     "erase_level": "input",
        ...     "ranking_level": "input",
        ...     "ranking": "lrp",
        ...     "undefined": 0,
        ...     "all_erased": 0.6,
        ... }
        >>> row |= {"comprehensiveness": 0.3, "sufficiency": 0.1, "order": None, "rationale": None, "auprc": None}
        >>> row |= {"comprehensiveness_at": [0.2, 0.4], "sufficiency_at": [0.2, 0.0], "unread": None}
        >>> (level,) = quantities(pd.DataFrame([row]), shares=(0.1, 0.5))
        >>> found = {one.name: one.values.round(4).tolist() for one in level.quantities_for(np.arange(1))}
        >>> found["comprehensiveness_at_50%"], found["aopc_sufficiency"]
        ([[0.4]], [[0.2667]])
    """
    for name in levels_of(rationales):
        level = _Level(rationales[rationales["erase_level"] == name], name, shares, top)
        yield Quantities(level.pivot.text_ids, level.of, name)


def at(measure: str, share: float) -> str:
    """The name of an estimate at one share of the items.

    Example:
        >>> at("sufficiency", 0.05), at("sufficiency", 0.125)
        ('sufficiency_at_5%', 'sufficiency_at_12.5%')
    """
    return f"{measure}_at_{100 * share:.10g}%"


def share_at(figure: str, measure: str) -> float | None:
    """The share in the name of an estimate; None for other names.

    Example:
        >>> share_at("sufficiency_at_5%", "sufficiency"), share_at("sufficiency", "sufficiency")
        (0.05, None)
    """
    start = f"{measure}_at_"
    return float(figure.removeprefix(start).rstrip("%")) / 100 if figure.startswith(start) else None


class _Level:
    """The results at one level."""

    def __init__(self, table: pd.DataFrame, name: str, shares: Sequence[float], top: float | None) -> None:
        table, self.name, self.shares, self.given = table.reset_index(drop=True), name, shares, top
        self.marked, self.top = bool(table["order"].notna().any()), np.nan
        columns: dict[str, Any] = {name: table[name] for name in ("text_id", "ranking_level", "ranking", "undefined")}
        self.soft = [measure for measure in SOFT if measure in table and table[measure].notna().any()]
        columns |= {name: table[name] for name in ("all_erased", *MEASURES, *self.soft)}
        for measure in MEASURES:
            each = np.stack(table[f"{measure}_at"].to_list()).astype(np.float64)
            columns |= {f"{measure} {index}": each[:, index] for index in range(len(shares))}
        if self.marked:
            compared, self.top = _with_agreement(table, top)
            columns |= compared
        self.pivot = Pivot(pd.DataFrame(columns), ("ranking_level", "ranking"))

    def of(self, indices: NDArray[np.intp]) -> list[Quantity | Number]:
        """The quantities of some of the texts."""
        about: dict[str, Any] = {"keys": self.pivot.keys}
        all_erased = self.pivot.vector("all_erased")[indices]
        parts = [self._falls(measure, all_erased, indices, about) for measure in MEASURES]
        soft = [
            Mean(name, self.pivot.matrix(name)[indices], **about, note=SOFT_NOTE, compared=()) for name in self.soft
        ]
        means, spans = [*(part[0] for part in parts), *(item for part in parts for item in part[1:]), *soft], []
        if self.marked:
            names = ("auprc", "token_f1", "precision", "recall")
            columns = [self.pivot.matrix(name)[indices] for name in names]
            agreement, iou = agreements(*columns, **about, note=self._left_out(indices))
            means, spans = means + agreement, [iou]
        undefined = np.where(self.pivot.present, self.pivot.flags("undefined"), np.nan)[indices]
        return [
            *(self._about_marks(indices) if self.marked else ()),
            Mean("all_erased", all_erased, compared=()),
            *means,
            *self._differences(means),
            *spans,
            *self._differences(spans),
            Share("undefined_scores", undefined, **about),
        ]

    def _falls(
        self, measure: str, all_erased: Array, indices: NDArray[np.intp], about: dict[str, Any]
    ) -> list[Quantity]:
        each = [self.pivot.matrix(f"{measure} {index}")[indices] for index in range(len(self.shares))]
        first = 0.0 if measure == "comprehensiveness" else all_erased[:, None]
        mean = self.pivot.matrix(measure)[indices]
        return falls(measure, mean, np.stack(each, axis=-1), self.shares, first, **about)

    def _differences(self, of: Sequence[Quantity]) -> Iterator[Quantity]:
        """Paired differences between each ranking and the random control."""
        keys = list(self.pivot.keys)
        if (self.name, CONTROL) not in keys:
            return
        control = keys.index((self.name, CONTROL))
        others = [index for index in range(len(keys)) if index != control]
        about: dict[str, Any] = {"keys": [keys[index] for index in others]}
        about["others"] = [written(keys[control])] * len(others)
        for item in of:
            about |= {"name": f"{item.name}_difference", "compared": None}
            if isinstance(item, FunctionOfMeans):
                function = item.function

                def gap(*means: Array, function: Callable[..., Array] = function) -> Array:
                    result = function(*means)
                    return result[..., others] - result[..., [control]]

                yield replace(item, values=item.values[:, others], function=gap, **about)
            elif item.name in (*MEASURES, *AGREEMENT, *SOFT):
                yield replace(item, values=item.values[:, others] - item.values[:, [control]], **about)

    def _about_marks(self, indices: NDArray[np.intp]) -> Iterator[Quantity | Number]:
        """Quantities of the annotations: the shares annotated and compared, and the number of undefined texts."""
        able, relevant, unread = (self.pivot.vector(name)[indices] for name in ("able", "relevant", "unread"))
        yield ratio("rationale_share", relevant, able, compared=())
        note = "of all texts, as people marked" if self.given is None else "as asked"
        yield Number("top_share", self.top, int(np.isfinite(able).sum()), note)
        counts = {"without_rationale": ~(relevant > 0), "whole_rationale": relevant == able, "cut_off": unread > 0}
        for name, those in counts.items():
            yield Number(name, int(those.sum()), len(indices))

    def _left_out(self, indices: NDArray[np.intp]) -> str:
        without = int((~(self.pivot.vector("relevant")[indices] > 0)).sum())
        return f"without {without} texts in which nothing is marked" if without else ""


def _with_agreement(table: pd.DataFrame, top: float | None) -> tuple[dict[str, Array], float]:
    """The rows that are compared with annotations, and the share of their items."""
    names = ("able", "relevant", "unread", "token_f1", "precision", "recall")
    result = {name: np.full(len(table), np.nan) for name in names}
    orders, spans = table["order"].to_list(), [_pairs(part) for part in table["rationale"]]
    marked = [[index for span in part for index in range(*span)] for part in spans]
    known = np.flatnonzero(table["order"].notna())
    result["unread"][known] = numbers(table["unread"])[known]
    for row in known:
        result["able"][row] = len(orders[row])
        result["relevant"][row] = len(set(marked[row]))
    each = known[~table["text_id"].iloc[known].duplicated().to_numpy()]
    share = marked_share(result["relevant"][each], result["able"][each]) if top is None else top
    for row in known[result["relevant"][known] > 0]:
        chosen = orders[row][: top_count(share, len(orders[row]))]
        compared = agreement(chosen, marked[row], spans[row])
        for name, value in zip(("token_f1", "precision", "recall"), compared, strict=True):
            result[name][row] = value
    return result | {"auprc": numbers(table["auprc"])}, float(share)


def _pairs(part: Any) -> list[tuple[int, int]]:
    return [] if part is None else [(int(start), int(stop)) for start, stop in part]


def sentences(figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
    """The sentences on one level: attention against the random control."""
    order = ("attention", "input") if facts["tail_is_affine"] else ("input", "attention")
    indices = ((level, key) for level in order for key in figures.keys(level, "comprehensiveness"))
    level, key = min(
        (index for index in indices if index[1][1] == ATTENTION),
        key=lambda index: (order.index(index[0]), index[1][0] != "attention"),
        default=("", ("", "")),
    )
    control = (level, CONTROL)
    values, chance = (
        {name: figures.get(level, name, item) for name in (*MEASURES, *AGREEMENT)} for item in (key, control)
    )
    if not values["comprehensiveness"].known or not chance["comprehensiveness"].known:
        return
    unit = unit_at(facts["unit"], level)
    gap = figures.get(level, "comprehensiveness_difference", key, control)
    than = "more than" if gap.low > 0 else "less than" if gap.high < 0 else "not clearly different from"
    value = facts.get("decision") == "regression"

    def shown(estimate: SummaryValue) -> str:
        return _number(estimate, ".3g" if value else ".2f")

    removed, kept = (shown(values[name]) for name in MEASURES)
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
    if not value and min(item[name].value for item in (values, chance) for name in MEASURES) < -0.005:
        yield "A negative number is a probability that rises."
    soft, soft_by_chance = ([figures.get(level, name, item) for name in SOFT] for item in (key, control))
    if soft[0].known:
        yield (
            "When parts of each token's embedding are set to zero at random, more of them the higher its score, "
            f"attention's soft comprehensiveness is {_number(soft[0])}, a random order's {_number(soft_by_chance[0])} "
            "(1: as if all were zero). When they are fewer the higher its score, its soft sufficiency is "
            f"{_number(soft[1])}, a random order's {_number(soft_by_chance[1])} (1: no effect). "
            "For both, higher is better."
        )
    if values["token_f1"].known:
        share = figures.get(level, "rationale_share")
        yield (
            f"People marked {share} of the {unit}; attention's top agrees with them with a token F1 of "
            f"{_number(values['token_f1'])}, a random order's with {_number(chance['token_f1'])}."
        )


def _number(figure: SummaryValue, form: str = ".2f") -> str:
    value, *ends = (f"{float(format(item, form)) + 0.0:{form}}" for item in (figure.value, figure.low, figure.high))
    return value if np.isnan(figure.low) else f"{value} [{', '.join(ends)}]"
