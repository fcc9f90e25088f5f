"""Information by rank: what is drawn is what the summary says; all of it can be read; what is missing is said."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from attnfaith.errors import InputError
from attnfaith.evaluation.tests.information.plot import information as plot
from attnfaith.plots import attention_by_rank, information_figure, information_heads_figure
from tests.evaluation.tests.information.test_summary import (
    estimate,
    refused,
    summarise,
    summary_of_heads,
    table_of,
    texts,
)
from tests.helpers.reading_figures import smallest_type, texts_of, unreadable


def lines_of(axis):
    """The three lines by their colour."""
    drawn = [line for line in axis.lines if len(line.get_xdata()) > 2 or line.get_linestyle() != "-"]
    return {to_hex(line.get_color()): line.get_ydata() for line in drawn}


@pytest.fixture(scope="module")
def summary():
    return summarise(table_of(np.linspace(0.6, 0.05, 8)), texts())


def test_lines_bands_and_bars_are_those_of_the_summary(summary):
    figure = information_figure(summary)
    upper, lower = figure.axes
    by_rank = {
        name: [estimate(summary, name, str(rank))["value"] for rank in range(8)]
        for name in ("mi", "mi_corrected", "null", "mean_weight")
    }
    drawn = lines_of(upper)
    for colour, name in (("#0072b2", "mi"), ("#d55e00", "mi_corrected"), ("#5f5f5f", "null")):
        np.testing.assert_allclose(drawn[colour], by_rank[name])
    band = upper.collections[0].get_paths()[0].get_extents()
    ends = [estimate(summary, "null", str(rank)) for rank in range(8)]
    assert (band.y0, band.y1) == pytest.approx((min(e["low"] for e in ends), max(e["high"] for e in ends)))
    assert [bar.get_height() for bar in lower.patches] == pytest.approx(by_rank["mean_weight"])
    assert upper.get_xlim() == lower.get_xlim()
    shown = " ".join(texts_of(figure))
    tau = estimate(summary, "weighted_kendall_corrected")
    assert f"weighted Kendall's τ {tau['value']:.2f} [{tau['low']:.2f}, {tau['high']:.2f}] beyond chance" in shown
    assert "400 texts, 60 clusters" in shown
    assert {"as measured", "by chance", "beyond chance"} <= set(texts_of(figure))
    assert "attention rank (0 = attended most)" in shown


@pytest.mark.parametrize("ranks", [1, 2, 8, 32])
def test_everything_can_be_read(ranks, tmp_path):
    figure = information_figure(summarise(table_of(np.linspace(0.6, 0.05, ranks)), texts()), path=tmp_path / "one.png")
    assert unreadable(figure) == []
    assert smallest_type(figure) >= 6
    assert (tmp_path / "one.png").stat().st_size > 5000


@pytest.mark.parametrize("heads", [1, 3, 4, 6, 12])
def test_heads_have_a_panel_each_at_one_scale(heads):
    summary = summary_of_heads(heads)
    figure = information_heads_figure(summary)
    assert len(figure.axes) == heads
    assert [axis.get_title(loc="left") for axis in figure.axes] == [f"Head {head}" for head in range(heads)]
    assert len({axis.get_ylim() for axis in figure.axes}) == 1
    low, high = figure.axes[0].get_ylim()
    shown = summary[summary.figure.isin(["mi", "mi_corrected", "null"]) & (summary.ranking != "all")]
    assert low < shown.low.min() < shown.high.max() < high
    for head, axis in enumerate(figure.axes):
        expected = [estimate(summary, "mi", str(rank), str(head))["value"] for rank in range(6)]
        np.testing.assert_allclose(lines_of(axis)["#0072b2"], expected)
    assert unreadable(figure) == []


def test_a_single_head_can_be_drawn_by_itself():
    summary = summary_of_heads(3)
    assert plot(summary, group="2").get_title(loc="left") == "Information by attention rank: head 2"
    with pytest.raises(InputError, match="group is '7'; the summary has"):
        plot(summary, group="7")


def test_what_was_not_measured_is_noted_and_attention_is_drawn():
    figure = information_figure(summarise(refused(), texts()))
    assert "Nothing was measured:\n12 texts are too few" in texts_of(figure)
    assert len(figure.axes[1].patches) == 3
    assert unreadable(figure) == []


@pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation")  # pandas 2, where a column has no value
def test_a_reason_stands_in_the_panel_of_a_head():
    item = refused("99 texts of 14 items or more are too few: 100 are needed").assign(group="1")
    summary = summarise(
        pd.concat([table_of([0.3, 0.2, 0.1, 0.0]), table_of([0.3, 0.2, 0.1], group="0"), item]), texts()
    )
    figure = information_heads_figure(summary)
    assert unreadable(figure) == []
    assert any("are too few" in text.replace("\n", " ") for text in texts_of(figure.axes[1]))


def test_a_reason_shared_by_all_heads_is_shown_once():
    long = "99 texts of 14 items or more are too few: 100 are needed"
    all_heads = [refused(long).assign(group=str(head)) for head in range(12)]
    figure = information_heads_figure(summarise(pd.concat([refused(long), *all_heads]), texts()))
    assert texts_of(figure) == [f"Nothing to draw:\n{long}."]
    assert unreadable(figure) == []


def test_no_heads_and_no_estimates_are_noted(summary):
    assert "no heads were measured" in " ".join(texts_of(information_heads_figure(summary)))
    nothing = summarise(refused().iloc[:0], texts())
    assert "no text has an item to look at" in " ".join(texts_of(information_figure(nothing)))
    assert attention_by_rank(nothing).get_title() == ""


def test_a_table_without_the_columns_is_refused():
    with pytest.raises(InputError, match="The figure 'information' is drawn from a table with the columns"):
        plot(pd.DataFrame({"figure": ["mi"]}))
