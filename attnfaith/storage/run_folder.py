"""The folder of a run, or the working copy of one at an address: what it may hold, and how files get into it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

from attnfaith.addresses import is_address
from attnfaith.errors import InputError, StorageError
from attnfaith.parameter_names import parameter
from attnfaith.storage import manifest as manifests
from attnfaith.storage import sealed_table
from attnfaith.storage.atomic_files import (
    LEFTOVER,
    folder_of,
    is_folder,
    probe,
    put,
    put_new,
    remove_leftovers,
    storing,
)
from attnfaith.storage.mirror import Mirror
from attnfaith.storage.pieces import FOLDER, Pieces
from attnfaith.storage.table_files import TableFiles

SEEN_AFTER = 60.0
"""How many seconds a process waits until it sees the manifest that another one wrote."""


class RunFolder:
    """A folder for the files of one run, and of nothing else.

    Args:
        directory: a folder, which need not exist, or the address of one, such as ``s3://bucket/run``.

    Attributes:
        path: the folder; for an address, the working copy.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._mirror = Mirror(str(directory)) if is_address(directory) else None
        self.path = folder_of(directory) if self._mirror is None else self._mirror.folder

    @property
    def location(self) -> str:
        """The folder, or its address."""
        return str(self.path) if self._mirror is None else self._mirror.address

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Errors of the disk are `StorageError`, and every error names the address rather than the working copy."""
        with nullcontext() if self._mirror is None else self._mirror.named(), storing(self.path):
            yield

    def fetch(self) -> list[str]:
        """Fetch what is new at the address; in a folder it is there.

        Returns:
            The names of files at the address that are not those of a run.
        """
        return [] if self._mirror is None else self._mirror.fetch()

    def fetch_manifest(self) -> None:
        """Fetch the manifest alone."""
        if self._mirror is not None:
            self._mirror.fetch_manifest()

    def put(self, path: Path, content: Any) -> None:
        """Write a file atomically, and send it to the address."""
        put(path, content)
        if self._mirror is not None:
            self._mirror.send(path)

    def put_new_manifest(self, content: bytes) -> None:
        """Write the manifest, never over that of another process."""
        if put_new(self.path / manifests.NAME, content) and self._mirror is not None:
            self._mirror.send(self.path / manifests.NAME)

    def match(self, folder: Path) -> None:
        """Make a folder at the address equal to one of the working copy, except for files of other processes."""
        if self._mirror is not None:
            self._mirror.match(folder)

    @property
    def has_manifest(self) -> bool:
        """True if there is a manifest, damaged or not."""
        return os.path.lexists(self.path / manifests.NAME)

    def entries(self) -> list[Path]:
        """What the folder holds, without temporary files of writers that were killed."""
        return [entry for entry in self.path.iterdir() if not LEFTOVER.fullmatch(entry.name)]

    def make(self) -> None:
        """Make the folder, unless it exists."""
        self._refuse_file()
        self.path.mkdir(parents=True, exist_ok=True)

    def probe(self) -> None:
        """Raise the error that writing into the folder would raise."""
        probe(self.path)

    def remove_leftovers(self, *, include_live_writers: bool) -> None:
        """Remove temporary files of writers, from the folder and those in it."""
        for folder in (self.path, *(entry for entry in self.path.iterdir() if is_folder(entry))):
            remove_leftovers(folder, include_live_writers=include_live_writers)

    def wait_for_manifest(self) -> None:
        """Wait for the manifest that the first process has written, and refuse a folder where it does not appear.

        A file that another machine wrote is seen on a network file system after some seconds.
        """
        until = time.monotonic() + SEEN_AFTER
        while not self.has_manifest:
            if time.monotonic() > until:
                raise InputError(
                    f"{str(self.path)!r} is not the folder that the first process writes to: it holds no "
                    f"{manifests.NAME} here. Give a folder that all machines share as {parameter('output_dir')}, or "
                    f"run each machine by itself with {parameter('part')}.",
                    code="not-a-run",
                )
            time.sleep(0.2)
            self.fetch()

    def refuse_unusable(self) -> None:
        """Refuse a folder that a run cannot be written to, before any work; leaves no file."""
        with self.errors_named():
            self.fetch_manifest()
            self._refuse_file()
            if self.path.is_dir():
                manifest = manifests.read_manifest(self.path) if self.has_manifest else {}
                if "counts" not in manifest:
                    probe(self.path) if self._mirror is None else self._mirror.probe()
            elif not self.path.exists():
                parent = next(parent for parent in self.path.absolute().parents if parent.exists())
                if not parent.is_dir():
                    raise StorageError(
                        f"{str(parent)!r} is a file, so there can be no folder {str(self.path)!r} in it."
                    )
                probe(parent)

    def refuse_foreign(self, run: str, entries: Sequence[Path], at_address: Sequence[str]) -> None:
        """Refuse a folder without a manifest that holds files which are not of this run.

        Args:
            run: the digest of the manifest of the run.
            entries: what the folder holds.
            at_address: the names of files at the address that are not those of a run.
        """
        files, pieces = TableFiles(self.path, run), Pieces(self.path, run)
        for entry in entries:
            try:
                if entry.name == FOLDER and is_folder(entry) and (pieces.files() or not os.listdir(entry)):
                    pieces.prove()
                    continue
                if is_folder(entry) and files.shards(entry.name):
                    continue
                identity = sealed_table.prove(entry).identity
                if (identity.run, identity.shard, f"{identity.table}.parquet") == (run, None, entry.name):
                    continue
            except StorageError:
                pass
            self._refuse_other_file(entry.name)
        for entry in entries:
            for file in files.shards(entry.name).values() if entry.is_dir() else ():
                try:
                    mine = sealed_table.prove(file.path).identity.run == run
                except StorageError:
                    mine = False
                if not mine:
                    raise InputError(
                        f"{str(self.path)!r} holds other files ({entry.name!r}) and no {manifests.NAME}, and "
                        f"{file.path.name!r} in it is not of this run. Give another {parameter('output_dir')}, new or "
                        "empty.",
                        code="not-a-run",
                    )
        if at_address:
            self._refuse_other_file(at_address[0])

    def _refuse_other_file(self, name: str) -> NoReturn:
        raise InputError(
            f"{str(self.path)!r} holds other files ({name!r}) and no {manifests.NAME}, so it is no run of attnfaith. "
            f"Give another {parameter('output_dir')}, new or empty.",
            code="not-a-run",
        )

    def _refuse_file(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(
                f"{str(self.path)!r} is a file. Give a directory for the results, as {parameter('output_dir')}."
            )
