"""Turn values of each text into estimates over all texts, as one flat dict, with intervals on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnfaith.estimates.quantities import Number, Quantity, estimate_of, quantities_only, shared_means
from attnfaith.estimates.summary_table import check
from attnfaith.functional.statistics import Resamples
from attnfaith.metrics.inputs import Array
from attnfaith.validation import whole_number

Mask = NDArray[np.bool_]
STATISTICS: dict[str, Any] = {"n_resamples": None, "confidence_level": 0.95, "random_state": 0}
"""The settings of intervals, with their defaults."""


@dataclass(frozen=True, eq=False)
class TextQuantities:
    """Quantities of ``n`` texts.

    Attributes:
        undefined: ``[n]``, the texts that an estimate is not defined for.
        quantities: what estimates are made of, one column each, as the tests define them; and numbers of all texts.
        aside: why texts are not judged at all, and which: ``[n]`` each.
        each: the numbers of each text ``[n]``, by name, for those who ask for them.
    """

    undefined: Mask
    quantities: Sequence[Quantity | Number] = ()
    aside: Mapping[str, Mask] = field(default_factory=dict)
    each: Mapping[str, Array] = field(default_factory=dict)


def figures_of(
    measured: TextQuantities,
    *,
    n_resamples: int | None = None,
    confidence_level: float = 0.95,
    random_state: int = 0,
    per_text: bool = False,
) -> dict[str, Any]:
    """All estimates by name, after the counts ``texts``, those set aside, and ``undefined``.

    NaN takes no part in a figure, and neither do texts that are set aside.

    Args:
        measured: of each text.
        n_resamples: resamples of the texts behind the intervals, which are named after the figure with ``_low`` and
            ``_high``; None for none.
        confidence_level: of the intervals.
        random_state: the seed of the resamples.
        per_text: add ``per_text``: a list with a number of each text, by name.

    Example:
        >>> from attnfaith.estimates.quantities import Mean
        >>> scores = np.array([0.5, np.nan, 1.0])
        >>> figures_of(TextQuantities(np.isnan(scores), [Mean("score", scores)]))
        {'texts': 3, 'undefined': 1, 'score': 0.75}
    """
    left = ~np.any([np.zeros_like(measured.undefined), *measured.aside.values()], axis=0)
    found: dict[str, Any] = {"texts": len(left)}
    found |= {name: int(mask.sum()) for name, mask in measured.aside.items()}
    found["undefined"] = int((measured.undefined & left).sum())
    resamples = Resamples(int(left.sum()), resamples=n_resamples or 0, confidence=confidence_level, seed=random_state)
    quantities = [one.take(left) for one in quantities_only(measured.quantities)]
    means = shared_means(quantities, resamples)
    for quantity in quantities:
        name, estimate = quantity.name, estimate_of(quantity, means)
        value, low, high = (float(part[0]) for part in estimate[:3])
        found |= {name: value} if n_resamples is None else {name: value, f"{name}_low": low, f"{name}_high": high}
    found |= {one.name: one.value for one in measured.quantities if isinstance(one, Number)}
    if per_text:
        found["per_text"] = {name: values.tolist() for name, values in measured.each.items()}
    return found


def check_statistics(n_resamples: Any, confidence_level: Any, random_state: Any) -> None:
    """Refuse settings with which no interval can be computed."""
    whole_number(random_state, "random_state", least=0)
    check(1 if n_resamples is None else n_resamples, confidence_level)
