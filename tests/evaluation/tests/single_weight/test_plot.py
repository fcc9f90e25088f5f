"""Single weights: every point is drawn and those below zero stand out; the four shares are those of the table."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

from attnfaith.errors import InputError
from attnfaith.evaluation.tests.single_weight.plot import POINTS, _share
from attnfaith.plots import flips_table, single_weight
from tests.helpers import made_up_tables
from tests.helpers.reading_figures import texts_of, unreadable


def groups(axis):
    return {group.get_label(): group for group in axis.collections}


def quarters(axis):
    """What is written into the cells, from the top left one, by rows."""
    notes = [note for note in axis.texts if note.xycoords == "data"]
    result = {note.xy: (note.get_text(), count.get_text()) for note, count in zip(notes[::2], notes[1::2], strict=True)}
    (left, right), (bottom, top) = axis.get_xticks(), axis.get_yticks()[::-1]
    assert axis.yaxis.get_inverted()
    return [result[index] for index in ((left, top), (right, top), (left, bottom), (right, bottom))]


def test_points_are_those_of_the_table_and_the_negative_ones_stand_out():
    table = made_up_tables.single_weight()
    rows = table[table.ranking == "gradient"]
    axis = single_weight(table, ranking="gradient")
    for label, chosen in (("negative", rows[rows.delta_js < 0]), ("0 or more", rows[rows.delta_js >= 0])):
        np.testing.assert_array_equal(groups(axis)[label].get_offsets(), chosen[["delta_attention", "delta_js"]])
    assert to_hex(groups(axis)["negative"].get_facecolor()[0]) == "#d55e00"
    assert to_hex(groups(axis)["0 or more"].get_facecolor()[0]) == "#0072b2"
    shapes = [group.get_paths()[0].vertices.shape for group in groups(axis).values()]
    assert shapes[0] != shapes[1], "told apart in grey by their shape"
    negative = int((rows.delta_js < 0).sum())
    assert axis.get_title(loc="left") == f"gradient: {100 * negative / 400:.0f} % negative"
    assert f"{negative} of 400 texts" in texts_of(axis)
    assert axis.get_xlabel() == "attention weight: top − random"
    assert axis.get_ylabel() == "JS divergence: top − random (nats)"


def test_zero_is_not_negative():
    table = pd.DataFrame({"ranking": "lrp", "delta_js": [0.0, 0.0, -1e-9], "delta_attention": 0.1})
    axis = single_weight(table)
    assert len(groups(axis)["negative"].get_offsets()) == 1
    assert axis.get_title(loc="left") == "LRP: 33 % negative"


@pytest.mark.parametrize("texts", [1, 2, 400, 3000])
def test_everything_is_within_the_axes_and_so_is_zero(texts):
    table = made_up_tables.single_weight(texts, rankings=("a", "gradient"))
    for name, rows in table.groupby("ranking"):
        axis = single_weight(table, ranking=name)
        (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
        assert left < min(rows.delta_attention.min(), 0) <= max(rows.delta_attention.max(), 0) < right
        assert bottom < min(rows.delta_js.min(), 0) <= max(rows.delta_js.max(), 0) < top


def test_many_points_are_counted_and_none_is_lost():
    table = made_up_tables.single_weight(20000, rankings=("attention",))
    axis = single_weight(table)
    hexagons = [group for group in axis.collections if isinstance(group, PolyCollection)]
    assert [group.get_label() for group in hexagons] == ["0 or more", "negative"]
    negative = int((table.delta_js < 0).sum())
    assert [int(np.sum(group.get_array())) for group in hexagons] == [20000 - negative, negative]
    assert hexagons[0].norm.vmax == hexagons[1].norm.vmax == max(np.max(group.get_array()) for group in hexagons)
    most = int(hexagons[0].norm.vmax)
    assert any(text.endswith(f"darker: more of them (1 to {most} in a cell)") for text in texts_of(axis))
    for group, (low, high) in zip(hexagons, ((0, axis.get_ylim()[1]), (axis.get_ylim()[0], 0)), strict=True):
        shown = group.clipbox if group.get_clip_path() is None else group.get_clip_path().get_fully_transformed_path()
        box = axis.transData.inverted().transform_bbox(getattr(shown, "get_extents", lambda shown=shown: shown)())
        assert (box.y0, box.y1) == pytest.approx((low, high))
    assert unreadable(axis.figure) == []


def test_few_points_are_not_counted():
    table = made_up_tables.single_weight(POINTS, rankings=("attention",))
    assert sum(len(group.get_offsets()) for group in single_weight(table).collections) == POINTS


def test_many_points_none_of_them_negative():
    table = made_up_tables.single_weight(POINTS + 1, rankings=("attention",)).assign(delta_js=0.25)
    axis = single_weight(table)
    assert [group.get_label() for group in axis.collections] == ["0 or more"]
    assert axis.get_title(loc="left") == "attention: 0 % negative"


def test_limits_can_be_given():
    for texts in (10, POINTS + 1):
        axis = single_weight(made_up_tables.single_weight(texts), ranking="attention", limits=(-1.0, 2.0, -0.5, 0.7))
        assert (*axis.get_xlim(), *axis.get_ylim()) == (-1.0, 2.0, -0.5, 0.7)


def test_undefined_differences_are_counted():
    table = made_up_tables.single_weight(10, rankings=("attention",))
    table.loc[:1, "delta_js"], table.loc[2, "delta_attention"] = np.nan, np.nan
    axis = single_weight(table)
    assert sum(len(group.get_offsets()) for group in axis.collections) == 7
    negative = int((table.delta_js[3:] < 0).sum())
    assert f"{negative} of 7 texts, 3 texts undefined" in texts_of(axis)


@pytest.mark.parametrize("dtype", [bool, "boolean", object, float])
def test_the_four_shares_are_those_of_the_table(dtype):
    table = made_up_tables.single_weight()
    table = table.astype({"top_flips": dtype, "drawn_flips": dtype})
    axis = flips_table(table, ranking="attention")
    rows = made_up_tables.single_weight().query("ranking == 'attention'")
    counts = rows.groupby(["top_flips", "drawn_flips"]).size()
    expected = [int(counts.get((top, drawn), 0)) for top in (True, False) for drawn in (True, False)]
    assert sum(expected) == 400
    assert [f"{count} texts" for count in expected] == [count for _, count in quarters(axis)]
    assert [_share(count / 400) for count in expected] == [share for share, _ in quarters(axis)]
    assert axis.get_xlabel() == "erasing a random other item"
    assert axis.get_ylabel() == "erasing the top item"
    assert [label.get_text() for label in axis.get_xticklabels()] == ["flips", "keeps"]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["flips", "keeps"]
    assert axis.get_ylim() == (2, 0)
    assert "400 texts" in texts_of(axis)


def test_the_telling_cell_stands_out():
    axis = flips_table(made_up_tables.single_weight(), ranking="attention")
    colours = [note.get_color() for note in axis.texts if note.xycoords == "data"][::2]
    assert [colour == "#D55E00" for colour in colours] == [False, False, True, False]  # only the random item flips


def test_unknown_flips_are_counted():
    table = pd.DataFrame({"ranking": "lrp", "top_flips": [True, None, True], "drawn_flips": [False, True, False]})
    axis = flips_table(table)
    assert quarters(axis) == [("0 %", "no text"), ("100 %", "2 texts"), ("0 %", "no text"), ("0 %", "no text")]
    assert "2 texts, 1 text undefined" in texts_of(axis)


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0 %"),
        (0.00001, "under 0.1 %"),
        (0.001, "0.1 %"),
        (0.0949, "9.5 %"),
        (0.0996, "10 %"),
        (0.5, "50 %"),
        (0.994, "99 %"),
        (0.9999, "over 99 %"),
        (1.0, "100 %"),
    ],
)
def test_shares_never_read_as_none_or_all_by_rounding(share, words):
    assert _share(share) == words


@pytest.mark.parametrize("draw", [single_weight, flips_table])
@pytest.mark.parametrize("kind", ["empty", "undefined"])
def test_an_empty_figure_says_so(draw, kind):
    table = made_up_tables.single_weight(5, rankings=("attention",))
    columns = ["delta_js", "delta_attention", "top_flips", "drawn_flips"]
    table = table[:0] if kind == "empty" else table.assign(**dict.fromkeys(columns, np.nan))
    axis = draw(table)
    written = texts_of(axis)
    assert any(text.startswith("Nothing to draw: no text has") for text in written)
    assert ("5 texts undefined" in written) == (kind == "undefined")
    assert unreadable(axis.figure) == []


@pytest.mark.parametrize("draw", [single_weight, flips_table])
def test_what_is_refused(draw):
    table = made_up_tables.single_weight(5)
    with pytest.raises(InputError, match=r"draws one. Choose it with ranking=, one of \['attention', 'gradient'"):
        draw(table)
    with pytest.raises(InputError, match=r"ranking is 'lpr'; the table holds"):
        draw(table, ranking="lpr")
    with pytest.raises(InputError, match=r"has no (delta_js|top_flips)"):
        draw(table.drop(columns=["delta_js", "top_flips"]))
