"""Memory, file handles, hooks, threads and temporary folders over many small batches."""

from __future__ import annotations

import gc
import os
import random
import tempfile
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import attnfaith as af
from tests.faults import material
from tests.faults.tally import Part, Tally, times
from tests.helpers import commands

MEMORY = 6 * 2**20
"""Bytes that the second half of the batches may add to what the process holds: what an allocator keeps for itself."""
TRACED = 200_000
"""Bytes that Python objects may grow by over the traced batches."""


class State:
    """What may leak, as it is now."""

    def __init__(self, model: Any, temporary: Path) -> None:
        gc.collect()
        self.memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        self.counts = {
            "file handles": len(os.listdir("/proc/self/fd")),
            "hooks": sum(len(hooks) for module in model.modules() for hooks in _hooks(module)),
            "threads": threading.active_count(),
            "temporary files and folders": len(list(temporary.iterdir())),
            "parameters with a gradient": sum(item.grad is not None for item in model.parameters()),
            "captures": _alive(af.Capture),
            "models": _alive(type(model)),
        }


def _alive(kind: type) -> int:
    # by type(): isinstance() asks objects for their class, and some deprecated ones of other libraries warn then
    return sum(issubclass(type(item), kind) for item in gc.get_objects())


def _hooks(module: Any) -> list[Any]:
    return [value for name, value in vars(module).items() if name.endswith("_hooks") and hasattr(value, "__len__")]


def run(scale: float, seed: int) -> Tally:
    """Four kinds of work on two models, a stated number of batches each."""
    tally, draw = Tally(), random.Random(seed)
    kinds = {"capture and rerun": 40_000, "explanation": 6_000, "cut": 500, "evaluation": 400, "refused input": 6_000}
    grown: list[float] = []
    temporary, before = material.fresh("temporary"), tempfile.tempdir
    tempfile.tempdir = str(temporary)
    try:
        for family, folder in (("FLAN", material.flan_folder()), ("BERT", material.bert_folder())):
            model, tokenizer = material.loaded(folder)
            for kind, number in kinds.items():
                count = times(number / 2, scale, 4)
                work = _work(kind, model, tokenizer, draw)
                grown.append(_measured(tally, f"{kind}, {family}", work, count, model, temporary))
    finally:
        tempfile.tempdir = before
    tally.measures["most memory that the second half of the batches of any kind added"] = f"{max(grown) / 2**20:.1f} MB"
    return tally


def _work(kind: str, model: Any, tokenizer: Any, draw: random.Random) -> Callable[[], Any]:
    cut = af.cut(model)
    texts = commands.texts(64, seed=draw.randrange(1000))

    def batch() -> dict[str, Any]:
        return dict(tokenizer(draw.sample(texts, 2), padding=True, return_tensors="pt"))

    def captured() -> Any:
        capture = cut.capture(**batch())
        keep = torch.rand(capture.mask.shape[0], 2, capture.mask.shape[1]) < 0.5
        return cut.rerun(capture, keep=keep & capture.mask[:, None])

    def refused() -> None:
        inputs = batch()
        for bad in ({**inputs, "attention_mask": inputs["attention_mask"][:, :-1]}, {"input_ids": None}):
            try:
                cut.capture(**bad)
            except af.AttnFaithError:
                continue
            raise AssertionError("bad input was taken")

    attributors = [
        af.Attributor(cut, tokenizer, method="gradient_x_attention"),
        af.Attributor(cut, tokenizer, method="gradient", level="input"),
    ]
    evaluator = af.Evaluator(cut, tokenizer)

    def evaluated() -> str:
        data = [{"text": text} for text in draw.sample(texts, 4)]
        return str(evaluator.compute(data, rankings=["attention"], level="attention", n_resamples=9, quiet=True))

    return {
        "capture and rerun": captured,
        "explanation": lambda: draw.choice(attributors)(draw.sample(texts, 2)),
        "cut": lambda: af.cut(model),
        "evaluation": evaluated,
        "refused input": refused,
    }[kind]


def _measured(tally: Tally, what: str, work: Callable[[], Any], count: int, model: Any, temporary: Path) -> float:
    """Compare the state after the second half of the batches with that after the first; trace some more by object.

    Returns:
        The bytes by which the process grew.
    """
    half = count // 2
    for _ in range(max(half, 3)):
        work()
    before = State(model, temporary)
    for _ in range(count - half):
        work()
    after = State(model, temporary)
    tally.rows.setdefault(f"batches: {what}", [0, 0])
    changed = {
        name: f"{before.counts[name]} to {now}" for name, now in after.counts.items() if now > before.counts[name]
    }
    growth = after.memory - before.memory
    if growth > MEMORY:
        changed["memory"] = f"{growth / 2**20:.1f} MB more"
    traced = min(count, 200)
    tracemalloc.start()
    try:
        for _ in range(3):
            work()
        gc.collect()
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(traced):
            work()
        gc.collect()
        objects = tracemalloc.get_traced_memory()[0] - start
    finally:
        tracemalloc.stop()
    if objects > TRACED:
        changed["Python objects"] = f"{objects:,} bytes more after {traced} batches"
    row = tally.rows[f"batches: {what}"]
    row[0] += count
    row[1] += 0 if changed else count
    if changed:
        tally.failures.append((f"batches: {what}", f"grows over {count - half} batches: {changed}"))
    return growth


PART = Part(
    title="Leaks",
    promise="Work in a long-lived process leaves nothing behind: memory, file handles, hooks, threads and "
    "temporary folders are after thousands of batches what they were after the first ones.",
    run=run,
    slow=True,
    short=0.004,
)
