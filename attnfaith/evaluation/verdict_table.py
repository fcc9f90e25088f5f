"""The table of rankings in a verdict: best first, between the smallest flipping sets and the random control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.method import CONTROL, YOURS, methods
from attnfaith.attribution.optimal import OPTIMAL
from attnfaith.escaping import visible
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, percent, unit_at
from attnfaith.estimates.pivot import Key
from attnfaith.evaluation.verdict_rule import FEW, sizes_known
from attnfaith.notebook import safe, table

_AGAINST = {"better": "better", "worse": "worse", "same": "unclear"}


@dataclass(frozen=True)
class RankingTable:
    """A table of strings.

    Attributes:
        columns: the heads.
        rows: a cell for each column, as text.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        """Aligned columns of plain text, without a limit on the width.

        Example:
            >>> print(RankingTable(("ranking", "removed"), (("LRP", "9.0 %"), ("attention", "41 %"))))
            ranking    removed
            LRP        9.0 %
            attention  41 %
        """
        head, rows = self._lines(len(self.columns), wrap=False, gap=2)
        return "\n".join((*head, *rows))

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        return table([safe(name) for name in self.columns], [[safe(cell) for cell in row] for row in self.rows])

    def fitted(self, width: int) -> tuple[list[str], list[str]]:
        """The lines of the table in a given width; if it is too wide, the last column is dropped first.

        Example:
            >>> head, rows = RankingTable(("ranking", "tokens removed", "cost"), (("LRP", "9.0 %", "1"),)).fitted(16)
            >>> head, rows
            (['         tokens', 'ranking  removed'], ['LRP      9.0 %'])
        """
        count = len(self.columns)
        forms = [(count, False, 2), (count, True, 2), (count, True, 1), (count - 1, True, 2), (count - 1, True, 1)]
        for columns, wrap, gap in forms:
            head, rows = self._lines(columns, wrap=wrap, gap=gap)
            if max(map(len, (*head, *rows))) <= width:
                break
        return head, rows

    def _lines(self, count: int, *, wrap: bool, gap: int) -> tuple[list[str], list[str]]:
        """Some of the columns, aligned; heads of several words can take several lines."""
        words = [name.split() if wrap else [name] for name in self.columns[:count]]
        height = max(map(len, words))
        heads = list(zip(*([""] * (height - len(name)) + name for name in words), strict=True))
        rows = [tuple(visible(cell) for cell in row[:count]) for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*heads, *rows, strict=True)]
        lines = [
            (" " * gap).join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in (*heads, *rows)
        ]
        return lines[:height], lines[height:]


def ranking_table(figures: SummaryLookup, facts: Mapping[str, Any], level: str) -> RankingTable:
    """The table of all rankings of a level, sorted by the mean share that they remove.

    The smallest flipping sets and the random order stand among them for reference: their skill is 100 % and 0 % by
    definition. With fewer than `FEW` texts there are no intervals and no skill.

    Args:
        figures: of the erasure test.
        facts: as `attnfaith.evaluation.verdict.verdict` takes them.
        level: which.
    """
    exact = sizes_known(figures, level)
    smallest = figures.get(level, "minimum_fraction_mean" if exact else "minimum_fraction_mean_high")
    flips = figures.get(level, "flippable")
    columns = (
        "ranking",
        "level",
        f"{unit_at(facts['unit'], level)} removed",
        "skill",
        "never flips",
        "vs. random",
        "cost",
    )
    # the optimum is a ranking, too: it would repeat the first row
    keys = [key for key in figures.keys(level) if not (exact and key == OPTIMAL)]
    removed = {key: figures.get(level, "mean_fraction", key) for key in keys}
    first = (
        "smallest sets" if exact else "smallest sets found",
        "",
        _cell(smallest),
        "100 %" if smallest.texts >= FEW else "",
        _share(1 - flips.value),
        "",
        "",
    )
    rows = [_row(figures, level, key) for key in sorted(keys, key=lambda key: removed[key].value)]
    return RankingTable(columns, (*([first] if smallest.known else []), *rows))


def _row(figures: SummaryLookup, level: str, key: Key) -> tuple[str, ...]:
    removed, skill = (figures.get(level, figure, key) for figure in ("mean_fraction", "skill"))
    control, few = key[1] == CONTROL, removed.texts < FEW
    known = methods.get((key[0], key[1]))
    return (
        display_name(key),
        key[0],
        _cell(removed),
        "" if few or (skill.texts < FEW and not control) else "0 %" if control else _cell(skill),
        _share(figures.get(level, "never_flipped", key).value),
        "" if few or control or figures.control(level) is None else _AGAINST[figures.against_control(level, key)],
        "" if known is None or key[0] == YOURS else known.cost,
    )


def _cell(estimate: SummaryValue) -> str:
    if not estimate.known:
        return ""
    return percent(estimate.value) if estimate.texts < FEW else str(estimate)


def _share(value: float) -> str:
    return "" if value != value else percent(value)
