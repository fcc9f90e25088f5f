"""What people marked, on the items that are ranked at a level: tokens, or the sentences of a HAN."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.laying import Laid, lay
from attnfaith.functional.rationale import Span, runs


@dataclass(frozen=True)
class Marked:
    """The items of a batch that people marked; an item is marked where one of its tokens is.

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


def marked_items(batch: Batch, level: str, form: str | None = None) -> Marked | None:
    """What is marked of the items of a level; None where the data mark nothing, or items belong to no certain tokens.

    Args:
        batch: the texts.
        level: at which items are erased.
        form: of the marks, where the data do not tell.
    """
    laid = [
        None if row.rationale is None else lay(row.rationale, encoded, f"Row {row.number}, rationale", form)
        for row, encoded in zip(batch.rows, batch.encoded, strict=True)
    ]
    tokens, mask = batch.request.tokens, batch.capture.mask
    items = batch.capture.items
    if all(one is None for one in laid) or (level == "attention" and (items is None or items.spans is None)):
        return None
    everything = tokens if level == "input" else mask
    able = tokens & ~batch.special if level == "input" else mask & ~batch.special_items
    ranges = None if level == "input" or items is None else items.spans
    relevant = torch.zeros_like(everything)
    spans: list[list[Span] | None] = []
    for text, one in enumerate(laid):
        if one is None:
            spans.append(None)
            continue
        own = everything[text]
        lots = [one.tokens, *(one.spans or ())]
        on_items = [_on_items(lot, tokens[text], None if ranges is None else ranges[text]) & able[text] for lot in lots]
        relevant[text] = on_items[0]
        parts = on_items[:1] if one.spans is None else on_items[1:]
        found = [span for part in parts for span in runs(part[own].tolist())]
        spans.append(list(dict.fromkeys(found)))
    return Marked(able, relevant, spans, [_unread(one) for one in laid])


def _on_items(marked: list[bool], tokens: Tensor, ranges: Tensor | None) -> Tensor:
    """From a text's own tokens to its items in the batch: those with a marked token among theirs."""
    placed = torch.zeros_like(tokens)
    placed[tokens] = torch.tensor(marked, device=tokens.device)
    if ranges is None:
        return placed
    before = torch.nn.functional.pad(placed.long().cumsum(0), (1, 0))
    return before[ranges[:, 1].clamp(0, len(tokens))] > before[ranges[:, 0].clamp(0, len(tokens))]


def _unread(laid: Laid | None) -> int | None:
    return None if laid is None else laid.unread
