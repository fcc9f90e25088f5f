"""`Store`: a run on disk, as a manifest and a folder of shards for each table.

Files are written atomically, so each is complete or absent even if the writer is killed. Every file has a checksum and
the run, table and shard it belongs to (`sealed_table`). The manifest has a digest of itself and, once the run is
finished, a digest of the files of every table. What is finished of a shard that is not complete is in `pieces`.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from attnfaith.addresses import is_address
from attnfaith.errors import InputError, StorageError
from attnfaith.functional.keyed_order import rows_at
from attnfaith.parameter_names import parameter
from attnfaith.storage import manifest as manifests
from attnfaith.storage import pieces, sealed_table
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
from attnfaith.storage.mirror import Mirror
from attnfaith.validation import short_repr

_ID = "text_id"
TEXTS = "texts"
"""The table that is written last: if it has a shard, all others have it."""
SEEN_AFTER = 60.0
"""Seconds in which a process waits for the files of another one."""
_SHARD = re.compile(r"[0-9]{5,15}\.parquet")
try:
    _TEXT = pd.StringDtype(na_value=math.nan)
except TypeError:  # pandas 2.2 has the same type under this name
    _TEXT = pd.StringDtype("pyarrow_numpy")
_STRINGS = {pa.string(): _TEXT}
_NULLABLE = {**_STRINGS, pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
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

    def __init__(self, directory: Path, manifest: dict[str, Any], mirror: Mirror | None = None) -> None:
        self.directory, self.manifest, self._mirror = directory, manifest, mirror
        self._schemas: dict[str, pa.Schema] = {}
        self._proofs: dict[Path, sealed_table.Proof] = {}  # so that an unchanged file is not hashed twice
        self._concluded: set[str] = set()
        self._expected_columns: Mapping[str, pa.Schema] = {}
        self._run = manifests.run_digest(manifest)
        self._pieces = pieces.Pieces(directory, self._run)

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
        path, mirror = _reached(directory)
        requested = json.loads(json.dumps(manifest))
        with _naming(mirror), storing(path):
            foreign = [] if mirror is None else mirror.fetch()
            _refuse_file(path)
            path.mkdir(parents=True, exist_ok=True)
            present = [entry for entry in path.iterdir() if not LEFTOVER.fullmatch(entry.name)]
            new = cls(path, requested, mirror)
            if not os.path.lexists(path / manifests.NAME):
                if not begin:
                    _refuse_separate(path, mirror)
                new._refuse_foreign(present)
                if foreign:
                    raise _foreign(path, foreign[0])
                probe(path)
                if put_new(path / manifests.NAME, manifests.to_bytes(requested)):  # never over that of another process
                    new._send(path / manifests.NAME)
            # From here on the manifest in the folder counts: it may say that the run is finished already.
            store = cls(path, new._stored_manifest(requested), mirror)
            if "counts" not in store.manifest:
                probe(path)
            store._remove_leftovers(include_live_writers=False)
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
        return cls._load(*_reached(directory), check)

    def load_again(self, check: Check | None = None) -> Store:
        """Load the run when it has been finished, maybe by another process."""
        return self._load(self.directory, self._mirror, check)

    @classmethod
    def _load(cls, path: Path, mirror: Mirror | None, check: Check | None) -> Store:
        with _naming(mirror), storing(path):
            if mirror is not None:
                mirror.fetch()
            if not path.is_dir():
                raise InputError(f"There is no directory {str(path)!r}.")
            if not os.path.lexists(path / manifests.NAME):
                raise InputError(f"{str(path)!r} is no run of attnfaith: it has no {manifests.NAME}.")
            store = cls(path, manifests.read_manifest(path), mirror)
            if check is not None and "counts" in store.manifest:
                check(store.manifest, path / manifests.NAME)
            done = store.shards()
            if "counts" not in store.manifest or len(done) < store.manifest["shards"] or not store._has_concluded():
                expected = manifests.shards_of(store.manifest)
                of = "" if expected is None else f" of {len(expected)}"
                raise InputError(
                    f"The run in {str(path)!r} is not complete: {len(done)}{of} shards are stored. The same command as "
                    "before continues it."
                )
            store._compare_digests()
        return store

    @staticmethod
    def is_keyed(directory: str | os.PathLike[str]) -> bool:
        """True if a folder holds a run, finished or not, that reads its rows in the keyed random order."""
        path, mirror = _reached(directory)
        with _naming(mirror), storing(path):
            if mirror is not None:
                mirror.fetch_manifest()
            there = path.is_dir() and os.path.lexists(path / manifests.NAME)
            return there and manifests.is_keyed(manifests.read_manifest(path))

    @staticmethod
    def refuse_unusable(directory: str | os.PathLike[str]) -> None:
        """Raise the error of `open` for a folder that cannot be written, before any work; leaves no file."""
        path, mirror = _reached(directory)
        with _naming(mirror), storing(path):
            if mirror is not None:
                mirror.fetch_manifest()
            _refuse_file(path)
            if path.is_dir():
                there = os.path.lexists(path / manifests.NAME) and manifests.read_manifest(path)
                if not there or "counts" not in there:
                    probe(path) if mirror is None else mirror.probe()
            elif not path.exists():
                parent = next(parent for parent in path.absolute().parents if parent.exists())
                if not parent.is_dir():
                    raise StorageError(f"{str(parent)!r} is a file, so there can be no folder {str(path)!r} in it.")
                probe(parent)

    @property
    def location(self) -> str:
        """The folder of the run, or its address."""
        return str(self.directory) if self._mirror is None else self._mirror.address

    def fetch(self) -> None:
        """Fetch what other processes have written to the address of the run; in a folder it is there."""
        if self._mirror is not None:
            with self._mirror.named():
                self._mirror.fetch()

    @property
    def complete(self) -> bool:
        """True if the run was finished and all of its files are unchanged."""
        if "counts" not in self.manifest or self.shards() != list(manifests.shards_of(self.manifest) or ()):
            return False
        return self._has_concluded() and self.manifest["digests"] == self._digests(self.concluded)

    @property
    def tables(self) -> list[str]:
        """The names of the tables, the table of texts first."""
        if "digests" in self.manifest:
            names = sorted(self.manifest["digests"]["shards"])
        else:
            names = sorted(entry.name for entry in os.scandir(self.directory) if self._files(entry.name))
        return sorted(names, key=lambda name: name != TEXTS)

    def shards(self) -> list[int]:
        """The numbers of the shards that are stored in all tables."""
        done = set.intersection(*(set(self._files(name)) for name in {TEXTS, *self.tables}))
        expected = manifests.shards_of(self.manifest)
        known = "shards" in self.manifest or manifests.SAMPLE in self.manifest
        return sorted(done if not known or expected is None else done & {*expected})

    def done(self, shard: int) -> bool:
        """True if all tables of a shard are stored."""
        if not self._path(TEXTS, shard).exists():
            return False
        names = self._prove(TEXTS, shard).identity.tables
        return all(self._path(name, shard).exists() for name in names)

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
            if self.done(shard) and self._prove(TEXTS, shard).rows != rows:
                # the table that says that the shard is done goes first
                names = self._prove(TEXTS, shard).identity.tables
                for name in sorted(names, key=lambda name: name != TEXTS):
                    self._path(name, shard).unlink(missing_ok=True)
                    if self._mirror is not None:
                        self._mirror.match(self.directory / name)
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
                table = tables[name]
                self._keep_schema(name, table.schema)
                make_folder(self.directory / name)
                content = sealed_table.encode(
                    table, sealed_table.ShardIdentity(self._run, name, shard, rows_hash, names)
                )
                self._put(self._path(name, shard), content)
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
            if self._mirror is not None:
                self._mirror.match(self._pieces.folder)

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
        _refuse_name(name)
        with storing(self.directory):
            self._put(
                self._concluded_path(name),
                sealed_table.encode(table, sealed_table.ShardIdentity(self._run, name, None, "", (name,))),
            )
            self._concluded.add(name)

    def expect(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse tables with other columns from now on, since files can come from somebody else.

        Args:
            schemas: the expected schemas by table.
        """
        self._expected_columns = schemas
        for name in self.tables:
            for shard in self.shards()[:1]:
                path = self._path(name, shard)
                present = sealed_table.read_schema(path).names
                missing = [column for column in schemas.get(name, pa.schema([])).names if column not in present]
                with sealed_table.damaged(path):
                    if missing:
                        raise ValueError(f"it has no column {missing[0]!r}")

    def check(self, shard: int, rows_hash: str) -> None:
        """Refuse data that differ from the rows of a stored shard."""
        proof = self._prove(TEXTS, shard)
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
            and all(self._rows_hash(shard) == other._rows_hash(shard) for shard in shards)
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
                "all of them again."
            )
        expected = manifests.shards_of(self.manifest | {"shards": len(shards)}) or range(0)
        if wrong := sorted({*expected} ^ {*shards}):
            raise StorageError(f"{str(self.directory)!r}: the shards {wrong[:10]} are missing or too many.")
        counts = json.loads(json.dumps(summary))
        with storing(self.directory), locked(self.directory):
            stored = manifests.read_manifest(self.directory)
            if manifests.run_digest(stored) != self._run:
                raise StorageError(
                    f"{str(self.directory)!r} was taken by another run while this one wrote into it. Run again with "
                    f"another {parameter('output_dir')}."
                )
            self._remove_leftovers(include_live_writers=True)
            self._remove_pieces()
            self.manifest |= {"shards": len(shards), "counts": counts, "digests": self._digests(sorted(concluded))}
            self._put(self.directory / manifests.NAME, manifests.to_bytes(self.manifest))

    def table(self, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read a whole table in the order of the data, with all columns or some.

        An integer or boolean column that can have missing values by its schema has a nullable type of pandas.
        """
        wanted = columns
        if self._keyed and columns is not None and name not in self.concluded:
            wanted = list(dict.fromkeys([*columns, _ID]))
        parts = list(self._parts(name, wanted))
        for part in parts:
            self._refuse_other_columns(name, parts[0].schema, part.schema)
        table = pa.concat_tables(parts)
        if self._keyed and _ID in table.schema.names and name not in self.concluded:
            order = np.argsort(table[_ID].to_numpy(), kind="stable")  # within a text the order stays
            table = table.take(pa.array(order))
        return _frame(table if columns is None else table.select(list(columns)))

    def batches(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Read a table shard by shard, so that memory does not grow with the data."""
        for part in self._parts(name, columns):
            yield _frame(part)

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
                other._put(other._concluded_path(name), self._content(name, None))
                other._concluded.add(name)
        if "counts" in self.manifest:
            other.manifest |= {manifests.SAMPLE: self.manifest[manifests.SAMPLE]} if self._keyed else {}
            other.finish(self.manifest["counts"])
            other._refuse_other_digests(self.manifest["digests"])
        return other

    @property
    def _keyed(self) -> bool:
        return manifests.is_keyed(self.manifest)

    def _text_ids(self, shard: int, rows: int | None = None) -> NDArray[np.int64]:
        """The row numbers of the texts in a shard, ascending; of so many, where it has fewer than others."""
        start = shard * self.manifest["shard_size"]
        stop = start + (self.manifest["shard_size"] if rows is None else rows)
        if not self._keyed:
            return np.arange(start, stop)
        count, seed = self.manifest["rows"], self.manifest["run"]["seed"]
        return np.sort(rows_at(np.arange(start, min(stop, count)), count, seed))

    def copy_shards_to(self, other: Store) -> None:
        """Copy all shards to a run with the same data and arguments; every file is checked."""
        names = self.tables
        for shard in self.shards():
            if other.done(shard):
                other.check(shard, self._rows_hash(shard))
            with storing(other.directory):
                for name in reversed(names):
                    make_folder(other.directory / name)
                    other._put(other._path(name, shard), self._content(name, shard))

    def _remove_pieces(self, shard: int | None = None) -> None:
        """Remove the pieces of a shard, or all; also at the address of the run, if it has one."""
        self._pieces.remove(shard)
        if self._mirror is not None:
            self._mirror.match(self._pieces.folder)

    def _put(self, path: Path, content: Any) -> None:
        """Write a file atomically, and send it to the address of the run, if it has one."""
        put(path, content)
        self._send(path)

    def _send(self, path: Path) -> None:
        if self._mirror is not None:
            self._mirror.send(path)

    def _path(self, name: str, shard: int) -> Path:
        return self.directory / name / f"{shard:05d}.parquet"

    def _concluded_path(self, name: str) -> Path:
        return self.directory / f"{name}.parquet"

    def _files(self, name: str) -> dict[int, Path]:
        """The stored shards of a table by number; files with other names are ignored."""
        folder = self.directory / name
        if not manifests.is_name(name) or not folder.is_dir():
            return {}
        if not is_folder(folder):
            raise StorageError(f"{str(folder)!r} is a symbolic link; expected a folder. Remove the link.")
        files = {}
        for entry in os.scandir(folder):
            if _SHARD.fullmatch(entry.name):
                number = int(entry.name.partition(".")[0])
                if entry.name == self._path(name, number).name:
                    files[number] = Path(entry.path)
        return files

    def _parts(self, name: str, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        if name in self.concluded:
            yield self._read(name, None, columns)
            return
        if name not in self.tables:
            raise InputError(f"There is no table {name!r} in this run; there are {', '.join(self.tables) or 'none'}.")
        for shard in self.shards():
            yield self._read(name, shard, columns)

    def _file(self, name: str, shard: int | None) -> Path:
        return self._concluded_path(name) if shard is None else self._path(name, shard)

    def _prove(self, name: str, shard: int | None) -> sealed_table.Proof:
        """Check the seal and identity of a file."""
        path = self._file(name, shard)
        return self._check_identity(name, shard, sealed_table.prove(path, self._proofs.get(path)))

    def _read(self, name: str, shard: int | None, columns: Sequence[str] | None) -> pa.Table:
        path = self._file(name, shard)
        table, proof = sealed_table.read(path, columns, self._proofs.get(path))
        self._check_identity(name, shard, proof)
        with sealed_table.damaged(path):
            self._check_types_and_range(name, shard, table)
        return table

    def _check_types_and_range(self, name: str, shard: int | None, table: pa.Table) -> None:
        """Refuse columns with other types than in `expect`, and rows of texts that are not in the shard."""
        if name not in self._expected_columns:
            return
        for expected in self._expected_columns[name]:
            index = table.schema.get_field_index(expected.name)
            actual = table.schema.field(index) if index >= 0 else expected
            if not actual.equals(expected):
                got, wanted = (f"{field.type}{'' if field.nullable else ' not null'}" for field in (actual, expected))
                raise ValueError(f"its column {short_repr(expected.name)} is {short_repr(got)}; expected {wanted}")
        if shard is None or not len(table) or _ID not in table.schema.names:
            return
        if not np.isin(table[_ID].to_numpy(), self._text_ids(shard)).all():
            raise ValueError(f"it has rows of texts that are not in shard {shard}")

    def _content(self, name: str, shard: int | None) -> bytes:
        path = self._file(name, shard)
        content, proof = sealed_table.read_bytes(path, self._proofs.get(path))
        self._check_identity(name, shard, proof)
        return content

    def _check_identity(self, name: str, shard: int | None, proof: sealed_table.Proof) -> sealed_table.Proof:
        """Refuse a file of another run, table or shard."""
        path, identity = self._file(name, shard), proof.identity
        with sealed_table.damaged(path):
            if identity.run != self._run:
                raise ValueError("it belongs to another run, made with other arguments")
            if (identity.table, identity.shard) != (name, shard):
                raise ValueError(
                    f"it is shard {short_repr(identity.shard)} of the table {short_repr(identity.table)}, in the place "
                    "of another"
                )
        self._proofs[path] = proof
        return proof

    def _prove_all(self) -> None:
        """Check the files of all stored shards, and that the tables of a shard have the same rows."""
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
                if self._concluded_path(name).exists():
                    self._prove(name, None)

    def _digests(self, concluded: Sequence[str]) -> dict[str, dict[str, str]]:
        """The digest of the files of each table."""
        shards = self.shards()
        return {
            "shards": {
                name: sealed_table.digest_of([self._prove(name, shard) for shard in shards]) for name in self.tables
            },
            "concluded": {name: sealed_table.digest_of([self._prove(name, None)]) for name in concluded},
        }

    def _has_concluded(self) -> bool:
        return all(self._concluded_path(name).exists() for name in self.concluded)

    def _compare_digests(self) -> None:
        self._prove_all()
        self._refuse_other_digests(self._digests(self.concluded))

    def _refuse_other_digests(self, actual: Mapping[str, Mapping[str, str]]) -> None:
        for kind, digests in self.manifest["digests"].items():
            for name, digest in digests.items():
                if actual[kind].get(name) != digest:
                    raise StorageError(
                        f"The files of the table {name!r} in {str(self.directory)!r} are not those that the run was "
                        f"finished with. The same command with the same {parameter('output_dir')} checks them all "
                        "and finishes it again; or restore the folder from a copy."
                    )

    def _rows_hash(self, shard: int) -> str:
        return self._prove(TEXTS, shard).identity.rows

    def _keep_schema(self, name: str, schema: pa.Schema) -> None:
        """Refuse a table whose columns have other types than in the shards before."""
        _refuse_name(name)
        if any(pa.types.is_null(field.type) for field in schema):
            raise ValueError(f"the table {name!r} has a column of no type; make it with an explicit schema")
        if name not in self._schemas:
            first = next(iter(self._files(name).values()), None)
            self._schemas[name] = schema if first is None else sealed_table.read_schema(first)
        self._refuse_other_columns(name, self._schemas[name], schema)

    def _refuse_other_columns(self, name: str, stored: pa.Schema, new: pa.Schema) -> None:
        if not new.equals(stored):
            raise InputError(
                f"The table {name!r} in {str(self.directory)!r} has other columns than this version of attnfaith "
                f"writes. Give another {parameter('output_dir')}."
            )

    def _refuse_changed_data(self, shard: int, rows: int) -> NoReturn:
        ids = self._text_ids(shard, max(rows, 1))
        which = f"some of the rows {', '.join(map(str, ids))}" if self._keyed else f"rows {ids[0]} to {ids[-1]}"
        raise InputError(
            f"The data have changed: {which} (counted from 0) are not those that the results in "
            f"{str(self.directory)!r} were made from. Give another {parameter('output_dir')}, or the same data."
        )

    def _stored_manifest(self, requested: dict[str, Any]) -> dict[str, Any]:
        """The manifest in the folder, updated with the requested statistics; that of another run is refused.

        Locked, because a rewrite at the same time could erase the entries that finish the run.
        """
        with locked(self.directory):
            stored = manifests.read_manifest(self.directory)
            self._refuse_another(stored, requested)
            if stored.get("statistics") != requested.get("statistics"):  # estimates are computed at each reading
                stored["statistics"] = requested.get("statistics")
                self._put(self.directory / manifests.NAME, manifests.to_bytes(stored))
        return stored

    def _refuse_another(self, stored: Mapping[str, Any], requested: Mapping[str, Any]) -> None:
        there, here = (
            {name: manifest.get(name) for name in ("shard_size", "rows", "part")} for manifest in (stored, requested)
        )
        difference = manifests.difference(stored["run"], requested["run"]) or manifests.difference(there, here)
        if difference is not None and difference[0] == "order":
            raise InputError(
                f"The run in {str(self.directory)!r} reads the texts in the order of the data, so the texts that it "
                f"has read are no random sample. Give another {parameter('output_dir')}, or leave out "
                f"{parameter('precision')} and {parameter('max_texts')}."
            )
        if difference is not None:
            name, stored_value, requested_value = difference
            raise InputError(
                f"The run in {str(self.directory)!r} was made with other arguments: {name} is "
                f"{short_repr(stored_value)} there and {short_repr(requested_value)} here. Give another "
                f"{parameter('output_dir')}, or the same arguments."
            )

    def _refuse_foreign(self, present: Sequence[Path]) -> None:
        """Refuse a folder without a manifest that holds files which are not of this run."""
        for entry in present:
            try:
                if entry.name == pieces.FOLDER and is_folder(entry) and (self._pieces.files() or not os.listdir(entry)):
                    self._pieces.prove()
                    continue
                if is_folder(entry) and self._files(entry.name):
                    continue
                identity = sealed_table.prove(entry).identity
                if (identity.run, identity.shard, f"{identity.table}.parquet") == (self._run, None, entry.name):
                    continue
            except StorageError:
                pass
            raise _foreign(self.directory, entry.name)
        for entry in present:
            for path in self._files(entry.name).values() if entry.is_dir() else ():
                try:
                    mine = sealed_table.prove(path).identity.run == self._run
                except StorageError:
                    mine = False
                if not mine:
                    raise InputError(
                        f"{str(self.directory)!r} holds other files ({entry.name!r}) and no {manifests.NAME}, and "
                        f"{path.name!r} in it is not of this run. Give another {parameter('output_dir')}, new or empty."
                    )

    def _remove_leftovers(self, *, include_live_writers: bool) -> None:
        for folder in (self.directory, *(entry for entry in self.directory.iterdir() if is_folder(entry))):
            remove_leftovers(folder, include_live_writers=include_live_writers)


def _reached(directory: str | os.PathLike[str]) -> tuple[Path, Mirror | None]:
    """The folder of a run, and the mirror that it is the working copy of, if the run is at an address."""
    if is_address(directory):
        mirror = Mirror(str(directory))
        return mirror.folder, mirror
    return folder_of(directory), None


def _naming(mirror: Mirror | None) -> AbstractContextManager[None]:
    return nullcontext() if mirror is None else mirror.named()


def _foreign(folder: Path, name: str) -> InputError:
    return InputError(
        f"{str(folder)!r} holds other files ({name!r}) and no {manifests.NAME}, so it is no run of attnfaith. Give "
        f"another {parameter('output_dir')}, new or empty."
    )


def _refuse_separate(path: Path, mirror: Mirror | None) -> None:
    """Wait for the manifest that the first process has written, and refuse a folder where it does not appear.

    A file that another machine wrote is seen on a network file system after some seconds.
    """
    until = time.monotonic() + SEEN_AFTER
    while not os.path.lexists(path / manifests.NAME):
        if time.monotonic() > until:
            raise InputError(
                f"{str(path)!r} is not the folder that the first process writes to: it holds no {manifests.NAME} here. "
                f"Give a folder that all machines share as {parameter('output_dir')}, or run each machine by itself "
                f"with {parameter('part')}."
            )
        time.sleep(0.2)
        if mirror is not None:
            mirror.fetch()


def _refuse_file(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise InputError(f"{str(path)!r} is a file. Give a directory for the results, as {parameter('output_dir')}.")


def _refuse_name(name: str) -> None:
    if not manifests.is_name(name):
        raise InputError(
            f"{short_repr(name)} is no name for a table. Call the test something plain, such as 'my_test'."
        )


def _frame(table: pa.Table) -> pd.DataFrame:
    """Convert to pandas with types by the schema alone, so that they do not depend on missing values."""
    columns = {
        field.name: table[field.name].to_pandas(types_mapper=(_NULLABLE if field.nullable else _STRINGS).get)
        for field in table.schema
    }
    return pd.DataFrame(columns, columns=table.column_names)
