"""Run the tests over the data: batches of texts of similar length, and a table for each test and shard."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.method import InexactScores
from attnfaith.data.source import DataSource, Row
from attnfaith.errors import AttnFaithError, InputError, NumericalError
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.tests.base import Columns, Test, decision_cells, outcome_type, schema_of, to_cell
from attnfaith.functional.decision import Decision
from attnfaith.parameter_names import parameter
from attnfaith.storage.fingerprint import fingerprint_rows
from attnfaith.storage.run_store import Store
from attnfaith.text.encoded import EncodedText
from attnfaith.text.encoder import TextEncoder

SQUARES = 2**25
"""The largest sum of squared lengths in a batch: a very long text is a batch by itself."""
GROWTH = 1.02
"""The growth of `Runner.room` after a batch that filled it: another process may have used the memory up."""
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
    """Runs tests over texts.

    Attributes:
        config: the configuration of the run.
        texts: encodes texts for the model.
        tests: the tests.
        batch_size: texts in a batch.
        shard_size: rows of the data that are written together; the unfinished shard is lost when a run is killed.
        room: the most tokens in a batch, padding included; infinite until memory runs out. Then it is half of the
            batch that was too large, and it grows a little after each batch that filled it.
        inexact: how many texts have inexact scores, by ranking.
    """

    config: RunConfig
    texts: TextEncoder
    tests: Sequence[Test]
    batch_size: int
    shard_size: int
    room: float = math.inf
    inexact: dict[Ranking, InexactScores] = field(default_factory=dict)

    def run(
        self, source: DataSource, store: Store, advance: Callable[[int], None], *, index: int = 0, of: int = 1
    ) -> None:
        """Compute and store the shards of one of several processes; finished shards are checked and skipped.

        Args:
            source: the data.
            store: the storage of the run.
            advance: called with the number of rows that were finished.
            index: the number of this process.
            of: the number of processes.
        """
        for number, rows in source.shards(self.shard_size, index=index, of=of):
            digest = fingerprint_rows(rows)
            if store.done(number):
                store.check(number, digest)
                advance(len(rows))
            else:
                store.write(number, self.shard(rows, advance), digest)
        self._warn_of_inexact_scores()

    def shard(self, rows: Sequence[Row], advance: Callable[[int], None] = lambda amount: None) -> dict[str, pa.Table]:
        """Compute the tables of some rows."""
        schemas = self.schemas
        parts: dict[str, list[Columns]] = {name: [] for name in schemas}
        encoded, excluded = encode(self.texts, rows, gold=self.config.target == "gold")
        members = [(rows[index], text) for index, text in encoded.items()]
        advance(len(excluded))
        excluded_rows = [_excluded_row(rows[index], reason) for index, reason in excluded.items()]
        for batch in self._batches([text for _, text in members]):
            for batch_members, result in self._evaluate([members[index] for index in batch]):
                if isinstance(result, str):
                    excluded_rows.append(_excluded_row(batch_members[0][0], result))
                else:
                    for name, columns in result.items():
                        parts[name].append(columns)
            advance(len(batch))
        parts[TEXTS].append({name: [row[name] for row in excluded_rows] for name, _ in _COLUMNS})
        return {name: _table(parts[name], schema) for name, schema in schemas.items()}

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The schemas of the tables of the run, by name."""
        return schemas_of(self.tests, self.config.decision)

    def _batches(self, encoded: Sequence[EncodedText]) -> Iterator[list[int]]:
        for batch in self.texts.batches(encoded, self.batch_size) if encoded else ():
            longest = max(len(encoded[index].ids) for index in batch)
            start = 0
            while start < len(batch):  # the room can change from one part to the next
                size = int(max(1, min(len(batch) - start, SQUARES // longest**2, self.room / longest)))
                yield batch[start : start + size]
                start += size

    def _evaluate(self, members: list[tuple[Row, EncodedText]]) -> Iterator[tuple[list[tuple[Row, EncodedText]], Any]]:
        """The columns of a batch by table, or the reason why a single text is excluded.

        A batch is split in halves when memory runs out, and when the logits of a text are not finite.
        """
        used = len(members) * max(len(text.ids) for _, text in members)
        try:
            yield members, self._columns(members)
            if used > self.room / 2:
                self.room *= GROWTH
            return
        except NumericalError as error:
            if len(members) == 1:
                yield members, _exclusion_reason(error)
                return
        except RuntimeError as error:
            if not should_reduce_batch_size(error):
                raise
            if len(members) == 1:
                raise too_long(*members[0]) from error
            self.room = used / 2
        # Outside of the handler: its exception keeps the tensors of the failed pass alive.
        if used / 2 == self.room:
            clear_device_cache(garbage_collection=True)
        middle = len(members) // 2
        yield from self._evaluate(members[:middle])
        yield from self._evaluate(members[middle:])

    def _columns(self, members: list[tuple[Row, EncodedText]]) -> dict[str, Columns]:
        rows, encoded = [row for row, _ in members], [text for _, text in members]
        batch = Batch(self.config, rows, encoded, self.texts.collate(encoded))
        columns = {TEXTS: _text_columns(batch), **{test.name: test.run(batch) for test in self.tests}}
        for ranking, counted in batch.inexact.items():  # only now: a batch that fails is run again in halves
            before = self.inexact.get(ranking)
            self.inexact[ranking] = counted if before is None else before + counted
        return columns

    def _warn_of_inexact_scores(self) -> None:
        """Once for each ranking of the run, with the numbers of all texts."""
        rankings = dict.fromkeys(ranking for listed in self.config.rankings.values() for ranking in listed)
        keys = [(ranking.level, ranking.name) for ranking in rankings]
        for ranking, key in zip(rankings, keys, strict=True):
            counted = self.inexact.get(ranking)
            if counted is not None and counted.texts:
                warnings.warn(counted.message(display_name(key, keys)), stacklevel=2)


def schemas_of(tests: Sequence[Test], decision: Decision) -> dict[str, pa.Schema]:
    """The schemas of the tables of a run by name: the table of texts, and one for each test."""
    decision_type = outcome_type(decision)
    columns = {TEXTS: [(name, column_type or decision_type) for name, column_type in _COLUMNS]}
    columns |= {test.name: test.columns(decision_type) for test in tests}
    return {name: schema_of(listed) for name, listed in columns.items()}


def too_long(row: Row, encoded: EncodedText) -> AttnFaithError:
    """The error for a single text on which memory runs out."""
    return AttnFaithError(
        f"Memory ran out on row {row.number}, which is {len(encoded.ids)} tokens long, with no other text beside it. "
        f"Use a smaller {parameter('max_length')}."
    )


def encode(
    texts: TextEncoder, rows: Sequence[Row], *, gold: bool = False
) -> tuple[dict[int, EncodedText], dict[int, str]]:
    """Encode rows by index, and give the reasons why others are excluded.

    Args:
        texts: encodes texts.
        rows: of the data.
        gold: exclude rows without a label, since their label is what is explained.
    """
    excluded = {index: "the text is missing" for index, row in enumerate(rows) if row.text is None}
    if gold:
        excluded |= {index: "there is no label to explain" for index, row in enumerate(rows) if row.label is None}
    entries = {
        index: row.text if row.pair is None else (row.text, row.pair)
        for index, row in enumerate(rows)
        if index not in excluded
    }
    if not entries:
        return {}, excluded
    try:
        encoded = dict(zip(entries, texts.encode(list(entries.values())), strict=True))
    except InputError:  # encode one by one to find out which texts were refused
        encoded = {}
        for index, entry in entries.items():
            try:
                encoded[index] = texts.encode([entry])[0]
            except InputError as error:
                excluded[index] = str(error)
    empty = [index for index, text in encoded.items() if all(segment is None for segment in text.segments)]
    for index in empty:
        del encoded[index]
        excluded[index] = "no token of the text itself remains: it is empty, or holds special tokens only"
    return encoded, excluded


def _exclusion_reason(error: NumericalError) -> str:
    """The reason without advice and batch position, so that equal reasons can be counted."""
    fact = " ".join(str(error).split()).split(". ")[0].removesuffix(".").replace(" for texts [0] of this batch", "")
    return fact[:1].lower() + fact[1:]


def _text_columns(batch: Batch) -> Columns:
    """The rows of a batch in the table of texts."""
    decision = batch.config.decision
    predicted, gold = decision_cells(decision, batch.logits), [to_cell(row.label) for row in batch.rows]
    confidence = [float("nan")] * len(predicted)
    if decision.kind in ("multiclass", "sigmoid"):
        confidence = decision.probabilities(batch.logits).amax(-1).double().tolist()
    correct = [
        None if label is None or decision.kind == "regression" else _is_correct(label, prediction)
        for label, prediction in zip(gold, predicted, strict=True)
    ]
    return {
        "text_id": [row.number for row in batch.rows],
        "prediction": predicted,
        "target": batch.target.tolist(),
        "gold": gold,
        "confidence": confidence,
        "correct": correct,
        "tokens": batch.request.tokens.sum(1).tolist(),
        "items": batch.capture.lengths.tolist(),
        "truncated": [text.truncated for text in batch.encoded],
        "special_weight": torch.where(batch.special_items, batch.weights, 0).sum(1).tolist(),
        "aside": [None] * len(batch.rows),
    }


def _is_correct(gold: Any, predicted: Any) -> bool:
    return sorted(gold) == sorted(predicted) if isinstance(gold, list) else bool(gold == predicted)


def _excluded_row(row: Row, reason: str) -> dict[str, Any]:
    """A row of the table of texts for a text that is excluded from the tests."""
    empty: dict[str, Any] = {name: None for name, _ in _COLUMNS}
    return {**empty, "text_id": row.number, "gold": to_cell(row.label), "aside": reason}


def _table(parts: Sequence[Columns], schema: pa.Schema) -> pa.Table:
    """Join the columns of batches to one table in the order of the texts; within a text the order stays."""
    columns = {name: [value for part in parts for value in part.get(name, ())] for name in schema.names}
    order = sorted(range(len(columns["text_id"])), key=columns["text_id"].__getitem__)
    arrays = [pa.array([columns[name][index] for index in order], schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays(arrays, schema=schema)
