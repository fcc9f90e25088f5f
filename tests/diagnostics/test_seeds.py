"""What is said of seed variance rests on intervals, not on medians alone."""

import pandas as pd
import pytest

from attnfaith.diagnostics.base import COLUMNS, Figures
from attnfaith.diagnostics.seeds.diagnostic import Seeds


@pytest.mark.parametrize(
    ("jsd", "uniform", "says"),
    [
        ((0.01, 0.005, 0.02), (0.2, 0.15, 0.25), "hardly depends"),
        ((0.1, 0.08, 0.12), (0.2, 0.15, 0.25), "less between seeds than from uniform"),
        ((0.18, 0.15, 0.22), (0.17, 0.02, 0.24), "as far as these texts can tell"),
        ((0.01, 0.005, 0.1), (0.2, 0.15, 0.25), "less between seeds than from uniform"),
        ((0.3, 0.28, 0.35), (0.1, 0.05, 0.15), "more than making it uniform would"),
        ((0.3, 0.28, 0.35), (0.005, 0.001, 0.008), "no pattern"),
    ],
)
def test_a_conclusion_holds_over_the_whole_intervals(jsd, uniform, says):
    rows = [("seeds", "jsd", "", *jsd, 60, ""), ("seeds", "jsd_uniform", "", *uniform, 60, "")]
    figures = Figures(pd.DataFrame(rows, columns=list(COLUMNS)), "seeds")
    assert says in Seeds().sentences(figures, {})[0]
