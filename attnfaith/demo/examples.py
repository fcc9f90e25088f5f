"""Choose the example texts of a report and describe them."""

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
ROWS_SEARCHED = 1000
"""Rows of a user's data among which examples are chosen."""
ITEMS_SHOWN = 5
"""Items shown of a text without planted words."""


def planted_examples(
    results: Results, explained: Mapping[str, Sequence[Explanation]], truth: Planted, rows: Sequence[Review]
) -> list[str]:
    """Example reviews in Markdown, the first of each kind.

    One that the model classifies correctly with attention on the decisive words, one with attention elsewhere, and one
    that the model classifies wrongly.
    """
    correct = results.table("texts")["correct"].fillna(False).astype(bool).to_numpy()
    attention = explained[ATTENTION]
    truths = [truth(explanation.encoded) for explanation in attention]
    agreement = np.array(
        [agreement_of(explanation.ranking(), scores) for explanation, scores in zip(attention, truths, strict=True)]
    )
    lowest = np.nanmin(agreement[correct]) if np.isfinite(agreement[correct]).any() else np.nan
    kinds = {
        "Attention points at the decisive words": correct & (agreement == 1),
        "Attention points elsewhere": correct & (agreement == lowest) & (agreement < 1),
        "The model is wrong": ~correct,
    }
    lines: list[str] = []
    for title, matches in kinds.items():
        if matches.any():
            number = int(matches.argmax())
            explanation, label = attention[number], STARS[rows[number]["label"]]
            prediction = f"The model predicts {explanation.prediction} (probability {explanation.probability:.2f})"
            prediction += ", which is correct." if correct[number] else f"; the label is {label}."
            by_ranking = {name: explained[name][number] for name in SHOWN if name in explained}
            text, first = report.with_bold_words(rows[number]), max(1, int(sum(truths[number])))
            lines += [f"#### {title}", ""]
            lines += report.example(
                by_ranking, _removed(results, number), first=first, text=text, prediction=prediction
            )
    return lines


def user_examples(results: Results, evaluator: Evaluator, data: Any, column: str) -> list[str]:
    """Two examples among the first rows: attention most ahead of another ranking, and most behind it."""
    table = results.table("erasure")
    at_attention = table[(table["erase_level"] == "attention") & (table["ranking_level"] == "attention")]
    fractions = at_attention.assign(used=at_attention["fraction"].fillna(1.0)).pivot(
        index="text_id", columns="ranking", values="used"
    )
    fractions = fractions[fractions.index < ROWS_SEARCHED]
    if not len(fractions) or not {ATTENTION, report.RIVAL[1]} <= set(fractions.columns):
        return []
    lead = fractions[report.RIVAL[1]] - fractions[ATTENTION]
    rival = display_name(report.RIVAL)
    kinds = {f"Attention leads to a flip sooner than {rival}": lead.idxmax()} if lead.max() > 0 else {}
    kinds |= {f"Attention leads to a flip later than {rival}": lead.idxmin()} if lead.min() < 0 else {}
    if not kinds:
        return []
    _, rows = next(iter(open_data(data, input_column=column, label_column=None).shards(ROWS_SEARCHED)))
    lines: list[str] = []
    for title, number in kinds.items():
        explained = explain(results, evaluator.cut, evaluator.tokenizer, [rows[number].text], SHOWN)
        by_ranking = {name: explanations[0] for name, explanations in explained.items()}
        explanation = by_ranking[ATTENTION]
        probability = "" if explanation.probability is None else f" (probability {explanation.probability:.2f})"
        prediction = f"The model predicts {explanation.prediction}{probability}."
        text, removed = report.escape_markdown(rows[number].text), _removed(results, int(number))
        lines += [f"#### {title}, at the final attention", ""]
        lines += report.example(by_ranking, removed, first=ITEMS_SHOWN, text=text, prediction=prediction)
    return lines


def _removed(results: Results, number: int) -> dict[str, int | None]:
    """The number of items that each attention-level ranking removes from a text until the decision flips."""
    table = results.table("erasure")
    rows = table[(table["text_id"] == number) & (table["erase_level"] == "attention")]
    return {row.ranking: None if row.censored else int(row.removed) for row in rows.itertuples()}
