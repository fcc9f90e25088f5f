"""The settings of a run as rows of a table."""

from __future__ import annotations

from attnfaith.evaluation.results import Results
from attnfaith.evaluation.run_comparison import flat, setting_text


def settings_of(results: Results) -> list[tuple[str, str]]:
    """The settings of a run, each a name and a value."""
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
    return [(name, setting_text(value)) for name, value in flat(whole)]
