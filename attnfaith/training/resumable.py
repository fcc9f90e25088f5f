"""A Trainer that can be killed at any moment: its checkpoints are whole or absent, and continue to the same weights."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Trainer, TrainerCallback
from transformers.utils import logging

from attnfaith.errors import AttnFaithError, NumericalError, StorageError
from attnfaith.storage.atomic_files import storing
from attnfaith.training.best_epoch import BestEpoch, advice

SECONDS = 30.0
"""The time between two checkpoints within an epoch."""
COST = 20.0
"""Between two checkpoints is at least this many times the time that the last one took to write."""
_NAME, _STATE = re.compile(r"checkpoint-([0-9]+)"), "attnfaith_state.json"


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint in a folder; None if there is none."""
    found = [entry for entry in folder.iterdir() if _NAME.fullmatch(entry.name)] if folder.is_dir() else []
    return max(found, key=lambda entry: int(entry.name.rpartition("-")[2]), default=None)


class ResumableTrainer(Trainer):
    """Transformers' Trainer with checkpoints that are renamed into place, and that hold all that the rest depends on.

    Beside Trainer's files, a checkpoint has the random state from which the order of the epoch's texts was drawn, the
    losses so far, and the state of early stopping; the weights of the best epoch are a file beside the checkpoints.

    Args:
        best: the callback that keeps the best epoch.
        options: the arguments of Trainer.
    """

    def __init__(self, *, best: BestEpoch, **options: Any) -> None:
        super().__init__(**options)
        self.best, self._folder = best, Path(str(self.args.output_dir))
        self._staging: Path | None = None
        self._inputs: dict[str, Any] | None = None  # of the last step
        self._resumed_random: dict[str, Any] | None = None
        self._saved, self._cost = time.monotonic(), 0.0
        self.add_callback(best)
        self.add_callback(_Timing(self))

    def training_step(self, *arguments: Any, **options: Any) -> Tensor:
        """A step of training; a loss that is no number ends the training before the weights are changed."""
        self._inputs = dict(arguments[1])
        loss = super().training_step(*arguments, **options)
        if not torch.isfinite(loss):
            raise NumericalError(
                f"The loss became {float(loss)} in epoch {len(self.best.epochs) + 1}, at step "
                f"{self.state.global_step + 1} of {self.state.max_steps}. {self.best.restore_good()} {advice()}"
            )
        self.best.add_loss(loss)
        return loss

    def train(self, *arguments: Any, **options: Any) -> Any:
        """Train, and refuse last weights that were not validated and whose loss is no number."""
        result = super().train(*arguments, **options)
        if not self.best.validated and self._inputs is not None:
            model: Any = self.model
            with torch.no_grad():
                loss: Any = self.compute_loss(model.eval(), self._prepare_inputs(self._inputs))
            if not torch.isfinite(loss):
                raise NumericalError(
                    f"The loss became {float(loss)} with the last step of the training. {self.best.restore_good()} "
                    f"{advice()}"
                )
        return result

    def resume(self) -> bool:
        """Train, from the last checkpoint if there is one; returns whether there was one."""
        checkpoint = last_checkpoint(self._folder)
        if checkpoint is None:
            self.train()
            return False
        with _readable(checkpoint):
            state = json.loads((checkpoint / _STATE).read_text(encoding="utf-8"))
            self.best.load_state(state["best"], self._folder)
            self._resumed_random = state["random_states"]
        if self.best.finished:  # killed between the last checkpoint and the end
            with _readable(checkpoint):
                self._load_from_checkpoint(str(checkpoint))
        else:
            self.train(resume_from_checkpoint=str(checkpoint))
        return True

    def begin_epoch(self) -> None:
        """Note the random state from which the order of the texts is drawn, or restore it in an epoch that goes on."""
        if self._resumed_random is not None:
            _set_random(self._resumed_random)
            self._resumed_random = None
        self._random = _random()

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint; the end of an epoch has its own."""
        passed = time.monotonic() - self._saved
        inside = self.state.global_step % max(1, self.state.max_steps // int(self.args.num_train_epochs)) != 0
        return inside and passed > max(SECONDS, COST * self._cost)

    def is_worthwhile(self) -> bool:
        """Whether a checkpoint at the end of an epoch costs little beside what it saves."""
        return self.best.finished or time.monotonic() - self._saved > COST * self._cost

    def _get_output_dir(self, *arguments: Any, **options: Any) -> str:
        return super()._get_output_dir(*arguments, **options) if self._staging is None else str(self._staging)

    def _save_checkpoint(self, *arguments: Any, **options: Any) -> None:
        start = time.monotonic()
        with storing(self._folder):
            self._staging = self._folder / ".unfinished"
            try:
                shutil.rmtree(self._staging, ignore_errors=True)
                with no_bars():
                    super()._save_checkpoint(*arguments, **options)
                (written,) = self._staging.glob("checkpoint-*")
                ended = self.state.global_step % max(1, self.state.max_steps // int(self.args.num_train_epochs)) == 0
                random_state = _random() if ended else self._random
                state = {"best": self.best.state(), "random_states": random_state}
                (written / _STATE).write_text(json.dumps(state), encoding="utf-8")
                self.best.save(self._folder)
                for file in written.iterdir():
                    _sync(file)
                target = self._folder / written.name
                shutil.rmtree(target, ignore_errors=True)
                os.replace(written, target)
            finally:
                shutil.rmtree(self._staging, ignore_errors=True)
                self._staging = None
            for entry in list(self._folder.iterdir()):
                if _NAME.fullmatch(entry.name) and entry != target:
                    shutil.rmtree(entry, ignore_errors=True)
            self.best.remove_others(self._folder)
        self._saved, self._cost = time.monotonic(), time.monotonic() - start

    def _load_from_checkpoint(self, resume_from_checkpoint: str, *arguments: Any, **options: Any) -> None:
        with _readable(Path(resume_from_checkpoint)):
            super()._load_from_checkpoint(resume_from_checkpoint, *arguments, **options)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with _readable(Path(checkpoint or ".")):
            super()._load_optimizer_and_scheduler(checkpoint)


class _Timing(TrainerCallback):
    """Asks for checkpoints on time, and tells the Trainer when an epoch begins."""

    def __init__(self, trainer: ResumableTrainer) -> None:
        self._trainer = trainer

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._trainer.begin_epoch()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.save_strategy != "no" and self._trainer.is_due():
            control.should_save = True

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.on_epoch_end(args, state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.save_strategy != "no":
            control.should_save = self._trainer.is_worthwhile()


@contextmanager
def _readable(checkpoint: Path) -> Iterator[None]:
    """Turn errors of reading a checkpoint into one that says what to do."""
    try:
        yield
    except (AttnFaithError, MemoryError):
        raise
    except Exception as error:  # a damaged file can raise anything in torch, safetensors or pickle
        raise StorageError(
            f"The checkpoint {str(checkpoint)!r} cannot be read: {type(error).__name__}: {error}. Remove the folder "
            f"{str(checkpoint.parent)!r} to train from the start.",
            code="damaged-run",
        ) from error


@contextmanager
def no_bars() -> Iterator[None]:
    """Switch off the bar that Transformers shows while it writes a model."""
    shown = logging.is_progress_bar_enabled()
    try:
        logging.disable_progress_bar()
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _random() -> dict[str, Any]:
    """The random states that the order of the texts and all draws of a training depend on."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 (Trainer seeds it)
    return {
        "python": random.getstate(),
        "numpy": (name, np.asarray(keys).tolist(), *rest),
        "torch": torch.get_rng_state().tolist(),
    }


def _set_random(state: Mapping[str, Any]) -> None:
    version, internal, gauss = state["python"]
    name, keys, *rest = state["numpy"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state((name, np.asarray(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
