"""How near the search for small flipping sets comes to the best sets known, on real texts, and what it costs.

python -m benchmarks.flipping_sets
python -m benchmarks.flipping_sets --model minilm-agnews --data ag_news-test --texts 100 --level input

The best set known of a text is the smallest that the search, any ranking (greedy too), or a beam search finds. Needs
the folder named by ATTNFAITH_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch

import attnfaith as af
from attnfaith.data.source import Row
from attnfaith.errors import UnsupportedModelError
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.rankings import Ranking, rankings_for
from attnfaith.evaluation.removal import ERASERS, Eraser
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.token_hiding import hiding_for
from attnfaith.functional.decision import decision_of
from benchmarks.tail import line

BATCH = 16


def main() -> None:
    """Print the gap at each level, and the cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="minilm-sst2")
    parser.add_argument("--data", default="sst2-dev")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--level", choices=["attention", "input", "both"], default="both")
    parser.add_argument("--beam", type=int, default=5, help="width of the beam search; 0 for none")
    parser.add_argument("--largest", type=int, default=6, help="largest set that the beam search tries")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    folder = Path(os.environ["ATTNFAITH_DATA"])
    evaluator = af.Evaluator(folder / "models" / options.model)
    texts = pd.read_parquet(folder / f"{options.data}.parquet")["text"].sample(options.texts, random_state=0).tolist()
    for level in ("attention", "input") if options.level == "both" else (options.level,):
        measure(evaluator, texts, level, options)


def measure(evaluator: af.Evaluator, texts: list[str], level: str, options: argparse.Namespace) -> None:
    """Measure the gap at one level, and print it."""
    rows, plain, searching, candidates = [], 0.0, 0.0, 0
    for batch in batches(evaluator, texts, level):
        start = time.perf_counter()
        with torch.no_grad():
            evaluator.cut.model(**batch.inputs)
        plain += time.perf_counter() - start
        with counting(level) as calls:
            start = time.perf_counter()
            alone = Erasure().run(batch)
            searching += time.perf_counter() - start
        candidates += sum(calls)
        search_sizes = dict(zip(alone["text_id"], alone["minimum_high"], strict=True))
        best = best_known(batch, level, search_sizes, options)
        counts = dict(zip(alone["text_id"], alone["items"], strict=True))
        rows += [(counts[text], search_sizes[text] or np.inf, best[text] or np.inf) for text in search_sizes]
    items, sizes, best_sizes = np.array(rows, dtype=np.float64).T
    flipped = np.isfinite(sizes)
    gap = sizes[flipped] / best_sizes[flipped] - 1
    print(f"{options.model}, {len(rows)} texts of {items.mean():.0f} tokens, erased at the level {level!r}")
    print(f"  flipped by the search {flipped.mean():.1%}, by anything {np.isfinite(best_sizes).mean():.1%}")
    line("median gap to the best set known", float(np.median(gap)), 0.1)
    print(f"  mean gap {gap.mean():.3f}; the best set known is reached on {(gap == 0).mean():.1%} of the flipped texts")
    ratio = (best_sizes[flipped] / sizes[flipped]).mean()
    print(f"  mean efficiency with the best sets over that with the search's: {ratio:.3f}")
    print(f"  cost: {candidates / len(rows):.0f} sets a text; {searching / plain:.1f} plain passes over the texts")


def batches(evaluator: af.Evaluator, texts: list[str], level: str) -> Iterator[Batch]:
    """Texts of similar length together, with the random order as their only ranking."""
    cut, reader = evaluator.cut, evaluator.encoder
    decision = decision_of(cut.model.config, cut.model.config.num_labels)
    settings = evaluator._method_options(0, None)
    config = RunConfig(cut, decision, settings, rankings={level: (Ranking("random", level),)})
    encoded = reader.encode(texts)
    order = sorted(range(len(texts)), key=lambda text: -len(encoded[text].ids))
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        rows, encoded_batch = [Row(text, texts[text]) for text in chosen], [encoded[text] for text in chosen]
        if level == "input" and config.hiding is None:
            first = Batch(config, rows[:1], encoded_batch[:1], reader.collate(encoded_batch[:1]))
            hiding = hiding_for(cut, first.inputs, hide=None, mask_id=None, left=False)
            config = replace(config, hiding=hiding, protect_deciding=hiding.protects)
        yield Batch(config, rows, encoded_batch, reader.collate(encoded_batch))


@contextmanager
def counting(level: str) -> Iterator[list[int]]:
    """Collect how many sets are evaluated at a level, call by call."""
    calls: list[int] = []
    kind: type[Eraser] = ERASERS[level]  # type: ignore[assignment]

    class Counting(kind):  # type: ignore[misc, valid-type]
        def logits_of(self, texts: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            calls.append(len(texts))
            return super().logits_of(texts, keep)

    with patch.dict(ERASERS, {level: Counting}):
        yield calls


def best_known(
    batch: Batch, level: str, search_sizes: dict[int, int | None], options: argparse.Namespace
) -> dict[int, int | None]:
    """The smallest size that the search, any ranking, or a beam search finds, by text."""
    eraser = ERASERS[level](batch)
    listed = [*rankings_for(level, "all", {}, by_token=True, affine=False), Ranking("greedy", "attention")]
    unflipped = eraser.items.shape[1] + 1
    best = torch.tensor([search_sizes.get(row.number) or unflipped for row in batch.rows])
    for ranking in dict.fromkeys(listed):
        try:
            scores = batch.scores(ranking, level)
        except UnsupportedModelError:
            continue
        flips = eraser.flips(eraser.order(scores).unsqueeze(0))
        best = torch.minimum(best, torch.where(flips.flips[0], flips.removed[0], unflipped))
    sizes = [beam(eraser, text, int(size), options) for text, size in enumerate(best)]
    return {row.number: None if size == unflipped else size for row, size in zip(batch.rows, sizes, strict=True)}


def beam(eraser: Eraser, text: int, best: int, options: argparse.Namespace) -> int:
    """The size of the smallest set that a beam search finds, if it is smaller than the best known."""
    decision, before = eraser.batch.config.decision, eraser.batch.logits[text]
    items = eraser.erasable[text].nonzero().flatten().tolist()
    states: list[tuple[int, ...]] = [()]
    for size in range(1, min(best, options.largest + 1, int(eraser.max_removed[text]) + 1)):
        sets = sorted({tuple(sorted((*state, item))) for state in states for item in items if item not in state})
        removed = torch.zeros(len(sets), eraser.items.shape[1], dtype=torch.bool)
        removed.scatter_(1, torch.tensor(sets), True)
        logits = eraser.logits_without(torch.full((len(sets),), text), removed)
        if bool(decision.flips(before.expand_as(logits), logits).any()):
            return size
        nearest = decision.margin(before.expand_as(logits), logits).argsort()[: options.beam]
        states = [sets[number] for number in nearest.tolist()]
        if not states:
            break
    return best


if __name__ == "__main__":
    main()
