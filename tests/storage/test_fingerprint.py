"""Fingerprints: equal for what is equal wherever it lies, another for every change that could change a number."""

import copy
import subprocess
import sys
from functools import partial

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForSequenceClassification

import attnfaith as af
from attnfaith.data.source import Row
from attnfaith.errors import InputError
from attnfaith.storage.fingerprint import (
    fingerprint_function,
    fingerprint_model,
    fingerprint_rows,
    fingerprint_tokenizer,
)


def _bert(**changes):
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 8}
    return BertForSequenceClassification(BertConfig(**{**sizes, "vocab_size": 30, **changes})).eval()


def _tokenizer(texts=("a fine film", "dull"), **options):
    return af.models.WordTokenizer.train(list(texts), min_count=1, **options)


def test_a_model_equals_itself_saved_copied_used_and_cut(tmp_path):
    model = _bert()
    before = fingerprint_model(model)
    assert len(before) == 64
    model.save_pretrained(tmp_path)
    assert fingerprint_model(AutoModelForSequenceClassification.from_pretrained(tmp_path)) == before
    assert fingerprint_model(copy.deepcopy(model)) == before
    af.cut(model).capture(input_ids=torch.tensor([[2, 5, 6, 3]]), attention_mask=torch.ones(1, 4, dtype=torch.long))
    assert fingerprint_model(model.train().requires_grad_(False)) == before
    assert fingerprint_model(torch.compile(model)) == before  # wrapped, not compiled before it is called


def test_a_model_equals_itself_in_another_process(tmp_path):
    model, tokenizer = af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=9), _tokenizer()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    program = (
        "import sys, attnfaith, transformers\n"
        "from attnfaith.storage.fingerprint import fingerprint_model, fingerprint_tokenizer\n"
        "print(fingerprint_model(transformers.AutoModelForSequenceClassification.from_pretrained(sys.argv[1])))\n"
        "print(fingerprint_tokenizer(transformers.AutoTokenizer.from_pretrained(sys.argv[1])))"
    )
    message = subprocess.check_output([sys.executable, "-c", program, str(tmp_path)], text=True).split()
    assert message == [fingerprint_model(model), fingerprint_tokenizer(tokenizer)]


def _one_bit(model):
    weight = model.bert.encoder.layer[1].output.dense.weight
    weight.data.view(torch.int32)[3, 2] ^= 1


@pytest.mark.parametrize(
    "change",
    [
        _one_bit,
        lambda model: model.half(),
        lambda model: model.config.update({"id2label": {0: "good", 1: "bad"}}),
        lambda model: model.config.update({"layer_norm_eps": 1e-5}),
        lambda model: model.bert.register_buffer("more", torch.zeros(0)),
        lambda model: model.classifier.weight.data.__setitem__((0, 0), float("nan")),
        lambda model: setattr(model.classifier, "weight", nn.Parameter(model.classifier.weight.data.view(8, 2))),
    ],
)
def test_every_change_of_a_model_counts(change):
    model = _bert()
    before = fingerprint_model(model)
    change(model)
    assert fingerprint_model(model) != before


def test_other_models_differ():
    assert len({fingerprint_model(_bert(**c)) for c in ({}, {"hidden_act": "relu"}, {"num_labels": 3})}) == 3

    class Mine(nn.Linear):
        pass

    torch.manual_seed(0)
    first = Mine(2, 2)
    other = nn.Linear(2, 2)
    other.load_state_dict(first.state_dict())
    assert fingerprint_model(first) != fingerprint_model(other)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.bool, torch.complex64]
)
def test_tensors_of_every_type(dtype):
    model = nn.Module()
    model.register_buffer("value", torch.tensor(1).to(dtype))
    model.register_buffer("turned", torch.arange(6).view(2, 3).to(dtype).T)
    before = fingerprint_model(model)
    model.turned = model.turned.contiguous()  # in memory only
    assert fingerprint_model(model) == before
    model.value = torch.tensor(0).to(dtype)
    assert fingerprint_model(model) != before


def test_what_else_a_module_keeps_counts():
    class Packed(nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        def get_extra_state(self):
            return {"packed": (torch.ones(2) * self.scale, [self.scale]), "name": "a"}

    assert fingerprint_model(Packed(1)) == fingerprint_model(Packed(1)) != fingerprint_model(Packed(2))


def test_weights_that_are_not_loaded():
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    with pytest.raises(InputError, match="'bias' is not loaded"):
        fingerprint_model(model)


def test_a_tokenizer_equals_itself_saved_and_used(tmp_path):
    tokenizer = _tokenizer()
    before = fingerprint_tokenizer(tokenizer)
    tokenizer(["a fine film", "dull"], truncation=True, max_length=2, padding=True)
    tokenizer.padding_side, tokenizer.model_max_length = "left", 17
    assert fingerprint_tokenizer(tokenizer) == before
    tokenizer.save_pretrained(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "two")
    assert fingerprint_tokenizer(AutoTokenizer.from_pretrained(tmp_path / "two")) == before


def test_other_tokenizers_differ():
    added, cut_left = _tokenizer(), _tokenizer()
    added.add_tokens(["film-noir"])
    cut_left.truncation_side = "left"
    several = [
        _tokenizer(),
        added,
        cut_left,
        _tokenizer(texts=["a fine film", "dul"]),
        _tokenizer(texts=["a film fine", "dull"] * 2 + ["dull"] * 9),
        _tokenizer(sentences=True),
    ]
    assert len({fingerprint_tokenizer(item) for item in several}) == len(several)


def test_slow_tokenizers():
    class Slow:
        """What of a tokenizer without a backend is looked at."""

        truncation_side = "right"

        def __init__(self, words, **options):
            self.words, self.init_kwargs = words, options
            self.special_tokens_map = {"unk_token": "?"}

        def get_vocab(self):
            return {word: number for number, word in enumerate(self.words)}

    before = fingerprint_tokenizer(Slow("abc", name_or_path="/here"))
    assert before == fingerprint_tokenizer(Slow("abc", name_or_path="/there"))
    assert before != fingerprint_tokenizer(Slow("acb"))
    assert before != fingerprint_tokenizer(Slow("abc", do_lower_case=True))


NAN = float("nan")
ROWS = [
    [],
    [Row(0, "a")],
    [Row(0, "b")],
    [Row(0, None)],
    [Row(0, "")],
    [Row(0, "None")],
    [Row(0, "a", "")],
    [Row(0, "a", "b")],
    [Row(0, "ab", None)],
    [Row(0, "asb")],
    [Row(0, "a", "b0")],
    [Row(0, "a"), Row(1, "b")],
    [Row(0, "b"), Row(1, "a")],
    [Row(0, "a"), Row(1, None)],
    [Row(0, "a", None, 1)],
    [Row(0, "a", None, 1.0)],
    [Row(0, "a", None, (1,))],
    [Row(0, "a", None, ())],
    [Row(0, "a", None, (1, 2))],
    [Row(0, "a", None, (12,))],
    [Row(0, "a", None, -1)],
    [Row(0, "a", None, None, {"x": (1.0,)})],
    [Row(0, "a", None, None, {"y": (1.0,)})],
    [Row(0, "a", None, None, {"x": (1.0, 2.0)})],
    [Row(0, "a", None, None, {"x": (1.0,), "y": (2.0,)})],
    [Row(0, "a", None, None, {"x": (2.0,), "y": (1.0,)})],
    [Row(0, "a", None, None, {"x": ()})],
    [Row(0, "a", None, None, {"x": (NAN,)})],
]


def test_rows_that_differ_have_different_fingerprints():
    assert len({fingerprint_rows(rows) for rows in ROWS}) == len(ROWS)


def test_rows_that_are_equal_have_one_fingerprint():
    first = [Row(0, "naïve ☕", "b", 1, {"x": (1.0, NAN), "y": (2.0,)}), Row(1, None)]
    other = [Row(7, "naïve ☕", "b", 1, {"y": (2.0,), "x": (1.0, -NAN)}), Row(8, None)]
    assert fingerprint_rows(first) == fingerprint_rows(iter(other))


class _Weights:
    def __init__(self, table):
        self.table = table

    def __call__(self, inputs):
        return self.table


def _functions():
    """Functions that differ in one thing each; made anew in each call."""

    def scaled(inputs, *, factor=2):
        return inputs["input_ids"] * factor

    def closed(factor):
        return lambda inputs: inputs["input_ids"] * factor

    def listed(inputs):
        return inputs["input_ids"] if inputs["name"] in {"a", "b"} else 0

    return {
        "default": scaled,
        "bound": partial(scaled, factor=3),
        "bound to another": partial(scaled, factor=4),
        "closed": closed(2),
        "closed over another": closed(3),
        "closed over a tensor": closed(torch.ones(2)),
        "closed over another tensor": closed(torch.zeros(2)),
        "closed over a function": closed(closed(1)),
        "closed over another function": closed(closed(2)),
        "other code": lambda inputs: inputs["input_ids"] + 2,
        "another name": lambda inputs: inputs["attention_mask"] + 2,
        "a set": listed,
        "an object": _Weights(torch.ones(3)),
        "another object": _Weights(torch.zeros(3)),
        "its method": _Weights(torch.ones(3)).__call__,
    }


def test_a_function_is_known_by_its_code_and_what_it_holds():
    first, again = ({name: fingerprint_function(f) for name, f in _functions().items()} for _ in range(2))
    assert first == again
    assert len(set(first.values())) == len(first)
    program = (
        "from tests.storage.test_fingerprint import _functions, fingerprint_function\n"
        "print(*(fingerprint_function(function) for function in _functions().values()))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == list(first.values())
