"""Attributions of captum: tensors over the tokens that the model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnfaith.errors import InputError
from attnfaith.explanations.explained import Array, Explained, array
from attnfaith.parameter_names import parameter
from attnfaith.text.annotations import align_scores
from attnfaith.text.encoded import EncodedText


def from_captum(attributions: Any, *, attention_mask: Any = None) -> Explained:
    """Attributions of captum, or scores of the tokens of padded batches, as a ranking for `Evaluator.compute`.

    Attributions of embedding dimensions are summed over these, as captum's own tutorials do. Padding is dropped.

    Args:
        attributions: ``[B, L]`` or ``[B, L, D]`` for all rows of the data; or a list with a tensor for each row; or a
            function from a text to its tensor.
        attention_mask: ``[B, L]``, 0 for padding; needed only where attributions of padding are not 0.

    Example:
        >>> import torch
        >>> import attnfaith as af
        >>> tokenizer = af.models.WordTokenizer.train(["a fine film"], min_count=1)
        >>> model = af.models.from_preset("FLANnoenc", num_labels=2, tokenizer=tokenizer)
        >>> mine = {"mine": af.explanations.from_captum(torch.tensor([[0.1, 0.9, 0.2], [0.3, 0.5, 0.0]]))}
        >>> results = af.Evaluator(model, tokenizer).compute(["a fine film", "a film"], explanations=mine, quiet=True)
        >>> "mine" in set(results.table("erasure")["ranking"])
        True
    """
    masks = None if attention_mask is None else [array(row, "attention_mask") for row in attention_mask]
    rows = attributions
    if not callable(attributions) or hasattr(attributions, "__getitem__"):
        if masks is not None and len(masks) != len(attributions):
            raise InputError(f"attention_mask has {len(masks)} rows for {len(attributions)} attributions.")
        rows = [(attributions[row], None if masks is None else masks[row]) for row in range(len(attributions))]
    elif masks is not None:
        raise InputError("attention_mask goes with tensors; a function returns the attributions of one text.")
    return Explained(rows, _scores, "captum")


def _scores(entry: Any, text: EncodedText) -> Sequence[float]:
    values, mask = entry if isinstance(entry, tuple) else (entry, None)
    values, count = array(values, "attributions"), len(text.ids)
    if values.ndim > 1 and len(values) == 1 and (values.ndim == 3 or count > 1):
        values = values[0]  # a batch of one text
    if values.ndim == 2:
        values = values.sum(-1)
    if values.ndim != 1:
        raise InputError(f"expected attributions of tokens, [L] or [L, D]; got an array of shape {values.shape}.")
    if mask is not None:
        if mask.shape != values.shape:
            raise InputError(f"attention_mask has {len(mask)} positions for {len(values)} attributions.")
        values = values[mask.astype(bool)]
    return align_scores(_unpadded(values, count), text, "attributions")


def _unpadded(values: Array, count: int) -> Array:
    """The scores of a text without those of padding, which are 0 on one side."""
    if len(values) <= count:
        return values
    for scores, padding in ((values[:count], values[count:]), (values[-count:], values[:-count])):
        if not padding.any():
            return scores
    raise InputError(
        f"got {len(values)} attributions for {count} tokens, and those beyond are not 0 (one is "
        f"{float(values[count]):g}). If they are of padding, pass attention_mask=; if the text was truncated "
        f"elsewhere, truncate it at the same length here ({parameter('max_length')})."
    )
