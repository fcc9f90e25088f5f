"""Explanations of SHAP: Shapley values of the tokens of SHAP's own masker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attnfaith.errors import InputError
from attnfaith.explanations.explained import Explained, array, attribute
from attnfaith.explanations.pieces import located, token_scores
from attnfaith.text.encoded import EncodedText
from attnfaith.validation import short_repr


def from_shap(explanation: Any, *, label: int | str | None = None) -> Explained:
    """A ``shap.Explanation`` of texts as a ranking for `Evaluator.compute(explanations=...)`.

    SHAP's tokens are found in the text by their characters, so its masker may have another tokenizer than the model. A
    token of the model gets the sum of the values of the tokens that it shares characters with. What SHAP did not read
    comes last.

    Args:
        explanation: of all rows of the data, as ``shap.Explainer(...)(texts)`` returns it; or a list with one for
            each row; or a function from a text to it.
        label: the class that is explained, by its number, or by its name in ``output_names``; by default the class
            that is predicted, which is the one whose values and base value have the largest sum.

    Example:
        >>> from types import SimpleNamespace  # stands for shap.Explanation
        >>> one = SimpleNamespace(values=[[0.1], [0.7]], base_values=[0.2], data=["fine ", "film"])
        >>> from attnfaith.text.encoded import EncodedText
        >>> spans = ((0, 4), (5, 9))
        >>> text = EncodedText("fine film", None, (1, 2), {}, ("fine", "film"), spans, (0, 0), (0, 1))
        >>> from_shap([one]).scores(0, text)
        [0.1, 0.7]
    """
    return Explained(explanation, partial(_scores, label=label), "SHAP")


def _scores(explanation: Any, text: EncodedText, *, label: int | str | None) -> Sequence[float]:
    values, pieces = attribute(explanation, "values", "data", maker="shap.Explainer")
    base = getattr(explanation, "base_values", None)
    pieces = [pieces] if isinstance(pieces, str) else list(pieces)
    if len(pieces) == 1 and not isinstance(pieces[0], str):  # an explanation of a list of one text
        values, pieces = values[0], list(pieces[0])
        base = None if base is None else np.atleast_1d(base)[0]
    if not all(isinstance(piece, str) for piece in pieces):
        raise InputError(
            f"expected data to be the tokens of one text, got {short_repr(pieces)}. SHAP must explain texts, as with "
            "shap.maskers.Text."
        )
    numbers = array(values, "values")
    if numbers.ndim not in (1, 2):
        raise InputError(f"expected values of each token, and class; got an array of shape {numbers.shape}.")
    if numbers.ndim == 2:
        numbers = numbers[:, _column(explanation, label, numbers, base)]
    elif label is not None:
        raise InputError("label= chooses between classes, and the values are of one output.")
    return token_scores(located(pieces, numbers.tolist(), text.text), text)


def _column(explanation: Any, label: int | str | None, values: Any, base: Any) -> int:
    """The number of the class that is explained."""
    count = values.shape[1]
    names = getattr(explanation, "output_names", None)
    listed = [] if names is None or isinstance(names, str) else [str(name) for name in names]
    if isinstance(label, str) and label in listed:
        return listed.index(label)
    if label is not None:
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < count:
            or_names = f" or one of {', '.join(listed)}" if listed else ""
            raise InputError(f"expected label to be 0..{count - 1}{or_names}; got {short_repr(label)}.")
        return label
    if count == 1:
        return 0
    sums = None if base is None else array(base, "base_values").reshape(-1)
    if sums is None or len(sums) != count:
        raise InputError("it has no base_values, so the predicted class is not known. Choose a class with label=.")
    return int((sums + values.sum(0)).argmax())
