"""How often each label of the verdict is given, and how often it is wrong, where the true skill is known.

python -m benchmarks.verdict_errors
python -m benchmarks.verdict_errors --repetitions 20 --texts 50 200 --skills 0.387 0.8

Tables of the erasure test are simulated and judged by the package's own `Erasure().summarise` and `verdict`. Nothing is
timed. The tables of a seed are the same on every machine, whatever the number of processes.

The texts: each has as many items as a sentence of SST-2. Some of them, d, decide: the decision flips as soon as k of
them are gone, so k is the size of its smallest flipping set. Some texts cannot be flipped by any set.

The rankings: a ranking draws items one after the other, deciding items with weight e^b and all others with weight 1. A
random order has b = 0: the number of items that it removes then follows the negative hypergeometric distribution. The
strength b of attention varies from text to text around a mean, which is chosen such that skill, in a sample of millions
of texts, has the planted value. With ``--shape mixed`` attention instead finds the smallest set at once on some texts,
and is a random order on the others. A random order never flips some of the texts; attention fewer of them, the more
skill it has.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.verdict import verdict
from attnfaith.evaluation.verdict_rule import FAITHFUL, UNFAITHFUL

SKILLS = (-0.1, 0.0, 0.3, 0.387, 0.5, 0.65, 0.8, 0.9, 1.0)
TEXTS = (25, 50, 100, 200, 400, 1000)
SHAPES = ("graded", "mixed")
RANGES = {
    "unfaithful": (-np.inf, UNFAITHFUL),
    "partly": (UNFAITHFUL, FAITHFUL),
    "faithful": (FAITHFUL, np.inf),
}
"""The skill that each label names: from, inclusive, and to, exclusive."""
ORDER = ("unfaithful", "unfaithful or partly", "partly", "partly or faithful", "faithful", "undecided")

LENGTHS = (2, 6, 9, 10, 11, 13, 14, 15, 16, 18, 19, 20, 21, 23, 24, 26, 27, 29, 31, 34, 47)
"""Words of the sentences of SST-2's validation split: the smallest, every 20th part, and the largest."""
UNFLIPPABLE = 0.05
"""The share of texts that no set flips."""
NEVER = 0.08
"""The share of the others that a random order never flips."""
SPREAD = 1.0
"""The standard deviation over texts of attention's strength b."""
LARGE = 2_000_000
"""Texts of the sample that the true skill is computed from: its standard error is about 0.0003."""

Array = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Attention:
    """How attention ranks.

    Attributes:
        shape: "graded": its strength varies around a mean; "mixed": perfect on some texts, random on the others.
        skill: as planted.
        strength: for "graded" the mean of b over texts; for "mixed" the share of texts on which attention is perfect
            or, where skill is below 0, never flips the decision.
    """

    shape: str
    skill: float
    strength: float


@dataclass(frozen=True)
class Simulated:
    """Texts and what rankings removed of them; 0 where a ranking never flips the decision.

    Attributes:
        items: ``[n]``.
        smallest: ``[n]``, the size of the smallest flipping set; 0 where there is none.
        removed: by ranking ``[n]``.
    """

    items: Places
    smallest: Places
    removed: dict[str, Places]

    def efficiency(self, ranking: str) -> float:
        """As the package defines it: 0 where the ranking never flips, without the texts that no set flips."""
        has_set = self.smallest > 0
        removed = self.removed[ranking][has_set]
        return float(np.where(removed > 0, self.smallest[has_set] / np.maximum(removed, 1), 0.0).mean())

    @property
    def skill(self) -> float:
        """(attention's efficiency - random's) / (1 - random's)."""
        attention, control = (self.efficiency(name) for name in ("attention", "random"))
        return (attention - control) / (1 - control)


def simulate(attention: Attention, count: int, rng: np.random.Generator) -> Simulated:
    """Draw texts and what both rankings remove of them."""
    position = rng.random(count) * (len(LENGTHS) - 1)
    items = np.rint(np.interp(position, np.arange(len(LENGTHS)), LENGTHS)).astype(np.int64)
    smallest = np.minimum(rng.geometric(0.5, count), np.maximum(items // 3, 1))
    deciding = np.minimum(smallest + rng.binomial(items, 0.05), items)

    def ranked(strength: Array, never: float) -> Places:
        sizes = steps(items, smallest, deciding, strength, rng)
        return np.where(rng.random(count) < never, 0, sizes)

    removed = {"random": ranked(np.zeros(count), NEVER)}
    if attention.shape == "mixed":
        best = smallest if attention.skill >= 0 else np.zeros_like(smallest)
        removed["attention"] = np.where(rng.random(count) < attention.strength, best, ranked(np.zeros(count), NEVER))
    else:
        strength = attention.strength + SPREAD * rng.standard_normal(count)
        removed["attention"] = ranked(strength, NEVER * min(1.0, 1.0 - attention.skill))
    flippable = rng.random(count) >= UNFLIPPABLE
    removed = {name: np.where(flippable, sizes, 0) for name, sizes in removed.items()}
    return Simulated(items, np.where(flippable, smallest, 0), removed)


def steps(items: Places, needed: Places, deciding: Places, strength: Array, rng: np.random.Generator) -> Places:
    """The place in a ranking of the last of the deciding items that are needed, from 1.

    Items are drawn in the order of exponential waiting times, with rate e^b for deciding items and 1 for the others.
    The k-th of d deciding items comes at the time at which 1 - exp(-time e^b) is the k-th smallest of d uniform draws,
    and each other item has come before with the probability 1 - exp(-time).
    """
    arrival = rng.beta(needed, deciding - needed + 1)
    before = -np.expm1(np.log1p(-arrival) * np.exp(-strength))
    return needed + rng.binomial(items - deciding, before)


def planted(shape: str, skill: float) -> tuple[Attention, float]:
    """Attention of a given skill, and its skill in a large sample."""
    if skill == 1 and shape == "graded":
        strength = np.inf
    elif shape == "graded":
        strength = strength_of(skill)
    elif skill >= 0:  # the mean of 1 and of a random order's efficiency, on so many texts the one
        strength = skill
    else:  # 0 in place of a random order's efficiency
        control = simulate(Attention(shape, 0.0, 0.0), LARGE, np.random.default_rng(1)).efficiency("random")
        strength = -skill * (1 - control) / control
    attention = Attention(shape, skill, float(strength))
    return attention, simulate(attention, LARGE, np.random.default_rng(2)).skill


def strength_of(skill: float) -> float:
    """The mean strength that has a skill, by bisection on one sample of texts."""
    low, high = -6.0, 10.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        skill_at_middle = simulate(Attention("graded", skill, middle), LARGE // 10, np.random.default_rng(1)).skill
        low, high = (middle, high) if skill_at_middle < skill else (low, middle)
    return (low + high) / 2


def table_of(simulated: Simulated) -> pd.DataFrame:
    """What the erasure test writes of such texts."""
    count = len(simulated.items)
    smallest = pd.array(np.where(simulated.smallest > 0, simulated.smallest, 0), dtype="Int64")
    smallest[simulated.smallest == 0] = pd.NA
    shared = {
        "text_id": np.arange(count),
        "items": simulated.items,
        "minimum_low": smallest,
        "minimum_high": smallest,
        "flippable": simulated.smallest > 0,
    }
    constants = {"ranking_level": "attention", "erase_level": "attention", "mass": 0.5}
    constants |= {"marginal": False, "ties": 0, "undefined": 0}
    tables = [
        pd.DataFrame({**shared, "ranking": name, "removed": np.where(sizes > 0, sizes, np.nan), "censored": sizes == 0})
        for name, sizes in simulated.removed.items()
    ]
    return pd.concat(tables, ignore_index=True).assign(**constants)


FACTS: dict[str, Any] = {
    "unit": "words",
    "special_tokens": False,
    "kind": "affine",
    "tail_is_affine": True,
    "levels": ["attention"],
    "model": "simulated",
    "hide": None,
    "aside": {},
    "truncated": 0,
    "confidence_level": 0.95,
}


@dataclass(frozen=True)
class Outcome:
    """The verdict and the estimates of one simulated run.

    Attributes:
        label: the label of the verdict.
        low: end of the interval of skill.
        high: the other end.
        better: whether the planned comparison says that attention is better than a random order.
    """

    label: str
    low: float
    high: float
    better: bool


def judged(attention: Attention, texts: int, resamples: int, key: Sequence[int]) -> Outcome:
    """Simulate a run, and judge it."""
    simulated = simulate(attention, texts, np.random.default_rng(key))
    texts_table = pd.DataFrame({"text_id": np.arange(texts), "aside": None})
    tables = {"erasure": table_of(simulated), "texts": texts_table}
    summary = Erasure().summarise(tables.__getitem__, by=None, n_resamples=resamples, seed=key[-1])
    of_attention = summary[summary["ranking"] == "attention"].set_index("figure")
    skill, gap = (
        of_attention.loc["skill"],
        of_attention.loc["mean_difference"],
    )  # the only pair: attention and the random order
    label = verdict(summary, {**FACTS, "texts": texts}).label
    return Outcome(label, float(skill["low"]), float(skill["high"]), bool(gap["high"] < 0))


def is_wrong(label: str, skill: float) -> bool:
    """Whether no range of skill that a label names contains the true one; "undecided" names them all.

    Example:
        >>> is_wrong("unfaithful", 0.5), is_wrong("unfaithful or partly", 0.5), is_wrong("undecided", 0.5)
        (True, False, False)
    """
    if label == "undecided":
        return False
    return not any(low <= skill < high for low, high in (RANGES[name] for name in label.split(" or ")))


Task = tuple[Attention, int, int, int, int]
"""Attention, texts, repetitions, resamples, seed."""


def outcomes_of(task: Task) -> list[Outcome]:
    """All repetitions of one skill and one number of texts."""
    attention, texts, repetitions, resamples, seed = task
    skill_key = round(1000 * attention.skill) + 1000  # seeds are not negative
    return [judged(attention, texts, resamples, (seed, skill_key, texts, number)) for number in range(repetitions)]


def line(skill: float, true_skill: float, texts: int, outcomes: Sequence[Outcome], labels: Sequence[str]) -> str:
    """A row of the table, in per cent of the repetitions."""
    counted = Counter(outcome.label for outcome in outcomes)
    wrong = sum(is_wrong(outcome.label, skill) for outcome in outcomes)
    covered = sum(outcome.low - 1e-9 <= true_skill <= outcome.high + 1e-9 for outcome in outcomes)
    better = sum(outcome.better for outcome in outcomes)
    numbers = [counted[label] for label in labels] + [wrong, covered, better]
    shares = [f"{100 * number / len(outcomes):.0f}" if number else "" for number in numbers]
    return "| " + " | ".join([f"{skill:g}", str(texts), *shares]) + " |"


def report(
    shape: str, skills: Sequence[float], texts: Sequence[int], *, repetitions: int, resamples: int, seed: int
) -> Iterator[str]:
    """The table in Markdown, after a line that describes it."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        attentions = list(pool.map(partial(planted, shape), skills))
        cells = [(attention, true, count) for attention, true in attentions for count in texts]
        tasks = [(attention, count, repetitions, resamples, seed) for attention, _, count in cells]
        outcomes_by_cell = list(pool.map(outcomes_of, tasks))
    seen_labels = {outcome.label for outcomes in outcomes_by_cell for outcome in outcomes}
    labels = [label for label in ORDER if label in seen_labels] + sorted(seen_labels - set(ORDER))
    yield f"Shape {shape!r}, {repetitions} repetitions, {resamples} resamples, seed {seed}. Per cent of repetitions; an"
    yield "empty cell is 0. Wrong: no range that the label names contains the true skill. Covered: the 95 % interval of"
    yield "skill contains it. Better: the planned comparison says that attention is better than a random order."
    yield ""
    yield "| true skill | texts | " + " | ".join([*labels, "wrong", "covered", "better"]) + " |"
    yield "|---" * (len(labels) + 5) + "|"
    for (attention, true, count), outcomes in zip(cells, outcomes_by_cell, strict=True):
        yield line(attention.skill, true, count, outcomes, labels)


def main() -> None:
    """Print the table of one shape, or of both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=400, help="simulated runs of each cell")
    parser.add_argument("--resamples", type=int, default=999, help="of the texts, behind every interval")
    parser.add_argument("--seed", type=int, default=0, help="of all draws")
    parser.add_argument("--skills", type=float, nargs="+", default=SKILLS, help="true skills")
    parser.add_argument("--texts", type=int, nargs="+", default=TEXTS, help="numbers of texts")
    parser.add_argument("--shape", choices=SHAPES, default="graded", help="how attention's skill is spread over texts")
    options = parser.parse_args()
    statistics = {"repetitions": options.repetitions, "resamples": options.resamples, "seed": options.seed}
    for row in report(options.shape, options.skills, options.texts, **statistics):
        print(row)


if __name__ == "__main__":
    main()
