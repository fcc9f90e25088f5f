"""The scripts of `examples/papers` run in their small form, go on from what is stored, and the page is as stored."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.training import resumable
from examples.papers import jain_wallace, page, pruthi, serrano_smith, shared, tables, wen, wiegreffe_pinter

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
def test_the_ablations_train_what_they_say_and_leave_the_rest(tmp_path, monkeypatch):
    results = run(wen, tmp_path, monkeypatch, "--ablations", "--texts", "120", "30", "40")
    folder = tmp_path / "wen-demo"
    fixed, kept = ("fixed attention, untrained", "fixed attention, trained"), ("fixed representations", "adversary")
    assert set(results["values"]) == {f"BiLSTM/additive/{name}" for name in ("softmax", *fixed, *kept)}
    twin = results["values"]["BiLSTM/additive/adversary"]["result"]
    assert 0 <= twin["tvd"]["value"] <= 1
    assert 0 < twin["jsd"]["value"] <= np.log(2)
    assert (folder / "adversary.png").exists()
    models = {
        name: wen.load(folder / "models" / f"{wen.PRESET}{name}-0").state_dict()
        for name in ("", "-fixed-representations", "-fixed-untrained", "-fixed-trained")
    }
    usual = models.pop("")
    for name, weights in models.items():
        changed = {key.partition(".")[0] for key in usual if not bool((weights[key] == usual[key]).all())}
        assert ("encoder" in changed, "attention" in changed) == (name != "-fixed-representations", True), name
        assert ("embeddings" in changed) == (name != "-fixed-representations"), name
    attention = {}
    for name in ("", "-fixed-trained", "-fixed-untrained"):
        stored = folder / "runs" / f"{wen.PRESET}{name}-0-information-paper" / "information_by_rank.parquet"
        attention[name] = pd.read_parquet(stored)["mean_weight"].to_numpy()
    assert np.allclose(attention["-fixed-trained"], attention[""], atol=1e-6)
    assert not np.allclose(attention["-fixed-untrained"], attention[""], atol=1e-4)


def test_an_interrupted_training_goes_on(tmp_path, monkeypatch):
    texts = shared.read("demo", (60, 20, 20))
    tokenizer = af.models.WordTokenizer.train(texts.words(), min_count=1, lowercase=True)

    def train(folder):
        work = shared.Work(folder, {})
        return work.train("JW-average-additive", texts, seed=0, epochs=3, tokenizer=tokenizer, vectors=None)

    def stop(self, *arguments, original=resumable.ResumableTrainer.training_step, **more):
        steps.append(self.state.global_step)
        if interrupted and self.state.global_step == 5:
            raise KeyboardInterrupt
        return original(self, *arguments, **more)

    steps, interrupted = [], False
    monkeypatch.setattr(resumable.ResumableTrainer, "training_step", stop)
    whole = train(tmp_path / "whole")
    assert steps == list(range(6))  # two steps in each of three epochs
    interrupted = True
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "again")
    steps, interrupted = [], False
    again = train(tmp_path / "again")
    assert steps in ([2, 3, 4, 5], [4, 5], [5])  # from a checkpoint; very short epochs do not all have one
    names = sorted(entry.name for entry in whole.iterdir())
    assert sorted(entry.name for entry in again.iterdir()) == names
    assert "checkpoints" not in names
    assert (again / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.examples
def test_a_divergence_that_is_not_known_exactly_is_left_out(tmp_path):
    texts = shared.read("demo", (40, 10, 30))
    for split in shared.SPLITS:
        table = getattr(texts, split)
        table["label"] = [number % 3 for number in range(len(table))]
    tokenizer = af.models.WordTokenizer.train(texts.words(), min_count=1)
    model = af.models.from_preset("JW-average-additive", num_labels=3, tokenizer=tokenizer, embedding_size=8)
    with torch.no_grad():
        model.classifier.weight.mul_(30)
        model.embeddings.weight.mul_(30)
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")
    found = jain_wallace.results_of(tmp_path / "model", texts, shared.Work(tmp_path, {}), steps=5)
    assert "js_mean_exact" not in found
    assert found["js_mean"]["texts"] == 30
    assert "gradient all" in found


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
    for name in ("cad_nli-train", "snli-dev", "snli-test"):
        pairs.to_parquet(tmp_path / f"{name}.parquet")
    texts = shared.without_punctuation(shared.read("snli", (100, 100, 10)))
    assert (texts.second, texts.labels, len(texts.train), len(texts.test)) == ("hypothesis", 3, 72, 10)
    premises = dict(zip(pairs["premise"].str.replace(",", ""), pairs["label"], strict=True))
    assert [premises[text] for text in texts.test["text"]] == [{0: 1, 1: 2, 2: 0}[y] for y in texts.test["label"]]


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
    monkeypatch.setattr(tables, "STORED", tmp_path)
    for name, table in page.TABLES.items():
        lines = [line for line in table() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1, name
        if not name.endswith(("_runs", "_counterfactual")):
            assert "python -m" in "\n".join(table()), name


def test_a_difference_of_more_than_five_hundredths_is_marked(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "STORED", tmp_path)
    tau = {"tau": {"value": 0.34, "low": 0.3, "high": 0.4, "texts": 9}}
    values = {f"BiLSTM/{seed}": {"result": {"gradient class=0": tau, "gradient class=1": tau}} for seed in range(2)}
    (tmp_path / "jain_wallace-ag_news.json").write_text(json.dumps({"values": values}))
    first, second = (line for line in page.jain_wallace() if line.startswith("| `ag_news` | BiLSTM"))
    assert first.endswith("| 0.36 | 0.34 | 0.30 to 0.40 | -0.02 |")
    assert second.endswith("| 0.42 | 0.34 | 0.30 to 0.40 | -0.08 ! |")
    assert np.isclose(page.NEAR, 0.05)


def test_how_much_tau_falls_and_rises_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "STORED", tmp_path)

    def model(tau):
        line = {"value": tau, "low": tau, "high": tau, "texts": 9}
        other = dict.fromkeys(("accuracy", "weighted_kendall_corrected", "informative", "ranks"), line | {"value": 1.0})
        return {"result": other | {"paper": {"weighted_kendall": line}}}

    taus = {
        "BiLSTM/additive/softmax": 1.0,
        "BiLSTM/additive/fixed attention, untrained": 0.25,
        "BiLSTM/dot/softmax": 0.5,
        "BiLSTM/dot/gumbel": 0.75,
        "CNN/dot/softmax": 0.5,
        "MLP/dot/softmax": float("nan"),
        "CNN/dot/gumbel": 0.25,
    }
    about = {"paper": "wen", "data": "sst2", "train": 1, "dev": 1, "test": 1, "epochs": 1}
    results = {"about": about, "values": {name: model(tau) for name, tau in taus.items()}}
    (tmp_path / "wen-sst2.json").write_text(json.dumps(results))
    (fixed,) = (line for line in page.wen_fixed() if "of an untrained model" in line)
    assert "| +0.71 | +0.75 | 1.00 [1.00, 1.00] | 0.25 [0.25, 0.25] |" in fixed
    gumbel = "\n".join(page.wen_gumbel())
    assert "| BiLSTM | dot | 0.50 [0.50, 0.50] | 0.75 [0.75, 0.75] | +0.25 |" in gumbel
    assert "dot 1 of 2 (published: 25 of 33)" in gumbel
    assert "| `sst2` | MLP | dot | undefined | 1.00 [nan, nan] |" in "\n".join(page.wen())
    assert "| all | dot | 0.45 | 0.50 | 0.50 to 0.50 | 2 |" in list(page.wen_means())
