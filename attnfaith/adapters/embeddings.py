"""The word vectors of a text, wherever a model reads them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.inference_state import patch_forward
from attnfaith.errors import UnsupportedModelError


def find_embedding(model: nn.Module) -> nn.Module:
    """The module that turns ids into vectors."""
    find = getattr(model, "get_input_embeddings", None)
    try:
        module = None if find is None else find()
    except (NotImplementedError, AttributeError):
        module = None
    if module is None:
        only = [module for module in model.modules() if isinstance(module, nn.Embedding)]
        module = only[0] if len(only) == 1 else None
    if not isinstance(module, nn.Module):
        raise UnsupportedModelError(
            f"{type(model).__name__} does not say which module holds its word vectors, so nothing can be attributed to "
            "them. Give the model a get_input_embeddings() that returns it."
        )
    return module


def find_lookups(model: nn.Module) -> list[nn.Module]:
    """The embedding and its doubles: encoder and decoder may look ids up in modules of their own that share weights."""
    found = find_embedding(model)
    weights = {id(parameter) for parameter in found.parameters(recurse=False)}
    doubles = [
        module
        for module in model.modules()
        if module is not found and weights & {id(parameter) for parameter in module.parameters(recurse=False)}
    ]
    return [found, *(double for double in doubles if isinstance(double, nn.Embedding))]


def read_vectors(model: nn.Module, ids: Tensor) -> Tensor:
    """The vectors ``[B, L, E]`` of ids."""
    with torch.no_grad():
        return _vectors(find_embedding(model)(ids))


def run_on_vectors(model: nn.Module, forward: Callable[[], Tensor], ids: Tensor, vectors: Tensor) -> Tensor:
    """What ``forward`` returns when the model reads other vectors ``[B, L, E]`` for its ``input_ids``.

    An encoder-decoder that reads its input a second time, shifted by one, reads the same vectors there.
    """
    read = False

    def replacing(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal read
            output = original(*args, **kwargs)
            asked = args[0] if args else next(iter(kwargs.values()), None)
            if isinstance(asked, Tensor) and torch.equal(asked, ids):
                read = True
                return _with_vectors(output, vectors)
            if isinstance(asked, Tensor) and torch.equal(asked, ids.T):
                read = True
                return _with_vectors(output, vectors.transpose(0, 1))
            if not isinstance(asked, Tensor) or asked.shape != ids.shape:
                return output
            if torch.equal(asked[:, 1:], ids[:, :-1]):
                return _with_vectors(output, torch.cat((_vectors(output)[:, :1], vectors[:, :-1]), dim=1))
            return output

        return call

    with ExitStack() as undo:
        for module in find_lookups(model):
            patch_forward(undo, module, replacing)
        output = forward()
    if not read:
        raise UnsupportedModelError(
            f"{type(model).__name__} does not look its input_ids up in its word vectors, so nothing can be attributed "
            "to them. Use level='attention'."
        )
    return output


def _vectors(output: Any) -> Tensor:
    """Some embeddings (quantised ones) return a tuple whose first element is what we want."""
    vectors = output[0] if isinstance(output, tuple) else output
    assert isinstance(vectors, Tensor)
    return vectors


def _with_vectors(output: Any, vectors: Tensor) -> Any:
    return (vectors, *output[1:]) if isinstance(output, tuple) else vectors
