"""Training classifiers: `train`, `fit`, settings (`recipe`), random labels (`shuffled`), and `FaithfulnessCallback`.

Names are loaded lazily, since Transformers' Trainer takes long to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnfaith._lazy import lazy_exports

if TYPE_CHECKING:
    from attnfaith.training.faithfulness_callback import FaithfulnessCallback as FaithfulnessCallback
    from attnfaith.training.fitting import History as History
    from attnfaith.training.fitting import fit as fit
    from attnfaith.training.from_data import load_history as load_history
    from attnfaith.training.from_data import train as train
    from attnfaith.training.objectives.deceptive_attention import DeceptiveAttention as DeceptiveAttention
    from attnfaith.training.objectives.diversity import Diversity as Diversity
    from attnfaith.training.objectives.fixed_attention import FixedAttention as FixedAttention
    from attnfaith.training.objectives.fixed_representations import FixedRepresentations as FixedRepresentations
    from attnfaith.training.objectives.gumbel_softmax import GumbelSoftmax as GumbelSoftmax
    from attnfaith.training.objectives.masked_fine_tuning import MaskedFineTuning as MaskedFineTuning
    from attnfaith.training.objectives.objective import Objective as Objective
    from attnfaith.training.objectives.word_level import WordPrediction as WordPrediction
    from attnfaith.training.objectives.word_level import WordTying as WordTying
    from attnfaith.training.random_labels import shuffled as shuffled
    from attnfaith.training.recipes import recipe as recipe

_HOMES = {
    "DeceptiveAttention": "objectives.deceptive_attention",
    "Diversity": "objectives.diversity",
    "FaithfulnessCallback": "faithfulness_callback",
    "FixedAttention": "objectives.fixed_attention",
    "FixedRepresentations": "objectives.fixed_representations",
    "GumbelSoftmax": "objectives.gumbel_softmax",
    "History": "fitting",
    "MaskedFineTuning": "objectives.masked_fine_tuning",
    "Objective": "objectives.objective",
    "WordPrediction": "objectives.word_level",
    "WordTying": "objectives.word_level",
    "fit": "fitting",
    "load_history": "from_data",
    "recipe": "recipes",
    "shuffled": "random_labels",
    "train": "from_data",
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, {name: f"{__name__}.{module}" for name, module in _HOMES.items()})
