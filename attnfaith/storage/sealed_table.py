"""Read and write tables as sealed parquet files: with a checksum, and with the run, table and shard they belong to.

The seal is a sha256 of all other bytes. It stands between the last page and the footer, a place that readers of parquet
ignore. It is part of the file, so the files of an interrupted run, which has no list of digests yet, are proved too.
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

from attnfaith.errors import StorageError, message_of
from attnfaith.parameter_names import parameter
from attnfaith.storage.atomic_files import open_regular, read_exactly
from attnfaith.validation import short_repr

MAX_BYTES = 4 * 2**30
"""The largest size of a file of a table, and of its decompressed content."""
_KEY = b"attnfaith"
_MAGIC = b"PAR1"
_NAME = b"attnfaith-sha256:"
_SEAL = len(_NAME) + 64
_TAIL = 4 + len(_MAGIC)  # the footer's length and the magic number
_BLOCK = 2**20
# All options are explicit, so that a resumed run gives the same bytes as an uninterrupted one.
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
    """The run, table and shard that a file belongs to.

    Attributes:
        run: the digest of the run's manifest.
        table: the name of the table.
        shard: the number of the shard; None for a table that was computed from all shards.
        rows: the fingerprint of the rows of the data.
        tables: the names of all tables of the shard.
    """

    run: str
    table: str
    shard: int | None
    rows: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class Proof:
    """The result of checking the seal of a file.

    Attributes:
        signature: size, times and inode of the file when it was checked; while they stay, it is not checked again.
        seal: the sha256 of its bytes.
        identity: the run, table and shard it belongs to.
        rows: the number of rows.
    """

    signature: Signature
    seal: str
    identity: ShardIdentity
    rows: int


def encode(table: pa.Table, identity: ShardIdentity) -> bytes:
    """Encode a table as a sealed file; the same table gives the same bytes."""
    identity_json = json.dumps(asdict(identity), sort_keys=True).encode()
    table = table.replace_schema_metadata({_KEY: identity_json}).combine_chunks()
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=max(1, len(table)), **_PARQUET)
    content = seal(sink.getvalue().to_pybytes())
    if len(content) > MAX_BYTES:
        raise StorageError(
            f"The table {identity.table!r} of one shard takes {len(content):,} bytes; a file holds at most "
            f"{MAX_BYTES:,}. Choose options with which the test keeps less of each text."
        )
    return content


def seal(content: bytes) -> bytes:
    """Insert the seal into the bytes of a parquet file, between the last page and the footer."""
    footer = len(content) - _TAIL - int.from_bytes(content[-_TAIL : -len(_MAGIC)], "little")
    return content[:footer] + _NAME + hashlib.sha256(content).hexdigest().encode() + content[footer:]


def prove(path: Path, previous: Proof | None = None) -> Proof:
    """Check the seal of a file, block by block; a file that has not changed since its last proof is not read again."""
    with damaged(path), open_regular(path, MAX_BYTES) as (file, status):
        signature = _signature(status)
        if previous is not None and previous.signature == signature:
            return previous
        footer = _footer(file, status.st_size)
        digest, remaining = hashlib.sha256(), status.st_size - len(footer) - _SEAL
        file.seek(0)
        while remaining:
            block = read_exactly(file, min(remaining, _BLOCK))
            digest.update(block)
            remaining -= len(block)
        digest.update(footer)
        seal = _check_seal(read_exactly(file, _SEAL), digest)
        # The footer holds the identity: pyarrow reads it with nothing before it but the magic number.
        metadata = pq.ParquetFile(pa.BufferReader(_MAGIC + footer), **_LIMITS).metadata
        return Proof(signature, seal, _identity(metadata.metadata), metadata.num_rows)


def read(path: Path, columns: Sequence[str] | None, previous: Proof | None = None) -> tuple[pa.Table, Proof]:
    """Read columns of a file, all by default, and its proof; an unchanged file is not hashed again."""
    with damaged(path):
        content, proof = read_bytes(path, previous)
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True, **_LIMITS)
        names = file.schema_arrow.names if columns is None else list(columns)
        if lacking := [name for name in names if name not in file.schema_arrow.names]:
            raise ValueError(f"it has no column {lacking[0]!r}")
        _refuse_bombs(file, content, names)
        table = file.read(columns=names, use_threads=False)
        table.validate(full=True)
    return table, proof


def read_bytes(path: Path, previous: Proof | None = None) -> tuple[bytes, Proof]:
    """Read all bytes of a file, and their proof."""
    with damaged(path), open_regular(path, MAX_BYTES) as (file, status):
        content = read_exactly(file, status.st_size)
        if previous is not None and previous.signature == _signature(status):
            return content, previous
        footer = _footer(file, status.st_size)
        end = len(content) - len(footer)
        digest = hashlib.sha256(memoryview(content)[: end - _SEAL])
        digest.update(footer)
        seal = _check_seal(content[end - _SEAL : end], digest)
        metadata = pq.ParquetFile(pa.BufferReader(content), **_LIMITS).metadata
        return content, Proof(_signature(status), seal, _identity(metadata.metadata), metadata.num_rows)


def read_schema(path: Path) -> pa.Schema:
    """Read the columns of a file and their types."""
    with damaged(path):
        return pq.ParquetFile(pa.BufferReader(read_bytes(path)[0]), **_LIMITS).schema_arrow


def digest_of(proofs: Sequence[Proof]) -> str:
    """One digest over the seals of several files, in their order."""
    return hashlib.sha256("".join(f"{proof.seal}\n" for proof in proofs).encode()).hexdigest()


@contextlib.contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Raise a `StorageError` that names the damaged or missing file and how to repair it."""
    try:
        yield
    except StorageError:
        raise
    except (OSError, ValueError, EOFError, MemoryError, OverflowError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else short_reason(error)
        raise StorageError(
            f"{str(path)!r} cannot be read: {reason}. Delete this file; the command that made the run, with the same "
            f"{parameter('output_dir')}, makes it again.",
            code="damaged-run",
        ) from error


def short_reason(error: BaseException, length: int = 200) -> str:
    """The message of an error in one line without its full stop, shortened: it can hold text of a hostile file."""
    message = " ".join(message_of(error).split()).removesuffix(".") or type(error).__name__
    return message if len(message) <= length else message[: length - 3] + "..."


_LIMITS: dict[str, int] = {"thrift_string_size_limit": 2**26, "thrift_container_size_limit": 2**20}


def _footer(file: BinaryIO, size: int) -> bytes:
    """The bytes of a file after the seal."""
    if size < len(_MAGIC) + _SEAL + _TAIL:
        raise ValueError("it is too short for a table")
    file.seek(size - _TAIL)
    tail = read_exactly(file, _TAIL)
    length = int.from_bytes(tail[:4], "little") + _TAIL
    if tail[4:] != _MAGIC or length + _SEAL + len(_MAGIC) > size:
        raise ValueError("it is not a parquet file, or its end is missing")
    file.seek(size - length)
    return read_exactly(file, length)


def _check_seal(seal: bytes, digest: Any) -> str:
    expected = str(digest.hexdigest())
    if not seal.startswith(_NAME):
        raise ValueError("it has no checksum where attnfaith writes one, so it was damaged, or made by something else")
    if seal[len(_NAME) :] != expected.encode():
        raise ValueError("its checksum is wrong, so its bytes have changed since it was written")
    return expected


def _identity(metadata: dict[bytes, bytes] | None) -> ShardIdentity:
    try:
        fields = json.loads((metadata or {})[_KEY])
        if not (isinstance(fields["shard"], int | None) and isinstance(fields["tables"], list)):
            raise ValueError
        names = tuple(str(name) for name in fields["tables"])
        return ShardIdentity(str(fields["run"]), str(fields["table"]), fields["shard"], str(fields["rows"]), names)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError("it does not say which run it belongs to") from error


def _signature(status: os.stat_result) -> Signature:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _refuse_bombs(file: pq.ParquetFile, content: bytes, names: Sequence[str]) -> None:
    """Refuse a file whose content would take more memory than any real table, before the memory is allocated."""
    for field in file.schema_arrow:
        if not _is_plain(field.type):
            raise ValueError(f"the column {short_repr(field.name)} is of the type {short_repr(str(field.type))}")
    metadata = file.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(index) for group in groups for index in range(metadata.num_columns)]
    if metadata.num_rows < 0 or any(
        min(chunk.num_values, chunk.total_compressed_size, chunk.total_uncompressed_size) < 0 for chunk in chunks
    ):
        raise ValueError("it claims a negative number of rows, values or bytes")
    # A page can repeat one value at no cost, so the number of values counts as well as their bytes.
    total = 8 * metadata.num_rows
    total += sum(max(chunk.total_uncompressed_size, 8 * chunk.num_values) for chunk in chunks)
    if total > MAX_BYTES:
        raise ValueError(f"it claims to hold {total:,} bytes when it is decompressed; expected at most {MAX_BYTES:,}")
    suspects = {
        chunk.path_in_schema for chunk in chunks if chunk.num_values * chunk.total_uncompressed_size > MAX_BYTES
    }
    for name in names:
        if name in suspects and pa.types.is_string(file.schema_arrow.field(name).type):
            _refuse_repeated_texts(content, name)


def _refuse_repeated_texts(content: bytes, name: str) -> None:
    """Refuse texts that are stored once in a dictionary and repeated in many rows, by their decompressed size."""
    coded = pq.ParquetFile(pa.BufferReader(content), read_dictionary=[name], **_LIMITS)
    total = 0
    for chunk in coded.read(columns=[name], use_threads=False)[name].chunks:
        total += pc.sum(pc.binary_length(chunk.dictionary).cast(pa.int64()).take(chunk.indices)).as_py() or 0
    if total > MAX_BYTES:
        raise ValueError(f"the texts of the column {name!r} take {total:,} bytes; expected at most {MAX_BYTES:,}")


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _is_plain(kind.value_type)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string)
    return any(test(kind) for test in tests)
