"""Labelled texts from any container; invalid rows are refused with their number."""

import math

import numpy as np
import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.training import fit
from attnfaith.training.dataset import column, label_tensor
from tests.helpers.training_data import rows, same, small, weights

DATA = rows(24)
OPTIONS = {"learning_rate": 0.01, "epochs": 1, "batch_size": 8}


def containers():
    import datasets
    import pandas

    yield "tuple", lambda: tuple(DATA)
    yield "generator", lambda: (row for row in DATA)
    yield "frame", lambda: pandas.DataFrame(DATA, index=range(100, 124))
    yield "arrow frame", lambda: pandas.DataFrame(DATA).convert_dtypes(dtype_backend="pyarrow")
    yield "dataset", lambda: datasets.Dataset.from_list(DATA)
    yield "streamed", lambda: datasets.Dataset.from_list(DATA).to_iterable_dataset()
    yield "numpy labels", lambda: [row | {"label": np.int64(row["label"])} for row in DATA]


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in containers()])
def test_containers_give_the_same_weights(make):
    expected, tokenizer = small()
    fit(expected, tokenizer, DATA, DATA, **OPTIONS)
    model, _ = small()
    fit(model, tokenizer, make(), make(), **OPTIONS)
    assert same(weights(model), weights(expected))


def test_a_stream_is_read_once():
    import datasets

    passes = []

    def stream():
        passes.append(1)
        yield from DATA

    model, tokenizer = small("FLANnoenc")
    streamed = datasets.IterableDataset.from_generator(stream, features=datasets.Dataset.from_list(DATA).features)
    fit(model, tokenizer, streamed, **OPTIONS)
    assert passes == [1]


def refused(message, train=DATA, validation=None, labels=2, **options):
    model, tokenizer = small(labels=labels, **options.pop("model", {}))
    with pytest.raises(InputError, match=message):
        fit(model, tokenizer, train, validation, **(OPTIONS | options))


def test_bad_data_are_refused():
    import datasets
    import pandas

    refused("no rows in train", [])
    refused("no rows in validation", validation=[])
    refused("no rows in train", pandas.DataFrame({"text": [], "label": []}))
    refused("Row 0 of train has no column 'txt'. Did you mean 'text'", text_column="txt")
    refused("Train has no column 'lable'. Did you mean 'label'", datasets.Dataset.from_list(DATA), label_column="lable")
    refused("Validation has no column 'label'. Known columns: 'text'", validation=pandas.DataFrame({"text": ["good"]}))
    refused("Row 3 of train has no column 'label'", [*DATA[:3], {"text": "good"}])
    refused("Row 2 of validation is of type str", validation=[*DATA[:2], "good"])
    refused("list of dicts", "reviews.csv")
    refused("list of dicts", {"text": ["good"], "label": [1]})
    refused("list of dicts", datasets.DatasetDict(train=datasets.Dataset.from_list(DATA)))
    refused("list of dicts", 5)


def with_label(label):
    return [*DATA[:5], {"text": "good", "label": label}]


@pytest.mark.parametrize("label", [2, -1, 1.0, "1", None, math.nan, [0, 1]])
def test_labels_that_the_model_does_not_have_are_refused(label):
    refused("label of row 5 of train is .*; expected a whole number from 0 to 1", with_label(label))
    refused("label of row 5 of validation", validation=with_label(label))
    refused("from 0 to 1", with_label(label), labels=1, model={"problem_type": "single_label_classification"})


def test_labels_of_other_decisions_are_checked_too():
    several = {"labels": 2, "model": {"problem_type": "multi_label_classification"}}
    for label in (1, [1], [0, 2], [0, 1, 1], "01", None, [0, None]):
        refused(
            "label of row 0 of train is .*; expected a list of 2 zeros and ones",
            [DATA[0] | {"label": label}],
            **several,
        )
    number = {"labels": 1, "model": {"problem_type": "regression"}}
    for label in ("1.5", None, math.nan, math.inf, [1.5]):
        refused("label of row 0 of train is .*; expected a number", [DATA[0] | {"label": label}], **number)


def test_texts_that_cannot_be_read_are_refused_by_row():
    refused("In train: Entry 1 is empty", [DATA[0], {"text": " ", "label": 0}])
    refused("In validation: Entry 1 is of type float", validation=[DATA[0], {"text": math.nan, "label": 0}])
    refused("this model reads pairs", model={"query": True})


def test_labels_become_tensors_of_the_right_kind():
    assert torch.equal(label_tensor([True, np.int32(0)], "sigmoid", 1, "x"), torch.tensor([1, 0]))
    assert torch.equal(label_tensor([1, 2.5], "regression", 1, "x"), torch.tensor([1.0, 2.5]))
    assert torch.equal(label_tensor([[0, 1.0]], "multilabel", 2, "x"), torch.tensor([[0.0, 1.0]]))
    assert torch.equal(label_tensor([[0, 7]], "regression", 2, "x"), torch.tensor([[0.0, 7.0]]))
    assert column([], "text", "x") == []
