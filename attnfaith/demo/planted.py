"""How well rankings agree with the words that are known to decide."""

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
    """The decisive words of some reviews, as an explanation of one's own for an `Evaluator`.

    Called with a text as a model reads it, it scores each token: 1 if it is (part of) a decisive word, else 0; where
    the model reads by sentences each sentence: 1 if it holds one.

    Args:
        rows: the reviews that will be asked about.
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
        held = [0.0] * (1 + max(encoded.sentences))
        for sentence, score in zip(encoded.sentences, scores, strict=True):
            held[sentence] = max(held[sentence], score)
        return held


def agreement_of(ranking: Sequence[int], planted: Sequence[float]) -> float:
    """The share of the top k items that are decisive, k being the number of decisive ones.

    Args:
        ranking: places of the items, the most important first.
        planted: 1 for each decisive item, else 0; where none is, or all are, no ranking can be wrong or right: NaN.

    Example:
        >>> agreement_of([2, 0, 1, 3], [0.0, 1.0, 1.0, 0.0])
        0.5
    """
    decisive = int(sum(planted))
    if decisive in (0, len(planted)):
        return float("nan")
    return sum(planted[place] for place in ranking[:decisive]) / decisive


def agreement(
    explained: Mapping[str, Sequence[Explanation]],
    planted: Planted,
    *,
    of: Sequence[bool],
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """The mean agreement of rankings with the decisive words, best first, with intervals (bootstrap over texts).

    Columns: ``ranking``, ``agreement`` (mean of `agreement_of`), ``low``, ``high``, ``texts``. The row "by chance" is
    what an order drawn at random reaches on average: the share of items that are decisive.

    Args:
        explained: each ranking's explanations of the same texts.
        planted: the decisive words of these texts.
        of: for each text, whether it counts. What decides the right class does not explain a wrong one.
        n_resamples: how often the texts are drawn anew.
        confidence_level: of the intervals.
        seed: of the draws.
    """
    columns: dict[str, list[float]] = {}
    for name, explanations in explained.items():
        truths = [planted(one.encoded) for one in explanations]
        columns[name] = [agreement_of(one.ranking(), truth) for one, truth in zip(explanations, truths, strict=True)]
        columns["by chance"] = [float(np.mean(truth)) if 0 < sum(truth) < len(truth) else np.nan for truth in truths]
    values = np.array([*columns.values()], dtype=np.float64).T[np.asarray(of, dtype=bool)]
    sample = Resamples(len(values), resamples=n_resamples, confidence=confidence_level, seed=seed)
    found = sample.mean(values)
    table = pd.DataFrame(dict(zip(COLUMNS, (list(columns), *found), strict=True)))
    return table.sort_values("agreement", ascending=False, kind="stable", ignore_index=True)
