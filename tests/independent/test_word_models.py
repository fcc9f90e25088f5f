"""Erasure on the attention classifiers of the papers, against the equations of their layers and brute force."""

import functools
import random

import pytest
import torch

import attnfaith as af
from tests.helpers.installed_families import and_others
from tests.independent.comparing import Seen, compare, compute
from tests.independent.decisions import Rule
from tests.independent.words import Layers, WordText

QUICK = ("FLANrnn", "HANrnn", "HANconv", "Wen-mlp-deep-gumbel")
VOCABULARY = [f"w{number}" for number in range(40)]
CLASSES = {"multiclass": 3, "binary": 2, "sigmoid": 1, "multilabel": 3, "regression": 1}
LIMIT = 0.3
RANKINGS = ("attention/attention", "attention/gradient", "attention/gradient_x_attention", "attention/optimal")


def presets():
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in af.models.presets()]


def texts(by_sentences, seed=0):
    """At most 10 items each: 2 to 10 words, or up to 6 sentences of 1 to 3 words."""
    draw, result = random.Random(seed), []
    for count in (10, 7, 2, 9, 5, 3, 8):
        sizes = [draw.randint(1, 3) for _ in range(max(2, count // 2 + 1))] if by_sentences else [count]
        result.append(
            " ".join(
                " ".join([*draw.choices(VOCABULARY, k=size), "."][: size + by_sentences]).capitalize() for size in sizes
            )
        )
    return result


@functools.lru_cache(maxsize=4)
def model_of(name, kind, seed=0):
    """Weights so large that decisions differ, and the bias does not decide by itself."""
    by_sentences = af.models.preset(name).config.get("by_sentences", False)
    tokenizer = af.models.WordTokenizer.train([" ".join([*VOCABULARY, "."])], min_count=1, sentences=by_sentences)
    sizes = {"embedding_size": 12, "hidden_size": 6, "attention_size": None if by_sentences else 7}
    problem = {"problem_type": "single_label_classification"} if kind == "sigmoid" else {}
    model = af.models.from_preset(name, num_labels=CLASSES[kind], tokenizer=tokenizer, **sizes, **problem)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(1.4 * noise * parameter.shape[-1] ** -0.5)
    model = model.double().eval()
    layers = Layers(model.config, {name: value.detach() for name, value in model.state_dict().items()})
    rule = Rule("multiclass" if kind == "binary" else kind, LIMIT)
    rows = texts(by_sentences, seed)
    ids = [tokenizer(text)["input_ids"] for text in rows]
    mean = torch.tensor([WordText(layers, item, rule).logits for item in ids], dtype=torch.float64).mean(0)
    with torch.no_grad():
        model.classifier.bias -= mean
    draw = random.Random(seed)
    data = [{"text": text, "given": [draw.random() for _ in item]} for text, item in zip(rows, ids, strict=True)]
    slow = [WordText(layers, item, rule, row["given"]) for item, row in zip(ids, data, strict=True)]
    return model, tokenizer, data, slow


def check(name, kind, seen, *, side="right", batch_size=8):
    model, tokenizer, data, slow = model_of(name, kind)
    tokenizer.padding_side = side
    options = {} if kind in ("multiclass", "binary") else {"decision": kind}
    if kind == "regression":
        options["tolerance"] = LIMIT
    for item in slow:
        with torch.no_grad():
            assert model(torch.tensor([item.ids])).logits[0].tolist() == pytest.approx(item.logits, rel=0, abs=1e-10)
    evaluator = af.Evaluator(model, tokenizer, **options)
    results = compute(evaluator, data, rankings=list(RANKINGS), level="attention", batch_size=batch_size)
    compare(
        results,
        lambda row: expected_at_attention(slow[row["text_id"]], row),
        tolerance=1e-8,
        rows=sum(len(entry.whole.weights) > 1 for entry in slow) * len(RANKINGS),
        seen=seen,
    )
    results = compute(
        evaluator, data, rankings=["attention"], explanations={"given": "given"}, level="input", batch_size=batch_size
    )
    assert results.manifest["run"]["hide"] == "delete"
    compare(
        results,
        lambda row: slow[row["text_id"]].row("input", row["ranking"]),
        tolerance=1e-8,
        rows=2 * len(slow),
        seen=seen,
    )


def expected_at_attention(item, row):
    """The bounds of every row are the size by brute force, and that is what the exact optimum removes."""
    known = {"minimum_low": item.smallest, "minimum_high": item.smallest, "flippable": item.smallest is not None}
    if row["ranking"] != "optimal":
        return known | item.row("attention", row["ranking"])
    count = len(item.whole.weights)
    return known | {"items": count, "removed": item.smallest, "censored": item.smallest is None}


@pytest.mark.parametrize("name", presets())
def test_presets(name):
    seen = Seen()
    check(name, "multiclass", seen, batch_size=3)
    seen.check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("name", and_others(["FLANrnn", "HANrnn"], ["FLANconv", "HANnoenc"]))
def test_kinds_of_decision(name, kind):
    seen = Seen()
    check(name, kind, seen, batch_size=1)
    check(name, kind, seen, side="left")
    seen.check()
