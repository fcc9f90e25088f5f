"""The picture of a verdict: for each level a scale from a random order to the smallest sets, with attention on it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from attnfaith.attribution.method import ATTENTION
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, percent
from attnfaith.evaluation.results import Results
from attnfaith.evaluation.verdict_rule import FAITHFUL, FEW, UNFAITHFUL, judge, sizes_known
from attnfaith.plots.panels import place_of

_LOWEST = -1.0
_STEP = 0.1


@dataclass(frozen=True)
class LevelScale:
    """The scale of one level.

    Attributes:
        level: "attention" or "input".
        label: of attention at this level.
        skill: of attention; unknown where there is too little to judge.
        exact: whether the smallest sets are known exactly.
        others: the skill of each other ranking.
        judged: whether the verdict is about this level.
    """

    level: str
    label: str
    skill: SummaryValue
    exact: bool
    others: tuple[float, ...]
    judged: bool

    @property
    def place(self) -> str:
        """The level in words."""
        return f"at {place_of(self.level)}"

    @property
    def start(self) -> float:
        """The skill at the left end: 0 is a random order, less is worse than that."""
        lowest = self.skill.value if math.isnan(self.skill.low) else self.skill.low
        return max(_LOWEST, min(0.0, math.floor(lowest / _STEP) * _STEP))

    def at(self, skill: float) -> str:
        """The position of a skill, in per cent of the width.

        Example:
            >>> scale = LevelScale("input", "unfaithful", SummaryValue(0.2, -0.2, 0.4), True, (), True)
            >>> scale.at(-0.2), scale.at(0.4), scale.at(1.0), scale.at(-3)
            ('0.0%', '50.0%', '100.0%', '0.0%')
        """
        return f"{100 * min(1.0, max(0.0, (skill - self.start) / (1 - self.start))):.1f}%"

    def anchor(self, skill: float) -> str:
        """On which side of a position its text stands: near an end, towards the middle."""
        position = float(self.at(skill).removesuffix("%"))
        near = 12 if skill == 0 else 25  # the text on a random order is short
        return "start" if position < near else "end" if position > 75 else "middle"

    @property
    def limits(self) -> tuple[tuple[str, str, str, str], ...]:
        """The label, beginning, width and middle of each zone."""
        ends = (self.start, UNFAITHFUL, FAITHFUL, 1.0)
        names = ("unfaithful", "partly", "faithful")
        zones = []
        for name, (low, high) in zip(names, pairwise(ends), strict=True):
            width = f"{100 * (high - low) / (1 - self.start):.1f}%"
            zones.append((name, self.at(low), width, self.at((low + high) / 2)))
        return tuple(zones)

    @property
    def message(self) -> str:
        """The picture in words."""
        smallest = "the smallest sets" if self.exact else "the smallest sets found"
        return (
            f"Scale from a random order (0 %) to {smallest} (100 %), {self.place}: attention is at {self.skill}, "
            f"{self.label}. Less than {percent(UNFAITHFUL)} is unfaithful, {percent(FAITHFUL)} or more is faithful."
        )


def level_scales(results: Results) -> list[LevelScale]:
    """A scale for each level at which attention can be placed on one; that of the verdict comes first."""
    statistics: Mapping[str, Any] = results.manifest["statistics"]
    figures = SummaryLookup(results.summary(), confidence_level=statistics["confidence_level"])
    verdict_level, scales = results.verdict.level, []
    for level in sorted(figures.levels, key=lambda level: level != verdict_level):
        key = figures.key_of(level, ATTENTION)
        if key is None:
            continue
        skill = figures.get(level, "skill", key)
        if not skill.known or skill.texts < FEW:
            continue
        others = [figures.get(level, "skill", other).value for other in figures.rivals(level, key)]
        scales.append(
            LevelScale(
                level,
                str(judge(figures, level, key).label),
                skill,
                sizes_known(figures, level),
                tuple(value for value in others if not math.isnan(value)),
                level == verdict_level,
            )
        )
    return scales
