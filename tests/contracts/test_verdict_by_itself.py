"""What is said of attention, and every figure about it, is the same to the digit whatever else was run."""

import pandas as pd
import pytest

import attnfaith as af
from attnfaith.tiny_models import tiny_model
from tests.helpers import commands
from tests.helpers import tokenizers as tokenizers
from tests.helpers.installed_families import and_others

pytestmark = pytest.mark.filterwarnings("ignore:The scores of .* are inexact")  # few steps

ROWS = [{"text": text, "label": int("fine" in text)} for text in commands.texts(40)]
SENTENCES = [
    {"text": ". ".join(texts) + "."}
    for texts in zip(*(commands.texts(40, seed=seed) for seed in range(4)), strict=True)
]
ABOUT = ["test", "erase_level", "ranking_level", "ranking", "other", "slice", "figure"]
FIGURES = ["value", "low", "high", "texts", "note"]


def transformer(family):
    return af.Evaluator(tiny_model(family), tokenizers.word_piece())


def network(name, save, folder):
    return af.Evaluator(save(folder / name))


MODELS = {
    "bert": lambda folder: transformer("bert"),
    "llama": lambda folder: transformer("llama"),
    "t5": lambda folder: transformer("t5"),
    "FLAN": lambda folder: network("flan", commands.save_flan, folder),
    "HAN": lambda folder: network("han", commands.save_han, folder),
}


def number_of_letters(encoded):
    return [float(len(token)) for token in encoded.tokens]


def of_attention(results):
    """Every figure about attention alone, about attention and the random order, and about the level."""
    table = results.summary()
    table = table[table.test == "erasure"]
    attention = (table.ranking == "attention") & (table.other.isin(["", "attention/random", "input/random"]))
    control = (table.ranking == "random") & (table.other == "")
    return table[attention | control | (table.ranking == "")].sort_values(ABOUT).set_index(ABOUT)[FIGURES]


def compare(results):
    first, *others = results
    expected = of_attention(first)
    assert {"skill", "mean_difference", "p", "efficiency", "flippable"} <= set(
        expected.index.get_level_values("figure")
    )
    for other in others:
        pd.testing.assert_frame_equal(of_attention(other), expected, check_exact=True)
        assert other.verdict.label == first.verdict.label
        assert other.verdict.reason == first.verdict.reason
        assert other.verdict.parts[""] == first.verdict.parts[""]
        assert other.verdict.parts["texts"] == first.verdict.parts["texts"]
        assert other.verdict.parts["other rankings"] != first.verdict.parts["other rankings"]


@pytest.mark.parametrize("name", and_others(["bert", "FLAN", "HAN"], ["llama", "t5"]))
def test_alone_with_all_rankings_and_with_a_user_ranking(name, tmp_path):
    evaluator, data = MODELS[name](tmp_path), SENTENCES if name == "HAN" else ROWS
    level = "input" if name == "HAN" else "both"  # a user's ranking has a score for each token
    options = {"tests": ["erasure"], "level": level, "n_resamples": 99, "steps": 3, "quiet": True}
    alone = evaluator.compute(data, rankings=["attention"], **options)
    everything = evaluator.compute(data, rankings="all", **options)
    usual = evaluator.compute(data, **options)
    mine = {"letters": number_of_letters}
    with_user_ranking = evaluator.compute(data, rankings=["attention", "gradient"], explanations=mine, **options)
    compare([alone, everything, usual, with_user_ranking])
    told = [
        sentence
        for sentence in with_user_ranking.verdict.parts["other rankings"]
        if sentence.startswith("Your ranking 'letters'")
    ]
    assert len(told) == 1


@pytest.mark.families
def test_on_a_real_transformer(data_dir):
    evaluator = af.Evaluator(data_dir / "models" / "minilm-sst2")
    texts = pd.read_parquet(data_dir / "sst2-dev.parquet")
    texts = texts[texts["text"].str.len() < 50].sample(20, random_state=3)
    options = {"tests": ["erasure"], "n_resamples": 999, "steps": 4, "quiet": True}
    alone = evaluator.compute(texts, rankings=["attention"], **options)
    everything = evaluator.compute(texts, rankings="all", **options)
    usual = evaluator.compute(texts, **options)
    with_user_ranking = evaluator.compute(
        texts, rankings=["attention"], explanations={"letters": number_of_letters}, **options
    )
    every = [alone, everything, usual, with_user_ranking]
    compare(every)
    assert ["leave out" in str(results.verdict) for results in every] == [False, False, True, False]
    assert alone.verdict.reason == ""
    assert any("with a label" in sentence for sentence in alone.verdict.parts["texts"])
