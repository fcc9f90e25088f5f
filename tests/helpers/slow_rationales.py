"""A slow twin of the scores of rationales: one set of one text at a time by full reruns, and scikit-learn."""

import math
from dataclasses import replace
from fractions import Fraction

import torch
from sklearn.metrics import average_precision_score

from attnfaith.attribution.method import methods
from attnfaith.evaluation.batch import Batch
from attnfaith.text.annotations import Rationale
from attnfaith.text.encoded import EncodedText
from tests.helpers.slow_erasure import Slow

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)


def probability(kind, logits, target):
    """Of the explained class; of a regression the value."""
    if kind == "regression":
        return logits[0]
    if kind == "multilabel":
        return 1 / (1 + math.exp(-logits[target]))
    values = [0.0, logits[0]] if kind == "sigmoid" else logits
    return math.exp(values[target]) / math.fsum(math.exp(value) for value in values)


def with_words(batch: Batch, marks: list[Rationale | None] | None = None) -> Batch:
    """The batch, as if its texts were words "w0 w1 ...", one for each token that is not special, with their marks."""
    result = []
    for text, there in enumerate(batch.inputs["attention_mask"].bool()):
        ids = batch.inputs["input_ids"][text, there].tolist()
        special = [number in batch.config.settings.special_ids for number in ids]
        words = [None if item else f"w{index}" for index, item in enumerate(special)]
        joined, offsets = "", []
        for word in words:
            offsets.append(None if word is None else (len(joined), len(joined) + len(word)))
            joined += "" if word is None else f"{word} "
        segments = tuple(None if item else 0 for item in special)
        numbers = [sum(not other for other in special[:index]) for index in range(len(ids))]
        values = tuple(None if item else number for item, number in zip(special, numbers, strict=True))
        result.append(
            EncodedText(joined.strip(), None, tuple(ids), {}, tuple(map(str, ids)), tuple(offsets), segments, values)
        )
    if marks is not None:
        batch.rows = [replace(row, rationale=mark) for row, mark in zip(batch.rows, marks, strict=True)]
    batch.encoded = result
    return batch


def drawn_marks(batch: Batch, seed: int = 0) -> list[Rationale | None]:
    """Masks over the words; of one text nothing is said, in another nothing is marked, in a third everything."""
    generator = torch.Generator().manual_seed(seed)
    result: list[Rationale | None] = []
    for text, encoded in enumerate(with_words(batch).encoded):
        count = len(encoded.text.split())
        mask = (torch.rand(count, generator=generator) < 0.4).long().tolist()
        mask = {2: [0] * count, 3: [1] * count}.get(text, mask)
        result.append(None if text == 1 else Rationale(tuple(mask), "mask"))
    return result


class SlowRationales:
    """One level of a batch."""

    def __init__(self, batch, level, shares=SHARES):
        self.batch, self.level, self.shares, self.slow = batch, level, shares, Slow(batch, level)
        self.kind = batch.config.decision.kind

    def drop(self, text, removed):
        before = self.batch.logits[text].tolist()
        after = before if not removed else self.slow.logits(text, sorted(removed))
        target = int(self.batch.target[text])
        result = probability(self.kind, before, target) - probability(self.kind, after, target)
        return abs(result) if self.kind == "regression" else result

    def scores(self, ranking, text):
        """Of every item; a ranking of the attention is one of tokens too, but for sentences."""
        return self.batch.scores(ranking, self.level)[text].tolist()

    def drops(self, ranking, text):
        """Without the top, and with it alone, at each share."""
        values, may = self.scores(ranking, text), self.slow.erasable(text)
        signed = self.kind == "regression" and methods[ranking.level, ranking.name].signed
        best = None
        for sign in (1, -1) if signed else (1,):
            order = sorted(may, key=lambda item: (-sign * values[item], item))
            sizes = [max(1, math.ceil(Fraction(str(share)) * len(may))) for share in self.shares]
            without = [self.drop(text, order[: min(size, self.slow.last(text))]) for size in sizes]
            alone = [self.drop(text, order[size:]) for size in sizes]
            if best is None or sum(without) > sum(best[0]):
                best = without, alone
        return best

    def all_erased(self, text):
        may = self.slow.erasable(text)
        return self.drop(text, may) if self.slow.last(text) == len(may) else math.nan

    def agreement(self, ranking, text):
        """AUPRC; the order; and the spans, as places among the text's own items."""
        marks = self.batch.rows[text].rationale
        if marks is None:
            return None
        tokens = self.batch.inputs["attention_mask"][text].nonzero().flatten().tolist()
        ordinary = [index for index in tokens if self.slow.ids[text][index] not in self.slow.special]
        marked = {index for index, value in zip(ordinary, marks.values, strict=True) if value}
        items = self.slow.items[text]
        covers = {item: {item} for item in items}
        if self.level == "attention":
            spans = self.batch.capture.items.spans[text].tolist()
            covers = {item: set(range(*spans[item])) for item in items}
        by_token = self.level == "input" or self.batch.capture.items.kind == "tokens"
        able = [item for item in items if not by_token or covers[item] <= set(ordinary)]
        relevant = [bool(covers[item] & marked) for item in able]
        values = self.scores(ranking, text)
        auprc = math.nan
        if any(relevant) and not all(relevant):
            auprc = average_precision_score(relevant, [values[item] for item in able])
        order = [items.index(item) for item in sorted(able, key=lambda item: (-values[item], item))]
        there = [items.index(item) for item, entry in zip(able, relevant, strict=True) if entry]
        spans = []
        for position in there:
            if spans and spans[-1][1] == position:
                spans[-1][1] = position + 1
            else:
                spans.append([position, position + 1])
        return auprc, order, spans
