"""One run of the library, row by row against what the independent versions say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import attnfaith as af
from tests.independent.decisions import same

RANKINGS = ("attention", "attention/gradient", "attention/gradient_x_attention")

Expected = Callable[[dict[str, Any]], dict[str, Any]]
"""From a row of the library's table to what should stand there."""


@dataclass
class Seen:
    """Counts over the rows that were compared."""

    rows: int = 0
    flips: int = 0
    early: int = 0
    marginal: int = 0
    wrong: list[str] = field(default_factory=list)
    columns: Counter[str] = field(default_factory=Counter)

    def check(self, *, least: float = 0.1) -> None:
        """No row is wrong, and the decisions really flip, also before the last item is gone."""
        report = f"{len(self.wrong)} of {self.rows} rows differ ({dict(self.columns)}), such as:\n"
        assert not self.wrong, report + "\n".join(self.wrong[:5])
        assert self.marginal <= 0.05 * self.rows, f"{self.marginal} of {self.rows} rows are marginal"
        assert self.flips >= least * self.rows, f"{self.flips} of {self.rows} rows flip: this proves nothing"
        assert self.early, f"none of {self.rows} rows flips before the last two items"


def compare(results: af.Results, expected: Expected, *, tolerance: float, rows: int, seen: Seen | None = None) -> Seen:
    """Compare every row of the erasure table but those of the library's own random order, which nobody else can draw.

    Args:
        results: of the library.
        expected: see `Expected`.
        tolerance: of floats, absolute and relative.
        rows: how many there should be.
        seen: counts to add to.
    """
    seen = Seen() if seen is None else seen
    table = [row for row in results.table("erasure").to_dict("records") if row["ranking"] != "random"]
    assert len(table) == rows
    assert len({(row["text_id"], row["ranking_level"], row["ranking"], row["erase_level"]) for row in table}) == rows
    for row in table:
        result = expected(row)
        seen.rows += 1
        seen.flips += not result["censored"]
        seen.early += not result["censored"] and result["removed"] < result["items"] - 1
        if row["marginal"]:
            seen.marginal += 1
            continue
        wrong = [name for name, value in result.items() if not same(row[name], value, tolerance)]
        seen.columns.update(wrong)
        if wrong:
            where = f"text {row['text_id']}, {row['ranking']} at the level {row['erase_level']}"
            seen.wrong.append(f"{where}: " + ", ".join(f"{name} {row[name]} not {result[name]}" for name in wrong))
    return seen


def compute(evaluator: af.Evaluator, data: Sequence[dict[str, Any]], **options: Any) -> af.Results:
    """Run the erasure test alone."""
    return evaluator.compute(list(data), tests=["erasure"], quiet=True, **{"rankings": "all", **options})
