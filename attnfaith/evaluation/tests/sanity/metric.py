"""Metric module of the sanity test, for scores computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from attnfaith.estimates.quantities import Mean
from attnfaith.evaluation.tests.sanity.summary import notices
from attnfaith.evaluation.tests.sanity.test import Sanity
from attnfaith.functional.agreement import kendall, spearman
from attnfaith.metrics.estimates import TextQuantities
from attnfaith.metrics.inputs import Array
from attnfaith.metrics.paired_scores import PairedScores, any_nan, compared
from attnfaith.validation import share


class RandomisationAgreement(PairedScores):
    """The agreement of a ranking with itself after the model is re-initialised.

    Compare its scores of the model with its scores of the same texts by a model whose weights were re-initialised, or
    that was trained on random labels.

    Args:
        predictions: for each text, the scores of the other model.
        references: the scores of the model itself.
        near: scores that differ by no more than this share of the larger one are tied; by default 0.

    Returns:
        A flat dict.

        - texts: how many.
        - too_short: those with fewer than two items, which are set aside.
        - undefined: those for which a correlation is not defined, since all scores of a list are equal.
        - notices, notices_absolute: the shares of texts whose ``spearman``, or ``spearman_absolute``, is below 0.5.
        - spearman, spearman_absolute, tau: the means of Spearman's rho, of the same between absolute scores, and of
          Kendall's tau-b.
        - per_text: if asked for, a list of each of the three.

    Example:
        >>> found = RandomisationAgreement().compute(predictions=[[0.2, 0.3, 0.5]], references=[[0.5, 0.3, 0.2]])
        >>> found["spearman"], found["notices"]
        (-1.0, 1.0)
    """

    options: ClassVar[dict[str, Any]] = {"near": 0.0}
    paper: ClassVar[str] = Sanity.citation

    def check_options(self, options: Mapping[str, Any]) -> None:
        """There are no options to check."""
        share(options["near"], "near", zero=True)

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """Compute the values that the class documents."""
        near = options["near"]

        def compare(scores: Tensor, mask: Tensor) -> dict[str, Tensor]:
            signed, absolute = (spearman(item, mask, near=near) for item in (scores, scores.abs()))
            return {"spearman": signed, "spearman_absolute": absolute, "tau": kendall(scores, mask, near=near).tau}

        short, result = compared(columns, compare)
        shares = [notices(result[f"spearman{suffix}"], suffix) for suffix in ("", "_absolute")]
        means = [Mean(name, values) for name, values in result.items()]
        return TextQuantities(any_nan(result), [*shares, *means], aside={"too_short": short}, each=result)
