"""`Store`: a run on disk, as a manifest and a folder of shards for each table.

Files are written atomically, so each is complete or absent even if the writer is killed. Every file has a checksum and
the run, table and shard it belongs to (`table_files`). The manifest has a digest of itself and, once the run is
finished, a digest of the files of every table. What is finished of a shard that is not complete is in `pieces`. What
else the folder may hold is decided in `run_folder`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa

from attnfaith.addresses import is_address
from attnfaith.errors import InputError, StorageError
from attnfaith.parameter_names import parameter
from attnfaith.storage import manifest as manifests
from attnfaith.storage.atomic_files import folder_of, locked, make_folder, storing
from attnfaith.storage.frames import to_pandas
from attnfaith.storage.pieces import Pieces
from attnfaith.storage.run_folder import RunFolder
from attnfaith.storage.table_files import TEXT_ID, TEXTS, TableFiles, refuse_name

Check = Callable[[Mapping[str, Any], Path], None]


class Store:
    """The stored results of a run; made by `open` to run, or by `load` to read a finished run.

    Attributes:
        directory: the folder; for a run at an address, its working copy.
        manifest: the manifest, with the entries that must not change under "run", "shard_size", "rows" if known, and
            "part" if only a part of the shards is to be stored.

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

    def __init__(self, folder: RunFolder, manifest: dict[str, Any]) -> None:
        self.directory, self.manifest, self._folder = folder.path, manifest, folder
        self._concluded: set[str] = set()
        self._expected_columns: Mapping[str, pa.Schema] = {}
        self._run = manifests.run_digest(manifest)
        self._files, self._pieces = TableFiles(folder.path, self._run), Pieces(folder.path, self._run)

    @classmethod
    def open(cls, directory: str | os.PathLike[str], manifest: Mapping[str, Any], *, begin: bool = True) -> Store:
        """Begin a run, or continue one that was made with the same arguments and data.

        A folder that cannot be written is refused here, before anything is computed. If several processes begin
        different runs in one folder at once, one of them succeeds; several can write the same run.

        Args:
            directory: created if it does not exist; refused if it holds other files. It can be the address of a folder
                elsewhere, such as ``s3://bucket/run``: then files are written to a working copy, and sent from there.
            manifest: JSON; "run", "shard_size", "rows" and "part" must be equal for a run to be continued.
            begin: False in all processes but the first: they continue the run that the first has begun.
        """
        folder = RunFolder(directory)
        requested = json.loads(json.dumps(manifest))
        with folder.errors_named():
            foreign = folder.fetch()
            folder.make()
            present = folder.entries()
            if not folder.has_manifest:
                if not begin:
                    folder.wait_for_manifest()
                folder.refuse_foreign(manifests.run_digest(requested), present, foreign)
                folder.probe()
                folder.put_new_manifest(manifests.to_bytes(requested))
            # From here on the manifest in the folder counts: it may say that the run is finished already.
            store = cls(folder, _stored_manifest(folder, requested))
            if "counts" not in store.manifest:
                folder.probe()
            folder.remove_leftovers(include_live_writers=False)
            store._prove_all()
            store._pieces.prove()
            for shard in store._pieces.files():
                if store.done(shard):  # the writer was killed before it could remove them
                    store._remove_pieces(shard)
        return store

    @classmethod
    def load(cls, directory: str | os.PathLike[str], check: Check | None = None) -> Store:
        """Load a finished run; the bytes of all its files are compared with their digests.

        Args:
            directory: of the run, or its address; nothing is written there.
            check: checks the manifest of this kind of run, before any other file is opened.
        """
        return cls._load(RunFolder(directory), check)

    def load_again(self, check: Check | None = None) -> Store:
        """Load the run when it has been finished, maybe by another process."""
        return self._load(self._folder, check)

    @classmethod
    def _load(cls, folder: RunFolder, check: Check | None) -> Store:
        path = folder.path
        with folder.errors_named():
            folder.fetch()
            if not path.is_dir():
                raise InputError(f"There is no directory {str(path)!r}.", code="not-a-run")
            if not folder.has_manifest:
                raise InputError(f"{str(path)!r} is no run of attnfaith: it has no {manifests.NAME}.", code="not-a-run")
            store = cls(folder, manifests.read_manifest(path))
            finished = "counts" in store.manifest
            if check is not None and finished:
                check(store.manifest, path / manifests.NAME)
            done = store.shards()
            if not finished or len(done) < store.manifest["shards"] or not store._has_concluded():
                expected = manifests.shards_of(store.manifest)
                of = "" if expected is None else f" of {len(expected)}"
                raise InputError(
                    f"The run in {str(path)!r} is not complete: {len(done)}{of} shards are stored. The command that "
                    "began it continues it.",
                    code="unfinished-run",
                )
            store._prove_all()
            store._refuse_other_digests(store._digests(store.concluded))
        return store

    @staticmethod
    def is_keyed(directory: str | os.PathLike[str]) -> bool:
        """True if a folder holds a run, finished or not, that reads its rows in the keyed random order."""
        folder = RunFolder(directory)
        with folder.errors_named():
            folder.fetch_manifest()
            there = folder.path.is_dir() and folder.has_manifest
            return there and manifests.is_keyed(manifests.read_manifest(folder.path))

    @property
    def location(self) -> str:
        """The folder of the run, or its address."""
        return self._folder.location

    def fetch(self) -> None:
        """Fetch what other processes have written to the address of the run; in a folder it is there."""
        with self._folder.errors_named():
            self._folder.fetch()

    @property
    def complete(self) -> bool:
        """True if the run was finished and all of its files are unchanged."""
        if "counts" not in self.manifest or self.shards() != list(manifests.shards_of(self.manifest) or ()):
            return False
        return self._has_concluded() and self.manifest["digests"] == self._digests(self.concluded)

    @property
    def tables(self) -> list[str]:
        """The names of the tables, the table of texts first."""
        names = self.manifest["digests"]["shards"] if "digests" in self.manifest else self._files.tables()
        return sorted(names, key=lambda name: (name != TEXTS, name))

    def shards(self) -> list[int]:
        """The numbers of the shards that are stored in all tables."""
        done = set.intersection(*(set(self._files.shards(name)) for name in {TEXTS, *self.tables}))
        expected = manifests.shards_of(self.manifest)
        known = "shards" in self.manifest or manifests.SAMPLE in self.manifest
        return sorted(done if not known or expected is None else done & {*expected})

    def done(self, shard: int) -> bool:
        """True if all tables of a shard are stored."""
        return self._files.has_all(shard)

    def discard_other(self, shard: int, rows: int, rows_hash: str) -> None:
        """Remove what is stored of a shard with another number of rows: in a sample, the last shard can have fewer.

        Args:
            shard: its number.
            rows: the number that it shall have.
            rows_hash: their fingerprint.
        """
        if not self._keyed:
            return
        with storing(self.directory):
            if self.done(shard) and (proof := self._files.file(TEXTS, shard).prove()).rows != rows:
                # the table that says that the shard is done goes first
                for name in sorted(proof.identity.tables, key=lambda name: name != TEXTS):
                    self._files.file(name, shard).path.unlink(missing_ok=True)
                    self._folder.match(self.directory / name)
            if self._pieces.hashes(shard) - {rows_hash}:
                self._remove_pieces(shard)

    def read_only(self, sample: Mapping[str, Any]) -> None:
        """Take the first "texts" rows of a run in the keyed order as all of it, until the run is finished with those.

        What is stored of other rows stays on disk, for a later call that reads more.
        """
        self.manifest = {**manifests.unfinished(self.manifest), manifests.SAMPLE: json.loads(json.dumps(sample))}

    def write(self, shard: int, tables: Mapping[str, pa.Table], rows_hash: str) -> None:
        """Write all tables of a shard, each atomically.

        Args:
            shard: its number.
            tables: by name, with "texts"; a table has the same schema in all shards, also if it is empty.
            rows_hash: the fingerprint of the rows of the data.
        """
        names = tuple(sorted(tables, key=lambda name: name == TEXTS))
        with storing(self.directory):
            for name in names:
                self._files.keep_schema(name, tables[name].schema)
                make_folder(self.directory / name)
                file = self._files.file(name, shard)
                self._folder.put(file.path, file.encode(tables[name], rows_hash, names))
            self._remove_pieces(shard)

    def write_piece(self, shard: int, tables: Mapping[str, pa.Table], rows_hash: str) -> None:
        """Write what is finished of a shard, so that it is kept if the run is killed before the shard is complete.

        Args:
            shard: its number.
            tables: rows of some texts by table, with "texts".
            rows_hash: the fingerprint of all rows of the shard.
        """
        with storing(self.directory):
            self._pieces.write(shard, tables, rows_hash)
            self._folder.match(self._pieces.folder)

    def pieces(
        self, shard: int, schemas: Mapping[str, pa.Schema], rows_hash: str, texts: Collection[int]
    ) -> list[dict[str, pa.Table]]:
        """Read what is finished of a shard that is not complete; each text is in one of the pieces as a whole.

        Args:
            shard: its number.
            schemas: of the tables of the run.
            rows_hash: the fingerprint of all rows of the shard; other data are refused.
            texts: the ``text_id`` of all rows of the shard.
        """
        with storing(self.directory):
            found, hashes = self._pieces.read(shard, schemas, texts)
        if hashes - {rows_hash}:
            self._refuse_changed_data(shard, len(texts))
        return found

    def kept_rows(self) -> int:
        """How many rows of the data are done and stored, in complete shards and in pieces of others."""
        shards, size, rows = set(self.shards()), self.manifest["shard_size"], self.manifest.get("rows")
        complete = sum(size if rows is None else min(size, rows - shard * size) for shard in shards)
        return complete + sum(self._pieces.count_texts(shard) for shard in self._pieces.files() if shard not in shards)

    @property
    def concluded(self) -> list[str]:
        """The names of the tables that were computed from all shards."""
        if "digests" in self.manifest:
            return sorted(self.manifest["digests"]["concluded"])
        return sorted(self._concluded)

    def conclude(self, name: str, table: pa.Table) -> None:
        """Write a table that was computed from all shards, atomically."""
        refuse_name(name)
        file = self._files.file(name)
        with storing(self.directory):
            self._folder.put(file.path, file.encode(table, "", (name,)))
            self._concluded.add(name)

    def expect(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse tables with other columns from now on, since files can come from somebody else.

        Args:
            schemas: the expected schemas by table.
        """
        self._expected_columns = schemas
        for name in self.tables:
            for shard in self.shards()[:1]:
                self._files.file(name, shard).refuse_missing_columns(schemas.get(name, pa.schema([])).names)

    def check(self, shard: int, rows_hash: str) -> None:
        """Refuse data that differ from the rows of a stored shard."""
        proof = self._files.file(TEXTS, shard).prove()
        if proof.identity.rows != rows_hash:
            self._refuse_changed_data(shard, proof.rows)

    def same_rows(self, other: Store) -> bool:
        """True if both runs have the same rows of data; in the keyed order one may have read more of them."""
        orders = [
            (store.manifest["shard_size"], store.manifest["run"].get("seed") if store._keyed else None)
            for store in (self, other)
        ]
        shards, others = self.shards(), other.shards()
        if self._keyed and other._keyed and self.manifest["rows"] == other.manifest["rows"]:
            whole = min(manifests.rows_of(store.manifest) or 0 for store in (self, other))
            shards = others = list(range(whole // self.manifest["shard_size"])) or [-1]
        return (
            orders[0] == orders[1]
            and shards == others
            and all(self._files.rows_hash(shard) == other._files.rows_hash(shard) for shard in shards)
        )

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Mark the run as finished in the manifest.

        Args:
            summary: the counts of the run; the same results give the same counts.
        """
        concluded, sample = {*self._concluded, *self.concluded}, self.manifest.get(manifests.SAMPLE)
        self.manifest = manifests.unfinished(self.manifest)
        if sample is not None:
            self.read_only(sample)
        shards = self.shards()
        if not shards and (part := manifests.part_of(self.manifest)):
            raise InputError(
                f"The data end before part {part[0]} of {part[1]} begins, so it has no rows. Give fewer parts, and run "
                "all of them again.",
                code="no-texts",
            )
        expected = manifests.shards_of(self.manifest | {"shards": len(shards)}) or range(0)
        if wrong := sorted({*expected} ^ {*shards}):
            raise StorageError(
                f"{str(self.directory)!r}: the shards {wrong[:10]} are missing or too many.", code="damaged-run"
            )
        counts = json.loads(json.dumps(summary))
        with storing(self.directory), locked(self.directory):
            stored = manifests.read_manifest(self.directory)
            if manifests.run_digest(stored) != self._run:
                raise StorageError(
                    f"{str(self.directory)!r} was taken by another run while this one wrote into it. Run again with "
                    f"another {parameter('output_dir')}."
                )
            self._folder.remove_leftovers(include_live_writers=True)
            self._remove_pieces()
            self.manifest |= {"shards": len(shards), "counts": counts, "digests": self._digests(sorted(concluded))}
            self._folder.put(self.directory / manifests.NAME, manifests.to_bytes(self.manifest))

    def table(self, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read a whole table in the order of the data, with all columns or some.

        An integer or boolean column that can have missing values by its schema has a nullable type of pandas.
        """
        wanted = columns
        if self._keyed and columns is not None and name not in self.concluded:
            wanted = list(dict.fromkeys([*columns, TEXT_ID]))
        parts = list(self._parts(name, wanted))
        for part in parts:
            self._files.refuse_other_columns(name, parts[0].schema, part.schema)
        table = pa.concat_tables(parts)
        if self._keyed and TEXT_ID in table.schema.names and name not in self.concluded:
            order = np.argsort(table[TEXT_ID].to_numpy(), kind="stable")  # within a text the order stays
            table = table.take(pa.array(order))
        return to_pandas(table if columns is None else table.select(list(columns)))

    def schema(self, name: str) -> pa.Schema:
        """The columns of a table and their types."""
        return next(self._parts(name, None)).schema

    def batches(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Read a table shard by shard, so that memory does not grow with the data."""
        for part in self._parts(name, columns):
            yield to_pandas(part)

    def copy_to(self, directory: str | os.PathLike[str]) -> Store:
        """Copy the run to a directory that is new, empty, or holds a part of this run; every file is checked."""
        if is_address(directory):
            if str(directory).rstrip("/") == self.location:
                return self
        elif folder_of(directory).resolve() == self.directory.resolve():
            return self
        other = Store.open(directory, manifests.unfinished(self.manifest))
        self.copy_shards_to(other)
        for name in self.concluded:
            with storing(other.directory):
                self._copy_file(other, name)
                other._concluded.add(name)
        if "counts" in self.manifest:
            other.manifest |= {manifests.SAMPLE: self.manifest[manifests.SAMPLE]} if self._keyed else {}
            other.finish(self.manifest["counts"])
            other._refuse_other_digests(self.manifest["digests"])
        return other

    def copy_shards_to(self, other: Store) -> None:
        """Copy all shards to a run with the same data and arguments; every file is checked."""
        names = self.tables
        for shard in self.shards():
            if other.done(shard):
                other.check(shard, self._files.rows_hash(shard))
            with storing(other.directory):
                for name in reversed(names):
                    make_folder(other.directory / name)
                    self._copy_file(other, name, shard)

    def _copy_file(self, other: Store, name: str, shard: int | None = None) -> None:
        other._folder.put(other._files.file(name, shard).path, self._files.file(name, shard).read_bytes())

    @property
    def _keyed(self) -> bool:
        return manifests.is_keyed(self.manifest)

    def _remove_pieces(self, shard: int | None = None) -> None:
        """Remove the pieces of a shard, or all; also at the address of the run, if it has one."""
        self._pieces.remove(shard)
        self._folder.match(self._pieces.folder)

    def _parts(self, name: str, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        if name in self.concluded:
            yield self._files.file(name).read(columns, schema=self._expected_columns.get(name))
            return
        if name not in self.tables:
            raise InputError(
                f"There is no table {name!r} in this run; there are {', '.join(self.tables) or 'none'}.",
                code="unknown-name",
            )
        for shard in self.shards():
            file = self._files.file(name, shard)
            if name in self._expected_columns:
                texts = manifests.text_ids(self.manifest, shard)
                yield file.read(columns, schema=self._expected_columns[name], texts=texts)
            else:
                yield file.read(columns)

    def _prove_all(self) -> None:
        """Check the files of all stored shards, and of the tables that a finished run has computed from them."""
        self._files.prove_shards(self.tables, self.shards())
        if "digests" in self.manifest:
            for file in map(self._files.file, self.concluded):
                if file.path.exists():
                    file.prove()

    def _digests(self, concluded: Sequence[str]) -> dict[str, dict[str, str]]:
        return self._files.digests(self.tables, self.shards(), concluded)

    def _has_concluded(self) -> bool:
        return self._files.has_concluded(self.concluded)

    def _refuse_other_digests(self, actual: Mapping[str, Mapping[str, str]]) -> None:
        """Refuse files that are not those that the run was finished with."""
        for kind, digests in self.manifest["digests"].items():
            for name, digest in digests.items():
                if actual[kind].get(name) != digest:
                    raise StorageError(
                        f"The files of the table {name!r} in {str(self.directory)!r} are not those that the run was "
                        f"finished with. The same command with the same {parameter('output_dir')} checks them all "
                        "and finishes it again; or restore the folder from a copy.",
                        code="damaged-run",
                    )

    def _refuse_changed_data(self, shard: int, rows: int) -> NoReturn:
        ids = manifests.text_ids(self.manifest, shard, max(rows, 1))
        which = f"some of the rows {', '.join(map(str, ids))}" if self._keyed else f"rows {ids[0]} to {ids[-1]}"
        raise InputError(
            f"The data have changed: {which} (counted from 0) are not those that the results in "
            f"{str(self.directory)!r} were made from. Give another {parameter('output_dir')}, or the same data.",
            code="other-run",
        )


def _stored_manifest(folder: RunFolder, requested: dict[str, Any]) -> dict[str, Any]:
    """The manifest in the folder, updated with the requested statistics; that of another run is refused.

    Locked, because a rewrite at the same time could erase the entries that finish the run.
    """
    with locked(folder.path):
        stored = manifests.read_manifest(folder.path)
        manifests.refuse_another(folder.path, stored, requested)
        if stored.get("statistics") != requested.get("statistics"):  # estimates are computed at each reading
            stored["statistics"] = requested.get("statistics")
            folder.put(folder.path / manifests.NAME, manifests.to_bytes(stored))
    return stored
