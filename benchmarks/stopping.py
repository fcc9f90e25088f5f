"""The effect of stopping at a precision on the intervals and the label, where the true values are known.

python -m benchmarks.stopping
python -m benchmarks.stopping --run attnfaith-run/ --precisions 0.03 0.05 --repetitions 2000

A run with `precision=` stops when the intervals of the verdict are narrow enough. A rule that looks at the data can
spoil the intervals: it stops more easily where the variance happens to look small. Here such runs are simulated, by the
package's own rule (`attnfaith.evaluation.sampling`), intervals and labels.

Texts come from two kinds of populations. Planted texts, as in `benchmarks.verdict_errors`, have a known skill. With
`--run`, the folder of a stored run, texts are drawn from its table of the erasure test with replacement, so that the
true values are those of the whole table. Nothing is timed, and no model is run.

For each population and precision: how many texts were read, how often the intervals that are printed after stopping
contain the true values, and how often the label is wrong; and the same for runs that read a fixed number of texts, the
median of those that stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnfaith.estimates.lookup import SummaryLookup, SummaryValue
from attnfaith.estimates.summary_table import summarise
from attnfaith.evaluation.results import load_results
from attnfaith.evaluation.sampling import Sampling, beside_attention, widest_of
from attnfaith.evaluation.tests.erasure.matrix import ErasureMatrix, grids
from attnfaith.evaluation.tests.erasure.summary import quantities_of
from attnfaith.evaluation.verdict_rule import judge, judged_level
from benchmarks.verdict_errors import Attention, is_wrong, simulate, strength_of, table_of

SKILLS = (0.0, 0.3, 0.5, 0.65, 0.8, 0.9)
PRECISIONS = (0.03, 0.05, 0.1)
LIMIT = 20_000
"""Texts that a simulated data set has: more than any of these precisions takes."""
LARGE = 300_000
"""Texts of the sample that the true values of a planted population are computed from."""


@dataclass(frozen=True)
class Population:
    """Texts to draw from.

    Attributes:
        name: the name of the row in the table.
        grid: the texts; drawn from with replacement.
        truth: the estimates of all of them.
    """

    name: str
    grid: ErasureMatrix
    truth: SummaryLookup

    def draw(self, count: int, rng: np.random.Generator) -> ErasureMatrix:
        """Draw a number of texts, numbered from 0."""
        drawn = self.grid.take(rng.integers(len(self.grid.text_ids), size=count))
        return replace(drawn, text_ids=np.arange(count))


def lookup(grid: ErasureMatrix, texts: int, resamples: int, seed: int) -> SummaryLookup:
    """The estimates of a run that has read the first texts."""
    texts_table = pd.DataFrame({"text_id": np.arange(texts), "aside": None})
    part = grid.take(np.arange(texts))
    summary = summarise("erasure", [quantities_of(part)], texts_table, n_resamples=resamples, seed=seed)
    return SummaryLookup(summary)


def planted_population(skill: float) -> Population:
    """A population with a planted skill; the same texts in every process."""
    attention = Attention("graded", skill, strength_of(skill))
    (grid,) = grids(table_of(simulate(attention, LARGE, np.random.default_rng(3))))
    return Population(f"planted, skill {skill:g}", grid, lookup(grid, LARGE, 1, 0))


def population_of(run: Path) -> Population:
    """The texts of a stored run, at the level that its verdict is about."""
    results = load_results(run)
    table = results.table("erasure")
    level = judged_level(table["erase_level"].unique(), results.manifest["facts"]["tail_is_affine"])
    (grid,) = grids(beside_attention(table[table["erase_level"] == level]))
    texts = len(grid.text_ids)
    grid = replace(grid, text_ids=np.arange(texts))
    return Population(f"{run.name}, {texts} texts", grid, lookup(grid, texts, 1, 0))


PRINTED = ("attention", "random", "difference", "smallest", "skill")


def estimates(figures: SummaryLookup, level: str) -> dict[str, SummaryValue]:
    """What the verdict prints of attention."""
    key, control = figures.key_of(level, "attention"), figures.control(level)
    assert key is not None
    smallest = figures.get(level, "minimum_fraction_mean")
    return {
        "attention": figures.get(level, "mean_fraction", key),
        "random": figures.get(level, "mean_fraction", control or key),
        "difference": figures.get(level, "mean_difference", key, control),
        "smallest": smallest if smallest.known else figures.get(level, "minimum_fraction_mean_high"),
        "skill": figures.get(level, "skill", key),
    }


@dataclass(frozen=True)
class Outcome:
    """The outcome of one simulated run.

    Attributes:
        texts: the number of texts that were read.
        covered: for each estimate in `PRINTED`, whether its interval contains the true value.
        wrong: whether the label names no range that contains the true skill.
    """

    texts: int
    covered: tuple[bool, ...]
    wrong: bool


def outcome(population: Population, figures: SummaryLookup, texts: int) -> Outcome:
    """Compare what a run says with the truth."""
    level = population.grid.level
    true, estimated = (estimates(source, level) for source in (population.truth, figures))
    covered = tuple(estimated[name].low - 1e-9 <= true[name].value <= estimated[name].high + 1e-9 for name in PRINTED)
    label = str(judge(figures, level, figures.key_of(level, "attention")).label)
    return Outcome(texts, covered, is_wrong(label, true["skill"].value))


def stopped(population: Population, precision: float, resamples: int, key: Sequence[int]) -> Outcome:
    """One run that stops at a precision."""
    rng, level, last = np.random.default_rng(key), population.grid.level, []
    drawn = population.draw(LIMIT, rng)

    def reach(texts: int) -> float:
        last[:] = [lookup(drawn, texts, resamples, key[-1])]
        return widest_of(last[0], level)

    texts, _ = Sampling(precision=precision).stops(LIMIT, reach)
    return outcome(population, last[0], texts)


def fixed(population: Population, texts: int, resamples: int, key: Sequence[int]) -> Outcome:
    """One run that reads a fixed number of texts."""
    drawn = population.draw(texts, np.random.default_rng(key))
    return outcome(population, lookup(drawn, texts, resamples, key[-1]), texts)


def cell(task: tuple[float | Path, float, int, int, int]) -> Iterator[str]:
    """The two rows of a population and a precision."""
    source, precision, repetitions, resamples, seed = task
    population = population_of(source) if isinstance(source, Path) else planted_population(source)
    keys = [(seed, round(1000 * precision), number) for number in range(repetitions)]
    stopped_runs = [stopped(population, precision, resamples, (*key, 0, key[-1])) for key in keys]
    low, median, high = (
        int(np.quantile([single_run.texts for single_run in stopped_runs], share)) for share in (0.05, 0.5, 0.95)
    )
    fixed_runs = [fixed(population, median, resamples, (*key, 1, key[-1])) for key in keys]
    points = f"{100 * precision:g}"
    return [
        row(population.name, points, f"{median} ({low} to {high})", stopped_runs),
        row(population.name, "none", str(median), fixed_runs),
    ]


def row(name: str, precision: str, texts: str, outcomes: Sequence[Outcome]) -> str:
    """A row of the table, in per cent of the runs."""
    shares: NDArray[Any] = 100 * np.mean([single_run.covered for single_run in outcomes], axis=0)
    wrong = 100 * np.mean([single_run.wrong for single_run in outcomes])
    return "| " + " | ".join([name, precision, texts, *(f"{share:.1f}" for share in shares), f"{wrong:.1f}"]) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, nargs="*", default=[], help="folders of stored runs, in place of planted")
    parser.add_argument("--skills", type=float, nargs="+", default=SKILLS, help="of planted texts")
    parser.add_argument("--precisions", type=float, nargs="+", default=PRECISIONS)
    parser.add_argument("--repetitions", type=int, default=100, help="simulated runs of each row")
    parser.add_argument("--resamples", type=int, default=999, help="of the texts, behind every interval")
    parser.add_argument("--seed", type=int, default=0, help="of all draws")
    parser.add_argument("--processes", type=int, default=None)
    options = parser.parse_args()
    print(f"{options.repetitions} repetitions, {options.resamples} resamples, seed {options.seed}. Texts: the median")
    print("(5 % to 95 %). Then per cent of runs: the 95 % interval contains the true value; the label is wrong.")
    print()
    print("| texts from | precision (points) | texts read | " + " | ".join(PRINTED) + " | label wrong |")
    print("|---|---:|---:|" + "---:|" * (len(PRINTED) + 1))
    settings = (options.repetitions, options.resamples, options.seed)
    tasks = [
        (population, precision, *settings)
        for population in options.run or options.skills
        for precision in options.precisions
    ]
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for rows in pool.map(cell, tasks):
            print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()
