"""Random labels: each class as frequent as before, the same for the same seed, and the rows unchanged."""

from collections import Counter

import datasets
import pandas as pd
import pytest

from attnfaith.errors import InputError
from attnfaith.training import shuffled

ROWS = [{"text": f"text {number}", "label": number % 3, "more": [number]} for number in range(60)]


@pytest.mark.parametrize("form", [list, tuple, pd.DataFrame, datasets.Dataset.from_list])
def test_only_labels_are_shuffled(form):
    data = form(ROWS)
    result = shuffled(data, seed=4)
    assert [{**row, "label": None} for row in result] == [{**row, "label": None} for row in ROWS]
    labels = [row["label"] for row in result]
    assert Counter(labels) == Counter(row["label"] for row in ROWS)
    kept = sum(label == row["label"] for label, row in zip(labels, ROWS, strict=True))
    assert 8 < kept < 35  # a third, by chance
    same = list(data["label"] if hasattr(data, "columns") or hasattr(data, "column_names") else labels_of(data))
    assert same == [number % 3 for number in range(60)]
    assert result == shuffled(ROWS, seed=4) != shuffled(ROWS, seed=5)


def labels_of(rows):
    return [row["label"] for row in rows]


def test_a_column_of_another_name_and_labels_of_any_kind():
    rows = [{"text": "a", "stars": [0, 1]}, {"text": "b", "stars": [1, 1]}, {"text": "c", "stars": 2.5}]
    result = shuffled(rows, "stars")
    assert sorted(map(str, (row["stars"] for row in result))) == sorted(map(str, (row["stars"] for row in rows)))
    with pytest.raises(InputError, match="have no column 'label'"):
        shuffled(rows)
    assert shuffled([]) == []
