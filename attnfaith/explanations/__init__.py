"""Explanations that other libraries made, as rankings for `attnfaith.Evaluator`: one converter for each library.

Their objects are read by their attributes, so none of these libraries is needed, or imported, here.
"""

from typing import TYPE_CHECKING

from attnfaith._lazy import lazy_exports

if TYPE_CHECKING:
    from attnfaith.explanations.captum import from_captum as from_captum
    from attnfaith.explanations.explained import Explained as Explained
    from attnfaith.explanations.ferret import from_ferret as from_ferret
    from attnfaith.explanations.inseq import from_inseq as from_inseq
    from attnfaith.explanations.lime import from_lime as from_lime
    from attnfaith.explanations.shap import from_shap as from_shap

_HOMES = {
    "Explained": "explained",
    "from_captum": "captum",
    "from_ferret": "ferret",
    "from_inseq": "inseq",
    "from_lime": "lime",
    "from_shap": "shap",
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, {name: f"{__name__}.{module}" for name, module in _HOMES.items()})
