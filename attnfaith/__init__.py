"""attnfaith: can the attention of a text classifier be read as an explanation, and if not, what can?"""

# ruff: noqa: E402 (the order of these imports matters)

# First of all: importing the rest takes seconds, and an interrupt of the command must not show a traceback meanwhile.
from attnfaith.interrupts import install_for_command

install_for_command()

from typing import TYPE_CHECKING

from attnfaith import attribution, models
from attnfaith._lazy import lazy_exports
from attnfaith.adapters.adapter import Adapter, Affine, register_adapter
from attnfaith.adapters.cut import Cut, cut
from attnfaith.attribution.captum_perturbation import perturb_tokens
from attnfaith.attribution.method import list_methods as methods
from attnfaith.attribution.method import register_method
from attnfaith.errors import AttnFaithError, InputError, NumericalError, StorageError, UnsupportedModelError
from attnfaith.types import Capture, Items

if TYPE_CHECKING:
    from attnfaith import metrics
    from attnfaith.attribution.attributor import Attributor
    from attnfaith.attribution.explanation import Explanation
    from attnfaith.evaluation import tests
    from attnfaith.evaluation.evaluator import Evaluator
    from attnfaith.evaluation.results import Results, load_results

models.register()

_LAZY = {  # these need captum or pandas: loaded when first asked for
    "Attributor": "attnfaith.attribution.attributor",
    "Evaluator": "attnfaith.evaluation.evaluator",
    "Explanation": "attnfaith.attribution.explanation",
    "Results": "attnfaith.evaluation.results",
    "load_results": "attnfaith.evaluation.results",
    "metrics": "attnfaith.metrics",
    "tests": "attnfaith.evaluation",
}


__getattr__, __dir__ = lazy_exports(__name__, _LAZY)
__version__ = "0.1.0.dev0"
__all__ = [
    "Adapter",
    "Affine",
    "AttnFaithError",
    "Attributor",
    "Capture",
    "Cut",
    "Evaluator",
    "Explanation",
    "InputError",
    "Items",
    "NumericalError",
    "Results",
    "StorageError",
    "UnsupportedModelError",
    "attribution",
    "cut",
    "load_results",
    "methods",
    "metrics",
    "models",
    "perturb_tokens",
    "register_adapter",
    "register_method",
    "tests",
]
