"""What judging every ranking costs, as ratios to plain forward passes over the same texts, measured in the same run.

python -m benchmarks.erasure
python -m benchmarks.erasure --only attention
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, LlamaConfig, LlamaForSequenceClassification

import attnfaith as af
from attnfaith.attribution.request import MethodOptions
from attnfaith.data.source import Row
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.rankings import Ranking, rankings_for
from attnfaith.evaluation.removal import TokenEraser
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.tests.single_weight.test import SingleWeight
from attnfaith.evaluation.token_hiding import hiding_for
from attnfaith.functional.decision import decision_of
from benchmarks._memory import peak_memory
from benchmarks.tail import SHAPES, bert, line, ratios, text

TEXTS, LENGTH, BATCH = 64, 128, 32
PRESET_TEXTS = 1000
SEVEN = ("attention", "gradient", "gradient_x_attention", "integrated_gradients", "lrp", "occlusion", "random")


def main() -> None:
    """Print every ratio with the limit that is claimed for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each ratio is measured; the median is printed")
    parser.add_argument("--only", choices=PARTS, help="one part by itself")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(2)
    if options.memory:
        print(evaluated(options.memory))
        return
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


def setup_for(model: Any, levels: Sequence[str], rankings: Sequence[str] = SEVEN) -> RunConfig:
    """The configuration of a run, as the Evaluator makes it, for ids in the place of texts."""
    cut = af.cut(model)
    config = RunConfig(
        cut, decision_of(model.config, model.config.num_labels), MethodOptions(pad_id=model.config.pad_token_id)
    )
    affine = cut.adapter.tail == "affine"
    rankings_by_level = {
        level: tuple(
            rankings_for(
                level, [f"attention/{name}" for name in rankings if name != "random"], {}, by_token=True, affine=affine
            )
        )
        for level in levels
    }
    return dataclasses.replace(config, rankings=rankings_by_level)


def batches(config: RunConfig, inputs: dict[str, Any], size: int = BATCH) -> list[Batch]:
    """Captured batches."""
    count = len(inputs["input_ids"])
    starts = range(0, count, size)
    pieces = [{name: value[start : start + size] for name, value in inputs.items()} for start in starts]
    return [
        Batch(config, [Row(start + index, "") for index in range(len(piece["input_ids"]))], [], piece)
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
    given = ("config", "rows", "encoded", "inputs", "capture", "profile")
    computed = ("orders", "erased", "known_sets", "stored_steps", "inexact", "_scores")
    vars(fresh).update({name: vars(batch)[name] for name in given}, **{name: {} for name in computed})
    return fresh


def attention(rounds: int) -> None:
    """All seven rankings and single weights at the final attention."""
    inputs = text(TEXTS, LENGTH)
    for name, make in models().items():
        at_attention(name, make(), inputs, rounds, naive=LENGTH * (len(SEVEN) + 1))
    real_material = real()
    if real_material is None:
        print("minilm-sst2: left out (set ATTNFAITH_DATA)")
    else:
        model, inputs = real_material
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
        lambda: batches(captured[0].config, inputs),
        judge,
        calls=1,
    )
    count, longest = inputs["input_ids"].shape
    print(f"{name}, {count} texts of up to {longest} tokens, in plain forward passes")
    line("seven rankings and single weights at the final attention", everything, 1.2)
    line("times faster than full forward passes in batches of 32", naive / everything, 300, least=True)
    print(f"  (the capture: {capture:.3f}; {sum(flipped) / len(flipped):.0%} of decisions flipped)")


def dear(rounds: int) -> None:
    """Measure rankings and bounds that run on request only."""
    model, inputs = bert(*SHAPES["MiniLM (6 x 384)"]), text(8, LENGTH)
    captured = batches(setup_for(model, ["attention"], ["random"]), inputs)

    def greedy() -> None:
        for batch in captured:
            again(batch).scores(Ranking("greedy", "attention"), "attention")

    def bounds() -> None:
        for batch in captured:
            Erasure(bounds=True).run(again(batch))

    costs = ratios(1, lambda: forward(model, inputs), greedy, bounds, calls=1)
    print(f"MiniLM (6 x 384), 8 texts of {LENGTH} tokens, in plain forward passes; on request only")
    print(f"  the greedy ranking {costs[0]:.1f}; all pairs of items {costs[1]:.1f}")


def at_input(rounds: int) -> None:
    """One ranking's prefixes, hidden from the whole model."""
    inputs = text(2, LENGTH)
    for name, make in models().items():
        model = make()
        one_ranking(name, model, inputs, rounds, limit=0.65)
    real_material = real()
    if real_material is not None:
        model, inputs = real_material
        longest = inputs["attention_mask"].sum(1).topk(4).indices
        one_ranking(
            "minilm-sst2, real texts", model, {name: value[longest] for name, value in inputs.items()}, rounds, 0.65
        )


def one_ranking(name: str, model: Any, inputs: dict[str, Any], rounds: int, limit: float) -> None:
    """One model; the naive loop runs every prefix of every text in batches of 32, and stops at nothing."""
    config = setup_for(model, ["input"])
    tokens = inputs["attention_mask"].bool()
    text_ = {key: value[:1, : int(tokens[0].sum())] for key, value in inputs.items()}
    hiding = hiding_for(config.cut, text_, hide=None, mask_id=None, left=False)
    batch = batches(dataclasses.replace(config, hiding=hiding), inputs)[0]
    eraser = TokenEraser(again(batch))
    order = eraser.order(torch.rand(tokens.shape, generator=torch.Generator().manual_seed(0)))
    results: dict[str, list[list[int]]] = {}

    def naive() -> None:
        results["naive"] = []
        with torch.no_grad():
            for row, count in enumerate(eraser.counts.tolist()):
                keep = tokens[row] & (order[row].argsort() >= torch.arange(1, count + 1).unsqueeze(1))
                keep[-1] = eraser.always_kept[row]
                logits = []
                for start in range(0, count, BATCH):
                    piece = keep[start : start + BATCH]
                    repeated = {key: value[row].expand(len(piece), -1) for key, value in inputs.items()}
                    logits.append(model(**{**repeated, "attention_mask": piece.long()}).logits)
                flips = torch.cat(logits).argmax(-1) != batch.logits[row].argmax()
                results["naive"].append([1 + int(flips.int().argmax())] if bool(flips.any()) else [])

    def ours() -> None:
        flip_result = TokenEraser(again(batch)).flips(order.unsqueeze(0), every_step=True)  # as the loop
        removed = zip(flip_result.removed[0].tolist(), flip_result.flips[0].tolist(), strict=True)
        results["ours"] = [[count] if flip else [] for count, flip in removed]

    (ratio,) = ratios(rounds, naive, ours, calls=1)
    flipped = sum(map(len, results["ours"])) / len(results["ours"])
    print(f"{name}, {len(tokens)} texts of up to {tokens.shape[1]} tokens, in naive loops over the same prefixes")
    line("one ranking at the input level", ratio, limit)
    agreement = "the same decisions" if results["ours"] == results["naive"] else "OTHER DECISIONS"
    print(f"  ({agreement}; {flipped:.0%} of decisions flipped)")


def pooled(rounds: int) -> None:
    """Everything about the models of the papers, on long texts."""
    for name in ("FLANrnn", "HANrnn"):
        captures, total = everything_of(name, PRESET_TEXTS, min(rounds, 3))
        print(f"{name}, {PRESET_TEXTS} texts of 400 words, in plain forward passes")
        line("seven rankings, the exact optimum and single weights", total - captures, 1.5)
        print(f"  (the capture: {captures:.3f}; together {total:.3f})")


def everything_of(
    name: str, count: int, rounds: int, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, float]:
    """The captures of long texts by a preset, and everything about them, in plain forward passes."""
    torch.manual_seed(0)
    model = af.models.from_preset(name, num_labels=5, vocab_size=20000).eval()
    inputs = text(count, 400)
    if model.config.by_sentences:
        inputs["input_ids"][:, 19::20] = model.config.sentence_token_id
    setup = setup_for(model, ["attention"], (*SEVEN, "optimal"))
    pieces = [{key: value[start : start + BATCH] for key, value in inputs.items()} for start in range(0, count, BATCH)]

    def capture() -> None:
        for piece in pieces:
            batches(setup, piece)

    def everything() -> None:
        for piece in pieces:
            for batch in batches(setup, piece):
                Erasure().run(batch)
                SingleWeight().run(batch)

    captures, total = ratios(rounds, lambda: forward(model, inputs), capture, everything, calls=1, clock=clock)
    return captures, total


def memory(rounds: int) -> None:
    """Resident memory after many short texts, each count in a process of its own."""
    peaks = []
    for count in (10_000, 100_000):
        command = [sys.executable, "-m", "benchmarks.erasure", "--memory", str(count)]
        peaks.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]))
    print("FLANnoenc, short texts")
    line("resident memory at 100,000 texts beyond that at 10,000, in MB", (peaks[1] - peaks[0]) / 2**20, 200)


def evaluated(count: int) -> int:
    """Bytes at the peak of an evaluation of many short texts."""
    words = [f"word{number}" for number in range(500)]
    tokenizer = af.models.WordTokenizer.train([" ".join(words)], min_count=1)
    model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer)

    def rows() -> Any:
        for number in range(count):
            yield {"text": " ".join(words[(number * 7 + index * 13) % 500] for index in range(5 + number % 6))}

    data = datasets.IterableDataset.from_generator(rows)
    with tempfile.TemporaryDirectory() as folder:
        af.Evaluator(model, tokenizer).compute(data, output_dir=folder + "/run", rankings=["attention"], quiet=True)
    return peak_memory()


PARTS: dict[str, Callable[[int], None]] = {
    "attention": attention,
    "input": at_input,
    "pooled": pooled,
    "request": dear,
    "memory": memory,
}

if __name__ == "__main__":
    main()
