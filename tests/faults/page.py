"""The page on reliability, made of the counts."""

from __future__ import annotations

from typing import Any

from tests.faults import suite

_HEAD = """# Reliability

What you can rely on when something goes wrong: a process is killed, a disk is full, a file is damaged, a text is
hostile, several threads share a model. Each promise below was tried by a fault suite, which also made the numbers
on this page.

"""
_REPEAT = """## How to repeat it

From a clone, with nothing else running:

```sh
make faults
```

takes up to half an hour on two cores and rewrites this page. `make test` runs a short form of the same suite.
`python -m tests.faults --long --only kills` runs one part, `--scale 0.1` a tenth of the trials, `--seed 1` other random
moments and inputs; counts of parts that ran separately are kept in `build/faults.json` and joined into the page by
`--page`. A part is one file in `tests/faults/parts/`.
"""


def written(counts: dict[str, Any]) -> str:
    """The promises, then what was tried, then how to repeat it."""
    known = [name for name in suite.names() if name in counts]
    promises = "".join(f"- **{suite.part_of(name).title}.** {suite.part_of(name).promise}\n" for name in known)
    return _HEAD + "## Promises\n\n" + promises + "\n## What was tried\n\n" + _tables(counts, known) + _REPEAT


def _tables(counts: dict[str, Any], known: list[str]) -> str:
    trials = sum(tried for name in known for tried, _ in counts[name]["rows"].values())
    failed = trials - sum(held for name in known for _, held in counts[name]["rows"].values())
    total = f"{trials:,} trials in all; {'every one held' if not failed else f'{failed:,} did not hold'}.\n\n"
    sections = []
    for name in known:
        part, result = suite.part_of(name), counts[name]
        lines = [f"### {part.title}", "", "| tried | times | held |", "|---|---:|---:|"]
        lines += [f"| {what} | {tried:,} | {held:,} |" for what, (tried, held) in result["rows"].items()]
        measures = [f"- {what}: {value}" for what, value in result["measures"].items()]
        lines += ["", *measures, *([""] if measures else [])]
        if result["scale"] < 1:
            lines += [f"Not the long form: {result['scale']:.3g} of its trials.", ""]
        sections.append("\n".join(lines))
    return total + "\n".join(sections) + "\n"
