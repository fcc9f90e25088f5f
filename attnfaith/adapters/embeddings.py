"""The word vectors of a text: the module that looks them up, reading them, and running the model on other vectors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.inference_state import patch_forward
from attnfaith.errors import UnsupportedModelError
from attnfaith.parameter_names import parameter


def find_embedding(model: nn.Module) -> nn.Module:
    """The module that turns ids into word vectors."""
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
            f"It is not known which module of {type(model).__name__} holds its word vectors, so nothing can be "
            "attributed to them. Give the model a get_input_embeddings() that returns this module.",
            code="unsupported-ranking",
        )
    return module


def find_lookups(model: nn.Module) -> list[nn.Module]:
    """All modules that look up word vectors: encoder and decoder may have separate modules that share weights."""
    embedding = find_embedding(model)
    weights = {id(parameter) for parameter in embedding.parameters(recurse=False)}
    sharing = [
        module
        for module in model.modules()
        if module is not embedding and weights & {id(parameter) for parameter in module.parameters(recurse=False)}
    ]
    return [embedding, *(module for module in sharing if isinstance(module, nn.Embedding))]


def read_vectors(model: nn.Module, ids: Tensor) -> Tensor:
    """The word vectors ``[B, L, E]`` of ids."""
    with torch.no_grad():
        return _vectors(find_embedding(model)(ids))


def run_on_vectors(model: nn.Module, forward: Callable[[], Tensor], ids: Tensor, vectors: Tensor) -> Tensor:
    """Run ``forward`` with other word vectors ``[B, L, E]`` for the model's ``input_ids``.

    The lookups of the model are replaced, since not every model accepts ``inputs_embeds``. They are recognised by their
    ids: an encoder-decoder looks its input up a second time, shifted by one, and gets the same vectors shifted; a model
    with the length first looks up the transpose; other lookups (a start token, token types) are left alone.
    """
    replaced = False

    def replacing(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal replaced
            output = original(*args, **kwargs)
            looked_up = args[0] if args else next(iter(kwargs.values()), None)
            if isinstance(looked_up, Tensor) and torch.equal(looked_up, ids):
                replaced = True
                return _with_vectors(output, vectors)
            if isinstance(looked_up, Tensor) and torch.equal(looked_up, ids.T):
                replaced = True
                return _with_vectors(output, vectors.transpose(0, 1))
            if not isinstance(looked_up, Tensor) or looked_up.shape != ids.shape:
                return output
            if torch.equal(looked_up[:, 1:], ids[:, :-1]):
                return _with_vectors(output, torch.cat((_vectors(output)[:, :1], vectors[:, :-1]), dim=1))
            return output

        return call

    with ExitStack() as undo:
        for module in find_lookups(model):
            patch_forward(undo, module, replacing)
        output = forward()
    if not replaced:
        raise UnsupportedModelError(
            f"{type(model).__name__} does not look its input_ids up in its word vectors, so nothing can be attributed "
            f"to them. Use {parameter('level', 'attention')}.",
            code="unsupported-ranking",
        )
    return output


def _vectors(output: Any) -> Tensor:
    """The vectors in the output of an embedding; quantised embeddings return a tuple that begins with them."""
    vectors = output[0] if isinstance(output, tuple) else output
    assert isinstance(vectors, Tensor)
    return vectors


def _with_vectors(output: Any, vectors: Tensor) -> Any:
    return (vectors, *output[1:]) if isinstance(output, tuple) else vectors
