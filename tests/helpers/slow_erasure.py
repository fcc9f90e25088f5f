"""A slow twin of erasure in loops: it removes one item of one text at a time."""

import math

import pytest
import torch

from attnfaith.attribution.method import methods
from attnfaith.evaluation.tests.erasure.test import COLUMNS, Erasure
from tests.helpers.removal_batches import one_of, ranked, table

RANKINGS = {
    "attention": ranked("attention/random", "attention/attention", "attention/gradient_x_attention"),
    "input": ranked("input/random", "input/gradient_x_input", "input/gradient"),
}


def decided(kind, row):
    """What a row of logits decides."""
    if kind == "multiclass":
        return row.index(max(row))
    if kind == "sigmoid":
        return int(row[0] > 0)
    if kind == "multilabel":
        return [index for index, value in enumerate(row) if value > 0]
    return row[0]


def flipped(kind, before, after, tolerance):
    old, new = decided(kind, before), decided(kind, after)
    return abs(new - old) > tolerance if kind == "regression" else old != new


class Slow:
    """One level of a batch, with loops: which items there are, which may go, and the logits when some have gone."""

    def __init__(self, batch, level):
        self.batch, self.level, self.decision = batch, level, batch.config.decision
        self._logits, self._scores = {}, {}  # what has been asked before: a text without these items, a ranking
        self.special = batch.config.settings.special_ids
        self.affine = batch.config.cut.adapter.mechanism == "pooled"
        self.ids = batch.inputs["input_ids"].tolist()
        mask = batch.capture.mask if level == "attention" else batch.inputs["attention_mask"].bool()
        self.items = [row.nonzero().flatten().tolist() for row in mask]
        by_token = batch.capture.items.kind == "tokens"
        protect = batch.config.special_tokens == "protect"
        self.deciding = [None] * len(self.items)
        if not self.affine:
            rows = batch.config.cut.adapter.deciding_rows(batch.capture)[0]
            self.deciding = rows[:, 0].tolist()
        self.stays = []
        for text, items in enumerate(self.items):
            stays = set()
            if (protect and by_token) or (self.affine and level == "input"):
                stays |= {item for item in items if self.ids[text][item] in self.special}
            if level == "input" and (batch.config.protect_deciding or self.deciding_stays()):
                stays.add(self.deciding[text])
            self.stays.append(stays & set(items))

    def deciding_stays(self):
        """Where a deleted or padded text keeps its deciding token as it is, removing that would change nothing."""
        return not self.affine and self.batch.config.hiding.hide in ("delete", "pad")

    def erasable(self, text):
        return [item for item in self.items[text] if item not in self.stays[text]]

    def last(self, text):
        """Where nothing but marks between sentences would be left, the last step is one less."""
        return len(self.erasable(text)) - (self.level == "input" and self.affine)

    def logits(self, text, removed):
        asked = text, frozenset(removed)
        if asked not in self._logits:
            kept = [item for item in self.items[text] if item not in removed]
            compute = self._attention if self.level == "attention" else self._input
            self._logits[asked] = compute(text, kept, len(removed))
        return self._logits[asked]

    def _attention(self, text, kept, _):
        capture = self.batch.capture
        edited = torch.zeros_like(capture.weights)
        for group, weights in enumerate(capture.weights[text].tolist()):
            left, total = sum(weights[item] for item in kept), sum(weights)
            for item in kept:
                edited[text, group, item] = weights[item] * total / left
        return self.batch.config.cut.rerun(capture, weights=edited.unsqueeze(1))[text, 0].tolist()

    def _input(self, text, kept, count):
        single = one_of(self.batch.inputs, text)
        deciding, hide = self.deciding[text], self.batch.config.hiding.hide
        if deciding is not None and (hide != "attention_mask" or count == len(self.erasable(text))):
            kept = sorted({*kept, deciding})  # an all-zero mask means different things to different models
        if hide == "delete":
            single = {name: value[:, kept] for name, value in single.items()}
        else:
            length = len(self.items[text])
            mask = torch.zeros(1, length, dtype=torch.long)
            mask[0, kept] = 1
            single |= {"attention_mask": mask, "position_ids": torch.arange(length).unsqueeze(0)}
        with torch.no_grad():
            return self.batch.config.cut.model(**single).logits[0].tolist()

    def weights(self, text):
        """The mean weight of each item; of tokens, that of the item they are, or are a word of."""
        weights = self.batch.capture.weights[text].mean(0).tolist()
        if self.level == "attention" or self.batch.capture.items.kind == "tokens":
            return dict(enumerate(weights))
        words = self.batch.config.cut.model.attend(**self.batch.inputs).word_weights[text].tolist()
        spans = self.batch.capture.items.spans[text].tolist()
        inside = [
            (item, word)
            for item, (start, stop) in enumerate(spans)
            for word in range(start, stop)
            if self.batch.capture.mask[text, item]
        ]
        return {word: weights[item] * words[word] for item, word in inside}

    def orders(self, ranking, text):
        """Highest first; turned round where that is how the decision can change."""
        asked = ranking.level, ranking.name
        if asked not in self._scores:
            self._scores[asked] = methods[asked].run(self.batch.request).values.tolist()
        result = self._scores[asked][text]
        signs = [1.0]
        if ranking.signed and self.decision.kind == "regression":
            signs = [1.0, -1.0]
        if ranking.signed and self.decision.kind == "multilabel":
            signs = [1.0 if self.batch.logits[text, int(self.batch.target[text])] > 0 else -1.0]
        return [sorted(self.erasable(text), key=lambda item: (-sign * result[item], item)) for sign in signs]

    def walk(self, text, order):
        """The step of the first flip, None without one; and the logits there."""
        before = self.batch.logits[text].tolist()
        for step in range(1, self.last(text) + 1):
            after = self.logits(text, order[:step])
            if flipped(self.decision.kind, before, after, self.decision.tolerance):
                return step, after
        return None, None

    def row(self, ranking, text):
        walks = [(order, *self.walk(text, order)) for order in self.orders(ranking, text)]
        order, step, after = min(walks, key=lambda walk: math.inf if walk[1] is None else walk[1])
        count = len(self.erasable(text))
        weights = self.weights(text)
        return {
            "items": count,
            "removed": step,
            "fraction": math.nan if step is None else step / count,
            "mass": math.nan if step is None else sum(weights[item] for item in order[:step]),
            "new_label": None if step is None else decided(self.decision.kind, after),
            "censored": step is None,
            "prediction": decided(self.decision.kind, self.batch.logits[text].tolist()),
        }


def check(batch, level):
    """Every row against the twin; returns the counts of flips, of rows, and of flips before the last step."""
    rows = table(Erasure().run(batch))
    slow = Slow(batch, level)
    flips = early = seen = 0
    for text, row in enumerate(batch.rows):
        for ranking in batch.config.rankings[level]:
            key = (row.number, ranking.level, ranking.name, level)
            if len(slow.erasable(text)) < 2:
                assert key not in rows
                continue
            got, expected = rows[key], slow.row(ranking, text)
            seen += 1
            assert list(got) == [name for name, _ in COLUMNS]
            assert not got["marginal"]
            for name, value in expected.items():
                message = (key, name, got[name], value)
                if isinstance(value, float):
                    assert got[name] == pytest.approx(value, rel=1e-6, abs=1e-9, nan_ok=True), message
                else:
                    assert got[name] == value, message
            assert (got["gold"], got["undefined"]) == (None, 0)
            flips += not expected["censored"]
            early += not expected["censored"] and expected["removed"] < expected["items"] - 1
    assert len([key for key in rows if key[3] == level]) == seen
    return flips, seen, early
