"""What people marked: the form of cells and columns, and marks laid on tokens, against loops over characters."""

import json
import math
import re

import numpy as np
import pytest
import torch

from attnfaith.attribution.texts import Texts
from attnfaith.errors import InputError
from attnfaith.evaluation.marks import Marks, MarksColumn, lay, marks_of
from tests.attribution import made

TEXT = "A thin plot, a superb cast. I would see it again!"
WORDS = TEXT.split()
RANGES = [match.span() for match in re.finditer(r"\S+", TEXT)]
MASK = [int(word in ("thin", "plot,", "superb", "again!")) for word in WORDS]
TOKENIZERS = {
    "word pieces": made.word_piece,
    "bytes": made.byte_level,
    "words": made.words,
    "sentences": lambda: made.words(sentences=True),
}


@pytest.fixture(params=list(TOKENIZERS))
def encoded(request):
    return encode(TOKENIZERS[request.param]())


def encode(tokenizer, text=TEXT, max_length=None):
    return Texts(tokenizer, torch.nn.Identity(), max_length).encode([text])[0]


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


# cells


@pytest.mark.parametrize(
    ("cell", "values", "form"),
    [
        ([0, 0, 1], (0, 0, 1), "mask"),
        ([1.0, 1.0], (1, 1), "mask"),
        ([True, False], (1, 0), "mask"),
        (np.array([0, 1, 1]), (0, 1, 1), "mask"),
        (torch.tensor([0, 1, 1]), (0, 1, 1), "mask"),
        ("[0, 1, 1]", (0, 1, 1), "mask"),
        ([0, 1], (0, 1), None),
        ([1], (1,), None),
        ([], (), None),
        ([2], (2,), "words"),
        ([5, 0, 3], (5, 0, 3), "words"),
        ([[0, 4], [6, 9]], ((0, 4), (6, 9)), "spans"),
        ([(0, 4)], ((0, 4),), "spans"),
        (np.array([[0, 4], [6, 9]]), ((0, 4), (6, 9)), "spans"),
        (np.array([np.array([0, 4]), np.array([6, 9])], dtype=object), ((0, 4), (6, 9)), "spans"),
        ("[[3, 3]]", ((3, 3),), "spans"),
    ],
)
def test_the_form_of_a_cell(cell, values, form):
    assert marks_of(cell, 0, "mine") == Marks(values, form)


@pytest.mark.parametrize("cell", [None, math.nan])
def test_a_cell_with_nothing_in_it(cell):
    assert marks_of(cell, 0, "mine") is None


NUMBERS = [[0.5, 0], [-1], [math.nan], [None, 1], ["a"], ["1"], [3, 3], [0, 0, 2]]
PAIRS = [[[1]], [[1, 2, 3]], [[4, 2]], [[1, 2], 3], [3, [1, 2]], [[-1, 2]], [[0.5, 2]], [[["a"]]]]


@pytest.mark.parametrize("cell", [3, "a fine film", "", '["thin"]', {"start": 1}, *NUMBERS, *PAIRS])
def test_a_cell_that_is_no_rationale_is_named(cell):
    with refuse("Row 7", "'mine'", "0 or 1 for each word"):
        marks_of(cell, 7, "mine")


def test_a_column_tells_what_a_cell_does_not():
    column = MarksColumn("mine", enumerate([None, [0, 1], [1], [], [4, 0], [0]]))
    assert column.form == "words"
    assert column([0, 1], 1) == Marks((0, 1), "words")
    assert column(None, 0) is None
    assert MarksColumn("mine", enumerate([[0, 1], [1], []]))([1], 1) == Marks((1,), None)


def test_a_column_of_two_forms_is_refused_with_the_rows():
    with refuse("'mine' mixes forms", "mask in row 1", "words in row 3"):
        MarksColumn("mine", enumerate([[1], [0, 0], [0], [4]]))
    column = MarksColumn("mine", [(0, [0, 0])])  # of a stream, only the first rows are looked at
    with refuse("mask in row 0", "spans in row 2000"):
        column([[0, 3]], 2000)


# on tokens


def test_each_form_marks_what_it_says(encoded):
    ranges = [span for span, marked in zip(RANGES, MASK, strict=True) if marked]
    numbers = [place for place, marked in enumerate(MASK) if marked]
    expected = slow(encoded, characters_of(ranges))
    assert 4 <= sum(expected) < len(expected)
    for values, form in ((MASK, "mask"), (ranges, "spans"), (numbers, "words"), (numbers[::-1], "words")):
        laid = lay(Marks(tuple(values), form), encoded, "x")
        assert (laid.tokens, laid.unread) == (expected, 0)
        assert (laid.spans is None) == (form != "spans")


@pytest.mark.parametrize("seed", range(5))
def test_ranges_mark_every_token_they_touch_each_by_itself(encoded, seed):
    draw = np.random.default_rng(seed)
    ends = np.sort(draw.integers(0, len(TEXT) + 1, size=(4, 2)), axis=1)
    ranges = [tuple(map(int, pair)) for pair in ends]  # they may overlap, and be empty
    laid = lay(Marks(tuple(ranges), "spans"), encoded, "x")
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
        laid = lay(Marks(tuple(mask), "mask"), encoded, "x")
        assert laid.tokens == [place in marked for place in range(len(encoded.ids))]


def test_numbers_of_tokens_leave_special_ones_out(encoded):
    laid = lay(Marks((0, 3)), encoded, "x", "tokens")
    ordinary = [place for place, own in enumerate(encoded.segments) if own is not None]
    assert [place for place, marked in enumerate(laid.tokens) if marked] == [ordinary[0], ordinary[3]]


def test_numbers_and_masks_of_sentences():
    encoded = encode(made.words(sentences=True))
    assert max(encoded.sentences) == 1
    second = {place for place, number in enumerate(encoded.sentences) if number == 1}
    ordinary = {place for place, own in enumerate(encoded.segments) if own is not None}
    for marks, form in ((Marks((1,)), "sentences"), (Marks((0, 1), "mask"), None)):
        laid = lay(marks, encoded, "x", form)
        assert {place for place, marked in enumerate(laid.tokens) if marked} == second & ordinary
    with refuse("no sentences"):
        lay(Marks((1,)), encode(made.words()), "x", "sentences")


def test_special_tokens_are_never_marked():
    encoded = encode(made.word_piece())
    laid = lay(Marks((1,) * len(encoded.ids), "mask"), encoded, "x")
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
        laid = lay(Marks(tuple(values), form), cut, "x")
        assert (laid.tokens, laid.unread) == (slow(cut, characters_of(ranges)), unread)
        assert laid.spans is None or len(laid.spans) == len(ranges) - unread
    ordinary = sum(own is not None for own in cut.segments)
    assert lay(Marks((0, ordinary)), cut, "x", "tokens").unread == 1
    with refuse("number 90 (counted from 0)"):
        lay(Marks((0, 90)), cut, "x", "tokens")


def test_a_mask_of_words_is_one_though_as_many_tokens_are_read():
    """A text cut off at as many tokens as it has words."""
    whole = encode(made.word_piece())
    assert len(whole.ids) > len(WORDS)
    cut = encode(made.word_piece(), max_length=len(WORDS))
    assert len(cut.ids) == len(WORDS)
    expected = slow(cut, characters_of(span for span, marked in zip(RANGES, MASK, strict=True) if marked))
    assert lay(Marks(tuple(MASK), "mask"), cut, "x").tokens == expected


def test_words_run_on_over_a_pair():
    pair = ("A man plays guitar.", "Nobody plays. It is quiet.")
    encoded = encode(made.word_piece(), pair)
    mask = [0, 1, 0, 0, 1, 0, 0, 0, 1]
    first = slow(encoded, characters_of([(2, 5)]))
    second = slow(encoded, characters_of([(0, 6), (20, 26)]), segment=1)
    expected = [one or other for one, other in zip(first, second, strict=True)]
    assert sum(second) >= 2
    assert lay(Marks(tuple(mask), "mask"), encoded, "x").tokens == expected
    assert lay(Marks((1, 4, 8), "words"), encoded, "x").tokens == expected
    with refuse("which text of a pair"):
        lay(Marks(((2, 5),), "spans"), encoded, "x")


def test_nothing_marked_is_nothing(encoded):
    nothing = [False] * len(encoded.ids)
    for marks, form in ((Marks(()), None), (Marks((0,) * len(WORDS), "mask"), None), (Marks((), "spans"), None)):
        assert lay(marks, encoded, "x", form).tokens == nothing
    for form in ("spans", "words", "tokens"):
        assert lay(Marks(()), encoded, "x", form).tokens == nothing


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
    ],
)
def test_marks_that_do_not_fit_their_text_are_refused(values, form, words):
    with refuse("Row 3", *words):
        lay(Marks(values, "spans" if isinstance(values[0], tuple) else None), encode(made.words()), "Row 3", form)


def test_a_cell_of_json_is_as_the_list():
    for cell in (MASK, RANGES, [1, 4, 8]):
        assert marks_of(json.dumps(cell), 0, "mine") == marks_of(cell, 0, "mine")
