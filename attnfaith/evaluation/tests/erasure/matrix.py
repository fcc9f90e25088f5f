"""Pivot the table of the erasure test into matrices with a row for each text and a column for each ranking."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.estimates.pivot import Array, Key, Pivot, levels_of

FLAGS = {"marginal": "marginal", "tied_scores": "ties", "undefined_scores": "undefined"}
"""Figures that are shares of texts, and the column that is above 0 for each."""


@dataclass(frozen=True)
class ErasureMatrix:
    """The results of the erasure test at one level.

    Attributes:
        level: where was erased.
        keys: ``F`` rankings, as (ranking_level, ranking).
        text_ids: ``[n]``.
        items: ``[n]``, how many could be erased.
        present: ``[n, F]``, where the ranking was run.
        removed: ``[n, F]``, at the first flip; inf where the decision never flips, NaN where the ranking was not run.
        mass: ``[n, F]``, the weight removed; NaN where the decision never flips.
        flags: "marginal", "tied_scores" and "undefined_scores", each ``[n, F]``.
        unflippable: ``[n]``, where it is known that no set flips the decision.
        fewest: ``[n]``, the smallest flipping set has at least so many items.
        known: ``[n]``, and at most so many: the exact size, or that of the smallest set that the search found; inf
            where it found none. It does not depend on which rankings were run, and a ranking can do better where it is
            not exact. The two are equal where the size is known.
    """

    level: str
    keys: tuple[Key, ...]
    text_ids: NDArray[np.int64]
    items: Array
    present: NDArray[np.bool_]
    removed: Array
    mass: Array
    flags: dict[str, NDArray[np.bool_]]
    unflippable: NDArray[np.bool_]
    fewest: Array
    known: Array

    @property
    def fraction(self) -> Array:
        """The share of the items removed, ``[n, F]``; inf if the decision never flips."""
        return self.removed / self.items[:, None]

    @property
    def exact(self) -> bool:
        """Whether the smallest flipping set of every text is known exactly."""
        return bool(self.settled.all())

    @property
    def settled(self) -> NDArray[np.bool_]:
        """``[n]``, True for texts whose smallest flipping set is known exactly."""
        return (np.isfinite(self.known) & (self.fewest == self.known)) | self.unflippable

    def take(self, rows: NDArray[Any]) -> ErasureMatrix:
        """Select some of the texts."""
        per_text = {
            name: getattr(self, name)[rows]
            for name in "text_ids items present removed mass unflippable fewest known".split()
        }
        return replace(self, flags={name: values[rows] for name, values in self.flags.items()}, **per_text)

    def without_never(self) -> ErasureMatrix:
        """Drop the texts that each ranking never flips."""
        flips = np.isfinite(self.removed)
        return replace(self, present=flips, removed=np.where(flips, self.removed, np.nan))

    def index_of(self, name: str, level: str | None = None) -> int | None:
        """The column of a ranking; without a level, that of the erase level comes first."""
        result = [key for key in self.keys if key[1] == name]
        result.sort(key=lambda key: (key[0] != level, key[0] != self.level))
        return self.keys.index(result[0]) if result else None


def grids(erasure: pd.DataFrame) -> list[ErasureMatrix]:
    """One `ErasureMatrix` for each erase level."""
    return [_grid(erasure[erasure["erase_level"] == level], level) for level in levels_of(erasure)]


def _grid(table: pd.DataFrame, level: str) -> ErasureMatrix:
    pivot = Pivot(table, ("ranking_level", "ranking"))
    removed = pivot.matrix("removed")
    removed[pivot.flags("censored")] = np.inf
    high, low = pivot.vector("minimum_high"), pivot.vector("minimum_low")
    known = np.where(np.isnan(high), np.inf, high)
    fewest = np.minimum(np.where(np.isnan(low), 1.0, low), known)
    return ErasureMatrix(
        level=level,
        keys=pivot.keys,
        text_ids=pivot.text_ids,
        items=pivot.vector("items"),
        present=pivot.present,
        removed=removed,
        mass=pivot.matrix("mass"),
        flags={figure: pivot.flags(name) for figure, name in FLAGS.items()},
        unflippable=(pivot.vector("flippable") == 0) & np.isinf(known),
        fewest=fewest,
        known=known,
    )
