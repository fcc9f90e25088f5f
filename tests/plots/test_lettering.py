"""Labels moved apart: the nearest places there are, against scipy; titles that begin where the labels do."""

import numpy as np
import pytest
from scipy.optimize import minimize

from attnfaith.paper_figure import PaperFigure
from attnfaith.plots.lettering import EndLabels, TitleBlock, spread
from tests.helpers.reading_figures import unreadable


def gaps(positions, sizes):
    return np.diff(positions) - (np.asarray(sizes)[1:] + np.asarray(sizes)[:-1]) / 2


@pytest.mark.parametrize("seed", range(12))
def test_positions_are_the_nearest_that_do_not_overlap(seed):
    draw = np.random.default_rng(seed)
    wanted, sizes = np.sort(draw.normal(50, 20, 7)), draw.uniform(2, 12, 7)
    low, high = 0.0, 100.0
    positions = np.array(spread(wanted, sizes, low, high))
    limits = [
        {"type": "ineq", "fun": lambda at: gaps(at, sizes)},
        {"type": "ineq", "fun": lambda at: at[0] - sizes[0] / 2 - low},
        {"type": "ineq", "fun": lambda at: high - at[-1] - sizes[-1] / 2},
    ]
    start = np.linspace(15, 85, 7)
    best = minimize(lambda at: ((at - wanted) ** 2).sum(), start, constraints=limits, options={"maxiter": 1000})
    assert best.success
    assert (gaps(positions, sizes) >= -1e-9).all()
    np.testing.assert_allclose(positions, best.x, atol=0.02)


def test_positions_that_fit_are_kept():
    assert spread([1.0, 5.0, 9.0], [2.0, 2.0, 2.0], 0.0, 10.0) == [1.0, 5.0, 9.0]
    assert spread([], [], 0.0, 1.0) == []


def test_more_labels_than_there_is_room_for_hang_from_the_top():
    positions = spread([0.0] * 5, [3.0] * 5, 0.0, 10.0)
    assert positions == [-3.5, -0.5, 2.5, 5.5, 8.5]


def drawn_at(height, ends):
    figure = PaperFigure.of_width(3.5, height)
    axis = figure.add_subplot()
    axis.set_ylim(0, 1)
    labels = EndLabels(axis, [(end, f"label {number}", "black", False) for number, end in enumerate(ends)])
    TitleBlock(axis, "A title", "a line", "", "another line")
    figure.draw_without_rendering()
    return figure, axis, labels


@pytest.mark.parametrize("height", [1.8, 3.0])
@pytest.mark.parametrize("ends", [[0.0] * 6, [1.0] * 6, [0.0, 0.01, 0.4, 0.41, 0.42, 1.0], []])
def test_labels_keep_their_order_and_can_be_read(height, ends):
    figure, _, labels = drawn_at(height, ends)
    assert unreadable(figure) == []
    middles = [text.get_window_extent().y0 for text in labels.texts]
    assert middles == sorted(middles)


def test_a_label_stands_at_its_end_where_there_is_room_and_moves_with_the_size():
    figure, axis, labels = drawn_at(3.0, [0.25, 0.75])
    for height in (3.0, 6.0):
        figure.set_size_inches(3.5, height)
        figure.draw_without_rendering()
        for end, text, thread in zip(labels.ends, labels.texts, labels.threads, strict=True):
            box, wanted = text.get_window_extent(), axis.transData.transform((0, end))[1]
            assert abs((box.y0 + box.y1) / 2 - wanted) < 1.5 * figure.dpi / 72
            assert thread.get_ydata() == pytest.approx([wanted] * 3)


def test_titles_begin_where_the_labels_of_the_axis_begin():
    figure = PaperFigure.of_width(3.5, 2.0)
    axis = figure.add_subplot()
    axis.set_yticks([0, 1], ["a rather long name", "another"])
    headline = TitleBlock(axis, "A title", "what it rests on")
    figure.draw_without_rendering()
    left = axis.yaxis.get_tightbbox().x0
    assert headline.title.get_window_extent().x0 == pytest.approx(left, abs=3)
    assert headline.below.get_window_extent().x0 == pytest.approx(left, abs=3)
    assert headline.below.get_window_extent().y1 <= headline.title.get_window_extent().y0 + 1


def test_a_long_line_does_not_narrow_the_axes():
    widths = []
    for line in ("short", "long " * 60):
        figure = PaperFigure.of_width(3.5, 2.0)
        axis = figure.add_subplot()
        TitleBlock(axis, "A title", line)
        figure.draw_without_rendering()
        widths.append(axis.get_window_extent().width)
    assert widths[0] == pytest.approx(widths[1])
