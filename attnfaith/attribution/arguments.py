"""What a user may give to an `Attributor`, in the form that it works with."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith import arguments
from attnfaith.adapters.cut import Cut
from attnfaith.arguments import short
from attnfaith.attribution.loading import load
from attnfaith.errors import InputError


def resolve(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """A model and its tokenizer from an object, a path, or a text-classification pipeline.

    From a path, weights that are kept in half precision are read into single: rounding would order what hardly matters,
    and a processor is many times slower in half precision. For a model that is given so, a warning says it.
    """
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        model = arguments.path(model, "model")
        if str(model).startswith("~"):
            model = Path(model).expanduser()
        if str(model).startswith((".", "/")) and not _is_folder(Path(model)):
            raise InputError(f"No classifier could be loaded from {short(str(model), 400)}: there is no such folder.")
        loaded, tokenizer = load(model, tokenizer)
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


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long
        return False


def where_to_cut(layer: int | str, head: int | None, method: str) -> dict[str, Any]:
    """Where to cut: the arguments of `cut`."""
    if isinstance(layer, str) and layer not in ("final", "mean"):
        raise InputError(f"Expected layer to be 'final', 'mean' or a number, got {short(layer)}.")
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
    if isinstance(given, dict) and all(isinstance(name, str) for name in given):
        return given
    raise InputError(
        "additional_forward_args: expected the attention mask (one tensor), or a dict of model inputs by name; got "
        f"{type(given).__name__}. Positions are not used, since models disagree on what stands where."
    )


def positive(number: Any, name: str, *, most: int = arguments.LARGEST) -> int | None:
    """A whole number of at least 1, or None."""
    return None if number is None else arguments.whole(number, name, least=1, most=most)
