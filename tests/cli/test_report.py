"""``attnfaith report``, and ``--report`` of evaluate and compare."""

import shutil

import pytest

import attnfaith as af
from attnfaith.evaluation.evaluator import Evaluator
from tests.helpers.commands import FEW, refused, run
from tests.helpers.reading_pages import Page


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def test_into_the_folder_of_the_run(copy):
    result = run("report", copy)
    assert (result.exit_code, result.stderr) == (0, "")
    headline = af.load_results(copy).verdict.headline
    assert result.stdout.startswith(headline)
    assert str(copy / "report.html") in result.stdout
    assert headline in Page((copy / "report.html").read_text(encoding="utf-8")).text
    assert run("report", copy).exit_code == 0  # replaces it


def test_elsewhere_with_a_title(finished, tmp_path):
    result = run("report", finished, "--output", tmp_path / "page.htm", "--title", "Ours")
    assert result.exit_code == 0, result.stderr
    assert Page((tmp_path / "page.htm").read_text(encoding="utf-8")).one("h1").text == "Ours"


def test_bad_input_is_refused(copy, tmp_path):
    (tmp_path / "empty").mkdir()
    refused(run("report", tmp_path / "empty"), 2, "is no run of attnfaith")
    refused(run("report", tmp_path / "nowhere"), 2, "There is no directory")
    refused(run("report", copy, "--output", tmp_path / "page.pdf"), 2, "ends in .html")
    refused(run("report", copy, "--output", tmp_path), 2, "is a folder")
    refused(run("report", "s3://bucket/run"), 2, "--output FILE")
    assert not (copy / "report.html").exists()


def test_a_run_that_is_not_finished(flan, reviews, tmp_path, monkeypatch):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("attnfaith.evaluation.run_manifest.Store.finish", interrupted)
    assert run("evaluate", flan, reviews, "--output", tmp_path / "run", *FEW).exit_code == 130
    refused(run("report", tmp_path / "run"), 2, "is not complete")


def test_evaluate_refuses_before_work(flan, reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(Evaluator, "__init__", lambda *arguments, **named: pytest.fail("work began"))
    output = ("--output", tmp_path / "run", *FEW)
    refused(run("evaluate", flan, reviews, *output, "--report", tmp_path / "page.pdf"), 2, "ends in .html")
    refused(run("compare", tmp_path, tmp_path, "--report", tmp_path), 2, "is a folder")
    assert not any(tmp_path.iterdir())


def test_evaluate_and_compare_write_one(flan, reviews, finished, tmp_path):
    page, compared = tmp_path / "page.html", tmp_path / "compared.html"
    result = run("evaluate", flan, reviews, "--output", tmp_path / "run", "--report", page, *FEW)
    assert result.exit_code == 0, result.stderr
    assert f"The report is in {str(page)!r}." in result.stdout
    results = af.load_results(tmp_path / "run")
    assert all(" ".join(sentence.split()) in Page(page.read_text()).text for sentence in results.verdict.sentences)
    result = run("compare", finished, tmp_path / "run", "--report", compared, "--json", *FEW)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("{")
    assert "done and run compared" in Page(compared.read_text()).text
