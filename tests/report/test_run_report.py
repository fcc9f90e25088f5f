"""The report of a run: one page that says what the results say, and nothing of its own."""

import re
from itertools import pairwise

import pytest

import attnfaith as af
from attnfaith.estimates.lookup import SummaryLookup, percent
from attnfaith.evaluation.verdict_rule import FEW
from attnfaith.report import run_report
from attnfaith.report.run_report import report_page
from attnfaith.report.verdict_scale import level_scales
from tests.helpers.reading_pages import Page, in_browser


@pytest.fixture(scope="module")
def source(pages):
    return pages["run"]


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


def as_shown(text):
    return " ".join(text.split())


def test_the_verdict_is_repeated_word_for_word(page, results):
    assert page.one("p", class_=f"label {results.verdict.label.split()[0]}").text == results.verdict.headline
    for sentence in results.verdict.sentences:
        assert as_shown(sentence) in page.text
    rows = [element for element in page.all("table") if element.text.startswith("Rankings, best first")]
    assert len(rows) == 1
    for row in results.verdict.rankings.rows:
        assert as_shown("".join(row)) in rows[0].text.replace(" ", " ") or all(cell in rows[0].text for cell in row)


def test_every_test_has_its_section(page, results):
    for test in results.ran:
        (section,) = page.all("section", id=f"test-{test.name}")
        assert test.question in section.text
        for kind in test.figures(results):
            assert test.reading[kind] in section.text
        for caveat in test.caveats:
            assert caveat in section.text
        assert test.citation in "".join(section.parts)
    drawings = page.drawings
    assert len(drawings) == sum(len(test.figures(results)) for test in results.ran)
    assert all(len(drawing.attributes["aria-label"]) > 40 for drawing in drawings)


def test_numbers_are_those_of_the_summary(page, results):
    figures = SummaryLookup(results.summary())
    tables = {table.text.split(" ranking ")[0]: table for table in page.all("table")}
    assert tables
    (erasure,) = page.all("section", id="test-erasure")
    for key in figures.keys("attention"):
        for figure in ("mean_fraction", "never_flipped", "efficiency"):
            assert str(figures.get("attention", figure, key)) in erasure.text
    slices = results.summary(by="class")
    rows = slices[(slices["test"] == "erasure") & (slices["figure"] == "mean_fraction")]
    rows = rows[(rows["ranking"] == "attention") & (rows["other"] == "")]
    (section,) = page.all("section", id="slices")
    assert (rows["texts"] < FEW).any()
    assert (rows["texts"] >= FEW).any()
    for row in rows.itertuples():
        removed = percent(row.value) if row.texts < FEW else percent(row.value, row.low, row.high)
        assert f"{row.texts}{removed}" in section.text
        assert row.texts >= FEW or f"{row.texts}{removed} [" not in section.text
    # in this order, as the columns below: attention stands next to the number of texts
    assert re.search(r"texts\s*\w+ removed by attention\s*\w+ removed by a random order", section.text)


def test_the_scale_is_drawn_where_the_numbers_are(page, results):
    (scale,) = level_scales(results)
    figures = SummaryLookup(results.summary())
    skill = figures.get("attention", "skill", ("attention", "attention"))
    assert scale.skill == skill
    assert scale.start == 0
    (point,) = page.all("circle", class_="point")
    assert point.attributes["cx"] == f"{100 * skill.value:.1f}%"
    (interval,) = page.all("line", class_="interval")
    assert [interval.attributes[end] for end in ("x1", "x2")] == [
        f"{100 * end:.1f}%" for end in (skill.low, skill.high)
    ]
    others = [figures.get("attention", "skill", key).value for key in figures.rivals("attention", ("attention",) * 2)]
    assert len(page.all("line", class_="other")) == len(others) > 3
    assert str(skill) in scale.message
    assert scale.label in scale.message


def test_it_loads_nothing_and_permits_only_what_it_brings(page, source):
    assert page.runs_only_its_own()
    assert not Page(source.replace("</main>", "<script>document.title = 'owned'</script></main>")).runs_only_its_own()
    assert not page.comments
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", source)


def test_ids_are_unique_and_references_lead_somewhere(page):
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(ids) == len(set(ids)) > 50
    for element in page.elements:
        for name in ("href", "clip-path", "aria-labelledby"):
            value = element.attributes.get(name, "")
            target = value.removeprefix("url(").removesuffix(")").removeprefix("#")
            if value and not value.startswith("data:"):
                assert target in ids, (element.tag, name, value)


def test_it_can_be_read_without_seeing_it(page):
    """Landmarks, headings in order, captions, heads of tables, and words for every picture."""
    assert page.one("html").attributes["lang"] == "en"
    assert len(page.all("main")) == len(page.all("header")) == len(page.all("h1")) == 1
    levels = [int(element.tag[1]) for element in page.elements if re.fullmatch("h[1-6]", element.tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(page.all("caption")) == len(page.all("table")) > 5
    assert all(head.attributes.get("scope") in ("col", "row") for head in page.all("th"))
    pictures = [element for element in page.all("svg") if "svg" not in element.parents]
    assert all(picture.attributes["role"] == "img" and picture.attributes["aria-label"] for picture in pictures)
    for section in page.all("section"):
        assert section.attributes["aria-labelledby"]


def test_where_the_page_is_empty_it_says_why(few):
    page = Page(report_page(few, title="Three <texts>"))
    assert page.one("h1").text == page.one("title").text == "Three <texts>"
    assert "There is no scale" in page.text
    assert few.verdict.headline in page.text
    assert "nan" not in page.text.lower().split()
    assert "By length of the text" in page.text
    assert "By predicted class" not in page.text
    assert "[" not in page.one("section", id="slices").text, "an interval of fewer texts than it needs"


def test_single_texts_have_a_place(results, monkeypatch):
    from types import SimpleNamespace

    from markupsafe import Markup

    given = []
    module = SimpleNamespace(section=lambda run: (given.append(run), Markup('<section id="texts">x</section>'))[1])
    monkeypatch.setattr(run_report.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(run_report.importlib, "import_module", lambda name: module)
    assert run_report.reader_section(results) == '<section id="texts">x</section>'
    assert given == [results]
    monkeypatch.setattr(run_report.importlib.util, "find_spec", lambda name: None)
    assert run_report.reader_section(results) == ""


@pytest.mark.parametrize("kind", ["run", "comparison", "hostile run"])
def test_a_browser_has_nothing_to_complain_about(kind, pages, tmp_path):
    (tmp_path / "page.html").write_text(pages[kind], encoding="utf-8")
    document, messages = in_browser(tmp_path / "page.html", tmp_path / "profile")
    assert "Attention as an explanation: " in document
    assert messages == []


def test_a_browser_obeys_the_policy(source, tmp_path):
    """The check above can fail: what the page does not bring itself is refused, and said."""
    changed = source.replace("</main>", "<script>document.title = 'owned'</script></main>")
    (tmp_path / "page.html").write_text(changed, encoding="utf-8")
    document, messages = in_browser(tmp_path / "page.html", tmp_path / "profile")
    assert "<title>owned" not in document
    assert any("Content Security Policy" in message for message in messages)


def test_the_file_is_whole_and_the_same_each_time(few, tmp_path):
    target = tmp_path / "report.html"
    target.write_text("an earlier one")
    assert few.to_html(target) == target
    assert target.read_text(encoding="utf-8") == report_page(few)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_the_run_is_not_changed(few, tmp_path):
    """A run with its report inside is loaded as before."""
    copy = af.load_results(few.save(tmp_path / "run"))
    copy.to_html(tmp_path / "run" / "report.html")
    assert str(af.load_results(tmp_path / "run")) == str(few)
