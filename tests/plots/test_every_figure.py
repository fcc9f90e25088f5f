"""Of every figure: all texts can be read, at a column's width too; the tables and pyplot are as they were."""

import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest

from attnfaith import plots
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.style import COLUMN
from tests.helpers import made_up_tables
from tests.helpers.reading_figures import smallest_type, unreadable

LONG = {
    "lrp": "scores_of_the_second_annotator_after_adjudication",
    "gradient": "scores_of_the_second_annotator_before_adjudication",
    "occlusion": "cost: $5 or \\frac$",
}


def renamed(table):
    """The same with names that are long, or would be formulas."""
    table = table.replace({"ranking": LONG})
    if "other" in table:
        table["other"] = table["other"].replace(
            {f"{level}/{old}": f"{level}/{new}" for level in ("attention", "input") for old, new in LONG.items()}
        )
    return table


CURVES, SUMMARY, WEIGHTS = made_up_tables.curves(), made_up_tables.summary(), made_up_tables.single_weight()
PANELS = {
    "survival at the attention": lambda axis: plots.survival(CURVES, axis, erase_level="attention", texts=150),
    "survival at the input": lambda axis: plots.survival(CURVES, axis, erase_level="input", texts=150),
    "survival, long names": lambda axis: plots.survival(renamed(CURVES), axis, erase_level="attention"),
    "survival, few flips": lambda axis: plots.survival(made_up_tables.curves(("attention",), never=0.6), axis),
    "survival, one": lambda axis: plots.survival(CURVES[CURVES.ranking == "optimal"], axis),
    "efficiency at the attention": lambda axis: plots.efficiency(SUMMARY, axis, erase_level="attention"),
    "efficiency at the input": lambda axis: plots.efficiency(SUMMARY, axis, erase_level="input"),
    "efficiency, long names": lambda axis: plots.efficiency(renamed(SUMMARY), axis, erase_level="attention"),
    "wins at the attention": lambda axis: plots.wins(SUMMARY, axis, erase_level="attention"),
    "wins at the input": lambda axis: plots.wins(SUMMARY, axis, erase_level="input"),
    "wins, long names": lambda axis: plots.wins(renamed(SUMMARY), axis, erase_level="attention"),
    "single weight": lambda axis: plots.single_weight(WEIGHTS, axis, ranking="gradient_x_attention"),
    "single weight, many": lambda axis: plots.single_weight(
        made_up_tables.single_weight(5000), axis, ranking="gradient"
    ),
    "single weight, one text": lambda axis: plots.single_weight(
        made_up_tables.single_weight(1), axis, ranking="gradient"
    ),
    "flips": lambda axis: plots.flips_table(WEIGHTS, axis, ranking="attention"),
    "flips, long name": lambda axis: plots.flips_table(renamed(made_up_tables.single_weight(rankings=("lrp",))), axis),
}
FIGURES = {
    "erasure": lambda: plots.erasure_figure(CURVES, SUMMARY),
    "erasure, long names": lambda: plots.erasure_figure(renamed(CURVES), renamed(SUMMARY)),
    "efficiency": lambda: plots.efficiency_figure(SUMMARY),
    "wins": lambda: plots.wins_figure(SUMMARY),
    "single weight": lambda: plots.single_weight_figure(WEIGHTS),
    "single weight, many": lambda: plots.single_weight_figure(made_up_tables.single_weight(5000)),
    "single weight, four": lambda: plots.single_weight_figure(
        renamed(made_up_tables.single_weight(rankings=("a", "lrp", "gradient", "occlusion")))
    ),
}


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_of_a_column_can_be_read(name):
    figure = PANELS[name](None).figure
    assert figure.get_size_inches()[0] == pytest.approx(COLUMN)
    assert unreadable(figure) == []
    assert smallest_type(figure) >= 5


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_can_be_read(name):
    figure = FIGURES[name]()
    assert unreadable(figure) == []
    assert smallest_type(figure) >= 5


def test_what_cannot_be_read_is_found():
    figure = PaperFigure.of_width(2, 2)
    for index in (0.2, 0.25):
        figure.text(0.2, index, "one over the other")
    figure.text(0.9, 0.8, "over the edge")
    assert [result.split(":")[0] for result in unreadable(figure)] == ["cut off", "overlap"]


@pytest.mark.parametrize("name", PANELS)
def test_panels_draw_on_the_axes_they_are_given(name):
    figure = PaperFigure.of_width(5, 4)
    axis = figure.add_subplot()
    assert PANELS[name](axis) is axis
    figure.draw_without_rendering()


@pytest.mark.parametrize("name", PANELS)
def test_every_panel_is_new(name):
    assert PANELS[name](None).figure is not PANELS[name](None).figure


def test_tables_are_left_alone():
    tables = [CURVES, SUMMARY, WEIGHTS]
    before = [table.copy(deep=True) for table in tables]
    for draw in FIGURES.values():
        draw()
    for table, copy in zip(tables, before, strict=True):
        pd.testing.assert_frame_equal(table, copy)


def test_settings_are_left_alone_and_obeyed():
    before = dict(matplotlib.rcParams)
    for name, draw in PANELS.items():
        draw(None).figure.draw_without_rendering()
        assert dict(matplotlib.rcParams) == before, name
    with matplotlib.rc_context({"font.family": "serif"}):
        axis = PANELS["flips"](None)
        assert {text.get_fontfamily()[0] for text in axis.texts} == {"serif"}


def test_pyplot_is_neither_used_nor_imported():
    program = """
import sys
from attnfaith import plots
from tests.helpers import made_up_tables as made
summary = made.summary(("input",))
plots.erasure_figure(made.curves(("input",)), summary)._repr_png_()
plots.wins_figure(summary)._repr_png_()
plots.efficiency_figure(summary)._repr_png_()
plots.single_weight_figure(made.single_weight(3000))._repr_png_()
print("matplotlib.pyplot" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"


def test_on_axes_of_pyplot_nothing_is_opened_or_closed():
    plt = pytest.importorskip("matplotlib.pyplot")
    opened, axis = plt.subplots(figsize=(4, 3))
    try:
        before = plt.get_fignums(), plt.gcf(), plt.gca()
        for draw in PANELS.values():
            draw(None)
        for draw in FIGURES.values():
            draw()
        assert (plt.get_fignums(), plt.gcf(), plt.gca()) == before
        assert plots.survival(CURVES, axis, erase_level="attention") is axis
    finally:
        plt.close(opened)


def test_a_notebook_shows_it():
    assert plots.erasure_figure(CURVES)._repr_png_().startswith(b"\x89PNG")


def test_drawing_twice_gives_the_same_picture():
    figure = FIGURES["erasure"]()
    assert figure._repr_png_() == figure._repr_png_()
    sizes = []
    for _ in range(2):
        figure.draw_without_rendering()
        sizes.append([axis.get_window_extent().bounds for axis in figure.axes])
    np.testing.assert_allclose(sizes[0], sizes[1])


def test_the_names_are_those_of_the_package():
    assert sorted(plots.__all__) == sorted(set(plots.__all__))
    assert all(callable(getattr(plots, name)) for name in plots.__all__)
