"""Figures inside a page: nothing of them is lost, and nothing else comes in."""

import io
import re
import warnings
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from attnfaith.paper_figure import PaperFigure
from attnfaith.report.inline_svg import inline_svg


def make():
    figure = PaperFigure.of_width(3.5, 2.6)
    axis = figure.add_subplot()
    axis.plot(
        [0, 1, 2], [0, 1, 0], "--", color="#0072B2", alpha=0.5, marker="o", label="</svg><script>alert(1)</script>"
    )
    axis.imshow(np.arange(4.0).reshape(2, 2))
    axis.set_title("<b> & \x1b $x^2$ --> 電影", parse_math=False)  # no font of matplotlib's has the last two
    axis.legend()
    return figure


@pytest.fixture
def figure():
    return make()


def test_it_is_what_matplotlib_drew(figure):
    """The same shapes with the same style, in the same order; only text, comments and metadata are gone."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "a"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure.savefig(buffer, format="svg")
    shapes = ("circle", "image", "line", "path", "polygon", "rect", "use")

    def drawn(text):
        result = []
        for element in ElementTree.fromstring(text).iter():
            tag = str(element.tag).rpartition("}")[2]
            if tag in shapes:
                style = dict(part.split(":", 1) for part in element.get("style", "").split(";") if ":" in part)
                given = {**element.attrib, **{name.strip(): value.strip() for name, value in style.items()}}
                result.append((tag, *(given.get(name, "") for name in ("fill", "stroke", "stroke-width", "opacity"))))
        return result

    mine = inline_svg(figure, "a", "A message.")
    assert drawn(mine) == drawn(buffer.getvalue().replace(b"\x1b", b"")) != []
    assert "A message." in mine
    assert not set(re.findall(r"<(\w+)", mine)) - {"svg", "g", "defs", "clipPath", *shapes}
    assert "script" not in mine
    assert "style" not in mine


def test_two_figures_share_no_id(figure):
    first, second = (set(re.findall(r' id="([^"]+)"', inline_svg(figure, name, "A message."))) for name in ("a", "b"))
    assert first
    assert not first & second
    assert inline_svg(make(), "a", "A message.") == inline_svg(make(), "a", "A message."), "made the same twice"


def test_the_message_is_escaped(figure):
    drawn = inline_svg(figure, "a", 'Say "no" <b>\x1b')
    assert 'aria-label="Say &quot;no&quot; &lt;b&gt;\\x1b"' in drawn
