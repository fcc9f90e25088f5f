"""Cutting a model that nobody described: its attentions are watched, its way to the final one is learnt, and walked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.adapter import Adapter
from attnfaith.adapters.attention_watch import AttentionCall, AttentionWatch
from attnfaith.adapters.call_path import CallPath, TracedRun
from attnfaith.adapters.embeddings import run_on_vectors
from attnfaith.adapters.forward_pass import attended_items, check_attended, mix_logits, observe, read_rows
from attnfaith.adapters.positions import repeat_index, repeat_inputs, select_positions, select_query_rows
from attnfaith.adapters.tail import FULL_FORWARD, LAST_BLOCK, ONE_POSITION, TracedState, run_tail
from attnfaith.errors import UnsupportedModelError
from attnfaith.functional.erasure import erase
from attnfaith.types import Capture


class _StopForward(BaseException):
    """Stops a forward pass at the attention; no model's code catches it."""


class TracedAdapter(Adapter):
    """Cuts any model along a `CallPath`.

    Args:
        model: the model, unwrapped.
        trail: the way to the attention to cut at.
        heads: the heads to cut; all by default. The others keep their weights.
        path: one of `attnfaith.adapters.tail.PATHS`.
        live: which tensors of which memories the logits depend on; all by default.
        at_block: whether the deciding rows are found at the layer's result instead of the attention's.
        every_row: take every token for deciding: which of them do depends on what they read.
        rows_second: whether the layer's result is ``[B, Q, ...]``; otherwise it is ``[Q, B, ...]``.
    """

    def __init__(
        self,
        model: nn.Module,
        trail: CallPath,
        *,
        heads: Sequence[int] | None = None,
        path: str = ONE_POSITION,
        live: Mapping[int, frozenset[int]] | None = None,
        at_block: bool = True,
        every_row: bool = False,
        rows_second: bool = True,
    ) -> None:
        super().__init__(model)
        self.mechanism = "watched: a fused attention" if trail.fused else "watched: a softmax and a product"
        self.trail, self.heads, self.path = trail, heads, path
        self.rows_are_tokens = trail.shape[2] == trail.shape[3]
        self.at_block, self.every_row = at_block and trail.block is not None, every_row
        everything = {
            index: frozenset(place for place, dims in enumerate(memory.dims) if dims is not None)
            for index, memory in enumerate(trail.memories)
        }
        self.live = everything if live is None else live
        self.rows_second = rows_second
        self.reasons: Mapping[str, str] = {}

    def with_tail(self, path: str, **changes: Any) -> TracedAdapter:
        """The same cut, its tail run another way."""
        settings: dict[str, Any] = {
            "heads": self.heads,
            "live": self.live,
            "at_block": self.at_block,
            "every_row": self.every_row,
            "rows_second": self.rows_second,
            **changes,
        }
        return TracedAdapter(self.model, self.trail, path=path, **settings)

    def capture(self, **inputs: Any) -> Capture:
        """Run the model once, watching its final attention."""
        wanted = {
            ONE_POSITION: [index for index, places in self.live.items() if places],
            LAST_BLOCK: range(len(self.trail.memories)),
            FULL_FORWARD: [],
        }[self.path]
        tokens = inputs["attention_mask"].bool()
        seen = observe(
            lambda: self.forward(inputs),
            self.trail,
            len(tokens),
            wanted,
            self.at_block,
            tokens if self.every_row else None,
            self.rows_second,
        )
        # whatever asked for gradients inside the model (input gradients for checkpointing), a capture has no graph
        weights, logs = (tensor.detach() for tensor in seen.product.distributions(seen.rows))
        mask, items = attended_items(tokens, logs, self.trail.name)
        weights, logs = (tensor[:, self._chosen(tensor.shape[1]), :, : mask.shape[1]] for tensor in (weights, logs))
        exists = seen.row_mask[:, None, :].expand(weights.shape[:3])
        check_attended(logs, exists, mask)
        state = TracedState(
            inputs=inputs,
            rows=seen.rows,
            row_mask=seen.row_mask,
            values=seen.product.values()[:, :, : mask.shape[1]].detach(),
            context=seen.product.layout.read(seen.product.output).detach(),
            memories={index: self._live(index, tensors) for index, tensors in seen.remembered.items()},
            shapes={index: [getattr(one, "shape", None) for one in all_] for index, all_ in seen.remembered.items()},
            token=seen.token if items.kind == "tokens" else None,
        )
        return Capture(
            weights=torch.where(exists.unsqueeze(-1), weights, 0).flatten(1, 2),
            mask=mask,
            logits=seen.logits,
            items=items,
            groups=exists.flatten(1, 2),
            log_weights=torch.where(exists.unsqueeze(-1), logs, -torch.inf).flatten(1, 2),
            state=self.for_tail(state),
        )

    def _chosen(self, heads: int) -> list[int]:
        return list(range(heads)) if self.heads is None else list(self.heads)

    def _live(self, index: int, tensors: Sequence[Any]) -> list[Tensor | None]:
        live = self.live.get(index, ())
        return [tensor.detach() if place in live else None for place, tensor in enumerate(tensors)]

    def for_tail(self, state: TracedState) -> TracedState:
        """Of a state for the tail at full length, what this path reads."""
        if self.path == LAST_BLOCK:
            return state
        context = None if self.heads is None else state.context
        if self.path == FULL_FORWARD:
            return replace(state, memories={}, shapes={}, context=context)
        memories = {}
        for index, tensors in state.memories.items():
            dims = self.trail.memories[index].dims
            memories[index] = [
                None if tensor is None else select_positions(tensor, dims[place] or (), state.rows)
                for place, tensor in enumerate(tensors)
            ]
        return replace(state, memories=memories, shapes={}, context=context)

    def rerun(self, capture: Capture, weights: Tensor) -> Tensor:
        """Run the tail on other weights, ``[B, K, G, N]``."""
        state: TracedState = capture.state
        batch, count = weights.shape[:2]
        texts = repeat_index(batch, count, weights.device)
        return self._tail(state, self._contexts(state, weights).flatten(0, 1), texts).unflatten(0, (batch, count))

    def rows_read_under_noise(self, inputs: Mapping[str, Any], *, original: bool) -> Tensor:
        """Which query rows the logits of one text read when all rows read noise, and when they read its opposite.

        What one of them shuts (a rectified gate) the other opens. With ``original`` the first answer is for the text as
        it is; ``[2, Q]`` or ``[3, Q]``.
        """
        count = 2 + original
        seen: list[tuple[AttentionCall, Tensor]] = []

        def disturb(product: AttentionCall) -> Tensor:
            whole = product.layout.read(product.output).clone()
            generator = torch.Generator().manual_seed(0)
            noise = torch.rand(whole[0].shape, generator=generator, dtype=torch.float64) - 0.5
            whole[-2] = (4 * noise).to(whole) * whole.abs().amax()
            whole[-1] = -whole[-2]
            leaf = product.layout.write(whole).detach().requires_grad_()
            seen.append((product, leaf))
            return leaf.clone()

        walk = TracedRun(self.trail, count, disturb)
        logits = walk.run(lambda: self.forward(repeat_inputs(inputs, 1, count)))
        if not logits.requires_grad:
            raise UnsupportedModelError(f"No logit depends on the attention in {self.trail.name}.")
        product, leaf = seen[0]
        gradients = torch.autograd.grad(mix_logits(logits), [leaf], allow_unused=True)
        return read_rows(gradients, product, count, self.trail.name)

    def _contexts(self, state: TracedState, weights: Tensor) -> Tensor:
        """What the deciding rows read under other weights: ``[B, K, G, N]`` to ``[B, K, H, R, D]``."""
        values = self._values(state)
        edited = weights.unflatten(2, (-1, state.rows.shape[1])).to(values.dtype)
        return torch.einsum("bkhrn,bhnd->bkhrd", edited, values)  # a broadcast product would copy the values K times

    def rerun_sets(self, capture: Capture, texts: Tensor, keep: Tensor, room: int) -> Tensor:
        """Run the tail on erased weights, some candidates of every text.

        With one deciding row, what is kept is summed by one matrix product for all heads, without ever making the
        weights ``[M, G, N]``; candidates whose kept weights underflow are computed from their logarithms.
        """
        state: TracedState = capture.state
        by_text = texts.argsort(stable=True)
        parts = []
        for piece in by_text.split(room):
            present, counts = texts[piece].unique_consecutive(return_counts=True)
            kept = keep[piece].split(counts.tolist())
            context = [self._kept(capture, text, one) for text, one in zip(present.tolist(), kept, strict=True)]
            parts.append(self._tail(state, torch.cat(context), texts[piece]))
        logits = torch.cat(parts)
        return torch.empty_like(logits).index_copy_(0, by_text, logits)

    def _kept(self, capture: Capture, text: int, keep: Tensor) -> Tensor:
        """What the deciding rows of one text read when only some items are kept: ``[K, N]`` to ``[K, H, R, D]``."""
        values = self._values(capture.state)[text]  # [H, N, D]
        weights, rows = capture.weights[text], capture.state.rows.shape[1]
        logs = None if capture.log_weights is None else capture.log_weights[text]
        if rows > 1 or logs is None:
            return erase(weights, keep, logs).unflatten(1, (-1, rows)).to(values.dtype) @ values
        top = logs.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
        shares = (logs - top).exp().to(values.dtype)  # [H, N], relative to the largest
        mass = weights.double().sum(-1).to(values.dtype)
        kept = keep.to(values.dtype)
        total = kept @ shares.T  # [K, H]
        sums = kept @ (shares.unsqueeze(-1) * values).transpose(0, 1).flatten(1)  # [K, H * D]
        context = sums.unflatten(1, (len(shares), -1)) * (mass / total).nan_to_num(0.0, 0.0).unsqueeze(-1)
        small = (total < 1e-20).any(1)
        if bool(small.any()):
            exact = erase(weights, keep[small], logs).to(values.dtype)
            context[small] = (exact.unsqueeze(2) @ values).squeeze(2)
        return context.unsqueeze(2)

    def _values(self, state: TracedState) -> Tensor:
        values = state.values if self.heads is None else state.values[:, list(self.heads)]
        return values.float() if values.element_size() < 4 else values

    def _tail(self, state: TracedState, context: Tensor, texts: Tensor) -> Tensor:
        if self.heads is not None:
            assert state.context is not None
            whole = select_query_rows(state.context, state.rows)[texts]
            whole[:, list(self.heads)] = context.to(whole.dtype)
            context = whole
        pad = getattr(getattr(self.model, "config", None), "pad_token_id", None)
        return run_tail(self.forward, self.trail, self.path, state, context, texts, 0 if pad is None else max(pad, 0))

    def logits_at(
        self, rows: tuple[Tensor, Tensor], inputs: Mapping[str, Any], vectors: Tensor | None = None
    ) -> Tensor:
        """Stop at the attention, and run what follows on the rows that decide: nothing else reaches the logits."""
        if self.path != ONE_POSITION or self.every_row or self.heads is not None:
            return super().logits_at(rows, inputs, vectors)
        seen: list[AttentionCall] = []
        remembered: dict[int, list[Any]] = {}

        def stop(product: AttentionCall) -> None:
            seen.append(product)
            raise _StopForward

        def keeper(index: int) -> Callable[[list[Any]], None]:
            return lambda tensors: remembered.__setitem__(index, tensors)

        wanted = {index: keeper(index) for index, places in self.live.items() if places}
        ids = inputs["input_ids"]
        walk = TracedRun(self.trail, len(ids), stop, remember=wanted)

        def run() -> Tensor:
            return walk.run(lambda: self.forward(inputs))

        with suppress(_StopForward):
            run() if vectors is None else run_on_vectors(self.model, run, ids, vectors)
        values = seen[0].values()
        state = TracedState(
            inputs=inputs,
            rows=rows[0],
            row_mask=rows[1],
            values=values,
            context=None,
            memories={index: self._live(index, tensors) for index, tensors in remembered.items()},
            shapes={},
        )
        context = seen[0].distributions(rows[0])[0].to(values.dtype) @ values
        return self._tail(self.for_tail(state), context, torch.arange(len(ids), device=ids.device))

    def attentions(self, inputs: Mapping[str, Any]) -> list[Tensor]:
        """Every attention that can be seen in a forward pass."""
        found: list[Tensor] = []

        def on_product(product: AttentionCall) -> None:
            found.append(product.distributions(None)[0].mean(1))

        with self.watching(len(inputs["input_ids"]), on_product):
            self.forward(inputs)
        return found

    def watching(self, batch: int, on_product: Callable[[AttentionCall], None]) -> AbstractContextManager[Any]:
        """Attention is recognised as it was when the model was cut."""
        return AttentionWatch(batch, on_product, any_distribution=self.trail.any_distribution)

    def attended(self, capture: Capture) -> Tensor:
        """The values of the heads that were cut, ``[B, H, N, D]``."""
        return self._values(capture.state)

    def deciding_rows(self, capture: Capture) -> tuple[Tensor, Tensor]:
        """As captured."""
        return capture.state.rows, capture.state.row_mask

    def deciding_tokens(self, capture: Capture) -> Tensor | None:
        """The one deciding row, where the attention's rows are the tokens; else the token that this row is of."""
        rows: Tensor = capture.state.rows
        token: Tensor | None = capture.state.token
        if rows.shape[1] > 1:
            return None
        return rows[:, 0] if self.rows_are_tokens else token

    def candidate_bytes(self, capture: Capture) -> int:
        """About what one candidate holds while a layer runs: some widest activations for each position that is run."""
        state: TracedState = capture.state
        length = state.rows.shape[1] if self.path == ONE_POSITION else state.length
        layer = self.model if self.trail.block is None else self.trail.chain[self.trail.block].module
        widest = max((max(parameter.shape) for parameter in layer.parameters() if parameter.dim() > 1), default=1)
        weights = capture.weights[0].numel() * 8 if state.rows.shape[1] > 1 else 0
        scores = 0 if self.path == ONE_POSITION else state.values.shape[1] * length**2 * 4
        return length * widest * 8 * state.values.element_size() + weights + scores

    def describe(self) -> dict[str, str]:
        """Where the cut is."""
        return {"attention": self.trail.name}
