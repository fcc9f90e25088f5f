"""Training classifiers: `fit`, the papers' settings (`recipe`), random labels (`shuffled`), and `FaithfulnessCallback`.

Names are loaded lazily, since Transformers' Trainer takes long to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnfaith._lazy import lazy_exports

if TYPE_CHECKING:
    from attnfaith.training.faithfulness_callback import FaithfulnessCallback as FaithfulnessCallback
    from attnfaith.training.fitting import History as History
    from attnfaith.training.fitting import fit as fit
    from attnfaith.training.random_labels import shuffled as shuffled
    from attnfaith.training.recipes import recipe as recipe

_HOMES = {
    "FaithfulnessCallback": "faithfulness_callback",
    "History": "fitting",
    "fit": "fitting",
    "recipe": "recipes",
    "shuffled": "random_labels",
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, {name: f"{__name__}.{module}" for name, module in _HOMES.items()})
