"""The final attention of a model while it is trained: with gradients, and open to being replaced.

A `Cut` cannot serve here: it runs a copy in evaluation mode whose parameters have no gradients. attnfaith's own models
return their final attention from ``attend``. In any other model the attention is watched in the model's
own forward pass, as when it is cut (`AttentionWatch`), and which attention is the final one is found out once, on a
short dummy text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.adapter import adapter_for
from attnfaith.adapters.affine import AffineAdapter
from attnfaith.adapters.attention_watch import HIDDEN, AttentionCall, AttentionWatch
from attnfaith.adapters.call_path import CallPath
from attnfaith.adapters.choose_attention import choose_attention, record_attentions
from attnfaith.adapters.forward_pass import mix_logits, read_rows
from attnfaith.adapters.inference_state import inference_state, patch_forward, unwrapped
from attnfaith.adapters.input_checks import check_inputs, example_for
from attnfaith.adapters.model_copy import shared_copy
from attnfaith.adapters.original_model import hides_weights
from attnfaith.adapters.positions import select_query_rows
from attnfaith.adapters.self_check import first_unpadded
from attnfaith.errors import UnsupportedModelError

FIRST, LAST, EVERY = "first", "last", "every"
"""The tokens whose query rows decide: the first or the last of a text, or all of them."""


@dataclass(frozen=True)
class FinalAttention:
    """The final attention of one forward pass, in its graph.

    Attributes:
        weights: ``[B, G, N]``, the distributions that decide, without dropout.
        mask: ``[B, N]``, the items.
        groups: ``[B, G]``, the distributions that exist; a text with fewer deciding rows has fewer.
        values: ``[B, H, N, D]``, the vectors that are averaged, for each head.
        token_weights: ``[B, G, L]``, the weight of each token: of a HAN that of its word within the sentence, times
            that of the sentence.
        token_mask: ``[B, L]``, the tokens that are items, or words of an item.
        positions: ``[B, N]``, the token that each item is; None if the items are sentences.
    """

    weights: Tensor
    mask: Tensor
    groups: Tensor
    values: Tensor
    token_weights: Tensor
    token_mask: Tensor
    positions: Tensor | None

    def without_hidden(self, visible: Tensor) -> FinalAttention:
        """The same without the items that the attention mask hides from the model.

        Args:
            visible: ``[B, L]`` bool.
        """
        mask = self.mask if self.positions is None else self.mask & visible.gather(1, self.positions)
        return replace(self, mask=mask, token_mask=self.token_mask & visible)


@dataclass(frozen=True)
class ReplaceableAttention:
    """What a replacement of the final attention is computed from.

    Attributes:
        weights: ``[B, H, Q, N]`` (for attnfaith's own models H and Q are 1), without dropout.
        scores: ``[B, H, Q, N]``, before the normaliser; -inf where ``attended`` is False.
        attended: ``[B, H, Q, N]``, True where a row may attend to an item.
        inputs: of the forward pass.
        training: whether the model is in training mode.
    """

    weights: Tensor
    scores: Tensor
    attended: Tensor
    inputs: dict[str, Any]
    training: bool


Replace = Callable[[ReplaceableAttention], Tensor]
"""Returns other weights ``[B, H, Q, N]``, or a tensor that can be broadcast to them."""


class AttentionInTraining:
    """Reads, and on request replaces, the final attention of a model in each of its forward passes.

    Args:
        model: the owner's model. Nothing is changed before `watching`.
        example: model inputs of one text of three tokens or more; by default a dummy text is made up.

    Raises:
        UnsupportedModelError: the final attention of this model cannot be had within the graph of training.
    """

    def __init__(self, model: nn.Module, example: Mapping[str, Any] | None = None) -> None:
        self.model = unwrapped(model)
        self._example = example
        self._latest: Callable[[Tensor], FinalAttention] | None = None
        registered = adapter_for(self.model)
        self.site: _Site | None = None
        if registered is None:
            self.site = _find_site(self.model, self._one_text())
        elif not issubclass(registered, AffineAdapter):
            raise UnsupportedModelError(
                f"{registered.__name__} cuts a model without gradients, so objectives on the attention of "
                f"{type(self.model).__name__} cannot be trained. Use objectives that do not need the attention."
            )

    @contextmanager
    def watching(self, replace: Replace | None = None) -> Iterator[AttentionInTraining]:
        """Watch the forward passes of the model, and replace its final attention in each.

        Args:
            replace: what it is replaced by; None to leave it as it is.
        """
        with ExitStack() as undo:
            undo.callback(setattr, self, "_latest", None)
            if self.site is None:
                _patch_attend(undo, self.model, self._keep, replace)
            else:
                _patch_watched(undo, self.model, self.site, self._keep, replace)
            yield self

    def _one_text(self) -> dict[str, Any]:
        given = example_for(self.model) if self._example is None else dict(self._example)
        return first_unpadded(check_inputs(self.model, given))

    def of_example(self) -> FinalAttention:
        """The final attention of the example, in the graph, with the model in evaluation mode meanwhile."""
        inputs = self._one_text()
        with ExitStack() as undo:
            for module in self.model.modules():
                undo.callback(setattr, module, "training", module.training)
            undo.enter_context(torch.enable_grad())
            undo.enter_context(self.watching())
            self.model.eval()
            self.model(**inputs)
            return self.latest(inputs["attention_mask"].bool())

    def _keep(self, latest: Callable[[Tensor], FinalAttention]) -> None:
        self._latest = latest

    def latest(self, tokens: Tensor) -> FinalAttention:
        """The final attention of the latest forward pass.

        Args:
            tokens: ``[B, L]`` bool, the tokens of the texts, hidden ones included: they tell which rows decide.
        """
        if self._latest is None:
            raise UnsupportedModelError(
                "The model's forward pass did not reach its final attention, so there is nothing to train on.",
                code="no-attention",
            )
        return self._latest(tokens)


def _patch_attend(
    undo: ExitStack, model: Any, keep: Callable[[Callable[[Tensor], FinalAttention]], None], exchange: Replace | None
) -> None:
    """Read and replace what ``model.attend`` returns."""
    original = model.attend

    @wraps(original)
    def attend(
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Any:
        attended = original(input_ids, attention_mask, token_type_ids, inputs_embeds)
        if exchange is not None and attended.weights.numel():
            given = {
                "input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids,
                "inputs_embeds": inputs_embeds,
            }  # fmt: skip
            own, scores, mask = (part[:, None, None] for part in (attended.weights, attended.scores, attended.mask))
            inputs = {name: value for name, value in given.items() if value is not None}
            weights = exchange(ReplaceableAttention(own, scores, mask, inputs, model.training))
            weights = weights.expand(own.shape)[:, 0, 0].to(attended.weights.dtype) * attended.mask
            attended = attended._replace(weights=weights, log_weights=weights.log(), scores=weights.log())
        keep(lambda tokens: _of_attended(attended, tokens))
        return attended

    if "attend" in vars(model):
        undo.callback(setattr, model, "attend", original)
    else:
        undo.callback(vars(model).pop, "attend", None)
    model.attend = attend


def _of_attended(attended: Any, tokens: Tensor) -> FinalAttention:
    """The final attention of one of attnfaith's own models."""
    weights, mask, words = attended.weights, attended.mask, attended.word_weights
    start, stop = attended.spans.unbind(-1)
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    inside = (positions >= start.unsqueeze(-1)) & (positions < stop.unsqueeze(-1))  # [B, N, L]
    of_tokens = torch.einsum("bn,bnl->bl", weights, inside.to(weights.dtype))
    if words is not None:
        of_tokens = words * of_tokens
    return FinalAttention(
        weights.unsqueeze(1),
        mask,
        torch.ones_like(mask[:, :1]) if mask.shape[1] else mask.new_ones(len(mask), 1),
        attended.values.unsqueeze(1),
        of_tokens.unsqueeze(1),
        (inside & mask.unsqueeze(-1)).any(1),
        start if words is None else None,
    )


@dataclass(frozen=True)
class _Site:
    """Where the final attention of a model is.

    Attributes:
        index: its number among the attentions of a forward pass.
        count: how many there are.
        rows: the tokens that decide.
        from_scores: whether its weights are the softmax of its scores, so that they are known without dropout.
        call_path: how the forward pass reaches it; its modules are those of the copy.
    """

    index: int
    count: int
    rows: str
    from_scores: bool
    call_path: CallPath


def _find_site(model: nn.Module, inputs: dict[str, Any]) -> _Site:
    shared = shared_copy(model)
    hidden = sorted(name for name in shared.implementations() if hides_weights(name))
    if hidden:
        raise UnsupportedModelError(
            f"The attention implementation {', '.join(hidden)} does not return its weights while training. Load the "
            "model with attn_implementation='sdpa' or 'eager'.",
            code="hidden-weights",
        )
    if any(getattr(module, "gradient_checkpointing", False) for module in model.modules()):
        raise UnsupportedModelError(
            "With gradient checkpointing the attention is computed outside the graph of training. Call "
            "model.gradient_checkpointing_disable() first."
        )
    with inference_state(model) as copy:
        record = record_attentions(copy, inputs)
        index = choose_attention(record, None)
        attention, call_path = record.attentions[index], record.call_paths[index]
        gradients = torch.autograd.grad(mix_logits(record.logits), [record.leaves[index]])
        rows = read_rows(gradients, attention, 1, call_path.name)[0]
        length = inputs["input_ids"].shape[1]
        if attention.shape[2:] != (length, length):
            raise UnsupportedModelError(
                f"The final attention of {type(model).__name__} has {attention.shape[2]} rows and {attention.shape[3]} "
                f"items where the text has {length} tokens. Objectives on the attention need one of each for a token; "
                "use others."
            )
        exact = attention.fused
        if not attention.fused and attention.scores is not None:
            scores = attention.layout.weights(attention.scores).expand(attention.shape)
            weights = attention.layout.weights(attention.weights).expand(attention.shape)  # type: ignore[arg-type]
            exact = torch.allclose(torch.softmax(scores.float(), -1), weights.float(), atol=1e-4)
    return _Site(index, len(record.call_paths), _name_of_rows(rows, model), exact, call_path)


def _name_of_rows(rows: Tensor, model: nn.Module) -> str:
    """Which of the rows ``[Q]`` of a text decide, in a way that carries over to texts of other lengths."""
    deciding = rows.nonzero().flatten().tolist()
    by_name = {FIRST: [0], LAST: [len(rows) - 1], EVERY: list(range(len(rows)))}
    for name, expected in by_name.items():
        if deciding == expected:
            return name
    raise UnsupportedModelError(
        f"The decision of {type(model).__name__} reads the rows {deciding} of {len(rows)} of its final attention. "
        "Objectives on the attention know the first, the last, and every row; use others."
    )


def _patch_watched(
    undo: ExitStack,
    model: nn.Module,
    site: _Site,
    keep: Callable[[Callable[[Tensor], FinalAttention]], None],
    exchange: Replace | None,
) -> None:
    """Watch the attentions of the model's forward passes."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)  # Trainer reads the signature
        def forward(*args: Any, **kwargs: Any) -> Any:
            ids = kwargs.get("input_ids", args[0] if args else kwargs.get("inputs_embeds"))
            assert isinstance(ids, Tensor)
            seen: list[AttentionCall] = []
            edited: list[Tensor] = []

            def on_attention(attention: AttentionCall) -> Tensor | None:
                seen.append(attention)
                if len(seen) != site.index + 1 or exchange is None:
                    return None
                scores = _scores(attention, None, exact=site.from_scores)
                given, attended = _softmax(scores), scores > -torch.inf
                inputs = {"input_ids": ids, **kwargs}
                weights = exchange(ReplaceableAttention(given, scores, attended, inputs, model.training))
                edited.append(weights.expand(given.shape) * attended)
                values = attention.values()
                return attention.layout.write(edited[0].to(values.dtype) @ values)

            with AttentionWatch(len(ids), on_attention, any_distribution=site.call_path.any_distribution):
                output = original(*args, **kwargs)
            if len(seen) != site.count:
                raise UnsupportedModelError(
                    f"This forward pass has {len(seen)} attentions, and one on a short text has {site.count}: it is "
                    "not known which is the final one.",
                    code="several-attentions",
                )
            keep(lambda tokens: _of_call(seen[site.index], site, tokens, *edited))
            return output

        return forward

    patch_forward(undo, model, make)


def _of_call(attention: AttentionCall, site: _Site, tokens: Tensor, edited: Tensor | None = None) -> FinalAttention:
    """The final attention of a watched forward pass; ``edited`` are the weights that replaced it."""
    first = tokens.int().argmax(1, keepdim=True)
    last = tokens.shape[1] - 1 - tokens.flip(1).int().argmax(1, keepdim=True)
    every = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
    rows = {FIRST: first, LAST: last, EVERY: every}[site.rows]
    exists = tokens if site.rows == EVERY else torch.ones_like(rows, dtype=torch.bool)
    if edited is None:
        weights = _softmax(_scores(attention, rows, exact=site.from_scores))
    else:
        weights = select_query_rows(edited, rows)
    heads = weights.shape[1]
    groups = exists.unsqueeze(1).expand(-1, heads, -1)
    weights = torch.where(groups.unsqueeze(-1), weights, 0).flatten(1, 2)
    return FinalAttention(weights, tokens, groups.flatten(1, 2), attention.values(), weights, tokens, every)


def _scores(attention: AttentionCall, rows: Tensor | None, *, exact: bool) -> Tensor:
    """The scores ``[B, H, R, N]`` whose softmax the weights are, before dropout; -inf where nothing is attended.

    Without ``exact`` they are the logarithms of the weights that entered the product, which dropout may have changed.
    """
    if attention.fused:
        scores = attention.fused_scores(rows)
    elif exact:
        assert attention.scores is not None
        scores = select_query_rows(attention.layout.weights(attention.scores).expand(attention.shape), rows)
    else:
        assert attention.weights is not None
        weights = select_query_rows(attention.layout.weights(attention.weights).expand(attention.shape), rows)
        return torch.where(weights > 0, weights.clamp_min(torch.finfo(weights.dtype).tiny).log(), -torch.inf)
    top = scores.detach().amax(-1, keepdim=True)
    return torch.where(scores < top + HIDDEN, -torch.inf, scores)


def _softmax(scores: Tensor) -> Tensor:
    """The softmax of scores ``[..., N]``; zeros, and a gradient of zero, in a row of nothing but -inf."""
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return torch.where(empty, 0, torch.softmax(scores.masked_fill(empty, 0.0), -1))
