"""What the default settings of `attnfaith train` learn: test accuracy by preset and data.

    python -m benchmarks.training                                    # every preset on 600 short texts
    python -m benchmarks.training --data decisive,demo,sst2 --presets HANrnn,FLANrnn

"decisive": 600 texts of 5 to 15 words, of which one decides between two classes (8 words for each). "demo": 2,300
reviews of the demo's corpus, with one to five stars. "sst2": the Stanford Sentiment Treebank, if ATTNFAITH_DATA is set;
``--presets`` may name a Transformer there. Nothing is set but the seed. The test texts are others, 1,000 at most.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import attnfaith as af
from attnfaith.demo.corpus import reviews
from attnfaith.demo.review_writer import KeyedRandom
from attnfaith.training import train

DECISIVE = (
    "dreadful tedious clumsy hollow stale grating lifeless muddled".split(),
    "superb gripping delightful moving clever charming brilliant fresh".split(),
)
NOISE = "the film was about a man who lived in town and met his old friend one day with some people over tea".split()
TEST = 1000
Rows = list[dict[str, Any]]


def decisive(count: int, seed: int) -> Rows:
    """Texts of noise with one decisive word each."""
    made = []
    for number in range(count):
        draws = KeyedRandom("decisive", seed, number)
        label = int(draws.chance(0.5))
        words = [draws.pick(NOISE) for _ in range(draws.pick(range(4, 15)))]
        words.insert(draws.pick(range(len(words) + 1)), draws.pick(DECISIVE[label]))
        made.append({"text": f"{' '.join(words)}.", "label": label})
    return made


def data_called(name: str, seed: int) -> tuple[Rows, Rows]:
    """The texts to train on (some are held out), and those to test on."""
    if name == "decisive":
        return decisive(600, seed), decisive(TEST, seed + 1)
    if name == "demo":
        rows = [dict(row) for row in reviews(2300 + TEST, seed=seed)]
        return rows[TEST:], rows[:TEST]
    folder = Path(os.environ["ATTNFAITH_DATA"])
    train_rows, test = (pd.read_parquet(folder / f"{name}-{split}.parquet") for split in ("train", "test"))
    return train_rows.to_dict("records"), test.to_dict("records")[:TEST]


def accuracy(folder: str, rows: Rows) -> float:
    """The share of texts that the saved model classifies correctly."""
    model, tokenizer = (kind.from_pretrained(folder) for kind in (AutoModelForSequenceClassification, AutoTokenizer))
    right = 0
    with torch.no_grad():
        for start in range(0, len(rows), 50):
            batch = rows[start : start + 50]
            inputs = tokenizer([row["text"] for row in batch], padding=True, truncation=True, return_tensors="pt")
            right += int((model(**inputs).logits.argmax(-1) == torch.tensor([row["label"] for row in batch])).sum())
    return right / len(rows)


def main() -> None:
    """Print a table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="decisive", help="names with commas")
    parser.add_argument("--presets", default=",".join(af.models.presets()), help="names with commas")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| model | data | texts | test accuracy | validation | best of epochs | seconds |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for data in arguments.data.split(","):
        rows, test = data_called(data, arguments.seed)
        for name in arguments.presets.split(","):
            start = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                history = train(name, rows, output_dir=folder, seed=arguments.seed, quiet=True)
                figures = (
                    f"{accuracy(folder, test):.3f}",
                    f"{history.best['validation_accuracy']:.3f}",
                    f"{history.best_epoch} of {len(history.epochs)}",
                    f"{time.perf_counter() - start:.0f}",
                )
            print("|", " | ".join((Path(name).name, data, f"{len(rows):,}", *figures)), "|", flush=True)


if __name__ == "__main__":
    main()
