"""Whatever labels, texts, columns, folders and rankings hold, no element or attribute of the page is theirs."""

import re

import pytest

from attnfaith.evaluation.run_comparison import compare_runs
from attnfaith.report.comparison_report import comparison_page
from attnfaith.report.run_report import report_page
from tests.helpers.reading_pages import HOSTILE, Page, hidden_in


@pytest.fixture(scope="module")
def pages(hostile):
    compared = compare_runs(hostile, hostile, (HOSTILE, HOSTILE + "2"), n_resamples=20)
    return {
        "run": report_page(hostile, title=HOSTILE, introduction=[HOSTILE]),
        "comparison": comparison_page(compared, title=HOSTILE),
    }


@pytest.mark.parametrize("kind", ["run", "comparison"])
def test_no_element_or_attribute_is_theirs(kind, pages, results):
    source = pages[kind]
    page = Page(source)
    plain = (
        Page(report_page(results)).shape | Page(comparison_page(compare_runs(results, results, n_resamples=20))).shape
    )
    assert page.shape <= plain | {("details",), ("p", "class")}
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
    drawings = re.findall(r'<svg class="drawing .*?</svg>', pages["run"], flags=re.DOTALL)
    assert len(drawings) > 3
    for drawing in drawings:
        inside = drawing.partition(">")[2]
        assert not re.sub(r"<[^<>]*>", "", inside).strip()
        assert "alert" not in inside


def test_the_check_can_fail(pages, results):
    opened = pages["run"].replace("&lt;img", "<img", 1)
    assert any(tag == "img" for tag, *_ in Page(opened).shape)
    assert hidden_in("a\u202eb")
