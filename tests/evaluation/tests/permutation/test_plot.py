"""Shuffled attention: every text is drawn where it belongs, and what is written beside it is so."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection, PolyCollection

from attnfaith.errors import InputError
from attnfaith.estimates.lookup import percent
from attnfaith.paper_figure import PaperFigure
from attnfaith.plots import permutation_figure, shuffles
from attnfaith.plots.panels import PANELS
from attnfaith.plots.strips import POINTS
from attnfaith.plots.style import COLUMN, PAGE
from tests.helpers.reading_figures import smallest_type, texts_of, unreadable

LONG = [
    "something of which nobody knows the end",
    "something else of which nobody knows it",
    "cost: $5 or \\frac$",
    "short",
    "an entity",
    "x" * 60,
]


def made(texts=600, classes=2, seed=0):
    """Many near 0, and further away the more weight the heaviest item has."""
    draw = np.random.default_rng(seed)
    weight, predicted = draw.beta(1.2, 2.0, texts).clip(0.02, 1), draw.integers(classes, size=texts)
    moved = (draw.beta(0.5, 4, texts) * (0.3 + weight) * (1 + predicted / classes)).clip(0, 1)
    columns = {"text_id": range(texts), "max_weight": weight, "median_tvd": moved}
    return pd.DataFrame(columns | {"never_changes": draw.random(texts) > 2 * moved, "prediction": predicted})


def strip_of(table, strip):
    """The rows of a strip, from the definition of its ends."""
    low, high = ((0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 9))[strip]
    return table[(table.max_weight >= low) & (table.max_weight < high)]


def medians(axis):
    """Where the median of each strip is drawn."""
    return {round(float(np.mean(line.get_ydata()))): float(line.get_xdata()[0]) for line in axis.lines}


def beside(axis):
    """What stands at the right of each strip."""
    return {round(note.xy[1]): note.get_text() for note in axis.texts if note.get_text().endswith("never")}


def test_few_texts_are_dots_each_in_its_strip():
    table = made(60)
    axis = shuffles(table)
    dots = [np.asarray(group.get_offsets()) for group in axis.collections if isinstance(group, PathCollection)]
    assert sum(map(len, dots)) == 60
    for strip, result in enumerate(dots):
        rows = strip_of(table, strip)
        np.testing.assert_allclose(np.sort(result[:, 0]), np.sort(rows.median_tvd))
        assert (abs(result[:, 1] - strip) < 0.45).all()
        near = [(a, b) for index, a in enumerate(result) for b in result[:index]]
        assert all(abs(a[0] - b[0]) > 1e-4 or abs(a[1] - b[1]) > 0.02 for a, b in near), "one over the other"


def test_many_texts_are_a_distribution_of_all_of_them():
    table = made(4000)
    axis = shuffles(table)
    areas = [group for group in axis.collections if isinstance(group, PolyCollection)]
    assert len(areas) == len(axis.collections) == 4
    for strip, area in enumerate(areas):
        rows = strip_of(table, strip)
        counts = np.histogram(rows.median_tvd, np.linspace(0, 1, 51))[0]
        corners = area.get_paths()[0].vertices
        heights = [
            corners[np.isclose(corners[:, 0], cell / 50, atol=1e-9), 1].max() - strip for cell in np.arange(50)
        ]  # of two neighbours that share an edge the higher
        both = np.maximum(counts, np.concatenate(([0], counts[:-1])))
        np.testing.assert_allclose(np.array(heights) / max(heights), both / counts.max(), atol=1e-9)


def test_medians_and_counts_of_each_strip_and_of_all():
    table = made(900)
    axis = shuffles(table, title="positive")
    for strip in range(4):
        rows = strip_of(table, strip)
        assert medians(axis)[strip] == pytest.approx(rows.median_tvd.median())
        assert beside(axis)[strip] == f"{len(rows)} texts\n{percent(rows.never_changes.mean())} never"
    assert axis.get_title(loc="left") == f"positive: median {table.median_tvd.median():.2f}"
    share = f"900 texts; the decision of {percent(table.never_changes.mean())} never changes"
    assert share in texts_of(axis)
    assert [label.get_text() for label in axis.get_yticklabels()] == ["0–0.25", "0.25–0.5", "0.5–0.75", "0.75–1"]
    assert axis.get_xlabel() == "total variation distance, median over shuffles"
    assert axis.get_ylabel() == "largest attention weight"


def test_a_strip_without_texts_is_empty():
    axis = shuffles(made(30).assign(max_weight=0.6))
    assert list(medians(axis)) == list(beside(axis)) == [2]


def test_the_axis_is_that_of_the_distance_and_of_a_regression_that_of_its_values():
    table = made(100)
    for end in (0.001, 1.0):
        left, right = shuffles(table.assign(median_tvd=table.median_tvd * end)).get_xlim()
        assert (left, right) == pytest.approx((-0.02, 1.02))
    far = table.assign(median_tvd=table.median_tvd * 40)
    axis = shuffles(far, kind="regression")
    assert axis.get_xlim()[1] == pytest.approx(1.02 * far.median_tvd.max())
    assert axis.get_xlabel() == "change of the value, median over shuffles"
    assert shuffles(far, kind="regression", right=80).get_xlim()[1] == pytest.approx(81.6)
    still = shuffles(table.assign(median_tvd=0.0), kind="regression")
    assert still.get_xlim()[1] > 0


def test_shares_never_read_as_none_or_all_by_rounding():
    table = made(1000).assign(median_tvd=0.001, max_weight=0.1)
    for index, never in ((0, False), (0, True)):
        column = [not never] * 1000
        column[index] = never
        axis = shuffles(table.assign(never_changes=column))
        assert ("\n0.1 % never" if never else "\n99.9 % never") in beside(axis)[0]
        assert axis.get_title(loc="left").endswith("median under 0.01")


def test_a_panel_for_each_predicted_class():
    table = made(700, 3)
    figure = permutation_figure(table, ["bad", "good"])
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert [title.split("\n")[0] for title in titles] == ["bad", "good", "class 2"]
    for number, axis in enumerate(figure.axes):
        rows = table[table.prediction == number]
        assert sum(int(note.split()[0]) for note in beside(axis).values()) == len(rows)
        assert titles[number].endswith(f"median {rows.median_tvd.median():.2f}")


def test_classes_of_the_same_name_are_distinguished():
    figure = permutation_figure(made(100), ["same", "same"])
    assert [axis.get_title(loc="left").split(":")[0] for axis in figure.axes] == ["same (0)", "same (1)"]


def test_of_very_many_classes_the_most_predicted_have_a_panel():
    table = made(3000, 20)
    figure = permutation_figure(table)
    assert len(figure.axes) == PANELS
    counts = table.prediction.value_counts()
    titles = [axis.get_title(loc="left").split("\n")[0] for axis in figure.axes]
    assert titles == [*(f"class {item}" for item in sorted(counts.index[: PANELS - 1])), "12 other classes"]
    drawn = sum(int(note.split()[0].replace(",", "")) for axis in figure.axes for note in beside(axis).values())
    assert drawn == 3000


@pytest.mark.parametrize("kind", ["multilabel", "regression"])
def test_what_has_no_classes_has_one_panel(kind):
    predicted = [[0, 2], []] if kind == "multilabel" else [0.3, 2.5]
    table = made(50).assign(prediction=pd.Series(predicted * 25))
    figure = permutation_figure(table, ["a", "b", "c"], kind=kind)
    assert len(figure.axes) == 1
    assert figure.axes[0].get_title(loc="left").startswith("Shuffled attention: median")


FIGURES = {
    "two": lambda: permutation_figure(made(900), ["negative", "positive"]),
    "six": lambda: permutation_figure(made(3000, 6), ["description", "entity", "abbreviation", "human", "place", "no"]),
    "six long names": lambda: permutation_figure(made(3000, 6), LONG),
    "two long names": lambda: permutation_figure(made(3000, 2), LONG),
    "four": lambda: permutation_figure(made(20000, 4)),
    "twenty": lambda: permutation_figure(made(300, 20)),
    "one text": lambda: permutation_figure(made(1)),
    "few": lambda: permutation_figure(made(POINTS)),
    "nothing moves": lambda: permutation_figure(made(400).assign(median_tvd=0.0, never_changes=True)),
    "everything moves": lambda: permutation_figure(made(400).assign(median_tvd=1.0, never_changes=False)),
    "regression": lambda: permutation_figure(made(400).assign(median_tvd=123456.0), kind="regression"),
    "no text": lambda: permutation_figure(made(0)),
}


SLOW = ("six long names", "twenty")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in FIGURES]
)
def test_a_figure_can_be_read(name):
    figure = FIGURES[name]()
    assert unreadable(figure) == []
    assert smallest_type(figure) >= 5
    assert figure.get_size_inches()[0] == pytest.approx(COLUMN if len(figure.axes) == 1 else PAGE)


def test_an_empty_figure_says_so():
    written = texts_of(permutation_figure(made(0)))
    assert "Nothing to draw: no text has\ntwo items to shuffle." in written


def test_it_draws_on_the_axes_it_is_given_and_leaves_the_table_alone(tmp_path):
    table = made(80)
    before = table.copy(deep=True)
    axis = PaperFigure.of_width(4, 3).add_subplot()
    assert shuffles(table, axis) is axis
    permutation_figure(table, path=tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize("draw", [shuffles, permutation_figure])
def test_a_table_of_something_else_is_refused(draw):
    with pytest.raises(InputError, match=r"'permutation' is drawn from .* has no max_weight"):
        draw(made(5).drop(columns="max_weight"))
