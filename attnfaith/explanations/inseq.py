"""Attributions of inseq: how much each token of the input did for each generated token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attnfaith.errors import InputError
from attnfaith.explanations.explained import Explained, array, attribute
from attnfaith.explanations.pieces import located, token_scores
from attnfaith.text.encoded import EncodedText


def from_inseq(output: Any, *, step: int | None = None) -> Explained:
    """Attributions of inseq as a ranking for `Evaluator.compute(explanations=...)`.

    inseq explains what a language model generates. Where the input is the text alone, its attributions can be judged on
    a classifier, such as one that was fine-tuned from that model.

    Args:
        output: of ``model.attribute(texts)``, for all rows of the data; or a list with one of its
            ``sequence_attributions`` for each row; or a function from a text to either.
        step: the generated token that is explained, from 0; by default the sum over all of them.

    Example:
        >>> from types import SimpleNamespace  # stands for inseq's output
        >>> tokens = [SimpleNamespace(token="▁fine"), SimpleNamespace(token="</s>")]
        >>> one = SimpleNamespace(source=tokens, source_attributions=[[0.5, 0.25], [0.5, 0.75]])
        >>> from attnfaith.text.encoded import EncodedText
        >>> text = EncodedText("fine", None, (1,), {}, ("fine",), ((0, 4),), (0,), (0,))
        >>> from_inseq(SimpleNamespace(sequence_attributions=[one])).scores(0, text)
        [0.75]
    """
    source = output.sequence_attributions if hasattr(output, "sequence_attributions") else output
    return Explained(source, partial(_scores, step=step), "inseq")


def _scores(entry: Any, text: EncodedText, *, step: int | None) -> Sequence[float]:
    parts = getattr(entry, "sequence_attributions", [entry])
    if len(parts) != 1:
        raise InputError(f"expected the attributions of one text, got those of {len(parts)}.")
    attribution = parts[0]
    maker = "the attribute method of an inseq model"
    tokens, matrix = attribute(attribution, "source", "source_attributions", maker=maker)
    if matrix is None:  # a decoder reads the text as the beginning of what it writes
        tokens, matrix = attribute(attribution, "target", "target_attributions", maker=maker)
        prompt = int(getattr(attribution, "attr_pos_start", 0))
        tokens, matrix = tokens[:prompt], matrix[:prompt]
    values = array(matrix, "attributions")
    if values.ndim == 3:
        raise InputError("it has attributions of each dimension of the embeddings. Call aggregate() on it first.")
    if values.ndim == 2:
        if step is not None and not 0 <= step < values.shape[1]:
            raise InputError(f"expected step to be 0..{values.shape[1] - 1}, got {step}.")
        values = np.nansum(values, axis=1) if step is None else values[:, step]
    names = [str(getattr(token, "token", token)) for token in tokens]
    return token_scores(located(names, values.tolist(), text.text), text)
