"""The papers' models as Transformers models: configuration, model, tokenizer, presets and word vectors.

Names are loaded lazily. ``register()`` registers configuration, model and tokenizer with the Auto classes of
Transformers; importing ``attnfaith`` calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnfaith._lazy import lazy_exports

if TYPE_CHECKING:
    from attnfaith.models.attention_scores import sparsemax as sparsemax
    from attnfaith.models.auto_classes import register as register
    from attnfaith.models.configuration import AttentionClassifierConfig as AttentionClassifierConfig
    from attnfaith.models.modeling import Attended as Attended
    from attnfaith.models.modeling import AttentionClassifier as AttentionClassifier
    from attnfaith.models.paper_presets import Preset as Preset
    from attnfaith.models.paper_presets import from_preset as from_preset
    from attnfaith.models.paper_presets import preset as preset
    from attnfaith.models.paper_presets import presets as presets
    from attnfaith.models.tokenization import WordTokenizer as WordTokenizer
    from attnfaith.models.word_vectors import Coverage as Coverage
    from attnfaith.models.word_vectors import WordVectors as WordVectors
    from attnfaith.models.word_vectors import load_vectors as load_vectors
    from attnfaith.models.word_vectors import train_vectors as train_vectors

_HOMES = {
    "Attended": "modeling",
    "AttentionClassifier": "modeling",
    "AttentionClassifierConfig": "configuration",
    "Coverage": "word_vectors",
    "Preset": "paper_presets",
    "WordTokenizer": "tokenization",
    "WordVectors": "word_vectors",
    "from_preset": "paper_presets",
    "load_vectors": "word_vectors",
    "preset": "paper_presets",
    "presets": "paper_presets",
    "register": "auto_classes",
    "sparsemax": "attention_scores",
    "train_vectors": "word_vectors",
}
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, {name: f"{__name__}.{module}" for name, module in _HOMES.items()})
