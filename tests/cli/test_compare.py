"""``attnfaith compare``."""

import shutil

import pytest
from typer.testing import CliRunner

import attnfaith as af
from attnfaith.cli.app import app
from attnfaith.evaluation.comparison import compare, sentences
from tests.helpers import commands
from tests.helpers.commands import FEW, refused, run, strictly


@pytest.fixture(scope="module")
def other(reviews, tmp_path_factory):
    """A run of another model over the same data."""
    folder = tmp_path_factory.mktemp("other")
    model = commands.save_flan(folder / "flan", seed=5)
    result = run("evaluate", model, reviews, "--output", folder / "other", "--seed", "1", *FEW)
    assert result.exit_code == 0, result.stderr
    return folder / "other"


def tables(folder):
    results = af.load_results(folder)
    return {name: results.table(name) for name in ("texts", *results.tests)}


def test_runs_over_the_same_data_are_paired(finished, other):
    result = run("compare", finished, other, *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert "  seed: 0 in done, 1 in other" in lines
    assert any(line.startswith("  model: ") for line in lines)
    assert "Both runs read the same data, so they are compared text by text." in lines
    results = compare(tables(finished), tables(other), paired=True, n_resamples=20)
    assert set(sentences(results, ("done", "other"))) <= set(lines)
    assert any(line.split()[:3] == ["attention", "attention", "share"] for line in lines)


def test_json(finished, other):
    result = run("compare", finished, other, "--json", *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    results = strictly(result.stdout)
    expected = compare(tables(finished), tables(other), paired=True, n_resamples=20)
    assert results["paired"] is True
    assert len(results["figures"]) == len(expected)
    row, line = results["figures"][0], expected.iloc[0]
    assert (row["figure"], row["a"], row["b"]) == (line.figure, pytest.approx(line.a), pytest.approx(line.b))
    assert results["runs"] == {"a": str(finished), "b": str(other)}
    assert {"setting": "seed", "a": 0, "b": 1} in results["settings"]


def test_a_run_with_itself(finished):
    result = run("compare", finished, finished, "--json", *FEW)
    results = strictly(result.stdout)
    assert results["settings"] == []
    assert {row["difference"] for row in results["figures"]} <= {0.0, None}
    assert "Both runs were made with the same model and settings." in run("compare", finished, finished, *FEW).stdout


def test_runs_over_other_data_are_two_samples(flan, finished, tmp_path):
    data = commands.reviews(tmp_path / "data.csv", 25, seed=2)
    assert run("evaluate", flan, data, "--output", tmp_path / "run", *FEW).exit_code == 0
    result = run("compare", finished, tmp_path / "run", *FEW)
    assert result.exit_code == 0, result.stderr
    assert "compared as two samples" in result.stdout
    results = strictly(run("compare", finished, tmp_path / "run", "--json", *FEW).stdout)
    assert results["paired"] is False
    accuracy = results["figures"][0]
    assert (accuracy["texts_a"], accuracy["texts_b"]) == (20, 25)


def test_pairing_can_be_chosen_and_refused(finished, other):
    assert strictly(run("compare", finished, other, "--unpaired", "--json", *FEW).stdout)["paired"] is False
    assert strictly(run("compare", finished, other, "--paired", "--json", *FEW).stdout)["paired"] is True


def test_on_a_terminal_it_is_a_table(finished, other):
    environment = {"FORCE_COLOR": "1", "COLUMNS": "110"}
    result = CliRunner().invoke(app, ["compare", str(finished), str(other), *FEW], env=environment)
    assert result.exit_code == 0
    assert "─" in result.stdout


def test_what_is_no_finished_run(finished, tmp_path):
    refused(run("compare", finished, tmp_path / "nothing"), 2, "no directory")
    refused(run("compare", tmp_path, finished), 2, "no run of attnfaith")
    refused(run("compare", finished), 2, "Missing argument 'RUN_B'")
    refused(run("compare", finished, finished, "--confidence", "95"), 2, "--confidence")
    refused(run("compare", finished, finished, "--resamples", "0"), 2, "--resamples")
    shutil.copytree(finished, tmp_path / "cut")
    (tmp_path / "cut" / "texts" / "00000.parquet").unlink()
    refused(run("compare", finished, tmp_path / "cut"), 2, "not complete")
    shutil.copytree(finished, tmp_path / "torn")
    (tmp_path / "torn" / "erasure" / "00000.parquet").write_bytes(b"PAR1")
    refused(run("compare", finished, tmp_path / "torn"), 3, "00000.parquet", "cannot be read")


def test_the_other_tests_are_in_the_table_too(reviews, flan, tmp_path):
    asked = ("--tests", "agreement,permutation,adversarial,rationales,sanity", "--option", "adversarial.steps=2", *FEW)
    for number in (0, 1):
        result = run("evaluate", flan, reviews, "--output", tmp_path / str(number), "--seed", number, *asked)
        assert result.exit_code == 0, result.stderr
    lines = run("compare", tmp_path / "0", tmp_path / "1", *FEW).stdout.splitlines()
    for told in (
        "tau with leave-one-out",
        "no shuffle changes the decision",
        "an adversary reaches",
        "without the top",
    ):
        assert any(told in line for line in lines), told
    assert any("attention (attention level)" in line and "all layers re-initialised" in line for line in lines)
    assert not any("-0.000" in line for line in lines)
