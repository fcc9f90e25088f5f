"""Parts of the data that are evaluated by themselves make, joined, the bytes of one evaluation of all of them."""

import datasets
import pytest

import attnfaith as af
from tests.helpers import commands, small_runs

PARTS = 3


@pytest.fixture(scope="module")
def evaluator():
    made, _ = small_runs.evaluator_of("multiclass")
    made.shard_size = 16
    return made


@pytest.fixture(scope="module")
def rows():
    """Five shards, the last of them not full; one text is empty, and one is missing."""
    rows = [
        {"text": text, "label": number % 3, "marks": [int(word == "fine") for word in text.split()]}
        for number, text in enumerate(commands.texts(70))
    ]
    empty, missing = {"text": "", "label": 0, "marks": []}, {"text": None, "label": 1, "marks": None}
    return [*rows[:20], empty, *rows[20:40], missing, *rows[40:]]


def evaluated(evaluator, rows, folder, **options):
    options = {"rationale_column": "marks", **options}
    return small_runs.computed(evaluator, rows, output_dir=folder, **options)


@pytest.fixture(scope="module")
def whole(evaluator, rows, tmp_path_factory):
    return evaluated(evaluator, rows, tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def parts(evaluator, rows, tmp_path_factory):
    folders = [tmp_path_factory.mktemp("parts") / f"run-{number}" for number in range(1, PARTS + 1)]
    for number, folder in enumerate(folders, 1):
        evaluated(evaluator, rows, folder, part=(number, PARTS))
    return folders


def test_the_parts_of_every_test_make_the_bytes_of_one_run(whole, parts, tmp_path):
    merged = af.merge([parts[2], parts[0], parts[1]], tmp_path / "all", quiet=True)
    assert commands.files(tmp_path / "all") == commands.files(whole.path)
    assert str(merged) == str(whole)
    assert merged.part is None
    assert commands.files(af.merge(parts, tmp_path / "all").path) == commands.files(whole.path)  # once more


def test_a_part_opens_and_says_which_it_is(whole, parts):
    seen = []
    for number, folder in enumerate(parts, 1):
        results = af.load_results(folder)
        assert results.part == (number, PARTS)
        assert f"part {number} of {PARTS}" in repr(results)
        assert f"These results are part {number} of {PARTS} of the data" in str(results)
        assert results.manifest["counts"]["rows"] == len(results.table("texts"))
        seen += results.table("texts")["text_id"].tolist()
    assert sorted(seen) == list(range(len(whole.table("texts"))))
    assert "These results are part" not in str(whole)


def test_an_interrupted_part_goes_on_and_ends_with_the_same_bytes(evaluator, rows, parts, tmp_path):
    folder, stops = tmp_path / "run", True
    rows = [{"text": row["text"]} for row in rows]
    rows[65]["text"] = "but but but"  # in the second shard of part 2

    def explanation(text):
        if stops and set(text.tokens) == {"but"}:
            raise KeyboardInterrupt
        return list(range(len(text.tokens)))

    options = {
        "explanations": {"mine": explanation},
        "rankings": ["attention"],
        "tests": ["erasure"],
        "part": (2, PARTS),
    }
    options |= {"n_resamples": 9, "quiet": True, "label_column": None}
    with pytest.raises(KeyboardInterrupt):
        evaluator.compute(rows, output_dir=folder, **options)
    assert [file.name for file in (folder / "texts").iterdir()] == ["00001.parquet"]
    with pytest.raises(af.InputError, match="not complete: 1 of 2 shards"):
        af.merge([folder], tmp_path / "all")
    stops = False
    evaluator.compute(rows, output_dir=folder, **options)
    evaluator.compute(rows, output_dir=tmp_path / "calm", **options)
    assert commands.files(folder) == commands.files(tmp_path / "calm")


def test_a_stream_in_parts(evaluator, rows, tmp_path):
    stream = datasets.Dataset.from_list([{"text": row["text"] or "fine"} for row in rows]).to_iterable_dataset()
    options = {"rankings": ["attention"], "n_resamples": 9, "quiet": True, "label_column": None}
    whole = evaluator.compute(stream, output_dir=tmp_path / "whole", **options)
    for number in (1, 2):
        evaluator.compute(stream, output_dir=tmp_path / f"run-{number}", part=(number, 2), **options)
    af.merge([tmp_path / "run-2", tmp_path / "run-1"], tmp_path / "all")
    assert commands.files(tmp_path / "all") == commands.files(whole.path)


def test_parts_of_data_that_changed_are_refused(evaluator, rows, parts, tmp_path):
    """Of as many rows: only a sample of the texts tells."""
    changed = [*rows[:-1], {**rows[-1], "text": rows[-1]["text"] + "s"}]
    evaluated(evaluator, changed, tmp_path / "run-1", part=(1, PARTS))
    with pytest.raises(af.InputError, match="made from other data"):
        af.merge([tmp_path / "run-1", *parts[1:]], tmp_path / "all")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ((0, 16), "Expected part to be between 1/16 and 16/16, got 0/16"),
        ((17, 16), "between 1/16 and 16/16, got 17/16"),
        ((-1, 2), "got -1/2"),
        ((1, 0), "Expected the number of parts to be a whole number of at least 1"),
        (3, r"a number and of how many, such as \(3, 16\), got 3"),
        ("3/16", "such as"),
        ((1.0, 2), "Expected part to be a whole number"),
        ((True, 2), "Expected part to be a whole number"),
        ((1, 2, 3), "such as"),
        ((1, 6), "cannot be divided into 6 parts: .* at most 5 parts"),
    ],
)
def test_a_part_that_cannot_be_is_refused_and_nothing_is_written(evaluator, rows, tmp_path, part, said):
    with pytest.raises(af.InputError, match=said):
        evaluator.compute(rows, output_dir=tmp_path / "run", part=part, quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("folders", [[], "run-1", None, 5, [3]])
def test_what_is_no_list_of_folders_is_refused(folders, tmp_path):
    with pytest.raises(af.InputError, match="Expected folders to be"):
        af.merge(folders, tmp_path / "all")
