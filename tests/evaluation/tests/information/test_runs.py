"""The information test from end to end: through an Evaluator, its results, its files, and the command line."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.evaluation import runner as running
from attnfaith.tiny_models import tiny_model
from tests.helpers.commands import run, write_csv

WORDS = [f"w{number}" for number in range(50)]


def data_of(count, seed=0):
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(4, 14, (count,), generator=draw).tolist()
    return [
        {"text": " ".join(WORDS[item] for item in torch.randint(50, (length,), generator=draw).tolist()), "label": 0}
        for length in lengths
    ]


@pytest.fixture(scope="module")
def tokenizer():
    return af.models.WordTokenizer.train([" ".join(WORDS)], min_count=1)


def flan_of(tokenizer, name="FLANrnn", **config):
    torch.manual_seed(0)
    model = af.models.from_preset(name, tokenizer=tokenizer, **{"num_labels": 3, **config}).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 4
    return model


def evaluated(model, tokenizer, data, *, options=None, decision=None, **more):
    test = af.tests.Information(**{"permutations": 40, "kmeans_seeds": 2, **(options or {})})
    evaluator = af.Evaluator(model, tokenizer, decision=decision, tolerance=0.1 if decision == "regression" else None)
    common = {"rankings": ["attention"], "level": "attention", "n_resamples": 50, "quiet": True}
    return evaluator.compute(data, tests=[test], **{**common, **more})


def figure(summary, name, rank="", ranking="all"):
    chosen = summary[(summary.figure == name) & (summary.other == rank) & (summary.ranking == ranking)]
    (row,) = chosen.to_dict("records")
    return row


@pytest.fixture(scope="module")
def flan(tokenizer):
    return flan_of(tokenizer)


@pytest.fixture(scope="module")
def results(flan, tokenizer):
    return evaluated(flan, tokenizer, data_of(300))


def test_all_that_results_can_do(results, tmp_path):
    table, summary = results.table("information_by_rank"), results.summary()
    lengths = results.table("texts")["items"]
    ranks = int(np.percentile(lengths, 10))
    assert 2 < ranks < 8
    assert table.groupby(["group", "kmeans_seed"])["rank"].apply(list).tolist() == [list(range(ranks))] * 2
    assert results.table("information").groupby("text_id").logits.count().eq(1).all()
    assert figure(summary, "ranks_by_length")["value"] == ranks
    assert figure(summary, "samples")["value"] == (lengths >= ranks).sum()
    assert figure(summary, "left_out")["value"] == (lengths < ranks).sum()
    assert -1 <= figure(summary, "weighted_kendall")["value"] <= 1
    assert len(results.verdict.parts["information"]) > 1
    assert results.plot("information").axes[0].get_ylabel() == "information (nats)"
    assert results.plot("information", kind="heads", path=tmp_path / "heads.png").axes
    assert set(results.summary(by="class").figure) == {"texts", "accuracy", "majority_label", "weighted_kendall"}
    results.save(tmp_path / "saved")
    again = af.load_results(tmp_path / "saved")
    pd.testing.assert_frame_equal(again.summary(), summary)
    assert str(again) == str(results)


def test_batches_shards_and_resuming_change_nothing(flan, tokenizer, results, monkeypatch, tmp_path):
    expected = results.table("information_by_rank")
    monkeypatch.setattr(af.Evaluator, "shard_size", 64)
    complete, seen = running.Runner._complete, []

    def stops(self, shard, rows, progress):
        seen.append(len(rows))
        if len(seen) == 3:
            raise KeyboardInterrupt
        return complete(self, shard, rows, progress)

    monkeypatch.setattr(running.Runner, "_complete", stops)
    with pytest.raises(KeyboardInterrupt):
        evaluated(flan, tokenizer, data_of(300), output_dir=tmp_path / "run", batch_size=7)
    resumed = evaluated(flan, tokenizer, data_of(300), output_dir=tmp_path / "run", batch_size=7)
    assert resumed.manifest["shards"] == 5
    pd.testing.assert_frame_equal(resumed.table("information_by_rank"), expected, rtol=1e-9, atol=1e-12)


def test_seeds_decide(flan, tokenizer, results):
    same, other = (evaluated(flan, tokenizer, data_of(300), seed=seed) for seed in (0, 1))
    pd.testing.assert_frame_equal(same.table("information_by_rank"), results.table("information_by_rank"))
    assert not np.allclose(other.table("information_by_rank").mi, results.table("information_by_rank").mi)


def test_the_rest_of_the_random_state_is_left_alone(flan, tokenizer):
    states = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    evaluated(flan, tokenizer, data_of(120))
    assert states[0].equal(torch.get_rng_state())
    assert states[1] == np.random.get_state()[1].tolist()  # noqa: NPY002


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_heads_are_measured_together_and_by_themselves(tokenizer, family):
    model = tiny_model(family, num_labels=3)
    results = evaluated(model, tokenizer, data_of(200))
    table = results.table("information_by_rank")
    heads = [str(head) for head in range(model.config.num_attention_heads)]
    assert list(dict.fromkeys(table.group)) == ["all", *heads]
    seeds = table.groupby("group").kmeans_seed.nunique()
    assert seeds["all"] == 2
    assert seeds[heads].eq(1).all()
    summary = results.summary()
    assert {"", "all", *heads} == set(summary.ranking)
    assert len(results.plot("information", kind="heads").axes) == len(heads)
    wide = results.table("information").groupby("group").vector.apply(lambda rows: {len(row) for row in rows})
    assert wide["all"] == {len(heads) * next(iter(wide["0"]))}
    alone = evaluated(model, tokenizer, data_of(200), options={"heads": False})
    assert set(alone.summary().ranking) == {"", "all"}
    pd.testing.assert_frame_equal(
        alone.table("information_by_rank"), table[table.group == "all"].reset_index(drop=True), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("kind", ["sigmoid", "multilabel", "regression"])
@pytest.mark.parametrize("name", ["FLANnoenc", "HANrnn"])
def test_every_kind_of_decision_runs(tokenizer, name, kind):
    model = flan_of(tokenizer, name, num_labels={"multilabel": 3}.get(kind, 1))
    with torch.no_grad():
        model.classifier.bias -= 0.2
    data = [{"text": row["text"].replace("w1 ", "w1. ").replace("w2 ", "w2. ")} for row in data_of(160)]
    results = evaluated(model, tokenizer, data, decision=kind)
    summary = results.summary()
    assert figure(summary, "outputs")["value"] == (5 if kind != "multilabel" else figure(summary, "outputs")["value"])
    assert figure(summary, "outputs")["value"] > 1
    assert 0 <= figure(summary, "mi", "0")["value"] <= figure(summary, "output_entropy")["value"] + 1e-9
    str(results)


def test_too_few_texts_are_noted_and_have_no_value(flan, tokenizer):
    results = evaluated(flan, tokenizer, data_of(40))
    row = figure(results.summary(), "weighted_kendall")
    assert math.isnan(row["value"])
    assert "are too few: 100 are needed" in row["note"]
    assert "was not measured:" in str(results)
    assert "Nothing was measured" in results.plot("information").axes[0].texts[-1].get_text()


def test_beside_other_tests_it_adds_its_sentences(flan, tokenizer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = af.Evaluator(flan, tokenizer).compute(
            data_of(120), tests=["erasure", "information"], rankings=["attention"], n_resamples=50, quiet=True
        )
    assert results.verdict.parts["information"]
    assert set(results.summary().test) == {"erasure", "information"}


def test_the_command_line_runs_it_with_options(flan, tokenizer, tmp_path):
    flan.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    write_csv(tmp_path / "data.csv", [(row["text"], "LABEL_0") for row in data_of(150)])
    asked = ["--tests", "information", "--rankings", "attention", "--level", "attention", "--resamples", "20"]
    for option in ("clusters=paper", "ranks=3", "kmeans_seeds=1", "permutations=20", "heads=false", "weights=additive"):
        asked += ["--option", f"information.{option}"]
    result = run("evaluate", tmp_path / "model", tmp_path / "data.csv", "--output", tmp_path / "run", *asked)
    assert result.exit_code == 0, result.stderr
    results = af.load_results(tmp_path / "run")
    options = results.tests["information"]
    assert (options["clusters"], options["ranks"], options["heads"]) == ("paper", 3, False)
    assert results.table("information_by_rank")["rank"].tolist() == [0, 1, 2]
    numbered = run(
        "evaluate",
        tmp_path / "model",
        tmp_path / "data.csv",
        "--output",
        tmp_path / "two",
        *asked[:-12],
        *("--option", "information.clusters=30"),
    )
    assert numbered.exit_code == 0, numbered.stderr
    assert set(af.load_results(tmp_path / "two").table("information_by_rank").clusters) == {30}
    wrong = run(
        "evaluate", tmp_path / "model", tmp_path / "data.csv", *asked[:2], "--option", "information.clusters=few"
    )
    assert wrong.exit_code != 0
    assert "'paper'" in wrong.stderr
