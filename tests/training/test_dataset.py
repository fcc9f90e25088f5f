"""Labelled texts from any container; what cannot be trained on is refused by its row."""

import math

import numpy as np
import pytest
import torch

from attnfaith.errors import InputError
from attnfaith.training import fit
from attnfaith.training.dataset import label_tensor, open_columns
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
    yield "one split", lambda: datasets.DatasetDict(train=datasets.Dataset.from_list(DATA))
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


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_file_gives_the_same_weights(suffix, tmp_path):
    import datasets

    data, path = datasets.Dataset.from_list(DATA), tmp_path / f"a.{suffix}"
    data.to_parquet(path) if suffix == "parquet" else data.to_json(path)
    expected, tokenizer = small()
    fit(expected, tokenizer, DATA, **OPTIONS)
    model, _ = small()
    fit(model, tokenizer, path, **OPTIONS)
    assert same(weights(model), weights(expected))


def refused(message, train=DATA, validation=None, labels=2, **options):
    model, tokenizer = small(labels=labels, **options.pop("model", {}))
    with pytest.raises(InputError, match=message):
        fit(model, tokenizer, train, validation, **(OPTIONS | options))


def test_bad_data_are_refused():
    import datasets
    import pandas

    refused("In train: there are no rows", [])
    refused("In validation: there are no rows", validation=[])
    refused("In train: there are no rows", pandas.DataFrame({"text": [], "label": []}))
    refused(r"In train: .* no column 'txt' \(text_column\)\. Did you mean 'text'", text_column="txt")
    refused(
        "In train: .* no column 'lable'.* Did you mean 'label'", datasets.Dataset.from_list(DATA), label_column="lable"
    )
    refused("In validation: .* no column 'label'.* Columns: 'text'", validation=pandas.DataFrame({"text": ["good"]}))
    refused("In train: the label of row 3 .* is None", [*DATA[:3], {"text": "good"}])
    refused("In validation: Entry 2 of the list is of type str", validation=[*DATA[:2], "good"])
    refused("In train: There is no file 'reviews.csv'", "reviews.csv")
    refused("In train: .*from_dict", {"text": ["good"], "label": [1]})
    refused(
        "In train: The data have the splits",
        datasets.DatasetDict(dict.fromkeys("ab", datasets.Dataset.from_list(DATA))),
    )
    refused("In train: Expected data to be", 5)


def with_label(label):
    return [*DATA[:5], {"text": "good", "label": label}]


@pytest.mark.parametrize("label", [2, -1, 1.0, "1", None, math.nan, [0, 1]])
def test_labels_that_the_model_does_not_have_are_refused(label):
    refused("In train: the label of row 5 .* is .*; expected a whole number from 0 to 1", with_label(label))
    refused("In validation: the label of row 5", validation=with_label(label))
    refused("from 0 to 1", with_label(label), labels=1, model={"problem_type": "single_label_classification"})


def test_labels_of_other_decisions_are_checked_too():
    several = {"labels": 2, "model": {"problem_type": "multi_label_classification"}}
    for label in (1, [1], [0, 2], [0, 1, 1], "01", None, [0, None]):
        refused(
            "label of row 0 .* is .*; expected a list of 2 zeros and ones",
            [DATA[0] | {"label": label}],
            **several,
        )
    number = {"labels": 1, "model": {"problem_type": "regression"}}
    for label in ("1.5", None, math.nan, math.inf, [1.5]):
        refused("label of row 0 .* is .*; expected a number", [DATA[0] | {"label": label}], **number)


def test_texts_that_cannot_be_read_are_refused_by_row():
    refused("In train: Entry 1 is empty", [DATA[0], {"text": " ", "label": 0}])
    refused("In validation: Entry 1 is of type float", validation=[DATA[0], {"text": math.nan, "label": 0}])
    refused("this model reads pairs", model={"query": True})


def test_labels_become_tensors_of_the_right_kind():
    assert torch.equal(label_tensor([True, np.int32(0)], "sigmoid", 1), torch.tensor([1, 0]))
    assert torch.equal(label_tensor([1, 2.5], "regression", 1), torch.tensor([1.0, 2.5]))
    assert torch.equal(label_tensor([[0, 1.0]], "multilabel", 2), torch.tensor([[0.0, 1.0]]))
    assert torch.equal(label_tensor([[0, 7]], "regression", 2), torch.tensor([[0.0, 7.0]]))
    assert open_columns([], {"text_column": "text"}) == {"text_column": []}
