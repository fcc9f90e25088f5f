"""What a run stores of single texts, so that they can be read: a sample of texts, their scores, and each erasure.

Two tables of the run hold it. `TEXTS` has a row for each text of the sample, `STEPS` one for each of its rankings and
levels of erasing, and one for the smallest set known. The sample is the first `MOST_TEXTS` rows in the keyed random
order of the seed (of a stream, whose length is not known, the first rows), whatever processes and parts there are and
however often a run was interrupted. Nothing is run again: the logits are those that the erasure test has computed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
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
PROFILED = "storing texts"
"""The name of this work in `Evaluator.profile`."""
MOST_TEXTS = 2000
"""Texts of the sample."""
MOST_CHARACTERS = 50_000
"""Characters that are stored of a text, and of the second text of a pair."""
MOST_CLASSES = 5
"""With more classes, the outputs of the predicted, the gold and the new class are stored."""
UNITS = 1000
"""Scores are stored as whole numbers, scaled so that the largest absolute score of a text is this number."""
_INTEGERS = pa.list_(pa.int32())
_TEXT_ID = pa.field("text_id", pa.int64(), nullable=False)
SCHEMAS = {
    TEXTS: pa.schema(
        [
            _TEXT_ID,
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
        ]
    ),
    STEPS: pa.schema(
        [
            _TEXT_ID,
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
        ]
    ),
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
        """The orders ``[M]``, steps ``[M]`` and logits ``[M, C]`` of steps up to the last.

        Args:
            last: ``[L]``, the last step that is wanted of each order.
        """
        order, step, logits = (torch.cat(parts) for parts in zip(*self._parts, strict=True))
        kept = step <= last[order]
        return order[kept], step[kept], logits[kept]


def tables_of(batch: Batch) -> dict[str, pa.Table]:
    """The rows of a batch in both tables; to be called after the tests."""
    parts = [part for level in batch.stored_steps.values() for part in level]
    return {TEXTS: text_rows(batch), STEPS: pa.concat_tables([SCHEMAS[STEPS].empty_table(), *parts])}


def text_rows(batch: Batch) -> pa.Table:
    """The rows of a batch in the table of texts."""
    encoded = [batch.encoded[text] for text in batch.stored]
    pairs = [text.pair for text in encoded]
    spans = [[(None, None) if span is None else span for span in text.offsets] for text in encoded]
    starts, ends = _item_ranges(batch)
    columns = {
        "text_id": [batch.rows[text].number for text in batch.stored],
        "text": [text.text[:MOST_CHARACTERS] for text in encoded],
        "pair": [None if pair is None else pair[:MOST_CHARACTERS] for pair in pairs],
        "left_out": [_left_out(text.text) + _left_out(text.pair or "") for text in encoded],
        "starts": [[_stored_index(start) for start, _ in listed] for listed in spans],
        "ends": [[_stored_index(end) for _, end in listed] for listed in spans],
        "segments": [text.segments for text in encoded],
        "words": [text.words for text in encoded],
        "names": [_names(text) for text in encoded],
        "item_starts": starts,
        "item_ends": ends,
    }
    schema = SCHEMAS[TEXTS]
    return pa.Table.from_arrays([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _left_out(text: str) -> int:
    return max(0, len(text) - MOST_CHARACTERS)


def _stored_index(index: int | None) -> int | None:
    return None if index is None else min(index, MOST_CHARACTERS)


def _names(encoded: EncodedText) -> str:
    tokens = zip(encoded.tokens, encoded.offsets, strict=True)
    return json.dumps([token if span is None else None for token, span in tokens])


def _item_ranges(batch: Batch) -> tuple[list[Any], list[Any]]:
    """For each text that is stored, the ranges of tokens of the items of the final attention; None where unknown."""
    items = batch.capture.items
    if items is None or items.spans is None:
        return [None] * len(batch.stored), [None] * len(batch.stored)
    # positions in the batch count padding, which can be on the left
    before = torch.nn.functional.pad(batch.request.tokens.cumsum(1), (1, 0)).cpu().numpy()
    spans, mask = items.spans.cpu().numpy(), batch.capture.mask.cpu().numpy()
    ranges = [before[text][spans[text][mask[text]]] for text in batch.stored]
    return [each[:, 0] for each in ranges], [each[:, 1] for each in ranges]


def step_rows(
    eraser: Eraser,
    rankings: Sequence[Ranking],
    scores: Tensor,
    orders: Tensor,
    flips: FirstFlips,
    chosen: Tensor,
    record: StepRecord,
) -> pa.Table:
    """The rows of a batch in the table of steps: all rankings at one level of erasing.

    It is made of whole arrays: a loop over rows would take as long as erasing takes on the smallest models.

    Args:
        eraser: of the level.
        rankings: ``R`` of them.
        scores: ``[R, B, N]``.
        orders: ``[R, B, N]``, the orders in which items were removed.
        flips: ``[R, B]``, their first flips.
        chosen: ``[R, B]``, the number of each order among those that were evaluated, ``[O]`` for each text.
        record: of the steps that were evaluated, of orders ``[O * B]``.
    """
    batch, decision = eraser.batch, eraser.batch.config.decision
    texts = torch.tensor(erased_of(eraser), device=orders.device)
    rows = torch.arange(len(texts) * len(rankings), device=orders.device).view(len(texts), -1)

    def by_row(values: Tensor) -> Tensor:  # [R, B, ...] to [rows, ...], the rankings of a text one after the other
        return values[:, texts].transpose(0, 1).flatten(0, 1)

    text = texts.repeat_interleave(len(rankings))
    flipped, items = by_row(flips.flips), eraser.items[text]
    ends = torch.where(flipped, by_row(flips.removed), eraser.max_removed[text])
    order_of_row = by_row(chosen) * len(batch.rows) + text
    until = torch.zeros(record.orders, dtype=torch.long, device=orders.device)
    until[order_of_row] = ends
    order, step, logits = record.until(until)
    row_of_order = torch.zeros_like(until)
    row_of_order[order_of_row] = rows.flatten()
    trail = Trail.of(
        torch.cat((rows.flatten(), row_of_order[order])),
        torch.cat((torch.zeros_like(text), step)),
        torch.cat((outputs_of(decision, batch.logits[text]), outputs_of(decision, logits))),
    ).thinned()
    units, undefined, largest = in_units(by_row(scores), items)
    ranks = (eraser.items.cumsum(1) - 1)[text]  # without padding, which can be on the left
    removed = torch.arange(orders.shape[2], device=orders.device) < ends.unsqueeze(1)
    return _steps_table(
        batch,
        text,
        eraser,
        {
            "ranking_level": [ranking.level for ranking in rankings] * len(texts),
            "ranking": [ranking.name for ranking in rankings] * len(texts),
            "scores": _lists(units, items, undefined),
            "largest": _array(largest),
            "removed": _lists(ranks.gather(1, by_row(orders)), removed),
            "flips": _array(flipped),
        },
        trail,
        torch.where(flipped.unsqueeze(1), by_row(flips.logits), batch.logits[text]),
    )


def smallest_rows(eraser: Eraser, sets: Tensor) -> pa.Table:
    """The rows of the smallest sets known, in the table of steps.

    Args:
        eraser: of the level.
        sets: ``[B, N]`` bool; empty where no set is known.
    """
    batch, decision = eraser.batch, eraser.batch.config.decision
    known = sets.any(1).tolist()
    text = torch.tensor([index for index in erased_of(eraser) if known[index]], dtype=torch.long, device=sets.device)
    if not len(text):
        return SCHEMAS[STEPS].empty_table()
    logits, rows = eraser.logits_without(text, sets[text]), torch.arange(len(text), device=sets.device)
    return _steps_table(
        batch,
        text,
        eraser,
        {
            "removed": _lists((eraser.items.cumsum(1) - 1)[text], sets[text]),
            "flips": [True] * len(text),
        },
        Trail.of(
            torch.cat((rows, rows)),
            torch.cat((torch.zeros_like(text), sets[text].sum(1))),
            outputs_of(decision, torch.cat((batch.logits[text], logits))),
        ),
        logits,
    )


@dataclass(frozen=True)
class Trail:
    """The outputs of the model at the steps of several rows, by row and step.

    Attributes:
        rows: ``[S]``, the row of each step, from 0, ascending.
        steps: ``[S]``, how many items are removed, ascending within a row.
        outputs: ``[S, C]``.
    """

    rows: Tensor
    steps: Tensor
    outputs: Tensor

    @classmethod
    def of(cls, rows: Tensor, steps: Tensor, outputs: Tensor) -> Trail:
        """The same steps in any order."""
        order = (rows * (int(steps.max()) + 1) + steps).argsort()
        return cls(rows[order], steps[order], outputs[order])

    def thinned(self) -> Trail:
        """Without some steps of rows that have more than `LONG`: those of the schedule are left, and the last two.

        Example:
            >>> steps = torch.arange(101)
            >>> Trail(torch.zeros_like(steps), steps, torch.zeros(101, 2)).thinned().steps[-4:]
            tensor([ 86,  93,  99, 100])
        """
        counts = self.rows.bincount()
        keep = torch.ones_like(self.rows, dtype=torch.bool)
        for row in (counts > LONG + 1).nonzero().flatten().tolist():
            last = counts[row] - 1
            keep[self.rows == row] = False
            places = torch.cat((schedule_of(last.view(1), last.view(1) > 0)[0], last.view(1) - 1, last.view(1) * 0))
            keep[int(counts[:row].sum()) + places] = True
        return Trail(self.rows[keep], self.steps[keep], self.outputs[keep])


def _steps_table(
    batch: Batch, text: Tensor, eraser: Eraser, columns: dict[str, Any], trail: Trail, after: Tensor
) -> pa.Table:
    """Rows of the table of steps.

    Args:
        batch: the texts.
        text: ``[rows]``, the text of each row.
        eraser: of the level.
        columns: those that are known; others that are not computed here are null.
        trail: of the rows.
        after: ``[rows, C]``, the logits at the end of each row.
    """
    classes = classes_of(batch, text, after).to(trail.outputs.device)
    sizes = classes.sum(1)
    counts = trail.rows.bincount(minlength=len(text))
    columns |= {
        "text_id": [batch.rows[index].number for index in text.tolist()],
        "erase_level": [eraser.level] * len(text),
        "items": _array(eraser.counts[text]),
        "steps": _list_array(counts, trail.steps),
        "classes": _list_array(sizes, classes.nonzero()[:, 1]),
        "outputs": _list_array(counts * sizes, trail.outputs[classes[trail.rows]].float()),
    }
    schema = SCHEMAS[STEPS]
    return pa.Table.from_arrays(
        [pa.array(columns.get(field.name, [None] * len(text)), field.type) for field in schema], schema=schema
    )


def _array(values: Tensor) -> pa.Array:
    return pa.array(values.cpu().numpy())


def _lists(values: Tensor, mask: Tensor, undefined: Tensor | None = None) -> pa.Array:
    """The values ``[rows, N]`` where a mask holds, as a list for each row; null where undefined."""
    return _list_array(mask.sum(1), values[mask], None if undefined is None else undefined[mask])


def _list_array(sizes: Tensor, values: Tensor, undefined: Tensor | None = None) -> pa.Array:
    """Consecutive values as lists of some sizes."""
    ends = torch.nn.functional.pad(sizes.cumsum(0), (1, 0)).to(torch.int32)
    kind = pa.float32() if values.is_floating_point() else pa.int32()
    flat = pa.array(values.cpu().numpy(), kind, mask=None if undefined is None else undefined.cpu().numpy())
    return pa.ListArray.from_arrays(_array(ends), flat)


def erased_of(eraser: Eraser) -> list[int]:
    """The texts of a batch that are stored and whose items were erased: those of two items at least."""
    counts = eraser.counts.tolist()
    return [text for text in eraser.batch.stored if counts[text] >= 2]


def outputs_of(decision: Decision, logits: Tensor) -> Tensor:
    """The probabilities ``[..., C]`` of logits, in float64; for a regression the predicted value, ``[..., 1]``."""
    return logits[..., :1].double() if decision.kind == "regression" else decision.probabilities(logits.double())


def classes_of(batch: Batch, text: Tensor, after: Tensor) -> Tensor:
    """The classes whose outputs are stored, ``[rows, C]`` bool: all, or those that the decision is between, and gold.

    Args:
        batch: the texts.
        text: ``[rows]``, the text of each row.
        after: ``[rows, C]``, the logits at the end of each row.
    """
    decision = batch.config.decision
    count = {"regression": 1, "sigmoid": 2}.get(decision.kind, batch.logits.shape[-1])
    if count <= MOST_CLASSES:
        return torch.ones(len(text), count, dtype=torch.bool)
    chosen = torch.zeros(len(text), count, dtype=torch.bool)
    before = _labels(decision, batch.logits)
    for row, (index, new) in enumerate(zip(text.tolist(), _labels(decision, after), strict=True)):
        old, gold = before[index], batch.rows[index].label
        golden = gold if isinstance(gold, tuple) else () if gold is None else (int(gold),)
        wanted = dict.fromkeys([*sorted({*old} ^ {*new}), *old, int(batch.target[index]), *golden])
        chosen[row, [*wanted][:MOST_CLASSES]] = True
    return chosen


def in_units(scores: Tensor, items: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scores as whole numbers in `UNITS` of the largest of their row, where they are undefined, and the largest.

    Args:
        scores: ``[rows, N]``.
        items: ``[rows, N]`` bool.

    Returns:
        ``[rows, N]`` long and bool, and ``[rows]``.

    Example:
        >>> in_units(torch.tensor([[0.5, -0.25, torch.nan, 9.0]]), torch.tensor([[True, True, True, False]]))[0]
        tensor([[1000, -500,    0,    0]])
    """
    values = torch.where(items, scores.double(), 0.0)
    largest = values.abs().masked_fill(~values.isfinite(), 0.0).amax(-1)
    shares = (values / torch.where(largest > 0, largest, 1.0).unsqueeze(-1)).clamp(-1, 1)
    undefined = shares.isnan()
    return (shares.masked_fill(undefined, 0.0) * UNITS).round().long(), undefined, largest


def _labels(decision: Decision, logits: Tensor) -> list[list[int]]:
    """The classes that each of some logits ``[M, C]`` decides for; none for a regression."""
    if decision.kind == "regression":
        return [[] for _ in logits]
    if decision.kind == "multilabel":
        return [row.nonzero().flatten().tolist() for row in decision.labels_on(logits)]
    return [[label] for label in decision.predict(logits).tolist()]
