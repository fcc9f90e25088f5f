"""A table in a parquet file that proves its own bytes and says what it is: of which run, which table, which shard.

A seal stands between the last page and the footer, where readers of parquet look for nothing: a sha256 of all other
bytes. It goes with the file, so a run that was interrupted, and has no list of its files yet, is proved as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attnfaith.errors import StorageError
from attnfaith.storage.atomic_files import open_regular, read_exactly
from attnfaith.validation import short_repr

MOST_BYTES = 4 * 2**30
"""A file of a table is no larger than this, nor is what it holds when it is decompressed."""
_KEY = b"attnfaith"
_MAGIC = b"PAR1"
_NAME = b"attnfaith-sha256:"
_SEAL = len(_NAME) + 64
_TAIL = 4 + len(_MAGIC)  # the footer's length and the magic number
_BLOCK = 2**20
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
Signature = tuple[int, ...]


@dataclass(frozen=True)
class ShardIdentity:
    """What a file says that it is.

    Attributes:
        run: the digest of what the run is made of.
        table: its name.
        shard: its number; None for a table that was made of all shards.
        rows: the fingerprint of the rows it was made from.
        tables: all tables of the shard, by name.
    """

    run: str
    table: str
    shard: int | None
    rows: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class Proof:
    """A file whose seal was found right.

    Attributes:
        signature: of the file at that moment, from the file system: while it stays, the bytes need no second look.
        seal: the sha256 of its bytes.
        identity: what it says that it is.
        rows: how many rows it holds.
    """

    signature: Signature
    seal: str
    identity: ShardIdentity
    rows: int


def encode(table: pa.Table, identity: ShardIdentity) -> bytes:
    """A table as a sealed file, the same bytes for the same table."""
    about = json.dumps(asdict(identity), sort_keys=True).encode()
    table = table.replace_schema_metadata({_KEY: about}).combine_chunks()
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=max(1, len(table)), **_PARQUET)
    content = seal(sink.getvalue().to_pybytes())
    if len(content) > MOST_BYTES:
        raise StorageError(
            f"The table {identity.table!r} of one shard takes {len(content):,} bytes; a file holds at most "
            f"{MOST_BYTES:,}. Choose options with which the test keeps less of each text."
        )
    return content


def seal(content: bytes) -> bytes:
    """The bytes of a parquet file with their seal between the last page and the footer."""
    place = len(content) - _TAIL - int.from_bytes(content[-_TAIL : -len(_MAGIC)], "little")
    return content[:place] + _NAME + hashlib.sha256(content).hexdigest().encode() + content[place:]


def prove(path: Path, known: Proof | None = None) -> Proof:
    """Check the seal of a file, block by block; one whose proof is known and that has not changed is not read again."""
    with damaged(path), open_regular(path, MOST_BYTES) as (file, about):
        signature = _signature(about)
        if known is not None and known.signature == signature:
            return known
        footer = _footer(file, about.st_size)
        digest, left = hashlib.sha256(), about.st_size - len(footer) - _SEAL
        file.seek(0)
        while left:
            block = read_exactly(file, min(left, _BLOCK))
            digest.update(block)
            left -= len(block)
        digest.update(footer)
        seal = _compared(read_exactly(file, _SEAL), digest)
        # The footer alone says what the file is: pyarrow takes it with nothing before it but the magic number.
        metadata = pq.ParquetFile(pa.BufferReader(_MAGIC + footer), **_LIMITS).metadata
        return Proof(signature, seal, _identity(metadata.metadata), metadata.num_rows)


def read(path: Path, columns: Sequence[str] | None, known: Proof | None = None) -> tuple[pa.Table, Proof]:
    """The columns of a file, all by default, and its proof; bytes that are proved already are not hashed again."""
    with damaged(path):
        content, proof = read_bytes(path, known)
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True, **_LIMITS)
        names = file.schema_arrow.names if columns is None else list(columns)
        if lacking := [name for name in names if name not in file.schema_arrow.names]:
            raise ValueError(f"it has no column {lacking[0]!r}")
        _refuse_bombs(file, content, names)
        table = file.read(columns=names, use_threads=False)
        table.validate(full=True)
    return table, proof


def read_bytes(path: Path, known: Proof | None = None) -> tuple[bytes, Proof]:
    """All bytes of a file, and their proof."""
    with damaged(path), open_regular(path, MOST_BYTES) as (file, about):
        content = read_exactly(file, about.st_size)
        if known is not None and known.signature == _signature(about):
            return content, known
        footer = _footer(file, about.st_size)
        end = len(content) - len(footer)
        digest = hashlib.sha256(memoryview(content)[: end - _SEAL])
        digest.update(footer)
        seal = _compared(content[end - _SEAL : end], digest)
        metadata = pq.ParquetFile(pa.BufferReader(content), **_LIMITS).metadata
        return content, Proof(_signature(about), seal, _identity(metadata.metadata), metadata.num_rows)


def read_schema(path: Path) -> pa.Schema:
    """The columns of a file and their types."""
    with damaged(path):
        return pq.ParquetFile(pa.BufferReader(read_bytes(path)[0]), **_LIMITS).schema_arrow


def digest_of(proofs: Sequence[Proof]) -> str:
    """One digest over the seals of several files, in their order."""
    return hashlib.sha256("".join(f"{proof.seal}\n" for proof in proofs).encode()).hexdigest()


@contextlib.contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Name the file that is damaged or gone, and what heals it."""
    try:
        yield
    except StorageError:
        raise
    except (OSError, ValueError, EOFError, MemoryError, OverflowError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else short_reason(error)
        raise StorageError(
            f"{str(path)!r} cannot be read: {reason}. Delete this file, and the same command with the same output_dir "
            "makes it again."
        ) from error


def short_reason(error: BaseException, length: int = 200) -> str:
    """What an error says, in one line without its full stop; never the whole of a hostile file."""
    said = " ".join(str(error).split()).removesuffix(".") or type(error).__name__
    return said if len(said) <= length else said[: length - 3] + "..."


_LIMITS: dict[str, int] = {"thrift_string_size_limit": 2**26, "thrift_container_size_limit": 2**20}


def _footer(file: BinaryIO, size: int) -> bytes:
    """The end of a file from behind the seal on."""
    if size < len(_MAGIC) + _SEAL + _TAIL:
        raise ValueError("it is too short for a table")
    file.seek(size - _TAIL)
    tail = read_exactly(file, _TAIL)
    length = int.from_bytes(tail[:4], "little") + _TAIL
    if tail[4:] != _MAGIC or length + _SEAL + len(_MAGIC) > size:
        raise ValueError("it is not a parquet file, or its end is missing")
    file.seek(size - length)
    return read_exactly(file, length)


def _compared(seal: bytes, digest: Any) -> str:
    found = str(digest.hexdigest())
    if not seal.startswith(_NAME):
        raise ValueError("it has no checksum where attnfaith writes one, so it was damaged, or made by something else")
    if seal[len(_NAME) :] != found.encode():
        raise ValueError("its checksum is wrong, so its bytes have changed since it was written")
    return found


def _identity(metadata: dict[bytes, bytes] | None) -> ShardIdentity:
    try:
        told = json.loads((metadata or {})[_KEY])
        if not (isinstance(told["shard"], int | None) and isinstance(told["tables"], list)):
            raise ValueError
        names = tuple(str(name) for name in told["tables"])
        return ShardIdentity(str(told["run"]), str(told["table"]), told["shard"], str(told["rows"]), names)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError("it does not say of which run it is") from error


def _signature(about: os.stat_result) -> Signature:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _refuse_bombs(file: pq.ParquetFile, content: bytes, names: Sequence[str]) -> None:
    """Refuse what would take more memory than any real table, before the memory is asked for."""
    for field in file.schema_arrow:
        if not _is_plain(field.type):
            raise ValueError(f"the column {short_repr(field.name)} is of the type {short_repr(str(field.type))}")
    metadata = file.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(metadata.num_columns)]
    if metadata.num_rows < 0 or any(
        min(chunk.num_values, chunk.total_compressed_size, chunk.total_uncompressed_size) < 0 for chunk in chunks
    ):
        raise ValueError("it claims a negative number of rows, values or bytes")
    # A page may repeat one value at no cost, so the number of values counts as well as their bytes.
    total = 8 * metadata.num_rows
    total += sum(max(chunk.total_uncompressed_size, 8 * chunk.num_values) for chunk in chunks)
    if total > MOST_BYTES:
        raise ValueError(f"it claims to hold {total:,} bytes when it is decompressed; expected at most {MOST_BYTES:,}")
    suspects = {
        chunk.path_in_schema for chunk in chunks if chunk.num_values * chunk.total_uncompressed_size > MOST_BYTES
    }
    for name in names:
        if name in suspects and pa.types.is_string(file.schema_arrow.field(name).type):
            _refuse_repeated_texts(content, name)


def _refuse_repeated_texts(content: bytes, name: str) -> None:
    """A long text may stand in a dictionary once and in every row: count what it takes before it is written out."""
    coded = pq.ParquetFile(pa.BufferReader(content), read_dictionary=[name], **_LIMITS)
    total = 0
    for chunk in coded.read(columns=[name], use_threads=False)[name].chunks:
        total += pc.sum(pc.binary_length(chunk.dictionary).cast(pa.int64()).take(chunk.indices)).as_py() or 0
    if total > MOST_BYTES:
        raise ValueError(f"the texts of the column {name!r} take {total:,} bytes; expected at most {MOST_BYTES:,}")


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _is_plain(kind.value_type)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string)
    return any(test(kind) for test in tests)
