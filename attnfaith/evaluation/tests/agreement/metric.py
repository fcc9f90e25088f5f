"""Metric modules of the agreement test, for scores computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from attnfaith.errors import InputError
from attnfaith.estimates.quantities import Mean
from attnfaith.evaluation.tests.agreement.summary import correlations
from attnfaith.evaluation.tests.agreement.test import Agreement, check_top
from attnfaith.functional.agreement import kendall, overlap, spearman
from attnfaith.metrics.estimates import TextQuantities
from attnfaith.metrics.inputs import Array
from attnfaith.metrics.paired_scores import PairedScores, any_nan, compared
from attnfaith.validation import share


class RankAgreement(PairedScores):
    """Do two scores put the same items first?

    An item whose score is NaN in either list is left out of both. A list in which all scores are equal has no order:
    tau and rho are then undefined.

    Args:
        predictions: for each text, a score of each item, such as its attention.
        references: another score of each, such as its gradient.
        top: how many of the first items are looked at for their overlap, at most all; below 1 it is the share of the
            items, rounded up. By default 0.1.
        alpha: p values of at most this are significant; by default 0.05.
        near: scores that differ by no more than this share of the larger one are tied; by default 0.

    Returns:
        A flat dict.

        - texts: how many.
        - too_short: those with fewer than two items, which are set aside.
        - undefined: those without a tau.
        - significant: the share of texts whose tau has a p value of at most alpha.
        - tau: the mean of Kendall's tau-b.
        - spearman: that of Spearman's rho.
        - overlap: that of the share of common items among the first of both.
        - tau_sd: the standard deviation of tau over texts (divided by their number).
        - per_text: if asked for, the lists ``tau``, ``p``, ``spearman`` and ``overlap``.

    Example:
        >>> attention, gradient = [[0.5, 0.3, 0.2], [0.9, 0.1]], [[3.0, 1.0, 2.0], [5.0, 4.0]]
        >>> found = RankAgreement(top=1).compute(predictions=attention, references=gradient)
        >>> round(found["tau"], 4), found["spearman"], found["overlap"]
        (0.6667, 0.75, 1.0)
    """

    options: ClassVar[dict[str, Any]] = {"top": 0.1, "alpha": 0.05, "near": 0.0}
    paper: ClassVar[str] = Agreement.citation

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Check the options."""
        check_top(options["top"])
        share(options["alpha"], "alpha")
        share(options["near"], "near", zero=True)

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """Compute the values that the class documents."""
        near, top = options["near"], options["top"]

        def compare(scores: Tensor, mask: Tensor) -> dict[str, Tensor]:
            tau, p, _ = kendall(scores, mask, near=near)
            rho, shared = spearman(scores, mask, near=near), overlap(scores, mask, top)
            return {"tau": tau, "p": p, "spearman": rho, "overlap": shared}

        short, result = compared(columns, compare)
        numbers = [result[name] for name in ("tau", "p", "spearman", "overlap")]
        return TextQuantities(
            np.isnan(result["tau"]),
            correlations(*numbers, alpha=options["alpha"]),
            aside={"too_short": short},
            each=result,
        )


class TopOverlap(PairedScores):
    """How many of the most important items of one score are among those of another?

    Equal scores go in the order of the text. An item whose score is NaN in either list is left out of both.

    Args:
        predictions: for each text, a score of each item.
        references: another score of each.
        tops: how many of the first items are looked at, at most all; below 1 it is the share of the items, rounded up.
            By default (1, 3, 5).

    Returns:
        A flat dict.

        - texts: how many.
        - too_short: those with fewer than two items, which are set aside.
        - undefined: those with no item that both lists score.
        - overlap_at_1, and so on: the mean share of common items among so many, one figure for each of ``tops``.
        - per_text: if asked for, a list of each.

    Example:
        >>> found = TopOverlap(tops=[1, 2]).compute(predictions=[[0.5, 0.3, 0.2]], references=[[3.0, 1.0, 2.0]])
        >>> found["overlap_at_1"], found["overlap_at_2"]
        (1.0, 0.5)
    """

    options: ClassVar[dict[str, Any]] = {"tops": (1, 3, 5)}
    paper: ClassVar[str] = Agreement.citation

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Check the options: numbers of items, or shares."""
        tops = options["tops"]
        if isinstance(tops, str) or not hasattr(tops, "__iter__") or not list(tops):
            raise InputError(f"Expected tops to be a list such as [1, 3, 5], got {tops!r}.")
        for top in tops:
            check_top(top)

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """Compute the values that the class documents."""
        tops = options["tops"]
        short, result = compared(
            columns, lambda scores, mask: {f"overlap_at_{top}": overlap(scores, mask, top) for top in tops}
        )
        means = [Mean(name, values) for name, values in result.items()]
        return TextQuantities(any_nan(result), means, aside={"too_short": short}, each=result)
