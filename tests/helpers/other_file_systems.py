"""File systems that tests reach by addresses: one in memory, and one that refuses everything."""

from contextlib import contextmanager

import fsspec
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

UNREACHABLE = "unreachable"


class NoCredentialsError(Exception):
    """As that of botocore: no OSError, and its message has several lines."""


class Refusing(MemoryFileSystem):
    """A file system to which the user has no access."""

    protocol = UNREACHABLE
    cachable = False

    def _refuse(self, *_, **__):
        raise NoCredentialsError("Unable to locate\ncredentials.")

    info = find = exists = isdir = glob = get = get_file = pipe_file = _refuse


@contextmanager
def in_memory():
    """The file system of memory:// addresses, empty."""
    system = fsspec.filesystem("memory")
    kept = dict(system.store), list(system.pseudo_dirs)
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    try:
        yield system
    finally:
        system.store.clear()
        system.store.update(kept[0])
        system.pseudo_dirs[:] = kept[1]


@contextmanager
def without_access():
    """The addresses of `UNREACHABLE` are known."""
    fsspec.register_implementation(UNREACHABLE, Refusing)
    try:
        yield
    finally:
        del _registry[UNREACHABLE]
