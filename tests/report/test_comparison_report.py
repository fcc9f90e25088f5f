"""The report of a comparison: both verdicts, what differs, and both figures of every test."""

from tests.helpers.reading_pages import Page


def test_both_sides_are_there(compared, pages):
    page = Page(pages["comparison"])
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
