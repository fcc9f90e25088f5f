"""The settings of a run as rows of a table."""

from __future__ import annotations

from typing import Any

from attnfaith.evaluation.results import Results
from attnfaith.evaluation.run_comparison import flat


def settings_of(results: Results) -> list[tuple[str, str]]:
    """The settings of a run: a name and a value each."""
    manifest = results.manifest
    whole = {
        "attnfaith": manifest["attnfaith"],
        "model name": manifest["facts"]["model"],
        **manifest["run"],
        **manifest["statistics"],
        "rows of the data": manifest["rows"],
        "shard size": manifest["shard_size"],
        "digest of the run": manifest.get("digest"),
    }
    return [(name, _text(value)) for name, value in flat(whole)]


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "none" if value is None else str(value)
