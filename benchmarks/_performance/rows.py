"""Measured figures as rows of a table, and the file that stores them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

STORE = Path(__file__).parent / "figures.json"
"""The figures of the page of the documentation."""
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        work: what was done.
        value: the figure; None where it could not be measured, for the reason in ``note``.
        unit: the unit of the figure.
        limit: what is claimed; None for a figure without a claim.
        least: whether the limit is the least, not the most.
        note: what a reader should know.
    """

    work: str
    value: float | None
    unit: str = ""
    limit: float | None = None
    least: bool = False
    note: str = ""

    @property
    def claim(self) -> str:
        """The limit in words."""
        return "" if self.limit is None else f"{'at least' if self.least else 'at most'} {self.limit:g}"

    @property
    def holds(self) -> str:
        """Whether the figure keeps the limit; empty where there is nothing to say.

        Example:
            >>> (
            ...     Row("a", 2.0, limit=1.5).holds,
            ...     Row("a", 2.0, limit=1.5, least=True).holds,
            ...     Row("a", None, limit=1).holds,
            ... )
            ('no', 'yes', '')
        """
        if self.limit is None or self.value is None:
            return ""
        return "yes" if (self.value >= self.limit if self.least else self.value <= self.limit) else "no"

    def __str__(self) -> str:
        """One line of a terminal."""
        value = NOT_MEASURED if self.value is None else f"{self.value:.3g} {self.unit}".strip()
        tail = {"yes": "ok", "no": "MISSED", "": ""}[self.holds]
        line = f"  {self.work:<66} {value:>22}  {self.claim:<14}{tail}".rstrip()
        return f"{line}\n      {self.note}" if self.note else line


def keep(rows_by_part: Mapping[str, Sequence[Row]], size: str, store: Path = STORE) -> None:
    """Store the rows of some parts; those of other parts stay."""
    stored = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    stored |= {name: {"size": size, "rows": [asdict(row) for row in rows]} for name, rows in rows_by_part.items()}
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def kept(store: Path = STORE) -> Iterator[tuple[str, str, list[Row]]]:
    """The name, the size and the rows of each part that is stored."""
    if not store.exists():
        return
    for name, part in json.loads(store.read_text(encoding="utf-8")).items():
        yield name, part["size"], [Row(**row) for row in part["rows"]]
