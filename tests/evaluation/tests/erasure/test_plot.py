"""Whole figures: a panel for each level or ranking, comparable scales, the right number of texts, files."""

import numpy as np
import pytest

from attnfaith.errors import InputError
from attnfaith.estimates.lookup import percent
from attnfaith.plots import efficiency_figure, erasure_figure, single_weight_figure, wins_figure
from tests.helpers import made_up_tables
from tests.helpers.reading_figures import texts_of

CURVES, SUMMARY = made_up_tables.curves(), made_up_tables.summary()


def titles(figure):
    return [axis.get_title(loc="left") for axis in figure.axes]


def test_a_panel_for_each_level():
    figure = erasure_figure(CURVES, SUMMARY, "words", highlight=["attention"])
    assert titles(figure) == ["Removed from the final attention", "Removed from the input"]
    assert [len(axis.lines) for axis in figure.axes] == [len(made_up_tables.AT_ATTENTION), len(made_up_tables.AT_INPUT)]
    assert all(axis.get_xlabel().startswith("words removed") for axis in figure.axes)
    assert titles(efficiency_figure(SUMMARY, "words")) == ["Efficiency", "Words needed for a flip"]
    assert titles(wins_figure(SUMMARY))[:2] == ["Who flips first"] * 2
    few = CURVES[CURVES.ranking.isin(["attention", "lrp"]) & (CURVES.erase_level == "input")]
    assert titles(erasure_figure(few, SUMMARY)) == ["Removed from the input"]


def test_each_of_many_rankings_has_a_panel_with_its_mean():
    figure = erasure_figure(CURVES, SUMMARY, "words")
    assert len(figure.axes) == len(made_up_tables.AT_ATTENTION) + len(made_up_tables.AT_INPUT)
    written = texts_of(figure)
    assert "8 attention" in written
    rows = SUMMARY[(SUMMARY.figure == "mean_fraction") & (SUMMARY.erase_level == "attention")]
    assert titles(figure)[7] == "8 attention"
    assert rows.set_index("ranking").value.rank()["attention"] == 8
    assert percent(rows.set_index("ranking").value["attention"]) in texts_of(figure.axes[7])


def test_each_level_has_its_own_unit():
    units = {"attention": "pooled", "input": "words"}
    labels = [axis.get_xlabel() for axis in erasure_figure(CURVES, unit=units, highlight=[]).axes]
    assert [label.split(" removed")[0] for label in labels] == ["pooled items", "words"]
    labels = [axis.get_xlabel() for axis in efficiency_figure(SUMMARY, unit=units).axes]
    assert labels[0].startswith("pooled items of the smallest set")
    assert labels[1].startswith("words removed until")
    named = erasure_figure(CURVES, unit={"input": "words"}, highlight=[])
    assert named.axes[0].get_xlabel().startswith("items removed")


def test_one_panel_is_a_column_wide_two_are_a_page():
    assert erasure_figure(CURVES).get_size_inches()[0] == pytest.approx(7.1)
    assert erasure_figure(made_up_tables.curves(("input",))).get_size_inches()[0] == pytest.approx(3.5)


def test_texts_are_those_the_ranking_was_run_on():
    summary = SUMMARY.copy()
    summary.loc[summary.erase_level == "input", "texts"] = 140
    too_short = summary.iloc[:1].assign(ranking="", ranking_level="", figure="too_short", texts=999)
    left_out = summary[summary.figure == "mean_fraction"].assign(figure="never_flipped")
    summary.loc[summary.figure == "mean_fraction", "texts"] = 77
    written = "\n".join(texts_of(erasure_figure(CURVES, made_up_tables.joined(summary, too_short, left_out))))
    assert "150 texts; shaded: intervals" in written
    assert "140 texts; shaded: intervals" in written
    assert "77 texts; shaded: intervals" in "\n".join(texts_of(erasure_figure(CURVES, summary)))
    assert "texts; shaded" not in "\n".join(texts_of(erasure_figure(CURVES)))


def test_a_ranking_of_one_level_can_be_highlighted():
    figure = erasure_figure(CURVES, highlight=["optimal"])
    strong = [[line.get_label() for line in axis.lines if line.get_linewidth() > 1] for axis in figure.axes]
    assert strong == [["optimal order"], []]
    with pytest.raises(InputError, match="highlight names"):
        erasure_figure(CURVES, highlight=["optimum"])


def test_single_weights_share_their_scale():
    table = made_up_tables.single_weight()
    figure = single_weight_figure(table)
    upper, lower = figure.axes[::2], figure.axes[1::2]
    assert len(upper) == len(lower) == 3
    assert len({(*axis.get_xlim(), *axis.get_ylim()) for axis in upper}) == 1
    assert [title.split("\n")[0] for title in titles(figure)[::2]] == ["attention", "gradient", "gradient x attention"]
    assert all(title.endswith("negative") for title in titles(figure)[::2])
    assert titles(figure)[1::2] == ["attention: flips", "gradient: flips", "gradient x attention: flips"]
    shown = sum(len(group.get_offsets()) for axis in upper for group in axis.collections)
    assert shown == len(table)


def test_more_rankings_than_fit_beside_each_other_have_small_panels():
    names = ("attention", "gradient", "gradient_x_attention", "lrp", "occlusion")
    table = made_up_tables.single_weight(50, rankings=names)
    table.loc[table.ranking == "lrp", "delta_js"] = 0.1
    table.loc[table.ranking == "lrp", ["top_flips", "drawn_flips"]] = True, False
    table.loc[table.ranking == "occlusion", "delta_js"] = np.nan
    figure = single_weight_figure(table)
    assert len(figure.axes) == 5
    assert titles(figure)[0] == "LRP"
    assert "0 % negative\nflips: 100 %, 0 %, 0 %" in texts_of(figure.axes[0])
    assert titles(figure)[-1] == "occlusion"
    assert any(text.startswith("undefined\n") for text in texts_of(figure.axes[-1]))
    assert len({(*axis.get_xlim(), *axis.get_ylim()) for axis in figure.axes[:4]}) == 1
    item = single_weight_figure(made_up_tables.single_weight(50, rankings=("attention",)))
    assert item.get_size_inches()[0] == pytest.approx(3.5)
    assert titles(item)[0].startswith("attention: ")


@pytest.mark.parametrize(
    ("draw", "table"),
    [
        (erasure_figure, CURVES[:0]),
        (efficiency_figure, SUMMARY[:0]),
        (wins_figure, SUMMARY[:0]),
        (single_weight_figure, made_up_tables.single_weight(1)[:0]),
    ],
)
def test_an_empty_figure_says_so(draw, table):
    (written,) = texts_of(draw(table))
    assert written.startswith("Nothing to draw")


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_a_figure_is_written_to_the_given_path(tmp_path, kind):
    path = tmp_path / f"figure.{kind}"
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    draws = {
        erasure_figure: (CURVES, SUMMARY),
        efficiency_figure: (SUMMARY,),
        wins_figure: (SUMMARY,),
        single_weight_figure: (made_up_tables.single_weight(3000),),
    }
    for draw, tables in draws.items():
        draw(*tables, path=path)
        assert path.read_bytes().startswith(starts[kind])
        if kind != "png":
            assert b"<image" not in path.read_bytes(), "lines, not pixels"
            assert b"/Subtype /Image" not in path.read_bytes()


def test_tables_without_the_columns_are_refused():
    for draw in (erasure_figure, efficiency_figure, wins_figure, single_weight_figure):
        with pytest.raises(InputError, match="This one has no"):
            draw(made_up_tables.curves()[["fraction"]])
    with pytest.raises(InputError, match="'erasure'"):
        erasure_figure(CURVES, SUMMARY[["figure"]])


def test_undefined_everywhere():
    undefined = CURVES.assign(kept=np.nan, low=np.nan, high=np.nan)
    assert texts_of(erasure_figure(undefined)).count("No curve to draw: no ranking\nhas a defined value here.") == 2
