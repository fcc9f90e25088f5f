"""Metric modules of the rationales test, for numbers computed elsewhere."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from attnfaith.errors import InputError
from attnfaith.estimates.quantities import Number
from attnfaith.evaluation.tests.rationales.summary import agreements, falls, marked_share
from attnfaith.evaluation.tests.rationales.test import SHARES, Rationales
from attnfaith.functional.ranking import order_of
from attnfaith.functional.rationale import agreement, average_precision, marked_runs, top_count
from attnfaith.metrics.estimates import TextQuantities
from attnfaith.metrics.inputs import Array, Input, check_same, padded
from attnfaith.metrics.module import Metric
from attnfaith.validation import is_share, share


class _Drops(Metric):
    """The drop of a probability when items are removed."""

    measured: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {"shares": SHARES}
    paper: ClassVar[str] = Rationales.citation

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Check the shares: each must be given once."""
        shares = options["shares"]
        good = not isinstance(shares, str) and isinstance(shares, Sequence) and len(set(shares)) == len(shares) > 0
        if not good or not any(shares) or not all(is_share(entry, zero=True, one=True) for entry in shares):
            raise InputError(f"Expected shares to be numbers from 0 to 1, each once, such as 0.1; got {shares!r}.")

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """Each share needs a probability."""
        name, shares = next(iter(self.inputs)), options["shares"]
        if len(text[name]) != len(shares):
            raise InputError(
                f"Expected {name} of {where} to have {len(shares)} probabilities, one for each of the shares "
                f"{tuple(shares)}, got {len(text[name])}. Other shares are given as shares=."
            )
        for key, values in text.items():
            if ((values < 0) | (values > 1)).any():
                raise InputError(f"Expected {key} of {where} to be between 0 and 1: the probability of one class.")

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """Compute the values that the class documents."""
        after, before = (np.array(columns[name]) for name in self.inputs)
        shares = np.array(options["shares"], dtype=np.float64)
        drops = before[:, None] - after
        some, none = drops[:, shares > 0], drops[:, shares == 0]
        told = falls(self.measured, some.mean(1), some, shares[shares > 0].tolist(), self._first(some, none))
        each = {item.name: item.values[:, 0] for item in told}
        return TextQuantities(np.isnan(np.array(list(each.values()))).any(0), told, each=each)

    @abstractmethod
    def _first(self, some: Array, none: Array) -> Array | None:
        """The drop at the share 0, if it is given."""


class Comprehensiveness(_Drops):
    """The drop of the probability of the decision without the top items; higher is better.

    Args:
        without: for each text, the probability of the explained class with the top items erased, once for each of the
            shares.
        references: its probability with nothing erased.
        shares: of the items that are erased; by default 1, 5, 10, 20 and 50 %.

    Returns:
        A flat dict.

        - texts: how many.
        - undefined: those with a probability that is NaN.
        - comprehensiveness: the mean over texts and shares of how much the probability falls.
        - comprehensiveness_at_10%, and so on: at one share.
        - aopc_comprehensiveness: the mean with one more step, at which nothing is erased.
        - per_text: if asked for, a list of each.

    Example:
        >>> found = Comprehensiveness(shares=[0.1, 0.5]).compute(without=[[0.75, 0.25]], references=[1.0])
        >>> found["comprehensiveness"], found["comprehensiveness_at_50%"]
        (0.5, 0.75)
    """

    measured: ClassVar[str] = "comprehensiveness"
    inputs: ClassVar[dict[str, Input]] = {"without": Input(1), "references": Input(0)}

    def _first(self, some: Array, none: Array) -> Array | None:
        return np.zeros(len(some))


class Sufficiency(_Drops):
    """The drop of the probability of the decision with the top items alone; lower is better.

    Args:
        kept: for each text, the probability of the explained class with the top items alone, once for each of the
            shares.
        references: its probability with nothing erased.
        shares: of the items that are kept; by default 1, 5, 10, 20 and 50 %. With 0 among them, for nothing kept, there
            is an ``aopc_sufficiency``.

    Returns:
        A flat dict.

        - texts: how many.
        - undefined: those with a probability that is NaN.
        - sufficiency: the mean over texts and shares (without 0) of how much the probability falls.
        - sufficiency_at_10%, and so on: at one share.
        - aopc_sufficiency: the mean with one more step, at which nothing is kept.
        - per_text: if asked for, a list of each.

    Example:
        >>> found = Sufficiency(shares=[0, 0.1, 0.5]).compute(kept=[[0.25, 0.75, 1.0]], references=[1.0])
        >>> found["sufficiency"], round(found["aopc_sufficiency"], 4)
        (0.125, 0.3333)
    """

    measured: ClassVar[str] = "sufficiency"
    inputs: ClassVar[dict[str, Input]] = {"kept": Input(1), "references": Input(0)}

    def _first(self, some: Array, none: Array) -> Array | None:
        return none[:, 0] if none.shape[1] else None


class RationaleAgreement(Metric):
    """Agreement of the highest scores with human annotations, or with a known ground truth.

    Args:
        predictions: for each text, a score of each item, higher for what matters more; NaN comes last.
        references: whether each item is marked, 0 or 1.
        top: the share of the items, rounded up, that is compared with the marks; by default as much as is marked, over
            all texts.

    Returns:
        A flat dict.

        - texts: how many.
        - undefined: those without an AUPRC, since everything is marked.
        - token_f1: the mean F1 of the top items and the marked ones.
        - auprc: the mean area under the curve of precision against recall of the marked items.
        - iou_f1: of the runs of neighbours that the top items make, each of which counts where it shares half of its
          union with a marked run: the F1 of mean precision and mean recall.
        - without_rationale: the number of texts in which nothing is marked; they are left out of the three.
        - rationale_share: the share of the items that is marked, in all texts.
        - top_share: the share that is compared.
        - per_text: if asked for, the lists ``token_f1``, ``auprc``, ``iou_precision`` and ``iou_recall``.

    Example:
        >>> scores, marked = [[0.6, 0.3, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4]], [[1, 1, 0, 0], [0, 1, 0, 1]]
        >>> found = RationaleAgreement().compute(predictions=scores, references=marked)
        >>> found["token_f1"], round(found["auprc"], 4), round(found["iou_f1"], 4)
        (0.75, 0.9167, 0.8571)
    """

    inputs: ClassVar[dict[str, Input]] = {"predictions": Input(1), "references": Input(1, whole=True)}
    options: ClassVar[dict[str, Any]] = {"top": None}
    paper: ClassVar[str] = Rationales.citation

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Check the share."""
        if options["top"] is not None:
            share(options["top"], "top", one=True)

    def check(self, text: dict[str, Array], where: str, options: Mapping[str, Any]) -> None:
        """Each score needs an annotation."""
        check_same({name: len(values) for name, values in text.items()}, "items", where)
        if not np.isin(text["references"], (0, 1)).all():
            raise InputError(f"Expected references of {where} to be marks, 0 or 1 for each item.")

    def measure(self, columns: dict[str, list[Array]], options: Mapping[str, Any]) -> TextQuantities:
        """Compute the values that the class documents."""
        marks = columns["references"]
        (scores, mask), (marked, _) = padded(columns["predictions"]), padded(marks)
        items, relevant = (np.array([float(f(mark)) for mark in marks]) for f in (len, np.sum))
        share = marked_share(relevant, items)
        top = share if options["top"] is None else float(options["top"])
        orders = order_of(scores, mask).numpy()
        bare = relevant == 0
        result = np.full((4, len(marks)), np.nan)
        result[0] = average_precision(scores, marked.bool(), mask).numpy()
        for index in np.flatnonzero(~bare):
            chosen, gold = orders[index, : top_count(top, int(items[index]))], marks[index] > 0
            result[1:, index] = agreement(chosen.tolist(), np.flatnonzero(gold).tolist(), marked_runs(gold))
        each = dict(zip(("auprc", "token_f1", "iou_precision", "iou_recall"), result, strict=True))
        means, spans = agreements(each["auprc"], each["token_f1"], each["iou_precision"], each["iou_recall"])
        without = Number("without_rationale", int(bare.sum()), len(marks))
        return TextQuantities(
            np.isnan(result).any(0) & ~bare,
            [
                *means,
                spans,
                without,
                Number("rationale_share", share, len(marks)),
                Number("top_share", top, len(marks)),
            ],
            each=each,
        )
