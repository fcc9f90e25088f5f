"""A `Session` trains the models that the diagnostics need, keeps them, and gives their outputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from transformers import AutoModelForSequenceClassification

from attnfaith.adapters.cut import Cut, cut
from attnfaith.diagnostics.base import Diagnostic, diagnostics
from attnfaith.diagnostics.folder import OUTPUTS, DiagnosisFolder
from attnfaith.diagnostics.outputs import Outputs, outputs_of
from attnfaith.diagnostics.retraining import SMALL_EPOCHS, Retraining
from attnfaith.diagnostics.texts import Texts
from attnfaith.functional.decision import Decision
from attnfaith.progress import ProgressLog, duration
from attnfaith.text.encoder import TextEncoder
from attnfaith.training.fitting import History
from attnfaith.training.objectives.objective import Objective

BASE = "base"
"""The name of the diagnosed model."""


@dataclass(frozen=True)
class Plan:
    """One model to be trained.

    Attributes:
        kind: "learned" (its own attention), "uniform" (attention fixed to uniform) or "adversary".
        seed: of the training.
        weight: of an adversary, lambda.
    """

    kind: str
    seed: int
    weight: float | None = None

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.kind}-{self.seed}" if self.weight is None else f"{self.kind}-{exact(self.weight)}-{self.seed}"


def exact(weight: float) -> str:
    """A number as short as it can be written without becoming another one.

    Example:
        >>> exact(0.001), exact(0.12345678)
        ('0.001', '0.12345678')
    """
    short = f"{weight:g}"
    return short if float(short) == weight else repr(float(weight))


@dataclass(eq=False)
class Session:
    """What all diagnostics of one diagnosis share.

    Attributes:
        cut: the diagnosed model, cut at its final attention.
        encoder: of its texts.
        decision: how it decides.
        texts: for training, validation and test.
        folder: where everything is kept.
        retraining: how models like it are trained.
        tests: the diagnostics that are run.
        seeds: the seeds of the trainings.
        lambdas: the weights of the divergence in the objective of the adversary.
        max_distance: the largest mean total variation distance from the outputs of the diagnosed model that an
            adversary may have on the texts for validation.
        batch_size: texts in a batch when outputs are computed.
        small: whether it is a rehearsal on few texts.
        seed: of all other draws.
        quiet: show no progress.
    """

    cut: Cut
    encoder: TextEncoder
    decision: Decision
    texts: Texts
    folder: DiagnosisFolder
    retraining: Retraining
    tests: tuple[str, ...]
    seeds: tuple[int, ...]
    lambdas: tuple[float, ...]
    max_distance: float = 0.05
    batch_size: int = 32
    small: bool = False
    seed: int = 0
    quiet: bool = False
    _known: dict[tuple[str, str], Outputs] = field(default_factory=dict)

    def base(self, part: str) -> Outputs:
        """The outputs of the diagnosed model for one part of the texts."""
        return self._outputs(BASE, part, self._base)

    def outputs(self, plan: Plan, part: str) -> Outputs:
        """The outputs of a trained model, which is trained first if it is not there."""
        return self._outputs(plan.name, part, lambda: self.opened(plan))

    def measured(self, **columns: Any) -> pd.DataFrame:
        """A row for each test text: its number, its class, and what was measured of it."""
        part = self.texts["test"]
        return pd.DataFrame({"text_id": [row.number for row in part.rows], "gold": part.labels, **columns})

    def record(self, plan: Plan) -> dict[str, Any]:
        """The record of the training of a model."""
        return self.folder.record(plan.name)

    def prepare(self, plans: Iterable[Plan]) -> None:
        """Train the models that are not there yet, and say how long it takes."""
        missing = [plan for plan in dict.fromkeys(plans) if not self.folder.has_model(plan.name)]
        if not missing:
            return
        started = time.monotonic()
        with ProgressLog("training", quiet=self.quiet) as log:
            log.say(f"{len(missing)} models to train on {len(self.texts['train'].rows):,} texts each.")
            for number, plan in enumerate(missing):
                self._train(plan)
                done, spent = number + 1, time.monotonic() - started
                left = spent / done * (len(missing) - done)
                best = self.record(plan)["best"]
                log.say(
                    f"{plan.name}: {best} after {duration(self.record(plan)['seconds'])}; {done} of {len(missing)} "
                    f"models trained{f', about {duration(left)} left' if done < len(missing) else ''}."
                )
                log.show(done / len(missing), f"{done} of {len(missing)} models", left)

    def _train(self, plan: Plan) -> None:
        model, record = self._trainer(plan).train(self, plan)

        def save(folder: Any) -> None:
            model.save_pretrained(folder)
            self.retraining.tokenizer.save_pretrained(folder)

        self.folder.write_model(plan.name, save, {"kind": plan.kind, "seed": plan.seed, "weight": plan.weight} | record)

    def train(self, plan: Plan, objectives: Sequence[Objective] = ()) -> tuple[Any, History]:
        """Train a fresh model; a training that was killed goes on from its last checkpoint."""
        return self.retraining.train(
            plan.seed,
            self.texts,
            objectives=objectives,
            epochs=self.epochs,
            checkpoints=self.folder.checkpoints(plan.name),
        )

    @property
    def epochs(self) -> int | None:
        """The most epochs; None for as many as the settings say."""
        return SMALL_EPOCHS if self.small else None

    def _trainer(self, plan: Plan) -> type[Diagnostic]:
        """The diagnostic that knows how a model of this kind is trained and run; `Diagnostic` itself for most."""
        return diagnostics.get(plan.kind, Diagnostic)

    @contextmanager
    def _base(self) -> Iterator[Cut]:
        yield self.cut

    @contextmanager
    def opened(self, plan: Plan) -> Iterator[Cut]:
        """A trained model, cut, and run as it was trained."""
        self.prepare([plan])
        model = AutoModelForSequenceClassification.from_pretrained(
            self.folder.model(plan.name), trust_remote_code=False
        )
        model = model.to(next(self.cut.model.parameters()).device).eval()
        with self._trainer(plan).as_trained(model):
            yield cut(model)

    def _outputs(self, name: str, part: str, opened: Callable[[], AbstractContextManager[Cut]]) -> Outputs:
        """Outputs that are known, stored, or computed now and stored."""
        if (name, part) not in self._known:
            stored = f"{name}-{part}"
            if not self.folder.has_table(stored, OUTPUTS):
                with opened() as model:
                    encoder = TextEncoder(self.retraining.tokenizer, model.model, self.encoder.max_length)
                    encoded = self.texts[part].encoded
                    outputs = outputs_of(model, encoder, encoded, self.decision, batch_size=self.batch_size)
                self.folder.write_table(stored, outputs.table(), OUTPUTS)
            self._known[name, part] = Outputs.from_table(self.folder.read_table(stored, OUTPUTS))
        return self._known[name, part]
