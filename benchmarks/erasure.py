"""What judging every ranking costs, as ratios to plain forward passes over the same texts, measured in the same run.

python -m benchmarks.erasure
python -m benchmarks.erasure --only attention
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, LlamaConfig, LlamaForSequenceClassification

import attnfaith as af
from attnfaith.attribution.request import Settings
from attnfaith.evaluation.batch import Batch, Setup
from attnfaith.evaluation.data import Row
from attnfaith.evaluation.erasure import Erasure
from attnfaith.evaluation.rankings import rankings_for
from attnfaith.evaluation.single_weight import SingleWeight
from attnfaith.functional.decision import decision_of
from benchmarks.tail import SHAPES, bert, line, ratios, text

TEXTS, LENGTH, BATCH = 64, 128, 32
SEVEN = ("attention", "gradient", "gradient_x_attention", "integrated_gradients", "lrp", "occlusion", "random")


def main() -> None:
    """Print every ratio with the limit that is claimed for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each ratio is measured; the median is printed")
    parser.add_argument("--only", choices=PARTS, help="one part by itself")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(2)
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(options.rounds)


def models() -> dict[str, Callable[[], Any]]:
    """The shapes that are claimed for, with random weights."""
    return {**{name: lambda shape=shape: bert(*shape) for name, shape in SHAPES.items()}, "Llama (8 x 512)": llama}


def llama() -> LlamaForSequenceClassification:
    """A small Llama with grouped heads."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=30522,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        pad_token_id=0,
        num_labels=2,
    )
    return LlamaForSequenceClassification(config).eval()


def setup_for(model: Any, levels: Sequence[str], rankings: Sequence[str] = SEVEN) -> Setup:
    """As the Evaluator makes it, for ids in the place of texts."""
    cut = af.cut(model)
    setup = Setup(cut, decision_of(model.config, model.config.num_labels), Settings(pad_id=model.config.pad_token_id))
    affine = cut.adapter.path == "affine"
    found = {
        level: tuple(
            rankings_for(
                level, [f"attention/{name}" for name in rankings if name != "random"], {}, by_token=True, affine=affine
            )
        )
        for level in levels
    }
    return dataclasses.replace(setup, rankings=found)


def batches(setup: Setup, inputs: dict[str, Any], size: int = BATCH) -> list[Batch]:
    """Captured batches."""
    count = len(inputs["input_ids"])
    starts = range(0, count, size)
    pieces = [{name: value[start : start + size] for name, value in inputs.items()} for start in starts]
    return [
        Batch(setup, [Row(start + place, "") for place in range(len(piece["input_ids"]))], [], piece)
        for start, piece in zip(starts, pieces, strict=True)
    ]


def forward(model: Any, inputs: dict[str, Any], size: int = BATCH) -> None:
    """Plain passes in batches."""
    with torch.no_grad():
        for start in range(0, len(inputs["input_ids"]), size):
            model(**{name: value[start : start + size] for name, value in inputs.items()})


def again(batch: Batch) -> Batch:
    """The same captured batch, with nothing else computed yet."""
    fresh = object.__new__(Batch)
    kept = {name: vars(batch)[name] for name in ("setup", "rows", "encoded", "inputs", "capture")}
    vars(fresh).update(kept, _scores={})
    return fresh


def attention(rounds: int) -> None:
    """All seven rankings and single weights at the final attention."""
    inputs = text(TEXTS, LENGTH)
    for name, make in models().items():
        at_attention(name, make(), inputs, rounds, naive=LENGTH * (len(SEVEN) + 1))
    found = real()
    if found is None:
        print("minilm-sst2: left out (set ATTNFAITH_DATA)")
    else:
        model, inputs = found
        lengths = inputs["attention_mask"].sum(1)
        at_attention("minilm-sst2, real texts", model, inputs, rounds, naive=int(lengths.double().mean()) * 8)


def real() -> tuple[Any, dict[str, Any]] | None:
    """A fine-tuned model and the longest of its test texts."""
    folder = os.environ.get("ATTNFAITH_DATA")
    if not folder:
        return None
    import pandas as pd

    path = Path(folder) / "models" / "minilm-sst2"
    model = AutoModelForSequenceClassification.from_pretrained(path, dtype=torch.float32).eval()
    texts = pd.read_parquet(Path(folder) / "sst2-test.parquet").text
    texts = texts[texts.str.len().sort_values(ascending=False).index[:TEXTS]].tolist()
    return model, dict(AutoTokenizer.from_pretrained(path)(texts, padding=True, return_tensors="pt"))


def at_attention(name: str, model: Any, inputs: dict[str, Any], rounds: int, *, naive: int) -> None:
    """One model."""
    captured = batches(setup_for(model, ["attention"]), inputs)
    flipped: list[float] = []

    def judge() -> None:
        flipped.clear()
        for batch in captured:
            fresh = again(batch)
            censored = Erasure().run(fresh)["censored"]
            flipped.append(1 - sum(censored) / len(censored))
            SingleWeight().run(fresh)

    capture, everything = ratios(
        rounds,
        lambda: forward(model, inputs),
        lambda: batches(captured[0].setup, inputs),
        judge,
        calls=1,
    )
    count, longest = inputs["input_ids"].shape
    print(f"{name}, {count} texts of up to {longest} tokens, in plain forward passes")
    line("seven rankings and single weights at the final attention", everything, 1.2)
    line("times faster than full forward passes in batches of 32", naive / everything, 300, least=True)
    print(f"  (the capture: {capture:.3f}; {sum(flipped) / len(flipped):.0%} of decisions flipped)")


PARTS: dict[str, Callable[[int], None]] = {"attention": attention}

if __name__ == "__main__":
    main()
