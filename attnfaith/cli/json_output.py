"""JSON output for other programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from attnfaith.escaping import visible_json

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]


def write(content: Mapping[str, Any]) -> None:
    """Write one JSON object to standard output."""
    typer.echo(visible_json(content))


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table, with null for undefined values and "inf" for a median that is not reached.

    Example:
        >>> import pandas as pd
        >>> rows_of(pd.DataFrame({"figure": ["a", "b"], "value": [float("nan"), float("inf")]}))
        [{'figure': 'a', 'value': None}, {'figure': 'b', 'value': 'inf'}]
    """
    return [{str(name): _plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)
