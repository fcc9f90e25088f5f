"""A run on disk: a manifest, and for each table a folder of shards; whole or absent, whenever the writer is killed."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from attnfaith.arguments import short
from attnfaith.errors import InputError, StorageError
from attnfaith.evaluation import manifest as manifests
from attnfaith.evaluation.disk import LEFTOVER, put, reading, remove_leftovers, storing

TEXTS = "texts"
"""The table that is written last: where it has a shard, all the others have it."""
_ROWS = b"attnfaith.rows"
_SHARD = re.compile(r"(\d{5,})\.parquet")
_FINISHED = ("shards", "counts")  # what the manifest says only when all is there
_WHOLE = {pa.string(): pd.StringDtype(na_value=math.nan)}
_NULLABLE = {**_WHOLE, pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
# Written out, so that a resumed run gives the same bytes as one that was never disturbed.
_PARQUET: dict[str, Any] = {
    "version": "2.6",
    "compression": "zstd",
    "compression_level": 3,
    "use_dictionary": True,
    "write_statistics": True,
    "write_page_checksum": True,
    "data_page_version": "1.0",
    "store_schema": True,
}


class Store:
    """The results of a run, as they are made; by `open` for a run, by `load` to read a finished one.

    Attributes:
        directory: where they are.
        manifest: what the run is made of, under "run" what must not change; "shard_size", and "rows" where known.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> store = Store.open(folder, {"run": {"seed": 0}, "shard_size": 2, "rows": 2})
        >>> store.write(0, {"texts": pa.table({"text_id": [0, 1]})}, "the hash of two rows")
        >>> store.finish({"texts": 2})
        >>> Store.load(folder).table("texts")["text_id"].tolist()
        [0, 1]
        >>> Store.open(folder, {"run": {"seed": 1}, "shard_size": 2, "rows": 2})
        Traceback (most recent call last):
        attnfaith.errors.InputError: ... was made with other arguments: seed is 0 there and 1 here. ...
    """

    def __init__(self, directory: Path, manifest: dict[str, Any]) -> None:
        self.directory, self.manifest = directory, manifest
        self._schemas: dict[str, pa.Schema] = {}

    @classmethod
    def open(cls, directory: str | os.PathLike[str], manifest: Mapping[str, Any]) -> Store:
        """Begin a run, or go on with one that was made from the same things.

        Args:
            directory: made when there is none; refused when it holds anything else.
            manifest: JSON; what must be equal is under "run", and in "shard_size" and "rows".
        """
        path = Path(directory).expanduser()
        asked = json.loads(json.dumps(manifest))
        with storing(path):
            if path.exists() and not path.is_dir():
                raise InputError(f"{str(path)!r} is a file. Give a directory for the results, as output_dir.")
            path.mkdir(parents=True, exist_ok=True)
            present = [entry for entry in path.iterdir() if not LEFTOVER.fullmatch(entry.name)]
            if (path / manifests.NAME).exists():
                store = cls(path, manifests.read_manifest(path))
                store._refuse_another(asked)
                if store.manifest.get("statistics") != asked.get("statistics"):  # made anew at each reading
                    store.manifest["statistics"] = asked.get("statistics")
                    put(path / manifests.NAME, manifests.written(store.manifest))
            elif present:
                raise InputError(
                    f"{str(path)!r} holds other files ({present[0].name!r}) and no {manifests.NAME}, so it is no run "
                    "of attnfaith. Give another output_dir, new or empty."
                )
            else:
                store = cls(path, asked)
                put(path / manifests.NAME, manifests.written(asked))
            store._remove_leftovers(everyone=False)
            store._refuse_unreadable()
        return store

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Store:
        """A finished run, to read."""
        path = Path(directory).expanduser()
        with storing(path):
            if not path.is_dir():
                raise InputError(f"There is no directory {str(path)!r}.")
            if not (path / manifests.NAME).exists():
                raise InputError(f"{str(path)!r} is no run of attnfaith: it has no {manifests.NAME}.")
            store = cls(path, manifests.read_manifest(path))
            if not store.complete:
                of = f" of {store._expected}" if store._expected is not None else ""
                raise InputError(
                    f"The run in {str(path)!r} is not complete: {len(store.shards())}{of} shards are there. The same "
                    "command as before goes on with it."
                )
        return store

    @property
    def complete(self) -> bool:
        """Was the run finished, and is it all there?"""
        return "counts" in self.manifest and self.shards() == list(range(self.manifest["shards"]))

    @property
    def tables(self) -> list[str]:
        """The names of the tables, the texts first."""
        names = sorted(entry.name for entry in self.directory.iterdir() if entry.is_dir() and self._files(entry.name))
        return sorted(names, key=lambda name: name != TEXTS)

    def shards(self) -> list[int]:
        """The numbers of the shards that are done."""
        return sorted(self._files(TEXTS))

    def done(self, shard: int) -> bool:
        """Are all tables of a shard written?"""
        return self._path(TEXTS, shard).exists()

    def write(self, shard: int, tables: Mapping[str, pa.Table], rows_hash: str) -> None:
        """Write all tables of a shard, each whole or not at all.

        Args:
            shard: its number.
            tables: by name, "texts" among them; a table has the same schema in all shards, also where it is empty.
            rows_hash: the fingerprint of the rows they were made from.
        """
        with storing(self.directory):
            for name in sorted(tables, key=lambda name: name == TEXTS):
                table = tables[name]
                self._keep_schema(name, table.schema)
                (self.directory / name).mkdir(exist_ok=True)
                put(self._path(name, shard), _written(table.replace_schema_metadata({_ROWS: rows_hash.encode()})))

    @property
    def concluded(self) -> list[str]:
        """The names of the tables that were made of all shards."""
        return sorted(path.stem for path in self.directory.glob("*.parquet"))

    def conclude(self, name: str, table: pa.Table) -> None:
        """Write a table that was made of all shards, whole or not at all."""
        with storing(self.directory):
            put(self._whole(name), _written(table))

    def check(self, shard: int, rows_hash: str) -> None:
        """Refuse data that differ from those a shard was made from."""
        if self._rows_hash(shard) == rows_hash:
            return
        path = self._path(TEXTS, shard)
        with reading(path):
            rows = pq.read_metadata(path).num_rows
        first = shard * self.manifest["shard_size"]
        raise InputError(
            f"The data have changed: rows {first} to {first + max(rows, 1) - 1} (counted from 0) are not those that "
            f"the results in {str(self.directory)!r} were made from. Give another output_dir, or the same data."
        )

    def same_rows(self, other: Store) -> bool:
        """Were both made from the same rows of data?"""
        sizes = {store.manifest["shard_size"] for store in (self, other)}
        shards = self.shards()
        return (
            len(sizes) == 1
            and shards == other.shards()
            and all(self._rows_hash(shard) == other._rows_hash(shard) for shard in shards)
        )

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Say in the manifest that all is there; its counts are ``summary``, the same for the same results."""
        shards = self.shards()
        expected = len(shards) if self._expected is None else self._expected
        if lacking := [number for number in range(expected) if number not in set(shards)] or shards[expected:]:
            raise StorageError(f"{str(self.directory)!r}: the shards {lacking[:10]} are missing or too many.")
        with storing(self.directory):
            self._remove_leftovers(everyone=True)
            self.manifest |= {"shards": len(shards), "counts": json.loads(json.dumps(summary))}
            put(self.directory / manifests.NAME, manifests.written(self.manifest))

    def table(self, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A whole table in the order of the data, with all its columns or those asked for.

        A whole number or truth value that may be missing by the table's schema has pandas' nullable type.
        """
        parts = list(self._parts(name, columns))
        return _frame(pa.concat_tables(parts))

    def batches(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """The same shard by shard, so that memory does not grow with the data."""
        for part in self._parts(name, columns):
            yield _frame(part)

    def copy_to(self, directory: str | os.PathLike[str]) -> Store:
        """The same run in another directory, new or empty, or holding a part of it already."""
        if Path(directory).expanduser().resolve() == self.directory.resolve():
            return self
        base = {name: value for name, value in self.manifest.items() if name not in _FINISHED}
        other, names = Store.open(directory, base), self.tables
        for shard in self.shards():
            if other.done(shard):
                other.check(shard, self._rows_hash(shard))
                continue
            with storing(other.directory):
                for name in reversed(names):
                    (other.directory / name).mkdir(exist_ok=True)
                    put(other._path(name, shard), self._path(name, shard).read_bytes())
        for name in self.concluded:
            with storing(other.directory):
                put(other._whole(name), self._whole(name).read_bytes())
        if "counts" in self.manifest:
            other.finish(self.manifest["counts"])
        return other

    @property
    def _expected(self) -> int | None:
        rows = self.manifest.get("rows")
        return None if rows is None else -(-rows // self.manifest["shard_size"])

    def _path(self, name: str, shard: int) -> Path:
        return self.directory / name / f"{shard:05d}.parquet"

    def _whole(self, name: str) -> Path:
        return self.directory / f"{name}.parquet"

    def _files(self, name: str) -> dict[int, Path]:
        try:
            found = {_SHARD.fullmatch(entry.name): entry for entry in os.scandir(self.directory / name)}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return {int(match[1]): Path(entry.path) for match, entry in found.items() if match}

    def _parts(self, name: str, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        if name in self.concluded:
            with reading(self._whole(name)):
                yield pq.ParquetFile(self._whole(name), page_checksum_verification=True).read(columns=columns)
            return
        if name not in self.tables:
            raise InputError(f"There is no table {name!r} in this run; there are {', '.join(self.tables) or 'none'}.")
        for shard in self.shards():
            path = self._path(name, shard)
            with reading(path):
                yield pq.ParquetFile(path, page_checksum_verification=True).read(columns=columns, use_threads=False)

    def _rows_hash(self, shard: int) -> str:
        path = self._path(TEXTS, shard)
        with reading(path):
            return (pq.read_schema(path).metadata or {}).get(_ROWS, b"").decode()

    def _keep_schema(self, name: str, schema: pa.Schema) -> None:
        """A column is of one type in all shards, also in one where it has no value."""
        if any(pa.types.is_null(field.type) for field in schema):
            raise ValueError(f"the table {name!r} has a column of no type; make it with an explicit schema")
        if name not in self._schemas:
            first = next(iter(self._files(name).values()), None)
            self._schemas[name] = schema if first is None else pq.read_schema(first)
        if not schema.equals(self._schemas[name]):
            raise InputError(
                f"The table {name!r} in {str(self.directory)!r} has other columns than this version of attnfaith "
                "writes. Give another output_dir."
            )

    def _refuse_another(self, asked: Mapping[str, Any]) -> None:
        there, here = ({name: one.get(name) for name in ("shard_size", "rows")} for one in (self.manifest, asked))
        found = manifests.difference(self.manifest["run"], asked["run"]) or manifests.difference(there, here)
        if found is not None:
            raise InputError(
                f"The run in {str(self.directory)!r} was made with other arguments: {found[0]} is {short(found[1])} "
                f"there and {short(found[2])} here. Give another output_dir, or the same arguments."
            )

    def _refuse_unreadable(self) -> None:
        """Every shard that counts as done can be read, in every table."""
        shards = self.shards()
        for name in self.tables:
            for shard in shards:
                with reading(self._path(name, shard)):
                    pq.read_metadata(self._path(name, shard))

    def _remove_leftovers(self, *, everyone: bool) -> None:
        for folder in (self.directory, *(entry for entry in self.directory.iterdir() if entry.is_dir())):
            remove_leftovers(folder, everyone=everyone)


def _written(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table.combine_chunks(), sink, row_group_size=max(1, len(table)), **_PARQUET)
    return sink.getvalue()


def _frame(table: pa.Table) -> pd.DataFrame:
    """By the schema alone: what happens to be missing changes no type."""
    columns = {
        field.name: table[field.name].to_pandas(types_mapper=(_NULLABLE if field.nullable else _WHOLE).get)
        for field in table.schema
    }
    return pd.DataFrame(columns, columns=table.column_names)
