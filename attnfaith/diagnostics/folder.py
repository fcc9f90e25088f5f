"""The folder of a diagnosis: its manifest, its models, their outputs, and its tables."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from attnfaith.errors import InputError, StorageError
from attnfaith.parameter_names import parameter
from attnfaith.storage.atomic_files import LEFTOVER, folder_of, probe, put, read_regular, remove_leftovers, storing
from attnfaith.storage.sealed_table import short_reason
from attnfaith.storage.table_files import TableFile
from attnfaith.validation import short_repr

NAME = "diagnosis.json"
"""The name of the manifest, by which a diagnosis is recognised."""
LAYOUT = 1
MODELS, OUTPUTS, TABLES, CHECKPOINTS = "models", "outputs", "tables", "checkpoints"
RECORD = "record.json"
"""What is stored beside a trained model."""
_MAX_BYTES = 2**24
_WHOLE = {"layout", "run", "facts", "notes", "digest"}


class DiagnosisFolder:
    """The folder of one diagnosis, and of nothing else.

    Args:
        directory: the folder, which need not exist.

    Attributes:
        path: the folder.
        manifest: what is known of the diagnosis: "run" (what must be equal for it to be continued), "facts", "notes"
            and, once it is finished, "finished".
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = folder_of(directory)
        self.manifest: dict[str, Any] = {}

    def start(self, run: Mapping[str, Any], facts: Mapping[str, Any], notes: tuple[str, ...]) -> None:
        """Write the manifest of a new diagnosis, or continue the one that is there if it is the same."""
        self.refuse_unusable()
        with storing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.path, include_live_writers=False)
            plain = json.loads(json.dumps(dict(run)))
            if (self.path / NAME).exists():
                self.read()
                different = differences(self.manifest["run"], plain)
                if different:
                    raise InputError(
                        f"{str(self.path)!r} holds a diagnosis with other settings: {'; '.join(different[:5])}. Give "
                        f"another {parameter('output_dir')}, or the same arguments as before to continue it.",
                        code="other-run",
                    )
            self.manifest = {"run": plain, "facts": dict(facts), "notes": list(notes)}
            self._write()

    def refuse_unusable(self) -> None:
        """Refuse a folder that holds something else, or cannot be written; leaves no file."""
        if self.path.is_file():
            raise InputError(f"{str(self.path)!r} is a file. Give a folder for the diagnosis.", code="not-a-run")
        with storing(self.path):
            if not self.path.is_dir():
                return
            if not (self.path / NAME).exists():
                others = [entry.name for entry in self.path.iterdir() if not LEFTOVER.fullmatch(entry.name)]
                if others:
                    raise InputError(
                        f"{str(self.path)!r} is no diagnosis of attnfaith, and holds {short_repr(sorted(others)[0])}. "
                        f"Give a new or empty folder as {parameter('output_dir')}.",
                        code="not-a-run",
                    )
            probe(self.path)

    def read(self) -> None:
        """Read the manifest; a folder without one, or with a damaged one, is refused."""
        file = self.path / NAME
        if not file.exists():
            raise InputError(f"{str(self.path)!r} is no diagnosis of attnfaith: it has no {NAME}.", code="not-a-run")
        try:
            manifest = json.loads(read_regular(file, _MAX_BYTES).decode("utf-8"))
            if not isinstance(manifest, dict) or not manifest.keys() >= _WHOLE:
                raise ValueError("entries are missing")
            if manifest.pop("layout") != LAYOUT:
                raise ValueError(f"it has another layout than {LAYOUT}")
            if manifest.pop("digest") != digest_of(manifest):
                raise ValueError("its checksum is wrong, so it has changed since it was written")
        except (ValueError, OSError, RecursionError) as error:
            raise StorageError(
                f"{str(file)!r} cannot be read: {short_reason(error)}. Diagnose again into another folder.",
                code="damaged-run",
            ) from error
        self.manifest = manifest

    def finish(self, entries: Mapping[str, Any]) -> None:
        """Write what a finished diagnosis knows into its manifest."""
        self.manifest["finished"] = dict(entries)
        with storing(self.path):
            self._write()

    def _write(self) -> None:
        content = {"layout": LAYOUT, **self.manifest, "digest": digest_of(self.manifest)}
        put(self.path / NAME, (json.dumps(content, indent=2, ensure_ascii=True) + "\n").encode())

    @property
    def identity(self) -> str:
        """The digest of what must be equal for the diagnosis to be continued; tables are sealed with it."""
        return digest_of(self.manifest["run"])

    def write_table(self, name: str, table: pa.Table | pd.DataFrame, room: str = TABLES) -> None:
        """Write a table atomically, sealed for this diagnosis."""
        table = _plain(pa.Table.from_pandas(table, preserve_index=False)) if isinstance(table, pd.DataFrame) else table
        with storing(self.path):
            (self.path / room).mkdir(exist_ok=True)
            file = self._table(name, room)
            put(file.path, file.encode(table.replace_schema_metadata(None), "", [name]))

    def read_table(self, name: str, room: str = TABLES) -> pa.Table:
        """Read a table; a damaged one, or one of another diagnosis, is refused."""
        return self._table(name, room).read(None)

    def has_table(self, name: str, room: str = TABLES) -> bool:
        """Whether a table is there."""
        return self._table(name, room).path.exists()

    def _table(self, name: str, room: str) -> TableFile:
        return TableFile(self.path / room, self.identity, name, None)

    def model(self, name: str) -> Path:
        """The folder of a trained model, whether it is there or not."""
        return self.path / MODELS / name

    def checkpoints(self, name: str) -> Path:
        """Where a training that is under way keeps its checkpoints."""
        return self.path / CHECKPOINTS / name

    def has_model(self, name: str) -> bool:
        """Whether a model is there; it is written last of all about itself, so it is whole."""
        return (self.model(name) / RECORD).is_file()

    def write_model(self, name: str, save: Callable[[Path], None], record: Mapping[str, Any]) -> None:
        """Write a model into its folder atomically, with the record of its training."""
        target = self.model(name)
        temporary = target.with_name(f".{name}~part")
        with storing(self.path):
            target.parent.mkdir(exist_ok=True)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            save(temporary)
            put(temporary / RECORD, (json.dumps(record, indent=2) + "\n").encode())
            shutil.rmtree(target, ignore_errors=True)
            os.replace(temporary, target)
            shutil.rmtree(self.checkpoints(name), ignore_errors=True)

    def record(self, name: str) -> dict[str, Any]:
        """The record of the training of a model."""
        file = self.model(name) / RECORD
        try:
            record: dict[str, Any] = json.loads(read_regular(file, _MAX_BYTES))
        except (ValueError, OSError) as error:
            raise StorageError(
                f"{str(file)!r} cannot be read: {short_reason(error)}. Remove its folder, and the same command trains "
                "the model again.",
                code="damaged-run",
            ) from error
        return record

    def remove_models(self) -> None:
        """Remove the trained models; tables and outputs stay."""
        shutil.rmtree(self.path / MODELS, ignore_errors=True)


def _plain(table: pa.Table) -> pa.Table:
    """The table with plain strings: sealed tables have no others."""
    kinds = [pa.string() if pa.types.is_large_string(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema([field.with_type(kind) for field, kind in zip(table.schema, kinds, strict=True)]))


def is_diagnosis(directory: Any) -> bool:
    """Whether a folder holds a diagnosis."""
    return (folder_of(directory) / NAME).is_file()


def digest_of(value: Any) -> str:
    """The sha256 of a value as JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def differences(stored: Mapping[str, Any], given: Mapping[str, Any], prefix: str = "") -> list[str]:
    """What differs between two settings, in words.

    Example:
        >>> differences({"seed": 1, "texts": {"test": "a"}}, {"seed": 2, "texts": {"test": "a"}})
        ['seed is 2, and was 1']
    """
    lines = []
    for name in dict.fromkeys([*stored, *given]):
        old, new = stored.get(name), given.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += differences(old, new, f"{prefix}{name} ")
        elif old != new:
            lines.append(f"{prefix}{name} is {short_repr(new, 24)}, and was {short_repr(old, 24)}")
    return lines
