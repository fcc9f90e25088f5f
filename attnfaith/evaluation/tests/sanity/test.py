"""Sanity: does a ranking change when the model is re-initialised? (Adebayo et al. 2018)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor, nn

from attnfaith import validation
from attnfaith.adapters.positions import select_texts
from attnfaith.adapters.self_check import tolerance_of
from attnfaith.attribution.method import YOURS
from attnfaith.attribution.model_loading import load_model
from attnfaith.errors import InputError
from attnfaith.estimates.lookup import SummaryLookup
from attnfaith.estimates.quantities import Quantities
from attnfaith.evaluation.batch import Batch
from attnfaith.evaluation.rankings import Ranking
from attnfaith.evaluation.removal import MARGIN
from attnfaith.evaluation.tests.base import Columns, Test, decision_cells, tests, to_cell
from attnfaith.evaluation.tests.sanity import summary as summaries
from attnfaith.evaluation.tests.sanity.models import (
    Answer,
    ComparedModel,
    assigned_model,
    randomised,
    retrained,
    score_with_models,
)
from attnfaith.functional.agreement import kendall, spearman
from attnfaith.functional.reinitialize import WAYS
from attnfaith.metrics.citations import ADEBAYO
from attnfaith.storage.fingerprint import fingerprint_model
from attnfaith.text.encoder import TextEncoder

COLUMNS: list[tuple[str, Any]] = [
    ("text_id", pa.int64()),
    ("ranking", pa.string()),
    ("ranking_level", pa.string()),
    ("layer", pa.string()),
    ("depth", pa.int64()),
    ("draw", pa.int64()),
    ("items", pa.int64()),
    ("spearman", pa.float64()),
    ("spearman_absolute", pa.float64()),
    ("tau", pa.float64()),
    ("reason", pa.string()),
    ("prediction", None),
    ("gold", None),
]


@tests.register("sanity")
@dataclass(frozen=True)
class Sanity(Test):
    """Compare the scores of each ranking with its scores after the model is re-initialised, layer by layer.

    Attributes:
        how: "permuted" (the values of each weight in another order) or "normal" (drawn with their mean and deviation).
        depths: how many numbers of layers are tried, evenly spaced; None for all: the top one, the top two ...
        draws: how often the weights are drawn; each text is asked of one of the draws in turn, so that what one draw
            happens to do is not taken for what all do. Each takes as much memory as the model.
        random_labels: the path of a model of the same architecture that was trained on labels in random order.
        random_labels_fingerprint: of that model; found by itself, and refused where the model is another one.
    """

    name: ClassVar[str] = "sanity"
    headline: ClassVar[Mapping[str, str]] = {"kept": "correlation with itself, all layers re-initialised"}
    metrics: ClassVar[tuple[str, ...]] = ("RandomisationAgreement",)
    citation: ClassVar[str] = ADEBAYO
    question: ClassVar[str] = "Does a ranking notice when the model's weights, or its labels, are random?"
    reading: ClassVar[Mapping[str, str]] = {
        "spearman": (
            "The rank correlation of each ranking with itself as layers are re-initialised, from the last one on. A "
            "ranking that depends on what the model has learned falls towards 0."
        ),
        "absolute": "The same for the size of the scores, without their sign.",
        "tau": "The same, measured by Kendall's tau.",
    }
    caveats: ClassVar[tuple[str, ...]] = (
        "To pass is a minimum: a ranking that notices random weights can still be wrong about the trained model.",
        (
            "A correlation that stays high can come from the text itself, such as its length or the position of the "
            "words."
        ),
    )
    reported: ClassVar[Mapping[str, str]] = {
        **headline,
        "notices": "correlation below a half",
    }
    percentages: ClassVar[frozenset[str]] = frozenset({"notices"})
    how: str = "permuted"
    depths: int | None = None
    draws: int = 3
    random_labels: str | None = None
    random_labels_fingerprint: str | None = None

    def __post_init__(self) -> None:
        if self.how not in WAYS:
            raise InputError(
                f"Expected how of the sanity test to be one of {', '.join(map(repr, WAYS))}; got {self.how!r}."
            )
        for number, option in ((self.depths, "depths"), (self.draws, "draws")):
            validation.positive_int(number, f"{option} of the sanity test")
        if self.draws is None:
            raise InputError("Expected draws of the sanity test to be a whole number of at least 1, got None.")
        if isinstance(self.random_labels, os.PathLike):
            object.__setattr__(self, "random_labels", os.fspath(self.random_labels))
        if self.random_labels is not None and not isinstance(self.random_labels, str):
            raise InputError(
                f"Expected random_labels to be the path of a model, got {type(self.random_labels).__name__}. Save the "
                "model and its tokenizer first."
            )

    @property
    def options(self) -> dict[str, Any]:
        """The options with the fingerprint of the other model, since another model makes another run."""
        given = super().options
        if self.random_labels is not None and self.random_labels_fingerprint is None:
            given["random_labels_fingerprint"] = fingerprint_model(load_model(self.random_labels, None)[0])
        return given

    def columns(self, outcome: pa.DataType) -> list[tuple[str, pa.DataType]]:
        """One row per text, ranking, and other model."""
        return [(name, kind or outcome) for name, kind in COLUMNS]

    def run(self, batch: Batch) -> Columns:
        """Compute every ranking again in every other model."""
        rankings = _asked_of_models(batch)
        items = {level: batch.erasable(level) for level in dict.fromkeys(element.level for element in rankings)}
        enough = [(mask.sum(1) >= 2).tolist() for mask in items.values()]
        texts = [text for text in range(len(batch.rows)) if any(line[text] for line in enough)]
        decided = decision_cells(batch.config.decision, batch.logits)
        rows: Columns = {name: [] for name, _ in COLUMNS}
        count = len(batch.rows)
        for others in self._others(batch) if texts else ():
            about: Columns = {
                "text_id": [row.number for row in batch.rows],
                "layer": [others[0].layer] * count,
                "depth": [others[0].depth] * count,
                "draw": [assigned_model(row.number, len(others)) for row in batch.rows],
                "prediction": decided,
                "gold": [to_cell(row.label) for row in batch.rows],
            }
            for ranking, answer in zip(rankings, score_with_models(batch, others, rankings), strict=True):
                named: Columns = {"ranking": [ranking.name] * count, "ranking_level": [ranking.level] * count}
                result = about | named | _compared(batch, ranking, answer, items[ranking.level])
                for name, values in rows.items():
                    values += [result[name][text] for text in texts]
        return rows

    def quantities(self, table: Callable[[str], pd.DataFrame]) -> Iterable[Quantities]:
        """See `attnfaith.evaluation.tests.sanity.summary.quantities`."""
        return [summaries.quantities(table(self.name))]

    @classmethod
    def sentences(cls, figures: SummaryLookup, facts: Mapping[str, Any]) -> Iterator[str]:
        """The sentences for the verdict."""
        return summaries.sentences(figures)

    def _others(self, batch: Batch) -> list[list[ComparedModel]]:
        """The lists of models, one model of each list for a text; built once for a run."""
        config = batch.config
        if self.name not in config.cache:
            trial = select_texts(batch.inputs, len(batch.rows), torch.tensor([0], device=batch.logits.device))
            settings: dict[str, Any] = {"how": self.how, "depths": self.depths, "draws": self.draws}
            result = randomised(config.cut, trial, seed=config.settings.seed, **settings)
            if self.random_labels is not None:
                result.append([retrained(config.cut, trial, self._loaded(batch), summaries.RANDOM_LABELS)])
            config.cache[self.name] = result
        others: list[list[ComparedModel]] = config.cache[self.name]
        return others

    def _loaded(self, batch: Batch) -> nn.Module:
        """Load the model trained on random labels; another one than before is refused."""
        model, tokenizer = load_model(self.random_labels, None)
        known = self.random_labels_fingerprint
        if known is not None and known != fingerprint_model(model):
            raise InputError(
                f"The model at {self.random_labels!r} is not the one with the fingerprint {known!r}. Leave out "
                "random_labels_fingerprint, or give the path of that model.",
                code="other-run",
            )
        row, ids = batch.rows[0], batch.encoded[0].ids
        entry = row.text if row.pair is None else (row.text, row.pair)
        if ids and tuple(TextEncoder(tokenizer, model, len(ids)).encode([entry])[0].ids) != tuple(ids):
            raise InputError(
                f"The model at {self.random_labels!r} has another tokenizer: it gives other tokens for the text of "
                f"row {row.number}. Train it with the tokenizer of the model that is evaluated, and save both.",
                code="wrong-tokenizer",
            )
        return model


def _asked_of_models(batch: Batch) -> list[Ranking]:
    """The rankings of all levels, each once; columns of scores cannot be computed for another model."""
    every = [ranking for listed in batch.config.rankings.values() for ranking in listed]
    return [ranking for ranking in dict.fromkeys(every) if ranking.level != YOURS]


def _compared(batch: Batch, ranking: Ranking, answer: Answer, mask: Tensor) -> dict[str, list[Any]]:
    """The correlations of one ranking for all texts, ``[B]`` each."""
    before = batch.scores(ranking, ranking.level).double()
    both = torch.stack((before, answer.values), dim=1)
    near = MARGIN * tolerance_of(batch.logits)
    result = kendall(both, mask, near=near)
    signed, absolute = (spearman(entry, mask, near=near)[:, 0, 1] for entry in (both, both.abs()))
    items, undefined = result.items[:, 0, 1].tolist(), signed.isnan().tolist()
    return {
        "items": items,
        "spearman": signed.tolist(),
        "spearman_absolute": absolute.tolist(),
        "tau": result.tau[:, 0, 1].tolist(),
        "reason": [
            (reason or ("fewer than two items have scores" if count < 2 else "all items have the same score"))
            if missing
            else None
            for reason, count, missing in zip(answer.reasons, items, undefined, strict=True)
        ],
    }
