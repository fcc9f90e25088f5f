"""Survival curves: what is drawn is the table, the labels are in order, and nothing is left unsaid."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from attnfaith.errors import InputError
from attnfaith.plots import survival
from attnfaith.plots.labels import labels_for
from attnfaith.plots.lettering import EndLabels
from tests.helpers import made_up_tables
from tests.helpers.reading_figures import texts_of, unreadable


def line_of(axis, label):
    return next(line for line in axis.lines if line.get_label() == label)


def end_labels(axis):
    return next(iter(axis.findobj(EndLabels))).texts


@pytest.mark.parametrize("level", ["attention", "input"])
def test_lines_and_bands_are_those_of_the_table(level):
    table = made_up_tables.curves().sample(frac=1, random_state=0)  # the order of the rows does not matter
    axis = survival(table, erase_level=level)
    rankings = table[table.erase_level == level].groupby(["ranking_level", "ranking"], sort=False)
    labels = labels_for(list(rankings.groups))
    assert len(axis.lines) == len(axis.collections) == len(labels)
    bands = dict(zip((line.get_label() for line in axis.lines), axis.collections, strict=True))
    for key, rows in rankings:
        rows = rows.sort_values("fraction")
        line = line_of(axis, labels[key])
        np.testing.assert_array_equal(line.get_xdata(), rows.fraction)
        np.testing.assert_array_equal(line.get_ydata(), rows.kept)
        assert line.get_drawstyle() == "steps-post"
        outline = bands[labels[key]].get_paths()[0].vertices
        grid = rows.fraction.to_numpy()
        for bound in ("low", "high"):  # a step holds from its point on
            for start, end, height in zip(grid[:-1], grid[1:], rows[bound], strict=False):
                for corner in ((start, height), (end, height)):
                    assert np.isclose(outline, corner, atol=1e-12).all(1).any()


def test_axes_are_whole_and_have_units():
    axis = survival(made_up_tables.curves(), erase_level="input", unit="words", texts=1500)
    assert axis.get_xlim() == axis.get_ylim() == (0, 1)
    assert axis.get_xlabel() == "words removed (share of the text)"
    assert axis.get_ylabel() == "decisions kept (share of texts)"
    written = texts_of(axis)
    assert "Removed from the input" in written
    about = "1,500 texts; shaded: intervals; dashed: rankings of the input level\nthin grey: 12 other rankings"
    assert about in written
    assert [f"{share} %" for share in (0, 25, 50, 75, 100)] == [label.get_text() for label in axis.get_xticklabels()]


def test_labels_go_down_as_the_curves_end_and_ties_as_they_fall():
    table = made_up_tables.curves(("attention",), never=0.4)
    axis = survival(table, highlight=sorted(table.ranking.unique()))
    expected = table.groupby(["ranking_level", "ranking"]).kept.agg(["last", "mean"]).sort_values(["last", "mean"])
    labels = labels_for([("attention", name) for name in table.ranking.unique()])
    assert [text.get_text() for text in end_labels(axis)] == [labels[key] for key in expected.index]
    assert unreadable(axis.figure) == []


def test_what_is_highlighted_stands_out():
    axis = survival(made_up_tables.curves(), erase_level="attention")
    colours = {line.get_label(): to_hex(line.get_color()) for line in axis.lines}
    strong = {line.get_label() for line in axis.lines if line.get_linewidth() > 1}
    assert strong == {"attention", "gradient x attention", "optimal order", "random order"}
    assert len({colours[label] for label in strong}) == 4
    assert {colours[label] for label in set(colours) - strong} == {"#a6a6a6"}
    assert {text.get_text() for text in end_labels(axis)} == strong  # labels of grey lines could not be followed
    for text in end_labels(axis):
        assert text.get_fontweight() == "bold"
        assert to_hex(text.get_color()) == colours[text.get_text()]


def test_other_rankings_can_be_highlighted():
    axis = survival(made_up_tables.curves(), erase_level="input", highlight=["lrp", "shap_values", "attention"])
    strong = {line.get_label(): to_hex(line.get_color()) for line in axis.lines if line.get_linewidth() > 1}
    assert set(strong) == {"LRP", "LRP (input)", "shap values (yours)", "attention", "attention (input)"}
    assert strong["LRP"] == strong["LRP (input)"]  # one ranking, one colour; the line tells the level
    assert len(set(strong.values())) == 3
    assert all(line.get_linewidth() < 1 for line in survival(made_up_tables.curves(("input",)), highlight=[]).lines)
    many = sorted(made_up_tables.curves(("input",)).ranking.unique())
    assert len(survival(made_up_tables.curves(("input",)), highlight=many).lines) == len(made_up_tables.AT_INPUT)


def test_line_styles_distinguish_levels_and_the_control():
    axis = survival(made_up_tables.curves(), erase_level="input")
    dashes = {line.get_label(): str(line._unscaled_dash_pattern) for line in axis.lines}
    assert dashes["gradient"] == dashes["attention"] == dashes["LRP"]
    assert dashes["gradient (input)"] == dashes["rollout (input)"] == dashes["gradient x input"]
    kinds = {dashes[label] for label in ("gradient", "gradient (input)", "shap values (yours)", "random order")}
    assert len(kinds) == 4
    assert line_of(axis, "attention (input)").get_markerfacecolor() == "white"
    assert line_of(axis, "attention").get_markerfacecolor() != "white"


def test_markers_differ_for_readers_in_grey():
    axis = survival(made_up_tables.curves(), erase_level="attention")
    strong = [line for line in axis.lines if line.get_linewidth() > 1]
    assert len({line.get_marker() for line in strong}) == 4
    for line in strong:
        assert 1 <= len(line.get_markevery()) <= 4


def test_texts_are_counted_from_the_table_if_it_knows():
    table = made_up_tables.curves(("attention",)).assign(texts=140)
    grey = "\nthin grey: 5 other rankings"
    assert f"140 texts; shaded: intervals{grey}" in texts_of(survival(table))
    table.loc[table.ranking == "lrp", "texts"] = 131
    assert f"131 to 140 texts; shaded: intervals{grey}" in texts_of(survival(table))
    assert f"9 texts; shaded: intervals{grey}" in texts_of(survival(table, texts=9))


def test_where_nothing_flips_a_note_says_so():
    table = made_up_tables.curves(("attention",))
    table[["kept", "low", "high"]] = 1.0, 0.97, 1.0
    axis = survival(table, unit="words")
    assert "No decision flips,\nwhichever words are removed." in texts_of(axis)
    assert all((line.get_ydata() == 1).all() for line in axis.lines)
    assert unreadable(axis.figure) == []
    table.loc[table.index[-1], "kept"] = 0.99
    assert not any("No decision" in text for text in texts_of(survival(table)))


def test_undefined_rankings_are_named_and_not_drawn():
    table = made_up_tables.curves(("attention",))
    table.loc[table.ranking.isin(["lrp", "greedy"]), ["kept", "low", "high"]] = np.nan
    axis = survival(table, texts=150)
    told = "150 texts; shaded: intervals\nthin grey: 3 other rankings\nundefined: LRP, greedy order"
    assert told in texts_of(axis)
    assert not {"LRP", "greedy order"} & {line.get_label() for line in axis.lines}
    table.loc[~table.ranking.isin(["random"]), "kept"] = np.nan
    assert any(
        f"undefined: {len(made_up_tables.AT_ATTENTION) - 1} rankings" in text for text in texts_of(survival(table))
    )


def test_a_curve_that_is_defined_in_part_is_drawn_in_part():
    table = made_up_tables.curves(("attention",))
    lrp = table.ranking == "lrp"
    table.loc[lrp & (table.fraction > 0.5), ["kept", "low", "high"]] = np.nan
    axis = survival(table, highlight=["lrp"])
    assert np.isnan(line_of(axis, "LRP").get_ydata()[-1])
    assert "LRP" in [text.get_text() for text in end_labels(axis)]


@pytest.mark.parametrize(
    "table", [made_up_tables.curves(("attention",))[:0], made_up_tables.curves(("attention",)).assign(kept=np.nan)]
)
def test_an_empty_figure_says_so(table):
    axis = survival(table)
    assert not axis.lines
    assert "No curve to draw: no ranking\nhas a defined value here." in texts_of(axis)
    assert unreadable(axis.figure) == []


def test_one_ranking_on_two_points():
    rows = [("attention", "attention", "lrp", share, 1 - share, 0.0, 1.0) for share in (0.0, 1.0)]
    columns = ["erase_level", "ranking_level", "ranking", "fraction", "kept", "low", "high"]
    axis = survival(pd.DataFrame(rows, columns=columns))
    assert len(axis.lines) == 1
    assert unreadable(axis.figure) == []


def test_what_is_refused():
    table = made_up_tables.curves()
    with pytest.raises(InputError, match=r"survival draws one\. Choose it with erase_level="):
        survival(table)
    with pytest.raises(InputError, match=r"has no kept, low"):
        survival(table.drop(columns=["kept", "low"]))
    with pytest.raises(InputError, match=r"highlight names \['lpr'\]; the rankings here are \['attention'"):
        survival(table, erase_level="input", highlight=["lpr"])
    with pytest.raises(InputError, match=r"give a list of names, as \['lrp'\]"):
        survival(table, erase_level="input", highlight="lrp")
