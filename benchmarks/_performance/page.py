"""The page of the documentation, from the figures that are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks._performance.parts import PARTS, Size
from benchmarks._performance.rows import NOT_MEASURED, Row

HEAD = """# Performance

What an evaluation costs, as *ratios within one run*: to plain inference of the same texts with the same model on the
same threads, or to another library at the same work. A ratio means much the same on every machine; seconds do not.

Figures are measured in one of three sizes: "small", "usual" or "full" (which takes hours). Each section below names its
size. These commands, from a clone, measure the usual size and write this page; figures that were not measured again
stay as they were. Each of the first three takes five to ten minutes on two cores. `make bench` runs the first, and the
other benchmarks of speed, in less than 25 minutes.

```sh
python -m benchmarks.performance
python -m benchmarks.performance --only precision,scaling
make bench-peers  # beside libraries that attnfaith does not need, in an environment of their own
python -m benchmarks.performance --page
```

A *claim* is a target, and the column *met* says whether this measurement meets it. Rows without a claim are for
information.

On an x86 processor, attnfaith runs the linear layers of its own passes with oneDNN, and plain inference runs them as
PyTorch does, with MKL. How much faster that is depends on the processor. Without oneDNN, the default evaluation
below took nearly the same time on one AMD processor, and 40 % longer on another. Only rounding differs.
`torch.backends.mkldnn.enabled = False` turns it off.
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
            sections += ["", f"*Size: {form}{clock}.*"]
        sections += ["", "| work | measured | claim | met | |", "|---|---:|---|---|---|", *map(_line, rows)]
    return "\n".join(sections) + "\n"


def _line(row: Row) -> str:
    value = NOT_MEASURED if row.value is None else f"{row.value:.3g} {row.unit}".strip()
    cells = (row.work, value, row.claim, row.holds, row.note)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |".replace("|  |", "| |")
