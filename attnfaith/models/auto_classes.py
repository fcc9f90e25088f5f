"""Registering attnfaith's models with Transformers' Auto classes, without loading Transformers' modelling code."""

from __future__ import annotations

import sys
from typing import Any

from transformers import AutoConfig, AutoModelForSequenceClassification

from attnfaith.models.configuration import AttentionClassifierConfig
from attnfaith.models.tokenization import WordTokenizer
from attnfaith.transformers_versions import register_tokenizer


class LazyModelClass:
    """A stand-in for ``AttentionClassifier`` that loads it on first use: importing PreTrainedModel takes long."""

    config_class = AttentionClassifierConfig

    def __getattr__(self, name: str) -> Any:
        from attnfaith.models.modeling import AttentionClassifier

        return getattr(AttentionClassifier, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Make a model, as calling the class does."""
        from attnfaith.models.modeling import AttentionClassifier

        return AttentionClassifier(*arguments, **options)


def register() -> None:
    """Register configuration, model and tokenizer; calling it again has no effect."""
    AutoConfig.register(AttentionClassifierConfig.model_type, AttentionClassifierConfig, exist_ok=True)
    register_tokenizer(AttentionClassifierConfig, WordTokenizer)
    loaded = sys.modules.get("attnfaith.models.modeling")
    model = loaded.AttentionClassifier if loaded else LazyModelClass()
    AutoModelForSequenceClassification.register(AttentionClassifierConfig, model, exist_ok=True)
