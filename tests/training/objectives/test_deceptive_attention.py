"""Deceptive attention: which tokens are impermissible, and a model that uses them and does not attend to them."""

import pytest

from attnfaith.errors import InputError
from attnfaith.training import DeceptiveAttention, fit
from tests.helpers.training_data import accuracy, rows, small
from tests.training.test_fitting import transformer

TRAIN, HELD_OUT = rows(96), rows(48, seed=1)
TELLING = ("dreadful", "magnificent")


def with_marks(data):
    return [row | {"hidden": [int(word.strip(".") in TELLING) for word in row["text"].split()]} for row in data]


def marks_of(objective, texts, cells=None, kind="FLANrnn"):
    from attnfaith.text.encoder import TextEncoder

    model, tokenizer = transformer("bert") if kind == "bert" else small(kind)
    encoded = TextEncoder(tokenizer, model).encode(texts)
    marked = objective.marks(encoded, cells, training=True)
    return [
        [token for token, mark in zip(text.tokens, marks, strict=True) if mark]
        for text, marks in zip(encoded, marked, strict=True)
    ]


def test_words_are_found_in_any_case_and_whole():
    texts = ["Dreadful, it was; dreadfully so.", "magnificent", "it was", ("dreadful plot", "a Magnificent film")]
    assert marks_of(DeceptiveAttention(TELLING), texts[:3]) == [["Dreadful"], ["magnificent"], []]
    assert marks_of(DeceptiveAttention(TELLING), texts[3:]) == [["dreadful", "Magnificent"]]


def test_a_column_marks_the_same_tokens():
    texts = [row["text"] for row in TRAIN]
    by_word = marks_of(DeceptiveAttention(TELLING), texts)
    cells = [row["hidden"] for row in with_marks(TRAIN)]
    by_column = marks_of(DeceptiveAttention(column="hidden"), texts, cells)
    assert [[token for token in tokens if token != "."] for tokens in by_column] == by_word  # a mark is on "word."
    ranges = [None, [[texts[1].index(TELLING[1]), texts[1].index(TELLING[1]) + 3]]]
    assert marks_of(DeceptiveAttention(column="hidden", form="spans"), texts[:2], ranges) == [[], [TELLING[1]]]


@pytest.mark.parametrize(("kind", "given"), [("FLANrnn", "words"), ("HANrnn", "column")])
def test_accuracy_is_kept_while_the_mass_vanishes(kind, given):
    """A recurrent encoder carries the telling word to its neighbours, so nothing need be attended at its place."""
    objective = DeceptiveAttention(TELLING, weight=3.0) if given == "words" else DeceptiveAttention(column="hidden")
    model, tokenizer = small(kind, hidden_size=16)
    history = fit(
        model, tokenizer, with_marks(TRAIN), with_marks(HELD_OUT), epochs=8, batch_size=16, patience=None,
        learning_rate=0.05 if kind == "FLANrnn" else 0.03, objectives=[objective],
    )  # fmt: skip
    assert history.best["impermissible_mass"] < 1e-3
    assert history.best["validation_accuracy"] > 0.9
    assert accuracy(model, tokenizer, HELD_OUT) == history.best["validation_accuracy"]


def test_the_worst_head_is_reported():
    model, tokenizer = transformer("bert")
    options = {"learning_rate": 0.01, "epochs": 1, "batch_size": 16}
    objectives = [DeceptiveAttention(TELLING, over_heads="max")]
    history = fit(model, tokenizer, TRAIN, HELD_OUT, objectives=objectives, **options)
    assert history.best["impermissible_mass_of_worst_head"] > history.best["impermissible_mass"] > 0


def test_what_is_refused():
    model, tokenizer = small()
    options = {"learning_rate": 0.01, "epochs": 1}
    with pytest.raises(InputError, match="None of the words") as caught:
        fit(model, tokenizer, TRAIN, objectives=[DeceptiveAttention(["absent"])], **options)
    assert "In train" in str(caught.value)
    with pytest.raises(InputError, match="no column 'hidden'") as caught:
        fit(model, tokenizer, TRAIN, objectives=[DeceptiveAttention(column="hidden")], **options)
    assert caught.value.code == "unknown-column"
    unmarked = [row | {"hidden": None} for row in TRAIN]
    with pytest.raises(InputError, match="marks no token"):
        fit(model, tokenizer, unmarked, objectives=[DeceptiveAttention(column="hidden")], **options)
    broken = [row | {"hidden": [1, 0]} for row in TRAIN]
    with pytest.raises(InputError, match="Row 0"):
        fit(model, tokenizer, broken, objectives=[DeceptiveAttention(column="hidden")], **options)
    for arguments in ({}, {"words": ["a"], "column": "b"}):
        with pytest.raises(InputError, match="one of the two"):
            DeceptiveAttention(**arguments)
    for words in ([], "word", [3], [""]):
        with pytest.raises(InputError, match="list of words"):
            DeceptiveAttention(words)
    with pytest.raises(InputError, match="over_heads"):
        DeceptiveAttention(["a"], over_heads="sum")
