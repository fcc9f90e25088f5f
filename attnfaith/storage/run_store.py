"""A run on disk: a manifest, and for each table a folder of shards; whole or absent, whenever the writer is killed.

Every file proves its own bytes and says of which run, table and shard it is (`sealed_table`). The
manifest has a digest of itself and, once all is there, one over the files of every table.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attnfaith.errors import InputError, StorageError
from attnfaith.storage import manifest as manifests
from attnfaith.storage import sealed_table
from attnfaith.storage.atomic_files import (
    LEFTOVER,
    folder_of,
    is_folder,
    locked,
    make_folder,
    probe,
    put,
    put_new,
    remove_leftovers,
    storing,
)
from attnfaith.validation import short_repr

TEXTS = "texts"
"""The table that is written last: where it has a shard, all the others have it."""
_SHARD = re.compile(r"[0-9]{5,15}\.parquet")
_WHOLE = {pa.string(): pd.StringDtype(na_value=math.nan)}
_NULLABLE = {**_WHOLE, pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
Check = Callable[[Mapping[str, Any], Path], None]


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
        self._proofs: dict[Path, sealed_table.Proof] = {}  # so that no file is hashed twice while it stays as it is
        self._concluded: set[str] = set()
        self._expected_columns: Mapping[str, pa.Schema] = {}
        self._run = manifests.run_digest(manifest)

    @classmethod
    def open(cls, directory: str | os.PathLike[str], manifest: Mapping[str, Any]) -> Store:
        """Begin a run, or go on with one that was made from the same things.

        Nothing is computed yet when this refuses a folder that cannot be written. Of several that begin different runs
        in one folder at once, one begins and the others are refused; several may do the same run.

        Args:
            directory: made when there is none; refused when it holds anything else.
            manifest: JSON; what must be equal is under "run", and in "shard_size" and "rows".
        """
        path = folder_of(directory)
        asked = json.loads(json.dumps(manifest))
        with storing(path):
            _refuse_file(path)
            path.mkdir(parents=True, exist_ok=True)
            present = [entry for entry in path.iterdir() if not LEFTOVER.fullmatch(entry.name)]
            if not os.path.lexists(path / manifests.NAME):
                cls(path, asked)._refuse_foreign(present)
                probe(path)
                put_new(path / manifests.NAME, manifests.written(asked))  # of two that begin, one is the first
            store = cls(path, cls(path, asked)._joined(asked))
            if "counts" not in store.manifest:
                probe(path)
            store._remove_leftovers(everyone=False)
            store._prove_all()
        return store

    @classmethod
    def load(cls, directory: str | os.PathLike[str], check: Check | None = None) -> Store:
        """A finished run, to read; the bytes of all its files are compared with their digests.

        Args:
            directory: where it is; nothing is written there.
            check: refuses what the manifest of this kind of run may not say, before any other file is opened.
        """
        path = folder_of(directory)
        with storing(path):
            if not path.is_dir():
                raise InputError(f"There is no directory {str(path)!r}.")
            if not os.path.lexists(path / manifests.NAME):
                raise InputError(f"{str(path)!r} is no run of attnfaith: it has no {manifests.NAME}.")
            store = cls(path, manifests.read_manifest(path))
            if check is not None and "counts" in store.manifest:
                check(store.manifest, path / manifests.NAME)
            done = store.shards()
            if "counts" not in store.manifest or len(done) < store.manifest["shards"] or not store._has_concluded():
                of = f" of {store._expected}" if store._expected is not None else ""
                raise InputError(
                    f"The run in {str(path)!r} is not complete: {len(done)}{of} shards are there. The same command as "
                    "before goes on with it."
                )
            store._compare_digests()
        return store

    @staticmethod
    def refuse_unusable(directory: str | os.PathLike[str]) -> None:
        """Raise what `open` would raise of a folder that cannot be written, before any work; nothing stays there."""
        path = folder_of(directory)
        with storing(path):
            _refuse_file(path)
            if path.is_dir():
                there = os.path.lexists(path / manifests.NAME) and manifests.read_manifest(path)
                if not there or "counts" not in there:
                    probe(path)
            elif not path.exists():
                parent = next(parent for parent in path.absolute().parents if parent.exists())
                if not parent.is_dir():
                    raise StorageError(f"{str(parent)!r} is a file, so there can be no folder {str(path)!r} in it.")
                probe(parent)

    @property
    def complete(self) -> bool:
        """Was the run finished, and is it all there, as it was then?"""
        if "counts" not in self.manifest or self.shards() != list(range(self.manifest["shards"])):
            return False
        return self._has_concluded() and self.manifest["digests"] == self._digests(self.concluded)

    @property
    def tables(self) -> list[str]:
        """The names of the tables, the texts first."""
        if "digests" in self.manifest:
            names = sorted(self.manifest["digests"]["shards"])
        else:
            names = sorted(entry.name for entry in os.scandir(self.directory) if self._files(entry.name))
        return sorted(names, key=lambda name: name != TEXTS)

    def shards(self) -> list[int]:
        """The numbers of the shards that are done, in all tables."""
        there = [set(self._files(name)) for name in {TEXTS, *self.tables}]
        done = set.intersection(*there)
        if "shards" in self.manifest:
            done = {number for number in done if number < self.manifest["shards"]}
        return sorted(done)

    def done(self, shard: int) -> bool:
        """Are all tables of a shard written?"""
        if not self._path(TEXTS, shard).exists():
            return False
        names = self._prove(TEXTS, shard).identity.tables
        return all(self._path(name, shard).exists() for name in names)

    def write(self, shard: int, tables: Mapping[str, pa.Table], rows_hash: str) -> None:
        """Write all tables of a shard, each whole or not at all.

        Args:
            shard: its number.
            tables: by name, "texts" among them; a table has the same schema in all shards, also where it is empty.
            rows_hash: the fingerprint of the rows they were made from.
        """
        names = tuple(sorted(tables, key=lambda name: name == TEXTS))
        with storing(self.directory):
            for name in names:
                table = tables[name]
                self._keep_schema(name, table.schema)
                make_folder(self.directory / name)
                content = sealed_table.encode(
                    table, sealed_table.ShardIdentity(self._run, name, shard, rows_hash, names)
                )
                put(self._path(name, shard), content)

    @property
    def concluded(self) -> list[str]:
        """The names of the tables that were made of all shards."""
        if "digests" in self.manifest:
            return sorted(self.manifest["digests"]["concluded"])
        return sorted(self._concluded)

    def conclude(self, name: str, table: pa.Table) -> None:
        """Write a table that was made of all shards, whole or not at all."""
        _refuse_name(name)
        with storing(self.directory):
            put(
                self._whole(name),
                sealed_table.encode(table, sealed_table.ShardIdentity(self._run, name, None, "", (name,))),
            )
            self._concluded.add(name)

    def expect(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse tables with other columns from now on, whose files may come from anybody.

        Args:
            schemas: by name of the table.
        """
        self._expected_columns = schemas
        for name in self.tables:
            for shard in self.shards()[:1]:
                path = self._path(name, shard)
                lacking = [
                    one
                    for one in schemas.get(name, pa.schema([])).names
                    if one not in sealed_table.read_schema(path).names
                ]
                with sealed_table.damaged(path):
                    if lacking:
                        raise ValueError(f"it has no column {lacking[0]!r}")

    def check(self, shard: int, rows_hash: str) -> None:
        """Refuse data that differ from those a shard was made from."""
        proof = self._prove(TEXTS, shard)
        if proof.identity.rows == rows_hash:
            return
        first = shard * self.manifest["shard_size"]
        raise InputError(
            f"The data have changed: rows {first} to {first + max(proof.rows, 1) - 1} (counted from 0) are not those "
            f"that the results in {str(self.directory)!r} were made from. Give another output_dir, or the same data."
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
        concluded = {*self._concluded, *self.concluded}
        self.manifest = manifests.unfinished(self.manifest)
        shards = self.shards()
        expected = len(shards) if self._expected is None else self._expected
        if lacking := [number for number in range(expected) if number not in set(shards)] or shards[expected:]:
            raise StorageError(f"{str(self.directory)!r}: the shards {lacking[:10]} are missing or too many.")
        counts = json.loads(json.dumps(summary))
        with storing(self.directory), locked(self.directory):
            there = manifests.read_manifest(self.directory)
            if manifests.run_digest(there) != self._run:
                raise StorageError(
                    f"{str(self.directory)!r} was given to another run while this one wrote into it. Run again with "
                    "another output_dir."
                )
            self._remove_leftovers(everyone=True)
            self.manifest |= {"shards": len(shards), "counts": counts, "digests": self._digests(sorted(concluded))}
            put(self.directory / manifests.NAME, manifests.written(self.manifest))

    def table(self, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A whole table in the order of the data, with all its columns or those asked for.

        A whole number or truth value that may be missing by the table's schema has pandas' nullable type.
        """
        parts = list(self._parts(name, columns))
        for part in parts:
            self._refuse_other_columns(name, parts[0].schema, part.schema)
        return _frame(pa.concat_tables(parts))

    def batches(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """The same shard by shard, so that memory does not grow with the data."""
        for part in self._parts(name, columns):
            yield _frame(part)

    def copy_to(self, directory: str | os.PathLike[str]) -> Store:
        """The same run in another directory, new or empty, or holding a part of it already; every file is proved."""
        if folder_of(directory).resolve() == self.directory.resolve():
            return self
        other, names = Store.open(directory, manifests.unfinished(self.manifest)), self.tables
        for shard in self.shards():
            if other.done(shard):
                other.check(shard, self._rows_hash(shard))
            with storing(other.directory):
                for name in reversed(names):
                    make_folder(other.directory / name)
                    put(other._path(name, shard), self._content(name, shard))
        for name in self.concluded:
            with storing(other.directory):
                put(other._whole(name), self._content(name, None))
                other._concluded.add(name)
        if "counts" in self.manifest:
            other.finish(self.manifest["counts"])
            other._refuse_other_digests(self.manifest["digests"])
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
        """The shards of a table that are there; names that this version never writes are not among them."""
        folder = self.directory / name
        if not manifests.is_name(name) or not folder.is_dir():
            return {}
        if not is_folder(folder):
            raise StorageError(f"{str(folder)!r} is a symbolic link; expected a folder. Remove the link.")
        found = {}
        for entry in os.scandir(folder):
            if _SHARD.fullmatch(entry.name):
                number = int(entry.name.partition(".")[0])
                if entry.name == self._path(name, number).name:
                    found[number] = Path(entry.path)
        return found

    def _parts(self, name: str, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        if name in self.concluded:
            yield self._read(name, None, columns)
            return
        if name not in self.tables:
            raise InputError(f"There is no table {name!r} in this run; there are {', '.join(self.tables) or 'none'}.")
        for shard in self.shards():
            yield self._read(name, shard, columns)

    def _file(self, name: str, shard: int | None) -> Path:
        return self._whole(name) if shard is None else self._path(name, shard)

    def _prove(self, name: str, shard: int | None) -> sealed_table.Proof:
        """The proof of a file that is what its place says."""
        path = self._file(name, shard)
        return self._accepted(name, shard, sealed_table.prove(path, self._proofs.get(path)))

    def _read(self, name: str, shard: int | None, columns: Sequence[str] | None) -> pa.Table:
        path = self._file(name, shard)
        table, proof = sealed_table.read(path, columns, self._proofs.get(path))
        self._accepted(name, shard, proof)
        with sealed_table.damaged(path):
            self._refuse_hostile(name, shard, table)
        return table

    def _refuse_hostile(self, name: str, shard: int | None, table: pa.Table) -> None:
        """Columns of other types, or rows of other texts, than `expect` was told of."""
        if name not in self._expected_columns:
            return
        for expected in self._expected_columns[name]:
            place = table.schema.get_field_index(expected.name)
            found = table.schema.field(place) if place >= 0 else expected
            if not found.equals(expected):
                got, wanted = (f"{one.type}{'' if one.nullable else ' not null'}" for one in (found, expected))
                raise ValueError(f"its column {short_repr(expected.name)} is {short_repr(got)}; expected {wanted}")
        if shard is None or not len(table) or "text_id" not in table.schema.names:
            return
        size, ends = self.manifest["shard_size"], pc.min_max(table["text_id"]).as_py()
        if not shard * size <= ends["min"] <= ends["max"] < (shard + 1) * size:
            raise ValueError(f"it has rows of texts that are not in shard {shard}")

    def _content(self, name: str, shard: int | None) -> bytes:
        path = self._file(name, shard)
        content, proof = sealed_table.read_bytes(path, self._proofs.get(path))
        self._accepted(name, shard, proof)
        return content

    def _accepted(self, name: str, shard: int | None, proof: sealed_table.Proof) -> sealed_table.Proof:
        """Refuse the file of another run, table or shard, or of other rows than the texts of its shard."""
        path, told = self._file(name, shard), proof.identity
        with sealed_table.damaged(path):
            if told.run != self._run:
                raise ValueError("it belongs to another run, made with other arguments")
            if (told.table, told.shard) != (name, shard):
                raise ValueError(
                    f"it is shard {short_repr(told.shard)} of the table {short_repr(told.table)}, in another's place"
                )
        self._proofs[path] = proof
        return proof

    def _prove_all(self) -> None:
        """Every file of a shard that is done can be read, and all were made from the same rows."""
        names = self.tables
        for shard in self.shards():
            rows = self._prove(TEXTS, shard).identity.rows
            for name in names:
                proof = self._prove(name, shard)
                with sealed_table.damaged(self._path(name, shard)):
                    if proof.identity.rows != rows:
                        raise ValueError("it was made from other rows than the texts of the same shard")
        if "digests" in self.manifest:
            for name in self.concluded:
                if self._whole(name).exists():
                    self._prove(name, None)

    def _digests(self, concluded: Sequence[str]) -> dict[str, dict[str, str]]:
        """A digest over all files of each table."""
        shards = self.shards()
        return {
            "shards": {
                name: sealed_table.digest_of([self._prove(name, shard) for shard in shards]) for name in self.tables
            },
            "concluded": {name: sealed_table.digest_of([self._prove(name, None)]) for name in concluded},
        }

    def _has_concluded(self) -> bool:
        return all(self._whole(name).exists() for name in self.concluded)

    def _compare_digests(self) -> None:
        self._prove_all()
        self._refuse_other_digests(self._digests(self.concluded))

    def _refuse_other_digests(self, there: Mapping[str, Mapping[str, str]]) -> None:
        for kind, digests in self.manifest["digests"].items():
            for name, digest in digests.items():
                if there[kind].get(name) != digest:
                    raise StorageError(
                        f"The files of the table {name!r} in {str(self.directory)!r} are not those that the run was "
                        "finished with. The same command with the same output_dir checks them all and finishes it "
                        "again; or restore the folder from a copy."
                    )

    def _rows_hash(self, shard: int) -> str:
        return self._prove(TEXTS, shard).identity.rows

    def _keep_schema(self, name: str, schema: pa.Schema) -> None:
        """A column is of one type in all shards, also in one where it has no value."""
        _refuse_name(name)
        if any(pa.types.is_null(field.type) for field in schema):
            raise ValueError(f"the table {name!r} has a column of no type; make it with an explicit schema")
        if name not in self._schemas:
            first = next(iter(self._files(name).values()), None)
            self._schemas[name] = schema if first is None else sealed_table.read_schema(first)
        self._refuse_other_columns(name, self._schemas[name], schema)

    def _refuse_other_columns(self, name: str, there: pa.Schema, here: pa.Schema) -> None:
        if not here.equals(there):
            raise InputError(
                f"The table {name!r} in {str(self.directory)!r} has other columns than this version of attnfaith "
                "writes. Give another output_dir."
            )

    def _joined(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The manifest that stands in the folder, if it is of the run that is asked for, with the statistics asked for.

        Under a lock, or of two that go on at once one would undo what the other says at its end.
        """
        with locked(self.directory):
            there = manifests.read_manifest(self.directory)
            self._refuse_another(there, asked)
            if there.get("statistics") != asked.get("statistics"):  # made anew at each reading
                there["statistics"] = asked.get("statistics")
                put(self.directory / manifests.NAME, manifests.written(there))
        return there

    def _refuse_another(self, manifest: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        there, here = ({name: one.get(name) for name in ("shard_size", "rows")} for one in (manifest, asked))
        found = manifests.difference(manifest["run"], asked["run"]) or manifests.difference(there, here)
        if found is not None:
            raise InputError(
                f"The run in {str(self.directory)!r} was made with other arguments: {found[0]} is "
                f"{short_repr(found[1])} there and {short_repr(found[2])} here. Give another output_dir, or the "
                "same arguments."
            )

    def _refuse_foreign(self, present: Sequence[Path]) -> None:
        """A folder without a manifest is new, or holds nothing but files of this very run."""
        for entry in present:
            try:
                if is_folder(entry) and self._files(entry.name):
                    continue
                told = sealed_table.prove(entry).identity
                if (told.run, told.shard, f"{told.table}.parquet") == (self._run, None, entry.name):
                    continue
            except StorageError:
                pass
            raise InputError(
                f"{str(self.directory)!r} holds other files ({entry.name!r}) and no {manifests.NAME}, so it is no run "
                "of attnfaith. Give another output_dir, new or empty."
            )
        for entry in present:
            for path in self._files(entry.name).values() if entry.is_dir() else ():
                try:
                    mine = sealed_table.prove(path).identity.run == self._run
                except StorageError:
                    mine = False
                if not mine:
                    raise InputError(
                        f"{str(self.directory)!r} holds other files ({entry.name!r}) and no {manifests.NAME}, and "
                        f"{path.name!r} in it is not of this run. Give another output_dir, new or empty."
                    )

    def _remove_leftovers(self, *, everyone: bool) -> None:
        for folder in (self.directory, *(entry for entry in self.directory.iterdir() if is_folder(entry))):
            remove_leftovers(folder, everyone=everyone)


def _refuse_file(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise InputError(f"{str(path)!r} is a file. Give a directory for the results, as output_dir.")


def _refuse_name(name: str) -> None:
    if not manifests.is_name(name):
        raise InputError(
            f"{short_repr(name)} is no name for a table. Call the test something plain, such as 'my_test'."
        )


def _frame(table: pa.Table) -> pd.DataFrame:
    """By the schema alone: what happens to be missing changes no type."""
    columns = {
        field.name: table[field.name].to_pandas(types_mapper=(_NULLABLE if field.nullable else _WHOLE).get)
        for field in table.schema
    }
    return pd.DataFrame(columns, columns=table.column_names)
