"""Does the verdict on a Transformer change once erased texts are in distribution? Masked fine-tuning against plain.

python -m benchmarks.masked_fine_tuning
python -m benchmarks.masked_fine_tuning --output runs/ --texts 200 --train 4000 --learning-rate 5e-5

It needs the model and texts of `docs/data.md`. What it prints is explained in `docs/training-objectives.md`. With
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
    "batch_size": 32,
    "optimizer": "adamw",
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
    "warmup": 0.1,
}
MODELS = {"as it is": None, "tuned on": (), "tuned on, masked": (MaskedFineTuning(),)}
DRAWS = 3
"""How often tokens to hide are drawn, where accuracy on texts with holes is measured."""


def trained(name: str, source: Path, folder: Path, *, texts: int, epochs: int, rate: float) -> Path:
    """The folder of one of the three models; it is trained if need be."""
    start, target = source / "models" / "minilm-sst2", folder / "model"
    objectives = MODELS[name]
    if objectives is None or (target / "config.json").exists():
        return start if objectives is None else target
    tokenizer = AutoTokenizer.from_pretrained(start)
    model = AutoModelForSequenceClassification.from_pretrained(start, dtype=torch.float32)
    rows = pd.read_parquet(source / "sst2-train.parquet", columns=["text", "label"]).sample(texts, random_state=0)
    history = fit(
        model,
        tokenizer,
        rows,
        epochs=epochs,
        learning_rate=rate,
        objectives=objectives,
        checkpoint_dir=folder / "checkpoints",
        **SETTINGS,
    )
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)
    print(
        f"  {name}: losses {[round(epoch['loss'], 4) for epoch in history.epochs]}, {history.seconds:.0f} s", flush=True
    )
    return target


def answers(folder: Path, rows: pd.DataFrame, *, hidden: float = 0.0) -> pd.DataFrame:
    """Whether each text is classified right, and its cross-entropy (nats), with a share of its tokens hidden.

    Tokens are hidden by the attention mask, as in the evaluation. Means over ``DRAWS`` draws.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    generator, draws = torch.Generator().manual_seed(0), []
    for _ in range(DRAWS if hidden else 1):
        right, losses = [], []
        for start in range(0, len(rows), 64):
            part = rows.iloc[start : start + 64]
            inputs = tokenizer(part["text"].tolist(), padding=True, truncation=True, return_tensors="pt")
            ordinary = (inputs["input_ids"] != tokenizer.cls_token_id) & (inputs["input_ids"] != tokenizer.sep_token_id)
            drawn = torch.rand(inputs["input_ids"].shape, generator=generator) < hidden
            inputs["attention_mask"] = inputs["attention_mask"].masked_fill(ordinary & drawn, 0)
            with torch.no_grad():
                logits = model(**inputs).logits
            labels = torch.tensor(part["label"].to_numpy())
            right.append((logits.argmax(-1) == labels).double())
            losses.append(torch.nn.functional.cross_entropy(logits, labels, reduction="none").double())
        draws.append(torch.stack([torch.cat(right), torch.cat(losses)], 1))
    return pd.DataFrame(torch.stack(draws).mean(0).numpy(), columns=["accuracy", "loss"])


def with_interval(values: pd.Series) -> str:
    """A mean over texts, with its 95 % interval by the normal approximation."""
    half = 1.96 * values.sem()
    return f"{values.mean():.3f} [{values.mean() - half:.3f}, {values.mean() + half:.3f}]"


def figures(folder: Path, rows: pd.DataFrame, output: Path) -> dict[str, str]:
    """What the erasure test says of a model at the input level."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    results = af.Evaluator(model, AutoTokenizer.from_pretrained(folder)).compute(
        rows, level="input", rankings=RANKINGS, tests=["erasure", "in_distribution"], output_dir=output
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
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    source = Path(os.environ["ATTNFAITH_DATA"])
    every = pd.read_parquet(source / "sst2-dev.parquet", columns=["text", "label"])
    rows = every.sample(arguments.texts, random_state=0).reset_index(drop=True)
    with tempfile.TemporaryDirectory() as temporary:
        output = arguments.output or Path(temporary)
        folders = {name: output / name.replace(", ", "-").replace(" ", "-") for name in MODELS}
        models = {
            name: trained(
                name, source, folder, texts=arguments.train, epochs=arguments.epochs, rate=arguments.learning_rate
            )
            for name, folder in folders.items()
        }
        for hidden in (0.0, 0.5, 0.8):
            print(f"{hidden:.0%} of the tokens hidden:")
            found = {name: answers(model, every, hidden=hidden) for name, model in models.items()}
            for name, table in found.items():
                print(f"  {name}: " + ", ".join(f"{key} {with_interval(table[key])}" for key in table), flush=True)
            change = found["tuned on, masked"] - found["tuned on"]
            print(
                "  masks change: " + ", ".join(f"{key} by {with_interval(change[key])}" for key in change), flush=True
            )
        for name, model in models.items():
            print(f"{name}:")
            for figure, value in figures(model, rows, folders[name] / f"run-{arguments.texts}").items():
                print(f"  {figure}: {value}", flush=True)


if __name__ == "__main__":
    main()
