"""``python -m tests.faults``: run the fault suite, and write what it found to ``docs/reliability.md``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.faults import page, suite

COUNTS = Path("build/faults.json")
PAGE = Path("docs/reliability.md")


def main() -> int:
    """Parse the arguments and run what they ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--long", action="store_true", help="the long form (scale 1); otherwise each part's short one")
    parser.add_argument("--only", help=f"parts with commas, out of {', '.join(suite.names())}")
    parser.add_argument("--scale", type=float, help="a factor on the number of trials")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="parts that run at the same time")
    parser.add_argument("--counts", type=Path, default=COUNTS, help="where counts are kept; parts add up there")
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, help="write the page from all counts that are kept")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    chosen = given.only.split(",") if given.only else ([] if given.only == "" else suite.names())
    if unknown := set(chosen) - set(suite.names()):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(suite.names())}")
    if given.child:
        suite.run_alone(chosen[0], given.scale, given.seed)
        return 0
    factor = 1.0 if given.scale is None else given.scale
    scales = {name: factor * (1.0 if given.long else suite.part_of(name).short) for name in chosen}
    good = suite.run_all(chosen, scales, given.seed, given.counts, given.jobs)
    if given.page is not None:
        given.page.write_text(page.written(suite.read(given.counts)), encoding="utf-8")
        print(f"written: {given.page}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
