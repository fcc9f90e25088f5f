"""The ranking `lrp`: layer-wise relevance propagation as input times a modified gradient (see `rules`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from attnfaith.attribution.lrp.rules import Rules, relevance_rules
from attnfaith.attribution.method import method
from attnfaith.attribution.request import Request
from attnfaith.attribution.scores import Scores

_FACTS: dict[str, Any] = {
    "display_name": "LRP",
    "passes": 1,
    "backward": True,
    "reference": "Bach et al. 2015; Arras et al. 2017; Ali et al. 2022",
    "default_output": "log_odds",  # the same amount added to all logits changes each of them, but no decision
    "multiplies_by_inputs": True,
    "has_completeness_gap": True,
}


def under_rules(request: Request) -> tuple[Request, list[Rules]]:
    """The request with the rules of LRP around its forward passes, and a list that collects the entered rules."""
    entered: list[Rules] = []

    def rules() -> Any:
        shape = (len(request.target), request.tokens.shape[1])
        return relevance_rules(request.cut.adapter.model, request.settings.epsilon, shape, entered.append)

    return replace(request, rules=rules, known_capture=request.capture), entered


def _scores(request: Request, values: Tensor, mask: Tensor, logits: Tensor, entered: list[Rules]) -> Scores:
    absorbed = entered[0].absorbed if len(entered) == 1 else None
    gap = request.quantity(logits) - (values * mask).sum(-1)
    return request.scores(values, mask, gap=gap.detach(), absorbed=absorbed)


@method("attention", "lrp", **_FACTS)
def relevance_at_attention(request: Request) -> Scores:
    """The relevance of each item's contribution to the attended vector."""
    changed, entered = under_rules(request)
    capture = request.capture
    gradient = changed.weight_gradients
    return _scores(request, (capture.weights * gradient).sum(1), capture.mask, capture.logits, entered)


@method("input", "lrp", default_for="other", **_FACTS)
def relevance_at_input(request: Request) -> Scores:
    """The relevance of each token's vector."""
    changed, entered = under_rules(request)
    values = (changed.token_gradients * changed.token_vectors).sum(-1)
    return _scores(request, values, request.tokens, request.capture.logits, entered)
