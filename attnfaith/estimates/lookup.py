"""Look up estimates in a summary table, and format them for sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from attnfaith.attribution.display_names import display_name, role_of
from attnfaith.attribution.method import ATTENTION, CONTROL, YOURS
from attnfaith.estimates.pivot import Key, levels_of
from attnfaith.estimates.summary_table import written

OF_EACH = "never_flipped"  # the figure that every ranking of the erasure test has


Unit = str | Mapping[str, str]
"""The plural noun for items, or such a noun by level."""


@dataclass(frozen=True)
class SummaryValue:
    """One estimate of a summary, with its interval, the number of texts behind it, and its note.

    A missing estimate has NaN, 0 and "".
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    texts: int = 0
    note: str = ""

    @property
    def known(self) -> bool:
        """Whether the value is defined."""
        return not math.isnan(self.value)

    def __neg__(self) -> SummaryValue:
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    def clear_of(self, other: SummaryValue) -> bool:
        """Whether the two intervals do not overlap."""
        return self.low > other.high or self.high < other.low

    def __str__(self) -> str:
        return percent(self.value, self.low, self.high)


class SummaryLookup:
    """The estimates of one test in a summary, over all texts.

    Attributes:
        levels: the levels at which something was erased, the attention's first.
        alpha: the significance level.
    """

    def __init__(self, summary: pd.DataFrame, test: str = "erasure", *, confidence_level: float = 0.95) -> None:
        self.alpha = 1 - confidence_level + 1e-9
        table = summary[(summary["test"] == test) & (summary["slice"] == "all")]
        table = table.assign(note=table.get("note", ""))
        columns = ["erase_level", "ranking_level", "ranking", "other", "figure"]
        identifiers = table[columns].itertuples(index=False, name=None)
        estimates = zip(*(table[name].tolist() for name in ("value", "low", "high", "texts", "note")), strict=True)
        self._values = dict(zip(identifiers, (SummaryValue(*numbers) for numbers in estimates), strict=True))
        self.levels = levels_of(table[table["figure"] == OF_EACH])

    def get(self, level: str, figure: str, key: Key = ("", ""), other: Key | None = None) -> SummaryValue:
        """The estimate of a ranking, of a pair of rankings, or, without a ranking, of the level."""
        return self._values.get((level, *key, "" if other is None else written(other), figure), SummaryValue())

    def keys(self, level: str, figure: str = OF_EACH) -> list[Key]:
        """The rankings with an estimate at a level, as (ranking_level, ranking)."""
        return [
            (ranking_level, ranking)
            for erase_level, ranking_level, ranking, other, name in self._values
            if (erase_level, other, name) == (level, "", figure)
        ]

    def key_of(self, level: str, name: str, *, preferred: str = "attention") -> Key | None:
        """The key of a ranking by its name: at this level if there is one, else at another level."""
        keys = sorted((key for key in self.keys(level) if key[1] == name), key=lambda key: key[0] != preferred)
        return keys[0] if keys else None

    def control(self, level: str) -> Key | None:
        """The key of the random control at a level."""
        return self.key_of(level, CONTROL, preferred=level)

    def rivals(self, level: str, key: Key) -> list[Key]:
        """The alternatives to a ranking, sorted by the mean share that they remove."""
        keys = [item for item in self.keys(level) if item != key and role_of(item) == "ordinary"]
        return sorted(keys, key=lambda item: self.get(level, "mean_fraction", item).value)

    def against_control(self, level: str, key: Key) -> str:
        """Compare a ranking with a random order: it removes significantly less ("better"), more ("worse"), or neither.

        Attention and a ranking of the user are compared by the paired interval of the mean difference in the
        share removed. It is the one test that was planned for them. Other rankings are exploratory: they also need a
        sign test, corrected for the number of pairs, at the level of the interval.
        """
        control = self.control(level)
        gap = self.get(level, "mean_difference", key, control)
        planned = key == self.key_of(level, ATTENTION) or key[0] == YOURS
        if planned or self._apart(level, key, control):
            if gap.high < 0:
                return "better"
            if gap.low > 0:
                return "worse"
        return "same"

    def _apart(self, level: str, key: Key, control: Key | None) -> bool:
        """Whether the corrected sign test is significant, in the direction of the difference of the means."""
        wins, losses, p, gap = (
            self.get(level, figure, key, control).value for figure in ("wins", "losses", "p_holm", "mean_difference")
        )
        return p <= self.alpha and (wins > losses) == (gap < 0)

    def name_of(self, level: str, key: Key) -> str:
        """The display name of a ranking, with its level if rankings of several levels share the name."""
        return display_name(key, self.keys(level))


def unit_at(unit: Unit, erase_level: str) -> str:
    """The plural noun for the items of a level, such as "tokens"; "items" if it is unknown.

    Example:
        >>> unit_at({"attention": "sentences", "input": "tokens"}, "attention"), unit_at("words", "input")
        ('sentences', 'words')
    """
    name = unit if isinstance(unit, str) else unit.get(erase_level, "items")
    return "pooled items" if name == "pooled" else name


def percent(value: float, low: float = math.nan, high: float = math.nan) -> str:
    """Format a share in per cent with its interval; only 0 is printed as 0 %, and only 1 as 100 %.

    Example:
        >>> percent(0.412, 0.38, 0.441), percent(0.0631), percent(0.97, 0.91, math.inf), percent(0.9996)
        ('41 % [38, 44]', '6.3 %', '97 % [91, not reached]', 'over 99.9 %')
    """
    if math.isnan(value):
        return "an unknown share"
    if math.isinf(value):
        return "not reached"
    digits = 0 if 0.0995 <= abs(value) < 0.995 or value in (0, 1) else 1
    number = f"{round(100 * value, digits) + 0.0:.{digits}f}"  # never -0
    if value > 0 and float(number) == 0:
        number = "under 0.1"
    elif value < 1 and float(number) == 100:
        number = "over 99.9"
    if math.isnan(low):
        return f"{number} %"
    ends = ("not reached" if math.isinf(end) else f"{round(100 * end, digits) + 0.0:.{digits}f}" for end in (low, high))
    return f"{number} % [{', '.join(ends)}]"


def decimals(figure: SummaryValue) -> str:
    """Format a number that is no share, such as a correlation, with its interval; a third digit where it is small.

    Example:
        >>> decimals(SummaryValue(0.619, 0.58, 0.66)), decimals(SummaryValue(-0.001)), decimals(SummaryValue())
        ('0.62 [0.58, 0.66]', '-0.001', 'undefined')
        >>> decimals(SummaryValue(0.0031, 0.0018, 0.0052)), decimals(SummaryValue(2e-6)), decimals(SummaryValue(0.0))
        ('0.003 [0.002, 0.005]', 'under 0.001', '0.00')
    """
    if not figure.known:
        return "undefined"
    digits = 3 if 0 < abs(figure.value) < 0.0095 else 2
    value, low, high = (
        f"{round(number, digits) + 0.0:.{digits}f}" for number in (figure.value, figure.low, figure.high)
    )
    if 0 < figure.value < 0.0005 and not figure.low < 0:
        value = "under 0.001"
    return value if math.isnan(figure.low) else f"{value} [{low}, {high}]"


def points(figure: SummaryValue) -> str:
    """Format the absolute difference of two shares in percentage points.

    Example:
        >>> points(SummaryValue(-0.172, -0.2, -0.14)), points(SummaryValue(0.012, -0.02, 0.04))
        ('17 points [14, 20]', '1.2 points [-2.0, 4.0]')
    """
    size = -figure if figure.value < 0 else figure
    digits = 0 if size.value >= 0.0995 else 1
    value, low, high = (f"{100 * number + 0.0:.{digits}f}" for number in (size.value, size.low, size.high))
    return f"{value} points" if math.isnan(size.low) else f"{value} points [{low}, {high}]"


def signed_points(figure: SummaryValue) -> str:
    """Format a difference of two shares in percentage points, with its sign.

    Example:
        >>> signed_points(SummaryValue(-0.028, -0.061, 0.006))
        '-2.8 points [-6.1, +0.6]'
    """
    value, low, high = (f"{100 * number:+.1f}" for number in (figure.value, figure.low, figure.high))
    return f"{value} points" if math.isnan(figure.low) else f"{value} points [{low}, {high}]"


def listed(words: Iterable[str]) -> str:
    """Join words with commas and "and".

    Example:
        >>> listed(["a", "b", "c"]), listed(["a"])
        ('a, b and c', 'a')
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
