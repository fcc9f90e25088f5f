"""The adversary: how different can attention be while the output stays as it is? (Jain & Wallace 2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from attnfaith import validation
from attnfaith.adapters.positions import select_texts
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.estimates.quantities import Quantities
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.removal import AttentionEraser
from attnfaith.evaluation.tests.adversarial import summary as summaries
from attnfaith.evaluation.tests.base import Columns, Test, decision_cells, tests, to_cell
from attnfaith.functional.attention_limits import divergence_range
from attnfaith.functional.counterfactual import EditableAttention, editable_attention, max_divergence, search_adversary
from attnfaith.functional.decision import Decision
from attnfaith.metrics.citations import JAIN_WALLACE
from attnfaith.parameter_names import parameter
from attnfaith.randomness import keyed_generator

COLUMNS: list[tuple[str, Any]] = [
    ("text_id", pa.int64()),
    ("items", pa.int64()),
    ("max_weight", pa.float64()),
    ("epsilon", pa.float64()),
    ("js", pa.float64()),
    ("tvd", pa.float64()),
    ("satisfied", pa.int64()),
    ("js_low", pa.float64()),
    ("js_high", pa.float64()),
    ("js_most", pa.float64()),
    ("prediction", None),
    ("gold", None),
]
TWO, MORE = 0.01, 0.05
"""How far the output may move: of two outcomes, and of more."""
_NUMBERS = 2**24  # weights of all candidates at once; a batch that would need more is taken in parts


@tests.register("adversarial")
@dataclass(frozen=True)
class Adversarial(Test):
    """Search for attention far from the original with the same output; exact where the maximum can be computed.

    Attributes:
        epsilon: how far the output may move (total variation distance); None for 0.01 where there are two outcomes,
            0.05 where there are more, and the tolerance of a regression.
        candidates: how many distributions are moved at once for each text.
        steps: of Adam.
        rate: of Adam.
        noise: the standard deviation of what is added to the original log-weights to begin with.
        penalty: what a step over epsilon costs.
        diversity: what the divergence between candidates counts for.
        near: the share of ln 2 (and of the largest divergence there is) from which on a divergence is near it.
    """

    name: ClassVar[str] = "adversarial"
    ranked: ClassVar[bool] = False
    headline: ClassVar[Mapping[str, str]] = {"js_mean": "divergence an adversary reaches (mean, nats)"}
    metrics: ClassVar[tuple[str, ...]] = ("AdversarialDivergence",)
    citation: ClassVar[str] = JAIN_WALLACE
    question: ClassVar[str] = "How different can attention be while the output stays as it is?"
    reading: ClassVar[Mapping[str, str]] = {
        "divergences": (
            "Each text is a dot, or part of a shape where there are many: to the right, how far its attention can be "
            "from the original while the output stays as it is. Rows are texts by their largest weight, black lines "
            "medians. Near ln 2 the weights can be entirely different."
        ),
    }
    caveats: ClassVar[tuple[str, ...]] = (
        (
            "The adversary changes the weights of one text at a time, without regard to whether a trained model could "
            "make such weights."
        ),
        (
            "The search finds lower bounds: weights that are further away may exist. Where the maximum can be "
            "computed, it stands beside them."
        ),
    )
    reported: ClassVar[Mapping[str, str]] = {
        **headline,
        "js_median": "divergence an adversary reaches (median, nats)",
        "near_ln2": "entirely different weights found",
        "unsatisfied": "no other weights found",
    }
    percentages: ClassVar[frozenset[str]] = frozenset({"near_ln2", "unsatisfied"})
    epsilon: float | None = None
    candidates: int = 5
    steps: int = 500
    rate: float = 0.01
    noise: float = 2.0
    penalty: float = 10.0
    diversity: float = 1.0
    near: float = 0.9

    def __post_init__(self) -> None:
        for option in ("candidates", "steps"):
            validation.whole_number(getattr(self, option), f"the adversarial test's {option}", least=1)
        for option in ("rate", "noise", "penalty"):
            validation.number(getattr(self, option), f"the adversarial test's {option}", above=0)
        validation.number(self.diversity, "the adversarial test's diversity", least=0)
        validation.share(self.near, "the adversarial test's near", one=True)
        if self.epsilon is not None:
            validation.number(self.epsilon, "the adversarial test's epsilon", above=0)

    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """One row per text."""
        return [(name, kind or outcome) for name, kind in COLUMNS]

    def run(self, batch: Batch) -> Columns:
        """Run all candidates of all texts at once, through the tail only."""
        rows: Columns = {name: [] for name, _ in COLUMNS}
        for part in self._parts(batch):
            result = self._searched(part)
            for text, count in enumerate(result["items"]):
                for name, values in rows.items() if count >= 2 else ():
                    values.append(result[name][text])
        return rows

    def epsilon_of(self, decision: Decision, outputs: int) -> float:
        """The default epsilon for a decision over a number of logits."""
        if self.epsilon is not None:
            return self.epsilon
        if decision.kind == "regression":
            if decision.tolerance is None:
                raise InputError(
                    "For a regression, the adversarial test needs the change of the predicted value that is still "
                    f"allowed. Give {parameter('tolerance')}, or the option epsilon of the test.",
                    code="ambiguous-decision",
                )
            return decision.tolerance
        return TWO if outputs == (2 if decision.kind == "multiclass" else 1) else MORE

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """The batch, or smaller batches if its candidates would take too much memory."""
        size = max(1, _NUMBERS // (self.candidates * batch.capture.weights[0].numel()))
        if size >= len(batch.rows):
            yield batch
            return
        for texts in torch.arange(len(batch.rows)).split(size):
            inputs = select_texts(batch.inputs, len(batch.rows), texts.to(batch.logits.device))
            indices = texts.tolist()
            rows, encoded = [batch.rows[text] for text in indices], [batch.encoded[text] for text in indices]
            yield Batch(batch.config, rows, encoded, inputs)

    def _searched(self, batch: Batch) -> Columns:
        capture, decision = batch.capture, batch.config.decision
        eraser, epsilon = AttentionEraser(batch), self.epsilon_of(decision, capture.logits.shape[-1])
        affine = batch.config.cut.adapter.affine(capture) if capture.shape[1] == 1 else None
        corners = None if affine is None else (affine.contributions.double().detach(), affine.bias.double().detach())
        exact = corners is not None or capture.weights.element_size() > 4
        freedom = editable_attention(
            capture.weights.double() if exact else capture.weights.float(),
            eraser.erasable,
            log_weights=capture.log_weights,
            groups=capture.groups,
        )
        result = search_adversary(
            freedom,
            _distance(batch, corners),
            self._start(batch, freedom, eraser.erasable),
            epsilon=epsilon,
            steps=self.steps,
            rate=self.rate,
            penalty=self.penalty,
            diversity=self.diversity,
        )
        js = result.js.tolist()
        low: list[float | None] = [None] * len(js)
        high = list(low)
        if corners is not None:
            known = _bounds(freedom, eraser.erasable, corners, decision, epsilon)
            high = [most for _, most in known]
            low = [min(max(least, entry), most) for entry, (least, most) in zip(js, known, strict=True)]
        return {
            "text_id": [row.number for row in batch.rows],
            "items": eraser.counts.tolist(),
            "max_weight": torch.where(eraser.erasable, batch.weights, 0.0).amax(1).tolist(),
            "epsilon": [epsilon] * len(js),
            "js": js,
            "tvd": result.distance.double().tolist(),
            "satisfied": result.satisfied.tolist(),
            "js_low": low,
            "js_high": high,
            "js_most": max_divergence(freedom).tolist(),
            "prediction": decision_cells(decision, batch.logits),
            "gold": [to_cell(row.label) for row in batch.rows],
        }

    def _start(self, batch: Batch, freedom: EditableAttention, free: Tensor) -> Tensor:
        """The initial perturbation of the log-weights, ``[B, K, G, N]``; it depends on the text alone."""
        _, groups, items = freedom.logs.shape
        start = torch.zeros(len(batch.rows), self.candidates, groups, items, dtype=torch.float64)
        there = torch.ones_like(freedom.scale, dtype=torch.bool)
        there = (there if batch.capture.groups is None else batch.capture.groups).cpu()
        for text, row in enumerate(batch.rows):
            generator = keyed_generator(batch.config.settings.seed, row.number, self.name)
            indices = there[text].unsqueeze(1) & free[text].cpu()
            drawn = torch.randn(self.candidates, int(indices.sum()), generator=generator, dtype=torch.float64)
            start[text, :, indices] = self.noise * drawn
        return start.to(freedom.logs)

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """See `attnfaith.evaluation.tests.adversarial.summary.quantities`."""
        return [summaries.quantities(table(self.name), self.near)]

    @classmethod
    def sentences(cls, figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
        """The sentences for the verdict."""
        yield from summaries.sentences(figures, facts)


def _distance(batch: Batch, corners: tuple[Tensor, Tensor] | None) -> Callable[[Tensor], Tensor]:
    """The change of the output ``[B, K]`` for weights ``[B, K, G, N]``; an affine tail needs no model."""
    cut, capture, decision = batch.config.cut, batch.capture, batch.config.decision
    before = capture.logits.unsqueeze(1)
    if corners is None:
        return lambda weights: decision.distance(before, cut.rerun(capture, weights=weights))
    contributions, bias = corners[0], corners[1].unsqueeze(1)
    exactly = capture.weights[:, :1].double() @ contributions + bias
    return lambda weights: decision.distance(exactly, weights[:, :, 0] @ contributions + bias)


def _bounds(
    freedom: EditableAttention, free: Tensor, corners: tuple[Tensor, Tensor], decision: Decision, epsilon: float
) -> list[tuple[float, float]]:
    """Lower and upper bounds of the largest divergence of each text, for an affine tail."""
    contributions, bias = corners
    fixed = torch.einsum("bn,bnc->bc", freedom.fixed[:, 0], contributions) + bias
    result = []
    for text, indices in enumerate(free & freedom.attended[:, 0]):
        if int(indices.sum()) < 2:
            result.append((0.0, 0.0))
            continue
        shares, part = freedom.logs[text, 0, indices].exp(), float(freedom.part[text, 0])
        alone = fixed[text] + freedom.scale[text, 0] * contributions[text, indices]
        reach = divergence_range(shares, alone, decision, epsilon)
        result.append((part * reach.low, part * reach.high))
    return result
