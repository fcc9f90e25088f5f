"""Jain & Wallace's correlations of attention with other measures on the Stanford Sentiment Treebank, trained anew.

python -m benchmarks.jain_wallace sst2
python -m benchmarks.jain_wallace sst2 --models runs/
python -m benchmarks.jain_wallace sst2 --models runs/ --seeds 3 --experiment unknown

It needs the texts and word vectors of `docs/data.md`. What it prints is explained in `docs/reproductions.md`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

import attnfaith as af
from attnfaith.training import fit, recipe

ENCODERS = {"BiLSTM": "JW-lstm-additive", "average": "JW-average-additive"}
MEASURES = {"gradient": "gradient_attention_fixed", "leave-one-out": "leave_one_out"}
NEAR = 0.05
"""A mean tau further from the published one than this has a cause that an experiment shows."""


class Line(NamedTuple):
    """Kendall's tau of attention with a measure, on the texts of one predicted class."""

    mean: float
    deviation: float  # over texts
    significant: float


FIGURES = ("tau", "tau_sd", "significant")
"""Their names in a summary."""

Measured = dict[tuple[str, int], Line]
"""By measure and predicted class."""

PUBLISHED = {  # table 2 of the paper: by encoder, measure and predicted class
    ("BiLSTM", "gradient"): (Line(0.34, 0.21, 0.48), Line(0.36, 0.21, 0.49)),
    ("average", "gradient"): (Line(0.61, 0.20, 0.87), Line(0.60, 0.21, 0.83)),
    ("BiLSTM", "leave-one-out"): (Line(0.27, 0.19, 0.33), Line(0.32, 0.19, 0.40)),
}
COUNTED = {"train": (3034, 3321), "test": (863, 862)}  # table 1: texts of each class


@dataclass(frozen=True)
class Settings:
    """What a model is trained on and how; the defaults are the paper's, or the plainest where it does not say.

    Attributes:
        words_only: leave out punctuation.
        at_least: texts with fewer words are left out, and so is each split's longest; 0 keeps them all.
        lowercase: "The" and "the" are one word.
        every_split: words of the validation and test texts have vectors of their own, too, though they are not trained.
        min_count: rarer words are unknown.
        vectors: whether words start from GloVe's vectors; if not, and where it has none, from normal numbers.
        spread: the standard deviation of those; None for that of GloVe's.
        width: numbers of a word vector; GloVe's 50 are rotated into more.
        epochs: passes over the training texts.
        choose: take the weights of the epoch with the best validation accuracy, not the last one's.
        logits: 1 for a sigmoid, 2 for a softmax.
        decay: of weights.
    """

    words_only: bool = True
    at_least: int = 6
    lowercase: bool = True
    every_split: bool = True
    min_count: int = 1
    vectors: bool = True
    spread: float | None = 0.0
    width: int = 50
    epochs: int = 8
    choose: bool = True
    logits: int = 1
    decay: float = 1e-5


BASE = Settings()
EXPERIMENTS = {
    "vectors": {
        "all drawn, as spread as GloVe's": replace(BASE, vectors=False, spread=None),
        "all drawn, spread 0.1, 300 wide": replace(BASE, vectors=False, spread=0.1, width=300),
    },
    "unknown": {
        "no vector: drawn, as spread as GloVe's": replace(BASE, spread=None),
        "unseen in training: unknown": replace(BASE, every_split=False),
        "both": replace(BASE, spread=None, every_split=False),
    },
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


def main() -> None:
    """Train or read the models, and print what was published and what they give."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="sst2", choices=["sst2"])
    parser.add_argument("--seeds", type=int, default=5, help="of training; means over them are printed")
    parser.add_argument("--models", metavar="DIR", help="where models and runs are kept; a temporary folder by default")
    parser.add_argument("--experiment", nargs="*", default=[], choices=EXPERIMENTS, help="one factor changed at a time")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    source = os.environ.get("ATTNFAITH_DATA")
    if not source:
        print("left out (set ATTNFAITH_DATA)")
        return
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(Path(source), Path(options.models or temporary), options.seeds)
        bench.show_texts()
        base = {encoder: bench.measured(encoder, BASE) for encoder in ENCODERS}
        print_table(base)
        for name in options.experiment:
            found = {"as above": base}
            for label, settings in EXPERIMENTS[name].items():
                found[label] = {encoder: bench.measured(encoder, settings) for encoder in ENCODERS}
            print_experiment(name, found)


@dataclass(frozen=True)
class Bench:
    """The data, where models are kept, and how many of each are trained."""

    source: Path
    models: Path
    seeds: int

    def texts(self, settings: Settings) -> dict[str, pd.DataFrame]:
        """The three splits, as the settings want them."""
        return {split: self._split(split, settings) for split in ("train", "dev", "test")}

    def _split(self, split: str, settings: Settings) -> pd.DataFrame:
        texts = pd.read_parquet(self.source / f"sst2-{split}.parquet", columns=["text", "label"])
        words = words_of(texts["text"])
        lengths = words.str.split().str.len()
        if settings.words_only:
            texts["text"] = words
        if settings.at_least:
            texts = texts[lengths.between(settings.at_least, lengths.max(), inclusive="left")]
        return texts.reset_index(drop=True)

    def show_texts(self) -> None:
        """How many texts there are, beside the paper's counts."""
        for split, published in COUNTED.items():
            counts = self.texts(BASE)[split]["label"].value_counts().sort_index().tolist()
            print(f"{split}: {counts[0]} negative and {counts[1]} positive texts (published: {published})")

    def measured(self, encoder: str, settings: Settings) -> list[Measured]:
        """What each seed's model gives."""
        found = []
        for seed in range(self.seeds):
            folder = self.models / encoder / name_of(settings) / str(seed)
            if not (folder / "model" / "config.json").exists():
                self._train(encoder, settings, seed, folder / "model")
            evaluator = af.Evaluator(folder / "model", device="cpu")
            results = evaluator.compute(
                self.texts(settings)["test"],
                rankings=["attention"],
                level="input",
                tests=[af.tests.Agreement(pairs="attention")],
                n_resamples=100,
                output_dir=folder / "run",
                quiet=True,
            )
            found.append(lines_of(results.summary(by="class")))
        return found

    def _train(self, encoder: str, settings: Settings, seed: int, folder: Path) -> None:
        texts = self.texts(settings)
        read = self.texts(replace(settings, at_least=0)) if settings.every_split else {"train": texts["train"]}
        words = af.models.WordTokenizer.train(
            pd.concat([split["text"] for split in read.values()]),
            min_count=settings.min_count,
            lowercase=settings.lowercase,
        )
        vectors = self._vectors(words, settings)
        spread = float(vectors.matrix.std()) if settings.spread is None else settings.spread
        torch.manual_seed(seed)
        model = af.models.from_preset(
            ENCODERS[encoder],
            tokenizer=words,
            embedding_size=settings.width,
            initializer_range=spread,
            num_labels=settings.logits,
            problem_type="single_label_classification",
        )
        if settings.vectors:
            model.set_word_vectors(words, vectors)
        history = fit(
            model,
            words,
            texts["train"],
            texts["dev"] if settings.choose else None,
            epochs=settings.epochs,
            patience=None,
            seed=seed,
            **recipe(ENCODERS[encoder]) | {"weight_decay": settings.decay},
        )
        words.save_pretrained(folder)
        model.save_pretrained(folder)
        print(f"  {encoder}, seed {seed}: epoch {history.best_epoch}, {history.seconds:.0f} s", flush=True)

    def _vectors(self, words: Any, settings: Settings) -> af.models.WordVectors:
        """GloVe's; in more numbers, as far from each other as they were."""
        folder = self.source / "glove-6b-50d"
        found = af.models.load_vectors(
            folder / "vectors-top40k.float16.npy", folder / "words-top40k.txt", only=words.get_vocab()
        )
        size = found.matrix.shape[1]
        if settings.width == size:
            return found
        generator = np.random.default_rng(0)
        rotation, _ = np.linalg.qr(generator.standard_normal((settings.width, size)))
        return replace(found, matrix=(found.matrix @ rotation.T).astype(np.float32))


def words_of(texts: pd.Series) -> pd.Series:
    """Texts without punctuation: a space stands for what is no letter, digit or underscore.

    Example:
        >>> words_of(pd.Series(["It 's well-made ."])).tolist()
        ['It s well made']
    """
    return texts.str.replace(r"\W+", " ", regex=True).str.strip()


def name_of(settings: Settings) -> str:
    """What is not as in the base.

    Example:
        >>> name_of(BASE), name_of(Settings(width=300, logits=2))
        ('base', 'width=300,logits=2')
    """
    base = asdict(BASE)
    return ",".join(f"{name}={value}" for name, value in asdict(settings).items() if value != base[name]) or "base"


def lines_of(summary: pd.DataFrame) -> Measured:
    """From a summary by class: attention with the paper's measures."""
    figures = summary[summary["ranking"] == "attention"].set_index(["other", "slice", "figure"])["value"]
    return {
        (measure, label): Line(*(figures[f"input/{name}", f"class={label}", figure] for figure in FIGURES))
        for measure, name in MEASURES.items()
        for label in (0, 1)
    }


def mean_line(found: Sequence[Measured], measure: str, label: int) -> Line:
    """The mean over models."""
    return Line(*np.mean([one[measure, label] for one in found], axis=0))


def print_table(found: Mapping[str, list[Measured]]) -> None:
    """Published and found, side by side."""
    seeds = len(next(iter(found.values())))
    print(f"\nKendall's tau-b of attention: mean ± std over texts (share significant); {seeds} models each")
    print(f"{'':<24}class  {'published':<21}{'found':<21}{'difference':<12}of single models")
    for (encoder, measure), published in PUBLISHED.items():
        for label, line in enumerate(published):
            mean = mean_line(found[encoder], measure, label)
            apart = mean.mean - line.mean
            single = [one[measure, label].mean for one in found[encoder]]
            print(
                f"{encoder + ' ' + measure:<24}{label:>5}  {written(line):<21}{written(mean):<21}"
                f"{f'{apart:+.2f}' + ('' if abs(apart) <= NEAR else ' !'):<12}{min(single):.2f} to {max(single):.2f}"
            )


def print_experiment(name: str, found: Mapping[str, Mapping[str, list[Measured]]]) -> None:
    """Mean taus by predicted class with and without each factor."""
    print(f"\nexperiment {name}: mean tau of class 0 / class 1")
    print(f"{'':<40}" + "".join(f"{encoder + ' ' + measure:<24}" for encoder, measure in PUBLISHED))
    print(f"{'published':<40}" + "".join(f"{pair_of(lines):<24}" for lines in PUBLISHED.values()))
    for label, models in found.items():
        pairs = [[mean_line(models[encoder], measure, at) for at in (0, 1)] for encoder, measure in PUBLISHED]
        print(f"{label:<40}" + "".join(f"{pair_of(lines):<24}" for lines in pairs))


def written(line: Line) -> str:
    """As in the paper.

    Example:
        >>> written(Line(0.34, 0.21, 0.48))
        '0.34 ± 0.21 (0.48)'
    """
    return f"{line.mean:.2f} ± {line.deviation:.2f} ({line.significant:.2f})"


def pair_of(lines: Sequence[Line]) -> str:
    """The means of both classes."""
    return " / ".join(f"{line.mean:.2f}" for line in lines)


if __name__ == "__main__":
    main()
