"""Whatever labels, texts, columns, folders and rankings hold, no element or attribute of the page is theirs."""

import re

import pytest

from tests.helpers.reading_pages import Page, hidden_in


@pytest.mark.parametrize("kind", ["run", "comparison"])
def test_no_element_or_attribute_is_theirs(kind, pages):
    source = pages[f"hostile {kind}"]
    page = Page(source)
    assert page.shape <= Page(pages["run"]).shape | Page(pages["comparison"]).shape
    assert not page.comments
    assert not page.all("img")
    assert page.runs_only_its_own()
    assert not hidden_in(source)
    assert "alert(1)" in page.text, "the names are shown"
    assert "{{ 7 * 7 }}" in page.text, "and are no templates"
    assert r"\x00\x1b]0;owned\x07" in page.text
    assert page.one("title").text.startswith("</title></style></script><script>")


def test_names_in_figures_are_shapes(pages):
    """Letters of figures are drawn: no text of an SVG comes from strangers."""
    drawings = re.findall(r'<svg class="drawing .*?</svg>', pages["hostile run"], flags=re.DOTALL)
    assert len(drawings) > 3
    for drawing in drawings:
        inside = drawing.partition(">")[2]
        assert not re.sub(r"<[^<>]*>", "", inside).strip()
        assert "alert" not in inside


def test_the_check_can_fail(pages):
    opened = Page(pages["run"].replace("</main>", "<img src='#'></main>"))
    assert ("img", "src") in opened.shape - Page(pages["run"]).shape
    assert hidden_in("a\u202eb")
