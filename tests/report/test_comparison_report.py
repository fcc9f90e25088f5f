"""The report of a comparison: both verdicts, what differs, and both figures of every test."""

import pytest

from attnfaith.evaluation.run_comparison import compare_runs
from attnfaith.report.comparison_report import comparison_page
from tests.helpers import small_runs
from tests.helpers.reading_pages import Page, in_browser


@pytest.fixture(scope="module")
def compared(results):
    evaluator, _ = small_runs.evaluator_of("multiclass")
    other = small_runs.computed(evaluator, small_runs.ROWS, "erasure", "single_weight", seed=1)
    return compare_runs(results, other, ("one", "two"), n_resamples=50)


def test_both_sides_are_there(compared, tmp_path):
    source = comparison_page(compared)
    page = Page(source)
    assert page.one("h1").text == "one and two compared"
    for results in (compared.first, compared.second):
        for sentence in results.verdict.parts[""]:
            assert " ".join(sentence.split()) in page.text
    for sentence in compared.sentences:
        assert " ".join(sentence.split()) in page.text
    for row in compared.rows:
        assert all(cell in page.text for cell in row)
    names = {name for name, _, _ in compared.settings}
    assert "seed" in names
    assert all(name in page.text for name in names)
    drawn = {element.attributes["aria-label"].split(".")[0] for element in page.drawings}
    assert len(drawn) == sum(len(test.figures(compared.first)) for test in compared.first.ran)
    assert "This test was not run here." in page.text
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    (tmp_path / "page.html").write_text(source, encoding="utf-8")
    _, messages = in_browser(tmp_path / "page.html", tmp_path / "profile")
    assert messages == []
