"""Marks laid on tokens, against loops over characters."""

import re

import numpy as np
import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.text.annotations import Rationale, align_marks
from attnfaith.text.encoder import TextEncoder
from tests.helpers import tokenizers

TEXT = "A thin plot, a superb cast. I would see it again!"
WORDS = TEXT.split()
RANGES = [match.span() for match in re.finditer(r"\S+", TEXT)]
MASK = [int(word in ("thin", "plot,", "superb", "again!")) for word in WORDS]
TOKENIZERS = {
    "word pieces": tokenizers.word_piece,
    "bytes": tokenizers.byte_level,
    "words": tokenizers.words,
    "sentences": lambda: tokenizers.words(sentences=True),
}


@pytest.fixture(params=list(TOKENIZERS))
def encoded(request):
    return encode(TOKENIZERS[request.param]())


def encode(tokenizer, text=TEXT, max_length=None):
    return TextEncoder(tokenizer, torch.nn.Identity(), max_length).encode([text])[0]


def slow(encoded, characters, segment=0):
    """The tokens that hold one of some characters of the text."""
    return [
        own == segment and span is not None and any(place in characters for place in range(*span))
        for own, span in zip(encoded.segments, encoded.offsets, strict=True)
    ]


def characters_of(ranges):
    return {place for start, end in ranges for place in range(start, end)}


def refuse(*words):
    return pytest.raises(InputError, match="(?s)" + ".*".join(map(re.escape, words)))


def test_each_form_marks_what_it_says(encoded):
    ranges = [span for span, marked in zip(RANGES, MASK, strict=True) if marked]
    numbers = [place for place, marked in enumerate(MASK) if marked]
    expected = slow(encoded, characters_of(ranges))
    assert 4 <= sum(expected) < len(expected)
    for values, form in ((MASK, "mask"), (ranges, "spans"), (numbers, "words"), (numbers[::-1], "words")):
        laid = align_marks(Rationale(tuple(values), form), encoded, "x")
        assert (laid.tokens, laid.unread) == (expected, 0)
        assert (laid.spans is None) == (form != "spans")


def test_ranges_may_be_of_words(encoded):
    laid = align_marks(Rationale(((1, 3), (4, 6), (2, 2), (5, 5)), "spans"), encoded, "x", "word_spans")
    each = [slow(encoded, characters_of(RANGES[start:end])) for start, end in ((1, 3), (4, 6))]
    assert laid.spans == each
    assert laid.tokens == [one or other for one, other in zip(*each, strict=True)]
    with refuse("marks number 11", "has 11 words"):
        align_marks(Rationale(((4, 12),), "spans"), encoded, "x", "word_spans")


@pytest.mark.parametrize("seed", range(5))
def test_ranges_mark_every_token_they_touch_each_by_itself(encoded, seed):
    draw = np.random.default_rng(seed)
    ends = np.sort(draw.integers(0, len(TEXT) + 1, size=(4, 2)), axis=1)
    ranges = [tuple(map(int, pair)) for pair in ends]  # they may overlap, and be empty
    laid = align_marks(Rationale(tuple(ranges), "spans"), encoded, "x")
    assert laid.tokens == slow(encoded, characters_of(ranges))
    each = [slow(encoded, characters_of([one])) for one in ranges if one[0] < one[1]]
    assert laid.spans == [tokens for tokens in each if any(tokens)]
    assert laid.unread == sum(not any(tokens) for tokens in each)


def test_a_mask_may_be_of_all_that_scores_may_be_of(encoded):
    ordinary = [place for place, own in enumerate(encoded.segments) if own is not None]
    draw = np.random.default_rng(0)
    special = set(range(len(encoded.ids))) - set(ordinary)
    for count in {len(encoded.ids), len(ordinary)} - {len(WORDS)}:
        mask = draw.integers(0, 2, count).tolist()
        places = range(count) if count == len(encoded.ids) else ordinary
        marked = {place for place, one in zip(places, mask, strict=True) if one} - special
        laid = align_marks(Rationale(tuple(mask), "mask"), encoded, "x")
        assert laid.tokens == [place in marked for place in range(len(encoded.ids))]


def test_numbers_of_tokens_leave_special_ones_out(encoded):
    laid = align_marks(Rationale((0, 3)), encoded, "x", "tokens")
    ordinary = [place for place, own in enumerate(encoded.segments) if own is not None]
    assert [place for place, marked in enumerate(laid.tokens) if marked] == [ordinary[0], ordinary[3]]


def test_numbers_and_masks_of_sentences():
    encoded = encode(tokenizers.words(sentences=True))
    assert max(encoded.sentences) == 1
    second = {place for place, number in enumerate(encoded.sentences) if number == 1}
    ordinary = {place for place, own in enumerate(encoded.segments) if own is not None}
    for marks, form in ((Rationale((1,)), "sentences"), (Rationale((0, 1), "mask"), None)):
        laid = align_marks(marks, encoded, "x", form)
        assert {place for place, marked in enumerate(laid.tokens) if marked} == second & ordinary
    with refuse("no sentences"):
        align_marks(Rationale((1,)), encode(tokenizers.words()), "x", "sentences")


def test_special_tokens_are_never_marked():
    encoded = encode(tokenizers.word_piece())
    laid = align_marks(Rationale((1,) * len(encoded.ids), "mask"), encoded, "x")
    assert laid.tokens == [own is not None for own in encoded.segments]
    assert not all(laid.tokens)


@pytest.mark.parametrize("name", ["word pieces", "words"])
def test_what_is_cut_off_is_left_out_and_counted(name):
    cut = encode(TOKENIZERS[name](), max_length=8)
    assert cut.truncated
    seen = characters_of(span for span in cut.offsets if span is not None)
    ranges = [span for span, marked in zip(RANGES, MASK, strict=True) if marked]
    unread = sum(not characters_of([span]) & seen for span in ranges)
    assert 0 < unread < len(ranges)
    for values, form in ((MASK, "mask"), (ranges, "spans")):
        laid = align_marks(Rationale(tuple(values), form), cut, "x")
        assert (laid.tokens, laid.unread) == (slow(cut, characters_of(ranges)), unread)
        assert laid.spans is None or len(laid.spans) == len(ranges) - unread
    ordinary = sum(own is not None for own in cut.segments)
    assert align_marks(Rationale((0, ordinary)), cut, "x", "tokens").unread == 1
    with refuse("number 90 (counted from 0)"):
        align_marks(Rationale((0, 90)), cut, "x", "tokens")


def test_a_mask_of_words_is_one_though_as_many_tokens_are_read():
    """A text cut off at as many tokens as it has words."""
    whole = encode(tokenizers.word_piece())
    assert len(whole.ids) > len(WORDS)
    cut = encode(tokenizers.word_piece(), max_length=len(WORDS))
    assert len(cut.ids) == len(WORDS)
    expected = slow(cut, characters_of(span for span, marked in zip(RANGES, MASK, strict=True) if marked))
    assert align_marks(Rationale(tuple(MASK), "mask"), cut, "x").tokens == expected


def test_words_run_on_over_a_pair():
    pair = ("A man plays guitar.", "Nobody plays. It is quiet.")
    encoded = encode(tokenizers.word_piece(), pair)
    mask = [0, 1, 0, 0, 1, 0, 0, 0, 1]
    first = slow(encoded, characters_of([(2, 5)]))
    second = slow(encoded, characters_of([(0, 6), (20, 26)]), segment=1)
    expected = [one or other for one, other in zip(first, second, strict=True)]
    assert sum(second) >= 2
    assert align_marks(Rationale(tuple(mask), "mask"), encoded, "x").tokens == expected
    assert align_marks(Rationale((1, 4, 8), "words"), encoded, "x").tokens == expected
    with refuse("which text of a pair"):
        align_marks(Rationale(((2, 5),), "spans"), encoded, "x")


def test_nothing_marked_is_nothing(encoded):
    nothing = [False] * len(encoded.ids)
    for marks, form in (
        (Rationale(()), None),
        (Rationale((0,) * len(WORDS), "mask"), None),
        (Rationale((), "spans"), None),
    ):
        assert align_marks(marks, encoded, "x", form).tokens == nothing
    for form in ("spans", "words", "tokens"):
        assert align_marks(Rationale(()), encoded, "x", form).tokens == nothing


@pytest.mark.parametrize(
    ("values", "form", "words"),
    [
        ((0, 1), None, ["[0, 1] could be a mask or the numbers of words", "form='mask'"]),
        ((0, 1, 1), "mask", ["a mask of 3 for a text of", "11 by white space"]),
        ((0, 2), "mask", ["no mask of 0 and 1"]),
        ((0, 11), "words", ["number 11 (counted from 0)", "has 11 words"]),
        ((0, 0), "words", ["twice"]),
        (((0, 50),), "spans", ["ends at character 50", "has 49"]),
        (((0, 4),), "words", ["not of the form 'words'"]),
        ((0, 4), "spans", ["not of the form 'spans'"]),
        ((0, 4), "word_spans", ["not of the form 'word_spans'"]),
    ],
)
def test_marks_that_do_not_fit_their_text_are_refused(values, form, words):
    with refuse("Row 3", *words):
        align_marks(
            Rationale(values, "spans" if isinstance(values[0], tuple) else None),
            encode(tokenizers.words()),
            "Row 3",
            form,
        )
