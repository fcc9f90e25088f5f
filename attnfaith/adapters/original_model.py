"""The model as its owner runs it: what a cut is compared with, and what proves that a kernel may be replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from attnfaith.adapters.adapter import Adapter
from attnfaith.adapters.attention_watch import AttentionCall, AttentionWatch
from attnfaith.adapters.dummy_inputs import config_value
from attnfaith.adapters.forward_pass import logits_of
from attnfaith.adapters.model_copy import SharedCopy, preserve_random_state
from attnfaith.adapters.self_check import (
    first_unpadded,
    one_line,
    relative_difference,
    scale_of,
    tolerance_of,
    with_longer_text,
)
from attnfaith.adapters.torch_mode import FunctionInterceptor
from attnfaith.errors import AttnFaithError, UnsupportedModelError
from attnfaith.types import Capture

WATCHABLE = ("sdpa", "eager")
"""Implementations that can be watched, in the order in which they replace one that cannot."""
KERNELS = ("transformers.integrations.flash", "transformers.integrations.flex", "transformers.integrations.hub_kernels")
"""Where Transformers keeps attention functions that are known to compute the same, and cannot be watched."""
DRAWS = frozenset(
    "rand randn randint rand_like randn_like randint_like randperm bernoulli bernoulli_ multinomial normal normal_ "
    "uniform_ exponential_ random_ cauchy_ geometric_ log_normal_ poisson".split()
)
"""Functions that draw from the global random state, unless they are given a generator."""
SHARE = 0.1  # two attentions are equal if they differ by less than this share of what a different attention changes


class OriginalRun:
    """The logits of a model, run as its owner runs it, on short texts: one alone, and padded beside a longer one.

    Nothing is switched: a model in evaluation mode is called itself, wrappers and compiled code included. If part of it
    is in training mode, a copy is called instead, wrappers included but not compiled, since the mode of the owner's
    model must not be touched. Where compiled code does not run here, the code as written does.

    Args:
        given: the model, in its wrappers.
        shared: its copy; nothing has been replaced in it.
        inputs: an example.
        known: the adapter that its owner wrote, if any; its ``forward`` says how logits are read.

    Attributes:
        trials: the batches that the model can run, each with its logits. None if the model returns no logits and only
            its adapter knows what to read.
    """

    def __init__(
        self, given: nn.Module, shared: SharedCopy, inputs: Mapping[str, Any], known: type[Adapter] | None
    ) -> None:
        self.known = None if known is None or known.forward is Adapter.forward else known
        self.trials: list[tuple[dict[str, Any], Tensor]] = []
        models = self._models(given, shared)
        single = first_unpadded(inputs)
        pad_id = padding_id(shared.owner)
        sides = [] if pad_id is None else [with_longer_text(single, pad_id, left=left) for left in (False, True)]
        for batch in [single, *sides]:
            try:
                logits = self._first(models, batch)
            except UnsupportedModelError:
                if known is None:
                    raise
                return
            except Exception as error:
                if batch is single:
                    raise UnsupportedModelError(
                        f"The model's own forward pass failed on one text of {single['input_ids'].shape[1]} tokens "
                        f"({one_line(error)}). If it needs other inputs than these, pass example= with a batch that it "
                        "can run."
                    ) from error
                continue
            if bool(logits.isfinite().all()):
                self.trials.append((batch, logits))

    def _models(self, given: nn.Module, shared: SharedCopy) -> list[nn.Module]:
        """What to run, the best first: where it fails, the next is run."""
        modules = list(given.modules())
        whole = self.known is None and not _waits_for_others(modules)
        compiled = any(_is_compiled(module) for module in modules)
        if any(module.training for module in shared.owner.modules()):
            wrapped = SharedCopy(given) if whole and not compiled and given is not shared.owner else shared
            return [shared.root] if wrapped.root is wrapped.owner else list(dict.fromkeys((wrapped.root, shared.root)))
        return [given if whole else shared.owner, *([shared.root] if compiled else [])]

    def logits(self, model: nn.Module, batch: Mapping[str, Any]) -> Tensor:
        """The logits of another copy of the model."""
        with torch.no_grad():
            output = logits_of(model(**batch)) if self.known is None else self.known(model).forward(batch)
        return output.detach().clone()

    def _first(self, models: list[nn.Module], batch: Mapping[str, Any]) -> Tensor:
        for model in models[:-1]:
            try:
                return self.logits(model, batch)
            except Exception:
                models.remove(model)
        return self.logits(models[-1], batch)

    def difference(self, model: nn.Module) -> str:
        """How a copy differs from the owner's model; "" if it computes the same.

        The same to the last bit needs no more proof. Other differences must be within the tolerance, and small beside
        what another attention would change: in a freshly initialised model, attention moves logits by 5e-5 of their
        scale, so a tolerance relative to the logits alone would accept any attention.
        """
        for batch, expected in self.trials:
            try:
                logits = self.logits(model, batch)
            except Exception as error:
                return one_line(error)
            if logits.shape != expected.shape:
                return f"its logits have the shape {tuple(logits.shape)}, not {tuple(expected.shape)}"
            off = relative_difference(logits, expected, scale_of(expected))
            if off > tolerance_of(expected):
                return f"its logits are off by {off:.1e} of their scale"
            if off:
                effect = relative_difference(self._sharpened(model, batch), logits, scale_of(expected))
                if 0 < effect < off / SHARE:
                    return f"its logits are off by {off:.1e} of their scale, where another attention moves {effect:.1e}"
        return ""

    def _sharpened(self, model: nn.Module, batch: Mapping[str, Any]) -> Tensor:
        """The logits with every attention at half its temperature: an attention that is another one."""

        def sharper(product: AttentionCall) -> Tensor:
            weights = product.distributions(None)[0].double().square()
            weights = (weights / weights.sum(-1, keepdim=True)).nan_to_num(0.0)
            values = product.values()
            return product.layout.write(weights.to(values.dtype) @ values)

        try:
            with AttentionWatch(len(batch["input_ids"]), sharper):
                return self.logits(model, batch)
        except Exception as error:
            raise UnsupportedModelError(
                f"Whether the model is run as its owner runs it cannot be proved: another attention in its place fails "
                f"({one_line(error)})."
            ) from error

    def prove_capture(self, capture: Callable[..., Capture]) -> None:
        """A cut's captures have the logits of the owner's model."""
        for place, (batch, expected) in enumerate(self.trials):
            try:
                logits = capture(**batch).logits
            except AttnFaithError:  # decided at the padding of this side; the self-check has proved one side
                if not place:
                    raise
                continue
            off = (
                relative_difference(logits, expected, scale_of(expected))
                if logits.shape == expected.shape
                else float("inf")
            )
            if off > tolerance_of(expected):
                raise UnsupportedModelError(
                    "This model cannot be cut faithfully: its captured logits differ from those that it returns itself "
                    f"by {off:.1e} of their scale."
                )


class _Surroundings(FunctionInterceptor):
    """Notes what else a forward pass uses: the owner's parameters or dropout, and the global random state.

    That state is restored from the first draw on, when ``undo`` closes.
    """

    def __init__(self, parameters: set[int], undo: ExitStack) -> None:
        super().__init__()
        self.parameters, self.undo = parameters, undo
        self.leaks = self.draws = False

    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run it."""
        trains = name.endswith("dropout") and (kwargs.get("training", len(args) > 2 and args[2]) is True)
        if name != "__get__":  # looking at an attribute of a parameter is no use of it
            self.leaks |= trains or any(id(leaf) in self.parameters for leaf in pytree.tree_leaves((args, kwargs)))
        if (trains or name in DRAWS) and kwargs.get("generator") is None and not self.draws:
            self.draws = True
            self.undo.enter_context(preserve_random_state())
        return func(*args, **kwargs)


def look_around(shared: SharedCopy, inputs: Mapping[str, Any]) -> None:
    """Run the copy once on one text; lend the owner's model if the copy reaches into it, and note whether it draws."""
    with ExitStack() as undo, _Surroundings(shared.aliased(), undo) as seen, torch.no_grad(), suppress(Exception):
        shared.root(**first_unpadded(inputs))  # an error is raised again, with its reason, by `OriginalRun`
    shared.draws |= seen.draws
    if seen.leaks:
        shared.lend()


def prove_run(run: OriginalRun, shared: SharedCopy) -> None:
    """Prove that the copy computes what the owner's model does, with an attention that can be watched.

    An attention implementation is replaced only if it is one of Transformers' kernels that are known to compute the
    same and cannot be watched, and the replacement is proved on this very model. Every other one stays as it is,
    the owner's own functions too.
    """
    hidden = sorted(name for name in shared.implementations() if hides_weights(name))
    if not hidden:
        reason = run.difference(shared.root)
        if reason:
            raise UnsupportedModelError(
                f"This model cannot be cut faithfully: run once more on the same text, {reason}. A model that draws "
                "random numbers in evaluation mode, or that runs in a wrapper which computes something else, has no "
                "logits that could be compared."
            )
        return
    before, reasons = (shared.hidden, shared.attention), []
    for name in WATCHABLE:
        shared.replace_attention(hidden, name)
        reasons.append(run.difference(shared.root))
        if not reasons[-1]:
            return
    shared.replace_attention(*before)
    tried = "; ".join(f"{name}: {reason}" for name, reason in zip(WATCHABLE, reasons, strict=True))
    raise UnsupportedModelError(
        f"The attention implementation {', '.join(hidden)} hides its weights, and none that shows them is proved equal "
        f"to it on this model ({tried}). Load the model with attn_implementation='eager'."
    )


def hides_weights(name: str) -> bool:
    """Whether an attention implementation is a kernel of Transformers that shows no weights; not a user's function."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    function = dict(ALL_ATTENTION_FUNCTIONS.items()).get(name)
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__module__", "")).startswith(KERNELS)


def padding_id(model: nn.Module) -> int | None:
    """The id that pads; 0 for a model without a configuration, None for a model that says it cannot be padded."""
    config = getattr(model, "config", None)
    pad_id = 0 if config is None else config_value(config, "pad_token_id", "pad_index")
    return None if pad_id is None or pad_id < 0 else int(pad_id)


def _is_compiled(module: nn.Module) -> bool:
    return module._compiled_call_impl is not None or type(module).__name__ == "OptimizedModule"


def _waits_for_others(modules: list[nn.Module]) -> bool:
    """In its forward pass a distributed wrapper waits for other processes, which do not run attnfaith."""
    distributed = any(type(module).__name__ == "DistributedDataParallel" for module in modules)
    return distributed and torch.distributed.get_world_size() > 1
