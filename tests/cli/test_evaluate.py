"""``attnfaith evaluate``: what it prints and keeps."""

import json
import math
import re
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import attnfaith as af
from attnfaith.cli.app import app
from tests.helpers import commands
from tests.helpers.commands import FEW, error_text, run, strictly

VERDICT = "Attention as an explanation: "


def test_it_prints_the_verdict_and_where_the_results_are(flan, reviews, tmp_path):
    result = run("evaluate", flan, reviews, "--output", tmp_path / "run", *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(VERDICT)
    assert str(tmp_path / "run") in result.stdout.splitlines()[-1]
    results = af.load_results(tmp_path / "run")
    assert str(results) in result.stdout
    assert len(results.table("texts")) == 20
    assert results.table("texts")["correct"].notna().all()
    assert results.manifest["statistics"] == {"n_resamples": 20, "confidence_level": 0.95}


def test_a_terminal_shows_the_same_as_wide_as_it_is(flan, reviews, tmp_path, monkeypatch):
    command = ["evaluate", str(flan), str(reviews), "--output", str(tmp_path / "run"), *FEW]
    plain = run(*command).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    coloured = CliRunner().invoke(app, command, env={"COLUMNS": "100"}).stdout
    shown = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert max(map(len, shown.splitlines()[:-1])) <= 100 < max(map(len, plain.splitlines()[:-1]))
    verdict = af.load_results(tmp_path / "run").verdict
    words = " ".join(shown.split())
    assert all(sentence in words for sentence in verdict.sentences)
    assert all(row[0] in shown for row in verdict.rankings.rows)


def test_the_same_command_again_changes_nothing_and_says_the_same(flan, reviews, tmp_path):
    first = run("evaluate", flan, reviews, "--output", tmp_path / "run", *FEW)
    before = commands.files(tmp_path / "run")
    again = run("evaluate", flan, reviews, "--output", tmp_path / "run", *FEW)
    assert again.exit_code == 0
    assert again.stdout == first.stdout
    assert commands.files(tmp_path / "run") == before


def test_without_an_output_results_are_kept_beside(flan, reviews, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("evaluate", flan, reviews, *FEW)
    assert result.exit_code == 0
    assert len(af.load_results("attnfaith-run").table("texts")) == 20
    commands.refused(
        run("evaluate", flan, reviews, *FEW, "--seed", "1"), 2, "attnfaith-run", "seed is 0 there and 1 here"
    )


def test_json_is_one_object_and_nothing_else(flan, reviews, tmp_path):
    result = run("evaluate", flan, reviews, "--output", tmp_path / "run", "--json", *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    outcome = strictly(result.stdout)
    results = af.load_results(tmp_path / "run")
    assert outcome["label"] == results.verdict.label
    assert tuple(outcome["verdict"]) == results.verdict.sentences
    assert outcome["counts"] == results.manifest["counts"]
    assert outcome["path"] == str((tmp_path / "run").resolve())
    summary = results.summary()
    assert len(outcome["summary"]) == len(summary)
    for row, line in zip(outcome["summary"], summary.to_dict("records"), strict=True):
        assert row.keys() == line.keys()
        for name in ("value", "low", "high"):
            assert (row[name] is None) == math.isnan(line[name])
            assert row[name] is None or float(row[name]) == pytest.approx(line[name])
    assert any(row["low"] is None for row in outcome["summary"])


@pytest.mark.parametrize("column", ["--text-column", "--input-column"])
def test_columns_and_labels_of_other_names(column, flan, tmp_path):
    rows = [(text, "yes" if "fine" in text else "no=way") for text in commands.texts(6)]
    data = commands.write_csv(tmp_path / "data.csv", rows, ("review", "stars"))
    names = (column, "review", "--label-column", "stars", "--label-map", "good=yes", "--label-map", "bad=no=way")
    result = run("evaluate", flan, data, "--output", tmp_path / "run", *names, *FEW)
    assert result.exit_code == 0, result.stderr
    table = af.load_results(tmp_path / "run").table("texts")
    assert table["gold"].tolist() == [int(label == "yes") for _, label in rows]


def test_labels_are_optional_and_a_note_says_so(flan, tmp_path):
    data = commands.write_csv(tmp_path / "data.csv", [(text,) for text in commands.texts(6)], ("text",))
    result = run("evaluate", flan, data, "--output", tmp_path / "run", *FEW)
    assert result.exit_code == 0, result.stderr
    assert "no column 'label'" in result.stdout


def test_rankings_tests_and_options_are_those_given(flan, tmp_path):
    rows = [(text, [float(number) for number in range(len(text.split()))]) for text in commands.texts(6)]
    pd.DataFrame(rows, columns=["text", "mine"]).to_parquet(tmp_path / "data.parquet")
    asked = ("--rankings", "attention, gradient", "--explanation", "human=mine", "--tests", "erasure,single_weight")
    asked += (
        "--option",
        "single_weight.reference=released-code",
        "--option",
        "erasure.bounds=true",
        "--target",
        "good",
    )
    asked += ("--explain", "logit", "--steps", "3", "--confidence", "0.9", "--batch-size", "2", "--max-length", "5")
    asked += ("--target", "good")
    result = run("evaluate", flan, tmp_path / "data.parquet", "--output", tmp_path / "run", *asked, *FEW)
    assert result.exit_code == 0, result.stderr
    results = af.load_results(tmp_path / "run")
    assert set(results.table("erasure")["ranking"]) >= {"attention", "gradient", "human", "random"}
    assert "occlusion" not in set(results.table("erasure")["ranking"])
    assert results.tests["single_weight"] == {"reference": "released-code"}
    assert results.tests["erasure"]["bounds"] is True
    made_with = results.manifest["run"]
    assert (made_with["target"], made_with["output"], made_with["steps"]) == (1, "logit", 3)
    assert results.manifest["statistics"]["confidence_level"] == 0.9
    table = results.table("texts")
    assert table["tokens"].max() == 5
    assert results.manifest["counts"]["truncated"] == (table["truncated"] > 0).sum() > 0


def test_bounds_has_a_short_name(flan, reviews, tmp_path):
    asked = ("--tests", "erasure", "--bounds", "--rankings", "attention", "--special-tokens", "protect")
    result = run("evaluate", flan, reviews, "--output", tmp_path / "run", *asked, *FEW)
    assert result.exit_code == 0, result.stderr
    results = af.load_results(tmp_path / "run")
    assert list(results.tests) == ["erasure"]
    assert results.tests["erasure"]["bounds"] is True
    assert results.manifest["run"]["special_tokens"] == "protect"


def test_a_transformer_is_erased_at_both_levels_or_at_the_one_given(bert, tmp_path):
    data = commands.write_csv(tmp_path / "data.csv", [(text,) for text in commands.texts(4)], ("text",))
    asked = ("--rankings", "attention,gradient", *FEW)
    both = run("evaluate", bert, data, "--output", tmp_path / "both", *asked)
    assert both.exit_code == 0, both.stderr
    table = af.load_results(tmp_path / "both").table("erasure")
    assert set(table["erase_level"]) == {"attention", "input"}
    asked += ("--level", "input", "--hide", "pad", "--protect-deciding")
    item = run("evaluate", bert, data, "--output", tmp_path / "one", *asked)
    assert item.exit_code == 0, item.stderr
    results = af.load_results(tmp_path / "one")
    assert set(results.table("erasure")["erase_level"]) == {"input"}
    assert (results.manifest["run"]["hide"], results.manifest["run"]["protect_deciding"]) == ("pad", True)


def test_pairs_of_texts(bert, tmp_path):
    rows = [(first, other) for first, other in zip(commands.texts(4), commands.texts(4, seed=1), strict=True)]
    data = commands.write_csv(tmp_path / "data.csv", rows, ("premise", "hypothesis"))
    asked = ("--text-column", "premise", "--second-text-column", "hypothesis", "--level", "attention")
    result = run("evaluate", bert, data, "--output", tmp_path / "run", "--rankings", "attention", *asked, *FEW)
    assert result.exit_code == 0, result.stderr
    tokens = af.load_results(tmp_path / "run").table("texts")["tokens"]
    assert (tokens > [len(first.split()) + len(other.split()) + 2 for first, other in rows]).all()


@pytest.mark.filterwarnings("ignore:The scores of .* are inexact")  # few steps
def test_the_default_says_in_one_line_what_it_leaves_out_and_how_to_add_it(bert, reviews, tmp_path):
    asked = ("--output", tmp_path / "run", "--steps", "2", *FEW)
    shown = run("evaluate", bert, reviews, *asked)
    assert shown.exit_code == 0, shown.stderr
    (line,) = (line for line in shown.stdout.splitlines() if "Left out" in line)
    assert line.endswith("attention/integrated_gradients and attention/occlusion. Add them with --rankings all.")
    every = run("evaluate", bert, reviews, "--rankings", "all", *asked)
    assert every.exit_code == 2
    assert "rankings" in every.stderr
    more = ("--rankings", "default,omission", "--level", "input", "--output", tmp_path / "more")
    added = run("evaluate", bert, reviews, *more, *asked[2:])
    assert "Left out at the input level" in added.stdout
    assert "input/omission" not in next(line for line in added.stdout.splitlines() if "Left out" in line)


def test_only_the_first_of_several_processes_prints(flan, reviews, tmp_path, monkeypatch):
    from attnfaith.evaluation.evaluator import Evaluator

    class Second(Evaluator):
        def compute(self, *arguments, **named):
            results = super().compute(*arguments, **named)
            self.processes.index = 1
            return results

    monkeypatch.setattr("attnfaith.evaluation.evaluator.Evaluator", Second)
    result = run("evaluate", flan, reviews, "--output", tmp_path / "run", *FEW)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_all_texts_of_one_token(flan, tmp_path):
    data = commands.write_csv(tmp_path / "data.csv", [("fine", 1), ("dull", 0), ("plot", 1)])
    result = run("evaluate", flan, data, "--output", tmp_path / "run", *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{VERDICT}undecided.")
    results = af.load_results(tmp_path / "run")
    assert results.table("erasure").empty
    assert results.table("single_weight").empty
    assert set(results.summary().query("figure == 'too_short'")["value"]) == {3}


@pytest.mark.slow
def test_a_text_of_100_000_words_is_cut_off_and_counted(flan, bert, tmp_path):
    long = " ".join(commands.texts(1, longest=3)[0].split() * 40_000)[: 6 * 100_000]
    assert len(long.split()) > 99_000
    data = commands.write_csv(tmp_path / "data.csv", [(long, 0), ("a fine film", 1)])
    for model, read in ((flan, 4096), (bert, None)):
        result = run("evaluate", model, data, "--output", tmp_path / model.name, *FEW)
        assert result.exit_code == 0, result.stderr
        assert "cut off" in result.stdout
        results = af.load_results(tmp_path / model.name)
        assert results.manifest["counts"]["truncated"] == 1
        row = results.table("texts").iloc[0]
        assert row.tokens == read or read is None
        assert row.tokens + row.truncated >= 99_000


def test_what_is_no_number_is_set_aside_and_the_others_go_on(tmp_path):
    model = commands.break_word(commands.save_flan(tmp_path / "flan"))
    rows = [(text, 0) for text in commands.texts(8)]
    rows[3] = (f"a {commands.BOOM} film", 0)
    data = commands.write_csv(tmp_path / "data.csv", rows)
    result = run("evaluate", model, data, "--output", tmp_path / "run", *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    results = af.load_results(tmp_path / "run")
    table = results.table("texts").set_index("text_id")
    assert "finite" in table.loc[3, "aside"]
    assert table.drop(3)["aside"].isna().all()
    assert sorted(set(results.table("erasure")["text_id"])) == [0, 1, 2, 4, 5, 6, 7]
    assert list(results.manifest["counts"]["aside"].values()) == [1]
    assert "One text was set aside: the model's logits are NaN or infinite." in result.stdout
    only = commands.write_csv(tmp_path / "only.csv", [(f"a {commands.BOOM} film", 0)])
    commands.refused(run("evaluate", model, only, "--output", tmp_path / "none"), 2, "finite")


def test_empty_cells_are_set_aside(flan, tmp_path):
    data = commands.write_csv(tmp_path / "data.csv", [("a fine film", 1), ("", 0), ("  ", 0), ("a dull film", 0)])
    result = run("evaluate", flan, data, "--output", tmp_path / "run", *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    table = af.load_results(tmp_path / "run").table("texts")
    assert table["aside"].isna().tolist() == [True, False, False, True]


ONE_AFTER_ANOTHER = """
import json, os, sys
from attnfaith.cli.app import app
for arguments in json.loads(sys.argv[1]):
    app(arguments, prog_name="attnfaith", standalone_mode=False)
    print("NEXT" if os.environ["RANK"] == "0" else "", end="", flush=True)
"""


@pytest.fixture(scope="module")
def by_two(bert, flan, tmp_path_factory):
    """Commands, what each printed by two processes, and the folder of its run; one launch for all of them."""
    folder = tmp_path_factory.mktemp("by-two")
    few, many = (commands.reviews(folder / f"{count}.csv", count) for count in (280, 1500))
    asked = {
        "all": ["evaluate", bert, few, "--rankings", "attention,gradient", "--no-labels", *FEW],
        "some": ["evaluate", flan, many, "--rankings", "attention", "--precision", "10", "--resamples", "200"],
    }
    program = folder / "program.py"
    program.write_text(ONE_AFTER_ANOTHER)
    given = json.dumps([[*map(str, arguments), "--output", str(folder / name)] for name, arguments in asked.items()])
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, program, given], capture_output=True, text=True, timeout=600, env=commands.environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    printed = dict(zip(asked, done.stdout.split("NEXT"), strict=False))
    return {name: (arguments, printed[name], folder / name) for name, arguments in asked.items()}


@pytest.mark.examples
def test_two_processes_write_what_one_writes(by_two, tmp_path):
    asked, printed, folder = by_two["all"]
    first = run(*asked, "--output", tmp_path / "one")
    assert first.exit_code == 0, first.stderr
    assert printed.count(VERDICT) == 1
    assert printed.splitlines()[:-2] == first.stdout.splitlines()[:-2]
    files = [
        {str(path.relative_to(run_folder)): path.read_bytes() for path in run_folder.rglob("*") if path.is_file()}
        for run_folder in (tmp_path / "one", folder)
    ]
    assert files[0].keys() == files[1].keys()
    assert [name for name in files[0] if files[0][name] != files[1][name]] == []


@pytest.mark.examples
def test_two_processes_stop_where_one_stops(by_two, tmp_path):
    """Whether to go on is decided for both; the files are the same bytes."""
    asked, _, folder = by_two["some"]
    first = run(*asked, "--output", tmp_path / "one")
    assert first.exit_code == 0, first.stderr
    sample = af.load_results(tmp_path / "one").manifest["sample"]
    assert sample["reached"]
    assert 192 <= sample["texts"] < 1500
    assert f"{sample['texts']:,} of the 1,500 texts were read" in first.stdout
    assert commands.files(folder) == commands.files(tmp_path / "one")


@pytest.mark.parametrize("points", ["0", "50", "-5", "nan", "0.05"])
def test_a_precision_in_points_that_is_none_is_refused(flan, reviews, tmp_path, points):
    result = run("evaluate", flan, reviews, "--output", tmp_path / "run", f"--precision={points}", *FEW)
    commands.refused(result, 2, "--precision to be at least 0.1 and below 50 points", f"got {points}")
    assert not (tmp_path / "run").exists()


def test_a_sample_is_said_in_words_and_in_json(flan, reviews, tmp_path):
    asked = ["evaluate", flan, reviews, "--output", tmp_path / "run", "--max-texts", "15", "--precision", "5", *FEW]
    assert "15 of the 20 texts were read, drawn at random: too few" in run(*asked).stdout
    sample = strictly(run(*asked, "--json").stdout)["sample"]
    assert sample == {"precision": 0.05, "max_texts": 15, "texts": 15, "reached": False}
    went_on = run("evaluate", flan, reviews, "--output", tmp_path / "run", *FEW)
    assert "were read" not in went_on.stdout
    assert len(af.load_results(tmp_path / "run").table()) == 20
    result = run("evaluate", flan, reviews, "--output", tmp_path / "run", "--max-texts", "0", *FEW)
    commands.refused(result, 2, "--max-texts to be a whole number of at least 1")


@pytest.mark.slow
def test_only_results_are_shown(flan, reviews, tmp_path):
    """In a process of its own: other libraries' bars and advice too."""
    done = commands.spawn("evaluate", flan, reviews, "--output", tmp_path / "run", "--json", "--quiet", *FEW)
    assert (done.returncode, done.stderr) == (0, ""), error_text(done)
    assert strictly(done.stdout)["counts"]["texts"] == 20


def test_all_may_be_listed_with_others(flan, reviews, tmp_path):
    from attnfaith.cli.test_options import parsed_tests

    assert [item.name for item in parsed_tests("all,erasure")] == [item.name for item in parsed_tests("all")]
    made_all = run("evaluate", flan, reviews, "--rankings", "all,attention", "--output", tmp_path, *commands.FEW)
    assert made_all.exit_code == 0, made_all.stderr
