"""`discover_labels`: the classes that a column has, and columns that have none."""

import math

import pytest

from attnfaith.data.label_discovery import discover_labels
from attnfaith.data.labels import LabelReader
from attnfaith.errors import InputError


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["1.0", "1", "x"], ("1", "1.0", "x")),
        (["true", "True", "unknown"], ("True", "true", "unknown")),
        (["Good", "good", "bad"], ("Good", "bad", "good")),
        ([[1, "a"], ["1"]], ("1", "a")),
    ],
    ids=str,
)
def test_there_are_as_many_classes_as_names_and_each_is_read(cells, names):
    labels = discover_labels(enumerate(cells))
    assert (labels.names, labels.count) == (names, len(names))
    reader = LabelReader(labels)
    for number, name in enumerate(names):
        assert reader([name] if labels.kind == "multilabel" else name, 0) in (number, (number,))


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([[], []], "Every list of labels is empty"),
        ([[{"a": 1}], []], "Row 0 .* a list of names or whole numbers"),
        ([["a"], [["b"]]], "Row 1 .* a list of names or whole numbers"),
        ([["a", None]], "a list of names or whole numbers"),
        ([["a", math.nan]], "a list of names or whole numbers"),
        ([[0.5, 0.5]], "a list of names or whole numbers"),
        ([[10**9], [3]], "1,000,000,001 classes for 2 rows"),
    ],
    ids=str,
)
def test_lists_that_are_no_labels_are_refused(cells, words):
    with pytest.raises(InputError, match=words):
        discover_labels(enumerate(cells))
