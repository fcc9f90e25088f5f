"""What the tables of docs/reproductions.md are made with: stored results, and cells."""

from __future__ import annotations

import json
import math
from pathlib import Path

STORED = Path(__file__).parents[2] / "docs" / "reproductions"


def stored(name):
    """The results of this name, or None."""
    path = STORED / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def missing(columns, paper, data):
    """A row that says what to run."""
    return f"| `{data}` | *not run yet:* `python -m examples.papers.{paper} --data {data}` |" + " |" * (columns - 2)


def head(*columns):
    """The first two lines of a table; a column whose name ends in ">" is of numbers."""
    yield "| " + " | ".join(column.removesuffix(">") for column in columns) + " |"
    yield "|" + "|".join("---:" if column.endswith(">") else "---" for column in columns) + "|"


def command(results):
    """What was run; ``--texts`` has the numbers of training, validation and test texts."""
    about = results["about"]
    texts = " ".join(str(about[split]) for split in ("train", "dev", "test"))
    script = f"python -m examples.papers.{about['paper']} --data {about['data']}"
    more = f" {about['options']}" if "options" in about else ""
    return f"`{script} --texts {texts} --epochs {about['epochs']}{more}`"


def per_cent(line):
    return f"{100 * line['value']:.1f} [{100 * line['low']:.1f}, {100 * line['high']:.1f}]"


def number(line, digits=2):
    if math.isnan(line["value"]):
        return "undefined"
    return f"{line['value']:.{digits}f} [{line['low']:.{digits}f}, {line['high']:.{digits}f}]"
