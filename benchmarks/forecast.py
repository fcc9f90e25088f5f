"""The forecast of the time of an evaluation over the time it took; 1 is right, and 1.5 or 1 / 1.5 is the limit.

python -m benchmarks.forecast [--only NAME ...] [--texts NUMBER]

Real weights and texts are in the folder that ATTNFAITH_DATA names; without it that shape is left out. Run it with
nothing else on the machine: other programs that begin or end in between change what is measured.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from transformers import BertConfig, BertForSequenceClassification

import attnfaith as af

WORDS = [f"word{number}" for number in range(500)]
LIMIT = 1.5
TWO_RANKINGS = ["attention", "gradient"]
"""Few enough that a text of 512 tokens takes a BERT-base minutes, and not a quarter of an hour."""
Shape = tuple[Any, Any, Any, dict[str, Any]]


def texts(count: int, length: int, spread: int = 0) -> list[dict[str, str]]:
    """Random texts of about ``length`` words."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(count):
        size = length + (int(torch.randint(-spread, spread + 1, (), generator=generator)) if spread else 0)
        positions = torch.randint(len(WORDS), (size,), generator=generator).tolist()
        rows.append({"text": " ".join(WORDS[position] for position in positions)})
    return rows


def minilm(count: int | None) -> Shape | None:
    """A fine-tuned MiniLM on real texts of some 25 tokens."""
    folder = os.environ.get("ATTNFAITH_DATA")
    if not folder:
        return None
    data = pd.read_parquet(Path(folder) / "sst2-dev.parquet").sample(frac=1, random_state=0)
    return Path(folder) / "models" / "minilm-sst2", None, data[: count or 64], {}


def preset(name: str, count: int) -> Shape:
    """A model of the papers, on long texts of several lengths."""
    tokenizer = af.models.WordTokenizer.train([" ".join(WORDS)], min_count=1, sentences=name.startswith("HAN"))
    torch.manual_seed(0)
    model = af.models.from_preset(name, num_labels=5, tokenizer=tokenizer).eval()
    rows = texts(count, 300, 200)
    if name.startswith("HAN"):
        rows = [{"text": row["text"].replace(" word1", ". word1")} for row in rows]
    return model, tokenizer, rows, {}


def bert(count: int) -> Shape:
    """The shape of BERT-base with random weights, at 512 tokens: nothing flips."""
    tokenizer = af.models.WordTokenizer.train([" ".join(WORDS)], min_count=1)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    model = BertForSequenceClassification(config).eval()
    return model, tokenizer, texts(count, 512), {"rankings": TWO_RANKINGS}


SHAPES: dict[str, Callable[[int | None], Shape | None]] = {
    "minilm-sst2": minilm,
    "FLANrnn": lambda count: preset("FLANrnn", count or 5000),
    "HANrnn": lambda count: preset("HANrnn", count or 5000),
    "BERT-base": lambda count: bert(count or 2),
}


def main() -> None:
    """Print a line for each shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--texts", type=int, help="for each shape, instead of its own number")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.only:
        shape = SHAPES[name](arguments.texts)
        if shape is None:
            print(f"{name}: left out, since ATTNFAITH_DATA is not set")
            continue
        model, tokenizer, data, options = shape
        evaluator = af.Evaluator(model, tokenizer)
        start = time.perf_counter()
        evaluator.compute(data, label_column=None, n_resamples=99, **options)
        duration = time.perf_counter() - start
        progress = evaluator.progress
        if progress is None or progress.forecast is None:
            print(f"{name}: {len(data)} texts took {duration:.1f} s, too short for a forecast")
            continue
        ratio = progress.forecast / progress.taken
        verdict = "within" if 1 / LIMIT <= ratio <= LIMIT else "BEYOND"
        print(
            f"{name}: {len(data)} texts, forecast {progress.forecast:.1f} s, took {progress.taken:.1f} s (with the dry "
            f"run {duration:.1f} s); ratio {ratio:.2f}, {verdict} a factor of {LIMIT}"
        )


if __name__ == "__main__":
    main()
