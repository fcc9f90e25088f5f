"""The tests, with options if needed: ``tests=[af.tests.Erasure(bounds=True)]``.

Each folder here is a test: its module ``test`` registers a class, which declares everything else about it.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING

from attnfaith.evaluation.tests.base import tests

if TYPE_CHECKING:
    from attnfaith.evaluation.tests.adversarial.test import Adversarial as Adversarial
    from attnfaith.evaluation.tests.agreement.test import Agreement as Agreement
    from attnfaith.evaluation.tests.erasure.test import Erasure as Erasure
    from attnfaith.evaluation.tests.in_distribution.test import InDistribution as InDistribution
    from attnfaith.evaluation.tests.information.test import Information as Information
    from attnfaith.evaluation.tests.permutation.test import Permutation as Permutation
    from attnfaith.evaluation.tests.rationales.test import Rationales as Rationales
    from attnfaith.evaluation.tests.sanity.test import Sanity as Sanity
    from attnfaith.evaluation.tests.single_weight.test import SingleWeight as SingleWeight


def discover() -> None:
    """Register the test of every folder here, and make its class a name of this package."""
    for entry in pkgutil.iter_modules(__path__):
        if entry.ispkg:
            importlib.import_module(f"{__name__}.{entry.name}.test")
    globals().update({kind.__name__: kind for kind in tests.values()})


discover()
__all__ = sorted(kind.__name__ for kind in tests.values())
