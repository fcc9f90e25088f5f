"""What logits decide, how far apart two outputs are, and the quantity that an explanation explains.

`Decision` holds the decision function of a model, `decision_of` chooses it from a configuration, and `jensen_shannon`
and `total_variation` compare distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter

Kind = Literal["multiclass", "sigmoid", "multilabel", "regression"]
KINDS = ("multiclass", "sigmoid", "multilabel", "regression")
OUTPUTS = ("probability", "logit", "log_odds")


@dataclass(frozen=True)
class Decision:
    """How logits become a decision.

    Attributes:
        kind: "multiclass" (the largest logit), "sigmoid" (one logit, against a threshold: the same as two classes with
            logits ``(threshold, z)``), "multilabel" (each logit separately, against the threshold), or "regression".
        threshold: in logits, for "sigmoid" and "multilabel".
        tolerance: for "regression", the change of the predicted value that counts as another decision.
    """

    kind: Kind = "multiclass"
    threshold: float = 0.0
    tolerance: float | None = None

    def classes(self, logits: Tensor) -> Tensor:
        """The logits of the classes to choose from: ``[..., C]``, for one sigmoid logit ``[..., 2]``.

        Example:
            >>> Decision("sigmoid").classes(torch.tensor([[1.5]]))
            tensor([[0.0000, 1.5000]])
        """
        if self.kind != "sigmoid":
            return logits
        return torch.cat((torch.full_like(logits, self.threshold), logits), dim=-1)

    def predict(self, logits: Tensor) -> Tensor:
        """The decided class ``[...]``, the first of several that tie; for "multilabel" the most probable label.

        The most probable label has the largest logit. It is explained whether it is predicted or not.

        Example:
            >>> Decision("multilabel").predict(torch.tensor([-0.5, -9.0]))
            tensor(0)
        """
        return self.classes(logits).argmax(-1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities ``[..., C]`` of the classes, or of each label separately."""
        if self.kind == "regression":
            raise InputError(
                f"A regression has no probabilities. Use {parameter('output', 'logit')}, which is the predicted value."
            )
        if self.kind == "multilabel":
            return torch.sigmoid(logits - self.threshold)
        return torch.softmax(self.classes(logits), dim=-1)

    def margin(self, before: Tensor, after: Tensor) -> Tensor:
        """How far logits ``[..., C]`` are from a decision other than that of ``before``; negative once it has changed.

        Multi-class: the logit of the decided class minus the largest other logit. Multi-label: the smallest distance of
        a label from the threshold. Regression: the tolerance minus the change.

        Example:
            >>> Decision().margin(torch.tensor([2.0, 0.0]), torch.tensor([1.0, 3.0]))
            tensor(-2.)
        """
        if self.kind == "regression":
            return self._tolerance - (after - before).abs().amax(-1)
        if self.kind == "multilabel":
            sign = torch.where(self.labels_on(before), 1.0, -1.0).to(after)
            return (sign * (after - self.threshold)).amin(-1)
        values, decided = self.classes(after).movedim(-1, 0), self.predict(before)
        own = values.gather(0, decided.expand(values.shape[1:]).unsqueeze(0)).squeeze(0)
        is_own = torch.arange(len(values), device=values.device).view(-1, *[1] * (values.dim() - 1)) == decided
        return own - values.masked_fill(is_own, -torch.inf).amax(0)

    def flips(self, before: Tensor, after: Tensor) -> Tensor:
        """Whether logits ``[..., C]`` give another decision than ``before``; the first class wins a tie."""
        return self.flips_and_margins(before, after)[0]

    def flips_and_margins(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """Both `flips` and `margin` of the same logits; flips are read off the margins, which costs half as much.

        Example:
            >>> before, after = torch.tensor([2.0, 0.0]), torch.tensor([[1.0, 3.0], [1.0, 1.0]])
            >>> Decision().flips_and_margins(before, after)
            (tensor([ True, False]), tensor([-2.,  0.]))
        """
        margins = self.margin(before, after)
        if self.kind == "multilabel":
            return (self.labels_on(before) != self.labels_on(after)).any(-1), margins
        flips = margins < 0
        if self.kind != "regression":
            unclear = ~flips & ~(margins > 0)  # a tie, or undefined
            if bool(unclear.any()):
                was = self.predict(before).expand(margins.shape)
                flips[unclear] = was[unclear] != self.predict(after.expand(*margins.shape, -1)[unclear])
        return flips, margins

    def labels_on(self, logits: Tensor) -> Tensor:
        """For "multilabel", the labels predicted, ``[..., C]`` bool."""
        return logits > self.threshold

    def divergence(self, before: Tensor, after: Tensor) -> Tensor:
        """Jensen-Shannon divergence of the outputs of two logits ``[..., C]``, in nats.

        For "multilabel" it is the mean over labels, for "regression" the absolute difference.
        """
        return self._compare(before, after, jensen_shannon)

    def distance(self, before: Tensor, after: Tensor) -> Tensor:
        """Total variation distance of the outputs of two logits ``[..., C]``, over all classes; from 0 to 1.

        One sigmoid logit counts as two classes. For "multilabel" it is the mean over labels, each on or off; for
        "regression" the absolute difference.

        Example:
            >>> Decision("sigmoid").distance(torch.tensor([0.0]), torch.tensor([1.0986]))
            tensor(0.2500, dtype=torch.float64)
        """
        return self._compare(before, after, total_variation)

    def _compare(self, before: Tensor, after: Tensor, measure: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Apply a measure of two distributions to the probabilities of two logits; a label is a distribution of two."""
        if self.kind == "regression":
            return (after - before).abs().amax(-1)
        left, right = (self.probabilities(logits.double()) for logits in (before, after))
        if self.kind == "multilabel":
            return measure(torch.stack((left, 1 - left), -1), torch.stack((right, 1 - right), -1)).mean(-1)
        return measure(left, right)

    @property
    def _tolerance(self) -> float:
        if self.tolerance is None:
            raise InputError(
                f"A regression needs {parameter('tolerance')}: the change of the predicted value that counts as "
                "another decision.",
                code="ambiguous-decision",
            )
        return self.tolerance

    def quantity(self, logits: Tensor, target: Tensor, output: str) -> Tensor:
        """The quantity to explain, for each text: probability, logit or log-odds of the target; differentiable.

        Log-odds are the target's logit minus the largest other logit. For "multilabel" and "regression" they are the
        distance from the threshold.

        Args:
            logits: ``[B, ..., C]``.
            target: ``[B]``.
            output: one of `OUTPUTS`.

        Returns:
            ``[B, ...]``.

        Example:
            >>> logits = torch.tensor([[2.0, 0.5, 1.0]])
            >>> Decision().quantity(logits, torch.tensor([0]), "log_odds")
            tensor([1.])
        """
        values = self.probabilities(logits) if output == "probability" else self.classes(logits)
        index = target.view(-1, *[1] * (values.dim() - 1)).expand(*values.shape[:-1], 1)
        chosen = values.gather(-1, index).squeeze(-1)
        if output != "log_odds":
            return chosen
        if self.kind in ("multilabel", "regression"):
            return chosen - self.threshold
        other_classes = values.scatter(-1, index, -torch.inf)
        return chosen - other_classes.amax(-1)


def decision_of(config: Any, labels: int, kind: str | None = None, tolerance: float | None = None) -> Decision:
    """The decision function of a model, from its configuration or from arguments.

    Args:
        config: with a ``problem_type``, as Transformers' have; None for a model without one.
        labels: the number of logits.
        kind: one of `KINDS` to override what the configuration says.
        tolerance: see `Decision`.

    Example:
        >>> decision_of(None, 3).kind
        'multiclass'
    """
    if kind is not None and kind not in KINDS:
        raise InputError(f"Expected {parameter('decision')} to be one of {', '.join(KINDS)}, got {kind!r}.")
    problem = getattr(config, "problem_type", None)
    if kind is None:
        kind = {"multi_label_classification": "multilabel", "regression": "regression"}.get(problem or "", "multiclass")
        if kind == "multiclass" and labels == 1:
            if problem is None:
                raise InputError(
                    "The model has one logit and its configuration no problem_type. Is it a classifier with one "
                    f"sigmoid output ({parameter('decision', 'sigmoid')}), or a regression "
                    f"({parameter('decision', 'regression')})? As a single class its decision could never change.",
                    code="ambiguous-decision",
                )
            kind = "sigmoid"
    if kind == "multiclass" and labels == 1:
        raise InputError(
            "A model with one logit cannot choose between classes, so its decision could never change. Use "
            f"{parameter('decision', 'sigmoid')} or {parameter('decision', 'regression')}.",
            code="ambiguous-decision",
        )
    if kind == "sigmoid" and labels != 1:
        raise InputError(f"A sigmoid decision reads one logit; the model has {labels}.", code="ambiguous-decision")
    if tolerance is not None and kind != "regression":
        raise InputError(
            f"{parameter('tolerance')} is for regressions; the decision of this model is {kind}. Leave it out."
        )
    if tolerance is not None and not tolerance > 0:
        raise InputError(f"Expected {parameter('tolerance')} to be above 0, got {tolerance!r}.")
    return Decision(kind, tolerance=tolerance)  # type: ignore[arg-type]


def jensen_shannon(left: Tensor, right: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats, ``[..., C]`` twice to ``[...]``; from 0 to ln 2.

    Example:
        >>> jensen_shannon(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
        tensor(0.6931)
    """
    # with the classes first, one distribution is many times as quickly compared with many
    dims = max(left.dim(), right.dim())
    left, right = (part[(None,) * (dims - part.dim())].movedim(-1, 0).contiguous() for part in (left, right))
    middle = (left + right) / 2
    # where both are 0 the ratio is NaN, and 0 times NaN is NaN, also in the gradient
    first, second = (torch.xlogy(part, torch.where(middle == 0, 1.0, part / middle)) for part in (left, right))
    summed = (first + second).movedim(0, -1).contiguous().sum(-1)
    return (summed / 2).clamp(0, math.log(2))


def total_variation(left: Tensor, right: Tensor) -> Tensor:
    """Half the sum of absolute differences, ``[..., C]`` twice to ``[...]``; from 0 to 1.

    Example:
        >>> total_variation(torch.tensor([0.75, 0.25]), torch.tensor([0.5, 0.5]))
        tensor(0.2500)
    """
    return (left - right).abs().sum(-1) / 2


def kullback_leibler(left: Tensor, right: Tensor, *, floor: float = 1e-12) -> Tensor:
    """Kullback-Leibler divergence of ``left`` from ``right`` in nats, ``[..., N]`` twice to ``[...]``.

    A probability below ``floor`` counts as ``floor`` inside the logarithms. So a 0 on the right gives a large number
    where the definition is infinite, a 0 on the left adds nothing, and gradients are finite everywhere.

    Args:
        left: the distribution whose expectation is taken.
        right: the distribution that it is compared with.
        floor: the least probability inside the logarithms.

    Example:
        >>> kullback_leibler(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5]))
        tensor(0.6931)
    """
    return (left * (left.clamp_min(floor).log() - right.clamp_min(floor).log())).sum(-1)
