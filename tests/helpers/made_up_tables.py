"""Tables like those a run writes, made from a seed: curves, summaries, single weights."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from scipy.stats import binomtest, norm

TEXTS = 150
# The median share of the items that each ranking removes, at each level; some texts never flip.
AT_ATTENTION = {
    ("attention", "attention"): 0.34,
    ("attention", "gradient"): 0.17,
    ("attention", "gradient_x_attention"): 0.085,
    ("attention", "integrated_gradients"): 0.09,
    ("attention", "lrp"): 0.10,
    ("attention", "occlusion"): 0.12,
    ("attention", "greedy"): 0.08,
    ("attention", "optimal"): 0.07,
    ("attention", "random"): 0.62,
}
AT_INPUT = {
    ("attention", "attention"): 0.30,
    ("attention", "gradient"): 0.22,
    ("attention", "gradient_x_attention"): 0.14,
    ("attention", "integrated_gradients"): 0.15,
    ("attention", "lrp"): 0.16,
    ("attention", "occlusion"): 0.19,
    ("attention", "random"): 0.60,
    ("input", "attention"): 0.42,
    ("input", "gradient"): 0.33,
    ("input", "gradient_x_input"): 0.52,
    ("input", "integrated_gradients"): 0.21,
    ("input", "lrp"): 0.24,
    ("input", "occlusion"): 0.18,
    ("input", "omission"): 0.17,
    ("input", "rollout"): 0.48,
    ("input", "random"): 0.61,
    ("yours", "shap_values"): 0.13,
}
LEVELS = {"attention": (AT_ATTENTION, 0.02), "input": (AT_INPUT, 0.10)}


def flips(
    level: str, *, never: float | None = None, texts: int = TEXTS, seed: int = 0
) -> dict[tuple[str, str], np.ndarray]:
    """Per ranking, the fraction at the flip of each text (inf where it never flips); texts share their difficulty."""
    medians, usual = LEVELS[level]
    draw = np.random.default_rng([seed, len(medians)])
    items, hard = draw.integers(6, 60, texts), draw.normal(size=texts)
    result = {}
    for key, median in medians.items():
        noise = 0.8 * hard + 0.6 * draw.normal(size=texts)
        wanted = 1 / (1 + np.exp(-(np.log(median / (1 - median)) + 1.3 * noise)))
        stays = norm.cdf(hard) > 1 - (usual if never is None else never) * (1 + 1.5 * median)
        result[key] = np.where(stays, np.inf, np.ceil(wanted * items) / items)
    if ("attention", "optimal") in result:
        result["attention", "optimal"] = np.min(list(result.values()), axis=0)
    return result


def curves(levels=("attention", "input"), *, points: int = 101, **settings) -> pd.DataFrame:
    """Survival curves on a grid, with a normal band."""
    grid, rows = np.linspace(0, 1, points), []
    for level in levels:
        for (ranking_level, name), fraction in flips(level, **settings).items():
            kept = (fraction[None] > grid[:, None] + 1e-12).mean(1)
            width = 1.96 * np.sqrt(kept * (1 - kept) / len(fraction))
            for share, value, half in zip(grid, kept, width, strict=True):
                rows.append((level, ranking_level, name, share, value, max(value - half, 0), min(value + half, 1)))
    columns = ["erase_level", "ranking_level", "ranking", "fraction", "kept", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def summary(levels=("attention", "input")) -> pd.DataFrame:
    """Figures with normal intervals, wins and Holm's p for each pair. Efficiency is known at the attention only."""
    return _summary(levels).copy()


@cache
def _summary(levels) -> pd.DataFrame:
    rows = []
    for level in levels:
        result = flips(level)
        best = np.min(list(result.values()), axis=0)
        row = {"test": "erasure", "erase_level": level, "slice": "all", "texts": TEXTS, "note": ""}
        for (ranking_level, name), fraction in result.items():
            line = row | {"ranking": name, "ranking_level": ranking_level, "other": ""}
            rows.append(line | _mean("mean_fraction", np.minimum(fraction, 1)))
            ratio = np.where(
                np.isfinite(best), np.where(np.isfinite(fraction), np.minimum(best, 1) / fraction, 0), np.nan
            )
            rows.append(line | _mean("efficiency", ratio if level == "attention" else ratio * np.nan))
        pairs = [(a, b) for a in result for b in result if a < b]
        p = {(a, b): _sign(result[a], result[b]) for a, b in pairs}
        holm, running = {}, 0.0
        for rank, pair in enumerate(sorted(pairs, key=p.__getitem__)):
            running = max(running, min(1.0, p[pair] * (len(pairs) - rank)))
            holm[pair] = running
        for a, b in pairs:
            for first, second in ((a, b), (b, a)):
                line = row | {"ranking": first[1], "ranking_level": first[0], "other": f"{second[0]}/{second[1]}"}
                rows.append(line | _mean("wins", (result[first] < result[second]).astype(float)))
            rows.append(line | {"figure": "p_holm", "value": holm[a, b], "low": np.nan, "high": np.nan})
    return pd.DataFrame(rows)


def _mean(figure: str, values: np.ndarray) -> dict:
    known = values[np.isfinite(values)]
    if not len(known):
        return {"figure": figure, "value": np.nan, "low": np.nan, "high": np.nan}
    middle, half = known.mean(), 1.96 * known.std() / np.sqrt(len(known))
    return {"figure": figure, "value": middle, "low": middle - half, "high": middle + half}


def _sign(first: np.ndarray, second: np.ndarray) -> float:
    fewer, more = int((first < second).sum()), int((first > second).sum())
    return binomtest(fewer, fewer + more).pvalue if fewer + more else 1.0


def single_weight(
    texts: int = 400, *, seed: int = 0, rankings=("attention", "gradient", "gradient_x_attention")
) -> pd.DataFrame:
    """The heaviest item against a random one: most differences near 0, larger where the weights are further apart."""
    draw, tables = np.random.default_rng(seed), []
    for index, name in enumerate(rankings):
        gap = draw.beta(0.9, 2.2, texts) - (0.12 * draw.random(texts) if index == 1 else 0)
        delta = np.log(2) * draw.beta(0.35, 4, texts) * (0.15 + gap.clip(0)) + 0.004 * draw.normal(size=texts)
        drawn = draw.random(texts) < 0.04
        top = np.where(drawn, draw.random(texts) < 0.4, draw.random(texts) < 0.05 + 0.4 * gap.clip(0) ** 2)
        columns = {"text_id": range(texts), "ranking": name, "items": draw.integers(4, 60, texts), "delta_js": delta}
        columns |= {"delta_attention": gap, "top_flips": top.astype(bool), "drawn_flips": drawn}
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def joined(*tables: pd.DataFrame) -> pd.DataFrame:
    """Tables under each other."""
    return pd.concat(tables, ignore_index=True)
