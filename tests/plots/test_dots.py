"""Dots: values, intervals and order are the table's; the control is marked; what is undefined is said."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from attnfaith.attribution.display_names import display_name
from attnfaith.errors import InputError
from attnfaith.plots import efficiency
from tests.helpers import made_up_tables
from tests.helpers.reading_figures import texts_of, unreadable


def dots(axis):
    """Row to value, of the dots (lines across the axes are no dots)."""
    return {int(line.get_ydata()[0]): line.get_xdata()[0] for line in axis.lines if len(line.get_xdata()) == 1}


def intervals(axis):
    result = [collection.get_segments()[0] for collection in axis.collections if isinstance(collection, LineCollection)]
    return {int(segment[0, 1]): tuple(segment[:, 0]) for segment in result}


def rows_of(table, level, figure):
    return table[(table.erase_level == level) & (table.figure == figure)]


@pytest.mark.parametrize(("level", "figure"), [("attention", "efficiency"), ("input", "mean_fraction")])
def test_values_intervals_and_order_are_those_of_the_table(level, figure):
    summary = made_up_tables.summary().sample(frac=1, random_state=1)
    axis = efficiency(summary, erase_level=level)
    expected = rows_of(summary, level, figure).sort_values("value", ascending=figure == "mean_fraction")
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert axis.get_ylim()[0] > axis.get_ylim()[1]  # the first row is on top
    for row, (name, (_, wanted)) in enumerate(zip(names, expected.iterrows(), strict=True)):
        assert name.startswith(display_name((wanted.ranking_level, wanted.ranking), short=True))
        assert dots(axis)[row] == wanted.value
        assert intervals(axis)[row] == pytest.approx((wanted.low, wanted.high))
        shown = f"{wanted.value:.2f}" if figure == "efficiency" else f"{100 * wanted.value:.0f} %"
        assert shown in texts_of(axis)
    assert axis.get_xlim() == (0, 1)


def test_titles_say_what_and_of_how_many_texts():
    summary = made_up_tables.summary()
    written = texts_of(efficiency(summary, erase_level="attention", unit="words"))
    assert "Efficiency" in written
    assert "removed from the final attention, 150 texts\nlines: intervals" in written
    assert "words of the smallest set that flips\n÷ words removed (mean; 1 = as few as can be)" in written
    written = texts_of(efficiency(summary, erase_level="input", unit="words"))
    assert "Words needed for a flip" in written
    assert "removed from the input, 150 texts\nlines: intervals; open dots: rankings of the input level" in written
    assert "words removed until the decision flips\n(mean share of the text; never = 100 %)" in written


def test_the_control_is_marked_and_its_value_goes_down_the_whole_figure():
    summary = made_up_tables.summary()
    axis = efficiency(summary, erase_level="attention")
    assert [label.get_text() for label in axis.get_yticklabels()][-1] == "random order"
    control = rows_of(summary, "attention", "efficiency").set_index("ranking").loc["random"]
    across = [line for line in axis.lines if len(line.get_xdata()) == 2]
    assert [list(line.get_xdata()) for line in across] == [[control.value] * 2]
    (band,) = axis.patches
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((control.low, control.high))
    two = [label.get_text() for label in efficiency(summary, erase_level="input").get_yticklabels()]
    assert {"random order", "random order (input)"} <= set(two)


def test_open_dots_are_of_the_input_level():
    axis = efficiency(made_up_tables.summary(), erase_level="input")
    names = [label.get_text() for label in axis.get_yticklabels()]
    for line in axis.lines:
        if len(line.get_xdata()) == 1:
            name = names[int(line.get_ydata()[0])]
            of_input = name.endswith("(input)") or name == "gradient x input"
            assert (line.get_markerfacecolor() == "white") == of_input, name


def test_undefined_goes_last_with_a_note():
    summary = made_up_tables.summary(("attention",))
    mine = (summary.figure == "efficiency") & (summary.ranking == "optimal")
    summary.loc[mine, ["value", "low", "high"]] = np.nan
    axis = efficiency(summary)
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names[-1] == "optimal order"
    assert texts_of(axis).count("undefined") == 1
    assert len(names) - 1 not in dots(axis)


def test_no_interval_where_there_is_none():
    summary = made_up_tables.summary(("attention",))
    summary.loc[summary.ranking.isin(["lrp", "random"]), ["low", "high"]] = np.nan
    axis = efficiency(summary)
    assert len(dots(axis)) == len(made_up_tables.AT_ATTENTION)
    assert len(intervals(axis)) == len(made_up_tables.AT_ATTENTION) - 2
    assert not axis.patches


def test_only_rows_of_all_texts_and_of_this_test_are_drawn():
    summary = made_up_tables.summary(("attention",))
    other = summary.assign(slice="class=1", value=0.123), summary.assign(test="agreement", value=0.123)
    for extra in other:
        mixed = made_up_tables.joined(summary, extra)
        assert dots(efficiency(mixed)) == dots(efficiency(summary))


@pytest.mark.parametrize("change", ["empty", "undefined", "one", "no random"])
def test_hard_tables(change):
    summary = made_up_tables.summary(("attention",))
    if change == "empty":
        summary = summary[:0]
    if change == "undefined":
        summary = summary.assign(value=np.nan, low=np.nan, high=np.nan)
    if change == "one":
        summary = summary[summary.ranking == "lrp"]
    if change == "no random":
        summary = summary[summary.ranking != "random"]
    axis = efficiency(summary)
    assert unreadable(axis.figure) == []
    written = texts_of(axis)
    assert ("Nothing to draw: the summary\nhas no such figure." in written) == (change == "empty")
    expected = {"empty": 0, "undefined": 0, "one": 1, "no random": len(made_up_tables.AT_ATTENTION) - 1}
    assert len(dots(axis)) == expected[change]
    assert written.count("undefined") == (len(made_up_tables.AT_ATTENTION) if change == "undefined" else 0)


def test_what_is_refused():
    with pytest.raises(InputError, match=r"efficiency draws one\. Choose it with erase_level="):
        efficiency(made_up_tables.summary())
    with pytest.raises(InputError, match="has no value"):
        efficiency(made_up_tables.summary().drop(columns="value"))
