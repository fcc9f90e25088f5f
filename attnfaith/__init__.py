"""attnfaith: can the attention of a text classifier be read as an explanation, and if not, what can?"""

from attnfaith import attribution, models
from attnfaith.adapters.base import Adapter, Affine, register_adapter
from attnfaith.adapters.cut import Cut, cut
from attnfaith.attribution.methods import register_method
from attnfaith.errors import AttnFaithError, InputError, NumericalError, UnsupportedModelError
from attnfaith.types import Capture, Items

models.register()

__version__ = "0.1.0.dev0"
__all__ = [
    "Adapter",
    "Affine",
    "AttnFaithError",
    "Capture",
    "Cut",
    "InputError",
    "Items",
    "NumericalError",
    "UnsupportedModelError",
    "attribution",
    "cut",
    "models",
    "register_adapter",
    "register_method",
]
