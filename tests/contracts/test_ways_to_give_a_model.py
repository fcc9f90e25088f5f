"""Each row of the table of docs/models_supported.md: a way to give a model is supported, or refused with the reason."""

import json
import re
import shutil
import warnings
from pathlib import Path

import huggingface_hub
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline

import attnfaith as af
from tests.helpers import commands

PAGE = Path(__file__).parents[2] / "docs" / "models_supported.md"
ROWS = re.findall(r"^\| (.+?) \| (yes|no|not tried) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
TEXTS = commands.texts(8)
WAYS = {}


def way(name, message=None, warning=None, close=False):
    """A function from a saved folder (and a folder of its own) to the arguments of an Evaluator.

    Args:
        name: of the row.
        message: of the refusal, for a way that is not supported.
        warning: that is shown.
        close: whether the numbers are other ones.
    """

    def registered(function):
        WAYS[name] = (function, message, warning, close)
        return function

    return registered


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A tiny BERT whose decisions flip."""
    folder = commands.save_bert(tmp_path_factory.mktemp("models") / "bert")
    model = loaded(folder)[0]
    with torch.no_grad():
        model.classifier.weight.mul_(50)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def expected(saved):
    return table_of(*loaded(saved))


def loaded(folder, **options):
    model = AutoModelForSequenceClassification.from_pretrained(folder, **options).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def table_of(model, tokenizer=None):
    results = af.Evaluator(model, tokenizer).compute(
        TEXTS, rankings=["attention", "gradient"], tests=["erasure"], n_resamples=5, quiet=True
    )
    return results.table("erasure")


@way("a model object and its tokenizer")
def _(saved, folder):
    return loaded(saved)


@way("a model in training mode, with gradient checkpointing")
def _(saved, folder):
    model, tokenizer = loaded(saved)
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    return model.train(), tokenizer


@way("the path of a folder of `save_pretrained`")
def _(saved, folder):
    return (str(saved),)


def cached(saved, folder):
    """The files of a model as the cache of the hub lays them out."""
    home = folder / "models--me--bert"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("0" * 40)
    snapshot = home / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (home / "blobs").mkdir()
    for number, file in enumerate(saved.iterdir()):
        blob = home / "blobs" / f"{number:040x}"
        shutil.copy(file, blob)
        (snapshot / file.name).symlink_to(blob)


@way("a hub id in the cache, offline")
def _(saved, folder):
    cached(saved, folder)
    return ("me/bert",)


@way("a hub id that is not in the cache, offline", "'me/other': OSError: .*(offline|connect)")
def _(saved, folder):
    return ("me/other",)


@way("a `text-classification` pipeline")
def _(saved, folder):
    model, tokenizer = loaded(saved)
    return (pipeline("text-classification", model=model, tokenizer=tokenizer),)


def with_lora(saved):
    """A BERT with adapters that do nothing: the numbers are those of the model without them."""
    peft = pytest.importorskip("peft")
    model, tokenizer = loaded(saved)
    settings = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"])
    return peft.get_peft_model(model, settings).eval(), tokenizer


@way("a PEFT model (LoRA)")
def _(saved, folder):
    return with_lora(saved)


@way("the path of a PEFT adapter")
def _(saved, folder):
    model, tokenizer = with_lora(saved)
    model.save_pretrained(folder / "adapter")
    tokenizer.save_pretrained(folder / "adapter")
    return (str(folder / "adapter"),)


@way("`torch.compile(model)`")
def _(saved, folder):
    model, tokenizer = loaded(saved)
    return torch.compile(model, backend="eager"), tokenizer


@way("`DataParallel`")
def _(saved, folder):
    model, tokenizer = loaded(saved)
    return torch.nn.DataParallel(model), tokenizer


@way("float16", warning="half precision", close=True)
def _(saved, folder):
    return loaded(saved, dtype=torch.float16)


@way("bfloat16", warning="half precision", close=True)
def _(saved, folder):
    return loaded(saved, dtype=torch.bfloat16)


@way("the path of a model in half precision", close=True)  # the weights themselves are rounded
def _(saved, folder):
    model, tokenizer = loaded(saved, dtype=torch.bfloat16)
    model.save_pretrained(folder / "half")
    tokenizer.save_pretrained(folder / "half")
    return (str(folder / "half"),)


@way("8-bit linear layers (`quantize_dynamic` of torch)", "quantised to integers they have no gradient")
def _(saved, folder):
    quantize = getattr(getattr(torch.ao, "quantization", None), "quantize_dynamic", None)
    if quantize is None or not torch.backends.quantized.supported_engines:
        pytest.skip("this torch has no dynamic quantisation")
    model, tokenizer = loaded(saved)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quantize(model, {torch.nn.Linear}, dtype=torch.qint8), tokenizer


@way("8-bit and 4-bit (bitsandbytes)")
def _(saved, folder):
    pytest.skip("needs a GPU")


@way("a path whose model brings code of its own", "code of its own, which attnfaith does not run")
def _(saved, folder):
    shutil.copytree(saved, folder / "own")
    (folder / "own" / "code.py").write_text("raise SystemExit('the code was run')\n")
    file = folder / "own" / "config.json"
    maps = {"AutoConfig": "code.C", "AutoModelForSequenceClassification": "code.M"}
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_type": "own", "auto_map": maps}))
    return (str(folder / "own"),)


@way("a model without a classifier head", "holds no trained classifier")
def _(saved, folder):
    AutoModel.from_pretrained(saved).save_pretrained(folder / "base")
    AutoTokenizer.from_pretrained(saved).save_pretrained(folder / "base")
    return (str(folder / "base"),)


@way("a tokenizer that is missing", "pass the model's tokenizer")
def _(saved, folder):
    return (loaded(saved)[0],)


def test_each_row_has_a_test():
    assert [name for name, _ in ROWS] == list(WAYS)
    assert [supported == "no" for _, supported in ROWS] == [message is not None for _, message, *_ in WAYS.values()]


SLOW = ("`torch.compile(model)`",)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in WAYS])
def test_a_row(name, saved, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *prompt: pytest.fail("there was a prompt"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    function, message, warning, close = WAYS[name]
    arguments = function(saved, tmp_path)
    if message is not None:
        for kind in (af.Evaluator, af.Attributor):
            if name == "a tokenizer that is missing" and kind is af.Attributor:
                continue  # it also takes ids
            with pytest.raises((af.InputError, af.UnsupportedModelError), match=message):
                kind(*arguments)
        return
    if warning:
        with pytest.warns(UserWarning, match=warning):
            table = table_of(*arguments)
    else:
        table = table_of(*arguments)
    columns = ["text_id", "ranking", "ranking_level", "erase_level", "removed"]
    if not close:
        assert table[columns].equals(expected[columns])
        return
    assert table[columns[:-1]].equals(expected[columns[:-1]])
    assert (table["removed"] == expected["removed"]).mean() > 0.5
