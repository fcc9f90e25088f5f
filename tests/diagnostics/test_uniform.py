"""Uniform attention finds planted truth: tasks that need attention, and tasks in which it cannot matter."""

import random

import pandas as pd
import pytest
import torch

import attnfaith as af
from attnfaith.diagnostics.base import Figures
from attnfaith.diagnostics.outputs import outputs_of
from attnfaith.diagnostics.uniform.diagnostic import Uniform
from attnfaith.functional.decision import Decision
from attnfaith.text.encoder import TextEncoder
from attnfaith.training import FixedAttention, fit

NAMES, COLOURS = ("anna", "bob", "carl"), ("red", "blue")


def asked(count, seed):
    """What colour does somebody have? The text says it of all; only the one who is asked for counts.

    With uniform attention the logits are a sum of what the text says and of what the question says: no such sum gives
    the colour of the one who is asked for.
    """
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        colours = {name: draw.choice(COLOURS) for name in NAMES}
        name = draw.choice(NAMES)
        text = " ".join(f"{key}{value}" for key, value in colours.items())
        rows.append({"text": text, "question": name, "label": COLOURS.index(colours[name])})
    return rows


def repeated(count, seed):
    """All words of a text are the same: every attention gives the same average."""
    draw = random.Random(seed)
    return [{"text": " ".join([COLOURS[label]] * draw.randint(2, 5)), "label": label} for label in (0, 1) * count]


def accuracy(rows, question, kind, **options):
    tokenizer = af.models.WordTokenizer.train([" ".join(map(str, row.values())) for row in rows], min_count=1)
    torch.manual_seed(0)
    sizes = {"embedding_size": 16, "hidden_size": 16, "input_dropout": 0.0, "classifier_dropout": 0.0}
    model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer, **sizes | options)
    fixed = FixedAttention("uniform")
    fit(
        model,
        tokenizer,
        rows,
        rows,
        learning_rate=0.03,
        epochs=12,
        batch_size=16,
        second_text_column=question,
        objectives=[fixed] if kind == "uniform" else [],
    )
    encoder = TextEncoder(tokenizer, model)
    texts = [(row["text"], row[question]) if question else row["text"] for row in rows]

    def right(cut):
        outputs = outputs_of(cut, encoder, encoder.encode(texts), Decision())
        return (outputs.predictions == [row["label"] for row in rows]).mean(), outputs

    if kind == "learned":
        return right(af.cut(model))
    with fixed.on(model):
        return right(af.cut(model))


def test_a_task_that_needs_attention_is_told_from_uniform():
    rows = asked(160, 0)
    learned, _ = accuracy(rows, "question", "learned", query=True)
    uniform, outputs = accuracy(rows, "question", "uniform", query=True)
    assert learned > 0.95
    assert uniform < 0.85
    assert all(weights == pytest.approx(1 / len(weights)) for weights in outputs.items)


@pytest.mark.parametrize(("texts", "says"), [(20, "more test texts would tell"), (2000, "little to do")])
def test_no_clear_difference_settles_something_on_many_texts_only(texts, says):
    """Both kinds are right on 80 % of the texts, on different ones."""
    rows = [
        {"text_id": text, "gold": 0, "kind": kind, "seed": 0, "prediction": int((text + shift) % 5 == 0)}
        for shift, kind in enumerate(("learned", "uniform"))
        for text in range(texts)
    ]
    told(rows, says)
    same = [{**row, "prediction": 0} for row in rows]
    told(same, says, "both are right on the same texts")


def told(rows, *parts):
    options = {"resamples": 99, "confidence": 0.95, "seed": 0}
    summary = Uniform().summarise({"uniform": pd.DataFrame(rows)}, {"classes": 2}, options)
    said = " ".join(Uniform().sentences(Figures(summary, "uniform"), {}))
    assert all(part in said for part in parts)
    assert "nan" not in said


def test_a_task_in_which_attention_cannot_matter_is_as_good_with_uniform():
    rows = repeated(20, 0)
    assert accuracy(rows, None, "learned")[0] == accuracy(rows, None, "uniform")[0] == 1.0
