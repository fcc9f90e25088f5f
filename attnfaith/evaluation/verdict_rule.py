"""The rule that turns a summary into a label for each level."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.estimates.pivot import Key

FAITHFUL = 0.8
"""Skill from which on a ranking is called faithful: at most a fifth of what could be gained over chance is lost."""


UNFAITHFUL = 0.5
"""Skill under which it is called unfaithful: nearer to a random order than to the smallest sets."""


FEW = 20
"""With fewer texts, or fewer that some set flips, there is no verdict."""


NEAR_CHANCE = 0.25
"""A model is near chance if it is less than this part of the way from the most frequent label to always right."""


_POWER = 1 + 0.8416 / 1.9600
"""How much wider than its own half-width a 95 % interval must fit, to be clear of a limit four times in five."""
_MOST_ADVISED = 100_000
"""No verdict advises more texts than these."""


class Label(StrEnum):
    """The label of a ranking; `attnfaith.evaluation.verdict` documents the rule."""

    FAITHFUL = "faithful"
    PARTLY_OR_FAITHFUL = "partly or faithful"
    PARTLY = "partly"
    UNFAITHFUL_OR_PARTLY = "unfaithful or partly"
    UNFAITHFUL = "unfaithful"
    UNDECIDED = "undecided"


class Reason(StrEnum):
    """Why a label is undecided; `verdict.txt.j2` has a sentence for each."""

    NO_ERASURE = "no erasure"
    NO_TEXTS = "no texts"
    NO_ATTENTION = "no attention"
    NO_CONTROL = "no control"
    FEW_TEXTS = "few texts"
    FEW_FLIPS = "few flips"
    EASY = "easy"
    NO_SKILL = "no skill"
    WIDE = "wide"
    SAME = "same"


@dataclass(frozen=True)
class Judgement:
    """The label of one ranking at one level.

    Attributes:
        label: where the interval of skill contains a limit, one that names both sides of it.
        reason: for "undecided"; else None.
        needed: about how many texts would settle the label, where more would; inf where skill lies at the limit.
    """

    label: Label
    reason: Reason | None = None
    needed: float | None = None


def judged_level(levels: Iterable[str], tail_is_affine: bool) -> str:
    """The level that the verdict is about, of those at which was erased.

    Example:
        >>> judged_level(["attention", "input"], tail_is_affine=False)
        'input'
    """
    first = "attention" if tail_is_affine else "input"
    return min(levels, key=lambda level: level != first)


def judge(figures: SummaryLookup, level: str, key: Key | None) -> Judgement:
    """Judge a ranking at one level by the rule in `attnfaith.evaluation.verdict`.

    Args:
        figures: of the erasure test.
        level: where was erased.
        key: the ranking; None if it was not run.
    """
    control, texts = figures.control(level), 0 if key is None else figures.get(level, "never_flipped", key).texts
    if key is None:
        return Judgement(Label.UNDECIDED, Reason.NO_ATTENTION)
    if texts < FEW:
        return Judgement(Label.UNDECIDED, Reason.FEW_TEXTS)
    if control is None:
        return Judgement(Label.UNDECIDED, Reason.NO_CONTROL)
    if efficiency_of(figures, level, key).texts < FEW:
        return Judgement(Label.UNDECIDED, Reason.FEW_FLIPS)
    if efficiency_of(figures, level, control).low >= FAITHFUL:
        return Judgement(Label.UNDECIDED, Reason.EASY)
    skill = figures.get(level, "skill", key)
    if math.isnan(skill.low):
        return Judgement(Label.UNDECIDED, Reason.NO_SKILL)
    limits = [limit for limit in (UNFAITHFUL, FAITHFUL) if skill.low < limit <= skill.high]
    needed = max((texts_needed(skill, limit, texts) for limit in limits), default=None)
    if len(limits) == 2:
        return Judgement(Label.UNDECIDED, Reason.WIDE, needed)
    if skill.high < UNFAITHFUL:
        return Judgement(Label.UNFAITHFUL)
    if limits == [UNFAITHFUL]:
        return Judgement(Label.UNFAITHFUL_OR_PARTLY, needed=needed)
    if figures.against_control(level, key) != "better":
        return Judgement(Label.UNDECIDED, Reason.SAME)
    if limits == [FAITHFUL]:
        return Judgement(Label.PARTLY_OR_FAITHFUL, needed=needed)
    return Judgement(Label.FAITHFUL if skill.low >= FAITHFUL else Label.PARTLY)


def texts_needed(skill: SummaryValue, limit: float, texts: int) -> float:
    """The approximate number of texts for the interval of skill to exclude a limit with a power of 80 %.

    Rounded up to two digits; inf where skill lies at the limit, or so near to it that more than 100,000 were needed.

    Example:
        >>> texts_needed(SummaryValue(0.45, 0.4, 0.5), 0.5, 100), texts_needed(SummaryValue(0.499, 0.4, 0.6), 0.5, 100)
        (210, inf)
    """
    distance = abs(skill.value - limit)
    half = skill.high - skill.value if skill.value < limit else skill.value - skill.low
    needed = max(texts + 1, texts * (_POWER * half / distance) ** 2) if distance > 0 else math.inf
    if needed > _MOST_ADVISED:
        return math.inf
    unit = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    return math.ceil(needed / unit) * unit


def sizes_known(figures: SummaryLookup, level: str) -> bool:
    """Whether every smallest flipping set is known exactly."""
    return figures.get(level, "minimum_fraction_mean").known


def efficiency_of(figures: SummaryLookup, level: str, key: Key) -> SummaryValue:
    """The efficiency of a ranking, or its upper bound."""
    efficiency = figures.get(level, "efficiency", key)
    return efficiency if efficiency.known else figures.get(level, "efficiency_high", key)


def is_near_chance(accuracy: SummaryValue, majority: SummaryValue) -> bool:
    """Whether a model is hardly better than always answering the most frequent label.

    Example:
        >>> is_near_chance(SummaryValue(0.57), SummaryValue(0.5)), is_near_chance(SummaryValue(0.9), SummaryValue(0.5))
        (True, False)
    """
    return accuracy.value - majority.value < NEAR_CHANCE * (1 - majority.value)
