"""Labels of the data as the model's classes: by number, by name, by a mapping; and those it does not have."""

import re

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from attnfaith.data.labels import LabelReader
from attnfaith.data.source import ModelLabels, open_data
from attnfaith.errors import InputError
from tests.helpers.data_forms import THREE, rows_of

STARS = ModelLabels("multiclass", ("1", "2", "3"), 3)
MANY = ModelLabels("multilabel", THREE.names, 3)
NUMBER = ModelLabels("regression", ("LABEL_0",), 1)
PLAIN = ModelLabels("multiclass", ("LABEL_0", "LABEL_1"), 2)


def read(space, labels, mapping=None, features=None):
    texts = [f"text {number}" for number in range(len(labels))]
    if features is None:
        data = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    else:
        data = Dataset.from_dict({"text": texts, "label": labels}, Features(text=Value("string"), label=features))
    source = open_data(data, labels=space, label_mapping=mapping)
    return [row.label for row in rows_of(source)], source.notes


@pytest.mark.parametrize(
    ("space", "labels", "mapping", "expected"),
    [
        (THREE, [0, 2, np.int64(1), 1.0, True], None, [0, 2, 1, 1, 1]),
        (THREE, ["good", "So-So", " bad ", "2", "1.0", "TRUE"], None, [2, 1, 0, 2, 1, 1]),
        (THREE, [None, float("nan"), "", "good"], None, [None, None, None, 2]),
        (THREE, ["neg", "pos", "good"], {"bad": "neg", "good": "pos"}, [0, 2, 2]),
        (THREE, [-1, 0, 1], {"bad": -1, "so-so": 0, "good": 1}, [0, 1, 2]),  # as evaluate
        (THREE, ["-1", "0", "1"], {"bad": -1.0, "so-so": 0.0, "good": 1.0}, [0, 1, 2]),
        (THREE, [5, 1, "good"], {"good": 5, "bad": 1}, [2, 0, 2]),
        (PLAIN, ["pos", "neg"], {"LABEL_0": "neg", "LABEL_1": "pos"}, [1, 0]),
        (PLAIN, [4, 0], {"LABEL_0": 0, "LABEL_1": 4}, [1, 0]),
        (PLAIN, [False, True, "False", "LABEL_1"], None, [0, 1, 0, 1]),
        (STARS, ["1", "3"], None, [0, 2]),
        (STARS, [1, 3], {"1": 1, "2": 2, "3": 3}, [0, 2]),
        (STARS, [0, 2], {"1": 0, "2": 1, "3": 2}, [0, 2]),
        (ModelLabels("multiclass", ("true", "false"), 2), [True, False, "true"], None, [0, 1, 0]),
        (ModelLabels("multiclass", (), 4), [3, "0"], None, [3, 0]),
        (ModelLabels("multiclass", (), 2), ["pos", "neg"], {0: "neg", "1": "pos"}, [1, 0]),  # a model without names
        (ModelLabels("sigmoid", ("LABEL_0",), 1), ["pos", "neg"], {0: "neg", 1: "pos"}, [1, 0]),
        (ModelLabels("sigmoid", ("LABEL_0",), 1), [0, 1, "1"], None, [0, 1, 1]),
        (ModelLabels("sigmoid", ("no", "yes"), 2), ["yes", 0], None, [1, 0]),
        (NUMBER, [1, 2.5, "3.5", True, None, "nan"], None, [1, 2.5, 3.5, 1, None, None]),
        (MANY, [[0, 2], ["good", "bad"], [], None], None, [(0, 2), (0, 2), (), None]),
        (MANY, [[0, 1, 1], [0.0, 0.0, 0.0], (True, False, True)], None, [(1, 2), (), (0, 2)]),
        (MANY, ["[0, 2]", '["good"]', [2, 2]], None, [(0, 2), (2,), (2,)]),
        (ModelLabels("multilabel", ("a", "b"), 2), [[0, 1], [1, 1], ["a"], []], None, [(1,), (0, 1), (0,), ()]),
    ],
)  # fmt: skip
def test_labels(space, labels, mapping, expected):
    result, _ = read(space, labels, mapping)
    assert result == expected
    assert [type(item) for item in result] == [
        type(float(e) if space.kind == "regression" and e is not None else e) for e in expected
    ]


@pytest.mark.parametrize(
    ("features", "mapping", "expected", "noted"),
    [
        (ClassLabel(names=["good", "bad"]), None, [2, 0], False),  # by name
        (ClassLabel(names=["GOOD", "Bad", "So-so"]), None, [2, 0], False),
        (ClassLabel(names=["no", "yes"]), None, [0, 1], True),  # by number
        (ClassLabel(num_classes=3), None, [0, 1], True),
        (ClassLabel(names=["no", "yes"]), {"bad": 0, "good": 1}, [0, 2], False),
        (ClassLabel(names=["no", "yes"]), {"bad": "no", "good": "yes"}, [0, 2], False),
        (ClassLabel(names=["no", "yes"]), {"good": 0, "bad": 1}, [2, 0], False),
    ],
)
def test_labels_with_names_in_the_data(features, mapping, expected, noted):
    result, notes = read(THREE, [0, 1, -1], mapping, features)
    assert result == [*expected, None]  # -1: withheld
    assert any("by number" in note for note in notes) == noted
    assert "1 of 3 texts have no label." in notes
    stream = Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}, Features(text=Value("string"), label=features))
    rows = rows_of(open_data(stream.to_iterable_dataset(), labels=THREE, label_mapping=mapping))
    assert [row.label for row in rows] == expected


def test_lists_of_labels_with_names_in_the_data():
    result, _ = read(MANY, [[0], [0, 1]], None, Sequence(ClassLabel(names=["good", "bad"])))
    assert result == [(2,), (0, 2)]


@pytest.mark.parametrize(
    ("space", "labels", "mapping", "row", "message"),
    [
        (THREE, [0, 1, 3], None, 2, "label 3: the model does not have it.*bad, so-so, good.*label_mapping="),
        (THREE, [0, -1], None, 1, "label -1"),
        (THREE, ["bad", "Excellent"], None, 1, "label 'Excellent'"),
        (THREE, [0.5], None, 0, "label 0.5"),
        (THREE, [[1]], None, 0, "not several"),
        (THREE, [{"a": 1}], None, 0, "not several"),
        (THREE, ["neg", "neu"], {"bad": "neg", "good": "pos"}, 1, "label_mapping does not mention it"),
        (THREE, [1, 2, 3], {"bad": 1, "good": 2}, 2, "label_mapping does not mention it"),
        (STARS, [1, 2], None, 0, "class names are numbers"),
        (STARS, ["1", "0"], None, 1, "label '0'"),
        (ModelLabels("sigmoid", (), 1), [2], None, 0, "label 2"),
        (NUMBER, [1.0, "high"], None, 1, "a number is expected"),
        (NUMBER, [float("inf")], None, 0, "finite"),
        (MANY, [1], None, 0, "a list is expected"),
        (MANY, ["bad"], None, 0, "a list is expected"),
        (MANY, [[0], [0, 7]], None, 1, "label 7"),
        (MANY, [[0, None]], None, 0, "missing"),
        (ModelLabels("multilabel", ("a", "b"), 2), [[1], [0, 1]], None, 1, "list of label numbers"),
    ],
)
def test_labels_that_the_model_does_not_have(space, labels, mapping, row, message):
    with pytest.raises(InputError, match=f"(?i)row {row} .*{message}"):
        read(space, labels, mapping)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"worst": 3}, "'worst' is no class of the model.*0 to 2 and the names bad, so-so, good. .unknown-label.$"),
        ({2: "pos"}, "2 is no class of the model"),
        ({"bad": 1, "good": 1}, "two classes, 0 and 2, to the label 1"),
        ({"bad": "1", "good": 1}, "two classes, 0 and 2, to the label 1"),
        ({}, "to be a dict"),
        (["bad"], "to be a dict"),
    ],
)
def test_mappings_that_make_no_sense(mapping, message):
    with pytest.raises(InputError, match=message):
        LabelReader(THREE, mapping)


@pytest.mark.parametrize(
    ("labels", "mapping", "turned_round"),
    [
        (THREE, {"neg": 0, "pos": 2}, "{'bad': 'neg', 'good': 'pos'}"),
        (THREE, {"neg": "bad", "pos": "Good"}, "{'bad': 'neg', 'good': 'pos'}"),
        (THREE, {5: 2, 1: 0}, "{'good': 5, 'bad': 1}"),
        (PLAIN, {"neg": 0, "pos": 1}, "{'LABEL_0': 'neg', 'LABEL_1': 'pos'}"),
        (ModelLabels("multiclass", (), 2), {"neg": 0, "pos": 1}, "{0: 'neg', 1: 'pos'}"),
    ],
)
def test_a_mapping_from_the_data_to_the_model_is_shown_turned_round(labels, mapping, turned_round):
    with pytest.raises(
        InputError, match=re.escape(f"It fits with classes and labels exchanged: {turned_round}.")
    ) as refused:
        LabelReader(labels, mapping)
    assert "gives a class of the model the label that it has in the data" in str(refused.value)


def test_several_labels_for_one_class_cannot_be_turned_round():
    with pytest.raises(InputError, match="Each class can have one label only"):
        LabelReader(THREE, {"awful": 0, "neg": 0, "pos": 2})


def test_a_mapping_for_a_regression():
    with pytest.raises(InputError, match="is a regression"):
        LabelReader(NUMBER, {"a": 1})


def test_names_that_differ_in_case_only_are_distinguished():
    space = ModelLabels("multiclass", ("A", "a"), 2)
    assert read(space, ["a", "A"])[0] == [1, 0]
    with pytest.raises(InputError, match="label 'À'"):
        read(space, ["À"])


def test_all_labels_are_checked_before_the_run():
    with pytest.raises(InputError, match=r"Row 4999"):
        open_data(Dataset.from_dict({"text": ["a"] * 5000, "label": [0] * 4999 + [9]}), labels=THREE)
