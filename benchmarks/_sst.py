"""Jain & Wallace's models on the Stanford Sentiment Treebank: their data, training and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import attnfaith as af
from attnfaith.training import fit, recipe

ENCODERS = {"BiLSTM": "JW-lstm-additive", "average": "JW-average-additive"}


@dataclass(frozen=True)
class Settings:
    """What a model is trained on and how; the defaults are the paper's where it, or its program, says.

    Attributes:
        words_only: leave out punctuation.
        at_least: texts with fewer words are left out, and so is each split's longest; 0 keeps them all.
        lowercase: "The" and "the" are one word.
        every_split: the vocabulary has the words of validation and test texts too; if not, they are unknown.
        min_count: rarer words are unknown.
        vectors: how many of GloVe's words, the most frequent, start from its vectors.
        spread: the standard deviation of the normal numbers that others start from; None for that of the vectors.
        width: numbers of a word vector; GloVe's 50 are rotated into more.
        epochs: passes over the training texts.
        choose: take the weights of the epoch with the best validation accuracy, not the last one's.
        logits: 1 for a sigmoid, 2 for a softmax.
        decay: the weight decay.
    """

    words_only: bool = True
    at_least: int = 6
    lowercase: bool = True
    every_split: bool = True
    min_count: int = 1
    vectors: int = 40000
    spread: float | None = 0.0
    width: int = 50
    epochs: int = 8
    choose: bool = True
    logits: int = 1
    decay: float = 1e-5


BASE = Settings()


@dataclass(frozen=True)
class Bench:
    """The data, and the models and runs that are made from them.

    Attributes:
        source: the folder of the data.
        folder: where models and runs are kept.
        vectors: a file of word vectors to use instead of GloVe.
    """

    source: Path
    folder: Path
    vectors: Path | None = None

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

    def tokenizer(self, settings: Settings) -> Any:
        """A tokenizer with the words of all texts, the short ones too."""
        texts = self.texts(replace(settings, at_least=0))
        splits = texts.values() if settings.every_split else [texts["train"]]
        return af.models.WordTokenizer.train(
            pd.concat([split["text"] for split in splits]), min_count=settings.min_count, lowercase=settings.lowercase
        )

    def run(self, encoder: str, settings: Settings, seed: int, rankings: Sequence[str] = ()) -> af.Results:
        """The agreement of attention with the paper's measures (and more rankings); the model is trained if need be."""
        folder = self.folder / encoder / name_of(settings) / str(seed)
        if not (folder / "model" / "config.json").exists():
            self.train(encoder, settings, seed, folder / "model")
        return af.Evaluator(folder / "model", device="cpu").compute(
            self.texts(settings)["test"],
            rankings=["attention", *rankings],
            level="input",
            tests=[af.tests.Agreement(pairs="attention")],
            n_resamples=100,
            output_dir=folder / "-".join(("run", *rankings)),
            quiet=True,
        )

    def train(self, encoder: str, settings: Settings, seed: int, folder: Path) -> None:
        """Train a model, and save it with its tokenizer."""
        texts, tokenizer = self.texts(settings), self.tokenizer(settings)
        vectors = self._vectors(tokenizer, settings)
        torch.manual_seed(seed)
        model = af.models.from_preset(
            ENCODERS[encoder],
            tokenizer=tokenizer,
            embedding_size=vectors.matrix.shape[1] if settings.vectors else settings.width,
            initializer_range=float(vectors.matrix.std()) if settings.spread is None else settings.spread,
            num_labels=settings.logits,
            problem_type="single_label_classification",
        )
        if settings.vectors:
            model.set_word_vectors(tokenizer, vectors)
        history = fit(
            model,
            tokenizer,
            texts["train"],
            texts["dev"] if settings.choose else None,
            epochs=settings.epochs,
            patience=None,
            seed=seed,
            **recipe(ENCODERS[encoder]) | {"weight_decay": settings.decay},
        )
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
        label = f"{encoder}, {name_of(settings)}, seed {seed}"
        print(f"  {label}: epoch {history.best_epoch}, {history.seconds:.0f} s", flush=True)

    def missing(self, settings: Settings) -> pd.Series:
        """How many words of each test text start without a pretrained vector."""
        tokenizer = self.tokenizer(settings)
        known_words = set(self._vectors(tokenizer, settings).words)
        texts = self.texts(settings)["test"]["text"]
        return texts.map(lambda text: sum(word not in known_words for word in tokenizer.tokenize(text)))

    def _vectors(self, tokenizer: Any, settings: Settings) -> af.models.WordVectors:
        """The vectors of the tokenizer's words; GloVe's may be rotated into more dimensions, at the same distances."""
        words = {form for word in tokenizer.get_vocab() for form in (word, word.lower())}
        if self.vectors is not None:
            return af.models.load_vectors(self.vectors, only=words)
        folder = self.source / "glove-6b-50d"
        names = folder / "words-top40k.txt"
        needed_words = words & set(names.read_text(encoding="utf-8").splitlines()[: settings.vectors or None])
        vectors = af.models.load_vectors(folder / "vectors-top40k.float16.npy", names, only=needed_words)
        size = vectors.matrix.shape[1]
        if settings.width == size:
            return vectors
        rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((settings.width, size)))
        return replace(vectors, matrix=(vectors.matrix @ rotation.T).astype(np.float32))


def words_of(texts: pd.Series) -> pd.Series:
    """Texts without punctuation: every other sign than a letter, digit or underscore becomes a space.

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


def register_definitions() -> list[str]:
    """Register other gradients than the paper's as rankings; return their names."""
    gradients = {"signed": signed, "norm": norm, "through_attention": through_attention}
    for name, function in gradients.items():
        af.register_method(name, level="input")(function)
    return list(gradients)


def signed(model: Any, inputs: dict[str, Tensor], target: Tensor) -> Tensor:
    """The paper's gradient with signs: what speaks against the prediction is negative."""
    vectors, gradient = _gradient(model, inputs, target, hold_attention=True)
    return (vectors * gradient).sum(-1)


def norm(model: Any, inputs: dict[str, Tensor], target: Tensor) -> Tensor:
    """The length of the gradient, not multiplied by the word's vector."""
    return _gradient(model, inputs, target, hold_attention=True)[1].norm(dim=-1)


def through_attention(model: Any, inputs: dict[str, Tensor], target: Tensor) -> Tensor:
    """The paper's gradient, but attention is not held constant."""
    vectors, gradient = _gradient(model, inputs, target, hold_attention=False)
    return (vectors * gradient).sum(-1).abs()


def _gradient(model: Any, inputs: dict[str, Tensor], target: Tensor, *, hold_attention: bool) -> tuple[Tensor, Tensor]:
    """Word vectors ``[B, N, E]``, and the gradient there of the predicted class's probability."""
    with torch.enable_grad():
        vectors = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
        attended = model.attend(inputs["input_ids"], inputs["attention_mask"], inputs_embeds=vectors)
        weights = attended.weights.detach() if hold_attention else attended.weights
        logits = model.decide(torch.einsum("bn,bnd->bd", weights, attended.values))[:, 0]
        (gradient,) = torch.autograd.grad(torch.sigmoid(logits * (2 * target - 1)).sum(), vectors)
    return vectors.detach(), gradient
