"""Keeping the weights of the best epoch, early stopping, and the progress that a user sees."""

from __future__ import annotations

import math
import re
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from attnfaith.errors import NumericalError
from attnfaith.parameter_names import parameter
from attnfaith.progress import ProgressLog
from attnfaith.storage.atomic_files import put

_NAME = re.compile(r"best-[0-9]+\.safetensors")


class BestEpoch(TrainerCallback):
    """A Trainer callback that keeps the weights of the epoch with the best validation accuracy (or lowest loss).

    The best weights are copied in memory: for small models, writing checkpoints would take longer than an epoch.

    Args:
        model: the model that is trained.
        patience: the number of epochs without improvement before training stops; None for no limit.
        epochs: the number of epochs planned.
        quiet: show no progress.
        by_loss: the best epoch is that with the lowest validation loss, not that with the best accuracy.

    Attributes:
        epochs: one record for each epoch, see `attnfaith.training.History`.
        best_epoch: the number of the best epoch, from 1.
        stopped: whether training stopped early.
        finished: whether all epochs are done that will be.
        earlier_seconds: the time that was spent before the checkpoint from which the training continues.
    """

    def __init__(
        self, model: nn.Module, *, patience: int | None, epochs: int, quiet: bool = True, by_loss: bool = False
    ) -> None:
        self.model, self.patience, self.planned, self.by_loss = model, patience, epochs, by_loss
        self.earlier_seconds = 0.0
        self.epochs: list[dict[str, float]] = []
        self.best_epoch, self.stopped, self.finished = 0, False, False
        self._best_score = -math.inf
        self._loss, self._steps = torch.tensor(0.0), 0
        self._kept, self._kept_of, self._validated = _copy(model), "before training", False
        self._untried: tuple[dict[str, Tensor], str] | None = None  # what is kept, once a loss with it is a number
        self._log = ProgressLog("training", quiet=quiet)
        self._stack = ExitStack()
        self._first_step, self._start = -1, time.monotonic()

    def __enter__(self) -> BestEpoch:
        self._stack.enter_context(self._log)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add_loss(self, loss: Tensor) -> None:
        """Add the loss of a step, which is a number, to that of the epoch."""
        self.keep_untried()
        self._loss = self._loss.to(loss.device)
        self._loss += loss
        self._steps += 1

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Show how far the training is."""
        if self._first_step < 0:
            self._first_step, self._clock = state.global_step, time.monotonic()
            return
        left = state.max_steps - state.global_step
        pace = (time.monotonic() - self._clock) / (state.global_step - self._first_step)
        figures = "".join(
            f", {word} {self.epochs[-1][name]:.3f}"
            for name, word in (("loss", "loss"), ("validation_accuracy", "validation accuracy"))
            if self.epochs and name in self.epochs[-1]
        )
        most = "" if self.patience is None else "at most "
        count = f"epoch {min(len(self.epochs) + 1, self.planned)} of {most}{self.planned}{figures}"
        self._log.show(state.global_step / state.max_steps, count, pace * left)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the training loss of an epoch."""
        loss = self._loss.item() / max(1, self._steps)
        self._loss, self._steps = torch.tensor(0.0), 0
        self.epochs.append({"epoch": len(self.epochs) + 1, "loss": loss})
        if not control.should_evaluate:
            self.best_epoch = len(self.epochs)
            self._untried = _copy(self.model), f"of epoch {self.best_epoch}"
        self.finished = len(self.epochs) >= self.planned

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        """Record the validation loss and accuracy, copy the weights if they are the best so far, and stop early."""
        accuracy = float(metrics.get("eval_accuracy", math.nan))
        record = self.epochs[-1]
        record |= {"validation_loss": float(metrics["eval_loss"]), "validation_accuracy": accuracy}
        known = ("eval_loss", "eval_accuracy", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second")
        record |= {
            name.removeprefix("eval_"): float(value)
            for name, value in metrics.items()
            if name.startswith("eval_") and name not in known and not name.startswith("eval_model_preparation")
        }
        if not self.by_loss and not math.isfinite(record["validation_loss"]):
            raise NumericalError(
                f"The validation loss became {record['validation_loss']} after epoch {len(self.epochs)}. "
                f"{self.restore_good()} {advice()}"
            )
        score = -record["validation_loss"] if self.by_loss or math.isnan(accuracy) else accuracy
        if not self.best_epoch or score > self._best_score or math.isnan(self._best_score):
            self._best_score, self.best_epoch = score, len(self.epochs)
            self._kept, self._kept_of, self._validated = _copy(self.model), f"of epoch {self.best_epoch}", True
        elif self.patience is not None and len(self.epochs) - self.best_epoch >= self.patience:
            self.stopped = len(self.epochs) < self.planned
            self.finished = True
            control.should_training_stop = True

    def restore_best(self) -> None:
        """Load the weights of the best epoch into the model."""
        if self._validated and self.best_epoch < len(self.epochs):
            self.model.load_state_dict(self._kept)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the weights of the checkpoint from which the training continues."""
        if state.global_step and not self._validated:
            of_epoch = self.epochs and not self._steps
            name = f"of epoch {len(self.epochs)}" if of_epoch else f"after step {state.global_step}"
            self._untried = _copy(self.model), name

    @property
    def validated(self) -> bool:
        """Whether the weights of the best epoch are kept, because it was validated."""
        return self._validated

    def keep_untried(self) -> None:
        """Keep the weights of the last epoch without validation: the loss with them is a number."""
        if self._untried is not None:
            (self._kept, self._kept_of), self._untried = self._untried, None

    def restore_good(self) -> str:
        """Load the last weights that are known to be good; returns a sentence that says which."""
        self.model.load_state_dict(self._kept)
        return f"The model has the weights {self._kept_of} again."

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of this object, beside the weights."""
        return {
            "epochs": self.epochs,
            "best_epoch": self.best_epoch,
            "best_score": self._best_score,
            "stopped": self.stopped,
            "finished": self.finished,
            "validated": self._validated,
            "loss": self._loss.item(),
            "steps": self._steps,
            "seconds": self.earlier_seconds + time.monotonic() - self._start,
        }

    def load_state(self, state: dict[str, Any], folder: Path) -> None:
        """Continue from a checkpoint."""
        self.epochs, self.best_epoch, self._best_score = state["epochs"], state["best_epoch"], state["best_score"]
        self.stopped, self.finished, self._validated = state["stopped"], state["finished"], state["validated"]
        self._loss, self._steps, self.earlier_seconds = torch.tensor(state["loss"]), state["steps"], state["seconds"]
        if self._validated:
            self._kept = safetensors.torch.load_file(self._file(folder))
            self._kept_of = f"of epoch {self.best_epoch}"

    def save(self, folder: Path) -> None:
        """Write the weights of the best epoch, unless they are there."""
        if self._validated and not self._file(folder).exists():
            put(self._file(folder), safetensors.torch.save(self._kept))

    def remove_others(self, folder: Path) -> None:
        """Remove the weights of epochs that are no longer the best."""
        for entry in list(folder.iterdir()):
            if _NAME.fullmatch(entry.name) and entry != self._file(folder):
                entry.unlink(missing_ok=True)

    def _file(self, folder: Path) -> Path:
        return folder / f"best-{self.best_epoch}.safetensors"


def advice() -> str:
    """What to do about a loss that is no number."""
    return f"Try a lower {parameter('learning_rate')}, or set {parameter('max_grad_norm')} (to 1, say)."


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
