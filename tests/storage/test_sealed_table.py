"""Sealed files: parquet that anybody can read, every byte proved, and bombs refused before they go off."""

import json
from dataclasses import asdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnfaith.errors import StorageError
from attnfaith.storage import sealed_table
from attnfaith.storage.run_store import Store
from tests.faults.children import forked, run_program
from tests.helpers.stored_runs import ERASURE, bytes_of, finished, tables_of

WHO = sealed_table.ShardIdentity("run", "erasure", 3, "rows", ("erasure", "texts"))


def forged(table, path):
    """A file that somebody else made, with a seal that is right."""
    path.write_bytes(sealed_table.encode(table, WHO))
    return path


def test_it_is_parquet_for_everybody(tmp_path):
    table = tables_of(0)["erasure"]
    (tmp_path / "file.parquet").write_bytes(sealed_table.encode(table, WHO))
    assert pq.read_table(tmp_path / "file.parquet").equals(table)
    assert sealed_table.read(tmp_path / "file.parquet", None)[0].equals(table)
    assert sealed_table.prove(tmp_path / "file.parquet").identity == WHO
    assert sealed_table.encode(table, WHO) == sealed_table.encode(table, WHO)


def test_every_single_bit_counts(tmp_path):
    path = tmp_path / "file.parquet"
    content = sealed_table.encode(tables_of(0)["erasure"].slice(0, 2), WHO)
    for index in range(len(content)):
        path.write_bytes(content[:index] + bytes([content[index] ^ (1 << index % 8)]) + content[index + 1 :])
        with pytest.raises(StorageError, match=r"cannot be read"):
            sealed_table.prove(path)
        with pytest.raises(StorageError, match=r"cannot be read"):
            sealed_table.read(path, None)
    for size in range(0, len(content), 13):
        path.write_bytes(content[:size])
        with pytest.raises(StorageError, match=r"cannot be read"):
            sealed_table.prove(path)


def test_a_file_that_stays_is_hashed_once(tmp_path, monkeypatch):
    finished(tmp_path / "run")
    hashed = []
    sha256 = sealed_table.hashlib.sha256

    def counted(*content):
        hashed.append(content)
        return sha256(*content)

    monkeypatch.setattr(sealed_table.hashlib, "sha256", counted)
    store = Store.load(tmp_path / "run")
    files = sum(name.endswith(".parquet") for name in bytes_of(tmp_path / "run"))
    before = len(hashed)
    assert before == files + 2 + 3  # a digest over each of two tables, two of the manifest, and of what is the run
    for _ in range(3):
        store.table("erasure")
        store.table("texts")
        list(store.batches("erasure"))
    assert len(hashed) == before


@pytest.mark.skipif(
    not hasattr(pq.ParquetWriter, "add_key_value_metadata"), reason="this pyarrow cannot write such a file"
)
def test_a_sealed_bomb_is_refused_in_little_memory(tmp_path):
    """A long text stands in the dictionary once, and in each of very many rows: 1 MB in the file."""
    text = pa.array(["x" * 10**6])
    for name, count in (("harmless", 300), ("bomb", 100_000)):
        rows = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), text)
        table, sink = pa.table({"text": rows}), pa.BufferOutputStream()
        with pq.ParquetWriter(sink, table.schema, compression="zstd", store_schema=False) as writer:  # read as text
            writer.write_table(table, row_group_size=count)
            writer.add_key_value_metadata({"attnfaith": json.dumps(asdict(WHO))})
        (tmp_path / f"{name}.parquet").write_bytes(sealed_table.seal(sink.getvalue().to_pybytes()))
        assert (tmp_path / f"{name}.parquet").stat().st_size < 10**6
    program = (
        "import resource\nfrom pathlib import Path\nfrom attnfaith.storage import sealed_table\n"
        "print(len(sealed_table.read(Path(sys.argv[1], 'harmless.parquet'), None)[0]))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    sealed_table.read(Path(sys.argv[1], 'bomb.parquet'), None)\n"
        "except sealed_table.StorageError as error:\n    print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = forked(run_program, program, tmp_path)
    harmless, message, grown = done.stdout.splitlines()
    assert harmless == "300"
    assert "the texts of the column 'text' take 100,000,000,000 bytes; expected at most" in message
    assert int(grown) < 500_000  # kilobytes


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"a": pa.array([b"x"])}), "the column 'a' is of the type 'binary'"),
        (pa.table({"a": pa.array([{"b": 1}])}), r"the column 'a' is of the type 'struct<b: int64>'"),
        (pa.table({"a": pa.array([0], pa.timestamp("ns"))}), "is of the type 'timestamp"),
    ],
)
def test_types_that_no_table_has(table, message, tmp_path):
    with pytest.raises(StorageError, match=message):
        sealed_table.read(forged(table, tmp_path / "file.parquet"), None)


def test_more_values_than_memory(tmp_path, monkeypatch):
    """Cheap on disk: one value, many times. The limit is on what is claimed, whatever it is."""
    path = forged(pa.table({"a": pa.array([1] * 10**6)}), tmp_path / "file.parquet")
    assert path.stat().st_size < 10_000
    assert len(sealed_table.read(path, None)[0]) == 10**6
    monkeypatch.setattr(sealed_table, "MAX_BYTES", 10**6)
    with pytest.raises(
        StorageError, match=r"claims to hold .* bytes when it is decompressed; expected at most 1,000,000"
    ):
        sealed_table.read(path, None)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "file.parquet").open("wb") as file:
        file.truncate(10**13)  # takes no room
    for call in (sealed_table.prove, lambda path: sealed_table.read(path, None)):
        with pytest.raises(StorageError, match="it has 10,000,000,000,000 bytes; expected at most"):
            call(tmp_path / "file.parquet")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("text_id", pa.array([99] * 4), "it has rows of texts that are not in shard 0"),
        ("text_id", pa.array(["0"] * 4), "its column 'text_id' is 'string'; expected int64 not null"),
        ("fraction", pa.array(["x"] * 4), "its column 'fraction' is 'string'; expected double"),
        ("removed", None, "it has no column 'removed'"),
    ],
)
def test_a_sealed_table_with_other_columns_or_texts(column, values, message, tmp_path):
    """As somebody may make it who knows how: refused where it is read."""
    store = Store.open(tmp_path, {"run": {}, "shard_size": 4, "rows": 4})
    tables = tables_of(0)
    erasure = tables["erasure"].slice(0, 4)
    index = erasure.schema.get_field_index(column)
    changed = (
        erasure.drop_columns(column) if values is None else erasure.set_column(index, _field(column, values), values)
    )
    store.write(0, {"texts": tables["texts"], "erasure": changed}, "rows")
    store.finish({})
    store = Store.load(tmp_path)
    with pytest.raises(StorageError, match=message):
        _ = store.expect({"erasure": ERASURE}) or store.table("erasure")


def _field(name, values):
    same = ERASURE.field(name).type == values.type
    return ERASURE.field(name) if same else pa.field(name, values.type)
