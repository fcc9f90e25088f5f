"""The parts of a run, each in a folder of its own, are joined to the run that was never divided; nothing else is."""

import itertools

import pytest

from attnfaith.errors import InputError, StorageError
from attnfaith.storage import manifest as manifests
from attnfaith.storage.parts import join
from attnfaith.storage.run_folder import RunFolder
from attnfaith.storage.run_store import Store
from tests.helpers.stored_runs import COUNTS, MANIFEST, bytes_of, finished, manifest_with, tables_of

SAMPLE = "a" * 64


def part(folder, number, of=3, manifest=MANIFEST, *, sample=SAMPLE, done=True, **entries):
    """One part of the made-up run."""
    entry = {"number": number, "of": of, "data": sample}
    store = Store.open(folder, {"attnfaith": "1", "notes": [], **manifest, "part": entry, **entries})
    for shard in manifests.shards_of(store.manifest) or range(number - 1, 6, of):
        store.write(shard, tables_of(shard), f"rows {shard}")
    if done:
        store.finish(COUNTS)
    return folder


@pytest.fixture
def parts(tmp_path):
    return [part(tmp_path / f"run-{number}", number) for number in (1, 2, 3)]


def test_parts_in_any_order_make_the_bytes_of_the_whole_run(tmp_path, parts):
    finished(tmp_path / "whole", {"attnfaith": "1", "notes": [], **MANIFEST})
    for number, order in enumerate(itertools.permutations(parts)):
        joined = join(order, tmp_path / f"all-{number}")
        joined.finish(COUNTS)
        assert bytes_of(tmp_path / f"all-{number}") == bytes_of(tmp_path / "whole")


def test_joining_goes_on_where_it_was_stopped(tmp_path, parts):
    whole = {"attnfaith": "1", "notes": [], **MANIFEST}
    begun = Store.open(tmp_path / "all", whole)
    begun.write(3, tables_of(3), "rows 3")
    join(parts, tmp_path / "all").finish(COUNTS)
    finished(tmp_path / "whole", whole)
    assert bytes_of(tmp_path / "all") == bytes_of(tmp_path / "whole")
    assert join(parts, tmp_path / "all").complete  # once more


@pytest.mark.parametrize("rows", range(1, 26))
def test_parts_divide_the_rows_and_shards(rows):
    for of in range(1, -(-rows // 4) + 1):
        manifests_ = [
            {"rows": rows, "shard_size": 4, "part": {"number": number, "of": of}} for number in range(1, of + 1)
        ]
        shards = [shard for manifest in manifests_ for shard in manifests.shards_of(manifest)]
        assert sorted(shards) == list(range(-(-rows // 4)))
        for manifest in manifests_:
            counted = sum(min(4, rows - 4 * shard) for shard in manifests.shards_of(manifest))
            assert manifests.rows_of(manifest) == counted


def test_a_part_says_how_many_of_its_shards_are_stored(tmp_path):
    folder = part(tmp_path / "run", 2, done=False)
    (folder / "texts" / "00004.parquet").unlink()
    with pytest.raises(InputError, match="not complete: 1 of 2 shards"):
        Store.load(folder)
    with pytest.raises(StorageError, match=r"\[4\] are missing"):
        Store(RunFolder(folder), manifests.read_manifest(folder)).finish(COUNTS)


def test_a_part_is_continued_as_the_same_part_only(tmp_path):
    folder = part(tmp_path / "run", 2, done=False)
    with pytest.raises(InputError, match=r"part\.number is 2 there and 3 here"):
        part(folder, 3)
    with pytest.raises(InputError, match=r"part is .* there and None here"):
        Store.open(folder, {"attnfaith": "1", "notes": [], **MANIFEST})
    part(folder, 2)
    assert Store.load(folder).shards() == [1, 4]


def test_a_missing_part_is_named(tmp_path, parts):
    with pytest.raises(InputError, match=r"Part 2 of 3 is missing\."):
        join([parts[2], parts[0]], tmp_path / "all")
    with pytest.raises(InputError, match=r"Parts 1, 3 of 3 are missing\."):
        join(parts[1:2], tmp_path / "all")
    one = [part(tmp_path / "one", 5, 40)]
    with pytest.raises(InputError, match=r"Parts 1, 2, 3, 4, 6, 7, 8, 9, 10, 11 and 29 more of 40 are missing\."):
        join(one, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_part_that_is_given_twice_is_named_with_both_folders(tmp_path, parts):
    again = part(tmp_path / "again", 2)
    with pytest.raises(InputError, match=r"Part 2 of 3 is given twice: .*(again|run-2).* and .*(again|run-2)"):
        join([*parts, again], tmp_path / "all")
    with pytest.raises(InputError, match="Part 3 of 3 is given twice"):
        join([*parts, parts[2]], tmp_path / "all")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"manifest": manifest_with(("run", "seed"), 1)}, "seed is 0 in .*run-1.* and 1 in .*run-2"),
        ({"manifest": manifest_with(("run", "model", "fingerprint"), "cd")}, r"model\.fingerprint is 'ab' in"),
        ({"manifest": manifest_with(("rows",), 21)}, "rows is 22 in"),
        ({"manifest": manifest_with(("shard_size",), 5)}, "shard_size is 4 in"),
        ({"attnfaith": "2"}, "attnfaith is '1' in .*run-1.* and '2' in .*run-2"),
        ({"statistics": {"n_resamples": 9}}, "statistics is None in"),
        ({"sample": "b" * 64}, "made from other data"),
    ],
)
def test_a_part_of_another_run_is_refused_with_the_first_difference(tmp_path, changed, said):
    folders = [part(tmp_path / "run-1", 1, 2), part(tmp_path / "run-2", 2, 2, **changed)]
    for given in (folders, folders[::-1]):
        with pytest.raises(InputError, match=said):
            join(given, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_parts_of_two_divisions_are_refused(tmp_path, parts):
    with pytest.raises(InputError, match=r"run-1' is one of 3 parts and .*four' one of 4"):
        join([*parts[:2], part(tmp_path / "four", 3, 4)], tmp_path / "all")


def test_runs_that_are_no_parts_are_refused(tmp_path, parts):
    whole = finished(tmp_path / "whole").directory
    with pytest.raises(InputError, match="whole' is not a part"):
        join([*parts, whole], tmp_path / "all")
    with pytest.raises(InputError, match="There is no directory"):
        join([*parts, tmp_path / "nothing"], tmp_path / "all")
    with pytest.raises(InputError, match="not complete"):
        join([*parts[:2], part(tmp_path / "open", 3, done=False)], tmp_path / "all")


def test_a_damaged_part_is_refused_and_its_file_named(tmp_path, parts):
    file = parts[1] / "erasure" / "00004.parquet"
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)
    with pytest.raises(StorageError, match=r"run-2/erasure/00004\.parquet"):
        join(parts, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_the_output_is_no_part_and_not_inside_one_and_holds_nothing_else(tmp_path, parts):
    before = bytes_of(tmp_path)
    with pytest.raises(InputError, match="is the part"):
        join(parts, parts[0])
    with pytest.raises(InputError, match="is inside the part"):
        join(parts, parts[0] / "sub" / "all")
    with pytest.raises(InputError, match="holds other files"):
        join(parts, tmp_path)
    other = finished(tmp_path / "other", manifest_with(("run", "seed"), 7)).directory
    before |= {f"other/{name}": content for name, content in bytes_of(other).items()}
    with pytest.raises(InputError, match="seed is 7 there and 0 here"):
        join(parts, other)
    assert bytes_of(tmp_path) == before


def test_parts_that_ran_with_other_packages_are_joined_with_a_note(tmp_path):
    folders = [
        part(tmp_path / f"run-{number}", number, versions={"torch": "2", "numpy": str(number)}) for number in (1, 2, 3)
    ]
    notes = join(folders[::-1], tmp_path / "all").manifest["notes"]
    assert notes == ["The parts were run with different versions of numpy: 1, 2, 3."]


@pytest.mark.parametrize(
    "entry",
    [
        None,
        3,
        {"number": 3},
        {"number": 0, "of": 3, "data": SAMPLE},
        {"number": 4, "of": 3, "data": SAMPLE},
        {"number": True, "of": 3, "data": SAMPLE},
        {"number": 1, "of": 3, "data": "x"},
    ],
)
def test_a_manifest_with_an_impossible_part_is_refused(tmp_path, entry):
    (tmp_path / manifests.NAME).write_bytes(manifests.to_bytes({**MANIFEST, "part": entry}))
    with pytest.raises(StorageError, match="part is "):
        Store.load(tmp_path)


def test_a_stream_is_joined_by_what_each_part_found(tmp_path):
    stream = {**MANIFEST, "rows": None}
    folders = [part(tmp_path / f"run-{number}", number, 4, stream) for number in (1, 2, 3, 4)]
    joined = join(folders, tmp_path / "all")
    joined.finish(COUNTS)
    assert Store.load(tmp_path / "all").shards() == list(range(6))


def test_a_part_after_the_end_of_a_stream_is_refused(tmp_path):
    with pytest.raises(InputError, match="The data end before part 7 of 7 begins"):
        part(tmp_path / "run", 7, 7, {**MANIFEST, "rows": None})
