"""Pieces: what is finished of a shard that is not complete, kept so that a killed run loses little.

A piece is one file, ``unfinished/<shard>-<number>.parquet``, with rows of every table of the run. It is sealed like the
files of shards. Each text is in one piece as a whole. The pieces of a shard are removed when the shard is written.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from attnfaith.errors import StorageError
from attnfaith.storage import sealed_table
from attnfaith.storage.atomic_files import entries_of, is_folder, make_folder, put_new
from attnfaith.storage.table_files import TEXT_ID, TEXTS
from attnfaith.validation import short_repr

FOLDER = "unfinished"
_TABLE = "table"
Result = TypeVar("Result")
_PIECE = re.compile(r"([0-9]{5,15})-([0-9]{4,15})\.parquet")


class Pieces:
    """The pieces of a run.

    Attributes:
        folder: where they are.
        run: the digest of the manifest of the run.
    """

    def __init__(self, directory: Path, run: str) -> None:
        self.folder, self.run = directory / FOLDER, run

    def files(self) -> dict[int, list[Path]]:
        """The files by shard, in the order in which they were written; files with other names are ignored."""
        files: dict[int, dict[int, Path]] = {}
        if is_folder(self.folder):
            for entry in entries_of(self.folder):
                match = _PIECE.fullmatch(entry.name)
                if match is not None:
                    shard, number = int(match[1]), int(match[2])
                    if entry.name == self._path(shard, number).name:
                        files.setdefault(shard, {})[number] = Path(entry.path)
        return {shard: [path for _, path in sorted(numbered.items())] for shard, numbered in sorted(files.items())}

    def write(self, shard: int, tables: Mapping[str, pa.Table], rows_hash: str) -> None:
        """Write a piece atomically; a file of another process that computes the same shard is never replaced."""
        names = tuple(sorted(tables, key=lambda name: name == TEXTS))
        identity = sealed_table.ShardIdentity(self.run, FOLDER, shard, rows_hash, names)
        content = sealed_table.encode(_joined(tables), identity)
        for number in itertools.count(len(self.files().get(shard, ()))):
            make_folder(self.folder)
            try:
                if put_new(self._path(shard, number), content):
                    return
            except FileNotFoundError:  # another process finished the run and removed the folder
                continue

    def read(
        self, shard: int, schemas: Mapping[str, pa.Schema], texts: Collection[int]
    ) -> tuple[list[dict[str, pa.Table]], set[str]]:
        """The tables of every piece of a shard, each text once, and the fingerprints of the rows they were made from.

        Args:
            shard: its number.
            schemas: the schemas of the tables of the run.
            texts: the ``text_id`` of the texts of the shard.
        """
        pieces, fingerprints = [], set()
        read_ids: set[int] = set()
        for path in self.files().get(shard, ()):
            result = _if_there(sealed_table.read, path, None)
            if result is None:
                continue
            content, proof = result
            with sealed_table.damaged(path):
                self._refuse_another(shard, proof)
                tables = _separated(content, schemas)
                ids = _text_ids(tables)
                if not ids <= set(texts):
                    raise ValueError(f"it has rows of texts that are not in shard {shard}")
            fingerprints.add(proof.identity.rows)
            if not ids <= read_ids:
                new = pa.array(sorted(ids - read_ids), pa.int64())
                pieces.append({name: table.filter(pc.is_in(table[TEXT_ID], new)) for name, table in tables.items()})
            read_ids |= ids
        return pieces, fingerprints

    def hashes(self, shard: int) -> set[str]:
        """The fingerprints of the rows that the pieces of a shard were made from."""
        proofs = (_if_there(sealed_table.prove, path) for path in self.files().get(shard, ()))
        return {proof.identity.rows for proof in proofs if proof is not None}

    def prove(self) -> None:
        """Check the seal of every piece, and that it belongs to this run."""
        for shard, paths in self.files().items():
            for path in paths:
                _if_there(self._prove, path, shard)

    def count_texts(self, shard: int) -> int:
        """How many texts the pieces of a shard have."""
        ids: set[int] = set()
        for path in self.files().get(shard, ()):
            columns = [_TABLE, _name(TEXTS, TEXT_ID)]
            result = _if_there(sealed_table.read, path, columns)
            ids |= set() if result is None else set(result[0][_name(TEXTS, TEXT_ID)].drop_null().to_pylist())
        return len(ids)

    def remove(self, shard: int | None = None) -> None:
        """Remove the pieces of a shard, or all; a file that cannot be removed stays and does no harm."""
        for number, paths in self.files().items():
            for path in paths if shard in (None, number) else ():
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _path(self, shard: int, number: int) -> Path:
        return self.folder / f"{shard:05d}-{number:04d}.parquet"

    def _prove(self, path: Path, shard: int) -> None:
        proof = sealed_table.prove(path)
        with sealed_table.damaged(path):
            self._refuse_another(shard, proof)

    def _refuse_another(self, shard: int, proof: sealed_table.Proof) -> None:
        identity = proof.identity
        if identity.run != self.run:
            raise ValueError("it belongs to another run, made with other arguments")
        if (identity.table, identity.shard) != (FOLDER, shard):
            raise ValueError(
                f"it is of shard {short_repr(identity.shard)} and the table {short_repr(identity.table)}, in the place "
                "of a piece"
            )


def _if_there(read: Callable[..., Result], path: Path, *arguments: Any) -> Result | None:
    """Read a piece; None if it is not there any more, because another process completed the shard."""
    try:
        return read(path, *arguments)
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _name(table: str, column: str) -> str:
    return f"{table}/{column}"


def _joined(tables: Mapping[str, pa.Table]) -> pa.Table:
    """All tables one after the other, as rows of one; a row has nulls in the columns of the other tables."""
    parts = []
    for name, table in tables.items():
        columns = {_name(name, column): table[column] for column in table.column_names}
        parts.append(pa.table({_TABLE: pa.array([name] * len(table), pa.string()), **columns}))
    return pa.concat_tables(parts, promote_options="default")


def _separated(joined: pa.Table, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table]:
    """The tables that `_joined` put together; raises `ValueError` if they have other columns."""
    types = {_name(name, field.name): field.type for name, schema in schemas.items() for field in schema}
    types[_TABLE] = pa.string()
    stored = dict(zip(joined.column_names, joined.schema.types, strict=True))
    if stored != types:
        wrong = next((column for column in types if stored.get(column) != types[column]), None)
        wrong = next(column for column in stored if column not in types) if wrong is None else wrong
        raise ValueError(f"its column {short_repr(wrong)} is not as this version of attnfaith writes it")
    tables = {}
    for name, schema in schemas.items():
        rows = joined.filter(pc.equal(joined[_TABLE], name))
        columns = [rows[_name(name, field.name)] for field in schema]
        for field, column in zip(schema, columns, strict=True):
            if not field.nullable and column.null_count:
                raise ValueError(f"its column {_name(name, field.name)!r} has missing values")
        tables[name] = pa.Table.from_arrays(columns, schema=schema)
    if sum(map(len, tables.values())) != len(joined):
        raise ValueError("it has rows of tables that are not in this run")
    return tables


def _text_ids(tables: Mapping[str, pa.Table]) -> set[int]:
    """The texts of a piece; raises `ValueError` if one is there twice, or has rows in other tables only."""
    listed = tables[TEXTS][TEXT_ID].to_pylist()
    ids = set(listed)
    if len(ids) < len(listed):
        raise ValueError("it has a text twice")
    if any(not set(table[TEXT_ID].to_pylist()) <= ids for table in tables.values()):
        raise ValueError("it has rows of texts that are not in its table of texts")
    return ids
