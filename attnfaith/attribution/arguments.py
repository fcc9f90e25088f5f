"""What a user may give to an `Attributor`, in the form that it works with."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from attnfaith.adapters.cut import Cut
from attnfaith.errors import InputError


def resolve(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """A model and its tokenizer from an object, a path, or a text-classification pipeline.

    From a path, weights that are kept in half precision are read into single: rounding would order what hardly matters,
    and a processor is many times slower in half precision. For a model that is given so, a warning says it.
    """
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        if str(model).startswith("~"):
            model = Path(model).expanduser()
        if str(model).startswith((".", "/")) and not Path(model).is_dir():
            raise InputError(f"No classifier could be loaded from {str(model)!r}: there is no such folder.")
        try:
            loaded, info = AutoModelForSequenceClassification.from_pretrained(model, output_loading_info=True)
            tokenizer = AutoTokenizer.from_pretrained(model) if tokenizer is None else tokenizer
        except (OSError, ValueError, RuntimeError, KeyError, ImportError, SafetensorError) as error:
            raise InputError(f"No classifier with a tokenizer could be loaded from {str(model)!r}: {error}") from error
        if info["missing_keys"]:
            lacking = ", ".join(sorted(info["missing_keys"])[:3])
            raise InputError(
                f"{str(model)!r} holds no trained classifier: its files lack {lacking}, which would be made up at "
                "random. Fine-tune it first, or give the path of the fine-tuned model."
            )
        if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
            raise InputError(
                "The tokenizer knows no words, only special tokens: Transformers makes such a one where the files of a "
                "tokenizer are missing. Save the model's tokenizer beside it, or pass it as the second argument."
            )
        return loaded.float() if _halved(loaded) else loaded, tokenizer
    if not isinstance(model, nn.Module) and hasattr(model, "model") and hasattr(model, "tokenizer"):
        model, tokenizer = model.model, model.tokenizer if tokenizer is None else tokenizer
    if not isinstance(model, nn.Module | Cut):
        raise InputError(f"Expected a model, a path, or a text-classification pipeline; got {type(model).__name__}.")
    if _halved(model):
        warnings.warn(
            "The model is in half precision: the order of what hardly matters is then left to rounding, and on a "
            "processor everything is many times slower. Load it with dtype=torch.float32, or pass its path.",
            stacklevel=3,
        )
    return model, tokenizer


def _halved(model: nn.Module | Cut) -> bool:
    inner = model.model if isinstance(model, Cut) else model
    halved = any(weight.dtype in (torch.float16, torch.bfloat16) for weight in inner.parameters())
    return halved and not getattr(inner, "is_quantized", False)


def where_to_cut(layer: int | str, head: int | None, method: str) -> dict[str, Any]:
    """Where to cut: the arguments of `cut`."""
    if isinstance(layer, str) and layer not in ("final", "mean"):
        raise InputError(f"Expected layer to be 'final', 'mean' or a number, got {layer!r}.")
    if layer == "mean" and (method != "attention" or head is not None):
        raise InputError("layer='mean' is for the method 'attention', all heads together; others need one attention.")
    return {"layer": layer if isinstance(layer, int) else None, "heads": None if head is None else [head]}


def extra_inputs(given: Any) -> dict[str, Any]:
    """Model inputs by name, from captum's additional forward arguments."""
    if isinstance(given, Sequence) and len(given) == 1:
        given = given[0]
    if given is None or (isinstance(given, Sequence) and not given):
        return {}
    if isinstance(given, Tensor):
        return {"attention_mask": given}
    if isinstance(given, dict):
        return given
    raise InputError(
        "additional_forward_args: expected the attention mask (one tensor), or a dict of model inputs by name; got "
        f"{type(given).__name__}. Positions are not used, since models disagree on what stands where."
    )


def positive(number: Any, name: str) -> int | None:
    """A whole number of at least 1, or None."""
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InputError(f"Expected {name} to be a whole number of at least 1, got {number!r}.")
    return number
