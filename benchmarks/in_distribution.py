"""Does the test `in_distribution` find texts that a model cannot know? Positive controls on a real Transformer.

python -m benchmarks.in_distribution
python -m benchmarks.in_distribution --texts 400 --models runs/

Half of the words of each text are replaced by random words of the vocabulary, or by the rarest words of the training
texts, or hidden by the attention mask; or all words change places. The p values are those of the test: beside the
whole texts, at the input of the last layer; beside it, as no part of the test, at the first position after earlier
layers, which know more of a text than the decision. With ``--models``, the output folder of
`benchmarks.masked_fine_tuning`, its models are tested too. It needs the model and texts of `docs/data.md`.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from attnfaith.evaluation.tests.in_distribution.p_values import p_value_table

ALPHA = 0.05
LAYERS = (1, 3)
TESTED = "what the last layer reads"
WHOLE = None
"""The name of a whole text in the table of the test."""


Vectors = dict[str, list[np.ndarray]]


def vectors_of(model: Any, tokenizer: Any, texts: list[str], hidden: float, seed: int) -> Vectors:
    """By place: the vector of each text, with a share of its ordinary tokens hidden by the attention mask."""
    read: dict[str, list[torch.Tensor]] = {TESTED: []} | {f"after layer {layer}": [] for layer in LAYERS}
    hook = model.classifier.register_forward_pre_hook(lambda module, inputs: read[TESTED].append(inputs[0]))
    draws = np.random.default_rng(seed)
    try:
        for start in range(0, len(texts), 32):
            inputs = tokenizer(texts[start : start + 32], padding=True, truncation=True, return_tensors="pt")
            special = torch.tensor(tokenizer.all_special_ids)
            for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True):
                ordinary = (~torch.isin(ids, special)).nonzero()[:, 0].numpy()
                mask[draws.choice(ordinary, round(hidden * len(ordinary)), replace=False)] = 0
            with torch.no_grad():
                states = model(**inputs, output_hidden_states=True).hidden_states
            for layer in LAYERS:
                read[f"after layer {layer}"].append(states[layer][:, 0])
    finally:
        hook.remove()
    return {place: list(torch.cat(parts).float().numpy()) for place, parts in read.items()}


def replaced(texts: list[str], words: list[str], seed: int) -> list[str]:
    """Half of the words of each text are others, drawn from a list."""
    draws, changed = np.random.default_rng(seed), []
    for text in texts:
        kept = text.split()
        for place in draws.choice(len(kept), (len(kept) + 1) // 2, replace=False):
            kept[place] = words[draws.integers(len(words))]
        changed.append(" ".join(kept))
    return changed


def shuffled(texts: list[str], seed: int) -> list[str]:
    """All words of each text change places."""
    draws = np.random.default_rng(seed)
    return [" ".join(draws.permutation(text.split())) for text in texts]


def controls(tokenizer: Any, texts: list[str], train: list[str], seed: int = 0) -> dict[str, tuple[list[str], float]]:
    """By name: the changed texts, and the share of their tokens to hide."""
    vocabulary = [word for word in tokenizer.get_vocab() if word.isalpha()]
    counts = Counter(word for text in train for word in text.lower().split() if word.isalpha())
    rare = sorted(word for word, count in counts.items() if count == 1)
    return {
        "half of the words from the vocabulary": (replaced(texts, sorted(vocabulary), seed), 0.0),
        "half of the words seen once in training": (replaced(texts, rare, seed), 0.0),
        "half of the tokens hidden": (texts, 0.5),
        "nine tenths of the tokens hidden": (texts, 0.9),
        "all words in another order": (shuffled(texts, seed), 0.0),
    }


def shares(model: Any, tokenizer: Any, texts: list[str], train: list[str]) -> pd.DataFrame:
    """By control: the share of p values of at most 0.05 at each place; first the whole texts."""
    rows = {WHOLE: (texts, 0.0)} | controls(tokenizer, texts, train)
    vectors = {name: vectors_of(model, tokenizer, *changed, 0) for name, changed in rows.items()}
    lengths = [len(text.split()) for text in texts]
    columns = {}
    for place in vectors[WHOLE]:
        parts = []
        for name, found in vectors.items():
            part = pd.DataFrame({"text_id": range(len(texts)), "items": lengths, "removed": 0, "length": lengths})
            level = None if name is WHOLE else "input"
            parts.append(part.assign(ranking=name, ranking_level=level, erase_level="input", vector=found[place]))
        table = p_value_table([pd.concat(parts)], combination="fisher", nearest=None, alpha=ALPHA).to_pandas()
        by_name = table.groupby(table["ranking"].fillna("whole texts"), sort=False)["p"]
        columns[place] = by_name.agg(lambda values: float((values <= ALPHA).mean()))
    return pd.DataFrame(columns)


def main() -> None:
    """Print the shares of each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=400, help="of the development set")
    parser.add_argument("--models", type=Path, help="the output of benchmarks.masked_fine_tuning")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if "ATTNFAITH_DATA" not in os.environ:
        print("left out (set ATTNFAITH_DATA)")
        return
    source = Path(os.environ["ATTNFAITH_DATA"])
    texts = pd.read_parquet(source / "sst2-dev.parquet")["text"].sample(arguments.texts, random_state=0).tolist()
    train = pd.read_parquet(source / "sst2-train.parquet")["text"].tolist()
    folders = {"as it is": source / "models" / "minilm-sst2"}
    for name in ("tuned-on", "tuned-on-masked") if arguments.models else ():
        folders[name] = arguments.models / name / "model"
    for name, folder in folders.items():
        model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
        print(f"{name}:")
        print(shares(model, AutoTokenizer.from_pretrained(folder), texts, train).round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
