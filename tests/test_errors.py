"""The codes of errors, and messages that quote other errors."""

import pickle

import pandas as pd
import pytest

from attnfaith.attribution.method import methods
from attnfaith.errors import (
    CODES,
    AttnFaithError,
    InputError,
    NumericalError,
    StorageError,
    UnsupportedModelError,
    message_of,
)
from attnfaith.training.dataset import TrainingRows

CLASSES = [AttnFaithError, InputError, NumericalError, StorageError, UnsupportedModelError]


@pytest.mark.parametrize("kind", CLASSES)
def test_the_code_is_at_the_end_of_the_message_alone(kind):
    error = kind("It failed.")
    assert error.code == kind.default_code
    assert error.code in CODES
    assert (str(error), error.message, error.args) == (f"It failed. [{error.code}]", "It failed.", ("It failed.",))
    assert str(kind()) == f"[{error.code}]"
    assert str(kind("A", code="other-run")) == "A [other-run]"


@pytest.mark.parametrize("kind", CLASSES)
def test_errors_travel_between_processes(kind):
    copy = pickle.loads(pickle.dumps(kind("It failed.", code="other-run")))
    assert (type(copy), copy.message, copy.code) == (kind, "It failed.", "other-run")


def test_a_quoted_error_loses_its_code():
    assert message_of(InputError("Got 1.")) == "Got 1."
    assert message_of(ValueError("Got 1.")) == "Got 1."


def test_an_error_with_more_context_has_one_code():
    frame, columns = pd.DataFrame({"text": [], "label": []}), {"text": "text", "label": "label"}
    with pytest.raises(InputError) as refused:
        TrainingRows(None, frame, columns, kind="multiclass", num_labels=2, data_name="the training data")
    assert str(refused.value).count("[") == 1
    assert refused.value.code == "no-texts"


def test_names_that_are_unknown_share_a_code():
    with pytest.raises(InputError) as refused:
        methods["attention", "atention"]
    assert refused.value.code == "unknown-name"
