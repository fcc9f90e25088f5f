"""Agreement: every pair stands in its two cells, attention alone in a row of dots, and all of it can be read."""

import itertools

import numpy as np
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.plots import agreement_figure, agreements
from tests.helpers.made_up_tables import AT_ATTENTION, AT_INPUT
from tests.helpers.reading_figures import contrast, smallest_type, texts_of, unreadable

MEASURES = [("input", "gradient_attention_fixed"), ("input", "leave_one_out")]
SENTENCES = list(AT_ATTENTION)
TOKENS = [("input", "attention"), *MEASURES, *(key for key in AT_INPUT if key[1] != "attention")]


def summary(levels=("input",), *, pairs="all", undefined=()):
    """Mean taus made up: rankings whose names have much in common agree."""
    draw, rows = np.random.default_rng(0), []
    for level in levels:
        keys = [key for key in (SENTENCES if level == "attention" else TOKENS) if key[1] != "greedy"]
        keys.sort(key=lambda key: key[1] != "attention")
        for first, second in itertools.combinations(keys, 2):
            if pairs == "attention" and first[1] != "attention":
                continue
            value = float(draw.uniform(-0.3, 0.95)) if second[1] != "random" else 0.004
            value = np.nan if second in undefined else value
            row = {"test": "agreement", "erase_level": level, "slice": "all", "figure": "tau", "texts": 150}
            row |= {
                "ranking_level": first[0],
                "ranking": first[1],
                "other": "/".join(second),
                "value": value,
                "note": "",
            }
            rows.append(row | {"low": value - 0.02, "high": value + 0.02})
    return pd.DataFrame(rows)


def cells(axis):
    """What stands in the cells, by (row, column)."""
    notes = [note for note in axis.texts if note.xycoords == "data"]
    return {(int(note.xy[1]), int(note.xy[0])): note.get_text() for note in notes}


def number(text):
    return float(text.replace("−", "-"))


@pytest.mark.parametrize("level", ["attention", "input"])
def test_every_pair_is_in_both_of_its_cells(level):
    made = summary((level,))
    axis = agreements(made)
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names[0] == "attention 1"
    written = cells(axis)
    assert len(written) == len(names) * (len(names) - 1) == 2 * len(made)
    assert all(written[row, column] == written[column, row] for row, column in written)
    with_attention = [number(written[0, column]) for column in range(1, len(names))]
    assert with_attention == sorted(with_attention, reverse=True)
    assert sorted(map(number, written.values())) == pytest.approx(sorted([*made.value.round(2)] * 2), abs=1e-9)
    assert (
        written[names.index(f"random order {[name.startswith('random') for name in names].index(True) + 1}"), 0]
        == ".00"
    )


@pytest.mark.parametrize(
    ("levels", "pairs"),
    [
        (("attention",), "all"),
        pytest.param(("input",), "all", marks=pytest.mark.slow),
        pytest.param(("attention", "input"), "all", marks=pytest.mark.slow),
        (("input",), "attention"),
        (("attention", "input"), "attention"),
    ],
)
def test_all_of_it_can_be_read(levels, pairs, tmp_path):
    figure = agreement_figure(summary(levels, pairs=pairs), path=tmp_path / "figure.png")
    assert unreadable(figure) == []
    assert smallest_type(figure) >= 6
    assert len(figure.axes) == len(levels)
    assert (tmp_path / "figure.png").stat().st_size > 10000
    for axis in figure.axes if pairs == "all" else ():
        mesh = axis.collections[0]
        colours = mesh.to_rgba(mesh.get_array().ravel())
        across = mesh.get_array().shape[1]
        for (row, column), text in cells(axis).items():
            note = next(note for note in axis.texts if note.xycoords == "data" and note.xy == (column + 0.5, row + 0.5))
            ink = (1, 1, 1) if note.get_color() == "white" else (0.1, 0.1, 0.1)
            assert contrast(ink, tuple(colours[row * across + column])) > 4, text


def test_attention_alone_is_a_dot_and_an_interval_for_each_other_ranking():
    made = summary(pairs="attention", undefined=[("input", "lrp")]).sort_values("value", ascending=False)
    axis = agreements(made)
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert "attention" not in names
    assert len(names) == len(made) == len(TOKENS) - 1
    assert names[-1] == "LRP (input)"
    assert "undefined" in texts_of(axis)
    dots = axis.lines[-1]
    np.testing.assert_array_equal(dots.get_xdata(), made.value)
    np.testing.assert_array_equal(dots.get_ydata(), np.arange(len(made)))
    ends = [segment[:, 0] for segment in axis.collections[0].get_segments() if len(segment)]
    np.testing.assert_allclose(ends, made.loc[made.value.notna(), ["low", "high"]])
    assert axis.get_ylim()[0] > axis.get_ylim()[1]
    assert axis.get_xlim()[0] < made.low.min() <= made.high.max() < axis.get_xlim()[1] == 1


def test_levels_are_named_only_where_names_are_alike():
    names = [label.get_text().rsplit(" ", 1)[0] for label in agreements(summary()).get_yticklabels()]
    assert {"leave-one-out", "detached gradient", "gradient", "gradient (input)", "LRP (input)"} <= set(names)
    assert len(set(names)) == len(names)


def test_what_has_no_value_is_a_dash_and_last():
    axis = agreements(summary(undefined=[("input", "lrp")]))
    written = cells(axis)
    last = len(axis.get_yticklabels()) - 1
    assert axis.get_yticklabels()[last].get_text() == f"LRP (input) {last + 1}"
    assert written[last, 0] == written[0, last] == "–"


def test_nothing_to_draw_says_so():
    assert any("no pair with a value" in text for text in texts_of(agreements(summary().assign(value=np.nan))))
    assert any("Nothing to draw" in text for text in texts_of(agreement_figure(summary().iloc[:0])))
    with pytest.raises(InputError, match="2 erase levels"):
        agreements(summary(("attention", "input")))
