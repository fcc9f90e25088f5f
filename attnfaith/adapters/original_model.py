"""The model as its owner runs it: the reference for the copy, for a replaced attention kernel, and for a cut."""

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
"""Attention implementations that can be watched, in the order in which they are tried as replacements."""
KERNELS = ("transformers.integrations.flash", "transformers.integrations.flex", "transformers.integrations.hub_kernels")
"""Modules of Transformers with attention kernels that compute ordinary attention, and cannot be watched."""
DRAWS = frozenset(
    "rand randn randint rand_like randn_like randint_like randperm bernoulli bernoulli_ multinomial normal normal_ "
    "uniform_ exponential_ random_ cauchy_ geometric_ log_normal_ poisson".split()
)
"""Functions that draw from the global random state, unless they are given a generator."""
SHARE = 0.1  # two attentions are equal if logits differ by less than this share of the effect of another attention


class OriginalRun:
    """The logits of a model, run as its owner runs it, on short texts: one alone, and one padded beside a longer text.

    Nothing of the owner's model is changed. If it is in evaluation mode it is called itself, with wrappers and compiled
    code. If part of it is in training mode a copy is called instead, with wrappers but not compiled, because switching
    the mode would change the owner's model. Where compiled code cannot run here, the original code is run.

    Args:
        wrapped: the model, in its wrappers.
        shared: its copy, in which nothing has been replaced yet.
        inputs: an example.
        registered: the adapter class registered for the model, if any; its ``forward`` defines how logits are read.

    Attributes:
        trials: the batches that the model can run, each with its logits. Empty if the model returns no logits and has
            a registered adapter.
    """

    def __init__(
        self, wrapped: nn.Module, shared: SharedCopy, inputs: Mapping[str, Any], registered: type[Adapter] | None
    ) -> None:
        overrides_forward = registered is not None and registered.forward is not Adapter.forward
        self.reader = registered if overrides_forward else None
        self.trials: list[tuple[dict[str, Any], Tensor]] = []
        models = self._models(wrapped, shared)
        single = first_unpadded(inputs)
        pad_id = padding_id(shared.owner)
        padded = [] if pad_id is None else [with_longer_text(single, pad_id, left=left) for left in (False, True)]
        for batch in [single, *padded]:
            try:
                logits = self._first_that_runs(models, batch)
            except UnsupportedModelError:
                if registered is None:
                    raise
                return
            except Exception as error:
                if batch is single:
                    raise UnsupportedModelError(
                        f"The model's own forward pass failed on one text of {single['input_ids'].shape[1]} tokens "
                        f"({one_line(error)}). If it needs other inputs than these, pass example= with a batch that it "
                        "can run.",
                        code="failed-forward-pass",
                    ) from error
                continue
            if bool(logits.isfinite().all()):
                self.trials.append((batch, logits))

    def _models(self, wrapped: nn.Module, shared: SharedCopy) -> list[nn.Module]:
        """The models to run, in order of preference: the next one is run where one fails."""
        modules = list(wrapped.modules())
        with_wrappers = self.reader is None and not _waits_for_others(modules)
        compiled = any(_is_compiled(module) for module in modules)
        if any(module.training for module in shared.owner.modules()):
            copy_wrappers = with_wrappers and not compiled and wrapped is not shared.owner
            copied = SharedCopy(wrapped) if copy_wrappers else shared
            return [shared.root] if copied.root is copied.owner else list(dict.fromkeys((copied.root, shared.root)))
        return [wrapped if with_wrappers else shared.owner, *([shared.root] if compiled else [])]

    def logits(self, model: nn.Module, batch: Mapping[str, Any]) -> Tensor:
        """The logits of the model or of a copy of it."""
        with torch.no_grad():
            output = logits_of(model(**batch)) if self.reader is None else self.reader(model).forward(batch)
        return output.detach().clone()

    def _first_that_runs(self, models: list[nn.Module], batch: Mapping[str, Any]) -> Tensor:
        for model in models[:-1]:
            try:
                return self.logits(model, batch)
            except Exception:
                models.remove(model)
        return self.logits(models[-1], batch)

    def difference(self, model: nn.Module) -> str:
        """How the logits of a copy differ from the owner's model; "" if they are the same.

        Logits that are equal to the last bit need no more proof. Other differences must be within the tolerance, and
        also small relative to the effect of another attention: in a freshly initialised model attention moves logits by
        5e-5 of their scale, so a tolerance relative to the logits alone would accept any attention.
        """
        for batch, expected in self.trials:
            try:
                logits = self.logits(model, batch)
            except Exception as error:
                return one_line(error)
            if logits.shape != expected.shape:
                return f"its logits have the shape {tuple(logits.shape)}, not {tuple(expected.shape)}"
            difference = relative_difference(logits, expected, scale_of(expected))
            if difference > tolerance_of(expected):
                return f"its logits are off by {difference:.1e} of their scale"
            if difference:
                effect = relative_difference(self._with_sharper_attention(model, batch), logits, scale_of(expected))
                if 0 < effect < difference / SHARE:
                    return (
                        f"its logits are off by {difference:.1e} of their scale, and another attention moves them by "
                        f"{effect:.1e} only"
                    )
        return ""

    def _with_sharper_attention(self, model: nn.Module, batch: Mapping[str, Any]) -> Tensor:
        """The logits with every attention at half its temperature: an attention that is clearly another one."""

        def sharper(attention: AttentionCall) -> Tensor:
            weights = attention.distributions(None)[0].double().square()
            weights = (weights / weights.sum(-1, keepdim=True)).nan_to_num(0.0)
            values = attention.values()
            return attention.layout.write(weights.to(values.dtype) @ values)

        try:
            with AttentionWatch(len(batch["input_ids"]), sharper):
                return self.logits(model, batch)
        except Exception as error:
            raise UnsupportedModelError(
                "attnfaith cannot check that it runs this model as you do: the check replaces the attention by another "
                f"one, and the forward pass then fails ({one_line(error)}).",
                code="not-reproduced",
            ) from error

    def prove_capture(self, capture: Callable[..., Capture]) -> None:
        """Refuse the model if captures of the cut have other logits than the owner's model."""
        for index, (batch, expected) in enumerate(self.trials):
            try:
                logits = capture(**batch).logits
            except AttnFaithError:  # decided at the padding of this side; the self-check has proved the other side
                if not index:
                    raise
                continue
            same_shape = logits.shape == expected.shape
            difference = relative_difference(logits, expected, scale_of(expected)) if same_shape else float("inf")
            if difference > tolerance_of(expected):
                raise UnsupportedModelError(
                    "This model cannot be cut faithfully: its captured logits differ from those that it returns itself "
                    f"by {difference:.1e} of their scale.",
                    code="not-reproduced",
                )


class _SideEffects(FunctionInterceptor):
    """Notes what a forward pass of the copy uses beside the copy: the owner's parameters or dropout, random numbers.

    The global random state is restored when ``undo`` closes, if anything was drawn from it.
    """

    def __init__(self, parameters: set[int], undo: ExitStack) -> None:
        super().__init__()
        self.parameters, self.undo = parameters, undo
        self.leaks = self.draws = False

    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run a torch function, and note what it uses."""
        trains = name.endswith("dropout") and (kwargs.get("training", len(args) > 2 and args[2]) is True)
        if name != "__get__":  # reading an attribute of a parameter (its dtype, say) does not use its values
            self.leaks |= trains or any(id(leaf) in self.parameters for leaf in pytree.tree_leaves((args, kwargs)))
        if (trains or name in DRAWS) and kwargs.get("generator") is None and not self.draws:
            self.draws = True
            self.undo.enter_context(preserve_random_state())
        return func(*args, **kwargs)


def inspect_copy(shared: SharedCopy, inputs: Mapping[str, Any]) -> None:
    """Run the copy once: note whether it draws random numbers, and lend the owner's model if the copy uses it."""
    with ExitStack() as undo, _SideEffects(shared.aliased(), undo) as effects, torch.no_grad(), suppress(Exception):
        shared.root(**first_unpadded(inputs))  # an error is raised again, with its reason, by `OriginalRun`
    shared.draws |= effects.draws
    if effects.leaks:
        shared.lend()


def prove_copy(run: OriginalRun, shared: SharedCopy) -> None:
    """Prove that the copy computes what the owner's model computes, with an attention that can be watched.

    An attention implementation is replaced only if it is a kernel of Transformers that computes ordinary attention and
    cannot be watched, and only if the replacement is proved equal on this very model. All others stay, also functions
    of the owner.
    """
    hidden = sorted(name for name in shared.implementations() if hides_weights(name))
    if not hidden:
        reason = run.difference(shared.root)
        if reason:
            raise UnsupportedModelError(
                f"This model cannot be cut faithfully: run again on the same text, {reason}. The logits of a model "
                "that draws random numbers in evaluation mode, or that runs in a wrapper which computes something "
                "else, cannot be compared.",
                code="not-reproduced",
            )
        return
    before, reasons = (shared.hidden, shared.attention), []
    for name in WATCHABLE:
        shared.replace_attention(hidden, name)
        reasons.append(run.difference(shared.root))
        if not reasons[-1]:
            return
    shared.replace_attention(*before)
    attempts = "; ".join(f"{name}: {reason}" for name, reason in zip(WATCHABLE, reasons, strict=True))
    raise UnsupportedModelError(
        f"The attention implementation {', '.join(hidden)} does not return its weights, and no implementation that "
        f"does is proved equal to it on this model ({attempts}). Load the model with attn_implementation='eager'.",
        code="hidden-weights",
    )


def hides_weights(name: str) -> bool:
    """Whether an attention implementation is a kernel of Transformers whose weights cannot be watched."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    function = dict(ALL_ATTENTION_FUNCTIONS.items()).get(name)
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__module__", "")).startswith(KERNELS)


def padding_id(model: nn.Module) -> int | None:
    """The id of padding; 0 for a model without a configuration, None for a configuration without padding."""
    config = getattr(model, "config", None)
    pad_id = 0 if config is None else config_value(config, "pad_token_id", "pad_index")
    return None if pad_id is None or pad_id < 0 else int(pad_id)


def _is_compiled(module: nn.Module) -> bool:
    return module._compiled_call_impl is not None or type(module).__name__ == "OptimizedModule"


def _waits_for_others(modules: list[nn.Module]) -> bool:
    """Whether a forward pass would hang: distributed wrappers wait for other processes, which do not run attnfaith."""
    distributed = any(type(module).__name__ == "DistributedDataParallel" for module in modules)
    return distributed and torch.distributed.get_world_size() > 1
