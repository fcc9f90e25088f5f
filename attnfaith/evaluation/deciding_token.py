"""Test whether an attention mask can hide the deciding token as a key and keep it as a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnfaith.adapters.attention_watch import AttentionCall
from attnfaith.adapters.self_check import relative_difference, scale_of, tolerance_of
from attnfaith.evaluation.hiding_trials import MODEL_ERRORS, Trial, failed_trial

if TYPE_CHECKING:
    from attnfaith.evaluation.token_hiding import Hiding

NEVER = "The token that decides is never hidden at the input level, so it is not an item there: "
GONE = NEVER + (
    "in this model the attention mask would remove it as a query too, so its own vector, or what it reads of the other "
    "tokens, would be lost."
)
ATTENDED = NEVER + "in this model it is attended even where the attention mask hides it."


def why_protected(hiding: Hiding, trial: Trial) -> str | None:
    """The reason why the attention mask cannot hide the deciding token as a key only; None if it can.

    Args:
        hiding: a way that was proved without protecting the deciding token.
        trial: the dummy texts.
    """
    if hiding.hide != "attention_mask" or trial.deciding is None:
        return None
    try:
        if _is_gone(hiding, trial, int(trial.deciding[0])):
            return GONE
        return ATTENDED if _is_attended(hiding, trial, int(trial.deciding[0])) else None
    except MODEL_ERRORS as error:
        failed_trial(error)
        return None


def _is_gone(hiding: Hiding, trial: Trial, deciding: int) -> bool:
    """True if a hidden deciding token is lost as a query.

    A query has a vector of its own and reads the tokens that are kept. So another id at its position must change the
    logits, and so must other ids at theirs, if they do so while the token is visible.
    """
    ids, keeps = trial.inputs["input_ids"], _sets_without(trial, deciding)
    whole = _logits(hiding, trial, trial.inputs, trial.inputs["attention_mask"][0].bool())
    scale, tolerance = scale_of(whole), tolerance_of(whole)
    itself = torch.arange(ids.shape[1], device=ids.device) == deciding
    text = trial.text(0)["input_ids"][0, 1:]  # without the start token, which some models search for
    others = torch.where(itself, text[(text != ids[0, deciding]).int().argmax()], ids[1])

    def effect(changes: Tensor, keep: Tensor) -> float:
        """The change of the logits when other ids are put at some positions."""
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


def _is_attended(hiding: Hiding, trial: Trial, deciding: int) -> bool:
    """True if a hidden deciding token is attended by itself or by a kept token, in any observed attention."""
    itself = torch.arange(trial.keeps.shape[1], device=trial.keeps.device) == deciding
    column = int(trial.inputs["attention_mask"][0, :deciding].sum())  # without padding
    return any(
        _any_attention(hiding, trial, trial.inputs, keep, keep | itself, lambda logs: logs[..., column].exp() > 1e-6)
        for keep in _sets_without(trial, deciding)
    )


def attends_by_position(hiding: Hiding, trial: Trial) -> bool:
    """True if the deciding token weights the positions of one repeated token differently, in any observed attention."""
    assert trial.deciding is not None
    tokens, ids = trial.inputs["attention_mask"].bool(), trial.inputs["input_ids"]
    deciding = int(trial.deciding[0])
    repeated = {**trial.inputs, "input_ids": torch.where(tokens, ids[0, deciding], ids)}
    itself = torch.arange(len(tokens[0]), device=ids.device) == deciding

    def uneven(logs: Tensor) -> Tensor:
        attended = logs[..., : trial.length]
        return attended.amax(-1) - attended.masked_fill(attended == -torch.inf, torch.inf).amin(-1) > 1e-3

    try:
        return _any_attention(hiding, trial, repeated, tokens[0], itself, uneven)
    except MODEL_ERRORS as error:
        return failed_trial(error)


def _sets_without(trial: Trial, token: int) -> Tensor:
    """The sets of kept tokens that do not hold a token."""
    return trial.keeps[~trial.keeps[:, token]]


def _logits(hiding: Hiding, trial: Trial, inputs: Mapping[str, Any], keep: Tensor) -> Tensor:
    """The logits of the first text, run by itself and without padding."""
    first = torch.zeros(1, dtype=torch.long, device=keep.device)
    return hiding.slow.run(inputs, trial.deciding, first, keep[None])


def _any_attention(
    hiding: Hiding,
    trial: Trial,
    inputs: Mapping[str, Any],
    keep: Tensor,
    rows: Tensor,
    condition: Callable[[Tensor], Tensor],
) -> bool:
    """True if a condition holds for the log-weights ``[1, H, R, N]`` of some query tokens, in any observed attention.

    Args:
        hiding: a way of hiding.
        trial: the dummy texts.
        inputs: of the texts.
        keep: ``[L]``, the kept tokens of the first text.
        rows: ``[L]``, the query tokens.
        condition: True for log-weights for which it holds.
    """
    queries = rows[inputs["attention_mask"][0].bool()].nonzero().T
    holds = False

    def check(product: AttentionCall) -> None:
        nonlocal holds
        batch, _, count, items = product.shape
        if batch == 1 and count == trial.length and items >= count:  # its rows and items are the tokens
            holds |= bool(condition(product.distributions(queries)[1]).any())

    with hiding.cut.adapter.watching(1, check):
        _logits(hiding, trial, inputs, keep)
    return holds
