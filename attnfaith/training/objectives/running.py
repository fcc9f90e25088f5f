"""Running objectives within a Trainer: holding them, changing batches, adding terms, and reporting figures."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnfaith.adapters.attention_in_training import AttentionInTraining, FinalAttention
from attnfaith.errors import InputError
from attnfaith.parameter_names import parameter
from attnfaith.text.encoder import TextEncoder
from attnfaith.training.objectives.objective import Objective, Setting, Step
from attnfaith.validation import number, short_repr

ROWS, MARKS = "attnfaith_rows", "attnfaith_marks"
"""The keys of a collated batch with the numbers of its rows, and with the marks of the objectives."""


def checked_objectives(objectives: Any) -> tuple[Objective, ...]:
    """The objectives as a tuple; refuses what is none, and two that replace the attention."""
    if isinstance(objectives, Objective):
        objectives = (objectives,)
    if not isinstance(objectives, Sequence) or isinstance(objectives, str):
        raise InputError(
            f"Expected {parameter('objectives')} to be a list of objectives, got {short_repr(objectives)}."
        )
    for objective in objectives:
        if not isinstance(objective, Objective):
            raise InputError(
                f"Expected {parameter('objectives')} to be a list of objectives, such as af.training.Diversity(0.5); "
                f"one of them is {short_repr(objective)}."
            )
        number(objective.weight, f"weight of {type(objective).__name__}", least=0)
    names = [objective.name for objective in objectives]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"The objective {twice[0]} is there twice, so its figures could not be told apart. Pass one.")
    return tuple(objectives)


def collate_extras(texts: TextEncoder, rows: Sequence[dict[str, Any]], width: int) -> dict[str, Any]:
    """What a batch carries for objectives beside the model's inputs.

    Args:
        texts: pads on the tokenizer's side.
        rows: items of a `TrainingRows`.
        width: tokens in a row of the batch.
    """
    left = texts.tokenizer.padding_side == "left"
    marks = {}
    for index in rows[0]["marks"]:
        padded = torch.zeros(len(rows), width, dtype=torch.bool)
        for row, given in zip(padded, (row["marks"][index] for row in rows), strict=True):
            row[width - len(given) if left else 0 :][: len(given)] = torch.tensor(given)
        marks[str(index)] = padded
    return {ROWS: torch.tensor([row["row"] for row in rows]), MARKS: marks}


def _deleted() -> InputError:
    return InputError(
        "One objective deletes tokens and another one marks them, which cannot be combined: hide tokens by the "
        "attention mask or the mask token instead."
    )


class RunningObjectives:
    """Objectives of one training.

    Args:
        objectives: from `checked_objectives`.
        setting: what is trained.
        marked: the numbers of the objectives that mark tokens of the texts.
    """

    def __init__(self, objectives: Sequence[Objective], setting: Setting, marked: Collection[int] = ()) -> None:
        self.objectives, self.setting, self.marked = objectives, setting, marked
        self.states: list[Any] = [None] * len(objectives)
        self.attention: AttentionInTraining | None = None

    @property
    def penalises(self) -> bool:
        """Whether any objective adds a term to the loss."""
        return any(objective.weight for objective in self.objectives)

    @property
    def replaces_loss(self) -> bool:
        """Whether the terms take the place of the model's own loss."""
        return any(objective.replaces_loss for objective in self.objectives)

    @contextmanager
    def held(self) -> Iterator[RunningObjectives]:
        """Everything that the objectives hold, until the training ends."""
        with ExitStack() as stack:
            self.states = [stack.enter_context(objective.hold(self.setting)) for objective in self.objectives]
            states = zip(self.objectives, self.states, strict=True)
            if self.marked and any(objective.deletes(state) for objective, state in states):
                raise _deleted()
            replacements = {
                objective.name: replace
                for objective, state in zip(self.objectives, self.states, strict=True)
                if (replace := objective.replacement(state)) is not None
            }
            if len(replacements) > 1:
                raise InputError(f"{' and '.join(replacements)} both replace the final attention. Use one of them.")
            if replacements or any(objective.needs_attention for objective in self.objectives):
                attention = AttentionInTraining(self.setting.model, self.setting.example)
                replace = next(iter(replacements.values()), None)
                self.attention = stack.enter_context(attention.watching(replace))
            yield self

    def steps(self, batch: dict[str, Any], *, training: bool, number_of_step: int) -> tuple[dict[str, Any], list[Step]]:
        """Take apart a collated batch, and let the objectives change it: the model's inputs, and a step for each."""
        inputs = {name: value for name, value in batch.items() if name not in (ROWS, MARKS)}
        rows, marks = batch[ROWS].tolist(), batch[MARKS]
        original, tokens = dict(inputs), inputs["attention_mask"].bool()
        key = ("training" if training else "validation", number_of_step, *rows)
        steps: list[Step] = []
        for index, (objective, state) in enumerate(zip(self.objectives, self.states, strict=True)):
            step = Step(self.setting, inputs, tokens, marks.get(str(index)), state, training, key, original)
            if training:
                inputs = dict(objective.change(step))
                if inputs["input_ids"].shape != tokens.shape:
                    tokens = inputs["attention_mask"].bool()
            steps.append(step)
        for step in steps:  # a batch that became shorter has no marks
            if step.marks is not None and step.marks.shape != tokens.shape:
                raise _deleted()
            step.inputs, step.tokens = inputs, tokens
        return inputs, steps

    def terms(self, steps: list[Step], outputs: Any) -> Tensor | float:
        """What the objectives add to the loss; call it after the forward pass."""
        found: list[FinalAttention] = []

        def find_attention() -> FinalAttention:
            if not found:
                assert self.attention is not None
                visible = steps[0].inputs["attention_mask"].bool()
                found.append(self.attention.latest(steps[0].tokens).without_hidden(visible))
            return found[0]

        total: Tensor | float = 0.0
        for objective, step in zip(self.objectives, steps, strict=True):
            step.outputs, step.find_attention = outputs, find_attention
            if objective.weight:
                values = objective.term(step)
                if values is not None:
                    defined = values[~values.detach().isnan()]
                    total = total + objective.weight * defined.sum() / max(1, len(defined))
        return total

    def figures(self, steps: list[Step]) -> dict[str, Tensor]:
        """The figures of a batch, by name."""
        result: dict[str, Tensor] = {}
        for objective, step in zip(self.objectives, steps, strict=True):
            with torch.no_grad():
                result |= objective.figures(step)
        return result


class WithObjectives:
    """Mixed into a Trainer: each batch goes through the objectives, and validation reports their figures.

    Args:
        objectives: what runs; None for plain training.
        options: the arguments of the Trainer.
    """

    if TYPE_CHECKING:
        state: Any

    def __init__(self, *, objectives: RunningObjectives | None, **options: Any) -> None:
        self.objectives = objectives
        self._figures: dict[str, list[Tensor]] = defaultdict(list)
        super().__init__(**options)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The model's loss, and what the objectives add to it."""
        compute: Any = super().compute_loss  # type: ignore[misc]
        running = self.objectives
        if running is None:
            return compute(model, inputs, return_outputs=return_outputs, num_items_in_batch=num_items_in_batch)
        inputs, steps = running.steps(inputs, training=model.training, number_of_step=self.state.global_step)
        loss, outputs = compute(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        terms = running.terms(steps, outputs)
        loss = terms if running.replaces_loss else loss + terms if running.penalises else loss
        if not model.training:
            for name, values in running.figures(steps).items():
                self._figures[name].append(values.detach().double().cpu())
        return (loss, outputs) if return_outputs else loss

    def evaluation_loop(self, *arguments: Any, **options: Any) -> Any:
        """Validate, and add the figures of the objectives to the metrics."""
        self._figures.clear()
        output = super().evaluation_loop(*arguments, **options)  # type: ignore[misc]
        prefix = options.get("metric_key_prefix", "eval")
        for name, parts in self._figures.items():
            values = torch.cat(parts)
            values = values[~values.isnan()]
            output.metrics[f"{prefix}_{name}"] = float(values.mean()) if len(values) else math.nan
        return output
