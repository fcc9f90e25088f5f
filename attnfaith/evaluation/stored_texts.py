"""What a run stores of single texts, so that they can be read: a sample of texts, their scores, and each erasure.

Two tables of the run hold it. `TEXTS` has a row for each text of the sample, `STEPS` one for each of its rankings and
levels of erasing, and one for the smallest set known. The sample is the first `MOST_TEXTS` rows in the keyed random
order of the seed (of a stream, whose length is not known, the first rows), whatever processes and parts there are and
however often a run was interrupted. Nothing is run again: the logits are those that the erasure test has computed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import Eraser
from attnfaith.functional.decision import Decision
from attnfaith.functional.first_flip import Evaluate, FirstFlips
from attnfaith.functional.keyed_order import rows_at
from attnfaith.functional.schedule import LONG, schedule_of
from attnfaith.text.encoded import EncodedText

TEXTS, STEPS = "stored_texts", "stored_steps"
MOST_TEXTS = 2000
"""Texts of the sample."""
MOST_CHARACTERS = 50_000
"""Characters that are stored of a text, and of the second text of a pair."""
MOST_CLASSES = 5
"""With more classes, the outputs of the predicted, the gold and the new class are stored."""
UNITS = 1000
"""Scores are stored as whole numbers: the largest of a text, in size, is so many."""
_INTEGERS = pa.list_(pa.int32())
COLUMNS: dict[str, list[tuple[str, pa.DataType]]] = {
    TEXTS: [
        ("text_id", pa.int64()),
        ("text", pa.string()),
        ("pair", pa.string()),
        ("left_out", pa.int64()),
        ("starts", _INTEGERS),
        ("ends", _INTEGERS),
        ("segments", _INTEGERS),
        ("words", _INTEGERS),
        ("names", pa.string()),
        ("item_starts", _INTEGERS),
        ("item_ends", _INTEGERS),
    ],
    STEPS: [
        ("text_id", pa.int64()),
        ("erase_level", pa.string()),
        ("ranking_level", pa.string()),
        ("ranking", pa.string()),
        ("items", pa.int64()),
        ("scores", _INTEGERS),
        ("largest", pa.float64()),
        ("removed", _INTEGERS),
        ("flips", pa.bool_()),
        ("steps", _INTEGERS),
        ("classes", _INTEGERS),
        ("outputs", pa.list_(pa.float32())),
    ],
}
"""The columns of both tables.

`TEXTS`: the text, and how many characters of it are not stored; for each token its half-open range of characters, its
text (0, or 1 for the second of a pair) and the number of its word, each null where it has none; as JSON, the name of
each token without characters, else null; for each item of the final attention its half-open range of tokens.

`STEPS`: how many items can be erased; the scores of all items (tokens at the input level) in `UNITS` of the largest,
null where undefined; the items in the order of removal, up to the flip, else all; how many were removed at each step
that is stored, from 0 on; the classes, and their outputs at each step: probabilities, for a regression the predicted
value. The row of the smallest set has no ranking, and as ``removed`` the set.
"""


def sample_of(rows: int | None, seed: int) -> Collection[int]:
    """The row numbers of the texts that are stored.

    Args:
        rows: of the data, all parts together; None for a stream.
        seed: of the run.

    Example:
        >>> sorted(sample_of(4, seed=0)), len(sample_of(10**6, seed=0)), sample_of(None, seed=0)
        ([0, 1, 2, 3], 2000, range(0, 2000))
    """
    if rows is None:
        return range(MOST_TEXTS)
    return frozenset(rows_at(np.arange(min(rows, MOST_TEXTS)), rows, seed).tolist())


class StepRecord:
    """Keeps the logits of the steps that are evaluated of some removal orders.

    Args:
        wanted: ``[L]`` bool, the orders.

    Attributes:
        orders: the number of orders L, also of those that are not wanted.
    """

    def __init__(self, wanted: Tensor) -> None:
        self._wanted, self.orders = wanted, len(wanted)
        self._parts: list[tuple[Tensor, Tensor, Tensor]] = []

    def watch(self, evaluate: Evaluate) -> Evaluate:
        """The same function, which keeps what it computes."""

        def watched(running: Tensor, steps: Tensor) -> Tensor:
            logits = evaluate(running, steps)
            row, column = ((steps > 0) & self._wanted[running].unsqueeze(1)).nonzero(as_tuple=True)
            self._parts.append((running[row], steps[row, column], logits[row, column]))
            return logits

        return watched

    def until(self, last: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The orders ``[M]``, steps ``[M]`` and logits ``[M, C]``, by order and step, of steps up to the last.

        Args:
            last: ``[L]``, the last step that is wanted of each order.
        """
        order, step, logits = (torch.cat(parts) for parts in zip(*self._parts, strict=True))
        kept = (step <= last[order]).nonzero().squeeze(-1)
        kept = kept[(order[kept] * (int(last.max()) + 1) + step[kept]).argsort()]
        return order[kept], step[kept], logits[kept]


def tables_of(batch: Batch) -> dict[str, dict[str, list[Any]]]:
    """The rows of a batch in both tables, grouped by text; to be called after the tests."""
    steps: dict[str, list[Any]] = {name: [] for name, _ in COLUMNS[STEPS]}
    for part in (part for parts in batch.stored_steps.values() for part in parts):
        for name, values in part.items():
            steps[name] += values
    return {TEXTS: text_rows(batch), STEPS: steps}


def text_rows(batch: Batch) -> dict[str, list[Any]]:
    """The rows of a batch in the table of texts."""
    columns: dict[str, list[Any]] = {name: [] for name, _ in COLUMNS[TEXTS]}
    items = _item_ranges(batch)
    for index in batch.stored:
        encoded = batch.encoded[index]
        values = {"text_id": batch.rows[index].number, **_text_cells(encoded), **items[index]}
        for name, value in values.items():
            columns[name].append(value)
    return columns


def _text_cells(encoded: EncodedText) -> dict[str, Any]:
    texts = [text for text in (encoded.text, encoded.pair) if text is not None]
    spans = [None if span is None else [min(end, MOST_CHARACTERS) for end in span] for span in encoded.offsets]
    tokens = zip(encoded.tokens, encoded.offsets, strict=True)
    return {
        "text": encoded.text[:MOST_CHARACTERS],
        "pair": None if encoded.pair is None else encoded.pair[:MOST_CHARACTERS],
        "left_out": sum(max(0, len(text) - MOST_CHARACTERS) for text in texts),
        "starts": [None if span is None else span[0] for span in spans],
        "ends": [None if span is None else span[1] for span in spans],
        "segments": list(encoded.segments),
        "words": list(encoded.words),
        "names": json.dumps([token if span is None else None for token, span in tokens]),
    }


def _item_ranges(batch: Batch) -> dict[int, dict[str, list[int] | None]]:
    """For each text that is stored, the ranges of tokens of the items of the final attention; None where unknown."""
    items = batch.capture.items
    if items is None or items.spans is None:
        return {text: {"item_starts": None, "item_ends": None} for text in batch.stored}
    ranges: dict[int, dict[str, list[int] | None]] = {}
    for text in batch.stored:
        # positions in the batch count padding, which can be on the left
        before = torch.nn.functional.pad(batch.request.tokens[text].cumsum(0), (1, 0))
        starts, ends = before[items.spans[text][batch.capture.mask[text]]].unbind(-1)
        ranges[text] = {"item_starts": starts.tolist(), "item_ends": ends.tolist()}
    return ranges


def step_rows(
    eraser: Eraser,
    rankings: Sequence[Ranking],
    scores: Tensor,
    orders: Tensor,
    flips: FirstFlips,
    chosen: Tensor,
    record: StepRecord,
) -> dict[str, list[Any]]:
    """The rows of a batch in the table of steps: all rankings at one level of erasing.

    Args:
        eraser: of the level.
        rankings: ``R`` of them.
        scores: ``[R, B, N]``.
        orders: ``[R, B, N]``, the orders in which items were removed.
        flips: ``[R, B]``, their first flips.
        chosen: ``[R, B]``, the number of each order among those that were evaluated, ``[O]`` for each text.
        record: of the steps that were evaluated, of orders ``[O * B]``.
    """
    batch, texts = eraser.batch, erased_of(eraser)
    decision, count = batch.config.decision, len(batch.rows)
    ends = torch.where(flips.flips, flips.removed, eraser.max_removed)
    numbers = chosen * count + torch.arange(count, device=chosen.device)
    until = torch.zeros(record.orders, dtype=torch.long, device=orders.device)
    until[numbers.flatten()] = ends.flatten()
    order, step, logits = record.until(until)
    trails = _by_order(order.tolist(), step.tolist(), outputs_of(decision, logits).tolist())
    outputs, before = outputs_of(decision, batch.logits).tolist(), _labels(decision, batch.logits)
    after = [_labels(decision, line) for line in flips.logits]
    ranks = torch.where(eraser.items, eraser.items.cumsum(1) - 1, -1)  # without padding, which can be on the left
    removed = ranks.expand_as(orders).gather(2, orders).tolist()
    units, largest = in_units(scores, eraser.items)
    counts = eraser.counts.tolist()
    flipped, stops, keys = flips.flips.tolist(), ends.tolist(), numbers.tolist()
    columns: dict[str, list[Any]] = {name: [] for name, _ in COLUMNS[STEPS]}
    for text in texts:
        for index, ranking in enumerate(rankings):
            trail = [(0, outputs[text]), *thinned(trails.get(keys[index][text], []))]
            new = after[index][text] if flipped[index][text] else before[text]
            classes = classes_of(batch, text, before[text], new)
            values = {
                "text_id": batch.rows[text].number,
                "erase_level": eraser.level,
                "ranking_level": ranking.level,
                "ranking": ranking.name,
                "items": counts[text],
                "scores": units[index][text],
                "largest": largest[index][text],
                "removed": removed[index][text][: stops[index][text]],
                "flips": flipped[index][text],
                **_trail_cells(trail, classes),
            }
            for name, value in values.items():
                columns[name].append(value)
    return columns


def smallest_rows(eraser: Eraser, sets: Tensor | None) -> dict[str, list[Any]]:
    """The rows of the smallest sets known, in the table of steps.

    Args:
        eraser: of the level.
        sets: ``[B, N]`` bool; empty where no set is known. None for no sets.
    """
    columns: dict[str, list[Any]] = {name: [] for name, _ in COLUMNS[STEPS]}
    texts = [] if sets is None else [text for text in erased_of(eraser) if bool(sets[text].any())]
    if sets is None or not texts:
        return columns
    batch, rows = eraser.batch, torch.tensor(texts, device=sets.device)
    decision = batch.config.decision
    logits = eraser.logits_without(rows, sets[rows])
    outputs, changed = (outputs_of(decision, each).tolist() for each in (batch.logits, logits))
    before, after = _labels(decision, batch.logits), _labels(decision, logits)
    for index, text in enumerate(texts):
        items = [number for number, there in enumerate(sets[text][eraser.items[text]].tolist()) if there]
        values = {
            "text_id": batch.rows[text].number,
            "erase_level": eraser.level,
            "items": int(eraser.counts[text]),
            "removed": items,
            "flips": True,
            **_trail_cells(
                [(0, outputs[text]), (len(items), changed[index])], classes_of(batch, text, before[text], after[index])
            ),
        }
        for name, column in columns.items():
            column.append(values.get(name))
    return columns


def erased_of(eraser: Eraser) -> list[int]:
    """The texts of a batch that are stored and whose items were erased: those of two items at least."""
    counts = eraser.counts.tolist()
    return [text for text in eraser.batch.stored if counts[text] >= 2]


def outputs_of(decision: Decision, logits: Tensor) -> Tensor:
    """The probabilities ``[..., C]`` of logits, in float64; for a regression the predicted value, ``[..., 1]``."""
    return logits[..., :1].double() if decision.kind == "regression" else decision.probabilities(logits.double())


def classes_of(batch: Batch, text: int, before: Sequence[int], after: Sequence[int]) -> list[int]:
    """The classes whose outputs are stored of a text: all, or those that the decision is between, and the gold one."""
    decision, gold = batch.config.decision, batch.rows[text].label
    if decision.kind == "regression":
        return [0]
    count = 2 if decision.kind == "sigmoid" else batch.logits.shape[-1]
    if count <= MOST_CLASSES:
        return list(range(count))
    golden = gold if isinstance(gold, tuple) else () if gold is None else (int(gold),)
    wanted = dict.fromkeys([*sorted({*before} ^ {*after}), *before, int(batch.target[text]), *golden])
    return sorted([*wanted][:MOST_CLASSES])


def in_units(scores: Tensor, items: Tensor) -> tuple[list[list[list[int | None]]], list[list[float]]]:
    """Scores as whole numbers in `UNITS` of the largest of their text, ``[R][B][n]``, and the largest, ``[R][B]``.

    Args:
        scores: ``[R, B, N]``; undefined ones become None.
        items: ``[B, N]`` bool.

    Example:
        >>> in_units(torch.tensor([[[0.5, -0.25, torch.nan, 9.0]]]), torch.tensor([[True, True, True, False]]))
        ([[[1000, -500, None]]], [[0.5]])
    """
    values = torch.where(items, scores.double(), 0.0)
    finite = values.abs().masked_fill(~values.isfinite(), 0.0)
    largest = finite.amax(-1)
    shares = (values / torch.where(largest > 0, largest, 1.0).unsqueeze(-1)).clamp(-1, 1)
    undefined = shares.isnan()
    whole = (shares.masked_fill(undefined, 0.0) * UNITS).round().long()
    lines = zip(
        whole.flatten(0, 1).tolist(), undefined.flatten(0, 1).tolist(), [*items.tolist()] * len(scores), strict=True
    )
    units = [[None if no else value for value, no, there in zip(*line, strict=True) if there] for line in lines]
    size = len(items)
    return [units[start : start + size] for start in range(0, len(units), size)], largest.tolist()


def thinned(trail: Sequence[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Some of the steps of a trail where it has more than `LONG`: those of the schedule, and the last two.

    Example:
        >>> [step for step, _ in thinned([(step, None) for step in range(1, 101)])][-4:]
        [86, 93, 99, 100]
    """
    if len(trail) <= LONG:
        return list(trail)
    count = torch.tensor([len(trail)])
    kept = {*schedule_of(count, count > 0)[0].tolist(), len(trail) - 1}
    return [trail[number - 1] for number in sorted(kept)]


def _trail_cells(trail: Sequence[tuple[int, Sequence[float]]], classes: list[int]) -> dict[str, Any]:
    return {
        "steps": [step for step, _ in trail],
        "classes": classes,
        "outputs": [values[number] for _, values in trail for number in classes],
    }


def _by_order(
    orders: Sequence[int], steps: Sequence[int], outputs: Sequence[Sequence[float]]
) -> dict[int, list[tuple[int, Sequence[float]]]]:
    """The steps of each order with their outputs, ascending."""
    trails: dict[int, list[tuple[int, Sequence[float]]]] = {}
    for order, step, values in zip(orders, steps, outputs, strict=True):
        trails.setdefault(order, []).append((step, values))
    return trails


def _labels(decision: Decision, logits: Tensor) -> list[list[int]]:
    """The classes that each of some logits ``[M, C]`` decides for; none for a regression."""
    if decision.kind == "regression":
        return [[] for _ in logits]
    if decision.kind == "multilabel":
        return [row.nonzero().flatten().tolist() for row in decision.labels_on(logits)]
    return [[label] for label in decision.predict(logits).tolist()]
