"""The page of the documentation, from the figures that are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks._performance.parts import PARTS, Size
from benchmarks._performance.rows import NOT_MEASURED, Row

HEAD = """# Performance

What an evaluation costs, as *ratios within one run*: to plain inference of the same texts with the same model on the
same threads, or to another library at the same work. A ratio means much the same on every machine; seconds do not.
`make bench`, from a clone, measures smaller forms of what is shown here in less than half an hour. These commands
measure figures and write this page; those that were not measured again stay as they were. The first takes some ten
minutes on two cores, the others more; `--size full` takes hours.

```sh
python -m benchmarks.performance
python -m benchmarks.performance --only precision,scaling
make bench-peers  # beside libraries that attnfaith does not need, in an environment of their own
python -m benchmarks.performance --page
```

A claim is a limit that a release keeps. Figures without one are only told.

On an x86 processor, attnfaith runs the linear layers of its own passes with oneDNN, and plain inference runs them as
PyTorch does, with MKL. How much faster that is depends on the processor: on two machines with processors of AMD the
default evaluation below took nearly as long without it on one, and two fifths longer on the other. Only rounding
differs. `torch.backends.mkldnn.enabled = False` turns it off.
"""
CPU_TIME = ", CPU time"
"""At the end of the size of figures that are no wall time."""


def written(stored: Iterable[tuple[str, str, Sequence[Row]]]) -> str:
    """The page.

    Args:
        stored: the name, the size and the rows of each part.
    """
    stored_parts = {name: (size, rows) for name, size, rows in stored}
    sections = [HEAD.rstrip()]
    for name, part in PARTS.items():
        size, rows = stored_parts.get(name, ("", []))
        sections += ["", f"## {part.title}", "", part.description]
        if not rows:
            sections += ["", f"*{NOT_MEASURED.capitalize()} yet.*"]
            continue
        form = size.removesuffix(CPU_TIME)
        if size != Size("full").name:
            clock = ", in CPU time of one thread, beside other programs" if size != form else ""
            sections += ["", f"*Measured in the {form} form{clock}.*"]
        sections += ["", "| work | measured | claim | kept | |", "|---|---:|---|---|---|", *map(_line, rows)]
    return "\n".join(sections) + "\n"


def _line(row: Row) -> str:
    value = NOT_MEASURED if row.value is None else f"{row.value:.3g} {row.unit}".strip()
    cells = (row.work, value, row.claim, row.holds, row.note)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |".replace("|  |", "| |")
