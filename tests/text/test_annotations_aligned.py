"""Rationales aligned with tokens, against loops over characters."""

import re

import numpy as np
import pytest
import torch

from attnfaith.text.annotations import Rationale, align_rationale
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
        side == segment and span is not None and any(index in characters for index in range(*span))
        for side, span in zip(encoded.segments, encoded.offsets, strict=True)
    ]


def characters_of(ranges):
    return {index for start, end in ranges for index in range(start, end)}


def test_each_form_marks_what_it_says(encoded):
    ranges = [span for span, marked in zip(RANGES, MASK, strict=True) if marked]
    numbers = [index for index, marked in enumerate(MASK) if marked]
    expected = slow(encoded, characters_of(ranges))
    assert 4 <= sum(expected) < len(expected)
    for values, form in ((MASK, "mask"), (ranges, "spans"), (numbers, "words"), (numbers[::-1], "words")):
        marks = align_rationale(Rationale(tuple(values), form), encoded)
        assert (marks.tokens, marks.unread) == (expected, 0)
        assert (marks.spans is None) == (form != "spans")


@pytest.mark.parametrize("seed", range(5))
def test_ranges_mark_every_token_they_touch_each_by_itself(encoded, seed):
    draw = np.random.default_rng(seed)
    ends = np.sort(draw.integers(0, len(TEXT) + 1, size=(4, 2)), axis=1)
    ranges = [tuple(map(int, pair)) for pair in ends]  # they may overlap, and be empty
    marks = align_rationale(Rationale(tuple(ranges), "spans"), encoded)
    assert marks.tokens == slow(encoded, characters_of(ranges))
    each = [slow(encoded, characters_of([item])) for item in ranges if item[0] < item[1]]
    assert marks.spans == [tokens for tokens in each if any(tokens)]
    assert marks.unread == sum(not any(tokens) for tokens in each)


@pytest.mark.parametrize("name", ["word pieces", "words"])
def test_what_is_cut_off_is_left_out_and_counted(name):
    cut = encode(TOKENIZERS[name](), max_length=8)
    assert cut.truncated
    seen = characters_of(span for span in cut.offsets if span is not None)
    ranges = [span for span, marked in zip(RANGES, MASK, strict=True) if marked]
    unread = sum(not characters_of([span]) & seen for span in ranges)
    assert 0 < unread < len(ranges)
    for values, form in ((MASK, "mask"), (ranges, "spans")):
        marks = align_rationale(Rationale(tuple(values), form), cut)
        assert (marks.tokens, marks.unread) == (slow(cut, characters_of(ranges)), unread)
        assert marks.spans is None or len(marks.spans) == len(ranges) - unread


def test_a_mask_of_words_is_one_though_as_many_tokens_are_read():
    """A text cut off at as many tokens as it has words."""
    whole = encode(tokenizers.word_piece())
    assert len(whole.ids) > len(WORDS)
    cut = encode(tokenizers.word_piece(), max_length=len(WORDS))
    assert len(cut.ids) == len(WORDS)
    expected = slow(cut, characters_of(span for span, marked in zip(RANGES, MASK, strict=True) if marked))
    assert align_rationale(Rationale(tuple(MASK), "mask"), cut).tokens == expected


def test_words_run_on_over_a_pair():
    pair = ("A man plays guitar.", "Nobody plays. It is quiet.")
    encoded = encode(tokenizers.word_piece(), pair)
    mask = [0, 1, 0, 0, 1, 0, 0, 0, 1]
    first = slow(encoded, characters_of([(2, 5)]))
    second = slow(encoded, characters_of([(0, 6), (20, 26)]), segment=1)
    expected = [left or other for left, other in zip(first, second, strict=True)]
    assert sum(second) >= 2
    assert align_rationale(Rationale(tuple(mask), "mask"), encoded).tokens == expected
    assert align_rationale(Rationale((1, 4, 8), "words"), encoded).tokens == expected


def test_special_tokens_are_never_marked():
    encoded = encode(tokenizers.word_piece())
    marks = align_rationale(Rationale((1,) * len(WORDS), "mask"), encoded)
    assert marks.tokens == [segment is not None for segment in encoded.segments]
    assert not all(marks.tokens)


@pytest.mark.parametrize(("values", "form"), [((), None), ((0,) * len(WORDS), "mask"), ((), "spans"), ((), "words")])
def test_an_empty_rationale_marks_no_token(encoded, values, form):
    marks = align_rationale(Rationale(values, form), encoded)
    assert (marks.tokens, marks.unread) == ([False] * len(encoded.ids), 0)
