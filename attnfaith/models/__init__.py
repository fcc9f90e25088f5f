"""The papers' models, as Transformers models.

Everything is loaded when it is first asked for. ``register()`` makes the Auto classes of Transformers know the
configuration, the model and the tokenizer; importing ``attnfaith`` calls it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnfaith.models.attention import sparsemax as sparsemax
    from attnfaith.models.configuration import AttentionClassifierConfig as AttentionClassifierConfig
    from attnfaith.models.modeling import Attended as Attended
    from attnfaith.models.modeling import AttentionClassifier as AttentionClassifier
    from attnfaith.models.papers import Preset as Preset
    from attnfaith.models.papers import from_preset as from_preset
    from attnfaith.models.papers import preset as preset
    from attnfaith.models.papers import presets as presets
    from attnfaith.models.registration import register as register
    from attnfaith.models.tokenization import WordTokenizer as WordTokenizer
    from attnfaith.models.vectors import Coverage as Coverage
    from attnfaith.models.vectors import WordVectors as WordVectors
    from attnfaith.models.vectors import load_vectors as load_vectors
    from attnfaith.models.vectors import train_vectors as train_vectors

_HOME = {
    "Attended": "modeling",
    "AttentionClassifier": "modeling",
    "AttentionClassifierConfig": "configuration",
    "Coverage": "vectors",
    "Preset": "papers",
    "WordTokenizer": "tokenization",
    "WordVectors": "vectors",
    "from_preset": "papers",
    "load_vectors": "vectors",
    "preset": "papers",
    "presets": "papers",
    "register": "registration",
    "sparsemax": "attention",
    "train_vectors": "vectors",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Filed, so that the next access does not come here again.
    globals()[name] = value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
