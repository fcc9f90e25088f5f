"""Seed variance: the divergence of attention between the diagnosed model and models from other training seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from attnfaith.diagnostics.base import Diagnostic, Figures, Tables, diagnostics, estimates
from attnfaith.diagnostics.outputs import attention_distances, largest_weights, output_distances, uniform_like
from attnfaith.diagnostics.session import Plan, Session
from attnfaith.estimates.lookup import SummaryValue, decimals, percent
from attnfaith.estimates.pivot import Array, numbers
from attnfaith.estimates.quantities import Mean, Median, Number
from attnfaith.estimates.weight_bins import by_bin, in_bins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST_SEEDS = 2
NEARLY_UNIFORM = 0.01
"""A median divergence from uniform attention, in nats, below which there is no pattern to speak of."""
SMALL = 0.25
"""The share of the divergence from uniform attention below which the divergence between seeds is called small."""


@diagnostics.register("seeds")
class Seeds(Diagnostic):
    """How far attention moves when nothing but the training seed changes."""

    name: ClassVar[str] = "seeds"
    heading: ClassVar[str] = "Seed variance"
    question: ClassVar[str] = "Does attention stay where it is when the model is trained again with another seed?"
    reading: ClassVar[str] = (
        "Each strip has the texts whose largest attention weight in the diagnosed model lies in its range. Above its "
        "line, in blue: the divergence of that attention from the attention of models with other seeds, the median "
        "over seeds. Below, in orange: its divergence from uniform attention, for scale. Black lines are medians. "
        "The further left the blue, the less attention depends on the seed."
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "Models are retrained with the settings that the diagnosis was given. If the diagnosed model was trained in "
        "another way, part of the divergence is due to that: compare the accuracies.",
        "Attention that is stable under seeds can still be wrong about what decides, and attention that is not can be "
        "right each time about a model that decides differently.",
        "Intervals are over texts. The number of seeds limits what is known about other seeds.",
    )
    reported: ClassVar[Mapping[str, str]] = {
        "jsd": "divergence of attention (nats)",
        "tvd": "distance of outputs",
        "agreement": "same decision",
        "accuracy": "accuracy",
    }
    percentages: ClassVar[tuple[str, ...]] = ("agreement", "accuracy")

    def plans(self, session: Session) -> list[Plan]:
        """A model with its own attention for each seed."""
        return [Plan("learned", seed) for seed in session.seeds]

    def measure(self, session: Session) -> dict[str, pd.DataFrame]:
        """A row for each text and seed."""
        base = session.base("test")
        fixed = {
            "max_weight": largest_weights(base),
            "uniform_jsd": attention_distances(base, uniform_like(base)),
            "base_prediction": base.predictions,
        }
        tables = []
        for plan in self.plans(session):
            other = session.outputs(plan, "test")
            tables.append(
                session.measured(
                    **fixed,
                    seed=plan.seed,
                    jsd=attention_distances(base, other),
                    tvd=output_distances(base, other),
                    prediction=other.predictions,
                )
            )
        return {self.name: pd.concat(tables, ignore_index=True)}

    def summarise(self, tables: Tables, facts: Mapping[str, Any], options: Mapping[str, Any]) -> pd.DataFrame:
        """Medians of the divergence, over all seeds, for each seed, and by the largest weight."""
        wide = by_seed(tables[self.name])
        jsd, seeds = wide["jsd"], [f"seed {seed}" for seed in wide["seeds"]]
        typical = np.median(jsd, axis=1)
        labels: dict[str, Any] = {"keys": [("", "")] * (1 + len(seeds)), "others": ["", *seeds]}

        def overall(values: Array) -> Array:
            return np.hstack((values.mean(1)[:, None], values))

        medians = np.median(jsd, axis=0)
        return estimates(
            self.name,
            [
                Median("jsd", np.hstack((typical[:, None], jsd)), **labels),
                Median("jsd_by_weight", in_bins(typical, wide["max_weight"]), **by_bin()),
                Median("jsd_uniform", wide["uniform_jsd"]),
                Number("jsd_between_seeds_low", float(medians.min()), len(jsd), "the smallest median of a seed"),
                Number("jsd_between_seeds_high", float(medians.max()), len(jsd), "the largest median of a seed"),
                Number("jsd_p90", float(np.quantile(typical, 0.9)), len(jsd), "a tenth of the texts lie above"),
                Mean("tvd", overall(wide["tvd"]), **labels),
                Mean("agreement", overall(wide["same"]), **labels),
                Mean("accuracy", overall(wide["right"]), **labels),
                Mean("base_accuracy", wide["base_right"]),
            ],
            len(jsd),
            options,
        )

    def sentences(self, figures: Figures, facts: Mapping[str, Any]) -> list[str]:
        """How far attention moves, beside uniform attention; then what the outputs do."""
        jsd, uniform = figures.get("jsd"), figures.get("jsd_uniform")
        low, high = figures.get("jsd_between_seeds_low").value, figures.get("jsd_between_seeds_high").value
        seeds = len(figures.names("jsd"))
        lines = [
            f"Over {seeds} training seeds the attention of a text changes by a median Jensen-Shannon divergence of "
            f"{decimals(jsd)} nats (medians of single seeds: {low:.2f} to {high:.2f}; uniform attention: "
            f"{decimals(uniform)}): {_conclusion(jsd, uniform)}.",
            f"Their outputs are {decimals(figures.get('tvd'))} apart in total variation distance, and they decide "
            f"{figures.get('agreement')} of the texts as the diagnosed model does.",
        ]
        base, again = figures.get("base_accuracy"), figures.get("accuracy")
        if again.clear_of(base):
            lines.append(
                f"The retrained models reach {percent(again.value)} accuracy and the diagnosed one "
                f"{percent(base.value)}: they were not trained alike, or the diagnosed one has read these texts in "
                "training. The divergence contains that difference."
            )
        return lines

    def figure(self, tables: Tables, figures: Figures) -> Figure:
        """See `attnfaith.diagnostics.seeds.plot.seed_divergences`."""
        from attnfaith.diagnostics.seeds.plot import seed_divergences

        return seed_divergences(tables[self.name])


def _conclusion(jsd: SummaryValue, uniform: SummaryValue) -> str:
    if not jsd.known or not uniform.known or uniform.value <= 0:
        return "no conclusion"
    if uniform.value < NEARLY_UNIFORM:
        return "the diagnosed model spreads its attention nearly uniformly, so there is no pattern to compare"
    if jsd.high < SMALL * uniform.low:
        return "attention hardly depends on the seed"
    if jsd.low > uniform.high:
        return "the seed changes attention more than making it uniform would, so the task does not determine it"
    if jsd.high >= uniform.low:
        return "the seed changes attention about as much as making it uniform would, as far as these texts can tell"
    return "attention depends on the seed, but differs less between seeds than from uniform"


def by_seed(table: pd.DataFrame) -> dict[str, Any]:
    """The table as arrays: "jsd", "tvd", "same" and "right" ``[n, S]``, others ``[n]``, and the list of "seeds".

    Example:
        >>> fixed = {"text_id": 7, "gold": 1, "max_weight": 0.5, "uniform_jsd": 0.1, "base_prediction": 1, "tvd": 0.0}
        >>> rows = [{**fixed, "seed": seed, "jsd": 0.1 * seed, "prediction": seed} for seed in (0, 1)]
        >>> by_seed(pd.DataFrame(rows))["right"].tolist()
        [[0.0, 1.0]]
    """
    seeds = list(dict.fromkeys(table["seed"]))
    parts = [table[table["seed"] == seed] for seed in seeds]
    first = parts[0]

    def columns(name: str) -> Array:
        return np.stack([numbers(part[name]) for part in parts], axis=1)

    base, gold = numbers(first["base_prediction"]), numbers(first["gold"])
    return {
        "seeds": seeds,
        "jsd": columns("jsd"),
        "tvd": columns("tvd"),
        "same": (columns("prediction") == base[:, None]).astype(float),
        "right": (columns("prediction") == gold[:, None]).astype(float),
        "max_weight": numbers(first["max_weight"]),
        "uniform_jsd": numbers(first["uniform_jsd"]),
        "base_right": (base == gold).astype(float),
    }
