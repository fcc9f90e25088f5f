"""Counting how often a model is run in full: the cost of an evaluation, whatever the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass
class PassCount:
    """How much was run through the whole model. A backward pass is not counted beside its forward pass.

    Attributes:
        calls: forward passes of a batch.
        rows: texts in these batches; a text that is run again, in full or with tokens hidden, counts again.
        positions: positions in these batches, padding included: what a forward pass costs, but for what grows with the
            square of the length.
        on_pass: called before each forward pass with its rows and its positions in each row.
    """

    calls: int = 0
    rows: int = 0
    positions: int = 0
    on_pass: Callable[[int, int], None] | None = field(default=None, repr=False, compare=False)


_COUNT: ContextVar[PassCount | None] = ContextVar("pass_count", default=None)


@contextmanager
def count_passes(on_pass: Callable[[int, int], None] | None = None) -> Iterator[PassCount]:
    """Count the full forward passes that attnfaith begins inside, of any model.

    Runs of the tail alone, which reads a stored capture, are not counted. Counts may be nested: an outer one includes
    the inner one when that ends.

    Args:
        on_pass: see `PassCount`; not called for passes inside an inner count.

    Example:
        >>> import attnfaith as af, torch
        >>> cut = af.cut(af.models.from_preset("FLANnoenc", num_labels=2, vocab_size=50))
        >>> with count_passes() as count:
        ...     capture = cut.capture(input_ids=torch.tensor([[5, 6, 7], [8, 9, 4]]))
        >>> count
        PassCount(calls=1, rows=2, positions=6)
    """
    outer, count = _COUNT.get(), PassCount(on_pass=on_pass)
    token = _COUNT.set(count)
    try:
        yield count
    finally:
        _COUNT.reset(token)
        if outer is not None:
            outer.calls += count.calls
            outer.rows += count.rows
            outer.positions += count.positions


@contextmanager
def no_full_pass() -> Iterator[None]:
    """Do not count inside: only the tail of the model is computed, though its outermost module is called."""
    token = _COUNT.set(None)
    try:
        yield
    finally:
        _COUNT.reset(token)


def watch_passes(undo: ExitStack, model: nn.Module) -> None:
    """Note the calls of a model in the count that is open now, until ``undo`` closes.

    A hook before the call, and not after it: a pass may be stopped at the attention.
    """
    if _COUNT.get() is not None:
        undo.callback(model.register_forward_pre_hook(_note, with_kwargs=True).remove)


def note_pass(ids: Tensor) -> None:
    """Note one forward pass of ids ``[B, L]`` that does not call the model's outermost module."""
    count = _COUNT.get()
    if count is not None:
        rows, width = ids.shape[0], ids.shape[1] if ids.dim() > 1 else 1
        if count.on_pass is not None:
            count.on_pass(rows, width)
        count.calls += 1
        count.rows += rows
        count.positions += rows * width


def _note(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    ids = next((value for value in (kwargs.get("input_ids"), *args) if isinstance(value, Tensor)), None)
    if ids is not None:
        note_pass(ids)
