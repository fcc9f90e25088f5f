"""A user's scores, aligned with tokens."""

import math

import numpy as np
import pytest
import torch

import attnfaith as af
from attnfaith.attribution.method import YOURS
from attnfaith.errors import InputError
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.text.annotations import UNSCORED, align_scores
from attnfaith.text.encoded import EncodedText
from tests.helpers.removal_batches import batch_of, table

NAN = math.nan


def encoded(truncated=0):
    """``[CLS] un ##happy , so - so [SEP]``: the tokenizer sees five words, white space two."""
    text = "unhappy, so-so" + (" and more of it" if truncated else "")
    offsets = (None, (0, 2), (2, 7), (7, 8), (9, 11), (11, 12), (12, 14), None)
    tokens = ("[CLS]", "un", "happy", ",", "so", "-", "so", "[SEP]")
    segments = (None, 0, 0, 0, 0, 0, 0, None)
    words = (None, 0, 0, 1, 2, 3, 4, None)
    return EncodedText(text, None, tuple(range(8)), {}, tokens, offsets, segments, words, truncated=truncated)


def pair():
    """``[CLS] a fine [SEP] dull [SEP]``, of the texts "a fine" and "dull"."""
    offsets = (None, (0, 1), (2, 6), None, (0, 4), None)
    tokens = ("[CLS]", "a", "fine", "[SEP]", "dull", "[SEP]")
    return EncodedText(
        "a fine",
        "dull",
        tuple(range(6)),
        {},
        tokens,
        offsets,
        (None, 0, 0, None, 1, None),
        (None, 0, 1, None, 2, None),
    )


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_one_for_every_token(kind):
    values = [0.5, 1.0, -2.0, 3.0, 0.0, 0.25, 7.0, -1.0]
    assert align_scores(kind(values), encoded(), "x") == values


def test_one_for_every_ordinary_token():
    assert align_scores([1, 2, 3, 4, 5, 6], encoded(), "x") == [UNSCORED, 1, 2, 3, 4, 5, 6, UNSCORED]


def test_one_for_every_word_of_the_tokenizer():
    assert align_scores([1, 2, 3, 4, 5], encoded(), "x") == [UNSCORED, 1, 1, 2, 3, 4, 5, UNSCORED]


def test_one_for_every_word_between_spaces():
    assert align_scores([1, 2], encoded(), "x") == [UNSCORED, 1, 1, 1, 2, 2, 2, UNSCORED]


def test_a_pair_runs_on():
    assert align_scores([1, 2, 3], pair(), "x") == [UNSCORED, 1, 2, UNSCORED, 3, UNSCORED]
    assert align_scores([1, 2, 3, 4, 5, 6], pair(), "x") == [1, 2, 3, 4, 5, 6]


def test_words_between_spaces_run_on_over_a_pair():
    """ "so-so" and "a dull-ish plot": four words between spaces, of which the tokenizer makes eight."""
    spans = ((0, 2), (2, 3), (3, 5)), ((0, 1), (2, 6), (6, 7), (7, 10), (11, 15))
    offsets = (None, *spans[0], None, *spans[1], None)
    segments = (None, 0, 0, 0, None, 1, 1, 1, 1, 1, None)
    words = (None, 0, 1, 2, None, 3, 4, 5, 6, 7, None)
    both = EncodedText("so-so", "a dull-ish plot", tuple(range(11)), {}, ("x",) * 11, offsets, segments, words)
    assert align_scores([1, 2, 3, 4], both, "x") == [UNSCORED, 1, 1, 1, UNSCORED, 2, 3, 3, 3, 4, UNSCORED]


def test_tokens_without_a_score_go_last():
    assert math.isinf(UNSCORED)
    assert UNSCORED < 0


def test_what_the_model_does_not_read_of_a_long_text_is_left_out():
    assert align_scores([1, 2, 3, 4, 5, 6], encoded(3), "x") == [UNSCORED, 1, 2, 3, 4, 5, 6, UNSCORED]  # as many tokens
    long = EncodedText("a b c d e", None, (1, 2), {}, ("a", "b"), ((0, 1), (2, 3)), (0, 0), (0, 1), truncated=3)
    assert align_scores([5, 4, 3, 2, 1], long, "x") == [5, 4]
    short = EncodedText("a b c d e", None, (1, 2), {}, ("a", "b"), ((0, 1), (2, 3)), (0, 0), (0, 1))
    with pytest.raises(InputError, match="got 5 scores"):
        align_scores([5, 4, 3, 2, 1], short, "x")


def test_undefined_stays_undefined():
    assert np.isnan(align_scores([None, NAN], encoded(), "x")[1:7]).all()
    assert align_scores([None, 2], encoded(), "x")[4:7] == [2, 2, 2]
    assert align_scores([math.inf, 2], encoded(), "x")[1] == math.inf


def test_sentences_count_where_they_are_the_items():
    assert align_scores([1, 2, 3], encoded(), "x", sentences=3) == [1, 2, 3]
    with pytest.raises(InputError, match="got 3 scores"):
        align_scores([1, 2, 3], encoded(), "x")


@pytest.mark.parametrize("wrong", ["words", 3.0, ["a", "b"], [[1, 2], [3, 4]], {"un": 2.0}])
def test_what_is_no_list_of_numbers(wrong):
    with pytest.raises(InputError, match=r"^Row 3: expected a list of numbers"):
        align_scores(wrong, encoded(), "Row 3")


@pytest.mark.parametrize("count", [0, 1, 4, 7, 9, 100])
def test_a_wrong_number_of_scores_names_what_would_do(count):
    expected = (
        rf"^Row 3: got {count} scores for a text of 8 tokens, 6 of them not special, 5 words \(2 by white space\)"
    )
    with pytest.raises(InputError, match=expected):
        align_scores([0.0] * count, encoded(), "Row 3")


def text_of(length, number=0):
    """Words "w0 w1 ...", one token each."""
    words = [f"w{index}" for index in range(length)]
    starts = [sum(len(word) + 1 for word in words[:index]) for index in range(length)]
    offsets = tuple((start, start + len(word)) for start, word in zip(starts, words, strict=True))
    ids = tuple(range(10 * number, 10 * number + length))
    return EncodedText(" ".join(words), None, ids, {}, tuple(words), offsets, (0,) * length, tuple(range(length)))


@pytest.mark.parametrize("family", ["bert", "FLANrnn"])
def test_a_column_and_a_function_are_judged_like_any_other_ranking(family):
    """The attention itself, brought by hand, does what attention does, at both levels; padding is nobody's score."""
    lengths = (6, 4, 5)
    plain = batch_of(family, lengths=lengths)
    if family == "FLANrnn":  # the first of the made-up ids is no word
        lengths = tuple(plain.request.tokens.sum(1).tolist())
    brought = plain.token_weights.tolist()
    texts = [text_of(length, number) for number, length in enumerate(lengths)]
    column = [{"weights": tuple(line[:length])} for line, length in zip(brought, lengths, strict=True)]
    yours = (
        Ranking("by_column", YOURS, "weights"),
        Ranking("by_function", YOURS, lambda text: brought[text.ids[0] // 10][: len(text.ids)]),
    )
    rankings = {
        "attention": (Ranking("attention", "attention"), *yours),
        "input": (Ranking("attention", "input"), *yours),
    }
    rows = table(Erasure().run(batch_of(family, lengths=(6, 4, 5), encoded=texts, scores=column, rankings=rankings)))
    compared = 0
    for (text, level, name, erased), row in rows.items():
        if level == YOURS:
            same = rows[text, erased, "attention", erased]
            for key in ("items", "removed", "new_label", "censored", "ties", "undefined", "marginal"):
                assert row[key] == same[key], (text, name, erased, key)
            compared += not row["censored"]
    assert compared >= 4


def test_texts_that_nobody_explained_are_undefined_and_counted():
    lengths = (6, 4)
    texts = [text_of(6), text_of(4, 1)]
    mine = Ranking("mine", YOURS, "mine")
    scores = [{"mine": (1.0, NAN, 3.0, NAN, 0.0, 2.0)}, {}]
    batch = batch_of("bert", lengths=lengths, encoded=texts, scores=scores, rankings={"attention": (mine,)})
    rows = table(Erasure().run(batch))
    assert [rows[text, YOURS, "mine", "attention"]["undefined"] for text in (0, 1)] == [2, 4]
    assert [rows[text, YOURS, "mine", "attention"]["ties"] for text in (0, 1)] == [0, 0]
    order = sorted(range(6), key=lambda item: (math.isnan(scores[0]["mine"][item]), -scores[0]["mine"][item]))
    keep = batch.capture.mask.clone()
    for step, item in enumerate((2, 5, 0, 4, 1, 3), start=1):
        keep[0, item] = False
        if int(batch.config.cut.rerun(batch.capture, keep=keep.unsqueeze(1))[0, 0].argmax()) != int(
            batch.logits[0].argmax()
        ):
            assert rows[0, YOURS, "mine", "attention"]["removed"] == step
            break
    else:
        assert rows[0, YOURS, "mine", "attention"]["censored"]
    assert set(order) == set(range(6))


def test_an_error_names_the_row_and_the_explanation():
    texts = [text_of(6), text_of(4, 1)]
    rankings = {"attention": (Ranking("mine", YOURS, lambda text: [0.0] * 6),)}
    with pytest.raises(InputError, match="Row 17, explanation 'mine': got 6 scores for a text of 4 tokens"):
        Erasure().run(batch_of("bert", lengths=(6, 4), encoded=texts, numbers=[3, 17], rankings=rankings))


def test_sentences_of_a_han_take_scores_of_their_own():
    """As many scores as sentences are scores of sentences."""
    plain = batch_of("HANrnn", lengths=(12, 9))
    counts, tokens = plain.capture.lengths.tolist(), plain.request.tokens.sum(1).tolist()
    assert all(count >= 2 for count in counts)
    texts = [text_of(length, number) for number, length in enumerate(tokens)]
    scores = [{"mine": tuple(plain.capture.weights[text, 0, :count].tolist())} for text, count in enumerate(counts)]
    rankings = {"attention": (Ranking("attention", "attention"), Ranking("mine", YOURS, "mine"))}
    rows = table(Erasure().run(batch_of("HANrnn", lengths=(12, 9), encoded=texts, scores=scores, rankings=rankings)))
    for text in range(2):
        mine, same = (rows[text, *key, "attention"] for key in ((YOURS, "mine"), ("attention", "attention")))
        assert (mine["removed"], mine["censored"]) == (same["removed"], same["censored"])


def test_an_explanation_through_the_evaluator():
    """A column of scores for words, a function, and what is not explained, in one run."""
    words = ["a fine film", "a dull plot and more", "fine fine acting", "a dull film"] * 4
    tokenizer = af.models.WordTokenizer.train(words, min_count=1)
    model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer)
    rows = [{"text": text, "people": [float(len(word)) for word in text.split()]} for text in words]
    rows[3]["people"] = None
    results = af.Evaluator(model, tokenizer).compute(
        rows,
        rankings=["attention"],
        tests=["erasure"],
        explanations={"people": "people", "longest": lambda text: [float(len(token)) for token in text.tokens]},
        n_resamples=20,
        quiet=True,
    )
    result = results.table("erasure")
    assert set(result.ranking) == {"random", "attention", "people", "longest"}
    by = result.set_index(["text_id", "ranking"])
    for number in range(len(words)):
        people, longest = (by.loc[(number, name)] for name in ("people", "longest"))
        if number == 3:
            assert people.undefined == 3
        else:
            assert people.undefined == 0
            assert people.removed is longest.removed or people.removed == longest.removed
