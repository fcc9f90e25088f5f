"""Measure the agreement of rankings with the planted decisive words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from attnfaith.attribution.explanation import Explanation
from attnfaith.demo.corpus import Review, planted_scores
from attnfaith.errors import InputError
from attnfaith.functional.statistics import Resamples
from attnfaith.text.encoded import EncodedText
from attnfaith.validation import short_repr

COLUMNS = ("ranking", "agreement", "low", "high", "texts")


class Planted:
    """The decisive words of reviews as a ranking, for ``explanations=`` of an `Evaluator`.

    For a text as a model reads it, it scores each token: 1 if it is (part of) a decisive word, else 0. If the model
    reads sentences, it scores each sentence: 1 if it holds a decisive word.

    Args:
        rows: the reviews.
    """

    def __init__(self, rows: Sequence[Review]) -> None:
        self._reviews = {review["text"]: review for review in rows}

    def __call__(self, encoded: EncodedText) -> list[float]:
        """One score for each item."""
        if encoded.text not in self._reviews:
            raise InputError(
                f"This text is none of the reviews, so nothing is planted in it: {short_repr(encoded.text)}."
            )
        scores = planted_scores(self._reviews[encoded.text], encoded.offsets)
        if encoded.sentences is None:
            return scores
        by_sentence = [0.0] * (1 + max(encoded.sentences))
        for sentence, score in zip(encoded.sentences, scores, strict=True):
            by_sentence[sentence] = max(by_sentence[sentence], score)
        return by_sentence


def agreement_of(ranking: Sequence[int], planted: Sequence[float]) -> float:
    """The share of the top k items that are decisive, k being the number of decisive ones.

    Args:
        ranking: the indices of the items, the most important first.
        planted: 1 for each decisive item, else 0. If no item or every item is decisive, the agreement is NaN.

    Example:
        >>> agreement_of([2, 0, 1, 3], [0.0, 1.0, 1.0, 0.0])
        0.5
    """
    decisive = int(sum(planted))
    if decisive in (0, len(planted)):
        return float("nan")
    return sum(planted[index] for index in ranking[:decisive]) / decisive


def agreement_table(
    explained: Mapping[str, Sequence[Explanation]],
    planted: Planted,
    *,
    counted: Sequence[bool],
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """The mean agreement of rankings with the decisive words, best first, with intervals (bootstrap over texts).

    Columns: ``ranking``, ``agreement`` (mean of `agreement_of`), ``low``, ``high``, ``texts``. The row "by chance" is
    the mean of a random order: the share of items that are decisive.

    Args:
        explained: the explanations of the same texts by ranking.
        planted: the decisive words of these texts.
        counted: for each text, whether it counts. The words that decide the correct class do not explain a wrong one.
        n_resamples: the number of resamples of the texts.
        confidence_level: the confidence level of the intervals.
        seed: the seed of the draws.
    """
    columns: dict[str, list[float]] = {}
    for name, explanations in explained.items():
        truths = [planted(explanation.encoded) for explanation in explanations]
        columns[name] = [
            agreement_of(explanation.ranking(), truth) for explanation, truth in zip(explanations, truths, strict=True)
        ]
        columns["by chance"] = [float(np.mean(truth)) if 0 < sum(truth) < len(truth) else np.nan for truth in truths]
    values = np.array([*columns.values()], dtype=np.float64).T[np.asarray(counted, dtype=bool)]
    sample = Resamples(len(values), resamples=n_resamples, confidence=confidence_level, seed=seed)
    means = sample.mean(values)
    table = pd.DataFrame(dict(zip(COLUMNS, (list(columns), *means), strict=True)))
    return table.sort_values("agreement", ascending=False, kind="stable", ignore_index=True)
