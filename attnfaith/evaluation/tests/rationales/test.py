"""Rationales: do the top items alone carry the decision, and do they agree with human annotations? (ERASER)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from attnfaith import validation
from attnfaith.errors import InputError, NumericalError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.estimates.quantities import Quantities
from attnfaith.evaluation.batch import Batch, RunConfig
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import ERASERS, Eraser
from attnfaith.evaluation.tests.base import Columns, Test, concat_columns, tests
from attnfaith.evaluation.tests.rationales import summary as summaries
from attnfaith.evaluation.tests.rationales.soft import COLUMNS as SOFT
from attnfaith.evaluation.tests.rationales.soft import soft_scores
from attnfaith.functional.ranking import order_of
from attnfaith.functional.rationale import (
    Span,
    average_precision,
    marked_runs,
    only_top,
    run_unique_sets,
    top_count,
    without_top,
)
from attnfaith.metrics.citations import ERASER
from attnfaith.text.annotations import FORMS, TokenMarks, align_rationale

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
COLUMNS: list[tuple[str, pa.DataType]] = [
    ("text_id", pa.int64()),
    ("ranking", pa.string()),
    ("ranking_level", pa.string()),
    ("erase_level", pa.string()),
    ("items", pa.int64()),
    ("comprehensiveness", pa.float64()),
    ("sufficiency", pa.float64()),
    ("comprehensiveness_at", pa.list_(pa.float64())),
    ("sufficiency_at", pa.list_(pa.float64())),
    ("all_erased", pa.float64()),
    ("undefined", pa.int64()),
    ("auprc", pa.float64()),
    ("order", pa.list_(pa.int32())),
    ("rationale", pa.list_(pa.list_(pa.int32()))),
    ("unread", pa.int64()),
]


@tests.register("rationales")
@dataclass(frozen=True)
class Rationales(Test):
    """Erase the top items of each ranking, or keep them alone, and compare them with human annotations.

    Attributes:
        shares: of the items, each rounded up to at least one, that are erased, or kept.
        top: the share of the items that is compared with what people marked; None for as much as they marked, over all
            texts.
        soft: at the input level, how many draws of soft comprehensiveness and sufficiency (Zhao & Aletras 2023) are
            made for each ranking and text; each costs two passes through the model. 0 for none.
        form: of the column of rationales, if the cells leave it open: "mask" (0 or 1 for each word), "spans" (of
            characters) or "words" (their numbers).
    """

    name: ClassVar[str] = "rationales"
    reads: ClassVar[tuple[str, ...]] = ("rationale_column",)
    headline: ClassVar[Mapping[str, str]] = {
        "comprehensiveness": "fall without the top (mean)",
        "sufficiency": "fall with the top alone (mean)",
        "auprc": "AUPRC of what people marked",
    }
    metrics: ClassVar[tuple[str, ...]] = ("Comprehensiveness", "RationaleAgreement", "Sufficiency")
    citation: ClassVar[str] = ERASER
    question: ClassVar[str] = (
        "Do the top words carry the decision by themselves, and are they those that people marked?"
    )
    reading: ClassVar[Mapping[str, str]] = {
        "curves": (
            "Left, how far the probability of the explained class falls without the top of a ranking: higher is "
            "better. Right, how far it falls with the top alone: lower is better."
        ),
        "agreement": "How well the top of each ranking agrees with what people marked, by three measures from 0 to 1.",
    }
    caveats: ClassVar[tuple[str, ...]] = (
        (
            "A ranking that agrees with people is plausible. It need not be faithful: the model may decide by other "
            "words than people do."
        ),
        "A probability near 0 or 1 can fall far while the decision hardly changes, and the reverse.",
    )
    reported: ClassVar[Mapping[str, str]] = {
        **headline,
        "token_f1": "token F1 with what people marked",
        "soft_comprehensiveness": "soft comprehensiveness",
        "soft_sufficiency": "soft sufficiency",
    }
    earlier: ClassVar[Mapping[str, Any]] = {"soft": 0}
    shares: tuple[float, ...] = SHARES
    top: float | None = None
    form: str | None = None
    soft: int = 0

    def __post_init__(self) -> None:
        given: Any = self.shares
        shares = tuple(given) if isinstance(given, list | tuple) else (given,)
        object.__setattr__(self, "shares", shares)  # a manifest has lists
        fits = all(validation.is_share(entry, one=True) for entry in shares)
        if not shares or not fits or len(set(shares)) < len(shares):
            raise InputError(
                f"Expected shares to be numbers above 0 and up to 1, each once, such as 0.1; got {self.shares!r}."
            )
        if self.top is not None:
            validation.share(self.top, "top", one=True)
        validation.whole_number(self.soft, "soft", least=0)
        if self.form not in (None, *FORMS):
            raise InputError(f"Expected form to be one of {', '.join(FORMS)}, or None; got {self.form!r}.")

    @property
    def rationale_form(self) -> str | None:
        """The option ``form``."""
        return self.form

    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """One row per text, ranking, and level of erasing; with draws, also the soft figures."""
        return [*COLUMNS, *((name, pa.float64()) for name in SOFT)] if self.soft else COLUMNS

    def run(self, batch: Batch) -> Columns:
        """Run all sets of a level together, equal sets once."""
        levels = batch.config.rankings.items()
        names = [name for name, _ in self.columns(pa.null())]
        return concat_columns(names, (self._level(ERASERS[level](batch), rankings) for level, rankings in levels))

    def passes(self, config: RunConfig, tokens: int) -> float:
        """The draws, and all embeddings zero; sets of tokens are shared with the erasure test."""
        listed = config.rankings.get("input", ())
        return 1.0 + 2 * self.soft * len(listed) if self.soft and listed else 0.0

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """See `attnfaith.evaluation.tests.rationales.summary.quantities`."""
        return summaries.quantities(table(self.name), self.shares, self.top)

    @classmethod
    def sentences(cls, figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
        """The sentences for the verdict."""
        yield from summaries.sentences(figures, facts)

    def _level(self, eraser: Eraser, rankings: Sequence[Ranking]) -> Columns:
        batch = eraser.batch
        texts = (eraser.counts >= 2).nonzero().flatten()
        if not len(texts):
            return {}
        scores = [batch.scores(ranking, eraser.level) for ranking in rankings]
        gone, kept, emptied = self._drops(eraser, rankings, scores, texts)
        undefined = torch.stack([(score.isnan() & eraser.erasable).sum(1)[texts] for score in scores])
        count, width = len(rankings), len(texts)
        numbers = [batch.rows[text].number for text in texts.tolist()]
        return {
            "text_id": [number for number in numbers for _ in rankings],
            "ranking": [ranking.name for ranking in rankings] * width,
            "ranking_level": [ranking.level for ranking in rankings] * width,
            "erase_level": [eraser.level] * (count * width),
            "items": eraser.counts[texts].repeat_interleave(count).tolist(),
            "comprehensiveness": gone.mean(-1).T.flatten().tolist(),
            "sufficiency": kept.mean(-1).T.flatten().tolist(),
            "comprehensiveness_at": gone.transpose(0, 1).flatten(0, 1).tolist(),
            "sufficiency_at": kept.transpose(0, 1).flatten(0, 1).tolist(),
            "all_erased": emptied.repeat_interleave(count).tolist(),
            "undefined": undefined.T.flatten().tolist(),
            **self._agreement(eraser, scores, texts),
            **self._soft(eraser, scores, texts),
        }

    def _soft(self, eraser: Eraser, scores: Sequence[Tensor], texts: Tensor) -> Columns:
        """The columns of the soft figures, null at the attention level; none without draws."""
        if not self.soft:
            return {}
        if eraser.level != "input":
            return {name: [None] * (len(scores) * len(texts)) for name in SOFT}
        return {
            name: values[:, texts].T.flatten().tolist()
            for name, values in soft_scores(eraser, scores, self.soft).items()
        }

    def _drops(
        self, eraser: Eraser, rankings: Sequence[Ranking], scores: Sequence[Tensor], texts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Drops of the explained output without the top or with the top alone ``[R, T, S]``, and with nothing ``[T]``.

        Of a regression it is how much it changes, and a ranking that speaks for or against its value is read from the
        end whose removal changes it more.
        """
        batch, decision = eraser.batch, eraser.batch.config.decision
        moves = decision.kind == "regression"
        orders = [eraser.order_by(ranking)[texts] for ranking in rankings]
        turned = [index for index, ranking in enumerate(rankings) if moves and ranking.signed]
        orders += [eraser.order(-scores[index])[texts] for index in turned]
        order, counts, last = torch.stack(orders), eraser.counts[texts], eraser.max_removed[texts]
        there, erasable, floor = eraser.items[texts], eraser.erasable[texts], eraser.always_kept[texts]
        top = torch.tensor([[top_count(share, n) for share in self.shares] for n in counts.tolist()]).to(texts.device)
        gone = without_top(order, counts, there, floor, torch.minimum(top, last.unsqueeze(-1)))
        sets = torch.stack((gone, only_top(order, there, erasable, top)))
        whose = torch.arange(len(texts), device=texts.device).view(-1, 1).expand(sets.shape[:-1]).flatten()
        ends = (last == counts).nonzero().flatten()  # elsewhere a model would be given nothing at all
        whose, keep = torch.cat((whose, ends)), torch.cat((sets.flatten(0, -2), floor[ends]))
        logits = run_unique_sets(texts[whose], keep, eraser.logits_of)
        if not bool(logits.isfinite().all()):
            raise NumericalError("With some items removed, the model's logits are not finite.")
        output, target = "logit" if moves else "probability", batch.target[texts]
        before = decision.quantity(batch.logits[texts].double(), target, output)[whose]
        drop = before - decision.quantity(logits.double(), target[whose], output)
        drop = drop.abs() if moves else drop
        emptied = torch.full((len(texts),), torch.nan, dtype=drop.dtype, device=drop.device)
        emptied[ends] = drop[len(drop) - len(ends) :]
        without, alone = drop[: len(drop) - len(ends)].view(sets.shape[:-1])
        for position, other in zip(turned, range(len(rankings), len(orders)), strict=True):
            better = (without[other].mean(-1) > without[position].mean(-1)).unsqueeze(-1)
            for result in (without, alone):
                result[position] = torch.where(better, result[other], result[position])
        return without[: len(rankings)], alone[: len(rankings)], emptied

    def _agreement(self, eraser: Eraser, scores: Sequence[Tensor], texts: Tensor) -> Columns:
        """The columns for the comparison with annotations; empty without annotations."""
        names = ("auprc", "order", "rationale", "unread")
        marked = marked_items(eraser.batch, eraser.level)
        if marked is None:
            return {name: [None] * (len(scores) * len(texts)) for name in names}
        number = eraser.items.cumsum(1) - 1  # an item's place among the text's own
        result: Columns = {name: [] for name in names}
        precision = torch.stack(
            [average_precision(score, marked.relevant, marked.items) for score in scores]
        ).T.tolist()
        found_orders = order_of(torch.stack([score.double() for score in scores]), marked.items)
        orders = number.expand_as(found_orders).gather(-1, found_orders).transpose(0, 1)
        counts = marked.items.sum(1).tolist()
        for text in texts.tolist():
            known = marked.spans[text] is not None
            result["auprc"] += precision[text] if known else [None] * len(scores)
            result["order"] += orders[text, :, : counts[text]].tolist() if known else [None] * len(scores)
            result["rationale"] += [marked.spans[text]] * len(scores)
            result["unread"] += [marked.unread[text]] * len(scores)
        return result


@dataclass(frozen=True)
class ItemMarks:
    """The annotated items of a batch; an item is annotated if one of its tokens is.

    Attributes:
        items: ``[B, N]``, those that could be: all but special tokens.
        relevant: ``[B, N]``, those that are.
        spans: of each text, in its own items; None where the data say nothing of it.
        unread: of each text, how many marks are of what the model does not read; None likewise.
    """

    items: Tensor
    relevant: Tensor
    spans: list[list[Span] | None]
    unread: list[int | None]


def marked_items(batch: Batch, level: str) -> ItemMarks | None:
    """The annotated items of a level; None without annotations, or if items do not correspond to tokens.

    Args:
        batch: the texts.
        level: at which items are erased.
    """
    laid = [
        None if row.rationale is None else align_rationale(row.rationale, encoded)
        for row, encoded in zip(batch.rows, batch.encoded, strict=True)
    ]
    tokens, mask = batch.request.tokens, batch.capture.mask
    items = batch.capture.items
    if all(entry is None for entry in laid) or (level == "attention" and (items is None or items.spans is None)):
        return None
    everything = tokens if level == "input" else mask
    able = tokens & ~batch.special if level == "input" else mask & ~batch.special_items
    ranges = None if level == "input" or items is None else items.spans
    relevant = torch.zeros_like(everything)
    spans: list[list[Span] | None] = []
    for text, element in enumerate(laid):
        if element is None:
            spans.append(None)
            continue
        present = everything[text]
        pieces = [element.tokens, *(element.spans or ())]
        on_items = [
            _on_items(piece, tokens[text], None if ranges is None else ranges[text]) & able[text] for piece in pieces
        ]
        relevant[text] = on_items[0]
        parts = on_items[:1] if element.spans is None else on_items[1:]
        result = [span for part in parts for span in marked_runs(part[present].tolist())]
        spans.append(list(dict.fromkeys(result)))
    return ItemMarks(able, relevant, spans, [_unread(entry) for entry in laid])


def _on_items(marked: list[bool], tokens: Tensor, ranges: Tensor | None) -> Tensor:
    """Map annotations of tokens to items: an item is annotated if one of its tokens is."""
    placed = torch.zeros_like(tokens)
    placed[tokens] = torch.tensor(marked, device=tokens.device)
    if ranges is None:
        return placed
    before = torch.nn.functional.pad(placed.long().cumsum(0), (1, 0))
    return before[ranges[:, 1].clamp(0, len(tokens))] > before[ranges[:, 0].clamp(0, len(tokens))]


def _unread(laid: TokenMarks | None) -> int | None:
    return None if laid is None else laid.unread
