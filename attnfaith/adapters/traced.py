"""The adapter of any model: it watches the attention, and runs along the recorded call path instead of family code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnfaith.adapters.adapter import Adapter
from attnfaith.adapters.attention_watch import AttentionCall, AttentionWatch
from attnfaith.adapters.call_path import CallPath, TracedRun
from attnfaith.adapters.embeddings import run_on_vectors
from attnfaith.adapters.forward_pass import attended_items, check_attended, mix_logits, observe, read_rows
from attnfaith.adapters.positions import repeat_index, repeat_inputs, select_positions, select_query_rows, select_texts
from attnfaith.adapters.self_check import relative_difference, scale_of, tolerance_of
from attnfaith.adapters.tail import FULL_FORWARD, LAST_BLOCK, ONE_POSITION, TracedState, run_tail
from attnfaith.errors import UnsupportedModelError
from attnfaith.functional.erasure import erase
from attnfaith.types import Capture


class _StopForward(BaseException):
    """Stops a forward pass at the attention. A BaseException, since model code may catch any Exception."""


class TracedAdapter(Adapter):
    """Cuts any model along a `CallPath`.

    Args:
        model: the model, unwrapped.
        call_path: the call path of the attention to cut at.
        heads: the heads to cut; all by default. The others keep their weights.
        tail: one of `attnfaith.adapters.tail.TAILS`.
        needed_leaves: by cached call, which leaves of its result the logits depend on; all by default.
        at_block: whether the deciding rows are read off a gradient at the layer's result instead of the attention's.
        every_row: treat every token as deciding, because an edit changes which tokens decide.
        rows_second: whether the layer's result is ``[B, Q, ...]``; otherwise it is ``[Q, B, ...]``.

    Attributes:
        reasons: by faster tail, why it was not chosen.
    """

    def __init__(
        self,
        model: nn.Module,
        call_path: CallPath,
        *,
        heads: Sequence[int] | None = None,
        tail: str = ONE_POSITION,
        needed_leaves: Mapping[int, frozenset[int]] | None = None,
        at_block: bool = True,
        every_row: bool = False,
        rows_second: bool = True,
    ) -> None:
        super().__init__(model)
        self.mechanism = "watched: a fused attention" if call_path.fused else "watched: a softmax and a product"
        self.call_path, self.heads, self.tail = call_path, heads, tail
        self.rows_are_tokens = call_path.shape[2] == call_path.shape[3]
        self.at_block, self.every_row = at_block and call_path.block is not None, every_row
        all_tensors = {
            call: frozenset(index for index, dims in enumerate(cached_call.dims) if dims is not None)
            for call, cached_call in enumerate(call_path.cached_calls)
        }
        self.needed_leaves = all_tensors if needed_leaves is None else needed_leaves
        self.rows_second = rows_second
        self.reasons: Mapping[str, str] = {}
        self._same_gradient: bool | None = None  # of `logits_on` and of the whole model; None before it was tried

    def with_tail(self, tail: str, **changes: Any) -> TracedAdapter:
        """The same cut with another tail, or other settings."""
        settings: dict[str, Any] = {
            "heads": self.heads,
            "needed_leaves": self.needed_leaves,
            "at_block": self.at_block,
            "every_row": self.every_row,
            "rows_second": self.rows_second,
            **changes,
        }
        return TracedAdapter(self.model, self.call_path, tail=tail, **settings)

    def capture(self, **inputs: Any) -> Capture:
        """Run the model once, and watch its final attention."""
        stored_calls = {
            ONE_POSITION: [call for call, indices in self.needed_leaves.items() if indices],
            LAST_BLOCK: range(len(self.call_path.cached_calls)),
            FULL_FORWARD: [],
        }[self.tail]
        tokens = inputs["attention_mask"].bool()
        observation = observe(
            lambda: self.forward(inputs),
            self.call_path,
            len(tokens),
            stored_calls,
            self.at_block,
            tokens if self.every_row else None,
            self.rows_second,
        )
        # whatever asked for gradients inside the model (input gradients for checkpointing), a capture has no graph
        weights, logs = (tensor.detach() for tensor in observation.attention.distributions(observation.rows))
        mask, items = attended_items(tokens, logs, self.call_path.name)
        heads = list(range(weights.shape[1])) if self.heads is None else list(self.heads)
        weights, logs = (tensor[:, heads, :, : mask.shape[1]] for tensor in (weights, logs))
        exists = observation.row_mask[:, None, :].expand(weights.shape[:3])
        check_attended(logs, exists, mask)
        state = TracedState(
            inputs=inputs,
            rows=observation.rows,
            row_mask=observation.row_mask,
            values=observation.attention.values()[:, :, : mask.shape[1]].detach(),
            context=observation.attention.layout.read(observation.attention.output).detach(),
            cached={call: self._needed_tensors(call, leaves) for call, leaves in observation.stored.items()},
            shapes={
                call: [getattr(leaf, "shape", None) for leaf in leaves] for call, leaves in observation.stored.items()
            },
            token=observation.token if items.kind == "tokens" else None,
        )
        return Capture(
            weights=torch.where(exists.unsqueeze(-1), weights, 0).flatten(1, 2),
            mask=mask,
            logits=observation.logits,
            items=items,
            groups=exists.flatten(1, 2),
            log_weights=torch.where(exists.unsqueeze(-1), logs, -torch.inf).flatten(1, 2),
            state=self.for_tail(state),
        )

    def _needed_tensors(self, call: int, leaves: Sequence[Any], *, detached: bool = True) -> list[Tensor | None]:
        """The leaves of a cached call's result that the logits depend on; None for all others."""
        needed = self.needed_leaves.get(call, ())
        return [
            None if index not in needed else leaf.detach() if detached else leaf for index, leaf in enumerate(leaves)
        ]

    def for_tail(self, state: TracedState) -> TracedState:
        """Reduce a state for the tail at full length to what this tail reads."""
        if self.tail == LAST_BLOCK:
            return state
        context = None if self.heads is None else state.context
        if self.tail == FULL_FORWARD:
            return replace(state, cached={}, shapes={}, context=context)
        cached = {}
        for call, tensors in state.cached.items():
            dims = self.call_path.cached_calls[call].dims
            cached[call] = [
                None if tensor is None else select_positions(tensor, dims[index] or (), state.rows)
                for index, tensor in enumerate(tensors)
            ]
        return replace(state, cached=cached, shapes={}, context=context)

    def rerun(self, capture: Capture, weights: Tensor) -> Tensor:
        """Run the tail on other weights, ``[B, K, G, N]``."""
        state: TracedState = capture.state
        batch, count = weights.shape[:2]
        texts = repeat_index(batch, count, weights.device)
        return self._tail(state, self._contexts(state, weights).flatten(0, 1), texts).unflatten(0, (batch, count))

    def rows_read_under_noise(self, inputs: Mapping[str, Any], *, original: bool) -> Tensor:
        """Which query rows the logits of one text read with noise as the attention's result, and with its negative.

        A rectified gate that the noise closes, its negative opens. With ``original`` the first row of the result is for
        the unchanged text.

        Returns:
            ``[2, Q]``, with ``original`` ``[3, Q]``.
        """
        count = 2 + original
        observed: list[tuple[AttentionCall, Tensor]] = []

        def disturb(attention: AttentionCall) -> Tensor:
            contexts = attention.layout.read(attention.output).clone()
            generator = torch.Generator().manual_seed(0)
            noise = torch.rand(contexts[0].shape, generator=generator, dtype=torch.float64) - 0.5
            contexts[-2] = (4 * noise).to(contexts) * contexts.abs().amax()
            contexts[-1] = -contexts[-2]
            leaf = attention.layout.write(contexts).detach().requires_grad_()
            observed.append((attention, leaf))
            return leaf.clone()

        traced = TracedRun(self.call_path, count, disturb)
        logits = traced.run(lambda: self.forward(repeat_inputs(inputs, 1, count)))
        if not logits.requires_grad:
            raise UnsupportedModelError(
                f"No logit depends on the attention in {self.call_path.name}.", code="no-attention"
            )
        attention, leaf = observed[0]
        gradients = torch.autograd.grad(mix_logits(logits), [leaf], allow_unused=True)
        return read_rows(gradients, attention, count, self.call_path.name)

    def _contexts(self, state: TracedState, weights: Tensor) -> Tensor:
        """The attention's result for the deciding rows with other weights: ``[B, K, G, N]`` to ``[B, K, H, R, D]``."""
        values = self._values(state)
        edited = weights.unflatten(2, (-1, state.rows.shape[1])).to(values.dtype)
        return torch.einsum("bkhrn,bhnd->bkhrd", edited, values)  # a broadcast product would copy the values K times

    def rerun_sets(self, capture: Capture, texts: Tensor, keep: Tensor, room: int) -> Tensor:
        """Run the tail with items erased, for any number of candidates of each text.

        With one deciding row, one matrix product sums the kept values of all heads, and the weights ``[M, G, N]`` are
        never made. Candidates whose kept weights underflow are computed from their logarithms.
        """
        state: TracedState = capture.state
        by_text = texts.argsort(stable=True)
        parts = []
        for chunk in by_text.split(room):
            present, counts = texts[chunk].unique_consecutive(return_counts=True)
            sets = keep[chunk].split(counts.tolist())
            contexts = [
                self._erased_context(capture, text, sets_of_text)
                for text, sets_of_text in zip(present.tolist(), sets, strict=True)
            ]
            parts.append(self._tail(state, torch.cat(contexts), texts[chunk]))
        logits = torch.cat(parts)
        return torch.empty_like(logits).index_copy_(0, by_text, logits)

    def _erased_context(self, capture: Capture, text: int, keep: Tensor) -> Tensor:
        """The attention's result for one text's deciding rows with items erased: ``[K, N]`` to ``[K, H, R, D]``."""
        values = self._values(capture.state)[text]  # [H, N, D]
        weights, rows = capture.weights[text], capture.state.rows.shape[1]
        logs = None if capture.log_weights is None else capture.log_weights[text]
        if rows > 1 or logs is None:
            return erase(weights, keep, logs).unflatten(1, (-1, rows)).to(values.dtype) @ values
        top = logs.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
        shares = (logs - top).exp().to(values.dtype)  # [H, N], relative to the largest
        mass = weights.double().sum(-1).to(values.dtype)
        indicator = keep.to(values.dtype)
        total = indicator @ shares.T  # [K, H]
        sums = indicator @ (shares.unsqueeze(-1) * values).transpose(0, 1).flatten(1)  # [K, H * D]
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
            every_head = select_query_rows(state.context, state.rows)[texts]
            every_head[:, list(self.heads)] = context.to(every_head.dtype)
            context = every_head
        pad = getattr(getattr(self.model, "config", None), "pad_token_id", None)
        return run_tail(
            self.forward, self.call_path, self.tail, state, context, texts, 0 if pad is None else max(pad, 0)
        )

    def logits_at(
        self, rows: tuple[Tensor, Tensor], inputs: Mapping[str, Any], vectors: Tensor | None = None
    ) -> Tensor:
        """Stop the forward pass at the attention, and run the tail on the deciding rows alone."""
        if self.tail != ONE_POSITION or self.every_row or self.heads is not None:
            return super().logits_at(rows, inputs, vectors)
        return self._from_attention(rows, inputs, vectors)

    def logits_on(self, rows: tuple[Tensor, Tensor], inputs: Mapping[str, Any], vectors: Tensor) -> Tensor:
        """As `logits_at`, once both ways were seen to have the same gradient, on the first text that this is given."""
        if self.tail != ONE_POSITION or self.every_row or self.heads is not None:
            return super().logits_on(rows, inputs, vectors)
        if self._same_gradient is None:
            self._same_gradient = self._has_same_gradient(rows, inputs, vectors)
        return self._from_attention(rows, inputs, vectors) if self._same_gradient else self.forward_on(vectors, inputs)

    def _has_same_gradient(self, rows: tuple[Tensor, Tensor], inputs: Mapping[str, Any], vectors: Tensor) -> bool:
        """Whether the tail on the deciding rows of one text has the logits, and their gradient, of the whole model."""
        text = vectors.detach().flatten(1).norm(dim=1).argmax().view(1)  # at zero vectors a gradient may not exist
        single, leaf = select_texts(inputs, len(vectors), text), vectors[text].detach().requires_grad_()
        found = []
        for run in (
            lambda: self.forward_on(leaf.clone(), single),
            lambda: self._from_attention((rows[0][text], rows[1][text]), single, leaf.clone()),
        ):
            try:
                logits = run()
                found.append((logits.detach(), torch.autograd.grad(mix_logits(logits), leaf)[0]))
            except (RuntimeError, ValueError, LookupError, TypeError, AttributeError):
                if not found:
                    raise
                return False
        (logits, gradient), (fast_logits, fast_gradient) = found
        tolerance = tolerance_of(logits)
        same = relative_difference(fast_logits, logits, scale_of(logits)) <= tolerance
        return same and relative_difference(fast_gradient, gradient, scale_of(gradient.flatten(1))) <= tolerance

    def _from_attention(self, rows: tuple[Tensor, Tensor], inputs: Mapping[str, Any], vectors: Tensor | None) -> Tensor:
        """Run the model up to the attention, and the tail on the deciding rows; with a graph where gradients are on."""
        attentions: list[AttentionCall] = []
        stored: dict[int, list[Any]] = {}

        def stop(attention: AttentionCall) -> None:
            attentions.append(attention)
            raise _StopForward

        store = {call: partial(stored.__setitem__, call) for call, indices in self.needed_leaves.items() if indices}
        ids = inputs["input_ids"]
        traced = TracedRun(self.call_path, len(ids), stop, store=store)

        def run() -> Tensor:
            return traced.run(lambda: self.forward(inputs))

        with suppress(_StopForward):
            run() if vectors is None else run_on_vectors(self.model, run, ids, vectors)
        values = attentions[0].values()
        state = TracedState(
            inputs=inputs,
            rows=rows[0],
            row_mask=rows[1],
            values=values,
            context=None,
            cached={call: self._needed_tensors(call, leaves, detached=False) for call, leaves in stored.items()},
            shapes={},
        )
        context = attentions[0].distributions(rows[0])[0].to(values.dtype) @ values
        return self._tail(self.for_tail(state), context, torch.arange(len(ids), device=ids.device))

    def attentions(self, inputs: Mapping[str, Any]) -> list[Tensor]:
        """Every attention that can be watched in a forward pass."""
        weights: list[Tensor] = []

        def on_attention(attention: AttentionCall) -> None:
            weights.append(attention.distributions(None)[0].mean(1))

        with self.watching(len(inputs["input_ids"]), on_attention):
            self.forward(inputs)
        return weights

    def watching(self, batch: int, on_attention: Callable[[AttentionCall], None]) -> AbstractContextManager[Any]:
        """A watch that recognises attention as it was recognised when the model was cut."""
        return AttentionWatch(batch, on_attention, any_distribution=self.call_path.any_distribution)

    def attended(self, capture: Capture) -> Tensor:
        """The values of the heads that were cut, ``[B, H, N, D]``."""
        return self._values(capture.state)

    def deciding_rows(self, capture: Capture) -> tuple[Tensor, Tensor]:
        """The deciding rows of the capture, and which of them exist."""
        return capture.state.rows, capture.state.row_mask

    def deciding_tokens(self, capture: Capture) -> Tensor | None:
        """The deciding row where rows are tokens; otherwise the token whose state the logits read, if there is one."""
        rows: Tensor = capture.state.rows
        token: Tensor | None = capture.state.token
        if rows.shape[1] > 1:
            return None
        return rows[:, 0] if self.rows_are_tokens else token

    def candidate_bytes(self, capture: Capture) -> int:
        """Roughly the memory of one candidate in a layer: its widest activations at each position that is run."""
        state: TracedState = capture.state
        length = state.rows.shape[1] if self.tail == ONE_POSITION else state.length
        layer = self.model if self.call_path.block is None else self.call_path.chain[self.call_path.block].module
        widest = max((max(parameter.shape) for parameter in layer.parameters() if parameter.dim() > 1), default=1)
        weights = capture.weights[0].numel() * 8 if state.rows.shape[1] > 1 else 0
        scores = 0 if self.tail == ONE_POSITION else state.values.shape[1] * length**2 * 4
        return length * widest * 8 * state.values.element_size() + weights + scores

    def describe(self) -> dict[str, str]:
        """The name of the module whose attention was cut."""
        return {"attention": self.call_path.name}
