"""Make the figures of the documentation from real results: the FLAN of `attnfaith demo`, judged by its tests.

Run by hand, from a clone, when figures or results change; it takes some minutes. The images are committed.

    attnfaith demo --output build/demo
    python docs/figures.py build/demo
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import attnfaith as af

IMAGES = Path(__file__).parent / "images"
TEXTS = 200
DPI = 140
RANKINGS = ["attention", "gradient", "gradient_x_attention", "lrp", "occlusion", "optimal"]


def main(demo: Path) -> None:
    """Judge the demo's FLAN on some of its held-out reviews, and write a figure for each test."""
    rows = [json.loads(line) for line in (demo / "data" / "reviews.jsonl").read_text(encoding="utf-8").splitlines()]
    data = [{"text": row["text"], "label": row["label"], "marks": row["ranges"]} for row in rows[:TEXTS]]
    evaluator = af.Evaluator(demo / "models" / "flan")
    settings: dict[str, Any] = {"rankings": RANKINGS, "rationale_column": "marks", "seed": 0}
    results = evaluator.compute(data, tests="all", **settings)
    IMAGES.mkdir(exist_ok=True)
    for name in results.tests.keys() - {"in_distribution"}:  # whose figure is of a Transformer, as its page says
        results.plot(name).savefig(IMAGES / f"{name}.png", dpi=DPI)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
