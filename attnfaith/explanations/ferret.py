"""Explanations of ferret: scores of tokens by one of several explainers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from attnfaith.errors import InputError
from attnfaith.explanations.explained import Explained, array, attribute, same_text
from attnfaith.explanations.pieces import located, token_scores
from attnfaith.text.annotations import align_scores
from attnfaith.text.encoded import EncodedText


def from_ferret(explanations: Any, *, explainer: str | None = None) -> Explained:
    """Explanations of ferret as a ranking for `Evaluator.compute(explanations=...)`.

    Where ferret has a score for each token that the model reads, special tokens have theirs too; else its tokens are
    found in the text by their characters.

    Args:
        explanations: for each row of the data what ``Benchmark.explain`` returns (a list, one by each explainer), or
            one of them; or a function from a text to that.
        explainer: which of several is taken, by the name that ferret gives it.

    Example:
        >>> from types import SimpleNamespace  # stands for ferret's Explanation
        >>> tokens = ["[CLS]", "fine", "[SEP]"]
        >>> one = SimpleNamespace(text="fine", tokens=tokens, scores=[0, 0.8, 0.2], explainer="LIME", target=1)
        >>> from attnfaith.text.encoded import EncodedText
        >>> text = EncodedText("fine", None, (1,), {}, ("fine",), ((0, 4),), (0,), (0,))
        >>> from_ferret([[one]], explainer="LIME").scores(0, text)
        [0.8]
    """
    return Explained(explanations, partial(_scores, explainer=explainer), "ferret")


def _scores(entry: Any, text: EncodedText, *, explainer: str | None) -> Sequence[float]:
    explanations_of_text = list(entry) if isinstance(entry, list | tuple) else [entry]
    maker = "ferret.Benchmark.explain"
    names = [str(attribute(item, "explainer", maker=maker)[0]) for item in explanations_of_text]
    candidates = [item for item, name in zip(explanations_of_text, names, strict=True) if explainer in (None, name)]
    if len(candidates) != 1:
        raise InputError(f"it has explanations by {', '.join(names) or 'nothing'}. Choose one with explainer=.")
    explained_text, tokens, values = attribute(candidates[0], "text", "tokens", "scores", maker=maker)
    if text.pair is None:
        same_text(explained_text, text)
    scores = array(values, "scores").reshape(-1).tolist()
    if len(scores) == len(text.ids):
        return align_scores(scores, text, "scores")
    return token_scores(located(list(tokens), scores, text.text), text)
