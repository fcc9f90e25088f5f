"""What the demo does one after the other: train, explain, leave files behind."""

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
"""Names of files, what a reader is told, and the preset."""


@dataclass(frozen=True)
class Plan:
    """How large the demo is.

    Attributes:
        train: reviews to train on.
        validation: reviews to choose the epoch by.
        held_out: reviews to evaluate on.
        epochs: passes over the training data, at most.
        learning_rate: larger than the papers', which suit larger data.
        embedding_size: smaller than the papers', and
        dropout: less, since the vocabulary is small.
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
        """All of them."""
        return self.train + self.validation + self.held_out


def train(
    preset: str, rows: Sequence[Review], plan: Plan, *, seed: int, quiet: bool
) -> tuple[AttentionClassifier, WordTokenizer]:
    """A model of a paper, and its tokenizer, trained on the first reviews; the others choose the epoch."""
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
    """The explanations behind a run at the attention level: by ranking, one for each text, the texts from row 0 on."""
    seed = results.manifest["run"]["seed"]
    keys = [key.split("/") for key in results.manifest["run"]["rankings"]["attention"]]
    wanted = [name for level, name in keys if level == "attention" and (names is None or name in names)]
    found: dict[str, list[Explanation]] = {}
    for name in wanted:
        found[name] = Attributor(cut, tokenizer, method=name, seed=seed, batch_size=64)(list(texts))
    return found


def leave(folder: Path, name: str, results: Results, planted: pd.DataFrame | None = None) -> None:
    """The figures and tables of a run."""
    with storing(folder):
        for test in results.tests:
            results.plot(test, path=folder / "figures" / f"{name}-{test}.png")
        results.summary().to_csv(folder / "tables" / f"{name}-summary.csv", index=False)
        if planted is not None:
            planted.to_csv(folder / "tables" / f"{name}-planted.csv", index=False)


def keep(folder: Path, model: AttentionClassifier, tokenizer: WordTokenizer) -> None:
    """A model and its tokenizer, to be loaded by Transformers."""
    with storing(folder):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def write(path: Path, lines: Iterable[str]) -> None:
    """A text file, whole or not at all."""
    with storing(path.parent):
        put(path, ("\n".join(lines) + "\n").encode())


def tell(what: str, *, quiet: bool) -> None:
    """Say on a terminal what is being done now."""
    if not quiet and sys.stderr.isatty():
        typer.echo(visible(f"{what} ..."), err=True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Models as small as these are faster on one core than on several."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def no_bars() -> Iterator[None]:
    """Without the bars of Transformers for loading and saving, which take no time here."""
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    try:
        logging.disable_progress_bar()
        yield
    finally:
        if before:
            logging.enable_progress_bar()


def said(thing: Any) -> str:
    """What a model or data are, for the folder of the demo."""
    return os.fspath(thing) if isinstance(thing, str | os.PathLike) else type(thing).__name__
