"""A slow twin of shuffled attention in loops: one permutation of one text, one full forward pass."""

import math
from statistics import mean, median

import pytest
import torch

from attnfaith.evaluation.tests.permutation.test import COLUMNS, Permutation
from attnfaith.randomness import keyed_generator
from tests.helpers.full_forward import Edit, interface_logits
from tests.helpers.removal_batches import TOLERANCE, one_of
from tests.helpers.slow_erasure import decided, flipped

SHUFFLES = 6
NUMBERS = ("max_weight", "median_tvd", "mean_tvd", "max_tvd", "flips")


def rows_of(columns):
    """Rows by text; each is there once."""
    result = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    table = {row["text_id"]: row for row in result}
    assert len(table) == len(result)
    return table


def softmax(row):
    top = max(row)
    total = math.fsum(math.exp(value - top) for value in row)
    return [math.exp(value - top) / total for value in row]


def distance(kind, before, after):
    """Half the sum of absolute differences over all classes."""
    if kind == "regression":
        return abs(before[0] - after[0])
    pairs = [(before, after)]
    if kind in ("sigmoid", "multilabel"):
        pairs = [([0.0, old], [0.0, new]) for old, new in zip(before, after, strict=True)]
    halves = [sum(abs(p - q) for p, q in zip(softmax(old), softmax(new), strict=True)) / 2 for old, new in pairs]
    return sum(halves) / len(halves)


def shuffles_of(number, items, count=SHUFFLES, seed=0):
    """Which item gives its weight to which: python's sort of the draws of a text."""
    generator = keyed_generator(seed, number, "permutation")
    draws = torch.rand(count, len(items), generator=generator, dtype=torch.float64).tolist()
    orders = [sorted(range(len(items)), key=lambda entry, row=row: row[entry]) for row in draws]
    return [dict(zip(items, (items[entry] for entry in order), strict=True)) for order in orders]


def full_pass(batch, text, edited):
    """The logits of one text by itself, with other attention, through the whole model."""
    model, single = batch.config.cut.model, one_of(batch.inputs, text)
    if batch.config.cut.adapter.mechanism != "pooled":
        state = batch.config.cut.capture(**single).state
        groups = edited.unflatten(0, (-1, batch.capture.state.rows.shape[1]))[:, : state.rows.shape[1]]
        return interface_logits(model, single, Edit(state.rows, groups.flatten(0, 1).unsqueeze(0), state.row_mask))[0]
    with torch.no_grad():
        seen = model.attend(**single)
        read = sum(weight * value for weight, value in zip(edited[0], seen.values[0], strict=True))
        return model.decide(read.unsqueeze(0), seen.offset)[0]


def slow_row(batch, text, kind, stays=()):
    """One row, with loops."""
    items = batch.capture.mask[text].nonzero().flatten().tolist()
    first, moving = items[0], [item for item in items if item not in stays]
    weights, before = batch.capture.weights[text], batch.logits[text].tolist()
    exists = range(len(weights)) if batch.capture.groups is None else batch.capture.groups[text].nonzero().flatten()
    moved, flips = [], []
    for giver in shuffles_of(batch.rows[text].number, moving):
        edited = torch.zeros(len(weights), len(items), dtype=weights.dtype)
        for group in range(len(weights)):
            for item in items:
                edited[group, item - first] = weights[group, giver.get(item, item)]
        after = full_pass(batch, text, edited).tolist()
        moved.append(distance(kind, before, after))
        flips.append(flipped(kind, before, after, TOLERANCE))
    return {
        "items": len(moving),
        "max_weight": max(mean(float(weights[group, item]) for group in exists) for item in moving),
        "median_tvd": median(moved),
        "mean_tvd": mean(moved),
        "max_tvd": max(moved),
        "flips": mean(flips),
        "never_changes": not any(flips),
        "prediction": decided(kind, before),
        "gold": None,
        "marginal": False,
    }


def compare(batch, kind, stays=lambda text: ()):
    """Every row against the twin; returns the largest distance and the number of flips."""
    rows, effect, flips = rows_of(Permutation(SHUFFLES).run(batch)), 0.0, 0
    for text, row in enumerate(batch.rows):
        items = int(batch.capture.mask[text].sum()) - len(stays(text))
        assert (row.number in rows) == (items >= 2)
        if items < 2:
            continue
        got, expected = rows[row.number], slow_row(batch, text, kind, stays(text))
        assert list(got) == [name for name, _ in COLUMNS]
        for name, value in expected.items():
            message = pytest.approx(value, rel=1e-6, abs=1e-9) if name in NUMBERS else value
            assert got[name] == message, (text, name)
        effect, flips = max(effect, expected["max_tvd"]), flips + expected["flips"]
    return effect, flips
