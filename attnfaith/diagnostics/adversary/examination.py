"""The chosen adversary and the diagnosed model, examined by the tests of `attnfaith.evaluation` on the same texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, percent
from attnfaith.evaluation.evaluator import Evaluator
from attnfaith.evaluation.results import Results

if TYPE_CHECKING:
    from attnfaith.diagnostics.session import Plan, Session

EXAMINED = "adversary_examined"
"""The table of the estimates of both runs."""
TESTS = ("erasure", "information")
RANKINGS = ("attention", "gradient_x_attention")
TEXTS, SMALL_TEXTS = 500, 60
"""The most texts of the test that are examined; they are drawn at random."""
_SHOWN = "examined"
"""The entry of the facts with the sentences."""


def examine(session: Session, plan: Plan) -> pd.DataFrame:
    """Run erasure and information on the diagnosed model and the adversary; returns the estimates of both.

    The runs stay in the folder of the diagnosis, where ``attnfaith report`` and ``attnfaith compare`` read them.
    """
    rows = session.texts["test"].for_training()
    runs = {}
    runs["model"] = _run(session, session.cut, "model", rows)
    with session.opened(plan) as twin:
        runs["adversary"] = _run(session, twin, plan.name, rows)
    session.folder.manifest["facts"][_SHOWN] = _sentences(runs)
    summaries = []
    for name, results in runs.items():
        summary = results.summary()
        summaries.append(summary[summary["slice"] == "all"].assign(model=name))
    columns = ["model", "test", "erase_level", "ranking_level", "ranking", "other", "figure", "value", "low", "high"]
    return pd.concat(summaries, ignore_index=True)[[*columns, "texts", "note"]]


def _run(session: Session, model: Any, name: str, rows: list[dict[str, Any]]) -> Results:
    evaluator = Evaluator(model, session.retraining.tokenizer, max_length=session.encoder.max_length)
    pairs = any("second_text" in row for row in rows[:1])
    return evaluator.compute(
        rows,
        second_input_column="second_text" if pairs else None,
        rankings=list(RANKINGS),
        tests=list(TESTS),
        level="attention",
        max_texts=SMALL_TEXTS if session.small else TEXTS,
        seed=session.seed,
        batch_size=session.batch_size,
        output_dir=session.folder.path / "runs" / name,
        quiet=True,
    )


def _sentences(runs: Mapping[str, Results]) -> list[str]:
    """What erasure and information say of both models."""
    found = {name: SummaryLookup(results.summary()) for name, results in runs.items()}
    level, key = "attention", ("attention", "attention")
    figures = {name: lookup.get(level, "skill", key) for name, lookup in found.items()}
    never = {name: lookup.get(level, "never_flipped", key) for name, lookup in found.items()}
    lines = []
    if all(figure.known for figure in figures.values()):
        lines.append(
            f"Erased at the final attention, the attention of the model has a skill of {figures['model']} (0: a random "
            f"order, 100 %: the smallest sets), that of the adversary {figures['adversary']}: "
            f"{conclusion(figures['model'], figures['adversary'])}."
        )
    lines.append(
        f"Erasing by attention never changes {percent(never['model'].value)} of the decisions of the model, and "
        f"{percent(never['adversary'].value)} of those of the adversary."
    )
    for name, results in runs.items():
        said = results.verdict.parts.get("information", ())
        if said:
            lines.append(f"Information, {'the model' if name == 'model' else 'the adversary'}: {said[0]}")
    return lines


def conclusion(model: SummaryValue, adversary: SummaryValue) -> str:
    """What the skill of both says.

    Example:
        >>> conclusion(SummaryValue(0.5, 0.2, 0.8), SummaryValue(0.4, 0.1, 0.7))
        'erasure finds no clear difference between the two'
    """
    if not model.clear_of(adversary):
        return "erasure finds no clear difference between the two"
    if adversary.value < model.value:
        return "the adversary's attention is worse at saying what decides, so erasure tells the two apart"
    return "the adversary's attention is better at saying what decides in the adversary"


def sentences_of(facts: Mapping[str, Any]) -> list[str]:
    """The sentences that `examine` left in the facts of the diagnosis."""
    return list(facts.get(_SHOWN, ()))
