"""What differs between the versions of Transformers that attnfaith runs on. Nothing else here asks for a version."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

from transformers import AutoTokenizer, PreTrainedConfig

if TYPE_CHECKING:
    from transformers import TrainingArguments

if TYPE_CHECKING or dataclasses.is_dataclass(PreTrainedConfig):
    FieldConfig = PreTrainedConfig  # since 5.4, every configuration is a dataclass
else:

    class FieldConfig(PreTrainedConfig):
        """A configuration whose options are the annotated names of its class, as Transformers' own are since 5.4."""

        def __init__(self, **values: Any) -> None:
            kinds = type(self).__mro__[: type(self).__mro__.index(FieldConfig)]
            names = [name for kind in reversed(kinds) for name in vars(kind).get("__annotations__", ())]
            options = {name: values.pop(name, getattr(type(self), name)) for name in names}
            super().__init__(**values)
            for name, value in options.items():
                setattr(self, name, value)
            self.__post_init__()

        def __post_init__(self, **kwargs: object) -> None:
            """Called when all options are set."""


def register_tokenizer(config_class: type[PreTrainedConfig], tokenizer_class: type) -> None:
    """Register a tokenizer class, so that ``AutoTokenizer`` loads it for a type of models."""
    AutoTokenizer.register(config_class, tokenizer_class=tokenizer_class, exist_ok=True)
    if FieldConfig is not PreTrainedConfig:
        # Before 5.3, AutoTokenizer silently loads a general tokenizer, unless the name of the class stands here. The
        # condition holds for 5.3 too, where this changes nothing.
        from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

        TOKENIZER_MAPPING_NAMES.setdefault(config_class.model_type, tokenizer_class.__name__)


def grouped_by_length(arguments_class: type[TrainingArguments]) -> dict[str, Any]:
    """Return the arguments of a training whose batches have texts of like length.

    Example:
        >>> from transformers import TrainingArguments
        >>> arguments = TrainingArguments("folder", **grouped_by_length(TrainingArguments))
    """
    names = {field.name for field in dataclasses.fields(arguments_class)}
    if "train_sampling_strategy" in names:  # newer than 5.0
        return {"train_sampling_strategy": "group_by_length"}
    return {"group_by_length": True}


def option_names(config_class: type[PreTrainedConfig]) -> set[str]:
    """Return the names of the options of a configuration class.

    Example:
        >>> from transformers import BertConfig
        >>> {"hidden_size", "vocab_size"} <= option_names(BertConfig)
        True
    """
    if dataclasses.is_dataclass(config_class):
        return {field.name for field in dataclasses.fields(config_class)}
    parameters = inspect.signature(config_class).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
