"""Explanations of LIME: weights of the words of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attnfaith.errors import InputError
from attnfaith.explanations.explained import Explained, attribute, same_text
from attnfaith.explanations.pieces import Piece, token_scores
from attnfaith.text.encoded import EncodedText
from attnfaith.validation import is_number, short_repr


def from_lime(explanations: Any, *, label: int | None = None) -> Explained:
    """Explanations of LIME as a ranking for `Evaluator.compute(explanations=...)`.

    LIME removes all occurrences of a word at once (a bag of words), unless ``bow=False``: then all of them get its
    weight. Words without a weight (LIME keeps ten, unless ``num_features`` says otherwise) get 0.

    Args:
        explanations: for each row of the data what ``LimeTextExplainer.explain_instance`` returns, or its
            ``as_list()``; or a function from a text to that. With ``bow=False`` a list does not say which occurrence a
            weight belongs to: pass the explanation itself.
        label: the class that is explained, by its number; by default the predicted one. Of two classes, where LIME
            explained the other one, the weights are negated. An ``as_list()`` is of the class for which it was made.

    Example:
        >>> from attnfaith.text.encoded import EncodedText
        >>> spans = ((0, 3), (4, 7), (8, 11))
        >>> text = EncodedText("bad bad end", None, (1, 1, 2), {}, ("bad", "bad", "end"), spans, (0, 0, 0), (0, 1, 2))
        >>> from_lime([[("bad", -0.4)]]).scores(0, text)
        [-0.4, -0.4, 0.0]
    """
    return Explained(explanations, partial(_scores, label=label), "LIME")


def _scores(explanation: Any, text: EncodedText, *, label: int | None) -> Sequence[float]:
    if isinstance(explanation, list | tuple):
        if label is not None:
            raise InputError("a list of words and weights is of one class already; leave label= out.")
        return token_scores(_of_list(explanation, text.text), text, other=0.0)
    mapping, mapper = attribute(
        explanation, "as_map", "domain_mapper", maker="LimeTextExplainer.explain_instance, or its as_list(),"
    )
    (indexed,) = attribute(mapper, "indexed_string", maker="a LimeTextExplainer")
    same_text(indexed.raw_string(), text)
    weights = mapping()
    label_used, sign = _label(explanation, weights, label)
    pieces: list[Piece] = []
    for feature, weight in weights[label_used]:
        word = str(indexed.word(feature))
        starts = np.asarray(indexed.string_position(feature)).reshape(-1)
        pieces += [(int(start), int(start) + len(word), sign * float(weight)) for start in starts]
    return token_scores(pieces, text, other=0.0)


def _of_list(weights: Sequence[Any], text: str) -> list[Piece]:
    """The occurrences of each word of a list, as LIME splits words: at what is no letter, digit or underscore."""
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in weights):
        raise InputError(f"expected pairs of a word and its weight, as from as_list(); got {short_repr(weights)}.")
    words = [word for word, _ in weights]
    repeated = next((word for word in words if words.count(word) > 1), None)
    if repeated is not None:
        raise InputError(
            f"the word {short_repr(repeated)} has several weights, so LIME ran with bow=False, and a list does not say "
            "which occurrence each is of. Pass the explanation itself instead of its as_list()."
        )
    pieces: list[Piece] = []
    for word, weight in weights:
        if not is_number(weight):
            raise InputError(f"the weight of {short_repr(word)} is {short_repr(weight)}; expected a number.")
        spans = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
        if not spans:
            raise InputError(
                f"the word {short_repr(word)} is not in the text {short_repr(text)}. Explanations must be in the order "
                "of the data. If LIME split words in its own way, pass the explanation itself."
            )
        pieces += [(start, end, float(weight)) for start, end in spans]
    return pieces


def _label(explanation: Any, weights: dict[Any, Any], label: int | None) -> tuple[Any, int]:
    """The class whose weights are taken, and their sign."""
    labels = [int(item) for item in weights]
    if label is not None:
        if label not in labels:
            raise InputError(
                f"LIME explained the classes {labels}, not {label}. Give labels=[{label}] or top_labels=1 to "
                "explain_instance."
            )
        return label, 1
    predicted = _predicted(explanation)
    if predicted is None or getattr(explanation, "mode", "") == "regression":
        if len(labels) == 1 or getattr(explanation, "mode", "") == "regression":
            return getattr(explanation, "dummy_label", labels[0]), 1
        raise InputError(f"LIME explained the classes {labels}. Choose one with label=.")
    if predicted in labels:
        return predicted, 1
    classes = len(np.asarray(explanation.predict_proba).reshape(-1))
    if classes == 2 and len(labels) == 1:
        # Two probabilities add up to 1, so the weights of one class are those of the other, negated.
        return labels[0], -1
    raise InputError(
        f"LIME explained the classes {labels}, and the model predicts {predicted}. Give top_labels=1 to "
        "explain_instance, or choose a class with label=."
    )


def _predicted(explanation: Any) -> int | None:
    probabilities = getattr(explanation, "predict_proba", None)
    return None if probabilities is None else int(np.asarray(probabilities).reshape(-1).argmax())
