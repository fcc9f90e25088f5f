"""The tests as modules of `evaluate`, for numbers computed elsewhere. They can be combined with other modules."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnfaith.evaluation.tests.adversarial.metric import AdversarialDivergence as AdversarialDivergence
    from attnfaith.evaluation.tests.agreement.metric import RankAgreement as RankAgreement
    from attnfaith.evaluation.tests.agreement.metric import TopOverlap as TopOverlap
    from attnfaith.evaluation.tests.erasure.metric import DecisionFlip as DecisionFlip
    from attnfaith.evaluation.tests.information.metric import RankInformation as RankInformation
    from attnfaith.evaluation.tests.permutation.metric import PermutationDistance as PermutationDistance
    from attnfaith.evaluation.tests.rationales.metric import Comprehensiveness as Comprehensiveness
    from attnfaith.evaluation.tests.rationales.metric import RationaleAgreement as RationaleAgreement
    from attnfaith.evaluation.tests.rationales.metric import Sufficiency as Sufficiency
    from attnfaith.evaluation.tests.sanity.metric import RandomisationAgreement as RandomisationAgreement
    from attnfaith.evaluation.tests.single_weight.metric import SingleWeight as SingleWeight
    from attnfaith.metrics.module import Metric as Metric


def _homes() -> dict[str, str]:
    """The module of each class; a test declares its own classes in its folder."""
    from attnfaith.evaluation.tests.base import tests  # here, since tests are a layer above

    rooms = {name: kind.__module__.rpartition(".")[0] for kind in tests.values() for name in kind.metrics}
    return {"Metric": "attnfaith.metrics.module"} | {name: f"{room}.metric" for name, room in rooms.items()}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(_homes())
    if name.startswith("_") or name not in (homes := _homes()):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(homes[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes()})
