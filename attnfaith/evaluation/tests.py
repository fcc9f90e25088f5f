"""The tests there are, to be given with options: ``tests=[af.tests.Erasure(bounds=True)]``."""

from attnfaith.evaluation.erasure import Erasure
from attnfaith.evaluation.single_weight import SingleWeight

__all__ = ["Erasure", "SingleWeight"]
