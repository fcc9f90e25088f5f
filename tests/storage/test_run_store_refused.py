"""A run is never mixed with another run or with other data, nor with a folder that is no run, or a broken one."""

import os

import pytest

from attnfaith.errors import InputError, StorageError
from attnfaith.storage.run_store import Store
from tests.helpers.stored_runs import ERASURE, MANIFEST, bytes_of, finished, manifest_with, tables_of


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("run", "seed"), 1, "seed is 0 there and 1 here"),
        (("run", "seed"), 0.5, "seed is 0 there and 0.5 here"),
        (("run", "seed"), False, "seed is 0 there and False here"),
        (("run", "seed"), None, "seed is 0 there and None here"),
        (("run", "seed"), ..., "seed is 0 there and absent here"),
        (("run", "new"), {"a": 1}, "new is absent there and {'a': 1} here"),
        (("run", "model", "fingerprint"), "cd", "model.fingerprint is 'ab' there and 'cd' here"),
        (("run", "model", "labels"), ["bad", "fine"], r"model.labels\[1\] is 'good' there and 'fine' here"),
        (("run", "model", "labels"), ["bad"], r"model.labels is \['bad', 'good'\] there and \['bad'\] here"),
        (("run", "model"), "ab", "model is {.*} there and 'ab' here"),
        (("shard_size",), 5, "shard_size is 4 there and 5 here"),
        (("rows",), 23, "rows is 22 there and 23 here"),
        (("rows",), None, "rows is 22 there and None here"),
    ],
)
def test_another_run_is_refused(path, value, message, tmp_path):
    finished(tmp_path / "run")
    before = bytes_of(tmp_path / "run")
    with pytest.raises(InputError, match=rf"made with other arguments: {message}\. Give another output_dir"):
        Store.open(tmp_path / "run", manifest_with(path, value))
    assert bytes_of(tmp_path / "run") == before


def test_the_first_difference_is_named(tmp_path):
    Store.open(tmp_path / "run", MANIFEST)
    other = {**MANIFEST, "run": {**MANIFEST["run"], "model": {"fingerprint": "cd", "labels": []}, "seed": 1}}
    with pytest.raises(InputError, match=r"model\.fingerprint is") as caught:
        Store.open(tmp_path / "run", other)
    assert "seed" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value"), [(("versions", "torch"), "3"), (("run", "seed"), 0.0), (("versions",), ...)]
)
def test_what_may_differ(path, value, tmp_path):
    finished(tmp_path / "run")
    before = bytes_of(tmp_path / "run")
    assert Store.open(tmp_path / "run", manifest_with(path, value)).complete
    assert bytes_of(tmp_path / "run") == before


def test_data_that_have_changed(tmp_path):
    store = Store.open(tmp_path / "run", MANIFEST)
    for shard in (1, 5):
        store.write(shard, tables_of(shard), f"rows {shard}")
        store.check(shard, f"rows {shard}")
    with pytest.raises(InputError, match=r"rows 4 to 7 \(counted from 0\) are not those"):
        store.check(1, "rows 5")
    with pytest.raises(InputError, match="rows 20 to 21 "):
        store.check(5, "rows 1")


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "texts/00000.parquet", "a folder/x"])
def test_a_foreign_directory(name, tmp_path):
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(InputError, match=f"holds other files \\('{name.partition('/')[0]}'\\) and no manifest.json"):
        Store.open(tmp_path / "run", MANIFEST)
    with pytest.raises(InputError, match="is no run of attnfaith"):
        Store.load(tmp_path / "run")
    assert bytes_of(tmp_path / "run") == {name: b"mine"}


@pytest.mark.parametrize("name", ["texts", "erasure"])
@pytest.mark.parametrize("damage", ["empty", "cut", "nonsense", "gone", "a link", "a pipe", "a folder"])
def test_a_damaged_shard_is_named_and_healed_by_the_advice(name, damage, tmp_path):
    finished(tmp_path / "calm")
    finished(tmp_path / "run")
    path = tmp_path / "run" / name / "00002.parquet"
    content = path.read_bytes()
    path.unlink()
    if damage == "a link":
        (tmp_path / "elsewhere").write_bytes(content)
        path.symlink_to(tmp_path / "elsewhere")
    elif damage == "a pipe":
        os.mkfifo(path)
    elif damage == "a folder":
        path.mkdir()
    elif damage != "gone":
        path.write_bytes({"empty": b"", "cut": content[:-20], "nonsense": b"what?" * 999}[damage])
    if damage == "gone":
        with pytest.raises(InputError, match="not complete: 5 of 6 shards"):
            Store.load(tmp_path / "run")
    else:
        for call in (lambda: Store.open(tmp_path / "run", MANIFEST), lambda: Store.load(tmp_path / "run")):
            with pytest.raises(
                StorageError, match=rf"{name}/00002\.parquet' cannot be read: .* Delete this file; the command"
            ):
                call()
        path.rmdir() if damage == "a folder" else path.unlink()  # as told
    finished(tmp_path / "run")
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "calm")


def test_a_bit_that_has_flipped_in_a_run_that_was_interrupted(tmp_path):
    """It has no digests in its manifest yet, and is noticed all the same, wherever the bit is."""
    store = Store.open(tmp_path / "run", MANIFEST)
    for shard in range(3):
        store.write(shard, tables_of(shard), f"rows {shard}")
    path = tmp_path / "run" / "erasure" / "00001.parquet"
    content = path.read_bytes()
    for index in range(0, len(content), 7):
        path.write_bytes(content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :])
        with pytest.raises(StorageError, match=r"erasure/00001\.parquet' cannot be read"):
            Store.open(tmp_path / "run", MANIFEST)
    path.write_bytes(content)
    Store.open(tmp_path / "run", MANIFEST)


def test_a_table_that_changes_after_it_was_loaded(tmp_path):
    store = finished(tmp_path / "run")
    store.table("erasure")
    path = tmp_path / "run" / "erasure" / "00001.parquet"
    path.write_bytes(path.read_bytes().replace(b"attention", b"attentiom"))
    with pytest.raises(StorageError, match="its bytes have changed"):
        store.table("erasure")


def test_files_in_another_place_are_noticed(tmp_path):
    finished(tmp_path / "run")
    finished(tmp_path / "other", manifest_with(("run", "seed"), 1))
    run = tmp_path / "run"
    for source, index, message in [
        (run / "erasure" / "00001.parquet", run / "erasure" / "00002.parquet", "it is shard 1 of the table 'erasure'"),
        (run / "texts" / "00001.parquet", run / "erasure" / "00001.parquet", "it is shard 1 of the table 'texts'"),
        (tmp_path / "other" / "texts" / "00001.parquet", run / "texts" / "00001.parquet", "belongs to another run"),
    ]:
        content = index.read_bytes()
        index.write_bytes(source.read_bytes())
        for call in (lambda: Store.load(run), lambda: Store.open(run, MANIFEST)):
            with pytest.raises(StorageError, match=message):
                call()
        index.write_bytes(content)
    Store.load(run)


def test_a_shard_of_the_same_run_made_from_other_rows(tmp_path):
    finished(tmp_path / "run")
    other = Store.open(tmp_path / "other", MANIFEST)
    other.write(1, tables_of(1), "rows of another day")
    for name, message in (("erasure", "made from other rows than the texts"), ("texts", "made from other rows than")):
        path = tmp_path / "run" / name / "00001.parquet"
        content = path.read_bytes()
        path.write_bytes((tmp_path / "other" / name / "00001.parquet").read_bytes())
        with pytest.raises(StorageError, match=message):
            Store.load(tmp_path / "run")
        path.write_bytes(content)


def test_a_whole_shard_of_another_execution_of_the_same_run(tmp_path):
    """Each of its files proves itself; only the manifest knows that the run was finished with others."""
    finished(tmp_path / "run")
    other = Store.open(tmp_path / "other", MANIFEST)
    changed = tables_of(1)
    changed["erasure"] = changed["erasure"].set_column(3, ERASURE.field("fraction"), [[0.5] * len(changed["erasure"])])
    other.write(1, changed, "rows 1")
    for name in ("texts", "erasure"):
        path = tmp_path / "run" / name / "00001.parquet"
        path.write_bytes((tmp_path / "other" / name / "00001.parquet").read_bytes())
    with pytest.raises(StorageError, match=r"'erasure' in .* are not those that the run was finished with"):
        Store.load(tmp_path / "run")
    finished(tmp_path / "run")  # as told
    assert Store.load(tmp_path / "run").table("erasure")["fraction"][8] == 0.5


def test_no_directory(tmp_path):
    with pytest.raises(InputError, match="no directory"):
        Store.load(tmp_path / "nowhere")
