"""The tests there are, to be given with options: ``tests=[af.tests.Erasure(bounds=True)]``."""

from attnfaith.evaluation.tests.adversarial.test import Adversarial
from attnfaith.evaluation.tests.agreement.test import Agreement
from attnfaith.evaluation.tests.erasure.test import Erasure
from attnfaith.evaluation.tests.information.test import Information
from attnfaith.evaluation.tests.permutation.test import Permutation
from attnfaith.evaluation.tests.rationales.test import Rationales
from attnfaith.evaluation.tests.sanity.test import Sanity
from attnfaith.evaluation.tests.single_weight.test import SingleWeight

__all__ = ["Adversarial", "Agreement", "Erasure", "Information", "Permutation", "Rationales", "Sanity", "SingleWeight"]
