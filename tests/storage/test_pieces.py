"""Pieces of shards: what is finished of a shard that is not complete."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from attnfaith.errors import InputError, StorageError
from attnfaith.storage import sealed_table
from attnfaith.storage.pieces import Pieces
from attnfaith.storage.run_store import Store
from tests.helpers.stored_runs import MANIFEST, SCHEMAS, SIZE, bytes_of, finished, half_of, manifest_with, tables_of

IDS = {shard: list(range(shard * SIZE, shard * SIZE + SIZE)) for shard in range(5)}


def rest_of(shard):
    return {
        name: table.filter(pc.greater_equal(table["text_id"], shard * SIZE + 2))
        for name, table in tables_of(shard).items()
    }


def path_of(folder, shard=1, number=0):
    return folder / "unfinished" / f"{shard:05d}-{number:04d}.parquet"


@pytest.fixture
def begun(tmp_path):
    """A run with one shard, and two pieces of the next one."""
    store = Store.open(tmp_path / "run", MANIFEST)
    store.write(0, tables_of(0), "rows 0")
    store.write_piece(1, half_of(1), "rows 1")
    store.write_piece(1, rest_of(1), "rows 1")
    return store


@pytest.mark.parametrize("shard", range(5))
def test_a_piece_gives_back_its_tables(shard, tmp_path):
    """Also with a column of nulls only, an empty table, and texts that are not ASCII."""
    store = Store.open(tmp_path / "run", MANIFEST)
    store.write_piece(shard, half_of(shard), "hash")
    (tables,) = store.pieces(shard, SCHEMAS, "hash", IDS[shard])
    for name, table in half_of(shard).items():
        assert tables[name].equals(table)
        assert tables[name].schema.equals(SCHEMAS[name])
    assert store.pieces(shard + 1, SCHEMAS, "hash", IDS[shard]) == []


def test_pieces_are_no_shards_and_their_rows_are_counted(begun, tmp_path):
    again = Store.open(tmp_path / "run", MANIFEST)
    assert again.tables == ["texts", "erasure"]
    assert again.shards() == [0]
    assert not again.done(1)
    assert again.kept_rows() == SIZE + SIZE
    assert [len(part["texts"]) for part in again.pieces(1, SCHEMAS, "rows 1", IDS[1])] == [2, 2]


def test_they_are_removed_with_the_shard_and_the_folder_with_the_run(begun, tmp_path):
    finished(tmp_path / "calm")
    begun.write_piece(2, half_of(2), "rows 2")
    begun.write(1, tables_of(1), "rows 1")
    assert [path.name for path in (tmp_path / "run" / "unfinished").iterdir()] == ["00002-0000.parquet"]
    finished(tmp_path / "run")
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "calm")
    assert not (tmp_path / "run" / "unfinished").exists()


def test_surplus_pieces_of_a_complete_shard_are_removed(begun, tmp_path):
    """The writer was killed between the shard and their removal."""
    content = path_of(tmp_path / "run").read_bytes()
    begun.write(1, tables_of(1), "rows 1")
    path_of(tmp_path / "run").parent.mkdir(exist_ok=True)
    path_of(tmp_path / "run").write_bytes(content)
    assert Store.open(tmp_path / "run", MANIFEST).kept_rows() == 2 * SIZE
    assert not path_of(tmp_path / "run").exists()


def test_a_text_in_two_pieces_is_read_once(begun):
    """Two processes that compute the same shard never replace each other's pieces."""
    begun.write_piece(1, tables_of(1), "rows 1")
    parts = begun.pieces(1, SCHEMAS, "rows 1", IDS[1])
    assert [part["texts"]["text_id"].to_pylist() for part in parts] == [IDS[1][:2], IDS[1][2:]]
    assert sum(len(part["erasure"]) for part in parts) == len(tables_of(1)["erasure"])
    assert begun.kept_rows() == 2 * SIZE


@pytest.mark.parametrize("place", [0, 200, -200, -1])
def test_a_damaged_piece_is_refused_and_its_removal_heals(place, begun, tmp_path):
    path = path_of(tmp_path / "run")
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(bytes(content))
    with pytest.raises(StorageError, match=r"00001-0000.parquet' cannot be read: .* Delete this file; the command"):
        Store.open(tmp_path / "run", MANIFEST)
    path.unlink()
    again = Store.open(tmp_path / "run", MANIFEST)
    assert [len(part["texts"]) for part in again.pieces(1, SCHEMAS, "rows 1", IDS[1])] == [2]


def test_a_piece_of_another_run_or_shard_is_refused(begun, tmp_path):
    other = Store.open(tmp_path / "other", manifest_with(["run", "seed"], 1))
    other.write_piece(1, half_of(1), "rows 1")
    mine = path_of(tmp_path / "run").read_bytes()
    path_of(tmp_path / "run").write_bytes(path_of(tmp_path / "other").read_bytes())
    with pytest.raises(StorageError, match="it belongs to another run, made with other arguments"):
        Store.open(tmp_path / "run", MANIFEST)
    path_of(tmp_path / "run").write_bytes(mine)
    path_of(tmp_path / "run", shard=2).write_bytes(mine)
    with pytest.raises(StorageError, match="it is of shard 1 and the table 'unfinished', in the place of a piece"):
        Store.open(tmp_path / "run", MANIFEST)
    path_of(tmp_path / "run", shard=2).write_bytes((tmp_path / "run" / "texts" / "00000.parquet").read_bytes())
    with pytest.raises(StorageError, match="it is of shard 0 and the table 'texts', in the place of a piece"):
        Store.open(tmp_path / "run", MANIFEST)


def test_pieces_of_other_data_are_refused(begun):
    with pytest.raises(InputError, match=r"The data have changed: rows 4 to 7 .* Give another output_dir"):
        begun.pieces(1, SCHEMAS, "other rows", IDS[1])


def joined(tables):
    """The rows of all tables, as a piece has them."""
    parts = [
        pa.table({"table": [name] * len(table), **{f"{name}/{column}": table[column] for column in table.column_names}})
        for name, table in tables.items()
    ]
    return pa.concat_tables(parts, promote_options="default")


def without(table, name):
    return table.drop_columns([name])


FORGED = {
    "a text of another shard": (lambda: joined(half_of(2)), "rows of texts that are not in shard 1"),
    "a text twice": (lambda: pa.concat_tables([joined(half_of(1))] * 2), "it has a text twice"),
    "no texts": (lambda: joined({**half_of(1), "texts": half_of(1)["texts"].slice(0, 1)}), "not in its table of texts"),
    "a missing column": (lambda: without(joined(half_of(1)), "erasure/removed"), "its column 'erasure/removed' is not"),
    "a further column": (lambda: joined({**half_of(1), "x": pa.table({"y": [1]})}), "its column 'x/y' is not"),
    "another type": (
        lambda: joined({**half_of(1), "texts": half_of(1)["texts"].set_column(3, "aside", pa.array([1, 2]))}),
        "its column 'texts/aside' is not",
    ),
    "rows of no table": (
        lambda: joined(half_of(1)).set_column(0, "table", pa.array(["z"] * len(joined(half_of(1))))),
        "rows of tables that are not in this run",
    ),
    "missing values": (
        lambda: joined({**half_of(1), "texts": half_of(1)["texts"].set_column(0, "text_id", pa.array([4, None]))}),
        "its column 'texts/text_id' has missing values",
    ),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_piece_is_refused(forgery, begun, tmp_path):
    """With a valid seal: somebody else wrote it, or another version of attnfaith."""
    make, reason = FORGED[forgery]
    run = Pieces(tmp_path, begun._pieces.run).run
    identity = sealed_table.ShardIdentity(run, "unfinished", 1, "rows 1", ("erasure", "texts"))
    path_of(tmp_path / "run").write_bytes(sealed_table.encode(make(), identity))
    with pytest.raises(StorageError, match=f"{reason}.* Delete this file"):
        begun.pieces(1, SCHEMAS, "rows 1", IDS[1])


def test_without_its_manifest_a_run_is_known_by_its_pieces(begun, tmp_path):
    manifest = (tmp_path / "run" / "manifest.json").read_bytes()
    (tmp_path / "run" / "manifest.json").unlink()
    Store.open(tmp_path / "run", MANIFEST)
    assert (tmp_path / "run" / "manifest.json").read_bytes() == manifest
    (tmp_path / "run" / "manifest.json").unlink()
    with pytest.raises(InputError, match="holds other files \\('unfinished'\\)"):
        Store.open(tmp_path / "run", manifest_with(["run", "seed"], 1))
    (tmp_path / "mine" / "unfinished").mkdir(parents=True)
    (tmp_path / "mine" / "unfinished" / "novel.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        Store.open(tmp_path / "mine", MANIFEST)


def test_a_disk_that_is_full(begun, tmp_path, monkeypatch):
    before = bytes_of(tmp_path / "run")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match=r"cannot hold the results: No space left on device. Finished work is kept"):
        begun.write_piece(1, half_of(1), "rows 1")
    assert bytes_of(tmp_path / "run") == before
