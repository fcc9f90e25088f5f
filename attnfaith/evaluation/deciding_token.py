"""What an attention mask does to the token that decides: hidden as a key it must still be a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnfaith.adapters.attention_watch import AttentionCall
from attnfaith.adapters.self_check import relative_difference, scale_of, tolerance_of
from attnfaith.evaluation.hiding_trials import FOREIGN, Trial, refused

if TYPE_CHECKING:
    from attnfaith.evaluation.token_hiding import Hiding

NEVER = "The token that decides is never hidden at the input level, so it is not an item there: "
GONE = NEVER + (
    "in this model the attention mask would remove it as a query too, so its own vector, or what it reads of the other "
    "tokens, would be lost."
)
ATTENDED = NEVER + "in this model it is attended even where the attention mask hides it."


def why_protected(hiding: Hiding, trial: Trial) -> str | None:
    """Why a deciding token cannot be hidden as a key and kept as a query by the attention mask; None if it can.

    Args:
        hiding: a way that was proved without protecting the deciding token.
        trial: the made-up texts.
    """
    if hiding.way != "attention_mask" or trial.deciding is None:
        return None
    try:
        if _is_gone(hiding, trial, int(trial.deciding[0])):
            return GONE
        return ATTENDED if _is_attended(hiding, trial, int(trial.deciding[0])) else None
    except FOREIGN as error:
        refused(error)
        return None


def _is_gone(hiding: Hiding, trial: Trial, own: int) -> bool:
    """Whether a hidden deciding token is lost as a query.

    A query has a vector of its own and reads the tokens that are kept. So another id at its position must change the
    logits, and so must other ids at theirs, if they do so while the token is visible.
    """
    ids, keeps = trial.inputs["input_ids"], _hiding_it(trial, own)
    whole = _logits(hiding, trial, trial.inputs, trial.inputs["attention_mask"][0].bool())
    scale, tolerance = scale_of(whole), tolerance_of(whole)
    itself = torch.arange(ids.shape[1], device=ids.device) == own
    text = trial.text(0)["input_ids"][0, 1:]  # without the start token, which some models look for
    others = torch.where(itself, text[(text != ids[0, own]).int().argmax()], ids[1])

    def effect(changes: Tensor, keep: Tensor) -> float:
        """How far other ids at some positions move the logits."""
        changed = ids.clone()
        changed[0] = torch.where(changes, others, ids[0])
        inputs = {**trial.inputs, "input_ids": changed}
        return relative_difference(
            _logits(hiding, trial, inputs, keep), _logits(hiding, trial, trial.inputs, keep), scale
        )

    for changes in (itself.expand_as(keeps), keeps):
        pairs = list(zip(changes, keeps, strict=True))
        if any(effect(changed, keep) > tolerance / 200 for changed, keep in pairs):
            continue
        if any(effect(changed, keep | itself) > tolerance / 10 for changed, keep in pairs):
            return True
    return False


def _is_attended(hiding: Hiding, trial: Trial, own: int) -> bool:
    """Whether a hidden deciding token gets weight from itself or from a token that is kept, in any attention seen."""
    itself = torch.arange(trial.keeps.shape[1], device=trial.keeps.device) == own
    column = int(trial.inputs["attention_mask"][0, :own].sum())  # without padding
    return any(
        _any_attention(hiding, trial, trial.inputs, keep, keep | itself, lambda logs: logs[..., column].exp() > 1e-6)
        for keep in _hiding_it(trial, own)
    )


def tells_positions(hiding: Hiding, trial: Trial) -> bool:
    """Whether the deciding token weights the positions of one repeated token differently, in any attention seen."""
    assert trial.deciding is not None
    tokens, ids = trial.inputs["attention_mask"].bool(), trial.inputs["input_ids"]
    own = int(trial.deciding[0])
    repeated = {**trial.inputs, "input_ids": torch.where(tokens, ids[0, own], ids)}
    itself = torch.arange(len(tokens[0]), device=ids.device) == own

    def uneven(logs: Tensor) -> Tensor:
        attended = logs[..., : trial.length]
        return attended.amax(-1) - attended.masked_fill(attended == -torch.inf, torch.inf).amin(-1) > 1e-3

    try:
        return _any_attention(hiding, trial, repeated, tokens[0], itself, uneven)
    except FOREIGN as error:
        return refused(error)


def _hiding_it(trial: Trial, own: int) -> Tensor:
    """Of what is kept of the text, the sets without the deciding token."""
    return trial.keeps[~trial.keeps[:, own]]


def _logits(hiding: Hiding, trial: Trial, inputs: Mapping[str, Any], keep: Tensor) -> Tensor:
    """Of the first text, run by itself and without padding."""
    first = torch.zeros(1, dtype=torch.long, device=keep.device)
    return hiding.slow.run(inputs, trial.deciding, first, keep[None])


def _any_attention(
    hiding: Hiding,
    trial: Trial,
    inputs: Mapping[str, Any],
    keep: Tensor,
    rows: Tensor,
    finds: Callable[[Tensor], Tensor],
) -> bool:
    """Whether something is found in the log-weights ``[1, H, R, N]`` that some tokens give, in any attention.

    Args:
        hiding: a way of hiding.
        trial: the made-up texts.
        inputs: of the texts.
        keep: ``[L]``, what is kept of the first text.
        rows: ``[L]``, the tokens in question.
        finds: what is looked for; True where it is.
    """
    queries = rows[inputs["attention_mask"][0].bool()].nonzero().T
    found = False

    def look(product: AttentionCall) -> None:
        nonlocal found
        batch, _, count, items = product.shape
        if batch == 1 and count == trial.length and items >= count:  # its rows and items are the tokens
            found |= bool(finds(product.distributions(queries)[1]).any())

    with hiding.cut.adapter.watching(1, look):
        _logits(hiding, trial, inputs, keep)
    return found
