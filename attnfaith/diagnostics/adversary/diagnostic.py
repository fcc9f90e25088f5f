"""The adversarial model: the trade-off between equal outputs and different attention, and the adversary examined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from attnfaith.diagnostics.adversary.examination import EXAMINED, examine, sentences_of
from attnfaith.diagnostics.adversary.training import adversaries, choose, train_adversary, validated
from attnfaith.diagnostics.base import Diagnostic, Figures, Tables, diagnostics, estimates
from attnfaith.diagnostics.outputs import attention_distances, output_distances, uniform_like
from attnfaith.diagnostics.retraining import describe
from attnfaith.diagnostics.session import Plan, Session, exact
from attnfaith.estimates.lookup import SummaryValue, decimals
from attnfaith.estimates.pivot import Array, numbers
from attnfaith.estimates.quantities import Mean, Median, Number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNIFORM = "uniform"
VALIDATION = "adversary_validation"
"""The table of what each adversary does on the texts for validation, and which one was chosen."""


@diagnostics.register("adversary")
class Adversary(Diagnostic):
    """Whether another model has the same outputs with different attention."""

    name: ClassVar[str] = "adversary"
    heading: ClassVar[str] = "Adversarial model"
    question: ClassVar[str] = "Is there a model that decides alike with attention that is quite different?"
    reading: ClassVar[str] = (
        "Each point is a model: to the right, its attention differs more from that of the diagnosed model; upwards, "
        "its outputs do. The line joins the adversaries in the order of lambda; the filled point was chosen on the "
        "texts for validation. Triangles are other training seeds, whose objective ignores the diagnosed model; the "
        "dashed line is uniform attention. Low and far to the right: different attention costs nothing here. A line "
        "that rises steeply: no adversary here exchanged the attention without changing outputs."
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "An adversary is another model. That it exists shows that the outputs do not determine the attention, not that "
        "the attention of the diagnosed model is wrong about that model.",
        "That none was found does not show that none exists: other settings of the training might find one.",
        "The Kullback-Leibler divergence in the objective is unbounded, and large for items that the diagnosed model "
        "ignores; the Jensen-Shannon divergence in the figure is at most ln 2.",
    )
    reported: ClassVar[Mapping[str, str]] = {
        "tvd": "distance of outputs (mean)",
        "jsd": "divergence of attention (nats, mean)",
        "agreement": "same decision",
        "accuracy": "accuracy",
    }
    percentages: ClassVar[tuple[str, ...]] = ("agreement", "accuracy")

    def plans(self, session: Session) -> list[Plan]:
        """An adversary for each lambda."""
        return adversaries(session)

    @classmethod
    def train(cls, session: Session, plan: Plan) -> tuple[Any, dict[str, Any]]:
        """Train against the diagnosed model; the epoch with the lowest objective on validation texts is kept."""
        model, history = train_adversary(session, plan)
        best = history.best
        told = f"distance {best['twin_tvd']:.3f}, KL {best['twin_kl']:.2f} nats on validation"
        return model, describe(history) | {"best": told}

    def measure(self, session: Session) -> dict[str, pd.DataFrame]:
        """A row for each text and model on the test texts, what was chosen, and the chosen one examined."""
        base = session.base("test")
        results = validated(session)
        chosen, near = choose(results, session.max_distance)
        models = {_label(plan): session.outputs(plan, "test") for plan in self.plans(session)}
        if "seeds" in session.tests:
            models |= {f"seed {seed}": session.outputs(Plan("learned", seed), "test") for seed in session.seeds}
        models[UNIFORM] = uniform_like(base)
        tables = [
            session.measured(
                base_prediction=base.predictions,
                model=model,
                jsd=attention_distances(base, other),
                tvd=output_distances(base, other) if model != UNIFORM else np.nan,
                prediction=other.predictions,
            )
            for model, other in models.items()
        ]
        selection = pd.DataFrame(
            {
                "model": [_label(result.plan) for result in results],
                "lambda": [result.plan.weight for result in results],
                "tvd": [result.tvd for result in results],
                "jsd": [result.jsd for result in results],
                "chosen": [result.plan == chosen.plan for result in results],
                "near": near,
            }
        )
        examined = examine(session, chosen.plan)
        return {self.name: pd.concat(tables, ignore_index=True), VALIDATION: selection, EXAMINED: examined}

    def summarise(self, tables: Tables, facts: Mapping[str, Any], options: Mapping[str, Any]) -> pd.DataFrame:
        """Distances of outputs and divergences of attention of every model, and of the chosen adversary by median."""
        table, selection = tables[self.name], tables[VALIDATION]
        models = list(dict.fromkeys(table["model"]))
        parts = {model: table[table["model"] == model] for model in models}

        def columns(name: str) -> Array:
            return np.stack([numbers(parts[model][name]) for model in models], axis=1)

        gold, base = (numbers(parts[models[0]][name]) for name in ("gold", "base_prediction"))
        trained = [model for model in models if model != UNIFORM]
        chosen_row = selection[selection["chosen"]].iloc[0]
        chosen = models.index(chosen_row["model"])
        labels: dict[str, Any] = {"keys": [("", "")] * len(models), "others": models}
        of_trained: dict[str, Any] = {"keys": [("", "")] * len(trained), "others": trained}
        predictions = columns("prediction")[:, [models.index(model) for model in trained]]
        size = len(gold)
        note = f"chosen on the texts for validation: {chosen_row['model']}"
        return estimates(
            self.name,
            [
                Mean("tvd", columns("tvd"), **labels),
                Mean("jsd", columns("jsd"), **labels),
                Mean("agreement", (predictions == base[:, None]).astype(float), **of_trained),
                Mean("accuracy", (predictions == gold[:, None]).astype(float), **of_trained),
                Mean("base_accuracy", (base == gold).astype(float)),
                Mean("chosen_tvd", columns("tvd")[:, chosen], note=note),
                Mean("chosen_jsd", columns("jsd")[:, chosen], note=note),
                Median("chosen_jsd_median", columns("jsd")[:, chosen], note=note),
                Number("chosen_lambda", float(chosen_row["lambda"]), size, note),
                Number("chosen_is_near", float(chosen_row["near"]), size, note),
            ],
            size,
            options,
        )

    def sentences(self, figures: Figures, facts: Mapping[str, Any]) -> list[str]:
        """Whether an adversary exists, beside seeds and uniform attention; its accuracy; what other tests say of it."""
        tvd, jsd, weight = (figures.get(name) for name in ("chosen_tvd", "chosen_jsd", "chosen_lambda"))
        uniform = figures.get("jsd", UNIFORM)
        seeds = [figures.get("jsd", name) for name in figures.names("jsd") if name.startswith("seed ")]
        beside = f"uniform attention: {decimals(uniform)}"
        if seeds:
            beside = f"other seeds: {_range(seeds)}, {beside}"
        found = (
            f"The outputs of the adversary with {_of(weight)} are at a mean total variation distance of "
            f"{decimals(tvd)} from those of the model, its attention at a mean Jensen-Shannon divergence of "
            f"{decimals(jsd)} nats ({beside})"
        )
        if not figures.get("chosen_is_near").value:
            conclusion = "no adversary came near enough to the outputs, so none shows that attention could be otherwise"
        elif seeds and jsd.low > max(value.high for value in seeds):
            conclusion = "the same outputs go with attention that is more different than seeds make it"
        elif seeds:
            conclusion = "its attention is hardly more different than other seeds make it, so it shows little"
        elif jsd.low > uniform.high:
            conclusion = "the same outputs go with attention that is more different than uniform attention"
        else:
            conclusion = "run the diagnostic seeds too, to see how far attention moves by itself"
        return [
            f"{found}: {conclusion}.",
            f"The chosen adversary decides {figures.get('agreement', _of(weight))} of the texts as the model does, and "
            f"reaches {figures.get('accuracy', _of(weight))} accuracy (the model: {figures.get('base_accuracy')}).",
            *sentences_of(facts),
        ]

    def figure(self, tables: Tables, figures: Figures) -> Figure:
        """See `attnfaith.diagnostics.adversary.plot.trade_off`."""
        from attnfaith.diagnostics.adversary.plot import trade_off

        return trade_off(tables[VALIDATION], figures)


def _label(plan: Plan) -> str:
    assert plan.weight is not None
    return f"lambda {exact(plan.weight)}"


def _of(weight: SummaryValue) -> str:
    return f"lambda {exact(weight.value)}"


def _range(values: list[SummaryValue]) -> str:
    low, high = min(value.value for value in values), max(value.value for value in values)
    return f"{low:.2f} to {high:.2f}"
