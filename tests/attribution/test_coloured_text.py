"""The coloured pieces of a text: nothing of the text is lost, and pages and terminals show the same pieces."""

import math
import re

import pytest

from attnfaith.attribution.coloured_text import coloured_pieces, explained, format_score, headline, meanings
from attnfaith.cli.explanation_view import highlighted, table
from tests.helpers.tokenizers import PAIR, TEXT, explain, word_piece, words


def cut_at_the_start():
    tokenizer = word_piece()
    tokenizer.truncation_side = "left"
    return tokenizer


@pytest.mark.parametrize("text", [TEXT, PAIR, "  a man\n\n plays ", "👍🏽 x"])
@pytest.mark.parametrize("make", [word_piece, words, cut_at_the_start])
@pytest.mark.parametrize("max_length", [None, 6])
def test_the_pieces_are_the_text(text, make, max_length):
    explanation = explain(text, make(), max_length=max_length)
    pieces = explanation.words()
    originals = [text] if isinstance(text, str) else list(text)
    for original, parts in zip(originals, coloured_pieces(explanation, pieces), strict=True):
        assert "".join(part.text for part in parts) == original
    shown = [part for parts in coloured_pieces(explanation, pieces) for part in parts if part.score is not None]
    assert [part.score for part in shown] == [piece.score for piece in pieces]


@pytest.mark.parametrize("make", [word_piece, cut_at_the_start])
def test_what_was_cut_off_is_struck_out_on_a_page_and_in_a_terminal(make):
    explanation = explain("a man plays it and a dog sleeps", make(), max_length=5)
    (parts,) = coloured_pieces(explanation, explanation.words())
    unread = [part.text for part in parts if part.unread]
    assert len(unread) == 1
    assert re.findall(r'title="not read">([^<]*)<', explanation._repr_html_()) == unread
    line = highlighted(explanation, explanation.words(), ("+", "-"))[0]
    assert [line.plain[span.start : span.end] for span in line.spans if "strike" in str(span.style)] == unread


def test_a_page_a_terminal_and_a_line_say_the_same():
    explanation = explain("a man", words(), scores=[0.123456, -1.0], target="bad", target_probability=0.2)
    assert headline(explanation) == "predicted good (probability 0.750), explained bad (probability 0.200)"
    assert explained(explanation) == "the log-odds of bad (probability 0.200), by LRP at the input level"
    terminal = "\n".join(table(explanation, explanation.words()))
    assert headline(explanation) in explanation._repr_html_()
    assert headline(explanation) in repr(explanation)
    for words_of_both in (explained(explanation), "+0.1235"):
        assert words_of_both in terminal
        assert words_of_both in explanation._repr_html_()


def test_what_the_colours_mean():
    assert meanings(explain("a man", words())) == ("for good", "against good")
    assert meanings(explain("a man", words(), probability=None)) == ("raises good", "lowers good")
    unsigned = explain("a man", words(), signed=False)
    assert meanings(unsigned) == ("more important", "less important")
    assert [format_score(unsigned, score) for score in (0.5, math.nan)] == ["0.5", "undefined"]
