"""Figures as files: what cannot be written is refused before anything is drawn, text is text, and bytes repeat."""

import os
import re
from xml.etree import ElementTree

import pytest

from attnfaith import plots
from attnfaith.errors import InputError, StorageError
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.files import FORMATS
from tests.helpers import made_up_tables

CURVES, SUMMARY = made_up_tables.curves(("attention",)), made_up_tables.summary(("attention",))


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_figure_is_the_same_file_and_drawing_leaves_nothing_beside_it(kind, tmp_path):
    for name in "ab":
        plots.erasure_figure(CURVES, SUMMARY, path=tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    assert sorted(os.listdir(tmp_path)) == [f"a.{kind}", f"b.{kind}"]


def test_text_is_text(tmp_path):
    for draw, tables in ((plots.erasure_figure, (CURVES, SUMMARY)), (plots.efficiency_figure, (SUMMARY,))):
        draw(*tables, path=tmp_path / "figure.svg")
        page = (tmp_path / "figure.svg").read_text(encoding="utf-8")
        assert "gradient x" in " ".join(ElementTree.fromstring(page).itertext())
        assert "<dc:date>" not in page
        draw(*tables, path=tmp_path / "figure.PDF")
        page = (tmp_path / "figure.PDF").read_bytes()
        assert b"/Subtype /Type3" not in page  # type 42: text that can be searched and edited
        assert re.search(rb"/CreationDate|/ModDate", page) is None


def test_figures_refuse_a_path_before_they_draw(tmp_path, monkeypatch):
    def drawn(*_):
        raise AssertionError("something was drawn")

    monkeypatch.setattr(PaperFigure, "of_width", drawn)
    (tmp_path / "folder.png").mkdir()
    wrong = {
        "figure.jpg": r"Expected path to end in \.png, \.svg or \.pdf; got 'figure\.jpg'",
        tmp_path / "figure": r"Expected path to end in \.png",
        tmp_path / "no" / "figure.png": r"There is no folder '.*no' to write the figure to",
        tmp_path / "folder.png": r"is a folder\. Give the path of a file",
        b"figure.png": "Expected path to be a path",
    }
    draws = {
        plots.erasure_figure: (CURVES,),
        plots.efficiency_figure: (SUMMARY,),
        plots.wins_figure: (SUMMARY,),
        plots.agreement_figure: (SUMMARY,),
        plots.information_figure: (SUMMARY,),
        plots.information_heads_figure: (SUMMARY,),
        plots.plausibility_figure: (SUMMARY,),
        plots.rationales_figure: (SUMMARY,),
        plots.sanity_figure: (SUMMARY,),
        plots.single_weight_figure: (made_up_tables.single_weight(3),),
    }
    for path, said in wrong.items():
        for draw, tables in draws.items():
            with pytest.raises(InputError, match=said):
                draw(*tables, path=path)
    assert os.listdir(tmp_path) == ["folder.png"]


def test_a_folder_that_nobody_may_write_to_is_refused(tmp_path, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr("attnfaith.plots.files.probe", refuse)  # the tests may run as root, who may write anywhere
    with pytest.raises(StorageError, match=r"cannot be written to '.*figure\.png': Permission denied\. Give"):
        plots.efficiency_figure(SUMMARY, path=tmp_path / "figure.png")
