"""`UnfinishedShard`: the tables of a shard while its batches are run, written in pieces from time to time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pyarrow as pa

from attnfaith.data.source import Row
from attnfaith.errors import StorageError
from attnfaith.storage.run_store import Store
from attnfaith.storage.table_files import TEXTS

PIECE_SECONDS = 20.0
"""What is finished of a shard is written at the latest when this time has passed since it was written last."""


class UnfinishedShard:
    """What is done of a shard; leaving it by an error or an interrupt writes what was not written yet.

    Args:
        store: the storage of the run.
        number: the number of the shard.
        rows: the rows of the shard.
        digest: the fingerprint of the rows.
        schemas: of the tables of the run.
        every: see `PIECE_SECONDS`.
        clock: the time in seconds.

    Attributes:
        done: the row numbers of the texts that are done.
    """

    def __init__(
        self,
        store: Store,
        number: int,
        rows: Sequence[Row],
        digest: str,
        schemas: Mapping[str, pa.Schema],
        every: float,
        clock: Callable[[], float],
    ) -> None:
        self._store, self._number, self._digest, self._schemas = store, number, digest, schemas
        self._every, self._clock = every, clock
        self._written = self._last = clock()
        self._parts = store.pieces(number, schemas, digest, [row.number for row in rows])
        self._pending: list[Mapping[str, pa.Table]] = []
        self.done = {text_id for part in self._parts for text_id in part[TEXTS]["text_id"].to_pylist()}

    def __enter__(self) -> UnfinishedShard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and self._pending:
            with contextlib.suppress(StorageError):  # the error that ended the run is the one to be told
                self._write()

    def add(self, parts: Sequence[dict[str, pa.Table]]) -> None:
        """Add the tables of a batch, and write a piece if the next batch might end too late for it."""
        self._parts += parts
        self._pending += parts
        self.done |= {text_id for part in parts for text_id in part[TEXTS]["text_id"].to_pylist()}
        now = self._clock()
        duration, self._last = now - self._last, now
        if now + duration - self._written >= self._every:
            self._write()
            self._written = self._last = self._clock()

    def tables(self) -> dict[str, pa.Table]:
        """All tables in the order of the texts; within a text the order stays."""
        tables = {}
        for name, table in self._joined(self._parts).items():
            ids = table["text_id"].to_pylist()
            tables[name] = table.take(pa.array(sorted(range(len(ids)), key=ids.__getitem__), pa.int64()))
        return tables

    def _write(self) -> None:
        self._store.write_piece(self._number, self._joined(self._pending), self._digest)
        self._pending = []

    def _joined(self, parts: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
        return {
            name: pa.concat_tables([schema.empty_table(), *(part[name] for part in parts)])
            for name, schema in self._schemas.items()
        }
