"""The rule by which a summary is turned into a label, level by level."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnfaith.evaluation.summaries.grid import Key
from attnfaith.evaluation.summaries.reading import Figure, Reader

FAITHFUL = 0.8
"""Skill from which on attention is called faithful: at most a fifth of what could be gained over chance is lost."""
UNFAITHFUL = 0.5
"""Skill under which it is called unfaithful: nearer to a random order than to the smallest sets."""
FEW = 20
"""With fewer texts, or fewer that some set flips, nothing is said."""
RIVALS = 3
"""Where the smallest sets are not known exactly, so many other rankings must have looked for small ones."""
SETTLED = 0.9
"""The share of texts whose smallest set must be known exactly for the rivals not to be needed."""


@dataclass(frozen=True)
class Judgement:
    """A label, and for "undecided" the reason, in a word or two."""

    label: str
    reason: str = ""


def judge(figures: Reader, level: str, alpha: float) -> Judgement:
    """Judge attention at one level; `attnfaith.evaluation.verdict` says how.

    Args:
        figures: of the erasure test.
        level: where was erased.
        alpha: p values of at most this count.
    """
    key, control = figures.place(level, "attention"), figures.control(level)
    if key is None:
        return Judgement("undecided", "no attention")
    if figures.get(level, "never_flipped", key).texts < FEW:
        return Judgement("undecided", "few texts")
    if control is None:
        return Judgement("undecided", "no control")
    if worth(figures, level, key).texts < FEW:
        return Judgement("undecided", "few flips")
    if worth(figures, level, control).low >= FAITHFUL:
        return Judgement("undecided", "easy")
    skill = figures.get(level, "skill", key)
    if math.isnan(skill.low):
        return Judgement("undecided", "no skill")
    if skill.high < UNFAITHFUL:
        return Judgement("unfaithful")
    if skill.low < UNFAITHFUL and skill.high >= FAITHFUL:
        return Judgement("undecided", "wide")
    if figures.against_control(level, key, alpha) != "better":
        return Judgement("undecided", "same")
    settled = exact(figures, level) or figures.get(level, "certified").value >= SETTLED
    if not settled and len(figures.rivals(level, key)) < RIVALS:
        return Judgement("undecided", "rivals")
    return Judgement("faithful" if skill.low >= FAITHFUL else "partly")


def exact(figures: Reader, level: str) -> bool:
    """Whether the size of every smallest flipping set is known."""
    return figures.get(level, "minimum_fraction_mean").known


def worth(figures: Reader, level: str, key: Key) -> Figure:
    """The efficiency of a ranking; where it is only known to lie between two ends, the upper one."""
    own = figures.get(level, "efficiency", key)
    return own if own.known else figures.get(level, "efficiency_high", key)
