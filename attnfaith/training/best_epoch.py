"""Keeping the weights of the best epoch, and early stopping."""

from __future__ import annotations

import math
import sys
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn
from transformers import TrainerCallback

from attnfaith.errors import NumericalError


class BestEpoch(TrainerCallback):
    """A Trainer callback that keeps the weights of the epoch with the best validation accuracy (or lowest loss).

    The best weights are copied in memory: for small models, writing checkpoints would take longer than an epoch.

    Args:
        model: the model that is trained.
        patience: the number of epochs without improvement before training stops; None for no limit.
        epochs: the number of epochs planned.
        quiet: show no progress bar, not even on a terminal.

    Attributes:
        epochs: one record for each epoch, see `attnfaith.training.History`.
        best_epoch: the number of the best epoch, from 1.
        stopped: whether training was stopped early.
    """

    def __init__(self, model: nn.Module, *, patience: int | None, epochs: int, quiet: bool = True) -> None:
        self.model, self.patience, self.planned, self.quiet = model, patience, epochs, quiet
        self.epochs: list[dict[str, float]] = []
        self.best_epoch, self.stopped = 0, False
        self._best_score = -math.inf
        self._best_weights: dict[str, Tensor] = {}
        self._bar: Any = None
        self._stack = ExitStack()

    def __enter__(self) -> BestEpoch:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self._bar = self._stack.enter_context(Progress(console=Console(stderr=True), transient=True))
            self._bar.add_task("training", total=self.planned)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Record the training loss of an epoch."""
        if "loss" not in logs:  # the log of an evaluation, or of the end of training
            return
        if not math.isfinite(logs["loss"]):
            raise NumericalError(
                f"The loss became {logs['loss']} in epoch {len(self.epochs) + 1}. Lower learning_rate, or set "
                "max_grad_norm."
            )
        self.epochs.append({"epoch": len(self.epochs) + 1, "loss": float(logs["loss"])})
        self.best_epoch = self.best_epoch if self._best_weights else len(self.epochs)
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0])

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        """Record the validation loss and accuracy, copy the weights if they are the best so far, and stop early."""
        accuracy = float(metrics.get("eval_accuracy", math.nan))
        record = self.epochs[-1]
        record |= {"validation_loss": float(metrics["eval_loss"]), "validation_accuracy": accuracy}
        score = -record["validation_loss"] if math.isnan(accuracy) else accuracy
        if score > self._best_score:
            self._best_score, self.best_epoch = score, len(self.epochs)
            self._best_weights = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        elif self.patience is not None and len(self.epochs) - self.best_epoch >= self.patience:
            self.stopped = len(self.epochs) < self.planned
            control.should_training_stop = True

    def restore_best(self) -> None:
        """Load the weights of the best epoch into the model."""
        if self._best_weights and self.best_epoch < len(self.epochs):
            self.model.load_state_dict(self._best_weights)
