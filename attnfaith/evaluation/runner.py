"""The one loop: texts in batches of similar length, through every test, to files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

from attnfaith.data.source import DataSource, Row
from attnfaith.errors import AttnFaithError, InputError, NumericalError
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.tests.base import Columns, Test, decision_cells, outcome_type, schema_of, to_cell
from attnfaith.functional.decision import Decision
from attnfaith.storage.fingerprint import fingerprint_rows
from attnfaith.storage.run_store import Store
from attnfaith.text.encoded import EncodedText
from attnfaith.text.encoder import TextEncoder

SQUARES = 2**25
"""At most this many squares of items in one batch: a very long text goes by itself."""
GROWTH = 1.02
"""How much more is tried after a batch that filled its room: what used the memory up may have been somebody else's."""
TEXTS = "texts"
_COLUMNS: list[tuple[str, Any]] = [
    ("text_id", pa.int64()),
    ("prediction", None),
    ("target", pa.int64()),
    ("gold", None),
    ("confidence", pa.float64()),
    ("correct", pa.bool_()),
    ("tokens", pa.int64()),
    ("items", pa.int64()),
    ("truncated", pa.int64()),
    ("special_weight", pa.float64()),
    ("aside", pa.string()),
]


@dataclass
class Runner:
    """Takes texts through tests.

    Attributes:
        setup: what is the same for every batch.
        texts: reads texts for the model.
        tests: what is run.
        batch_size: texts in a batch.
        shard_size: rows of the data that are written together.
        room: tokens in a batch, padding included, for which there is memory; infinite until memory runs out. Half of
            what was too much is tried next, and a little more after each batch that used it up.
    """

    setup: RunConfig
    texts: TextEncoder
    tests: Sequence[Test]
    batch_size: int
    shard_size: int
    room: float = math.inf

    def run(
        self, source: DataSource, store: Store, advance: Callable[[int], None], *, index: int = 0, of: int = 1
    ) -> None:
        """Do the shards of one of several processes that are not done yet.

        Args:
            source: the data.
            store: where results go.
            advance: told how many rows are done.
            index: which process this is.
            of: how many there are.
        """
        for number, rows in source.shards(self.shard_size, index=index, of=of):
            digest = fingerprint_rows(rows)
            if store.done(number):
                store.check(number, digest)
                advance(len(rows))
            else:
                store.write(number, self.shard(rows, advance), digest)

    def shard(self, rows: Sequence[Row], advance: Callable[[int], None] = lambda amount: None) -> dict[str, pa.Table]:
        """The tables of some rows."""
        schemas = self.schemas
        found: dict[str, list[Columns]] = {name: [] for name in schemas}
        encoded, aside = encode(self.texts, rows, gold=self.setup.target == "gold")
        members = [(rows[place], one) for place, one in encoded.items()]
        advance(len(aside))
        lines = [_set_aside(rows[place], reason) for place, reason in aside.items()]
        for batch in self._batches([one for _, one in members]):
            for chosen, columns in self._evaluated([members[place] for place in batch]):
                if isinstance(columns, str):
                    lines.append(_set_aside(chosen[0][0], columns))
                else:
                    for name, values in columns.items():
                        found[name].append(values)
            advance(len(batch))
        found[TEXTS].append({name: [line[name] for line in lines] for name, _ in _COLUMNS})
        return {name: _table(found[name], schema) for name, schema in schemas.items()}

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The schema of every table of the run."""
        return schemas_of(self.tests, self.setup.decision)

    def _batches(self, encoded: Sequence[EncodedText]) -> Iterator[list[int]]:
        for batch in self.texts.batches(encoded, self.batch_size) if encoded else ():
            longest = max(len(encoded[place].ids) for place in batch)
            start = 0
            while start < len(batch):  # the room may change from one part to the next
                size = int(max(1, min(len(batch) - start, SQUARES // longest**2, self.room / longest)))
                yield batch[start : start + size]
                start += size

    def _evaluated(self, members: list[tuple[Row, EncodedText]]) -> Iterator[tuple[list[tuple[Row, EncodedText]], Any]]:
        """The columns of a batch by table; in halves when memory runs out or a text has no finite logits."""
        used = len(members) * max(len(one.ids) for _, one in members)
        try:
            yield members, self._columns(members)
            if used > self.room / 2:
                self.room *= GROWTH
            return
        except NumericalError as error:
            if len(members) == 1:
                yield members, _reason(error)
                return
        except RuntimeError as error:
            if not should_reduce_batch_size(error):
                raise
            if len(members) == 1:
                raise too_long(*members[0]) from error
            self.room = used / 2
        if used / 2 == self.room:  # outside of the handler, whose error keeps the tensors of the failed pass alive
            clear_device_cache(garbage_collection=True)
        middle = len(members) // 2
        yield from self._evaluated(members[:middle])
        yield from self._evaluated(members[middle:])

    def _columns(self, members: list[tuple[Row, EncodedText]]) -> dict[str, Columns]:
        rows, encoded = [row for row, _ in members], [one for _, one in members]
        batch = Batch(self.setup, rows, encoded, self.texts.collate(encoded))
        return {TEXTS: _described(batch), **{test.name: test.run(batch) for test in self.tests}}


def schemas_of(tests: Sequence[Test], decision: Decision) -> dict[str, pa.Schema]:
    """The schemas of the tables of a run, by name: that of the texts, and one for each test."""
    kind = outcome_type(decision)
    shapes = {TEXTS: [(name, one or kind) for name, one in _COLUMNS]}
    shapes |= {test.name: test.columns(kind) for test in tests}
    return {name: schema_of(columns) for name, columns in shapes.items()}


def too_long(row: Row, encoded: EncodedText) -> AttnFaithError:
    """What is said when memory runs out on a single text."""
    return AttnFaithError(
        f"Memory ran out on row {row.number}, which is {len(encoded.ids)} tokens long, with no other text beside it. "
        "Pass a smaller max_length."
    )


def encode(
    texts: TextEncoder, rows: Sequence[Row], *, gold: bool = False
) -> tuple[dict[int, EncodedText], dict[int, str]]:
    """Rows as the model reads them, by place; and why others cannot be read, or have no label where one is needed."""
    aside = {place: "the text is missing" for place, row in enumerate(rows) if row.text is None}
    if gold:
        aside |= {place: "there is no label to explain" for place, row in enumerate(rows) if row.label is None}
    given = {
        place: row.text if row.pair is None else (row.text, row.pair)
        for place, row in enumerate(rows)
        if place not in aside
    }
    if not given:
        return {}, aside
    try:
        found = dict(zip(given, texts.encode(list(given.values())), strict=True))
    except InputError:
        found = {}
        for place, text in given.items():
            try:
                found[place] = texts.encode([text])[0]
            except InputError as error:
                aside[place] = str(error)
    for place in [place for place, one in found.items() if all(own is None for own in one.segments)]:
        del found[place]
        aside[place] = "no token of the text itself remains: it is empty, or holds special tokens only"
    return found, aside


def _reason(error: NumericalError) -> str:
    """Why one text by itself is set aside: the fact, without advice, the same words for every such text."""
    fact = " ".join(str(error).split()).split(". ")[0].removesuffix(".").replace(" for texts [0] of this batch", "")
    return fact[:1].lower() + fact[1:]


def _described(batch: Batch) -> Columns:
    """The rows of the table of texts."""
    decision = batch.setup.decision
    predicted, gold = decision_cells(decision, batch.logits), [to_cell(row.label) for row in batch.rows]
    confidence = [float("nan")] * len(predicted)
    if decision.kind in ("multiclass", "sigmoid"):
        confidence = decision.probabilities(batch.logits).amax(-1).double().tolist()
    right = [
        None if one is None or decision.kind == "regression" else _same(one, other)
        for one, other in zip(gold, predicted, strict=True)
    ]
    return {
        "text_id": [row.number for row in batch.rows],
        "prediction": predicted,
        "target": batch.target.tolist(),
        "gold": gold,
        "confidence": confidence,
        "correct": right,
        "tokens": batch.request.tokens.sum(1).tolist(),
        "items": batch.capture.lengths.tolist(),
        "truncated": [one.truncated for one in batch.encoded],
        "special_weight": torch.where(batch.special_items, batch.weights, 0).sum(1).tolist(),
        "aside": [None] * len(batch.rows),
    }


def _same(gold: Any, predicted: Any) -> bool:
    return sorted(gold) == sorted(predicted) if isinstance(gold, list) else bool(gold == predicted)


def _set_aside(row: Row, reason: str) -> dict[str, Any]:
    line: dict[str, Any] = {name: None for name, _ in _COLUMNS}
    return {**line, "text_id": row.number, "gold": to_cell(row.label), "aside": reason}


def _table(parts: Sequence[Columns], schema: pa.Schema) -> pa.Table:
    """Columns of batches as one table in the order of the texts; within a text as they came."""
    columns = {name: [value for part in parts for value in part.get(name, ())] for name in schema.names}
    order = sorted(range(len(columns["text_id"])), key=columns["text_id"].__getitem__)
    arrays = [pa.array([columns[name][place] for place in order], schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays(arrays, schema=schema)
