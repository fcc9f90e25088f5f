"""What the demo says of itself: the introduction of its reports, and the main results for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.method import ATTENTION, CONTROL, YOURS
from attnfaith.demo.steps import Plan
from attnfaith.estimates.lookup import SummaryLookup, percent
from attnfaith.evaluation.results import Results

PLANTED = (YOURS, "planted")
"""The ranking of a demo's own: the decisive words first, in the order of the text."""
RIVAL = ("attention", "gradient_x_attention")
"""The ranking that the terminal shows beside attention."""


def introduction(name: str, plan: Plan, seed: int, results: Results, planted: pd.DataFrame) -> list[str]:
    """The first sentences of a report: data, model, and how well rankings agree with the words that decide.

    Args:
        name: of the model.
        plan: the size of the demo.
        seed: of the demo.
        results: of the model.
        planted: the agreement with the planted words.
    """
    unit = results.manifest["facts"]["unit"]["attention"]
    return [
        f"{plan.reviews:,} product reviews with one to five stars were generated (seed {seed}), so that it is known "
        "which words decide. Every such word also stands in sentences that count for nothing: about another product, "
        "or someone else's opinion.",
        f"A {name}, whose attention weighs {unit}, was trained on {plan.train:,} of the reviews, with "
        f"{plan.validation} to choose the epoch. It was evaluated on {plan.held_out} others. The ranking “planted” has "
        f"the decisive {unit} first.",
        *truth_sentences(results, planted),
    ]


def truth_sentences(results: Results, planted: pd.DataFrame) -> list[str]:
    """The agreement of attention with the planted words, and how soon the decision flips without these."""
    figures, level = SummaryLookup(results.summary()), "attention"
    unit = results.manifest["facts"]["unit"][level]
    share = {row.ranking: percent(row.agreement, row.low, row.high) for row in planted.itertuples()}
    chance = percent(dict(zip(planted["ranking"], planted["agreement"], strict=True))["by chance"])
    sentences = [f"Of the {unit} that attention puts first, {share[ATTENTION]} are decisive; by chance, {chance}."]
    other = (level, ATTENTION)
    first, random = (figures.get(level, "mean_fraction", key) for key in (PLANTED, (level, CONTROL)))
    sentences.append(
        f"With the decisive {unit} removed first, the decision flips after {first} of all {unit}; at random, {random}."
    )
    if figures.get(level, "mean_difference", PLANTED, other).low > 0:
        sentences.append(
            f"That is later than by attention ({figures.get(level, 'mean_fraction', other)}). What the attention "
            f"weighs are not bare {unit} but states of a recurrent network, which also hold what was read around them: "
            "what is taken away here can still be in its neighbours. The test says what the decision "
            "rests on behind the encoder; it does not say which words of the text that comes from."
        )
    return sentences


def terminal_lines(name: str, results: Results, planted: pd.DataFrame) -> list[str]:
    """The main results of one model, in a few lines for a terminal."""
    right = percent(float(results.table("texts")["correct"].dropna().mean()))
    label, evidence, *_ = str(results.verdict).splitlines()
    share = dict(zip(planted["ranking"], planted["agreement"], strict=True))
    unit = results.manifest["facts"]["unit"]["attention"]
    compared = {RIVAL[1]: display_name(RIVAL), "by chance": "by chance"}
    others = ", ".join(f"{words}: {percent(share[ranking])}" for ranking, words in compared.items() if ranking in share)
    return [
        f"{name}: right on {right} of {len(results.table('texts'))} held-out reviews. {label}",
        f"  {evidence}",
        f"  Of the {unit} that attention puts first, {percent(share[ATTENTION])} are decisive ({others}).",
    ]


def how_to_open(reports: Sequence[Path]) -> list[str]:
    """Where the reports are, as addresses that a browser opens."""
    noun = "report" if len(reports) == 1 else "reports"
    return [f"Open the {noun} in a browser:", *(f"  {path.resolve().as_uri()}" for path in reports)]
