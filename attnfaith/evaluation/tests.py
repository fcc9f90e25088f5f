"""The tests there are, to be given with options: ``tests=[af.tests.Erasure(bounds=True)]``."""

from attnfaith.evaluation.adversarial import Adversarial
from attnfaith.evaluation.agreement import Agreement
from attnfaith.evaluation.erasure import Erasure
from attnfaith.evaluation.information import Information
from attnfaith.evaluation.permutation import Permutation
from attnfaith.evaluation.rationales import Rationales
from attnfaith.evaluation.sanity import Sanity
from attnfaith.evaluation.single_weight import SingleWeight

__all__ = ["Adversarial", "Agreement", "Erasure", "Information", "Permutation", "Rationales", "Sanity", "SingleWeight"]
