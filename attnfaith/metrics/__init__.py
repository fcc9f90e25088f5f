"""The tests as modules of `evaluate`, for numbers computed elsewhere. They can be combined with other modules."""

from typing import TYPE_CHECKING

from attnfaith._lazy import lazy_exports

if TYPE_CHECKING:
    from attnfaith.evaluation.tests.agreement.metric import RandomisationAgreement as RandomisationAgreement
    from attnfaith.evaluation.tests.agreement.metric import RankAgreement as RankAgreement
    from attnfaith.evaluation.tests.agreement.metric import TopOverlap as TopOverlap
    from attnfaith.evaluation.tests.erasure.metric import DecisionFlip as DecisionFlip
    from attnfaith.evaluation.tests.information.metric import RankInformation as RankInformation
    from attnfaith.evaluation.tests.permutation.metric import AdversarialDivergence as AdversarialDivergence
    from attnfaith.evaluation.tests.permutation.metric import PermutationDistance as PermutationDistance
    from attnfaith.evaluation.tests.rationales.metric import Comprehensiveness as Comprehensiveness
    from attnfaith.evaluation.tests.rationales.metric import RationaleAgreement as RationaleAgreement
    from attnfaith.evaluation.tests.rationales.metric import Sufficiency as Sufficiency
    from attnfaith.evaluation.tests.single_weight.metric import SingleWeight as SingleWeight
    from attnfaith.metrics.module import Metric as Metric

_HOMES = {
    "AdversarialDivergence": "attnfaith.evaluation.tests.permutation.metric",
    "Comprehensiveness": "attnfaith.evaluation.tests.rationales.metric",
    "DecisionFlip": "attnfaith.evaluation.tests.erasure.metric",
    "Metric": "attnfaith.metrics.module",
    "PermutationDistance": "attnfaith.evaluation.tests.permutation.metric",
    "RandomisationAgreement": "attnfaith.evaluation.tests.agreement.metric",
    "RankAgreement": "attnfaith.evaluation.tests.agreement.metric",
    "RankInformation": "attnfaith.evaluation.tests.information.metric",
    "RationaleAgreement": "attnfaith.evaluation.tests.rationales.metric",
    "SingleWeight": "attnfaith.evaluation.tests.single_weight.metric",
    "Sufficiency": "attnfaith.evaluation.tests.rationales.metric",
    "TopOverlap": "attnfaith.evaluation.tests.agreement.metric",
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
