"""Training an adversary: the outputs of a model, with attention that is paid for being different; and choosing one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from attnfaith.adapters.cut import Cut
from attnfaith.diagnostics.outputs import attention_distances, output_distances
from attnfaith.diagnostics.session import Plan, Session
from attnfaith.errors import InputError
from attnfaith.functional.decision import Decision, kullback_leibler, total_variation
from attnfaith.parameter_names import parameter
from attnfaith.storage.fingerprint import fingerprint_model
from attnfaith.training.objectives.objective import Objective, Step
from attnfaith.validation import number


@dataclass(frozen=True, eq=False)
class AdversarialTwin(Objective):
    """Minimises ``TVD(p_a, p_b) - divergence * KL(w_a || w_b)``, the mean over texts (Wiegreffe & Pinter 2019).

    Here p are the outputs and w the attention, averaged over the distributions that decide; a is the model that is
    trained and b the one that it imitates. The labels are not used: this takes the place of the model's own loss.
    The logarithms of weights below 1e-12 are those of 1e-12, so a weight of 0 leaves everything finite.

    ``History`` has "twin_tvd" and "twin_kl", the means over the texts for validation.

    Args:
        base: the model that is imitated, cut at its final attention.
        decision: how both decide.
        divergence: lambda, at least 0.
    """

    base: Cut
    decision: Decision
    divergence: float
    weight: float = 1.0
    name: ClassVar[str] = "twin"
    needs_attention: ClassVar[bool] = True
    replaces_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number(self.divergence, "lambdas", least=0)

    def identity(self) -> str:
        """Lambda, and the model that is imitated."""
        return f"{self.name} {self.divergence!r} {self.decision} {fingerprint_model(self.base.model)}"

    def term(self, step: Step) -> Tensor:
        """The objective of each text."""
        distance, divergence = self._parts(step)
        return distance - self.divergence * divergence

    def figures(self, step: Step) -> dict[str, Tensor]:
        """The two parts of the objective."""
        distance, divergence = self._parts(step)
        return {"twin_tvd": distance, "twin_kl": divergence}

    def _parts(self, step: Step) -> tuple[Tensor, Tensor]:
        """The distance of the outputs and the divergence of the attention, ``[B]`` each."""
        inputs = {name: value for name, value in step.inputs.items() if name != "labels"}
        capture, attention = self.base.capture(**inputs), step.attention
        return twin_parts(
            step.outputs.logits if hasattr(step.outputs, "logits") else step.outputs["logits"],
            capture.logits,
            mean_weights(attention.weights, attention.groups),
            mean_weights(capture.weights, capture.groups),
            self.decision,
        )


def twin_parts(
    logits: Tensor, base_logits: Tensor, weights: Tensor, base_weights: Tensor, decision: Decision
) -> tuple[Tensor, Tensor]:
    """The total variation distance of outputs, and the Kullback-Leibler divergence of attention, for each text.

    Args:
        logits: ``[B, C]``, of the adversary.
        base_logits: ``[B, C]``, of the model that it imitates.
        weights: ``[B, N]``, the attention of the adversary.
        base_weights: ``[B, N]``, that of the model.
        decision: how both decide.

    Example:
        >>> logits, even = torch.zeros(1, 2), torch.tensor([[0.5, 0.5]])
        >>> distance, divergence = twin_parts(logits, logits, torch.tensor([[1.0, 0.0]]), even, Decision())
        >>> distance.item(), round(divergence.item(), 4)
        (0.0, 0.6931)
    """
    output, target = decision.probabilities(logits), decision.probabilities(base_logits.to(logits))
    return total_variation(output, target), kullback_leibler(weights, base_weights.to(weights))


def mean_weights(weights: Tensor, groups: Tensor | None) -> Tensor:
    """The mean over the distributions that exist: ``[B, G, N]`` to ``[B, N]``, scaled to sum to 1."""
    mean = weights.mean(1) if groups is None else weights.sum(1) / groups.sum(-1, keepdim=True).clamp_min(1)
    return mean / mean.sum(-1, keepdim=True).clamp_min(torch.finfo(mean.dtype).tiny)


def train_adversary(session: Session, plan: Plan) -> tuple[Any, Any]:
    """Train the adversary of one lambda; returns it with its `History`."""
    assert plan.weight is not None
    twin = AdversarialTwin(session.cut, session.decision, plan.weight)
    return session.train(plan, [twin])


def adversaries(session: Session) -> list[Plan]:
    """The adversaries of a session, one for each lambda."""
    return [Plan("adversary", session.seeds[0], weight) for weight in sorted(set(session.lambdas))]


@dataclass(frozen=True)
class ValidatedAdversary:
    """What an adversary does on the texts for validation.

    Attributes:
        plan: which one.
        tvd: the mean total variation distance of its outputs.
        jsd: the mean Jensen-Shannon divergence of its attention.
    """

    plan: Plan
    tvd: float
    jsd: float


def validated(session: Session) -> list[ValidatedAdversary]:
    """All adversaries of a session on the texts for validation."""
    base = session.base("validation")
    results = []
    for plan in adversaries(session):
        other = session.outputs(plan, "validation")
        distances, divergences = output_distances(base, other), attention_distances(base, other)
        results.append(ValidatedAdversary(plan, float(np.mean(distances)), float(np.mean(divergences))))
    return results


def choose(results: list[ValidatedAdversary], limit: float) -> tuple[ValidatedAdversary, bool]:
    """The adversary with the most different attention among those whose outputs are near enough.

    If none is near enough, it is the one with the nearest outputs.

    Args:
        results: of all adversaries, on the texts for validation.
        limit: the largest mean total variation distance.

    Returns:
        The chosen one, and whether it is near enough.

    Example:
        >>> results = [ValidatedAdversary(Plan("adversary", 0, w), tvd, w) for w, tvd in ((0.1, 0.01), (0.2, 0.3))]
        >>> choose(results, 0.05)[0].plan.weight, choose(results, 0.001)[1]
        (0.1, False)
    """
    if not results:
        raise InputError(f"{parameter('lambdas')} is empty. Give at least one weight, such as 0.01.")
    near = [result for result in results if result.tvd <= limit]
    if near:
        return max(near, key=lambda result: result.jsd), True
    return min(results, key=lambda result: result.tvd), False


def chosen_adversary(session: Session) -> Plan:
    """The adversary that stands for all: chosen on the texts for validation, never on those for the test."""
    return choose(validated(session), session.max_distance)[0].plan
