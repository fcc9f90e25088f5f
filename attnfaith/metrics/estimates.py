"""From numbers of each text to figures of all of them, as one flat dict; with intervals where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnfaith.estimates.summary_table import check
from attnfaith.functional.statistics import Estimate, Resamples, means_of
from attnfaith.metrics.inputs import Array
from attnfaith.validation import whole_number

Mask = NDArray[np.bool_]
Numbers = Mapping[str, Array]
STATISTICS: dict[str, Any] = {"n_resamples": None, "confidence_level": 0.95, "random_state": 0}
"""The settings of intervals, with their defaults."""


@dataclass(frozen=True)
class Quantities:
    """What was measured of ``n`` texts; every array is ``[n]``, NaN where a text has no such number.

    Attributes:
        means: figures that are means over texts.
        shares: that are shares of texts, of 0 and 1.
        medians: that are medians, of numbers that may be inf.
        of_means: that are functions of means: of arrays ``[..., 1]``, one for each of the columns.
        undefined: the texts that a figure is not defined for.
        aside: why texts are not judged at all, and which.
        each: the numbers of each text, by name, for those who ask for them.
        said: numbers of all texts together.
    """

    undefined: Mask
    means: Numbers = field(default_factory=dict)
    shares: Numbers = field(default_factory=dict)
    medians: Numbers = field(default_factory=dict)
    of_means: Mapping[str, tuple[Callable[..., Array], tuple[Array, ...]]] = field(default_factory=dict)
    aside: Mapping[str, Mask] = field(default_factory=dict)
    each: Numbers = field(default_factory=dict)
    said: Mapping[str, float | int] = field(default_factory=dict)


def figures_of(
    measured: Quantities,
    *,
    n_resamples: int | None = None,
    confidence_level: float = 0.95,
    random_state: int = 0,
    per_text: bool = False,
) -> dict[str, Any]:
    """All figures by name, after ``texts`` (how many there are), those set aside, and ``undefined``.

    NaN takes no part in a figure, and neither do texts that are set aside.

    Args:
        measured: of each text.
        n_resamples: resamples of the texts behind the intervals, which are named after the figure with ``_low`` and
            ``_high``; None for none.
        confidence_level: of the intervals.
        random_state: the seed of the resamples.
        per_text: add ``per_text``: a list with a number of each text, by name.

    Example:
        >>> scores = np.array([0.5, np.nan, 1.0])
        >>> figures_of(Quantities(np.isnan(scores), means={"score": scores}))
        {'texts': 3, 'undefined': 1, 'score': 0.75}
    """
    left = ~np.any([np.zeros_like(measured.undefined), *measured.aside.values()], axis=0)
    found: dict[str, Any] = {"texts": len(left)}
    found |= {name: int(mask.sum()) for name, mask in measured.aside.items()}
    found["undefined"] = int((measured.undefined & left).sum())
    resamples = Resamples(int(left.sum()), resamples=n_resamples or 0, confidence=confidence_level, seed=random_state)
    for name, estimate in _estimates(measured, left, resamples).items():
        value, low, high = (float(part[0]) for part in estimate[:3])
        found |= {name: value} if n_resamples is None else {name: value, f"{name}_low": low, f"{name}_high": high}
    found |= measured.said
    if per_text:
        found["per_text"] = {name: values.tolist() for name, values in measured.each.items()}
    return found


def _estimates(measured: Quantities, left: Mask, resamples: Resamples) -> dict[str, Estimate]:
    """Each figure by itself, from the same resamples of the texts that are left."""
    groups = (
        (measured.shares, resamples.share),
        (measured.medians, resamples.median),
        (measured.means, resamples.mean),
    )
    found = {name: estimate(values[left]) for group, estimate in groups for name, values in group.items()}
    for name, (function, columns) in measured.of_means.items():
        parts = [column[left, None] for column in columns]
        value, draws = function(*map(means_of, parts)), function(*map(resamples.draws, parts))
        found[name] = resamples.estimate(value, draws, (~np.isnan(parts[0])).sum(0))
    return found


def check_statistics(n_resamples: Any, confidence_level: Any, random_state: Any) -> None:
    """Refuse settings that no interval can be made with."""
    whole_number(random_state, "random_state", least=0)
    check(1 if n_resamples is None else n_resamples, confidence_level)
