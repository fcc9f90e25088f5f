"""Tables as a run writes them, from a seed, and a figure looked up in a summary."""

import io
import math

import numpy as np
import pandas as pd

NAN, INF = math.nan, math.inf
NONE = ("", "")
KEYS = [
    ("attention", "attention"),
    ("attention", "gradient"),
    ("input", "gradient"),
    ("attention", "random"),
    ("yours", "shap"),
]
ATTENTION, RANDOM = KEYS[0], KEYS[3]


def made(seed=0, texts=40, *, bounds="exact", levels=("attention", "input"), keys=KEYS, drop=0.0):
    """Rows as the runner writes them. Bounds: "exact", "some" (two numbers that may differ), or "none"."""
    draw = np.random.default_rng(seed)
    rows, about = [], []
    for text in range(texts):
        aside = "empty" if text % 13 == 5 else "the logits are not finite" if text % 17 == 3 else None
        items = 1 if text % 11 == 7 else int(draw.integers(2, 9))
        about.append(
            {
                "text_id": text,
                "prediction": None if aside else int(draw.integers(3)),
                "confidence": None if aside else float(draw.random()),
                "correct": None if aside else bool(draw.random() < 0.7),
                "special_weight": None if aside else float(draw.random()),
                "items": None if aside else items,
                "aside": aside,
            }
        )
        if aside or items < 2:
            continue
        for level in levels:
            flippable = draw.random() < 0.85
            smallest = int(draw.integers(1, items + 1))
            low, high = smallest, smallest
            if bounds == "some":
                low, high = max(1, smallest - int(draw.integers(2))), smallest
                high = None if draw.random() < 0.3 else high
            if bounds == "none" or not flippable:
                low, high = None, None
            for ranking_level, ranking in keys:
                if draw.random() < drop:
                    continue
                removed = int(draw.integers(smallest, items + 3))
                censored = removed > items or not flippable
                rows.append(
                    {
                        "text_id": text,
                        "ranking": ranking,
                        "ranking_level": ranking_level,
                        "erase_level": level,
                        "items": items,
                        "removed": None if censored else removed,
                        "fraction": NAN if censored else removed / items,
                        "mass": NAN if censored else float(draw.random()),
                        "censored": censored,
                        "marginal": bool(draw.random() < 0.1),
                        "ties": int(draw.integers(2)),
                        "undefined": int(draw.random() < 0.1),
                        "minimum_low": low,
                        "minimum_high": high,
                        "flippable": flippable if bounds == "exact" else (None if high is None else True),
                    }
                )
    return rows, about


def frames(rows, about):
    """As tables that went through parquet, with whatever types missing values then have."""
    result = []
    for part in (rows, about):
        buffer = io.BytesIO()
        pd.DataFrame(part).astype({"removed": "Int64"} if part is rows else {}).to_parquet(buffer)
        result.append(pd.read_parquet(buffer))
    return result


def look(table, figure, level="attention", key=NONE, other="", part="all", test="erasure"):
    result = table[
        (table.test == test)
        & (table.figure == figure)
        & (table.erase_level == level)
        & (table.ranking_level == key[0])
        & (table.ranking == key[1])
        & (table.other == other)
        & (table.slice == part)
    ]
    assert len(result) == 1, (figure, level, key, other, len(result))
    return result.iloc[0]


def single_weight(texts=30, seed=0):
    draw = np.random.default_rng(seed)
    rows = [
        {
            "text_id": text,
            "ranking": ranking,
            "delta_js": float(draw.normal()),
            "delta_attention": float(draw.random()),
            "top_flips": bool(draw.random() < 0.4),
            "drawn_flips": bool(draw.random() < 0.2),
            "expected_delta_js": float(draw.normal()),
            "expected_drawn_flips": float(draw.random()),
            "marginal": bool(draw.random() < 0.1),
        }
        for text in range(texts)
        for ranking in ("attention", "gradient")
    ]
    return pd.DataFrame(rows)
