"""The files of the tables of a run: where each is, and the proof that it is the one that the run has written.

A table has a folder with a file for each shard, ``erasure/00003.parquet``. A table that was computed from all shards is
one file beside the folders, ``information_by_rank.parquet``. All are sealed with the run, table and shard they belong
to (`sealed_table`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attnfaith.errors import InputError, StorageError
from attnfaith.parameter_names import parameter
from attnfaith.storage import manifest as manifests
from attnfaith.storage import sealed_table
from attnfaith.storage.atomic_files import entries_of
from attnfaith.validation import short_repr

TEXTS = "texts"
"""The table that is written last: if it has a shard, all others have it."""
TEXT_ID = "text_id"
"""The column with the row number of a text in the data."""
_SHARD = re.compile(r"[0-9]{5,15}\.parquet")


class TableFile:
    """One shard of a table, or all of a table that was computed from all shards.

    Attributes:
        path: where the file is, or will be.
    """

    def __init__(self, directory: Path, run: str, table: str, shard: int | None) -> None:
        self._run, self._table, self._shard = run, table, shard
        self.path = directory / f"{table}.parquet" if shard is None else directory / table / f"{shard:05d}.parquet"
        self._proof: sealed_table.Proof | None = None  # so that an unchanged file is not hashed twice

    def encode(self, table: pa.Table, rows_hash: str, tables: Sequence[str]) -> bytes:
        """Encode what the file shall hold.

        Args:
            table: the rows.
            rows_hash: the fingerprint of the rows of the data that they were made from.
            tables: the names of all tables of the shard.
        """
        identity = sealed_table.ShardIdentity(self._run, self._table, self._shard, rows_hash, tuple(tables))
        return sealed_table.encode(table, identity)

    def prove(self) -> sealed_table.Proof:
        """Check the seal of the file, and that it belongs to this run, table and shard."""
        return self._accept(sealed_table.prove(self.path, self._proof))

    def read_bytes(self) -> bytes:
        """Read the bytes of the file, checked as in `prove`."""
        content, proof = sealed_table.read_bytes(self.path, self._proof)
        self._accept(proof)
        return content

    def read(
        self,
        columns: Sequence[str] | None,
        *,
        schema: pa.Schema | None = None,
        texts: NDArray[np.int64] | None = None,
    ) -> pa.Table:
        """Read columns of the file, checked as in `prove`.

        Args:
            columns: their names; None for all.
            schema: the expected columns; other types are refused. None where any are accepted.
            texts: the ``text_id`` of the texts of the shard; rows of others are refused. None where any are accepted.
        """
        table, proof = sealed_table.read(self.path, columns, self._proof)
        self._accept(proof)
        with sealed_table.damaged(self.path):
            if schema is not None:
                _refuse_other_types(table.schema, schema)
            if texts is not None and len(table) and TEXT_ID in table.schema.names:
                _refuse_other_texts(table, texts, self._shard)
        return table

    def refuse_missing_columns(self, names: Iterable[str]) -> None:
        """Refuse a file that lacks one of these columns."""
        present = sealed_table.read_schema(self.path).names
        missing = [name for name in names if name not in present]
        with sealed_table.damaged(self.path):
            if missing:
                raise ValueError(f"it has no column {missing[0]!r}")

    def _accept(self, proof: sealed_table.Proof) -> sealed_table.Proof:
        """Refuse a file of another run, table or shard; keep the proof of any other."""
        identity = proof.identity
        with sealed_table.damaged(self.path):
            if identity.run != self._run:
                raise ValueError("it belongs to another run, made with other arguments")
            if (identity.table, identity.shard) != (self._table, self._shard):
                raise ValueError(
                    f"it is shard {short_repr(identity.shard)} of the table {short_repr(identity.table)}, in the place "
                    "of another"
                )
        self._proof = proof
        return proof


class TableFiles:
    """The files of all tables of a run.

    Args:
        directory: the folder of the run.
        run: the digest of the manifest of the run.
    """

    def __init__(self, directory: Path, run: str) -> None:
        self._directory, self._run = directory, run
        self._files: dict[tuple[str, int | None], TableFile] = {}
        self._schemas: dict[str, pa.Schema] = {}

    def file(self, table: str, shard: int | None = None) -> TableFile:
        """The file of a shard of a table, or of a table that was computed from all shards, whether it exists or not."""
        if (table, shard) not in self._files:
            self._files[table, shard] = TableFile(self._directory, self._run, table, shard)
        return self._files[table, shard]

    def tables(self) -> list[str]:
        """The names of the tables that have a stored shard, sorted."""
        return sorted(entry.name for entry in os.scandir(self._directory) if self.shards(entry.name))

    def shards(self, table: str) -> dict[int, TableFile]:
        """The stored shards of a table by number; files with other names are ignored."""
        folder = self._directory / table
        if not manifests.is_name(table) or not folder.is_dir():
            return {}
        if folder.is_symlink():
            raise StorageError(f"{str(folder)!r} is a symbolic link; expected a folder. Remove the link.")
        files = {}
        for entry in entries_of(folder):
            if _SHARD.fullmatch(entry.name):
                number = int(entry.name.partition(".")[0])
                file = self.file(table, number)
                if entry.name == file.path.name:
                    files[number] = file
        return files

    def has_all(self, shard: int) -> bool:
        """True if all tables of a shard are stored."""
        texts = self.file(TEXTS, shard)
        if not texts.path.exists():
            return False
        return all(self.file(name, shard).path.exists() for name in texts.prove().identity.tables)

    def rows_hash(self, shard: int) -> str:
        """The fingerprint of the rows of the data that a shard was made from."""
        return self.file(TEXTS, shard).prove().identity.rows

    def has_concluded(self, tables: Iterable[str]) -> bool:
        """True if these tables, which were computed from all shards, are stored."""
        return all(self.file(name).path.exists() for name in tables)

    def prove_shards(self, tables: Collection[str], shards: Iterable[int]) -> None:
        """Check the files of shards, and that the tables of a shard have the same rows."""
        for shard in shards:
            rows = self.rows_hash(shard)
            for name in tables:
                file = self.file(name, shard)
                proof = file.prove()
                with sealed_table.damaged(file.path):
                    if proof.identity.rows != rows:
                        raise ValueError("it was made from other rows than the texts of the same shard")

    def digests(
        self, tables: Iterable[str], shards: Collection[int], concluded: Iterable[str]
    ) -> dict[str, dict[str, str]]:
        """The digest of the files of each table: of those with shards, and of those computed from all shards."""
        return {
            "shards": {
                name: sealed_table.digest_of([self.file(name, shard).prove() for shard in shards]) for name in tables
            },
            "concluded": {name: sealed_table.digest_of([self.file(name).prove()]) for name in concluded},
        }

    def keep_schema(self, table: str, schema: pa.Schema) -> None:
        """Remember the columns of a table when its first shard is written, and refuse other columns from then on."""
        refuse_name(table)
        if any(pa.types.is_null(field.type) for field in schema):
            raise ValueError(f"the table {table!r} has a column of no type; make it with an explicit schema")
        if table not in self._schemas:
            first = next(iter(self.shards(table).values()), None)
            self._schemas[table] = schema if first is None else sealed_table.read_schema(first.path)
        self.refuse_other_columns(table, self._schemas[table], schema)

    def refuse_other_columns(self, table: str, stored: pa.Schema, new: pa.Schema) -> None:
        """Refuse columns that are not those of the stored shards of a table."""
        if not new.equals(stored):
            raise InputError(
                f"The table {table!r} in {str(self._directory)!r} has other columns than this version of attnfaith "
                f"writes. Give another {parameter('output_dir')}.",
                code="other-run",
            )


def refuse_name(table: str) -> None:
    """Refuse a name that cannot be that of a folder or file of a table."""
    if not manifests.is_name(table):
        raise InputError(
            f"{short_repr(table)} is no name for a table. Call the test something plain, such as 'my_test'."
        )


def _refuse_other_types(actual: pa.Schema, expected: pa.Schema) -> None:
    """Raise `ValueError` for a column with another type than expected; columns may be missing."""
    for wanted in expected:
        index = actual.get_field_index(wanted.name)
        got = actual.field(index) if index >= 0 else wanted
        if not got.equals(wanted):
            there, here = (f"{field.type}{'' if field.nullable else ' not null'}" for field in (got, wanted))
            raise ValueError(f"its column {short_repr(wanted.name)} is {short_repr(there)}; expected {here}")


def _refuse_other_texts(table: pa.Table, texts: NDArray[np.int64], shard: int | None) -> None:
    if not np.isin(table[TEXT_ID].to_numpy(), texts).all():
        raise ValueError(f"it has rows of texts that are not in shard {shard}")
