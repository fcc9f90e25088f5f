"""The table of rankings that a verdict prints: best first, between the smallest flipping sets and the random order."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnfaith.attribution.method import methods
from attnfaith.escaping import visible
from attnfaith.estimates.lookup import SummaryLookup, SummaryValue, display_name, percent, unit_at
from attnfaith.estimates.pivot import Key
from attnfaith.evaluation.rankings import CONTROL, YOURS
from attnfaith.evaluation.verdict_rule import FEW, sizes_known

if TYPE_CHECKING:
    from rich.table import Table

_AGAINST = {"better": "better", "worse": "worse", "same": "unclear"}
_NO_BOUND = 10_000
"""So wide a console never wraps a line."""


@dataclass(frozen=True)
class RankingTable:
    """A table as it is printed.

    Attributes:
        columns: the heads.
        rows: a cell for each column, as text.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        """Aligned columns of plain text.

        Example:
            >>> print(RankingTable(("ranking", "removed"), (("LRP", "9.0 %"), ("attention", "41 %"))))
            ranking    removed
            LRP        9.0 %
            attention  41 %
        """
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=_NO_BOUND, color_system=None).print(self.drawn(lines=False))
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def drawn(self, *, lines: bool = True) -> Table:
        """The table for a rich console, with or without a line under its heads."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD if lines else None, padding=(0, 2, 0, 0), pad_edge=False)
        for column in self.columns:
            table.add_column(column, overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        return table


def ranking_table(figures: SummaryLookup, facts: Mapping[str, Any], level: str) -> RankingTable:
    """Every ranking of a level by the mean share that it removes, the least first.

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
    keys = [key for key in figures.keys(level) if not (exact and key == (level, "optimal"))]
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
        "random order" if control else display_name(key, []),
        key[0],
        _cell(removed),
        "" if few else "0 %" if control else _cell(skill),
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
