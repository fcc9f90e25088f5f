"""What a classifier decides, and the number of it that an explanation explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from attnfaith.errors import InputError

Kind = Literal["multiclass", "sigmoid", "multilabel", "regression"]
KINDS = ("multiclass", "sigmoid", "multilabel", "regression")
OUTPUTS = ("probability", "logit", "log_odds")


@dataclass(frozen=True)
class Decision:
    """How logits become a decision.

    Attributes:
        kind: "multiclass" (the largest logit), "sigmoid" (one logit, against a threshold: the same as two classes with
            logits ``(threshold, z)``), "multilabel" (every logit for itself, against the threshold), or "regression".
        threshold: in logits, for "sigmoid" and "multilabel".
    """

    kind: Kind = "multiclass"
    threshold: float = 0.0

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
        """The decided class ``[...]`` (the first of several that tie); for "multilabel" the label surest of itself."""
        return self.classes(logits).argmax(-1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities ``[..., C]`` of the classes, or of each label for itself."""
        if self.kind == "regression":
            raise InputError("A regression has no probabilities. Use output='logit', which is the predicted value.")
        if self.kind == "multilabel":
            return torch.sigmoid(logits - self.threshold)
        return torch.softmax(self.classes(logits), dim=-1)

    def quantity(self, logits: Tensor, target: Tensor, output: str) -> Tensor:
        """The explained number of each text: its target's probability, logit, or log-odds; differentiable.

        Log-odds are the target's logit minus the largest other logit. For a label, and for a single number, they are
        the distance from the threshold.

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
        others = values.scatter(-1, index, -torch.inf)
        return chosen - others.amax(-1)


def decision_of(config: Any, labels: int, kind: str | None = None) -> Decision:
    """The decision function of a model, from its configuration or as asked for.

    Args:
        config: with a ``problem_type``, as Transformers' have; None for a model without one.
        labels: the number of logits.
        kind: one of `KINDS` to override what the configuration says.

    Example:
        >>> decision_of(None, 3)
        Decision(kind='multiclass', threshold=0.0)
    """
    if kind is not None and kind not in KINDS:
        raise InputError(f"Expected decision to be one of {', '.join(KINDS)}, got {kind!r}.")
    problem = getattr(config, "problem_type", None)
    if kind is None:
        kind = {"multi_label_classification": "multilabel", "regression": "regression"}.get(problem or "", "multiclass")
        if kind == "multiclass" and labels == 1:
            if problem is None:
                raise InputError(
                    "The model has one logit and its configuration no problem_type. Is it a classifier with one "
                    "sigmoid output (decision='sigmoid'), or a regression (decision='regression')? As one class among "
                    "one, it could never decide otherwise."
                )
            kind = "sigmoid"
    if kind == "multiclass" and labels == 1:
        raise InputError("One class of one logit could never decide otherwise. Use decision='sigmoid' or 'regression'.")
    if kind == "sigmoid" and labels != 1:
        raise InputError(f"A sigmoid decision reads one logit; the model has {labels}.")
    return Decision(kind)  # type: ignore[arg-type]
