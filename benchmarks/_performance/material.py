"""The models and texts that are measured: real ones where they are at hand, else shapes with random weights."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

import attnfaith as af
from attnfaith.attribution.model_loading import load_model

WORDS = 500
SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
SHAPES = {
    "tiny": (2, 48, 96, 4),
    "MiniLM (6 x 384)": (6, 384, 1536, 12),
    "BERT-base (12 x 768)": (12, 768, 3072, 12),
}
"""Layers, width, width inside, heads."""


@dataclass(frozen=True)
class Material:
    """A model with its tokenizer, and texts.

    Attributes:
        name: in words.
        model: a classifier.
        tokenizer: its tokenizer.
        texts: to evaluate.
    """

    name: str
    model: Any
    tokenizer: Any
    texts: list[str]


def sst(count: int) -> Material | None:
    """A MiniLM that was fine-tuned on SST-2, and texts of the development set; None without ATTNFAITH_DATA."""
    folder = os.environ.get("ATTNFAITH_DATA")
    if not folder:
        return None
    texts = pd.read_parquet(Path(folder) / "sst2-dev.parquet")["text"]
    chosen = texts if count >= len(texts) else texts.sample(count, random_state=0)
    model, tokenizer = load_model(str(Path(folder) / "models" / "minilm-sst2"), None)
    return Material(f"minilm-sst2, {len(chosen)} texts of sst2-dev", model.eval(), tokenizer, chosen.tolist())


def bert(shape: str, *, length: int, count: int, classes: int = 2, decided: bool = False) -> Material:
    """A BERT of a shape with random weights, and texts of so many tokens.

    Args:
        shape: one of `SHAPES`.
        length: in tokens, special tokens included.
        count: the number of texts.
        classes: the number of classes of the model.
        decided: whether the bias of the first class is so large that nothing flips the decision.
    """
    layers, width, inner, heads = SHAPES[shape]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS + len(SPECIAL),
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=inner,
        num_attention_heads=heads,
        max_position_embeddings=max(512, length),
        num_labels=classes,
    )
    model = BertForSequenceClassification(config).eval()
    if decided:
        with torch.no_grad():
            model.classifier.bias[0] += 100
    name = f"{shape}, random weights, {count} texts of {length} tokens"
    return Material(name, model, words(), made_up(count, length - 2))


def flan(preset: str, *, length: int, count: int) -> Material:
    """A model of the papers with random weights, and texts of so many words."""
    torch.manual_seed(0)
    tokenizer = af.models.WordTokenizer.train([" ".join(vocabulary())], min_count=1)
    model = af.models.from_preset(preset, num_labels=2, tokenizer=tokenizer).eval()
    return Material(f"{preset}, {count} texts of {length} words", model, tokenizer, made_up(count, length))


@cache
def vocabulary() -> tuple[str, ...]:
    """Made-up words."""
    return tuple(f"word{number}" for number in range(WORDS))


def made_up(count: int, length: int) -> list[str]:
    """Texts of random words."""
    word_list, generator = np.array(vocabulary()), np.random.default_rng(0)
    return [" ".join(word_list[generator.integers(0, WORDS, length)]) for _ in range(count)]


def words() -> PreTrainedTokenizerFast:
    """A token for each made-up word, between [CLS] and [SEP]."""
    ids = SPECIAL | {word: number for number, word in enumerate(vocabulary(), start=len(SPECIAL))}
    backend = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, SPECIAL[name]) for name in ("[CLS]", "[SEP]")]
    )
    names = {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **{f"{name}_token": text for name, text in names.items()})
