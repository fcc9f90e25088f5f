"""Load and check the model of an `Attributor` or `Evaluator`, from an object, a path, or a pipeline."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith import validation
from attnfaith.adapters.cut import Cut
from attnfaith.attribution.method import methods
from attnfaith.errors import AttnFaithError, InputError, UnsupportedModelError
from attnfaith.models.auto_classes import register
from attnfaith.quiet import quiet_transformers
from attnfaith.validation import short_repr

MAX_LABELS, MAX_LAYERS = 10**6, 10**4
ALIGNMENT = 64
"""The address of memory that PyTorch takes is a multiple of this number of bytes."""
_ROOM = 2**28  # bytes that a model can need beyond its files: tied weights are stored once, some not at all
_PATH_LENGTH = 400  # characters of a path in a message
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth")


def load_model(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """A model and its tokenizer from an object, a path, or a text-classification pipeline.

    Weights in half precision are loaded from a path as single precision: rounding would decide the order of items of
    little importance, and a CPU is many times slower in half precision. For a model object there is a warning instead.
    """
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        model = validation.path(model, "model")
        if str(model).startswith("~"):
            model = Path(model).expanduser()
        if str(model).startswith((".", "/")) and not _is_folder(Path(model)):
            raise InputError(
                f"No classifier could be loaded from {short_repr(str(model), _PATH_LENGTH)}: there is no such folder.",
                code="model-not-found",
            )
        loaded, tokenizer = load(model, tokenizer)
        return _aligned(loaded.float() if _halved(loaded) else loaded), tokenizer
    if not isinstance(model, nn.Module) and hasattr(model, "model") and hasattr(model, "tokenizer"):
        model, tokenizer = model.model, model.tokenizer if tokenizer is None else tokenizer
    if not isinstance(model, nn.Module | Cut):
        raise InputError(
            f"Expected a model, a path, or a text-classification pipeline; got {type(model).__name__}.",
            code="model-not-found",
        )
    if _halved(model):
        warnings.warn(
            "The model is in half precision: rounding then decides the order of items of little importance, and on a "
            "CPU everything is many times slower. Load it with dtype=torch.float32, or pass its path.",
            stacklevel=3,
        )
    return model, tokenizer


def _aligned(model: nn.Module) -> nn.Module:
    """The model with every weight where PyTorch itself would put it, so that passes round alike in all processes.

    Weights that are mapped from a file may begin anywhere, and the last bits of a product depend on where.
    """
    for weight in (*model.parameters(), *model.buffers()):
        if type(weight) in (nn.Parameter, Tensor) and weight.device.type == "cpu" and weight.data_ptr() % ALIGNMENT:
            weight.data = weight.data.clone()
    return model


def _halved(model: nn.Module | Cut) -> bool:
    inner = model.model if isinstance(model, Cut) else model
    halved = any(weight.dtype in (torch.float16, torch.bfloat16) for weight in inner.parameters())
    return halved and not getattr(inner, "is_quantized", False)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long
        return False


def where_to_cut(layer: int | str, head: int | None, *, averages_layers: bool) -> dict[str, Any]:
    """The arguments of `cut` for a layer and a head."""
    if isinstance(layer, str) and layer not in ("final", "mean"):
        raise InputError(f"Expected layer to be 'final', 'mean' or a number, got {short_repr(layer)}.")
    if layer == "mean" and (not averages_layers or head is not None):
        supporting = ", ".join(sorted({repr(name) for (_, name), entry in methods.items() if entry.averages_layers}))
        raise InputError(
            f"layer='mean' is for the method {supporting} without head; every other method needs one attention. "
            "Give layer a number, or 'final'."
        )
    return {"layer": layer if isinstance(layer, int) else None, "heads": None if head is None else [head]}


def extra_inputs(arguments: Any) -> dict[str, Any]:
    """Model inputs by name, from captum's ``additional_forward_args``."""
    if isinstance(arguments, Sequence) and len(arguments) == 1:
        arguments = arguments[0]
    if arguments is None or (isinstance(arguments, Sequence) and not arguments):
        return {}
    if isinstance(arguments, Tensor):
        return {"attention_mask": arguments}
    if isinstance(arguments, dict) and all(isinstance(name, str) for name in arguments):
        return arguments
    raise InputError(
        "additional_forward_args: expected the attention mask (one tensor), or a dict of model inputs by name; got "
        f"{type(arguments).__name__}. Positional arguments are not used, since their order differs between models."
    )


def load(model: Any, tokenizer: Any = None) -> tuple[Any, Any]:
    """Load a classifier from a folder or a name on the hub, and its tokenizer unless one is given."""
    with _loading(model):
        return _load(model, tokenizer)


def load_body(model: Any, tokenizer: Any = None, **options: Any) -> tuple[Any, Any, bool]:
    """Load a classifier to be trained, which may lack a trained head, and its tokenizer; True if it lacks one.

    Args:
        model: a folder or a name on the hub.
        tokenizer: used in place of the one that is stored with the model.
        options: entries of the configuration, such as ``num_labels``.
    """
    from transformers import AutoModelForSequenceClassification

    with _loading(model), quiet_transformers():  # the report on a head that is missing
        loaded, info = AutoModelForSequenceClassification.from_pretrained(
            model, output_loading_info=True, trust_remote_code=False, weights_only=True, **options
        )
        prefix = f"{loaded.base_model_prefix}."
        lacking = sorted(info["missing_keys"])
        # A pooler is made anew for a classifier where the model was trained on another task.
        body = [key for key in lacking if prefix != "." and key.startswith(prefix) and "pooler" not in key]
        if body:
            raise InputError(
                f"{short_repr(str(model), _PATH_LENGTH)} holds no whole model: its files lack {', '.join(body[:3])}, "
                "which would be random numbers. Save the model again.",
                code="broken-model",
            )
        tokenizer = _load_tokenizer(model) if tokenizer is None else tokenizer
    return loaded.float() if _halved(loaded) else loaded, tokenizer, bool(lacking)


@contextmanager
def _loading(model: Any) -> Iterator[None]:
    """Check the size of a model before it is loaded, and turn the errors of loading into ours."""
    register()  # importing attnfaith has done so, except in the process of the command line
    name = short_repr(str(model), _PATH_LENGTH)
    try:
        _check_sizes(Path(model))
        yield
    except AttnFaithError:
        raise
    except Exception as error:  # a broken file can raise any exception in Transformers, torch or pickle
        reason = " ".join(str(error).split())
        if "trust_remote_code" in reason:
            raise UnsupportedModelError(
                f"{name} brings code of its own, which attnfaith does not run. If you trust it, load it yourself with "
                "from_pretrained(..., trust_remote_code=True), and pass the model and its tokenizer.",
                code="custom-code",
            ) from error
        if type(error).__name__ == "UnpicklingError":  # the message of torch advises to switch its protection off
            raise InputError(
                f"No classifier could be loaded from {name}: its pickled weights are broken, or hold more than "
                "weights, which attnfaith does not read (torch.load with weights_only=True). Save it as safetensors.",
                code="custom-code",
            ) from error
        raise InputError(
            f"No classifier with a tokenizer could be loaded from {name}: {type(error).__name__}: {reason[:600]}. Give "
            "the folder of a classifier that was saved with save_pretrained, or save it again.",
            code="model-not-found",
        ) from error


def _load(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    from transformers import AutoModelForSequenceClassification

    loaded, info = AutoModelForSequenceClassification.from_pretrained(
        model, output_loading_info=True, trust_remote_code=False, weights_only=True
    )
    if info["missing_keys"]:
        lacking = ", ".join(sorted(info["missing_keys"])[:3])
        raise InputError(
            f"{short_repr(str(model), _PATH_LENGTH)} holds no trained classifier: its files lack {lacking}, which "
            "would be random numbers. Fine-tune it first, or give the path of the fine-tuned model.",
            code="broken-model",
        )
    return loaded, _load_tokenizer(model) if tokenizer is None else tokenizer


def _load_tokenizer(model: Any) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise InputError(
            "The tokenizer has no words, only special tokens: Transformers creates such a tokenizer if the files "
            "of one are missing. Save the model's tokenizer beside it, or pass it as the second argument.",
            code="wrong-tokenizer",
        )
    return tokenizer


def _check_sizes(folder: Path) -> None:
    """Refuse a configuration that needs far more memory than its files hold, before it is allocated."""
    file = folder / "config.json"
    if not file.is_file():
        return  # a name on the hub, or a folder without a configuration, which Transformers refuses
    try:
        config = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(file)!r} is not JSON: {error}. Save the model again.", code="broken-model") from error
    if not isinstance(config, dict):
        raise InputError(
            f"{str(file)!r} holds a {type(config).__name__}; expected an object. Save the model again.",
            code="broken-model",
        )
    for name, value in _numbers(config):
        limit = MAX_LABELS if name == "num_labels" else MAX_LAYERS if re.search(r"layers|depth", name) else None
        if limit is not None and value > limit:
            raise InputError(
                f"{str(file)!r} has {name} = {short_repr(value)}; expected at most {limit:,}. Correct the file.",
                code="broken-model",
            )
    weights = [path for pattern in _WEIGHTS for path in folder.glob(pattern)]
    if not weights:
        return
    stored = sum(path.stat().st_size for path in weights)
    needed = _bytes_of(folder)
    if needed > 8 * stored + _ROOM:
        raise InputError(
            f"The configuration of {str(folder)!r} asks for a model of {needed / 1e9:,.1f} GB; its files hold "
            f"{stored / 1e9:,.3f} GB. One of its sizes is wrong: correct config.json, or save the model again.",
            code="broken-model",
        )


def _bytes_of(folder: Path) -> int:
    """The bytes of a model, built without its weights; raises for a configuration from which no model can be built."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with torch.device("meta"):
        empty = AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)
    return sum(weight.numel() * weight.element_size() for weight in empty.parameters())


def _numbers(value: Any, name: str = "") -> list[tuple[str, float]]:
    """All numbers in nested JSON with their keys."""
    if isinstance(value, dict):
        return [pair for inner, part in value.items() for pair in _numbers(part, str(inner))]
    if isinstance(value, list):
        return [pair for part in value for pair in _numbers(part, name)]
    return [(name, value)] if isinstance(value, int | float) and not isinstance(value, bool) else []
