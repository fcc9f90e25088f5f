"""Correlations of attention with other measures, as in Jain & Wallace, on models retrained on Stanford Sentiment.

python -m benchmarks.jain_wallace sst2
python -m benchmarks.jain_wallace sst2 --models runs/
python -m benchmarks.jain_wallace sst2 --models runs/ --seeds 3 --experiment unknown coverage
python -m benchmarks.jain_wallace sst2 --vectors wiki.simple.vec

It needs the texts and word vectors of `docs/data.md`. What it prints is explained in `docs/reproductions.md`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from transformers.utils import logging

from benchmarks._sst import BASE, ENCODERS, Bench, Settings, register_definitions

MEASURES = {"gradient": "gradient_attention_fixed", "leave-one-out": "leave_one_out"}
NEAR = 0.05
"""A mean tau further from the published one than this has a cause that an experiment shows."""


class Line(NamedTuple):
    """Kendall's tau of attention with a measure, on the texts of one predicted class."""

    mean: float
    deviation: float  # over texts
    significant: float


FIGURES = ("tau", "tau_sd", "significant")
"""The names of a line's numbers in a summary."""

Lines = tuple[Line, Line]
"""Of class 0 and of class 1."""

PUBLISHED: dict[tuple[str, str], Lines] = {  # table 2 of the paper
    ("BiLSTM", "gradient"): (Line(0.34, 0.21, 0.48), Line(0.36, 0.21, 0.49)),
    ("average", "gradient"): (Line(0.61, 0.20, 0.87), Line(0.60, 0.21, 0.83)),
    ("BiLSTM", "leave-one-out"): (Line(0.27, 0.19, 0.33), Line(0.32, 0.19, 0.40)),
}
COUNTED = {"train": (3034, 3321), "test": (863, 862)}  # table 1: texts of each class
WORDS = 16175  # table 1: the size of the vocabulary

DRAWN = replace(BASE, spread=None)
EXPERIMENTS = {
    "vectors": {
        "none, as spread as GloVe's": replace(BASE, vectors=0, spread=None),
        "none, spread 0.1, 300 wide": replace(BASE, vectors=0, spread=0.1, width=300),
    },
    "unknown": {
        "no vector: drawn, spread as GloVe's": DRAWN,
        "unseen in training: one zero vector": replace(BASE, every_split=False),
        "both": replace(BASE, spread=None, every_split=False),
    },
    "coverage": {f"GloVe's first {count:,} words": replace(BASE, vectors=count) for count in (20000, 10000, 5000)},
    "width": {"GloVe's, rotated into 300": replace(BASE, width=300)},
    "texts": {
        "punctuation kept": replace(BASE, words_only=False),
        "all lengths": replace(BASE, at_least=0),
        "upper case kept": replace(BASE, lowercase=False),
    },
    "rare": {"words seen at least 5 times": replace(BASE, min_count=5)},
    "epochs": {f"after epoch {count}": replace(BASE, epochs=count, choose=False) for count in (1, 2, 4, 8)},
    "decay": {"as if losses were summed": replace(BASE, decay=1e-5 / 32)},
    "logits": {"two logits, softmax": replace(BASE, logits=2)},
}

OF_GLOVE = {"coverage", "width"}


def main() -> None:
    """Train or read the models, and print what was published and what they give."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="sst2", choices=["sst2"])
    parser.add_argument("--seeds", type=int, default=5, help="of training; means over them are printed")
    parser.add_argument("--vectors", metavar="FILE", type=Path, help="word vectors as text, in the place of GloVe's")
    parser.add_argument("--models", metavar="DIR", help="where models and runs are kept; a temporary folder by default")
    parser.add_argument(
        "--experiment", nargs="+", default=[], choices=[*EXPERIMENTS, *OTHERS], help="one factor changed at a time"
    )
    parser.add_argument("--threads", type=int, default=1, help="more of them give other sums, and so other models")
    options = parser.parse_args()
    if options.vectors and set(options.experiment) & OF_GLOVE:
        parser.error(f"The experiments {', '.join(sorted(OF_GLOVE))} are about GloVe's vectors; leave out --vectors.")
    torch.set_num_threads(options.threads)
    logging.disable_progress_bar()
    source = os.environ.get("ATTNFAITH_DATA")
    if not source:
        print("left out (set ATTNFAITH_DATA)")
        return
    with tempfile.TemporaryDirectory() as temporary:
        model_folder = Path(options.models or temporary) / (options.vectors.stem if options.vectors else "glove")
        bench, seeds = Bench(Path(source), model_folder, options.vectors), range(options.seeds)
        print_texts(bench)
        print_table({encoder: summaries_of(bench, encoder, BASE, seeds) for encoder in ENCODERS})
        for name in options.experiment:
            print(f"\nexperiment {name}: mean tau of class 0 / class 1")
            if name in OTHERS:
                OTHERS[name](bench, seeds)
            else:
                print_experiment(bench, seeds, EXPERIMENTS[name])


def print_texts(bench: Bench) -> None:
    """How many texts and words there are, beside the paper's counts."""
    texts = bench.texts(BASE)
    for split, published in COUNTED.items():
        counts = texts[split]["label"].value_counts().sort_index().tolist()
        print(
            f"{split}: {counts[0]} negative and {counts[1]} positive texts (published: {published[0]}, {published[1]})"
        )
    print(f"vocabulary: {len(bench.tokenizer(BASE))} (published: {WORDS})")


def print_table(summaries: Mapping[str, Sequence[pd.DataFrame]]) -> None:
    """Published and found, side by side; ``summaries`` holds those by class of each encoder's models."""
    seeds = len(next(iter(summaries.values())))
    print(f"\nKendall's tau-b of attention: mean ± std over texts (share significant); means over {seeds} models")
    print(f"{'':<24}class  {'published':<21}{'found':<21}{'difference':<12}of single models")
    for (encoder, measure), published in PUBLISHED.items():
        models = [lines_of(summary, MEASURES[measure]) for summary in summaries[encoder]]
        for label, line in enumerate(published):
            mean, single = mean_of(models)[label], [lines[label].mean for lines in models]
            difference = mean.mean - line.mean
            mark = "" if abs(difference) <= NEAR else " !"
            print(
                f"{encoder + ' ' + measure:<24}{label:>5}  {written(line):<21}{written(mean):<21}"
                f"{f'{difference:+.3f}' + mark:<12}{min(single):.2f} to {max(single):.2f}"
            )


def print_experiment(bench: Bench, seeds: Sequence[int], variants: Mapping[str, Settings]) -> None:
    """Mean taus with and without each factor."""
    rows = [("published", list(PUBLISHED.values()))]
    for label, settings in {"as in the table": BASE, **variants}.items():
        summaries = {encoder: summaries_of(bench, encoder, settings, seeds) for encoder in ENCODERS}
        lines = {key: [lines_of(summary, MEASURES[key[1]]) for summary in summaries[key[0]]] for key in PUBLISHED}
        rows.append((label, [mean_of(models) for models in lines.values()]))
    print_rows([" ".join(key) for key in PUBLISHED], rows)


def print_definitions(bench: Bench, seeds: Sequence[int]) -> None:
    """Mean taus with other gradients of the same models."""
    names = register_definitions()
    summaries_by_encoder = [summaries_of(bench, encoder, BASE, seeds, names) for encoder in ENCODERS]
    rows = [("published", [PUBLISHED[encoder, "gradient"] for encoder in ENCODERS])]
    for name in (MEASURES["gradient"], *names):
        rows.append(
            (name, [mean_of([lines_of(summary, name) for summary in summaries]) for summaries in summaries_by_encoder])
        )
    print_rows(list(ENCODERS), rows)


def print_missing(bench: Bench, seeds: Sequence[int]) -> None:
    """Mean taus on texts with so many words that have no pretrained vector, which start as zeros or are drawn."""
    missing = bench.missing(BASE)
    print("words without a vector: " + ", ".join(f"{count} in {(missing == count).mean():.0%}" for count in range(3)))
    rows = [("published, all texts", list(PUBLISHED.values()))]
    for start, settings in (("zeros", BASE), ("drawn", DRAWN)):
        for label, chosen in (("none", missing == 0), ("one", missing == 1), ("two or more", missing >= 2)):
            cells = []
            for encoder, measure in PUBLISHED:
                tables = [bench.run(encoder, settings, seed).table("agreement") for seed in seeds]
                cells.append(mean_of([lines_on(table, MEASURES[measure], chosen) for table in tables]))
            rows.append((f"{start}: texts with {label}", cells))
    print_rows([" ".join(key) for key in PUBLISHED], rows)


OTHERS = {"gradient": print_definitions, "missing": print_missing}


def print_rows(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Lines]]]) -> None:
    """A table of pairs of means."""
    print(f"{'':<40}" + "".join(f"{column:<24}" for column in columns))
    for label, cells in rows:
        print(f"{label:<40}" + "".join(f"{f'{low.mean:.2f} / {high.mean:.2f}':<24}" for low, high in cells))


def lines_of(summary: pd.DataFrame, measure: str) -> Lines:
    """Attention with a measure, from a summary by class."""
    of_attention = summary[(summary["ranking"] == "attention") & (summary["other"] == f"input/{measure}")]
    figures = of_attention.set_index(["slice", "figure"])["value"]
    low, high = (Line(*(figures[f"class={label}", figure] for figure in FIGURES)) for label in (0, 1))
    return low, high


def lines_on(table: pd.DataFrame, measure: str, chosen: pd.Series) -> Lines:
    """Attention with a measure on chosen texts, from the rows of a run."""
    of_attention = table[(table["ranking"] == "attention") & (table["other"] == measure)]
    of_attention = of_attention[chosen[of_attention["text_id"]].to_numpy()]
    low, high = (of_attention[of_attention["prediction"] == label] for label in (0, 1))
    first, second = (
        Line(rows["tau"].mean(), rows["tau"].std(ddof=0), (rows["p"] <= 0.05).mean()) for rows in (low, high)
    )
    return first, second


def summaries_of(
    bench: Bench, encoder: str, settings: Settings, seeds: Sequence[int], rankings: Sequence[str] = ()
) -> list[pd.DataFrame]:
    """The summary by class of each seed's model."""
    return [bench.run(encoder, settings, seed, rankings).summary(by="class") for seed in seeds]


def mean_of(models: Sequence[Lines]) -> Lines:
    """The mean over models, number by number.

    Example:
        >>> mean_of([(Line(0.2, 0.1, 0.4), Line(0, 0, 0)), (Line(0.4, 0.3, 0.8), Line(1, 1, 1))])[1]
        Line(mean=0.5, deviation=0.5, significant=0.5)
    """
    low, high = (Line(*map(float, line)) for line in np.mean(models, axis=0))
    return low, high


def written(line: Line) -> str:
    """As in the paper.

    Example:
        >>> written(Line(0.34, 0.21, 0.48))
        '0.34 ± 0.21 (0.48)'
    """
    return f"{line.mean:.2f} ± {line.deviation:.2f} ({line.significant:.2f})"


if __name__ == "__main__":
    main()
