"""The column of what people marked: read alike from every form of data, refused where it is none, part of the run."""

import json
import re
from bisect import bisect

import datasets
import pandas as pd
import pytest
import torch
from transformers import AutoTokenizer

import attnfaith as af
from attnfaith.data.source import open_data
from attnfaith.errors import InputError
from attnfaith.storage.fingerprint import fingerprint_rows
from attnfaith.text.annotations import Rationale, align_rationale
from attnfaith.text.encoder import TextEncoder

TEXTS = ["a fine film", "dull and thin", "a superb plot today", "grim"]
COLUMNS = {
    "mask": [[0, 1, 0], [1, 0, 1], None, [0]],
    "spans": [[[2, 6]], [[0, 4], [9, 13]], None, []],
    "words": [[1], [0, 2], None, []],
}


def records(form):
    return [{"text": text, "marks": marks} for text, marks in zip(TEXTS, COLUMNS[form], strict=True)]


def in_form(name, form, folder):
    rows = records(form)
    if name == "csv":
        path = folder / "a.csv"
        cells = [None if row["marks"] is None else json.dumps(row["marks"]) for row in rows]
        pd.DataFrame({"text": TEXTS, "marks": cells}).to_csv(path, index=False)
        return path
    if name == "lines":
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder / "a.jsonl"
    data = datasets.Dataset.from_list(rows)
    if name == "parquet":
        data.to_parquet(folder / "a.parquet")
        return folder / "a.parquet"
    if name == "frame":
        return pd.read_parquet(in_form("parquet", form, folder))  # arrays of arrays
    return {"list": rows, "dataset": data, "stream": data.to_iterable_dataset()}[name]


def rows_of(source):
    return [row for _, rows in source.shards(3) for row in rows]


@pytest.mark.parametrize("form", list(COLUMNS))
@pytest.mark.parametrize("name", ["list", "frame", "dataset", "csv", "lines", "parquet", "stream"])
def test_every_form_of_data_is_read_alike(name, form, tmp_path):
    source = open_data(in_form(name, form, tmp_path), label_column=None, rationale_column="marks")
    for row, given in zip(rows_of(source), COLUMNS[form], strict=True):
        values = None if given is None else tuple(tuple(item) if form == "spans" else item for item in given)
        assert row.rationale == (None if given is None else Rationale(values, form))


def test_a_column_may_be_read_twice():
    """As scores to be judged, and as the marks to judge by."""
    rows = [{"text": text, "marks": [0, 1, 1]} for text in ("a fine film", "thin and dull")]
    source = open_data(rows, label_column=None, rationale_column="marks", score_columns=["marks"])
    assert [row.scores["marks"] for row in rows_of(source)] == [(0.0, 1.0, 1.0)] * 2
    assert [row.rationale.values for row in rows_of(source)] == [(0, 1, 1)] * 2


def test_a_column_that_is_not_there_is_refused_with_names_like_it():
    with pytest.raises(InputError, match=r"no column 'mark' \(rationale_column\). Did you mean 'marks'"):
        open_data(records("mask"), label_column=None, rationale_column="mark")


def test_a_column_of_something_else_is_refused_before_any_work():
    rows = [{"text": text, "marks": marks} for text, marks in zip(TEXTS, [[0, 0], [1, 1], "thin", None], strict=True)]
    with pytest.raises(InputError, match=r"Row 2 .* of the column 'marks' holds 'thin'; expected a list: 0 or 1"):
        open_data(rows, label_column=None, rationale_column="marks")
    rows[2]["marks"] = [3, 5]
    with pytest.raises(InputError, match="mixes forms of rationales: mask in row 0, words in row 2"):
        open_data(rows, label_column=None, rationale_column="marks")


def test_marks_are_part_of_what_a_run_was_made_from():
    def digest(column, values):
        rows = [{"text": text, "marks": marks} for text, marks in zip(TEXTS, values, strict=True)]
        return fingerprint_rows(rows_of(open_data(rows, label_column=None, rationale_column=column)))

    other = [*COLUMNS["mask"][:3], [1]]
    assert digest("marks", COLUMNS["mask"]) == digest("marks", COLUMNS["mask"])
    assert len({digest("marks", COLUMNS["mask"]), digest("marks", other), digest(None, other)}) == 3
    assert digest(None, other) == digest(None, COLUMNS["mask"])


@pytest.fixture(scope="module")
def evaluator():
    tokenizer = af.models.WordTokenizer.train(TEXTS, min_count=1)
    return af.Evaluator(af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer), tokenizer)


def test_a_run_resumes_with_the_same_marks_only(evaluator, tmp_path):
    asked = {"tests": ["rationales"], "rankings": ["attention"], "quiet": True, "output_dir": tmp_path / "run"}
    first = evaluator.compute(records("mask"), rationale_column="marks", **asked)
    again = evaluator.compute(records("mask"), rationale_column="marks", **asked)
    assert again.table("rationales").equals(first.table("rationales"))
    changed = records("mask")
    changed[0]["marks"] = [1, 1, 0]
    with pytest.raises(InputError, match="The data have changed: rows 0 to 3"):
        evaluator.compute(changed, rationale_column="marks", **asked)
    with pytest.raises(InputError, match=r"columns\.rationale is 'marks' there and None here"):
        evaluator.compute(records("mask"), **asked)


@pytest.mark.parametrize("form", list(COLUMNS))
def test_each_form_says_the_same_of_a_run(form, evaluator):
    results = evaluator.compute(
        records(form), rationale_column="marks", tests=["rationales"], rankings=["attention"], quiet=True
    )
    table = results.table("rationales")
    spans = {text: rows.rationale.iloc[0] for text, rows in table.groupby("text_id")}
    assert [[list(span) for span in spans[text]] for text in (0, 1)] == [[[1, 2]], [[0, 1], [2, 3]]]
    assert spans[2] is None
    assert set(table.text_id) == {0, 1, 2}  # the last has one word


def test_a_column_that_no_test_reads_is_refused(evaluator):
    with pytest.raises(InputError, match="Only the test 'rationales' reads rationale_column"):
        evaluator.compute(records("mask"), rationale_column="marks")


def test_a_mask_that_does_not_fit_its_text_is_refused_before_the_run(evaluator, tmp_path):
    rows = [*records("mask")[:2], {"text": TEXTS[2], "marks": [0, 0, 1]}]
    with pytest.raises(InputError, match=r"Row 2 .* a mask of 3 entries for a text of 4 words"):
        evaluator.compute(rows, rationale_column="marks", tests=["rationales"], output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_positions_of_single_characters_are_refused_before_the_run(evaluator, tmp_path):
    """As in the data of SemEval's toxic spans: too large for numbers of words only in the second row."""
    rows = [{"text": "a fine film", "marks": [0, 2]}, {"text": "dull and thin", "marks": [9, 10, 11, 12]}]
    with pytest.raises(InputError, match=r"Row 1 .*single characters.*\[\[9, 13\]\]"):
        evaluator.compute(rows, rationale_column="marks", tests=["rationales"], output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match=r"Row 1 .*single characters"):
        open_data(rows, label_column=None, rationale_column="marks")


def test_the_form_that_the_test_names_is_how_the_column_is_read(evaluator):
    """[0, 1] alone could be a mask of two words, or the first two words of many."""
    rows, asked = [{"text": text, "marks": [0, 1]} for text in TEXTS[:3]], {"rankings": ["attention"], "quiet": True}
    with pytest.raises(InputError, match=r"Row 0 .*\[0, 1\]: this could be a mask or the numbers of words"):
        evaluator.compute(rows, rationale_column="marks", tests=["rationales"], **asked)
    tests = [af.tests.Rationales(form="words")]
    table = evaluator.compute(rows, rationale_column="marks", tests=tests, **asked).table("rationales")
    assert [[span.tolist() for span in spans] for spans in table.rationale] == [[[0, 2]]] * len(table)


def test_the_movies_of_eraser_have_marks_on_31_percent_of_their_words(data_dir):
    """Real marks, of which a share is known beforehand; and the same on the tokens that a model reads."""
    path = data_dir / "eraser_movies-test.parquet"
    rows = rows_of(open_data(path, label_column=None, rationale_column="rationale"))
    assert len(rows) == 199
    assert {row.rationale.form for row in rows} == {"mask"}
    assert all(len(row.rationale.values) == len(row.text.split()) for row in rows)
    shares = [sum(row.rationale.values) / len(row.rationale.values) for row in rows]
    assert sum(shares) / len(shares) == pytest.approx(0.31, abs=0.005)
    texts = TextEncoder(AutoTokenizer.from_pretrained(data_dir / "models" / "minilm-sst2"), torch.nn.Identity(), 4096)
    tokens, shares = [], []
    for row in rows[:20]:
        (encoded,) = texts.encode([row.text])
        marks = align_rationale(row.rationale, encoded)
        assert marks.unread == 0
        starts = [span.start() for span in re.finditer(r"\S+", row.text)]
        there = [bisect(starts, span[0]) - 1 for span in encoded.offsets if span is not None]
        ordinary = [token for token, span in zip(marks.tokens, encoded.offsets, strict=True) if span is not None]
        assert ordinary == [bool(row.rationale.values[word]) for word in there]
        tokens += ordinary
        shares += row.rationale.values
    assert sum(tokens) / len(tokens) == pytest.approx(sum(shares) / len(shares), abs=0.02)


def test_a_mask_of_another_data_set(data_dir):
    rows = rows_of(open_data(data_dir / "sst_wiki-test.parquet", label_column=None, rationale_column="impermissible"))
    assert {row.rationale.form for row in rows} == {"mask"}
    assert all(len(row.rationale.values) == len(row.text.split()) for row in rows)
