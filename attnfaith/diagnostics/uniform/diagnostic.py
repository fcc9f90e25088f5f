"""Uniform attention: the model trained with its final attention held uniform, against the model trained as it is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from torch import nn

from attnfaith.diagnostics.accuracy import by_kind, quantities
from attnfaith.diagnostics.base import Diagnostic, Figures, Tables, diagnostics, estimates
from attnfaith.diagnostics.retraining import describe
from attnfaith.diagnostics.session import Plan, Session
from attnfaith.estimates.lookup import percent, points, signed_points
from attnfaith.estimates.quantities import Number
from attnfaith.functional.statistics import sign_test
from attnfaith.training.objectives.fixed_attention import FixedAttention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNED, UNIFORM = "learned", "uniform"
LITTLE = 0.05
"""A difference in accuracy below which attention is said to have little to do."""


@diagnostics.register("uniform")
class Uniform(Diagnostic):
    """Whether a model with learned attention is better than the same model with uniform attention."""

    name: ClassVar[str] = "uniform"
    heading: ClassVar[str] = "Uniform attention"
    question: ClassVar[str] = "Does this task need attention at all?"
    reading: ClassVar[str] = (
        "The accuracy of the same architecture, trained from the same first weights with attention that it learns and "
        "with attention that is held uniform. Bars are intervals over texts, small marks single trainings. If the two "
        "agree, attention has nothing to do here, and the other diagnostics cannot show that it is an explanation."
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "Only the final attention is uniform. The other layers of a Transformer, and the words within a sentence of a "
        "HAN, keep theirs.",
        "Intervals are over texts, paired. How much trainings differ is shown by the marks: a difference smaller than "
        "their spread is not one between the two architectures.",
        "Uniform attention that does as well shows that attention is not needed, not that it is wrong where it is "
        "learned.",
    )
    reported: ClassVar[Mapping[str, str]] = {
        "accuracy": "accuracy",
        "accuracy_difference": "minus learned",
        "f1": "macro F1",
        "f1_difference": "minus learned (F1)",
    }
    percentages: ClassVar[tuple[str, ...]] = ("accuracy", "f1")
    differences: ClassVar[tuple[str, ...]] = ("accuracy_difference", "f1_difference")

    def plans(self, session: Session) -> list[Plan]:
        """A model with learned and one with uniform attention for each seed."""
        return [Plan(kind, seed) for seed in session.seeds for kind in (LEARNED, UNIFORM)]

    @classmethod
    def train(cls, session: Session, plan: Plan) -> tuple[Any, dict[str, Any]]:
        """Train with the final attention held uniform."""
        model, history = session.train(plan, [FixedAttention("uniform")])
        note = "held uniform: the stored weights of its attention were not trained"
        return model, {"attention": note} | describe(history)

    @classmethod
    def as_trained(cls, model: nn.Module) -> AbstractContextManager[Any]:
        """The final attention is uniform."""
        return FixedAttention("uniform").on(model)

    def measure(self, session: Session) -> dict[str, pd.DataFrame]:
        """A row for each text, kind and seed."""
        base = session.base("test").predictions
        tables = [
            session.measured(
                base_prediction=base,
                kind=plan.kind,
                seed=plan.seed,
                prediction=session.outputs(plan, "test").predictions,
            )
            for plan in self.plans(session)
        ]
        return {self.name: pd.concat(tables, ignore_index=True)}

    def summarise(self, tables: Tables, facts: Mapping[str, Any], options: Mapping[str, Any]) -> pd.DataFrame:
        """Accuracy and F1 of both kinds, their paired difference, and a sign test over texts."""
        gold, predictions = by_kind(tables[self.name])
        right = {kind: (chosen == gold[:, None]).mean(1) for kind, chosen in predictions.items()}
        wins, losses = (right[UNIFORM] > right[LEARNED]).sum(), (right[UNIFORM] < right[LEARNED]).sum()
        single = {kind: (chosen == gold[:, None]).mean(0) for kind, chosen in predictions.items()}
        apart = single[UNIFORM] - single[LEARNED]
        p = float(sign_test([wins], [losses])[0])
        return estimates(
            self.name,
            [
                *quantities(gold, predictions, facts["classes"], LEARNED),
                Number("sign_test_p", p, len(gold), "over texts, by the share of trainings that are right"),
                Number("smallest_difference", float(apart.min()), len(gold), "of one pair of trainings"),
                Number("largest_difference", float(apart.max()), len(gold), "of one pair of trainings"),
                Number("majority", float(np.bincount(gold.astype(int)).max() / len(gold)), len(gold)),
            ],
            len(gold),
            options,
        )

    def sentences(self, figures: Figures, facts: Mapping[str, Any]) -> list[str]:
        """Whether uniform attention is as good; then how trainings differ, and what was learned at all."""
        difference = figures.get("accuracy_difference", UNIFORM)
        learned, uniform = figures.get("accuracy", LEARNED), figures.get("accuracy", UNIFORM)
        if difference.high < 0:
            conclusion = f"uniform attention is worse by {points(difference)}: attention does something for this task"
        elif difference.low > 0:
            conclusion = f"uniform attention is better by {points(difference)}: learning attention does harm here"
        else:
            # a resampled interval has no width where no text differs: by the rule of three 3 / n of others may
            settled = max(-difference.low, difference.high, 3 / difference.texts) <= LITTLE
            conclusion = f"no clear difference ({signed_points(difference)}): " + (
                "this task gives attention little to do, and can hardly show whether it explains"
                if settled
                else "whether this task needs attention, more test texts would tell"
            )
        lines = [f"With learned attention the model reaches {learned} accuracy, with uniform {uniform}; {conclusion}."]
        low, high = figures.get("smallest_difference").value, figures.get("largest_difference").value
        p = figures.get("sign_test_p")
        lines.append(
            f"Between single pairs of trainings the difference goes from {100 * low:+.1f} to {100 * high:+.1f} points; "
            + (f"the sign test over texts gives p = {p.value:.2g}." if p.known else "both are right on the same texts.")
        )
        majority = figures.get("majority").value
        if learned.low <= majority:
            lines.append(
                f"The retrained model is not clearly better than always answering the most frequent class "
                f"({percent(majority)}): it has learned too little for any conclusion."
            )
        return lines

    def figure(self, tables: Tables, figures: Figures) -> Figure:
        """See `attnfaith.diagnostics.accuracy_plot.accuracies`."""
        from attnfaith.diagnostics.accuracy_plot import accuracies

        return accuracies(tables[self.name], figures, "Learned and uniform attention", "attention")
