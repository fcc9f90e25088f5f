"""Does the verdict on a Transformer change once erased texts are in distribution? Masked fine-tuning against plain.

python -m benchmarks.masked_fine_tuning
python -m benchmarks.masked_fine_tuning --output runs/ --texts 200 --train 4000

It needs the model and texts of `docs/data.md`. What it prints is explained in `docs/reproductions.md`. With
``--output`` models and runs are kept there, and the next call continues from them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

import attnfaith as af
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.evaluation.verdict_rule import efficiency_of
from attnfaith.training import MaskedFineTuning, fit

RANKINGS = ["attention", "gradient_x_input", "lrp"]
SETTINGS = {
    "learning_rate": 2e-5,
    "batch_size": 32,
    "optimizer": "adamw",
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
    "warmup": 0.1,
}
MODELS = {"as it is": None, "tuned on": (), "tuned on, masked": (MaskedFineTuning(),)}


def trained(name: str, source: Path, folder: Path, *, texts: int, epochs: int) -> Path:
    """The folder of one of the three models; it is trained if need be."""
    start, target = source / "models" / "minilm-sst2", folder / "model"
    objectives = MODELS[name]
    if objectives is None or (target / "config.json").exists():
        return start if objectives is None else target
    tokenizer = AutoTokenizer.from_pretrained(start)
    model = AutoModelForSequenceClassification.from_pretrained(start, dtype=torch.float32)
    rows = pd.read_parquet(source / "sst2-train.parquet", columns=["text", "label"]).sample(texts, random_state=0)
    history = fit(
        model, tokenizer, rows, epochs=epochs, objectives=objectives, checkpoint_dir=folder / "checkpoints", **SETTINGS
    )
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)
    print(
        f"  {name}: losses {[round(epoch['loss'], 4) for epoch in history.epochs]}, {history.seconds:.0f} s", flush=True
    )
    return target


def accuracy(folder: Path, rows: pd.DataFrame, *, hidden: float = 0.0) -> float:
    """The share of texts that a model classifies right, with a share of the ordinary tokens hidden by the mask."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    right, generator = 0, torch.Generator().manual_seed(0)
    for start in range(0, len(rows), 64):
        part = rows.iloc[start : start + 64]
        inputs = tokenizer(part["text"].tolist(), padding=True, truncation=True, return_tensors="pt")
        ordinary = (inputs["input_ids"] != tokenizer.cls_token_id) & (inputs["input_ids"] != tokenizer.sep_token_id)
        draws = torch.rand(inputs["input_ids"].shape, generator=generator)
        inputs["attention_mask"] = inputs["attention_mask"].masked_fill(ordinary & (draws < hidden), 0)
        with torch.no_grad():
            right += int((model(**inputs).logits.argmax(-1) == torch.tensor(part["label"].to_numpy())).sum())
    return right / len(rows)


def figures(folder: Path, rows: pd.DataFrame, output: Path) -> dict[str, str]:
    """What the erasure test says of a model at the input level."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    results = af.Evaluator(model, AutoTokenizer.from_pretrained(folder)).compute(
        rows, level="input", rankings=RANKINGS, tests=["erasure"], output_dir=output
    )
    summary = SummaryLookup(results.summary())
    lines = {}
    for key in summary.keys("input"):
        median = summary.get("input", "median_fraction", key)
        never = summary.get("input", "never_flipped", key)
        lines[f"median {key[1]}"] = f"{median} ({100 * never.value:.0f} % never)"
        if key[1] == "attention":
            lines["skill"] = str(summary.get("input", "skill", key))
            lines["efficiency"] = str(efficiency_of(summary, "input", key))
    lines["verdict"] = str(results.verdict)
    return lines


def main() -> None:
    """Train, evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="keep models and runs here, and continue from them")
    parser.add_argument("--texts", type=int, default=100, help="texts to evaluate, of the development set")
    parser.add_argument("--train", type=int, default=1024, help="texts to train on")
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    source = Path(os.environ["ATTNFAITH_DATA"])
    every = pd.read_parquet(source / "sst2-dev.parquet", columns=["text", "label"])
    rows = every.sample(arguments.texts, random_state=0).reset_index(drop=True)
    with tempfile.TemporaryDirectory() as temporary:
        output = arguments.output or Path(temporary)
        for name in MODELS:
            folder = output / name.replace(", ", "-").replace(" ", "-")
            model = trained(name, source, folder, texts=arguments.train, epochs=arguments.epochs)
            print(f"{name}:")
            for hidden in (0.0, 0.5):
                print(
                    f"  accuracy, {hidden:.0%} of the words hidden: {accuracy(model, every, hidden=hidden):.3f}",
                    flush=True,
                )
            for figure, value in figures(model, rows, folder / f"run-{arguments.texts}").items():
                print(f"  {figure}: {value}", flush=True)


if __name__ == "__main__":
    main()
