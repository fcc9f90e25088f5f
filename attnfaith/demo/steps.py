"""The steps of the demo: train models, explain texts, write files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import typer

from attnfaith.adapters.cut import Cut
from attnfaith.attribution.attributor import Attributor
from attnfaith.attribution.explanation import Explanation
from attnfaith.demo.corpus import Review
from attnfaith.escaping import visible
from attnfaith.evaluation.results import Results
from attnfaith.models import AttentionClassifier, WordTokenizer, from_preset
from attnfaith.storage.atomic_files import put, storing
from attnfaith.training import fit, recipe

STARS = {0: "1 star", 1: "2 stars", 2: "3 stars", 3: "4 stars", 4: "5 stars"}
MODELS = {"flan": ("FLAN", "FLANrnn"), "han": ("HAN", "HANrnn")}
"""The models by file name: display name and preset."""


@dataclass(frozen=True)
class Plan:
    """The size of the demo and of its models.

    Attributes:
        train: reviews to train on.
        validation: reviews to choose the epoch by.
        held_out: reviews to evaluate on.
        epochs: the largest number of passes over the training data.
        learning_rate: larger than in the papers, which have more data.
        embedding_size: smaller than in the papers, since the vocabulary is small.
        dropout: smaller than in the papers, for the same reason.
    """

    train: int = 2000
    validation: int = 300
    held_out: int = 400
    epochs: int = 8
    learning_rate: float = 3e-3
    embedding_size: int = 64
    dropout: float = 0.1

    @property
    def reviews(self) -> int:
        """The number of reviews."""
        return self.train + self.validation + self.held_out


def train(
    preset: str, rows: Sequence[Review], plan: Plan, *, seed: int, quiet: bool
) -> tuple[AttentionClassifier, WordTokenizer]:
    """Train a model of a preset and its tokenizer on the first reviews; the others choose the epoch."""
    data = [dict(row) for row in rows]
    by_sentences = preset.startswith("HAN")
    tokenizer = WordTokenizer.train([row["text"] for row in rows[: plan.train]], min_count=1, sentences=by_sentences)
    changes: dict[str, Any] = {"embedding_size": plan.embedding_size, "id2label": STARS}
    changes |= dict.fromkeys(("input_dropout", "classifier_dropout"), plan.dropout)
    changes |= {"sentence_dropout": plan.dropout} if by_sentences else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = from_preset(preset, num_labels=len(STARS), tokenizer=tokenizer, **changes)
    settings = recipe(preset) | {"learning_rate": plan.learning_rate}
    fit(
        model, tokenizer, data[: plan.train], data[plan.train :], epochs=plan.epochs, seed=seed, quiet=quiet, **settings
    )
    return model, tokenizer


def explain(
    results: Results, cut: Cut, tokenizer: Any, texts: Sequence[str], names: Iterable[str] | None = None
) -> Any:
    """Explain the first texts of a run by its attention-level rankings: a list of explanations for each ranking."""
    seed = results.manifest["run"]["seed"]
    keys = [key.split("/") for key in results.manifest["run"]["rankings"]["attention"]]
    ranking_names = [name for level, name in keys if level == "attention" and (names is None or name in names)]
    explained: dict[str, list[Explanation]] = {}
    for name in ranking_names:
        explained[name] = Attributor(cut, tokenizer, method=name, seed=seed, batch_size=64)(list(texts))
    return explained


def write_results(folder: Path, name: str, results: Results, planted: pd.DataFrame | None = None) -> None:
    """Write the figures and tables of a run."""
    with storing(folder):
        for test in results.tests:
            results.plot(test, path=folder / "figures" / f"{name}-{test}.png")
        results.summary().to_csv(folder / "tables" / f"{name}-summary.csv", index=False)
        if planted is not None:
            planted.to_csv(folder / "tables" / f"{name}-planted.csv", index=False)


def save_model(folder: Path, model: AttentionClassifier, tokenizer: WordTokenizer) -> None:
    """Save a model and its tokenizer for Transformers."""
    with storing(folder):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file atomically."""
    with storing(path.parent):
        put(path, ("\n".join(lines) + "\n").encode())


def show_step(step: str, *, quiet: bool) -> None:
    """Show the current step on a terminal."""
    if not quiet and sys.stderr.isatty():
        typer.echo(visible(f"{step} ..."), err=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread, which is faster for models as small as these."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def no_bars() -> Iterator[None]:
    """Switch off the progress bars of Transformers for loading and saving, which take no time here."""
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    try:
        logging.disable_progress_bar()
        yield
    finally:
        if before:
            logging.enable_progress_bar()


def source_name(source: Any) -> str:
    """The path of a model or data, or its type, for the settings of the demo."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else type(source).__name__
