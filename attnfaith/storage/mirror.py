"""`Mirror`: a run at an address such as ``s3://bucket/run``, with a working copy in a temporary folder.

A store reads and writes the working copy. Each finished file is sent to the address as a whole; when a run is opened,
the files there are fetched, and checked like any others. Object stores have no locks, and replace no file only if it is
unchanged: only the processes of one run may write to an address.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnfaith.addresses import file_system, reaching
from attnfaith.errors import AttnFaithError, StorageError
from attnfaith.storage import manifest as manifests
from attnfaith.storage.sealed_table import MAX_BYTES
from attnfaith.validation import short_repr

_AGAIN = "Finished work is kept: once this is repaired, the same command continues."


class Mirror:
    """The files of a run at an address.

    Attributes:
        address: the address of the run.
        folder: the working copy; removed when nothing refers to the mirror any more.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._system, root = file_system(self.address)
        self._root = root.rstrip("/")
        self._temporary = tempfile.TemporaryDirectory(prefix="attnfaith-")
        self.folder = Path(self._temporary.name)
        self._transferred: set[str] = set()  # the files at the address that this process has fetched or sent

    def fetch(self) -> list[str]:
        """Copy the manifest, and files of tables that the working copy does not have yet.

        Returns:
            The names of files at the address that are not those of a run.
        """
        foreign = []
        for name, size in self._listed().items():
            parts = name.removesuffix(".parquet").split("/")
            is_table = name.endswith(".parquet") and len(parts) <= 2 and all(map(manifests.is_name, parts))
            if name != manifests.NAME and not is_table:
                foreign.append(name)
            elif name == manifests.NAME or not (self.folder / name).exists():
                self._get(name, size, manifests.MAX_BYTES if name == manifests.NAME else MAX_BYTES)
        return foreign

    def fetch_manifest(self) -> bool:
        """Copy the manifest, if there is one."""
        with self._reached():
            self._system.invalidate_cache()
            present = self._system.exists(f"{self._root}/{manifests.NAME}")
        if present:
            self._get(manifests.NAME, 0, manifests.MAX_BYTES)
        return bool(present)

    def send(self, path: Path) -> None:
        """Copy a file of the working copy to the address."""
        name = path.relative_to(self.folder).as_posix()
        with self._reached():
            self._system.pipe_file(f"{self._root}/{name}", path.read_bytes())
        self._transferred.add(name)

    def match(self, folder: Path) -> None:
        """Send the new files of a folder, and remove those from the address that are no longer in it.

        Its files are never changed. Files of other processes, which this one has not fetched, stay.
        """
        prefix = f"{folder.name}/"
        local_names = {f"{prefix}{file.name}" for file in folder.glob("[!.]*")}
        remote_names = {name for name in self._transferred if name.startswith(prefix)}
        for name in sorted(local_names - remote_names):
            self.send(self.folder / name)
        for name in remote_names - local_names:
            with self._reached(), suppress(FileNotFoundError):
                self._system.rm_file(f"{self._root}/{name}")
        self._transferred -= remote_names - local_names

    def probe(self) -> None:
        """Raise the error that writing to the address would raise."""
        name = f"{self._root}/.probe-{uuid.uuid4().hex}"
        with self._reached():
            self._system.pipe_file(name, b"attnfaith")
            self._system.rm_file(name)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Replace the working copy, which the user does not know, by the address in the messages of errors."""
        try:
            yield
        except AttnFaithError as error:
            message = error.message.replace(str(self.folder), self.address)
            raise type(error)(message, code=error.code) from error

    def _listed(self) -> dict[str, int]:
        """The sizes of all files at the address, by their names there."""
        listing: dict[str, Any] = {}
        with self._reached(), suppress(FileNotFoundError):  # no such folder; writing tells whether one can be made
            self._system.invalidate_cache()
            listing = self._system.find(self._root, detail=True)
        prefix = f"{self._root}/"
        return {
            name.removeprefix(prefix): int(details.get("size") or 0)
            for name, details in listing.items()
            if name.startswith(prefix)
        }

    def _get(self, name: str, size: int, limit: int) -> None:
        if size > limit:
            raise StorageError(
                f"{self.address}/{short_repr(name)[1:-1]} has {size:,} bytes; expected at most {limit:,}.",
                code="damaged-run",
            )
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        with self._reached():
            self._system.get_file(f"{self._root}/{name}", str(path))
        self._transferred.add(name)

    def _reached(self) -> Any:
        return reaching(self.address, StorageError, _AGAIN)
