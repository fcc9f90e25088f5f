"""What the scripts of this folder share: texts, word vectors, models, and results that are not computed twice."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from transformers import AutoTokenizer

import attnfaith as af
from attnfaith.demo.corpus import Review, reviews
from attnfaith.training import fit, recipe

DATA = os.environ.get("ATTNFAITH_DATA")
"""The folder of real data, as docs/data.md describes it; without it there is only the demo corpus."""
SPLITS = ("train", "dev", "test")
LENGTHS = {
    "sst2": (6, None),
    "hockey_baseball": (6, 500),
    "ag_news": (6, 60),
    "imdb": (6, 400),
    "imdb_stars": (6, 400),
    "yelp5": (6, 400),
}
"""The shortest and the longest texts that are kept, in words."""


@dataclass
class Texts:
    """The texts of one data set.

    Attributes:
        name: of the data set.
        train: a table with the columns "text" and "label"; so are the others.
        dev: for choosing the epoch.
        test: judged.
        second: the column of the second texts (hypothesis, question), for pairs.
        labels: how many classes there are.
    """

    name: str
    train: pd.DataFrame
    dev: pd.DataFrame
    test: pd.DataFrame
    second: str | None = None
    labels: int = 2

    def sizes(self) -> dict[str, Any]:
        """The numbers of texts, for the record."""
        return {"data": self.name, **{split: len(getattr(self, split)) for split in SPLITS}}

    def words(self) -> list[str]:
        """All texts of all splits."""
        columns = ["text", *([self.second] if self.second else [])]
        return [text for split in SPLITS for column in columns for text in getattr(self, split)[column]]


def read(name: str, limits: tuple[int, int, int]) -> Texts:
    """Read a data set: at most so many training, validation and test texts, drawn once and for all."""
    if name == "demo":
        rows = [
            {"text": review["text"], "label": int(review["label"] > 2), "impermissible": _mask(review)}
            for review in reviews(12 * sum(limits))
            if review["label"] != 2 and len(review["text"]) <= 160
        ]
        table, ends = pd.DataFrame(rows), np.cumsum(limits)
        parts = [table[end - limit : end].reset_index(drop=True) for limit, end in zip(limits, ends, strict=True)]
        return Texts(name, *parts)
    if DATA is None:
        raise SystemExit(
            f"--data {name} needs the folder of docs/data.md in ATTNFAITH_DATA; --data demo needs nothing."
        )
    tables = {split: _table(name, split) for split in SPLITS}
    if tables["dev"] is None:  # a tenth of the training texts
        drawn = tables["train"].sample(frac=1, random_state=0)
        tables["dev"], tables["train"] = drawn[: len(drawn) // 10], drawn[len(drawn) // 10 :]
    parts = []
    for split, limit in zip(SPLITS, limits, strict=True):
        table = tables[split]
        if name in LENGTHS:
            words = table["text"].str.split().str.len()
            table = table[words.between(LENGTHS[name][0], LENGTHS[name][1] or words.max() - 1)]
        chosen = table if len(table) <= limit else table.sample(limit, random_state=0)
        parts.append(chosen.reset_index(drop=True))
    second = next((column for column in ("hypothesis", "question") if column in parts[0]), None)
    return Texts(name, *parts, second=second, labels=int(parts[0]["label"].max()) + 1)


def _mask(review: Review) -> list[int]:
    """The words of ``text.split()`` that decide, as a mask."""
    words = [match.span() for match in re.finditer(r"\S+", review["text"])]
    return [int(any(start < high and low < end for low, high in review["ranges"])) for start, end in words]


def _table(name: str, split: str) -> pd.DataFrame | None:
    """One split as it is stored; the papers' variants of it are made here."""
    files = {
        ("ag_news", "train"): ["ag_news_sub-train"],
        ("babi1", "train"): ["babi1_10k-train"],
        ("babi2", "train"): ["babi2_10k-train"],
        ("snli", "train"): ["cad_nli-train", "snli-dev"],
        ("snli", "dev"): [],
        ("imdb_stars", "train"): ["imdb-train"],
        ("imdb_stars", "dev"): [],
        ("imdb_stars", "test"): ["imdb-test"],
        ("yelp5", "train"): ["yelp5-dev"],
        ("yelp5", "dev"): [],
    }.get((name, split), [f"{name}-{split}"])
    paths = [Path(str(DATA), f"{file}.parquet") for file in files]
    if not paths or (split == "dev" and not paths[0].exists()):
        return None
    table = pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)
    if name == "ag_news":  # the papers' pair: World against Business
        table = table[table["label"].isin([0, 2])].assign(label=lambda rows: rows["label"] // 2)
    if name == "imdb_stars":  # 1 to 4 and 7 to 10: eight classes in the place of the paper's ten
        table = table.assign(label=table["stars"].astype(int).map({1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 9: 6, 10: 7}))
    if "premise" in table:  # the papers count neutral, contradiction, entailment
        table = table.rename(columns={"premise": "text"}).assign(label=table["label"].map({1: 0, 2: 1, 0: 2}))
    columns = [name for name in ("text", "hypothesis", "question", "label", "impermissible") if name in table]
    return table[columns]


def without_punctuation(texts: Texts) -> Texts:
    """The same texts in words alone, as Jain & Wallace, and Wen et al., have them."""
    for split in SPLITS:
        table = getattr(texts, split)
        for column in ("text", *([texts.second] if texts.second else [])):
            table[column] = table[column].str.replace(r"\W+", " ", regex=True).str.strip()
    return texts


def glove(tokenizer: Any) -> af.models.WordVectors | None:
    """GloVe's vectors (50 numbers) of a tokenizer's words; None without real data."""
    if DATA is None:
        return None
    folder = Path(DATA) / "glove-6b-50d"
    return af.models.load_vectors(
        folder / "vectors-top40k.float16.npy", folder / "words-top40k.txt", only=set(tokenizer.get_vocab())
    )


def fresh(
    preset: str,
    texts: Texts,
    *,
    seed: int,
    tokenizer: Any,
    vectors: af.models.WordVectors | None,
    dataset: str | None = None,
    **settings: Any,
) -> Any:
    """A preset before training, with pretrained vectors if there are any."""
    torch.manual_seed(seed)
    if vectors is not None:
        settings["embedding_size"] = vectors.matrix.shape[1]
    settings = {"num_labels": texts.labels, "query": texts.second is not None} | settings
    model = af.models.from_preset(preset, tokenizer=tokenizer, dataset=dataset, **settings)
    if vectors is not None:
        model.set_word_vectors(tokenizer, vectors)
    return model


@dataclass
class Work:
    """A folder in which models, runs and results are kept: what is there is not computed again.

    Attributes:
        folder: of one paper and one data set.
        about: what the results are of: the paper, the data, settings.
    """

    folder: Path
    about: dict[str, Any]
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        stored = json.loads(self._path.read_text()) if self._path.exists() else {}
        if stored and stored["about"] != self.about:
            raise SystemExit(f"{self.folder} holds results with other settings; choose another --output.")
        self.values = stored.get("values", {})

    @property
    def _path(self) -> Path:
        return self.folder / "results.json"

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """The stored result of this name; or compute it, and store it with versions and seconds."""
        if name not in self.values:
            start = time.perf_counter()
            self.values[name] = {"result": compute(), "seconds": round(time.perf_counter() - start)}
            versions = {
                "attnfaith": af.__version__,
                "torch": torch.__version__,
                "transformers": transformers.__version__,
            }
            text = json.dumps(
                {
                    "about": self.about,
                    "versions": versions | {"python": platform.python_version()},
                    "values": self.values,
                },
                indent=1,
            )
            partial = self._path.with_suffix(".partial")
            partial.write_text(text + "\n")
            partial.replace(self._path)
            print(f"{self.folder.name}: {name}, {self.values[name]['seconds']} s", flush=True)
        return self.values[name]["result"]

    def train(
        self,
        preset: str,
        texts: Texts,
        *,
        seed: int,
        epochs: int,
        tokenizer: Any,
        vectors: af.models.WordVectors | None,
        dataset: str | None = None,
        settings: dict[str, Any] | None = None,
        name: str | None = None,
        begin: Callable[[Any], None] | None = None,
        **model_settings: Any,
    ) -> Path:
        """Train a preset on texts, once; returns the folder of model and tokenizer. ``begin`` may change the model.

        A training that was interrupted goes on from its last checkpoint.
        """
        folder = self.folder / "models" / f"{name or preset}-{seed}"
        if (folder / "history.json").exists():
            return folder
        model = fresh(preset, texts, seed=seed, tokenizer=tokenizer, vectors=vectors, dataset=dataset, **model_settings)
        if begin is not None:
            begin(model)
        columns = {"second_text_column": texts.second} if texts.second else {}
        options = recipe(preset, dataset=dataset) | (settings or {})
        checkpoints = folder / "checkpoints"
        where = {"checkpoint_dir": checkpoints, "quiet": False}
        history = fit(model, tokenizer, texts.train, texts.dev, epochs=epochs, seed=seed, **where, **columns, **options)
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
        (folder / "history.json").write_text(json.dumps({"epochs": history.epochs, "best_epoch": history.best_epoch}))
        shutil.rmtree(checkpoints)
        print(f"{folder.name}: epoch {history.best_epoch}, {history.seconds:.0f} s", flush=True)
        return folder

    def judge(self, model: Path, texts: Texts, *, run: str = "run", loaded: Any = None, **options: Any) -> af.Results:
        """Evaluate a trained model on the test texts, once; ``loaded`` is the model as it is to be run."""
        if loaded is None:
            evaluator = af.Evaluator(model, device="cpu")
        else:
            evaluator = af.Evaluator(loaded, AutoTokenizer.from_pretrained(model))
        return evaluator.compute(
            texts.test,
            second_input_column=texts.second,
            output_dir=self.folder / "runs" / f"{model.name}-{run}",
            quiet=True,
            **options,
        )


@dataclass
class Study:
    """What Jain & Wallace, and those after them, train: models of words that begin with pretrained vectors.

    Attributes:
        texts: of one data set.
        work: the folder.
        epochs: of every training; the best one on the validation texts is kept.
        tokenizer: of the words of all splits, as in the papers.
        vectors: GloVe's; a word that has none begins with zeros.
        model_settings: of every model.
    """

    texts: Texts
    work: Work
    epochs: int
    tokenizer: Any
    vectors: af.models.WordVectors | None
    model_settings: dict[str, Any]

    def fresh(self, preset: str, *, seed: int = 0) -> Any:
        """A preset before training."""
        return fresh(
            preset, self.texts, seed=seed, tokenizer=self.tokenizer, vectors=self.vectors, **self.model_settings
        )

    def train(
        self,
        preset: str,
        *,
        seed: int = 0,
        name: str | None = None,
        begin: Callable[[Any], None] | None = None,
        **settings: Any,
    ) -> Path:
        """Train a preset, once; returns its folder."""
        return self.work.train(
            preset,
            self.texts,
            seed=seed,
            epochs=self.epochs,
            tokenizer=self.tokenizer,
            vectors=self.vectors,
            settings={"patience": None} | settings,
            name=name,
            begin=begin,
            **self.model_settings,
        )


def study(
    options: argparse.Namespace, paper: str, sizes: tuple[int, int, int], epochs: int, *, punctuation: bool = False
) -> Study:
    """Read the texts of a study, at most so many; ``--texts``, ``--epochs`` and ``--small`` come first."""
    sizes = options.texts or ((120, 30, 60) if options.small else sizes)
    epochs = options.epochs or (1 if options.small else epochs)
    texts = read(options.data, sizes) if punctuation else without_punctuation(read(options.data, sizes))
    work = Work(options.output / f"{paper}-{options.data}", {"paper": paper, "epochs": epochs, **texts.sizes()})
    tokenizer = af.models.WordTokenizer.train(texts.words(), min_count=1, lowercase=True)
    vectors = glove(tokenizer)
    settings: dict[str, Any] = {"embedding_size": 50} if vectors is None else {"initializer_range": 0.0}
    if options.small:
        settings |= {"hidden_size": 16, "attention_size": 8}
    if texts.labels == 2:
        settings |= {"num_labels": 1, "problem_type": "single_label_classification"}  # one sigmoid
    return Study(texts, work, epochs, tokenizer, vectors, settings)


def accuracy_of(results: af.Results) -> dict[str, float]:
    """The share of test texts that a model gets right, with its interval."""
    summary = results.summary()
    return estimate(summary[summary["test"] == summary["test"].iloc[0]], "accuracy")  # every test has it


def estimate(summary: pd.DataFrame, figure: str, **where: Any) -> dict[str, float]:
    """One estimate of a summary: value, low, high, texts."""
    rows = summary[summary["figure"] == figure]
    for column, value in where.items():
        rows = rows[rows[column] == value]
    (row,) = rows.to_dict("records")
    return {key: float(row[key]) for key in ("value", "low", "high")} | {"texts": int(row["texts"])}


def options(paper: str, doc: str, data: list[str], **switches: str) -> argparse.Namespace:
    """The options that the scripts share; further switches with their help."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=[*data, "demo"], default=data[0] if DATA else "demo")
    parser.add_argument("--small", action="store_true", help="a few texts and epochs: to see that it runs")
    parser.add_argument("--output", type=Path, default=Path(f"{paper}-output"), help="models, runs, figures, results")
    parser.add_argument("--seeds", type=int, default=3, help="of training")
    parser.add_argument("--texts", type=int, nargs=3, metavar=("TRAIN", "DEV", "TEST"), help="at most so many texts")
    parser.add_argument("--epochs", type=int, help="of training, at most")
    for name, text in switches.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    transformers.utils.logging.disable_progress_bar()
    return parser.parse_args()
