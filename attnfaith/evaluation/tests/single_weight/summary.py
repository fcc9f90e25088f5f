"""Quantities of the single-weight test: does the top item matter more than another item?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from attnfaith.estimates.pivot import Array, Key, Pivot
from attnfaith.estimates.quantities import NONE, Mean, Quantities, Quantity, Share

CELLS = ("both", "only_top", "only_drawn", "neither")
LEVEL = "attention"  # whose weights they are
COLUMNS = (
    "delta_js",
    "delta_attention",
    "top_flips",
    "drawn_flips",
    "expected_delta_js",
    "expected_drawn_flips",
    "marginal",
)
"""Of the table, those that are read."""


def cells(top: Array, drawn: Array) -> dict[str, Array]:
    """The four cells of a text, from whether (or with what probability) each of two erasures flips the decision.

    Example:
        >>> {name: float(value[0]) for name, value in cells(np.array([1.0]), np.array([0.25])).items()}
        {'both': 0.25, 'only_top': 0.75, 'only_drawn': 0.0, 'neither': 0.0}
    """
    parts = (top * drawn, top * (1 - drawn), (1 - top) * drawn, (1 - top) * (1 - drawn))
    return dict(zip(CELLS, parts, strict=True))


def differences(
    delta: Array, top: Array, drawn: Array, *, keys: Sequence[Key] = (NONE,), expected: bool = False
) -> tuple[list[Quantity], list[Quantity]]:
    """The quantities of one comparison, ``[n, F]`` or ``[n]`` each: shares of texts, and means.

    Args:
        delta: by how much more the output changes without the top item than without the other one.
        top: whether the decision flips without the top item.
        drawn: whether it does without the other one; or with what probability.
        keys: the rankings.
        expected: whether ``drawn`` may be a probability; the cells are then means.
    """
    negative = np.where(np.isnan(delta), np.nan, delta < 0)
    four = [(Mean if expected else Share)(name, values, keys=keys) for name, values in cells(top, drawn).items()]
    shares: list[Quantity] = [Share("delta_js_negative", negative, keys=keys), *([] if expected else four)]
    return shares, [*(four if expected else []), Mean("delta_js", delta, keys=keys)]


def quantities(single_weight: pd.DataFrame) -> Quantities:
    """The quantities of the single-weight test, for each ranking.

    - ``delta_js``: the mean of JS without the top item - JS without the drawn one, in nats; ``delta_js_negative``: the
      share of texts where it is below 0; ``delta_attention``: the mean difference of their weights
    - ``both``, ``only_top``, ``only_drawn``, ``neither``: the shares of texts whose decision flips without the one, the
      other, either, or neither; they add up to 1
    - ``expected_delta_js``, ``expected_both`` ...: the same in expectation over all items that could have been drawn
    - ``marginal``: the share of texts with a decision within the tolerance of a tie

    Args:
        single_weight: one row for each text and ranking.

    Example:
        >>> same = {"ranking": "attention", "delta_js": 0.1, "delta_attention": 0.3, "marginal": False}
        >>> same |= {"top_flips": True, "drawn_flips": 0, "expected_delta_js": 0.1, "expected_drawn_flips": 0.25}
        >>> found = quantities(pd.DataFrame({"text_id": [0, 1]}).assign(**same)).quantities_for(np.arange(2))
        >>> next(one for one in found if one.name == "expected_only_top").values.tolist()
        [[0.75], [0.75]]
    """
    pivot = Pivot(single_weight, ("ranking",))
    keys = [(LEVEL, *key) for key in pivot.keys]
    columns = {name: pivot.matrix(name) for name in COLUMNS}
    top = columns["top_flips"]
    shares, means = differences(columns["delta_js"], top, columns["drawn_flips"], keys=keys)
    means += [Mean(name, columns[name], keys=keys) for name in ("delta_attention", "expected_delta_js")]
    for name, values in cells(top, columns["expected_drawn_flips"]).items():
        means.append(Mean(f"expected_{name}", values, keys=keys))
    every = [*shares, Share("marginal", columns["marginal"], keys=keys), *means]
    return Quantities(pivot.text_ids, lambda indices: [item.take(indices) for item in every], LEVEL)
