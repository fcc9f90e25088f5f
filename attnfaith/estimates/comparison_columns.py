"""What two runs are compared by: columns over texts, and the difference of their means and medians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.attribution.method import CONTROL
from attnfaith.estimates.pivot import Array, ErasureMatrix, Key, Pivot, grids, numbers
from attnfaith.evaluation.tests.erasure.summary import efficiencies, restricted
from attnfaith.evaluation.tests.single_weight.summary import LEVEL, quantities
from attnfaith.functional.statistics import Resamples, means_of, medians_of

OF_TEXTS = {"accuracy": "correct", "confidence": "confidence", "special_weight": "special_weight"}
NONE: Key = ("", "")
Name = tuple[str, Key]  # (figure, (ranking_level, ranking))
Place = tuple[str, str]  # (test, erase_level)


@dataclass(frozen=True)
class ComparisonColumns:
    """What there is of one run, for one test and level.

    Attributes:
        text_ids: ``[n]``, ascending.
        means: figures that are means over texts, ``[n]`` each.
        medians: figures that are medians.
    """

    text_ids: NDArray[np.int64]
    means: Mapping[Name, Array] = field(default_factory=dict)
    medians: Mapping[Name, Array] = field(default_factory=dict)

    def only(self, text_ids: NDArray[np.int64]) -> ComparisonColumns:
        """The same of some of the texts."""
        places = np.searchsorted(self.text_ids, text_ids)
        cut = ({name: values[places] for name, values in part.items()} for part in (self.means, self.medians))
        return ComparisonColumns(text_ids, *cut)


class ResampledValue(NamedTuple):
    """A figure of one run, the same in each resample ``[resamples]``, and the texts behind it."""

    value: float
    draws: Array
    texts: int


def side_of_texts(texts: pd.DataFrame) -> ComparisonColumns:
    """What the table of texts says of the model."""
    here = texts[texts["aside"].isna()].sort_values("text_id")
    own = {(figure, NONE): numbers(here[name]) for figure, name in OF_TEXTS.items() if name in here}
    return ComparisonColumns(here["text_id"].to_numpy(dtype=np.int64), own)


def sides_of_erasure(erasure: pd.DataFrame) -> dict[str, ComparisonColumns]:
    """What the erasure test says, by level."""
    return {grid.level: _erasure(grid) for grid in grids(erasure)}


def sides_of_single_weight(single_weight: pd.DataFrame) -> dict[str, ComparisonColumns]:
    """What the single-weight test says, of its one level."""
    pivot = Pivot(single_weight, ("ranking",))
    shares, means = quantities(pivot)
    return {LEVEL: ComparisonColumns(pivot.text_ids, columns(shares | means, [(LEVEL, *key) for key in pivot.keys]))}


def drawn_of(sides: Sequence[ComparisonColumns], sample: Resamples) -> list[dict[Name, ResampledValue]]:
    """Every figure of some runs on the same texts, with the resamples that they share."""
    found: list[dict[Name, ResampledValue]] = [{} for _ in sides]
    for parts, value_of, draws_of in (
        ([side.means for side in sides], means_of, sample.draws),
        ([side.medians for side in sides], medians_of, sample.median_draws),
    ):
        about = [(place, name) for place, part in enumerate(parts) for name in part]
        if about:
            columns = np.column_stack([values for part in parts for values in part.values()])
            texts = (~np.isnan(columns)).sum(0)
            for (place, name), *figure in zip(about, value_of(columns), draws_of(columns).T, texts, strict=True):
                found[place][name] = ResampledValue(*figure)
    return [one | _skills(one) for one in found]


def _skills(found: Mapping[Name, ResampledValue]) -> dict[Name, ResampledValue]:
    """Efficiency on a scale from a random order's (0) to 1."""
    worth = {key: drawn for (figure, key), drawn in found.items() if figure == "efficiency_high"}
    control = next((drawn for key, drawn in worth.items() if key[1] == CONTROL), None)
    skills = {}
    with np.errstate(invalid="ignore", divide="ignore"):
        for key, own in worth.items():
            if control is not None and key[1] != CONTROL:
                value, draws = (
                    np.divide(np.subtract(mine, chance), np.subtract(1, chance))
                    for mine, chance in ((own.value, control.value), (own.draws, control.draws))
                )
                skills["skill", key] = ResampledValue(float(value), draws, own.texts)
    return skills


def columns(quantities: Mapping[str, Array], keys: Sequence[Key]) -> dict[Name, Array]:
    """Matrices ``[n, F]`` as columns with a name each."""
    return {(figure, key): values[:, place] for figure, values in quantities.items() for place, key in enumerate(keys)}


def _erasure(grid: ErasureMatrix) -> ComparisonColumns:
    low, high = efficiencies(grid)
    run = np.where(grid.present, 1.0, np.nan)
    quantities = {
        "never_flipped": np.isinf(grid.removed) * run,
        "flipped_at_all": (grid.removed == grid.items[:, None]) * run,
        "mean_fraction": restricted(grid),
        "mean_mass": grid.mass,
        "efficiency_low": low,
        "efficiency_high": high,
    }
    if grid.exact:
        quantities["efficiency"] = high
    means = columns(quantities, grid.keys)
    means["flippable", NONE] = np.isfinite(grid.known) * 1.0
    for end, size in {"low": np.where(grid.unflippable, np.inf, grid.fewest), "high": grid.known}.items():
        means[f"minimum_fraction_mean_{end}", NONE] = np.minimum(size / grid.items, 1.0)
    return ComparisonColumns(grid.text_ids, means, columns({"median_fraction": grid.fraction}, grid.keys))
