"""attnfaith: can the attention of a text classifier be read as an explanation, and if not, what can?"""

# ruff: noqa: E402 (the order of these imports matters)

# First of all: importing the rest takes seconds, and an interrupt of the command must not show a traceback meanwhile.
from attnfaith.interrupts import install_for_command, started_as_command

install_for_command()

from typing import TYPE_CHECKING

from attnfaith._lazy import lazy_exports
from attnfaith.errors import AttnFaithError, InputError, NumericalError, StorageError, UnsupportedModelError

if TYPE_CHECKING:
    from attnfaith import attribution, diagnostics, explanations, metrics, models, training
    from attnfaith.adapters.adapter import Adapter, Affine, register_adapter
    from attnfaith.adapters.cut import Cut, cut
    from attnfaith.attribution.attributor import Attributor
    from attnfaith.attribution.captum_perturbation import perturb_tokens
    from attnfaith.attribution.explanation import Explanation
    from attnfaith.attribution.method import list_methods as methods
    from attnfaith.attribution.method import register_method
    from attnfaith.evaluation import tests
    from attnfaith.evaluation.evaluator import Evaluator
    from attnfaith.evaluation.hiding_comparison import compare_hiding
    from attnfaith.evaluation.merging import merge
    from attnfaith.evaluation.results import Results, load_results
    from attnfaith.types import Capture, Items

_LAZY = {  # loaded when first asked for: torch, Transformers, captum and pandas take seconds
    "Adapter": "attnfaith.adapters.adapter",
    "Affine": "attnfaith.adapters.adapter",
    "Attributor": "attnfaith.attribution.attributor",
    "Capture": "attnfaith.types",
    "Cut": "attnfaith.adapters.cut",
    "Evaluator": "attnfaith.evaluation.evaluator",
    "Explanation": "attnfaith.attribution.explanation",
    "Items": "attnfaith.types",
    "Results": "attnfaith.evaluation.results",
    "attribution": "attnfaith.attribution",
    "compare_hiding": "attnfaith.evaluation.hiding_comparison",
    "cut": "attnfaith.adapters.cut",
    "diagnostics": "attnfaith.diagnostics",
    "explanations": "attnfaith.explanations",
    "load_results": "attnfaith.evaluation.results",
    "merge": "attnfaith.evaluation.merging",
    "methods": "attnfaith.attribution.method:list_methods",
    "metrics": "attnfaith.metrics",
    "models": "attnfaith.models",
    "perturb_tokens": "attnfaith.attribution.captum_perturbation",
    "register_adapter": "attnfaith.adapters.adapter",
    "register_method": "attnfaith.attribution.method",
    "tests": "attnfaith.evaluation",
    "training": "attnfaith.training",
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
    "compare_hiding",
    "cut",
    "diagnostics",
    "explanations",
    "load_results",
    "merge",
    "methods",
    "metrics",
    "models",
    "perturb_tokens",
    "register_adapter",
    "register_method",
    "tests",
    "training",
]

# After `import attnfaith`, Transformers' Auto classes load the models of this library. The command line does not need
# that before it loads a model (see `attribution.model_loading.load`), and its help should not wait for Transformers.
if not started_as_command():
    from attnfaith.models.auto_classes import register

    register()
    del register
