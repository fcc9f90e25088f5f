"""The scripts of `examples/papers` run in their small form, go on from what is stored, and the page is as stored."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from examples.papers import jain_wallace, page, pruthi, serrano_smith, shared, wen, wiegreffe_pinter

SCRIPTS = {"jain_wallace": jain_wallace, "serrano_smith": serrano_smith, "wen": wen, "pruthi": pruthi}
FIGURES = {"jain_wallace": 6, "serrano_smith": 8, "wen": 2, "pruthi": 1}


def run(script, output, monkeypatch, *options):
    arguments = [script.__name__, "--data", "demo", "--small", "--output", str(output), *options]
    monkeypatch.setattr(sys, "argv", arguments)
    script.main()
    return json.loads((output / f"{script.__name__.rpartition('.')[2]}-demo" / "results.json").read_text())


@pytest.mark.examples
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_writes_its_figures_and_tables_and_computes_nothing_twice(name, tmp_path, monkeypatch, capsys):
    results = run(SCRIPTS[name], tmp_path, monkeypatch)
    folder = tmp_path / f"{name}-demo"
    assert results["about"]["paper"] == name
    assert results["about"]["data"] == "demo"
    assert len(list(folder.glob("*.png"))) == FIGURES[name]
    (table,) = folder.glob("*.csv")
    assert len(pd.read_csv(table)) >= 2
    for value in results["values"].values():
        accuracy = value["result"]["accuracy"]
        assert accuracy["low"] <= accuracy["value"] <= accuracy["high"]
    printed = capsys.readouterr().out

    def refuse(*args, **options):
        raise AssertionError("computed again")

    monkeypatch.setattr(shared.Work, "train", refuse)
    monkeypatch.setattr(shared.Work, "judge", refuse)
    assert run(SCRIPTS[name], tmp_path, monkeypatch) == results
    assert capsys.readouterr().out.splitlines()[-2:] == printed.splitlines()[-2:]


@pytest.mark.examples
def test_the_diagnosis_is_stored_with_its_figures(tmp_path, monkeypatch):
    results = run(wiegreffe_pinter, tmp_path, monkeypatch, "--texts", "60", "20", "20")
    folder = tmp_path / "wiegreffe_pinter-demo"
    estimates = pd.DataFrame(results["values"]["diagnosis"]["result"]["estimates"])
    assert set(estimates["diagnostic"]) == {path.stem for path in folder.glob("*.png")}
    assert len(set(estimates["diagnostic"])) == 4
    assert len(pd.read_csv(folder / "estimates.csv")) == len(estimates)
    assert (folder / "diagnosis.html").stat().st_size > 10_000


def test_results_of_other_settings_are_not_mixed(tmp_path):
    shared.Work(tmp_path, {"epochs": 1}).once("one", lambda: 1)
    assert shared.Work(tmp_path, {"epochs": 1}).once("one", lambda: 2) == 1
    with pytest.raises(SystemExit, match="other settings"):
        shared.Work(tmp_path, {"epochs": 2})


def test_real_data_are_read_as_the_papers_have_them(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "DATA", str(tmp_path))
    text = "one two, three four five six {}"
    labels = [0, 1, 2, 3] * 10
    rows = pd.DataFrame({"text": [text.format(number) for number in range(40)], "label": labels, "title": "t"})
    rows.to_parquet(tmp_path / "ag_news_sub-train.parquet")
    rows[["text", "label"]].to_parquet(tmp_path / "ag_news-test.parquet")
    texts = shared.without_punctuation(shared.read("ag_news", (12, 5, 7)))
    assert texts.sizes() == {"data": "ag_news", "train": 12, "dev": 2, "test": 7}
    assert set(texts.train["label"]) <= {0, 1}
    assert set(texts.test.columns) == {"text", "label"}
    assert not set(texts.train["text"]) & set(texts.dev["text"])
    assert "," not in "".join(texts.words())
    even = {text.format(number).replace(",", "") for number in range(0, 40, 2)}
    assert set(texts.words()) <= even  # World and Business: every second row

    pairs = rows.rename(columns={"text": "premise", "title": "hypothesis"}).assign(label=[0, 1, 2, 0] * 10)
    for name in ("cad_nli-train", "cad_nli-dev", "snli-dev", "snli-test"):
        pairs.to_parquet(tmp_path / f"{name}.parquet")
    texts = shared.read("snli", (100, 100, 10))
    assert (texts.second, texts.labels, len(texts.train), len(texts.test)) == ("hypothesis", 3, 80, 10)


def test_without_real_data_a_name_is_refused(monkeypatch):
    monkeypatch.setattr(shared, "DATA", None)
    with pytest.raises(SystemExit, match="ATTNFAITH_DATA"):
        shared.read("imdb", (1, 1, 1))


def test_the_pages_are_made_from_what_is_stored():
    for path in page.PAGES:
        text = path.read_text(encoding="utf-8")
        assert text.count("<!-- table:") == len(page.MARK.findall(text)) == text.count("<!-- end -->")
        assert page.written(text) == text, "Run `python -m examples.papers.page`."
    marked = {name for path in page.PAGES for _, name, _ in page.MARK.findall(path.read_text(encoding="utf-8"))}
    assert marked == set(page.TABLES)


def test_what_is_not_stored_is_said_with_its_command(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "STORED", tmp_path)
    for name, table in page.TABLES.items():
        lines = [line for line in table() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1, name
        if not name.endswith(("_runs", "_counterfactual", "_experiments")):
            assert "python -m" in "\n".join(table()), name


def test_a_difference_of_more_than_five_hundredths_is_marked(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "STORED", tmp_path)
    tau = {"tau": {"value": 0.34, "low": 0.3, "high": 0.4, "texts": 9}}
    values = {f"BiLSTM/{seed}": {"result": {"gradient class=0": tau, "gradient class=1": tau}} for seed in range(2)}
    (tmp_path / "jain_wallace-ag_news.json").write_text(json.dumps({"values": values}))
    first, second = (line for line in page.jain_wallace() if line.startswith("| `ag_news` | BiLSTM"))
    assert first.endswith("| 0.36 | 0.34 | 0.30 to 0.40 | -0.02 |")
    assert second.endswith("| 0.42 | 0.34 | 0.30 to 0.40 | -0.08 ! |")
    assert np.isclose(page.NEAR, 0.05)
