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
        aside: by reason, the texts that are set aside: a mask ``[n]`` each.
        each: the numbers of each text ``[n]``, by name; returned if ``per_text`` is set.
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
        measured: the quantities of each text.
        n_resamples: resamples of the texts behind the intervals, which are named after the figure with ``_low`` and
            ``_high``; None for none.
        confidence_level: the confidence level of the intervals.
        random_state: the seed of the resamples.
        per_text: add ``per_text``: a list with a number of each text, by name.

    Example:
        >>> from attnfaith.estimates.quantities import Mean
        >>> scores = np.array([0.5, np.nan, 1.0])
        >>> figures_of(TextQuantities(np.isnan(scores), [Mean("score", scores)]))
        {'texts': 3, 'undefined': 1, 'score': 0.75}
    """
    included = ~np.any([np.zeros_like(measured.undefined), *measured.aside.values()], axis=0)
    result: dict[str, Any] = {"texts": len(included)}
    result |= {name: int(mask.sum()) for name, mask in measured.aside.items()}
    result["undefined"] = int((measured.undefined & included).sum())
    count = int(included.sum())
    resamples = Resamples(count, resamples=n_resamples or 0, confidence=confidence_level, seed=random_state)
    quantities = [quantity.take(included) for quantity in quantities_only(measured.quantities)]
    means = shared_means(quantities, resamples)
    for quantity in quantities:
        name, estimate = quantity.name, estimate_of(quantity, means)
        value, low, high = (float(part[0]) for part in estimate[:3])
        result |= {name: value} if n_resamples is None else {name: value, f"{name}_low": low, f"{name}_high": high}
    result |= {quantity.name: quantity.value for quantity in measured.quantities if isinstance(quantity, Number)}
    if per_text:
        result["per_text"] = {name: values.tolist() for name, values in measured.each.items()}
    return result


def check_statistics(n_resamples: Any, confidence_level: Any, random_state: Any) -> None:
    """Refuse settings with which no interval can be computed."""
    whole_number(random_state, "random_state", least=0)
    check(1 if n_resamples is None else n_resamples, confidence_level)
