"""Adversarial attention: every text is drawn where it belongs, the search beside what is known."""

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_hex

from attnfaith.errors import InputError
from attnfaith.plots import adversarial_figure, divergences
from attnfaith.plots.strips import POINTS
from attnfaith.plots.style import COLUMN, PAGE
from tests.helpers.reading_figures import texts_of, unreadable

SEARCH, KNOWN = "#0072b2", "#d55e00"


def made(texts=600, classes=2, seed=0, known="exact"):
    """The less far, the more weight the heaviest item has."""
    draw = np.random.default_rng(seed)
    weight, predicted = draw.beta(1.2, 2.0, texts).clip(0.02, 1), draw.integers(classes, size=texts)
    most = math.log(2) * (1 - weight * draw.beta(1, 4, texts))
    table = pd.DataFrame({"text_id": range(texts), "max_weight": weight, "js": most * draw.beta(9, 2, texts)})
    low = {"exact": most, "bounds": (most + table.js) / 2, "none": np.nan}[known]
    return table.assign(js_low=low, js_high=most if known != "none" else np.nan, prediction=predicted)


def strip_of(table, strip):
    """The rows of a strip, from the definition of its ends."""
    low, high = ((0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 9))[strip]
    return table[(table.max_weight >= low) & (table.max_weight < high)]


def groups(axis, kind):
    """What is drawn, by strip and colour."""
    result = {}
    for group in axis.collections:
        if isinstance(group, kind):
            corners = group.get_offsets() if kind is PathCollection else group.get_paths()[0].vertices
            middle = round(float(np.mean(corners[:, 1]) + (0.2 if to_hex(group.get_facecolor()[0]) == KNOWN else -0.2)))
            result[middle, to_hex(group.get_facecolor()[0])] = np.asarray(corners)
    return result


def medians(axis):
    """The median lines, by strip and side."""
    lines = [line for line in axis.lines if to_hex(line.get_color()) == "#1a1a1a"]
    result = {}
    for line in lines:
        base, tip = line.get_ydata()
        result[round(base), "up" if tip > base else "down"] = float(line.get_xdata()[0])
    return result


def test_few_texts_are_dots_each_in_its_half_of_its_strip():
    table = made(60)
    result = groups(divergences(table), PathCollection)
    for strip in range(4):
        rows = strip_of(table, strip)
        for colour, values, side in ((SEARCH, rows.js, 1), (KNOWN, rows.js_high, -1)):
            dots = result[strip, colour]
            np.testing.assert_allclose(np.sort(dots[:, 0]), np.sort(values))
            heights = side * (dots[:, 1] - strip)
            assert (heights > 0).all()
            assert (heights < 0.45).all()


def test_many_texts_are_distributions_of_all_of_them():
    table = made(4000)
    result = groups(divergences(table), PolyCollection)
    assert len(result) == 8
    edges = np.linspace(0, math.log(2), 46)
    for strip in range(4):
        rows = strip_of(table, strip)
        for colour, values, side in ((SEARCH, rows.js, 1), (KNOWN, rows.js_high, -1)):
            counts = np.histogram(values, edges)[0]
            corners = result[strip, colour]
            top = [
                (side * (corners[np.isclose(corners[:, 0], edge, atol=1e-9), 1] - strip)).max() for edge in edges[:-1]
            ]
            both = np.maximum(counts, np.concatenate(([0], counts[:-1])))
            np.testing.assert_allclose(np.array(top) / max(top), both / counts.max(), atol=1e-6)


def test_medians_and_titles():
    table = made(300)
    axis = divergences(table, title="positive")
    for strip in range(4):
        rows = strip_of(table, strip)
        assert medians(axis)[strip, "up"] == pytest.approx(rows.js.median())
        assert medians(axis)[strip, "down"] == pytest.approx(rows.js_high.median())
        assert f"{len(rows)} texts" in texts_of(axis)
    assert axis.get_title(loc="left") == f"positive: search {table.js.median():.2f}, exact {table.js_high.median():.2f}"
    assert any(text.endswith("above: the search, below: exact") for text in texts_of(axis))
    assert [label.get_text() for label in axis.get_xticklabels()][-1] == "ln 2"
    assert axis.get_xticks()[-1] == pytest.approx(math.log(2))
    assert unreadable(axis.figure) == []


def test_bounds_and_nothing_known():
    table = made(200, known="bounds")
    axis = divergences(table)
    assert f"at least {table.js_low.median():.2f}" in axis.get_title(loc="left")
    assert medians(axis)[0, "down"] == pytest.approx(strip_of(table, 0).js_low.median())
    axis = divergences(made(200, known="none"))
    assert {side for _, side in medians(axis)} == {"up"}
    assert not any("below" in text for text in texts_of(axis))
    table = made(200, known="none").assign(js_low=None, js_high=None)
    assert {side for _, side in medians(divergences(table))} == {"up"}


def test_an_empty_table_says_so():
    axis = divergences(made()[:0])
    assert "Nothing to draw: no text has\ntwo items to move weight between." in texts_of(axis)
    assert adversarial_figure(made()[:0]).axes


def test_a_panel_for_each_class(tmp_path):
    table = made(200, classes=3)
    figure = adversarial_figure(table, ["bad", "neither", "good"], path=tmp_path / "figure.png")
    titles = [axis.get_title(loc="left").split("\n")[0].split(":")[0] for axis in figure.axes]
    assert titles == ["bad", "neither", "good"]
    assert figure.get_figwidth() == PAGE
    assert (tmp_path / "figure.png").exists()
    assert unreadable(figure) == []
    for index, axis in enumerate(figure.axes):
        assert any(text.startswith(f"{int((table.prediction == index).sum())} texts;") for text in texts_of(axis))


@pytest.mark.parametrize("kind", ["multilabel", "regression"])
def test_other_decisions_have_one_panel(kind):
    figure = adversarial_figure(made(POINTS).assign(prediction=[[0, 2]] * POINTS), kind=kind)
    assert len(figure.axes) == 1
    assert figure.get_figwidth() == COLUMN
    assert unreadable(figure) == []


def test_a_table_of_another_test_is_refused():
    with pytest.raises(InputError, match="has no js_high"):
        divergences(made().drop(columns="js_high"))
    with pytest.raises(InputError, match="has no prediction"):
        adversarial_figure(made().drop(columns="prediction"))
