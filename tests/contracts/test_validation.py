"""Whatever is given for a public parameter: the call works, or raises an error of attnfaith that is short."""

import copy
import inspect
import math
import warnings

import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import attnfaith as af
from attnfaith import validation
from attnfaith.errors import AttnFaithError
from attnfaith.models.paper_presets import from_preset
from attnfaith.tiny_models import tiny_model
from attnfaith.validation import short_repr
from tests.helpers import commands

EXAMPLES = 20
LONG = "x" * 10_000
FULL = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Odd:
    """Raises at whatever is done with it."""

    def __repr__(self):
        raise RuntimeError("no repr")

    def __eq__(self, other):
        raise RuntimeError("no ==")

    __hash__ = None


SMALL = st.integers(-3, 6)
HUGE = st.sampled_from([2**31, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**5000)])
TENSORS = st.sampled_from(
    [
        torch.tensor([[5, 6, 7]]),
        torch.tensor([[5.0, math.nan, 7]]),
        torch.zeros(0),
        torch.zeros(1, 0, dtype=torch.long),
        torch.tensor(3),
        torch.tensor([[True, False, True]]),
        torch.ones(1, 1, 4, 3),
        torch.ones(1, 2, 3, dtype=torch.bool),
        torch.ones(1, 3, dtype=torch.complex64),
        torch.tensor([[-1, 10**12, 7]]),
    ]
)
NAMES = (
    "all predicted gold attention input both random erasure single_weight text label final mean zero pad mask delete "
    "attention_mask probability logit multiclass regression lrp gradient good bad include cpu cuda:99"
)
WORDS = st.sampled_from([*NAMES.split(), "", " ", LONG, "\x1b[2J\ud800\0", "test[:100]", "no/such/name"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    SMALL,
    HUGE,
    st.floats(),
    st.complex_numbers(),
    st.binary(max_size=4),
    st.text(max_size=8),
    WORDS,
    TENSORS,
    st.sampled_from([Odd(), object(), int, len, range(3), ..., {1, 2}, bytearray(3), pd.NA, pd.Series([1, 2])]),
)
HASHABLE = st.one_of(st.none(), st.booleans(), SMALL, st.floats(), WORDS, st.text(max_size=4))
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.lists(SCALARS, max_size=3).map(tuple),
    st.dictionaries(HASHABLE, SCALARS, max_size=2),
    st.just([LONG] * 3),
    st.just({LONG: LONG}),
)


def attempt(call):
    """The call works, or one of our errors comes out, that does not repeat a long argument whole."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except AttnFaithError as error:
        assert len(str(error)) < 3000, str(error)[:300]  # noqa: PT017 (both are right)
        return None


def parameters(function):
    return [name for name in inspect.signature(function).parameters if name not in ("self", "overrides", "inputs")]


@pytest.fixture(scope="module")
def flan(tmp_path_factory):
    folder = commands.save_flan(tmp_path_factory.mktemp("models") / "flan")
    attributor = af.Attributor(str(folder))
    return attributor.cut.model, attributor.encoder.tokenizer


@pytest.fixture(scope="module")
def evaluator(flan):
    return af.Evaluator(*flan)


@pytest.fixture(scope="module")
def bert():
    return af.cut(tiny_model("bert"))


# ---- the findings that this began with


ROWS = [{"text": text, "label": 0} for text in commands.texts(4)]
FOUND = [
    {"explanations": 0.5},
    {"rankings": 1e308},
    {"tests": 3},
    {"output_dir": 3},
    {"input_column": {}},
    {"label_mapping": {"LABEL_0": {}}},
    {"label_mapping": {"bad": {}}},
    {"rankings": LONG},
    {"tests": [LONG]},
    {"rankings": [LONG]},
    {"target": LONG},
    {"input_column": LONG},
    {"hide": LONG},
    {"n_resamples": 10**9},
    {"output_dir": "a\0b"},
]


@pytest.mark.parametrize("given", FOUND, ids=[f"{next(iter(item))}-{index}" for index, item in enumerate(FOUND)])
def test_odd_options_of_an_evaluation(evaluator, given):
    with pytest.raises(af.InputError) as caught:
        evaluator.compute(ROWS, **{"n_resamples": 20, **given})
    assert len(str(caught.value)) < 1000
    assert next(iter(given)) in str(caught.value) or LONG[:9] in str(caught.value)


@pytest.mark.parametrize("given", [{"method": []}, {"head": "lrp"}, {"layer": 0.5}, {"method": LONG}, {"steps": "3"}])
def test_odd_options_of_an_attributor(flan, given):
    with pytest.raises(af.InputError) as caught:
        af.Attributor(*flan, **given)
    assert len(str(caught.value)) < 1000


# ---- any value for any parameter


@pytest.mark.parametrize("name", parameters(af.Evaluator.compute))
def test_an_evaluation(evaluator, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # "." is data too: every file of the folder

    @FULL
    @given(value=VALUES)
    @example(value=None)
    def check(value):
        known = {"data": ROWS, "rankings": ["attention"], "n_resamples": 20, "quiet": True, "tests": ["single_weight"]}
        if name == "output_dir" and isinstance(value, str):
            return  # folders of any name belong to the tests of storing
        attempt(lambda: evaluator.compute(**{**known, name: value}))

    check()


@pytest.mark.parametrize("name", parameters(af.Evaluator))
def test_an_evaluator(flan, name):
    @FULL
    @given(value=VALUES)
    def check(value):
        attempt(lambda: af.Evaluator(**{"model": flan[0], "tokenizer": flan[1], name: value}))

    check()


@pytest.mark.parametrize("method", ["attention", "integrated_gradients", "random", "lrp"])
@pytest.mark.parametrize("name", parameters(af.Attributor))
def test_an_attributor(flan, name, method):
    @FULL
    @given(value=VALUES)
    def check(value):
        known = {"model": flan[0], "tokenizer": flan[1], "method": method, "steps": 3}
        commands = attempt(lambda: af.Attributor(**{**known, name: value}))
        if commands is not None and commands.encoder is not None:
            attempt(lambda: commands("a fine film"))

    check()


@pytest.mark.parametrize("name", ["texts", "target"])
def test_calling_an_attributor(flan, name):
    attributor = af.Attributor(*flan)

    @FULL
    @given(value=VALUES)
    def check(value):
        attempt(lambda: attributor(**{"texts": "a fine film", name: value}))

    check()


@pytest.mark.parametrize("name", parameters(af.Attributor.attribute))
def test_attributing_ids(flan, name):
    attributor = af.Attributor(*flan, level="input", method="integrated_gradients", steps=3)

    @FULL
    @given(value=VALUES)
    def check(value):
        known = {"inputs": torch.tensor([[5, 6, 7]]), "additional_forward_args": None}
        attempt(lambda: attributor.attribute(**{**known, name: value}))

    check()


@pytest.mark.parametrize("name", parameters(af.cut))
def test_cutting(name):
    model = tiny_model("bert")

    @FULL
    @given(value=VALUES)
    def check(value):
        attempt(lambda: af.cut(**{"model": model, "check": False, name: value}))

    check()


@pytest.mark.parametrize("name", ["input_ids", "attention_mask", "token_type_ids", "position_ids", "no_such"])
def test_capturing(bert, name):
    @FULL
    @given(value=VALUES)
    def check(value):
        attempt(lambda: bert.capture(**{"input_ids": torch.tensor([[5, 6, 7]]), name: value}))

    check()


@pytest.mark.parametrize("name", ["keep", "weights", "order", "capture"])
def test_rerunning(bert, name):
    capture = bert.capture(input_ids=torch.tensor([[5, 6, 7]]))

    @FULL
    @given(value=VALUES)
    def check(value):
        if name == "order":
            attempt(lambda: bert.prefixes(capture, value))
        elif name == "capture":
            attempt(lambda: bert.rerun(value, keep=torch.ones(1, 1, 3, dtype=torch.bool)))
        else:
            attempt(lambda: bert.rerun(capture, **{name: value}))

    check()


@pytest.mark.parametrize("name", [*parameters(from_preset), "hidden_size", "encoder", "temperature", "problem_type"])
def test_a_preset(name):
    @FULL
    @given(value=VALUES)
    def check(value):
        known = {"name": "FLANrnn", "vocab_size": 20}
        attempt(lambda: from_preset(**{**known, **({"vocab_size": None} if name == "tokenizer" else {}), name: value}))

    check()


@FULL
@given(value=VALUES)
def test_loading_results(value):
    attempt(lambda: af.load_results(value))


@pytest.mark.parametrize("name", parameters(af.perturb_tokens))
def test_perturbing(name):
    @FULL
    @given(value=VALUES)
    def check(value):
        commands = attempt(lambda: af.perturb_tokens(**{"replacement": [5, 6], name: value}))
        if commands is not None:
            attempt(lambda: commands(torch.tensor([[5, 6, 7]])))

    check()


# ---- the checks themselves


@settings(max_examples=500, deadline=None, derandomize=True)
@given(value=VALUES)
def test_every_check_takes_anything(value):
    for check in (
        lambda: validation.whole_number(value, "x", least=1),
        lambda: validation.number(value, "x", above=0),
        lambda: validation.share(value, "x"),
        lambda: validation.flag(value, "x"),
        lambda: validation.one_of(value, ("a", None), "x"),
        lambda: validation.text(value, "x"),
        lambda: validation.column(value, "x"),
        lambda: validation.several(value, "x"),
        lambda: validation.mapping(value, "x", lambda inner: isinstance(inner, str), "names"),
        lambda: validation.path(value, "x"),
    ):
        attempt(check)
    assert len(short_repr(value)) <= 60
    assert "\n" not in short_repr(value)
    assert copy.copy(short_repr(value)) is not None


def test_numbers_that_are_taken():
    import numpy as np

    assert (validation.whole_number(np.int64(3), "x"), type(validation.whole_number(np.int64(3), "x"))) == (3, int)
    assert validation.share(np.float32(0.5), "x") == 0.5
    for wrong in (0.0, 1.0, math.nan, -0.5, True, "0.5"):
        with pytest.raises(af.InputError, match="between 0 and 1"):
            validation.share(wrong, "x")
    assert validation.share(1, "x", one=True) == 1.0
    for wrong in (0, 2.0, True, 10**30, "1"):
        with pytest.raises(af.InputError, match="Expected x to be a whole number"):
            validation.whole_number(wrong, "x", least=1)
