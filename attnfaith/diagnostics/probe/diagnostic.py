"""The frozen-weights probe: attention imposed on a classifier that reads each word without its context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnfaith.diagnostics.accuracy import by_kind, quantities
from attnfaith.diagnostics.base import Diagnostic, Figures, Tables, diagnostics, estimates
from attnfaith.diagnostics.folder import OUTPUTS
from attnfaith.diagnostics.outputs import Outputs, uniform_like
from attnfaith.diagnostics.probe.mlp import Guided, predict, train_probe
from attnfaith.diagnostics.session import Plan, Session
from attnfaith.diagnostics.texts import PARTS
from attnfaith.errors import UnsupportedModelError
from attnfaith.estimates.lookup import percent, points, signed_points

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNIFORM, LEARNED, MODEL, ADVERSARY = "uniform", "its own", "the model's", "the adversary's"
"""The guides: whose weights are imposed."""


@diagnostics.register("probe")
class Probe(Diagnostic):
    """What the attention of a model is worth to a classifier without context."""

    name: ClassVar[str] = "probe"
    heading: ClassVar[str] = "Frozen-weights probe"
    question: ClassVar[str] = "Does the attention of the model help a classifier that reads words without context?"
    reading: ClassVar[str] = (
        "The accuracy of a multilayer perceptron that reads each word without context, and averages the words by "
        "imposed weights: uniform, its own (learned with it), those of the diagnosed model, and those of its adversary "
        "where there is one. Bars are intervals over texts, small marks single trainings. If the weights of the model "
        "do better than uniform ones, they mark words that matter by themselves, not only to this model."
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "A probe that does as well with uniform weights may do so because the task needs no weights at all.",
        "Attention of a model with context can rest on words whose neighbours decide, or on special tokens: what is "
        "available in the model is not available to a classifier without context.",
        "Intervals are over texts; the marks show how much trainings differ.",
    )
    reported: ClassVar[Mapping[str, str]] = {
        "accuracy": "accuracy",
        "accuracy_difference": "minus uniform",
        "f1": "macro F1",
        "f1_difference": "minus uniform (F1)",
    }
    percentages: ClassVar[tuple[str, ...]] = ("accuracy", "f1")
    differences: ClassVar[tuple[str, ...]] = ("accuracy_difference", "f1_difference")

    def plans(self, session: Session) -> list[Plan]:
        """None of its own: the probe is trained when it is measured."""
        return []

    def measure(self, session: Session) -> dict[str, pd.DataFrame]:
        """A row for each text, guide and seed."""
        guides = guides_of(session)
        vocabulary = sorted({number for part in PARTS for text in session.texts[part].encoded for number in text.ids})
        tables = []
        for guide, (origin, outputs) in guides.items():
            for seed in session.seeds:
                name = f"probe-{origin}-{seed}"
                chosen = _predictions(session, name, outputs, seed, vocabulary, learned=guide == LEARNED)
                tables.append(session.measured(kind=guide, seed=seed, prediction=chosen))
        return {self.name: pd.concat(tables, ignore_index=True)}

    def summarise(self, tables: Tables, facts: Mapping[str, Any], options: Mapping[str, Any]) -> pd.DataFrame:
        """Accuracy and F1 with each guide, and their differences from uniform weights."""
        gold, predictions = by_kind(tables[self.name])
        return estimates(self.name, quantities(gold, predictions, facts["classes"], UNIFORM), len(gold), options)

    def sentences(self, figures: Figures, facts: Mapping[str, Any]) -> list[str]:
        """What the model's weights are worth beside uniform ones; then the other guides."""
        gain = figures.get("accuracy_difference", MODEL)
        if gain.low > 0:
            conclusion = f"better than uniform weights by {points(gain)}: it marks words that matter by themselves"
        elif gain.high < 0:
            conclusion = f"worse than uniform weights by {points(gain)}: it marks words that say little without context"
        else:
            conclusion = f"not clearly different from uniform weights ({signed_points(gain)})"
        lines = [
            f"Imposed on a classifier without context, the attention of the model gives "
            f"{figures.get('accuracy', MODEL)} accuracy, {conclusion}."
        ]
        others = [name for name in figures.names("accuracy") if name != MODEL]
        values = ", ".join(f"{percent(figures.get('accuracy', name).value)} with {name}" for name in others)
        lines.append(f"The same classifier reaches {values} weights.")
        return lines

    def figure(self, tables: Tables, figures: Figures) -> Figure:
        """See `attnfaith.diagnostics.accuracy_plot.accuracies`."""
        from attnfaith.diagnostics.accuracy_plot import accuracies

        return accuracies(tables[self.name], figures, "Probe without context", "imposed weights")


def guides_of(session: Session) -> dict[str, tuple[str, dict[str, Outputs]]]:
    """By guide, a name of where its weights come from, and by part the outputs whose weights are imposed.

    The adversary that is chosen depends on the lambdas and the largest distance, so it is named itself.
    """
    from attnfaith.diagnostics.adversary.training import chosen_adversary

    base = {part: session.base(part) for part in PARTS}
    if any(outputs.tokens is None for outputs in base.values()):
        raise UnsupportedModelError(
            "The items of this model's attention do not correspond to tokens, so they cannot be imposed on a "
            "classifier of words. Use the other diagnostics: --tests uniform,seeds,adversary.",
            code="unsupported-ranking",
        )
    even = {part: uniform_like(outputs) for part, outputs in base.items()}
    guides = {UNIFORM: ("uniform", even), LEARNED: ("its-own", even), MODEL: ("the-models", base)}
    if session.lambdas and "adversary" in session.tests:
        plan = chosen_adversary(session)
        guides[ADVERSARY] = (plan.name, {part: session.outputs(plan, part) for part in PARTS})
    return guides


def _predictions(
    session: Session, name: str, outputs: Mapping[str, Outputs], seed: int, vocabulary: list[int], *, learned: bool
) -> NDArray[np.int64]:
    """The test predictions of a probe, which is trained unless they are stored."""
    if not session.folder.has_table(name, OUTPUTS):
        texts = {part: _guided(session, part, outputs[part], vocabulary) for part in PARTS}
        probe = train_probe(
            _embeddings(session, seed, vocabulary),
            texts["train"],
            texts["validation"],
            session.texts.classes,
            learned=learned,
            seed=seed,
            epochs=session.epochs,
        )
        chosen = predict(probe, texts["test"]).argmax(1)
        session.folder.write_table(name, pa.table({"prediction": pa.array(chosen, pa.int64())}), OUTPUTS)
    stored: NDArray[np.int64] = session.folder.read_table(name, OUTPUTS)["prediction"].to_numpy()
    return stored


def _guided(session: Session, part: str, outputs: Outputs, vocabulary: list[int]) -> Guided:
    assert outputs.tokens is not None
    words = [np.searchsorted(vocabulary, text.ids) for text in session.texts[part].encoded]
    return Guided(words, outputs.tokens, np.array(session.texts[part].labels))


def _embeddings(session: Session, seed: int, vocabulary: list[int]) -> Tensor:
    """The vectors of the words that occur, as a training of the model begins with them."""
    fresh: Any = session.retraining.fresh(seed)
    table: Tensor = fresh.get_input_embeddings().weight.detach().cpu()
    return table[torch.tensor(vocabulary)]
