"""Run the tests over the data: batches of texts of similar length, and a table for each test and shard."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

from attnfaith.attribution.display_names import display_name
from attnfaith.attribution.scores import InexactScores
from attnfaith.data.source import DataSource, Row
from attnfaith.errors import AttnFaithError, InputError, NumericalError
from attnfaith.evaluation import stored_texts
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.profile import Profile
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.run_progress import RunProgress
from attnfaith.evaluation.tests.base import Columns, Test, decision_cells, outcome_type, schema_of, to_cell
from attnfaith.evaluation.text_cost import TextCost
from attnfaith.evaluation.unfinished_shard import PIECE_SECONDS, UnfinishedShard
from attnfaith.functional.decision import Decision
from attnfaith.parameter_names import parameter
from attnfaith.storage.fingerprint import fingerprint_rows
from attnfaith.storage.run_store import Store
from attnfaith.storage.table_files import TEXTS
from attnfaith.text.encoded import EncodedText
from attnfaith.text.encoder import TextEncoder

SQUARES = 2**25
"""The largest sum of squared lengths in a batch: a very long text is a batch by itself."""
GROWTH = 1.02
"""The growth of `Runner.max_tokens` after a batch that filled it: slow, but the shortage may have been temporary."""
OPERATIONS = 10**12
"""The most operations that a batch is expected to take: some ten seconds of two processor cores."""
ON_ACCELERATOR = 50
"""How many times as many they are on an accelerator."""
PASSES = 80
"""The forward passes that a text is taken to need when batches are bounded. They must not be those of the rankings and
tests of the run: the last bits of numbers depend on the batch, and those of attention on nothing else that is run."""
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
        encoder: encodes texts for the model.
        tests: the tests.
        batch_size: texts in a batch.
        shard_size: rows of the data that are written together.
        max_tokens: the most tokens in a batch, padding included; infinite until memory runs out. Then it is half of
            the batch that was too large, and it grows a little after each batch that filled it.
        inexact: how many texts have inexact scores, by ranking.
        piece_seconds: after this time at most, what is finished of a shard is written.
        profile: what took the time.
    """

    config: RunConfig
    encoder: TextEncoder
    tests: Sequence[Test]
    batch_size: int
    shard_size: int
    max_tokens: float = math.inf
    inexact: dict[Ranking, InexactScores] = field(default_factory=dict)
    piece_seconds: float = PIECE_SECONDS
    profile: Profile = field(default_factory=Profile)

    def run(self, source: DataSource, store: Store, progress: RunProgress, *, index: int = 0, of: int = 1) -> None:
        """Compute and store the shards of one of several processes; finished shards are checked and skipped.

        Args:
            source: the data.
            store: the storage of the run.
            progress: is told what is done.
            index: the number of this process.
            of: the number of processes.
        """
        self._run(source.shards(self.shard_size, index=index, of=of), store, progress)

    def run_sampled(
        self,
        source: DataSource,
        store: Store,
        progress: RunProgress,
        *,
        start: int,
        stop: int,
        index: int = 0,
        of: int = 1,
    ) -> None:
        """The same of the rows from one position of the keyed random order to before another."""
        seed = self.config.settings.seed
        shards = source.sampled_shards(self.shard_size, seed=seed, start=start, stop=stop, index=index, of=of)
        self._run(shards, store, progress)

    def _run(self, shards: Iterable[tuple[int, list[Row]]], store: Store, progress: RunProgress) -> None:
        for number, rows in shards:
            digest = fingerprint_rows(rows)
            store.discard_other(number, len(rows), digest)
            if store.done(number):
                store.check(number, digest)
                progress.skip(len(rows))
            else:
                clock = self.profile.clock
                with UnfinishedShard(store, number, rows, digest, self.schemas, self.piece_seconds, clock) as shard:
                    progress.skip(len(shard.done))
                    self._complete(shard, rows, progress)
                store.write(number, shard.tables(), digest)

    def lengths(self, rows: Sequence[Row]) -> list[list[int]]:
        """The lengths in tokens of rows that can be run, by batch."""
        texts = list(encode(self.encoder, rows, gold=self.config.target == "gold")[0].values())
        return [[len(texts[index].ids) for index in batch] for batch in self._batches(texts)]

    def _complete(self, shard: UnfinishedShard, rows: Sequence[Row], progress: RunProgress) -> None:
        """Run the batches of a shard that are not done."""
        encoded, excluded = encode(self.encoder, rows, gold=self.config.target == "gold")
        excluded = {index: reason for index, reason in excluded.items() if rows[index].number not in shard.done}
        if excluded:
            shard.add([self._excluded([_excluded_row(rows[index], reason) for index, reason in excluded.items()])])
            progress.skip(len(excluded))
        members = [(rows[index], text) for index, text in encoded.items()]
        # The batches are those of all rows, whatever is done: so a resumed run has the batches of an undisturbed one.
        batches = [[members[index] for index in batch] for batch in self._batches([text for _, text in members])]
        left = [[member for member in batch if member[0].number not in shard.done] for batch in batches]
        left = [batch for batch in left if batch]
        progress.open_shard([[len(text.ids) for _, text in batch] for batch in left])
        for batch in left:
            parts = []
            with progress.batch([len(text.ids) for _, text in batch]):
                for batch_members, result in self._evaluate(batch):
                    if isinstance(result, str):
                        parts.append(self._excluded([_excluded_row(batch_members[0][0], result)]))
                    else:
                        parts.append({name: _table(result[name], schema) for name, schema in self.schemas.items()})
            shard.add(parts)

    def _excluded(self, rows: Sequence[dict[str, Any]]) -> dict[str, pa.Table]:
        """The tables of texts that are excluded from all tests."""
        columns = {TEXTS: {name: [row[name] for row in rows] for name, _ in _COLUMNS}}
        return {name: _table(columns.get(name, {}), schema) for name, schema in self.schemas.items()}

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The schemas of the tables of the run, by name."""
        return schemas_of(self.tests, self.config.decision, stored=bool(self.config.stored))

    def _batches(self, encoded: Sequence[EncodedText]) -> list[list[int]]:
        """The batches of a shard: a function of its texts alone, never of time or of what is done already.

        Each is bounded in work, since what is finished can only be kept at its end. Short and long texts take turns, so
        that the first batches tell how long the others take.
        """
        batches = []
        for batch in self.encoder.batches(encoded, self.batch_size) if encoded else ():
            longest = max(len(encoded[index].ids) for index in batch)
            size = max(1, min(SQUARES // longest**2, int(self.most_operations / max(self.operations(longest), 1.0))))
            batches += [batch[start : start + size] for start in range(0, len(batch), size)]
        return [batches[index] for index in _spread(len(batches))]

    def operations(self, tokens: int) -> float:
        """The operations that a text of so many tokens is taken to need; a function of the model and the text alone."""
        return PASSES * self.cost.operations * self.cost.forward(tokens)

    @property
    def most_operations(self) -> int:
        """The most operations that a batch is expected to take."""
        parameter = next(self.config.cut.model.parameters(), None)
        on_processor = parameter is None or parameter.device.type == "cpu"
        return OPERATIONS if on_processor else OPERATIONS * ON_ACCELERATOR

    @cached_property
    def cost(self) -> TextCost:
        """The expected work of a text."""
        return TextCost.of(self.config, self.tests)

    def _evaluate(self, members: list[tuple[Row, EncodedText]]) -> Iterator[tuple[list[tuple[Row, EncodedText]], Any]]:
        """The columns of a batch by table, or the reason why a single text is excluded.

        A batch is split into parts that fit into `max_tokens`.
        """
        longest = max(len(text.ids) for _, text in members)
        start = 0
        while start < len(members):  # max_tokens can change from one part to the next
            size = int(max(1, min(len(members) - start, self.max_tokens / longest)))
            yield from self._evaluate_part(members[start : start + size])
            start += size

    def _evaluate_part(
        self, members: list[tuple[Row, EncodedText]]
    ) -> Iterator[tuple[list[tuple[Row, EncodedText]], Any]]:
        """The same; a part is split in halves when memory runs out, and when the logits of a text are not finite."""
        used = len(members) * max(len(text.ids) for _, text in members)
        out_of_memory = False
        try:
            yield members, self._columns(members)
            if used > self.max_tokens / 2:
                self.max_tokens *= GROWTH
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
            self.max_tokens, out_of_memory = used / 2, True
        # Outside of the handler: its exception keeps the tensors of the failed pass alive.
        if out_of_memory:
            clear_device_cache(garbage_collection=True)
        middle = len(members) // 2
        yield from self._evaluate_part(members[:middle])
        yield from self._evaluate_part(members[middle:])

    def _columns(self, members: list[tuple[Row, EncodedText]]) -> dict[str, Columns | pa.Table]:
        rows, encoded = [row for row, _ in members], [text for _, text in members]
        with self.profile.part("capture"):
            batch = Batch(self.config, rows, encoded, self.encoder.collate(encoded), self.profile)
        columns: dict[str, Columns | pa.Table] = {TEXTS: _text_columns(batch)}
        for test in self.tests:
            with self.profile.part(test.name):
                columns[test.name] = test.run(batch)
        if self.config.stored:
            with self.profile.part(stored_texts.PROFILED):
                columns |= stored_texts.tables_of(batch)
        for ranking, counted in batch.inexact.items():  # only now: a batch that fails is run again in halves
            before = self.inexact.get(ranking)
            self.inexact[ranking] = counted if before is None else before + counted
        return columns

    def warn_of_inexact_scores(self) -> None:
        """Once for each ranking of the run, with the numbers of all texts."""
        rankings = dict.fromkeys(ranking for listed in self.config.rankings.values() for ranking in listed)
        keys = [(ranking.level, ranking.name) for ranking in rankings]
        for ranking, key in zip(rankings, keys, strict=True):
            counted = self.inexact.get(ranking)
            if counted is not None and counted.texts:
                warnings.warn(counted.message(display_name(key, keys)), stacklevel=2)


def _spread(count: int) -> list[int]:
    """The numbers below ``count`` in an order of which every beginning is spread over all of them."""
    golden = (math.sqrt(5) - 1) / 2
    return sorted(range(count), key=lambda index: (index + 1) * golden % 1)


def schemas_of(tests: Sequence[Test], decision: Decision, *, stored: bool) -> dict[str, pa.Schema]:
    """The schemas of the tables of a run by name: the table of texts, one for each test, and those of stored texts."""
    decision_type = outcome_type(decision)
    columns = {TEXTS: [(name, column_type or decision_type) for name, column_type in _COLUMNS]}
    columns |= {test.name: test.columns(decision_type) for test in tests}
    schemas = {name: schema_of(listed) for name, listed in columns.items()}
    return schemas | stored_texts.SCHEMAS if stored else schemas


def too_long(row: Row, encoded: EncodedText) -> AttnFaithError:
    """The error for a single text on which memory runs out."""
    return AttnFaithError(
        f"Memory ran out on row {row.number}, which is {len(encoded.ids)} tokens long, with no other text beside it. "
        f"Use a smaller {parameter('max_length')}.",
        code="out-of-memory",
    )


def encode(
    encoder: TextEncoder, rows: Sequence[Row], *, gold: bool = False
) -> tuple[dict[int, EncodedText], dict[int, str]]:
    """Encode rows by index, and give the reasons why others are excluded.

    Args:
        encoder: encodes texts for the model.
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
        encoded = dict(zip(entries, encoder.encode(list(entries.values())), strict=True))
    except InputError:  # encode one by one to find out which texts were refused
        encoded = {}
        for index, entry in entries.items():
            try:
                encoded[index] = encoder.encode([entry])[0]
            except InputError as error:
                excluded[index] = error.message
    empty = [index for index, text in encoded.items() if all(segment is None for segment in text.segments)]
    for index in empty:
        del encoded[index]
        excluded[index] = "no token of the text itself remains: it is empty, or holds special tokens only"
    return encoded, excluded


def _exclusion_reason(error: NumericalError) -> str:
    """The reason without advice and batch position, so that equal reasons can be counted."""
    fact = " ".join(error.message.split()).split(". ")[0].removesuffix(".").replace(" for texts [0] of this batch", "")
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


def _table(columns: Columns | pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a batch as a table; none for a table without rows."""
    if isinstance(columns, pa.Table):
        return columns
    arrays = [pa.array(columns.get(field.name, []), field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
