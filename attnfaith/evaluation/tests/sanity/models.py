"""Re-initialise the layers of a model from the top, for any model type."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from attnfaith.adapters.cut import Cut
from attnfaith.adapters.forward_pass import logits_of
from attnfaith.adapters.inference_state import inference_state
from attnfaith.adapters.positions import select_texts
from attnfaith.adapters.self_check import one_line, relative_difference, scale_of, tolerance_of
from attnfaith.adapters.torch_mode import FunctionInterceptor
from attnfaith.errors import AttnFaithError, InputError, NumericalError, UnsupportedModelError
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.rankings import Ranking
from attnfaith.functional.reinitialize import evenly_spaced, reinitialize
from attnfaith.randomness import keyed_generator

_STACKS = (nn.ModuleList, nn.Sequential)


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters of a model that are re-initialised together.

    Attributes:
        name: of the module that they are in.
        parameters: their names.
    """

    name: str
    parameters: tuple[str, ...]


def layers_of(model: nn.Module, inputs: Mapping[str, Any]) -> list[ParameterGroup]:
    """The layers of a model from top to bottom, the reverse of the order in which a forward pass uses them.

    Each module in a stack of blocks (an entry of the outermost `nn.ModuleList` or `nn.Sequential` whose entries have
    modules of their own) is a layer, and so is each module beside the stacks: a classifier, a pooler, the embeddings. A
    parameter that several layers share belongs to the one that the model names first, and a layer's place is that of
    the first use of its parameters. Parameters that the pass does not use belong to the lowest layer.

    Args:
        model: not changed, and not hooked.
        inputs: of the pass.

    Example:
        >>> import torch
        >>> from attnfaith.tiny_models import tiny_model
        >>> inputs = {"input_ids": torch.tensor([[5, 6, 7]])}
        >>> [layer.name for layer in layers_of(tiny_model("bert"), inputs)]
        ['classifier', 'bert.pooler', 'bert.encoder.layer.1', 'bert.encoder.layer.0', 'bert.embeddings']
    """
    result: dict[str, list[str]] = {name: [] for name in _names(model)}
    for parameter in dict(model.named_parameters()):
        owner = next(name for name in _ancestors(parameter) if name in result)
        result[owner].append(parameter)
    order = _used(model, inputs)
    index = {
        name: min((order[item] for item in members if item in order), default=-1)
        for name, members in result.items()
        if members
    }
    used = sorted((name for name in index if index[name] >= 0), key=lambda name: -index[name])
    if not used:
        raise UnsupportedModelError(
            "No parameter of this model is seen in use in its forward pass, so there is nothing to re-initialise. "
            "Leave out the test 'sanity'.",
            code="unsupported-ranking",
        )
    unused = [parameter for name in index if index[name] < 0 for parameter in result[name]]
    layers = [ParameterGroup(name, tuple(result[name])) for name in used]
    return [*layers[:-1], ParameterGroup(layers[-1].name, (*layers[-1].parameters, *unused))]


class _Uses(FunctionInterceptor):
    """Records parameters in the order of their first use."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.order: dict[str, int] = {}

    def handle(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run the function; reading an attribute of a parameter does not count as a use."""
        if name != "__get__":
            for leaf in pytree.tree_leaves((args, kwargs)):
                if id(leaf) in self.names:
                    self.order.setdefault(self.names[id(leaf)], len(self.order))
        return func(*args, **kwargs)


def _used(model: nn.Module, inputs: Mapping[str, Any]) -> dict[str, int]:
    with inference_state(model, gradients=False) as lent, _Uses(lent) as uses:
        lent(**inputs)
    return uses.order


def _names(module: nn.Module, prefix: str = "") -> Iterator[str]:
    """The names of layers: the blocks of stacks, and the modules beside them."""
    for name, _ in module.named_parameters(recurse=False):
        yield prefix + name
    for name, child in module.named_children():
        if _has_parameters(child):
            # A block of the outermost stack is one layer, also if it has stacks inside (ModuleLists of experts, say). A
            # stack directly inside a stack is not a block: its own blocks are the layers.
            block = _is_stack(module) and not _is_stack(child)
            if block or not any(_is_stack(item) for item in child.modules()):
                yield prefix + name
            else:
                yield from _names(child, f"{prefix}{name}.")


def _is_stack(module: nn.Module) -> bool:
    """Whether it is a list of blocks: a `ModuleList` or `Sequential` with an entry that has weights in submodules."""
    return isinstance(module, _STACKS) and any(map(_has_parameters, (item for it in module for item in it.children())))


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _ancestors(name: str) -> Iterator[str]:
    """The names of a parameter and of the modules around it, from the inside out."""
    while name:
        yield name
        name = name.rpartition(".")[0]


@dataclass(frozen=True)
class ComparedModel:
    """A re-initialised or retrained model whose scores are compared with those of the original.

    Attributes:
        layer: the lowest layer that was re-initialised; of a retrained model, its name.
        depth: how many layers were re-initialised, from the top; 0 for a retrained model.
        cut: this model, cut at the same attention as the original.
        problem: why it gives no scores; empty if it does.
    """

    layer: str
    depth: int
    cut: Cut = field(repr=False)
    problem: str = ""


def randomised(
    cut: Cut,
    inputs: Mapping[str, Any],
    *,
    seed: int,
    how: str = "permuted",
    depths: int | None = None,
    draws: int = 1,
) -> list[list[ComparedModel]]:
    """Models with the top layer, the top two layers, ... and all layers re-initialised, each several times.

    In one series of draws a layer has the same draw at every depth. The copies of a series share tensors, with each
    other and with the original, so a series adds the memory of one model.

    Args:
        cut: the model, cut.
        inputs: to try the copies on.
        seed: of the draws; each depends on it, the number of the series, and the parameter's name.
        how: one of `attnfaith.functional.reinitialize.WAYS`.
        depths: how many depths, evenly spaced; None for all.
        draws: how many series.

    Returns:
        For each depth, one copy of each series.
    """
    layers, parameters = layers_of(cut.model, inputs), dict(cut.model.named_parameters())
    integers = [name for name, value in parameters.items() if not value.is_floating_point()]
    if integers:
        raise UnsupportedModelError(
            f"The parameter {integers[0]!r} has the dtype {parameters[integers[0]].dtype} and cannot be "
            "re-initialised. Load the model without quantisation, or leave out the test 'sanity'.",
            code="unsupported-ranking",
        )
    padding = _padding(cut.model)
    result: dict[int, list[ComparedModel]] = {depth: [] for depth in evenly_spaced(len(layers), depths)}
    for draw in range(draws):
        drawn: dict[str, Tensor] = {}
        for depth, layer in enumerate(layers, start=1):
            for name in layer.parameters:
                generator = keyed_generator(seed, "sanity", draw, name)
                drawn[name] = _drawn(parameters[name], padding.get(id(parameters[name])), generator, how)
            if depth in result:
                result[depth].append(_tried(layer.name, depth, with_weights(cut, drawn), inputs))
    return list(result.values())


def retrained(cut: Cut, inputs: Mapping[str, Any], model: nn.Module, name: str) -> ComparedModel:
    """Another model of the same architecture, cut at the same layer; others are refused.

    Args:
        cut: this one.
        inputs: to try the other on.
        model: the other, moved to this one's device and precision.
        name: what is different about it.
    """
    parameters, other = dict(cut.model.named_parameters()), dict(model.named_parameters())
    apart = [item for item in dict.fromkeys((*parameters, *other)) if _shape(parameters, item) != _shape(other, item)]
    what = f"their parameters {apart[0]!r} have other shapes, or one has none" if apart else ""
    if not apart:
        result = with_weights(cut, {item: value.to(parameters[item]) for item, value in other.items()})
        model = model.to(next(iter(parameters.values())))
        with inference_state(model, gradients=False) as lent, inference_state(result.model, gradients=False):
            expected, logits = logits_of(lent(**inputs)), result.adapter.forward(inputs)
        if expected.shape == logits.shape and relative_difference(logits, expected, scale_of(expected)) <= tolerance_of(
            expected
        ):
            return _tried(name, 0, result, inputs)
        what = "with the same weights they have other logits, so their configurations differ"
    raise InputError(
        f"The model for {name} has another architecture than the model that is evaluated: {what}. Train one with the "
        "same configuration."
    )


def with_weights(cut: Cut, weights: Mapping[str, Tensor]) -> Cut:
    """A cut model with some parameters replaced by name; all others are shared with the original.

    The self-check is not repeated: which code runs, and what the tail reads, does not depend on the weights.
    """
    memo: dict[int, Any] = {id(buffer): buffer for buffer in cut.adapter.model.buffers()}
    for name, parameter in cut.adapter.model.named_parameters():
        # a new Parameter: the original's own would change with the original
        memo[id(parameter)] = nn.Parameter(weights.get(name, parameter).detach(), requires_grad=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the pytrees of what a module returned warn when they are copied
            return copy.deepcopy(cut, memo)
    except (TypeError, RuntimeError, ValueError, AttributeError, copy.Error) as error:
        raise UnsupportedModelError(
            f"{type(cut.model).__name__} cannot be copied ({one_line(error)}), so its layers cannot be re-initialised. "
            "Leave out the test 'sanity'.",
            code="unsupported-ranking",
        ) from error


def _padding(model: nn.Module) -> dict[int, int]:
    """The padding row of each embedding table that has one, by the id of the table."""
    tables = (module for module in model.modules() if isinstance(module, nn.Embedding))
    return {id(table.weight): table.padding_idx for table in tables if table.padding_idx is not None}


def _drawn(parameter: Tensor, padding: int | None, generator: torch.Generator, how: str) -> Tensor:
    """A re-initialised parameter; the padding vector is kept, since some models rely on its being zero."""
    if padding is None:
        return reinitialize(parameter, generator, how)
    rows = torch.arange(len(parameter), device=parameter.device) != padding
    drawn = parameter.detach().clone()
    drawn[rows] = reinitialize(parameter[rows], generator, how)
    return drawn


def _tried(layer: str, depth: int, cut: Cut, inputs: Mapping[str, Any]) -> ComparedModel:
    """Check that the cut reproduces the logits of the model; else it is excluded with the reason."""
    try:
        capture = cut.capture(**inputs)
        logits = cut.rerun(capture, weights=capture.weights.unsqueeze(1))[:, 0]
    except NumericalError:
        return ComparedModel(layer, depth, cut, "its logits are not finite")
    except AttnFaithError as error:
        return ComparedModel(layer, depth, cut, one_line(error))
    off = relative_difference(logits, capture.logits, scale_of(capture.logits))
    wrong = off > tolerance_of(capture.logits)
    return ComparedModel(layer, depth, cut, f"its tail is off by {off:.0e} of the logits' scale" if wrong else "")


def _shape(parameters: Mapping[str, nn.Parameter], name: str) -> Sequence[int] | None:
    return parameters[name].shape if name in parameters else None


class OtherModelBatch(Batch):
    """Texts of a batch in another model; the explained class is that of the original model.

    Random rankings draw anew: with the same draw they would agree with themselves, whatever the model.

    Args:
        batch: the texts, through the original model.
        other: the model.
        texts: places in the batch.
    """

    def __init__(self, batch: Batch, other: ComparedModel, texts: Sequence[int]) -> None:
        settings = batch.config.settings
        again = keyed_generator(settings.seed, "sanity", other.layer, other.depth).initial_seed()
        config = replace(batch.config, cut=other.cut, settings=replace(settings, seed=again), hiding=None, cache={})
        self._texts = torch.tensor(texts, device=batch.capture.mask.device)
        self._original = batch
        inputs = select_texts(batch.inputs, len(batch.rows), self._texts)
        super().__init__(config, [batch.rows[text] for text in texts], [batch.encoded[text] for text in texts], inputs)

    @cached_property
    def target(self) -> Tensor:
        """The class that the original model explains."""
        return self._original.target[self._texts]


@dataclass(frozen=True)
class Answer:
    """The scores of a ranking for the texts of a batch.

    Attributes:
        values: ``[B, N]``, NaN where there are none.
        reasons: for each text why there are none; empty where there are.
    """

    values: Tensor
    reasons: list[str]


def score_with_models(batch: Batch, others: Sequence[ComparedModel], rankings: Sequence[Ranking]) -> list[Answer]:
    """The scores of each ranking for a batch in other models.

    Args:
        batch: the texts, through the original model.
        others: the models; each text is asked of one of them, see `assigned_model`.
        rankings: registered ones; those that a user brings ask no model.
    """
    before = [batch.scores(ranking, ranking.level) for ranking in rankings]
    result = [Answer(torch.empty_like(item, dtype=torch.float64), [""] * len(item)) for item in before]
    for turn, other in enumerate(others):
        texts = [index for index, row in enumerate(batch.rows) if assigned_model(row.number, len(others)) == turn]
        asked = _scores_of_part(batch, other, rankings, [item.shape[1] for item in before], texts) if texts else ()
        for answer, part in zip(result, asked, strict=False):
            answer.values[texts] = part.values
            for text, reason in zip(texts, part.reasons, strict=True):
                answer.reasons[text] = reason
    return result


def assigned_model(number: int, count: int) -> int:
    """The index of the model for a text: random, but a function of the text's row number alone.

    Args:
        number: the row number of the text in the data.
        count: the number of models.

    Example:
        >>> [assigned_model(number, 3) for number in range(8)]
        [0, 1, 0, 1, 2, 1, 2, 2]
    """
    return keyed_generator("turn", number).initial_seed() % count


def _scores_of_part(
    batch: Batch, other: ComparedModel, rankings: Sequence[Ranking], widths: Sequence[int], texts: Sequence[int]
) -> list[Answer]:
    """Score a batch; it is split if some text has no finite numbers, so that the others keep theirs."""
    if other.problem:
        return [Answer(_nothing(batch, len(texts), width), [other.problem] * len(texts)) for width in widths]
    try:
        twin = OtherModelBatch(batch, other, texts)
        return [_scored(twin, ranking, width) for ranking, width in zip(rankings, widths, strict=True)]
    except NumericalError:
        if len(texts) == 1:
            why = ["its numbers in the other model are not finite"]
            return [Answer(_nothing(batch, 1, width), why) for width in widths]
    halves = [_scores_of_part(batch, other, rankings, widths, part) for part in _halves(texts)]
    return [
        Answer(torch.cat([first.values, second.values]), [*first.reasons, *second.reasons])
        for first, second in zip(*halves, strict=True)
    ]


def _scored(twin: OtherModelBatch, ranking: Ranking, width: int) -> Answer:
    count = len(twin.rows)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # inexactness warnings about a random model are noise
            values = twin.scores(ranking, ranking.level).double()
    except UnsupportedModelError as error:
        return Answer(_nothing(twin, count, width), [error.message.split(". ")[0]] * count)
    padding = width - values.shape[1]  # the longest of these texts may be shorter than the longest of the batch
    return Answer(F.pad(values, (0, padding)), [""] * count)


def _halves(texts: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    return texts[: len(texts) // 2], texts[len(texts) // 2 :]


def _nothing(batch: Batch, count: int, width: int) -> Tensor:
    return torch.full((count, width), torch.nan, dtype=torch.float64, device=batch.logits.device)
