"""What rerunning only the tail costs, as ratios to plain forward passes measured in the same run.

python -m benchmarks.tail
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification

import attnfaith as af
from benchmarks._memory import peak_memory

SHAPES = {"MiniLM (6 x 384)": (6, 384, 1536), "BERT-base (12 x 768)": (12, 768, 3072)}


def main() -> None:
    """Print every ratio with the limit that is claimed for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="how often each ratio is measured; the median is printed")
    parser.add_argument("--memory", metavar="PATH", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(2)
    if options.memory:
        print(peak(options.memory))
        return
    for name, shape in SHAPES.items():
        transformer(name, bert(*shape), options.rounds)
    for name in ("FLANrnn", "HANrnn", "FLANnoenc", "HANnoenc"):
        pooled(name, options.rounds)
    memory()


def bert(layers: int, width: int, inner: int, positions: int = 512) -> BertForSequenceClassification:
    """A BERT of a shape, with random weights."""
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=inner,
        num_attention_heads=12,
        max_position_embeddings=positions,
    )
    return BertForSequenceClassification(config).eval()


def text(batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random token ids."""
    ids = torch.randint(1000, 20000, (batch, length), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def ratios(
    rounds: int,
    base: Callable[[], Any],
    *others: Callable[[], Any],
    calls: int = 4,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """The median over rounds of each one's time relative to the base's time in the same round."""
    for function in (base, *others):
        function()
    measured: list[list[float]] = [[] for _ in others]
    for _ in range(rounds):
        unit = seconds(base, calls, clock)
        for index, function in enumerate(others):
            measured[index].append(seconds(function, calls, clock) / unit)
    return [statistics.median(values) for values in measured]


def seconds(function: Callable[[], Any], calls: int, clock: Callable[[], float]) -> float:
    """How long a call takes, over some in a row."""
    start = clock()
    for _ in range(calls):
        function()
    return (clock() - start) / calls


def line(what: str, value: float, limit: float, *, least: bool = False) -> None:
    """One claim: its figure, and whether it holds."""
    holds = value >= limit if least else value <= limit
    print(f"  {what:<68}{value:>9.3f}   {'at least' if least else 'at most'} {limit:<6g}{'ok' if holds else 'MISSED'}")


def transformer(name: str, model: BertForSequenceClassification, rounds: int) -> None:
    """All 128 prefixes of one ranking of a 128-token text."""
    print(f"{name}, 128 tokens; in plain forward passes of the same text")
    cut = af.cut(model)
    inputs = text(1, 128)
    capture = cut.capture(**inputs)
    order = capture.weights.mean(1).argsort(descending=True)
    ranks = order.argsort(-1)
    keep = ranks.unsqueeze(1) >= torch.arange(129).view(1, -1, 1)
    batch = text(32, 128)

    def forward(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            return model(**inputs).logits

    prefixes, rerun, captured, batched = ratios(
        rounds,
        lambda: forward(inputs),
        lambda: cut.prefixes(capture, order),
        lambda: cut.rerun(capture, keep=keep),
        lambda: cut.capture(**inputs),
        lambda: forward(batch),
    )
    line("all prefixes, through prefixes", prefixes, 0.2)
    line("all prefixes, through rerun", rerun, 0.2)
    line("capture", captured, 1.15)
    line("times faster than 128 forward passes one by one", 128 / prefixes, 500, least=True)
    line("times faster than 128 forward passes in batches of 32", 4 * batched / prefixes, 200, least=True)


def pooled(name: str, rounds: int) -> None:
    """All prefixes of all texts of a batch."""
    torch.manual_seed(0)
    model = af.models.from_preset(name, num_labels=5, vocab_size=20000).eval()
    inputs = text(32, 200)
    if model.config.by_sentences:
        inputs["input_ids"][:, 19::20] = model.config.sentence_token_id
    cut = af.cut(model)
    capture = cut.capture(**inputs)
    order = capture.weights.mean(1).argsort(descending=True)

    def forward() -> torch.Tensor:
        with torch.no_grad():
            return model(**inputs).logits

    prefixes, captured = ratios(rounds, forward, lambda: cut.prefixes(capture, order), lambda: cut.capture(**inputs))
    print(f"{name}, 32 texts of 200 words; in plain forward passes of the same batch")
    line("all prefixes of all texts", prefixes, 1.0 if name.endswith("noenc") else 0.1)
    line("capture", captured, 1.15)


def memory() -> None:
    """Peak memory of 512 candidates of a 512-token text, each in a process of its own."""
    peaks = {
        path: int(
            subprocess.run(
                [sys.executable, "-m", "benchmarks.tail", "--memory", path], capture_output=True, text=True, check=True
            ).stdout
        )
        for path in ("forward", "tail")
    }
    budget = 128 * 2**20
    print("BERT-base (12 x 768), 512 tokens, 512 candidates")
    line(
        "peak memory, relative to 2 plain forward passes and the chunk budget",
        peaks["tail"] / (2 * peaks["forward"] + budget),
        1.0,
    )


def peak(path: str) -> int:
    """Bytes at the peak of one way of computing, over what the process held before it."""
    model, inputs = bert(12, 768, 3072), text(1, 512)
    cut = af.cut(model)
    before = peak_memory()
    if path == "forward":
        with torch.no_grad():
            model(**inputs)
    else:
        capture = cut.capture(**inputs)
        cut.prefixes(capture, capture.weights.mean(1).argsort(descending=True))
    return peak_memory() - before


if __name__ == "__main__":
    main()
