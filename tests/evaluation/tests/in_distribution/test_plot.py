"""The figure of the in-distribution test: shares of p values, and figures that can be read."""

import numpy as np
import pandas as pd

from attnfaith.evaluation.tests.in_distribution.plot import in_distribution_figure
from tests.evaluation.tests.in_distribution.test_summary import made
from tests.helpers.reading_figures import texts_of, unreadable


def test_a_line_is_the_share_of_flips_with_such_a_p_value():
    table, _ = made()
    figure = in_distribution_figure(table)
    p = table[table["ranking"] == "attention"]["p"].dropna().to_numpy()
    lines = [(line.get_xdata(), line.get_ydata()) for line in figure.axes[0].lines]
    expected = [(p <= at + 1e-9).mean() for at in np.arange(101) / 100]
    assert any(len(y) == 101 and np.allclose(y, expected) for _, y in lines)
    assert any(np.array_equal(x, [0, 1]) and np.array_equal(y, [0, 1]) for x, y in lines)  # whole texts
    assert unreadable(figure) == []


def test_without_p_values_it_says_so():
    table, _ = made(known=False)
    for empty in (table, pd.DataFrame(columns=table.columns)):
        assert any("Nothing to draw" in text for text in texts_of(in_distribution_figure(empty)))
