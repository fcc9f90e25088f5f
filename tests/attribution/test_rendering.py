"""Explanations drawn: HTML that is safe and says what is explained, a line, a figure, captum's record."""

import math
import re
from html import unescape

import pytest

import attnfaith as af
from tests.helpers.tokenizers import PAIR, TEXT, Reader, explain, word_piece, words


@pytest.mark.parametrize(
    "text", [TEXT, PAIR, "שלום עולם", "x</div><script>alert(1)</script>", "a\n\n  b 👍🏽", '" onload="x']
)
@pytest.mark.parametrize("make", [word_piece, lambda: af.models.WordTokenizer.train(["a x"], min_count=1)])
@pytest.mark.parametrize("max_length", [None, 6])
def test_html_holds_the_original_text_and_nothing_of_it_as_markup(text, make, max_length):
    hostile = '<img src=x onerror="y">'
    explanation = explain(text, make(), max_length=max_length, prediction=hostile, method=hostile, note=hostile)
    reader = Reader(explanation._repr_html_())
    assert reader.blocks == ([text] if isinstance(text, str) else list(text))
    assert reader.tags <= {"div", "span", "b", "br", "s"}


def test_html_says_what_is_explained():
    html = explain(PAIR, max_length=12, target="bad", target_probability=0.2, gap=0.01)._repr_html_()
    plain = unescape(re.sub(r"<[^>]*>", " ", html))
    message = "predicted good (probability 0.750), explained bad (probability 0.200)"
    message += "|explained: the log-odds of bad (probability 0.200), by LRP at the input level"
    message += "|First text|Second text|[BOS]|against bad|for bad|sub-words: sum"
    message += "|tokens were cut off: the limit is 12|completeness gap +0.01"
    for part in message.split("|"):
        assert part in re.sub(r"\s+", " ", plain), part
    assert 'title="not read"' in html
    assert 'title="not read"' not in explain(PAIR)._repr_html_()


def test_colours_follow_the_sign_and_the_size():
    html = explain("a man plays it", words(), scores=[1.0, -1.0, 0.5, math.nan])._repr_html_()
    shown = dict(re.findall(r'<span title="([^"]*)" style="([^"]*)">\w', html))
    assert "rgba(230,97,1,0.720)" in shown["+1"]
    assert "rgba(33,113,240,0.720)" in shown["-1"]
    assert "box-shadow" in shown["-1"]  # told without colour, too
    assert "rgba(230,97,1,0.360)" in shown["+0.5"]
    assert "dotted" in shown["undefined"]
    zeros = explain("a man", words(), scores=[0.0, 0.0])._repr_html_()
    assert "nan" not in zeros


def test_in_a_terminal_it_is_one_short_line():
    shown = repr(explain(TEXT + " And so on." * 50))
    assert "\n" not in shown
    assert len(shown) < 250
    assert "predicted good (probability 0.750)" in shown
    other = repr(explain("a man", words(), target="bad", target_probability=0.2))
    assert "predicted good (probability 0.750), explained bad (probability 0.200);" in other


VALUE = {"prediction": "2.371", "target": "<stars>", "probability": None, "target_probability": None}


def test_a_regression_is_drawn_with_its_value():
    explanation = explain("a man", words(), **VALUE)
    assert "predicted <stars> = 2.371; LRP" in repr(explanation)
    html = explanation._repr_html_()
    assert "<b>predicted &lt;stars&gt; = 2.371</b>" in html
    for part in ("lowers &lt;stars&gt;", "raises &lt;stars&gt;", "explained: the value of &lt;stars&gt;"):
        assert part in html
    assert not any(part in html for part in ("probability", "against", "log-odds"))
    record = explanation.visualization_record()
    assert (record.pred_class, record.attr_class) == ("2.371", "&lt;stars&gt;")  # captum escapes nothing
    assert math.isnan(record.pred_prob)


def test_a_figure():
    explanation = explain(TEXT, words())
    figure = explanation.plot()
    assert figure._repr_png_().startswith(b"\x89PNG"), "a notebook shows it"
    [axis] = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == [piece.text for piece in explanation.words()]
    assert [bar.get_width() for bar in axis.patches] == [piece.score for piece in explanation.words()]
    few = figure.subfigures(1, 2)[1].add_subplot()
    assert explanation.plot(ax=few, top=3) is figure
    largest = sorted((piece.score for piece in explanation.words()), key=abs)[-3:]
    assert {bar.get_width() for bar in few.patches} == set(largest)
    assert "3 largest" in few.get_xlabel()


def test_a_figure_leaves_nothing_in_pyplot():
    plt = pytest.importorskip("matplotlib.pyplot")
    opened = plt.get_fignums()
    explain(TEXT, words()).plot()
    assert plt.get_fignums() == opened


def test_captum_can_draw_it():
    record = explain("<b> man", words(), scores=[1.0, -2.0, 0.5, math.nan], gap=0.1).visualization_record()
    from captum.attr import visualization

    html = visualization.format_word_importances(record.raw_input_ids, record.word_attributions)
    assert "&lt;" in html
    assert record.word_attributions.tolist() == [0.5, -1.0, 0.25, 0.0]
    assert (record.pred_class, record.pred_prob, record.convergence_score) == ("good", 0.75, 0.1)
    other = explain("a man", words(), target="bad", target_probability=0.2).visualization_record()
    assert (other.pred_class, other.pred_prob, other.attr_class) == ("good", 0.75, "bad")
