"""What an evaluation costs beside plain inference of the same texts, in the same process, and which part of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import torch

import attnfaith as af
from attnfaith.adapters.pass_count import PassCount, count_passes
from attnfaith.attribution.method import methods
from attnfaith.evaluation import evaluator, runner
from attnfaith.evaluation.removal import Eraser
from attnfaith.evaluation.tests.base import tests
from attnfaith.evaluation.tests.erasure import test as erasure
from attnfaith.text.encoder import TextEncoder
from benchmarks._memory import peak_memory
from benchmarks._performance.material import Material

now: Callable[[], float] = time.perf_counter
"""The clock; `time.process_time` where other programs run beside."""
DRY_RUN = "the dry run on one text"
BATCH_SIZES = (1, 4, 8, 16, 32, 64)
"""Of plain inference; the fastest counts."""


@dataclass
class Cost:
    """The cost of a part of a run, without the parts inside it.

    Attributes:
        seconds: seconds by the clock.
        positions: that went through the whole model, forward; a backward pass is not counted beside it.
    """

    seconds: float = 0.0
    positions: int = 0


@dataclass(frozen=True)
class Measured:
    """One run.

    Attributes:
        plain: seconds of plain inference of all texts at its best batch size.
        seconds: the seconds of the run, with its summary and verdict.
        tokens: the number of tokens of all texts.
        positions: that went through the whole model for these texts, without the dry run.
        peak: bytes of resident memory at the peak of the process so far.
        flipped: the share of rows of the erasure test in which the decision flips; None where it was not run.
        parts: the cost of each part, the dearest first.
    """

    plain: float
    seconds: float
    tokens: int
    positions: int
    peak: int
    flipped: float | None
    parts: dict[str, Cost] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Plain inferences."""
        return self.seconds / self.plain

    @property
    def passes(self) -> float:
        """Forward passes of a text, with the positions of a whole text counted as one."""
        return self.positions / self.tokens

    @property
    def throughput(self) -> float:
        """Positions a second, over those of plain inference; the dry run is in neither of the two."""
        return (self.positions / (self.seconds - self.parts[DRY_RUN].seconds)) / (self.tokens / self.plain)


def measured(material: Material, **options: Any) -> Measured:
    """Run plain inference and an evaluation of the same texts; ``options`` are those of `Evaluator.compute`."""
    plain, tokens = plain_inference(material)
    judge = af.Evaluator(material.model, material.tokenizer)
    rows = [{"text": text} for text in material.texts]
    with parts_of_a_run() as parts:
        start = now()
        results = judge.compute(rows, quiet=True, **options)
        with parts("summary and verdict"):
            str(results)
        seconds = now() - start
    flipped = None
    if "erasure" in results.tables:
        flipped = 1 - float(results.table("erasure")["censored"].mean())
    costs = dict(sorted(parts.costs.items(), key=lambda item: -item[1].seconds))
    costs["all else"] = Cost(
        seconds - sum(cost.seconds for cost in costs.values()),
        parts.passes.positions - sum(cost.positions for cost in costs.values()),
    )
    positions = parts.passes.positions - costs[DRY_RUN].positions
    peak = peak_memory()
    return Measured(plain, seconds, tokens, positions, peak, flipped, costs)


def plain_inference(material: Material) -> tuple[float, int]:
    """Seconds that all texts take in plain passes of similar lengths at the best batch size, and their tokens."""
    encoder = TextEncoder(material.tokenizer, material.model, None)
    encoded = sorted(encoder.encode(material.texts), key=lambda text: len(text.ids))
    tokens = sum(len(text.ids) for text in encoded)
    sample = encoded[:: max(1, len(encoded) // 128)]
    sizes = [size for size in BATCH_SIZES if size <= len(sample)] or [1]
    _forward(material.model, _batches(encoder, sample, sizes[-1]))
    best = min(sizes, key=lambda size: _forward(material.model, _batches(encoder, sample, size)))
    batches = _batches(encoder, encoded, best)
    return min(_forward(material.model, batches) for _ in range(2)), tokens


def _batches(encoder: TextEncoder, encoded: Sequence[Any], size: int) -> list[Any]:
    return [encoder.collate(encoded[start : start + size]) for start in range(0, len(encoded), size)]


def _forward(model: Any, batches: Sequence[Any]) -> float:
    start = now()
    with torch.inference_mode():
        for batch in batches:
            model(**batch)
    return now() - start


class Parts:
    """The parts of a run, one inside the other."""

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}
        self.passes = PassCount()
        self._inside = [Cost()]
        self._undivided = False

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count what runs inside as this part, without the parts within it; the dry run counts as one part."""
        if self._undivided:
            yield
            return
        self._undivided = name == DRY_RUN
        try:
            with self._counted(name):
                yield
        finally:
            self._undivided = False

    @contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        cost, self._inside = self.costs.setdefault(name, Cost()), [*self._inside, Cost()]
        start = now()
        with count_passes() as passes:
            yield
        duration, nested = now() - start, self._inside.pop()
        cost.seconds += duration - nested.seconds
        cost.positions += passes.positions - nested.positions
        self._inside[-1].seconds += duration
        self._inside[-1].positions += passes.positions

    def around(self, function: Callable[..., Any], name: str | Callable[..., str]) -> Callable[..., Any]:
        """The function, as a part; its name may depend on the arguments."""

        def run(*arguments: Any, **named: Any) -> Any:
            with self(name if isinstance(name, str) else name(*arguments)):
                return function(*arguments, **named)

        return run


@contextmanager
def parts_of_a_run() -> Iterator[Parts]:
    """Measure the parts of evaluations inside: captures, each ranking, erasing, the smallest sets, the other tests."""
    parts = Parts()
    with ExitStack() as stack:
        rankings = {
            key: replace(entry, run=parts.around(entry.run, f"ranking {entry.level}/{entry.name}"))
            for key, entry in methods.items()
        }
        stack.enter_context(patch.dict(methods, rankings))
        for name, kind in tests.items():
            stack.enter_context(patch.object(kind, "run", parts.around(kind.run, f"test {name}, all else")))
        erased = parts.around(Eraser.flips, lambda eraser, *_: f"erasing at the {eraser.level} level")
        stack.enter_context(patch.object(Eraser, "flips", erased))
        search = parts.around(erasure.search_sets, lambda eraser, *_: f"smallest sets at the {eraser.level} level")
        stack.enter_context(patch.object(erasure, "search_sets", search))
        stack.enter_context(patch.object(runner, "Batch", parts.around(runner.Batch, "captures")))
        dry_run = parts.around(evaluator.dry_run, DRY_RUN)
        stack.enter_context(patch.object(evaluator, "dry_run", dry_run))
        parts.passes = stack.enter_context(count_passes())  # open before models are entered, or nothing is counted
        yield parts
