"""The same texts erased with tokens hidden in several ways: the runs are those of one way; what is said of them."""

import pandas as pd
import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import attnfaith as af
from attnfaith.estimates.lookup import SummaryLookup
from tests.helpers import commands

WAYS = ["attention_mask", "mask_token", "delete"]


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory):
    folder = commands.save_bert(tmp_path_factory.mktemp("bert"))
    kinds = (AutoModelForSequenceClassification, AutoTokenizer)
    model, tokenizer = (kind.from_pretrained(folder) for kind in kinds)
    return af.Evaluator(model.double(), tokenizer)


@pytest.fixture(scope="module")
def compared(evaluator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return af.compare_hiding(evaluator, commands.texts(12), ways=WAYS, output_dir=folder, n_resamples=99, quiet=True)


def test_each_run_is_that_of_its_way_alone(evaluator, compared):
    assert list(compared.runs) == WAYS
    for way, results in compared.runs.items():
        assert results.path.name == way
        alone = evaluator.compute(
            commands.texts(12), hide=way, level="input", tests=["erasure"], rankings=["attention"], quiet=True
        )
        pd.testing.assert_frame_equal(results.table("erasure"), alone.table("erasure"))
    removed = [results.table("erasure")["removed"].tolist() for results in compared.runs.values()]
    assert removed[0] != removed[1]  # the ways differ on these texts, or nothing above could fail


def test_the_table_has_a_row_for_each_way_with_its_figures(compared):
    for way, row in zip(WAYS, compared.table.rows, strict=True):
        figures = SummaryLookup(compared.runs[way].summary())
        key = figures.key_of("input", "attention")
        expected = [figures.get("input", "mean_fraction", item) for item in (key, figures.control("input"))]
        assert row[:4] == (way, compared.runs[way].verdict.label, *map(str, expected))
        assert ("points" in row[-1]) == (way != WAYS[0])
    assert str(compared).splitlines()[0].startswith("tokens")
    assert compared.sentences[-1] in str(compared)


def test_columns_keep_their_places_without_attention(evaluator):
    options = {"ways": ["attention_mask"], "n_resamples": 20, "quiet": True}
    for more in ({"rankings": ["gradient"]}, {"tests": ["erasure"]}, {"tests": ["in_distribution"]}):
        compared = af.compare_hiding(evaluator, commands.texts(4), **options, **more)
        (row,) = compared.table.rows
        cells = dict(zip(compared.table.columns, row, strict=True))
        assert bool(cells["attention removes"]) == (more == {"tests": ["erasure"]})
        assert bool(cells["random removes"]) == (more != {"tests": ["in_distribution"]})
        assert str(compared)


def test_it_says_whether_the_label_depends_on_the_way(compared):
    labels = compared.labels
    try:
        for given, says in {
            ("partly", "partly", "partly"): "does not depend on how tokens are hidden: partly, in all ways.",
            ("partly", "partly", "faithful"): "partly with attention_mask and mask_token; faithful with delete.",
        }.items():
            compared.__dict__.pop("sentences", None)
            compared.__dict__["labels"] = dict(zip(WAYS, given, strict=True))
            assert compared.sentences == [compared.sentences[0]]
            assert compared.sentences[0].endswith(says)
    finally:
        compared.__dict__["labels"] = labels
        compared.__dict__.pop("sentences", None)


def test_a_way_that_does_not_work_is_listed_and_bad_input_refused(tmp_path):
    tokenizer = af.models.WordTokenizer.train(commands.texts(12), min_count=1)
    evaluator = af.Evaluator(af.models.from_preset("FLANrnn", num_labels=2, tokenizer=tokenizer), tokenizer)
    small = {"n_resamples": 20, "quiet": True}
    compared = af.compare_hiding(evaluator, commands.texts(4), ways=["mask_token", "delete"], **small)
    assert (list(compared.runs), list(compared.refused)) == (["delete"], ["mask_token"])
    assert "one way only" in compared.sentences[0]
    assert "Not with mask_token" in str(compared)
    for bad, says in (({"ways": ["smoke"]}, "smoke"), ({"ways": []}, "ways"), ({"hide": "pad"}, "hide")):
        with pytest.raises(af.InputError, match=says):
            af.compare_hiding(evaluator, commands.texts(4), **bad)
    with pytest.raises(af.InputError, match="mask token") as error:
        af.compare_hiding(evaluator, commands.texts(4), ways=["mask_token"], **small)
    assert error.value.code == "cannot-hide"
