"""Training a model like the one that is diagnosed: the same architecture, fresh weights, the same settings."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from attnfaith.attribution.model_loading import load_body
from attnfaith.diagnostics.texts import Texts
from attnfaith.errors import InputError, UnsupportedModelError
from attnfaith.models.configuration import AttentionClassifierConfig
from attnfaith.parameter_names import parameter
from attnfaith.randomness import keyed_generator
from attnfaith.training.fitting import History, fit
from attnfaith.training.identity import read_training
from attnfaith.training.recipes import FINE_TUNING, recipe
from attnfaith.validation import number, one_of, short_repr, whole_number

RATES = {"own": 1e-3, "scratch": 3e-4}
"""Learning rates where none is given: of attnfaith's own models, and of a Transformer from random weights."""
_NOT_SETTINGS = (
    "model", "tokenizer", "train", "validation", "text_column", "label_column", "second_text_column", "objectives",
    "max_length", "seed", "checkpoint_dir", "quiet",
)  # fmt: skip
SMALL_EPOCHS = 3
"""The most epochs in a small diagnosis."""


@dataclass(frozen=True, eq=False)
class Retraining:
    """How a model like the diagnosed one is trained.

    Attributes:
        base: the diagnosed model; it is not changed.
        tokenizer: of the base.
        start: the checkpoint whose weights a training begins with; None for weights drawn at random.
        settings: arguments of `attnfaith.training.fit`.
        vectors: pretrained word vectors that fresh weights begin with, by word; None for none.
        max_length: longer texts are truncated.
        texts: how many there are to train on; a recipe has more epochs where they are few.
    """

    base: nn.Module
    tokenizer: Any
    start: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    vectors: Any = None
    max_length: int | None = None
    texts: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.base, PreTrainedModel):
            raise UnsupportedModelError(
                f"{type(self.base).__name__} cannot be trained again from its configuration: it is no model of "
                "Transformers. Diagnose a Transformers classifier, or one of attnfaith.models."
            )
        if self.vectors is not None and not self.own:
            raise InputError(
                f"{parameter('vectors')} are for the models of attnfaith; a Transformer begins with the weights of "
                f"{parameter('start')}."
            )
        _check_settings(self.settings)

    @property
    def own(self) -> bool:
        """Whether the model is one of `attnfaith.models`."""
        return isinstance(self.base.config, AttentionClassifierConfig)

    @property
    def origin(self) -> str:
        """What a training begins with, in words."""
        if self.start is not None:
            return f"the weights of {self.start!r}"
        return "random weights" if self.vectors is None else "random weights and pretrained word vectors"

    @property
    def arguments(self) -> dict[str, Any]:
        """The settings, and the learning rate that is used where they have none."""
        kind = "own" if self.own else "scratch" if self.start is None else "pretrained"
        missing = recipe(FINE_TUNING, texts=self.texts) if kind == "pretrained" else {"learning_rate": RATES[kind]}
        return {**missing, **self.settings}

    def fresh(self, seed: int) -> PreTrainedModel:
        """A new model with the weights that a training with this seed begins with."""
        base: Any = self.base
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(int(torch.randint(2**62, (1,), generator=keyed_generator(seed, "fresh weights"))))
            if self.start is None:
                model: Any = type(base)(copy.deepcopy(base.config))
                if self.vectors is not None:
                    model.set_word_vectors(self.tokenizer, self.vectors)
            else:
                model = self._from_checkpoint(base)
        return model.to(base.device).float()

    def _from_checkpoint(self, base: Any) -> Any:
        options = {name: getattr(base.config, name) for name in ("num_labels", "id2label", "label2id", "problem_type")}
        model, _, _ = load_body(self.start, self.tokenizer, ignore_mismatched_sizes=True, **options)
        shapes, expected = ({name: part.shape for name, part in of.named_parameters()} for of in (model, base))
        if shapes != expected:
            name = next(name for name in (*expected, *shapes) if shapes.get(name) != expected.get(name))
            raise InputError(
                f"The checkpoint {short_repr(self.start)} is of another architecture than the diagnosed model: {name} "
                f"is {_shape(shapes.get(name))} in it, and {_shape(expected.get(name))} in the model. Give as "
                f"{parameter('start')} the checkpoint that this model was fine-tuned from."
            )
        return model

    def train(
        self,
        seed: int,
        texts: Texts,
        *,
        objectives: Sequence[Any] = (),
        epochs: int | None = None,
        checkpoints: Path | None = None,
    ) -> tuple[PreTrainedModel, History]:
        """Train a fresh model on the texts for training, choosing the epoch by those for validation.

        Args:
            seed: of the weights, the order of the texts, and dropout.
            texts: labelled.
            objectives: of `attnfaith.training.objectives`, that change how the model is trained.
            epochs: the most epochs; by default as the settings say.
            checkpoints: a folder from which a killed training goes on.
        """
        model, arguments = self.fresh(seed), self.arguments
        if epochs is not None:
            arguments["epochs"] = min(epochs, arguments.get("epochs", epochs))
        if objectives:
            arguments["objectives"] = list(objectives)
        pairs = any("second_text" in row for row in texts["train"].for_training()[:1])
        history = fit(
            model,
            self.tokenizer,
            texts["train"].for_training(),
            texts["validation"].for_training(),
            text_column="text",
            label_column="label",
            second_text_column="second_text" if pairs else None,
            max_length=self.max_length,
            seed=seed,
            checkpoint_dir=checkpoints,
            **arguments,
        )
        return model, history


def _shape(shape: Sequence[int] | None) -> str:
    return "absent" if shape is None else " x ".join(map(str, shape))


def recorded_training(model: Any) -> dict[str, Any]:
    """The settings that ``attnfaith train`` stored beside a model; none for a model that was made otherwise.

    Args:
        model: a model, or its path.
    """
    if not isinstance(model, str | os.PathLike) or not Path(model).is_dir():
        return {}
    stored = read_training(Path(model))
    return {} if stored is None else dict(stored["training"])


def settings_of(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `fit`: those that were recorded, and in their place those that are given.

    Example:
        >>> settings_of({"learning_rate": 0.1, "epochs": 3, "start": "HANrnn", "seed": 7}, {"epochs": 5})
        {'learning_rate': 0.1, 'epochs': 5}
    """
    kept = {name: value for name, value in recorded.items() if name in _settings_known()}
    settings = kept | dict(given)
    if type(patience := settings.get("patience")) is int and patience == 0:
        settings["patience"] = None  # as for `attnfaith.training.train`: never stop early
    return settings


def _settings_known() -> list[str]:
    return [name for name in inspect.signature(fit).parameters if name not in _NOT_SETTINGS]


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that `fit` does not have, or does not take, before anything is trained."""
    known = _settings_known()
    for name, value in settings.items():
        one_of(name, known, "training")
        if name == "learning_rate":
            number(value, name, above=0)
        elif name in ("epochs", "batch_size") or (name == "patience" and value is not None):
            whole_number(value, name, least=1)


def describe(history: History) -> dict[str, Any]:
    """The course of a training as JSON."""
    return {
        "epochs": [dict(epoch) for epoch in history.epochs],
        "best_epoch": history.best_epoch,
        "stopped": history.stopped,
        "seconds": round(history.seconds, 3),
        "best": _best(history),
    }


def _best(history: History) -> str:
    """The epoch that was kept, in words."""
    accuracy = history.best.get("validation_accuracy", float("nan"))
    return f"validation accuracy {100 * accuracy:.1f} % in epoch {history.best_epoch} of {len(history.epochs)}"
