"""A run is never mixed with another run or with other data, nor with a folder that is no run, or a broken one."""

import pytest

from attnfaith.errors import InputError
from attnfaith.evaluation.store import Store
from tests.evaluation.stored import MANIFEST, bytes_of, finished, manifest_with, tables_of


@pytest.mark.parametrize(
    ("path", "value", "said"),
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
def test_another_run_is_refused(path, value, said, tmp_path):
    finished(tmp_path / "run")
    before = bytes_of(tmp_path / "run")
    with pytest.raises(InputError, match=rf"made with other arguments: {said}\. Give another output_dir"):
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


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"5", b"\xff", b"{}"),
        b'{"run": 1, "shard_size": 2}',
        b'{"run": {}}',
        b'{"run": {}, "shard_size": "a"}',
        b'{"run": {}, "shard_size": 1, "counts": {}}',
        b'{"run": {}, "shard_size": 1, "rows": "a"}',
    ],
)
def test_a_corrupt_manifest(content, tmp_path):
    (tmp_path / "manifest.json").write_bytes(content)
    for call in (lambda: Store.open(tmp_path, MANIFEST), lambda: Store.load(tmp_path)):
        with pytest.raises(InputError, match=r"manifest\.json' is corrupt"):
            call()


@pytest.mark.parametrize("name", ["texts", "erasure"])
@pytest.mark.parametrize("damage", ["empty", "cut", "nonsense", "gone"])
def test_an_unreadable_shard(name, damage, tmp_path):
    finished(tmp_path / "run")
    path = tmp_path / "run" / name / "00002.parquet"
    content = {"empty": b"", "cut": path.read_bytes()[:-20], "nonsense": b"what?" * 99, "gone": None}[damage]
    if content is None:
        path.unlink()
        if name == "texts":
            return  # then the shard is not done, and made again
    else:
        path.write_bytes(content)
    with pytest.raises(
        InputError, match=rf"{name}/00002.parquet' cannot be read.* Delete the files 00002.parquet in all"
    ):
        Store.open(tmp_path / "run", MANIFEST)
    for folder in ("texts", "erasure"):  # as told
        (tmp_path / "run" / folder / "00002.parquet").unlink(missing_ok=True)
    finished(tmp_path / "run")


def test_a_bit_that_has_flipped_is_seen_when_it_is_read(tmp_path):
    finished(tmp_path / "run")
    path = tmp_path / "run" / "erasure" / "00001.parquet"
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"erasure/00001\.parquet' cannot be read"):
        Store.load(tmp_path / "run").table("erasure")


def test_no_directory(tmp_path):
    with pytest.raises(InputError, match="no directory"):
        Store.load(tmp_path / "nowhere")
