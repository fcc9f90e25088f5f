"""Models on disk that are broken, or made to do harm: one documented error each, soon, and no code is run."""

import contextlib
import json
import os
import pickle
import shutil
import time
from functools import partial

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

import attnfaith as af
from attnfaith.attribution.model_loading import load_model
from attnfaith.tiny_models import tiny_model
from tests.faults.children import evaluate_in_terminal, forked
from tests.helpers import tokenizers


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "bert"
    tiny_model("bert").save_pretrained(folder)
    tokenizers.word_piece().save_pretrained(folder)
    return folder


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "bert")


def configured(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def pickled(folder, content):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(content)


class Harm:
    """What a pickle can do when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def refused(folder, *words):
    start = time.monotonic()
    with pytest.raises(af.InputError) as caught:
        af.Attributor(str(folder))
    assert time.monotonic() - start < 20
    message = str(caught.value)
    assert len(message) < 1500
    for word in words:
        assert word in message
    return message


def test_weights_are_where_torch_would_put_them(copy):
    """In a file that is mapped into memory they begin anywhere, and rounding depends on it."""
    raw = AutoModelForSequenceClassification.from_pretrained(copy)
    loaded, _ = load_model(str(copy), None)
    assert {weight.data_ptr() % 64 for weight in (*loaded.parameters(), *loaded.buffers())} == {0}
    for name, weight in raw.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name


def test_the_copy_is_fine(copy):
    assert len(af.Attributor(str(copy))("A thin plot").scores) > 2


@pytest.mark.parametrize(
    "content", [b"", b"junk" * 100, pickle.dumps({"a": 1}), b"PK\x03\x04" + b"\0" * 100], ids=range(4)
)
def test_broken_pickles(copy, content):
    pickled(copy, content)
    refused(copy, str(copy))


def test_a_pickle_that_would_do_harm_is_not_run(copy, tmp_path):
    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    torch.save({**weights, "harm": Harm(tmp_path / "done")}, copy / "pytorch_model.bin")
    refused(copy, str(copy))
    assert not (tmp_path / "done").exists()
    torch.save(weights, copy / "pytorch_model.bin")  # weights alone are read
    assert af.Attributor(str(copy))


@pytest.mark.parametrize("kept", [0, 4, 100, 5000])
def test_truncated_weights(copy, kept):
    file = copy / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    refused(copy, str(copy))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '{"a": NaN', "[" * 100_000, "\x00\xff"])
def test_a_configuration_that_is_none(copy, text):
    (copy / "config.json").write_bytes(text.encode("latin-1"))
    refused(copy, "config.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"pad_token_id": 10**9},
        {"num_labels": 10**9, "id2label": None},
        {"num_labels": 10**9},
        {"num_labels": "many"},
        {"vocab_size": 10**9},
        {"vocab_size": "x"},
        {"vocab_size": -1},
        {"hidden_size": 10**7},
        {"hidden_size": None},
        {"hidden_size": 33},
        {"num_hidden_layers": 10**9},
        {"max_position_embeddings": 10**10},
        {"type_vocab_size": 10**10},
        {"intermediate_size": 1e300},
        {"num_attention_heads": 0},
        {"hidden_act": "no such"},
        {"hidden_dropout_prob": "a"},
        {"id2label": 3},
        {"id2label": ["a"]},
        {"model_type": "no such"},
        {"model_type": 3},
        {"model_type": None, "architectures": 3},
        {"torch_dtype": "float3"},
    ],
    ids=lambda changes: "-".join(f"{name}={value}" for name, value in changes.items())[:60],
)
def test_sizes_and_types_that_cannot_be(copy, changes):
    """Refused, or loaded as if nothing was said; never anything else, and soon."""
    configured(copy, **{"id2label": {"0": "a", "1": "b", "2": "c"}, **changes})
    start = time.monotonic()
    with contextlib.suppress(af.AttnFaithError):
        af.Attributor(str(copy))("A thin plot")
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("changes", [{"num_labels": 10**9}, {"num_hidden_layers": 10**9}, {"vocab_size": 10**9}])
def test_sizes_beyond_all_memory_are_named(copy, changes):
    configured(copy, **changes)
    refused(copy, "config.json" if "vocab_size" not in changes else "asks for a model of")


@pytest.mark.parametrize("lacking", [["tokenizer.json", "tokenizer_config.json"], ["tokenizer.json"]])
def test_a_tokenizer_that_is_not_there(copy, lacking):
    for name in lacking:
        (copy / name).unlink()
    refused(copy)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model": 3}', '{"version": "1.0", "model": {"type": "BPE"}}'])
def test_a_tokenizer_that_is_broken(copy, text):
    (copy / "tokenizer.json").write_text(text)
    refused(copy)


def test_a_tokenizer_of_another_model(copy):
    """Some ids are outside the vocabulary: said of the text that has them."""
    tokenizers.word_piece(["many other words in here " + " ".join(f"w{n}x" for n in range(500))], 3000).save_pretrained(
        copy
    )
    with pytest.raises(af.InputError, match="Is this the model's own tokenizer"):
        af.Attributor(str(copy))("w499x w400x")


CODE = "import os\nos.mkdir({path!r})\n"


@pytest.mark.parametrize("where", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("model_type", ["my_own", "bert"])
def test_code_that_comes_with_a_model_is_not_run_and_there_is_no_prompt(copy, where, model_type, tmp_path):
    """On a terminal, where Transformers would ask: run the custom code? [y/N]."""
    (copy / "evil.py").write_text(CODE.format(path=str(tmp_path / "done")))
    maps = {
        "AutoConfig": "evil.C",
        "AutoModelForSequenceClassification": "evil.M",
        "AutoTokenizer": ["evil.T", "evil.T"],
    }
    configured(copy, model_type=model_type)
    file = copy / where
    file.write_text(json.dumps({**json.loads(file.read_text()), "auto_map": maps}))
    if where == "tokenizer_config.json":
        content = json.loads(file.read_text())
        file.write_text(json.dumps({**content, "tokenizer_class": "T"}))
    asked = ("explain", str(copy), "A thin plot")
    ended = forked(partial(evaluate_in_terminal, str(tmp_path / "terminal"), *asked, typed=b"y\n"), limit=60)
    assert not ended.hung
    told = " ".join((tmp_path / "terminal").read_text(encoding="utf-8").split())
    assert "y/N" not in told
    assert "Traceback" not in told
    assert not (tmp_path / "done").exists()
    if model_type == "my_own":
        assert ended.code in (1, 2), told
    if (where, model_type) == ("config.json", "my_own"):
        assert "code of its own" in told
        assert "load it yourself" in told
