"""A run at an address has the bytes of one in a folder, goes on where it stopped, and is checked when it is fetched."""

import shutil

import pytest

from attnfaith.errors import InputError, StorageError
from attnfaith.storage import run_folder
from attnfaith.storage.parts import join
from attnfaith.storage.run_folder import RunFolder
from attnfaith.storage.run_store import Store
from tests.helpers import other_file_systems
from tests.helpers.other_file_systems import UNREACHABLE
from tests.helpers.stored_runs import COUNTS, MANIFEST, bytes_of, finished, half_of, manifest_with, tables_of

ADDRESS = "memory://bucket/run"


@pytest.fixture
def memory():
    with other_file_systems.in_memory() as system:
        yield system


def there(memory, root="/bucket/run"):
    return {name.removeprefix(f"{root}/"): memory.cat_file(name) for name in memory.find(root)}


def test_the_bytes_are_those_of_a_run_in_a_folder(memory, tmp_path):
    store = finished(ADDRESS)
    finished(tmp_path / "run")
    assert there(memory) == bytes_of(tmp_path / "run") == bytes_of(store.directory)
    assert store.location == ADDRESS
    loaded = Store.load(ADDRESS + "/")
    assert loaded.table("erasure").equals(Store.load(tmp_path / "run").table("erasure"))
    assert loaded.directory != store.directory
    assert there(memory) == bytes_of(tmp_path / "run")


def test_a_shard_is_at_the_address_as_soon_as_it_is_written(memory):
    store = Store.open(ADDRESS, MANIFEST)
    assert list(there(memory)) == ["manifest.json"]
    store.write(2, tables_of(2), "rows 2")
    assert {*there(memory)} == {"manifest.json", "texts/00002.parquet", "erasure/00002.parquet"}


def test_a_run_goes_on_with_what_is_at_the_address(memory, tmp_path):
    store = Store.open(ADDRESS, MANIFEST)
    for shard in (0, 3):
        store.write(shard, tables_of(shard), f"rows {shard}")
    shutil.rmtree(store.directory)  # the machine is gone
    again = Store.open(ADDRESS, MANIFEST)
    assert again.shards() == [0, 3]
    with pytest.raises(InputError, match="rows 12 to 15"):
        again.check(3, "other rows")
    finished(ADDRESS)
    finished(tmp_path / "run")
    assert there(memory) == bytes_of(tmp_path / "run")


def test_pieces_of_a_shard_are_kept_at_the_address_until_it_is_written(memory, tmp_path):
    schemas = {name: table.schema for name, table in tables_of(1).items()}
    store = Store.open(ADDRESS, MANIFEST)
    store.write_piece(1, {name: table.slice(0, 2) for name, table in tables_of(1).items()}, "rows 1")
    assert "unfinished/00001-0000.parquet" in there(memory)
    other = Store.open(ADDRESS, MANIFEST)
    (piece,) = other.pieces(1, schemas, "rows 1", range(4, 8))
    assert piece["texts"].equals(tables_of(1)["texts"].slice(0, 2))
    store.write_piece(3, half_of(3), "rows 3")  # after the other one has fetched
    other.write(1, tables_of(1), "rows 1")
    assert {name for name in there(memory) if "unfinished" in name} == {"unfinished/00003-0000.parquet"}
    finished(ADDRESS)
    finished(tmp_path / "run")
    assert there(memory) == bytes_of(tmp_path / "run")


def test_shards_of_other_processes_are_fetched_before_the_end(memory, tmp_path):
    first = Store.open(ADDRESS, MANIFEST)
    second = Store.open(ADDRESS, MANIFEST, begin=False)
    for store, shards in ((first, (0, 2, 4)), (second, (1, 3, 5))):
        for shard in shards:
            store.write(shard, tables_of(shard), f"rows {shard}")
    first.fetch()
    first.finish(COUNTS)
    finished(tmp_path / "run")
    assert there(memory) == bytes_of(tmp_path / "run")
    assert second.load_again().shards() == list(range(6))


def test_what_was_damaged_at_the_address_is_refused_by_its_address(memory):
    finished(ADDRESS)
    content = bytearray(memory.cat_file("/bucket/run/erasure/00001.parquet"))
    content[30] ^= 1
    memory.pipe_file("/bucket/run/erasure/00001.parquet", bytes(content))
    for action in (Store.load, lambda address: Store.open(address, MANIFEST)):
        with pytest.raises(
            StorageError, match=r"'memory://bucket/run/erasure/00001\.parquet' cannot be read"
        ) as refused:
            action(ADDRESS)
        assert "attnfaith-" not in str(refused.value)
    memory.rm_file("/bucket/run/erasure/00001.parquet")
    with pytest.raises(InputError, match="run in 'memory://bucket/run' is not complete: 5 of 6"):
        Store.load(ADDRESS)


def test_runs_are_copied_to_addresses_and_from_there(memory, tmp_path):
    store = finished(tmp_path / "run")
    copy = store.copy_to(ADDRESS)
    assert there(memory) == bytes_of(tmp_path / "run")
    assert copy.copy_to(ADDRESS) is copy
    copy.copy_to(tmp_path / "back")
    assert bytes_of(tmp_path / "back") == bytes_of(tmp_path / "run")


def test_an_address_with_other_files_or_another_run_is_refused(memory):
    memory.pipe_file("/bucket/run/thesis.tex", b"mine")
    with pytest.raises(InputError, match=r"'memory://bucket/run' holds other files \('thesis\.tex'\)"):
        Store.open(ADDRESS, MANIFEST)
    memory.pipe_file("/bucket/data/train/00000.parquet", b"PAR1")
    with pytest.raises(InputError, match=r"'memory://bucket/data' holds other files \('train'\)"):
        Store.open("memory://bucket/data", MANIFEST)
    finished("memory://bucket/other", manifest_with(("run", "seed"), 1))
    with pytest.raises(InputError, match="'memory://bucket/other' was made with other arguments: seed is 1 there"):
        Store.open("memory://bucket/other", MANIFEST)
    assert {*there(memory)} == {"thesis.tex"}


def test_an_address_without_a_run(memory):
    with pytest.raises(InputError, match="'memory://bucket/run' is no run of attnfaith"):
        Store.load(ADDRESS)


def test_what_cannot_be_reached_is_told_before_the_work(memory):
    with other_file_systems.without_access():
        for action in (
            Store.load,
            lambda address: RunFolder(address).refuse_unusable(),
            lambda address: Store.open(address, MANIFEST),
        ):
            with pytest.raises(
                StorageError, match=r"^'unreachable://bucket/run' cannot be reached: NoCredentialsError: Una"
            ):
                action(f"{UNREACHABLE}://bucket/run")
    with pytest.raises(InputError, match=r"pip install s3fs|cannot be reached"):
        RunFolder("s3://bucket/run").refuse_unusable()


def test_an_address_is_tried_before_the_work_and_nothing_stays(memory):
    RunFolder(ADDRESS).refuse_unusable()
    assert there(memory) == {}
    finished(ADDRESS)
    memory.pipe_file, kept = None, memory.pipe_file  # a finished run can be read where nothing can be written
    try:
        RunFolder(ADDRESS).refuse_unusable()
    finally:
        memory.pipe_file = kept


def test_files_are_refused_by_their_size_before_they_are_fetched(memory, monkeypatch):
    finished(ADDRESS)
    monkeypatch.setattr("attnfaith.storage.mirror.MAX_BYTES", 100)
    with pytest.raises(StorageError, match=r"memory://bucket/run/.*\.parquet has .* bytes; expected at most 100"):
        Store.load(ADDRESS)


def test_a_local_address_is_a_folder(tmp_path):
    store = finished(f"file://{tmp_path}/run")
    assert store.directory == tmp_path / "run"
    assert Store.load(f"file://{tmp_path}/run").shards() == list(range(6))


def test_parts_at_addresses_are_joined(memory, tmp_path):
    for number in (1, 2):
        entry = {"number": number, "of": 2, "data": "a" * 64}
        store = Store.open(f"memory://bucket/run-{number}", {"attnfaith": "1", **MANIFEST, "part": entry})
        for shard in range(number - 1, 6, 2):
            store.write(shard, tables_of(shard), f"rows {shard}")
        store.finish(COUNTS)
    parts = ["memory://bucket/run-2", "memory://bucket/run-1"]
    join(parts, "memory://bucket/all").finish(COUNTS)
    finished(tmp_path / "whole", {"attnfaith": "1", **MANIFEST})
    assert there(memory, "/bucket/all") == bytes_of(tmp_path / "whole")
    with pytest.raises(InputError, match="is the part"):
        join(parts, "memory://bucket/run-1/")
    with pytest.raises(InputError, match="is inside the part"):
        join(parts, "memory://bucket/run-1/all")


@pytest.mark.parametrize("address", ["memory://bucket/run", None])
def test_a_process_that_does_not_see_the_folder_of_the_first_is_told(memory, tmp_path, monkeypatch, address):
    monkeypatch.setattr(run_folder, "SEEN_AFTER", 0.5)
    with pytest.raises(InputError, match=r"is not the folder that the first process writes to.*with part\."):
        Store.open(address or tmp_path / "run", MANIFEST, begin=False)
    Store.open(address or tmp_path / "run", MANIFEST)
    assert Store.open(address or tmp_path / "run", MANIFEST, begin=False).shards() == []
