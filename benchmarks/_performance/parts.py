"""The claims about the time of an evaluation, part by part."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

import attnfaith as af
from benchmarks._performance import material, measuring, peers
from benchmarks._performance.measuring import Measured, measured
from benchmarks._performance.point import in_a_process
from benchmarks._performance.rows import Row
from benchmarks.erasure import everything_of

NO_DATA = "needs the real model and texts of ATTNFAITH_DATA"
PLAIN = "x plain"
SIZES = ("small", "usual", "full")
RANKINGS = [
    "attention",
    "input/gradient",
    "input/gradient_x_input",
    "input/lrp",
    "rollout",
    "attention/lrp",
    "attention/gradient",
    "attention/gradient_x_attention",
]
"""That cost a pass at most, so that their number is what counts."""


@dataclass(frozen=True)
class Size:
    """How much is measured: "small" to try the command, "usual" for `make bench` and the page, "full" for hours."""

    name: str

    def pick(self, small: Any, usual: Any, full: Any) -> Any:
        """The value for this size."""
        return {"small": small, "usual": usual, "full": full}[self.name]


@dataclass(frozen=True)
class Part:
    """One claim, or some that are measured together.

    Attributes:
        title: a heading.
        description: what is measured, for the page.
        run: makes the rows.
        dear: too expensive to be measured where no part is named, but in the full form.
    """

    title: str
    description: str
    run: Callable[[Size], Iterator[Row]]
    dear: bool = False


def default_evaluation(size: Size) -> Iterator[Row]:
    """`attnfaith evaluate` as it is, and the dearest of its parts."""
    chosen = material.sst(size.pick(8, 96, 872))
    if chosen is None:
        yield Row("default evaluate, minilm-sst2, sst2-dev", None, note=NO_DATA)
        return
    measurement = measured(chosen)
    yield Row(f"default evaluate, {chosen.name}", measurement.ratio, PLAIN, 80)
    yield Row("forward passes a text, without the dry run", measurement.passes, "passes")
    yield from _breakdown(measurement)
    fewer = material.sst(size.pick(4, 48, 436)) or chosen
    with without_onednn():
        ratio = measured(fewer).ratio
    yield Row(f"default evaluate on {len(fewer.texts)} texts, linear layers as PyTorch runs them", ratio, PLAIN)
    if size.name != "small":
        ratio = measured(fewer, rankings="all").ratio
        yield Row(f"evaluate with all rankings on {len(fewer.texts)} texts", ratio, PLAIN)


@contextmanager
def without_onednn() -> Iterator[None]:
    """Run linear layers as PyTorch does; see `attnfaith.adapters.linear_layers`."""
    onednn: Any = torch.backends.mkldnn
    before, onednn.enabled = onednn.enabled, False
    try:
        yield
    finally:
        onednn.enabled = before


def _breakdown(measurement: Measured) -> Iterator[Row]:
    for name, cost in measurement.parts.items():
        if cost.seconds / measurement.seconds >= 0.005 or name == "all else":
            passes = cost.positions / measurement.tokens
            note = f"{cost.seconds / measurement.seconds:.1%} of the time, {passes:.1f} forward passes a text"
            note += "; once a run, whatever the number of texts" if name == measuring.DRY_RUN else ""
            yield Row(f"... {name}", cost.seconds / measurement.plain, PLAIN, note=note)


def until_precise(size: Size) -> Iterator[Row]:
    """Texts are read until the intervals are narrow enough."""
    work = "default evaluate with precision=.05, over plain inference of all texts"
    if "precision" not in inspect.signature(af.Evaluator.compute).parameters:
        yield Row(work, None, limit=20, note="this version has no precision=")
        return
    chosen = material.sst(size.pick(4, 872, 872))
    if chosen is None:
        yield Row(work, None, limit=20, note=NO_DATA)
        return
    yield Row(f"{work}; {chosen.name}", measured(chosen, precision=0.05).ratio, PLAIN, 20)


def long_texts(size: Size) -> Iterator[Row]:
    """Passes of a text by its length, in a model whose decision nothing flips."""
    shape = size.pick("tiny", "MiniLM (6 x 384)", "BERT-base (12 x 768)")
    lengths = size.pick((16, 32), (128, 512), (128, 256, 512, 1024))
    passes = []
    for length in lengths:
        chosen = material.bert(shape, length=length, count=2, decided=True)
        measurement = measured(chosen, n_resamples=99)
        passes.append(measurement.passes)
        yield Row(
            chosen.name, measurement.passes, "passes a text", 400, note=f"{measurement.ratio:.0f} times plain inference"
        )
    yield Row(f"passes at {lengths[-1]} tokens over those at {lengths[0]}", passes[-1] / passes[0], "", 1.25)


def throughput(size: Size) -> Iterator[Row]:
    """Tokens a second inside a run, over those of plain inference at its best batch size."""
    chosen = material.sst(size.pick(8, 64, 256))
    shape, length = size.pick(("tiny", 32), ("MiniLM (6 x 384)", 128), ("BERT-base (12 x 768)", 128))
    for candidate in (chosen, material.bert(shape, length=length, count=size.pick(4, 8, 16), decided=True)):
        if candidate is None:
            yield Row("tokens a second in a run, minilm-sst2", None, limit=0.8, least=True, note=NO_DATA)
            continue
        options = {"rankings": ["attention"], "level": "input", "tests": ["erasure"], "n_resamples": 99}
        measurement = measured(candidate, **options)
        named = "attention and the random order erased at the input"
        yield Row(f"{named}, {candidate.name}", measurement.throughput, "x plain", 0.8, least=True)
        everything = measured(candidate, n_resamples=99)
        note = "backward passes take time, but add no positions"
        yield Row(f"everything by default, {candidate.name}", everything.throughput, "x plain", note=note)


def networks(size: Size) -> Iterator[Row]:
    """The models of the papers, with the exact optimum."""
    texts = size.pick(64, 1000, 5000)
    for name in ("FLANrnn", "HANrnn"):
        captures, everything = everything_of(name, texts, rounds=size.pick(1, 2, 3), clock=measuring.now)
        work = f"{name}, every ranking, the optimum and single weights, {texts} texts of 400 words"
        yield Row(work, everything, PLAIN, 1.3, note=f"the captures alone: {captures:.2f}")


def processes(size: Size) -> Iterator[Row]:
    """Two processes of one thread over one."""
    texts = size.pick(32, 96, 872)
    real = {"kind": "sst"} if os.environ.get("ATTNFAITH_DATA") else {"kind": "bert", "shape": "tiny", "length": 32}
    kind = {**real, "count": texts}
    specs = [{"material": kind, "shared": True, "rankings": ["attention"], "n_resamples": 99}]
    single, double = (in_a_process(specs, threads=1, processes=count)[0]["seconds"] for count in (1, 2))
    yield Row(f"2 processes of one thread over 1, {texts} texts", single / double, "times faster", 1.8, least=True)


def scaling(size: Size) -> Iterator[Row]:
    """How time grows with each quantity: the exponent of the power that fits best."""
    shape = size.pick("tiny", "tiny", "MiniLM (6 x 384)")
    lengths = size.pick((16, 32), (16, 64, 256, 1024), (16, 64, 256, 1024))
    options = {"n_resamples": 99}
    bert = {"kind": "bert", "shape": shape}
    specs = [{"material": {**bert, "length": length, "count": 2, "decided": True}, **options} for length in lengths]
    yield from _axis("length in tokens", lengths, specs)
    classes = size.pick((2, 20), (2, 30, 1000), (2, 30, 1000))
    specs = [{"material": {**bert, "length": 32, "count": 4, "classes": count}, **options} for count in classes]
    yield from _axis("classes", classes, specs)
    numbers = size.pick((1, 4), (1, 2, 4, 8), (1, 2, 4, 8))
    common = {"material": {**bert, "length": 64, "count": 4, "decided": True}, "level": "input", **options}
    yield from _axis("rankings", numbers, [{**common, "rankings": RANKINGS[:count]} for count in numbers])
    texts = size.pick((20, 40), (1000, 10_000), (1000, 10_000, 100_000))
    short = {"kind": "flan", "preset": "FLANnoenc", "length": 12}
    settings = {"rankings": ["attention"], "tests": ["erasure"], **options}
    yield from _axis("texts", texts, [{"material": {**short, "count": count}, **settings} for count in texts])
    counts = (1, 2)
    kind = {**bert, "length": 32, "count": size.pick(32, 128, 256)}
    shared = [{"material": kind, "shared": True, "rankings": ["attention"], **options}]
    seconds = [in_a_process(shared, threads=1, processes=count)[0]["seconds"] for count in counts]
    yield Row("processes of one thread: 1, 2", exponent(counts, seconds), "exponent", note=_list(seconds, "{:.1f} s"))


def _axis(name: str, values: Sequence[int], specs: Sequence[dict[str, Any]]) -> Iterator[Row]:
    """The rows on one quantity; its points are measured in one process, the smallest first."""
    measured_points = in_a_process(specs, threads=2)
    label = f"{name}: {', '.join(f'{value:,}' for value in values)}"
    for figure, words, format_string in (("seconds", "time", "{:.2f} s"), ("passes", "passes a text", "{:.1f}")):
        points = [point[figure] for point in measured_points]
        yield Row(f"{label}; {words}", exponent(values, points), "exponent", note=_list(points, format_string))
    peaks = [point["peak"] / 2**20 for point in measured_points]
    yield Row(
        f"{label}; memory beyond the first", peaks[-1] - peaks[0], "MB", note=_list(peaks, "{:.0f} MB at the peak")
    )


def exponent(values: Sequence[float], points: Sequence[float]) -> float:
    """The slope of the straight line through the logarithms.

    Example:
        >>> exponent([1, 2, 4], [3.0, 12.0, 48.0])
        2.0
    """
    x, y = [math.log(value) for value in values], [math.log(point) for point in points]
    middle = sum(x) / len(x)
    level = sum(y) / len(y)
    total = sum((value - middle) ** 2 for value in x)
    return sum((x_value - middle) * (y_value - level) for x_value, y_value in zip(x, y, strict=True)) / total


def _list(values: Sequence[float], format_string: str) -> str:
    return ", ".join(format_string.format(value) for value in values)


def beside_peers(size: Size) -> Iterator[Row]:
    """Other libraries at the same work, on the same model and texts."""
    count = size.pick(2, 48, 256)
    chosen = material.sst(count) or material.bert("MiniLM (6 x 384)", length=32, count=count)
    yield from peers.beside(chosen, rounds=size.pick(1, 1, 3))


PARTS: dict[str, Part] = {
    "default": Part(
        "The default evaluation",
        "`attnfaith evaluate` with nothing but a model and data: wall time over that of plain inference of the same "
        "texts at its best batch size, summary and verdict included. The dry run on one text comes once, before a "
        "run. Parts below half a per cent of the time are not shown.",
        default_evaluation,
    ),
    "precision": Part(
        "Until the intervals are narrow enough",
        "With `precision=.05` texts are read until the figures of the verdict have intervals of at most ± 5 points.",
        until_precise,
        dear=True,
    ),
    "length": Part(
        "Long texts",
        "The shape of a BERT with random weights, whose decision nothing flips: the dearest case. A pass is a forward "
        "pass over as many positions as the text has; shorter ones count for less.",
        long_texts,
    ),
    "throughput": Part(
        "Throughput inside a run",
        "Positions that go through the whole model in a second, over those of plain inference; higher is better. The "
        "dry run on one text before the evaluation is left out.",
        throughput,
    ),
    "networks": Part(
        "The models of the papers",
        "HAN and FLAN presets with random weights: all rankings, the exact smallest flipping set, and single weights.",
        networks,
    ),
    "processes": Part(
        "Processes", "An evaluation of attention alone by `torchrun`, in processes of one thread.", processes
    ),
    "peers": Part(
        "Beside other libraries",
        "The time of the other library over that of attnfaith for the same work, in the same process.",
        beside_peers,
        dear=True,
    ),
    "scaling": Part(
        "How it grows",
        "The exponent e of *time ~ quantity^e* that fits best: 0 does not grow, 1 grows in proportion. Memory is that "
        "of the process at its peak.",
        scaling,
        dear=True,
    ),
}
