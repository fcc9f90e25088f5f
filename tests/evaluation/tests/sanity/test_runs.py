"""The sanity test from end to end: trained models, models trained on random labels, runs that go on, the shell."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.errors import InputError
from attnfaith.evaluation.tests.sanity.summary import HALF, RANDOM_LABELS
from attnfaith.training import fit, shuffled
from tests.helpers.commands import FEW, run
from tests.helpers.training_data import rows, same, small, weights

TEST = rows(48, seed=1)
NAMES = ["attention", "gradient", "gradient_x_attention"]


@pytest.fixture(scope="module")
def trained():
    model, tokenizer = small("FLANrnn")
    data = rows(160)
    fit(model, tokenizer, data, learning_rate=0.02, epochs=6, batch_size=16)
    return model, tokenizer


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory):
    """Where the same model, trained on random labels, was saved."""
    model, tokenizer = small("FLANrnn")
    fit(model, tokenizer, shuffled(rows(160)), learning_rate=0.02, epochs=6, batch_size=16)
    path = tmp_path_factory.mktemp("random labels")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


def evaluated(trained, test=None, data=TEST, **options):
    options = {"n_resamples": 199, "quiet": True, "rankings": NAMES, **options}
    return af.Evaluator(*trained).compute(data, tests=[test or af.tests.Sanity()], **options)


def figures(results):
    return results.summary().set_index(["figure", "ranking", "other"])["value"]


def test_a_trained_model_from_end_to_end(trained, tmp_path):
    before = weights(trained[0])
    results = evaluated(trained, output_dir=tmp_path / "run")
    assert same(before, weights(trained[0]))
    result = figures(results)
    assert result["spearman", "attention", "1/classifier"] == 1  # attention does not read the classifier
    assert abs(result["kept", "random", ""]) < 0.25
    assert (
        result["kept_lowest", "attention", ""]
        <= result["kept", "attention", ""]
        <= result["kept_highest", "attention", ""]
    )
    assert result["kept", "attention", ""] == result["spearman", "attention", "4/embeddings"]
    assert "With all layers re-initialised, attention " in str(results)
    for kind in ("spearman", "absolute", "tau"):
        results.plot("sanity", kind=kind, path=tmp_path / f"{kind}.png")
        assert (tmp_path / f"{kind}.png").stat().st_size > 1000
    by_class = results.summary(by="class")
    assert set(by_class["slice"]) == {"class=0", "class=1"}
    again = af.load_results(results.save(tmp_path / "copy"))
    pd.testing.assert_frame_equal(again.table("sanity"), results.table("sanity"))
    pd.testing.assert_frame_equal(again.summary(), results.summary())
    assert str(again) == str(results)
    assert again.tests["sanity"]["draws"] == 3


def test_the_summary_says_what_the_table_does(trained):
    results = evaluated(trained)
    table, result = results.table("sanity"), figures(results)
    for (ranking, depth, layer), part in table.groupby(["ranking", "depth", "layer"]):
        for measure in ("spearman", "spearman_absolute", "tau"):
            assert result[measure, ranking, f"{depth}/{layer}"] == pytest.approx(part[measure].mean())
    last = table[table.depth == table.depth.max()]
    for ranking, part in last.groupby("ranking"):
        assert result["notices", ranking, ""] == pytest.approx((part.spearman < HALF).mean())
        means = part.groupby("draw").spearman.mean()
        assert result["kept_lowest", ranking, ""] == pytest.approx(means.min())
        assert result["kept_highest", ranking, ""] == pytest.approx(means.max())


def test_batches_and_resuming_change_nothing(trained, tmp_path):
    whole = evaluated(trained).table("sanity")
    assert len(whole) == 48 * 4 * 4
    for batch_size in (1, 7):
        other = evaluated(trained, batch_size=batch_size).table("sanity")
        pd.testing.assert_frame_equal(other, whole, rtol=1e-6, atol=1e-6)
    run_dir = tmp_path / "run"
    evaluated(trained, output_dir=run_dir)
    pd.testing.assert_frame_equal(evaluated(trained, output_dir=run_dir).table("sanity"), whole)


def test_uniform_attention_that_is_ignored_is_distinguished_from_one_that_is_used(trained):
    model = copy.deepcopy(trained[0])
    with torch.no_grad():
        model.attention.context.weight.zero_()
    results = evaluated((model, trained[1]))
    result = figures(results)
    assert np.isnan(result["kept", "attention", ""])
    assert result["undefined", "attention", "4/embeddings"] == 1
    assert result["undefined", "gradient", "4/embeddings"] == 0
    row = results.summary().query("figure == 'undefined' and ranking == 'attention'").iloc[0]
    assert (row.note, row.texts) == ("all items have the same score: 48", 48)
    options = "attention has a rank correlation with the original on no text (all items have the same score: 48)"
    assert options in str(results)
    assert "on no text" not in str(evaluated(trained))


def test_a_ranking_that_ignores_the_model_is_called_what_it_is(trained):
    @af.register_method("alphabet", level="input")
    def alphabet(model, inputs, target):
        return inputs["input_ids"].double()

    try:
        results = evaluated(trained, rankings=["input/alphabet", "attention"], level="input")
    finally:
        del af.attribution.methods["input", "alphabet"]
    result = figures(results)
    assert (result["kept", "alphabet", ""], result["notices", "alphabet", ""]) == (1, 0)
    assert results.verdict.parts["sanity"][-1].endswith("alphabet (1.00 [1.00, 1.00]).")


def test_a_model_trained_on_random_labels_is_compared(trained, folder, tmp_path):
    results = evaluated(trained, af.tests.Sanity(depths=1, random_labels=folder), output_dir=tmp_path / "run")
    table, result = results.table("sanity"), figures(results)
    assert set(table.layer) == {"embeddings", RANDOM_LABELS}
    assert set(table[table.layer == RANDOM_LABELS].depth) == {0}
    other = af.Evaluator(folder)
    for row, text in zip(
        table[(table.layer == RANDOM_LABELS) & (table.ranking == "attention")].itertuples(), TEST, strict=True
    ):
        first, second = (
            af.Attributor(model, trained[1], method="attention")(text["text"]).scores
            for model in (trained[0], other.cut.model)
        )
        assert row.spearman == pytest.approx(
            np.corrcoef(pd.Series(first).rank(), pd.Series(second).rank())[0, 1], abs=1e-4
        )
    assert ("spearman", "attention", RANDOM_LABELS) in result.index
    assert ("kept", "attention", "") in result.index
    assert "In a model that was trained on random labels, attention " in str(results)
    results.plot("sanity", path=tmp_path / "figure.png")


def test_another_model_at_the_path_is_another_run(trained, folder, tmp_path):
    path, run_dir = tmp_path / "other", tmp_path / "run"
    model, tokenizer = af.Evaluator(folder).cut.model, trained[1]
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    test = af.tests.Sanity(depths=1, random_labels=str(path))
    results = evaluated(trained, test, output_dir=run_dir)
    fingerprint = results.tests["sanity"]["random_labels_fingerprint"]
    assert len(fingerprint) == 64
    with torch.no_grad():
        model.classifier.bias += 1
    model.save_pretrained(path)
    with pytest.raises(InputError, match="random_labels_fingerprint"):
        evaluated(trained, test, output_dir=run_dir)
    given = af.tests.Sanity(depths=1, random_labels=str(path), random_labels_fingerprint=fingerprint)
    with pytest.raises(InputError, match="is not the one with the fingerprint"):
        evaluated(trained, given)
    assert "random labels" in str(af.load_results(run_dir))  # a run is read without the model


def test_a_model_that_reads_otherwise_or_is_none_is_refused(trained, folder, tmp_path):
    with pytest.raises(InputError, match="No classifier with a tokenizer"):
        evaluated(trained, af.tests.Sanity(random_labels=str(tmp_path)))
    model = af.Evaluator(folder).cut.model
    vocabulary = trained[1].get_vocab()
    words = [word for word in sorted(vocabulary, key=vocabulary.get) if not word.startswith("[")]
    other = af.models.WordTokenizer.train([" ".join(reversed(words))], min_count=1)
    assert len(other) == len(vocabulary)
    model.save_pretrained(tmp_path)
    other.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="has another tokenizer"):
        evaluated(trained, af.tests.Sanity(random_labels=str(tmp_path)))


@pytest.mark.slow
def test_from_a_shell(trained, folder, tmp_path):
    path, data = tmp_path / "model", tmp_path / "data.csv"
    trained[0].save_pretrained(path)
    trained[1].save_pretrained(path)
    pd.DataFrame(TEST[:12]).to_csv(data, index=False)
    options = ["sanity.depths=2", "sanity.draws=1", f"sanity.random_labels={folder}", "sanity.how=normal"]
    command = ["evaluate", path, data, "--tests", "sanity", "--rankings", ",".join(NAMES), "--output", tmp_path / "run"]
    result = run(*command, *(part for option in options for part in ("--option", option)), *FEW)
    assert result.exit_code == 0, result.stderr
    assert "summary() has their numbers" in result.stdout  # 12 texts are too few for a sentence
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    message = manifest["run"]["tests"]["sanity"]
    assert (message["how"], message["depths"], message["draws"], message["random_labels"]) == ("normal", 2, 1, folder)
    again = run(*command, *(part for option in options for part in ("--option", option)), *FEW)
    assert again.exit_code == 0, again.stderr
    result = run(*command, "--option", "sanity.depths=none", "--option", "sanity.how=zero", *FEW)
    assert result.exit_code == 2
