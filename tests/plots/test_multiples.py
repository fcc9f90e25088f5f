"""Few rankings stand in one axes, many have a panel each: no line is mistaken for another, or hides one."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from attnfaith.errors import InputError
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots import erasure_figure, survival
from attnfaith.plots.curves import survival_chart
from attnfaith.plots.line_charts import SAME, TOGETHER
from attnfaith.plots.style import COLUMN, PAGE
from tests.helpers import made_up_tables
from tests.helpers.reading_figures import contrast, luminance, smallest_type, texts_of, unreadable

TABLE = made_up_tables.curves(("attention",))
NAMES = [name for _, name in made_up_tables.AT_ATTENTION]
FEW = NAMES[:TOGETHER]


def of(names, table=TABLE):
    return table[table.ranking.isin(names)]


def alike(first, second, *, by=0.0, table=TABLE):
    """The table with the first ranking's curve where the second's was, or by a little above it."""
    table = table.copy()
    for column in ("kept", "low", "high"):
        values = table.loc[table.ranking == first, column].to_numpy()
        table.loc[table.ranking == second, column] = values + by
    return table


def said(axis):
    """The line under the name of a panel."""
    return axis.texts[0].get_text()


@pytest.mark.parametrize("count", [TOGETHER, TOGETHER + 1])
def test_few_share_one_axes_and_more_have_one_each(count):
    figure = erasure_figure(of(NAMES[:count]))
    assert len(figure.axes) == (1 if count == TOGETHER else count)
    assert figure.get_size_inches()[0] == pytest.approx(COLUMN)
    assert unreadable(figure) == []
    assert len(erasure_figure(of(NAMES[:count]), highlight=["lrp"] if "lrp" in NAMES[:count] else []).axes) == 1


def test_lines_in_one_axes_differ_in_colour_and_without_it():
    axis = survival(of(FEW))
    assert len(axis.lines) == len(FEW)
    assert len({to_hex(line.get_color()) for line in axis.lines}) == len(FEW)
    assert len({(line.get_marker(), line.get_linestyle()) for line in axis.lines}) == len(FEW)
    assert all(contrast(_rgb(line.get_color()), (1, 1, 1)) > 1.8 for line in axis.lines)


def test_lines_that_coincide_are_told_and_both_show():
    axis = survival(alike("gradient", "integrated_gradients", table=of(FEW)))
    labels = [text.get_text() for text in axis.texts]
    lower = next(label for label in labels if label.startswith("= "))
    assert lower.removeprefix("= ") in ("gradient", "integrated gradients")
    pair = {line.get_label(): line for line in axis.lines if line.get_label() in ("gradient", "integrated gradients")}
    below = pair.pop(lower.removeprefix("= "))
    (above,) = pair.values()
    assert below.get_linewidth() > above.get_linewidth() + 1
    assert below.get_zorder() < above.get_zorder()
    assert any("=: the same line as the one above" in text for text in texts_of(axis))
    assert not any("=" in text for text in texts_of(survival(of(FEW))))


@pytest.mark.parametrize(("by", "same"), [(0.0, True), (0.9 * SAME, True), (1.1 * SAME, False)])
def test_lines_coincide_where_they_are_nowhere_farther_apart_than_a_line_is_thick(by, same):
    table = alike("gradient", "lrp", by=by)
    chart = survival_chart(table)
    lines = {line.key[1]: line for line in chart.lines}
    assert chart.coincide(lines["gradient"], lines["lrp"]) is same
    farthest = np.abs(lines["gradient"].value - lines["lrp"].value).max()
    assert bool(farthest <= SAME) is same
    table.loc[(table.ranking == "lrp") & (table.fraction > 0.5), "kept"] = np.nan
    holed = {line.key[1]: line for line in survival_chart(table).lines}
    assert not chart.coincide(holed["gradient"], holed["lrp"])


def test_grey_lines_under_another_are_counted():
    told = "\n".join(texts_of(survival(alike("attention", "occlusion"))))
    assert "thin grey: 5 other rankings (1 under a coloured line)" in told
    assert "under" not in "\n".join(texts_of(survival(TABLE)))


def test_panels_stand_in_order_and_each_shows_its_own_line_in_front():
    figure = erasure_figure(TABLE)
    means = TABLE.groupby("ranking").kept.mean().sort_values()
    assert len(figure.axes) == len(NAMES)
    for axis, name in zip(figure.axes, means.index, strict=True):
        rows = TABLE[TABLE.ranking == name]
        own = max(axis.lines, key=lambda line: line.get_linewidth())
        np.testing.assert_array_equal(own.get_ydata(), rows.kept)
        assert own.get_zorder() == max(line.get_zorder() for line in axis.lines)
        (behind,) = (item for item in axis.collections if isinstance(item, LineCollection))
        references = {"attention", "random"} - {name}
        assert len(behind.get_segments()) == len(NAMES) - 1 - len(references)
        heights = {tuple(segment[::2, 1]) for segment in behind.get_segments()}
        assert heights == {
            tuple(rows.kept) for other, rows in TABLE.groupby("ranking") if other not in {name, *references}
        }
        assert len(axis.lines) == 1 + len(references)


def test_every_panel_has_attention_and_the_random_order_of_its_level():
    table = made_up_tables.curves(("input",))
    figure = erasure_figure(table)
    curves = {key: rows.kept.to_numpy() for key, rows in table.groupby(["ranking_level", "ranking"])}
    for axis in figure.axes:
        for key in (("attention", "attention"), ("input", "random")):
            assert any(
                np.array_equal(line.get_ydata(), curves[key])
                or np.array_equal(line.get_ydata()[1::2], curves[key][:-1])
                for line in axis.lines
            ), key


def test_a_panel_says_which_lines_coincide_with_its_own():
    figure = erasure_figure(alike("attention", "occlusion", table=alike("gradient", "lrp")))
    by_name = {axis.get_title(loc="left").split(" ", 1)[1]: axis for axis in figure.axes}
    ranks = {
        axis.get_title(loc="left").split(" ", 1)[1]: axis.get_title(loc="left").split(" ")[0] for axis in figure.axes
    }
    assert said(by_name["occlusion"]) == "= attention"
    assert said(by_name["attention"]) == f"= {ranks['occlusion']}"
    assert said(by_name["gradient"]) == f"= {ranks['LRP']}"
    assert said(by_name["optimal order"]) == ""
    assert any("=: the line coincides" in text for text in texts_of(figure))
    assert not any("=:" in text for text in texts_of(erasure_figure(TABLE)))


def test_where_all_lines_are_one_it_is_said_and_can_be_read():
    table = TABLE.copy()
    table[["kept", "low", "high"]] = 1.0, 0.97, 1.0
    figure = erasure_figure(table)
    assert {said(axis) for axis in figure.axes} == {f"= {len(NAMES) - 1} others"}
    assert any("No decision flips, whichever tokens are removed." in text for text in texts_of(figure))
    assert unreadable(figure) == []


def test_in_grey_the_own_line_the_references_and_the_others_differ():
    axis = erasure_figure(TABLE).axes[0]
    own, attention, control = sorted(axis.lines, key=lambda line: -line.get_zorder())
    (behind,) = (item for item in axis.collections if isinstance(item, LineCollection))
    assert own.get_linewidth() > attention.get_linewidth() > behind.get_linewidth()[0]
    lines = {(line.get_marker(), line.get_linestyle()) for line in (attention, control)}
    assert len(lines) == 2  # one has markers, the other is dotted
    assert ("o", "-") in lines
    assert luminance(behind.get_colors()[0]) > 0.6 > luminance(_rgb(own.get_color()))


def test_what_is_undefined_has_no_panel_and_is_named():
    table = TABLE.copy()
    table.loc[table.ranking == "lrp", ["kept", "low", "high"]] = np.nan
    figure = erasure_figure(table)
    assert len(figure.axes) == len(NAMES) - 1
    assert any("undefined: LRP" in text for text in texts_of(figure))


@pytest.mark.parametrize("levels", [("attention",), ("attention", "input")])
def test_long_and_odd_names_can_be_read(levels):
    names = {name: f"{'very_' * 9}{name}_$x^{{$\n" for name in {name for _, name in made_up_tables.AT_INPUT}}
    table = made_up_tables.curves(levels).replace({"ranking": names})
    figure = erasure_figure(table)
    assert unreadable(figure) == []
    assert smallest_type(figure) >= 5
    assert figure.get_size_inches()[0] == pytest.approx(COLUMN if len(levels) == 1 else PAGE)


def test_axes_of_the_caller_hold_one_panel_only():
    axis = PaperFigure.of_width(3, 3).add_subplot()
    assert erasure_figure(of(FEW), axis=axis) is axis.figure
    assert len(axis.lines) == len(FEW)
    part = PaperFigure.of_width(6, 3).subfigures(1, 2)[1]
    assert erasure_figure(of(FEW), axis=part.add_subplot()) is part.figure
    with pytest.raises(InputError, match=r"has 9 panels, and axes of yours hold one.*attnfaith\.plots\.survival"):
        erasure_figure(TABLE, axis=axis)
    with pytest.raises(InputError, match=r"Expected axes of matplotlib, such as .* got <PaperFigure"):
        erasure_figure(of(FEW), axis=axis.figure)
    with pytest.raises(InputError, match="belong to a figure of yours: save that one, and leave out path"):
        erasure_figure(of(FEW), axis=axis, path="figure.png")


def _rgb(colour):
    return tuple(int(to_hex(colour)[start : start + 2], 16) / 255 for start in (1, 3, 5))
