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
    found = []
    for text, there in enumerate(batch.inputs["attention_mask"].bool()):
        ids = batch.inputs["input_ids"][text, there].tolist()
        special = [number in batch.setup.settings.special_ids for number in ids]
        words = [None if one else f"w{place}" for place, one in enumerate(special)]
        joined, offsets = "", []
        for word in words:
            offsets.append(None if word is None else (len(joined), len(joined) + len(word)))
            joined += "" if word is None else f"{word} "
        segments = tuple(None if one else 0 for one in special)
        numbers = [sum(not other for other in special[:place]) for place in range(len(ids))]
        own = tuple(None if one else number for one, number in zip(special, numbers, strict=True))
        found.append(
            EncodedText(joined.strip(), None, tuple(ids), {}, tuple(map(str, ids)), tuple(offsets), segments, own)
        )
    if marks is not None:
        batch.rows = [replace(row, rationale=one) for row, one in zip(batch.rows, marks, strict=True)]
    batch.encoded = found
    return batch


def drawn_marks(batch: Batch, seed: int = 0) -> list[Rationale | None]:
    """Masks over the words; of one text nothing is said, in another nothing is marked, in a third everything."""
    generator = torch.Generator().manual_seed(seed)
    found: list[Rationale | None] = []
    for text, encoded in enumerate(with_words(batch).encoded):
        count = len(encoded.text.split())
        mask = (torch.rand(count, generator=generator) < 0.4).long().tolist()
        mask = {2: [0] * count, 3: [1] * count}.get(text, mask)
        found.append(None if text == 1 else Rationale(tuple(mask), "mask"))
    return found


class SlowRationales:
    """One level of a batch."""

    def __init__(self, batch, level, shares=SHARES):
        self.batch, self.level, self.shares, self.slow = batch, level, shares, Slow(batch, level)
        self.kind = batch.setup.decision.kind

    def drop(self, text, removed):
        before = self.batch.logits[text].tolist()
        after = before if not removed else self.slow.logits(text, sorted(removed))
        target = int(self.batch.target[text])
        found = probability(self.kind, before, target) - probability(self.kind, after, target)
        return abs(found) if self.kind == "regression" else found

    def scores(self, ranking, text):
        """Of every item; a ranking of the attention is one of tokens too, but for sentences."""
        return self.batch.scores(ranking, self.level)[text].tolist()

    def drops(self, ranking, text):
        """Without the top, and with it alone, at each share."""
        own, may = self.scores(ranking, text), self.slow.erasable(text)
        signed = self.kind == "regression" and methods[ranking.level, ranking.name].signed
        best = None
        for sign in (1, -1) if signed else (1,):
            order = sorted(may, key=lambda item: (-sign * own[item], item))
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
        ordinary = [place for place in tokens if self.slow.ids[text][place] not in self.slow.special]
        marked = {place for place, one in zip(ordinary, marks.values, strict=True) if one}
        items = self.slow.items[text]
        covers = {item: {item} for item in items}
        if self.level == "attention":
            spans = self.batch.capture.items.spans[text].tolist()
            covers = {item: set(range(*spans[item])) for item in items}
        by_token = self.level == "input" or self.batch.capture.items.kind == "tokens"
        able = [item for item in items if not by_token or covers[item] <= set(ordinary)]
        relevant = [bool(covers[item] & marked) for item in able]
        own = self.scores(ranking, text)
        auprc = math.nan
        if any(relevant) and not all(relevant):
            auprc = average_precision_score(relevant, [own[item] for item in able])
        order = [items.index(item) for item in sorted(able, key=lambda item: (-own[item], item))]
        there = [items.index(item) for item, one in zip(able, relevant, strict=True) if one]
        spans = []
        for place in there:
            if spans and spans[-1][1] == place:
                spans[-1][1] = place + 1
            else:
                spans.append([place, place + 1])
        return auprc, order, spans
