"""Lists that show themselves: lists in all else, and what is shown is all that is in them, or says how much is not."""

import copy
import math
import pickle
import re

import pytest

import attnfaith as af
from attnfaith.attribution.explanation import Piece
from attnfaith.attribution.rendering import MOST, MOST_PIECES
from attnfaith.attribution.shown_lists import Explanations, Pieces
from tests.helpers import commands
from tests.helpers.tokenizers import TEXT, Reader, explain, words

TEXTS = ["a man plays it", "<b>it</b> plays", "a man"]


def explanations(count=3):
    return Explanations(explain(TEXTS[number % 3], words()) for number in range(count))


@pytest.mark.parametrize("shown", [explanations(), explain(TEXT).words(), explain(TEXT).sentences()])
def test_it_is_a_list_that_slices_copies_and_pickles_to_itself(shown):
    plain = list(shown)
    assert isinstance(shown, list)
    assert shown == plain
    assert plain == shown
    assert shown[0] is plain[0]
    assert shown[-1:] == plain[-1:]
    same = [shown[:], shown.copy(), copy.copy(shown), pickle.loads(pickle.dumps(shown))]
    for other in (*same, shown[:1], shown[::-1]):
        assert type(other) is type(shown)
    for other in same:
        assert other == plain
        assert repr(other) == repr(shown)
        assert other._repr_html_() == shown._repr_html_()
    assert shown[::-1] == plain[::-1]
    assert type(sorted(shown, key=repr)) is list


def test_an_attributor_returns_them(tmp_path):
    attributor = af.Attributor(str(commands.save_flan(tmp_path / "flan")))
    several = attributor(["a fine film", "dull plot"])
    assert type(several) is Explanations
    assert type(several[0].words()) is Pieces
    assert [explanation.text for explanation in several] == ["a fine film", "dull plot"]


def test_a_notebook_shows_each_text_as_it_shows_one():
    several = explanations()
    page = several._repr_html_()
    assert Reader(page).blocks == TEXTS
    assert all(one._repr_html_() in page for one in several)
    assert re.findall(r">\[(\d+)\]<", page) == ["0", "1", "2"]
    assert repr(several) == "[" + ",\n ".join(map(repr, several)) + "]"
    assert "no explanations" in Explanations()._repr_html_()
    assert repr(Explanations()) == "[]"


def test_of_many_texts_the_first_are_shown_and_the_others_counted():
    several = explanations(MOST + 5)
    assert len(Reader(several._repr_html_()).blocks) == MOST
    assert "and 5 more" in several._repr_html_()
    assert repr(several).endswith("\n... and 5 more]")
    assert "more" not in several[5:]._repr_html_() + repr(several[5:])


def test_words_are_a_table_of_rank_score_and_text():
    pieces = explain("a man plays it", words(), scores=[0.5, -1.0, math.nan, 0.75]).words()
    page = Reader(pieces._repr_html_())
    cells = page.texts[3:15]
    assert page.texts[:3] == ["rank", "score", "text"]
    assert [cells[at : at + 3] for at in range(0, 12, 3)] == [
        ["2", "+0.5", "a"],
        ["3", "-1", "man"],
        ["4", "undefined", "plays"],
        ["1", "+0.75", "it"],
    ]
    assert "orange: for good, blue: against good; explained: the log-odds of good" in page.texts[-1]
    assert "rgba(33,113,240,0.720)" in pieces._repr_html_()  # the colour of one explanation
    lines = repr(pieces).splitlines()
    assert [line.split() for line in lines][1:3] == [["0", "2", "+0.5", "a"], ["1", "3", "-1", "man"]]
    unsigned = explain("a man", words(), signed=False, scores=[0.5, 0.25]).words()
    assert "blue" not in unsigned._repr_html_()


def test_of_many_words_the_first_are_shown_and_the_others_counted():
    pieces = explain(" ".join(["man"] * (MOST_PIECES + 7)), words()).words()
    page = pieces._repr_html_()
    assert page.count("<tr") == MOST_PIECES + 1
    assert "and 7 more" in page


def test_words_made_by_hand_are_shown_as_any_list():
    pieces = Pieces([Piece("a", 1.0, 0, 1, 0)])
    assert repr(pieces) == repr(list(pieces))
    assert pieces._repr_html_() is None
