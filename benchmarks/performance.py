"""What an evaluation costs, as ratios within one run; the figures are stored, and make docs/performance.md.

python -m benchmarks.performance
python -m benchmarks.performance --only precision,scaling
python -m benchmarks.performance --size full --only default,length
python -m benchmarks.performance --page

Real texts and models are those of ATTNFAITH_DATA (docs/data.md). Other libraries take part where they are installed:
`make bench-peers` measures beside them in an environment of its own.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import torch
from transformers.utils import logging

from benchmarks._performance import measuring, page
from benchmarks._performance.parts import PARTS, SIZES, Size
from benchmarks._performance.rows import STORE, keep, kept

PAGE = Path("docs/performance.md")


def main() -> None:
    """Measure the requested parts and store the figures, or write the page from the stored figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="usual", help="how much is measured")
    parser.add_argument("--small", action="store_const", const="small", dest="size", help="short for --size small")
    dear = [name for name, part in PARTS.items() if part.dear]
    parser.add_argument(
        "--only",
        help=f"parts with commas, out of {', '.join(PARTS)}; by default all but {', '.join(dear)}, or, full, all",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="one thread, and its CPU time in the place of wall time: where other programs run beside",
    )
    parser.add_argument("--store", type=Path, default=STORE, help="where figures are kept, part by part")
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, help="measure nothing; write the page")
    options = parser.parse_args()
    by_default = [name for name, part in PARTS.items() if options.size == "full" or not part.dear]
    chosen = options.only.split(",") if options.only else by_default
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if options.page is not None:
        options.page.write_text(page.written(kept(options.store)), encoding="utf-8")
        print(f"written: {options.page}")
        return
    size = options.size
    if options.cpu_time:
        if wall := {"processes", "scaling"} & set(chosen):
            parser.error(f"{' and '.join(sorted(wall))} can be measured in wall time only")
        measuring.now, options.threads, size = time.process_time, 1, f"{size}{page.CPU_TIME}"
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for name in chosen:
        start, rows = time.perf_counter(), []
        print(f"{PARTS[name].title} ({name})", flush=True)
        for row in PARTS[name].run(Size(options.size)):
            rows.append(row)
            print(row, flush=True)
        print(f"  ({time.perf_counter() - start:.0f} s)", flush=True)
        keep({name: rows}, size, options.store)


if __name__ == "__main__":
    main()
