"""The tests as modules of `evaluate`, for numbers that were computed elsewhere; they can be combined with others."""

from attnfaith.metrics.base import Metric
from attnfaith.metrics.counterfactual import AdversarialDivergence, PermutationDistance
from attnfaith.metrics.decision_flip import DecisionFlip
from attnfaith.metrics.rank_agreement import RandomisationAgreement, RankAgreement, TopOverlap
from attnfaith.metrics.rank_information import RankInformation
from attnfaith.metrics.rationales import Comprehensiveness, RationaleAgreement, Sufficiency
from attnfaith.metrics.single_weight import SingleWeight

__all__ = [
    "AdversarialDivergence",
    "Comprehensiveness",
    "DecisionFlip",
    "Metric",
    "PermutationDistance",
    "RandomisationAgreement",
    "RankAgreement",
    "RankInformation",
    "RationaleAgreement",
    "SingleWeight",
    "Sufficiency",
    "TopOverlap",
]
