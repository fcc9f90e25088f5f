"""``attnfaith evaluate`` and what cannot be used: one plain message, and an exit code."""

import json
import os
import shutil
from functools import partial

import pytest

from attnfaith.tiny_models import tiny_model
from tests.faults.children import command_line, forked
from tests.helpers import commands
from tests.helpers.commands import FEW, refused, run
from tests.helpers.tokenizers import word_piece


def test_a_column_that_is_not_there(flan, reviews, tmp_path):
    asked = ("evaluate", flan, reviews, "--output", tmp_path / "run")
    refused(run(*asked, "--text-column", "txt"), 2, "no column 'txt' (--text-column)", "Did you mean 'text'?")
    refused(run(*asked, "--label-column", "stars"), 2, "no column 'stars' (--label-column)", "'text', 'label'")
    refused(run(*asked, "--second-text-column", "hypothesis"), 2, "'hypothesis' (--second-text-column)")
    refused(run(*asked, "--explanation", "human=marks"), 2, "no column 'marks' (--explanation)")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", "", ["empty"]),
        ("header.csv", "text,label\n", ["empty"]),
        ("blank.csv", "text,label\n,1\n,0\n", ["'text' holds no text"]),
        ("numbers.csv", "text,label\n1,1\n2,0\n", ["holds numbers only"]),
        ("bad.csv", 'text,label\na fine film,1\na dull, long film,0\nfine,1\n"thin,0\n', ["2 bad rows", "line 3"]),
        (
            "semicolon.csv",
            "text;label\na fine film;1\n",
            ["header looks separated by ';'", "Save it with that separator"],
        ),
        ("latin.csv", "text,label\ncaf\xe9,1\n".encode("latin-1"), ["UTF-8", "line 2"]),
        ("bad.jsonl", '{"text": "a fine film"}\n{"text": \n', ["line 2", "JSON"]),
        ("bad.parquet", "PAR1", ["bad.parquet"]),
        ("labels.csv", "text,label\na fine film,1\na dull film,7\n", ["Row 1", "label", "7", "--label-map"]),
        ("words.csv", "text,label\na fine film,good\na dull film,ghastly\n", ["Row 1", "ghastly", "bad, good"]),
    ],
)
def test_data_that_cannot_be_used(name, content, words, flan, tmp_path):
    data = tmp_path / name
    data.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(run("evaluate", flan, data, "--output", tmp_path / "run"), 2, *words)
    assert not (tmp_path / "run").exists()


def test_data_and_models_that_are_not_there(flan, reviews, tmp_path):
    output = ("--output", tmp_path / "run")
    refused(run("evaluate", flan, reviews.replace("reviews", "reviw"), *output), 2, "Did you mean", "reviews.csv")
    refused(run("evaluate", flan.parent / "flam", reviews, *output), 2, "no folder", "Did you mean 'flan'?")
    refused(run("evaluate", reviews, reviews, *output), 2, "is a file")
    refused(run("evaluate", tmp_path, reviews, *output), 2, str(tmp_path))
    refused(run("evaluate", "nobody/has-this-model", reviews, *output), 2, "nobody/has-this-model")


def test_a_folder_with_a_tokenizer_missing(bert, reviews, tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "bert").mkdir(exist_ok=True)
        shutil.copy(bert / name, tmp_path / "bert" / name)
    refused(run("evaluate", tmp_path / "bert", reviews, "--output", tmp_path / "run"), 2, "has no words", "tokenizer")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--rankings", "atention"], ["Did you mean 'attention'"]),
        (["--rankings", ","], ["--rankings is empty"]),
        (["--tests", "erasur"], ["no test 'erasur'", "Did you mean 'erasure'?"]),
        (["--tests", ","], ["--tests is empty"]),
        (["--tests", "erasure,erasure"], ["twice"]),
        (["--level", "imput"], ["Did you mean 'input'?"]),
        (["--hide", "mask"], ["mask_token"]),
        (["--explain", "logits"], ["Did you mean 'logit'"]),
        (["--decision", "binary"], ["multiclass"]),
        (["--special-tokens", "no"], ["include, protect"]),
        (["--target", "great"], ["target", "bad", "good"]),
        (["--target", "2"], ["target"]),
        (["--option", "erasure.bonds=true"], ["no option 'erasure.bonds'", "Did you mean 'bounds'?"]),
        (["--option", "erasure.bounds=maybe"], ["true or false", "maybe"]),
        (["--option", "erasure.reference=book"], ["book"]),
        (["--option", "bounds"], ["name=value"]),
        (
            ["--tests", "rationales", "--option", "rationales.shares=a"],
            ["one or more with commas, each a number", "'a'"],
        ),
        (["--tests", "erasure", "--option", "single_weight.reference=paper"], ["not run"]),
        (["--explanation", "human"], ["--explanation", "name=value"]),
        (["--explanation", "human=label"], ["Row 0", "'label'", "a list of numbers"]),
        (["--label-map", "fine=2"], ["fine", "class"]),
        (["--confidence", "95"], ["--confidence to be between 0 and 1; got 95"]),
        (["--resamples", "0"], ["--resamples"]),
        (["--steps", "0"], ["--steps"]),
        (["--batch-size", "-1"], ["--batch-size"]),
        (["--max-length", "0"], ["--max-length"]),
        (["--seed", "x"], ["--seed"]),
        (["--device", "abacus"], ["abacus"]),
        (["--split", "test"], ["split"]),
        (["--subset", "en"], ["subset"]),
        (["--sed", "1"], ["No such option"]),
    ],
)
def test_arguments_that_cannot_be_used(asked, words, flan, reviews, tmp_path):
    result = run("evaluate", flan, reviews, "--output", tmp_path / "run", *asked)
    refused(result, 2, *words)
    assert not (tmp_path / "run").exists()


def test_without_arguments(flan):
    refused(run("evaluate"), 2, "Missing argument 'MODEL'")
    refused(run("evaluate", flan), 2, "Missing argument 'DATA'")


def test_a_foreign_folder_and_a_corrupt_one(flan, reviews, finished, tmp_path):
    asked = ("evaluate", flan, reviews, *FEW, "--output")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    refused(run(*asked, tmp_path / "mine"), 2, "thesis.tex", "--output")
    assert commands.files(tmp_path / "mine") == {"thesis.tex": b""}

    shutil.copytree(finished, tmp_path / "manifest")
    (tmp_path / "manifest" / "manifest.json").write_text("{")
    refused(run(*asked, tmp_path / "manifest"), 3, "manifest.json", "is damaged", "Delete this file", "--output")

    shutil.copytree(finished, tmp_path / "shard")
    (tmp_path / "shard" / "erasure" / "00000.parquet").write_bytes(b"PAR1")
    refused(run(*asked, tmp_path / "shard"), 3, "00000.parquet", "Delete this file", "makes it again")
    (tmp_path / "shard" / "erasure" / "00000.parquet").unlink()
    assert run(*asked, tmp_path / "shard").exit_code == 0
    assert commands.files(tmp_path / "shard") == commands.files(finished)


def test_another_run_in_the_same_folder(flan, reviews, finished, tmp_path):
    before, asked = commands.files(finished), ("--output", finished, *FEW)
    refused(run("evaluate", flan, reviews, *asked, "--seed", "1"), 2, "seed is 0 there and 1 here")
    other = commands.save_flan(tmp_path / "other", seed=1)
    refused(run("evaluate", other, reviews, *asked), 2, "model is", "there and", "Give another --output")
    fewer = commands.reviews(tmp_path / "fewer.csv", 19)
    refused(run("evaluate", flan, fewer, *asked), 2, "rows is 20 there and 19 here")
    same_size = commands.reviews(tmp_path / "others.csv", 20, seed=1)
    refused(run("evaluate", flan, same_size, *asked), 2, "The data have changed", "rows 0 to 19")
    refused(run("evaluate", flan, reviews, *asked, "--tests", "erasure"), 2, "tests.single_weight is")
    assert commands.files(finished) == before


def test_output_that_is_a_file_or_cannot_be(flan, reviews, tmp_path):
    (tmp_path / "file").write_text("mine")
    asked = ("evaluate", flan, reviews, "--output")
    refused(run(*asked, tmp_path / "file"), 2, "is a file", "--output")
    refused(run(*asked, tmp_path / "file" / "below"), 3, "is a file, so there can be no folder")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is permitted to root")
def test_no_permission(flan, reviews, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    refused(run("evaluate", flan, reviews, "--output", tmp_path / "closed" / "run"), 3, "Permission denied")


def test_a_model_that_cannot_be_cut(tmp_path, reviews):
    tiny_model("fnet").save_pretrained(tmp_path / "fnet")
    word_piece().save_pretrained(tmp_path / "fnet")
    refused(run("evaluate", tmp_path / "fnet", reviews, "--output", tmp_path / "run"), 1, "attention")


def test_json_or_not_an_error_is_on_standard_error(flan, reviews, tmp_path):
    refused(run("evaluate", flan, reviews, "--text-column", "txt", "--json", "--output", tmp_path / "run"), 2, "'txt'")


@pytest.mark.slow
def test_a_full_disk(flan, tmp_path):
    rows = [{"text": text, "label": 0} for text in commands.texts(20)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = ("evaluate", flan, tmp_path / "data.jsonl", "--output", tmp_path / "run", *FEW)
    full = forked(partial(command_line, file_size=6000), *asked)
    refused(full, 3, "File too large")
    if (tmp_path / "run").exists():
        assert not list((tmp_path / "run").rglob(".*"))  # nothing half written
    later = run(*asked)
    assert later.exit_code == 0, later.stderr
    asked = ("evaluate", flan, tmp_path / "data.jsonl", "--output", tmp_path / "undisturbed", *FEW)
    assert run(*asked).exit_code == 0
    assert commands.files(tmp_path / "run") == commands.files(tmp_path / "undisturbed")
