"""Which texts a report shows, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.explanation import Explanation
from attnfaith.attribution.method import ATTENTION
from attnfaith.attribution.optimal import OPTIMAL
from attnfaith.data.source import open_data
from attnfaith.demo import report
from attnfaith.demo.corpus import Review
from attnfaith.demo.planted import Planted, agreement_of
from attnfaith.demo.steps import STARS, explain
from attnfaith.evaluation.evaluator import Evaluator
from attnfaith.evaluation.results import Results

SHOWN = (ATTENTION, report.RIVAL[1], OPTIMAL[1])
"""Rankings of the attention level that are shown of each text."""
READ = 1000
"""Rows of a user's data in which texts to show are looked for."""
FIRST = 5
"""Items shown of a text in which nothing is planted."""


def planted(
    results: Results, explained: Mapping[str, Sequence[Explanation]], truth: Planted, rows: Sequence[Review]
) -> list[str]:
    """Reviews to show, the first of each kind.

    One that the model gets right and whose attention points at the decisive words, one where it does not, and one that
    the model gets wrong.
    """
    right = results.table("texts")["correct"].fillna(False).astype(bool).to_numpy()
    truths = [truth(one.encoded) for one in explained[ATTENTION]]
    agreed = np.array([agreement_of(one.ranking(), own) for one, own in zip(explained[ATTENTION], truths, strict=True)])
    lowest = np.nanmin(agreed[right]) if np.isfinite(agreed[right]).any() else np.nan
    kinds = {
        "Attention points at what decides": right & (agreed == 1),
        "Attention points elsewhere": right & (agreed == lowest) & (agreed < 1),
        "The model is wrong": ~right,
    }
    lines: list[str] = []
    for title, those in kinds.items():
        if those.any():
            number = int(those.argmax())
            one, label = explained[ATTENTION][number], STARS[rows[number]["label"]]
            chance = f"{one.prediction} (probability {one.probability:.2f})"
            said = f"The model says {chance}, " + ("rightly." if right[number] else f"but it is {label}.")
            own = {name: explained[name][number] for name in SHOWN if name in explained}
            shown, first = report.marked(rows[number]), max(1, int(sum(truths[number])))
            lines += [f"#### {title}", ""]
            lines += report.example(own, _removed(results, number), first=first, shown=shown, said=said)
    return lines


def of_yours(results: Results, evaluator: Evaluator, data: Any, column: str) -> list[str]:
    """Of the first rows the text in which attention needs least of what another ranking needs, and the opposite."""
    table = results.table("erasure")
    here = table[(table["erase_level"] == "attention") & (table["ranking_level"] == "attention")]
    fractions = here.assign(used=here["fraction"].fillna(1.0)).pivot(index="text_id", columns="ranking", values="used")
    fractions = fractions[fractions.index < READ]
    if not len(fractions) or not {ATTENTION, report.RIVAL[1]} <= set(fractions.columns):
        return []
    ahead = fractions[report.RIVAL[1]] - fractions[ATTENTION]
    rival = display_name(report.RIVAL)
    kinds = {f"Attention leads to a flip sooner than {rival}": ahead.idxmax()} if ahead.max() > 0 else {}
    kinds |= {f"Attention leads to a flip later than {rival}": ahead.idxmin()} if ahead.min() < 0 else {}
    if not kinds:
        return []
    _, rows = next(iter(open_data(data, input_column=column, label_column=None).shards(READ)))
    lines: list[str] = []
    for title, number in kinds.items():
        explained = explain(results, evaluator.cut, evaluator.tokenizer, [rows[number].text], SHOWN)
        own = {name: found[0] for name, found in explained.items()}
        one = own[ATTENTION]
        said = f"The model says {one.prediction}" + ("." if one.probability is None else f" ({one.probability:.2f}).")
        shown = report.plain(rows[number].text)
        lines += [f"#### {title}, at the final attention", ""]
        lines += report.example(own, _removed(results, int(number)), first=FIRST, shown=shown, said=said)
    return lines


def _removed(results: Results, number: int) -> dict[str, int | None]:
    """How many items each attention-level ranking removes from a text until the decision flips."""
    table = results.table("erasure")
    own = table[(table["text_id"] == number) & (table["erase_level"] == "attention")]
    return {row.ranking: None if row.censored else int(row.removed) for row in own.itertuples()}
