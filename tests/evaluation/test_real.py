"""What the papers found, on real texts; skipped where the data are not at hand."""

import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.training.fitting import fit
from attnfaith.training.recipes import recipe


def figure(summary, name, level, ranking, ranking_level="attention", other=""):
    rows = summary[
        (summary.test == "erasure")
        & (summary.figure == name)
        & (summary.erase_level == level)
        & (summary.ranking == ranking)
        & (summary.ranking_level == ranking_level)
        & (summary.other == other)
    ]
    assert len(rows) == 1, (name, level, ranking, rows)
    return rows.iloc[0]


@pytest.mark.examples
def test_the_two_levels_of_a_fine_tuned_transformer_differ_and_the_verdict_says_so(data_dir):
    evaluator = af.Evaluator(data_dir / "models" / "minilm-sst2")
    texts = pd.read_parquet(data_dir / "sst2-test.parquet").sample(40, random_state=0)
    rankings = ["attention", "attention/gradient", "gradient_x_attention"]
    results = evaluator.compute(texts, tests=["erasure"], rankings=rankings)
    summary = results.summary()

    def value(name, level, ranking, ranking_level="attention"):
        return figure(summary, name, level, ranking, ranking_level).value

    # at the final attention most decisions stay, whatever the ranking
    for ranking in ("attention", "gradient", "gradient_x_attention", "random"):
        assert 0.4 < value("never_flipped", "attention", ranking) < 0.8
    assert value("never_flipped", "attention", "attention") > value("never_flipped", "attention", "gradient")
    # hidden from every layer they flip
    assert value("never_flipped", "input", "attention", "input") < 0.2
    median = {
        "product": value("median_fraction", "input", "gradient_x_attention"),
        "attention": value("median_fraction", "input", "attention", "input"),
        "random": value("median_fraction", "input", "random", "input"),
    }
    assert 0.08 < median["product"] < 0.25
    assert 0.2 < median["attention"] < 0.5
    assert 0.5 < median["random"] < 0.85
    assert results.verdict.parts[""][-1].startswith("At the final attention alone the label would be ")
    assert results.verdict.level == "input"
    assert results.table().correct.mean() > 0.8


@pytest.fixture(scope="module")
def sentiment(data_dir):
    """Train and test texts, and a tokenizer."""
    train, valid, test = (pd.read_parquet(data_dir / f"sst2-{part}.parquet") for part in ("train", "dev", "test"))
    return train, valid, test, af.models.WordTokenizer.train(train.text.tolist(), min_count=5)


DONE = {}


def trained(sentiment, name):
    if name in DONE:
        return DONE[name]
    train, valid, test, tokenizer = sentiment
    torch.manual_seed(0)
    model = af.models.from_preset(name, num_labels=2, tokenizer=tokenizer)
    history = fit(model, tokenizer, train, valid, **{**recipe(name), "learning_rate": 1e-3, "epochs": 4, "patience": 2})
    assert history.best["validation_accuracy"] > 0.72
    results = af.Evaluator(model, tokenizer).compute(test.head(600), n_resamples=999)
    DONE[name] = results, results.summary()
    return DONE[name]


@pytest.mark.examples
def test_on_a_recurrent_encoder_gradient_times_attention_flips_first_and_random_is_last(sentiment):
    results, summary = trained(sentiment, "FLANrnn")
    against = "attention/attention"
    wins, losses = (
        figure(summary, name, "attention", "gradient_x_attention", other=against) for name in ("wins", "losses")
    )
    assert wins.value > losses.value
    assert figure(summary, "p_holm", "attention", "gradient_x_attention", other=against).value < 0.01
    means = summary[(summary.figure == "mean_fraction") & (summary.test == "erasure")].set_index("ranking").value
    assert means.idxmax() == "random"
    assert means["optimal"] == means.min()
    efficiency = summary[summary.figure == "efficiency"].set_index("ranking").value
    assert efficiency["optimal"] == 1
    # two classes: but for the difference of their biases, this order is the optimum
    assert efficiency["gradient_x_attention"] > 0.95
    table = results.table("erasure")
    best = table[table.ranking == "optimal"].set_index("text_id")
    assert (best.removed.dropna() == best.minimum_low.dropna()).all()
    fewest = table[~table.marginal].groupby("text_id").removed.min()
    assert (fewest.dropna() >= best.minimum_low.reindex(fewest.dropna().index)).all()


@pytest.mark.examples
def test_without_an_encoder_attention_is_nearer_the_gradient(sentiment):
    gaps = {}
    for name in ("FLANrnn", "FLANnoenc"):
        _, summary = trained(sentiment, name)
        row = figure(summary, "mean_difference", "attention", "attention", other="attention/gradient_x_attention")
        gaps[name] = row.value
    assert abs(gaps["FLANnoenc"]) < abs(gaps["FLANrnn"])
