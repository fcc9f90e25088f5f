"""Wins: each cell is its pair's share, the order is by wins, what is significant is marked at the better one."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from attnfaith.errors import InputError
from attnfaith.plots import wins
from attnfaith.plots.labels import labels_for
from tests.helpers import made_up_tables
from tests.helpers.reading_figures import contrast, texts_of, unreadable


def table_of(pairs, level="attention"):
    """Summary rows of pairs: (ranking, other, wins, p)."""
    same = {"test": "erasure", "erase_level": "attention", "slice": "all", "texts": 50, "low": np.nan, "high": np.nan}
    rows = []
    for first, other, share, p in pairs:
        key = same | {"ranking": first, "ranking_level": level, "other": other}
        rows += [key | {"figure": "wins", "value": share}, key | {"figure": "p_holm", "value": p}]
    return pd.DataFrame(rows)


def rankings(axis):
    """The rankings of the rows, without their numbers."""
    return [label.get_text().rsplit(" ", 1)[0] for label in axis.get_yticklabels()]


def cells(axis):
    """(row, column) to what is written there; rows and columns from 0."""
    result = {}
    for note in axis.texts:
        if note.xycoords == "data":
            column, row = note.xy
            result[int(row), int(column)] = note
    return result


@pytest.mark.parametrize("level", ["attention", "input"])
def test_each_cell_is_the_share_of_its_pair(level):
    summary = made_up_tables.summary().sample(frac=1, random_state=2)
    axis = wins(summary, erase_level=level, annotate=True)
    pairs = summary[(summary.erase_level == level) & (summary.figure == "wins")]
    keys = list(dict.fromkeys(zip(pairs.ranking_level, pairs.ranking, strict=True)))
    labels = labels_for(keys)
    index = {"/".join(key): rankings(axis).index(labels[key]) for key in keys}
    share = np.asarray(axis.collections[0].get_array()).reshape(len(keys), len(keys))
    for pair in pairs.itertuples():
        row, column = index[f"{pair.ranking_level}/{pair.ranking}"], index[pair.other]
        assert share[row, column] == pair.value
        assert cells(axis)[row, column].get_text().rstrip("*") == f"{100 * pair.value:.0f}"
    assert np.isnan(np.diag(share.astype(float))).all()
    means = np.nanmean(share.astype(float), axis=1)
    assert (np.diff(means) <= 0).all()
    numbers = [str(number) for number in range(1, len(keys) + 1)]
    assert [label.get_text() for label in axis.get_xticklabels()] == numbers
    assert [label.get_text().rsplit(" ", 1)[1] for label in axis.get_yticklabels()] == numbers
    assert axis.get_ylim()[0] > axis.get_ylim()[1]


@pytest.mark.parametrize("annotate", [True, False])
def test_significance_is_marked_at_the_better_of_a_pair(annotate):
    summary = made_up_tables.summary(("attention",))
    axis = wins(summary, annotate=annotate)
    order = rankings(axis)
    labels = {f"{key[0]}/{key[1]}": label for key, label in labels_for(list(made_up_tables.AT_ATTENTION)).items()}
    kind = dict(list(summary.groupby("figure")))
    share = {(labels[f"{r.ranking_level}/{r.ranking}"], labels[r.other]): r.value for r in kind["wins"].itertuples()}
    p = {(labels[f"{r.ranking_level}/{r.ranking}"], labels[r.other]): r.value for r in kind["p_holm"].itertuples()}
    p |= {(other, first): value for (first, other), value in p.items()}
    expected = {
        (order.index(first), order.index(other))
        for (first, other), value in share.items()
        if p[first, other] < 0.05 and value > share[other, first]
    }
    assert len(expected) > 5
    if annotate:
        marked = {index for index, note in cells(axis).items() if note.get_text().endswith("*")}
        assert marked == {index for index, note in cells(axis).items() if note.get_fontweight() == "bold"}
    else:
        assert not cells(axis)
        marked = {(int(line.get_ydata()[0]), int(line.get_xdata()[0])) for line in axis.lines}
    assert marked == expected


def test_p_of_exactly_five_in_a_hundred_and_a_tie_are_not_marked():
    table = table_of([("a", "b", 0.6, 0.05), ("b", "a", 0.1, 0.05), ("a", "c", 0.3, 0.01), ("c", "a", 0.3, 0.01)])
    assert not any(note.get_text().endswith("*") for note in cells(wins(table)).values())


@pytest.mark.parametrize(("share", "marked"), [(0.6, True), (0.4, False)])
def test_with_one_side_of_a_pair_only_more_than_half_is_better(share, marked):
    axis = wins(table_of([("a", "b", share, 0.001)]))
    written = {note.get_text() for note in cells(axis).values()}
    assert written == {f"{100 * share:.0f}" + "*" * marked, "–"}


def test_undefined_is_not_zero():
    axis = wins(table_of([("a", "b", np.nan, np.nan), ("b", "a", np.nan, np.nan), ("a", "c", 0.0, 1.0)]))
    order = rankings(axis)
    written = {
        (order[row], order[column]): note.get_text() for (row, column), note in cells(axis).items() if row != column
    }
    assert written["a", "b"] == written["b", "a"] == "–"
    assert written["a", "c"] == "0"


def test_many_rankings_have_dots_and_a_scale_few_have_numbers():
    many, few = (wins(made_up_tables.summary((level,))) for level in ("input", "attention"))
    assert len(many.figure.axes) == 2
    assert [label.get_text() for label in many.figure.axes[1].get_yticklabels()] == ["0 %", "50 %", "100 %"]
    assert any("dot: it is the better of the two" in text for text in texts_of(many))
    assert len(few.figure.axes) == 1
    assert any("*: it is the better of the two, p < .05 (sign test, Holm)" in text for text in texts_of(few))
    assert any(text.startswith("removed from the final attention, 150 texts\n%") for text in texts_of(few))


def test_numbers_can_be_read_on_every_shade():
    shares = np.linspace(0, 1, 9)
    axis = wins(table_of([(f"r{i}", f"r{j}", shares[(i + j) % 9], 1.0) for i in range(9) for j in range(9) if i != j]))
    mesh = axis.collections[0]
    for (row, column), note in cells(axis).items():
        value = mesh.get_array()[row, column]
        if not np.ma.is_masked(value) and np.isfinite(value):
            assert contrast(mesh.cmap(mesh.norm(value)), to_rgb(note.get_color())) >= 3.0


def test_others_are_found_with_their_level_or_by_what_is_clear():
    both = [table_of([("lrp", "lrp", 0.7, 1.0)], "input").assign(other="attention/lrp")]
    both += [table_of([("lrp", "input/lrp", 0.2, 1.0)])]
    axis = wins(made_up_tables.joined(*both))
    assert rankings(axis) == ["LRP (input)", "LRP"]
    assert {index: note.get_text() for index, note in cells(axis).items()} == {(0, 1): "70", (1, 0): "20"}
    same = wins(table_of([("a", "b", 0.7, 1.0)]))  # b has no row of its own
    assert rankings(same) == ["a", "b"]
    elsewhere = made_up_tables.joined(
        table_of([("a", "b", 0.7, 1.0)]), table_of([("b", "attention/a", 0.1, 1.0)], "input")
    )
    assert rankings(wins(elsewhere)) == ["a", "b (input)"]


@pytest.mark.parametrize("change", ["empty", "undefined", "no pairs"])
def test_an_empty_figure_says_so(change):
    summary = made_up_tables.summary(("attention",))
    tables = {
        "empty": summary[:0],
        "undefined": summary.assign(value=np.nan),
        "no pairs": summary[~summary.figure.isin(["wins", "p_holm"])],
    }
    axis = wins(tables[change])
    assert "Nothing to draw: the summary\nhas no defined pair." in texts_of(axis)
    assert unreadable(axis.figure) == []


def test_what_is_refused():
    with pytest.raises(InputError, match=r"wins draws one.* erase_level="):
        wins(made_up_tables.summary())
    unclear = [table_of([("lrp", "x", 0.5, 1.0)], level) for level in ("input", "yours")]
    with pytest.raises(InputError, match=r"several rankings called 'lrp'.* input/lrp, yours/lrp"):
        wins(made_up_tables.joined(*unclear, table_of([("a", "lrp", 0.5, 1.0)])))
    with pytest.raises(InputError, match="has no other"):
        wins(made_up_tables.summary().drop(columns="other"))
