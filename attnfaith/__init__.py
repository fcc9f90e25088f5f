"""attnfaith: can the attention of a text classifier be read as an explanation, and if not, what can?"""

import importlib
from typing import TYPE_CHECKING, Any

from attnfaith import attribution, models
from attnfaith.adapters.base import Adapter, Affine, register_adapter
from attnfaith.adapters.cut import Cut, cut
from attnfaith.attribution.methods import list_methods as methods
from attnfaith.attribution.methods import register_method
from attnfaith.attribution.perturb import perturb_tokens
from attnfaith.errors import AttnFaithError, InputError, NumericalError, UnsupportedModelError
from attnfaith.types import Capture, Items

if TYPE_CHECKING:
    from attnfaith.attribution.attributor import Attributor
    from attnfaith.attribution.explanation import Explanation

models.register()

_LAZY = {  # these need captum, which needs matplotlib: loaded when first asked for
    "Attributor": "attnfaith.attribution.attributor",
    "Explanation": "attnfaith.attribution.explanation",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__version__ = "0.1.0.dev0"
__all__ = [
    "Adapter",
    "Affine",
    "AttnFaithError",
    "Attributor",
    "Capture",
    "Cut",
    "Explanation",
    "InputError",
    "Items",
    "NumericalError",
    "UnsupportedModelError",
    "attribution",
    "cut",
    "methods",
    "models",
    "perturb_tokens",
    "register_adapter",
    "register_method",
]
